"""The words, numbers and signs of an expression, the functions it may call, and its errors."""

from __future__ import annotations

import difflib
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
_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-zΑ-Ωα-ω][A-Za-zΑ-Ωα-ω0-9_]*)"
    r"|(?P<sign>\*\*|[-+*/^()=,;\n−×·⋅])"
)
_SAME = {"**": "^", "−": "-", "×": "*", "·": "*", "⋅": "*"}
BLANK = " \t\r"
_INSTEAD = {
    **dict.fromkeys("‐‑‒–—", "write - for minus"),
    **dict.fromkeys("[{", "write ( for a bracket"),
    **dict.fromkeys("!%", "the operators are + - * / ^"),
    **dict.fromkeys("'\"", "there is no text in an expression"),
    **dict.fromkeys("<>", "to choose between two values use max(a, b) or min(a, b)"),
    "÷": "write / for division",
    "∗": "write * for a product",
    "√": "write sqrt(x)",
    "|": "write abs(x)",
    "@": "this is about numbers; a product is *",
    ".": "a name has no parts; numbers are written 0.5 or .5",
    "_": "a name begins with a letter",
    "#": "comments are not read",
    ":": "write = to give a name",
}


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
        text = match.group()
        yield Token(match.lastgroup or "", _SAME.get(text, text), place, match.end())
        place = match.end()


def _unknown(source: str, place: int) -> ExpressionError:
    sign = source[place]
    hint = _INSTEAD.get(sign, "")
    digit = unicodedata.digit(sign, None)
    if digit is not None:
        raised = "SUPERSCRIPT" in unicodedata.name(sign, "")
        hint = f"write ^{digit}" if raised else f"write {digit}"
    shown = f"'{sign}'" if sign.isprintable() and not sign.isspace() else f"U+{ord(sign):04X}"
    return ExpressionError(f"{shown} has no place in an expression", source, place, hint)


def meant(name: str) -> str:
    """Guess what the user of an unknown function meant."""
    if name in ("σ", "logistic"):
        return "write sigmoid(...)"
    near = difflib.get_close_matches(name, FUNCTIONS, 1, 0.75)
    if near:
        return f"did you mean {near[0]}?"
    return f"for a product write {name}*(...); `gradwalk functions` lists the functions"
