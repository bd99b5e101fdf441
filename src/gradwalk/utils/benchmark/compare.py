"""Measurements side by side, as a table."""

from __future__ import annotations

from collections.abc import Iterable

from gradwalk.utils.benchmark.timer import Measurement, unit_of


class Compare:
    """A table for each label: a row for each `sub_label`, a column for each `description`.

    >>> add = Measurement(1, [2e-6], "sums", "add", "small")
    >>> Compare([add, Measurement(1, [4e-6], "sums", "add", "large")]).print()
    sums         small  large
    1 thread:
      add          2.0    4.0
    Times are in microseconds (us).
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results = list(results)
        self._rounded = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        self._results += results

    def trim_significant_figures(self) -> None:
        """Show only digits that the measurements make certain."""
        self._rounded = True

    def colorize(self, rowwise: bool = False) -> None:
        """Nothing: the table has no colours."""

    def highlight_warnings(self) -> None:
        """Nothing: a measurement prints its own warnings."""

    def print(self) -> None:
        print(self)

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = dict.fromkeys(one.label for one in merged)
        return "\n\n".join(
            self._table(label or "", [m for m in merged if m.label == label]) for label in labels
        )

    def _table(self, label: str, found: list[Measurement]) -> str:
        unit, scale = unit_of(min(m.median for m in found))
        columns = list(dict.fromkeys(m.description or "" for m in found))
        rows = list(dict.fromkeys(m.as_row_name for m in found))
        first = max(11, len(label), *(len(row) + 2 for row in rows))
        cells = {
            (m.num_threads, m.as_row_name, m.description or ""): self._cell(m, scale) for m in found
        }
        widths = [max(len(c), *(len(t) for k, t in cells.items() if k[2] == c)) for c in columns]

        def line(name: str, texts: Iterable[str]) -> str:
            padded = (text.rjust(width) for text, width in zip(texts, widths, strict=True))
            return "  ".join([name.ljust(first), *padded]).rstrip()

        lines = [line(label, columns)]
        for threads in sorted({m.num_threads for m in found}):
            lines.append(f"{threads} thread{'s' * (threads > 1)}:")
            lines += [
                line(f"  {row}", (cells.get((threads, row, column), "") for column in columns))
                for row in rows
                if any(key[:2] == (threads, row) for key in cells)
            ]
        names = {"ns": "nano", "us": "micro", "ms": "milli", "s": ""}
        return "\n".join([*lines, f"Times are in {names[unit]}seconds ({unit})."])

    def _cell(self, one: Measurement, scale: float) -> str:
        time = one.median / scale
        if not self._rounded:
            return f"{time:.1f}"
        return f"{float(f'{time:.{one.significant_figures}g}'):g}"
