"""What PyTorch's own tests found (`tools/pytorch_tests`), where nothing else covers it."""

from __future__ import annotations

import gc
import itertools
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw


def test_bytes_are_a_mask() -> None:
    x, mask = [3.0, 4.0, 5.0], [1, 0, 1]
    with pytest.warns(UserWarning, match="taken as a mask"):
        ours = gw.tensor(x)[gw.tensor(mask, dtype=gw.uint8)]
    with pytest.warns(UserWarning):
        theirs = torch.tensor(x)[torch.tensor(mask, dtype=torch.uint8)]
    assert ours.tolist() == theirs.tolist() == [3.0, 5.0]
    changed = gw.tensor(x)
    with pytest.warns(UserWarning, match="taken as a mask"):
        changed[gw.tensor(mask, dtype=gw.uint8)] = 0.0
    assert changed.tolist() == [0.0, 4.0, 0.0]


def test_an_index_along_a_dimension_holds_integers() -> None:
    x = gw.ones(2, 2)
    for index in (gw.zeros(2, 2), gw.zeros(2, 2, dtype=gw.bool)):
        with pytest.raises(IndexError, match="integers"):
            gw.gather(x, 0, index)
    with pytest.raises(TypeError, match="mask of bool"):
        gw.masked_select(x, gw.zeros(2, 2, dtype=gw.int64))


def test_pieces_of_nothing() -> None:
    shapes = [tuple(piece.shape) for piece in gw.zeros(0, 2).chunk(3)]
    assert shapes == [tuple(piece.shape) for piece in torch.zeros(0, 2).chunk(3)]


def test_each_nan_is_unique() -> None:
    x = [math.nan, 1.0, math.nan]
    assert len(gw.unique(gw.tensor(x), dim=0)) == len(torch.unique(torch.tensor(x), dim=0)) == 3


def test_reversed_is_a_tensor() -> None:
    x = gw.arange(6).reshape(3, 2)
    assert reversed(x).tolist() == reversed(torch.arange(6).reshape(3, 2)).tolist()


@pytest.mark.filterwarnings("ignore:torch.asarray")
@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("asked", [{}, {"requires_grad": False}, {"requires_grad": True}])
@pytest.mark.parametrize("kind", ["plain", "leaf", "node"])
def test_history_of_asarray(kind: str, asked: dict[str, bool], copy: bool | None) -> None:
    """Since 2.13 a tensor keeps its history unless `requires_grad` says otherwise."""
    found = []
    for m in (gw, torch):
        for dtype in (None, m.float64, m.int64):
            x = m.ones(2, requires_grad=kind != "plain") * (1 if kind == "plain" else m.ones(2))
            x = x if kind == "node" else x.detach().requires_grad_(kind == "leaf")
            try:
                y = m.asarray(x, dtype=dtype, copy=copy, **asked)
            except (RuntimeError, ValueError) as error:
                found.append(type(error))
            else:
                found.append((y is x, y.requires_grad, y.is_leaf, x.requires_grad))
    assert found[:3] == found[3:]


def test_arguments_that_mean_nothing_are_refused() -> None:
    x = gw.ones(3, requires_grad=True)
    with pytest.raises(ValueError, match="at least one input"):
        gw.autograd.grad(x.sum(), [])
    with pytest.raises(ValueError, match="materialize_grads"):
        gw.autograd.grad(x.sum(), x, allow_unused=False, materialize_grads=True)
    with pytest.raises(TypeError, match="flip needs"):
        gw.ones(3).flip()
    with pytest.raises(ValueError, match="minlength"):
        gw.bincount(gw.tensor([1]), minlength=-1)
    with pytest.raises(ValueError, match="clip needs"):
        gw.ones(3).clamp_()


