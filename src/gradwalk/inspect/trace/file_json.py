"""Encode and decode the JSON of a trace file: numbers, attributes, statistics, lines.

Decoding checks everything: a file may come from anywhere.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.trace import Saved, Shape
from gradwalk.ops.core.dtypes import dtype_named, is_number
from gradwalk.ops.core.op import Op

SIDE = 8  # of a thumbnail
_COUNT = 2**63  # more elements than any tensor has


def encode(value: Any) -> Any:
    """Encode attributes and small arrays; values that JSON lacks become one-key objects."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else {"integer": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, (np.ndarray, np.generic)):
        flat = [encode(v) for v in value.reshape(-1).tolist()]
        return {"small": flat, "shape": list(value.shape), "dtype": str(value.dtype)}
    if isinstance(value, tuple):
        return {"tuple": [encode(v) for v in value]}
    if isinstance(value, list):
        return [encode(v) for v in value]
    if isinstance(value, slice):
        return {"slice": [encode(value.start), encode(value.stop), encode(value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, (np.dtype, type)) and not isinstance(value, Op):
        return {"dtype": str(np.dtype(value))}
    if isinstance(value, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in value.items()]}
    if isinstance(value, Op):
        return {"op": value.name}
    return {"opaque": repr(value)[:200]}  # shown, never computed with


def decode(value: Any) -> Any:
    """The inverse of `encode`."""
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    kind = next(iter(value), "an empty object")
    content: Any = value.get(kind)
    if kind == "tuple":
        return tuple(decode(v) for v in content)
    if kind == "integer":
        return int(content)
    if kind == "float":
        return float(content)
    if kind == "slice":
        return slice(*(decode(v) for v in content))
    if kind == "ellipsis":
        return Ellipsis
    if kind == "dtype":
        return dtype_named(content)
    if kind == "dict":
        return {decode(k): decode(v) for k, v in content}
    if kind == "small":
        numbers = np.array([decode(v) for v in content])
        dtype = dtype_named(value["dtype"])
        if not is_number(dtype) or not is_number(numbers.dtype):
            raise ValueError(f"an array of {dtype} that holds {content!r:.60}")
        return numbers.astype(dtype).reshape(value["shape"])
    if kind == "op":
        from gradwalk.ops import TABLE

        return TABLE[content]
    if kind == "opaque":
        return content
    raise ValueError(f"{kind!r} is unknown")


def line_as_json(line: SourceLine | None) -> list[Any] | None:
    if line is None:
        return None
    described: list[Any] = [line.file, line.line, line.text, line.function]
    return described if line.caller is None else [*described, line_as_json(line.caller)]


def read_line(line: Any) -> SourceLine | None:
    if line is None:
        return None
    file, number, text, function, *caller = line
    source = SourceLine(str(file), whole(number), str(text), str(function))
    if not caller:
        return source
    (led_there,) = caller
    return replace(source, caller=read_line(led_there[:4]))


def pairs(values: dict[int, Any]) -> list[list[Any]]:
    """A dictionary as a list of pairs: keys of JSON objects are text."""
    return [[key, value] for key, value in values.items()]


def read_saved(kept: Any) -> tuple[Saved, ...]:
    return tuple(Saved(str(name), whole(size), whole(memory)) for name, size, memory in kept)


def whole(number: Any) -> int:
    if type(number) is not int or not 0 <= number < _COUNT:
        raise ValueError(f"{number!r} is not a count")
    return number


def read_shape(sizes: Any) -> Shape:
    shape = tuple(whole(size) for size in sizes)
    if math.prod(shape) >= _COUNT:
        raise ValueError(f"nothing has shape {shape}")
    return shape


def statistics_as_json(statistics: Statistics) -> dict[str, Any]:
    return {name: encode(value) for name, value in statistics.to_dict().items()}


_COUNTS = ("count", "zeros", "nans", "infs")
_MEASURES = ("mean", "std", "low", "high", "norm")


def read_statistics(described: dict[str, Any]) -> Statistics:
    values = {name: decode(value) for name, value in described.items()}
    if not is_number(dtype_named(values["dtype"])):
        raise ValueError(f"statistics of {values['dtype']!r}")
    numbers: dict[str, Any] = {name: whole(values[name]) for name in _COUNTS}
    numbers |= {name: float(values[name]) for name in _MEASURES}
    return Statistics(
        shape=read_shape(values["shape"]),
        dtype=str(values["dtype"]),
        histogram=tuple(whole(n) for n in values["histogram"]),
        **numbers,
    )


def thumbnail(array: Any) -> Any:
    """At most 8 × 8 numbers: block means over the last two dimensions, at index 0 of the others.

    Four digits suffice: they become colours, and make up most of a large description.
    """
    while array.ndim > 2:
        array = array[0] if array.shape[0] else array.reshape(0, array.shape[-1])
    grid = array.reshape(1, -1) if array.ndim == 1 else array
    if not grid.size:
        return np.zeros((0, 0))
    rows, columns = (_block_sizes(size) for size in grid.shape)
    with np.errstate(all="ignore"):
        sums = np.add.reduceat(grid, np.cumsum(rows) - rows, 0, np.float64)
        sums = np.add.reduceat(sums, np.cumsum(columns) - columns, 1)
        means = sums / (rows[:, None] * columns)
        scale = 10.0 ** (3 - np.floor(np.log10(np.abs(means))))
        rounded = np.rint(means * scale) / scale
        return np.where(np.isfinite(rounded), rounded, means)  # 0, NaN and inf


def _block_sizes(size: int) -> Any:
    blocks = min(SIDE, size)
    return size // blocks + (np.arange(blocks) < size % blocks)
