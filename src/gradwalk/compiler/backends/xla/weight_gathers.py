"""WeightGathers: parameters in parts are put together where they are used.

A parameter that is divided over an axis which also divides the batch (fully-sharded parallelism)
cannot be multiplied with it as it is: the weights must be gathered, or the batch. The partitioner
takes either; the batch of all devices is the wrong one to gather as soon as it is large. So the
operand is asked for whole along that axis. What is elementwise in the parameter, its update, needs
no other part.
"""

from __future__ import annotations

from typing import Any

from jax.lax import with_sharding_constraint

from gradwalk.compiler.ir.program import Call, Term
from gradwalk.ops.shape.reshaping import cast


class WeightGathers:
    """The shardings that parameters have where they are used, by their terms."""

    def __init__(self, wanted: dict[Term, Any]) -> None:
        self.wanted = wanted

    def operands(self, call: Call, args: list[Any]) -> list[Any]:
        """The operands of a call, with parameters put together."""
        for i, term in enumerate(call.args):
            if not isinstance(term, Term) or term not in self.wanted:
                continue
            if call.op is cast:  # fewer bytes are gathered after it
                self.wanted[call.outputs[0]] = self.wanted[term]
            elif not call.op.elementwise or call.outputs[0].shape != term.shape:
                args[i] = with_sharding_constraint(args[i], self.wanted[term])
        return args
