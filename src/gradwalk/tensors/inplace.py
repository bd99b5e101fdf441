"""In-place operations: the right gradient, or an error; never a silently wrong one.

The memory is overwritten, the version counter goes up (so a saved value that changed is caught),
and the tensor's history becomes that of the result. A change through a view is also a change of
its base: the base's history becomes "the base with that part replaced".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from gradwalk.engine.errors import AutogradError, locked_view, made_at, name_of
from gradwalk.engine.modes import current, quietly
from gradwalk.graph.abstract import AbstractArray
from gradwalk.graph.source import caller, where_text
from gradwalk.graph.versions import View, clock, owner_of, touch, touch_part
from gradwalk.ops.core.dtypes import (
    bool_,
    category,
    has_gradients,
    held_by,
    is_complex_dtype,
    is_half,
    result_dtype,
    unsigned,
)
from gradwalk.ops.core.halves import computed
from gradwalk.ops.core.methods import InPlaceMethods
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.operators import in_place_method_of, or_declines
from gradwalk.ops.core.public import Registration, follow
from gradwalk.ops.core.signature import ForeignOperand, OperandError
from gradwalk.ops.index import indexing
from gradwalk.ops.shape import reshaping
from gradwalk.ops.shape.joining import t
from gradwalk.ops.shape.reshaping import cast
from gradwalk.ops.shape.strides import as_strided
from gradwalk.tensors.apply import (
    FLOATS,
    in_common_dtype,
    is_sparse,
    machine_of,
    move_retained,
    operand,
    record,
    refresh,
    wrap,
)
from gradwalk.tensors.memory import MemoryMethods
from gradwalk.tensors.moving import move

_ALL: Any = ("...",)


def write(target: Any, op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Put op(*args) into `target`'s memory and give it that history."""
    if op.attributes and not attrs:
        args, attrs = op._bind(args, attrs)
    here = current()
    uniform = here.tracer is None and _are_uniform(target, args)
    if not uniform:
        try:
            args = tuple([a if _is_tensor(a) else operand(a, op, args) for a in args])
        except ForeignOperand:
            sparse = next((a for a in args if is_sparse(a)), None)
            if sparse is None:
                raise
            return target.copy_(sparse._apply(op, args, attrs))
    if here.tracer is not None:
        here.tracer.capture(target, *args)
    for argument in args:
        if argument.__class__ is not float and _is_tensor(argument):
            refresh(argument)
    level = None if uniform else machine_of((target, *args))
    if level is not None and level.depth:
        level.check_target(target, op)
        args = level.lifted(args)
    elif level is not None and here.tracer is None:
        level.check_devices(op, (target, *args), target)
    view = target._view
    if view is not None and owner_of(view.base._array) is not owner_of(target._array):
        target._view = None  # x.data = ... gave the base other memory
    if not uniform:
        if op is not indexing.setitem:
            args = _fit_dtype(target, op, args)
        op = _for_complex(target, op, args)
    arrays = [a if a.__class__ is float else getattr(a, "_array", a) for a in args]
    wants = tuple([a.__class__ is not float and getattr(a, "requires_grad", False) for a in args])
    if here.grad_enabled:
        _refuse(target, op, any(wants))
    needs = here.grad_enabled and any(wants) and has_gradients(target._array.dtype)
    if needs:
        if here.tracer is not None:
            here.tracer.records_write(target)
        arrays = _kept(target, op, wants, arrays)
    watcher = here.watcher
    edges = () if watcher is None else watcher.operands(args)
    try:
        _compute(target._array, op, arrays, attrs, uniform)
    except ValueError as error:
        alone = None if needs else _written_alone(target, op, attrs)
        if alone is None:
            raise _cannot_write(target, op, arrays, error) from None
        _compute(alone, op, arrays, {"index": _ALL} if op is indexing.setitem else attrs, uniform)
    code, position = caller()
    before = clock.now
    part = None if needs else _part_written(target._array, op, attrs)
    if part is None:
        after = touch(target._array, code, position)
    else:
        after = touch_part(target._array, part, code, position)
    if not needs:
        if watcher is not None:
            watcher.made(op, edges, attrs, (target,), code, position)
        return target
    result = wrap(target._array)
    record(op, args, arrays, attrs, None, code, position, target=result)
    # What the inputs held in that memory is gone: they are valid only up to the time before.
    # What the output holds was written by this very change.
    node: Any = result._node
    node.clock, node.out_clock = before, after
    label = target.label
    if watcher is not None:
        watcher.made(op, edges, attrs, (result,), code, position)
    if target._view is None:
        _continue(target, node)
    else:
        _write_through(target, result)
    if label:
        target.label = label
    return target


