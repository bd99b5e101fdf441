"""Common wrong local derivatives, so that wrong numbers can be named."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradwalk.inspect.mistakes.evidence import Evidence


class WrongRule(NamedTuple):
    """A derivative that is often written in place of the right one."""

    argument: int  # of the op
    text: str  # as a completion of "yours is"
    # The first operand, the second (or the exponent), the output; numbers or arrays.
    rule: Callable[[Any, Any, Any], Any]


RULES: dict[str, tuple[WrongRule, ...]] = {
    "sub": (WrongRule(1, "1: the minus sign is missing", lambda x, y, out: 1.0),),
    "neg": (WrongRule(0, "1: the minus sign is missing", lambda x, y, out: 1.0),),
    "mul": (
        WrongRule(0, "a itself; it is the other input, b", lambda x, y, out: x),
        WrongRule(1, "b itself; it is the other input, a", lambda x, y, out: y),
        WrongRule(0, "1", lambda x, y, out: 1.0),
        WrongRule(1, "1", lambda x, y, out: 1.0),
    ),
    "div": (
        WrongRule(0, "1; it is 1/b", lambda x, y, out: 1.0),
        WrongRule(0, "b; it is 1/b", lambda x, y, out: y),
        WrongRule(1, "a/b²: the minus sign is missing", lambda x, y, out: x / y**2),
        WrongRule(1, "−a/b: the square is missing", lambda x, y, out: -x / y),
        WrongRule(1, "−1/b²: the factor a is missing", lambda x, y, out: -1 / y**2),
        WrongRule(1, "1/b², which is neither negative nor times a", lambda x, y, out: 1 / y**2),
        WrongRule(1, "1/b", lambda x, y, out: 1 / y),
        WrongRule(1, "a; it is −a/b²", lambda x, y, out: x),
    ),
    "power": (
        WrongRule(0, "aⁿ⁻¹: the factor n is missing", lambda x, y, out: x ** (y - 1)),
        WrongRule(0, "n·aⁿ: the exponent is not lowered by 1", lambda x, y, out: y * out),
        WrongRule(0, "n·a: it is n·aⁿ⁻¹", lambda x, y, out: y * x),
        WrongRule(0, "(n−1)·aⁿ⁻¹: the factor is n", lambda x, y, out: (y - 1) * x ** (y - 1)),
        WrongRule(0, "aⁿ, the output itself", lambda x, y, out: out),
    ),
    "exp": (
        WrongRule(0, "the input; it is the output, exp(a)", lambda x, y, out: x),
        WrongRule(0, "1; it is the output, exp(a)", lambda x, y, out: 1.0),
        WrongRule(0, "a·exp(a − 1), as for a power", lambda x, y, out: x * out / math.e),
    ),
    "tanh": (
        WrongRule(0, "1 − a²: it is 1 − out², the output squared", lambda x, y, out: 1 - x * x),
        WrongRule(0, "1 − out: the square is missing", lambda x, y, out: 1 - out),
        WrongRule(0, "1 + out²: it is 1 − out²", lambda x, y, out: 1 + out * out),
        WrongRule(0, "out²: it is 1 − out²", lambda x, y, out: out * out),
        WrongRule(0, "out·(1 − out), as for a sigmoid", lambda x, y, out: out * (1 - out)),
        WrongRule(0, "1", lambda x, y, out: 1.0),
    ),
    "relu": (
        WrongRule(0, "1 for a negative input too, where it is 0", lambda x, y, out: 1.0),
        WrongRule(0, "the output; it is 1 where the input is positive", lambda x, y, out: out),
        WrongRule(0, "the wrong way round: 1 where the input is negative", lambda x, y, out: x < 0),
    ),
}
CUT = "0: nothing arrives there, as if the result did not know its inputs"


def wrong_rule(e: Evidence) -> WrongRule | None:
    """Return the first wrong rule that gives the gradient, None if no rule does."""
    if e.output_shape or e.g is None or e.output is None or not e.operands:
        return None
    rules = [rule for rule in RULES.get(e.op, ()) if rule.argument == e.argument]
    rules.append(WrongRule(e.argument, CUT, lambda x, y, out: 0.0))
    return next((rule for rule in rules if fits(e, rule)), None)


def fits(e: Evidence, rule: WrongRule) -> bool:
    """Whether a wrong rule gives the gradient."""
    return e.is_given(e.g * np.asarray(rule.rule(e.operands[0], e.operands[-1], e.output)))