def _both(call: Callable[[Any], Any]) -> tuple[Any, Any]:
    return call(gw).tolist(), call(torch).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_infinities_become_the_largest_number_of_the_dtype(dtype: str) -> None:
    x = [math.inf, -math.inf, math.nan, 2.0]
    ours, theirs = _both(lambda m: m.nan_to_num(m.tensor(x, dtype=getattr(m, dtype))))
    assert ours == theirs


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8"])
def test_division_that_truncates(dtype: str) -> None:
    low = 0 if dtype == "uint8" else torch.iinfo(getattr(torch, dtype)).min
    x, y = [low, low, 7, 100, 6], [2, 3, 2, 7, 3]
    signs = [1] if dtype == "uint8" else [1, -1]
    for sign in signs:
        ours, theirs = _both(
            lambda m, sign=sign: m.div(
                m.tensor(x, dtype=getattr(m, dtype)),
                m.tensor([sign * each for each in y], dtype=getattr(m, dtype)),
                rounding_mode="trunc",
            )
        )
        assert ours == theirs


def test_histogram_of_an_empty_range_is_of_the_elements() -> None:
    ours, theirs = _both(lambda m: m.histc(m.tensor([1.0, 2.0, 1.0]), bins=4, min=5, max=5))
    assert ours == theirs


def test_layer_norm_of_halves_beside_float32_parameters() -> None:
    x = gw.ones(2, 3, dtype=gw.float16)
    assert gw.nn.functional.layer_norm(x, (3,), gw.ones(3), gw.zeros(3)).dtype == gw.float16


def test_memory_formats_are_hints() -> None:
    x = gw.arange(24.0).reshape(1, 2, 3, 4)
    assert x.clone(memory_format=gw.preserve_format).equal(x)
    assert x.contiguous(memory_format=gw.channels_last).equal(x)
    assert x.to(memory_format=gw.channels_last).equal(x)
    assert x.is_contiguous(memory_format=gw.contiguous_format)


def test_out_may_be_none() -> None:
    assert gw.sum(gw.ones(2, 2), 0, out=None).tolist() == [2.0, 2.0]
    small = gw.zeros(1, dtype=gw.uint8)
    assert gw.add(gw.tensor([3]), gw.tensor([4]), out=small).tolist() == [7]


def test_promotion_of_two_operands() -> None:
    for first, second in ((1, 2.0), (True, 1), (1.0, 1j)):
        ours = gw.result_type(gw.tensor([first]), second)
        assert str(torch.result_type(torch.tensor([first]), second)) == f"torch.{ours}"
    for m in (gw, torch):
        assert m.can_cast(m.float64, m.float32)
        assert not m.can_cast(m.float32, m.int64)


def test_cells_without_units() -> None:
    for cell in (gw.nn.RNNCell(3, 0), gw.nn.GRUCell(3, 0)):
        assert cell(gw.ones(2, 3)).shape == (2, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.nn.functional.binary_cross_entropy(m.tensor([1.2, 0.3]), m.ones(2)),
        lambda m: m.nn.RNNCell(3, 4)(m.ones(2, 3), m.zeros(1, 4)),
        lambda m: m.nn.functional.group_norm(m.ones(1, 4), 4),
        lambda m: m.nn.functional.nll_loss(m.zeros(2, 3), m.tensor([0, 1]), weight=m.ones(5)),
        lambda m: m.nn.functional.cosine_embedding_loss(m.ones(2, 5), m.ones(2, 5), m.ones(2, 2)),
        lambda m: m.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [4])(m.ones(2, 8), m.tensor([3, 12])),
    ],
)
def test_what_pytorch_refuses(call: Callable[[Any], Any]) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        call(torch)
    with pytest.raises((ValueError, IndexError)):
        call(gw)


