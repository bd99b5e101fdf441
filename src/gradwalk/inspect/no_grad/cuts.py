"""What stops a gradient at one node: the kind of cut, an explanation and a fix.

One sort of cut passes nothing, so the gradient is None. The other sort multiplies the gradient by
zero.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradwalk.inspect.report import short
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.replay import NotReplayable, is_array, op_of, pull
from gradwalk.inspect.trace.routes import leading_to
from gradwalk.inspect.trace.trace import Edge, Kept, Trace, TraceNode

COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
LOGIC = {"logical_and", "logical_or", "logical_xor", "logical_not", "all", "any", "isnan"}
CHOICES = {"argmax", "argmin", "searchsorted", "max_pool_indices"}
STEPS = {"sign", "floor", "ceil", "trunc", "round", "div_floor", "div_trunc", "floor_divide"}
STEPS |= {"zero", "heaviside"}
DEAD = {"relu", "threshold"}
BOUNDED = {"clip", "clamp_min", "clamp_max", "clip_between", "hardtanh", "hardsigmoid"}
SHRUNK = {"hardshrink", "softshrink", "hardswish"}
WINNERS = {"maximum", "minimum", "max", "min", "amax", "amin", "max_pool", "median", "topk"}
WINNERS |= {"median_along", "kthvalue", "cummax", "cummin"}
PRODUCTS = {"mul", "matmul", "linear", "einsum", "conv", "conv_bias", "addmm", "baddbmm"}
SATURATING = {
    "tanh", "sigmoid", "softmax", "log_softmax", "erf", "exp", "exp2", "expm1", "softplus",
    "logsigmoid", "gelu", "gelu_tanh", "silu", "mish", "elu", "erfc", "ndtr", "cross_entropy",
    "binary_cross_entropy_logits", "sinh", "cosh", "atan",
}  # fmt: skip
OVERWRITING = {"setitem", "write_view", "put", "CopySlices"}
OVERWRITING |= {"aten.copy_", "aten.fill_", "aten.zero_"}


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason: a word for programs, a sentence and a fix for people."""

    kind: str
    reason: str
    fix: str
    before: bool = False  # the cut is the input itself, not the node it goes into
    at: int | None = None  # the node whose line to show, if it is another
    passing: bool = False  # the first step of training ends it


Explain = Callable[[Trace, TraceNode, int], Cause | None]

# -- nothing passes --------------------------------------------------------------------------------

_MEANT = (
    "If the cut is meant (a target, a frozen part), keep it: freeze what is behind it, or let it "
    "reach the loss along another path as well."
)
_NOTES = {
    "detach": Cause(
        "detach",
        "detach() passes on the values, not the gradient.",
        f"leave the detach() out if this gradient is meant to flow. {_MEANT}",
    ),
    "data": Cause(
        "data",
        ".data passes on the values, not the gradient.",
        f"use the tensor itself instead of its .data. {_MEANT}",
    ),
    "no_grad": Cause(
        "no_grad",
        "it is computed inside no_grad(), where nothing is recorded.",
        "move what is to be learned out of the no_grad() block, or call it inside enable_grad(); "
        "freeze it with requires_grad_(False) if it is not to be learned.",
    ),
}


def closed(trace: Trace, node: TraceNode, position: int) -> Cause | None:
    """Why no gradient can pass from `node` to its input at `position`; None if it can."""
    edge = node.args[position]
    source = trace.nodes[edge.node]
    if any("float" not in dtype for _, dtype in source.metas[edge.output : edge.output + 1]):
        return replace(_without_derivative(source, edge.output), before=True)
    if node.note in _NOTES:
        return _noted(trace, node)
    if not node.needs_grad:
        return _without_derivative(node)
    op = op_of(node)
    if op is not None and op.rule(position) is None:
        name = op.inputs[min(position, len(op.inputs) - 1)]
        return Cause(
            "no rule",
            f"{node.op} has no derivative in its input '{name}': it is a choice or an index.",
            f"let what '{name}' is made of reach the loss along another path as well.",
        )
    for sweep in trace.sweeps[-1:]:
        pushed = sweep.pushed.get(node.index)
        if pushed is not None and position < len(pushed) and pushed[position] is None:
            if op is None:
                return Cause(
                    "own backward",
                    f"the backward of {node.op} returns None for its input {position}.",
                    f"return the gradient of input {position} from {node.op}.backward.",
                )
            return Cause(
                "not asked for",
                "only the gradients of other tensors were requested.",
                "name it in inputs=, or call backward() without inputs.",
            )
    return None


