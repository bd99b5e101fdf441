"""assert_gradients_match: two models with the same weights give the same loss and gradients."""

from __future__ import annotations

from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from gradwalk.inspect.report import short
from gradwalk.inspect.silent.rounding import gradient_tolerance
from gradwalk.inspect.trace.live import guest, is_torch_tensor, numbers_of
from gradwalk.inspect.trace.replay import is_array
from gradwalk.inspect.trace.trace import Trace, TraceNode
from gradwalk.tensors.creation import tensor
from gradwalk.testing.failures import failure, place
from gradwalk.testing.gradient_tables import Gradients, first_apart, gradients_of
from gradwalk.testing.one_step import (
    ROOM,
    is_foreign,
    loss_of,
    mapped,
    parameters_of,
    recording,
    title_of,
)
from gradwalk.testing.restored import restored


def assert_gradients_match(
    model_a: Any,
    model_b: Any,
    loss_fn: Callable[..., Any],
    batch: Any,
    *,
    loss_fn_b: Callable[..., Any] | None = None,
    rtol: float | None = None,
) -> None:
    """Raise AssertionError if two models that should be equal give other losses or gradients.

    The models may be of one engine or of two; the batch is converted, and `loss_fn_b` is the loss
    of the second where it cannot be the same function. Parameters are matched by name, else by
    shape and value, also transposed; their values must agree. Both models are compared in their
    present modes, from the same seed. `rtol` bounds the difference of two gradients by their norm;
    the default depends on the dtype (1e-4 for float32). The error names the first parameter and,
    where the recordings can be aligned, the first operation that differs.

    >>> import gradwalk as gw
    >>> from gradwalk.testing import assert_gradients_match
    >>> one, other = gw.nn.Linear(4, 2), gw.nn.Linear(4, 2)
    >>> _ = other.load_state_dict(one.state_dict())
    >>> assert_gradients_match(one, other, gw.nn.MSELoss(), (gw.randn(8, 4), gw.randn(8, 2)))
    """
    pairs = _pairs(model_a, model_b)
    a, loss_a, trace_a = _step(model_a, loss_fn, batch)
    given = _converted(batch, model_b)
    b, loss_b, trace_b = _step(model_b, loss_fn_b or loss_fn, given)
    b = {name: _like(b[pairs[name]], a.get(name)) for name in pairs if pairs[name] in b}
    a = {name: gradient for name, gradient in a.items() if name in pairs}
    dtype = next(iter(parameters_of(model_a).values())).dtype
    tolerance = gradient_tolerance(dtype) if rtol is None else rtol
    apart = first_apart(a, b, rtol)
    far = not abs(loss_a - loss_b) <= tolerance * max(abs(loss_a), abs(loss_b), 1e-6)
    if apart is None and not far:
        return
    raise _told(
        model_a, model_b, apart, pairs, (loss_a, loss_b), (a, b), (trace_a, trace_b), tolerance
    )


def _step(model: Any, loss_fn: Callable[..., Any], batch: Any) -> tuple[Gradients, float, Trace]:
    with restored(model, data=batch):
        with recording(is_foreign(model, batch), "values", ROOM) as trace:
            loss = loss_of(model, loss_fn, batch)
            loss.backward()
        return gradients_of(model), float(loss.detach()), trace


def _converted(batch: Any, model: Any) -> Any:
    """The batch as tensors of the model's engine."""
    foreign = is_foreign(model)

    def convert(given: Any) -> Any:
        if is_torch_tensor(given) == foreign:
            return given
        return guest().tensor_of(numbers_of(given)) if foreign else tensor(numbers_of(given))

    return mapped(batch, convert)


# -- parameters ------------------------------------------------------------------------------------


def _pairs(model_a: Any, model_b: Any) -> dict[str, str]:
    """The parameters of the first model with the names of their counterparts."""
    of_a = {n: numbers_of(p) for n, p in parameters_of(model_a).items() if p.requires_grad}
    of_b = {n: numbers_of(p) for n, p in parameters_of(model_b).items() if p.requires_grad}
    pairs = {n: n for n, value in of_a.items() if n in of_b and _fits(value.shape, of_b[n].shape)}
    free = [name for name in of_b if name not in pairs]
    for name in (name for name in of_a if name not in pairs):
        same = [other for other in free if _same(of_a[name], of_b[other])]
        alike = [other for other in free if of_b[other].shape == of_a[name].shape]
        found = same or (alike if len(alike) == 1 else [])
        if not found:
            raise failure(
                f"{name} of {title_of(model_a)} has no counterpart in {title_of(model_b)}: no "
                f"parameter has its name, or its shape {of_a[name].shape} and its values.",
                fix="copy the weights from one model to the other before comparing.",
            )
        pairs[name] = found[0]
        free.remove(found[0])
    for name, other in pairs.items():
        if not _same(of_a[name], of_b[other]):
            raise failure(
                f"{name} of {title_of(model_a)} and {other} of {title_of(model_b)} have different "
                f"values: their gradients cannot match.",
                fix="model_b.load_state_dict(model_a.state_dict()), transposed where one of them "
                "stores (in, out).",
            )
    if free:
        raise failure(
            f"{title_of(model_b)} has parameters that {title_of(model_a)} has not: "
            f"{', '.join(free[:6])}.",
            fix="freeze them, or add them to the other model.",
        )
    return pairs


