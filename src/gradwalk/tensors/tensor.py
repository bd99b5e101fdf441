"""Tensor: an array that remembers how it was made."""

from __future__ import annotations

import builtins
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any, Self

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.errors import made_at, name_of
from gradwalk.engine.hooks import RemovableHandle
from gradwalk.engine.modes import current, hold, is_grad_enabled, state
from gradwalk.graph.abstract import AbstractArray
from gradwalk.graph.node import Node
from gradwalk.graph.source import SourceLine, caller, source_line
from gradwalk.graph.storage import copied_memory
from gradwalk.graph.versions import View, stamp_of, touch
from gradwalk.ops.core.dtypes import (
    category,
    get_default_dtype,
    has_gradients,
    part_of,
)
from gradwalk.ops.core.operators import Operators, op_of_ufunc
from gradwalk.ops.core.public import reserved
from gradwalk.ops.core.signature import OperandError
from gradwalk.ops.elementwise.choice import equal
from gradwalk.ops.shape.reshaping import clone, reshape_to, sizes_of
from gradwalk.printers.tensor_text import tensor_text
from gradwalk.random.sampling import RandomMethods
from gradwalk.tensors import apply, quick
from gradwalk.tensors.apply import refresh, row_major, wrap
from gradwalk.tensors.conversions import Conversions, are_sizes
from gradwalk.tensors.inplace import InPlace
from gradwalk.tensors.properties import Properties


