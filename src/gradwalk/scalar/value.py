"""Value: one number that remembers how it was made. The whole of backpropagation on one page.

A Value holds its number (`data`), its gradient (`grad`), the op that made it and that op's
`inputs`. Going forward, every operator makes a new Value. Going backward, each Value passes its
own gradient × the local derivative to every input; each input adds up what it receives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.engine.errors import made_at, name_of
from gradwalk.engine.modes import state
from gradwalk.graph.order import inputs_first
from gradwalk.graph.source import SourceLine, caller, own_files, source_line
from gradwalk.ops import TABLE
from gradwalk.ops.core.dtypes import is_number
from gradwalk.ops.core.op import Op, OpError
from gradwalk.ops.core.public import Registration, follow
from gradwalk.ops.elementwise import arithmetic
from gradwalk.scalar.push import CONSTANT, NOT_REAL, inner_first, pushes

Number = int | float
_NO_ATTRS: dict[str, Any] = {}


class Value:
    """A number in a graph.

    >>> from gradwalk import Value
    >>> a, b = Value(2.0, label="a"), Value(-3.0, label="b")
    >>> e = a * b + a
    >>> e.backward()
    >>> a.grad, b.grad
    (-2.0, 2.0)
    """

    # A graph has one Value per operation, so they are small: up to two inputs have slots of their
    # own (a tuple would be a second object to allocate and for the garbage collector to visit),
    # and what few Values have (a label, attributes, a third input, an own _backward) is in _extra.
    __slots__ = (
        "__weakref__", "_extra", "_grad", "_left", "_mark", "_right", "code", "data", "op",
        "position",
    )  # fmt: skip
    __array_ufunc__ = None  # NumPy numbers leave the arithmetic to us

    def __init__(
        self,
        data: Number,
        _children: Iterable[Value] = (),
        _op: str | Op = "",
        label: str = "",
    ) -> None:
        inputs = tuple(_children)
        self.data = _number(data)
        self._grad: Number = 0
        self._left: Value | None = inputs[0] if inputs else None
        self._right: Value | None = inputs[1] if len(inputs) > 1 else None
        self.op: Op | str = _op
        self._mark: object = None
        self._extra: dict[str, Any] | None = None
        if label:
            self.label = label
        if len(inputs) > 2:
            self._more()["inputs"] = inputs
        self.code: CodeType | None
        self.code, self.position = caller()
        if inputs and isinstance(_op, str):  # made by hand
            _tell_recording(self)

    def backward(self) -> None:
        """Add d self / d v to the `grad` of every Value v this was computed from."""
        order = inner_first(self)
        before = [v._grad for v in order]
        for v in order:  # inner gradients start from zero; leaves add to what they have
            v._grad = 0
        self._grad = 1 if order else self._grad + 1
        for v in reversed(order):
            if v._extra is None:
                pushes[v.op](v)
            else:
                v._backward()
        if any(before):
            for v, earlier in zip(order, before, strict=True):
                v._grad += earlier
        if own_files.watchers and state.here.watcher is not None:
            state.here.watcher.swept_values(self)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The Values it was computed from, one entry per edge: a × a has two."""
        if self._left is None:
            return ()
        if self._right is None:
            return (self._left,)
        if self._extra is None or "inputs" not in self._extra:
            return (self._left, self._right)
        return self._extra["inputs"]

    def _more(self) -> dict[str, Any]:
        if self._extra is None:
            self._extra = {}
        return self._extra

    @property
    def label(self) -> str:
        """A name for pictures and tables; set it freely."""
        return "" if self._extra is None else self._extra.get("label", "")

    @label.setter
    def label(self, text: str) -> None:
        self._more()["label"] = text

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of the op, such as the exponent of a power."""
        return _NO_ATTRS if self._extra is None else self._extra.get("attrs", _NO_ATTRS)

    @property
    def _backward(self) -> Callable[[], None]:
        """Push the gradient to the inputs: one visit, for backpropagation by hand."""
        if self._extra is not None and "backward" in self._extra:
            return self._extra["backward"]
        return lambda: pushes[self.op](self) if self._left is not None else None

    @_backward.setter
    def _backward(self, function: Callable[[], None]) -> None:
        self._more()["backward"] = function

    @property
    def grad(self) -> Number:
        """The gradient so far."""
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        self._grad = value.data if isinstance(value, Value) else _number(value)

    def zero_grad(self) -> None:
        """Set the gradient of this and of everything it was computed from to zero."""
        for v in inputs_first([self]):
            v._grad = 0

    @property
    def _prev(self) -> tuple[Value, ...]:
        """The inputs under micrograd's name."""
        return self.inputs

    @property
    def _op(self) -> str:
        """The op as it is drawn: +, *, **2, tanh."""
        if isinstance(self.op, str):
            return self.op
        if self.op is arithmetic.power:
            return f"**{self.attrs['exponent']}"
        return _DRAWN.get(self.op.name, self.op.name)

    @property
    def line(self) -> SourceLine | None:
        """The source line that made it."""
        return source_line(self.code, self.position)

    def __repr__(self) -> str:
        return f"Value(data={self.data}, grad={self._grad})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the numbers, and the graph if it is small."""
        from gradwalk.printers.notebook import value_html

        return value_html(self)

    def __float__(self) -> float:
        return float(self.data)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __lt__(self, other: Any) -> bool:
        return bool(self.data < _number(other, self))

    def __le__(self, other: Any) -> bool:
        return bool(self.data <= _number(other, self))

    def __gt__(self, other: Any) -> bool:
        return bool(self.data > _number(other, self))

    def __ge__(self, other: Any) -> bool:
        return bool(self.data >= _number(other, self))

    def __pow__(self, exponent: Any) -> Value:
        if isinstance(exponent, Value):
            return _apply(arithmetic.pow_op, (self, exponent), _NO_ATTRS)
        return _apply(arithmetic.power, (self,), {"exponent": _number(exponent, self)})

    def __rpow__(self, base: Any) -> Value:
        return _apply(arithmetic.pow_op, (base, self), _NO_ATTRS)

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return _apply(op, args, attrs)

    if TYPE_CHECKING:  # made below from the op table; here for type checkers and editors

        def __add__(self, other: Any) -> Value: ...
        def __radd__(self, other: Any) -> Value: ...
        def __sub__(self, other: Any) -> Value: ...
        def __rsub__(self, other: Any) -> Value: ...
        def __mul__(self, other: Any) -> Value: ...
        def __rmul__(self, other: Any) -> Value: ...
        def __truediv__(self, other: Any) -> Value: ...
        def __rtruediv__(self, other: Any) -> Value: ...
        def __neg__(self) -> Value: ...
        def __abs__(self) -> Value: ...
        def __getattr__(self, name: str) -> Any: ...  # exp, log, tanh, relu, sigmoid, sin, ...


