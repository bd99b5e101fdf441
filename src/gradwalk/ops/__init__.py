"""The op table: every derivative in the library, once.

Each module defines ops of one family and the functions people call. `TABLE` lists all ops by
name; tests, printers and backends walk it.
"""

from gradwalk.ops import (
    activation,
    arithmetic,
    attention,
    choice,
    convolution,
    decompositions,
    index,
    layout,
    linalg,
    loss,
    losses,
    measures,
    normalization,
    norms,
    picking,
    pooling,
    products,
    recurrent,
    reduction,
    remainders,
    rows,
    scan,
    shape,
    sorting,
    special,
    trigonometry,
    units,
)
from gradwalk.ops import check as check
from gradwalk.ops.op import Op

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
    shape,
    index,
    linalg,
    loss,
    losses,
    units,
    convolution,
    pooling,
    normalization,
    rows,
    recurrent,
    attention,
    decompositions,
    layout,
    norms,
    picking,
    products,
)

TABLE: dict[str, Op] = {
    op.name: op for family in _FAMILIES for op in vars(family).values() if isinstance(op, Op)
}
