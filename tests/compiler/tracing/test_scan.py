"""Recurrent layers in a trace: a loop that does not grow with the sequence, equal to eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.autograd import grad
from gradwalk.compiler.ir.loops import loop
from gradwalk.compiler.tracing import differences
from gradwalk.compiler.tracing.trace_function import trace
from gradwalk.ops.network.recurrent import scan
from gradwalk.utils.checkpoint import checkpoint

LAYERS: dict[str, Callable[[], Any]] = {
    "lstm": lambda: nn.LSTM(3, 4),
    "gru": lambda: nn.GRU(3, 4),
    "tanh": lambda: nn.RNN(3, 4),
    "relu": lambda: nn.RNN(3, 4, nonlinearity="relu"),
    "no bias": lambda: nn.GRU(3, 4, bias=False),
    "deep": lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True),
    "deep gru": lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True, batch_first=True),
    "projected": lambda: nn.LSTM(3, 5, proj_size=2, bidirectional=True),
}


def layer(name: str = "lstm") -> Any:
    gw.manual_seed(1)
    return LAYERS[name]().to(gw.float64)


def sequence(*shape: int) -> Any:
    return gw.randn(*shape, dtype=gw.float64, generator=gw.Generator().manual_seed(2))


def flat(things: Any) -> list[Any]:
    if isinstance(things, (tuple, list)):
        return [each for thing in things for each in flat(thing)]
    return [things.detach().numpy()]


def same(function: Callable[..., Any], *args: Any, backend: str = "llvm") -> Any:
    """Compare a compiled function with itself; return it compiled."""
    compiled = gw.compile(function, backend=backend)
    expected = flat(function(*args))
    for _ in range(2):
        for one, other in zip(flat(compiled(*args)), expected, strict=True):
            np.testing.assert_allclose(one, other, 1e-9, 1e-12)
    return compiled


def loss_of(results: Any) -> Any:
    return sum((k + 1) * (part * part).sum() for k, part in enumerate(_tensors(results)))


def _tensors(things: Any) -> list[Any]:
    return (
        [t for thing in things for t in _tensors(thing)] if isinstance(things, tuple) else [things]
    )


def loops(compiled: Any) -> list[Any]:
    return [call for call in compiled.newest.trace.program.calls if call.op is loop]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    ("shape", "backend"),
    [((1, 2, 3), "llvm"), ((2, 1, 3), "llvm"), ((5, 3), "llvm"), ((5, 2, 3), "numpy")],
)
def test_gradients_of_everything(name: str, shape: tuple[int, ...], backend: str) -> None:
    module = layer(name)

    def gradients(x: Any) -> Any:
        x = x.detach().requires_grad_()
        results = module(x)
        return results, grad(loss_of(results), [x, *module.parameters()])

    same(gradients, sequence(*shape), backend=backend)


@pytest.mark.parametrize("name", LAYERS)
def test_the_program_does_not_grow(name: str) -> None:
    module = layer(name)

    @gw.compile
    def gradients(x: Any) -> Any:
        return grad(loss_of(module(x)), list(module.parameters()))

    sizes = []
    for steps in (5, 50):
        x = sequence(steps, steps, 3)  # with either of them first
        gradients(x)
        (program,) = gradients.explain().programs
        sizes.append((len(gradients.newest.trace.program.calls), program.calls))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("name", ["lstm", "gru", "tanh", "relu", "projected"])
def test_second_derivatives(name: str) -> None:
    module = layer(name)

    def second(x: Any) -> Any:
        x = x.detach().requires_grad_()
        (first,) = grad((module(x)[0] ** 2).sum(), [x], create_graph=True)
        return grad((first * first).sum(), list(module.parameters()), allow_unused=False)

    same(second, sequence(4, 2, 3))


def test_forward_mode() -> None:
    module = layer("gru")

    def tangent(x: Any, v: Any) -> Any:
        return gw.jvp(lambda x: module(x)[0], (x,), (v,))

    same(tangent, sequence(4, 2, 3), sequence(4, 2, 3))


@pytest.mark.parametrize("needed", ["weight_ih_l0", "weight_hh_l0", "bias_hh_l0"])
def test_one_gradient_of_the_last_cell(needed: str) -> None:
    module = layer()
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name == needed)

    def gradient(x: Any) -> Any:
        _, (_, c) = module(x)
        return grad((c * c).sum(), [getattr(module, needed)])

    same(gradient, sequence(5, 2, 3))


def test_gradients_of_given_states() -> None:
    module = layer("deep")

    def gradients(x: Any, h: Any, c: Any) -> Any:
        h, c = h.detach().requires_grad_(), c.detach().requires_grad_()
        out, (_, last) = module(x, (h, c))
        return grad((out * out).sum() + last.sum(), [h, c])

    same(gradients, sequence(5, 2, 3), sequence(4, 2, 4), sequence(4, 2, 4))


def test_backward_twice() -> None:
    module = layer()

    def gradients(x: Any) -> Any:
        loss = loss_of(module(x))
        first = grad(loss, list(module.parameters()), retain_graph=True)
        return first, grad(loss, list(module.parameters()))

    same(gradients, sequence(4, 2, 3))


def test_backward_outside() -> None:
    module, x = layer("gru"), sequence(5, 2, 3).requires_grad_()
    inputs = [x, *module.parameters()]
    found = grad(loss_of(gw.compile(lambda x: module(x))(x)), inputs)
    for one, other in zip(flat(found), flat(grad(loss_of(module(x)), inputs)), strict=True):
        np.testing.assert_allclose(one, other, 1e-9, 1e-12)


def test_a_checkpoint() -> None:
    module = layer()

    def gradients(x: Any) -> Any:
        x = x.detach().requires_grad_()
        out = checkpoint(lambda x: module(x)[0], x, use_reentrant=False)
        return grad((out * out).sum(), [x, *module.parameters()])

    same(gradients, sequence(4, 2, 3))


def test_without_gradients_forward_keeps_nothing_for_backward() -> None:
    module = layer()

    def outputs(x: Any) -> Any:
        with gw.no_grad():
            return module(x)

    (call,) = loops(same(outputs, sequence(5, 2, 3)))
    assert [t.shape for t in call.outputs] == [(6, 2, 4), (2, 4)]


def test_backward_computes_again_what_one_call_gives() -> None:
    """The four gates are kept, and all states; not the tanh of a cell."""
    module = layer()

    def gradients(x: Any) -> Any:
        return grad(loss_of(module(x)), list(module.parameters()))

    forward, backward = loops(same(gradients, sequence(5, 2, 3)))
    assert [t.shape for t in forward.outputs] == [(5, 2, 4)] * 4 + [(6, 2, 4)] * 2
    # The gradient of the gates at all times, after zeros; that of the cell.
    assert [t.shape for t in backward.outputs] == [(6, 2, 16), (2, 4)]


@pytest.mark.parametrize("name", ["lstm", "tanh"])
def test_the_product_of_backward_is_fused_with_the_next_step(name: str) -> None:
    module = layer(name)

    def gradients(x: Any) -> Any:
        return grad((module(x)[0] ** 2).sum(), list(module.parameters()))

    (report,) = same(gradients, sequence(5, 2, 3)).explain().programs
    numbers = [k.number for k in report.kernels if k.times > 1]
    backward = [n for n in numbers if n > min(set(range(numbers[0], 99)) - set(numbers))]
    (kernel,) = (report.kernels[n] for n in backward)  # one for a step
    assert kernel.kind == "product" and "mul" in kernel.ops


def test_a_state_that_changes_its_dtype_is_not_a_loop() -> None:
    module = nn.LSTM(3, 5, proj_size=2)
    states = gw.zeros(1, 2, 2), gw.zeros(1, 2, 5)  # float32, beside an input in float64
    compiled = same(lambda x: module(x, states), sequence(4, 2, 3))
    assert not loops(compiled)


def test_a_sequence_of_one_is_no_loop() -> None:
    cell = nn.LSTMCell(3, 4)

    @gw.compile
    def steps(x: Any) -> Any:
        state = None
        for _ in range(3):
            state = cell(x, state)
        return state

    steps(gw.ones(2, 3))
    assert not loops(steps)


def test_a_weight_changed_before_backward_is_reported() -> None:
    module = layer()

    @gw.compile
    def late(x: Any) -> Any:
        out, _ = module(x)
        with gw.no_grad():
            module.weight_hh_l0.mul_(2.0)
        return grad(out.sum(), [module.weight_ih_l0])

    with pytest.raises(RuntimeError, match="modified in place"):
        late(sequence(4, 2, 3))


def test_an_optimizer_changes_the_weights_of_the_loop() -> None:
    results = []
    for compiles in (False, True):
        module = layer("gru")
        optimizer = gw.optim.SGD(module.parameters(), lr=0.1)

        def step(x: Any, module: Any = module, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = loss_of(module(x))
            loss.backward()
            optimizer.step()
            return loss

        run = gw.compile(step) if compiles else step
        results.append([run(sequence(6, 2, 3)).item() for _ in range(6)])
    np.testing.assert_allclose(*results, 1e-9)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    gw.manual_seed(0)
    module, x = nn.LSTM(64, 96, bidirectional=True), gw.randn(12, 24, 64)
    before, found = gw.get_num_threads(), set()
    try:
        for threads in (1, 2, 3):
            gw.set_num_threads(threads)
            run = gw.compile(lambda x: grad(loss_of(module(x)), list(module.parameters())))
            for _ in range(4):
                found.add(b"".join(array.tobytes() for array in flat(run(x))))
    finally:
        gw.set_num_threads(before)
    assert len(found) == 1


# -- steps that no layer has -----------------------------------------------------------------------


def _delayed(x: Any, h: Any, before: Any, w: Any) -> Any:
    """A state that is another one, one step later."""
    return gw.tanh(x + before @ w), h


def _scaled(x: Any, h: Any, w: Any) -> Any:
    """A weight that is no factor of a product: its gradient adds up."""
    return (gw.sin(x + h * w) + gw.exp(-w) * h,)


def _from_the_left(x: Any, h: Any, w: Any) -> Any:
    return (gw.tanh(w @ h + x),)


def _unused(x: Any, h: Any, w: Any) -> Any:
    return (x * x,)


def _lasting(x: Any, h: Any, total: Any, w: Any) -> Any:
    """A state that stays, and one that only the output needs."""
    return gw.tanh(x * total) + w.sum() * h, total


STEPS: dict[str, tuple[Any, int, tuple[int, ...]]] = {
    "delayed": (_delayed, 2, (3, 3)),
    "scaled": (_scaled, 1, (3, 3)),
    "broadcast": (_scaled, 1, (3,)),
    "from the left": (_from_the_left, 1, (3, 3)),
    "unused": (_unused, 1, (3, 3)),
    "lasting": (_lasting, 2, (3,)),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_any_step(name: str, reverse: bool) -> None:
    step, states, shape = STEPS[name]

    def gradients(x: Any, w: Any, *first: Any) -> Any:
        inputs = [t.detach().requires_grad_() for t in (x, w, *first)]
        x, w, *first = (1.0 * t for t in inputs)
        out, last = scan(step, x, tuple(first), (w,), reverse)
        found = grad(loss_of((out, *last)), inputs, allow_unused=True)
        return out, last, [gw.zeros(1) if g is None else g for g in found]

    compiled = same(gradients, sequence(5, 3, 3), sequence(*shape), *[sequence(3, 3)] * states)
    assert len(loops(compiled)) == 2


def test_bodies_are_compared() -> None:
    """Two traces whose loops compute something else are two programs."""

    def key(name: str) -> Any:
        recurrent = layer(name)
        program = trace(lambda x: recurrent(x)[0], (sequence(5, 2, 3),)).program
        (call,) = (call for call in program.calls if call.op is loop)
        return differences._key(call.attrs)

    assert key("tanh") == key("tanh") != key("relu")
