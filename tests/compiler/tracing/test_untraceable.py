"""What cannot be traced is refused, with the line and the way out, and nothing is left changed."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.engine.modes import state

Function = Callable[..., Any]


def compiled(function: Function, **options: Any) -> Any:
    return gw.compile(function, backend="numpy", **options)


def vector(*numbers: float) -> gw.Tensor:
    return gw.tensor([float(n) for n in numbers])


OUTSIDE = gw.ones(3, requires_grad=True)
OPTIMIZER = gw.optim.SGD([OUTSIDE], lr=0.5)
SCHEDULE = gw.optim.lr_scheduler.StepLR(OPTIMIZER, 1)
LBFGS = gw.optim.LBFGS([OUTSIDE])


def branches(x: gw.Tensor) -> Any:
    return x if x.sum() > 0 else -x


def loops(x: gw.Tensor) -> Any:
    while (x < 10).all():
        x = x * 2
    return x


def generates(x: gw.Tensor) -> Any:
    yield x * 2


def asserts(x: gw.Tensor) -> Any:
    assert x.sum() > 0
    return x


def goes_on(x: gw.Tensor) -> Any:
    try:
        return x * x.sum().item()
    except Exception:  # what it does instead would be frozen
        return x


def schedules(x: gw.Tensor) -> Any:
    SCHEDULE.step()
    return x


def quasi_newton(x: gw.Tensor) -> Any:
    def closure() -> gw.Tensor:
        loss = (OUTSIDE * x).sum()
        loss.backward()
        return loss

    return LBFGS.step(closure)


REFUSED: dict[str, tuple[Function, str]] = {
    "if": (branches, "where"),
    "while": (loops, "where"),
    "item": (lambda x: x.sum().item(), "return the tensor"),
    "float": (lambda x: float(x.sum()), "return the tensor"),
    "int": (lambda x: int(x.sum()), "return the tensor"),
    "index": (lambda x: [1, 2, 3][x.long()[0]], "return the tensor"),
    "format": (lambda x: f"{x.sum():.3f}", "return the tensor"),
    "text": (lambda x: f"{x}", "return the tensor"),
    "print": (lambda x: print(x), "return the tensor"),
    "generator": (generates, "do not compile generators"),
    "iterator": (lambda x: map(abs, [x]), "return what it computes"),
    "function": (lambda x: lambda: x * 2, "return what it computes"),
    "assert": (asserts, "return the tensor"),
    "caught": (goes_on, "return the tensor"),
    "numpy": (lambda x: x.numpy(), "return the tensor"),
    "np.array": (lambda x: np.array(x), "return the tensor"),
    "np.linalg": (lambda x: np.linalg.norm(x), "return the tensor"),
    "tolist": (lambda x: x.tolist(), "return the tensor"),
    "tensor": (lambda x: gw.tensor(x), "return the tensor"),
    "in": (lambda x: 2.0 in x, "return the tensor"),
    "max": (lambda x: max(x[0], x[1]), "where"),
    "captured item": (lambda x: x * OUTSIDE.detach()[0].item(), "return the tensor"),
    "captured numpy": (lambda x: x * OUTSIDE.detach().numpy()[0], "return the tensor"),
    "captured in": (lambda x: x if 1.0 in OUTSIDE else -x, "return the tensor"),
    "mask": (lambda x: x[x > 1], "keep the shape"),
    "nonzero": (lambda x: gw.nonzero(x), "keep the shape"),
    "masked_select": (lambda x: gw.masked_select(x, x > 1), "keep the shape"),
    "unique": (lambda x: gw.unique(x), "keep the shape"),
    "multinomial": (lambda x: gw.multinomial(x, 2), "return the tensor"),
    "manual_seed": (lambda x: gw.manual_seed(0), "seed outside"),
    "scheduler": (schedules, "call it outside"),
    "LBFGS": (quasi_newton, "return the tensor"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_line_and_the_way_out(name: str) -> None:
    function, way_out = REFUSED[name]
    before = (OUTSIDE._array, OPTIMIZER.param_groups[0]["lr"], SCHEDULE.last_epoch)
    with pytest.raises(gw.TraceError) as error:
        compiled(function)(vector(1, 2, 3))
    text = str(error.value)
    assert "test_untraceable.py:" in text
    assert way_out in text
    assert (OUTSIDE._array, OPTIMIZER.param_groups[0]["lr"], SCHEDULE.last_epoch) == before
    assert OUTSIDE._grad is None
    assert state.here.tracer is None
    assert state.here.watcher is None


def test_the_tensor_is_named() -> None:
    def function(x: gw.Tensor) -> Any:
        y = x * 2
        y.label = "doubled"
        return y.item()

    with pytest.raises(gw.TraceError, match=r"item\(\) of tensor 'doubled' of shape \(1,\)"):
        compiled(function)(gw.tensor([1.0], requires_grad=True))


def test_constants_have_numbers() -> None:
    def function(x: gw.Tensor) -> Any:
        return x * gw.tensor([1.0, 2.0]).sum().detach() if gw.ones(1).item() else x

    assert compiled(function)(vector(1)).item() == 3
    mask = compiled(lambda x: x + nn.Transformer.generate_square_subsequent_mask(2))
    assert mask(gw.zeros(2, 2)).tolist() == [[0, -math.inf], [0, 0]]


def test_an_abstract_tensor_says_what_it_is() -> None:
    seen: queue.Queue[str] = queue.Queue()
    compiled(lambda x: seen.put(repr(x)) or x)(vector(1, 2))
    assert seen.get() == "tensor(<traced float32[2]>)"


def test_a_leaked_tensor_raises_with_its_line() -> None:
    kept: queue.Queue[gw.Tensor] = queue.Queue()  # nobody looks into it

    def function(x: gw.Tensor) -> Any:
        kept.put(x)
        kept.put(x * 2)  # leaks here
        return x

    compiled(function)(vector(1, 2))
    given, leak = kept.get(), kept.get()
    uses: list[Function] = [
        lambda: leak + 1, lambda: 2 * leak, lambda: leak.sum(), lambda: leak.tanh(),
        lambda: leak.softmax(0), lambda: leak.add_(1), lambda: leak.numpy(), lambda: leak[0],
        lambda: leak.tolist(), lambda: gw.nn.functional.gelu(leak), lambda: leak @ leak,
        lambda: compiled(lambda x: x + leak)(vector(1, 2)),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(gw.TraceError, match="leaks here"):
            use()
    assert "traced" in repr(leak)
    with pytest.raises(gw.TraceError, match="kept outside"):
        given + 1


def test_a_tensor_of_another_thread_is_traced_by_its_own_thread_only() -> None:
    found: queue.Queue[Any] = queue.Queue()

    def function(x: gw.Tensor) -> Any:
        other = threading.Thread(target=lambda: found.put((vector(1, 2) * 3).tolist()))
        other.start()
        other.join()
        return x * 2

    assert compiled(function)(vector(1, 2)).tolist() == [2, 4]
    assert found.get() == [3, 6]


def test_a_captured_tensor_that_gets_a_history_is_refused() -> None:
    buffer = gw.zeros(3)

    def function(x: gw.Tensor) -> Any:
        buffer.add_(OUTSIDE)
        return x

    with pytest.raises(gw.TraceError, match="no_grad"):
        compiled(function)(vector(1))
    assert buffer.grad_fn is None
    assert buffer.tolist() == [0, 0, 0]


def test_a_failed_trace_puts_everything_back() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    optimizer = gw.optim.Adam(model.parameters(), lr=0.5, weight_decay=0.1)
    model.note = "as it was"
    model[0].weight.grad = gw.ones(3, 2)
    hook = model[0].bias.register_hook(lambda g: g)

    def step(x: gw.Tensor) -> Any:
        optimizer.zero_grad()
        model.note, model.extra = "changed", x * 2
        model[2].bias.requires_grad_(False)
        model(x).sum().backward()
        model[0].bias.register_hook(lambda g: g * 2)
        optimizer.step()
        model[0].weight.data = gw.zeros(3, 2)
        optimizer.param_groups[0]["lr"] = 7.0
        return x.sum().item()

    def everything() -> Any:
        tensors = [*model.parameters(), *model.buffers()]
        return (
            [(id(t._array), t._array.tolist(), t.requires_grad, t.grad_fn) for t in tensors],
            [None if p.grad is None else id(p.grad) for p in model.parameters()],
            [dict(group, params=None) for group in optimizer.param_groups],
            optimizer.state_dict()["state"], model.note, hasattr(model, "extra"),
            list(model[0].bias.hooks[0]), model.training,
        )  # fmt: skip

    before = everything()
    gw.manual_seed(0)
    drawn = gw.get_rng_state()
    with pytest.raises(gw.TraceError, match="item"):
        compiled(step)(gw.randn(4, 2))
    assert everything() == before
    hook.remove()
    assert gw.get_rng_state() != drawn  # by the argument only
    model(gw.randn(4, 2)).sum().backward()  # and it still works


def test_an_error_of_the_function_itself_comes_through() -> None:
    def function(x: gw.Tensor) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        compiled(function)(vector(1))
    assert state.here.tracer is None


def test_an_ndarray_as_an_argument_is_refused() -> None:
    with pytest.raises(gw.TraceError, match="from_numpy"):
        compiled(lambda x: x)(np.ones(2))
