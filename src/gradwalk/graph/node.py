"""Node: one recorded operation."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from gradwalk.graph.handles import AFTER, BEFORE, RemovableHandle, registered
from gradwalk.graph.source import SourceLine, source_line

Meta = tuple[tuple[int, ...], Any]  # shape, dtype


class _Hooked:
    """A place where backward calls hooks."""

    __slots__ = ()

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(grad_inputs, grad_outputs) after each visit; what it returns, if anything,
        replaces `grad_inputs`."""
        return registered(self._owner(), AFTER, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(grad_outputs) before each visit; it may return others."""
        return registered(self._owner(), BEFORE, hook)

    def _owner(self) -> Any:
        return self


class Node(_Hooked):
    """One operation in the graph: its op, its inputs, and what backward needs.

    A leaf tensor is its own graph node, so `inputs` holds Nodes, leaf Tensors, and None where
    no gradient is needed. Nothing here points back at the tensor the node produced: graphs have
    no reference cycles and are freed the moment the loss goes out of scope.
    """

    # Slots hold what every node has. Rare attributes are in the instance's dictionary, which exists
    # only then, over the defaults below: recording an operation writes as little as possible.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "clock",  # the time it was made, in in-place changes; see graph.versions
        "code",  # with `position`: the source line, see graph.source
        "dtype",  # of the (first) output
        "inputs",
        "metas",  # (shape, dtype) of each input; None if all are as the output
        "op",
        "plan",  # ops.plan.Plan: how to pull
        "position",
        "saved",  # {name: array}; once used up Freed; in a checkpointed region Recompute
        "shape",  # of the (first) output
    )

    op: Any
    inputs: tuple[Any, ...]
    plan: Any
    saved: Any
    metas: tuple[Meta | None, ...] | None
    shape: tuple[int, ...]
    dtype: Any
    clock: int
    code: CodeType | None
    position: int

    attrs: dict[str, Any] = {}  # noqa: RUF012  the op's keyword arguments
    picks: tuple[int, ...] = (0,) * 8  # which output of each input
    many = False  # whether the op has several outputs
    hooks: dict[int, dict[Any, Any]] | None = None  # {output: {handle: function of gradient}}
    other_metas: tuple[Meta, ...] = ()  # (shape, dtype) of the outputs after the first
    label = ""  # the user's name of its output
    out_clock: int | None = None  # the clock after an operation that was done in place

    @property
    def out_metas(self) -> tuple[Meta, ...]:
        """(shape, dtype) of each output."""
        return ((self.shape, self.dtype), *self.other_metas)

    @property
    def title(self) -> str:
        """The op's name as `grad_fn` shows it: `Mul`, `LogSoftmax`."""
        return "".join(word.capitalize() for word in self.op.name.split("_"))

    def name(self) -> str:
        """The name of the derivative, in PyTorch's manner: `MulBackward0`."""
        return f"{self.title}Backward0"

    @property
    def line(self) -> SourceLine | None:
        """The source line that made this node."""
        return source_line(self.code, self.position)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The inputs and which of their outputs is used, under PyTorch's name for it."""
        functions = (
            node if node is None or isinstance(node, Node) else AccumulateGrad(node)
            for node in self.inputs
        )
        return tuple(zip(functions, self.picks, strict=False))

    def __repr__(self) -> str:
        return f"<{self.title}>"


class AccumulateGrad(_Hooked):
    """The end of `next_functions`, as PyTorch shows it: what adds to the `grad` of a leaf."""

    next_functions = ()

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    def _owner(self) -> Any:
        return self.variable

    def name(self) -> str:
        """PyTorch's name for it."""
        return "torch::autograd::AccumulateGrad"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and self.variable is other.variable

    def __hash__(self) -> int:
        return id(self.variable)

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


class Freed:
    """Replaces `Node.saved` after backward has used it; remembers the line of that backward."""

    __slots__ = ("code", "position")

    def __init__(self, code: CodeType | None, position: int) -> None:
        self.code = code
        self.position = position
