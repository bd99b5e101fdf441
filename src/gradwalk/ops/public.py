"""The op functions people call, gathered from the families: what `gradwalk.` has of them.

A family lists its public names in its own `__all__`, so adding an op touches that file alone.
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
from gradwalk.ops.activation import *
from gradwalk.ops.arithmetic import *
from gradwalk.ops.choice import *
from gradwalk.ops.index import *
from gradwalk.ops.linalg import *
from gradwalk.ops.loss import *
from gradwalk.ops.reduction import *
from gradwalk.ops.shape import *
from gradwalk.ops.sorting import *
from gradwalk.ops.trigonometry import *

# Three names belong to an op with plain attributes as well; people mean these.
from gradwalk.ops.operators import raised as pow
from gradwalk.ops.shape import cat as concatenate
from gradwalk.ops.shape import flip_over as flip
from gradwalk.ops.shape import permute_to as permute
from gradwalk.ops.shape import reshape_to as reshape

_FAMILIES = (
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

__all__ = sorted(
    {"concatenate", "flip", "permute", "pow", "reshape"}.union(*(f.__all__ for f in _FAMILIES))
)
