"""assert_causal and assert_rows_independent: change a part of the input, and watch the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradwalk.inspect.report import short
from gradwalk.inspect.silent.leak_causes import row_leak, time_leak
from gradwalk.inspect.silent.leaks import Leak, LeakSearch
from gradwalk.inspect.silent.rounding import differing
from gradwalk.inspect.trace.live import numbers_of
from gradwalk.inspect.trace.trace import Edge, Trace
from gradwalk.testing.deterministic import assert_deterministic_forward
from gradwalk.testing.failures import failure, place
from gradwalk.testing.one_step import (
    ROOM,
    called,
    eager,
    is_foreign,
    recording,
    tensors_in,
    title_of,
)
from gradwalk.testing.perturbed import length_along, perturbed
from gradwalk.testing.restored import Beginning, restored

MOST_TIMES, MOST_ROWS = 16, 4  # how many are tried, evenly spread


def assert_causal(
    model: Any,
    inputs: Any,
    *,
    axis: int = 1,
    output: Callable[[Any], Any] | None = None,
) -> None:
    """Raise AssertionError if an output depends on an input at a later position.

    `inputs` is a tensor, a tuple of arguments, or a dictionary of arguments by name; `axis` is the
    time axis of inputs and output. Inputs from a position on are changed (token ids become other
    ids of the batch, floats get noise), and outputs before it must not change; 16 positions are
    tried. `output` picks the tensor to check from what the model returns; by default it is the
    first that is as long as the input. The error names the first operation whose operands are
    causal and whose result is not.

    >>> import gradwalk as gw
    >>> from gradwalk.testing import assert_causal
    >>> assert_causal(lambda x: x.cumsum(1), gw.randn(2, 5, 3))
    >>> assert_causal(lambda x: x - x.mean(1, keepdim=True), gw.randn(2, 5, 3))
    Traceback (most recent call last):
    ...
    AssertionError: <lambda> is not causal: the output at position 0 changes...
    """
    length = length_along(inputs, axis)
    if length < 2:
        raise ValueError(
            f"axis {axis} has {length} position(s); causality needs two. Fix: axis=..."
        )
    times = np.unique(np.linspace(1, length - 1, min(length - 1, MOST_TIMES)).round().astype(int))
    # From the middle on: the more positions on both sides, the clearer is where they mix.
    order = sorted(times, key=lambda time: abs(2 * time - length))
    kept = (np.arange(length) < time for time in order)
    check = _Check(model, inputs, axis, output, ordered=True)
    check.run(kept, _not_causal)


def assert_rows_independent(
    model: Any,
    inputs: Any,
    *,
    axis: int = 0,
    output: Callable[[Any], Any] | None = None,
) -> None:
    """Raise AssertionError if a row of a batch influences the output of another row.

    As `assert_causal`, with the batch axis of inputs and output as `axis`: one row is changed, and
    the outputs of the others must stay. Batch norm in train mode fails by design; call
    `model.eval()` first if the model is meant to be checked as it predicts.

    >>> import gradwalk as gw
    >>> from gradwalk.testing import assert_rows_independent
    >>> assert_rows_independent(lambda x: x.softmax(1), gw.randn(4, 3))
    >>> assert_rows_independent(lambda x: x.softmax(0), gw.randn(4, 3))
    Traceback (most recent call last):
    ...
    AssertionError: the rows of a batch influence one another in <lambda>: row 1 of the output...
    """
    length = length_along(inputs, axis)
    if length < 2:
        raise ValueError(f"axis {axis} has {length} row(s); independence needs two. Fix: axis=...")
    rows = np.unique(np.linspace(0, length - 1, min(length, MOST_ROWS)).round().astype(int))
    kept = (np.arange(length) != row for row in rows)
    check = _Check(model, inputs, axis, output, ordered=False)
    check.run(kept, _not_independent)


class _Check:
    """A model, its inputs, and the axis along which outputs must not depend on some inputs."""

    def __init__(
        self,
        model: Any,
        inputs: Any,
        axis: int,
        output: Callable[[Any], Any] | None,
        *,
        ordered: bool,
    ) -> None:
        self.model = model
        self.inputs = inputs
        self.axis = axis
        self.pick = output
        self.ordered = ordered
        self.length = length_along(inputs, axis)

    def run(self, choices: Iterable[Any], judge: Callable[..., AssertionError]) -> None:
        """Raise what `judge` makes of the first choice of kept positions that differ."""
        with restored(self.model, data=self.inputs) as beginning:
            before = self._output(self.model, self.inputs)
            beginning.rewind()
            again = self._output(self.model, self.inputs)
            if numbers_of(before).tobytes() != numbers_of(again).tobytes():
                assert_deterministic_forward(self.model, self.inputs, beginning)
            for kept in choices:
                beginning.rewind()
                after = self._output(self.model, perturbed(self.inputs, self.axis, ~kept))
                changed = self._changed(before, after, kept)
                if changed is not None:
                    leak = self._leak(kept, beginning)
                    raise judge(self.model, kept, *changed, leak)

    def _output(self, model: Any, inputs: Any) -> Any:
        return self._picked(called(model, inputs))

    def _picked(self, result: Any) -> Any:
        if self.pick is not None:
            return self.pick(result)
        for tensor in tensors_in(result):
            count = len(tensor.shape)
            if -count <= self.axis < count and tensor.shape[self.axis] == self.length:
                return tensor
        shapes = ", ".join(str(tuple(t.shape)) for t in tensors_in(result)) or "no tensor"
        raise ValueError(
            f"{title_of(self.model)} gave {shapes}, and none has {self.length} positions along "
            f"axis {self.axis}, as the input has. Fix: axis=..., or output=lambda result: ... that "
            "picks (or transposes) the tensor to check."
        )

    def _changed(self, before: Any, after: Any, kept: Any) -> tuple[int, float] | None:
        """The first kept position whose output changes, and by how much; None if none does."""
        one, other = numbers_of(before), numbers_of(after)
        found = differing(one, other, before.dtype)
        axis = self.axis % found.ndim
        where = found.any(tuple(a for a in range(found.ndim) if a != axis)) & kept
        if not where.any():
            return None
        at = int(np.flatnonzero(where)[0])
        apart = np.abs(one.take(at, axis).astype(float) - other.take(at, axis).astype(float))
        return at, float(np.nanmax(apart)) if np.isfinite(apart).any() else float("nan")

    def _leak(self, kept: Any, beginning: Beginning) -> Leak | None:
        """Run both inputs again, recorded, and find the operation."""
        foreign = is_foreign(self.model, self.inputs)
        traces: list[Trace] = []
        outputs: list[Any] = []
        for inputs in (self.inputs, perturbed(self.inputs, self.axis, ~kept)):
            beginning.rewind()
            with recording(foreign, "values", ROOM) as trace:
                output = self._output(eager(self.model), inputs)
                if not traces:
                    self._influence(output, kept)
            traces.append(trace)
            outputs.append(output)
        node = traces[0].lookup(outputs[0])
        if node is None:
            return None
        search = LeakSearch(traces[0], traces[1], kept, ordered=self.ordered)
        return search.first(Edge(node, traces[0].output(outputs[0])))

    def _influence(self, output: Any, kept: Any) -> None:
        """Run backward from the kept outputs, which shows what they are computed from."""
        if not output.requires_grad:
            return
        weights = np.random.Generator(np.random.PCG64(1)).standard_normal(tuple(output.shape))
        shape = [1] * weights.ndim
        shape[self.axis] = len(kept)
        weights *= kept.reshape(shape)
        (output * output.detach().new_tensor(weights)).sum().backward()


def _not_causal(model: Any, kept: Any, at: int, change: float, leak: Leak | None) -> AssertionError:
    headline = (
        f"{title_of(model)} is not causal: the output at position {at} changes by {short(change)} "
        f"when only inputs from position {int(kept.sum())} on change."
    )
    return _told(headline, leak, time_leak)


def _not_independent(
    model: Any, kept: Any, at: int, change: float, leak: Leak | None
) -> AssertionError:
    headline = (
        f"the rows of a batch influence one another in {title_of(model)}: row {at} of the output "
        f"changes by {short(change)} when only row {int(np.flatnonzero(~kept)[0])} of the input "
        "changes."
    )
    return _told(headline, leak, row_leak)


def _told(
    headline: str, leak: Leak | None, explained: Callable[[Leak], tuple[str, str]]
) -> AssertionError:
    if leak is None:
        return failure(headline, ("op", "unknown: no recorded operation leads to this output"))
    why, fix = explained(leak)
    return failure(headline, *place(leak.trace, leak.node.index), ("why", why), fix=fix)
