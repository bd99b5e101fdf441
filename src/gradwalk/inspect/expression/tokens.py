"""Tokenize an expression from left to right, and report its first error.

Checking an expression needs no tree. At any position either an operand or an operator may follow,
and a stack holds the open brackets, so the first token that does not fit is the error. The page
uses the same rules.
"""

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
_BLANK = " \t\r"
_OPERATORS = ("+", "-", "*", "/")
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


class Sentence(NamedTuple):
    """The tokens of one statement."""

    source: str
    name: Token | None  # what stands left of =
    body: tuple[Token, ...]

    @property
    def text(self) -> str:
        """As it was written."""
        first = self.name or self.body[0]
        return " ".join(self.source[first.start : self.body[-1].end].split())

    @property
    def line(self) -> int:
        """Where it begins, from 1."""
        return self.source.count("\n", 0, (self.name or self.body[0]).start) + 1


def sentences(source: str) -> list[Sentence]:
    """Tokenize all statements of a source."""
    if len(source) > LONGEST:
        raise ExpressionError(f"longer than {LONGEST:,} characters", source, LONGEST)
    return _Reader(source).read()


class _Bracket:
    """An open bracket; that of a call counts its arguments."""

    def __init__(self, token: Token, function: Token | None) -> None:
        self.token = token
        self.function = function
        self.count = 1
        self.nested = 0  # signs and powers before it that wait for its end


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.found: list[Sentence] = []
        self.assigned: set[str] = set()
        self.used: set[str] = set()
        self.begin_statement()

    def begin_statement(self) -> None:
        self.name: Token | None = None
        self.body: list[Token] = []
        self.open: list[_Bracket] = []
        self.nested = 0
        self.levels = 0  # of everything that is open
        self.wants_operand = True

    def error(self, message: str, place: int, hint: str = "") -> ExpressionError:
        return ExpressionError(message, self.source, place, hint)

    def read(self) -> list[Sentence]:
        after = 0  # where the last token ended
        for count, token in enumerate(self.tokens(), 1):
            if count > MOST_TOKENS:
                raise self.error(f"more than {MOST_TOKENS:,} words and signs", token.start)
            if token.text == "\n":
                if not self.open:
                    self.end_statement(after)
                continue
            if token.text == ";" and not self.open:
                self.end_statement(after)
            elif self.wants_operand:
                self.operand(token)
            else:
                self.operator(token)
            after = token.end
        self.end_statement(after)
        if not self.found:
            raise self.error("there is no expression", 0, 'write something like "x^2 + 3*x"')
        return self.found

    def tokens(self) -> Iterator[Token]:
        place = 0
        while place < len(self.source):
            if self.source[place] in _BLANK:
                place += 1
                continue
            match = _TOKEN.match(self.source, place)
            if match is None:
                raise self._unknown(place)
            text = match.group()
            yield Token(match.lastgroup or "", _SAME.get(text, text), place, match.end())
            place = match.end()

    def _unknown(self, place: int) -> ExpressionError:
        sign = self.source[place]
        hint = _INSTEAD.get(sign, "")
        digit = unicodedata.digit(sign, None)
        if digit is not None:
            raised = "SUPERSCRIPT" in unicodedata.name(sign, "")
            hint = f"write ^{digit}" if raised else f"write {digit}"
        shown = f"'{sign}'" if sign.isprintable() and not sign.isspace() else f"U+{ord(sign):04X}"
        return self.error(f"{shown} has no place in an expression", place, hint)

    # -- an operand is expected ------------------------------------------------------------------

    def operand(self, token: Token) -> None:
        if self.found and not self.found[-1].name and not self.body and not self.name:
            raise self.error(
                "this value is not used: only the last expression goes without a name",
                self.found[-1].body[0].start,
                "write name = ... before it, or remove it",
            )
        if token.kind == "number":
            self.add(token)
            self.wants_operand = False
        elif token.kind == "name":
            self.word(token)
        elif token.text == "(":
            calls = self.body and self.body[-1].kind == "function"
            self.open_bracket(token, self.body[-1] if calls else None)
        elif token.text in ("+", "-"):
            self.deeper(token)
            self.add(token)
        else:
            raise self.error(
                f"a number, a name or ( is expected here, not '{token.text}'", token.start
            )

    def word(self, token: Token) -> None:
        name = token.text
        if len(name) > LONGEST_NAME:
            raise self.error(f"a name has at most {LONGEST_NAME} characters", token.start)
        blank = _BLANK + "\n" if self.open else _BLANK  # in brackets a line may end anywhere
        called = self.source[token.end :].lstrip(blank).startswith("(")
        if called and name in FUNCTIONS:
            self.add(token._replace(kind="function"))
        elif called:
            raise self.error(f"there is no function '{name}'", token.start, _meant(name))
        elif name in FUNCTIONS:
            raise self.error(f"{name} is a function", token.start, f"write {name}(...)")
        else:
            if self.name is not None and name == self.name.text:
                raise self.error(f"'{name}' is used in its own definition", token.start)
            self.add(token._replace(kind="number") if name in CONSTANTS else token)
            self.wants_operand = False

    def open_bracket(self, token: Token, function: Token | None) -> None:
        self.deeper(token)
        self.add(token)
        bracket = _Bracket(token, function)
        bracket.nested, self.nested = self.nested - 1, 0
        self.open.append(bracket)

    def deeper(self, token: Token) -> None:
        self.nested += 1
        self.levels += 1
        if self.levels > DEEPEST:
            raise self.error(f"more than {DEEPEST} levels deep", token.start)

    def shallower(self) -> None:
        """Close the signs and powers before a complete operand."""
        self.levels -= self.nested
        self.nested = 0

    def add(self, token: Token) -> None:
        self.body.append(token)

    # -- an operator is expected -----------------------------------------------------------------

    def operator(self, token: Token) -> None:
        text = token.text
        if text == "=":
            self.assign(token)
        elif text == "^":
            self.deeper(token)
            self.add(token)
            self.wants_operand = True
        elif text in _OPERATORS:
            self.shallower()
            self.add(token)
            self.wants_operand = True
        elif text == ")":
            self.close_bracket(token)
        elif text == ",":
            self.comma(token)
        elif text == ";":
            raise self.unclosed()
        else:
            raise self.missing_operator(token)

    def assign(self, token: Token) -> None:
        if self.name is not None:
            raise self.error("a second =", token.start, "one name per assignment; compare nothing")
        first = self.body[0]
        if len(self.body) != 1 or (first.kind != "name" and first.text not in CONSTANTS):
            raise self.error("only a name can stand left of =", token.start)
        if first.text in CONSTANTS:
            raise self.error(f"{first.text} has its value already", first.start)
        if first.text in self.assigned:
            raise self.error(f"'{first.text}' is assigned twice", first.start, "use a new name")
        if first.text in self.used:
            raise self.error(
                f"'{first.text}' was used before it is assigned here",
                first.start,
                "move this assignment before its first use",
            )
        self.name = first
        self.body = []
        self.wants_operand = True

    def close_bracket(self, token: Token) -> None:
        if not self.open:
            raise self.error("this ) closes nothing", token.start)
        self.shallower()
        self.levels -= 1
        bracket = self.open.pop()
        if bracket.function is not None:
            self.check_count(bracket.function, bracket.count)
        self.nested = bracket.nested
        self.add(token)

    def check_count(self, function: Token, count: int) -> None:
        wanted = FUNCTIONS[function.text].arity
        if count != wanted:
            values = "value" if wanted == 1 else "values"
            raise self.error(
                f"{function.text} takes {wanted} {values}, not {count}", function.start
            )

    def comma(self, token: Token) -> None:
        if not self.open or self.open[-1].function is None:
            raise self.error(
                "a comma stands between the values of a function only",
                token.start,
                "separate statements by ;",
            )
        self.shallower()
        self.open[-1].count += 1
        self.add(token)
        self.wants_operand = True

    def unclosed(self) -> ExpressionError:
        return self.error("this ( is never closed", self.open[-1].token.start)

    def missing_operator(self, token: Token) -> ExpressionError:
        before = self.body[-1]
        what = {"number": "a number", "name": "a name"}.get(before.kind, "a bracket")
        opening = token.text == "("
        hint = f"write {before.text}*{token.text}{'...)' if opening else ''}"
        if before.text == ")":
            hint = f"write )*{token.text}{'...)' if opening else ''}"
        return self.error(f"'{token.text}' follows {what} without an operator", token.start, hint)

    # -- the end ---------------------------------------------------------------------------------

    def end_statement(self, after: int) -> None:
        if self.wants_operand:
            if not self.body and self.name is None:
                return  # nothing between two separators
            raise self.error("it ends too soon: a number, a name or ( is missing", after)
        if self.open:
            raise self.unclosed()
        if self.name is not None:
            self.assigned.add(self.name.text)
        self.used |= {t.text for t in self.body if t.kind == "name"}
        self.found.append(Sentence(self.source, self.name, tuple(self.body)))
        self.begin_statement()


def _meant(name: str) -> str:
    """Guess what the user of an unknown function meant."""
    if name in ("σ", "logistic"):
        return "write sigmoid(...)"
    near = difflib.get_close_matches(name, FUNCTIONS, 1, 0.75)
    if near:
        return f"did you mean {near[0]}?"
    return f"for a product write {name}*(...); `gradwalk functions` lists the functions"
