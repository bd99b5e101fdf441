"""MeshMachine: computes on arrays that are divided over the devices of a mesh.

Ops and programs are those of one device. XLA's partitioner divides them by the shardings of their
operands, and adds the communication.
"""

from __future__ import annotations

import functools
import itertools
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
from gradwalk.distributed.mesh import Axes, Mesh, Sharding
from gradwalk.distributed.program_check import before_run
from gradwalk.ops.core.op import Op

if TYPE_CHECKING:
    from gradwalk.compiler.functional.machine import Shape
    from gradwalk.compiler.ir.program import Program


class MeshMachine(DeviceMachine):
    """Takes the place of NumPy for tensors on a mesh."""

    packs_state = False  # each memory is divided in its own way

    def __init__(self, where: Mesh) -> None:
        self.device = where
        grid = np.array(devices_everywhere(where.type)).reshape(tuple(where.shape.values()))
        self.mesh = jax.sharding.Mesh(grid, tuple(where.shape))
        self.place = self.named(())
        self.pending = PendingSteps(self._divided(np.asarray(True), self.place))
        self.has_others = any(d.process_index != jax.process_index() for d in grid.flat)

    def before_run(self, program: Program, first: bool, operands: Any) -> None:
        """Processes agree on a program before they run it together."""
        if self.has_others:
            before_run(program, first, jax.tree.leaves(operands))

    def call(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Run one op. On the CPU, wait for it: XLA's threads there block each other when two
        programs communicate at once."""
        outputs = super().call(op, args, attrs)
        return jax.block_until_ready(outputs) if self.device.type == "xla" else outputs

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
        return DeviceArray(self, self._divided(np.asarray(array), target))

    def _divided(self, host: np.ndarray[Any, Any], target: NamedSharding) -> jax.Array:
        if target.is_fully_addressable:
            return jax.device_put(host, target)
        # device_put would compare the array between all processes
        return jax.make_array_from_callback(host.shape, target, host.__getitem__)

    @property
    def processes(self) -> int:
        """How many of them have devices of the mesh."""
        return len({place.process_index for place in self.mesh.devices.flat})

    def from_every_process(self, number: int) -> list[int]:
        """The numbers that the processes have; all of them ask at the same point."""
        from jax.experimental.multihost_utils import process_allgather

        return [int(n) for n in process_allgather(np.asarray(number))]

    def rows_here(self, count: int, axes: Axes) -> list[tuple[int, int]]:
        """The first and last + 1 of each range of rows whose devices this process has."""
        parts = self.named((axes,)).addressable_devices_indices_map((count,)).values()
        return sorted({part.indices(count)[:2] for (part,) in parts})

    def from_rows(
        self, local: np.ndarray[Any, Any], rows: list[tuple[int, int]], count: int, axes: Axes
    ) -> DeviceArray:
        """An array of `count` rows, of which each process has those of `rows_here`."""
        ends = itertools.accumulate(stop - start for start, stop in rows)
        parts = {
            start: local[end - (stop - start) : end]
            for (start, stop), end in zip(rows, ends, strict=True)
        }
        value = jax.make_array_from_callback(
            (count, *local.shape[1:]),
            self.named((axes,)),
            lambda index: parts[index[0].start or 0],
        )
        return DeviceArray(self, value)

    def assembled(self, like: Any, read: Callable[[Any], np.ndarray[Any, Any]]) -> DeviceArray:
        """An array divided as `like` is; `read` gives the part at an index."""
        value = jax.make_array_from_callback(like.shape, like.term.sharding, read)
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

    def has_all(self, value: Any) -> bool:
        return bool(value.is_fully_addressable or value.is_fully_replicated)

    def on_host(self, value: Any) -> np.ndarray[Any, Any]:
        """Needs the parts of other processes, unless this process has all of them."""
        if not self.has_all(value):
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

    def axes_of(self, values: Sequence[Any]) -> frozenset[str]:
        found = [self.sharding_of(value) for value in values if value is not None]
        return frozenset(name for sharding in found for axes in sharding for name in _names(axes))

    def whole_along(self, axes: frozenset[str], value: Any) -> Any:
        before = self.sharding_of(value)
        if axes.isdisjoint(name for part in before for name in _names(part)):
            return None
        kept = (tuple(name for name in _names(part) if name not in axes) for part in before)
        return self.named(tuple(names or None for names in kept))

    def fix_for(self, shape: Shape) -> str:
        return f"Fix: put it on the mesh, with gw.distribute(x, mesh); mesh is {self.device!r}."


def _names(axes: Axes) -> tuple[str, ...]:
    return axes if isinstance(axes, tuple) else (axes,) if axes else ()


@functools.cache
def _resharded(target: NamedSharding) -> Any:
    """The function that divides an array on the mesh in another way."""
    return jax.jit(lambda value: value, out_shardings=target)


@functools.lru_cache(maxsize=4096)
def _filler(shape: Shape, dtype: np.dtype[Any], sharding: Any) -> Any:
    return jax.jit(lambda x: jax.numpy.full(shape, x, dtype), out_shardings=sharding)
