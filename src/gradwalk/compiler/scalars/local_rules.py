"""The contribution of an op to each operand, read from the op table once per op and attributes.

It is always `gradient × factor`. Where the rule is that simple (1 for `add`, the other operand for
`mul`, the result for `exp`) the factor exists already, and only the product is computed. All other
rules are expressions of symbols, each computed by a kernel; the factor is then 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from gradwalk.ops import TABLE
from gradwalk.ops.core.check import symbolic_env
from gradwalk.ops.core.op import Op, Rule
from gradwalk.ops.core.symbol import Symbol

NOTHING = "nothing"  # no gradient, or zero
NUMBER = "number"  # gradient × a fixed number
OPERAND = "operand"  # gradient × an operand
RESULT = "result"  # gradient × the result
COMPUTED = "computed"  # an expression


@dataclass(frozen=True, eq=False)
class LocalFactor:
    """The factor of one edge."""

    kind: str
    number: float = 1.0
    operand: int = -1
    expression: Any = None  # of g, out and the inputs' names; None: only Python can compute it

    @cached_property
    def reads(self) -> list[str]:
        """The names an expression asks for: g, the inputs, out."""
        names: dict[str, None] = {}
        waiting = [self.expression]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Symbol):
                if part.op is None:
                    names[part.name] = None
                waiting += reversed(part.args)
        return list(names)


@dataclass(frozen=True, eq=False)
class Rules:
    """An op with its attributes, and the factor of each operand."""

    op: Op
    attrs: dict[str, Any]
    factors: tuple[LocalFactor, ...]


def rules_of(op: Op, attrs: dict[str, Any]) -> Rules:
    """The rules of an op with these attributes; equal attributes share one object."""
    return _rules_of(op, tuple((name, _Exact(value)) for name, value in attrs.items()))


class _Exact:
    """An attribute that compares by type and value: 1, 1.0 and True differ."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._key = (type(value), repr(value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Exact) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=1024)
def _rules_of(op: Op, exact: tuple[tuple[str, _Exact], ...]) -> Rules:
    attrs = {name: value.value for name, value in exact}
    factors = tuple(_factor(op, attrs, position) for position in range(len(op.inputs)))
    return Rules(op, attrs, factors)


def _factor(op: Op, attrs: dict[str, Any], position: int) -> LocalFactor:
    rule = op.rule(position)
    if rule is None:
        return LocalFactor(NOTHING)
    if rule.constant is not None:
        return _of_number(rule.constant)
    try:
        return _traced(op, attrs, rule)
    except Exception:  # a user's rule that is no formula: it still works on numbers
        return LocalFactor(COMPUTED)


def _of_number(number: float) -> LocalFactor:
    return LocalFactor(NUMBER, float(number)) if number != 0 else LocalFactor(NOTHING)


def _traced(op: Op, attrs: dict[str, Any], rule: Rule) -> LocalFactor:
    env = symbolic_env(op, ((),) * len(op.inputs), attrs)
    g = env["g"]
    local = rule.local(env, g)
    if not rule.partial:
        return LocalFactor(COMPUTED, expression=local)
    if not isinstance(local, Symbol):
        return _of_number(local)
    if local.op is None:
        if local.name == "out":
            return LocalFactor(RESULT)
        return LocalFactor(OPERAND, operand=op.inputs.index(local.name))
    return LocalFactor(COMPUTED, expression=g * local)


ADD = rules_of(TABLE["add"], {})
MUL = rules_of(TABLE["mul"], {})
