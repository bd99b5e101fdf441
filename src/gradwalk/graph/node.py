"""Node: one recorded operation."""

from __future__ import annotations

from types import CodeType
from typing import Any

from gradwalk.graph.source import SourceLine, source_line

Meta = tuple[tuple[int, ...], Any]  # shape, dtype


class Node:
    """One operation in the graph: what it was, what went in, and what backward needs of it.

    A leaf tensor is its own graph node, so `inputs` holds Nodes, leaf Tensors, and None where
    no gradient is needed. Nothing here points back at the tensor the node produced: graphs have
    no reference cycles and are freed the moment the loss goes out of scope.
    """

    __slots__ = (
        "__weakref__",
        "attrs",  # the op's keyword arguments
        "clock",  # when it was made, in in-place changes; see graph.versions
        "code",  # with `position`: the source line, see graph.source
        "hooks",  # {output index: {handle: function of the gradient}} or None
        "inputs",
        "label",  # the name the user gave its output, or ""
        "many",  # whether the op has several outputs
        "metas",  # (shape, dtype) of each input; None if all are as the output
        "op",
        "out_clock",  # the clock after it, for an operation that was done in place
        "out_metas",  # (shape, dtype) of each output
        "picks",  # which output of each input
        "plan",  # ops.plan.Plan: how to pull
        "position",
        "saved",  # {name: array}; once used up Freed; in a checkpointed region Recompute
    )

    op: Any
    attrs: dict[str, Any]
    inputs: tuple[Any, ...]
    picks: tuple[int, ...]
    many: bool
    plan: Any
    saved: Any
    metas: tuple[Meta | None, ...] | None
    out_metas: tuple[Meta, ...]
    hooks: dict[int, dict[int, Any]] | None
    label: str
    clock: int
    out_clock: int
    code: CodeType | None
    position: int

    @property
    def name(self) -> str:
        """The op's name as `grad_fn` shows it: `Mul`, `LogSoftmax`."""
        return "".join(word.capitalize() for word in self.op.name.split("_"))

    @property
    def line(self) -> SourceLine | None:
        """The source line that made this node."""
        return source_line(self.code, self.position)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The inputs and which of their outputs is used, under PyTorch's name for it."""
        return tuple(zip(self.inputs, self.picks, strict=True))

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Freed:
    """Stands in `Node.saved` once backward has used it up; remembers which line did."""

    __slots__ = ("code", "position")

    def __init__(self, code: CodeType | None, position: int) -> None:
        self.code = code
        self.position = position
