"""Many devices and many machines: meshes, and tensors divided over them."""

from gradwalk.distributed.distribute import distribute as distribute
from gradwalk.distributed.distribute import sharding_of
from gradwalk.distributed.mesh import Mesh as Mesh

__all__ = ["sharding_of"]
