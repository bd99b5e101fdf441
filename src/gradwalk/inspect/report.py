"""Report: what every tool returns. Plain attributes, a readable print, a display, plain data."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.trace.trace import Edge, Trace
from gradwalk.ops.core.dtypes import dtype_named

WHOLE = 1e4  # four digits show whole numbers up to here


class Report:
    """The base of a tool's answer; subclasses are dataclasses with a `__str__`.

    `to_dict()` has the attributes named in `DATA`; by default these are the fields, except traces
    and those whose name begins with an underscore, which are for the tool itself.
    """

    DATA: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        # Set before @dataclass writes its own, which would fill the screen with every field.
        if "__repr__" not in vars(cls):
            cls.__repr__ = Report.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """Show what `print` shows, so that a prompt displays a readable answer."""
        if type(self).__str__ is object.__str__:
            return object.__repr__(self)
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data: dicts, lists, text and numbers."""
        return {name: plain(getattr(self, name)) for name in self.DATA or _field_names(self)}

    def _repr_html_(self) -> str:
        """A notebook's display; a subclass with a picture or a table overrides this."""
        return f'<pre class="gradwalk">{html.escape(str(self))}</pre>'


def plain(value: Any) -> Any:
    """Convert the contents of a report to plain data."""
    if isinstance(value, Report):
        return value.to_dict()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, SourceLine):
        line: dict[str, Any] = {"file": value.file, "line": value.line, "text": value.text}
        return line if value.caller is None else {**line, "caller": plain(value.caller)}
    if isinstance(value, Edge):
        return list(value)
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(v) for v in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _field_names(value)}
    return value


def json_safe(value: Any) -> Any:
    """Replace NaN and inf by text, which JSON lacks."""
    value = plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: json_safe(item) for name, item in value.items()}
    return [json_safe(item) for item in value] if isinstance(value, list) else value


def _field_names(value: Any) -> list[str]:
    public = [f.name for f in fields(value) if not f.name.startswith("_")]
    return [name for name in public if not isinstance(getattr(value, name), Trace)]


def short(number: float | None) -> str:
    """A number in about nine characters: 0.7071, −1.5, 1.2e-09; `?` if it is unknown."""
    if number is None:
        return "?"
    text = f"{float(number):.4g}".replace("nan", "NaN")
    return text.replace("-", "−", 1) if text.startswith("-") else text


def telling(number: float | None, dtype: str) -> str:
    """A number as `short` shows it; with all its digits if those would show a whole number.

    1.0000001 is outside the domain of acos, and 1 is not.
    """
    text = short(number)
    if number is None or not math.isfinite(number):
        return text
    rounded = float(f"{number:.4g}")
    if rounded == number or not rounded.is_integer() or abs(rounded) > WHOLE:
        return text
    digits = str(dtype_named(dtype).type(number))
    return digits.replace("-", "−", 1) if digits.startswith("-") else digits


def large(count: int) -> str:
    """A count that may have thousands of digits: 1,024, about 1.15e18."""
    if count < 10**12:
        return f"{count:,}"
    return f"about {Decimal(count):.2e}".replace("e+", "e")


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines: first and last column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for first, *inner, last in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(inner, widths[1:])]
        lines.append("  ".join([f"{first:<{widths[0]}}", *cells, last]).rstrip())
    return lines
