"""Compute with a trace alone: recompute a node, pull a gradient or push a tangent through it.

The op table has the rules and the trace has the operands, so a trace can be stepped on a machine
that has never seen the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradwalk.engine import gradients, jvp
from gradwalk.engine.modes import enable_grad, quietly, state, switch
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.trace import Edge, Kept, Sweep, Trace, TraceNode
from gradwalk.ops import TABLE
from gradwalk.ops.core.dtypes import constant, dtype_named, is_floating
from gradwalk.ops.core.op import Op


class NotReplayable(ValueError):
    """A node cannot be recomputed: its op is unknown, or a value was not kept."""


def op_of(node: TraceNode) -> Op | None:
    """The op of a node; None for a leaf and for ops that are unknown (custom Functions)."""
    return node.defined or TABLE.get(node.op) if node.op else None


def is_array(kept: Kept) -> bool:
    """Whether a value was kept in full."""
    return kept is not None and not isinstance(kept, Statistics)


def operands(trace: Trace, node: TraceNode, values: dict[Edge, Any] | None = None) -> list[Any]:
    """The operands of a node; `values` overrides those of the trace."""
    return [operand(trace, argument, values) for argument in node.args]


def operand(trace: Trace, argument: Any, values: dict[Edge, Any] | None = None) -> Any:
    """One operand: the value of a node, or a constant."""
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
    """Recompute the outputs of a node, optionally from other operands."""
    op = op_of(node)
    if op is None:
        raise NotReplayable(f"the op table has no '{node.op}'")
    args = operands(trace, node, values)
    if trace.scalar:
        if op.elementwise:
            return [op.on_numbers(args, node.attrs)]
        raise NotReplayable(f"{node.op} is not about numbers")
    with _told_of(trace, node):
        return outputs_of(op, quietly(op.forward, *typed(node, args), **node.attrs))


@contextmanager
def _told_of(trace: Trace, node: TraceNode) -> Iterator[None]:
    """Turn errors of an op into NotReplayable: a file may have attributes that do not fit."""
    try:
        yield
    except (TypeError, LookupError, AttributeError) as error:
        raise NotReplayable(
            f"{trace.name(node.index)} cannot be computed from the trace: its operands or "
            f"attributes are not those of {node.op} ({error!r})"
        ) from error


def outputs_of(op: Op, result: Any) -> list[Any]:
    """What a forward returned as a list of outputs, without residuals."""
    many = result if op.multiple or op.residuals else (result,)
    return [np.asarray(part) for part in many[: len(many) - len(op.residuals)]]


def typed(node: TraceNode, args: list[Any]) -> list[Any]:
    """Give plain numbers among arrays the arrays' dtype, as when recorded."""
    dtype = dtype_named(node.metas[0][1]) if node.metas[0][1] != "float" else np.dtype(float)
    return [
        constant(a, dtype) if isinstance(a, (int, float)) and is_floating(dtype) else a
        for a in args
    ]


def recomputed(trace: Trace) -> dict[Edge, Any]:
    """The values that the trace lacks, recomputed from those it has where possible."""
    values: dict[Edge, Any] = {}
    for node in trace.nodes:
        missing = [k for k, value in enumerate(node.values) if value is None]
        if node.is_leaf or not missing or any(a is None for a in node.args):
            continue
        try:
            outputs = forward(trace, node, values)
        except (NotReplayable, ValueError, TypeError, IndexError):
            continue
        values.update({Edge(node.index, k): outputs[k] for k in missing if k < len(outputs)})
    return values


def kept_seeds(sweep: Sweep) -> dict[Edge, Any]:
    """The seeds of a backward pass; of a single number, its statistics tell the value."""
    seeds = {}
    for edge, seed in sweep.seeds.items():
        if isinstance(seed, Statistics) and seed.count == 1:
            seed = np.full(seed.shape, seed.mean, seed.dtype)
        if not is_array(seed):
            raise NotReplayable("the gradient that backward began with was not kept")
        seeds[edge] = seed
    return seeds


def filled(node: TraceNode, gs: Sequence[Any]) -> list[Any]:
    """The gradients of a node's outputs, with zeros for floats that received none."""
    return [
        np.zeros(shape, dtype_named(dtype)) if g is None and is_floating(dtype_named(dtype)) else g
        for g, (shape, dtype) in zip(gs, node.metas)
    ]


def one_hot(node: TraceNode, output: int, flat: int, value: float = 1.0) -> list[Any]:
    """Gradients of a node's outputs with one element that is not 0."""
    shape, dtype = node.metas[output]
    hot = np.zeros(shape, dtype)
    hot.reshape(-1)[flat] = value
    return filled(node, [hot if k == output else None for k in range(len(node.metas))])


def pull(trace: Trace, node: TraceNode, g: Any, values: dict[Edge, Any] | None = None) -> list[Any]:
    """Pull `g` through a node: what each argument receives; None where no gradient flows.

    `g` is the gradient of the output, or a list with that of each output.
    """
    op = op_of(node)
    if op is None:
        known = pull_as_recorded(trace, node, g if isinstance(g, list) else [g])
        if known is None:
            raise NotReplayable(f"the op table has no '{node.op}', so its derivative is unknown")
        return known
    if isinstance(g, list) and not op.multiple:
        g = g[0]
    if trace.scalar:
        args = operands(trace, node, values)
        out = node.value if values is None else op.on_numbers(args, node.attrs)
        return pull_numbers(op, node, g, args, out)
    wants = tuple(
        isinstance(a, Edge) and trace.nodes[a.node].needs_grad and op.rule(i) is not None
        for i, a in enumerate(node.args)
    )
    with np.errstate(all="ignore"), _told_of(trace, node):
        plan = op.plan(wants).write()
        results, args = _what_backward_needs(trace, op, node, plan.names, values)
        pulled = plan.pull(g, plan.save(results, *args), node.attrs)
        return [None if c is None else _fit(c, args[i]) for i, c in enumerate(pulled)]


