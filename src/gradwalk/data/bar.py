"""A progress bar for long loops; silent without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO


class progress:
    """Iterate with a progress bar on a terminal; elsewhere (a file, a test) just iterate.

    `note` shows numbers beside the bar.

    >>> import gradwalk as gw
    >>> bar = gw.data.progress(range(3), "counting")
    >>> for i in bar:
    ...     bar.note(loss=1 / (1 + i))
    """

    def __init__(
        self,
        iterable: Iterable[Any],
        description: str = "",
        total: int | None = None,
        file: TextIO | None = None,
    ) -> None:
        self.iterable = iterable
        self.description = description
        self.total = total
        self.file = file
        self._bar: Any = None
        self._task: Any = None

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        file = sys.stderr if self.file is None else self.file
        if not file.isatty():
            yield from self.iterable
            return
        from rich import progress as rich
        from rich.console import Console

        total = self.total
        if total is None and hasattr(self.iterable, "__len__"):
            total = len(self)
        columns = (
            rich.TextColumn("{task.description}"),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TimeRemainingColumn(elapsed_when_finished=True),
            rich.TextColumn("{task.fields[note]}"),
        )
        with rich.Progress(*columns, console=Console(file=file)) as bar:
            self._bar, self._task = bar, bar.add_task(self.description, total=total, note="")
            try:
                for item in self.iterable:
                    yield item
                    bar.advance(self._task)
            finally:
                self._bar = None

    def note(self, **values: Any) -> None:
        """Show these values beside the bar."""
        if self._bar is not None:
            texts = (
                f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in values.items()
            )
            self._bar.update(self._task, note="  ".join(texts))