_DRAWN = {"mul": "*", "add": "+", "sub": "-", "div": "/", "neg": "-", "relu": "ReLU", "pow": "**"}


def _number(data: Any, beside: Value | None = None) -> Number:
    """The number to store in a Value, or to use `beside` one, from a number or a Value."""
    if data.__class__ is float or data.__class__ is int:
        return data
    if isinstance(data, Value):
        return data.data
    if isinstance(data, (bool, int, float)):
        return float(data) if isinstance(data, float) else int(data)
    if isinstance(data, (np.generic, np.ndarray)) and data.ndim == 0 and is_number(data.dtype):
        return data.item()
    if hasattr(data, "requires_grad"):
        if beside is not None:
            raise value_beside_tensor("a Value and a Tensor", beside, data)
        raise TypeError(
            f"a Value holds one number, not {name_of(data)} (made at {made_at(data)}). Fix: use "
            "tensor.item() for its number (no gradient flows to it), or tensors throughout."
        )
    raise TypeError(f"a Value holds one number, not {type(data).__name__} ({data!r})")


def value_beside_tensor(what: str, value: Value, tensor: Any) -> TypeError:
    """The error for an operation on a Value and a Tensor."""
    label = f" '{value.label}'" if value.label else ""
    return TypeError(
        f"{what}: the Value{label} ({value.data}) and {name_of(tensor)} do not mix, the two "
        "engines keep separate graphs.\n"
        f"  Value made at:    {value.line or 'an unrecorded line'}\n"
        f"  tensor made at:   {made_at(tensor)}\n"
        "Fix: use value.data or tensor.item() for the number alone (no gradient flows to it), or "
        "build both sides of the same kind."
    )


