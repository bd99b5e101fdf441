"""MeshMachine: computes on arrays that are divided over the devices of a mesh.

Ops and programs are those of one device. XLA's partitioner divides them by the shardings of their
operands, and adds the communication.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from gradwalk.compiler.backends.xla.device_array import DeviceArray
from gradwalk.compiler.backends.xla.machine import DeviceMachine, spread
from gradwalk.compiler.backends.xla.pending_steps import PendingSteps
from gradwalk.compiler.backends.xla.platform import devices_everywhere
from gradwalk.compiler.functional.functional_array import FunctionalArray
from gradwalk.distributed.mesh import Mesh, Sharding

if TYPE_CHECKING:
    from gradwalk.compiler.functional.machine import Shape


class MeshMachine(DeviceMachine):
    """Takes the place of NumPy for tensors on a mesh."""

    def __init__(self, where: Mesh) -> None:
        self.device = where
        grid = np.array(devices_everywhere(where.type)).reshape(tuple(where.shape.values()))
        self.mesh = jax.sharding.Mesh(grid, tuple(where.shape))
        self.place = self.named(())
        self.pending = PendingSteps()

    def named(self, sharding: Sharding) -> NamedSharding:
        """JAX's form of a sharding."""
        return NamedSharding(self.mesh, PartitionSpec(*sharding))

    def sharding_of(self, value: Any) -> Sharding:
        """Over which axes each dimension of a value is divided."""
        found = value.sharding
        axes = tuple(found.spec) if isinstance(found, NamedSharding) else ()
        return (*axes, *[None] * (value.ndim - len(axes)))

    def spread(self, array: Any, sharding: Sharding) -> DeviceArray:
        """An array divided over the mesh; every process has all of a host array."""
        target = self.named(sharding)
        if isinstance(array, DeviceArray) and array.machine is self:
            return DeviceArray(self, _resharded(target)(array.term))
        host = np.asarray(array)
        if target.is_fully_addressable:
            return DeviceArray(self, jax.device_put(host, target))
        # device_put would compare the array between all processes
        value = jax.make_array_from_callback(host.shape, target, host.__getitem__)
        return DeviceArray(self, value)

    def array(self, thing: Any) -> DeviceArray:
        """The array on every device of the mesh."""
        return super().array(thing) if isinstance(thing, DeviceArray) else self.spread(thing, ())

    def filled_like(self, x: Any, dtype: np.dtype[Any], number: Any) -> DeviceArray:
        """Divided as `x` is; each device fills its own part."""
        if isinstance(number, FunctionalArray):
            return super().filled_like(x, dtype, number)
        make = _filler(x.shape, dtype, x.term.sharding)
        return DeviceArray(self, make(np.asarray(number, dtype)))

    def kept_in_place(self, before: Any, value: Any) -> Any:
        """A write does not change which device has which part."""
        if value.sharding.is_equivalent_to(before.sharding, before.ndim):
            return value
        return _resharded(before.sharding)(value)

    def on_host(self, value: Any) -> np.ndarray[Any, Any]:
        """Needs the parts of other processes, unless this process has all of them."""
        if not (value.is_fully_addressable or value.is_fully_replicated):
            raise RuntimeError(
                f"a tensor of shape {value.shape} is divided over several processes "
                f"as {self.sharding_of(value)}, and this process has a part of it.\n"
                "Fix: in every process, gw.distribute(x, mesh).cpu(): it gathers the parts first."
            )
        return super().on_host(value)

    def pickled(self, value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return spread, (self.on_host(value), self.device, self.sharding_of(value))

    def placement(self, values: Sequence[Any]) -> Hashable:
        """The shardings of values, which compiled programs keep."""
        return tuple(value.sharding for value in values)

    def fix_for(self, shape: Shape) -> str:
        return f"Fix: put it on the mesh, with gw.distribute(x, mesh); mesh is {self.device!r}."


@functools.cache
def _resharded(target: NamedSharding) -> Any:
    """The function that divides an array on the mesh in another way."""
    return jax.jit(lambda value: value, out_shardings=target)


@functools.lru_cache(maxsize=4096)
def _filler(shape: Shape, dtype: np.dtype[Any], sharding: Any) -> Any:
    return jax.jit(lambda x: jax.numpy.full(shape, x, dtype), out_shardings=sharding)