def test_an_empty_index_writes_nothing() -> None:
    for m in (gw, torch):
        x, nowhere, src = m.ones(2, 2), m.tensor([], dtype=m.int64), m.zeros(2, 2)
        for written in (
            m.scatter(x, 0, nowhere, src),
            m.scatter_add(x, 1, nowhere, src),
            m.scatter_reduce(x, 0, nowhere, src, "mean", include_self=False),
            x.clone().scatter_(0, nowhere, 5.0),
        ):
            assert written.tolist() == x.tolist()


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "function",
    [
        lambda m, x, y: m.fmod(x, 2.3),  # 2.3 is no half: PyTorch divides by the nearest one
        lambda m, x, y: x % -0.7,
        lambda m, x, y: m.div(x, y, rounding_mode="trunc"),  # of a quotient that is a half
        lambda m, x, y: x.clone().div_(y, rounding_mode="trunc"),
        lambda m, x, y: x.div(0.7, rounding_mode="trunc"),
    ],
    ids=["fmod", "remainder", "trunc", "trunc_", "trunc_by_number"],
)
def test_whole_quotients_of_halves(function: Callable[..., Any], half: str) -> None:
    found = []
    for m in (gw, torch):
        x = (m.arange(-300, 300, dtype=m.float32) / 7).to(getattr(m, half))
        y = (m.arange(1, 601, dtype=m.float32) / 90).to(getattr(m, half))
        found.append(function(m, x, y).tolist())
        if m is gw:
            found.append(gw.compile(lambda x, y: function(gw, x, y))(x, y).tolist())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_two_reach_as_far_as_the_product(dtype: str) -> None:
    found = []
    for m in (gw, torch):
        x = m.tensor([0.5, 3.0, 66.0, 1e-30, math.inf], dtype=getattr(m, dtype))
        found.append(m.ldexp(x, m.tensor([128, -3, -150, 150, 3])).tolist())
    assert found[0] == found[1]
    x = gw.tensor([3.0], requires_grad=True)
    gw.ldexp(x, gw.tensor([-3])).backward()
    assert x.grad is not None and x.grad.tolist() == [0.125]


def test_complex_log1p_keeps_its_real_part_near_zero() -> None:
    z = [1e-10 + 1e-9j, 1e-200 + 0j, -0.4 + 0.2j, 3 + 4j, -3 + 0j]
    ours = gw.log1p(gw.tensor(z, dtype=gw.complex128, requires_grad=True))
    theirs = torch.log1p(torch.tensor(z, dtype=torch.complex128))
    assert ours.real.tolist() == pytest.approx(theirs.real.tolist(), rel=1e-15, abs=0)
    assert ours.imag.tolist() == pytest.approx(theirs.imag.tolist(), rel=1e-15, abs=0)
    assert gw.gradcheck(gw.log1p, [gw.tensor(z[2:4], dtype=gw.complex128, requires_grad=True)])


@pytest.mark.parametrize("half", [gw.float16, gw.bfloat16])
def test_compiled_nan_to_num_of_halves(half: Any) -> None:
    x = gw.tensor([math.inf, -math.inf, math.nan, 1.0], dtype=half)
    assert gw.compile(gw.nan_to_num)(x).tolist() == gw.nan_to_num(x).tolist()


@pytest.mark.parametrize("edge_order", [1, 2])
def test_slopes_beside_an_infinite_sample(edge_order: int) -> None:
    x = [2.0, -2.0, math.inf, math.inf, -math.inf, 3.0, -math.inf, 2.0, math.nan, 3.0, 1.0, 5.0]
    (ours,) = gw.gradient(gw.tensor(x), spacing=0.5, edge_order=edge_order)
    (theirs,) = torch.gradient(torch.tensor(x), spacing=0.5, edge_order=edge_order)
    assert ours.tolist()[1:] == pytest.approx(theirs.tolist()[1:], nan_ok=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda m: [np.float64(1), 2.0],
        lambda m: [[m.tensor(1.0, dtype=m.float64)], [2]],
        lambda m: [m.tensor([1.0]), m.tensor([[2.0]])],  # each is one number
        lambda m: [np.float32(1), 2.0],
        lambda m: [np.float64(1), 2j],
        lambda m: [1.0, 2],
        lambda m: [1j, True],
        lambda m: [[], []],
    ],
)
def test_dtype_and_shape_of_a_list(make: Callable[[Any], Any]) -> None:
    ours, theirs = gw.tensor(make(gw)), torch.tensor(make(torch))
    assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
    assert tuple(ours.shape) == tuple(theirs.shape) and ours.tolist() == theirs.tolist()


def test_addr_promotes() -> None:
    kinds = ["bool", "int16", "float16", "bfloat16", "float32", "complex64"]
    for a, b, c in itertools.product(kinds, repeat=3):
        found = []
        for m in (gw, torch):
            matrix, left, right = m.ones(2, 2), m.tensor([1.0, 2.0]), m.tensor([0.0, 3.0])
            added = m.addr(
                matrix.to(getattr(m, a)), left.to(getattr(m, b)), right.to(getattr(m, c))
            )
            found.append((str(added.dtype).rpartition(".")[2], added.tolist()))
        assert found[0] == found[1], (a, b, c)


