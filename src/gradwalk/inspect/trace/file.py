"""Trace files: a safetensors file whose header holds the trace as JSON. docs/inspect/trace-file.md.

Larger arrays are tensors beside the JSON, which has their statistics and a small thumbnail, so that
a reader can show much of a trace without loading arrays. Nothing in the file is code, and reading
it executes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.beside import beside_as_json, read_beside
from gradwalk.inspect.trace.file_json import (
    decode,
    encode,
    line_as_json,
    pairs,
    read_line,
    read_saved,
    read_shape,
    read_statistics,
    statistics_as_json,
    thumbnail,
    whole,
)
from gradwalk.inspect.trace.recorder import as_trace
from gradwalk.inspect.trace.trace import (
    Edge,
    Exit,
    Group,
    Kept,
    Saved,
    Shape,
    Sweep,
    Trace,
    TraceNode,
)
from gradwalk.io.errors import FileError, content_of, wrong
from gradwalk.io.safetensors_files import MOST_TENSORS, parse, read, write
from gradwalk.ops.core.dtypes import dtype_named, is_number

VERSION = 2
READ = (1, 2)  # version 1 has nothing about memory and time
INLINE = 16  # elements: smaller arrays are in the JSON
_KEY = "gradwalk_trace"
_BESIDE = "description"  # the array that holds the description of a very large trace
_LONGEST = 40_000_000  # characters in the header: a safetensors header has at most 100 MB


def save_trace(trace: Any, path: str | os.PathLike[str]) -> None:
    """Write a trace (or the graph behind a loss) to one file, atomically.

    >>> import gradwalk as gw, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "neuron.trace"
    >>> a = gw.Value(3.0, label="a")
    >>> gw.save_trace(gw.record(a * a), path)
    >>> gw.load_trace(path).grad("a")
    6.0
    """
    described, arrays = describe(as_trace(trace))
    if len(arrays) >= MOST_TENSORS:
        raise ValueError(
            f"{path} is not saved: the trace has {len(arrays):,} arrays, too many for one file. "
            'Fix: record(keep="stats"), or with a budget.'
        )
    text = json.dumps(described, allow_nan=False)
    if len(text) > _LONGEST:
        arrays[_BESIDE] = np.frombuffer(text.encode(), np.uint8)
        text = json.dumps({"version": VERSION, "beside": _BESIDE})
    write(Path(path), arrays, {_KEY: text})


def describe(trace: Trace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Describe a trace as JSON, with its larger arrays by name."""
    writer = _Writer()
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
        "sweeps": [writer.sweep(f"s{i}", s) for i, s in enumerate(trace.sweeps)],
        "names": {str(index): name for index, name in trace.names.items()},
        "reduced": trace.reduced,
        "exits": [
            {"node": e.node, "how": e.how, "line": line_as_json(e.line)} for e in trace.exits
        ],
        "bytes_kept": trace.bytes_kept,
        "saved": pairs(trace.saved),
        "memory": [[*edge, m.bytes, m.memory] for edge, m in trace.memory.items()],
        "regions": pairs(trace.regions),
        "region_saved": pairs(trace.region_saved),
        "seconds": pairs(trace.seconds),
        **({} if trace.beside is None else {"counterparts": beside_as_json(trace.beside)}),
    }
    return described, writer.arrays


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace. A damaged file, or one of another kind, raises `gradwalk.io.FileError`."""
    return open_trace(Path(path))[0]


def open_trace(path: Path) -> tuple[Trace, dict[str, Any], dict[str, Any]]:
    """Read a trace file; return the trace with its description and arrays."""
    arrays, metadata = read(path)
    with content_of(path):
        return _read_trace(arrays, metadata, path)


def read_trace(content: bytes, path: Path) -> tuple[Trace, dict[str, Any], dict[str, Any]]:
    """The same from bytes; messages name `path`."""
    with content_of(path):
        return _read_trace(*parse(content, path), path)


def _read_trace(
    arrays: dict[str, Any], metadata: dict[str, str], path: Path
) -> tuple[Trace, dict[str, Any], dict[str, Any]]:
    if _KEY not in metadata:
        raise wrong(path, "it is a safetensors file, but not a trace. Fix: gradwalk.load(path).")
    try:
        described = _parsed(metadata[_KEY])
        version = described["version"]
        if version not in READ:
            raise wrong(
                path, f"it has version {version}, and this gradwalk reads versions 1 and {VERSION}."
            )
        if "beside" in described:
            described = _parsed(arrays.pop(described["beside"]).tobytes())
        return _Reader(arrays).read(described), described, arrays
    except (FileError, MemoryError):
        raise
    except Exception as error:
        raise wrong(path, f"its description is inconsistent ({error!r:.300}).") from None


def _parsed(text: str | bytes) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


class _Writer:
    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def node(self, node: TraceNode) -> dict[str, Any]:
        """Describe one node; defaults are omitted."""
        optional = {
            "attrs": {name: encode(value) for name, value in node.attrs.items()} or None,
            "label": node.label or None,
            "note": node.note or None,
            "group": node.group,
            "line": line_as_json(node.line),
            "block": line_as_json(node.block),
            "needs_grad": None if node.needs_grad else False,
        }
        return {
            "op": node.op,
            "args": [
                list(a) if isinstance(a, Edge) else {"constant": self.kept(a, f"c{node.index}.{i}")}
                for i, a in enumerate(node.args)
            ],
            "metas": [[list(shape), dtype] for shape, dtype in node.metas],
            "values": self.several(node.values, f"v{node.index}"),
            **{name: value for name, value in optional.items() if value is not None},
        }

    def sweep(self, start: str, sweep: Sweep) -> dict[str, Any]:
        return {
            "seeds": [
                [edge.node, edge.output, self.kept(seed, f"{start}.r{edge.node}.{edge.output}")]
                for edge, seed in sweep.seeds.items()
            ],
            "visits": sweep.visits,
            "grads": [[i, self.several(gs, f"{start}.g{i}")] for i, gs in sweep.grads.items()],
            "pushed": [[i, self.several(ps, f"{start}.p{i}")] for i, ps in sweep.pushed.items()],
            "line": line_as_json(sweep.line),
            "seconds": pairs(sweep.seconds),
        }

    def several(self, values: Sequence[Kept], name: str) -> list[Any]:
        return [self.kept(value, f"{name}.{i}") for i, value in enumerate(values)]

    def kept(self, value: Kept, name: str) -> Any:
        """Write a number or a small array into the JSON, a large array beside it."""
        if isinstance(value, Statistics):
            return {"statistics": statistics_as_json(value)}
        if not isinstance(value, np.ndarray) or value.size <= INLINE:
            return encode(value)
        self.arrays[name] = np.ascontiguousarray(value)
        described = {"array": name, "statistics": statistics_as_json(Statistics.of(value))}
        if is_number(value.dtype):
            described["thumbnail"] = encode(thumbnail(value))
        return described


class _Reader:
    """Read a description and check every index and shape, so that tools can rely on them."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        self.arrays = arrays
        self.trace = Trace()

    def read(self, described: dict[str, Any]) -> Trace:
        trace = self.trace
        trace.scalar = bool(described["scalar"])
        for g in described["groups"]:
            above = g["above"]
            if above is not None and not 0 <= above < len(trace.groups):
                raise ValueError(f"group {len(trace.groups)} lies in group {above}")
            names = str(g["path"]), str(g["kind"])
            trace.groups.append(Group(*names, whole(g["call"]), above, str(g["class"])))
        for index, n in enumerate(described["nodes"]):
            trace.add(self._node(index, n))
        trace.sweeps = [self._sweep(s) for s in described["sweeps"]]
        trace.names = {self._node_at(int(i)): str(n) for i, n in described["names"].items()}
        trace.reduced = {
            str(what): [self._node_at(i) for i in nodes]
            for what, nodes in described["reduced"].items()
        }
        trace.exits = [
            Exit(self._node_at(e["node"]), str(e["how"]), read_line(e["line"]))
            for e in described["exits"]
        ]
        kept = sum(array.nbytes for array in self.arrays.values())
        trace.bytes_kept = whole(described.get("bytes_kept", kept))
        # Saved memory and timings, which version 1 lacks.
        trace.saved = {self._node_at(i): read_saved(kept) for i, kept in described.get("saved", ())}
        for node, output, size, memory in described.get("memory", ()):
            place = Saved("out", whole(size), whole(memory))
            trace.memory[self._output(node, output)] = place
        trace.regions = {self._node_at(i): whole(r) for i, r in described.get("regions", ())}
        trace.region_saved = {
            whole(r): read_saved(kept) for r, kept in described.get("region_saved", ())
        }
        trace.seconds = self._seconds(described)
        if "counterparts" in described:
            trace.beside = read_beside(described["counterparts"], self._node_at)
        return trace

    def _seconds(self, described: dict[str, Any]) -> dict[int, float]:
        return {self._node_at(i): float(s) for i, s in described.get("seconds", ())}

    def _node(self, index: int, n: dict[str, Any]) -> TraceNode:
        args: list[Any] = []
        for a in n["args"]:
            if isinstance(a, dict):
                args.append(self.kept(a["constant"]))
                continue
            try:
                args.append(self._output(*a))
            except (ValueError, TypeError):
                text = f"node {index} names an input {a} that does not exist"
                raise ValueError(text) from None
        group = n.get("group")
        if group is not None and not 0 <= group < len(self.trace.groups):
            raise ValueError(f"node {index} lies in group {group}, which does not exist")
        metas = tuple((read_shape(shape), str(dtype)) for shape, dtype in n["metas"])
        if not metas or len(n["values"]) != len(metas):
            raise ValueError(f"node {index} has {len(metas)} outputs and {len(n['values'])} values")
        for _, dtype in metas:
            dtype_named(dtype)
        return TraceNode(
            index=index,
            op=str(n["op"]),
            args=tuple(args),
            attrs={str(name): decode(value) for name, value in n.get("attrs", {}).items()},
            label=str(n.get("label", "")),
            group=group,
            line=read_line(n.get("line")),
            needs_grad=bool(n.get("needs_grad", True)),
            metas=metas,
            values=self._fitting(index, n["values"], [shape for shape, _ in metas]),
            note=str(n.get("note", "")),
            block=read_line(n.get("block")),
        )

    def _sweep(self, s: dict[str, Any]) -> Sweep:
        nodes = self.trace.nodes
        sweep = Sweep(seeds={}, line=read_line(s["line"]), seconds=self._seconds(s))
        for node, output, seed in s["seeds"]:
            edge = self._output(node, output)
            (sweep.seeds[edge],) = self._fitting(node, [seed], [nodes[node].metas[output][0]])
        if not sweep.seeds:
            raise ValueError("a backward pass starts nowhere")
        sweep.visits = [self._node_at(i) for i in s["visits"]]
        if len(set(sweep.visits)) != len(sweep.visits):
            raise ValueError("a backward pass visits a node twice")
        for i, parts in s["grads"]:
            shapes = [shape for shape, _ in nodes[self._node_at(i)].metas]
            sweep.grads[i] = self._fitting(i, parts, shapes)
        for i, parts in s["pushed"]:
            operands = [
                nodes[a.node].metas[a.output][0] if isinstance(a, Edge) else None
                for a in nodes[self._node_at(i)].args
            ]
            # None: an in-place write through a view, whose operands are not its inputs.
            some = bool(parts) or self.trace.scalar
            sweep.pushed[i] = tuple(self._fitting(i, parts, operands if some else [], True))
        if set(sweep.visits) != set(sweep.pushed) or not set(sweep.visits) <= set(sweep.grads):
            raise ValueError("the visits of a backward pass do not match its gradients and pushes")
        return sweep

    def _fitting(
        self, index: int, parts: list[Any], shapes: Sequence[Shape | None], optional: bool = False
    ) -> list[Kept]:
        """Read values or gradients and check their shapes."""
        values = [self.kept(part) for part in parts]
        if len(values) != len(shapes):
            raise ValueError(
                f"node {index} needs {len(shapes)} values, and the file has {len(values)}"
            )
        for kept, shape in zip(values, shapes):
            if shape is None or (kept is None and (optional or not self.trace.scalar)):
                continue
            if self.trace.scalar:
                fits = isinstance(kept, (bool, int, float))
            else:
                fits = isinstance(kept, (np.ndarray, Statistics)) and kept.shape == shape
            if not fits:
                what = getattr(kept, "shape", None) or repr(kept)[:40]
                raise ValueError(f"node {index} has shape {shape}, and the file has {what} for it")
        return values

    def _node_at(self, index: Any) -> int:
        if type(index) is not int or not 0 <= index < len(self.trace.nodes):
            raise ValueError(f"there is no node {index}")
        return index

    def _output(self, node: Any, output: Any) -> Edge:
        metas = self.trace.nodes[self._node_at(node)].metas
        if type(output) is not int or not 0 <= output < len(metas):
            raise ValueError(f"node {node} has no output {output}")
        return Edge(node, output)

    def kept(self, value: Any) -> Kept:
        if isinstance(value, dict) and "array" in value:
            return self.arrays[value["array"]]
        if isinstance(value, dict) and "statistics" in value:
            return read_statistics(value["statistics"])
        return decode(value)
