"""The op table: every derivative in the library, once.

Each module defines ops of one family and the functions people call. `TABLE` lists all ops by
name; tests, printers and backends walk it.
"""

from gradwalk.ops import (
    activation,
    arithmetic,
    choice,
    index,
    linalg,
    loss,
    reduction,
    shape,
    sorting,
    trigonometry,
)
from gradwalk.ops import check as check
from gradwalk.ops.op import Op

_FAMILIES = (
    arithmetic,
    trigonometry,
    activation,
    choice,
    reduction,
    sorting,
    shape,
    index,
    linalg,
    loss,
)

TABLE: dict[str, Op] = {
    op.name: op for family in _FAMILIES for op in vars(family).values() if isinstance(op, Op)
}
