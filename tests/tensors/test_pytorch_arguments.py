"""Arguments that PyTorch's own tests pass (`tools/pytorch_tests`): `out=`, operands of any type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw


def _matrix(m: Any) -> Any:
    return m.tensor([[2.0, 1.0], [1.0, 3.0]])


OUT: dict[str, Callable[[Any, Any, Any], Any]] = {
    "matmul": lambda m, x, out: m.matmul(x, x, out=out),
    "mm": lambda m, x, out: m.mm(x, x, out=out),
    "addmm": lambda m, x, out: m.addmm(x, x, x, beta=2, out=out),
    "addcdiv": lambda m, x, out: m.addcdiv(x, x, x, out=out),
    "pow": lambda m, x, out: m.pow(x, 2, out=out),
    "where": lambda m, x, out: m.where(x > 1, x, x, out=out),
    "tril": lambda m, x, out: m.tril(x, out=out),
    "inv": lambda m, x, out: m.linalg.inv(x, out=out),
    "cholesky": lambda m, x, out: m.linalg.cholesky(x, out=out),
    "zeros": lambda m, x, out: m.zeros(2, 2, out=out),
    "full": lambda m, x, out: m.full((2, 2), 3, out=out),
    "eye": lambda m, x, out: m.eye(2, out=out),
    "arange": lambda m, x, out: m.arange(4, out=out),
    "linspace": lambda m, x, out: m.linspace(0, 1, 3, out=out),
    "msort": lambda m, x, out: m.msort(x, out=out),
}


@pytest.mark.filterwarnings("ignore:An output with", "ignore:The number of elements in the out")
@pytest.mark.filterwarnings("ignore:out has shape")
@pytest.mark.parametrize("begin", ["empty", "right", "other"])
@pytest.mark.parametrize("label", OUT)
def test_out(label: str, begin: str) -> None:
    found = []
    for m in (gw, torch):
        shape = tuple(OUT[label](m, _matrix(m), None).shape)
        first = m.ones({"empty": (0,), "right": shape, "other": (3, 5)}[begin])
        out = first.double()
        result = OUT[label](m, _matrix(m).double(), out)
        assert result is out
        found.append((str(out.dtype).removeprefix("torch."), out.tolist()))
    assert found[0][0] == found[1][0]
    assert torch.allclose(torch.tensor(found[0][1]), torch.tensor(found[1][1]))


def test_an_out_of_another_shape_warns() -> None:
    with pytest.warns(UserWarning, match="other memory"):
        gw.add(gw.ones(2), 1.0, out=gw.ones(3))


def test_a_random_tensor_in_out() -> None:
    for m in (gw, torch):
        out = m.zeros(2, 3)
        assert m.rand(2, 3, out=out) is out
        assert 0.0 < float(out.mean()) < 1.0


def test_methods_take_no_out() -> None:
    for m in (gw, torch):
        with pytest.raises(TypeError):
            _matrix(m).matmul(_matrix(m), out=_matrix(m))


@pytest.mark.parametrize("m", [gw, torch], ids=["gradwalk", "torch"])
def test_hints_of_functions_that_make_tensors(m: Any) -> None:
    made = m.zeros(2, layout=m.strided, pin_memory=False)
    assert made.tolist() == [0.0, 0.0]
    assert m.rand_like(made, layout=m.strided).shape == (2,)


class _Guest:
    """An operand that tensors know nothing of."""

    def __radd__(self, other: Any) -> str:
        return "its own sum"

    __rmatmul__ = __rpow__ = __rtruediv__ = __rand__ = __radd__


@pytest.mark.parametrize("m", [gw, torch], ids=["gradwalk", "torch"])
def test_an_operand_of_another_class_may_answer(m: Any) -> None:
    x = m.ones(2, dtype=m.int64)
    guest = _Guest()
    assert x + guest == x @ guest == x**guest == x / guest == x & guest == "its own sum"
    changed = x
    changed += guest
    assert changed == "its own sum"
    assert not x == None  # noqa: E711, SIM201
    assert x != None  # noqa: E711
    assert x != "text"
    assert [x, None].index(None) == 1
    for operation in (lambda: x + None, lambda: x - "a", lambda: x < None, lambda: None * x):
        with pytest.raises(TypeError):
            operation()
    with pytest.raises((TypeError, RuntimeError)):
        assert None in x


@pytest.mark.parametrize("name", ["eq_", "ne_", "lt_", "ge_", "logical_and_", "logical_xor_"])
@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32", "bool"])
def test_comparing_in_place_with_another_dtype(name: str, dtype: str) -> None:
    found = []
    for m in (gw, torch):
        x = m.tensor([0, 1, 1]).to(getattr(m, dtype))
        found.append(getattr(x, name)(m.tensor([0.0, 0.5, 1.0], dtype=m.float64)).tolist())
    assert found[0] == found[1]


UNSIGNED: list[Callable[[Any, Any], Any]] = [
    lambda m, n: m.tensor([1, n], dtype=m.uint8),
    lambda m, n: m.full((2,), n, dtype=m.uint8),
    lambda m, n: m.zeros(2, dtype=m.uint8).fill_(n),
    lambda m, n: m.zeros(2, dtype=m.uint8).index_fill(0, m.tensor([0]), n),
]


@pytest.mark.parametrize("call", UNSIGNED)
def test_negative_numbers_in_unsigned_memory(call: Callable[[Any, Any], Any]) -> None:
    for number in (-1, -255, 255):
        assert call(gw, number).tolist() == call(torch, number).tolist()
    for number in (-256, 256):
        for m in (gw, torch):
            with pytest.raises((OverflowError, RuntimeError)):
                call(m, number)


LISTS: list[Callable[[Any], Any]] = [
    lambda m: [[0, 1], [1, 2]],
    lambda m: [m.tensor([0, 1]), m.tensor([1, 2])],
    lambda m: [m.tensor(0), m.tensor(1)],
    lambda m: [0, m.tensor([1, 2])],
    lambda m: [slice(None), [0, 1]],
    lambda m: [0, None],
    lambda m: [..., 0],
    lambda m: [0, 1],
    lambda m: [True, False, True],
    lambda m: [[0, 1]] * 32,
]


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence", "ignore:a list of lists")
@pytest.mark.parametrize("make", LISTS)
def test_a_list_with_more_than_numbers_is_a_tuple(make: Callable[[Any], Any]) -> None:
    found = []
    for m in (gw, torch):
        x = m.arange(9).reshape(3, 3)
        read = x[make(m)].tolist()
        x[make(m)] = -1
        found.append((read, x.tolist()))
    assert found[0] == found[1]


def test_a_list_of_lists_warns() -> None:
    with pytest.warns(UserWarning, match="x\\[tuple"):
        assert gw.arange(4).reshape(2, 2)[[[0, 1], [1, 0]]].tolist() == [1, 2]


def test_operators_that_change_a_tensor() -> None:
    for m in (gw, torch):
        x = same = m.arange(5.0) + 3
        x //= 2
        assert same.tolist() == [1, 2, 2, 3, 3]
        x %= 2
        assert same.tolist() == [1, 0, 0, 1, 1]


@pytest.mark.parametrize("name", ["add_", "mul_", "div_", "xlogy_", "atan2_"])
@pytest.mark.parametrize(("own", "other"), [("float16", "float32"), ("float32", "float64")])
def test_in_place_beside_a_wider_dtype_rounds_once(own: str, other: str, name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.rand(200, generator=generator, dtype=torch.float64) for _ in range(2))
    found = []
    for m in (gw, torch):
        x = m.tensor(first.tolist(), dtype=getattr(m, own))
        y = m.tensor(second.tolist(), dtype=getattr(m, other), requires_grad=True)
        result = getattr(x, name)(y)
        result.sum().backward()
        found.append((result.tolist(), y.grad.tolist()))
    # Functions of float64 may differ in their last digit, which float32 does not have.
    assert found[0][0] == found[1][0]
    assert torch.allclose(torch.tensor(found[0][1]), torch.tensor(found[1][1]), rtol=1e-3)


def test_strides_and_address_of_no_elements() -> None:
    for shape in ((0,), (2, 0), (0, 3), (2, 0, 3)):
        for m in (gw, torch):
            x = m.empty(shape)
            assert x.stride() == torch.empty(shape).stride()
            assert x.data_ptr() == 0


def test_a_complex_number_beside_bfloat16() -> None:
    assert (gw.ones(2, dtype=gw.bfloat16) + 1j).dtype == gw.complex64


def test_a_transform_over_no_dimensions() -> None:
    x = gw.ones(2)
    assert gw.fft.fftn(x, dim=[]).tolist() == torch.fft.fftn(torch.ones(2), dim=[]).tolist()


SHAPES_OF_NOTHING: dict[str, Callable[[Any], Any]] = {
    "split": lambda m: m.split(m.zeros(0, 2), 0)[0],
    "combinations": lambda m: m.combinations(m.ones(3), r=0),
    "cat": lambda m: m.cat([m.zeros(0), m.zeros(0)], 1),
    "scatter": lambda m: m.arange(4.0).scatter(0, m.zeros((0, 4), dtype=m.int64), m.zeros(0, 4)),
}


@pytest.mark.parametrize("label", SHAPES_OF_NOTHING)
def test_nothing_has_a_shape(label: str) -> None:
    ours, theirs = (SHAPES_OF_NOTHING[label](m) for m in (gw, torch))
    assert (tuple(ours.shape), ours.tolist()) == (tuple(theirs.shape), theirs.tolist())


def test_an_out_that_is_counted_through_keeps_its_shape() -> None:
    for m in (gw, torch):
        x = m.zeros(2, 3)
        m.linspace(0, 3, 4, out=x[:, 1:])
        assert x.tolist() == [[0, 0, 1], [0, 2, 3]]
        m.arange(6, out=x)
        assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
        m.normal(m.ones(2, 3), 0.0, out=x)
        assert x.tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("name", ["linspace", "logspace"])
def test_complex_numbers_between_two_ends(name: str) -> None:
    ours, theirs = (getattr(m, name)(0.5, 1 + 1j, 5) for m in (gw, torch))
    assert ours.dtype == gw.complex64
    torch.testing.assert_close(torch.from_numpy(ours.numpy()), theirs)


def test_bytes_as_numbers_of_a_dtype() -> None:
    for m in (gw, torch):
        memory = bytearray(8)
        m.asarray(memory, dtype=m.int32)[1] = 1
        assert memory == b"\0\0\0\0\1\0\0\0"
        assert m.asarray(memory).shape == (2,)


def test_slopes_between_coordinates_of_a_wider_dtype() -> None:
    """Neighbours are subtracted in the dtype of the result: they may be almost equal."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1000, generator=generator) * 5
    places = torch.randn(1000, generator=generator, dtype=torch.float64)
    (theirs,) = torch.gradient(x, spacing=[places])
    (ours,) = gw.gradient(gw.tensor(x.numpy()), spacing=[gw.tensor(places.numpy())])
    torch.testing.assert_close(torch.from_numpy(ours.numpy()), theirs, rtol=1e-6, atol=0)


