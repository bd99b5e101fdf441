"""Expressions as text: `e = a·b; tanh(e + c)` becomes a graph of Values. Nothing is executed.

One pass from left to right. At any position either an operand or an operator may follow, so the
first token that does not fit is the error. Operators wait on a stack until what follows binds less
tightly, which leaves a flat list of steps. docs/inspect/expressions.md has the grammar,
tests/inspect/expression/grammar.json pins it, and the page follows the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from gradwalk.graph.order import inputs_first
from gradwalk.graph.source import SourceLine
from gradwalk.inspect.expression.tokens import (
    BLANK,
    CONSTANTS,
    DEEPEST,
    FUNCTIONS,
    LONGEST,
    LONGEST_NAME,
    MOST_TOKENS,
    ExpressionError,
    Token,
    about_word,
    meant,
    plain_name,
    tokens,
)
from gradwalk.inspect.trace.recorder import record
from gradwalk.inspect.trace.trace import Trace
from gradwalk.ops import TABLE
from gradwalk.printers.scalars import number
from gradwalk.scalar.value import Value

DEFAULT = 1.0  # the value of a name without one
NOTES = {
    "assumed": "no value given, so set to {value}: {names}",
    "e": "e is a name like any other; for the exponential write exp(...)",
    "π": "π is a name like any other; for 3.1415… write pi",
    "unused": "not part of {root}: {names}",
    "constant": "the expression has no operation to differentiate",
}
_SIGNS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "^": "pow", "neg": "neg"}
_SPELLED = {op: sign for sign, op in _SIGNS.items()}
# How tightly an operator binds; "neg" and "pos" are signs before an operand.
_DECIMAL_COMMA = re.compile("([0-9]+),([0-9]+)")
_BINDING = {"(": 0, "+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "pos": 3, "^": 4}


class PostfixStep(NamedTuple):
    """One step of a statement in postfix order: push an operand, or apply an op to `arity`
    operands.
    """

    kind: str  # "number", "name" or "apply"
    text: str
    arity: int = 0


@dataclass(frozen=True, slots=True)
class Statement:
    """`name = ...`, or the final expression without a name."""

    name: str  # "" if it has none
    steps: tuple[PostfixStep, ...]
    text: str
    line: int

    @property
    def is_constant(self) -> bool:
        """Whether it contains no names, only numbers."""
        return not any(step.kind == "name" for step in self.steps)

    def tree(self) -> str:
        """The expression in prefix form: `(+ (* a b) c)`."""
        stack: list[str] = []
        for step in self.steps:
            if step.kind != "apply":
                stack.append(step.text)
                continue
            args = stack[len(stack) - step.arity :]
            stack[len(stack) - step.arity :] = [f"({' '.join([step.text, *args])})"]
        return f"(= {self.name} {stack[0]})" if self.name else stack[0]


@dataclass(frozen=True, slots=True)
class ExpressionProgram:
    """Well-formed statements."""

    source: str
    statements: tuple[Statement, ...]

    @property
    def assigned(self) -> list[str]:
        """The names on the left of `=`."""
        return [s.name for s in self.statements if s.name]

    @property
    def leaves(self) -> list[str]:
        """The names that need a value, in order of use."""
        own = set(self.assigned)
        used = (step.text for s in self.statements for step in s.steps if step.kind == "name")
        return list(dict.fromkeys(name for name in used if name not in own))

    def tree(self) -> str:
        """All statements in prefix form; this is what tests/inspect/expression/grammar.json pins.

        >>> parse("e = a·b; -e^2 + 1").tree()
        '(= e (* a b)); (+ (neg (^ e 2)) 1)'
        """
        return "; ".join(s.tree() for s in self.statements)

    def build(self, values: Mapping[str, float] | None = None, **more: float) -> Built:
        """Compute it at these values, as a graph of Values.

        >>> built = parse("f = (a + b)·c").build(a=2, b=-3, c=10)
        >>> built.root.data, built.assumed
        (-10.0, ())
        """
        return Built(self, {**(values or {}), **more})


def expression(source: str, values: Mapping[str, float] | None = None, **more: float) -> Value:
    """Build the graph of an expression; names without a value are 1.

    >>> y = expression("x^3 + 5x", x=2)
    Traceback (most recent call last):
        ...
    gradwalk.inspect.expression.tokens.ExpressionError: 'x' follows a number without an operator
      x^3 + 5x
             ^
    Hint: write 5*x
    >>> y = expression("x^3 + 5·x", x=2)
    >>> y.backward()
    >>> y.data
    18.0
    """
    return parse(source).build(values, **more).root


def parse(source: str) -> ExpressionProgram:
    """Read an expression, or several assignments separated by `;` or on lines of their own.

    >>> parse("tanh(x1*w1 + b)").leaves
    ['x1', 'w1', 'b']
    """
    return ExpressionProgram(source, tuple(_Reader(source).read()))


# -- from tokens to steps ------------------------------------------------------------------------


@dataclass(slots=True)
class _Waiting:
    """An operator without its right operand, or an open bracket."""

    token: Token
    sign: str
    function: Token | None = None  # that the bracket calls
    count: int = 1  # of its arguments

    @property
    def nests(self) -> bool:
        """Whether it counts as a level: a bracket, a sign or a power."""
        return _BINDING[self.sign] not in (1, 2)


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.statements: list[Statement] = []
        self.unnamed = -1  # where the last statement begins, if it has no name
        self.assigned: set[str] = set()
        self.used: set[str] = set()
        self.begin_statement()

    def begin_statement(self) -> None:
        self.name: Token | None = None
        self.body: list[Token] = []
        self.steps: list[PostfixStep] = []
        self.waiting: list[_Waiting] = []
        self.wants_operand = True

    def error(self, message: str, place: int, hint: str = "") -> ExpressionError:
        return ExpressionError(message, self.source, place, hint)

    def read(self) -> list[Statement]:
        if len(self.source) > LONGEST:
            raise self.error(f"longer than {LONGEST:,} characters", LONGEST)
        after = 0  # where the last token ended
        for place, token in enumerate(tokens(self.source), 1):
            if place > MOST_TOKENS:
                raise self.error(f"more than {MOST_TOKENS:,} words and signs", token.start)
            if token.text == "\n":
                if self.bracket is None:
                    self.end_statement(after)
                continue
            if token.text == ";" and self.bracket is None:
                self.end_statement(after)
            elif self.wants_operand:
                self.operand(token)
            else:
                self.operator(token)
            after = token.end
        self.end_statement(after)
        if not self.statements:
            raise self.error("there is no expression", 0, 'write something like "x^2 + 3*x"')
        return self.statements

    # -- what waits ------------------------------------------------------------------------------

    @property
    def bracket(self) -> _Waiting | None:
        """The innermost open bracket."""
        return next((w for w in reversed(self.waiting) if w.sign == "("), None)

    def wait(self, token: Token, sign: str, function: Token | None = None) -> None:
        """Put an operator or a bracket on the stack; an operand follows."""
        self.body.append(token)
        self.waiting.append(_Waiting(token, sign, function))
        if sum(w.nests for w in self.waiting) > DEEPEST:
            raise self.error(f"more than {DEEPEST} levels deep", token.start)
        self.wants_operand = True

    def apply_waiting(self, binding: int = 1) -> None:
        """Apply the operators that bind at least so tightly, up to the innermost bracket."""
        while self.waiting and _BINDING[self.waiting[-1].sign] >= binding:
            sign = self.waiting.pop().sign
            if sign != "pos":
                self.steps.append(PostfixStep("apply", sign, 1 if sign == "neg" else 2))

    # -- an operand is expected ------------------------------------------------------------------

    def operand(self, token: Token) -> None:
        if self.unnamed >= 0:
            raise self.error(
                "this value is not used: only the last expression goes without a name",
                self.unnamed,
                "write name = ... before it, or remove it",
            )
        if token.kind == "number":
            self.add(token)
        elif token.kind == "name":
            self.word(token)
        elif token.text == "(":
            calls = self.body and self.body[-1].kind == "function"
            self.wait(token, "(", self.body[-1] if calls else None)
        elif token.text in ("+", "-"):
            self.wait(token, "neg" if token.text == "-" else "pos")
        else:
            raise self.error(
                f"a number, a name or ( is expected here, not '{token.text}'", token.start
            )

    def add(self, token: Token) -> None:
        self.body.append(token)
        self.steps.append(PostfixStep(token.kind, token.text))
        self.wants_operand = False

    def word(self, token: Token) -> None:
        name = token.text
        if len(name) > LONGEST_NAME:
            raise self.error(f"a name has at most {LONGEST_NAME} characters", token.start)
        blank = BLANK if self.bracket is None else BLANK + "\n"  # in brackets a line may end
        called = self.source[token.end :].lstrip(blank).startswith("(")
        if called and name in FUNCTIONS:
            self.body.append(token._replace(kind="function"))
        elif called:
            raise self.error(f"there is no function '{name}'", token.start, meant(name))
        elif name in FUNCTIONS:
            raise self.error(f"{name} is a function", token.start, f"write {name}(...)")
        elif self.name is not None and name == self.name.text:
            raise self.error(f"'{name}' is used in its own definition", token.start)
        else:
            self.add(token._replace(kind="number") if name in CONSTANTS else token)

    # -- an operator is expected -----------------------------------------------------------------

    def operator(self, token: Token) -> None:
        text = token.text
        if text == "=":
            self.assign(token)
        elif text == "^":  # a^b^c is a^(b^c): the first waits for the second
            self.wait(token, text)
        elif text in _BINDING and text != "(":
            self.apply_waiting(_BINDING[text])
            self.wait(token, text)
        elif text == ")":
            self.close_bracket(token)
        elif text == ",":
            self.comma(token)
        elif text == ";":
            raise self.unclosed()
        else:
            before = self.body[-1]
            what = {"number": "a number", "name": "a name"}.get(before.kind, "a bracket")
            hint = f"write {before.text}*{text}{'...)' if text == '(' else ''}"
            hint = about_word(text) or about_word(before.text) or hint
            raise self.error(f"'{text}' follows {what} without an operator", token.start, hint)

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
        self.begin_statement()
        self.name = first

    def close_bracket(self, token: Token) -> None:
        if self.bracket is None:
            raise self.error("this ) closes nothing", token.start)
        self.apply_waiting()
        bracket = self.waiting.pop()
        self.body.append(token)
        if bracket.function is None:
            return
        name = bracket.function.text
        op, wanted = FUNCTIONS[name]
        if bracket.count != wanted:
            needs = f"{name} takes {wanted} value{'s' * (wanted != 1)}, not {bracket.count}"
            raise self.error(needs, bracket.function.start)
        self.steps.append(PostfixStep("apply", _SPELLED.get(op, op), wanted))

    def comma(self, token: Token) -> None:
        bracket = self.bracket
        if bracket is None or bracket.function is None:
            decimal = _DECIMAL_COMMA.match(self.source, self.body[-1].start)
            raise self.error(
                "a comma stands between the values of a function only",
                token.start,
                f"write {decimal[1]}.{decimal[2]}" if decimal else "separate statements by ;",
            )
        self.apply_waiting()
        bracket.count += 1
        self.body.append(token)
        self.wants_operand = True

    def unclosed(self) -> ExpressionError:
        assert self.bracket is not None
        return self.error("this ( is never closed", self.bracket.token.start)

    # -- the end ---------------------------------------------------------------------------------

    def end_statement(self, after: int) -> None:
        if self.wants_operand:
            if not self.body and self.name is None:
                return  # nothing between two separators
            raise self.error("it ends too soon: a number, a name or ( is missing", after)
        if self.bracket is not None:
            raise self.unclosed()
        self.apply_waiting()
        if self.name is not None:
            self.assigned.add(self.name.text)
        else:
            self.unnamed = self.body[0].start
        self.used |= {t.text for t in self.body if t.kind == "name"}
        first = self.name or self.body[0]
        text = " ".join(self.source[first.start : self.body[-1].end].split())
        line = self.source.count("\n", 0, first.start) + 1
        name = "" if self.name is None else self.name.text
        self.statements.append(Statement(name, tuple(self.steps), text, line))
        self.begin_statement()


# -- from steps to a graph -----------------------------------------------------------------------


class Built:
    """The graph of a program at given values.

    Numbers fold until they meet a name, so 2·3·x has one constant, 6.
    """

    def __init__(self, program: ExpressionProgram, values: dict[str, float]) -> None:
        self.program = program
        self.given = {plain_name(name): value for name, value in values.items()}
        self.names: dict[str, Value] = {}  # every name in the program: leaves, and assigned ones
        self.assumed: tuple[str, ...] = ()  # leaves that were given no value and are DEFAULT
        self.lines: dict[int, Statement] = {}  # id of an inner Value -> where it was computed
        self._check_given()
        result: Any = None
        for statement in program.statements:
            result = self._run(statement)
            if statement.name:
                result = self._name(result, statement.name)
        self.root = result if isinstance(result, Value) else Value(result)
        inside = inputs_first([self.root])
        self._label_the_rest(inside)
        for v in inside:  # made by this file, not by a user's line
            v.code, v.position = None, -1
        ids = {id(v) for v in inside}
        # Assigned, but no part of the last statement.
        self.unused = tuple(n for n in program.assigned if id(self.names[n]) not in ids)

    def notes(self) -> list[str]:
        """What its author may not have meant; the page says the same (`note.…`).

        >>> parse("e^x").build(x=2).notes()[1]
        'e is a name like any other; for the exponential write exp(...)'
        """
        notes = []
        if self.assumed:
            listed = ", ".join(self.assumed)
            notes.append(NOTES["assumed"].format(value=number(DEFAULT), names=listed))
        notes += [NOTES[name] for name in ("e", "π") if name in self.assumed]
        if self.unused:
            listed = ", ".join(self.unused)
            notes.append(NOTES["unused"].format(root=self.root.label, names=listed))
        if not self.root.inputs:
            notes.append(NOTES["constant"])
        return notes

    def trace(self) -> Trace:
        """Record it, forward and backward."""
        trace: Trace = record(self.root)
        for v in inputs_first([self.root]):
            statement = self.lines.get(id(v))
            if statement is not None:
                line = SourceLine("expression", statement.line, statement.text, "")
                trace.nodes[trace.find(v)].line = line
        return trace

    def _check_given(self) -> None:
        constants = [s.name for s in self.program.statements if s.name and s.is_constant]
        known = [*self.program.leaves, *constants]
        for name in self.given:
            if name in known:
                continue
            if name in self.program.assigned:
                raise ValueError(f"'{name}' is computed by the expression; it cannot be given too")
            listed = ", ".join(known) or "none"
            raise ValueError(f"the expression has no '{name}' to set; its leaves are: {listed}")

    def _run(self, statement: Statement) -> Any:
        stack: list[Any] = []
        for step in statement.steps:
            if step.kind == "number":
                known = CONSTANTS.get(step.text)
                stack.append(float(step.text) if known is None else known)
            elif step.kind == "name":
                stack.append(self._leaf(step.text))
            else:
                args = stack[len(stack) - step.arity :]
                result = _apply(step.text, args)
                if isinstance(result, Value):
                    self.lines[id(result)] = statement
                stack[len(stack) - step.arity :] = [result]
        return stack[0]

    def _leaf(self, name: str) -> Value:
        if name not in self.names:
            if name not in self.given:
                self.assumed += (name,)
            self.names[name] = Value(float(self.given.get(name, DEFAULT)), label=name)
        return self.names[name]

    def _name(self, result: Any, name: str) -> Value:
        if not isinstance(result, Value):  # `a = 2` makes a leaf
            result = Value(float(self.given.get(name, result)), label=name)
        elif not result.label:
            result.label = name
        self.names[name] = result
        return result

    def _label_the_rest(self, inside: list[Value]) -> None:
        """Label inner nodes v1, v2, ..., for tools to refer to; constants stay numbers."""
        taken = {*self.names}
        if not self.root.label and "out" not in taken:
            self.root.label = "out"
        fresh = (name for k in count(1) if (name := f"v{k}") not in taken)
        for v in inside:
            if v.inputs and not v.label:
                v.label = next(fresh)


def _apply(name: str, args: list[Any]) -> Any:
    op = TABLE[_SIGNS.get(name, name)]
    if not any(isinstance(a, Value) for a in args):
        return float(op.on_numbers(args, dict(op.defaults)))
    if name == "^" and not isinstance(args[1], Value):  # a constant exponent is no input
        exponent = args[1]
        return args[0] ** (int(exponent) if exponent.is_integer() else exponent)
    return op(*args)