def _fits(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one == other or (len(one) == 2 and one == other[::-1])


def _same(one: Any, other: Any) -> bool:
    """Whether two arrays are equal up to the precision of the coarser, perhaps transposed."""
    for candidate in (other, other.T) if other.ndim == 2 else (other,):
        if candidate.shape == one.shape and np.allclose(one, candidate, 1e-2, 1e-3):
            return True
    return False


def _like(found: tuple[Any, Any], expected: tuple[Any, Any] | None) -> tuple[Any, Any]:
    """A gradient in the orientation of its counterpart."""
    array, dtype = found
    if expected is None or array.ndim != 2:
        return found
    a = expected[0]
    if array.shape != a.shape:
        return array.T, dtype
    square = array.shape[0] == array.shape[1]
    if square and np.linalg.norm(array.T - a) < 0.01 * np.linalg.norm(array - a):
        return array.T, dtype
    return found


# -- the difference --------------------------------------------------------------------------------


def _told(
    model_a: Any,
    model_b: Any,
    apart: str | None,
    pairs: dict[str, str],
    losses: tuple[float, float],
    gradients: tuple[Gradients, Gradients],
    traces: tuple[Trace, Trace],
    tolerance: float,
) -> AssertionError:
    entries: list[tuple[str, Any]] = [("loss", f"{short(losses[0])} against {short(losses[1])}")]
    if apart is not None:
        norms = [float(np.linalg.norm(g[apart][0])) if apart in g else 0.0 for g in gradients]
        other = "" if pairs[apart] == apart else f" ({pairs[apart]} in the second)"
        entries.append(
            ("grad of", f"{apart}{other}: norm {short(norms[0])} against {short(norms[1])}")
        )
    first = _first_other(*traces, tolerance)
    what = "loss and gradients" if apart is not None else "losses"
    headline = f"{title_of(model_a)} and {title_of(model_b)} give different {what}."
    if first is None:
        why = "every result of the forward passes that could be aligned agrees."
        return failure(headline, *entries, ("why", why), fix="compare the backward rules.")
    a, b, why = first
    entries += place(traces[0], a)
    other_line = traces[1].nodes[b].line
    return failure(
        headline,
        *entries,
        ("against", other_line),
        ("why", why),
        fix="make these two computations the same; what comes before them agrees.",
    )


def _first_other(one: Trace, other: Trace, tolerance: float) -> tuple[int, int, str] | None:
    """The first operations in which aligned results begin to differ, and how."""
    a, b = ([node for node in trace if node.op] for trace in (one, other))
    alike = [[(node.op, node.shape) for node in nodes] for nodes in (a, b)]
    matcher = SequenceMatcher(None, alike[0], alike[1], autojunk=False)
    aligned = [
        (a[block.a + k], b[block.b + k])
        for block in matcher.get_matching_blocks()
        for k in range(block.size)
    ]
    aligned.append((one.nodes[one.root], other.nodes[other.root]))
    for first, second in aligned:
        if not _agree(first, second, tolerance):
            before = (
                _unaligned(one, first, {node.index for node, _ in aligned}),
                _unaligned(other, second, {node.index for _, node in aligned}),
            )
            starts = [(nodes or [node])[0] for nodes, node in zip(before, (first, second))]
            return starts[0].index, starts[1].index, _differ(first, second, *before)
    return None


def _unaligned(trace: Trace, node: TraceNode, aligned: set[int]) -> list[TraceNode]:
    """The operations without a counterpart that directly lead to a node, in order."""
    found: set[int] = set()
    waiting = list(node.inputs)
    while waiting:
        index = waiting.pop()
        if index not in aligned and index not in found and trace.nodes[index].op:
            found.add(index)
            waiting += trace.nodes[index].inputs
    return [trace.nodes[index] for index in sorted(found)]


def _agree(one: TraceNode, other: TraceNode, tolerance: float) -> bool:
    a, b = one.value, other.value
    if not is_array(a) or not is_array(b):
        return True
    with np.errstate(all="ignore"):
        a, b = (np.nan_to_num(x.astype(float), posinf=0, neginf=0) for x in (a, b))
        size = max(float(np.linalg.norm(a)), float(np.linalg.norm(b)))
        return float(np.linalg.norm(a - b)) <= tolerance * size


def _differ(
    one: TraceNode, other: TraceNode, before_a: list[TraceNode], before_b: list[TraceNode]
) -> str:
    settings = [
        f"{name}={one.attrs.get(name)} against {other.attrs.get(name)}"
        for name in dict.fromkeys((*one.attrs, *other.attrs))
        if str(one.attrs.get(name)) != str(other.attrs.get(name))
    ]
    if settings:
        return f"{one.op} has other settings: {', '.join(settings)}."
    ops = [" → ".join(node.op for node in nodes) or "nothing" for nodes in (before_a, before_b)]
    if ops[0] != ops[1]:
        return f"{ops[0]} against {ops[1]}, between the last equal results and {one.op}."
    if one.op != other.op:
        return f"{one.op} against {other.op}."
    return f"{one.op} gives another result; its operands differ, or its constants do."
