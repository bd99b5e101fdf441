"""Generate docs/compile/native-ops.md: `python -m tools.native_ops`.

We trace and plan every op of the table on the sample calls of the tests, in several dtypes; the
page shows what the planner did. A test compares the page with the output of this script.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.compiler.backends.llvm.emit.functions import ERRORS
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.kernels.select import kernel_of
from gradwalk.compiler.backends.llvm.target import host
from gradwalk.compiler.introspect.explain import kind_of_entry
from gradwalk.compiler.ir.program import Program
from gradwalk.compiler.passes.expand.composites import CLOSED
from gradwalk.compiler.pipeline import lower
from gradwalk.compiler.tracing.errors import TraceError
from gradwalk.compiler.tracing.trace_function import trace
from gradwalk.ops import TABLE
from tests.ops.samples.table import Sample, all_samples

PAGE = Path(__file__).parents[1] / "docs" / "compile" / "native-ops.md"
DTYPES = ("float32", "float64", "int64", "bool")
MOST_SAMPLES = 5  # of each op
JOINS = ("concatenate", "pad", "put", "setitem", "write_view", "diagonal_put")
HEAD = """\
# Native ops

This page lists the ops that a compiled function runs as native code. `python -m tools.native_ops`
generates it from the compiler itself: it traces and plans every op on the samples of its tests.

*Kernel* names the generator that emits the op: `map` (elementwise, fused with its neighbours),
`rows` (a reduction along rows, fused with its neighbours), `columns` (a reduction that keeps the
last axis), `product` (a matrix product, with elementwise work on its result), `convolve`, `pool`,
`pick`, `scatter`, `scan` (running sums), `sort`, `join` (pieces written into one array), `view` (no
kernel: other strides on the same memory), or `NumPy`. An op with a definition in other ops
(*opened*) has the kernels of those ops. *Dtypes* are those in which all its samples were native.
*ulp* is the largest error found, in float32 and in float64, in units in the last place, for
functions beyond arithmetic (`compiler/backends/llvm/emit/functions/`); all others are rounded as in
NumPy. *Gradient* tells whether the derivative is native, or which of its ops are not; “–” means
that there is no derivative.

