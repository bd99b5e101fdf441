"""Many devices and many machines: meshes, tensors divided over them, and jobs of processes."""

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

__all__ = [
    "LaunchError", "barrier", "destroy_process_group", "get_rank", "get_world_size", "init",
    "is_initialized", "sharding_of",
]  # fmt: skip
