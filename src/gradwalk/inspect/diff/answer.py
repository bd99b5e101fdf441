"""The answer of diff."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.report import Report, columns
from gradwalk.inspect.trace.routes import labelled, wrapped
from gradwalk.inspect.trace.trace import Trace

SHOWN = 5  # further differences
ROWS = 14  # operations in the table


@dataclass(frozen=True, slots=True)
class Side:
    """One operation of A or of B."""

    node: int
    name: str
    op: str
    module: str
    line: SourceLine | None

    def __str__(self) -> str:
        inside = f" in {self.module}" if self.module else ""
        return f"{self.name}{inside}" + (f", {self.line}" if self.line else "")


@dataclass(frozen=True, slots=True)
class AlignedOperation:
    """An operation of B beside its counterpart in A; errors are relative to A's norm.

    `own` is the error of B's operation computed in float64 from A's numbers, or its rounding error
    if that is larger; `accumulated` compares the recorded results; `gradient` the gradients that
    arrived at them.
    """

    a: Side
    b: Side
    own: float | None
    accumulated: float | None
    gradient: float | None = None
    verdict: str = ""  # "" in line, "differs", "precision", "gradient"


@dataclass(frozen=True, slots=True)
class MappedWeight:
    """A parameter of B and its counterpart in A."""

    a: str | None
    b: str | None
    how: str  # "same", "transposed", "rearranged", "rounded", "other values", "missing"
    distance: float | None = None


@dataclass
class FoundDifference(Report):
    """One difference. `kind` is "operation", "weight", "arrangement", "precision", "extra",
    "missing", "gradient" or "tied"; `direction` is "forward" or "backward"."""

    kind: str
    direction: str
    what: str  # one sentence
    why: str
    fix: str
    a: Side | None = None
    b: Side | None = None
    own: float | None = None
    accumulated: float | None = None

    def __str__(self) -> str:
        entries = [("in A", self.a), ("in B", self.b), ("error", self._errors()), ("why", self.why)]
        lines = [*wrapped(self.what, "", "  "), *labelled(*entries)]
        return "\n".join([*lines, *wrapped(f"Fix: {self.fix}", "", "     ")])

    def _errors(self) -> str:
        if self.own is None:
            return ""
        text = f"{error(self.own)} of its own"
        if self.accumulated is not None:
            text += f", {error(self.accumulated)} accumulated"
        return text


@dataclass
class TraceDifference(Report):
    """Two computations side by side; false if they are equal up to rounding.

    `findings` are the differences, those of the forward pass first, each in the order of
    computation; `first` is the first of them.
    """

    findings: list[FoundDifference]
    operations: list[AlignedOperation]
    weights: list[MappedWeight]
    notes: list[str]
    names: tuple[str, str]
    aligned: int  # operations of B with a counterpart
    total: int  # operations of B
    a: Trace = field(repr=False)
    b: Trace = field(repr=False)
    # nodes of B -> of A and the accumulated error; also leaves, and operations that only move
    counterparts: dict[int, tuple[int, float | None]] = field(default_factory=dict)

    DATA = ("equal", "first", "findings", "operations", "weights", "notes", "names", "aligned",
            "total")  # fmt: skip

    @property
    def equal(self) -> bool:
        """Whether no operation differs by more than rounding."""
        return not self.findings

    @property
    def first(self) -> FoundDifference | None:
        """The first difference; None if there is none."""
        return self.findings[0] if self.findings else None

    def __bool__(self) -> bool:
        return bool(self.findings)

    def __str__(self) -> str:
        lines = self._headline()
        lines += [line for note in self.notes for line in wrapped(note, "  ", "  ")]
        lines += self.table(ROWS)
        return "\n".join(lines + self._told())

    def in_full(self) -> str:
        """Every aligned operation and every weight, then what `str()` says of the differences."""
        lines = [*self._headline(), *self.table(), "", "weight of B  <-  of A"]
        for one in self.weights:
            text = f"{one.b or 'nothing'}  <-  {one.a or 'nothing'}  {one.how}"
            lines += wrapped(text, "  ", "    ")
        return "\n".join([*lines, *self._told()])

    def _told(self) -> list[str]:
        first = ["", *str(self.findings[0]).splitlines()] if self.findings else []
        return first + self._more()

    def _headline(self) -> list[str]:
        count = len(self.findings)
        first = f"{count} difference{'s' if count > 1 else ''}."
        equal = "No operation differs by more than rounding."
        a, b = self.names
        named = "" if self.names == ("A", "B") else f"A is {a}, B is {b}; "
        between = "" if self.aligned == self.total else "; the others are steps between these"
        counted = f"{named}{self.aligned} of {self.total} operations of B have a counterpart in A"
        return [first if count else equal, *wrapped(f"{counted}{between}.", "", "  ")]

    def _more(self) -> list[str]:
        rest = self.findings[1:]
        lines = ["", "Also:"] if rest else []
        for one in rest[:SHOWN]:
            place = one.b or one.a
            where = f" ({place.line})" if place is not None and place.line else ""
            lines += wrapped(f"{one.what} {one.why}{where}", "  - ", "    ")
        if len(rest) > SHOWN:
            lines.append(f"  and {len(rest) - SHOWN} more")
        return lines

    def table(self, most: int | None = None) -> list[str]:
        """The aligned operations as lines; of many, those around the first difference."""
        rows = self.operations
        begin = next((i for i, row in enumerate(rows) if row.verdict), None)
        if most is not None and len(rows) > most:
            start = 0 if begin is None else max(0, min(begin - 3, len(rows) - most))
            if begin is None:
                start = len(rows) - most
            shown, left_out = rows[start : start + most], len(rows) - most
        else:
            shown, left_out = rows, 0
        if not shown:
            return []
        cells: list[tuple[str, ...]] = [("in A", "in B", "own", "accum.", "gradient", "")]
        cells += [_row(row) for row in shown]
        lines = ["", *(line[:80] for line in columns(cells))]
        return lines + ([f"({left_out} more operations)"] if left_out else [])


def _row(row: AlignedOperation) -> tuple[str, ...]:
    return (
        _cut(f"{row.a.module}: {row.a.op}" if row.a.module else row.a.op, 28),
        _cut(f"{row.b.module}: {row.b.op}" if row.b.module else row.b.op, 18),
        error(row.own),
        error(row.accumulated),
        error(row.gradient),
        f"< {row.verdict}" if row.verdict else "",
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else "…" + text[1 - most :]


def error(number: float | None) -> str:
    """A relative error in two digits; 0 below the rounding of float64."""
    if number is None or number != number:
        return "?"
    return "0" if number < 1e-15 else f"{number:.1e}"
