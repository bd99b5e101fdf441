"""Formulas as text: `1 − out²` for the local derivative of tanh.

A rule run on symbols gives an expression; this prints it. An op says itself how it is spelled
(`symbol=` in the op table, else its name); most are written name(operands, attributes), so a
user's op prints without further work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwalk.ops.core.check import symbolic_env
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.symbol import Symbol

# Ops written between their operands, with how tightly they bind; how an op is spelled it says
# itself, in the op table (`symbol=`).
INFIX = {
    "bitwise_and": 0,
    "bitwise_or": 0,
    "equal": 1,
    "not_equal": 1,
    "less": 1,
    "less_equal": 1,
    "greater": 1,
    "greater_equal": 1,
    "add": 2,
    "sub": 2,
    "mul": 3,
    "div": 3,
    "matmul": 3,
    "floor_divide": 3,
    "remainder": 3,
    "pow": 5,
}
_PREFIX = 4
_ATOM = 9
_SUPERSCRIPT = str.maketrans("0123456789-.", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻·")


def formula(expression: Any) -> str:
    """An expression of symbols (or a number) as one line of text.

    >>> from gradwalk.ops.core.symbol import Symbol
    >>> x = Symbol("x")
    >>> formula(1 - x * x)
    '1 − x²'
    """
    return _text(expression)[0]


def derivative(
    op: Op, position: int = 0, names: Sequence[str] = (), out: str = "out", **attrs: Any
) -> str:
    """The local derivative of an elementwise op for one input, as text.

    `names` and `out` are what to call its inputs and its output, `attrs` its attributes.

    >>> import gradwalk as gw
    >>> derivative(gw.tanh)
    '1 − out²'
    >>> derivative(gw.mul, 0, ["x1", "w1"])
    'w1'
    """
    found = derivative_expression(op, position, names, out, **attrs)
    return "none" if found is None else formula(found)


def derivative_expression(
    op: Op, position: int = 0, names: Sequence[str] = (), out: str = "out", **attrs: Any
) -> Any:
    """The same as an expression of symbols, for any printer; None if there is no derivative."""
    if isinstance(op.formula, str):
        return Symbol(op.formula)
    rule = op.rule(position)
    if rule is None:
        return None
    unknown = {name: _Any(name) for name in op.attributes}
    attrs = {**unknown, **op.defaults, **attrs}
    env = symbolic_env(op, ((),) * len(op.inputs), attrs)
    env |= {key: Symbol(name) for key, name in zip(op.inputs, names, strict=False)}
    env["out"] = Symbol(out)
    return rule.local(env, 1)


class _Any(Symbol):
    """An attribute of any value: different from every number a rule may compare it with."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        return self is other


def _text(expression: Any) -> tuple[str, int]:
    """The text and how tightly its outermost operation binds."""
    if not isinstance(expression, Symbol):
        text = _number(expression)
        return text, _PREFIX if text.startswith("−") else _ATOM
    op, args = expression.op, expression.args
    if op is None:
        return expression.name, _ATOM
    if op.name == "mul":
        return _product(args)
    if op.name in INFIX:
        sign, binding = op.symbol, INFIX[op.name]
        right_side = binding + (op.name in ("sub", "div"))
        left, right = _wrapped(args[0], binding), _wrapped_after(args[1], right_side)
        return f"{left} {sign} {right}", binding
    if op.name == "neg":
        return f"−{_wrapped(args[0], _PREFIX)}", _PREFIX
    if op.name in ("power", "square"):
        exponent = expression.attrs.get("exponent", 2)
        return f"{_wrapped(args[0], 6)}{_raised(exponent)}", 5
    if op.name == "where":
        condition, chosen, other = (formula(a) for a in args)
        return f"{chosen} if {condition} else {other}", 0
    if op.name == "permute" and expression.attrs["axes"][-2:] == (
        len(expression.shape) - 1,
        len(expression.shape) - 2,
    ):
        return f"{_wrapped(args[0], 6)}ᵀ", 6
    listed = [formula(a) for a in args]
    listed += [f"{name}={value}" for name, value in expression.attrs.items()]
    call = f"{op.symbol or op.name}({', '.join(listed)})"
    return (f"{call}[{expression.index}]" if op.multiple else call), _ATOM


def _product(args: tuple[Any, ...]) -> tuple[str, int]:
    first, second = args
    for one, other in ((first, second), (second, first)):
        if isinstance(one, (int, float)) and one == 1:
            return _text(other)
        if isinstance(one, (int, float)) and one == -1:
            return f"−{_wrapped(other, _PREFIX)}", _PREFIX
    if first is second:
        return f"{_wrapped(first, 6)}²", 5
    return f"{_wrapped(first, 3)} × {_wrapped_after(second, 3)}", 3


def _wrapped(expression: Any, binding: int) -> str:
    text, tightness = _text(expression)
    return f"({text})" if tightness < binding else text


def _wrapped_after(expression: Any, binding: int) -> str:
    """After another sign a minus needs brackets, too: a × (−b)."""
    text, tightness = _text(expression)
    return f"({text})" if tightness < binding or tightness == _PREFIX else text


def _raised(exponent: Any) -> str:
    if isinstance(exponent, Symbol):
        return f"^{_wrapped(exponent, _ATOM)}"
    text = _number(exponent).replace("−", "-")
    if not set(text) <= {chr(sign) for sign in _SUPERSCRIPT}:  # inf, 1e+20: nothing to raise
        return f"^{_number(exponent)}"
    return text.translate(_SUPERSCRIPT)


def _number(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(formula(v) for v in value)})"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.6g}".replace("-", "−")
    return str(value)
