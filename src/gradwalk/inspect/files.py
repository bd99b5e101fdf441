"""Trace files: a safetensors file whose header holds the trace as JSON. docs/trace-file.md.

Arrays of more than a few elements lie beside the JSON, as tensors; their statistics and a small
thumbnail are in it, so that a reader can show much of a trace without touching the numbers.
Nothing in the file is code, and reading it executes nothing.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.statistics import Statistics
from gradwalk.inspect.trace import Edge, Exit, Group, Kept, Sweep, Trace, TraceNode
from gradwalk.io.errors import FileError, wrong
from gradwalk.io.tensors import read, write
from gradwalk.ops.op import Op

VERSION = 1
INLINE = 16  # elements: smaller arrays stand in the JSON itself
SIDE = 8  # of a thumbnail
_KEY = "gradwalk_trace"


def save_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace to one file, atomically.

    >>> import gradwalk as gw, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "neuron.trace"
    >>> a = gw.Value(3.0, label="a")
    >>> gw.save_trace(gw.record(a * a), path)
    >>> gw.load_trace(path).grad("a")
    6.0
    """
    arrays: dict[str, Any] = {}
    writer = _Writer(arrays)
    described = {
        "version": VERSION,
        "scalar": trace.scalar,
        "nodes": [writer.node(n) for n in trace.nodes],
        "groups": [
            {
                "path": g.path,
                "kind": g.kind,
                "call": g.call,
                "above": g.above,
                "class": g.class_name,
            }
            for g in trace.groups
        ],
        "sweeps": [writer.sweep(i, s) for i, s in enumerate(trace.sweeps)],
        "names": {str(index): name for index, name in trace.names.items()},
        "reduced": trace.reduced,
        "exits": [
            {"node": e.node, "how": e.how, "line": None if e.line is None else _line(e.line)}
            for e in trace.exits
        ],
    }
    write(Path(path), arrays, {_KEY: json.dumps(described, allow_nan=False)})


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace; a file that is damaged or of another kind raises `gradwalk.io.FileError`."""
    path = Path(path)
    arrays, metadata = read(path)
    if _KEY not in metadata:
        raise wrong(path, "it is a safetensors file, but no trace. Fix: gradwalk.load(path).")
    try:
        described = json.loads(metadata[_KEY])
        version = described["version"]
        if version != VERSION:
            raise wrong(
                path, f"it has version {version}, and this gradwalk reads version {VERSION}."
            )
        return _Reader(arrays).trace(described)
    except FileError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise wrong(path, f"its description does not hold together ({error!r}).") from None


class _Writer:
    def __init__(self, arrays: dict[str, Any]) -> None:
        self.arrays = arrays

    def node(self, node: TraceNode) -> dict[str, Any]:
        """One node; what is as usual is left out."""
        found: dict[str, Any] = {
            "op": node.op,
            "args": [
                list(a) if isinstance(a, Edge) else {"constant": self.kept(a, f"c{node.index}.{i}")}
                for i, a in enumerate(node.args)
            ],
            "metas": [[list(shape), dtype] for shape, dtype in node.metas],
            "values": [self.kept(v, f"v{node.index}.{i}") for i, v in enumerate(node.values)],
        }
        if node.attrs:
            found["attrs"] = {name: encode(value) for name, value in node.attrs.items()}
        for name in ("label", "note"):
            if getattr(node, name):
                found[name] = getattr(node, name)
        if node.group is not None:
            found["group"] = node.group
        if node.line is not None:
            found["line"] = _line(node.line)
        if not node.needs_grad:
            found["needs_grad"] = False
        return found

    def sweep(self, number: int, sweep: Sweep) -> dict[str, Any]:
        start = f"s{number}"
        return {
            "seeds": [
                [edge.node, edge.output, self.kept(seed, f"{start}.r{edge.node}.{edge.output}")]
                for edge, seed in sweep.seeds.items()
            ],
            "visits": sweep.visits,
            "grads": [
                [index, [self.kept(g, f"{start}.g{index}.{i}") for i, g in enumerate(parts)]]
                for index, parts in sweep.grads.items()
            ],
            "pushed": [
                [index, [self.kept(p, f"{start}.p{index}.{i}") for i, p in enumerate(parts)]]
                for index, parts in sweep.pushed.items()
            ],
            "line": None if sweep.line is None else _line(sweep.line),
        }

    def kept(self, value: Kept, name: str) -> Any:
        """A number as a number, a small array in place, a large one beside the JSON."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return encode(value)
        if isinstance(value, Statistics):
            return {"statistics": _statistics(value)}
        if not isinstance(value, (np.ndarray, np.generic)):
            return encode(value)
        array = np.asarray(value)
        if array.size <= INLINE:
            return encode(array)
        self.arrays[name] = np.ascontiguousarray(array)
        found = {"array": name, "statistics": _statistics(Statistics.of(array))}
        if array.ndim >= 1 and array.dtype.kind in "fiub":
            found["thumbnail"] = encode(thumbnail(array))
        return found