def test_halves_beside_complex_numbers() -> None:
    for m in (gw, torch):
        half, whole = m.ones(1, dtype=m.float16), m.tensor([2 + 3j])
        assert m.addcmul(half, half, whole).tolist() == [3 + 3j]


def test_a_tolerance_of_gelsd() -> None:
    for rcond in (0.1, 1.0, 1.5):
        found = []
        for m in (gw, torch):
            a, b = m.tensor([[1.0, 0.0], [0.0, 0.05]]), m.tensor([[1.0], [1.0]])
            solved = m.linalg.lstsq(a, b, rcond=rcond, driver="gelsd")
            found.append((solved.rank.item(), solved.solution.flatten().tolist()))
        assert found[0][0] == found[1][0]
        assert found[0][1] == pytest.approx(found[1][1])


@pytest.mark.parametrize(
    "shape", [(3, 3), (2, 5), (7, 3), (4, 3), (9, 2), (3, 3, 3), (1, 4), (0, 2)]
)
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape: tuple[int, ...], wrap: bool) -> None:
    ours, theirs = gw.zeros(shape), torch.zeros(shape)
    assert ours.fill_diagonal_(2.5, wrap=wrap) is ours
    assert ours.tolist() == theirs.fill_diagonal_(2.5, wrap=wrap).tolist()


def test_fill_diagonal_stops_the_gradient_there_and_refuses_other_shapes() -> None:
    x, y = gw.ones(3, 3, requires_grad=True), torch.ones(3, 3, requires_grad=True)
    (x * 2).fill_diagonal_(0.0).sum().backward()
    (y * 2).fill_diagonal_(0.0).sum().backward()
    assert y.grad is not None
    assert x.grad.tolist() == y.grad.tolist()
    for shape in ((3,), (2, 2, 3)):
        with pytest.raises(RuntimeError):
            torch.zeros(shape).fill_diagonal_(1.0)
        with pytest.raises(RuntimeError, match="takes a matrix"):
            gw.zeros(shape).fill_diagonal_(1.0)


@pytest.mark.parametrize("n", [None, 0, 1, 2, 5])
@pytest.mark.parametrize("increasing", [False, True])
def test_vander(n: int | None, increasing: bool) -> None:
    for numbers in ([1, 2, 3], [0.5, -2.0]):
        ours = gw.vander(gw.tensor(numbers), n, increasing)
        theirs = torch.vander(torch.tensor(numbers), n, increasing)
        assert ours.tolist() == theirs.tolist() and ours.shape == tuple(theirs.shape)
    with pytest.raises(ValueError, match="vector"):
        gw.vander(gw.ones(2, 2), n)


def test_memory_formats_are_accepted_where_pytorch_accepts_them() -> None:
    for engine in (gw, torch):
        x = engine.ones(1, 2, 3, 4)
        likes = ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like")
        for name in likes:
            made = getattr(engine, name)(x, memory_format=engine.preserve_format)
            assert tuple(made.shape) == (1, 2, 3, 4)
        assert engine.full_like(x, 3.0, memory_format=engine.channels_last).sum().item() == 72
        assert engine.randint_like(x, 3, memory_format=engine.preserve_format).dtype == x.dtype
        assert tuple(engine.empty(1, 2, 3, 4, memory_format=engine.channels_last).shape) == x.shape
        with pytest.raises(TypeError):
            engine.zeros(2, memory_format=engine.contiguous_format)


def test_only_inputs_of_grad_is_true() -> None:
    x = gw.ones(2, requires_grad=True)
    (found,) = gw.autograd.grad((x * x).sum(), x, only_inputs=True)
    assert found.tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="backward"):
        gw.autograd.grad((x * x).sum(), x, only_inputs=False)


@pytest.mark.parametrize("operator", ["//", "%", "**", "-", "&", "<<"])
def test_every_operator_with_an_assignment_writes_in_place(operator: str) -> None:
    results = []
    for library in (gw, torch):
        x = library.tensor([5, 7, 9])
        names = {"x": x, "y": library.tensor([2, 3, 4])}
        exec(f"x {operator}= y", names)
        assert names["x"] is x
        results.append(x.tolist())
    assert results[0] == results[1]
    with pytest.raises((ValueError, RuntimeError), match="shape"):
        exec(f"x {operator}= y", {"x": gw.ones(3, 1).long(), "y": gw.ones(3, 3).long()})


