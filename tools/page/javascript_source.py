"""Translate functions of numbers from Python to JavaScript: the forms that the op table uses.

The source of a `number` function (or of a `forward`, read for one number) is parsed; operators and
statements mean the same in both languages, and `SPELLINGS` translates every function that it calls.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import math
import operator
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op
from gradwalk.ops.elementwise import error_function, special


class Unwritable(Exception):
    """Python code without a translation to JavaScript."""


# One spelling per primitive. `special` is web/src/engine/special.ts.
SPELLINGS: dict[str, tuple[Any, ...]] = {
    "{0} + {1}": (operator.add, np.add),
    "{0} - {1}": (operator.sub, np.subtract),
    "{0} * {1}": (operator.mul, np.multiply),
    "{0} / {1}": (operator.truediv, np.true_divide),
    "1 / {0}": (np.reciprocal,),
    "-{0}": (operator.neg, np.negative),
    "special.power({0}, {1})": (operator.pow, np.power),
    "Math.abs({0})": (operator.abs, builtins.abs, math.fabs, np.abs),
    "{0} * {0}": (np.square,),
    "special.power(2, {0})": (math.exp2, np.exp2),
    "Math.atan2({0}, {1})": (math.atan2, np.arctan2),
    "Math.hypot({0}, {1})": (math.hypot, np.hypot),
    "Math.floor({0})": (np.floor,),
    "Math.ceil({0})": (np.ceil,),
    "Math.trunc({0})": (np.trunc,),
    # Python's own return integers, which have no −0.
    "Math.floor({0}) + 0": (math.floor,),
    "Math.ceil({0}) + 0": (math.ceil,),
    "Math.trunc({0}) + 0": (math.trunc,),
    "special.rounded({0}, {1})": (builtins.round, np.round),
    "special.erf({0})": (math.erf, error_function.erf_array),
    "special.erfc({0})": (math.erfc, error_function.erfc_array),
    "special.logAddExp({0}, {1})": (np.logaddexp,),
    "special.logAddExp2({0}, {1})": (np.logaddexp2,),
    "special.floorDivide({0}, {1})": (np.floor_divide,),
    "special.remainder({0}, {1})": (np.remainder,),
    "{0} % {1}": (np.fmod,),
    "special.copySign({0}, {1})": (np.copysign, math.copysign),
    "special.maximum({0}, {1})": (np.maximum,),
    "special.minimum({0}, {1})": (np.minimum,),
    "Math.max({0}, {1})": (builtins.max,),
    "Math.min({0}, {1})": (builtins.min,),
    "special.minimum(special.maximum({0}, {1}), {2})": (np.clip,),
    "({0} ? {1} : {2})": (np.where,),
    "+({0} === {1})": (operator.eq, np.equal),
    "+({0} !== {1})": (operator.ne, np.not_equal),
    "+({0} < {1})": (operator.lt, np.less),
    "+({0} <= {1})": (operator.le, np.less_equal),
    "+({0} > {1})": (operator.gt, np.greater),
    "+({0} >= {1})": (operator.ge, np.greater_equal),
    "+Number.isNaN({0})": (np.isnan,),
    "+Number.isFinite({0})": (np.isfinite,),
    "+(Math.abs({0}) === Infinity)": (np.isinf,),
    "+({0})": (builtins.bool,),
    "special.finite({0}, {1}, {2}, {3})": (np.nan_to_num,),
    "{0}": (builtins.float,),
    "0": (np.zeros_like,),
}
# Python and JavaScript have the same names for these; NumPy says arcsin for asin.
_ALIKE = "sqrt exp expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh"
_ALIKE += " asinh acosh atanh"
SPELLINGS |= {
    f"Math.{name}({{0}})": (getattr(math, name), getattr(np, re.sub("^a", "arc", name)))
    for name in _ALIKE.split()
}
_BY_FUNCTION = {id(f): text for text, functions in SPELLINGS.items() for f in functions}
# Functions of SciPy, which the op table calls by name.
_BY_OP = {
    special.erfinv.name: "special.inverseErf(x)",
    special.lgamma.name: "special.logGamma(x)",
    special.digamma.name: "special.digamma(x)",
    special.polygamma_op.name: "special.polygamma(n, x)",
}

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.BitAnd: "&&", ast.BitOr: "||",
    ast.Eq: "===", ast.NotEq: "!==", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.And: "&&", ast.Or: "||", ast.Is: "==", ast.IsNot: "!=",
}  # fmt: skip
_RESERVED = {"lambda", "function", "var", "default", "in", "new", "this", "with", "switch"}


def name_in_javascript(name: str) -> str:
    """A valid JavaScript name."""
    return f"{name}_" if name in _RESERVED else name


def literal(value: Any) -> str:
    """An exact JavaScript literal.

    >>> literal(2.0), literal(0.1), literal(float("inf")), literal(None)
    ('2', '0.1', 'Infinity', 'null')
    """
    if value is None:
        return "null"
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def function_text(function: Callable[..., Any], names: Sequence[str]) -> str:
    """The part right of `=>`: an expression, or a block with a return.

    >>> from gradwalk.ops.elementwise.activation import leaky_relu
    >>> function_text(leaky_relu.number, ["x", "negative_slope"])
    'x > 0 ? x : x * negative_slope'
    """
    op = _op_behind(function)
    if op is not None and op.name in _BY_OP:
        return _BY_OP[op.name]
    spelled = _BY_FUNCTION.get(id(function))
    if spelled is not None:
        return spelled.format(*names)
    tree = _tree_of(function)
    own = [a.arg for a in (*tree.args.args, *tree.args.kwonlyargs)]
    if own != list(names):
        raise Unwritable(f"its parameters are {own}, not {list(names)}")
    seen = inspect.getclosurevars(function)
    writer = _JavaScript({**seen.globals, **seen.nonlocals}, set(own))
    if isinstance(tree, ast.Lambda):
        return writer.number(tree.body)
    return writer.block(tree.body)


class _JavaScript:
    def __init__(self, seen: dict[str, Any], own: set[str]) -> None:
        self.seen = seen
        self.own = own

    # -- statements --------------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt]) -> str:
        written = []
        for statement in statements:
            text = self.statement(statement)
            written.append(text)
            if text.startswith(("return", "{")):
                break  # the rest is for arrays of other types
        return "{ " + " ".join(filter(None, written)) + " }"

    def statement(self, node: ast.stmt) -> str:
        match node:
            case ast.Return(value=ast.expr() as value):
                return f"return {self.number(value)};"
            case ast.Expr(value=ast.Constant(value=str())):
                return ""
            case ast.Import(names=[ast.alias(name=name)]):
                self.seen[name] = importlib.import_module(name)
                return ""
            case ast.If(test=test) if "dtype" in ast.unparse(test):
                return ""  # about arrays of other types: numbers are floats
            case ast.If(test=test, body=body) if ast.unparse(test).startswith("is_floating("):
                return self.block(body)
            case ast.If(test=test, body=body, orelse=[]):
                return f"if ({self.truth(test)}) {self.block(body)}"
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                text = f"{name_in_javascript(name)} = {self.number(value)};"
                if name in self.own:
                    return text
                self.own.add(name)
                return f"const {text}"
        raise Unwritable(ast.unparse(node))

    # -- expressions -------------------------------------------------------------------------------

    def number(self, node: ast.expr) -> str:
        """A number; a condition as 1 or 0."""
        match node:
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return f"+({self.text(node)})"
        return self.text(node)

    def truth(self, node: ast.expr) -> str:
        """A condition. NaN is true in Python and false in JavaScript."""
        match node:
            case ast.Call(func=ast.Attribute(attr="isnan" | "equal")):
                pass  # 1 or 0, never NaN
            case ast.Name() | ast.Call():
                return f"{self.text(node)} !== 0"
        return self.text(node)

    def text(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=value) if value is None or isinstance(value, (int, float)):
                return literal(value)
            case ast.Name(id=name) if name in self.own:
                return name_in_javascript(name)
            case ast.Name() | ast.Attribute():
                value = self.value_of(node)
                if isinstance(value, (int, float)):
                    return f"({literal(value)})" if value < 0 else literal(value)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return f"special.power({self.number(left)}, {self.number(right)})"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                sign = OPERATORS[type(op)]
                one, other = (
                    self.bracketed(side, truth=sign in ("&&", "||")) for side in (left, right)
                )
                return f"{one} {sign} {other}"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"-{self.bracketed(operand)}"
            case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
                return f"!({self.truth(operand)})"
            case ast.Compare(left=left, ops=ops, comparators=rights):
                sides = [left, *rights]
                parts = [
                    f"{self.bracketed(one)} {OPERATORS[type(op)]} {self.bracketed(other)}"
                    for one, op, other in zip(sides, ops, rights)
                ]
                return " && ".join(parts)
            case ast.BoolOp(op=op, values=values):
                sign = f" {OPERATORS[type(op)]} "
                return sign.join(f"({self.truth(v)})" for v in values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return f"{self.truth(test)} ? {self.number(body)} : {self.number(orelse)}"
            case ast.Call(func=function, args=args, keywords=keywords):
                return self.call(function, [*args, *(k.value for k in keywords)])
        raise Unwritable(ast.unparse(node))

    def bracketed(self, node: ast.expr, truth: bool = False) -> str:
        text = self.text(node)
        if isinstance(node, ast.Compare | ast.BoolOp):
            return f"({text})" if truth else f"+({text})"
        simple = isinstance(node, ast.Name | ast.Constant | ast.Attribute) or (
            isinstance(node, ast.Call) and text[-1] == ")" and text[0].isalpha()
        )
        return text if simple else f"({text})"

    def call(self, function: ast.expr, args: list[ast.expr]) -> str:
        match function:
            case ast.Attribute(attr="type", value=ast.Attribute(attr="dtype")):
                return self.text(args[0])  # x.dtype.type(value): a number as it is
            case ast.Attribute(attr="astype"):
                return self.bracketed(function.value, truth=False)
        called = self.value_of(function)
        if called is builtins.float and len(args) == 1:
            return self.bracketed(args[0])
        op = _op_behind(called)
        listed = [self.number(a) for a in args]
        if op is not None and id(called) not in _BY_FUNCTION:
            listed += [literal(op.defaults[a]) for a in op.attributes[len(args) - len(op.inputs) :]]
            return f"{name_in_javascript(op.name)}({', '.join(listed)})"
        spelled = _BY_FUNCTION.get(id(called))
        if spelled is None:
            return self.inlined(called, listed)
        if called in (np.where, builtins.bool):
            listed[0] = self.truth(args[0])
        if called is np.round and len(args) == 1:
            listed.append("0")
        infix = spelled[0] in "{1-"
        return (
            spelled.format(*(self.bracketed(a) for a in args)) if infix else spelled.format(*listed)
        )

    def inlined(self, called: Any, listed: list[str]) -> str:
        """Inline a helper function of the op table."""
        tree = _tree_of(called)
        names = [a.arg for a in (*tree.args.args, *tree.args.kwonlyargs)]
        defaults = inspect.signature(called).parameters
        listed = listed + [literal(defaults[name].default) for name in names[len(listed) :]]
        typed = ", ".join(f"{name}: number" for name in names)
        return f"(({typed}): number => {function_text(called, names)})({', '.join(listed)})"

    def value_of(self, node: ast.expr) -> Any:
        """The value of a name in the scope of the function."""
        match node:
            case ast.Name(id=name) if name in self.seen:
                return self.seen[name]
            case ast.Name(id=name) if hasattr(builtins, name):
                return getattr(builtins, name)
            case ast.Attribute(value=value, attr=attr):
                return getattr(self.value_of(value), attr)
        raise Unwritable(ast.unparse(node))


def _op_behind(function: Any) -> Op | None:
    """The op that a function defines."""
    if isinstance(function, Op):
        return function
    return next((op for op in TABLE.values() if function in (op.number, op.forward)), None)


@functools.cache
def _module(file: str) -> ast.Module:
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8"))
    except OSError:
        raise Unwritable(f"{file} cannot be read") from None


def _tree_of(function: Any) -> ast.Lambda | ast.FunctionDef:
    """The syntax tree of a function; among several lambdas in a line, the one with its code."""
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:
        raise Unwritable(f"{function!r} has no source and no spelling")
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    best: tuple[int, ast.Lambda] | None = None
    for node in ast.walk(_module(code.co_filename)):
        if isinstance(node, ast.FunctionDef):
            if node.name == code.co_name and node.lineno == code.co_firstlineno:
                return node
        elif isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            body = node.body
            end = body.end_lineno or 0, body.end_col_offset or 0
            inside = sum((body.lineno, body.col_offset) <= place < end for place in places)
            if best is None or inside > best[0]:
                best = inside, node
    if best is None:
        raise Unwritable(f"the source of {function!r} was not found")
    return best[1]
