"""The error for a step that changed nothing because it would have written NaN or infinity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.ir.listing import line_of
from gradwalk.compiler.ir.program import Call, Program, Term, run, source_values


def not_finite(
    program: Program, arguments: Sequence[Any], memories: Sequence[Any], scalars: Sequence[Any]
) -> FloatingPointError:
    """The error for a call that changed nothing: NumPy runs it again, op by op."""
    values = source_values(program, arguments, memories, scalars)
    with np.errstate(all="ignore"):
        for call in program.calls:
            operands = [values[a] if isinstance(a, Term) else a for a in call.args]
            outputs = run(call, operands)
            if all(map(_is_finite, operands)) and not all(map(_is_finite, outputs)):
                return complaint(call)
            values.update(zip(call.outputs, outputs, strict=True))
    return complaint(None)


def complaint(call: Call | None, name: str = "") -> FloatingPointError:
    """The error for the call that made the first number that is not finite, or for none; `name` is
    the op's, if not its own."""
    if call is None:
        return FloatingPointError(
            "an operand of the step has NaN or infinity; nothing was changed.\n"
            "Fix: look at the parameters and the arguments."
        )
    line = line_of(call)
    return FloatingPointError(
        f"{name or call.op.name} made NaN or infinity of finite numbers; nothing was changed"
        + (f"\n  {line}" if line else "")
        + "\nFix: gradwalk.inspect.find_nan on the step itself says more; a smaller learning rate "
        "or clipped gradients may help."
    )


def _is_finite(operand: Any) -> bool:
    array = np.asarray(operand)
    return array.dtype.kind in "biu" or bool(np.isfinite(array).all())
