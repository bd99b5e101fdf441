"""Many devices and many machines: meshes, tensors divided over them, and jobs of processes."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from gradwalk.distributed.distribute import distribute as distribute
from gradwalk.distributed.distribute import sharding_of
from gradwalk.distributed.launch import LaunchError
from gradwalk.distributed.mesh import Mesh as Mesh
from gradwalk.distributed.one_process import (
    Backend,
    DTensor,
    ProcessGroup,
    ReduceOp,
    all_gather,
    all_gather_object,
    all_reduce,
    broadcast,
    broadcast_object_list,
    get_backend,
    init_process_group,
    is_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_ucc_available,
    is_xccl_available,
    new_group,
    reduce,
)
from gradwalk.distributed.processes import (
    barrier,
    destroy_process_group,
    get_rank,
    get_world_size,
    init,
    is_initialized,
)
from gradwalk.ops.core.longer_paths import longer_paths as _longer_paths

_longer_paths(__name__, "distributed_c10d", "nn", "tensor")

if _TYPE_CHECKING:
    from gradwalk.distributed.scale import Cluster as Cluster
    from gradwalk.distributed.scale import scale as scale

__all__ = [
    "Backend", "Cluster", "DTensor", "LaunchError", "ProcessGroup", "ReduceOp", "all_gather",
    "all_gather_object", "all_reduce", "barrier", "broadcast", "broadcast_object_list",
    "destroy_process_group", "get_backend", "get_rank", "get_world_size", "init",
    "init_process_group", "is_available", "is_gloo_available", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_ucc_available", "is_xccl_available",
    "new_group", "reduce", "scale", "sharding_of",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """Reports are imported when one is asked for: training needs none."""
    if name not in ("Cluster", "scale"):
        raise AttributeError(f"module 'gradwalk.distributed' has no attribute '{name}'")
    module = _importlib.import_module("gradwalk.distributed.scale")
    globals().update(Cluster=module.Cluster, scale=module.scale)
    return globals()[name]
