"""Random numbers in compiled functions: the same as eager code draws, by native code.

Everything but logarithms and angles must be equal to the last bit: whatever a draw is fused with,
however many threads there are, wherever a vector begins, and so must what is drawn afterwards.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.compiler.backends import numpy as reference
from gradwalk.compiler.backends.llvm.kernels.loops import loops_kernel
from gradwalk.compiler.backends.llvm.kernels.rows import Rows
from gradwalk.compiler.ir import compiler_ops
from gradwalk.compiler.passes.masks import choose_by_masks
from gradwalk.compiler.plan.loop_nest import Loops, Sample
from gradwalk.engine.checkpoint import checkpoint
from gradwalk.random.generator import default_generator
from gradwalk.random.philox import PhiloxStream
from tests.compiler.programs import Written, assert_same_bits, plan_of
from tests.compiler.shares import run_shares

F = nn.functional
SIZES = [0, 1, 7, 17, 100003]
FLOATS = [gw.float32, gw.float64]
Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = gw.get_num_threads()
    yield
    gw.set_num_threads(before)


def arrays(found: Any) -> list[Any]:
    several = found if isinstance(found, (tuple, list)) else [found]
    return [t.detach().numpy().copy() for t in several]


def outcomes(run: Function, *given: Any, calls: int = 2, seed: int = 7, offset: int = 0) -> Any:
    """What some calls give, what eager code draws between and after them, and the state."""
    gw.manual_seed(seed)
    default_generator._stream.move_to(offset)  # type: ignore[union-attr]
    found = []
    for _ in range(calls):
        found += [*arrays(run(*given)), gw.rand(3).numpy()]
    return found, gw.get_rng_state()


def natively(function: Function, threads: int = 1) -> Function:
    """The compiled function; an op that NumPy has to run is an error."""
    gw.set_num_threads(threads)
    compiled = gw.compile(function, backend="llvm")

    def run(*given: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".* native kernel")
            return compiled(*given)

    return run


def agree(
    function: Function,
    *given: Any,
    threads: int = 1,
    ulp: int = 0,
    rtol: float = 0.0,
    **start: int,
) -> None:
    """Compiled and eager calls give the same, and leave the generator the same."""
    expected, state = outcomes(function, *given, **start)
    found, state_found = outcomes(natively(function, threads), *given, **start)
    assert state_found == state
    for got, want in zip(found, expected, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if rtol:
            np.testing.assert_allclose(got, want, rtol, rtol)
        elif ulp and want.size:
            np.testing.assert_array_max_ulp(got, want, ulp)
        else:
            np.testing.assert_array_equal(got, want)


# -- every draw ------------------------------------------------------------------------------------


def integers(n: int, dtype: Any) -> Any:
    """Of ranges below and above 2³², and of all that int64 holds."""
    wide = gw.randint(-(2**40), 2**41, (n,)), gw.randint(-(2**63), 2**63 - 1, (n,))
    whole = gw.zeros(n, dtype=gw.int64).random_(-(2**63), 2**63)  # 2⁶⁴ of them
    return gw.randint(7, (n,), dtype=dtype), *wide, whole


EXACT: dict[str, Function] = {
    "rand": lambda n, dtype: gw.rand(n, dtype=dtype),
    "uniform_": lambda n, dtype: gw.empty(n, dtype=dtype).uniform_(-0.3, 7.1),
    "bernoulli_": lambda n, dtype: gw.empty(n, dtype=dtype).bernoulli_(0.3),
    "certain": lambda n, dtype: gw.stack([gw.empty(n).bernoulli_(p) for p in (0.0, 1.0, 2**-32)]),
    "bernoulli": lambda n, dtype: gw.bernoulli(gw.arange(n, dtype=dtype) / max(n, 1)),
    "dropout": lambda n, dtype: F.dropout(gw.ones(n, dtype=dtype), 0.1),
    "alpha_dropout": lambda n, dtype: F.alpha_dropout(gw.ones(n, dtype=dtype), 0.1, True),
    "randint": integers,
}
ROUNDED: dict[str, Function] = {
    "randn": lambda n, dtype: gw.randn(n, dtype=dtype),
    "scaled": lambda n, dtype: gw.empty(n, dtype=dtype).normal_(0.0, 0.3),
    "exponential_": lambda n, dtype: gw.empty(n, dtype=dtype).exponential_(),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_equal_to_the_last_bit(name: str, dtype: Any) -> None:
    for size in SIZES:
        agree(lambda n=size: EXACT[name](n, dtype), threads=1 + size % 2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ROUNDED)
def test_logarithms_and_angles(name: str, dtype: Any) -> None:
    """Ours of log, sin and cos are 1 to 2 ulp off, NumPy's in float32 up to 4."""
    for size in SIZES:
        agree(lambda n=size: ROUNDED[name](n, dtype), threads=1 + size % 2, ulp=6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_mean_of_a_normal(dtype: Any) -> None:
    agree(lambda: gw.empty(1001, dtype=dtype).normal_(3.0, 0.1), rtol=2 * gw.finfo(dtype).eps)


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1, 2**63, 2**64 - 1, -1, -(2**63)])
@pytest.mark.parametrize("offset", [0, 2**32 - 3, 2**63 - 3, 2**64 - 100])
def test_seeds_and_offsets(seed: int, offset: int) -> None:
    """Also where the number of a block grows out of 32 bits, and of a signed 64."""
    function = natively(lambda: (gw.rand(100), gw.randint(2**62, (9,)), gw.rand(1)))
    expected, state = outcomes(
        lambda: (gw.rand(100), gw.randint(2**62, (9,)), gw.rand(1)), seed=seed, offset=offset
    )
    found, state_found = outcomes(function, seed=seed, offset=offset)
    assert state_found == state
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_threads_change_nothing() -> None:
    def function() -> Any:
        return gw.randn(100003), F.dropout(gw.ones(1001, 77), 0.3), gw.randn(1001, 77).sum(1)

    one, two = (outcomes(natively(function, threads)) for threads in (1, 2))
    assert one[1] == two[1]
    for a, b in zip(one[0], two[0], strict=True):
        np.testing.assert_array_equal(a, b)


