"""Errors that explain themselves: the tensor, the source lines, what happened, and a fix."""

from __future__ import annotations

from typing import Any

from gradwalk.graph.source import SourceLine, source_line, where_text
from gradwalk.ops.core.signature import OperandError


class AutogradError(RuntimeError):
    """A backward pass that cannot be done, or that would give a wrong gradient."""

    gradwalk_line: SourceLine | None = None  # of what is at fault, if it is known


def name_of(thing: Any) -> str:
    """Describe a node or tensor: its label or op, and its shape."""
    label = getattr(thing, "label", "")
    node = getattr(thing, "_node", thing)  # of a tensor, the node that made it
    made = getattr(node, "op", None)
    what = f"tensor '{label}'" if label else f"the result of {made.name}" if made else "the tensor"
    return f"{what} of shape {tuple(thing.shape)}"


def made_at(thing: Any) -> str:
    """Where a node or tensor was made."""
    owner = getattr(thing, "_node", None) or thing
    return where_text(owner.code, owner.position)


def second_time(node: Any) -> AutogradError:
    """backward() through a graph whose saved values an earlier backward has freed."""
    freed = node.saved
    error = AutogradError(
        f"backward went a second time through {name_of(node)} ({node.op.name}), whose saved "
        "values were freed by the first backward.\n"
        f"  made at:              {made_at(node)}\n"
        f"  first backward at:    {where_text(freed.code, freed.position)}\n"
        "Fix: call the first one as backward(retain_graph=True), add the losses and call "
        "backward once, or compute the forward pass again."
    )
    owner = getattr(node, "_node", None) or node
    error.gradwalk_line = source_line(owner.code, owner.position)
    return error


def modified(node: Any, name: str, shape: Any, stamp: Any) -> AutogradError:
    """A value that backward still needs was changed in place."""
    if name in node.op.inputs and not node.op.variadic:
        source = node.inputs[node.op.inputs.index(name)]
        what = f"input '{name}' of {node.op.name}"
        what += f" ({name_of(source)})" if source is not None else f" of shape {shape}"
    elif name in node.op.outputs:
        what = name_of(node)
    else:
        what = f"'{name}' of {node.op.name}, of shape {shape},"
    error = AutogradError(
        f"{what} is needed to compute the gradient, but it was modified in place after it was "
        f"used.\n"
        f"  used at:       {made_at(node)}\n"
        f"  modified at:   {where_text(stamp.code, stamp.position)}\n"
        "Fix: write the out-of-place form (x = x + y instead of x += y), modify a .clone(), or "
        "move the modification after backward()."
    )
    error.gradwalk_line = source_line(stamp.code, stamp.position)
    return error


def locked_view(view: Any, lock: str, place: str) -> AutogradError:
    """A view with unknown history was about to be changed in place."""
    return AutogradError(
        f"{name_of(view)} shares memory with another tensor, and {lock}: changing it in place "
        "would change that tensor without recording it for the gradient.\n"
        f"  made at:      {made_at(view)}\n"
        f"  changed at:   {place}\n"
        "Fix: .clone() it first, or make it where gradients are recorded."
    )


def stale_view(tensor: Any, view: Any) -> AutogradError:
    """A view with unknown history was used after its base was changed."""
    return AutogradError(
        f"{name_of(tensor)} shares memory with {name_of(view.base)}, which was changed in place "
        f"since, and {view.lock}: how it depends on that change was not recorded.\n"
        f"  made at:      {made_at(tensor)}\n"
        f"  changed at:   {made_at(view.base._node or view.base)}\n"
        "Fix: make it again after the change, or .clone() it before."
    )


def wrong_gradient_shape(node: Any, position: int, got: Any, shape: Any) -> AutogradError:
    """A rule or a custom function returned a gradient that does not fit its input."""
    names = node.op.inputs
    fixed = len(names) - node.op.variadic
    name = names[position] if position < fixed else f"number {position + 1}"
    return AutogradError(
        f"{node.op.name} returned a gradient of shape {tuple(got)} for its input {name} of shape "
        f"{tuple(shape)}; a gradient always has the shape of what it belongs to.\n"
        f"  made at:   {made_at(node)}\n"
        "Fix: check the rule for that input; a missing transpose or a missing sum over a "
        "broadcast axis is the usual cause."
    )


def shape_mismatch(op: Any, args: Any, error: Exception) -> OperandError:
    """An op could not combine its operands: name the shapes and where each was made."""
    several = sum(hasattr(a, "shape") for a in args) > 1
    what = "cannot combine these operands" if several else "cannot be computed"
    reason = str(error)
    if "gufunc" in reason:  # NumPy's message for a matrix product that does not fit
        reason = "the sizes that are multiplied and summed over differ, or a dimension is missing"
    lines = [f"{op.name} {what}: {reason.strip()}"]
    for position, argument in enumerate(args):
        if not hasattr(argument, "code"):
            if hasattr(argument, "shape"):
                lines.append(f"  operand {position + 1}: an array of shape {argument.shape}")
            continue
        label = f" '{argument.label}'" if argument.label else ""
        place = made_at(argument._node if argument._node is not None else argument)
        lines.append(
            f"  operand {position + 1}:{label} shape {tuple(argument.shape)}, made at {place}"
        )
    if several:
        lines.append(_shape_advice(op, args))
    return OperandError("\n".join(lines))


def _shape_advice(op: Any, args: Any) -> str:
    shapes = [tuple(a.shape) for a in args if hasattr(a, "shape")]
    if op.name in ("matmul", "linear") and len(shapes) >= 2:
        x, y = shapes[0], shapes[1]
        if op.name == "matmul" and len(y) >= 2 and x[-1:] == y[-1:]:
            return f"Fix: the inner sizes {x[-1]} and {y[-2]} differ; transpose one: x @ y.mT."
        return (
            "Fix: the last size of the first operand must equal the "
            + ("last" if op.name == "linear" else "second to last")
            + " size of the second; transpose (.mT) or reshape one of them."
        )
    return "Fix: sizes must be equal or 1, counted from the last; reshape or unsqueeze one of them."
