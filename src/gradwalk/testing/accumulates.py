"""assert_accumulates: a batch gives the gradient that its parts give on average."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.inspect.report import short
from gradwalk.inspect.silent.loss_mistakes import LossMistake, loss_mistake
from gradwalk.testing.failures import failure, place
from gradwalk.testing.gradient_tables import Gradients, first_apart, gradients_of, mean_of, ratio_of
from gradwalk.testing.independence import assert_rows_independent
from gradwalk.testing.one_step import (
    eager,
    inputs_of,
    is_foreign,
    loss_of,
    mapped,
    recording,
    tensors_in,
    title_of,
)
from gradwalk.testing.restored import Beginning, restored

MOST_PARTS = 8
_WEIGHTS = (
    "the rows do not influence one another in the model, so the loss weights them differently in a "
    "part than in the whole: a mean over the valid tokens of a part, say.",
    "sum the losses of the parts and divide by the count of the whole batch.",
)


def assert_accumulates(
    model: Any, loss_fn: Callable[..., Any], batch: Any, *, parts: int | None = None
) -> None:
    """Raise AssertionError if a batch gives another gradient than its parts on average.

    Then gradients that are accumulated over parts, each loss divided by their number, train the
    same model as the whole batch. `parts` divides the rows of the batch; by default it is the
    largest number up to 8 that does. Dropout is switched off for the comparison. `loss_fn` and
    `batch` are those of `assert_healthy`.

    >>> import gradwalk as gw
    >>> from gradwalk.testing import assert_accumulates
    >>> batch = gw.randn(8, 4), gw.randn(8, 2)
    >>> assert_accumulates(gw.nn.Linear(4, 2), gw.nn.MSELoss(), batch)
    >>> assert_accumulates(gw.nn.Linear(4, 2), gw.nn.MSELoss(reduction="sum"), batch)
    Traceback (most recent call last):
    ...
    AssertionError: the gradients of Linear are 8 times as large for a batch of 8 rows as ...
    """
    rows = _rows(batch)
    count = parts or max(n for n in range(1, MOST_PARTS + 1) if rows % n == 0)
    if rows % count or count < 2:
        raise ValueError(
            f"{rows} rows cannot be divided into {count} equal parts, at least 2. Fix: parts=..., "
            "or another number of rows."
        )
    size = rows // count
    pieces = [_piece(batch, rows, slice(k * size, (k + 1) * size)) for k in range(count)]
    with restored(model, data=batch) as beginning:
        quiet = _without_dropout(model, loss_fn, batch, beginning)
        whole = _gradients(model, loss_fn, batch, beginning, quiet)
        try:
            each = [_gradients(model, loss_fn, p, beginning, quiet) for p in pieces]
        except (RuntimeError, ValueError) as error:
            # Batch norm of one row has no variance; the rows influence one another then.
            _rows_apart(model, batch, quiet)
            raise failure(
                f"{title_of(model)} cannot run a part of {size} row(s): {error}",
                fix="parts=... for larger parts.",
            ) from error
        mean = mean_of(each)
        name = first_apart(whole, mean)
        if name is None:
            return
        ratio = ratio_of(whole, mean)
        if ratio is None:
            _rows_apart(model, batch, quiet)
        beginning.rewind()
        quiet()
        with recording(is_foreign(model, batch), "stats") as trace:
            loss_of(eager(model), loss_fn, batch).backward()
        mistake = loss_mistake(trace)
        loss = place(trace, trace.root if mistake is None else mistake.node)
    if ratio is not None:
        raise _other_factor(model, ratio, rows, count, loss)
    norms = [
        float(np.linalg.norm(table[name][0])) if name in table else 0.0 for table in (whole, mean)
    ]
    raise _other_weights(model, name, norms, rows, count, loss, mistake)


def _rows(batch: Any) -> int:
    lengths = [int(tensor.shape[0]) for tensor in tensors_in(batch) if len(tensor.shape)]
    if not lengths:
        raise ValueError("the batch has no tensor with rows. Fix: a batch of tensors (rows, ...).")
    return lengths[0]


def _piece(batch: Any, rows: int, part: slice) -> Any:
    return mapped(batch, lambda t: t[part] if len(t.shape) and t.shape[0] == rows else t)


def _gradients(
    model: Any,
    loss_fn: Callable[..., Any],
    batch: Any,
    beginning: Beginning,
    quiet: Callable[[], None],
) -> Gradients:
    beginning.rewind()
    quiet()
    loss_of(model, loss_fn, batch).backward()
    return gradients_of(model)


def _without_dropout(
    model: Any, loss_fn: Callable[..., Any], batch: Any, beginning: Beginning
) -> Callable[[], None]:
    """What switches dropout off: its layers alone, or the whole model where that is not enough."""

    def layers() -> None:
        for module in model.modules() if hasattr(model, "modules") else ():
            if "Dropout" in type(module).__name__:
                module.eval()

    drawn = []
    for again in (False, True):
        beginning.rewind()
        layers()
        if again:  # the first run has moved the generators on
            loss_of(model, loss_fn, batch)
        loss_of(model, loss_fn, batch).backward()
        drawn.append(gradients_of(model))
    random = first_apart(drawn[0], drawn[1]) is not None
    return model.eval if random and hasattr(model, "eval") else layers


def _rows_apart(model: Any, batch: Any, quiet: Callable[[], None]) -> None:
    """Raise if the model mixes rows; it may not be callable with the batch alone."""
    quiet()
    try:
        assert_rows_independent(model, inputs_of(batch))
    except (TypeError, ValueError, RuntimeError):
        return


def _other_factor(
    model: Any, ratio: float, rows: int, parts: int, loss: list[tuple[str, Any]]
) -> AssertionError:
    if abs(ratio - parts) < 1e-3 * parts:
        why = "the loss is a sum over the rows."
        fix = (
            f'reduction="mean", or divide by the number of rows; accumulate {parts} parts of a '
            f"mean with loss / {parts}."
        )
    else:
        why = "the loss divides by another number than its rows."
        fix = "divide by the number of rows of the batch that is given."
    headline = (
        f"the gradients of {title_of(model)} are {short(ratio)} times as large for a batch of "
        f"{rows} rows as for its {parts} parts of {rows // parts} on average."
    )
    return failure(headline, *loss, ("why", why), fix=fix)


def _other_weights(
    model: Any,
    name: str,
    norms: list[float],
    rows: int,
    parts: int,
    loss: list[tuple[str, Any]],
    mistake: LossMistake | None,
) -> AssertionError:
    why, fix = _WEIGHTS if mistake is None else (mistake.why, mistake.fix)
    return failure(
        f"{title_of(model)} gives another gradient for {rows} rows than for {parts} parts of "
        f"{rows // parts} on average, first for {name}: norm {short(norms[0])} against "
        f"{short(norms[1])}.",
        *loss,
        ("why", why),
        fix=fix,
    )
