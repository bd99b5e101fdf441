"""One summary of the reports of all ranks: which rank was first, and on which side it arose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradwalk.inspect.report import Report, short
from gradwalk.inspect.trace.routes import labelled, listed, wrapped
from gradwalk.io.atomic import write_atomically

BEFORE, AFTER = "before the collective", "after the collective"


@dataclass
class RanksSummary(Report):
    """What the ranks of a job reported of one step.

    `side` says where the fault arose: `before the collective`, on `rank` itself; or, if the own
    gradients of every rank were finite, `after the collective`, in the reduction.
    """

    step: int
    world: int
    kind: str = ""
    rank: int | None = None  # the first bad one; None if it is not known
    side: str = ""
    op: str = ""
    module: str = ""
    line: dict[str, Any] | None = None
    row: int | None = None
    reports: dict[int, dict[str, Any]] = field(default_factory=dict)  # by rank
    silent: list[int] = field(default_factory=list)  # ranks that did not stop here
    path: str = ""

    @classmethod
    def of(cls, step: int, world: int, reports: Mapping[int, dict[str, Any]]) -> RanksSummary:
        """Summarize the notes that `told` made of the reports."""
        silent = [rank for rank in range(world) if rank not in reports]
        made = cls(step, world, reports=dict(reports), silent=silent)
        own = [rank for rank, told in reports.items() if told["side"] == BEFORE]
        unused = [rank for rank, told in reports.items() if told["kind"] == "unused"]
        unsure = [rank for rank, told in reports.items() if not told["side"]]
        if own:
            made.rank, made.side = own[0], BEFORE
        elif unused:
            made.rank = unused[0]
        elif reports and not unsure and not silent:
            made.rank, made.side = min(reports), AFTER
        elif len(unsure) == 1 and not silent:
            made.rank = unsure[0]  # all others were finite before the collective
        first = reports.get(made.rank if made.rank is not None else min(reports, default=0), {})
        made.kind, made.op = first.get("kind", ""), first.get("op", "")
        made.module, made.line = first.get("module", ""), first.get("line")
        made.row = first.get("row")
        return made

    def __str__(self) -> str:
        lines = wrapped(self._head(), "", "  ")
        for rank, told in self.reports.items():
            lines += labelled((f"rank {rank}", _one(told)))
        for rank in self.silent:
            lines += labelled((f"rank {rank}", self._why_silent()))
        if self.path:
            lines += [f"  summary: {self.path}"]
        return "\n".join(lines)

    def _head(self) -> str:
        stopped = f"{len(self.reports)} of {self.world} ranks stopped before step {self.step}"
        if self.kind == "unused":
            return (
                f"{stopped}: on rank {self.rank} parameters got no gradient, and the reduction of "
                "DistributedDataParallel waits for them."
            )
        if self.side == AFTER:
            return (
                f"{stopped}. The gradients of every rank were finite before the collective, and "
                "not after it: the reduction itself made the fault."
            )
        if self.rank is None:
            return f"{stopped}. Which rank was the first is not known."
        also = [r for r, told in self.reports.items() if told["side"] == BEFORE and r != self.rank]
        more = f" (rank {listed(list(map(str, also)), 3)} too)" if also else ""
        where = f", {self.side}" if self.side else ""
        op = f": {self.op}" if self.op else ""
        op += f" in {self.module}" if self.op and self.module else ""
        line = "" if self.line is None else f", {_place(self.line)}"
        return f"{stopped}. The first bad rank is {self.rank}{more}{where}{op}{line}."

    def _why_silent(self) -> str:
        if self.kind == "unused":
            return "no report: it waits for a collective that the ranks above never begin"
        return "no report: it saw no fault at this step, or waits in a collective"

    def save(self, folder: Path, text: str) -> None:
        """Write the summary, with the text of the first bad rank's report, and as JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = str(folder / "summary.txt")
        write_atomically(folder / "summary.txt", [f"{self}\n\n{text}\n".encode()])
        data = json.dumps(self.to_dict(), indent=2)
        write_atomically(folder / "summary.json", [f"{data}\n".encode()])


def _one(told: dict[str, Any]) -> str:
    """One rank in a line."""
    line = "" if told["line"] is None else f", {_place(told['line'])}"
    where = f"{told['op']}{line}" if told["op"] else told["seen"]
    if told["kind"] == "unused":
        return str(told["seen"])
    if told["side"] == BEFORE:
        return f"{told['kind']} {BEFORE}: {where}"
    if told["side"] == AFTER:
        norm = "" if told["norm"] is None else f" (norm {short(told['norm'])})"
        return f"finite {BEFORE}{norm}, {told['kind']} after it"
    return f"{told['kind']}; the side of the collective is not known: {where}"


def _place(line: dict[str, Any]) -> str:
    return f"{Path(line['file']).name}:{line['line']}: {line['text']}"
