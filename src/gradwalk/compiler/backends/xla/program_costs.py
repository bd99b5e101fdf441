"""ProgramCosts: what XLA says that a compiled step costs one device."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradwalk.compiler.backends.xla.collectives import Collective, collectives
from gradwalk.compiler.ir.listing import WIDTH
from gradwalk.distributed.mesh import Mesh
from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.array_statistics import in_bytes


@dataclass
class ProgramCosts(Report):
    """Of one step and one device: operations, memory and communication."""

    operations: float  # floating-point; XLA counts the body of a loop once
    memory: dict[str, int]  # bytes, by kind
    mesh: Mapping[str, int]  # empty for one device
    collectives: list[Collective]

    @property
    def sent(self) -> float:
        """The bytes that a device sends in a step, by rings."""
        return sum(one.sent for one in self.collectives)

    def __str__(self) -> str:
        memory = ", ".join(f"{kind} {in_bytes(size)}" for kind, size in self.memory.items())
        text = f"memory of a device: {memory}"
        lines = textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
        if self.mesh:
            lines.append(f"  sent by a device in a step: {in_bytes(self.sent)}")
            lines += [f"    {line}" for line in self._table()]
        return "\n".join(lines)

    def _table(self) -> list[str]:
        """A line for each kind of collective along each axis."""
        alike: dict[tuple[str, tuple[str, ...], int], list[Collective]] = defaultdict(list)
        for one in self.collectives:
            alike[one.kind, one.axes, one.group].append(one)
        rows = []
        for (kind, axes, group), some in alike.items():
            count = sum(one.times for one in some)
            size = sum(one.times * one.bytes for one in some)
            along = f"along {' and '.join(axes)}" if axes else "among"
            rows.append(f"{count:4} × {kind} {along} ({group} devices): arrays of {in_bytes(size)}")
        return rows


def costs(executable: Any, where: Any) -> ProgramCosts:
    """Of the newest program that an executable runs on a device or mesh."""
    compiled = executable.compiled
    sizes = compiled.memory_analysis()
    memory = {
        "arguments": sizes.argument_size_in_bytes,
        "results": sizes.output_size_in_bytes,
        "donated": sizes.alias_size_in_bytes,
        "temporary": sizes.temp_size_in_bytes,
        "code": sizes.generated_code_size_in_bytes,
    }
    operations = float((compiled.cost_analysis() or {}).get("flops", 0.0))
    mesh = where.shape if isinstance(where, Mesh) else {}
    found = collectives(compiled.as_text(), mesh) if mesh else []
    return ProgramCosts(operations, memory, dict(mesh), found)
