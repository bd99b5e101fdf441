"""Traced: the abstract array in `Tensor._array` while a function is traced.

It looks like an ndarray and holds a Term. It models memory: an owner has a current term, a view is
its owner and a chain of view ops, so that a write to one is seen through the other, as with arrays.
Each write gives the owner a new term; nothing in the program is ever overwritten.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.compiler.ir.program import Constant, Term, forward
from gradwalk.compiler.tracing import numpy_calls
from gradwalk.compiler.tracing.errors import LeakedError, numbers_wanted, untraceable
from gradwalk.compiler.tracing.memory_order import (
    CONTIGUOUS,
    MemoryLayout,
    layout_of,
    must_copy,
    without_ones,
)
from gradwalk.engine.tree import mapped
from gradwalk.graph.abstract import AbstractArray
from gradwalk.graph.source import caller
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.operators import Arithmetic
from gradwalk.ops.index import indexing as indexing
from gradwalk.ops.shape import reshaping as shaping
from gradwalk.ops.shape.rearranging import windows_op

if TYPE_CHECKING:
    from gradwalk.compiler.tracing.tracer import Tracer

Chain = tuple[tuple[Op, dict[str, Any], int], ...]
Picks = tuple[tuple[Chain, indexing.Index, tuple[Any, ...]], ...]
_MOST = 5  # dimensions whose orders are all tried


def _in_place(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    """The operator that writes ufunc(x, other) to x."""

    def operator(x: Traced, other: Any) -> Any:
        real = x.real()
        if real is not None:
            ufunc(real, real_of(other), out=real)
            return x
        return numpy_calls.apply_ufunc(x.tracer, ufunc, "__call__", (x, other), {"out": (x,)})

    return operator


class Traced(AbstractArray, Arithmetic):
    """An array of a traced function: a handle on memory, or on a part of it."""

    __slots__ = (
        "__weakref__", "_seen", "_term", "base", "chain", "dtype", "layout", "line", "picked",
        "shape", "sure", "tracer", "version", "writeable",
    )  # fmt: skip

    def __init__(self, tracer: Tracer, term: Term, layout: MemoryLayout = CONTIGUOUS) -> None:
        self.tracer = tracer
        self.shape = term.shape
        self.dtype = term.dtype
        self._term = term
        self.base: Traced | None = None  # of a view: what owns the memory
        self.chain: Chain = ()  # of a view: the view ops from there
        self.version = 0  # of an owner: how often it was written to
        self._seen = 0  # of a view: the owner's version that its term is of
        self.layout = layout  # of the array that NumPy would make
        self.sure = True  # of a view: whether NumPy would share the memory for certain
        # Indices that are not known yet, on the way from the owner: for each one the view ops
        # before it, the subscript and the terms of its index arrays. `chain` comes after them.
        self.picked: Picks = ()
        self.writeable = True
        self.line = caller() if term.call is None else term.call.line

    def real(self) -> np.ndarray[Any, Any] | None:
        """The array that this stands for, in a thread that does not trace: to others a trace is
        not to be noticed."""
        tracer = self.tracer
        if threading.get_ident() == tracer.thread and not tracer.closed:
            return None
        known = tracer.outside.get(id(self))
        return None if known is None else known[1]

    # -- memory ------------------------------------------------------------------------------------

    def view_by(self, link: tuple[Op, dict[str, Any], int], term: Term) -> Traced:
        """A view of this by one more op; `term` is its current value."""
        op, attrs, index = link
        view = Traced(self.tracer, term, self._layout_through(op, attrs, index))
        view.base, view.chain, view._seen = self.owner, (*self.chain, link), self.owner.version
        view.sure = self.sure
        if op is shaping.reshape and self.layout is None:
            candidates = self._candidates()
            copied = any(must_copy(each, term.shape) for each in candidates)
            same = without_ones(self.shape) == without_ones(term.shape)
            view.sure = self.sure and (same or (bool(candidates) and not copied))
        view.writeable = self.writeable and not _repeats(op, attrs, self.size, term.size)
        view.picked = self.picked
        return view

    def part_at(self, index: indexing.Index, numbers: tuple[Any, ...], term: Term) -> Traced:
        """The part of this at an index that is not known yet."""
        fixed = tuple(part if not isinstance(part, tuple) or part[0] != "array" else 0
                      for part in index)  # fmt: skip
        layout = self._layout_through(indexing.getitem, {"index": fixed}, 0)
        part = Traced(self.tracer, term, layout)
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
        if self.owner._term.call is None or self.picked or not self.sure or len(shape) > _MOST:
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

    def view(self) -> Traced:
        """Another handle on the same memory."""
        real: Any = self.real()
        if real is not None:
            return real.view()
        view = Traced(self.tracer, self.term, self.layout)
        view.base, view.chain, view._seen = self.owner, self.chain, self.owner.version
        view.sure, view.picked, view.writeable = self.sure, self.picked, self.writeable
        view.line = caller()
        return view

    @property
    def owner(self) -> Traced:
        """What owns the memory."""
        return self if self.base is None else self.base

    @property
    def term(self) -> Term:
        """Its current value."""
        if self.tracer.closed:
            raise leaked(self)
        base = self.base
        if base is not None and self._seen != base.version:
            if not self.sure:
                raise self.unsure("read after that tensor was changed")
            whole = base._term
            for chain, index, numbers in self.picked:
                whole = self._pick(self.tracer.follow(whole, chain), index, numbers)
            self._term = self.tracer.follow(whole, self.chain)
            self._seen = base.version
        return self._term

    def assign(self, term: Term) -> None:
        """Write `term`, which has this shape and dtype, to the memory."""
        if self.tracer.closed:
            raise leaked(self)
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

    def _pick(self, whole: Term, index: indexing.Index, numbers: tuple[Any, ...]) -> Term:
        part: Term = self.tracer.call(indexing.getitem, [whole, *numbers], {"index": index})
        return part

    def _within(self, whole: Term, picked: Picks, term: Term) -> Term:
        """The new value of what this is a part of, if this becomes `term`."""
        chain = picked[0][0] if picked else self.chain
        if picked:
            (_, index, numbers), *rest = picked
            outer = self.tracer.follow(whole, chain)
            inner = self._within(self._pick(outer, index, numbers), tuple(rest), term)
            operands = [outer, inner, *numbers]
            term = self.tracer.call(indexing.setitem, operands, {"index": index})
        if chain:
            term = self.tracer.call(indexing.write_view, [whole, term], {"chain": chain})
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
        computed = self.tracer.compute(op, operands, attrs)
        self.assign(self.tracer.fitted(computed, self.shape, self.dtype))

    def put(self, index: indexing.Index, value: Any, arrays: tuple[Any, ...]) -> None:
        """self[index] = value."""
        tracer = self.tracer
        if index == ("...",):
            self.assign(tracer.fitted(value, self.shape, self.dtype))
            return
        if isinstance(value, (Traced, np.ndarray)):
            value = tracer.fitted(value, value.shape, self.dtype)
        self.assign(tracer.compute(indexing.setitem, [self, value, *arrays], {"index": index}).term)

    def unsure(self, what: str) -> Exception:
        """The error for memory that may be shared or not."""
        if self.picked:
            return untraceable(
                f"{self!r} is a part of another tensor, at an index that is known only when the "
                f"compiled function runs, and it is {what}.",
                ".clone() it where it is made; write x[i] = x[i] * w instead of x[i] *= w.",
                **{"made at": self.line},
            )
        return untraceable(
            f"{self!r} was reshaped from a tensor whose elements may not be in order in memory, "
            f"so it may share that tensor's memory or be a copy, and it is {what}.",
            ".clone() it where it is made.",
            **{"made at": self.line},
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

    @property
    def flags(self) -> Traced:
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

    def copy(self, order: str = "C") -> Traced:
        """The same numbers in memory of their own: no call, since terms never change."""
        real: Any = self.real()
        if real is not None:
            return real.copy()
        return Traced(self.tracer, self.term)

    def astype(self, dtype: Any, copy: bool = True) -> Traced:
        if self.dtype == dtype:
            return self.copy() if copy else self
        cast: Traced = shaping.cast(self, dtype=np.dtype(dtype))
        return cast

    def reshape(self, *shape: Any) -> Any:
        return shaping.reshape_to(self, *shape)

    def ravel(self, order: str = "C") -> Any:
        return shaping.reshape_to(self, -1)

    def scan(
        self, step: Any, x: Any, state: tuple[Any, ...], weights: tuple[Any, ...], reverse: bool
    ) -> tuple[Any, ...]:
        from gradwalk.compiler.tracing.scan import traced_scan

        return traced_scan(self.tracer, step, x, state, weights, reverse)

    sum = numpy_calls.total
    mean = numpy_calls.average
    var = numpy_calls.variance
    max = numpy_calls.largest

    def item(self) -> Any:
        return self.numbers("item()").item()

    def tolist(self) -> Any:
        return self.numbers("tolist()").tolist()

    def numbers(self, how: str) -> np.ndarray[Any, Any]:
        """The numbers of a constant; anything else has none yet."""
        real = self.real()
        if real is not None:
            return real
        known = constant_of(self.term)
        if known is None:
            raise numbers_wanted(how, self, self.line)
        return known.copy()

    @property
    def is_constant(self) -> bool:
        return constant_of(self.term) is not None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        real = self.real()
        if real is not None:
            return np.array(real, dtype, copy=copy)
        if self.tracer.closed:
            raise leaked(self)
        raise numbers_wanted("a NumPy array", self, self.line)

    def __bool__(self) -> bool:
        return bool(self.numbers("the truth").item())

    def __float__(self) -> float:
        return float(self.numbers("float()").item())

    def __int__(self) -> int:
        return int(self.numbers("int()").item())

    def __repr__(self) -> str:
        return f"<traced {self.dtype.name}{list(self.shape)}>"

    # -- operations --------------------------------------------------------------------------------

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        one = next(a for a in args if isinstance(a, Traced))
        return one.tracer.compute(op, args, attrs)

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
        if any(isinstance(i, Traced) and i.real() is not None for i in inputs):
            given = {name: mapped(real_of, value) for name, value in keywords.items()}
            return getattr(ufunc, method)(*map(real_of, inputs), **given)
        return numpy_calls.apply_ufunc(self.tracer, ufunc, method, inputs, keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        if self.real() is not None:
            given = {name: mapped(real_of, value) for name, value in keywords.items()}
            return function(*mapped(real_of, tuple(args)), **given)
        if self.tracer.closed and function not in (np.shape, np.ndim, np.size):
            raise leaked(self)
        return numpy_calls.apply_function(function, args, keywords)


def real_of(operand: Any) -> Any:
    """What another thread computes with instead of a traced array; other operands as they are."""
    real = operand.real() if isinstance(operand, Traced) else None
    return operand if real is None else real


def leaked(array: Traced) -> Exception:
    """The error for using a traced array after its trace has ended."""
    return untraceable(
        f"{array!r} was made while a compiled function was traced and kept outside of it (in an "
        "attribute, a list, a global): it never receives values.",
        "return it from the compiled function.",
        LeakedError,
        **{"made at": array.line},
    )


def constant_of(term: Term) -> np.ndarray[Any, Any] | None:
    """The array of a constant term, or of one number that is expanded; else None."""
    if isinstance(term.source, Constant):
        return term.source.array
    if term.call is not None and term.call.op is shaping.expand_op:
        inner = term.call.args[0]
        if isinstance(inner, Term) and isinstance(inner.source, Constant):
            return np.broadcast_to(inner.source.array, term.shape)
    return None


def _repeats(op: Op, attrs: dict[str, Any], before: int, after: int) -> bool:
    """Whether a view by this op has elements that share one place in memory."""
    if op is shaping.expand_op:
        return after > before
    return op is windows_op and bool(attrs["size"] > attrs["step"])