@pytest.mark.parametrize("name", ["addcmul_", "addcdiv_", "lerp_"])
def test_a_result_of_more_dimensions_is_not_written_in_place(name: str) -> None:
    other = gw.ones(1, 4, 4)
    with pytest.raises(ValueError, match="the result has shape"):
        getattr(gw.ones(4, 4), name)(other, other)


def test_sum_of_products_in_place() -> None:
    results = []
    for library in (gw, torch):
        x = library.ones(2, 2, dtype=library.int32)
        product = library.arange(8, dtype=library.int32).reshape(2, 2, 2)
        x.addbmm_(product, product, beta=3)
        results.append((x.tolist(), str(x.dtype).removeprefix("torch.")))
    assert results[0] == results[1]


@pytest.mark.parametrize("kind", ["int32", "uint8", "bool"])
@pytest.mark.parametrize("equation", ["i->", "ij->i", "ij->ji", "ii->", "ii->i", "ij,k->k"])
def test_integers_summed_by_einsum_are_int64(equation: str, kind: str) -> None:
    results = []
    for library in (gw, torch):
        terms = equation.partition("->")[0].split(",")
        given = [library.ones((3,) * len(t), dtype=getattr(library, kind)) for t in terms]
        found = library.einsum(equation, *given)
        results.append((found.tolist(), str(found.dtype).removeprefix("torch.")))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("acosh", [-1.3 + 0.4j, 0.5 - 2j, -2 - 0.1j, 3 + 0j, -0.2 + 1j]),
        ("sgn", [0j, 1 + 1j, -2j, -3 + 0j]),
        ("angle", [math.nan, -1.0, 0.0, 2.0]),
    ],
)
def test_gradients_in_all_quadrants(name: str, points: list[complex]) -> None:
    found = []
    for library in (gw, torch):
        x = library.tensor(points, requires_grad=True)
        y = getattr(library, name)(x)
        (gradient,) = library.autograd.grad(y, [x], library.ones_like(y))
        found.append(gradient.numpy())
    assert np.allclose(*found, atol=1e-6)


def test_far_values_of_spherical_bessel() -> None:
    x = [math.inf, -math.inf, 0.0, 1.0, math.nan]
    ours = gw.special.spherical_bessel_j0(gw.tensor(x)).numpy()
    theirs = torch.special.spherical_bessel_j0(torch.tensor(x)).numpy()
    assert np.allclose(ours, theirs, equal_nan=True)


def test_correlations_of_complex_rows() -> None:
    rows = np.array([[1 + 1j, 2 - 1j, 0.5j], [3 + 0j, 1j, -1 + 2j]])
    assert np.allclose(gw.corrcoef(gw.tensor(rows)), torch.corrcoef(torch.tensor(rows)))


CREATED: list[Callable[[Any, Any], Any]] = [
    lambda t, out: t.zeros(3, out=out),
    lambda t, out: t.arange(3, out=out),
    lambda t, out: t.linspace(0.0, 1.0, 3, out=out),
    lambda t, out: t.full((3,), 7.0, out=out),
    lambda t, out: t.normal(t.zeros(3), 0.0, out=out),
    lambda t, out: t.bernoulli(t.ones(3), out=out),
]


@pytest.mark.parametrize("number", range(len(CREATED)))
def test_new_numbers_written_to_out(number: int) -> None:
    results = []
    for library in (gw, torch):
        out = library.empty(3)
        assert CREATED[number](library, out) is out
        results.append(out.tolist())
    assert results[0] == results[1]


