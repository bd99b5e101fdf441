"""Explain "backward through the graph a second time": which tensor, where made, where kept.

A backward pass frees what its graph saved. A later pass that reaches this graph fails. There are
three ways to get there: the same loss twice, two losses of one forward pass, or a tensor that is
carried from one step to the next, such as the hidden state of a recurrent network.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from gradwalk.graph.source import SourceLine
from gradwalk.torch import private
from gradwalk.torch.user_lines import USER, files

FREED = "backward through the graph a second time"
DEEPEST = 3  # of nested containers to search
LineOf = Callable[[Any], SourceLine | None]
Line = Callable[[], SourceLine | None]  # its text is looked up only if it is needed


class LastPass(NamedTuple):
    """A backward pass that completed."""

    nodes: int  # autograd nodes made until then
    line: Line
    roots: list[weakref.ref[Any]]  # the tensors it started from


_passes: deque[LastPass] = deque(maxlen=256)


def note_pass(outputs: Sequence[Any], line: Line) -> None:
    """Note a backward pass that completed."""
    roots = [weakref.ref(root) for root in outputs if isinstance(root, torch.Tensor)]
    _passes.append(LastPass(private.nodes_made(), line, roots))


def explain_freed(
    error: RuntimeError, outputs: Sequence[Any], nodes: list[Any], line_of: LineOf
) -> None:
    """Add a note to PyTorch's error; `nodes` are the autograd nodes behind `outputs`."""
    if FREED not in str(error) or any("gradwalk:" in note for note in _notes(error)):
        return
    # The failed pass, too, has freed what it visited: only what is older counts.
    done = _passes[-1].nodes if _passes else 0
    freed = [node for node in nodes if _number(node) < done and _is_freed(node)]
    told: tuple[str, SourceLine | None] | None = None
    for completed in _passes:
        if any(root() is output for root in completed.roots for output in outputs):
            told = _same_loss(completed.line())
    if told is None and freed:
        told = _kept_graph(nodes, freed, line_of)
    if told is not None:
        error.add_note(f"gradwalk: {told[0]}")
        error.gradwalk_line = told[1]  # type: ignore[attr-defined]


def _notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


def _same_loss(line: SourceLine | None) -> tuple[str, SourceLine | None]:
    return (
        f"backward was called twice on the same loss, first at {line}, which freed its graph. Fix: "
        "call it once per forward pass; if both are meant, backward(retain_graph=True) the first "
        "time.",
        line,
    )


def _kept_graph(
    nodes: list[Any], freed: list[Any], line_of: LineOf
) -> tuple[str, SourceLine | None]:
    done = _passes[-1]
    old = {node for node in nodes if _number(node) < done.nodes}
    border = [
        (node, source, output)
        for node in nodes
        if node not in old
        for source, output in node.next_functions
        if source in old
    ]
    line = done.line()
    first = "" if line is None else f" at {line}"
    newest = max(border, key=lambda edge: private.number_of(edge[1]), default=None)
    user, source, output = newest or (None, max(freed, key=private.number_of), 0)
    made = line_of(source)
    kept, is_replaced = _holder(source, output)
    twins = _twins(nodes, old, source)
    name = f", kept in {kept}," if kept else ""
    if user is None or not (is_replaced or twins):
        return (
            f"two backward passes go through {_described(source, output)}{name} made at "
            f"{made or 'an unrecorded line'}, and the first{first} freed it. Fix: add the losses "
            "and call backward() once, compute it again for the second loss, or call the first "
            "one as backward(retain_graph=True).",
            made,
        )
    made = made or _line_among(twins, line_of)
    used = line_of(user) or _line_among(_twins(nodes, old, user), line_of)
    detached = f"{kept} = {kept}.detach()" if kept else "detach() it"
    return (
        f"{_described(source, output)}{name} is carried over from an earlier step"
        + (f"; it was made at {made}" if made is not None else "")
        + (f" and is used again at {used}" if used is not None else "")
        + f". That step's backward{first} freed the graph behind it. Fix: {detached} before the "
        "next step uses it: the gradient then ends there.",
        made or used,
    )


def _number(node: Any) -> int:
    is_leaf = hasattr(node, "variable")
    return sys.maxsize if is_leaf else private.number_of(node)


def _is_freed(node: Any) -> bool:
    for name in private.saved_names(node):
        if private.is_packed(node, name):
            continue
        try:
            getattr(node, name)
        except RuntimeError as error:
            if "freed" in str(error):
                return True
    return False


def _shape(node: Any, output: int) -> tuple[int, ...] | None:
    known = private.outputs_of(node)
    form = known[output] if output < len(known) else None
    return None if form is None else form[0]


def _described(node: Any, output: int) -> str:
    name = str(node.name()).rpartition("::")[2].removesuffix("0").removesuffix("Backward")
    shape = _shape(node, output)
    return f"the result of {name}" + ("" if shape is None else f" of shape {shape}")


def _twins(nodes: list[Any], old: set[Any], node: Any) -> list[Any]:
    """The nodes that make the same tensor in later steps."""
    forms = private.outputs_of(node)
    new = (other for other in nodes if other not in old and other.name() == node.name())
    return [other for other in new if private.outputs_of(other) == forms]


def _line_among(nodes: list[Any], line_of: LineOf) -> SourceLine | None:
    return next((line for node in nodes if (line := line_of(node)) is not None), None)


# -- which variable keeps it -----------------------------------------------------------------------


def _holder(source: Any, output: int) -> tuple[str, bool]:
    """The variable or attribute that holds the tensor, or, True, the one that replaced it."""
    replaced = ""
    for name, tensor in _variables():
        node = tensor.grad_fn
        if node is source and tensor.output_nr == output:
            return name, False
        alike = node is not None and node.name() == source.name() and tensor.output_nr == output
        if alike and not replaced and tuple(tensor.shape) == _shape(source, output):
            replaced = name
    return replaced, bool(replaced)


def _variables() -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in the variables of the program's frames, innermost first, and their names."""
    frame: Any = sys._getframe(1)
    seen: set[int] = set()
    while frame is not None:
        if files[frame.f_code.co_filename] == USER:
            for name, value in list(frame.f_locals.items()):
                yield from _tensors_in(name, value, seen)
        frame = frame.f_back


def _tensors_in(
    name: str, value: Any, seen: set[int], depth: int = 0
) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
        return
    if id(value) in seen or depth > DEEPEST:
        return
    if isinstance(value, list | tuple | Mapping | torch.nn.Module):
        seen.add(id(value))
    if isinstance(value, torch.nn.Module):
        for attribute, inner in list(vars(value).items()):
            if not attribute.startswith("_"):
                yield from _tensors_in(f"{name}.{attribute}", inner, seen, depth + 1)
        for part, module in value.named_children():
            joined = f"{name}[{part}]" if part.isdigit() else f"{name}.{part}"
            yield from _tensors_in(joined, module, seen, depth)
    elif isinstance(value, Mapping):
        for key, inner in list(value.items()):
            yield from _tensors_in(f"{name}[{key!r}]", inner, seen, depth + 1)
    elif isinstance(value, list | tuple):
        for position, inner in enumerate(value):
            yield from _tensors_in(f"{name}[{position}]", inner, seen, depth + 1)
