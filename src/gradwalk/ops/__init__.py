"""The op table: every derivative in the library, once.

Each module defines ops of one family and the functions people call. `TABLE` lists all ops by
name; tests, printers and backends walk it.
"""

from collections.abc import Iterable
from typing import Any

from gradwalk.ops.core import check as check
from gradwalk.ops.core.op import Op
from gradwalk.ops.elementwise import (
    activation,
    arithmetic,
    choice,
    remainders,
    special,
    trigonometry,
    units,
)
from gradwalk.ops.index import embedding, indexing, picking
from gradwalk.ops.linear import decompositions, matmul, products
from gradwalk.ops.network import (
    attention,
    convolution,
    losses,
    normalization,
    pooling,
    recurrent,
    softmax,
)
from gradwalk.ops.reduce import measures, norms, reduction, scan, sorting
from gradwalk.ops.shape import rearranging, reshaping

_FAMILIES = (
    arithmetic,
    trigonometry,
    activation,
    special,
    remainders,
    choice,
    reduction,
    sorting,
    scan,
    measures,
    reshaping,
    indexing,
    matmul,
    softmax,
    losses,
    units,
    convolution,
    pooling,
    normalization,
    embedding,
    recurrent,
    attention,
    decompositions,
    rearranging,
    norms,
    picking,
    products,
)


class OpTable(dict[str, Op]):
    """All ops by name. Asked for a name, it also knows the composites (nn/composites), each a
    function made of these ops that is one step in a program from elsewhere; it does not list them.
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


TABLE = OpTable(op for family in _FAMILIES for op in vars(family).values() if isinstance(op, Op))
