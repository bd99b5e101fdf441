"""RuntimeScalar: a Python number that is read at every call of the compiled function.

Learning rates, step counts and float arguments change from call to call. During a trace a
RuntimeScalar takes their place: arithmetic with it becomes part of the program, and a branch on it
(`if decay:`) becomes a guard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradwalk.compiler.capture.locations import Location
from gradwalk.compiler.ir.program import Term
from gradwalk.compiler.tracing.errors import untraceable
from gradwalk.graph.abstract import AbstractArray, AbstractNumber
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.operators import Arithmetic

if TYPE_CHECKING:
    from gradwalk.compiler.tracing.tracer import Tracer


def _refusing(how: str) -> Any:
    """A method that would need the number itself."""

    def method(scalar: RuntimeScalar, *_: Any) -> Any:
        raise untraceable(
            f"{how} of {scalar!r}: every later call would repeat this result.",
            "use arithmetic (x ** 0.5 instead of math.sqrt(x)); or, if it is an argument, name it "
            "in static= of gradwalk.compile, which recompiles for every value.",
        )

    return method


class RuntimeScalar(AbstractNumber, Arithmetic):
    """A number known at the call, or computed from such by arithmetic."""

    __slots__ = ("key", "known", "location", "name", "read", "term", "tracer", "value")

    def __init__(
        self,
        tracer: Tracer,
        name: str,
        key: Any,
        term: Term,
        value: Any,
        read: Callable[[list[Any]], Any],
        location: Location | None = None,
        known: bool = True,
    ) -> None:
        self.tracer = tracer
        self.name = name  # for errors
        self.key = key  # equal for equal expressions
        self.term = term
        self.value = value  # now, in this trace
        self.read = read  # computes it from the arguments of a later call
        self.location = location  # None for an expression
        self.known = known  # before the call; otherwise only the program computes it

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        for argument in args:
            if hasattr(argument, "_node"):
                return argument._apply(op, args, attrs)
        for argument in args:
            if isinstance(argument, AbstractArray):
                array: Any = argument
                return array.tracer.compute(op, args, attrs)
        scalar = next(a for a in args if isinstance(a, RuntimeScalar))
        return scalar.tracer.combine(op, args, attrs)

    def __bool__(self) -> bool:
        return self.tracer.decide(self)

    def __repr__(self) -> str:
        return f"<{self.name}, a number read at every call>"

    __str__ = __format__ = _refusing("the text")
    __hash__ = _refusing("a key made")
    __float__ = _refusing("float()")
    __int__ = _refusing("int()")
    __index__ = _refusing("an integer")

    def __deepcopy__(self, memo: Any) -> RuntimeScalar:
        return self  # as of a number

    def __getitem__(self, key: Any) -> Any:
        raise TypeError("a number cannot be indexed")