class Tensor(InPlace, Properties, Conversions, RandomMethods, Operators):
    """An n-dimensional array with PyTorch's operators, methods and autograd semantics.

    Make one with `gradwalk.tensor` and its relatives; this class only wraps.

    >>> import gradwalk as gw
    >>> x = gw.tensor([2.0], requires_grad=True)
    >>> y = x**3 + 5 * x
    >>> y.backward()
    >>> x.grad
    tensor([17.])
    """

    # As in Node: what every tensor has in slots, the rest in a dictionary that exists if used.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_array",
        "_index",  # which output of the node
        "_node",  # the operation that made it, None for a leaf
    )
    _array: np.ndarray[Any, Any]
    _node: Node | None
    _index: int

    _requires_grad = False  # of a leaf
    _grad: Tensor | None = None
    _view: View | None = None
    _keeps_layout = False  # whether others use its memory: see `row_major`
    _label = ""
    hooks: dict[int, dict[Any, Any]] | None = None
    code: CodeType | None = None  # with `position`: the source line of a leaf
    position = -1

    inputs: tuple[Any, ...] = ()  # a leaf is its own graph node and has none,
    many = False  # and one output
    __array_priority__ = 1000

    def __new__(cls, *data: Any, requires_grad: bool = False) -> Self:
        """`Tensor(2, 3)` has that shape and `Tensor([2, 3])` those elements, as in PyTorch."""
        # An `__init__` would be given the arguments of a program's own subclass, too.
        elements: Any = data[0] if data else ()
        kind = get_default_dtype()
        if are_sizes(data):
            elements = np.zeros(sizes_of(data), kind)
        elif len(data) > 1:
            raise TypeError("Tensor(...) takes sizes or one block of numbers, not several")
        elif isinstance(elements, Tensor):
            elements, kind = elements._shared("Tensor(...)"), elements.dtype
        elif isinstance(elements, np.ndarray):
            category(elements.dtype)
        self = object.__new__(cls)
        self._set(np.asarray(elements, dtype=kind), None, 0)
        self.code, self.position = caller()
        self.requires_grad = requires_grad
        return self

    @staticmethod
    def _make_subclass(cls: Any, data: Tensor, require_grad: bool = False) -> Any:
        """A leaf of a program's own subclass on the memory of a tensor."""
        return Tensor.__new__(cls, data, requires_grad=require_grad)

    def _set(self, array: np.ndarray[Any, Any], node: Node | None, index: int) -> None:
        self._array = array
        self._node = node
        self._index = index
        if not array.flags.c_contiguous:
            self._keeps_layout = True  # the memory is perhaps another tensor's

    # -- name, line and text ---------------------------------------------------------------------

    @property
    def label(self) -> str:
        """A name for errors and pictures; set it freely."""
        return self._label if self._node is None else self._node.label

    @label.setter
    def label(self, text: str) -> None:
        if self._node is None:
            self._label = str(text)
        else:
            self._node.label = str(text)

    @property
    def line(self) -> SourceLine | None:
        """The source line that made it."""
        owner = self if self._node is None else self._node
        return source_line(owner.code, owner.position)

    def __repr__(self) -> str:
        array: Any = self._array
        if isinstance(array, AbstractArray):
            array = array.shown() if array.on_device else array.real()
            if array is None:
                return f"tensor({self._array!r})"
        suffixes = [] if self.is_cpu else [f"device={str(self.device)!r}"]
        # The elements tell integers and booleans from floats; without any, the dtype does.
        plain = (
            get_default_dtype(),
            *((np.dtype("int64"), np.dtype("bool")) if array.size else ()),
        )
        if (part_of(self.dtype) if array.size else self.dtype) not in plain:
            suffixes.append(f"dtype=gradwalk.{self.dtype.name}")
        if self._node is not None:
            suffixes.append(f"grad_fn={self._node!r}")
        elif self._requires_grad:
            suffixes.append("requires_grad=True")
        return tensor_text(array, suffixes)

    # -- gradients ---------------------------------------------------------------------------------

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made it."""
        return not (self.requires_grad and self._node is not None)

    @property
    def grad_fn(self) -> Node | None:
        """The operation that made it, None for a leaf."""
        refresh(self)
        return self._node

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to it."""
        if self._view is not None and not self._view.lock:
            refresh(self)  # its base may have got a history since
        return self._requires_grad or self._node is not None

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        hold(self)
        if self._node is not None:
            if not on:
                raise RuntimeError(
                    "requires_grad can only be switched off on leaf tensors; this one is the "
                    f"result of {self._node.op.name} ({self.line}). Use .detach()."
                )
            return
        if on and not has_gradients(self._array.dtype):
            raise RuntimeError(
                f"{name_of(self)} holds {self.dtype}: only floating-point and complex tensors can "
                "have gradients, because an integer cannot change by a little.\n"
                f"  made at:   {self.line}\n"
                "Fix: write the numbers with a decimal point (3. instead of 3) or pass "
                "dtype=gradwalk.float32."
            )
        if on and self._view is not None:
            self._view = self._view._replace(lock="it was made a leaf of its own")
        self._requires_grad = bool(on)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set `requires_grad` in place."""
        if current().level is not None:
            current().level.check_leaf(self)
        self.requires_grad = requires_grad
        return self

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by `backward`, None before the first."""
        tracer = current().tracer
        if tracer is not None:
            tracer.reads_grad(self)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad must be a Tensor or None, not {type(value).__name__}")
            if value.shape != self.shape or value.dtype != self.dtype:
                raise RuntimeError(
                    f"a gradient of shape {value.shape} ({value.dtype}) does not fit "
                    f"{name_of(self)} ({self.dtype}); they must be equal"
                )
            if value.device != self.device:
                raise RuntimeError(
                    f"a gradient on {value.device} for {name_of(self)} on {self.device}.\n"
                    f"Fix: .to({str(self.device)!r})"
                )
        if state.here.tracer is not None:
            state.here.tracer.writes_grad(self)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add d self / d leaf to the `.grad` of every leaf this was computed from.

        >>> import gradwalk as gw
        >>> a = gw.tensor(3.0, requires_grad=True)
        >>> (a * a).backward()
        >>> a.grad
        tensor(6.)
        """
        gradients.backward([self], [gradient], retain_graph, create_graph, inputs)

    def detach(self) -> Tensor:
        """The same memory, cut off from the graph."""
        return self._cut("detach")

    def _cut(self, note: str) -> Tensor:
        hold(self)
        array: Any = self._shared()
        if getattr(array, "depth", 0) > 0:
            array = array.detached()
        cut = wrap(array)
        if not cut._array.flags.c_contiguous:
            cut._keeps_layout = True
        cut.code, cut.position = caller()
        if state.here.watcher is not None:
            state.here.watcher.detached(self, cut, note)
        return cut

    def detach_(self) -> Tensor:
        """Cut itself off from the graph; becomes a leaf that needs no gradient."""
        if self._view is not None:
            raise RuntimeError(
                f"{name_of(self)} is a view and cannot be detached in place. Fix: x = x.detach()"
            )
        hold(self)
        before = wrap(self._array, self._node or self, self._index)
        self._node, self._index, self._requires_grad = None, 0, False
        if state.here.watcher is not None and before is not self:
            state.here.watcher.detached(before, self)
        return self

    @property
    def data(self) -> Tensor:
        """The same as `detach()`; assigning replaces the elements."""
        return self._cut("data")

    @data.setter
    def data(self, value: Any) -> None:
        hold(self, value)
        array = value._shared() if isinstance(value, Tensor) else np.asarray(value)
        fits = category(array.dtype) == category(self.dtype)
        if self.requires_grad and not fits and (self._node or not has_gradients(array.dtype)):
            raise RuntimeError(
                f"{name_of(self)} needs a gradient and cannot hold {array.dtype} data"
            )
        if self._node is not None and array.shape != self.shape:
            raise RuntimeError(
                f"{name_of(self)} is part of a graph, so its data cannot get the shape "
                f"{array.shape}. Fix: .detach() it first."
            )
        touch(self._array, *caller())  # saved values in that memory are stale now
        self._set(array, self._node, self._index)
        self._view = None

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf tensor in `.grad`."""
        if not self.requires_grad:
            raise RuntimeError(f"retain_grad on {name_of(self)}, which needs no gradient")
        if self._node is None:
            return
        me = weakref.ref(self)  # the graph must not keep the tensor alive

        def keep(g: Tensor) -> None:
            tensor = me()
            if tensor is not None:
                gradients.accumulate(tensor, g._array if not g.requires_grad else g)

        self._hooks()[None] = keep  # under None: runs after all hooks, and moves with the tensor

    @property
    def retains_grad(self) -> builtins.bool:
        """Whether `retain_grad` was called on this non-leaf tensor."""
        hooks = None if self.is_leaf else self._node.hooks  # type: ignore[union-attr]
        return None in hooks.get(self._index, ()) if hooks else False

    def _hooks(self) -> dict[Any, Any]:
        """The functions to call with this tensor's gradient."""
        hold(self)
        owner: Any = self if self._node is None else self._node
        if owner.hooks is None:
            owner.hooks = {}
        return owner.hooks.setdefault(self._index, {})

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call `hook` with this tensor's gradient; its result, if any, replaces the gradient."""
        if not self.requires_grad:
            raise RuntimeError(f"a hook on {name_of(self)} would never run: it needs no gradient")
        hooks = self._hooks()
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle

    # -- versions ----------------------------------------------------------------------------------

    @property
    def _version(self) -> int:
        stamp = stamp_of(self._array)
        return 0 if stamp is None else stamp.count

    # -- to Python and NumPy -----------------------------------------------------------------------

    def _leaves_as(self, how: str) -> None:
        """Tell a recorder that the numbers go on outside the graph."""
        if state.here.watcher is not None:
            state.here.watcher.taken_out(self, how)

    def item(self) -> Any:
        """The only element as a Python number."""
        self._leaves_as("item()")
        if self._array.size != 1:
            raise OperandError(
                f"item() needs exactly one element, {name_of(self)} has {self.numel()}"
            )
        return self._array.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        self._leaves_as("tolist()")
        return self._array.tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """The array itself: same memory. Refused if gradients flow through it, unless `force`.

        Inside `no_grad` nothing that NumPy computes would be recorded anyway.
        """
        if self.requires_grad and not force and is_grad_enabled():
            raise RuntimeError(
                f"{name_of(self)} needs a gradient, and NumPy cannot record one.\n"
                f"  made at:   {self.line}\n"
                "Fix: x.detach().numpy()"
            )
        self._leaves_as("numpy()")
        if isinstance(self._array, AbstractArray):
            if not self.is_cpu:
                raise TypeError(
                    f"{name_of(self)} is on {self.device}, and NumPy works in the memory of the "
                    f"CPU.\n  made at:   {made_at(self)}\nFix: x.cpu().numpy()"
                )
            return self._array.numbers("numpy()")
        return self._shared()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        op = op_of_ufunc(ufunc)
        if method == "__call__" and op is not None and not keywords:
            return op(*inputs)
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        if "out" in keywords or any(tensor.requires_grad for tensor in tensors):
            return NotImplemented
        # Another function of NumPy's kind, SciPy's for example: no gradient is to flow through it.
        arrays = [x.numpy() if isinstance(x, Tensor) else x for x in inputs]
        results = getattr(ufunc, method)(*arrays, **keywords)
        if isinstance(results, tuple):
            return tuple(wrap(np.asarray(result)) for result in results)
        return None if results is None else wrap(np.asarray(results))

    def __bool__(self) -> bool:
        if self._array.size != 1:
            raise OperandError(
                f"{name_of(self)} has {self.numel()} elements: is it true if some are, "
                "or if all are? Use .any() or .all()."
            )
        self._leaves_as("bool()")
        return bool(self._array.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iub":
            raise TypeError(f"a {self.dtype} tensor cannot be used as an index")
        return int(self.item())

    def __contains__(self, element: Any) -> bool:
        self._leaves_as("`in`")
        return bool(equal(self.detach(), element).any())

    # -- copies and dtypes -------------------------------------------------------------------------

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """A copy that gradients flow through; a memory format is a hint, and changes nothing."""
        return clone(self)

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """Itself if its elements lie in memory in order, else a copy, whatever the format."""
        row_major(self)
        return self if self.is_contiguous() else self.clone()

    def _need_leaf(self, done: str, fix: str) -> None:
        if not self.is_leaf:
            raise RuntimeError(
                f"only leaf tensors can be {done}, this is {name_of(self)}, made at {self.line}. "
                f"Use {fix}."
            )

    def __copy__(self) -> Tensor:
        copied = self._copied(self.detach()._array)
        vars(copied).update(self._attributes())
        return copied

    def _copied(self, array: np.ndarray[Any, Any]) -> Tensor:
        """Another leaf like this one."""
        self._need_leaf("copied", ".detach().clone()")
        copied = _unpickle(type(self), array, self._requires_grad, self._label)
        copied.code, copied.position = caller()
        return copied

    def __deepcopy__(self, memo: dict[Any, Any]) -> Tensor:
        is_view = self._view is not None
        copied = self._copied(copied_memory(self.detach()._array, is_view, memo))
        self._give_attributes(copied, memo)
        if self._grad is not None:
            copied._grad = self._grad.detach().clone()
        memo[id(self)] = copied
        return copied

    def __reduce__(self) -> Any:
        # What was computed becomes a leaf, as in PyTorch.
        mine = type(self), self._shared(), self.requires_grad, self._label
        return _unpickle, mine, self._attributes() or None

    def view(self, *sizes: Any, size: Any = None, dtype: Any = None) -> Tensor:
        """Another shape, or the bytes as another dtype, on the same memory; never a copy."""
        if dtype is not None or (len(sizes) == 1 and isinstance(sizes[0], (np.dtype, type))):
            return self._shown_as(sizes[0] if dtype is None else dtype)
        viewed = reshape_to(self, *sizes, shape=size)
        if viewed._array.size and not np.shares_memory(viewed._array, self._array):
            raise RuntimeError(
                f"view: the elements of {name_of(self)} do not lie in memory in the "
                "order the new shape needs. Fix: use .reshape(...), which copies if it must."
            )
        return viewed


def _unpickle(kind: type[Tensor], array: Any, requires_grad: bool, label: str) -> Tensor:
    tensor = object.__new__(kind)
    if isinstance(array, np.ndarray):
        usual = np.dtype(array.dtype.type)
        if array.dtype is not usual and array.dtype == usual:
            array = array.view(usual)  # a pickle has a dtype of its own, and programs ask `is`
    tensor._set(array, None, 0)
    tensor._requires_grad = requires_grad
    tensor._label = label
    return tensor


apply.adopt(Tensor)
quick.equip(Tensor)
reserved.update(dir(Tensor))
gradients.wrap = wrap
gradients.measure_references()
