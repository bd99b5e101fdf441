"""The answer of find_nan."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.report import Report, telling
from gradwalk.inspect.trace.routes import PathStep, chain, labelled, listed, wrapped


@dataclass(frozen=True, slots=True)
class Operand:
    """One input of the op that made the first NaN or inf."""

    name: str
    value: float | None  # at that element, for an elementwise op
    summary: str  # of all its elements
    dtype: str = "float64"

    def __str__(self) -> str:
        here = "" if self.value is None else f" is {telling(self.value, self.dtype)} there"
        return f"{self.name}{here}" + (f" ({self.summary})" if self.summary else "")


@dataclass
class FoundNan(Report):
    """The first cause of a NaN or inf; false if there is none.

    `direction` is "forward" or "backward". `kind` is a word for the cause: "log", "0 / 0",
    "overflow", "inf − inf", "all −inf", "data", "weights", "masked", "infinite slope", ...
    """

    found: bool = False
    direction: str = ""
    kind: str = ""
    text: str = ""  # what was computed: log(0) = −inf
    reason: str = ""
    fix: str = ""
    node: int | None = None
    name: str = ""
    op: str = ""
    layer: str = ""
    line: SourceLine | None = None
    index: tuple[int, ...] | None = None  # of the first non-finite element
    count: int | None = None  # non-finite elements, of `total`
    total: int | None = None
    operands: list[Operand] = field(default_factory=list)
    became: PathStep | None = None  # where an inf became NaN, if that was later
    masked_by: PathStep | None = None  # the node that hides the NaN in the forward pass
    passed: list[PathStep] = field(default_factory=list)  # nodes that only propagated it
    reached: list[str] = field(default_factory=list)  # the loss, gradients
    others: list[PathStep] = field(default_factory=list)  # further producers

    def __bool__(self) -> bool:
        return self.found

    def __str__(self) -> str:
        if not self.found:
            return "no NaN and no inf reaches the loss or a gradient."
        hidden = None if self.masked_by is None else f"by {self.masked_by}"
        lines = [
            *wrapped(f"first: {self._headline()}", "", " " * 7),
            *labelled(
                ("made at" if self.kind in ("data", "weights") else "line", self.line),
                ("in", self.layer),
                ("why", self.reason),
                *(("input", operand) for operand in self.operands),
                ("NaN at", self.became),
                ("hidden", hidden),
                ("passed", chain(self.passed)),
                ("reached", listed(self.reached, 5)),
                ("also", listed([step.name for step in self.others], 5)),
            ),
            *wrapped(f"Fix: {self.fix}", "", "     "),
        ]
        return "\n".join(lines)

    def _headline(self) -> str:
        where = "" if not self.index else f" at {list(self.index)}"
        if self.total and self.total > 1 and self.count:
            where += f" ({self.count} of {self.total} elements)"
        way = "backward through " if self.direction == "backward" else ""
        return f"{way}{self.name}{where}: {self.text}"
