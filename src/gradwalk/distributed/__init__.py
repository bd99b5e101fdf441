"""Many devices and many machines: meshes, and tensors divided over them."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from gradwalk.distributed.distribute import distribute as distribute
from gradwalk.distributed.distribute import sharding_of
from gradwalk.distributed.mesh import Mesh as Mesh

if _TYPE_CHECKING:
    from gradwalk.distributed.scale import Cluster as Cluster
    from gradwalk.distributed.scale import scale as scale

__all__ = ["Cluster", "scale", "sharding_of"]


def __getattr__(name: str) -> _Any:
    """Reports are imported when one is asked for: training needs none."""
    if name not in ("Cluster", "scale"):
        raise AttributeError(f"module 'gradwalk.distributed' has no attribute '{name}'")
    module = _importlib.import_module("gradwalk.distributed.scale")
    globals().update(Cluster=module.Cluster, scale=module.scale)
    return globals()[name]