Any other op runs in NumPy between native kernels, on the same memory and with the same results;
`gradwalk.compile` warns once, with the lines. “NumPy (...)” names the ops inside it that have no
kernel.
"""


@dataclass
class Found:
    """The results for the samples of one op."""

    kinds: dict[str, None] = field(default_factory=dict)  # of kernels, in order of appearance
    by_numpy: dict[str, None] = field(default_factory=dict)  # ops without a kernel
    dtypes: dict[str, bool] = field(default_factory=dict)  # whether all samples were native
    gradient_by_numpy: dict[str, None] = field(default_factory=dict)
    has_gradient: bool = False

    def forward(self, name: str, program: Program, dtype: str) -> None:
        """Note the kernels of a program."""
        kinds, by_numpy = kernels(program, name)
        if not self.dtypes or dtype == next(iter(self.dtypes)):  # the others are in that column
            self.kinds.update(dict.fromkeys(kinds))
            self.by_numpy.update(dict.fromkeys(by_numpy))
        self.dtypes[dtype] = self.dtypes.get(dtype, True) and not by_numpy


def kernels(program: Program, name: str) -> tuple[list[str], list[str]]:
    """The kinds of kernels of an op, or of the ops it expands into; and the ops that NumPy runs."""
    program, found = lower(program)
    assert found is not None
    kinds: dict[str, list[bool]] = {}  # whether the op itself is in kernels of this kind
    by_numpy: list[str] = []
    machine = host()
    for entry in found.entries:
        ops = [call.op.name for call in entry.calls]
        try:
            kernel_of(entry, machine, 1)
        except NoKernel:
            by_numpy += ops
        else:
            if ops:
                kinds.setdefault(kind_of_entry(entry), []).append(name in ops)
    if any(call.op.name in JOINS for call in program.calls) and any(
        not entry.calls for entry in found.entries
    ):
        kinds["join"] = [name in JOINS]
    if any(call.op.name == name for call in program.calls):
        kinds = {kind: own for kind, own in kinds.items() if any(own)}
    return list(kinds) if kinds or by_numpy else ["view"], by_numpy


def found_of(name: str, samples: list[Sample]) -> Found:
    """Plan the samples of one op."""
    found = Found()
    for sample in samples:
        drawn = sample.arrays(np.float64)
        takes_floats = any(a.dtype.kind == "f" for a in drawn)
        for dtype in DTYPES if takes_floats else [drawn[0].dtype.name]:
            arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in drawn]
            if not works(sample, arrays):
                continue
            tensors = tuple(gw.tensor(a) for a in arrays)
            try:
                program = trace(partial(sample.ours, gw), tensors).program
                found.forward(name, program, dtype)
            except (TraceError, TypeError):  # only eager code accepts this dtype
                found.dtypes.setdefault(dtype, False)
        gradient(name, sample, found)
    return found


def works(sample: Sample, arrays: list[Any]) -> bool:
    """Whether eager code computes it: not every op accepts every dtype."""
    try:
        sample.ours(gw, *(gw.tensor(a) for a in arrays))
    except Exception:
        return False
    return True


def gradient(name: str, sample: Sample, found: Found) -> None:
    """Note which ops of the derivative of a sample run in NumPy."""
    arrays = sample.arrays(np.float32)
    floats = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]

    def slopes(*xs: Any) -> Any:
        xs = tuple(x.detach().requires_grad_(i in floats) for i, x in enumerate(xs))
        outputs = sample.ours(gw, *xs)
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        wanted = [o for o in outputs if isinstance(o, gw.Tensor) and o.requires_grad]
        total = sum((o * o).sum() for o in wanted)
        return gw.autograd.grad(total, [xs[i] for i in floats], allow_unused=True)

    try:
        program = trace(slopes, tuple(gw.tensor(a) for a in arrays)).program
    except Exception:
        return  # no derivative, or none for this sample
    found.has_gradient = True
    found.gradient_by_numpy.update(dict.fromkeys(kernels(program, name)[1]))


def rows() -> list[tuple[str, ...]]:
    """A row for every op of the table."""
    samples: dict[str, list[Sample]] = {}
    for sample in all_samples():
        chosen = samples.setdefault(sample.op, [])
        if len(chosen) < MOST_SAMPLES and all(a.size for a in sample.arrays()):
            chosen.append(sample)
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, op in TABLE.items():
            found = found_of(name, samples.get(name, []))
            opened = "opened: " if op.expand is not None and name not in CLOSED else ""
            made.append((f"`{name}`", *cells(opened, found, name)))
    return made


def cells(opened: str, found: Found, name: str) -> tuple[str, ...]:
    """Kernel, dtypes, ulp and gradient of one op."""
    by_numpy = [f"`{n}`" if n != name else "" for n in found.by_numpy]
    kinds = list(found.kinds)
    if by_numpy:
        inside = ", ".join(filter(None, by_numpy))
        kinds.append(f"NumPy ({inside})" if inside else "NumPy")
    kernel = opened + ", ".join(kinds) if kinds else "not traced"
    dtypes = ", ".join(d for d, native in found.dtypes.items() if native) or "–"
    ulp = "{:g}, {:g}".format(*ERRORS[name]) if name in ERRORS else ""
    others = ", ".join(f"`{n}`" for n in found.gradient_by_numpy if n not in found.by_numpy)
    own = any(n in found.by_numpy for n in found.gradient_by_numpy)
    slope = f"NumPy ({others})" if others else "NumPy" if own else "native"
    return kernel, dtypes, ulp, slope if found.has_gradient else "–"


DRAWS = {
    "rand": lambda: gw.rand(5),
    "randn": lambda: gw.randn(5),
    "bernoulli, dropout": lambda: gw.nn.functional.dropout(gw.ones(5), 0.5),
    "randint": lambda: gw.randint(0, 9, (5,)),
    "randperm": lambda: gw.randperm(5),
    "exponential_": lambda: gw.empty(5).exponential_(),
}


def drawn(name: str) -> str:
    """The row of one kind of random numbers."""
    kinds, by_numpy = kernels(trace(DRAWS[name], ()).program, "")
    names = ", ".join(f"`{name}`" for name in name.split(", "))
    return f"| {names} | {'NumPy' if by_numpy else ', '.join(kinds)} |"


def page() -> str:
    """The whole page."""
    table = rows()
    native = sum("NumPy" not in row[1] and "not traced" not in row[1] for row in table)
    lines = [HEAD, f"{native} of {len(table)} ops are native in every sample.", ""]
    lines += ["| op | kernel | dtypes | ulp | gradient |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in table]
    lines += ["", "Random numbers equal those of eager code with the same seed:", ""]
    lines += ["| draw | kernel |", "|---|---|", *map(drawn, DRAWS)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
