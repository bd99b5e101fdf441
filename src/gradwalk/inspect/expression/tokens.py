"""The words, numbers and signs of an expression, the functions it may call, and its errors."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from gradwalk.ops import TABLE

LONGEST = 10_000  # characters
MOST_TOKENS = 2_000
DEEPEST = 50  # brackets, signs and powers in one another
LONGEST_NAME = 40

CONSTANTS = {"pi": math.pi, "inf": math.inf, "nan": math.nan}
# A letter is Latin, with or without a mark (ö, ŷ), or Greek; marks and low digits may follow it.
LETTERS = "A-Za-zÀ-ÖØ-öø-\u024f\u1e00-\u1effΑ-Ωα-ω"
MARKS = "\u0300-\u036f"
LOW_DIGITS = "₀₁₂₃₄₅₆₇₈₉"
_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    rf"|(?P<name>[{LETTERS}][{LETTERS}{MARKS}{LOW_DIGITS}0-9_]*)"
    r"|(?P<sign>\*\*|[-+*/^()=,;\n−×·⋅])"
)
_SAME = {"**": "^", "−": "-", "×": "*", "·": "*", "⋅": "*"}
_HIGH_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_PLAIN_DIGITS = str.maketrans(LOW_DIGITS, "0123456789")
BLANK = " \t\r"

# What a person would say. The page says the same (`parse.hint.…` of its strings.json; tested).
HINTS = {
    "minus": "write - for minus",
    "bracket": "write ( for a bracket",
    "operators": "the operators are + - * / ^",
    "noText": "there is no text in an expression",
    "choose": "to choose between two values use max(a, b), min(a, b) or relu(x)",
    "division": "write / for division",
    "product": "write * for a product",
    "root": "write sqrt(x)",
    "size": "write abs(x)",
    "noMatrix": "this is about numbers; a product is *",
    "noParts": "a name has no parts; numbers are written 0.5 or .5",
    "letter": "a name begins with a letter",
    "noComments": "comments are not read",
    "assign": "write = to give a name",
    "softmax": "softmax takes several numbers: write exp(a)/(exp(a) + exp(b))",
    "sum": "write a sum out: a + b + c",
    "mean": "write a mean out: (a + b)/2",
    "loss": "write a loss out: (y - t)^2, or -log(p)",
    "loop": "there are no loops and no functions of one's own: one statement after the other",
}
# What stands in other notations -> the hint about it.
INSTEAD = {
    **dict.fromkeys("‐‑‒–—", "minus"),
    **dict.fromkeys("[{", "bracket"),
    **dict.fromkeys("!%", "operators"),
    **dict.fromkeys("'\"", "noText"),
    **dict.fromkeys("<>≤≥", "choose"),
    "÷": "division", "∗": "product", "√": "root", "|": "size", "@": "noMatrix", ".": "noParts",
    "_": "letter", "#": "noComments", ":": "assign",
}  # fmt: skip
# Words that stand for no function here -> the hint about them, or (in WRITE) what to write.
WORDS = {
    **dict.fromkeys(("if", "else", "elif", "then", "where", "case", "step", "heaviside"), "choose"),
    **dict.fromkeys(("softmax", "logsoftmax", "log_softmax", "logsumexp"), "softmax"),
    **dict.fromkeys(("sum", "Σ", "dot", "add_all"), "sum"),
    **dict.fromkeys(("mean", "avg", "average"), "mean"),
    **dict.fromkeys(("mse", "loss", "crossentropy", "cross_entropy", "bce", "nll"), "loss"),
    **dict.fromkeys(("for", "while", "lambda", "def", "return"), "loop"),
}
WRITE = {
    "σ": "sigmoid(...)", "logistic": "sigmoid(...)", "sgn": "sign(...)", "signum": "sign(...)",
    "arcsin": "asin(...)", "arccos": "acos(...)", "arctan": "atan(...)", "tg": "tan(...)",
    "lg": "log10(...)", "ld": "log2(...)", "lb": "log2(...)", "sqr": "square(...)",
    "root": "sqrt(...)", "cbrt": "x^(1/3)", "swish": "silu(...)", "power": "x^n",
    "leakyrelu": "leaky_relu(...)", "fabs": "abs(...)", "inv": "1/x",
}  # fmt: skip


class NamedFunction(NamedTuple):
    """A callable function: its op and number of operands."""

    op: str
    arity: int


def _functions() -> dict[str, NamedFunction]:
    """Every elementwise op with a derivative that works on plain numbers."""
    functions = {
        op.name: NamedFunction(op.name, len(op.inputs))
        for op in TABLE.values()
        if op.elementwise
        and op.differentiable
        and op.number is not None
        and all(name in op.defaults for name in op.attributes)
        and op.name not in ("where", "clip")  # they need a condition, or bounds
    }
    other_names = {"max": "maximum", "min": "minimum", "ln": "log"}
    return functions | {name: functions[op] for name, op in other_names.items()}


FUNCTIONS = _functions()


class ExpressionError(ValueError):
    """A malformed expression; `line` and `column` (from 1) say where."""

    def __init__(self, message: str, source: str, place: int, hint: str = "") -> None:
        before = source[:place]
        self.message = message
        self.hint = hint
        self.line = before.count("\n") + 1
        self.column = place - (before.rfind("\n") + 1) + 1
        hints = [f"Hint: {hint}"] if hint else []
        super().__init__("\n".join([message, *_pointed(source, self.line, self.column), *hints]))


def _pointed(source: str, line: int, column: int) -> list[str]:
    """The line with a caret below, cut to fit 80 columns."""
    lines = source.split("\n")
    text = lines[line - 1].replace("\t", " ").replace("\r", " ")
    start = max(0, column - 50)
    shown = text[start : start + 70]
    shown = "".join(c if c.isprintable() else "?" for c in shown)
    left, right = "…" * (start > 0), "…" * (start + 70 < len(text))
    where = [f"line {line}:"] if len(lines) > 1 else []
    caret = " " * (column - 1 - start + len(left)) + "^"
    return [*where, f"  {left}{shown}{right}", f"  {caret}"]


class Token(NamedTuple):
    """One word, number or sign."""

    kind: str  # "name", "number", "function" or "sign"
    text: str  # signs in one spelling: ^ * -
    start: int
    end: int


def tokens(source: str) -> Iterator[Token]:
    """Split a source from left to right; blanks separate."""
    place = 0
    while place < len(source):
        if source[place] in BLANK:
            place += 1
            continue
        match = _TOKEN.match(source, place)
        if match is None:
            raise _unknown(source, place)
        kind, text = match.lastgroup or "", match.group()
        text = plain_name(text) if kind == "name" else _SAME.get(text, text)
        yield Token(kind, text, place, match.end())
        place = match.end()


def plain_name(name: str) -> str:
    """One spelling of a name: x₁ is x1, and ŷ is one letter if there is one for it."""
    return unicodedata.normalize("NFC", name).translate(_PLAIN_DIGITS)


def _unknown(source: str, place: int) -> ExpressionError:
    sign = source[place]
    hint = HINTS[INSTEAD[sign]] if sign in INSTEAD else ""
    if sign in _HIGH_DIGITS:
        hint = f"write ^{_HIGH_DIGITS.index(sign)}"
    if sign in LOW_DIGITS:
        hint = f"write {LOW_DIGITS.index(sign)}"
    shown = f"'{sign}'" if sign.isprintable() and not sign.isspace() else f"U+{ord(sign):04X}"
    return ExpressionError(f"{shown} has no place in an expression", source, place, hint)


def about_word(name: str) -> str:
    """What to say of a word of another notation; empty if it is none."""
    word = name if name in WORDS else name.lower()
    return HINTS[WORDS[word]] if word in WORDS else ""


def meant(name: str) -> str:
    """Guess what the user of an unknown function meant."""
    lower = name.lower()
    written = WRITE.get(name) or WRITE.get(lower)
    if written:
        return f"write {written}"
    if about_word(name):
        return about_word(name)
    distance, near = min((_distance(lower, known), known) for known in sorted(FUNCTIONS))
    if len(lower) > 1 and distance <= max(1, len(lower) // 4):
        return f"did you mean {near}?"
    return f"for a product write {name}*(...)"


def _distance(one: str, other: str) -> int:
    """How many letters must be put in, left out or changed."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        above, row = row, [i]
        for j, known in enumerate(other, 1):
            row.append(min(above[j - 1] + (letter != known), above[j] + 1, row[j - 1] + 1))
    return row[-1]
