"""The op table: every derivative in the library, once.

Each module defines the ops of one family and the functions made of them. `TABLE` lists all ops by
name; tests, printers and backends walk it.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from gradwalk.ops.core.op import Op

# Every file that defines ops or functions made of them, in the order of the table.
FAMILIES = [
    import_module(f"gradwalk.ops.{name}")
    for name in (
        "elementwise.arithmetic",
        "elementwise.trigonometry",
        "elementwise.special",
        "elementwise.remainders",
        "elementwise.choice",
        "elementwise.comparison",
        "elementwise.activation",
        "reduce.reduction",
        "reduce.sorting",
        "reduce.scan",
        "reduce.statistics",
        "shape.reshaping",
        "index.indexing",
        "linear.matmul",
        "network.softmax",
        "network.convolution",
        "network.pooling",
        "network.normalization",
        "index.embedding",
        "network.recurrent",
        "network.attention",
        "linear.decompositions",
        "linear.matrices",
        "shape.rearranging",
        "shape.joining",
        "reduce.norms",
        "index.picking",
    )
]
# Ops that take or give complex numbers, then rare ones: NumPy and SciPy compute them everywhere.
BESIDE = [
    import_module(f"gradwalk.ops.{name}")
    for name in (
        "elementwise.complex_numbers",
        "linear.fourier",
        "linear.short_time",
        "linear.lu",
        "linear.ldl",
        "linear.spectra",
        "linear.solving",
        "linear.reflections",
        "linear.older_names",
        "index.placing",
        "index.segments",
        "elementwise.integers",
        "elementwise.bessel",
        "elementwise.polynomials",
        "reduce.without_nan",
        "reduce.frequencies",
        "reduce.differences",
        "reduce.masked",
        "shape.strides",
        "shape.copies",
    )
]
import_module("gradwalk.ops.core.check")  # from here on definitions are checked


class OpTable(dict[str, Op]):
    """All ops by name.

    It also looks up composites (nn/composites), functions made of these ops that are one step in a
    program of PyTorch's, but does not list them. Nor are the ops of `BESIDE` listed: what walks the
    table (native code, printers, the page) has no forms for them.
    """

    def __init__(self, ops: Iterable[Op]) -> None:
        super().__init__((op.name, op) for op in ops)
        self.composites: dict[str, Op] = {}

    def __missing__(self, name: str) -> Op:
        return self.composites[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.composites

    def get(self, name: str, default: Any = None) -> Any:
        """The op of that name, or the default."""
        return super().get(name) or self.composites.get(name, default)


def _ops_of(families: Iterable[Any]) -> dict[str, Op]:
    found = (op for family in families for op in vars(family).values() if isinstance(op, Op))
    return {op.name: op for op in found}


_real = _ops_of(FAMILIES)
_stand_ins = {op.on_complex for op in _real.values() if isinstance(op.on_complex, Op)}
TABLE = OpTable(op for op in _real.values() if op not in _stand_ins)
