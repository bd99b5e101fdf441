"""The op table for the page: values and gradients as TypeScript, formulas as data.

Nothing here defines a function or a derivative. A value is the op's own definition for numbers,
translated from its source to JavaScript (`javascript_source.py`); a gradient is the op's own rule,
run on symbols.
"""

from __future__ import annotations

import math
import re
from typing import Any

from gradwalk.ops import TABLE
from gradwalk.ops.core.check import symbolic_env
from gradwalk.ops.core.op import Op, OpError
from gradwalk.ops.core.symbol import Symbol
from gradwalk.printers.formulas.formula import INFIX, SymbolicAttribute
from gradwalk.printers.graphs.view import GATES
from tools.page.javascript_source import (
    Unwritable,
    function_text,
    literal,
    name_in_javascript,
)

NULLABLE = "number | null | undefined"  # of attributes like the bounds of clip
MOST_OPS = 60  # of a rule: a longer one is computed but has no formula
# JavaScript operators with the same meaning for numbers, by op; other ops are calls.
_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "equal": "===", "not_equal": "!==",
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "bitwise_and": "&&",
    "bitwise_or": "||",
}  # fmt: skip


def scalar_ops() -> dict[str, Op]:
    """The ops on plain numbers that can be written in JavaScript."""
    ops = {}
    for op in TABLE.values():
        if op.elementwise and op.name not in _OF_BITS:
            try:
                value_function(op)
            except Unwritable:
                continue
            ops[op.name] = op
    return ops


_OF_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")  # no ops on floats


def value_function(op: Op) -> str:
    """The op on numbers, as a function of its inputs and then its attributes.

    >>> from gradwalk.ops.elementwise.trigonometry import tanh
    >>> value_function(tanh)
    'const tanh = Math.tanh;'
    """
    source = op.number if op.number is not None else op.forward
    body = function_text(source, [*op.inputs, *op.attributes])
    called, _, rest = body.partition("(")
    if re.fullmatch(r"[\w.]+", called) and rest == ", ".join([*op.inputs, *op.attributes]) + ")":
        return f"const {name_in_javascript(op.name)} = {called};"
    used = set(re.findall(r"\w+", body))
    typed = [
        f"{name_in_javascript(name) if name in used else '_' + name}: "
        f"{NULLABLE if may_be_none(op, name) else 'number'}"
        for name in (*op.inputs, *op.attributes)
    ]
    return f"const {name_in_javascript(op.name)} = ({', '.join(typed)}): number => {body};"


def may_be_none(op: Op, attribute: str) -> bool:
    """Whether an attribute may be left out."""
    return attribute in op.defaults and op.defaults[attribute] is None


# -- contributions to inputs -----------------------------------------------------------------------


def pull_function(op: Op, position: int) -> str:
    """The contribution to one input: `(g, out, x, y, ...attributes) => ...`.

    >>> from gradwalk.ops.elementwise.arithmetic import mul
    >>> pull_function(mul, 0)
    '(g, _out, _x, y) => g * y'
    """
    rule = op.rule(position)
    if rule is None:
        return "null"
    if rule.constant is not None:
        scaled: dict[float, str] = {0: "0", 1: "g", -1: "-g"}
        body = scaled.get(rule.constant, f"g * {literal(rule.constant)}")
    else:
        body = _by_case(op, position, code, _choice_code, "g")
    used = set(rule.names) | ({"g"} if "g" in body else set())
    names = ["g", "out", *op.inputs, *op.attributes]
    while names and names[-1] not in used:
        names.pop()
    spelled = [name_in_javascript(n) if n in used else f"_{n}" for n in names]
    return f"({', '.join(spelled)}) => {body}"


def slope_tree(op: Op, position: int) -> Any:
    """The local derivative as a tree: `["sub", 1, ["square", "out"]]`; None if there is none.

    A choice by an attribute is `["?", attribute, value, then, else]`.
    """
    if op.rule(position) is None:
        return None
    try:
        return _by_case(op, position, tree, _choice_tree, 1)
    except TooLong:
        return None


class TooLong(Exception):
    """A formula too long to read."""


def _by_case(op: Op, position: int, write: Any, choose: Any, g: Any, fixed: Any = None) -> Any:
    """A rule written out, with a case for every attribute value that it distinguishes."""
    fixed = fixed or {}
    rule = op.rule(position)
    assert rule is not None
    for name in op.attributes:
        if may_be_none(op, name) and name not in fixed and name in rule.names:
            without, given = (
                _by_case(op, position, write, choose, g, fixed | {name: value})
                for value in (None, SymbolicAttribute(name))
            )
            return choose(name, None, without, given)
    attrs = {name: fixed.get(name, SymbolicAttribute(name)) for name in op.attributes}
    expression = _run(op, position, attrs, g)
    if not any(isinstance(a, SymbolicAttribute) and a.compared for a in attrs.values()):
        # Plain symbols keep their side of a comparison.
        plain = {n: Symbol(n) if isinstance(a, SymbolicAttribute) else a for n, a in attrs.items()}
        expression = _run(op, position, plain, g)
    written = write(expression)
    for name, attribute in attrs.items():
        for number in reversed(
            attribute.compared if isinstance(attribute, SymbolicAttribute) else ()
        ):
            special = write(_run(op, position, attrs | {name: number}, g))
            written = choose(name, number, special, written)
    return written


def _choice_code(name: str, value: float | None, then: str, otherwise: str) -> str:
    test = f"{name} == null" if value is None else f"{name} === {literal(value)}"
    return f"{test} ? {then} : {otherwise}"