def test_limits_of_the_default_dtype() -> None:
    assert gw.finfo().bits == torch.finfo().bits == 32


NUMBERS: dict[str, Callable[[Any, float], Any]] = {
    "sum": lambda x, n: x + n,
    "reflected sum": lambda x, n: n + x,
    "difference": lambda x, n: x - n,
    "reflected difference": lambda x, n: n - x,
    "product": lambda x, n: x * n,
    "quotient": lambda x, n: x / n,
    "power": lambda x, n: x**n,
    "power in place": lambda x, n: x.clone().pow_(n),
    "sum in place": lambda x, n: x.clone().add_(n),
    "power of the number": lambda x, n: n**x,
    "remainder": lambda x, n: x % n,
    "below": lambda x, n: x < n,
    "above": lambda x, n: x >= n,
    "equal": lambda x, n: x == n,
    "clamped": lambda x, n: x.clamp(min=n),
}


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("label", NUMBERS)
def test_numbers_beside_halves(label: str, half: str) -> None:
    """A number is rounded to a half before it is added, compared or a power, as in PyTorch."""
    samples = torch.rand(500, generator=torch.Generator().manual_seed(0))
    samples[0], samples[1] = 0.1, 0.7
    for number in (0.1, 0.7):
        ours, theirs = (
            NUMBERS[label](m.tensor(samples.tolist()).to(getattr(m, half)), number)
            for m in (gw, torch)
        )
        assert ours.tolist() == theirs.tolist()


