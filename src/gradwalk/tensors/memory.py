"""The memory of a tensor: replacing it, resizing it, sharing it, changing it element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from gradwalk.engine.errors import name_of
from gradwalk.engine.modes import current
from gradwalk.graph.shared_memory import in_shared_memory, shared_file
from gradwalk.graph.storage import memory_of, offset_of, row_strides, strided
from gradwalk.ops.shape import reshaping
from gradwalk.tensors.apply import wrap


def _without_history(target: Any, name: str) -> None:
    """Raise if a tensor that gets other memory has, or needs, a gradient."""
    if target.requires_grad or (target._view is not None and target._view.base.requires_grad):
        raise RuntimeError(
            f"{name} of {name_of(target)}: it is part of a graph.\nFix: .detach() it first"
        )
    if current().tracer is not None:
        raise NotImplementedError(f"{name} inside a compiled function")


def _shown(target: Any, array: np.ndarray[Any, Any]) -> Any:
    """Make a tensor without a history show other memory."""
    target._set(array, None, 0)
    target._view = None
    return target


class MemoryMethods:
    """Methods of tensors about their memory; those that replace it refuse a history."""

    __slots__ = ()

    def set_(
        self,
        source: Any = None,
        storage_offset: int = 0,
        size: Any = None,
        stride: Any = None,
    ) -> Self:
        """Show the memory of another tensor or storage; without one, no memory.

        >>> import gradwalk as gw
        >>> x = gw.arange(4)
        >>> gw.tensor([], dtype=gw.int64).set_(x.storage(), 1, (2,), (2,))
        tensor([1, 3])
        """
        target: Any = self
        # A leaf may: in no_grad, its gradient is the program's own affair.
        if current().grad_enabled or current().tracer is not None or target._node is not None:
            _without_history(target, "set_")
        if source is None:
            return _shown(target, np.zeros(0, target.dtype))
        array = source._in_memory("set_") if hasattr(source, "_array") else source._elements
        if array.dtype != target.dtype and array.dtype != np.uint8:
            raise TypeError(f"set_ of {array.dtype} memory to a tensor of {target.dtype}")
        if hasattr(source, "_array") and size is None:
            return _shown(target, array)
        memory = memory_of(array).view(target.dtype)
        sizes = (memory.size - storage_offset,) if size is None else tuple(map(int, size))
        steps = row_strides(sizes) if stride is None else tuple(map(int, stride))
        return _shown(target, strided(memory, sizes, steps, int(storage_offset)))

    def resize_(self, *sizes: Any, memory_format: Any = None) -> Self:
        """Another shape; the elements in memory stay, and zeros follow where there are too few.

        A tensor that grows gets other memory, which its views do not see.

        >>> import gradwalk as gw
        >>> gw.arange(3).resize_(2, 2)
        tensor([[0, 1],
                [2, 0]])
        """
        target: Any = self
        _without_history(target, "resize_")
        shape = reshaping.sizes_of(sizes)
        array = target._in_memory("resize_")
        if shape == array.shape:
            return self
        memory, offset, count = memory_of(array), offset_of(array), math.prod(shape)
        if offset + count > memory.size:
            if target._view is not None:
                raise RuntimeError(
                    f"resize_ of {name_of(target)}, a view, to {shape}: the memory behind it has "
                    f"only {memory.size - offset} elements.\nFix: .clone() it first"
                )
            grown = np.zeros(count, array.dtype)
            grown[: memory.size - offset] = memory[offset:]
            memory, offset = grown, 0
        return _shown(target, strided(memory, shape, row_strides(shape), offset))

    def resize_as_(self, the_template: Any, *, memory_format: Any = None) -> Self:
        """`resize_` to the shape of another tensor."""
        return self.resize_(the_template.shape)

    def apply_(self, callable: Callable[[Any], Any]) -> Self:
        """Every element becomes what a Python function makes of it."""
        return self.map_(None, lambda own, _: callable(own))

    def map_(self, tensor: Any, callable: Callable[[Any, Any], Any]) -> Self:
        """Every element becomes what a Python function makes of it and of another tensor's."""
        return self.map2_(tensor, None, lambda own, other, _: callable(own, other))

    def map2_(self, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Self:
        """Every element becomes what a Python function makes of it and of two other tensors'."""
        target: Any = self
        _without_history(target, "map_ or apply_")
        array = target._in_memory("map_ or apply_")
        others = [array if t is None else t._in_memory("map_ or apply_") for t in (x, y)]
        rows = [a.reshape(-1).tolist() for a in np.broadcast_arrays(array, *others)]
        made = np.array([callable(*row) for row in zip(*rows, strict=True)], array.dtype)
        return target.copy_(wrap(made.reshape(array.shape)))

    def share_memory_(self: Any) -> Any:
        """Move the elements to memory that processes share: changes in one are seen by all.

        Give the tensor, or a module after `module.share_memory()`, to a process of
        `gradwalk.multiprocessing`.

        >>> import gradwalk as gw
        >>> gw.ones(2).share_memory_().is_shared()
        True
        """
        if not self.is_shared():
            self.data = wrap(in_shared_memory(self._in_memory("share_memory_()")))
        return self

    def is_shared(self: Any) -> bool:
        """Whether processes share the memory."""
        return self._array.size == 0 or shared_file(self._array) is not None

    def pin_memory(self, device: Any = None) -> Self:
        """The tensor itself: JAX copies to a device from any memory."""
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """False: no memory is locked for copies to a device."""
        return False