def _choice_tree(name: str, value: float | None, then: Any, otherwise: Any) -> list[Any]:
    return ["?", name, value, then, otherwise]


def _run(op: Op, position: int, attrs: dict[str, Any], g: Any) -> Any:
    rule = op.rule(position)
    assert rule is not None
    env = symbolic_env(op, ((),) * len(op.inputs), attrs)
    if g == 1:
        return rule.local(env, 1)
    upstream = Symbol("g")
    if rule.partial:
        return upstream * rule.local(env, upstream)
    return rule.local(env, upstream)


# -- expressions of symbols ------------------------------------------------------------------------


def code(expression: Any) -> str:
    """An expression of symbols as JavaScript; shared parts are computed once, in a block.

    >>> code(1 - Symbol("out") * Symbol("out"))
    '1 - out * out'
    """
    names: dict[int, str] = {}  # of shared operations, by `id`
    lines: list[str] = []
    for shared in _shared(expression):
        lines.append(f"const t{len(lines)} = {_code(shared, names)[0]};")
        names[id(shared)] = f"t{len(names)}"
    text = _code(expression, names)[0]
    return f"{{ {' '.join(lines)} return {text}; }}" if lines else text


def _shared(expression: Any) -> list[Symbol]:
    """The operations that occur more than once in an expression."""
    seen: dict[int, Symbol] = {}
    shared: dict[int, Symbol] = {}

    def look(part: Any) -> None:
        if isinstance(part, Symbol) and part.op is not None:
            if id(part) in seen:
                shared.setdefault(id(part), part)
                return
            seen[id(part)] = part
            for argument in (*part.args, *part.attrs.values()):
                look(argument)

    look(expression)
    return list(shared.values())


def _code(expression: Any, names: dict[int, str]) -> tuple[str, int]:
    if id(expression) in names:
        return names[id(expression)], 9
    if not isinstance(expression, Symbol):
        text = literal(expression)
        return text, 0 if text.startswith("-") else 9
    op = expression.op
    if op is None:
        return name_in_javascript(expression.name), 9

    def inside(part: Any, binding: int) -> str:
        text, tightness = _code(part, names)
        return f"({text})" if tightness < binding else text

    args = expression.args
    if op.name == "neg":
        return f"-{inside(args[0], 9)}", 4
    if op.name == "where":
        condition, chosen, other = (inside(a, 1) for a in args)
        is_name = isinstance(args[0], Symbol) and (args[0].op is None or id(args[0]) in names)
        if is_name and args[0].dtype.kind != "b":
            condition = f"{condition} !== 0"  # NaN is true in Python and false in JavaScript
        return f"{condition} ? {chosen} : {other}", 0
    if op.name in _SIGNS:
        binding = INFIX[op.name] + 1
        left, right = inside(args[0], binding), inside(args[1], binding + 1)
        return f"{left} {_SIGNS[op.name]} {right}", binding
    listed = [_code(a, names)[0] for a in (*args, *(expression.attrs[n] for n in op.attributes))]
    return f"{name_in_javascript(op.name)}({', '.join(listed)})", 9


def tree(expression: Any) -> Any:
    """An expression of symbols as data: a name, a number, or `[op, operand, ...]`.

    Attributes come last, as `{name: [value, text]}`.
    """
    if _size(expression) > MOST_OPS:
        raise TooLong
    return _tree(expression)


def _size(expression: Any) -> int:
    if not isinstance(expression, Symbol):
        return 0
    return 1 + sum(_size(a) for a in expression.args)


def _tree(expression: Any) -> Any:
    if not isinstance(expression, Symbol):
        number = float(expression)
        return int(number) if number.is_integer() else number if math.isfinite(number) else [
            "number", str(number)
        ]  # fmt: skip
    op, args = expression.op, expression.args
    if op is None:
        return expression.name
    if op.name == "mul" and args[0] is args[1]:
        return ["square", _tree(args[0])]  # printed alike; a tree has no object identity
    attrs = {
        name: [_tree(value), str(value)] if value is not None else [None, "None"]
        for name, value in expression.attrs.items()
    }
    return [op.name, *map(_tree, args), *([attrs] if attrs else [])]


# -- the whole table -------------------------------------------------------------------------------


def op_facts(op: Op) -> dict[str, Any]:
    """The facts about an op that the page needs besides its functions."""
    facts: dict[str, Any] = {
        "inputs": op.inputs,
        "attributes": {name: op.defaults.get(name) for name in op.attributes},
        "slopes": [slope_tree(op, position) for position in range(len(op.inputs))],
    }
    if op.symbol is not None:
        facts["symbol"] = op.symbol
    if op.name in GATES:
        facts["gate"] = GATES[op.name]
    return facts


def op_functions() -> str:
    """The module web/src/generated/ops.ts: each op's value, then its contribution to each input."""
    functions, rows = [], []
    for name, op in scalar_ops().items():
        try:
            functions.append(value_function(op))
            pulls = [pull_function(op, position) for position in range(len(op.inputs))]
        except (OpError, Unwritable) as error:
            raise OpError(f"op '{name}' cannot be written in JavaScript: {error}") from error
        rows.append(f"  {name}: [{', '.join([name_in_javascript(name), *pulls])}],")
    lines = [
        "// Written by `python -m tools.page.tables` from gradwalk's op table.",
        'import * as special from "../engine/special";',
        'import type { OpFunctions } from "../engine/ops";',
        "",
        *functions,
        "",
        "export const FUNCTIONS: Record<string, OpFunctions> = {",
        *rows,
        "};",
    ]
    return "\n".join(lines) + "\n"