HIDDEN_MISTAKES: dict[str, Callable[[Any], Any]] = {
    "gather": lambda m: m.gather(m.arange(4.0), 0, m.tensor([-1])),
    "index_select": lambda m: m.index_select(m.arange(4.0), 0, m.tensor([-1])),
    "several of one number": lambda m: m.ones([]).index_select(0, m.tensor([0, 0])),
    "scatter": lambda m: m.zeros(4).scatter(0, m.tensor([-1]), m.ones(1)),
    "scatter in place": lambda m: m.zeros(4).scatter_(0, m.tensor([-1]), 1.0),
    "scatter_add": lambda m: m.zeros(4).scatter_add(0, m.tensor([-1]), m.ones(1)),
    "scatter_reduce": lambda m: m.zeros(4).scatter_reduce(0, m.tensor([-1]), m.ones(1), "sum"),
    "index_add": lambda m: m.zeros(4).index_add(0, m.tensor([-1]), m.ones(1)),
    "index_copy": lambda m: m.zeros(4).index_copy(0, m.tensor([-1]), m.ones(1)),
    "bincount": lambda m: m.bincount(m.tensor([1, 0]), m.tensor([1.0, 0.3, 0.5])),
    "masked_fill": lambda m: m.zeros(2).masked_fill(m.tensor([1, 0]), 1.0),
    "masked_fill_": lambda m: m.zeros(2).masked_fill_(m.tensor([1, 0]), 1.0),
    "trapezoid": lambda m: m.trapezoid(m.ones(2, 3), m.tensor([1.0, 2.0])),
}
FROM_THE_END: dict[str, Callable[[Any], Any]] = {
    "subscript": lambda m: m.arange(4.0)[m.tensor([-1])],
    "take": lambda m: m.take(m.arange(4.0), m.tensor([-1])),
    "take_along_dim": lambda m: m.take_along_dim(m.arange(4.0), m.tensor([-1]), 0),
    "index_fill": lambda m: m.zeros(4).index_fill(0, m.tensor([-1]), 1.0),
    "put": lambda m: m.zeros(4).put(m.tensor([-1]), m.ones(1)),
}


