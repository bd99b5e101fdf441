"""Traced: the abstract array in `Tensor._array` while a function is traced: it holds a Term."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.compiler.functional.functional_array import FunctionalArray
from gradwalk.compiler.functional.memory_order import CONTIGUOUS, MemoryLayout
from gradwalk.compiler.ir.program import Constant, Term
from gradwalk.compiler.tracing.errors import LeakedError, numbers_wanted, untraceable
from gradwalk.graph.source import caller
from gradwalk.ops.shape import reshaping as shaping

if TYPE_CHECKING:
    from gradwalk.compiler.tracing.tracer import Tracer


class Traced(FunctionalArray):
    """An array of a traced function."""

    __slots__ = ("line",)

    def __init__(self, tracer: Tracer, term: Term, layout: MemoryLayout = CONTIGUOUS) -> None:
        super().__init__(tracer, term, layout)
        self.line = caller() if term.call is None else term.call.line

    @property
    def tracer(self) -> Any:
        """What records it."""
        return self.machine

    def real(self) -> np.ndarray[Any, Any] | None:
        """The array that this stands for, in a thread that does not trace: to others a trace is
        not to be noticed."""
        tracer = self.tracer
        if threading.get_ident() == tracer.thread and not tracer.closed:
            return None
        known = tracer.outside.get(id(self))
        return None if known is None else known[1]

    def check_usable(self) -> None:
        if self.tracer.closed:
            raise leaked(self)

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

    def scan(
        self, step: Any, x: Any, state: tuple[Any, ...], weights: tuple[Any, ...], reverse: bool
    ) -> tuple[Any, ...]:
        from gradwalk.compiler.tracing.scan import traced_scan

        return traced_scan(self.tracer, step, x, state, weights, reverse)

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

    def __repr__(self) -> str:
        return f"<traced {self.dtype.name}{list(self.shape)}>"


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