def test_fast_math_draws_the_same() -> None:
    def function() -> Any:
        return gw.rand(1001), F.dropout(gw.ones(1001), 0.3), gw.randint(99, (1001,))

    np.testing.assert_equal(outcomes(gw.compile(function, fast_math=True)), outcomes(function))


def test_a_generator_of_ones_own() -> None:
    own, other = gw.Generator(), gw.Generator()

    def function() -> Any:
        return gw.rand(9, generator=own), gw.rand(9, generator=other), gw.rand(9)

    found = []
    for run in (function, natively(function)):
        own.manual_seed(3)
        other.manual_seed(4)
        found.append([*outcomes(run)[0], own.get_state(), other.get_state()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_equal(a, b)


def test_an_order_is_drawn_in_numpy() -> None:
    with pytest.warns(UserWarning, match="random_permutation"):
        found = outcomes(gw.compile(lambda: gw.randperm(50) + gw.randint(9, (50,))))
    expected = outcomes(lambda: gw.randperm(50) + gw.randint(9, (50,)))
    np.testing.assert_equal(found, expected)


# -- fused -----------------------------------------------------------------------------------------
# Where vectors begin in the draw depends on the loops: in rows of odd lengths anywhere, and with
# another array transposed neighbouring lanes may be far apart.

WIDTHS = [1, 3, 8, 10, 17, 24, 100]


def whole(*shape: int) -> Any:
    return gw.tensor(np.random.default_rng(3).integers(-4, 5, shape).astype(np.float32))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_fused_with_maps(width: int, dtype: Any) -> None:
    x, row, column = whole(13, width), whole(width), whole(13, 1)

    def function(x: Any, row: Any, column: Any) -> Any:
        shifted = x + row + gw.rand(13, width, dtype=dtype) * column
        turned = x.T * gw.rand(width, 13, dtype=dtype)
        written = (x + gw.rand(13, width, dtype=dtype)).T.reshape(-1)
        spread = gw.rand(13, 1, dtype=dtype) * x, gw.rand(width) * x, gw.rand(()) + x
        return shifted, turned, written, *spread, gw.randint(-3, 4, (13, width)) + x

    agree(function, x, row, column)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_normals_fused_with_maps(width: int, dtype: Any) -> None:
    x, row = whole(13, width), whole(width)

    def function(x: Any, row: Any) -> Any:
        return x + row + gw.randn(13, width, dtype=dtype), x.T * gw.randn(width, 13, dtype=dtype)

    agree(function, x, row, rtol=1e-5 if dtype == gw.float32 else 1e-13)


@pytest.mark.parametrize("width", WIDTHS)
def test_fused_with_reductions(width: int) -> None:
    x = whole(13, width)

    def function(x: Any) -> Any:
        both = x + gw.randint(-3, 4, (13, width))
        kept = F.dropout(x, 0.5)
        after = x - x.sum(1, keepdim=True) * gw.empty(13, 1).bernoulli_(0.5)
        sums = both.sum(1), both.sum(0), both.sum(), kept.amax(1), kept.sum((0, 1))
        return *sums, both, after, gw.bernoulli((x + 4) / 8).sum(1), x + kept.sum(1, keepdim=True)

    agree(function, x)


@pytest.mark.parametrize("width", [8, 10, 100, 5000])
def test_fused_with_norms_and_softmax(width: int) -> None:
    """In several passes over the row; one of 5,000 is too long to keep, and is drawn again."""
    x = whole(5, width)

    def function(x: Any) -> Any:
        kept = x + F.dropout(x, 0.3)
        weights = F.dropout(F.softmax(x, -1), 0.3)
        return F.layer_norm(kept, (width,)), weights, weights @ x.T, F.dropout(x @ x.T, 0.3)

    agree(function, x, rtol=1e-5)


def test_mixed_dtypes() -> None:
    """Lanes are as many as the widest dtype of a kernel allows."""
    x = whole(9, 40)

    def function(x: Any) -> Any:
        bits = gw.bernoulli(gw.full((9, 40), 0.5)).to(gw.uint8)
        both = F.dropout(x, 0.3) + gw.rand(9, 40, dtype=gw.float64)
        return bits, both, gw.randint(0, 2, (9, 40), dtype=gw.uint8), gw.rand(77) < 0.5

    agree(function, x)


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(301,), (7, 24), (7, 25)], ids=str)
def test_vectors_of_every_width(shape: Any, dtype: Any, vector_bytes: int) -> None:
    """The kernels of other machines, run on this one; as three threads would."""
    w = Written()
    state = w.memory(np.array([-5, 2**32 - 1]))
    column = w.argument(np.ones((*shape[:-1], 1), dtype))  # keeps rows apart
    attrs = {"skip": 3, "shape": shape, "dtype": dtype}
    uniform = w.build.apply(
        compiler_ops.random_uniform, [state], {**attrs, "low": 0.0, "high": 1.0}
    )
    normal = w.build.apply(compiler_ops.random_normal, [state], {**attrs, "mean": 0.0, "std": 1.0})
    w.returns(w.add("mul", uniform, column), w.add("mul", normal, column))
    found = plan_of(w.program)
    given = {slot: array for (_, slot), array in zip(found.memories, w.memories, strict=True)}
    given |= {slot: array for (_, slot), array in zip(found.arguments, w.arguments, strict=True)}
    results = [np.zeros(shape, dtype) for _ in found.results]
    given |= {slot: array for (_, slot), array in zip(found.results, results, strict=True)}
    for entry in found.entries:
        assert isinstance(entry.work, Loops)
        kernel = loops_kernel(Rows, entry.work, vector_bytes)
        assert run_shares(kernel, [given[place.buffer.slot] for place in entry.operands], 3) == 0
    stream = PhiloxStream(2**64 - 5, 2**32 + 2)
    np.testing.assert_array_equal(results[0], stream.uniform(shape, dtype))
    expected = PhiloxStream(2**64 - 5, 2**32 + 2).normal(shape, dtype)
    np.testing.assert_array_max_ulp(results[1], expected, 6)


