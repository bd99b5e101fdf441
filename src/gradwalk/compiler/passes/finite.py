"""Steps that change nothing if they would write NaN or infinity: `compile(step, check="finite")`.

On a CPU the program itself chooses between old and new values, and its last result tells which. A
backend for devices does that by itself (backends/xla/backend.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gradwalk.compiler.ir.program import Builder, Program
from gradwalk.ops.elementwise.choice import bitwise_and, where
from gradwalk.ops.elementwise.remainders import isfinite
from gradwalk.ops.reduce.reduction import all_op


def gate_updates(program: Program) -> Program:
    """Update memory and runtime scalars only if everything is finite that must be; whether it is
    becomes the last result."""
    build = Builder()
    build.calls = list(program.calls)
    ok: Any = None
    for term in program.must_be_finite:
        finite = build.apply(isfinite, [term])
        axes = tuple(range(term.ndim))
        finite = build.apply(all_op, [finite], {"axis": axes, "keepdim": False}) if axes else finite
        ok = finite if ok is None else build.apply(bitwise_and, [ok, finite])
    if ok is None:
        return program
    updates = [(old, build.apply(where, [ok, new, old])) for old, new in program.updates]
    return replace(program, calls=build.calls, results=[*program.results, ok], updates=updates)
