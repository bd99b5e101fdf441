"""Formulas as MathML, which browsers and notebooks show without any script."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from gradwalk.ops.core.symbol import Symbol
from gradwalk.printers.formulas.formula import INFIX
from gradwalk.printers.formulas.latex import ATOM, GREEK, POWER, PREFIX

SIGNS = {
    "add": "+", "sub": "−", "mul": "⋅", "matmul": "", "equal": "=", "not_equal": "≠", "less": "<",
    "less_equal": "≤", "greater": ">", "greater_equal": "≥", "bitwise_and": "∧",
    "bitwise_or": "∨", "floor_divide": "//", "remainder": "mod",
}  # fmt: skip
AROUND = {"abs": ("|", "|"), "floor": ("⌊", "⌋"), "ceil": ("⌈", "⌉")}
LETTERS = {"sigmoid": "σ", "ndtr": "Φ"}


def mathml(expression: Any, block: bool = False) -> str:
    """An expression of symbols (or a number) as a <math> element.

    >>> from gradwalk.ops.core.symbol import Symbol
    >>> mathml(Symbol("x") ** 2)
    '<math><msup><mi>x</mi><mn>2</mn></msup></math>'
    """
    display = ' display="block"' if block else ""
    return f"<math{display}>{mathml_part(expression)[0]}</math>"


def mathml_part(expression: Any) -> tuple[str, int]:
    """The markup inside <math>, and how tightly its outermost operation binds."""
    if not isinstance(expression, Symbol):
        markup = mathml_number(expression)
        return markup, PREFIX if markup.startswith(f"<mrow>{operator('−')}") else ATOM
    op, args, attrs = expression.op, expression.args, expression.attrs
    if op is None:
        return mathml_name(expression.name), ATOM
    if op.name == "mul":
        return _product(*args)
    if op.name == "div":
        return f"<mfrac>{_row(args[0])}{_row(args[1])}</mfrac>", ATOM
    if op.name in ("power", "square", "pow"):
        exponent = args[1] if op.name == "pow" else attrs.get("exponent", 2)
        return f"<msup>{_wrapped(args[0], 6)}{_row(exponent)}</msup>", POWER
    if op.name in INFIX and op.name in SIGNS:
        binding = INFIX[op.name]
        right = _wrapped_after(args[1], binding + (op.name == "sub"))
        return f"{_wrapped(args[0], binding)}{operator(SIGNS[op.name])}{right}", binding
    if op.name == "neg":
        return f"{operator('−')}{_wrapped(args[0], PREFIX)}", PREFIX
    if op.name == "where":
        return _cases(*(mathml_part(a)[0] for a in args)), ATOM
    if op.name == "permute" and attrs["axes"][-2:] == (
        len(expression.shape) - 1,
        len(expression.shape) - 2,
    ):
        return f"<msup>{_wrapped(args[0], 6)}<mo>⊤</mo></msup>", POWER
    return _called(op.name, args, attrs)


def _called(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[str, int]:
    if len(args) == 1 and not attrs:
        inner = mathml_part(args[0])[0]
        if name == "exp":
            return f"<msup><mi>e</mi><mrow>{inner}</mrow></msup>", POWER
        if name == "sqrt":
            return f"<msqrt>{inner}</msqrt>", ATOM
        if name == "rsqrt":
            return f"<mfrac><mn>1</mn><msqrt>{inner}</msqrt></mfrac>", ATOM
        if name == "reciprocal":
            return f"<mfrac><mn>1</mn><mrow>{inner}</mrow></mfrac>", ATOM
        if name in AROUND:
            left, right = AROUND[name]
            return f"<mrow>{operator(left)}{inner}{operator(right)}</mrow>", ATOM
    listed = [mathml_part(a)[0] for a in args]
    listed += [f"<mi>{escape(k)}</mi>{operator('=')}{mathml_part(v)[0]}" for k, v in attrs.items()]
    inner = operator(",").join(listed)
    shown = LETTERS.get(name, escape(name))
    return f"<mrow><mi>{shown}</mi>{in_brackets(inner)}</mrow>", ATOM


def _cases(condition: str, chosen: str, other: str) -> str:
    rows = (
        f"<mtr><mtd>{chosen}</mtd><mtd><mtext>if&#160;</mtext>{condition}</mtd></mtr>"
        f"<mtr><mtd>{other}</mtd><mtd><mtext>otherwise</mtext></mtd></mtr>"
    )
    return f"<mrow>{operator('{')}<mtable>{rows}</mtable></mrow>"


def _product(first: Any, second: Any) -> tuple[str, int]:
    for one, other in ((first, second), (second, first)):
        if isinstance(one, (int, float)) and one == 1:
            return mathml_part(other)
        if isinstance(one, (int, float)) and one == -1:
            return f"{operator('−')}{_wrapped(other, PREFIX)}", PREFIX
    if first is second:
        return f"<msup>{_wrapped(first, 6)}<mn>2</mn></msup>", POWER
    return f"{_wrapped(first, 3)}{operator('⋅')}{_wrapped_after(second, 3)}", 3


def _row(expression: Any) -> str:
    """As one element, where the markup counts its elements."""
    found = mathml_part(expression)[0]
    one = re.fullmatch(r"<m[in]>[^<]*</m[in]>", found)
    return found if one else f"<mrow>{found}</mrow>"


def _wrapped(expression: Any, binding: int) -> str:
    markup, tightness = mathml_part(expression)
    return in_brackets(markup) if tightness < binding else _single(markup)


def _wrapped_after(expression: Any, binding: int) -> str:
    """After another sign a minus needs brackets, too."""
    tightness = mathml_part(expression)[1]
    return _wrapped(expression, ATOM if tightness == PREFIX else binding)


def _single(markup: str) -> str:
    return markup if re.fullmatch(r"<(m\w+)>[^<]*</\1>", markup) else f"<mrow>{markup}</mrow>"


def in_brackets(markup: str) -> str:
    """In parentheses, as one element."""
    return f"<mrow>{operator('(')}{markup}{operator(')')}</mrow>"


def operator(sign: str) -> str:
    """A sign between, before or around things."""
    return f"<mo>{escape(sign)}</mo>"


def mathml_name(name: str) -> str:
    """A name, with its index below and Greek letters as letters; of a slope the d is upright.

    >>> mathml_name("x1"), mathml_name("alpha")
    ('<msub><mi>x</mi><mn>1</mn></msub>', '<mi>α</mi>')
    >>> mathml_name("dd/dc")  # of a variable that is called d
    '<mfrac><mrow><mtext>d</mtext><mi>d</mi></mrow><mrow><mtext>d</mtext><mi>c</mi></mrow></mfrac>'
    """
    slope = re.fullmatch(r"([d∂])(.+)/\1(.+)", name)
    if slope:
        d = f"<mtext>{slope[1]}</mtext>"
        top, bottom = (f"<mrow>{d}{mathml_name(slope[i])}</mrow>" for i in (2, 3))
        return f"<mfrac>{top}{bottom}</mfrac>"
    indexed = re.fullmatch(r"(.*?)\[(.*)\]", name) or re.fullmatch(r"(\D*?)[_#]?(\d+)", name)
    if indexed and indexed[1]:
        return f"<msub>{mathml_name(indexed[1])}<mn>{escape(indexed[2])}</mn></msub>"
    return f"<mi>{GREEK.get(name, escape(name))}</mi>"


def mathml_number(value: Any) -> str:
    """A number, or whatever else an attribute may be.

    >>> mathml_number(-1.5)
    '<mrow><mo>−</mo><mn>1.5</mn></mrow>'
    """
    if isinstance(value, tuple):
        return in_brackets(operator(",").join(mathml_part(v)[0] for v in value))
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return f"<mtext>{escape(str(value))}</mtext>"
    text = f"{value:.6g}"
    negative = text.startswith("-")
    text = text.lstrip("-")
    if "e" in text:
        mantissa, exponent = text.split("e")
        shown = (
            f"<mrow><mn>{mantissa}</mn>{operator('⋅')}<msup><mn>10</mn>"
            f"{mathml_number(int(exponent))}</msup></mrow>"
        )
    else:
        shown = f"<mn>{text}</mn>"  # inf and nan as everywhere else: a reader compares them
    return f"<mrow>{operator('−')}{shown}</mrow>" if negative else shown