class _Reader:
    def __init__(self, arrays: dict[str, Any]) -> None:
        self.arrays = arrays

    def trace(self, described: dict[str, Any]) -> Trace:
        """Every index is checked, so that tools can rely on it."""
        trace = Trace()
        trace.scalar = bool(described["scalar"])
        for g in described["groups"]:
            above = g["above"]
            if above is not None and not 0 <= above < len(trace.groups):
                raise ValueError(f"group {len(trace.groups)} lies in group {above}")
            trace.groups.append(Group(g["path"], g["kind"], g["call"], above, g["class"]))
        for index, n in enumerate(described["nodes"]):
            trace.add(self._node(trace, index, n))
        trace.sweeps = [self._sweep(trace, s) for s in described["sweeps"]]
        trace.names = {int(index): str(name) for index, name in described["names"].items()}
        trace.reduced = {what: list(nodes) for what, nodes in described["reduced"].items()}
        for e in described["exits"]:
            line = None if e["line"] is None else SourceLine(*e["line"])
            trace.exits.append(Exit(int(e["node"]), str(e["how"]), line))
        left = [e.node for e in trace.exits]
        for listed in (left, trace.names, *trace.reduced.values()):
            for index in listed:
                self._existing(trace, index)
        return trace

    def _node(self, trace: Trace, index: int, n: dict[str, Any]) -> TraceNode:
        args: list[Any] = []
        for a in n["args"]:
            if isinstance(a, dict):
                args.append(self.kept(a["constant"]))
                continue
            edge = Edge(*a)
            if not 0 <= edge.node < index or not 0 <= edge.output < len(
                trace.nodes[edge.node].metas
            ):
                raise ValueError(f"node {index} names an input {list(edge)} that is not there")
            args.append(edge)
        group = n.get("group")
        if group is not None and not 0 <= group < len(trace.groups):
            raise ValueError(f"node {index} lies in group {group}, which is not there")
        metas = tuple((tuple(int(k) for k in shape), str(dtype)) for shape, dtype in n["metas"])
        if not metas or len(n["values"]) != len(metas):
            raise ValueError(f"node {index} has {len(metas)} outputs and {len(n['values'])} values")
        line = n.get("line")
        return TraceNode(
            index=index,
            op=str(n["op"]),
            args=tuple(args),
            attrs={str(name): decode(value) for name, value in n.get("attrs", {}).items()},
            label=str(n.get("label", "")),
            group=group,
            line=None if line is None else SourceLine(*line),
            needs_grad=bool(n.get("needs_grad", True)),
            metas=metas,
            values=[self.kept(v) for v in n["values"]],
            note=str(n.get("note", "")),
        )

    def _sweep(self, trace: Trace, s: dict[str, Any]) -> Sweep:
        found = Sweep(
            seeds={Edge(node, output): self.kept(seed) for node, output, seed in s["seeds"]},
            visits=[int(i) for i in s["visits"]],
            grads={int(i): [self.kept(g) for g in parts] for i, parts in s["grads"]},
            pushed={int(i): tuple(self.kept(p) for p in parts) for i, parts in s["pushed"]},
            line=None if s["line"] is None else SourceLine(*s["line"]),
        )
        for index in (*(e.node for e in found.seeds), *found.visits, *found.grads, *found.pushed):
            self._existing(trace, index)
        if not found.seeds:
            raise ValueError("a backward pass starts nowhere")
        return found

    def _existing(self, trace: Trace, index: int) -> None:
        if not 0 <= index < len(trace.nodes):
            raise ValueError(f"there is no node {index}")

    def kept(self, value: Any) -> Kept:
        if isinstance(value, dict) and "array" in value:
            return self.arrays[value["array"]]
        if isinstance(value, dict) and "statistics" in value:
            numbers = {name: decode(v) for name, v in value["statistics"].items()}
            return Statistics(**numbers)
        return decode(value)


# -- small things as JSON ------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """Attributes and small numbers as JSON; what is not JSON is an object with one key."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else {"integer": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.generic):
        return encode(np.asarray(value))
    if isinstance(value, np.ndarray):
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
    return {"opaque": repr(value)[:200]}  # seen, not computed with


def decode(value: Any) -> Any:
    """The other way round."""
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    kind = next(iter(value))
    content = value[kind]
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
        return np.dtype(content)
    if kind == "dict":
        return {decode(k): decode(v) for k, v in content}
    if kind == "small":
        numbers = [decode(v) for v in content]
        return np.array(numbers, dtype=value["dtype"]).reshape(value["shape"])
    if kind == "op":
        from gradwalk.ops import TABLE

        return TABLE[content]
    if kind == "opaque":
        return content
    raise ValueError(f"nothing is known of {kind!r}")


def _line(line: SourceLine) -> list[Any]:
    return [line.file, line.line, line.text, line.function]


def _statistics(statistics: Statistics) -> dict[str, Any]:
    return {name: encode(value) for name, value in statistics.to_dict().items()}


def thumbnail(array: Any) -> Any:
    """At most 8 × 8 numbers: means of blocks of the last two dimensions, the first of others."""
    while array.ndim > 2:
        array = array[0] if array.shape[0] else array.reshape(0, array.shape[-1])
    grid = array.reshape(1, -1) if array.ndim == 1 else array
    if not grid.size:
        return np.zeros((0, 0), "f4")
    rows = np.array_split(np.arange(grid.shape[0]), min(SIDE, grid.shape[0]))
    columns = np.array_split(np.arange(grid.shape[1]), min(SIDE, grid.shape[1]))
    with np.errstate(all="ignore"):
        means = [[np.mean(grid[r[0] : r[-1] + 1, c[0] : c[-1] + 1]) for c in columns] for r in rows]
    return np.array(means, "f4")
