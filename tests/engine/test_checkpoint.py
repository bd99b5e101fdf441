"""checkpoint: the same gradients from less memory, or an error that says why not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import gradwalk as gw

WEIGHTS = np.random.default_rng(0).normal(size=(4, 4))


def weight() -> gw.Tensor:
    return gw.tensor(WEIGHTS, requires_grad=True)


def start() -> gw.Tensor:
    return gw.tensor([[0.1, -0.2, 0.3, 0.4], [0.5, 0.6, -0.7, 0.8]], dtype=gw.float64,
                     requires_grad=True)  # fmt: skip


def plainly(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    return function(*args, **keywords)


Run = Callable[..., Any]


# -- the same gradients --------------------------------------------------------------------------


def a_layer(run: Run, x: Any, w: Any) -> Any:
    return run(lambda t: (t @ w).tanh(), x)


def an_argument(run: Run, x: Any, w: Any) -> Any:
    return run(lambda t, v: (t @ v).tanh() * t, x, w)


def keywords(run: Run, x: Any, w: Any) -> Any:
    return run(lambda t, *, v, scale: (t @ v).exp() * scale, x, v=w, scale=0.5)


def containers(run: Run, x: Any, w: Any) -> Any:
    found = run(lambda d, pair: {"out": d["x"] @ pair[0] * pair[1]}, {"x": x}, (w, 2.0))
    return found["out"].sin()


def several_results(run: Run, x: Any, w: Any) -> Any:
    one, other = run(lambda t: ((t @ w).tanh(), t.exp()), x)
    return one * other


def one_result_unused(run: Run, x: Any, w: Any) -> Any:
    return run(lambda t: ((t @ w).tanh(), t.exp()), x)[0]


def one_after_the_other(run: Run, x: Any, w: Any) -> Any:
    for _ in range(3):
        x = run(lambda t: (t @ w).tanh(), x)
    return x


def nested(run: Run, x: Any, w: Any) -> Any:
    inner = lambda t: (t @ w).sin()
    return run(lambda t: run(inner, run(inner, t.tanh()) * t).exp(), x)


def three_deep(run: Run, x: Any, w: Any) -> Any:
    one = lambda t: (t @ w).sin()
    two = lambda t: run(one, t) * t
    return run(lambda t: run(two, t.tanh()), x)


def changes_inside(run: Run, x: Any, w: Any) -> Any:
    def inside(t: Any) -> Any:
        h = t @ w
        h += 1
        h[0] *= t[1]
        g = h * h
        g.tanh_()
        return g * h

    return run(inside, x)


def pieces_inside(run: Run, x: Any, w: Any) -> Any:
    def inside(t: Any) -> Any:
        one, other = (t @ w).split(2, 1)
        return one.max(1)[0] * other.softmax(1).sum(1) + gw.cat([one, other], 1).var(1)

    return run(inside, x)


def a_result_changed_later(run: Run, x: Any, w: Any) -> Any:
    h = run(lambda t: (t @ w).sin(), x)
    h *= 2
    return h


def of_something_flat(run: Run, x: Any, w: Any) -> Any:
    return run(lambda t: (t @ w).tanh(), gw.ones(2, 4, dtype=gw.float64)) * x


REGIONS = [
    a_layer, an_argument, keywords, containers, several_results, one_result_unused,
    one_after_the_other, nested, three_deep, changes_inside, pieces_inside,
    a_result_changed_later, of_something_flat,
]  # fmt: skip


def numbers(tensors: Any) -> list[Any]:
    return [t.tolist() for t in tensors]


def by_backward(region: Any, run: Run) -> Any:
    x, w = start(), weight()
    region(run, x * 1, w).sum().backward()
    return numbers([x.grad, w.grad])


def by_grad(region: Any, run: Run) -> Any:
    x, w = start(), weight()
    return numbers(gw.autograd.grad(region(run, x * 1, w).sum(), [x, w]))


def by_one_input(region: Any, run: Run) -> Any:
    x, w = start(), weight()
    out = region(run, x * 1, w).sum()
    return numbers([gw.autograd.grad(out, w, retain_graph=True)[0], *gw.autograd.grad(out, [x])])


def retained(region: Any, run: Run) -> Any:
    x, w = start(), weight()
    out = region(run, x * 1, w).sum()
    out.backward(retain_graph=True)
    out.backward()
    return numbers([x.grad, w.grad])


def by_second_derivatives(region: Any, run: Run) -> Any:
    x, w = start(), weight()
    gradients = gw.autograd.grad(region(run, x * 1, w).sum(), [x, w], create_graph=True)
    total = sum((g * g).sum() for g in gradients)
    return numbers(gw.autograd.grad(total, [x, w]))


def by_forward_mode(region: Any, run: Run) -> Any:
    x, w = start().detach(), weight().detach()
    return numbers(gw.jvp(lambda x, w: region(run, x, w), (x, w), (x * 2, w * 3)))


def by_transform(region: Any, run: Run) -> Any:
    x, w = start().detach(), weight().detach()
    function = lambda x, w: region(run, x, w).sum()
    return numbers(gw.grad(function, (0, 1))(x, w)), gw.hvp(function, (x, w), (w[:2], w))[
        0
    ].tolist()


WAYS = [
    by_backward, by_grad, by_one_input, retained, by_second_derivatives, by_forward_mode,
    by_transform,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("region", REGIONS, ids=lambda r: r.__name__)
def test_the_same_as_without(region: Callable[..., Any], way: Callable[..., Any]) -> None:
    assert way(region, gw.checkpoint) == way(region, plainly)


def test_inside_no_grad_it_is_a_plain_call() -> None:
    calls = []
    with gw.no_grad():
        out = gw.checkpoint(lambda t: (calls.append(1), t * 2)[1], start())
    assert not out.requires_grad and calls == [1]


def test_it_runs_once_more_and_only_if_needed() -> None:
    calls = []

    def counted(t: Any) -> Any:
        calls.append(1)
        return (t * 2).tanh().exp()

    x = start()
    out = gw.checkpoint(counted, x)
    gw.checkpoint(counted, x)  # nobody asks
    assert len(calls) == 2
    out.sum().backward()
    assert len(calls) == 3
    gw.checkpoint(lambda t: (calls.append(1), t + 1)[1], x).sum().backward()
    assert len(calls) == 4  # nothing was saved, so there is nothing to compute again


# -- less memory ---------------------------------------------------------------------------------


def test_saved_bytes_fall_to_the_arguments_of_the_regions() -> None:
    layers, every = 20, 4
    x = gw.zeros(50, 64)
    weights = [gw.zeros(64, 64, requires_grad=True) for _ in range(layers)]

    def block(t: Any, first: int) -> Any:
        for w in weights[first : first + every]:
            t = (t @ w).tanh()
        return t

    def loss(run: Run) -> Any:
        t = x
        for first in range(0, layers, every):
            t = run(block, t, first)
        return t.sum()

    # The data x, and of every tanh its output, which is the next layer's input as well.
    assert gw.saved_bytes(loss(plainly)) == (1 + layers) * x.nbytes
    # The argument of every region.
    assert gw.saved_bytes(loss(gw.checkpoint)) == (layers // every) * x.nbytes


# -- randomness ----------------------------------------------------------------------------------


def dropout(draw: Callable[[tuple[int, ...]], Any]) -> Callable[..., Any]:
    return lambda t: t.exp() * (gw.as_tensor(np.asarray(draw(t.shape))) > 0.5) * 2


DRAWS: dict[str, Callable[[tuple[int, ...]], Any]] = {
    "gradwalk": lambda shape: gw.rand(*shape).numpy(),
    "np.random": lambda shape: np.random.rand(*shape),
    "random": lambda shape: [[random.random() for _ in range(shape[1])] for _ in range(shape[0])],
}


def seeded(seed: int) -> None:
    gw.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def next_draws() -> list[float]:
    return [gw.rand(1).item(), float(np.random.rand()), random.random()]


@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "nested"])
@pytest.mark.parametrize("source", DRAWS)
def test_random_numbers_are_drawn_again_and_the_stream_goes_on(source: str, wrapped: bool) -> None:
    inside = dropout(DRAWS[source])

    def outcome(run: Run) -> list[Any]:
        seeded(3)
        x = start()
        region = (lambda t: run(inside, run(inside, t) * 0.1)) if wrapped else inside
        out = run(region, x * 1) + run(region, x * 1)
        before = next_draws()
        out.sum().backward()
        return [out.tolist(), x.grad.tolist(), before, next_draws()]

    assert outcome(plainly) == outcome(gw.checkpoint)


@pytest.mark.parametrize(
    "generator",
    [
        lambda: np.random.default_rng(0).random,
        lambda: lambda shape: gw.rand(*shape, generator=gw_generator).numpy(),
    ],
)
def test_a_generator_that_is_not_restored_is_noticed(generator: Callable[..., Any]) -> None:
    x = start()
    out = gw.checkpoint(dropout(generator()), x)
    with pytest.raises(
        gw.AutogradError, match=r"(?s)different numbers.*test_checkpoint\.py.*generator"
    ):
        out.sum().backward()


gw_generator = gw.Generator().manual_seed(0)


# -- what is caught ------------------------------------------------------------------------------


def test_an_argument_changed_before_backward() -> None:
    x = start()
    h = x * 1
    h.label = "hidden"
    out = gw.checkpoint(lambda t: (t + 1).tanh(), h).sum()
    h.add_(1)
    with pytest.raises(gw.AutogradError) as caught:
        out.backward()
    text = str(caught.value)
    assert "tensor 'hidden' of shape (2, 4)" in text and "h.add_(1)" in text
    assert "gw.checkpoint(lambda t: (t + 1).tanh(), h)" in text and "Fix:" in text


def test_a_parameter_updated_before_backward() -> None:
    w = weight()
    out = gw.checkpoint(lambda t: (t @ w).tanh(), start()).sum()
    with gw.no_grad():
        w.sub_(0.1)
    with pytest.raises(gw.AutogradError, match=r"(?s)modified in place.*w\.sub_\(0\.1\)"):
        out.backward()


def test_a_captured_result_changed_before_backward() -> None:
    h = weight() * 1
    out = gw.checkpoint(lambda t: (t @ h).tanh(), start()).sum()
    h.mul_(2)
    with pytest.raises(gw.AutogradError, match=r"(?s)modified in place.*h\.mul_\(2\)"):
        out.backward()


def test_a_captured_constant_changed_before_backward() -> None:
    shift = gw.ones(4, dtype=gw.float64)
    out = gw.checkpoint(lambda t: (t + shift).tanh(), start()).sum()
    shift.mul_(2)
    with pytest.raises(gw.AutogradError, match=r"different numbers|modified in place"):
        out.backward()


def test_an_argument_changed_by_the_function_itself() -> None:
    out = gw.checkpoint(lambda t: t.mul_(2).tanh(), start() * 1).sum()
    with pytest.raises(gw.AutogradError, match="modified in place"):
        out.backward()


class Growing:
    """Gives another shape, another op or more ops the second time."""

    def __init__(self, *functions: Callable[..., Any]) -> None:
        self.functions = list(functions)

    def __call__(self, t: Any) -> Any:
        return self.functions.pop(0)(t)


DIFFERENT = {
    "shape": (
        lambda t: t.exp().sum(),
        lambda t: t[:1].exp().sum(),
        r"exp gave \(2, 4\) the first time, now getitem gives \(1, 4\)",
    ),
    "op": (lambda t: t.exp(), lambda t: t.sin(), r"exp gave \(2, 4\).*now sin gives \(2, 4\)"),
    "more": (lambda t: t.exp(), lambda t: t.exp() * t, r"1 operations.*and 2"),
    "fewer": (lambda t: t.exp() * t, lambda t: t.exp(), r"2 operations.*and 1"),
    "number": (lambda t: t.exp() * 2.0, lambda t: t.exp() * 3.0, "different numbers"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_function_that_does_something_else_the_second_time(name: str) -> None:
    first, second, message = DIFFERENT[name]
    out = gw.checkpoint(Growing(first, second), start())
    with pytest.raises(gw.AutogradError, match=f"(?s){message}") as caught:
        out.sum().backward()
    text = str(caught.value)
    assert "out = gw.checkpoint(Growing(first, second), start())" in text and "Fix:" in text
    if name in ("shape", "op"):
        assert "test_checkpoint.py" in text and "lambda t:" in text  # the line of the op itself


def test_an_error_leaves_the_random_state_and_the_graph_alone() -> None:
    seeded(1)
    expected = next_draws()
    seeded(1)
    x = start()
    out = gw.checkpoint(Growing(lambda t: t.exp(), lambda t: 1 / 0), x)
    with pytest.raises(ZeroDivisionError):
        out.sum().backward()
    assert next_draws() == expected
    (x * x).sum().backward()
    assert x.grad.tolist() == (2 * x).tolist()


def test_pytorchs_options_are_not_given_to_the_function() -> None:
    entered: list[str] = []

    @contextmanager
    def entering(name: str) -> Iterator[None]:
        entered.append(name)
        yield

    for options in (
        {"preserve_rng_state": False, "use_reentrant": False},
        {"determinism_check": "none", "debug": False, "early_stop": False},
        {"context_fn": lambda: (entering("first"), entering("again"))},
    ):
        x = start()
        gw.utils.checkpoint.checkpoint(
            lambda t, by: (t * by).exp(), x, by=2, **options
        ).sum().backward()
        assert x.grad.tolist() == (2 * (2 * x).exp()).tolist(), options
    assert entered == ["first", "again"]
    x = start()
    changing = Growing(lambda t: t.exp() * 2.0, lambda t: t.exp() * 3.0)
    gw.checkpoint(changing, x, determinism_check="none").sum().backward()
    assert x.grad.tolist() == (3 * x.exp()).tolist()
    with pytest.raises(ValueError, match="'default' or 'none'"):
        gw.checkpoint(lambda t: t, x, determinism_check="some")
