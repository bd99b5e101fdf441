"""In-place operations: the right gradient, or an error; never a silently wrong one.

The memory is overwritten, the version counter goes up (so a saved value that changed is caught),
and the tensor's history becomes that of the result. A change through a view is also a change of
its base: the base's history becomes "the base with that part replaced".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from gradwalk.engine.errors import AutogradError, locked_view, made_at, name_of
from gradwalk.engine.modes import quietly, state
from gradwalk.graph.abstract import AbstractArray
from gradwalk.graph.source import caller, where_text
from gradwalk.graph.versions import View, clock, owner_of, touch
from gradwalk.ops.core.dtypes import category, held_by, result_dtype
from gradwalk.ops.core.op import Op
from gradwalk.ops.elementwise import activation, arithmetic, choice, remainders, special
from gradwalk.ops.elementwise import trigonometry as trig
from gradwalk.ops.index import indexing as indexing
from gradwalk.ops.index import picking
from gradwalk.ops.linear import products
from gradwalk.ops.reduce import reduction, scan
from gradwalk.ops.shape import joining, rearranging
from gradwalk.ops.shape.reshaping import broadcast_to, cast
from gradwalk.tensors.apply import move_retained, operand, record, refresh, wrap

_ALL: Any = ("...",)


def write(target: Any, op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Put op(*args) into `target`'s memory and give it that history."""
    if op.attributes and not attrs:
        args, attrs = op._bind(args, attrs)
    args = tuple([a if _is_tensor(a) else operand(a, op, args) for a in args])
    here = state.here
    if here.tracer is not None:
        here.tracer.capture(target, *args)
    for argument in args:
        if _is_tensor(argument):
            refresh(argument)
    view = target._view
    if view is not None and owner_of(view.base._array) is not owner_of(target._array):
        target._view = None  # x.data = ... gave the base other memory
    if op is not indexing.setitem:
        args = _fit_dtype(target, op, args)
    arrays = [a._array if _is_tensor(a) else a for a in args]
    wants = tuple([_is_tensor(a) and a.requires_grad for a in args])
    if here.grad_enabled:
        _refuse(target, op, any(wants))
    needs = here.grad_enabled and any(wants) and target._array.dtype.kind == "f"
    if needs:
        arrays = _kept(target, op, wants, arrays)
    watcher = here.watcher
    edges = () if watcher is None else watcher.operands(args)
    try:
        _compute(target._array, op, arrays, attrs)
    except ValueError as error:
        raise _cannot_write(target, op, arrays, error) from None
    code, position = caller()
    before = clock.now
    after = touch(target._array, code, position)
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
    if isinstance(array, (int, float)):
        return False
    # Of arrays without elements NumPy says that they share nothing; their stamp is one.
    return np.may_share_memory(array, target) or owner_of(array) is owner_of(target)


def _slice(source: Any) -> Any:
    """What is written to a 0-d tensor, seen as a vector of one element."""
    return source.reshape(1) if _is_tensor(source) else source


def _is_tensor(thing: Any) -> bool:
    return hasattr(thing, "_array")


def _write_through(target: Any, result: Any) -> None:
    """A view changed: its base is now the old base with that part replaced."""
    base, chain = target._view.base, target._view.chain
    op, args = indexing.write_view, (base, result)
    changed = wrap(base._array)
    attrs = {"chain": chain}
    record(op, args, [base._array, result._array], attrs, None, *caller(), target=changed)
    watcher = state.here.watcher
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
    if op.to_float and result.kind != "f":
        raise TypeError(f"{op.name} in place on a {target.dtype} tensor would not fit its integers")
    if category(result) > category(target.dtype):
        raise TypeError(
            f"the result of {op.name} ({result}) cannot be stored in place in a {target.dtype} "
            "tensor; use the out-of-place form"
        )
    # Wider integers are computed with as they are: int8 // 300 is not int8 // 44.
    common = result if result.kind in "iu" else target.dtype
    return tuple(_in_dtype(a, common) for a in args)


def _in_dtype(argument: Any, dtype: np.dtype[Any]) -> Any:
    if _is_tensor(argument):
        return argument if argument.dtype == dtype else cast(argument, dtype=dtype)
    return held_by(dtype, argument) if argument.__class__ is int else argument


