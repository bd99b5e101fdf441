"""Batching rules: how an op of one sample is computed for all samples at once.

A rule takes the op, its operands (`Lanes` or plain numbers, one of them batched at least), its
attributes and the number of samples. It returns the result, or each of several, with the samples
along the first axis; `NotImplemented` asks for the definition of the op in other ops instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwalk.batching.rules import index, linear, network, reduce, shape
from gradwalk.batching.rules.elementwise import elementwise
from gradwalk.ops.core.op import Op
from gradwalk.ops.elementwise.integers import frexp_op

Rule = Callable[..., Any]

RULES: dict[Op, Rule] = {
    **reduce.RULES,
    **shape.RULES,
    **index.RULES,
    **linear.RULES,
    **network.RULES,
    frexp_op: elementwise,
}


def rule_of(op: Op) -> Rule | None:
    """The batching rule of an op: its own, or that of all elementwise ops."""
    rule = RULES.get(op)
    return elementwise if rule is None and op.elementwise else rule
