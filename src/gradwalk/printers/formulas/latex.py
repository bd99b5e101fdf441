r"""Formulas as LaTeX: `1 - out^{2}`, `\frac{x}{y}`.

The same expressions as in formula.py. `SPELLED` has the ops with a notation of their own; every
other op is written `\operatorname{name}(operands)`, so a user's op prints without further work.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gradwalk.ops.core.symbol import Symbol
from gradwalk.printers.formulas.formula import ATOM, BASE, INFIX, POWER, PREFIX, Notation, Part

GREEK = dict(
    alpha="α", beta="β", gamma="γ", delta="δ", epsilon="ε", zeta="ζ", eta="η", theta="θ",
    kappa="κ", mu="μ", nu="ν", xi="ξ", pi="π", rho="ρ", sigma="σ", tau="τ", phi="φ", chi="χ",
    psi="ψ", omega="ω", **{"lambda": "λ"},
)  # fmt: skip
# Capitals that look like Latin letters are set as Latin letters: TeX has no \Alpha.
_CAPITALS = dict(zip("ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ", (
    "A", "B", r"\Gamma", r"\Delta", "E", "Z", "H", r"\Theta", "I", "K", r"\Lambda", "M", "N",
    r"\Xi", "O", r"\Pi", "P", r"\Sigma", "T", r"\Upsilon", r"\Phi", "X", r"\Psi", r"\Omega",
)))  # fmt: skip
GREEK_LETTERS = {letter: f"\\{name}" for name, letter in GREEK.items()} | _CAPITALS
GREEK_LETTERS |= {"ι": r"\iota", "ο": "o", "ς": r"\varsigma", "υ": r"\upsilon"}
SIGNS = {
    "add": "+", "sub": "-", "mul": r"\cdot", "matmul": r"\,", "equal": "=", "not_equal": r"\ne",
    "less": "<", "less_equal": r"\le", "greater": ">", "greater_equal": r"\ge",
    "bitwise_and": r"\land", "bitwise_or": r"\lor", "floor_divide": r"\mathbin{//}",
    "remainder": r"\bmod",
}  # fmt: skip
FUNCTIONS = {"sin", "cos", "tan", "sinh", "cosh", "tanh", "log", "min", "max"}
SPELLED: dict[str, Callable[..., str]] = {
    "abs": lambda x: rf"\left|{x}\right|",
    "exp": lambda x: f"e^{{{x}}}",
    "floor": lambda x: rf"\left\lfloor {x} \right\rfloor",
    "ceil": lambda x: rf"\left\lceil {x} \right\rceil",
    "ndtr": lambda x: rf"\Phi\left({x}\right)",
    "reciprocal": lambda x: rf"\frac{{1}}{{{x}}}",
    "rsqrt": lambda x: rf"\frac{{1}}{{\sqrt{{{x}}}}}",
    "sigmoid": lambda x: rf"\sigma\left({x}\right)",
    "sqrt": lambda x: rf"\sqrt{{{x}}}",
}


def latex(expression: Any) -> str:
    r"""An expression of symbols (or a number) as LaTeX, without the dollar signs.

    >>> from gradwalk.ops.core.symbol import Symbol
    >>> x, y = Symbol("x1"), Symbol("y")
    >>> print(latex((1 - x * x) / y))
    \frac{1 - x_{1}^{2}}{y}
    """
    return latex_part(expression)[0]


SEVERAL = re.compile(r"(?:[^\W\d_]\d+){2,}")  # x1w1: letters, each with its index
EACH = re.compile(r"\D\d+")


def indexed(name: str) -> tuple[str, str] | None:
    """A name and its index: `w12`, `h_1`, `W[0, 3]`."""
    found = re.fullmatch(r"(.*?)\[(.*)\]", name) or re.fullmatch(r"(\D*?)[_#]?(\d+)", name)
    return (found[1], found[2]) if found and found[1] else None


def is_word(name: str) -> bool:
    """Whether it is typeset as more than one letter (with an index): d(sum), but dL and dw₁."""
    base = (indexed(name) or (name, ""))[0]
    return len(base) > 1 and base not in GREEK


def latex_name(name: str) -> str:
    r"""A typeset name: `x1` with an index, `alpha` as a letter, `loss` upright.

    >>> latex_name("w12"), latex_name("alpha"), latex_name("W[0, 3]"), latex_name("dL/dx1")
    ('w_{12}', '\\alpha', 'W_{0, 3}', '\\frac{dL}{dx_{1}}')
    >>> latex_name("x1w1")
    'x_{1}w_{1}'
    """
    slope = re.fullmatch(r"([d∂])(.+)/\1(.+)", name)
    if slope:
        sign = r"\partial " if slope[1] == "∂" else "d"
        return rf"\frac{{{sign}{_differential(slope[2])}}}{{{sign}{_differential(slope[3])}}}"
    if SEVERAL.fullmatch(name):
        return "".join(map(latex_name, EACH.findall(name)))
    found = indexed(name)
    if found:
        return f"{latex_name(found[0])}_{{{_escaped(found[1])}}}"
    if name in GREEK:
        return f"\\{name}"
    if name in GREEK_LETTERS:
        return GREEK_LETTERS[name]
    return _escaped(name) if len(name) == 1 else rf"\mathrm{{{_escaped(name)}}}"


def _differential(name: str) -> str:
    """What stands after the d of a derivative: d(sum), since dsum reads as a product."""
    text = latex_name(name)
    return rf"\left({text}\right)" if is_word(name) else text


def latex_number(value: Any) -> str:
    r"""A number, or any other attribute.

    >>> latex_number(-1.5), latex_number(2.5e-10), latex_number((0, 1))
    ('-1.5', '2.5 \\cdot 10^{-10}', '\\left(0, 1\\right)')
    """
    if isinstance(value, tuple):
        return rf"\left({', '.join(latex(v) for v in value)}\right)"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        text = f"{value:.6g}"
        if "e" in text:
            mantissa, exponent = text.split("e")
            return rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
        return {"inf": r"\infty", "-inf": r"-\infty", "nan": r"\mathrm{NaN}"}.get(text, text)
    return rf"\text{{{_escaped(str(value))}}}"


def _escaped(text: str) -> str:
    return re.sub(r"([#$%&_{}])", r"\\\1", text.replace("\\", "/").replace("^", r"\hat{}"))


class _Latex(Notation):
    minus = "-"
    typeset = True
    signs = SIGNS
    name = staticmethod(latex_name)

    def fraction(self, top: Any, bottom: Any) -> str:
        return rf"\frac{{{latex(top)}}}{{{latex(bottom)}}}"

    def number(self, value: Any) -> Part:
        text = latex_number(value)
        binding = PREFIX if text.startswith("-") else INFIX["mul"] if "cdot" in text else ATOM
        return text, binding

    def bracketed(self, text: str) -> str:
        return rf"\left({text}\right)"

    def power(self, base: Any, exponent: Any) -> str:
        return f"{self.wrapped(base, BASE)}^{{{latex(exponent)}}}"

    def cases(self, condition: str, chosen: str, other: str) -> str:
        cases = rf"{chosen} & \text{{if }} {condition} \\ {other} & \text{{otherwise}}"
        return rf"\begin{{cases}} {cases} \end{{cases}}"

    def transposed(self, text: str) -> str:
        return rf"{text}^{{\top}}"

    def call(self, expression: Symbol) -> Part:
        name, args = expression.op.name, expression.args  # type: ignore[union-attr]
        if name in SPELLED and len(args) == 1:
            return SPELLED[name](latex(args[0])), POWER if name == "exp" else ATOM
        listed = [latex(a) for a in args]
        listed += [rf"\mathrm{{{_escaped(k)}}}={latex(v)}" for k, v in expression.attrs.items()]
        called = rf"\{name}" if name in FUNCTIONS else rf"\operatorname{{{_escaped(name)}}}"
        return rf"{called}\left({', '.join(listed)}\right)", ATOM


latex_part = _Latex().part