def _noted(trace: Trace, node: TraceNode) -> Cause:
    """A cut that the program asked for."""
    cause = _NOTES[node.note]
    if node.note == "no_grad" and node.block is not None and node.block != node.line:
        where = trace.name(node.index) if node.line is None else str(node.line)
        return replace(cause, reason=f"{cause.reason[:-1]} (first at {where}).")
    if node.note == "detach" and is_straight_through(trace, node):
        return Cause(
            "straight-through",
            "this detach() belongs to a straight-through estimator, z + (q - z).detach(): it "
            "passes on the values, and the gradient goes to z alone.",
            "keep it. Give what q is made of a term of its own in the loss, such as "
            "(q - z.detach()).square().mean().",
        )
    return cause


def is_straight_through(trace: Trace, node: TraceNode) -> bool:
    """Whether a detached difference q − z is added to z again."""
    for consumer, position in trace.consumers[node.index]:
        other = trace.nodes[consumer]
        if other.op != "add":
            continue
        kept = {edge.node for k, edge in other.edges if k != position}
        if any(_subtracts(trace, edge.node, kept) for _, edge in node.edges):
            return True
    return False


def _subtracts(trace: Trace, index: int, wanted: Collection[int]) -> bool:
    """Whether a node is a difference whose second operand is one of these."""
    node = trace.nodes[index]
    second = node.args[1] if node.op == "sub" and len(node.args) > 1 else None
    return isinstance(second, Edge) and second.node in wanted


def _without_derivative(node: TraceNode, output: int = 0) -> Cause:
    """Why an output carries no gradient although an operand of the node does."""
    dtype = node.metas[output][1]
    if node.op in CHOICES or output:
        return Cause(
            "not differentiable",
            f"{node.op} returns an index, which is constant except where it jumps.",
            "weight all elements (softmax), or use the value at that index (max(dim).values, "
            "gather).",
        )
    if node.op in COMPARISONS | LOGIC:
        return Cause(
            "not differentiable",
            f"{node.op} returns True or False, which has no derivative.",
            "use a smooth step, sigmoid((x - y) / width), or where(condition, a, b) with a and b "
            "that carry gradients.",
        )
    if "float" not in dtype:
        return Cause(
            "integer",
            f"it holds {dtype}, and integers have no derivative.",
            "keep it a float up to the loss; round or cast only what is shown.",
        )
    return Cause(
        "not differentiable",
        f"{node.op} has no derivative.",
        f"replace {node.op} by something smooth.",
    )


# -- what passes is multiplied by zero -------------------------------------------------------------


def all_zero(kept: Kept) -> bool:
    """Whether every element is exactly 0."""
    if kept is None:
        return False
    if kept.__class__ is float:
        return kept == 0
    if isinstance(kept, Statistics):
        return kept.count > 0 and kept.zeros == kept.count
    return bool(np.size(kept)) and not np.any(kept)


def is_flat(trace: Trace, node: TraceNode, position: int) -> bool:
    """Whether the op would multiply any gradient by zero here."""
    op = op_of(node)
    if op is None or op.linear or op.view:
        return False
    if op.multilinear:
        return _multiplied(trace, node, position) is not None
    random = np.random.default_rng(0)
    gs = [random.uniform(0.5, 1.5, shape) for shape, _ in node.metas]
    try:
        pushed = pull(trace, node, float(gs[0]) if trace.scalar else gs)
    except (NotReplayable, ValueError, TypeError, IndexError):
        return False
    return position < len(pushed) and all_zero(pushed[position])


def vanished(trace: Trace, node: TraceNode, position: int) -> Cause:
    """Why `node` pushes only zeros to its input at `position`."""
    explain = _EXPLAINED.get(node.op)
    cause = None if explain is None else explain(trace, node, position)
    return cause or _slope(trace, node, position)


def _value(trace: Trace, argument: Any) -> Kept:
    if not isinstance(argument, Edge):
        return argument
    return trace.nodes[argument.node].values[argument.output]