def test_draws_of_one_structure_share_their_code() -> None:
    compiled = gw.compile(lambda *xs: [F.dropout(x, 0.1) for x in xs], backend="llvm")
    compiled(*(gw.ones(n) for n in (100, 7, 33, 100)))
    (variant,) = next(iter(compiled.specializations.values()))
    executable: Any = variant.executable
    drawing = [
        kernel.name
        for entry, kernel in zip(executable.plan.entries, executable.kernels, strict=True)
        if isinstance(entry.work, Loops) and any(isinstance(s, Sample) for s in entry.work.steps)
    ]
    assert len(drawing) == 4 and len(set(drawing)) == 1


# -- in programs -----------------------------------------------------------------------------------


def test_draws_in_a_loop_and_in_a_checkpoint() -> None:
    """A checkpointed region draws again in backward what it drew in forward."""
    x = whole(6, 11)

    def function(x: Any) -> Any:
        x = x.detach().requires_grad_()
        total = x
        for _ in range(3):
            total = total * gw.rand(6, 11) + checkpoint(lambda t: F.dropout(t * t, 0.5), total)
        total.sum().backward()
        return total.detach(), x.grad

    agree(function, x, rtol=1e-5)


def test_shapes_that_change() -> None:
    """A draw of another size takes another number of blocks, and the next one begins after it."""

    def function(x: Any) -> Any:
        return F.dropout(x, 0.3), gw.rand_like(x)

    batches = [whole(n, 5) for n in (4, 7, 1, 4, 0, 9)]
    found = []
    for run in (function, natively(function)):
        gw.manual_seed(5)
        found.append([a for x in batches for a in arrays(run(x))])
    for got, want in zip(*found, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_state_of_the_shape_of_its_draw() -> None:
    """rand(2) reads both numbers of the state, which the same call updates."""
    agree(lambda: gw.rand(2), calls=3)
    agree(lambda: (gw.rand(2, dtype=gw.float64), gw.randint(99, (2,))), calls=3)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Dropout, (6, 17)),
        (nn.AlphaDropout, (6, 17)),
        (nn.Dropout1d, (3, 5, 7)),
        (nn.Dropout2d, (3, 5, 7, 2)),
        (nn.Dropout3d, (3, 5, 4, 3, 2)),
    ],
)
@pytest.mark.parametrize("inplace", [False, True])
def test_layers_and_their_gradients(layer: Any, shape: Any, inplace: bool) -> None:
    x, drop = whole(*shape), layer(0.4, inplace=inplace)

    def function(x: Any) -> Any:
        x = x.detach().requires_grad_()
        y = drop(x * 2)
        (y * y).sum().backward()
        return y.detach(), x.grad

    agree(function, x, rtol=1e-6)
    drop.eval()
    agree(function, x)


