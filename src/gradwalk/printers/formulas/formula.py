"""Formulas as text: `1 − out²` for the local derivative of tanh.

A rule run on symbols gives an expression; this prints it. The op table has the sign of an op
(`symbol=`); every other op is written name(operands, attributes), so a user's op prints without
further work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwalk.ops.core.check import symbolic_env
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.symbol import Symbol

# Ops written between their operands, with how tightly they bind.
INFIX = {
    "bitwise_and": 0, "bitwise_or": 0, "equal": 1, "not_equal": 1, "less": 1, "less_equal": 1,
    "greater": 1, "greater_equal": 1, "add": 2, "sub": 2, "mul": 3, "div": 3, "matmul": 3,
    "floor_divide": 3, "remainder": 3, "pow": 5,
}  # fmt: skip
PREFIX = 4
POWER = 5
BASE = 6  # what stands below an exponent
ATOM = 9

Part = tuple[str, int]  # the text, and how tightly its outermost operation binds
_SUPERSCRIPT = str.maketrans("0123456789-.", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻·")


def formula(expression: Any) -> str:
    """An expression of symbols (or a number) as one line of text.

    >>> from gradwalk.ops.core.symbol import Symbol
    >>> x = Symbol("x")
    >>> formula(1 - x * x)
    '1 − x²'
    """
    return formula_part(expression)[0]


def derivative(
    op: Op, position: int = 0, names: Sequence[str] = (), out: str = "out", **attrs: Any
) -> str:
    """The local derivative of an elementwise op for one input, as text.

    `names` and `out` name its inputs and its output; `attrs` are its attributes.

    >>> import gradwalk as gw
    >>> derivative(gw.tanh)
    '1 − out²'
    >>> derivative(gw.mul, 0, ["x1", "w1"])
    'w1'
    """
    expression = derivative_expression(op, position, names, out, **attrs)
    return "none" if expression is None else formula(expression)


def derivative_expression(
    op: Op, position: int = 0, names: Sequence[str] = (), out: str = "out", **attrs: Any
) -> Any:
    """The same as an expression of symbols, for any printer; None if there is no derivative."""
    if isinstance(op.formula, str):
        return Symbol(op.formula)
    rule = op.rule(position)
    if rule is None:
        return None
    unknown = {name: SymbolicAttribute(name) for name in op.attributes}
    attrs = {**unknown, **op.defaults, **attrs}
    env = symbolic_env(op, ((),) * len(op.inputs), attrs)
    env |= {key: Symbol(name) for key, name in zip(op.inputs, names, strict=False)}
    env["out"] = Symbol(out)
    return rule.local(env, 1)


class SymbolicAttribute(Symbol):
    """An attribute: different from every number; records those that a rule compares it with."""

    __slots__ = ("compared",)
    __hash__ = object.__hash__

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.compared: list[float] = []

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        if isinstance(other, (int, float)) and other not in self.compared:
            self.compared.append(other)
        return self is other


class Notation:
    """Writes expressions of symbols as text; subclasses typeset the same forms."""

    minus = "−"
    typeset = False  # with fractions and raised exponents, which need fewer brackets
    signs: dict[str, str] | None = None  # of ops between their operands; None: those of the table

    def part(self, expression: Any) -> Part:
        """The text of an expression and how tightly its outermost operation binds."""
        if not isinstance(expression, Symbol):
            return self.number(expression)
        op, args, attrs = expression.op, expression.args, expression.attrs
        if op is None:
            return self.name(expression.name), ATOM
        if self.typeset and op.name == "div":
            return self.fraction(*args), ATOM
        if self.typeset and op.name == "pow":
            return self.power(*args), POWER
        if op.name == "mul":
            return self._product(op, *args)
        if op.name == "neg":
            return self._negative(args[0])
        if op.name in ("power", "square"):
            return self.power(args[0], attrs.get("exponent", 2)), POWER
        if op.name in INFIX and self.sign(op) is not None:
            binding = INFIX[op.name]
            return self._between(op, args[0], args[1], binding + (op.name in ("sub", "div")))
        if op.name == "where":
            return self.cases(*(self.part(a)[0] for a in args)), ATOM if self.typeset else 0
        last = len(expression.shape) - 1
        if op.name == "permute" and attrs["axes"][-2:] == (last, last - 1):
            return self.transposed(self.wrapped(args[0], BASE)), POWER if self.typeset else BASE
        return self.call(expression)

    def wrapped(self, expression: Any, binding: int) -> str:
        """An operand, in brackets if it binds less tightly."""
        text, tightness = self.part(expression)
        return self.bracketed(text) if tightness < binding else self.single(text)

    def _product(self, op: Op, first: Any, second: Any) -> Part:
        for one, other in ((first, second), (second, first)):
            if isinstance(one, (int, float)) and one == 1:
                return self.part(other)
            if isinstance(one, (int, float)) and one == -1:
                return self._negative(other)
        if first is second:
            return self.power(first, 2), POWER
        return self._between(op, first, second, INFIX["mul"])

    def _negative(self, operand: Any) -> Part:
        return self.minus + self.wrapped(operand, PREFIX), PREFIX

    def _between(self, op: Op, first: Any, second: Any, right_binding: int) -> Part:
        binding = INFIX[op.name]
        # After another sign a minus needs brackets, too: a × (−b).
        prefixed = self.part(second)[1] == PREFIX
        right = self.wrapped(second, ATOM if prefixed else right_binding)
        return self.infix(self.wrapped(first, binding), self.sign(op) or "", right), binding

    def sign(self, op: Op) -> str | None:
        """The sign of an op between its operands; None if it has none."""
        return op.symbol if self.signs is None else self.signs.get(op.name)

    def fraction(self, top: Any, bottom: Any) -> str:
        """A quotient, typeset."""
        raise NotImplementedError

    def infix(self, left: str, sign: str, right: str) -> str:
        """An operation between its operands."""
        return f"{left} {sign} {right}"

    def single(self, text: str) -> str:
        """An operand without brackets."""
        return text

    def number(self, value: Any) -> Part:
        """A number, or any other attribute."""
        text = _number(value)
        return text, PREFIX if text.startswith("−") else ATOM

    def name(self, name: str) -> str:
        """The name of a symbol."""
        return name

    def bracketed(self, text: str) -> str:
        """In parentheses."""
        return f"({text})"

    def power(self, base: Any, exponent: Any) -> str:
        """A power."""
        below = self.wrapped(base, BASE)
        if isinstance(exponent, Symbol):
            return f"{below}^{self.wrapped(exponent, ATOM)}"
        text = _number(exponent).replace("−", "-")
        if not set(text) <= {chr(sign) for sign in _SUPERSCRIPT}:  # inf, 1e+20: nothing to raise
            return f"{below}^{_number(exponent)}"
        return below + text.translate(_SUPERSCRIPT)

    def cases(self, condition: str, chosen: str, other: str) -> str:
        """`where`."""
        return f"{chosen} if {condition} else {other}"

    def transposed(self, text: str) -> str:
        """A transposed matrix."""
        return f"{text}ᵀ"

    def call(self, expression: Symbol) -> Part:
        """An op written as a function of its operands and attributes."""
        op: Any = expression.op
        listed = [formula(a) for a in expression.args]
        listed += [f"{name}={value}" for name, value in expression.attrs.items()]
        call = f"{op.symbol or op.name}({', '.join(listed)})"
        return (f"{call}[{expression.index}]" if op.multiple else call), ATOM


formula_part = Notation().part


def _number(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(formula(v) for v in value)})"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.6g}".replace("-", "−")
    return str(value)