def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Apply an elementwise op, or one that is made of elementwise ops, to Values and numbers."""
    if not op.elementwise:
        try:
            if op.expand is not None:
                return op.expand(*args, **op._bind(args, attrs)[1])
        except (OpError, AttributeError, TypeError):  # made of ops on whole arrays as well
            pass
        raise OpError(
            f"{op.name} works on whole arrays; a Value is one number. Use gradwalk.tensor(...)."
        )
    if op.attributes and not attrs:
        args, attrs = op._bind(args, attrs)
    one = next(a for a in args if isinstance(a, Value))
    if not op.differentiable:  # a comparison: its answer is a plain one
        return op.on_numbers([_number(a, one) for a in args], attrs)
    inputs = tuple([_value(a, one) for a in args])
    out = Value(op.on_numbers([v.data for v in inputs], attrs), inputs, op)
    if attrs:
        out._more()["attrs"] = attrs
    _tell_recording(out)
    return out


def _tell_recording(made: Value) -> None:
    """Tell the recording of this thread, if one is under way, of an operation."""
    if own_files.watchers and state.here.watcher is not None:
        state.here.watcher.made_value(made)


# -- operators and methods ---------------------------------------------------------------------
# One node per call and a million calls per second: these fill the slots themselves instead of
# going through __init__, and take the source line from their direct caller.

_METHOD = """
def {name}(self{other}):
    {read}
    try:
        data = number({numbers})
    except NOT_REAL:
        data = op.on_numbers(({numbers},), NO_ATTRS)
    out = new(Value)
    out.data = data
    out._grad = 0
    out.op = op
    out._left = self
    out._right = {right}
    out._extra = out._mark = None
    if own_files.alone:
        frame = getframe(1)
        out.code, out.position = frame.f_code, frame.f_lasti
    elif own_files.watchers:
        out.code, out.position = caller()
        tell_recording(out)
    else:
        out.code, out.position = None, -1
    return out
"""
_OF_ONE = {"other": "", "read": "", "numbers": "self.data", "right": "None"}
_OF_TWO = {
    "other": ", other",
    "read": """if other.__class__ is not Value:
        if isinstance(other, ndarray) and other.ndim:
            return each({name}, self, other)
        other = value(other, self)""",
    "numbers": "self.data, other.data",
    "right": "other",
}


def _method(op: Op) -> Callable[..., Any]:
    """An op with one or two inputs as a method."""
    parts = dict(_OF_ONE if len(op.inputs) == 1 else _OF_TWO, name=op.name)
    parts["read"] = parts["read"].format(name=op.name)
    scope: dict[str, Any] = {
        **{"NOT_REAL": NOT_REAL, "NO_ATTRS": _NO_ATTRS, "Value": Value, "caller": caller},
        **{"each": _each, "getframe": sys._getframe, "ndarray": np.ndarray, "new": object.__new__},
        **{"number": op.number or op.forward, "op": op, "own_files": own_files},
        **{"tell_recording": _tell_recording, "value": _value},
    }
    exec(compile(_METHOD.format(**parts), f"{__file__}, {op.name}", "exec"), scope)
    scope[op.name].__doc__ = op.__doc__
    return scope[op.name]


def _swapped(method: Callable[[Value, Any], Any]) -> Callable[[Value, Any], Any]:
    """`other op self` from `self op other`."""

    def reflected(self: Value, other: Any) -> Any:
        if isinstance(other, np.ndarray) and other.ndim:
            return _each(reflected, self, other)
        out = method(_value(other, self), self)
        out.code, out.position = caller()  # not this line but the user's
        return out

    return reflected


def _value(thing: Any, beside: Value) -> Value:
    if isinstance(thing, Value):
        return thing
    made = Value(_number(thing, beside))
    made._mark = CONSTANT
    return made


def _each(method: Callable[..., Any], self: Value, array: np.ndarray[Any, Any]) -> Any:
    """An array of numbers and a Value: an array of Values, as in micrograd."""
    values = np.empty(array.shape, object)
    for place in np.ndindex(array.shape):
        values[place] = method(self, array[place])
    return values


def _equip() -> None:
    """Give Value its operators, each from the op of that name."""
    for name, operator in {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv"}.items():
        method = _method(TABLE[name])
        setattr(Value, f"__{operator}__", method)
        setattr(Value, f"__r{operator}__", _swapped(method))
    setattr(Value, "__neg__", _method(arithmetic.neg))  # noqa: B010 (the class has slots)
    setattr(Value, "__abs__", _method(arithmetic.abs))  # noqa: B010


def _equip_method(registration: Registration) -> None:
    """Give Value the method of an op that takes one number to another."""
    op = registration.call
    plain = isinstance(op, Op) and op.elementwise and len(op.inputs) == 1 and not op.attributes
    if registration.method and plain and op.differentiable:
        for name in registration.names:
            setattr(Value, name, _method(op))


_equip()
follow(_equip_method)