@pytest.mark.parametrize("kind", ["Conv2d", "ConvTranspose2d", "Linear"])
def test_a_normalization_folded_into_a_layer(kind: str) -> None:
    gw.manual_seed(0)
    flat, turned = kind == "Linear", kind == "ConvTranspose2d"
    layer = gw.nn.Linear(3, 4) if flat else getattr(gw.nn, kind)(3, 4, 3, bias=turned)
    norm = gw.nn.BatchNorm1d(4) if flat else gw.nn.BatchNorm2d(4)
    norm(gw.randn(5, 4) * 2 + 1 if flat else gw.randn(5, 4, 2, 2) * 2 + 1)
    layer.eval(), norm.eval()
    x = gw.randn(2, 3) if flat else gw.randn(2, 3, 6, 6)
    utils = gw.nn.utils
    fold = utils.fuse_linear_bn_eval if flat else utils.fuse_conv_bn_eval
    folded = fold(layer, norm, *([True] if turned else []))
    assert np.allclose(folded(x).detach(), norm(layer(x)).detach(), atol=1e-5)
    with pytest.raises(ValueError, match="eval"):
        fold(layer.train(), norm)


def test_batch_normalization_without_statistics_inside_vmap() -> None:
    model = gw.nn.Sequential(gw.nn.Linear(3, 2), gw.nn.BatchNorm1d(2))
    x = gw.randn(4, 5, 3)
    with pytest.raises(gw.VmapError):
        gw.vmap(model)(x)
    gw.func.replace_all_batch_norm_modules_(model)
    expected = gw.stack([model(sample) for sample in x])
    assert np.allclose(gw.vmap(model)(x).detach(), expected.detach(), atol=1e-5)


def test_numbers_and_complex_draws_inside_vmap() -> None:
    rows = gw.tensor([[1.0, 2.0, 3.0], [1.0, 3.0, 5.0]])
    assert gw.vmap(lambda row: gw.searchsorted(row, 2.5))(rows).tolist() == [2, 1]
    drawn = gw.vmap(gw.randn_like, randomness="different")(rows * 1j)
    assert drawn.dtype == gw.complex64 and (drawn.imag != 0).all()
    assert (drawn[0] != drawn[1]).all()


def test_a_generator_in_the_same_state() -> None:
    first = gw.Generator().manual_seed(3)
    gw.rand(2, generator=first)
    second = first.clone_state()
    assert gw.rand(2, generator=first).tolist() == gw.rand(2, generator=second).tolist()


def test_probabilities_as_a_transform() -> None:
    x = [-1.0, 0.3]
    results = []
    for library in (gw, torch):
        d = library.distributions
        chance = d.CumulativeDistributionTransform(d.Normal(0.0, 1.0))
        y = chance(library.tensor(x))
        slope = chance.log_abs_det_jacobian(library.tensor(x), y)
        results.append([*y.tolist(), *chance.inv(y).tolist(), *slope.tolist()])
        assert d.AbsTransform()(library.tensor(x)).tolist() == library.tensor(x).abs().tolist()
    assert np.allclose(*results, atol=1e-5)


def test_numpy_of_a_parameter_inside_no_grad() -> None:
    x = gw.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="NumPy cannot record"):
        x.numpy()
    with gw.no_grad():
        assert x.numpy().tolist() == np.asarray(x).tolist() == [1.0, 1.0]


def test_the_gradient_can_be_deleted() -> None:
    x = gw.ones(2, requires_grad=True)
    x.sum().backward()
    del x.grad
    assert x.grad is None


def test_next_functions_end_in_the_leaves() -> None:
    for library in (gw, torch):
        x: Any = library.ones(2, requires_grad=True)
        (first, _), (second, _) = (x * x).grad_fn.next_functions
        assert first.name() == "torch::autograd::AccumulateGrad"
        assert first.variable is x
        assert first == second
        assert first.next_functions == ()


def test_hardshrink_compares_halves_with_a_half() -> None:
    for library in (gw, torch):
        x = library.full((4,), 0.3, dtype=library.bfloat16, requires_grad=True)
        for shrunk in (x.hardshrink(0.3), library.nn.functional.hardshrink(x, 0.3)):
            assert shrunk.tolist() == [0.0] * 4


def test_conversions_take_a_memory_format() -> None:
    for library in (gw, torch):
        x = library.ones(1, 2, 3, 4)
        assert x.double(memory_format=library.channels_last).dtype == library.float64


def test_slopes_along_complex_coordinates() -> None:
    for library in (gw, torch):
        (slope,) = library.gradient(library.tensor([1.0, 2.0, 4.0]), spacing=1j)
        assert slope.tolist() == [-1j, -1.5j, -2j]


