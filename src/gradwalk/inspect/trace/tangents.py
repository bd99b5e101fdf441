"""Forward mode over a trace: how far every node moves, to first order, when an input does.

The engine's forward mode (engine/jvp.py) works on live graphs. Here each node is recomputed from
the operands in the trace, and tangents are pushed through that one operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradwalk.engine import gradients, jvp
from gradwalk.engine.modes import enable_grad, state
from gradwalk.inspect.trace.replay import NotReplayable, op_of, operands
from gradwalk.inspect.trace.trace import Trace, TraceNode


@contextmanager
def computing(watcher: Any = None) -> Iterator[None]:
    """Compute with tensors of our own, hidden from a recording of the user."""
    outer, state.here.watcher = state.here.watcher, watcher
    try:
        with enable_grad():
            yield
    finally:
        state.here.watcher = outer


def leaf_tensor(array: Any, needs_grad: bool = False, label: str = "") -> Any:
    """A new tensor on an array."""
    array = np.asarray(array)
    tensor = gradients.wrap(array)
    if label:
        tensor.label = label
    if needs_grad and array.dtype.kind == "f":
        tensor.requires_grad = True
    return tensor


def known_operands(trace: Trace, node: TraceNode) -> list[Any]:
    """The operands of a node; raise an error that says what is missing."""
    if any(a is None for a in node.args):
        raise NotReplayable(
            f"an operand of {trace.name(node.index)} that needed no gradient was not recorded. "
            "Fix: compute inside `with gradwalk.record():`"
        )
    return operands(trace, node)


def push(node: TraceNode, args: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
    """Push tangents through a node; None for an output that does not move.

    `args` are its operands, `moving` their tangents; None for constants.
    """
    op = op_of(node)
    if op is None:
        raise NotReplayable(f"the op table has no '{node.op}', so its derivative is unknown")
    count = len(node.metas)
    if not op.differentiable:
        return [None] * count
    with computing():
        tensors = [
            leaf_tensor(a, t is not None) if isinstance(a, np.ndarray) else a
            for a, t in zip(args, moving, strict=True)
        ]
        starts = [(x, t) for x, t in zip(tensors, moving) if getattr(x, "requires_grad", False)]
        if not starts:
            return [None] * count
        out = op(*tensors, **node.attrs)
        outs = list(out) if op.multiple else [out]
        directions = [leaf_tensor(np.asarray(t, x.dtype)) for x, t in starts]
        pushed = jvp.push(outs, [x for x, _ in starts], directions)
    return [None if t is None else t._array for t in pushed]
