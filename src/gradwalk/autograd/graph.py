"""PyTorch's `autograd.graph`: hooks on what backward keeps, and the nodes of the graph."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from gradwalk.engine import gradients
from gradwalk.engine.errors import AutogradError, made_at
from gradwalk.engine.hooks import read_only
from gradwalk.engine.modes import no_grad, state, switch
from gradwalk.graph.abstract import is_array
from gradwalk.graph.node import Node as Node

__all__ = ["disable_saved_tensors_hooks", "save_on_cpu", "saved_tensors_hooks"]

Pack = Callable[[Any], Any]
_disabled: contextvars.ContextVar[str | None] = contextvars.ContextVar("disabled", default=None)


class saved_tensors_hooks:
    """Inside, each tensor that an operation keeps for backward is given to `pack_hook`, and what
    it returns is kept instead; `unpack_hook` makes a tensor of it again when backward needs it.

    >>> import gradwalk as gw
    >>> x = gw.tensor([1.0, 2.0], requires_grad=True)
    >>> with gw.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), gw.tensor):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pack_hook: Pack, unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        self._entered: list[_Entered] = []

    def __enter__(self) -> Self:
        refused = _disabled.get()
        if refused is not None:
            raise RuntimeError(refused)
        if state.here.tracer is not None:
            raise NotImplementedError(
                "saved_tensors_hooks inside compile: a compiled step decides what it keeps.\n"
                "Fix: use it around eager code."
            )
        self._entered.append(_Entered(self, state.here.listener))
        switch(listener=self._entered[-1].made)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._entered:
            switch(listener=self._entered.pop().outer)


class _Entered:
    """One `with` of hooks: it is told of every node that is made inside."""

    def __init__(self, hooks: saved_tensors_hooks, outer: Callable[[Any], None] | None) -> None:
        self.hooks = hooks
        self.outer = outer

    def made(self, node: Any) -> None:
        """Pack what a new node keeps; the innermost hooks do."""
        if isinstance(node.saved, dict) and node.saved:
            before = state.here.listener
            switch(listener=None)  # the hook's own operations are not packed
            try:
                with no_grad():
                    node.saved = _Packed(node.saved, self.hooks)
            finally:
                switch(listener=before)
        if self.outer is not None:  # of a checkpointed region, which counts nodes
            self.outer(node)


class _Packed:
    """Replaces `Node.saved` of a node whose arrays are packed."""

    __slots__ = ("hooks", "kept")

    def __init__(self, saved: dict[str, Any], hooks: saved_tensors_hooks) -> None:
        self.hooks = hooks
        self.kept = {name: self._each(value, self._pack) for name, value in saved.items()}

    def take(self, node: Any) -> dict[str, Any]:
        """The arrays again."""

        def unpack(one: Any) -> Any:
            return self._unpack(one, node)

        with no_grad():
            return {name: self._each(value, unpack) for name, value in self.kept.items()}

    @staticmethod
    def _each(value: Any, change: Callable[[Any], Any]) -> Any:
        return tuple(map(change, value)) if isinstance(value, tuple) else change(value)

    def _pack(self, value: Any) -> Any:
        if not is_array(value):
            return value
        # Read-only: a change would be one of the operation's own operands.
        return _PackedArray(value, self.hooks.pack_hook(read_only(value, gradients.wrap)))

    def _unpack(self, value: Any, node: Any) -> Any:
        if value.__class__ is not _PackedArray:
            return value
        made = self.hooks.unpack_hook(value.packed)
        if not hasattr(made, "_array"):
            raise TypeError(
                f"unpack_hook returns the tensor that was packed, not {type(made).__name__}"
            )
        if tuple(made.shape) != value.shape:
            raise AutogradError(
                f"unpack_hook returned a tensor of shape {tuple(made.shape)} in place of one of "
                f"shape {value.shape}.\n  made at:   {made_at(node)}\n"
                "Fix: restore the shape in unpack_hook."
            )
        return made.to(value.dtype)._array


class _PackedArray:
    __slots__ = ("dtype", "packed", "shape")

    def __init__(self, array: Any, packed: Any) -> None:
        self.shape, self.dtype, self.packed = tuple(array.shape), array.dtype, packed


class save_on_cpu(saved_tensors_hooks):
    """Inside, what backward needs is kept in the memory of the CPU, and brought back for it."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(
            lambda tensor: (tensor.device, tensor.cpu()), lambda kept: kept[1].to(kept[0])
        )


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside, `saved_tensors_hooks` raises a RuntimeError with this message."""
    before = _disabled.set(error_message)
    try:
        yield
    finally:
        _disabled.reset(before)