def _part_written(array: Any, op: Op, attrs: dict[str, Any]) -> Any:
    """The part of its memory that a change writes; None: perhaps all of it.

    PyTorch's programs fill a buffer through `.data` while backward needs its other elements.
    """
    if array.__class__ is not np.ndarray:
        return None
    if op is indexing.setitem:
        return indexing.view_of(array, attrs["index"])
    return None if array.base is None else array


def _written_alone(target: Any, op: Op, attrs: dict[str, Any]) -> Any:
    """What a change writes of an expanded tensor or of overlapping windows, to be written, if its
    elements have places of their own; None otherwise."""
    array, view = target._array, target._view
    if not isinstance(array, np.ndarray) or view is None:
        return None
    if array.flags.writeable or not view.base._array.flags.writeable:
        return None
    part = indexing.view_of(array, attrs["index"]) if op is indexing.setitem else array
    if part is None:
        return None
    reach = part.itemsize
    for stride, length in sorted((abs(s), n) for s, n in zip(part.strides, part.shape) if n > 1):
        if stride < reach:
            return None
        reach += stride * (length - 1)
    # NumPy makes no array writeable that it made of strides, but it takes its address.
    shown = part.__array_interface__
    shown["data"] = (shown["data"][0], False)
    return np.asarray(SimpleNamespace(__array_interface__=shown)).view(part.dtype)


def _continue(target: Any, node: Any) -> None:
    """Give a tensor its new history."""
    move_retained(target, node, 0)
    target._node, target._index = node, 0


def _kept(target: Any, op: Op, wants: tuple[bool, ...], arrays: list[Any]) -> list[Any]:
    """The operands; one that backward needs and that is about to be overwritten, as a copy."""
    saved = {op.inputs.index(name) for name in op.plan(wants).write().names if name in op.inputs}
    return [
        array.copy() if position in saved and _overlap(array, target._array) else array
        for position, array in enumerate(arrays)
    ]


def _overlap(array: Any, target: np.ndarray[Any, Any]) -> bool:
    if isinstance(array, (int, float, complex)):
        return False
    # NumPy says that arrays without elements share no memory, but they share a stamp.
    return np.may_share_memory(array, target) or owner_of(array) is owner_of(target)


def _is_tensor(thing: Any) -> bool:
    return hasattr(thing, "_array")


def _are_uniform(target: Any, args: tuple[Any, ...]) -> bool:
    """Whether all operands are Python's floats or, like the target, tensors on NumPy's memory, of
    one ordinary dtype: nothing has to be fitted."""
    dtype = target._array.dtype
    if dtype not in FLOATS or target._array.__class__ is not np.ndarray:
        return False
    for argument in args:
        if argument.__class__ is not float:
            array = getattr(argument, "_array", None)
            if array.__class__ is not np.ndarray or array.dtype != dtype:
                return False
    return True


def _brought(value: Any, target: Any) -> Any:
    """A tensor on the device of another one."""
    plain = value._array.__class__ is np.ndarray and target._array.__class__ is np.ndarray
    return value if plain or current().tracer is not None else move(value, target.device)


def _write_through(target: Any, result: Any) -> None:
    """A view changed: its base is now the old base with that part replaced."""
    base, chain = target._view.base, target._view.chain
    op, args = indexing.write_view, (base, result)
    changed = wrap(base._array)
    attrs = {"chain": chain}
    record(op, args, [base._array, result._array], attrs, None, *caller(), target=changed)
    watcher = current().watcher
    if watcher is not None:
        watcher.made(op, watcher.operands(args), attrs, (changed,), *caller())
    _continue(base, changed._node)
    target._view = View(base, None, chain)  # stale on purpose: made again from the new base
    refresh(target)


def _refuse(target: Any, op: Op, recorded: bool) -> None:
    """Raise, before anything is written, if the change could not be followed by backward."""
    view = target._view
    base = target if view is None else view.base
    if view is not None and view.lock and (recorded or base.requires_grad):
        raise locked_view(target, view.lock, where_text(*caller()))
    leaf = next((t for t in (target, base) if t._requires_grad and t._node is None), None)
    if leaf is not None:
        what = name_of(leaf) if view is None else f"{name_of(leaf)}, changed through a view,"
        raise AutogradError(
            f"{what} is a leaf that requires a gradient and cannot be changed in place "
            f"by {op.name}: its old value is what the gradient belongs to.\n"
            f"  made at:      {made_at(leaf)}\n"
            f"  changed at:   {where_text(*caller())}\n"
            "Fix: for a parameter update, wrap it in `with gradwalk.no_grad():`; otherwise use "
            "the out-of-place form (x = x + y) or a .clone()."
        )


