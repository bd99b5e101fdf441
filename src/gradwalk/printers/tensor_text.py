"""The text of a tensor: what PyTorch prints for the same numbers, character for character."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwalk.ops.core.halves import widened


@dataclass
class PrintOptions:
    """What `set_printoptions` sets."""

    precision: int = 4  # digits after the point
    threshold: float = 1000  # elements above which a tensor is summarised
    edgeitems: int = 3  # shown at either end of a summarised axis
    linewidth: int = 80
    sci_mode: bool | None = None  # None: as the numbers need it


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
OPTIONS = PrintOptions()

# Beyond these a fixed-point column would be too wide, or would print small numbers as zero.
LARGEST_FIXED = 1e8
SMALLEST_FIXED = 1e-4
LARGEST_RATIO = 1e3

Array = npt.NDArray[Any]
Spell = Callable[[Any], str]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors are printed from now on; what is None stays, but `sci_mode` returns to automatic.

    `profile` is "default", "short" or "full", which summarises nothing.

    >>> import gradwalk as gw
    >>> gw.set_printoptions(precision=2)
    >>> gw.tensor([1.23456])
    tensor([1.23])
    >>> gw.set_printoptions(profile="default")
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"a profile is one of {', '.join(_PROFILES)}, not {profile!r}")
        vars(OPTIONS).update(vars(_PROFILES[profile]))
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    vars(OPTIONS).update({name: value for name, value in given.items() if value is not None})
    OPTIONS.sci_mode = sci_mode


def tensor_text(array: Array, suffixes: Sequence[str] = (), prefix: str = "tensor(") -> str:
    """Write `array` as PyTorch would, followed by `suffixes` such as `requires_grad=True`.

    >>> print(tensor_text(np.float32([[1, -2.5], [0, 10]]), ["requires_grad=True"]))
    tensor([[ 1.0000, -2.5000],
            [ 0.0000, 10.0000]], requires_grad=True)
    """
    indent = len(prefix)
    array = widened(array)  # Python's formats take no bfloat16
    if array.size == 0:
        # `[]` tells the shape (0,) and no other.
        shape = () if array.ndim == 1 else (f"size={array.shape}",)
        return _with_suffixes(prefix + "[]", (*shape, *suffixes), indent)

    if not OPTIONS.edgeitems:  # nothing else may tell the shape
        suffixes = (f"size={array.shape}", *suffixes)
    summarised = array.size > OPTIONS.threshold
    shown = _edges(array) if summarised else array
    cell, width = _cell(shown)
    if array.ndim == 0:
        return _with_suffixes(prefix + cell(array.item()), suffixes, indent)

    gaps = [summarised and length > 2 * OPTIONS.edgeitems for length in array.shape]
    body = _brackets(shown.tolist(), gaps, cell, width, indent)
    return _with_suffixes(prefix + body, suffixes, indent)


def _edges(array: Array) -> Array:
    """Keep both ends of every long axis: only shown elements decide the format."""
    for axis, length in enumerate(array.shape):
        if length > 2 * OPTIONS.edgeitems:
            kept = [*range(OPTIONS.edgeitems), *range(length - OPTIONS.edgeitems, length)]
            array = array.take(kept, axis=axis)
    return array


def _cell(shown: Array) -> tuple[Spell, int]:
    """How one element is written in its column, and the width of the column."""
    if not np.iscomplexobj(shown):
        spell, width = _speller(shown)
        return lambda value: spell(value).rjust(width), width
    (real, width), (imaginary, more) = _speller(shown.real), _speller(shown.imag)

    def pair(value: complex) -> str:
        second = imaginary(value.imag)
        sign = "" if second[0] in "+-" else "+"
        return f"{real(value.real).rjust(width)}{sign}{second}j"

    return pair, width + more + 1


def _speller(shown: Array) -> tuple[Spell, int]:
    """The format of one element, and the common column width."""
    if not np.issubdtype(shown.dtype, np.floating):
        return str, max((len(str(value)) for value in shown.ravel().tolist()), default=1)

    # Zero, inf and NaN fit any notation, so they neither choose it nor widen the column.
    telling = shown[np.isfinite(shown) & (shown != 0)].astype(np.float64)
    if telling.size == 0:
        return _spell_whole, 1
    largest, smallest = np.abs(telling).max(), np.abs(telling).min()
    whole = bool((telling == np.floor(telling)).all())
    with np.errstate(over="ignore"):
        spread = largest / smallest
    spell: Spell
    scientific = OPTIONS.sci_mode
    if scientific is None:
        scientific = bool(
            spread > LARGEST_RATIO or largest > LARGEST_FIXED or smallest < SMALLEST_FIXED
        )
    if scientific:
        spell = f"{{:.{OPTIONS.precision}e}}".format
    elif whole:
        spell = _spell_whole
    else:
        spell = f"{{:.{OPTIONS.precision}f}}".format
    return spell, max(len(spell(value)) for value in telling.tolist())


def _spell_whole(value: float) -> str:
    """The trailing point marks a whole number as a float."""
    return f"{value:.0f}." if np.isfinite(value) else str(value)


def _brackets(nested: list[Any], gaps: Sequence[bool], cell: Spell, width: int, indent: int) -> str:
    """Write nested lists one row per line; `gaps` marks the axes whose middle is omitted."""
    # One column further in than the opening bracket, so that elements line up below each other.
    margin = " " * (indent + 1)
    innermost = len(gaps) == 1
    if innermost:
        parts = [cell(value) for value in nested]
        ellipsis = " ..."
    else:
        parts = [_brackets(inner, gaps[1:], cell, width, indent + 1) for inner in nested]
        ellipsis = "..."
    if gaps[0]:
        parts.insert(OPTIONS.edgeitems, ellipsis)

    if innermost:
        per_line = max(1, (OPTIONS.linewidth - indent) // (width + len(", ")))
        starts = range(0, len(parts), per_line)
        lines = [", ".join(parts[start : start + per_line]) for start in starts]
        return "[" + f",\n{margin}".join(lines) + "]"
    # Rows follow directly; matrices are separated by one empty line, stacks of them by two, ...
    return "[" + ("," + "\n" * (len(gaps) - 1) + margin).join(parts) + "]"


def _with_suffixes(text: str, suffixes: Sequence[str], indent: int) -> str:
    """Append the suffixes and the closing parenthesis, on a new line where one would not fit."""
    # PyTorch counts two characters more than the last line has, and breaks that much earlier.
    used = len(text) - (text.rfind("\n") + 1) + 2
    for suffix in suffixes:
        needed = len(", ") + len(suffix)
        if used + needed > OPTIONS.linewidth:
            text += ",\n" + " " * indent + suffix
            used = indent + len(suffix)
        else:
            text += ", " + suffix
            used += needed
    return text + ")"
