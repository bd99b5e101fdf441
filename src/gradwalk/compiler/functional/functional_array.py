"""FunctionalArray: an array in `Tensor._array` that looks like an ndarray and holds a value.

It models memory: an owner has a current value, a view is its owner and a chain of view ops, so that
a write to one is seen through the other, as with arrays. Each write gives the owner a new value; no
value is ever overwritten. The value is what its machine computes with: a term of a program while a
function is traced, a `jax.Array` on a device.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gradwalk.compiler.functional import numpy_calls, whole_ops
from gradwalk.compiler.functional.memory_order import (
    CONTIGUOUS,
    MemoryLayout,
    layout_of,
    must_copy,
    without_ones,
)
from gradwalk.compiler.ir.program import forward
from gradwalk.engine.tree import mapped
from gradwalk.graph.abstract import AbstractArray
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.operators import Arithmetic
from gradwalk.ops.index import indexing as indexing
from gradwalk.ops.network.normalization import standardize
from gradwalk.ops.shape import reshaping as shaping
from gradwalk.ops.shape.rearranging import windows_op

if TYPE_CHECKING:
    from gradwalk.compiler.functional.machine import Machine

Chain = tuple[tuple[Op, dict[str, Any], int], ...]
Picks = tuple[tuple[Chain, indexing.Index, tuple[Any, ...]], ...]
_MOST = 5  # dimensions whose orders are all tried


def _in_place(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    """The operator that writes ufunc(x, other) to x."""

    def operator(x: FunctionalArray, other: Any) -> Any:
        real = x.real()
        if real is not None:
            ufunc(real, real_of(other), out=real)
            return x
        return numpy_calls.apply_ufunc(x.machine, ufunc, "__call__", (x, other), {"out": (x,)})

    return operator


class FunctionalArray(AbstractArray, Arithmetic):
    """A handle on memory, or on a part of it."""

    __slots__ = (
        "__weakref__", "_seen", "_term", "base", "chain", "dtype", "layout", "machine", "picked",
        "shape", "sure", "version", "writeable",
    )  # fmt: skip

    def __init__(self, machine: Machine, term: Any, layout: MemoryLayout = CONTIGUOUS) -> None:
        self.machine = machine
        self.shape = term.shape
        self.dtype = term.dtype
        self._term = term
        self.base: Self | None = None  # of a view: what owns the memory
        self.chain: Chain = ()  # of a view: the view ops from there
        self.version = 0  # of an owner: how often it was written to
        self._seen = 0  # of a view: the owner's version that its term is of
        self.layout = layout  # of the array that NumPy would make
        self.sure = True  # of a view: whether NumPy would share the memory for certain
        # Indices that are not known yet, on the way from the owner: for each one the view ops
        # before it, the subscript and the terms of its index arrays. `chain` comes after them.
        self.picked: Picks = ()
        self.writeable = True

    # -- what a kind of machine decides --------------------------------------------------------

    def real(self) -> np.ndarray[Any, Any] | None:
        """The array that another thread sees instead of this one; None if it sees this one."""
        return None

    def check_usable(self) -> None:
        """Raise if its values can no longer be had."""

    def unsure(self, what: str) -> Exception:
        """The error for memory that may be shared or not."""
        raise NotImplementedError

    # -- memory ------------------------------------------------------------------------------------

    def view_by(self, link: tuple[Op, dict[str, Any], int], term: Any) -> Self:
        """A view of this by one more op; `term` is its current value."""
        op, attrs, index = link
        view = type(self)(self.machine, term, self._layout_through(op, attrs, index))
        owner = self.owner
        view.base, view.chain, view._seen = owner, (*self.chain, link), owner.version
        view.sure = self.sure
        if op is shaping.reshape and self.layout is None:
            candidates = self._candidates()
            copied = any(must_copy(each, term.shape) for each in candidates)
            same = without_ones(self.shape) == without_ones(term.shape)
            view.sure = self.sure and (same or (bool(candidates) and not copied))
        view.writeable = self.writeable and not _repeats(op, attrs, self, term)
        view.picked = self.picked
        return view

    def part_at(self, index: indexing.Index, numbers: tuple[Any, ...], term: Any) -> Self:
        """The part of this at an index that is not known yet."""
        fixed = tuple(part if not isinstance(part, tuple) or part[0] != "array" else 0
                      for part in index)  # fmt: skip
        layout = self._layout_through(indexing.getitem, {"index": fixed}, 0)
        part = type(self)(self.machine, term, layout)
        part.base, part._seen, part.sure = self.owner, self.owner.version, self.sure
        part.picked = (*self.picked, (self.chain, index, numbers))
        part.writeable = self.writeable
        return part

    def copied_by(self, op: Op, attrs: dict[str, Any]) -> bool:
        """Whether NumPy has to copy this to reshape it, as far as is known."""
        if op is not shaping.reshape or self.layout == CONTIGUOUS:
            return False
        candidates = self._candidates()
        return bool(candidates) and all(must_copy(each, attrs["shape"]) for each in candidates)

    def _candidates(self) -> list[Any]:
        """Stand-ins for all layouts that this may have: NumPy makes a new array contiguous in some
        order of its dimensions."""
        if self.layout is not None:
            return [self.stand_in()]
        shape = self.owner.shape
        if (
            getattr(self.owner._term, "call", None) is None
            or self.picked
            or not self.sure
            or len(shape) > _MOST
        ):
            return []
        made = []
        for order in itertools.permutations(range(len(shape))):
            strides = [0] * len(shape)
            step = 1
            for axis in order:
                strides[axis] = step
                step *= max(shape[axis], 1)
            array = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), shape, strides)
            for op, attrs, index in self.chain:  # none of them copies, or this would not be sure
                parts = op.forward(array, **attrs)
                array = parts[index] if op.multiple else parts
            made.append(array)
        return made

    def _layout_through(self, op: Op, attrs: dict[str, Any], index: int) -> MemoryLayout:
        """The layout of a view of this."""
        if self.layout is None or (op is shaping.reshape and self.layout == CONTIGUOUS):
            return self.layout
        if op is shaping.reshape:
            made = self.stand_in().reshape(attrs["shape"], copy=False)
        else:
            made = op.forward(self.stand_in(), **attrs)
        return layout_of(made[index] if op.multiple else made)

    def stand_in(self) -> Any:
        """An array of one byte per element with these strides, whose elements are not there."""
        strides = self.layout
        if not isinstance(strides, tuple):
            strides = tuple(step // self.itemsize for step in self.strides)
        return np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), self.shape, strides)

    def view(self) -> Self:
        """Another handle on the same memory."""
        real: Any = self.real()
        if real is not None:
            return real.view()
        view = type(self)(self.machine, self.term, self.layout)
        view.base, view.chain, view._seen = self.owner, self.chain, self.owner.version
        view.sure, view.picked, view.writeable = self.sure, self.picked, self.writeable
        return view

    @property
    def owner(self) -> Self:
        """What owns the memory."""
        return self if self.base is None else self.base

    @property
    def term(self) -> Any:
        """Its current value."""
        self.check_usable()
        base = self.base
        if base is not None and self._seen != base.version:
            if not self.sure:
                raise self.unsure("read after that tensor was changed")
            whole = base._term
            for chain, index, numbers in self.picked:
                whole = self._pick(self.machine.follow(whole, chain), index, numbers)
            self._term = self.machine.follow(whole, self.chain)
            self._seen = base.version
        return self._term

    def assign(self, term: Any) -> None:
        """Write `term`, which has this shape and dtype, to the memory."""
        self.check_usable()
        if not self.writeable:
            raise ValueError("assignment destination is read-only")
        base = self.base
        if base is None:
            self._term = term
            self.version += 1
            return
        if not self.sure:
            raise self.unsure("written to")
        base.assign(self._within(base._term, self.picked, term))
        self._term, self._seen = term, base.version

    def _pick(self, whole: Any, index: indexing.Index, numbers: tuple[Any, ...]) -> Any:
        part: Any = self.machine.call(indexing.getitem, [whole, *numbers], {"index": index})
        return part

    def _within(self, whole: Any, picked: Picks, term: Any) -> Any:
        """The new value of what this is a part of, if this becomes `term`."""
        chain = picked[0][0] if picked else self.chain
        if picked:
            (_, index, numbers), *rest = picked
            outer = self.machine.follow(whole, chain)
            inner = self._within(self._pick(outer, index, numbers), tuple(rest), term)
            operands = [outer, inner, *numbers]
            term = self.machine.call(indexing.setitem, operands, {"index": index})
        if chain:
            term = self.machine.call(indexing.write_view, [whole, term], {"chain": chain})
        return term

    def become(self, op: Op, operands: list[Any], attrs: dict[str, Any]) -> None:
        """Write op(*operands) to the memory, cast and broadcast as NumPy does with `out=`."""
        real = self.real()
        if real is not None:
            real[...] = forward(op, [real_of(o) for o in operands], attrs)
            return
        if op is indexing.setitem:
            self.put(attrs["index"], operands[1], tuple(operands[2:]))
            return
        computed = self.machine.compute(op, operands, attrs)
        self.assign(self.machine.fitted(computed, self.shape, self.dtype))

    def put(self, index: indexing.Index, value: Any, arrays: tuple[Any, ...]) -> None:
        """self[index] = value."""
        machine = self.machine
        if index == ("...",):
            self.assign(machine.fitted(value, self.shape, self.dtype))
            return
        if isinstance(value, (FunctionalArray, np.ndarray)):
            value = machine.fitted(value, value.shape, self.dtype)
        self.assign(
            machine.compute(indexing.setitem, [self, value, *arrays], {"index": index}).term
        )

    # -- what an ndarray has -----------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self._term.size

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def c_contiguous(self) -> bool:
        """Whether it is known to be."""
        return self.layout == CONTIGUOUS

    @property
    def strides(self) -> tuple[int, ...]:
        """Those of a C-contiguous array."""
        strides, step = [], self.itemsize
        for n in reversed(self.shape):
            strides.append(step)
            step *= max(n, 1)
        return tuple(reversed(strides))

    aligned = True

    @property
    def owndata(self) -> bool:
        return self.base is None

    @property
    def flags(self) -> Self:
        """`x.flags.writeable` and `x.flags.c_contiguous` are attributes of x itself."""
        return self

    @property
    def mT(self) -> Any:
        return shaping.matrix_transpose(self)

    @property
    def T(self) -> Any:
        return shaping.permute(self, axes=tuple(reversed(range(self.ndim))))

    def transpose(self, *axes: Any) -> Any:
        return shaping.permute_to(self, *axes) if axes else self.T

    def copy(self, order: str = "C") -> Self:
        """The same numbers in memory of their own: no call, since terms never change."""
        real: Any = self.real()
        if real is not None:
            return real.copy()
        return type(self)(self.machine, self.term)

    def astype(self, dtype: Any, copy: bool = True) -> Self:
        if self.dtype == dtype:
            return self.copy() if copy else self
        cast: Self = shaping.cast(self, dtype=np.dtype(dtype))
        return cast

    def reshape(self, *shape: Any) -> Any:
        return shaping.reshape_to(self, *shape)

    def ravel(self, order: str = "C") -> Any:
        return shaping.reshape_to(self, -1)

    sum = numpy_calls.total
    mean = numpy_calls.average
    var = numpy_calls.variance
    max = numpy_calls.largest

    def moments(self, axes: tuple[int, ...]) -> tuple[Any, Any]:
        """The mean and the variance, as where this array is normalised over these axes."""
        if self.machine.whole(standardize) is None:
            return self.mean(axes), self.var(axes)
        mean, variance = whole_ops.moments(self, axes=axes)
        return mean, variance

    def item(self) -> Any:
        return self.numbers("item()").item()

    def tolist(self) -> Any:
        return self.numbers("tolist()").tolist()

    def __bool__(self) -> bool:
        return bool(self.numbers("the truth").item())

    def __float__(self) -> float:
        return float(self.numbers("float()").item())

    def __int__(self) -> int:
        return int(self.numbers("int()").item())

    # -- operations --------------------------------------------------------------------------------

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        machine: Any = None  # of the innermost vmap
        for a in args:
            if isinstance(a, FunctionalArray) and a.machine is not machine:
                own = a.machine
                machine = own if machine is None or own.depth > machine.depth else machine
        return machine.compute(op, args, attrs)

    def __setitem__(self, key: Any, value: Any) -> None:
        real = self.real()
        if real is not None:
            real[key] = real_of(value)
            return
        index, arrays = indexing.from_user_index(key)
        self.put(index, value, tuple(arrays))

    __iadd__ = _in_place(np.add)
    __isub__ = _in_place(np.subtract)
    __imul__ = _in_place(np.multiply)
    __itruediv__ = _in_place(np.true_divide)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        if any(hasattr(i, "_node") for i in inputs):
            return NotImplemented  # a Tensor decides
        if any(isinstance(i, FunctionalArray) and i.real() is not None for i in inputs):
            given = {name: mapped(real_of, value) for name, value in keywords.items()}
            return getattr(ufunc, method)(*map(real_of, inputs), **given)
        return numpy_calls.apply_ufunc(self.machine, ufunc, method, inputs, keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        if self.real() is not None:
            given = {name: mapped(real_of, value) for name, value in keywords.items()}
            return function(*mapped(real_of, tuple(args)), **given)
        if function not in (np.shape, np.ndim, np.size):
            self.check_usable()
        return numpy_calls.apply_function(self.machine, function, args, keywords)


def real_of(operand: Any) -> Any:
    """What another thread computes with instead of a traced array; other operands as they are."""
    real = operand.real() if isinstance(operand, FunctionalArray) else None
    return operand if real is None else real


def _repeats(op: Op, attrs: dict[str, Any], before: Any, after: Any) -> bool:
    """Whether a view by this op has elements that share one place in memory."""
    if op is shaping.expand_op:
        return bool(after.size > before.size)
    return op is windows_op and bool(attrs["size"] > attrs["step"])
