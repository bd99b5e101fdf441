"""assert_deterministic: two runs from the same seed agree to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwalk.inspect.silent.leaks import twins
from gradwalk.inspect.trace.live import gradient_of, numbers_of
from gradwalk.inspect.trace.replay import is_array
from gradwalk.inspect.trace.routes import listed
from gradwalk.inspect.trace.trace import Trace
from gradwalk.testing.failures import failure, place
from gradwalk.testing.one_step import (
    ROOM,
    called,
    eager,
    is_foreign,
    loss_of,
    parameters_of,
    recording,
    tensors_in,
    title_of,
)
from gradwalk.testing.restored import Beginning, restored

_SEED = (
    "draw from the seeded generator (torch.rand, gradwalk.rand, or generator=...), not from one "
    "that is made anew in each call, the clock, or the order of a set."
)


_CONSTANT = "a tensor that no recorded operation made has other numbers in each run."


def assert_deterministic(model: Any, loss_fn: Callable[..., Any], batch: Any) -> None:
    """Raise AssertionError if two runs from the same seed differ in a bit, forward or backward.

    Both runs start from the same parameters, buffers, attributes and random generators. The error
    names the first operation that gives another result from the same operands. `loss_fn` and
    `batch` are those of `assert_healthy`.

    >>> import gradwalk as gw
    >>> from gradwalk.testing import assert_deterministic
    >>> model = gw.nn.Sequential(gw.nn.Linear(4, 3), gw.nn.Dropout(0.5))
    >>> assert_deterministic(model, gw.nn.CrossEntropyLoss(), (gw.randn(8, 4), gw.arange(8) % 3))
    """

    def run(model: Any) -> Any:
        loss = loss_of(model, loss_fn, batch)
        loss.backward()
        return loss.detach()

    _compare(model, run, batch)


def assert_deterministic_forward(model: Any, inputs: Any, beginning: Beginning) -> None:
    """As `assert_deterministic`, for a call of a model without a loss."""
    beginning.rewind()
    _compare(model, lambda model: called(model, inputs), inputs)


def _compare(model: Any, run: Callable[[Any], Any], data: Any) -> None:
    traces, losses = [], []
    gradients: list[dict[str, Any]] = []
    with restored(model, data=data) as beginning:
        for _ in range(2):
            beginning.rewind()
            losses.append([_bits(numbers_of(tensor)) for tensor in tensors_in(run(model))])
            gradients.append(_gradients(model))
        if losses[0] == losses[1] and gradients[0] == gradients[1]:
            return
        gradients = []
        for _ in range(2):
            beginning.rewind()
            with recording(is_foreign(model, data), "values", ROOM) as trace:
                run(eager(model))
            traces.append(trace)
            gradients.append(_gradients(model))
    headline = f"{title_of(model)} is not deterministic: two runs from the same seed differ"
    first = _first_other_value(*traces)
    if first is not None:
        op = traces[0].nodes[first].op
        raise failure(
            f"{headline}, first in this result:",
            *_place(traces[0], first),
            ("why", f"{op} gave other numbers from the same operands." if op else _CONSTANT),
            fix=_SEED,
        )
    other = [name for name in gradients[0] if gradients[0][name] != gradients[1][name]]
    raise _of_gradients(headline, traces, other)


def _gradients(model: Any) -> dict[str, Any]:
    return {name: _bits(gradient_of(p)) for name, p in parameters_of(model).items()}


def _place(trace: Trace, index: int) -> list[tuple[str, Any]]:
    """Where a result is made, or where it is first used if that is unknown."""
    node, consumers = trace.nodes[index], trace.consumers[index]
    entries = place(trace, index)
    if node.line is None and consumers:
        return [entries[0], *place(trace, consumers[0][0])[1:]]
    return entries


def _first_other_value(one: Trace, other: Trace) -> int | None:
    """The first node, in the order of computation, whose value differs."""
    pairs = twins(one, other)
    for node in one:
        twin = pairs.get(node.index)
        if twin is None:
            return node.index  # the other run took another branch
        if _values(node.values) != _values(other.nodes[twin].values):
            return node.index
    return None


def _of_gradients(headline: str, traces: list[Trace], names: list[str]) -> AssertionError:
    """The forward passes agree, the gradients do not."""
    entries: list[tuple[str, Any]] = [("grad of", listed(names, 6))]
    one, other = (trace.sweeps[-1].grads if trace.sweeps else {} for trace in traces)
    apart = [i for i in one if _values(one[i]) != _values(other.get(i, ()))]
    if apart:  # the last in the order of computation is the first that backward reached
        consumers = traces[0].consumers[max(apart)]
        entries += place(traces[0], consumers[0][0] if consumers else max(apart))
    return failure(
        f"{headline} in gradients, though every result of the forward passes agrees.",
        *entries,
        fix="a backward pass without random numbers; on a GPU, "
        "torch.use_deterministic_algorithms(True).",
    )


def _values(values: Any) -> list[Any]:
    return [_bits(value) if is_array(value) else None for value in values]


def _bits(array: Any) -> Any:
    return None if array is None else (array.shape, array.tobytes())
