"""DeviceMachine: computes ops on the arrays of one device, each as a compiled XLA program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from gradwalk.compiler.backends.xla.bounds import bounds, complaint, out_of_range
from gradwalk.compiler.backends.xla.device_array import DeviceArray
from gradwalk.compiler.backends.xla.forwards import FORWARDS
from gradwalk.compiler.backends.xla.pending_steps import PendingSteps
from gradwalk.compiler.backends.xla.platform import devices_everywhere, jax_device, traced_for
from gradwalk.compiler.backends.xla.platform import devices_of as devices_of
from gradwalk.compiler.backends.xla.platform import first_use as first_use
from gradwalk.compiler.backends.xla.program_cache import keep_programs
from gradwalk.compiler.functional.functional_array import FunctionalArray
from gradwalk.compiler.functional.machine import Machine, Shape
from gradwalk.compiler.functional.memory_order import CONTIGUOUS, MemoryLayout
from gradwalk.compiler.functional.whole_ops import WHOLE
from gradwalk.distributed.mesh import Mesh, Sharding
from gradwalk.engine.errors import made_at, name_of
from gradwalk.ops.core.dtypes import get_float32_matmul_precision
from gradwalk.ops.core.op import Op
from gradwalk.ops.index.indexing import getitem, setitem
from gradwalk.tensors.devices import device

if TYPE_CHECKING:
    from gradwalk.compiler.ir.program import Program


class DeviceMachine(Machine):
    """Takes the place of NumPy for tensors on a device."""

    Array, Value = DeviceArray, jax.Array

    def __init__(self, where: device) -> None:
        self.device = where
        self.place = jax_device(where)
        self.pending = PendingSteps(jax.device_put(np.True_, self.place))
        # XLA's CPU is for tests, which compile more often than they run.
        self.packs_state = where.type != "xla"

    def call(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Run one op; an index out of range raises, which XLA itself does not."""
        for bound in bounds(op, args, attrs):
            if out_of_range(*bound):
                raise IndexError(complaint(bound))
        forward = FORWARDS[op.name]
        if any(isinstance(part, tuple) and part[0] == "mask" for part in attrs.get("index", ())):
            return forward(*args, **attrs)  # the mask's values decide on the shape
        precision = get_float32_matmul_precision()
        key = forward, _frozen(attrs), self.device.type, precision
        if any(isinstance(a, int) for a in args):  # exact numbers are part of the program
            fixed = tuple([_Leaf(a) if isinstance(a, int) else None for a in args])
            return _jitted(*key, fixed)(*(a for a in args if not isinstance(a, int)))
        return _jitted(*key, ())(*args)

    def whole(self, op: Op, args: Sequence[Any] = ()) -> Op | None:
        """A device has kernels for some composites."""
        return WHOLE.get(op)

    def array(self, thing: Any) -> DeviceArray:
        """The array on this device."""
        if isinstance(thing, DeviceArray):
            if thing.machine is not self:
                raise RuntimeError(f"an array on {thing.machine.device} used on {self.device}")
            return thing
        return DeviceArray(self, jax.device_put(np.asarray(thing), self.place))

    def filled(self, shape: Shape, dtype: np.dtype[Any], number: Any) -> DeviceArray:
        """An array filled with one number."""
        if isinstance(number, FunctionalArray):
            return DeviceArray(self, self.fitted(number, shape, dtype))
        return self.array(np.full(shape, number, dtype))

    def kept_in_place(self, before: Any, value: Any) -> Any:
        """The new value of memory, on the devices that had the value before."""
        return value

    def has_all(self, value: Any) -> bool:
        """Whether this process has all elements."""
        return True

    def on_host(self, value: Any) -> np.ndarray[Any, Any]:
        """A copy of the elements, once all steps before are known to be right."""
        self.pending.settle()
        return np.array(value)

    def pickled(self, value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """A function and arguments that make an array of this value again."""
        return upload, (self.on_host(value), self.device)

    def placement(self, values: Sequence[Any]) -> Any:
        """The shardings that updates of these values must have; None: there is one device."""
        return None

    def axes_of(self, values: Sequence[Any]) -> frozenset[str]:
        """The axes of a mesh that divide a dimension of one of them."""
        return frozenset()

    def whole_along(self, axes: frozenset[str], value: Any) -> Any:
        """The sharding of a value without some axes; None if it has none of them."""
        return None

    def fix_for(self, shape: Shape) -> str:
        """How to bring a tensor of this shape here."""
        return f"Fix: move one of them, with .to({str(self.device)!r})."

    def values(self, op: Op, operands: Sequence[Any]) -> list[Any]:
        """Arrays as values; NumPy's are copied to the device."""
        kinds = (FunctionalArray, np.ndarray, np.generic)
        return [self.array(o).term if isinstance(o, kinds) else o for o in operands]

    def before_run(self, program: Program, first: bool, operands: Any) -> None:
        """A device runs its programs alone."""

    def check_devices(self, op: Op, tensors: Sequence[Any], target: Any = None) -> None:
        """Raise if one of the tensors of an operation is elsewhere; a single number that is not
        written to may be, and an index on the CPU. NumPy's arrays are copied."""
        count = len(tensors) if op not in _INDEXED else _INDEXED[op] + (target is not None)
        for position, tensor in enumerate(tensors):
            array = getattr(tensor, "_array", None)
            if array is None or getattr(array, "machine", None) is self:
                continue
            on_cpu = array.__class__ is np.ndarray
            if on_cpu and tensor is not target and (not array.ndim or position >= count):
                continue
            mine = next(t for t in tensors if _machine_of(t) is self)
            raise RuntimeError(
                f"an operation on tensors of two devices: {name_of(mine)} is on {mine.device}, "
                f"{name_of(tensor)} is on {tensor.device}.\n"
                f"  {mine.device}: made at {made_at(mine)}\n"
                f"  {tensor.device}: made at {made_at(tensor)}\n" + self.fix_for(array.shape)
            )

    def layout(
        self, op: Op, attrs: dict[str, Any], arrays: Sequence[FunctionalArray], shape: Shape
    ) -> MemoryLayout:
        """New arrays are in order."""
        return CONTIGUOUS

    def unknown_function(self, name: str) -> Exception:
        """NumPy would need the elements on the host."""
        return TypeError(
            f"np.{name} of a tensor on {self.device}: NumPy works on the CPU.\n"
            "Fix: .cpu() first, or the gradwalk function of that name."
        )


_INDEXED = {getitem: 1, setitem: 2}  # how many operands come before the index arrays


def _machine_of(tensor: Any) -> Any:
    return getattr(getattr(tensor, "_array", None), "machine", None)


class _Leaf:
    """A value inside attributes, as a key: 1, 1.0 and True differ, and so do 0.0 and -0.0."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = (type(value), repr(value) if isinstance(value, float) else value)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Leaf) and self.key == other.key


def _frozen(attrs: Any) -> Hashable:
    """Attributes as a key; those of a view's chain hold dictionaries."""
    if isinstance(attrs, dict):
        return (True, *((name, _frozen(value)) for name, value in attrs.items()))
    if isinstance(attrs, (tuple, list)):
        return (False, *map(_frozen, attrs))
    return _Leaf(attrs)


def _thawed(key: Any) -> Any:
    if isinstance(key, _Leaf):
        return key.value
    return {n: _thawed(v) for n, v in key[1:]} if key[0] else tuple(map(_thawed, key[1:]))


@functools.lru_cache(maxsize=4096)
def _jitted(
    forward: Callable[..., Any],
    attrs: Hashable,
    kind: str,
    precision: str,
    numbers: tuple[_Leaf | None, ...],
) -> Any:
    """The program of an op with fixed attributes, and some fixed operands, for one kind of device;
    products have a precision."""

    def run(*operands: Any) -> Any:
        traced_for.set(kind)
        if numbers:
            left = iter(operands)
            operands = tuple([next(left) if n is None else n.value for n in numbers])
        made = forward(*operands, **_thawed(attrs))
        return tuple(map(jax.numpy.asarray, made)) if isinstance(made, (tuple, list)) else made

    return jax.jit(run)


@functools.cache
def machine(where: device) -> DeviceMachine:
    """The one machine of a device, or of a mesh."""
    keep_programs()
    if isinstance(where, Mesh):
        from gradwalk.compiler.backends.xla.mesh_machine import MeshMachine

        made: DeviceMachine = MeshMachine(where)
    else:
        made = DeviceMachine(where)
    _machines.append(made)
    return made


_machines: list[DeviceMachine] = []  # all of them


def upload(array: np.ndarray[Any, Any], where: device) -> DeviceArray:
    """A host array on a device."""
    return machine(where).array(array)


def spread(array: Any, mesh: Mesh, sharding: Sharding) -> DeviceArray:
    """An array divided over the devices of a mesh."""
    made: DeviceArray = machine(mesh).spread(array, sharding)  # type: ignore[attr-defined]
    return made


def count_everywhere(kind: str) -> int:
    """How many devices of a kind there are in all processes."""
    return len(devices_everywhere(kind))


def synchronize() -> None:
    """Wait until the devices have computed everything they were given; raise if a compiled step
    failed."""
    for one in _machines:
        one.pending.settle()
    jax.block_until_ready(jax.live_arrays())


def memory_stats(where: device) -> dict[str, int]:
    """What JAX counts of a device's memory; nothing where it does not count."""
    return jax_device(where).memory_stats() or {}


def name_of_device(where: device) -> str:
    """What the maker calls the device."""
    return str(jax_device(where).device_kind)
