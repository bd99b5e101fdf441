"""The communication in a compiled XLA program, read from its HLO text.

HLO is XLA's public text form. A line is `%name = type op(operands), attribute=..., ...`; what is in
the body of a loop runs as often as the loop.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_BITS = {"pred": 8, "bf16": 16, "c64": 64, "c128": 128}

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) .*\{$")
_COLLECTIVE = re.compile(rf" = (.+?) ({'|'.join(KINDS)})(-start)?\(")
_CALLED = re.compile(r"\b(body|condition|calls|to_apply)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'known_trip_count"?:\{"n":"(\d+)"\}')
_ARRAY = re.compile(r"\b([a-z]+\d*\w*)\[([\d,]*)\]")
# {{0,1},{2,3}}, or [2,2]<=[4], or mesh['axis_0'=2,'axis_1'=2] {'axis_1'}
_LISTED = re.compile(r"replica_groups=\{\{(.*?)\}\}")
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_OF_MESH = re.compile(r"replica_groups=mesh\[(.*?)\][^{]*\{(.*?)\}")

Group = tuple[int, ...]


@dataclass(frozen=True)
class Collective:
    """One kind of communication between the devices of a group, at one place of a program."""

    kind: str
    bytes: int  # of the arrays: whole ones, after a gather or before they are scattered
    axes: tuple[str, ...]  # of the mesh, along which the groups lie; () if along none
    group: int  # devices that take part together
    times: int = 1  # in a step

    def sent_among(self, group: int) -> float:
        """The bytes that a device of a ring sends, each time."""
        if self.kind == "collective-permute":
            return self.bytes
        rounds = 2 if self.kind == "all-reduce" else 1
        return rounds * self.bytes * (group - 1) / group

    @property
    def sent(self) -> float:
        """The bytes that a device sends in a step."""
        return self.times * self.sent_among(self.group)


def collectives(text: str, mesh: Mapping[str, int]) -> list[Collective]:
    """Every collective of a program, in the order of the text."""
    lines = list(_lines(text))
    times = _times(lines)
    known = _groups_of_axes(mesh)
    everywhere = frozenset([tuple(range(math.prod(mesh.values())))])
    found = []
    for computation, line in lines:
        matched = _COLLECTIVE.search(line)
        if matched is None or not times[computation]:
            continue
        made, kind, begins = matched.groups()
        groups = _groups(line) or everywhere
        group = 2 if kind == "collective-permute" else len(next(iter(groups)))
        size = _size(made, kind if begins else "")
        size *= group if kind == "reduce-scatter" else 1
        axes = known.get(groups, ())
        found.append(Collective(kind, size, axes, group, times[computation]))
    return [one for one in found if one.group > 1]


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a program, each with the name of its computation."""
    computation = ""
    for line in text.splitlines():
        begins = _COMPUTATION.match(line)
        if begins:
            computation = "ENTRY" if line.startswith("ENTRY") else begins.group(1)
        elif " = " in line:
            yield computation, line


def _times(lines: list[tuple[str, str]]) -> dict[str, int]:
    """How often each computation runs."""
    callers: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for computation, line in lines:
        trips = _TRIPS.search(line)
        for role, name in _CALLED.findall(line):
            often = int(trips.group(1)) if trips and role in ("body", "condition") else 1
            callers[name].append((computation, often))
        for branches in _BRANCHES.findall(line):
            for name in branches.split(","):
                callers[name.strip().lstrip("%")].append((computation, 1))

    @functools.cache
    def times(name: str) -> int:
        return 1 if name == "ENTRY" else sum(often * times(by) for by, often in callers[name])

    return {computation: times(computation) for computation, _ in lines}


def _size(made: str, begins: str) -> int:
    """The bytes of what an op makes. The start of a gather or a permutation makes its operands,
    then its results."""
    arrays = [_bytes(kind, shape) for kind, shape in _ARRAY.findall(made)]
    if begins == "collective-permute":
        return arrays[1]
    if begins == "all-gather":
        return sum(arrays[len(arrays) // 2 :])
    return sum(arrays)


def _bytes(kind: str, shape: str) -> int:
    """Of an array such as f32[2,3]."""
    bits = _BITS.get(kind) or int(re.findall(r"\d+", kind)[0])
    return math.prod(_numbers(shape)) * bits // 8


def _groups(line: str) -> frozenset[Group] | None:
    """The devices that communicate with each other; None: all of them."""
    if listed := _LISTED.search(line):
        return frozenset(tuple(sorted(_numbers(part))) for part in listed.group(1).split("},{"))
    if iota := _IOTA.search(line):
        sizes, shape, order = (_numbers(part or "") for part in iota.groups())
        places = np.arange(math.prod(shape)).reshape(shape)
        return _rows(places.transpose(order or None).reshape(-1, sizes[-1]))
    if of_mesh := _OF_MESH.search(line):
        sizes = [int(n) for n in re.findall(r"=(\d+)", of_mesh.group(1))]
        names = re.findall(r"'(\w+)'", of_mesh.group(1))
        chosen = [names.index(name) for name in re.findall(r"'(\w+)'", of_mesh.group(2))]
        return _along(sizes, chosen)
    return None


def _groups_of_axes(mesh: Mapping[str, int]) -> dict[frozenset[Group], tuple[str, ...]]:
    """The groups along each set of axes of a mesh."""
    names = list(mesh)
    sets = [s for n in range(1, len(names) + 1) for s in itertools.combinations(names, n)]
    sizes = list(mesh.values())
    return {_along(sizes, [names.index(name) for name in s]): s for s in reversed(sets)}


def _along(sizes: list[int], axes: list[int]) -> frozenset[Group]:
    """The groups of devices that differ in some axes of a grid."""
    others = [axis for axis in range(len(sizes)) if axis not in axes]
    grid = np.arange(math.prod(sizes)).reshape(sizes).transpose(others + axes)
    return _rows(grid.reshape(-1, math.prod(sizes[axis] for axis in axes)))


def _rows(table: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> frozenset[Group]:
    return frozenset(tuple(sorted(row)) for row in table.tolist())


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",") if n]
