"""Expressions as text: `e = a·b; tanh(e + c)` becomes a graph of Values. Nothing is executed.

The tokenizer (tokens.py) finds every error and its column. The rest contains only names, brackets
and signs, all of our own making; Python's `ast` parses their nesting, and a whitelist of its nodes
becomes a flat list of steps. docs/inspect/expressions.md has the grammar,
tests/inspect/expression/grammar.json pins it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gradwalk.graph.order import inputs_first
from gradwalk.graph.source import SourceLine
from gradwalk.inspect.expression.tokens import (
    CONSTANTS,
    FUNCTIONS,
    ExpressionError,
    Sentence,
    Token,
    sentences,
)
from gradwalk.inspect.trace.recorder import record
from gradwalk.inspect.trace.trace import Trace
from gradwalk.ops import TABLE
from gradwalk.scalar.value import Value

__all__ = ["ExpressionError", "ExpressionProgram", "expression", "parse"]

DEFAULT = 1.0  # the value of a name without one
_SIGNS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "^": "pow", "neg": "neg"}
_SPELLED = {op: sign for sign, op in _SIGNS.items()}
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "^",
}


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

        >>> found = parse("f = (a + b)·c").build(a=2, b=-3, c=10)
        >>> found.root.data, found.assumed
        (-10.0, ())
        """
        return _Builder(self, {**(values or {}), **more}).built()


@dataclass(frozen=True, slots=True)
class Built:
    """The graph of a program at given values."""

    program: ExpressionProgram
    root: Value
    names: dict[str, Value]  # every name in the program; leaves, and what was assigned
    assumed: tuple[str, ...]  # leaves that were given no value and were set to DEFAULT
    unused: tuple[str, ...]  # assigned, but no part of the last statement
    lines: dict[int, Statement]  # id of an inner Value -> where it was computed

    def trace(self) -> Trace:
        """Record it, forward and backward."""
        trace: Trace = record(self.root)
        for v in inputs_first([self.root]):
            statement = self.lines.get(id(v))
            if statement is not None:
                line = SourceLine("expression", statement.line, statement.text, "")
                trace.nodes[trace.find(v)].line = line
        return trace


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
    return ExpressionProgram(source, tuple(_statement(s) for s in sentences(source)))


# -- from tokens to steps ------------------------------------------------------------------------


def _statement(sentence: Sentence) -> Statement:
    body = sentence.body
    text = " ".join(_as_python(token, place) for place, token in enumerate(body))
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:  # the tokenizer rejects it
        raise ExpressionError(f"cannot be read: {error}", sentence.source, body[0].start) from None
    name = sentence.name.text if sentence.name else ""
    return Statement(name, tuple(_postfix(tree, body)), sentence.text, sentence.line)


def _as_python(token: Token, place: int) -> str:
    """Replace names and numbers by n0, n1, ..., so that Python sees no word of the user."""
    if token.kind in ("name", "number", "function"):
        return f"n{place}"
    return "**" if token.text == "^" else token.text


def _postfix(tree: ast.expr, body: tuple[Token, ...]) -> list[PostfixStep]:
    """Convert to postfix order, without recursion: a long sum nests as deep as it is long."""
    steps: list[PostfixStep] = []
    stack: list[ast.expr | PostfixStep] = [tree]
    while stack:
        match stack.pop():
            case PostfixStep() as step:
                steps.append(step)
            case ast.Name(id=name):
                token = body[int(name[1:])]
                steps.append(PostfixStep(token.kind, token.text))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                stack += [PostfixStep("apply", _BINARY[type(op)], 2), right, left]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                stack += [PostfixStep("apply", "neg", 1), operand]
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                stack.append(operand)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                op_name = FUNCTIONS[body[int(name[1:])].text].op
                called = PostfixStep("apply", _SPELLED.get(op_name, op_name), len(args))
                stack += [called, *reversed(args)]
            case other:
                raise ExpressionError(
                    f"{type(other).__name__} has no place in an expression", "", 0
                )
    return steps


# -- from steps to a graph -----------------------------------------------------------------------


class _Builder:
    """Build Values; numbers fold until they meet a name, so 2·3·x has one constant, 6."""

    def __init__(self, program: ExpressionProgram, values: dict[str, float]) -> None:
        self.program = program
        self.given = values
        self.names: dict[str, Value] = {}
        self.assumed: list[str] = []
        self.lines: dict[int, Statement] = {}
        self._check_given()

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

    def built(self) -> Built:
        result: Any = None
        for statement in self.program.statements:
            result = self._run(statement)
            if statement.name:
                result = self._name(result, statement.name)
        root = result if isinstance(result, Value) else Value(result)
        inside = inputs_first([root])
        self._label_the_rest(root, inside)
        for v in inside:  # made by this file, not by a user's line
            v.code, v.position = None, -1
        ids = {id(v) for v in inside}
        unused = tuple(n for n in self.program.assigned if id(self.names[n]) not in ids)
        return Built(self.program, root, self.names, tuple(self.assumed), unused, self.lines)

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
                self.assumed.append(name)
            self.names[name] = Value(float(self.given.get(name, DEFAULT)), label=name)
        return self.names[name]

    def _name(self, result: Any, name: str) -> Value:
        if not isinstance(result, Value):  # `a = 2` makes a leaf
            result = Value(float(self.given.get(name, result)), label=name)
        elif not result.label:
            result.label = name
        self.names[name] = result
        return result

    def _label_the_rest(self, root: Value, inside: list[Value]) -> None:
        """Label inner nodes v1, v2, ..., for tools to refer to; constants stay numbers."""
        taken = {*self.names}
        if not root.label and "out" not in taken:
            root.label = "out"
        count = 0
        for v in inside:
            if v.inputs and not v.label:
                count += 1
                while f"v{count}" in taken:
                    count += 1
                v.label = f"v{count}"


def _apply(name: str, args: list[Any]) -> Any:
    op = TABLE[_SIGNS.get(name, name)]
    if not any(isinstance(a, Value) for a in args):
        return float(op.on_numbers(args, dict(op.defaults)))
    if name == "^" and not isinstance(args[1], Value):  # a constant exponent is no input
        exponent = args[1]
        return args[0] ** (int(exponent) if exponent.is_integer() else exponent)
    return op(*args)