def _what_backward_needs(
    trace: Trace, op: Op, node: TraceNode, names: tuple[str, ...], values: dict[Edge, Any] | None
) -> tuple[Any, list[Any]]:
    """The results and operands that the rules need; the trace may lack the others.

    The forward runs again only if a rule needs a result that was not kept, or for other operands.
    """
    several = op.multiple or bool(op.residuals)
    asked = [op.outputs.index(name) for name in names if name in op.outputs]
    kept = values is None and all(is_array(node.values[i]) for i in asked)
    if not kept or any(name in op.residuals for name in names):
        args = typed(node, operands(trace, node, values))
        result = op.forward(*args, **node.attrs)
        return ([np.asarray(r) for r in result] if several else np.asarray(result)), args
    args = []
    for position, argument in enumerate(node.args):
        name = op.inputs[min(position, len(op.inputs) - 1)]
        if isinstance(argument, Edge) and name not in names:  # a rule may use its shape only
            shape, dtype = trace.nodes[argument.node].metas[argument.output]
            args.append(np.broadcast_to(np.zeros((), dtype), shape))
        else:
            args.append(operand(trace, argument))
    return (list(node.values) if several else node.value), typed(node, args)


def _fit(contribution: Any, operand: Any) -> Any:
    """Sum over broadcast dimensions and cast to the operand's dtype, as the engine does."""
    shape = np.shape(operand)
    contribution = np.asarray(contribution)
    if isinstance(operand, np.ndarray) and is_floating(operand.dtype):
        contribution = contribution.astype(operand.dtype, copy=False)
    if contribution.shape == shape:
        return contribution
    lead = contribution.ndim - len(shape)
    ones = tuple(
        lead + i for i, n in enumerate(shape) if n == 1 and contribution.shape[lead + i] != 1
    )
    return contribution.sum((*range(lead), *ones), keepdims=True).reshape(shape)


def pull_numbers(op: Op, node: TraceNode, g: float, args: list[float], out: Any) -> list[Any]:
    """Pull a gradient through an op on numbers, given its operands and result."""
    plan = op.plan((True,) * len(args)).write()
    try:
        pulled = plan.pull(float(g), plan.save(out, *args), node.attrs)
        if complex not in map(type, pulled):
            return [None if c is None else float(c) for c in pulled]
    except (ZeroDivisionError, OverflowError, ValueError):
        pass
    doubles = [a if isinstance(a, bool) else np.float64(a) for a in args]  # 1 / 0 is inf
    with np.errstate(all="ignore"):
        pulled = plan.pull(np.float64(g), plan.save(np.float64(out), *doubles), node.attrs)
    return [None if c is None else float(c) for c in pulled]


def pull_as_recorded(trace: Trace, node: TraceNode, gs: list[Any]) -> list[Any] | None:
    """Derive what a node pushes from what it pushed when recorded; None if that is no multiple.

    Pushes are linear, so a multiple of the recorded gradient gives a multiple of the pushes.
    """
    for sweep in reversed(trace.sweeps):
        before, pushed = sweep.grads.get(node.index), sweep.pushed.get(node.index)
        if before is None or not pushed or any(isinstance(p, Statistics) for p in pushed):
            continue
        ratio = _ratio(before, gs)
        if ratio is not None:
            return [p if p is None or ratio == 1 else p * ratio for p in pushed]
    return None


def _ratio(before: list[Kept], gs: list[Any]) -> float | None:
    """The factor between the gradients `gs` and `before`; None if there is none."""
    old, new = [], []
    for b, g in zip(before, gs, strict=True):
        if isinstance(b, Statistics):
            return None
        if b is not None or g is not None:
            old.append(np.zeros(np.size(g)) if b is None else np.ravel(b))
            new.append(np.zeros(np.size(b)) if g is None else np.ravel(g))
    if not old:
        return None
    one, other = np.concatenate(old), np.concatenate(new)
    if np.array_equal(one, other):
        return 1.0
    # PyTorch sums in another order than our arithmetic.
    rounding = 1e-4 if one.dtype.itemsize < 8 else 1e-12
    one, other = one.astype(np.float64), other.astype(np.float64)
    if not other.any():
        return 0.0
    with np.errstate(all="ignore"):
        ratio = float(other[0] / one[0] if one.size == 1 else one @ other / (one @ one))
        apart = np.abs(other - ratio * one).max()
    return ratio if apart <= rounding * np.abs(other).max() else None


# -- with tensors of our own -----------------------------------------------------------------------


@contextmanager
def computing(watcher: Any = None) -> Iterator[None]:
    """Compute with tensors of our own, hidden from a recording of the user."""
    outer = state.here.watcher
    switch(watcher=watcher)
    try:
        with enable_grad():
            yield
    finally:
        switch(watcher=outer)


def leaf_tensor(array: Any, needs_grad: bool = False, label: str = "") -> Any:
    """A new tensor on an array."""
    array = np.asarray(array)
    tensor = gradients.wrap(array)
    if label:
        tensor.label = label
    if needs_grad and is_floating(array.dtype):
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