@pytest.mark.parametrize("label", HIDDEN_MISTAKES)
@pytest.mark.parametrize("m", [gw, torch], ids=["gradwalk", "torch"])
def test_arguments_that_hide_a_mistake_are_refused(m: Any, label: str) -> None:
    with pytest.raises((IndexError, RuntimeError, TypeError, ValueError)):
        HIDDEN_MISTAKES[label](m)


@pytest.mark.parametrize("label", FROM_THE_END)
def test_an_index_below_zero_counts_from_the_end(label: str) -> None:
    ours, theirs = (FROM_THE_END[label](m) for m in (gw, torch))
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_limits_are_python_numbers(dtype: str) -> None:
    ours, theirs = (m.finfo(getattr(m, dtype)) for m in (gw, torch))
    for name in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
        assert getattr(ours, name) == getattr(theirs, name)
        assert type(getattr(ours, name)) in (int, float, str)
    assert 2 * ours.max != float("inf") or dtype == "float64"


def test_strides_of_a_view_without_elements() -> None:
    for m in (gw, torch):
        assert m.zeros(2, 3, 4, 5)[:, :, 1:1].stride() == (60, 20, 5, 1)


# NumPy's numbers as arguments: they are Python's, decide no dtype, and name dimensions.
BY_NUMPY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "pow": lambda x, f, i: [x ** f(2.5), f(2) ** x, x.pow(f(3)), x.clone().pow_(f(0.5))],
    "clamp": lambda x, f, i: [x.clamp(f(1)), x.clamp(max=f(1)), x.clone().clamp_(f(0), f(2))],
    "logit": lambda x, f, i: (x / 4).logit(f(0.1)),
    "max": lambda x, f, i: [*x.max(i(0)), *x.min(i(1), True)],
    "norm": lambda x, f, i: [x.norm(i(1), i(0)), x.norm(f(2))],
    "var": lambda x, f, i: [x.var(i(0), correction=i(0)), x.std(correction=f(0.5))],
    "roll": lambda x, f, i: x.roll(i(1), i(0)),
}
FUNCTIONS_BY_NUMPY: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "full": lambda m, x, f, i: [m.full((2,), f(2)), m.full((i(2),), np.int32(2))],
    "fft": lambda m, x, f, i: [m.fft.rfft(x, i(2)).real, m.fft.fft2(x, dim=(i(0), i(1))).real],
    "losses": lambda m, x, f, i: [
        m.nn.functional.huber_loss(x, 2 * x, delta=f(0.5)),
        m.nn.functional.smooth_l1_loss(x, 2 * x, beta=f(0.5)),
        m.nn.functional.gaussian_nll_loss(x, 2 * x, x, eps=f(1e-3)),
        m.nn.functional.cosine_similarity(x, 2 * x, i(1), f(1e-8)),
    ],
    "images": lambda m, x, f, i: [
        m.nn.functional.max_pool1d(x[None], i(2)),
        m.nn.functional.avg_pool1d(x[None], i(2), i(1)),
        m.nn.functional.adaptive_avg_pool1d(x[None], i(2)),
        m.nn.functional.conv1d(x[None], m.ones(1, 2, 2), padding=i(1)),
        m.nn.functional.interpolate(x[None], scale_factor=f(2)),
        m.nn.functional.unfold(x[None, None], i(2)),
    ],
    "histogram": lambda m, x, f, i: list(m.histogram(x, i(3))),
}


