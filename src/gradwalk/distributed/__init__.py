"""Many devices and many machines: meshes, tensors divided over them, and jobs of processes."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from gradwalk.distributed.distribute import distribute as distribute
from gradwalk.distributed.distribute import sharding_of
from gradwalk.distributed.launch import LaunchError
from gradwalk.distributed.mesh import Mesh as Mesh
from gradwalk.distributed.processes import (
    barrier,
    destroy_process_group,
    get_rank,
    get_world_size,
    init,
    is_initialized,
)

if _TYPE_CHECKING:
    from gradwalk.distributed.scale import Cluster as Cluster
    from gradwalk.distributed.scale import scale as scale

__all__ = [
    "Cluster", "LaunchError", "barrier", "destroy_process_group", "get_rank", "get_world_size",
    "init", "is_initialized", "scale", "sharding_of",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """Reports are imported when one is asked for: training needs none."""
    if name not in ("Cluster", "scale"):
        raise AttributeError(f"module 'gradwalk.distributed' has no attribute '{name}'")
    module = _importlib.import_module("gradwalk.distributed.scale")
    globals().update(Cluster=module.Cluster, scale=module.scale)
    return globals()[name]
