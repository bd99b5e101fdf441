"""scale: a model of how long a step takes on more devices, from its program's own communication."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.array_statistics import in_bytes


@dataclass(frozen=True)
class Cluster(Report):
    """What the model assumes of the machines; by default hosts of eight H100 or H200.

    The defaults are assumptions, below the figures of data sheets; none was measured.
    """

    operations: float = 400e12  # floating-point, a second, of one device: bfloat16 products
    host: int = 8  # devices in one machine
    inside: float = 350e9  # bytes a second that a device sends to others of its host: NVLink
    between: float = 45e9  # and to another host: a network card of 400 Gbit/s for each device
    latency_inside: float = 4e-6  # seconds of one round of messages
    latency_between: float = 12e-6

    def seconds(self, collective: Any, group: int, span: int) -> float:
        """A collective among `group` devices that lie within `span` neighbours, in rings; the
        messages of a short one go along a tree."""
        local = max(1, min(group, group * self.host // span))
        rounds = math.ceil(math.log2(local)) * self.latency_inside
        rounds += math.ceil(math.log2(max(1, group / local))) * self.latency_between
        rate = self.inside if span <= self.host else self.between
        repeated = 2 if collective.kind == "all-reduce" else 1
        return repeated * rounds + collective.sent_among(group) / rate


@dataclass
class Estimate(Report):
    """A step on one number of devices."""

    devices: int
    sent: float  # bytes, by each device
    compute: float  # seconds
    communicate: float

    @property
    def efficiency(self) -> tuple[float, float]:
        """The part of a step that computes: if communication waits, and if it is all hidden."""
        hidden = max(self.compute, self.communicate)
        return self.compute / (self.compute + self.communicate), self.compute / hidden


@dataclass
class ScaleReport(Report):
    """A step on more and more devices; `print` it."""

    axis: str
    cluster: Cluster
    estimates: list[Estimate]

    def __str__(self) -> str:
        lines = [
            f"more devices along {self.axis!r}, each with the rows that it has now",
            "devices   sent by each   compute   communicate   efficiency: waits   hidden",
        ]
        for one in self.estimates:
            waits, hidden = one.efficiency
            lines.append(
                f"{one.devices:7,} {in_bytes(one.sent):>14} {_milliseconds(one.compute):>9} "
                f"{_milliseconds(one.communicate):>13} {waits:>19.0%} {hidden:>8.0%}"
            )
        return "\n".join(lines)


def scale(
    step: Any,
    devices: Sequence[int] = (8, 16, 32, 64, 128, 256, 512, 1024),
    *,
    axis: str = "data",
    cluster: Cluster | None = None,
    operations: float | None = None,
) -> ScaleReport:
    """Estimate how long a compiled step takes on more devices along one axis of its mesh.

    The operations and the communication are those of the program that XLA compiled for the mesh
    that it ran on; nothing is measured. Each device keeps its rows, so the batch grows. Arrays that
    are communicated keep their size, and groups along `axis` grow. `operations` replaces XLA's
    count, which takes the body of a loop once.
    """
    from gradwalk.compiler.backends.xla.program_costs import costs

    newest = step._newest()
    found = costs(newest.executable, newest.trace.device)
    if axis not in found.mesh:
        raise ValueError(
            f"{step.name} runs on {newest.trace.device}, which has no axis {axis!r}.\n"
            "Fix: distribute the model over a gw.Mesh, call the step once, and name an axis of it."
        )
    known = math.prod(found.mesh.values())
    machines = cluster or Cluster()
    work = (found.operations if operations is None else operations) / machines.operations
    estimates = []
    for count in devices:
        if count % known and known % count:
            raise ValueError(f"{count} devices are no multiple or part of the mesh's {known}")
        mesh = {**found.mesh, axis: found.mesh[axis] * count // known}
        if not mesh[axis] or math.prod(mesh.values()) != count:
            raise ValueError(f"{count} devices cannot be {found.mesh} with another {axis!r}")
        sent = taken = 0.0
        for one in found.collectives:
            axes = one.axes or tuple(mesh)  # groups that follow no axis may be anywhere
            group = one.group * mesh[axis] // found.mesh[axis] if axis in axes else one.group
            now = replace(one, group=group)
            sent += now.sent
            taken += one.times * machines.seconds(now, group, _span(mesh, axes))
        estimates.append(Estimate(count, sent, work, taken))
    return ScaleReport(axis, machines, estimates)


def _span(mesh: dict[str, int], axes: tuple[str, ...]) -> int:
    """How many neighbours a group along these axes lies in."""
    names = list(mesh)
    first = min(names.index(name) for name in axes)
    return math.prod(mesh[name] for name in names[first:])


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