def _compute(out: np.ndarray[Any, Any], op: Op, arrays: list[Any], attrs: dict[str, Any]) -> None:
    if isinstance(out, AbstractArray):
        out.become(op, arrays, attrs)
        return
    if op is indexing.setitem:
        part, subscript = indexing.place(out, attrs["index"], tuple(arrays[2:]))
        quietly(part.__setitem__, subscript, arrays[1])
        return
    casting: Any = "unsafe" if out.dtype.kind in "iu" else "same_kind"
    if isinstance(op.forward, np.ufunc):
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
    return ValueError(
        f"{op.name} in place on {name_of(target)} does not fit operand(s) of shape {shapes}: "
        f"{error}"
    )


def in_place(op: Op) -> Callable[..., Any]:
    """The in-place form of an op, as a method."""

    def method(self: Any, *operands: Any, **attrs: Any) -> Any:
        args: tuple[Any, ...] = (self, *operands)
        if op.attributes or attrs:
            args, attrs = op._bind(args, attrs)
        return write(self, op, args, attrs)

    method.__name__ = f"{op.name}_"
    method.__doc__ = f"`{op.name}`, in place."
    return method


def in_place_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place form of a function made of several ops, as a method."""

    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        # The function may keep what it is given for its gradient, and that must stay as it is.
        kept = state.here.grad_enabled and self.requires_grad
        result = function(self.clone() if kept else self, *args, **keywords)
        if category(result.dtype) > category(self.dtype):
            raise TypeError(
                f"the result of {function.__name__} ({result.dtype}) cannot be stored in place in "
                f"a {self.dtype} tensor; use the out-of-place form"
            )
        return self.copy_(result)

    method.__name__ = f"{function.__name__}_"
    method.__doc__ = f"`{function.__name__}`, in place."
    return method


class InPlace:
    """The methods with a trailing underscore, `x += y` and `x[i] = v`."""

    __slots__ = ()

    def __iadd__(self, other: Any) -> Self:
        return self.add_(other)

    def __isub__(self, other: Any) -> Self:
        return self.sub_(other)

    def __imul__(self, other: Any) -> Self:
        return self.mul_(other)

    def __itruediv__(self, other: Any) -> Self:
        return self.div_(other)

    def __ipow__(self, exponent: Any) -> Self:
        return self.pow_(exponent)

    def __iand__(self, other: Any) -> Self:
        return write(self, choice.bitwise_and, (self, other), {})

    def __ior__(self, other: Any) -> Self:
        return write(self, choice.bitwise_or, (self, other), {})

    def __ixor__(self, other: Any) -> Self:
        return write(self, choice.bitwise_xor, (self, other), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        fixed, arrays = indexing.from_user_index(key)
        if isinstance(value, (list, tuple)):
            value = np.asarray(value)
        write(self, indexing.setitem, (self, value, *arrays), {"index": fixed})

    def add_(self, other: Any, *, alpha: float = 1) -> Self:
        """self += alpha × other."""
        return write(self, arithmetic.add, (self, other if alpha == 1 else other * alpha), {})

    def sub_(self, other: Any, *, alpha: float = 1) -> Self:
        """self −= alpha × other."""
        return write(self, arithmetic.sub, (self, other if alpha == 1 else other * alpha), {})

    def mul_(self, other: Any) -> Self:
        """self ×= other."""
        return write(self, arithmetic.mul, (self, other), {})

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Self:
        """self /= other, rounded with mode "trunc" or "floor"."""
        modes = {None: arithmetic.div, "trunc": arithmetic.div_trunc, "floor": arithmetic.div_floor}
        if rounding_mode not in modes:
            raise ValueError(f"rounding_mode is None, 'trunc' or 'floor', not {rounding_mode!r}")
        return write(self, modes[rounding_mode], (self, other), {})

    def pow_(self, exponent: Any) -> Self:
        """self to the power of `exponent`, in place."""
        if isinstance(exponent, (int, float)):
            return write(self, arithmetic.power, (self,), {"exponent": exponent})
        return write(self, arithmetic.pow, (self, exponent), {})

    def clip_(self, min: Any = None, max: Any = None) -> Self:
        """Limit to [min, max], numbers or tensors, in place."""
        if hasattr(min, "_apply") or hasattr(max, "_apply"):
            if max is None:
                return write(self, choice.clamp_min, (self, min), {})
            if min is None:
                return write(self, choice.clamp_max, (self, max), {})
            return write(self, choice.clip_between, (self, min, max), {})
        return write(self, choice.clip_op, (self,), {"min": min, "max": max})

    clamp_ = clip_

    def fill_(self, value: Any) -> Self:
        """Every element becomes `value`."""
        return write(self, indexing.setitem, (self, value), {"index": _ALL})

    def zero_(self) -> Self:
        """Every element becomes 0."""
        return self.fill_(0)

    def copy_(self, source: Any) -> Self:
        """Every element becomes that of `source` (broadcast and cast)."""
        return self.fill_(source)

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        """`value` where the mask is true, in place."""
        full = broadcast_to(mask, self.shape)  # type: ignore[attr-defined]
        return write(
            self, indexing.setitem, (self, value, full), {"index": (("mask", 0, full.ndim),)}
        )

    def scatter_(
        self, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None
    ) -> Self:
        """`src` or `value` written at `index` along `dim`, in place."""
        if reduce is not None:
            return self.copy_(picking.scatter(self, dim, index, src, value=value, reduce=reduce))
        written = value if src is None else src
        fixed, arrays, written = picking.scatter_index("scatter_", self, dim, index, written)
        return write(self, indexing.setitem, (self, written, *arrays), {"index": fixed})

    def scatter_add_(self, dim: int, index: Any, src: Any) -> Self:
        """`src` added at `index` along `dim`, in place."""
        fixed, arrays, src = picking.scatter_index("scatter_add_", self, dim, index, src)
        shape = self.shape  # type: ignore[attr-defined]
        return self.add_(indexing.put(src, *arrays, index=fixed, shape=shape))

    def index_add_(self, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Self:
        """The slices of alpha × source added at `index`, in place."""
        if not self.shape:  # type: ignore[attr-defined]
            self.reshape(1).index_add_(0, index, _slice(source), alpha=alpha)  # type: ignore[attr-defined]
            return self
        return self.add_(picking.index_addend(self, dim, index, source, alpha))

    def index_copy_(self, dim: int, index: Any, source: Any) -> Self:
        """The slices at `index` replaced by those of `source`, in place."""
        if not self.shape:  # type: ignore[attr-defined]
            self.reshape(1).index_copy_(0, index, _slice(source))  # type: ignore[attr-defined]
            return self
        index, source = picking.index_slices("index_copy_", self, dim, index, source)
        place = picking.along_dim(self, dim)
        return write(self, indexing.setitem, (self, source, index), {"index": place})

    def index_fill_(self, dim: int, index: Any, value: Any) -> Self:
        """The slices at `index` filled with one value, in place."""
        picking.one_value("index_fill_", value)
        if not self.shape:  # type: ignore[attr-defined]
            self.reshape(1).index_fill_(0, index, value)  # type: ignore[attr-defined]
            return self
        place = picking.along_dim(self, dim)
        return write(self, indexing.setitem, (self, value, index), {"index": place})

    def index_put_(self, indices: Any, values: Any, accumulate: bool = False) -> Self:
        """self[indices] = values, or += values, in place."""
        fixed, arrays = indexing.from_user_index(tuple(indices))
        if accumulate:
            return self.add_(picking.put_addend(self, fixed, arrays, values))
        return write(self, indexing.setitem, (self, values, *arrays), {"index": fixed})

    # -- forms of one op -------------------------------------------------------------------------

    abs_ = absolute_ = in_place(arithmetic.abs)
    neg_ = negative_ = in_place(arithmetic.neg)
    reciprocal_ = in_place(arithmetic.reciprocal)
    square_ = in_place(arithmetic.square)
    sqrt_ = in_place(arithmetic.sqrt)
    rsqrt_ = in_place(arithmetic.rsqrt)
    sign_ = in_place(arithmetic.sign)
    sgn_ = in_place(arithmetic.sgn)
    floor_ = in_place(arithmetic.floor)
    ceil_ = in_place(arithmetic.ceil)
    trunc_ = fix_ = in_place(arithmetic.trunc)
    frac_ = in_place(arithmetic.frac)
    round_ = in_place(arithmetic.round)
    exp_ = in_place(arithmetic.exp)
    exp2_ = in_place(arithmetic.exp2)
    expm1_ = in_place(arithmetic.expm1)
    log_ = in_place(arithmetic.log)
    log2_ = in_place(arithmetic.log2)
    log10_ = in_place(arithmetic.log10)
    log1p_ = in_place(arithmetic.log1p)
    sin_ = in_place(trig.sin)
    cos_ = in_place(trig.cos)
    tan_ = in_place(trig.tan)
    asin_ = arcsin_ = in_place(trig.asin)
    acos_ = arccos_ = in_place(trig.acos)
    atan_ = arctan_ = in_place(trig.atan)
    sinh_ = in_place(trig.sinh)
    cosh_ = in_place(trig.cosh)
    tanh_ = in_place(trig.tanh)
    asinh_ = arcsinh_ = in_place(trig.asinh)
    acosh_ = arccosh_ = in_place(trig.acosh)
    atanh_ = arctanh_ = in_place(trig.atanh)
    sinc_ = in_place(trig.sinc)
    deg2rad_ = in_place(trig.deg2rad)
    rad2deg_ = in_place(trig.rad2deg)
    atan2_ = arctan2_ = in_place(trig.atan2)
    hypot_ = in_place(trig.hypot)
    relu_ = in_place(activation.relu)
    sigmoid_ = in_place(activation.sigmoid)
    erf_ = in_place(activation.erf)
    erfc_ = in_place(special.erfc)
    erfinv_ = in_place(special.erfinv)
    lgamma_ = in_place(special.lgamma)
    digamma_ = in_place(special.digamma)
    logit_ = in_place(special.logit)
    xlogy_ = in_place(special.xlogy)
    nan_to_num_ = in_place(remainders.nan_to_num)
    fmod_ = in_place(remainders.fmod)
    remainder_ = in_place(remainders.remainder)
    floor_divide_ = in_place(remainders.floor_divide)
    copysign_ = in_place(remainders.copysign)
    heaviside_ = in_place(remainders.heaviside)
    lerp_ = in_place(remainders.lerp)
    clamp_min_ = in_place(choice.clamp_min)
    clamp_max_ = in_place(choice.clamp_max)
    eq_ = in_place(choice.equal)
    ne_ = not_equal_ = in_place(choice.not_equal)
    lt_ = less_ = in_place(choice.less)
    le_ = less_equal_ = in_place(choice.less_equal)
    gt_ = greater_ = in_place(choice.greater)
    ge_ = greater_equal_ = in_place(choice.greater_equal)
    logical_and_ = in_place(choice.logical_and)
    logical_or_ = in_place(choice.logical_or)
    logical_xor_ = in_place(choice.logical_xor)
    logical_not_ = in_place(choice.logical_not)
    bitwise_and_ = in_place(choice.bitwise_and)
    bitwise_or_ = in_place(choice.bitwise_or)
    bitwise_xor_ = in_place(choice.bitwise_xor)
    bitwise_not_ = in_place(choice.bitwise_not)
    subtract_, multiply_, divide_, true_divide_ = sub_, mul_, div_, div_

    # -- forms of functions made of several ops ----------------------------------------------------

    addcmul_ = in_place_of(remainders.addcmul)
    addcdiv_ = in_place_of(remainders.addcdiv)
    float_power_ = in_place_of(remainders.float_power)
    addmm_ = in_place_of(products.addmm)
    addmv_ = in_place_of(products.addmv)
    baddbmm_ = in_place_of(products.baddbmm)
    addr_ = in_place_of(joining.addr)
    tril_ = in_place_of(rearranging.tril)
    triu_ = in_place_of(rearranging.triu)
    cumsum_ = in_place_of(reduction.cumsum)
    cumprod_ = in_place_of(scan.cumprod)
