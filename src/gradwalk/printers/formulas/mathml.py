"""Formulas as MathML, which browsers and notebooks show without a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import Any

from gradwalk.ops.core.symbol import Symbol
from gradwalk.printers.formulas.formula import ATOM, BASE, POWER, PREFIX, Notation, Part
from gradwalk.printers.formulas.latex import EACH, GREEK, SEVERAL, indexed, is_word

SIGNS = {
    "add": "+", "sub": "−", "mul": "⋅", "matmul": "", "equal": "=", "not_equal": "≠", "less": "<",
    "less_equal": "≤", "greater": ">", "greater_equal": "≥", "bitwise_and": "∧",
    "bitwise_or": "∨", "floor_divide": "//", "remainder": "mod",
}  # fmt: skip
AROUND = {"abs": ("|", "|"), "floor": ("⌊", "⌋"), "ceil": ("⌈", "⌉")}
SPELLED: dict[str, Callable[[str], str]] = {
    "exp": lambda x: f"<msup><mi>e</mi><mrow>{x}</mrow></msup>",
    "reciprocal": lambda x: f"<mfrac><mn>1</mn><mrow>{x}</mrow></mfrac>",
    "rsqrt": lambda x: f"<mfrac><mn>1</mn><msqrt>{x}</msqrt></mfrac>",
    "sqrt": lambda x: f"<msqrt>{x}</msqrt>",
}
LETTERS = {"sigmoid": "σ", "ndtr": "Φ"}


def mathml(expression: Any, block: bool = False) -> str:
    """An expression of symbols (or a number) as a <math> element.

    >>> from gradwalk.ops.core.symbol import Symbol
    >>> mathml(Symbol("x") ** 2)
    '<math><msup><mi>x</mi><mn>2</mn></msup></math>'
    """
    display = ' display="block"' if block else ""
    return f"<math{display}>{mathml_part(expression)[0]}</math>"


def _row(expression: Any) -> str:
    """As one element, where the markup counts its elements."""
    markup = mathml_part(expression)[0]
    one = re.fullmatch(r"<m[in]>[^<]*</m[in]>", markup)
    return markup if one else f"<mrow>{markup}</mrow>"


def in_brackets(text: str) -> str:
    """In parentheses, as one element."""
    return f"<mrow>{operator('(')}{text}{operator(')')}</mrow>"


def operator(sign: str) -> str:
    """An operator element."""
    return f"<mo>{escape(sign)}</mo>"


def mathml_name(name: str) -> str:
    """A name with its index and Greek letters; the d of a derivative is upright.

    >>> mathml_name("x1"), mathml_name("alpha")
    ('<msub><mi>x</mi><mn>1</mn></msub>', '<mi>α</mi>')
    >>> mathml_name("dd/dc")  # of a variable that is called d
    '<mfrac><mrow><mtext>d</mtext><mi>d</mi></mrow><mrow><mtext>d</mtext><mi>c</mi></mrow></mfrac>'
    >>> mathml_name("x1w1")
    '<mrow><msub><mi>x</mi><mn>1</mn></msub><msub><mi>w</mi><mn>1</mn></msub></mrow>'
    """
    slope = re.fullmatch(r"([d∂])(.+)/\1(.+)", name)
    if slope:
        d = f"<mtext>{slope[1]}</mtext>"
        top, bottom = (f"<mrow>{d}{_differential(slope[i])}</mrow>" for i in (2, 3))
        return f"<mfrac>{top}{bottom}</mfrac>"
    if SEVERAL.fullmatch(name):
        return f"<mrow>{''.join(map(mathml_name, EACH.findall(name)))}</mrow>"
    found = indexed(name)
    if found:
        return f"<msub>{mathml_name(found[0])}<mn>{escape(found[1])}</mn></msub>"
    return f"<mi>{GREEK.get(name, escape(name))}</mi>"


def _differential(name: str) -> str:
    """What stands after the d of a derivative: d(sum), since dsum reads as a product."""
    markup = mathml_name(name)
    return in_brackets(markup) if is_word(name) else markup


def mathml_number(value: Any) -> str:
    """A number, or any other attribute.

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
        # inf and nan as everywhere else, so that readers can compare them
        shown = f"<mn>{text}</mn>"
    return f"<mrow>{operator('−')}{shown}</mrow>" if negative else shown


class _MathML(Notation):
    minus = "<mo>−</mo>"
    typeset = True
    signs = SIGNS
    name = staticmethod(mathml_name)
    bracketed = staticmethod(in_brackets)

    def fraction(self, top: Any, bottom: Any) -> str:
        return f"<mfrac>{_row(top)}{_row(bottom)}</mfrac>"

    def infix(self, left: str, sign: str, right: str) -> str:
        return f"{left}{operator(sign)}{right}"

    def single(self, text: str) -> str:
        return text if re.fullmatch(r"<(m\w+)>[^<]*</\1>", text) else f"<mrow>{text}</mrow>"

    def number(self, value: Any) -> Part:
        markup = mathml_number(value)
        return markup, PREFIX if markup.startswith(f"<mrow>{self.minus}") else ATOM

    def power(self, base: Any, exponent: Any) -> str:
        return f"<msup>{self.wrapped(base, BASE)}{_row(exponent)}</msup>"

    def cases(self, condition: str, chosen: str, other: str) -> str:
        rows = (
            f"<mtr><mtd>{chosen}</mtd><mtd><mtext>if&#160;</mtext>{condition}</mtd></mtr>"
            f"<mtr><mtd>{other}</mtd><mtd><mtext>otherwise</mtext></mtd></mtr>"
        )
        return f"<mrow>{operator('{')}<mtable>{rows}</mtable></mrow>"

    def transposed(self, text: str) -> str:
        return f"<msup>{text}<mo>⊤</mo></msup>"

    def call(self, expression: Symbol) -> Part:
        name, attrs = expression.op.name, expression.attrs  # type: ignore[union-attr]
        listed = [mathml_part(a)[0] for a in expression.args]
        if name in AROUND and len(listed) == 1 and not attrs:
            left, right = (operator(sign) for sign in AROUND[name])
            return f"<mrow>{left}{listed[0]}{right}</mrow>", ATOM
        if name in SPELLED and len(listed) == 1 and not attrs:
            return SPELLED[name](listed[0]), POWER if name == "exp" else ATOM
        listed += [
            f"<mi>{escape(k)}</mi>{operator('=')}{mathml_part(v)[0]}" for k, v in attrs.items()
        ]
        shown = LETTERS.get(name, escape(name))
        return f"<mrow><mi>{shown}</mi>{in_brackets(operator(',').join(listed))}</mrow>", ATOM


mathml_part = _MathML().part
