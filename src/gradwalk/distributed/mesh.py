"""Mesh: many devices as one, with named axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from gradwalk.engine.guest_loaders import loaders
from gradwalk.tensors.devices import KINDS, device

Axes = str | tuple[str, ...] | None  # that one dimension is divided over
Sharding = tuple[Axes, ...]  # of the dimensions of a tensor, the first ones first


class Mesh(device):
    """Devices in a grid whose axes have names: `Mesh(data=4, model=2)` is eight of them.

    A mesh is a device: `model.to(mesh)` and `gw.zeros(3, device=mesh)` give every one of its
    devices a copy, and `gw.distribute` divides tensors over its axes. It has all devices of its
    kind, in JAX's order, those of other processes too; the last axis counts neighbours. One size
    may be −1: what the others leave. `device` is "cuda", "tpu" or "xla"; by default the
    accelerator that is here.
    """

    _shape: dict[str, int]
    _kind: str

    def __new__(cls, device: str | None = None, **axes: int) -> Mesh:
        """Arrange the devices."""
        kind, count = _devices(device)
        sizes = _sizes(axes, kind, count)
        text = ", ".join(f"{name}={size}" for name, size in sizes.items())
        mesh = str.__new__(cls, f"{kind}[{text}]")
        mesh._shape, mesh._kind = sizes, kind
        return mesh

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), {"device": self._kind, **self._shape}

    @property
    def shape(self) -> Mapping[str, int]:
        """The size of each axis, by its name."""
        return MappingProxyType(self._shape)

    @property
    def size(self) -> int:
        """How many devices there are."""
        return math.prod(self._shape.values())

    @property
    def type(self) -> str:
        """The kind of its devices."""
        return self._kind

    @property
    def index(self) -> None:  # type: ignore[override]
        """None: it is all of them."""
        return None

    def parts(self, axes: Axes) -> int:
        """Into how many parts these axes divide a dimension."""
        named = () if axes is None else (axes,) if isinstance(axes, str) else axes
        return math.prod(self._shape[name] for name in named)

    def __repr__(self) -> str:
        sizes = "".join(f"{name}={size}, " for name, size in self._shape.items())
        return f"Mesh({sizes}device={self._kind!r})"


def _devices(kind: str | None) -> tuple[str, int]:
    """The kind of devices, and how many there are in all processes."""
    counted = loaders["xla"]().count_everywhere
    if kind is None:
        kind = next(k for k in ("cuda", "tpu", "xla") if counted(k))
    kinds = [k for k in KINDS if k != "cpu"]
    if not isinstance(kind, str):
        raise TypeError(f"the axes of a mesh have names: gw.Mesh(data=8, model=2), not {kind!r}")
    if kind not in kinds:
        raise ValueError(f"no mesh of devices {str(kind)!r}: they are {', '.join(kinds)}")
    count = counted(kind)
    if not count:
        raise RuntimeError(
            f"no mesh of devices {str(kind)!r}: JAX sees none.\n"
            'Fix: install JAX for this accelerator, or use device="xla", XLA on the CPU.'
        )
    return kind, count


def _sizes(axes: dict[str, int], kind: str, count: int) -> dict[str, int]:
    """The sizes of the axes; raise if they do not make up the devices."""
    if not axes:
        raise ValueError(f"a mesh needs a named axis. Fix: gw.Mesh(data={count})")
    for name, size in axes.items():
        whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
        if not whole or (size < 1 and size != -1):
            raise ValueError(f"axis {name!r} of a mesh has a positive size, or -1; not {size!r}")
    axes = {name: int(size) for name, size in axes.items()}
    text = " × ".join(f"{name}={size}" for name, size in axes.items())
    known = math.prod(size for size in axes.values() if size != -1)
    unknown = [name for name, size in axes.items() if size == -1]
    if len(unknown) > 1:
        raise ValueError(f"one axis of a mesh may be -1, not {', '.join(unknown)}")
    if (count % known) if unknown else (known != count):
        made = f"a multiple of {known}" if unknown else f"{known}"
        virtual = (
            "\nVirtual devices on the CPU, before JAX starts: "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={known}"
        )
        raise ValueError(
            f"a mesh of {text} needs {made} devices, and there are {count} of kind {kind!r}.\n"
            f"Fix: sizes whose product is {count}; -1 stands for what is left."
            + (virtual if kind == "xla" else "")
        )
    return {name: count // known if size == -1 else size for name, size in axes.items()}
