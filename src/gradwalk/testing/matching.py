"""assert_gradients_match: two models with the same weights give the same loss and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.inspect.diff.diff import compared
from gradwalk.inspect.report import short
from gradwalk.inspect.silent.rounding import gradient_tolerance
from gradwalk.inspect.trace.live import guest, is_torch_tensor, numbers_of
from gradwalk.inspect.trace.trace import Trace
from gradwalk.tensors.creation import tensor
from gradwalk.testing.failures import failure
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
    raise _told(model_a, model_b, apart, pairs, (loss_a, loss_b), (a, b), (trace_a, trace_b))


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
) -> AssertionError:
    entries: list[tuple[str, Any]] = [("loss", f"{short(losses[0])} against {short(losses[1])}")]
    if apart is not None:
        norms = [float(np.linalg.norm(g[apart][0])) if apart in g else 0.0 for g in gradients]
        other = "" if pairs[apart] == apart else f" ({pairs[apart]} in the second)"
        entries.append(
            ("grad of", f"{apart}{other}: norm {short(norms[0])} against {short(norms[1])}")
        )
    first = compared(*traces, ("A", "B")).first
    what = "loss and gradients" if apart is not None else "losses"
    headline = f"{title_of(model_a)} and {title_of(model_b)} give different {what}."
    if first is None or first.b is None:
        why = "every operation agrees with its counterpart up to rounding."
        return failure(headline, *entries, ("why", why), fix="compare the backward rules.")
    if first.a is not None:
        entries += [("op", first.a.op), ("in", first.a.module or "no module"), ("at", first.a.line)]
    return failure(headline, *entries, ("against", first.b), ("why", first.why), fix=first.fix)
