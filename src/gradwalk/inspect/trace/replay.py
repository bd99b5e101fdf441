"""Computing with a trace alone: a node's value again, and any gradient through it.

The op table knows how; a trace has the operands. So a trace steps on a machine that has never
seen the program it came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradwalk.engine.modes import quietly
from gradwalk.inspect.trace.statistics import Statistics
from gradwalk.inspect.trace.trace import Edge, Kept, Trace, TraceNode
from gradwalk.ops import TABLE
from gradwalk.ops.core.dtypes import constant
from gradwalk.ops.core.op import Op


class NotReplayable(ValueError):
    """A node cannot be computed from the trace: an unknown op, or a value that was not kept."""


def op_of(node: TraceNode) -> Op | None:
    """The op that made a node; None for a leaf and for ops the table does not have."""
    return TABLE.get(node.op) if node.op else None


def is_array(kept: Kept) -> bool:
    """Whether a number was kept as it is."""
    return kept is not None and not isinstance(kept, Statistics)


def operands(trace: Trace, node: TraceNode, values: dict[Edge, Any] | None = None) -> list[Any]:
    """What the op was applied to; `values` overrides what the trace has."""
    return [operand(trace, argument, values) for argument in node.args]


def operand(trace: Trace, argument: Any, values: dict[Edge, Any] | None = None) -> Any:
    """One operand: the value of a node, or what was given instead of a node."""
    if not isinstance(argument, Edge):
        return argument
    given = None if values is None else values.get(argument)
    if given is None:
        given = trace.nodes[argument.node].values[argument.output]
    if not is_array(given):
        raise NotReplayable(
            f"the value of {trace.name(argument.node)} was not kept. Fix: record with "
            "keep='all', or a larger budget."
        )
    return given


def forward(trace: Trace, node: TraceNode, values: dict[Edge, Any] | None = None) -> list[Any]:
    """The outputs of a node, computed again, perhaps from other operands."""
    op = op_of(node)
    if op is None:
        raise NotReplayable(f"the op table has no '{node.op}'")
    args = operands(trace, node, values)
    if trace.scalar:
        if op.elementwise:
            return [op.on_numbers(args, node.attrs)]
        raise NotReplayable(f"{node.op} is not about numbers")
    with _told_of(trace, node):
        return _outputs(op, quietly(op.forward, *_typed(node, args), **node.attrs))


@contextmanager
def _told_of(trace: Trace, node: TraceNode) -> Iterator[None]:
    """A trace from a file may have attributes or operands that its op cannot work with."""
    try:
        yield
    except (TypeError, LookupError, AttributeError) as error:
        raise NotReplayable(
            f"{trace.name(node.index)} cannot be computed from the trace: its operands or "
            f"attributes are not those of {node.op} ({error!r})"
        ) from error


def _outputs(op: Op, result: Any) -> list[Any]:
    many = result if op.multiple or op.residuals else (result,)
    return [np.asarray(part) for part in many[: len(many) - len(op.residuals)]]


def _typed(node: TraceNode, args: list[Any]) -> list[Any]:
    """Plain numbers among arrays have the arrays' dtype, as when they were recorded."""
    dtype = np.dtype(node.metas[0][1]) if node.metas[0][1] != "float" else np.dtype(float)
    return [
        constant(a, dtype) if isinstance(a, (int, float)) and dtype.kind == "f" else a for a in args
    ]


def pull(trace: Trace, node: TraceNode, g: Any, values: dict[Edge, Any] | None = None) -> list[Any]:
    """What each argument receives if the node's gradient is `g`; None where it wants nothing.

    `g` is one number or array, or a list of them for an op with several outputs.
    """
    op = op_of(node)
    if op is None:
        return _scaled(trace, node, g)
    if trace.scalar:
        return _pull_numbers(op, node, g, operands(trace, node, values))
    wants = tuple(
        isinstance(a, Edge) and trace.nodes[a.node].needs_grad and op.rule(i) is not None
        for i, a in enumerate(node.args)
    )
    with np.errstate(all="ignore"), _told_of(trace, node):
        plan = op.plan(wants).write()
        results, args = _what_backward_needs(trace, op, node, plan.names, values)
        found = plan.pull(g, plan.save(results, *args), node.attrs)
        return [None if c is None else _fit(op, c, args[i]) for i, c in enumerate(found)]


def _what_backward_needs(
    trace: Trace, op: Op, node: TraceNode, names: tuple[str, ...], values: dict[Edge, Any] | None
) -> tuple[Any, list[Any]]:
    """The results and operands of a forward; what no rule asks for may be missing in the trace.

    The forward runs again only if a rule needs a result that was not kept, or other operands
    were given.
    """
    several = op.multiple or bool(op.residuals)
    asked = [op.outputs.index(name) for name in names if name in op.outputs]
    kept = values is None and all(is_array(node.values[i]) for i in asked)
    if not kept or any(name in op.residuals for name in names):
        args = _typed(node, operands(trace, node, values))
        result = op.forward(*args, **node.attrs)
        return ([np.asarray(r) for r in result] if several else np.asarray(result)), args
    args = []
    for position, argument in enumerate(node.args):
        name = op.inputs[min(position, len(op.inputs) - 1)]
        if isinstance(argument, Edge) and name not in names:  # its shape is all that may be asked
            shape, dtype = trace.nodes[argument.node].metas[argument.output]
            args.append(np.broadcast_to(np.zeros((), dtype), shape))
        else:
            args.append(operand(trace, argument))
    return (list(node.values) if several else node.value), _typed(node, args)


def _fit(op: Op, contribution: Any, operand: Any) -> Any:
    """Summed over what was broadcast, in the operand's dtype, as the engine does."""
    shape = np.shape(operand)
    contribution = np.asarray(contribution)
    if isinstance(operand, np.ndarray) and operand.dtype.kind == "f":
        contribution = contribution.astype(operand.dtype, copy=False)
    if contribution.shape == shape:
        return contribution
    lead = contribution.ndim - len(shape)
    ones = tuple(
        lead + i for i, n in enumerate(shape) if n == 1 and contribution.shape[lead + i] != 1
    )
    return contribution.sum((*range(lead), *ones), keepdims=True).reshape(shape)


def _pull_numbers(op: Op, node: TraceNode, g: float, args: list[float]) -> list[Any]:
    plan = op.plan((True,) * len(args)).write()
    with np.errstate(all="ignore"):
        out = np.float64(op.on_numbers(args, node.attrs))
        saved = plan.save(out, *(np.float64(a) for a in args))
        found = plan.pull(np.float64(g), saved, node.attrs)
    return [None if c is None else float(c) for c in found]


def _scaled(trace: Trace, node: TraceNode, g: Any) -> list[Any]:
    """An op the table does not have: what it once pushed, in proportion, if it is about numbers."""
    for sweep in reversed(trace.sweeps):
        pushed, before = sweep.pushed.get(node.index), sweep.grad(node.index)
        if pushed is not None and np.ndim(before) == 0 and is_array(before) and before:
            return [None if p is None else p * (g / before) for p in pushed]
    raise NotReplayable(f"the op table has no '{node.op}', so nothing is known of its derivative")