def _concerned(trace: Trace, node: TraceNode, position: int) -> tuple[str, str]:
    """Describe the elements of the input that meet a gradient, and their range."""
    edge = node.args[position]
    x: Any = _value(trace, edge)
    g: Any = trace.sweep.grad(node.index) if trace.sweeps else None
    total = _size(trace.nodes[edge.node], edge)
    subject = "its input is" if total == 1 else f"all {total} inputs are"
    if is_array(x) and is_array(g) and np.shape(x) == np.shape(g) and not np.all(g):
        met = np.asarray(x)[np.asarray(g) != 0]
        if 0 < met.size < total:  # the others receive nothing from beyond
            x = met
            verb = "is" if met.size == 1 else "are"
            subject = f"of {total} inputs the {met.size} that a gradient reaches {verb}"
    return subject, _span(x)


def _span(kept: Kept) -> str:
    """Describe the smallest and largest element."""
    if kept is None:
        return ""
    known = Statistics.of(kept)
    if known.count == 1:
        return f" (it is {short(known.low)})"
    if known.low == known.high:
        return f" (all are {short(known.low)})"
    return f" (they lie between {short(known.low)} and {short(known.high)})"


def _flat_where(kind: str, where: Callable[[TraceNode], str], fix: str) -> Explain:
    """Explain an op that is flat on a part of its domain; `where` describes that part."""

    def explain(trace: Trace, node: TraceNode, position: int) -> Cause:
        subject, span = _concerned(trace, node, position)
        return Cause(kind, f"{node.op} is flat there: {subject} {where(node)}{span}.", fix)

    return explain


def _bounds(node: TraceNode) -> str:
    limits = [f"{k}={v}" for k, v in node.attrs.items() if v is not None and k in ("min", "max")]
    return f"outside its bounds [{', '.join(limits)}]" if limits else "outside its bounds"


_dead = _flat_where(
    "dead relu",
    lambda node: f"at or below {short(float(node.attrs.get('threshold', 0.0)))}",
    "start with a bias above 0 or smaller weights, lower the learning rate that drove it there, or "
    "use leaky_relu, which is never flat.",
)
_bounded = _flat_where(
    "clamp", _bounds, "widen the bounds, or use a smooth bound (tanh, sigmoid, softplus)."
)
_shrunk = _flat_where(
    "flat",
    lambda node: "where its output does not change",
    "scale its input, or use a function without a flat part.",
)


def _stepped(trace: Trace, node: TraceNode, position: int) -> Cause:
    return Cause(
        "flat",
        f"{node.op} is a step function: its derivative is 0 wherever it exists.",
        f"leave {node.op} out of the loss, or let the gradient pass it by: "
        f"x + ({node.op}(x) - x).detach().",
    )


def _not_selected(trace: Trace, node: TraceNode, position: int) -> Cause:
    branch, other = ("first", "second") if position == 1 else ("second", "first")
    wrong = "nowhere true" if position == 1 else "true everywhere"
    return Cause(
        "where",
        f"the condition of where is {wrong}: its {branch} branch is never chosen.",
        f"look at the condition; only the {other} branch reaches the loss.",
    )


def _not_winner(trace: Trace, node: TraceNode, position: int) -> Cause:
    others = [a for i, a in enumerate(node.args) if i != position]
    beside = ""
    if len(others) == 1:
        other = others[0]
        name = trace.name(other.node) if isinstance(other, Edge) else short(float(other))
        beside = f" ({name} is)"
    return Cause(
        "not the winner",
        f"{node.op} passes its gradient to what it selects, and this is never selected{beside}.",
        "use a soft choice (logaddexp, logsumexp, softmax), which gives every input a share.",
    )


def _multiplied(trace: Trace, node: TraceNode, position: int) -> Cause | None:
    factors = [a for i, a in enumerate(node.args) if i != position and a is not None]
    if node.op in ("linear", "conv", "conv_bias"):
        factors = [a for i, a in enumerate(node.args[:2]) if i != position]
    factor = next((a for a in factors if all_zero(_value(trace, a))), None)
    if factor is None:
        return None
    if not isinstance(factor, Edge):
        return Cause(
            "zero factor",
            "it is multiplied by 0.",
            "leave the term out, or give it a factor that is not 0.",
        )
    name, other = trace.name(factor.node), trace.nodes[factor.node]
    size = _size(other, factor)
    all_of_it = f"{name} is 0" if size == 1 else f"all {size} elements of {name} are 0"
    if _learns(trace, factor.node):
        return Cause(
            "zero factor",
            f"it is multiplied by zero: {all_of_it}. But {name} receives a gradient, so only the "
            "first step is lost.",
            "none is needed: branches that start at zero (LoRA, the last layer of a residual "
            "branch) are common. Small random numbers would save the step.",
            passing=True,
        )
    if other.is_leaf and other.needs_grad:
        fix = f"initialise {name} with small random numbers instead of zeros."
    elif other.is_leaf:
        fix = f"look at {name}: a mask or an input that is all zeros lets nothing through."
    else:
        fix = f"look at what makes {name} zero (made by {other.op})."
    return Cause("zero factor", f"it is multiplied by zero: {all_of_it}.", fix)


