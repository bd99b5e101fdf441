"""What a custom `autograd.Function` handed to its inputs, against differences of its own forward.

The op table does not know the Function, but a recording has the operations inside its forward. They
are computed again in float64 with an input nudged. If they were not recorded (NumPy, a kernel), the
forward itself is called again, as long as its class is alive and takes tensors alone.

Two kinds of Function have a backward that is not the derivative on purpose. The one returns its
input and changes the gradient (gradient reversal, clipping). The other has a forward that is flat
and passes a surrogate gradient on (rounding, spikes). They are told apart and not judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradwalk.inspect.mistakes.custom_functions import call_forward, function_named
from gradwalk.inspect.mistakes.diagnosis import Array
from gradwalk.inspect.mistakes.wrong_contributions import EPS, AuditedPush, double, in_double
from gradwalk.inspect.trace.replay import NotReplayable, forward, is_array, operand
from gradwalk.inspect.trace.routes import leading_to
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode


@dataclass(frozen=True, eq=False)
class FunctionPush(AuditedPush):
    """What a custom Function handed to one of its inputs."""

    @cached_property
    def _inside(self) -> tuple[list[TraceNode], list[Edge | None]]:
        """The operations of the forward, inputs first, and the result that each output is."""
        trace, node = self.trace, self.node
        given = [edge for _, edge in node.edges]
        if len({*given}) < len(given):
            raise NotReplayable("one tensor is several of its inputs")
        known = [same_value(trace, node, k) for k in range(len(node.metas))]
        if any(edge is None and g is not None for edge, g in zip(known, self.grads)):
            raise NotReplayable("the operations inside its forward were not recorded")
        stop = {edge.node for edge in given}
        behind = leading_to(
            trace, {e.node for e in known if e is not None}, lambda e: e.node not in stop
        )
        inner = [trace.nodes[i] for i in sorted(behind - stop) if not trace.nodes[i].is_leaf]
        if not any(edge in given for one in inner for _, edge in one.edges):
            raise NotReplayable("its forward leaves the graph, for NumPy say")
        return inner, known

    @cached_property
    def _class(self) -> Any:
        """The Function to call where its operations were not recorded; None where they were."""
        try:
            _ = self._inside
            return None
        except NotReplayable:
            cls = function_named(self.node.op)
            if cls is None or len(self.node.edges) != len(self.node.args):
                raise
            return cls

    def _outputs(self, operand_: Array) -> list[Array]:
        if self._class is not None:
            args = [operand_ if i == self.position else a for i, a in enumerate(self.args)]
            outputs = call_forward(self._class, args)
            shapes = [shape for shape, _ in self.node.metas]
            if [np.shape(out) for out in outputs] != shapes:
                raise NotReplayable("its forward gave other shapes when it was called again")
            return [np.asarray(out, np.float64) for out in outputs]
        inner, known = self._inside
        values: dict[Edge, Any] = {self.node.args[self.position]: operand_}
        for node in inner:
            for _, edge in node.edges:
                if edge not in values:
                    values[edge] = double(operand(self.trace, edge))
            outputs = forward(self.trace, in_double(node), values)
            values |= {Edge(node.index, k): out for k, out in enumerate(outputs)}
        shapes = [shape for shape, _ in self.node.metas]
        return [
            np.zeros(shape) if edge is None else np.asarray(values[edge], np.float64)
            for edge, shape in zip(known, shapes)
        ]

    @cached_property
    def agrees(self) -> bool:
        """As of any push, unless the gradient is another one on purpose."""
        right = super().agrees
        if right:
            return True
        if any(np.array_equal(self._operand, out) for out in self._now):
            raise NotReplayable("it returns its input and changes the gradient, on purpose")
        moved = self._outputs(self._operand + EPS * self._direction)
        if all(np.array_equal(one, other) for one, other in zip(moved, self._now)):
            raise NotReplayable("its forward is flat, and its backward a surrogate, on purpose")
        return False


def same_value(trace: Trace, function: TraceNode, output: int) -> Edge | None:
    """The operation before a Function that made the array it returned."""
    wanted = function.values[output]
    if not is_array(wanted):
        return None
    for node in reversed(trace.nodes[: function.index]):
        if node.is_leaf or node.needs_grad:
            continue
        for k, value in enumerate(node.values):
            if is_array(value) and np.array_equal(value, wanted, equal_nan=True):
                return Edge(node.index, k)
    return None