def transformer() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 4, 24, dropout=0.2, batch_first=True)


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(16, 33), nn.Tanh(), nn.Dropout(0.3), nn.Linear(33, 16), nn.AlphaDropout(0.2)
    )


def lstm() -> nn.Module:
    class Sequence(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(16, 16, num_layers=2, dropout=0.4, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0]

    return Sequence()


@pytest.mark.parametrize("make", [mlp, transformer, lstm])
@pytest.mark.parametrize("threads", [1, 2])
def test_training_follows_the_same_curve(make: Function, threads: int) -> None:
    x, y = whole(5, 9, 16) / 4, whole(5, 9, 16) / 4

    def losses(use: Function) -> list[float]:
        gw.manual_seed(11)
        model = make()
        optimizer = gw.optim.Adam(model.parameters(), lr=0.01)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = ((model(x + 0.1 * gw.randn_like(x)) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = use(step)
        return [run(x, y).item() for _ in range(12)] + [gw.rand(()).item()]

    expected, found = losses(lambda f: f), losses(lambda f: natively(f, threads))
    np.testing.assert_allclose(found, expected, 2e-4)
    assert found[-1] == expected[-1]  # what eager code draws afterwards


# -- masks -----------------------------------------------------------------------------------------


def dropped(w: Written, shape: Any) -> tuple[Any, Any]:
    """A drawn truth value, and what dropout makes of it."""
    state = w.memory(np.array([3, 0]))
    drawn = w.build.apply(
        compiler_ops.random_bernoulli, [state], {"skip": 0, "shape": shape, "p": 0.9}
    )
    mask = w.add("cast", drawn, dtype=np.dtype(np.float32))
    return drawn, w.add("div", mask, w.constant(np.float32(0.9)))


def test_masks_are_chosen_where_they_are_used() -> None:
    w = Written()
    x = w.argument(np.float32([np.nan, np.inf, -1.0, -0.0, 5.0]))
    _, mask = dropped(w, (5,))
    w.returns(w.add("mul", x, mask), w.add("add", x, w.add("sub", 1.0, mask)), mask)
    program = choose_by_masks(w.program)
    (first, second, third) = program.results
    for term in (first, second):  # the third, a result, has to be an array
        choices = [t.call for t in term.call.terms if t.call is not None]  # type: ignore[union-attr]
        assert [call.op.name for call in choices] == ["where"]
    assert third.call is not None and third.call.op.name == "div"
    assert_same_bits(w.outcome(reference.NumpyExecutable(program)), w.expected())
    untouched = Written().returns(w.argument(np.ones(3))).program
    assert choose_by_masks(untouched) is untouched


def test_what_backward_remembers_of_dropout_is_bytes() -> None:
    weight = whole(40, 40).requires_grad_()

    def function(x: Any) -> Any:
        weight.grad = None
        (F.dropout(gw.tanh(x @ weight), 0.5) @ weight).square().sum().backward()
        return weight.grad

    compiled = gw.compile(function, backend="llvm")
    compiled(whole(30, 40))
    (variant,) = next(iter(compiled.specializations.values()))
    executable: Any = variant.executable
    (drawing,) = (
        entry
        for entry in executable.plan.entries
        if any(call.op is compiler_ops.random_bernoulli for call in entry.calls)
    )
    (mask,) = (c.outputs[0] for c in drawing.calls if c.op is compiler_ops.random_bernoulli)
    kept = {t: place for t, place in drawing.terms.items() if place in drawing.writes}
    assert mask in kept and kept[mask].dtype == np.bool_
    made_of_it = {c.outputs[0] for c in drawing.calls if c.op.name == "where"}
    assert made_of_it and not made_of_it & kept.keys()