def _learns(trace: Trace, index: int) -> bool:
    """Whether some parameter behind a node receives a gradient that is not 0."""
    if not trace.sweeps or trace.scalar:  # every number in a formula of Values is a leaf
        return False
    sweep = trace.sweep
    return any(
        trace.nodes[i].is_leaf
        and trace.nodes[i].needs_grad
        and any(g is not None and not all_zero(g) for g in sweep.grads.get(i, ()))
        for i in leading_to(trace, [index])
    )


def _size(node: TraceNode, edge: Edge) -> int:
    return int(np.prod(node.metas[min(edge.output, len(node.metas) - 1)][0]))


def _saturated(trace: Trace, node: TraceNode, position: int) -> Cause | None:
    if position >= len(node.args) or _underflow(trace, node, position):
        return None
    subject, span = _concerned(trace, node, position)
    return Cause(
        "saturated",
        f"{node.op} is saturated: {subject} where its derivative is exactly 0 in "
        f"{node.metas[0][1]}{span}.",
        "make its input smaller (smaller weights, normalised inputs), or compute the loss from "
        "the logits.",
    )


def _overwritten(trace: Trace, node: TraceNode, position: int) -> Cause | None:
    if position != 0:
        return None
    return Cause(
        "overwritten",
        "its elements are overwritten in place before they are used.",
        "write into a tensor of its own, or use where(mask, new, old) to keep the rest.",
    )


def _underflow(trace: Trace, node: TraceNode, position: int) -> bool:
    """Whether a product of nonzero factors underflows to 0."""
    g: Any = None if not trace.sweeps else trace.sweep.grad(node.index)
    op = op_of(node)
    if op is None or not op.elementwise or not is_array(g):
        return False
    try:
        local: Any = pull(trace, node, np.ones_like(g))[position]
    except (NotReplayable, ValueError, TypeError):
        return False
    if local is None or np.shape(local) != np.shape(g):
        return False
    return bool(np.any((np.asarray(g) != 0) & (np.asarray(local) != 0)))


def _slope(trace: Trace, node: TraceNode, position: int) -> Cause:
    """Any other op: its local derivative is 0 here, or the product underflows."""
    if _underflow(trace, node, position):
        return Cause(
            "underflow",
            f"gradient × derivative of {node.op} is smaller than the smallest "
            f"{node.metas[0][1]}, and rounds to 0.",
            "scale the loss up (and the gradients down again), or use float64.",
        )
    op = op_of(node)
    if op is None:
        return Cause(
            "own backward",
            f"the backward of {node.op} returns 0 for its input {position}.",
            f"check {node.op}.backward with gradwalk.gradcheck.",
        )
    _, span = _concerned(trace, node, position)
    formula = formula_of(op, position, node.attrs)
    return Cause(
        "zero slope",
        f"the derivative of {node.op}{formula} is 0 here{span}.",
        "start from values where the function is not flat.",
    )


def formula_of(op: Any, position: int, attrs: dict[str, Any]) -> str:
    """The local derivative in commas, for a sentence; empty if it has no formula."""
    from gradwalk.printers.formulas.formula import derivative

    if not op.elementwise:
        return ""
    try:
        return f", {derivative(op, position, **attrs)},"
    except Exception:  # the rule has no formula
        return ""


_EXPLAINED: dict[str, Explain] = {"where": _not_selected}
_FAMILIES: list[tuple[set[str], Explain]] = [
    (DEAD, _dead),
    (BOUNDED, _bounded),
    (SHRUNK, _shrunk),
    (STEPS, _stepped),
    (WINNERS, _not_winner),
    (PRODUCTS, _multiplied),
    (SATURATING, _saturated),
    (OVERWRITING, _overwritten),
]
for _names, _explain in _FAMILIES:
    _EXPLAINED |= dict.fromkeys(_names, _explain)