def _fit_dtype(target: Any, op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Bring the operands to one dtype, or refuse if the target's would lose something."""
    if not op.promotes:
        return args
    result = result_dtype(a._array if _is_tensor(a) else a for a in args)
    if op.gives is bool_:  # which every dtype holds; compared as they are
        return in_common_dtype(op, args)
    if op.to_float and not has_gradients(result):
        raise TypeError(f"{op.name} in place on a {target.dtype} tensor would not fit its integers")
    if category(result) > category(target.dtype):
        raise TypeError(
            f"the result of {op.name} ({result}) cannot be stored in place in a {target.dtype} "
            "tensor; use the out-of-place form"
        )
    # Compute in a wider dtype where an operand has one, and round once: int8 // 300 is not
    # int8 // 44, and halves are multiplied by a float32 as it is.
    common = result if category(result) == category(target.dtype) else target.dtype
    return tuple(_in_dtype(a, common) for a in args)


def _for_complex(target: Any, op: Op, args: tuple[Any, ...]) -> Op:
    """The op for the dtypes of its operands; real and complex results do not fit one another."""
    kinds = [a for a in args if getattr(a, "dtype", target.dtype).kind == "c"]
    if not kinds and complex not in map(type, args):
        return op
    chosen = op.for_operands(args)
    if op.gives is bool_:
        return chosen
    if not is_complex_dtype(target.dtype) or (callable(chosen.gives) and chosen is not op):
        raise TypeError(
            f"the result of {op.name} cannot be stored in place in a {target.dtype} tensor; use "
            "the out-of-place form, or .real"
        )
    return chosen


def _in_dtype(argument: Any, dtype: np.dtype[Any]) -> Any:
    if _is_tensor(argument):
        return argument if argument.dtype == dtype else cast(argument, dtype=dtype)
    return held_by(dtype, argument) if argument.__class__ is int else argument


def _compute(
    out: np.ndarray[Any, Any], op: Op, arrays: list[Any], attrs: dict[str, Any], uniform: bool
) -> None:
    if isinstance(out, AbstractArray):
        out.become(op, arrays, attrs)
        return
    if not out.size and not out.flags.writeable:
        out = np.empty(out.shape, out.dtype)  # there is nothing to write
    if op is indexing.setitem:
        part, subscript = indexing.place(out, attrs["index"], tuple(arrays[2:]))
        quietly(part.__setitem__, subscript, unsigned(out.dtype, arrays[1]))
        return
    halves = not uniform and any(is_half(getattr(a, "dtype", out.dtype)) for a in (out, *arrays))
    if halves:
        result = quietly(computed, op, arrays, attrs)
        if np.shape(result) != out.shape:
            raise ValueError(f"the result has shape {np.shape(result)}")
        out[...] = result
        return
    native = op.native and op.native.in_place
    if native and native.is_large((out,)) and quietly(native.writes, out, arrays, attrs):
        return
    casting: Any = "unsafe" if out.dtype.kind in "iu" else "same_kind"
    # NumPy 2.4 negates wrong elements of some strided arrays if it is given `out`.
    if isinstance(op.forward, np.ufunc) and op.forward is not np.negative:
        quietly(op.forward, *arrays, out=out, casting=casting)
    else:
        result = quietly(op.forward, *arrays, **attrs)
        if np.shape(result) != out.shape:
            raise ValueError(f"the result has shape {np.shape(result)}")
        np.copyto(out, result, casting=casting)


def _cannot_write(target: Any, op: Op, arrays: list[Any], error: Exception) -> Exception:
    if not target._array.flags.writeable:
        return RuntimeError(
            f"{name_of(target)} cannot be changed in place by {op.name}: several of its elements "
            "share one place in memory (it was expanded), or the memory is read-only.\n"
            "Fix: .clone() it first."
        )
    shapes = ", ".join(str(np.shape(a)) for a in arrays[1:])
    return OperandError(
        f"{op.name} in place on {name_of(target)} does not fit operand(s) of shape {shapes}: "
        f"{error}"
    )


def _in_place_of(registration: Registration) -> Callable[..., Any]:
    """The in-place form of an op or a function, as a method."""
    function = registration.call
    if isinstance(function, Op):
        return in_place_method_of(function, write)
    name = registration.names[0]

    @wraps(function)
    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        if callable(registration.inplace):
            return write(self, *registration.inplace(self, *args, **keywords))
        # The function may save its operand for the gradient, which must not be overwritten.
        kept = current().grad_enabled and self.requires_grad
        result = function(self.clone() if kept else self, *args, **keywords)
        if category(result.dtype) > category(self.dtype):
            raise TypeError(
                f"the result of {name} ({result.dtype}) cannot be stored in place in "
                f"a {self.dtype} tensor; use the out-of-place form"
            )
        if result.shape != self.shape:
            raise OperandError(
                f"{name} in place on {name_of(self)}: the result has shape {tuple(result.shape)}"
            )
        return self.copy_(result)

    method.__name__ = f"{name}_"
    method.__doc__ = f"`{name}`, in place."
    return method


def _equip(registration: Registration) -> None:
    """Give InPlaceMethods what a registration offers."""
    if registration.inplace:
        method = _in_place_of(registration)
        for name in registration.names:
            setattr(InPlaceMethods, f"{name}_", method)


follow(_equip)


# The operators that change a tensor: `x += y` is `x.add_(y)`; `x @= y` rebinds the name.
OPERATORS = {
    **{"add": "add_", "sub": "sub_", "mul": "mul_", "truediv": "div_", "pow": "pow_"},
    **{"floordiv": "floor_divide_", "mod": "remainder_"},
    **{"and": "bitwise_and_", "or": "bitwise_or_", "xor": "bitwise_xor_"},
    **{"lshift": "bitwise_left_shift_", "rshift": "bitwise_right_shift_"},
}
for _operator, _method in OPERATORS.items():
    setattr(InPlaceMethods, f"__i{_operator}__", or_declines(getattr(InPlaceMethods, _method)))


def _reshaped(target: Any, function: Callable[..., Any], *args: Any) -> Any:
    """Make a tensor the view that a function returns of it.

    If it owned its memory, a tensor that nobody sees owns it now.
    """
    if current().tracer is not None:
        raise NotImplementedError(
            f"{function.__name__}_ inside a compiled function.\n"
            f"Fix: x = x.{function.__name__}(...), which shares the memory as well."
        )
    result = function(target, *args)
    if current().grad_enabled:
        _refuse(target, result._view.chain[-1][0], target.requires_grad)
    if target._view is None:
        owner = wrap(target._array)
        owner._node, owner._index = target._node, target._index
        result = function(owner, *args)
    move_retained(target, result._node, result._index)
    target._set(result._array, result._node, result._index)
    target._view = result._view
    return target


class InPlace(InPlaceMethods, MemoryMethods):
    """The methods with a trailing underscore, `x += y` and `x[i] = v`."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        fixed, arrays = indexing.from_user_index(key)
        if isinstance(value, (list, tuple)):
            value = np.asarray(value)
        elif not arrays and _is_tensor(value):
            value = _brought(value, self)
        write(self, indexing.setitem, (self, value, *arrays), {"index": fixed})

    def squeeze_(self, dim: Any = None) -> Self:
        """`squeeze`, in place."""
        return _reshaped(self, reshaping.squeeze, dim)

    def unsqueeze_(self, dim: int) -> Self:
        """`unsqueeze`, in place."""
        return _reshaped(self, reshaping.unsqueeze, dim)

    def t_(self) -> Self:
        """`t`, in place."""
        return _reshaped(self, t)

    def transpose_(self, dim0: int, dim1: int) -> Self:
        """`transpose`, in place."""
        return _reshaped(self, reshaping.transpose, dim0, dim1)

    swapdims_ = swapaxes_ = transpose_

    def as_strided_(self, size: Any, stride: Any, storage_offset: int | None = None) -> Self:
        """`as_strided`, in place."""
        return _reshaped(self, as_strided, size, stride, storage_offset)

    def fill_(self, value: Any) -> Self:
        """Every element becomes `value`."""
        return write(self, indexing.setitem, (self, value), {"index": _ALL})

    def fill_diagonal_(self, fill_value: Any, wrap: bool = False) -> Self:
        """Every element of the main diagonal becomes `fill_value`.

        `wrap` begins the diagonal again below the square at the top of a tall matrix, one row free.
        """
        target: Any = self
        shape = tuple(target.shape)
        if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
            raise RuntimeError(
                f"fill_diagonal_ of {name_of(self)}, of shape {shape}: it takes a matrix, or a "
                "tensor whose dimensions have one length"
            )
        length = min(shape)
        index: tuple[Any, ...] = (np.arange(length),) * len(shape)
        if wrap and len(shape) == 2:
            index = np.unravel_index(np.arange(0, math.prod(shape), shape[1] + 1), shape)
        self[index] = fill_value
        return self

    def zero_(self) -> Self:
        """Every element becomes 0."""
        return self.fill_(0)

    def copy_(self, source: Any) -> Self:
        """Every element becomes that of `source` (broadcast, cast, and from any device)."""
        return self.fill_(_brought(source, self) if _is_tensor(source) else source)