def test_only_warnings_are_remembered_without_determinism() -> None:
    for library in (gw, torch):
        for mode, warn_only in itertools.product((True, False), (True, False)):
            library.use_deterministic_algorithms(mode, warn_only=warn_only)
            assert library.are_deterministic_algorithms_enabled() is mode
            assert library.is_deterministic_algorithms_warn_only_enabled() is warn_only
        library.set_deterministic_debug_mode("warn")
        assert library.is_deterministic_algorithms_warn_only_enabled()
        library.set_deterministic_debug_mode("default")
        assert not library.is_deterministic_algorithms_warn_only_enabled()


def test_tall_matrices_of_low_rank_have_factors() -> None:
    for library in (gw, torch):
        tall = library.ones(4, 2, dtype=library.float64)
        packed, pivots, info = library.linalg.lu_factor_ex(tall)
        assert info == 2
        assert packed.tolist() == [[1, 1], [1, 0], [1, 0], [1, 0]]
        assert pivots.tolist() == [1, 2]
        upper = library.linalg.lu(library.stack([tall, 2 * tall])).U
        assert upper.tolist() == [[[1, 1], [0, 0]], [[2, 2], [0, 0]]]


def test_both_parts_of_a_complex_number_become_numbers() -> None:
    inf, nan = math.inf, math.nan
    parts = [complex(nan, 1), complex(inf, nan), complex(2, -inf), complex(3, 4)]
    results: dict[Any, list[Any]] = {gw: [], torch: []}
    for library, made in results.items():
        for dtype in (library.complex64, library.complex128):
            x = library.tensor(parts, dtype=dtype)
            made += [library.nan_to_num(x, nan=1.0, posinf=5.0).numpy(), x.nan_to_num_().numpy()]
    for found, expected in zip(results[gw], results[torch], strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


def unchecked_assign(library: Any) -> Any:
    """How solvers of differential equations fill a buffer of slopes: through `.data`."""

    class Assign(library.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, buffer: Any, value: Any, index: Any) -> Any:
            ctx.index = index
            buffer.data[index] = value
            return buffer

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g[ctx.index], None

    return Assign.apply


def test_a_buffer_is_filled_through_data_while_backward_needs_its_other_elements() -> None:
    found = []
    for library in (gw, torch):
        assign = unchecked_assign(library)
        w = library.tensor([1.5, -0.5, 2.0], requires_grad=True)
        buffer = library.zeros(3, 4)
        for step in range(4):
            slopes = (buffer[..., :step] * w[:, None]).sum(-1) + w.sin()
            buffer = assign(buffer, slopes, (..., step))
        (buffer * buffer * w[:, None]).sum().backward()
        found.append(w.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.data[:, :1].fill_(5),
        lambda y: y.data.__setitem__((slice(None), 0), 5),
        lambda y: (y.data[:, 1].fill_(5), y.data.mul_(2)),
        lambda y: (y.data.mul_(2), y.data[:, 1].fill_(5)),
        lambda y: y.data.index_fill_(1, gw.tensor([0]), 2),
        lambda y: y.data.__setitem__(gw.tensor([0, 1]), 2),
    ],
)
def test_a_change_of_what_backward_needs_is_an_error(change: Any) -> None:
    x = gw.ones(3, 2, requires_grad=True)
    y = x * 1
    needed = (y[:, 0] * y[:, 0]).sum()
    change(y)
    with pytest.raises(gw.AutogradError, match="modified in place"):
        needed.backward()


def test_many_changes_of_another_part_are_not_all_remembered() -> None:
    for times, fine in ((60, True), (70, False)):
        x = gw.ones(3, 2, requires_grad=True)
        y = x * 1
        needed = (y[:, 0] * y[:, 0]).sum()
        for step in range(times):
            y.data[step % 3, 1] = step
        if fine:
            needed.backward()
            assert x.grad.tolist() == [[2, 0]] * 3
        else:
            with pytest.raises(gw.AutogradError, match="modified in place"):
                needed.backward()


def test_noting_a_part_does_not_keep_the_memory() -> None:
    x = gw.ones(1000)
    x[10:] = 2
    x[:10].fill_(3)
    gone = weakref.ref(x._array)
    del x
    gc.collect()
    assert gone() is None