@pytest.mark.parametrize("name", [*BY_NUMPY, *FUNCTIONS_BY_NUMPY])
def test_numbers_of_numpy_are_pythons(name: str) -> None:
    numbers = [[0.25, 3.0, 1.5], [2.0, 0.5, 1.0]]
    found = []
    for m in (gw, torch):
        x: Any = m.tensor(numbers)
        if name in BY_NUMPY:
            made = BY_NUMPY[name](x, np.float64, np.int64)
        else:
            made = FUNCTIONS_BY_NUMPY[name](m, x, np.float64, np.int64)
        found.append(made if isinstance(made, list) else [made])
    for ours, theirs in zip(*found, strict=True):
        assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)


def test_no_dimension_is_none() -> None:
    """`dim=()` of `all` and `any` reduces nothing, where `sum` reduces all."""
    for m in (gw, torch):
        x = m.tensor([[0, 2], [3, 0]])
        for made in (x.all(()), m.any(x, dim=[], keepdim=True)):
            assert made.tolist() == [[False, True], [True, False]]
        assert x.sum(()).item() == 5


def test_the_conjugate_transpose_of_one_number() -> None:
    assert gw.tensor(1 + 2j).H.item() == 1 - 2j


def test_limits_of_another_kind_of_dtype_are_a_type_error() -> None:
    for library in (gw, torch):
        for limits, dtype in (
            (library.iinfo, library.float32),
            (library.iinfo, library.bfloat16),
            (library.iinfo, library.bool),
            (library.finfo, library.int64),
            (library.finfo, library.bool),
        ):
            with pytest.raises(TypeError):
                limits(dtype)
        assert library.iinfo(library.int8).min == -128 and library.iinfo(library.uint8).bits == 8
        assert library.finfo(library.complex64).max == library.finfo(library.float32).max


def test_numpys_order_of_axes() -> None:
    """As the package opt_einsum calls them, which knows gradwalk only by its name."""
    x = gw.arange(24).reshape(2, 3, 4)
    assert np.array_equal(gw.transpose(x, (2, 0, 1)), np.transpose(x.numpy(), (2, 0, 1)))
    assert np.array_equal(
        gw.tensordot(x, x, axes=((0, 2), (0, 2))), np.tensordot(x.numpy(), x.numpy(), ((0, 2),) * 2)
    )
    with pytest.raises(TypeError):
        x.transpose(0)
