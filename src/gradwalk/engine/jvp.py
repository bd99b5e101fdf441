"""Forward mode: push tangents over a recorded graph, from the inputs to the outputs.

No op has a separate forward-mode rule. An elementwise rule works both ways, a linear op is
applied to the tangent, a multilinear one gives one term per operand, and for the rest the VJP
rule, which is linear in g, is transposed by differentiating it in g.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwalk.engine import gradients
from gradwalk.engine.modes import filled, inside_vmap
from gradwalk.engine.pull import expanded, pull, saved_of, tied
from gradwalk.graph.order import inputs_first
from gradwalk.ops.core.dtypes import has_gradients
from gradwalk.ops.core.op import Op
from gradwalk.ops.elementwise.complex_numbers import turned
from gradwalk.ops.shape.reshaping import broadcast_to, cast

Tangents = dict[tuple[Any, int], Any]  # (node, output) -> tangent


def push(outputs: Sequence[Any], starts: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """The tangent of each output (None where it does not depend on the starts).

    `starts` are tensors of the recorded graph, `tangents` the directions they move in.
    """
    known: Tangents = {(s._node or s, s._index): t for s, t in zip(starts, tangents, strict=True)}
    stop = {s._node or s for s in starts}
    roots = [o._node or o for o in outputs if o.requires_grad]
    for node in inputs_first(roots, stop):
        if node.inputs and node not in stop:
            arriving = [known.get(key) for key in zip(node.inputs, node.picks, strict=False)]
            if any(t is not None for t in arriving):
                for index, tangent in enumerate(_through(node, arriving)):
                    known[node, index] = tangent
    return [known.get((o._node or o, o._index)) if o.requires_grad else None for o in outputs]


def _through(node: Any, arriving: list[Any]) -> Sequence[Any]:
    """The tangents of a node's outputs from those of its inputs."""
    op = node.op
    saved = saved_of(node)
    if not isinstance(op, Op):  # a custom Function
        pushes = getattr(op, "pushes", False)
        return op.push(node, arriving) if pushes else _transposed(node, arriving)
    if op.array_only:
        return _through_expansion(node, saved, arriving)
    operands = {name: tied(node, name, value, gradients.wrap) for name, value in saved.items()}
    if op.elementwise:
        return [_elementwise(node, operands, arriving)]
    if op.linear:
        moved = op(*_in_place_of_inputs(node, operands, arriving), **node.attrs)
        return moved if op.multiple else [moved]
    if op.multilinear:
        terms = []
        for position, tangent in enumerate(arriving):
            if tangent is not None:
                only = [t if i == position else None for i, t in enumerate(arriving)]
                args = _in_place_of_inputs(node, operands, only, others_stay=True)
                terms.append(op(*args, **node.attrs))
        return [sum(terms[1:], terms[0])]
    return _transposed(node, arriving)


def _elementwise(node: Any, operands: dict[str, Any], arriving: list[Any]) -> Any:
    """Σ local derivative × tangent: the VJP rule itself, since the Jacobian is diagonal."""
    shape = node.out_metas[0][0]
    terms = []
    for position, tangent in enumerate(arriving):
        if tangent is not None:
            plan = node.op.plan(tuple([i == position for i in range(len(arriving))]))
            pulled = plan.pull(broadcast_to(tangent, shape), operands, node.attrs)
            if pulled[position] is not None:  # an operand may have no derivative
                terms.append(pulled[position])
    if not terms:
        return None
    total = sum(terms[1:], terms[0])
    dtype = node.out_metas[0][1]  # a complex number beside a real tensor moves the result only
    return total if total.dtype == dtype else cast(total, dtype=dtype)


def _in_place_of_inputs(
    node: Any, operands: dict[str, Any], tangents: list[Any], others_stay: bool = False
) -> list[Any]:
    """Arguments for the op: tangents where they exist, else zeros (or the input itself)."""
    op = node.op
    args = []
    for position, tangent in enumerate(tangents):
        name = op.inputs[min(position, len(op.inputs) - 1)]
        tail = op.variadic and position >= len(op.inputs) - 1
        if tangent is not None:
            args.append(tangent)
        elif others_stay or op.rule(position) is None:
            held = operands[name]
            args.append(held[position - len(op.inputs) + 1] if tail else held)
        else:
            beside = next(t for t in tangents if t is not None)._array
            meta = None if node.metas is None else node.metas[position]
            if meta is None:  # one that needs no gradient; an op without its shape broadcasts
                shapes = operands.get(f"{name}_shape")
                meta = node.shape if shapes is None else shapes[position], beside.dtype
            shape, dtype = meta
            args.append(gradients.wrap(filled(shape, dtype, 0, beside)))
    return args


def _transposed(node: Any, arriving: list[Any]) -> list[Any]:
    """The VJP is linear in g; its own VJP at any g is therefore the JVP."""
    dummies = []
    beside = next(t for t in arriving if t is not None)._array
    for shape, dtype in node.out_metas:
        dummy = inside_vmap(gradients.wrap(filled(shape, dtype, 0, beside)))
        if has_gradients(dtype):
            dummy.requires_grad = True
        dummies.append(dummy)
    seed = list(dummies) if node.many else dummies[0]
    contributions = pull(node, seed, None, gradients.wrap)
    pairs = [
        (c, t)
        for c, t in zip(contributions, arriving, strict=True)
        if c is not None and t is not None and c.requires_grad
    ]
    floats = [d for d in dummies if d.requires_grad]
    if not pairs:
        return [None] * len(dummies)
    outputs, seeds = zip(*pairs, strict=True)
    seeds = tuple(map(turned, seeds))  # `grad` turns them, and its results, a second time
    tangents = iter(gradients.grad(outputs, floats, seeds, create_graph=True, allow_unused=True))
    return [turned(next(tangents)) if d.requires_grad else None for d in dummies]


def _through_expansion(node: Any, saved: dict[str, Any], arriving: list[Any]) -> list[Any]:
    """An op whose rule keeps residuals: through its definition in other ops."""
    inputs, out = expanded(node, saved, gradients.wrap)
    moving = [(i, t) for i, t in zip(inputs, arriving, strict=True) if t is not None]
    outs = out if node.op.multiple else (out,)
    return push(outs, [i for i, _ in moving], [t for _, t in moving])
