"""vmap: where the samples lie, what the function may do, and what the errors say."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched

X = np.arange(12.0).reshape(4, 3)
Pair = namedtuple("Pair", "first second")


def ours(array: Any = X) -> Any:
    return gw.tensor(array)


def theirs(array: Any = X) -> Any:
    return torch.tensor(array, dtype=torch.get_default_dtype())


# -- dimensions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_dims", [0, 1, -1, -2, (0,), (1,)])
@pytest.mark.parametrize("out_dims", [0, 1, -1])
def test_dimensions_as_pytorch(in_dims: Any, out_dims: int) -> None:
    found = gw.vmap(lambda x: x * 2 + x.sum(), in_dims, out_dims)(ours())
    expected = torch.func.vmap(lambda x: x * 2 + x.sum(), in_dims, out_dims)(theirs())
    assert found.tolist() == expected.tolist()


def test_containers_of_dimensions() -> None:
    given = {"a": ours(), "b": [ours(X.T), gw.ones(3)]}
    dims = {"a": 0, "b": [1, None]}
    out = gw.vmap(
        lambda p, n: Pair(p["a"] + p["b"][0] * n, OrderedDict(k=p["b"][1].sum(), none=None)),
        in_dims=(dims, None),
        out_dims=Pair(1, OrderedDict(k=None, none=None)),
    )(given, 2.0)
    assert isinstance(out, Pair) and isinstance(out.second, OrderedDict)
    assert out.first.tolist() == (3 * X).T.tolist()
    assert out.second["k"].tolist() == 3.0 and out.second["none"] is None


def test_one_dimension_holds_for_a_container() -> None:
    total = gw.vmap(lambda pair, d: pair[0] + pair[1] + d["x"], in_dims=(0, None))
    assert total((ours(), ours()), {"x": gw.ones(3)}).tolist() == (2 * X + 1).tolist()


def test_keyword_arguments_are_shared() -> None:
    assert gw.vmap(lambda x, y: x + y)(ours(), y=gw.ones(3)).tolist() == (X + 1).tolist()


def test_a_result_that_samples_share_is_repeated() -> None:
    out = gw.vmap(lambda x: gw.ones(2))(ours())
    assert out.tolist() == [[1, 1]] * 4
    out += 1  # memory of its own for each sample
    assert out.tolist() == [[2, 2]] * 4


@pytest.mark.parametrize("chunk_size", [1, 3, 4, 9])
def test_chunks(chunk_size: int) -> None:
    function = gw.vmap(lambda x, y: (x * y, y), out_dims=(1, 0), chunk_size=chunk_size)
    product, same = function(ours(), ours())
    assert product.tolist() == (X * X).T.tolist() and same.tolist() == X.tolist()


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: gw.vmap(gw.sin, (0, 0))(ours()), r"2 entries.*1 positional.*Fix"),
        (lambda: gw.vmap(gw.sin, "0")(ours()), r"in_dims is an integer"),
        (lambda: gw.vmap(gw.sin, 2)(ours()), r"has 2 for a tensor of shape \(4, 3\).*Fix"),
        (lambda: gw.vmap(gw.add)(ours(), ours(X.T)), r"4 \(dimension 0 .*3 \(dimension 0 .*Fix"),
        (lambda: gw.vmap(gw.add)(ours(), 1.0), r"0 for 1.0, .*float.*Fix: None"),
        (lambda: gw.vmap(gw.sin, (None,))(ours()), r"no tensor to map over.*Fix"),
        (lambda: gw.vmap(lambda: 1)(), r"no tensor to map over"),
        (lambda: gw.vmap(gw.sin, ([0],))(ours()), r"has \[0\] for argument 0, .*Tensor.*Fix"),
        (
            lambda: gw.vmap(lambda d: d["a"], ({"b": 0},))({"a": ours()}),
            r"argument 0, .* a dict with 'a'.*Fix",
        ),
        (lambda: gw.vmap(lambda x: 1.0)(ours()), r"returned 1.0 \(float\).*Fix"),
        (lambda: gw.vmap(gw.sin, out_dims=None)(ours()), r"None for a result that differs.*Fix"),
        (lambda: gw.vmap(gw.sin, out_dims=2)(ours()), r"out_dims has 2 .* 2 dimension"),
        (lambda: gw.vmap(gw.sin, out_dims=(0, 0))(ours()), r"out_dims has \(0, 0\)"),
        (lambda: gw.vmap(gw.sin, randomness="no"), r"randomness is one of"),
        (lambda: gw.vmap(gw.sin, chunk_size=0), r"chunk_size is at least 1"),
    ],
)
def test_wrong_dimensions_are_explained(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){text}"):
        call()


# -- what depends on numbers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: gw.tensor(x.detach().numpy()),
        lambda x: float(x[0]),
        lambda x: range(x[0].long()),
    ],
)
def test_numbers_of_a_sample_are_refused(function: Any) -> None:
    with pytest.raises(gw.VmapError, match=r"test_vmap.py:\d+: .*\nFix: .*"):
        gw.vmap(function)(ours())


def test_a_branch_names_the_line_and_where() -> None:
    with pytest.raises(gw.VmapError, match=r"if x\.sum\(\) > 6(?s:.)*gradwalk\.where"):
        gw.vmap(lambda x: x if x.sum() > 6 else -x)(ours())


def test_a_branch_on_what_samples_share_works() -> None:
    shared = gw.ones(1)
    assert gw.vmap(lambda x: x if shared.sum() > 0 else -x)(ours()).tolist() == X.tolist()


def test_a_mask_of_a_sample_is_refused() -> None:
    with pytest.raises(gw.VmapError, match=r"(?s)mask.*gradwalk.where"):
        gw.vmap(lambda x: x[x > 3])(ours())


def test_a_shared_mask_selects() -> None:
    mask = gw.tensor([True, False, True])
    assert gw.vmap(lambda x: x[mask])(ours()).tolist() == X[:, [0, 2]].tolist()


def test_a_tensor_kept_after_vmap_is_refused() -> None:
    kept = []
    gw.vmap(lambda x: kept.append(x) or x)(ours())
    with pytest.raises(gw.VmapError, match=r"(?s)kept.*Fix: return it"):
        kept[0] + 1


def test_backward_inside_is_refused() -> None:
    w = gw.ones(3, requires_grad=True)
    with pytest.raises(gw.AutogradError, match="vmap"):
        gw.vmap(lambda x: (x * w).sum().backward())(ours())


# -- changes in place ------------------------------------------------------------------------------


def in_place(x: Any) -> Any:
    y = x.clone()
    y[0] = x[1] * 10
    y += 1
    part = y[1:]
    part.mul_(2)
    y[-1] -= x.sum()
    return y


def test_changes_in_place_as_pytorch() -> None:
    assert gw.vmap(in_place)(ours()).tolist() == torch.func.vmap(in_place)(theirs()).tolist()


def test_gradients_of_changes_in_place_as_pytorch() -> None:
    found = gw.vmap(gw.grad(lambda x: (in_place(x) ** 2).sum()))(ours())
    expected = torch.func.vmap(torch.func.grad(lambda x: (in_place(x) ** 2).sum()))(theirs())
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("dim", [0, 1])
def test_an_argument_changed_in_place_is_changed_outside(dim: int) -> None:
    x = ours()
    gw.vmap(lambda a: a.add_(1), dim)(x)
    assert x.tolist() == (X + 1).tolist()


def test_a_shared_tensor_cannot_hold_what_differs() -> None:
    total = gw.zeros(3)
    with pytest.raises(gw.VmapError, match=r"(?s)differ between samples.*share.*Fix"):
        gw.vmap(lambda x: total.add_(x))(ours())
    assert total.tolist() == [0, 0, 0]


# -- random numbers --------------------------------------------------------------------------------

DRAWS = {
    "rand": lambda x: gw.rand(3),
    "randn": lambda x: gw.randn(3),
    "randint": lambda x: gw.randint(0, 1000, (3,)),
    "randperm": lambda x: gw.randperm(50),
    "bernoulli": lambda x: gw.bernoulli(x * 0 + 0.5),
    "dropout": lambda x: gw.nn.functional.dropout(gw.ones(40)),
    "multinomial": lambda x: gw.multinomial(gw.ones(40), 3),
    "normal_": lambda x: x.clone().normal_(),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_random_numbers_are_refused_the_same_or_different(draw: Any) -> None:
    gw.manual_seed(0)
    x = gw.ones(8, 40)
    with pytest.raises(gw.VmapError, match=r'(?s)random.*Fix: .*"different"'):
        gw.vmap(draw)(x)
    same = gw.vmap(draw, randomness="same")(x).tolist()
    assert all(row == same[0] for row in same)
    different = gw.vmap(draw, randomness="different")(x).tolist()
    assert sum(row != different[0] for row in different) > 5


def test_multinomial_draws_by_the_weights_of_each_sample() -> None:
    weights = gw.eye(5)[[3, 0, 4]]
    drawn = gw.vmap(lambda w: gw.multinomial(w, 2, True), randomness="different")(weights)
    assert drawn.tolist() == [[3, 3], [0, 0], [4, 4]]


def test_nested_levels_draw_as_each_says() -> None:
    function = gw.vmap(
        gw.vmap(lambda x: x * 0 + gw.rand(()), randomness="same"), randomness="different"
    )
    drawn = np.array(function(gw.ones(5, 4)).tolist())
    assert (drawn == drawn[:, :1]).all() and len(set(drawn[:, 0])) == 5


def test_a_custom_function_takes_tensors_in_containers() -> None:
    """A batched tensor in a list left the vmap as it was."""
    seen = []

    class Combined(gw.autograd.Function):
        @staticmethod
        def forward(x: Any, others: Any, shape: Any) -> Any:
            return x * others["factor"][0] + others["term"]

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
            seen.append(in_dims)
            return Combined.apply(*args), 0

    def function(x: Any, y: Any) -> Any:
        return Combined.apply(x, {"factor": [y], "term": gw.ones(2)}, (2, None))

    x = gw.arange(6.0).reshape(3, 2)
    assert gw.vmap(function)(x, x + 1).tolist() == (x * (x + 1) + 1).tolist()
    assert seen == [(0, {"factor": [0], "term": None}, (None, None))]
    assert gw.vmap(lambda x: x * 2, out_dims=(1,))(x).tolist() == (x * 2).T.tolist()


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_changes_in_place_that_are_equal_for_all_samples(dim: int, chunk_size: int | None) -> None:
    found = []
    for library in (gw, torch):
        x: Any = library.arange(24.0).view(2, 3, 4)
        rows = x.clone()
        library.vmap(lambda a: a.fill_(3.0), dim, chunk_size=chunk_size)(rows)
        zeros = x.clone()
        out = library.vmap(lambda a: a.zero_(), dim, 1, chunk_size=chunk_size)(zeros)
        found.append((rows.tolist(), zeros.tolist(), tuple(out.shape)))
    assert found[0] == found[1]


def test_the_same_random_numbers_in_all_chunks() -> None:
    def run(**options: Any) -> list[Any]:
        gw.manual_seed(0)
        drawn = gw.vmap(lambda a: a + gw.rand(2), randomness="same", **options)(gw.zeros(5, 2))
        return [drawn.tolist(), gw.rand(1).item()]

    rows, after = run(chunk_size=2)
    assert rows == [rows[0]] * 5
    assert [rows, after] == run()


def test_one_hot_of_samples() -> None:
    found = []
    for library in (gw, torch):
        one_hot = library.nn.functional.one_hot
        classes = library.tensor([[1, 2, 0], [0, 3, 1]])
        found.append(library.vmap(lambda a, f=one_hot: f(a, 4), 1, 2)(classes).tolist())
    assert found[0] == found[1]
    with pytest.raises(gw.VmapError):
        gw.vmap(gw.nn.functional.one_hot)(gw.tensor([1, 2]))


WRITES = {
    "index_copy": lambda x, index, value: x.index_copy(0, index, value),
    "scatter": lambda x, index, value: x.scatter(0, index, value),
    "index_put": lambda x, index, value: x.index_put((index,), value),
    "put": lambda x, index, value: x.put(index, value),
    "index_fill": lambda x, index, value: x.index_fill(0, index, value.sum()),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("of_each", [(None, 0, None), (0, 0, None), (None, 0, 0), (0, 0, 0)])
def test_a_write_is_not_overwritten_by_those_of_other_samples(name: str, of_each: Any) -> None:
    weights = gw.tensor([1.0, 2.0, 3.0])  # the gradient that arrives is the same for all

    def loss(x: Any, index: Any, value: Any) -> Any:
        return (WRITES[name](x, index, value) * weights).sum()

    x, value = gw.arange(6.0).reshape(2, 3), gw.tensor([[10.0, 20.0], [30.0, 40.0]])
    index = gw.tensor([[0, 2], [0, 1]])
    given = [t if dim == 0 else t[0] for t, dim in zip((x, index, value), of_each, strict=True)]
    gradient = gw.grad(loss, argnums=(0, 2))
    found = gw.vmap(gradient, in_dims=of_each)(*given)
    for number in range(2):
        alone = [t[number] if dim == 0 else t for t, dim in zip(given, of_each, strict=True)]
        for ours, expected in zip(found, gradient(*alone), strict=True):
            assert ours[number].tolist() == expected.tolist()


RESHAPED = {
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "squeeze_": lambda x: x.squeeze_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "of equal lengths": lambda x: x[:, :, :2].squeeze(1).t_(),
    "with other numbers": lambda x: x.mul_(2).unsqueeze_(0).add_(1),
    "returned twice": lambda x: (x.swapaxes_(1, 2), x),
}


@pytest.mark.parametrize("name", RESHAPED)
def test_an_argument_that_gets_another_shape_in_place(name: str) -> None:
    found = []
    for m in (gw, torch):
        result = m.vmap(RESHAPED[name])(m.arange(12.0).reshape(2, 2, 1, 3))
        several = result if isinstance(result, tuple) else (result,)
        found.append([(tuple(each.shape), each.tolist()) for each in several])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "take",
    [
        lambda table, i, j: table[i, j],
        lambda table, i, j: table[i, :, j],
        lambda table, i, j: table[:, i, j],
        lambda table, i, j: table[i, None, j, 1],
        lambda table, i, j: table[..., i, j],
        lambda table, i, j: table[1, i, j],
        lambda table, i, j: table[i, [1, 0]],
        lambda table, i, j: table[:, [1, 0], j],
        lambda table, i, j: table[i, j, [1, 0]],
    ],
)
@pytest.mark.parametrize("in_dims", [(None, 0, 0), (None, 0, None)])
def test_an_index_of_several_batched_numbers(take: Any, in_dims: Any) -> None:
    found = []
    for library in (gw, torch):
        second = [1, 2] if in_dims[2] == 0 else 1
        table = library.arange(60.0).reshape(3, 4, 5)
        numbers = library.tensor([2, 0]), library.tensor(second)
        found.append(library.vmap(take, in_dims=in_dims)(table, *numbers).tolist())
    assert found[0] == found[1]


# -- numbers of each sample that used to be asked for ----------------------------------------------

ROWS = np.random.default_rng(0).normal(size=(3, 4, 5))
PLACES = np.random.default_rng(1).integers(0, 4, (3, 4, 5))
BY_NUMBERS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "quantile": (lambda m, x, q: m.quantile(x, q), (ROWS, [[0.1, 0.5], [0.2, 0.9], [0.0, 1.0]])),
    "nanquantile": (lambda m, x, q: m.nanquantile(x, q), (ROWS, [0.1, 0.5, 1.0])),
    "histc": (lambda m, x: m.histc(x, 6), (ROWS,)),
    "histc between": (lambda m, x: m.histc(x, 6, min=-1, max=1), (ROWS,)),
    "histogram": (lambda m, x, w: m.histogram(x, 5, weight=w)[0], (ROWS, abs(ROWS))),
    "edges": (lambda m, x: m.histogram(x, 5, density=True)[1], (ROWS,)),
    "scatter_reduce": (
        lambda m, x, i: m.scatter_reduce(x, 0, i, x.abs(), "prod"), (ROWS, PLACES),
    ),
    "index_reduce": (
        lambda m, x, i: m.index_reduce(x, 0, i, x, "prod", include_self=False),
        (ROWS, PLACES[:, 0, :4]),
    ),
    "multiply": (lambda m, x, i: m.scatter(x, 1, i, x, reduce="multiply"), (ROWS, PLACES)),
    "pinv": (lambda m, x, t: m.linalg.pinv(x, rtol=t), (ROWS, [0.1, 0.3, 0.5])),
    "cov": (lambda m, x, w: m.cov(x, fweights=w), (ROWS, PLACES[:, 0])),
    "lstsq": (lambda m, a: m.linalg.lstsq(a.mT, a.mT[:, :2], driver="gelss").residuals, (ROWS,)),
    "nonzero_static": (lambda m, x: m.nonzero_static(x > 0, size=9), (ROWS,)),
    "fractional_max_pool2d": (
        lambda m, x, s: m.nn.functional.fractional_max_pool2d(
            x[None, None], 2, output_size=(2, 3), _random_samples=s
        ),
        (ROWS, np.random.default_rng(2).random((3, 1, 1, 2))),
    ),
    "linspace": (lambda m, a, b: m.linspace(a, b, 5, dtype=m.float64), ([0.0, 1.0], [2.0, -3.0])),
    "logspace": (lambda m, a: m.logspace(a, 2, 4, dtype=m.float64), ([0.0, 1.0],)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:index_reduce", "ignore:The reduce argument")  # PyTorch's
@pytest.mark.parametrize("name", BY_NUMBERS)
def test_functions_whose_arguments_decide_as_pytorch_on_each_sample(name: str) -> None:
    function, arrays = BY_NUMBERS[name]
    found = gw.vmap(lambda *t: function(gw, *t))(*[gw.tensor(a) for a in map(np.asarray, arrays)])
    samples = zip(*[torch.tensor(a) for a in map(np.asarray, arrays)], strict=True)
    expected = torch.stack([function(torch, *sample) for sample in samples])
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-9)


def test_repeats_of_each_sample_need_the_size_of_the_result() -> None:
    rows, repeats = gw.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), gw.tensor([[1, 0, 3], [2, 1, 1]])
    found = gw.vmap(lambda x, n: gw.repeat_interleave(x, n, output_size=4))(rows, repeats)
    assert found.tolist() == [[1.0, 3.0, 3.0, 3.0], [4.0, 4.0, 5.0, 6.0]]
    with pytest.raises(gw.VmapError):
        gw.vmap(gw.repeat_interleave)(rows, repeats)


# -- draws by numbers of each sample ---------------------------------------------------------------


@pytest.mark.parametrize("draw", [gw.poisson, lambda a: gw.distributions.Gamma(a, 1.0).rsample()])
@pytest.mark.parametrize("tracked", [False, True])
def test_draws_by_numbers_of_each_sample(draw: Any, tracked: bool) -> None:
    means = gw.tensor([1.0, 100.0]).expand(300, 2).clone().requires_grad_(tracked)
    found = gw.vmap(draw, randomness="different")(means)
    assert np.allclose(found.mean(0).tolist(), [1.0, 100.0], rtol=0.3)
    assert len(set(found[:, 1].tolist())) > 30
    with pytest.raises(gw.VmapError, match="draws random numbers"):
        gw.vmap(draw)(means)
    with pytest.raises(gw.VmapError, match='randomness is "same"'):
        gw.vmap(draw, randomness="same")(means)
    shared = gw.vmap(lambda x, a: x * 0 + draw(a), (0, None), randomness="same")
    assert len(set(shared(gw.zeros(5), gw.tensor(50.0)).tolist())) == 1


def test_gamma_draws_pass_gradients_inside_and_outside_of_vmap() -> None:
    def draw(a: Any) -> Any:
        return gw.distributions.Gamma(a, 1.0).rsample()

    a = gw.full((500,), 3.0)
    inside = gw.vmap(gw.grad(draw), randomness="different")(a)
    outside = gw.grad(lambda a: gw.vmap(draw, randomness="different")(a).sum())(a)
    for gradient in (inside, outside):  # the mean of the draws is a
        assert abs(float(gradient.mean()) - 1) < 0.15
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        gw.vmap(gw.grad(gw.grad(draw)), randomness="different")(a)


# -- writes at indices -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # PyTorch's
@pytest.mark.parametrize("transform", ["jvp", "jacrev", "jacfwd"])
def test_the_last_write_wins_in_every_sample(transform: str) -> None:
    def both(m: Any) -> Any:
        def write(x: Any, values: Any, i: Any) -> Any:
            return m.index_copy(x, 0, i, values)

        def moved(x: Any, values: Any, i: Any) -> Any:
            if transform == "jvp":
                step = (x * 0.5, values * 0.1)
                return m.func.jvp(lambda x, v: write(x, v, i), (x, values), step)[1]
            return getattr(m.func, transform)(write, argnums=1)(x, values, i)

        x, values = m.ones(3, 4), m.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        return m.func.vmap(moved)(x, values, m.tensor([[0, 1], [1, 0], [2, 0]])).numpy()

    np.testing.assert_allclose(both(gw), both(torch))


@pytest.mark.parametrize("transform", [lambda f: f, lambda f: gw.grad(f)])
def test_no_samples_have_the_shape_of_results(transform: Any) -> None:
    loss = transform(lambda x, y: gw.cross_entropy(x, y))
    found = gw.vmap(loss)(gw.zeros(0, 2, 3), gw.zeros(0, 2).long())
    assert found.shape == (gw.vmap(loss)(gw.zeros(1, 2, 3), gw.zeros(1, 2).long())[:0]).shape
    assert gw.vmap(gw.nn.Conv2d(3, 4, 3))(gw.zeros(0, 2, 3, 8, 8)).shape == (0, 2, 4, 6, 6)


DRAWS: dict[str, Any] = {
    "bernoulli": lambda x: x.bernoulli_(0.3),
    "cauchy": lambda x: x.cauchy_(1.0, 2.0),
    "exponential": lambda x: x.exponential_(2.0),
    "geometric": lambda x: x.geometric_(0.3),
    "log_normal": lambda x: x.log_normal_(0.0, 0.5),
    "normal": lambda x: x.normal_(),
    "uniform": lambda x: x.uniform_(-1, 1),
}


@batched("name", DRAWS)
def test_draws_of_pytorchs_stream_are_pytorchs(name: str) -> None:
    for randomness in ("same", "different"):
        gw.manual_seed(3, like="torch")
        torch.manual_seed(3)
        ours = gw.func.vmap(DRAWS[name], randomness=randomness)(gw.zeros(3, 7))
        theirs = torch.func.vmap(DRAWS[name], randomness=randomness)(torch.zeros(3, 7))
        gw.manual_seed(0, like="gradwalk")
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)
