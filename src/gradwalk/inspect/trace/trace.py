"""Trace: a recorded computation as plain data. Every tool that shows or explains reads one.

Nodes are in the order of computation, so each comes after its inputs. A backward pass is a `Sweep`:
the order of its visits, what each node received, what it pushed along each edge. Numbers are floats
(a graph of Values) or arrays (of Tensors); `Statistics` replace an array that did not fit the
budget.
"""

from __future__ import annotations

import html
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gradwalk.graph.source import SourceLine, source_line
from gradwalk.graph.versions import stamp_of
from gradwalk.inspect.trace.array_statistics import in_bytes
from gradwalk.inspect.trace.beside import Beside

Shape = tuple[int, ...]
Kept = Any  # float, array, Statistics of an array that was not kept, or None


class Saved(NamedTuple):
    """One array that a node saves for backward."""

    name: str  # its name in the op's rule: an input, an output, a residual
    bytes: int  # of the whole memory, which the array may be a view of
    memory: int  # number of the memory; several nodes may save the same


class Edge(NamedTuple):
    """An operand that is another node: which node, and which of its outputs."""

    node: int
    output: int = 0


class Exit(NamedTuple):
    """A value that left the graph as plain numbers, which carry no gradient."""

    node: int
    how: str  # "item()", "numpy()", "tolist()", "bool()", ...
    line: SourceLine | None


@dataclass(slots=True)
class Group:
    """A module call or a named scope; groups are nested."""

    path: str  # "blocks.0.attention", as in named_modules(); of the outermost module its class
    kind: str  # "module" or "scope"
    call: int  # 1 for the first call of this path, then 2, ...
    above: int | None  # the group it lies in
    class_name: str = ""

    @property
    def name(self) -> str:
        """The path, with the number of the call if there were several."""
        return self.path if self.call == 1 else f"{self.path} (call {self.call})"


@dataclass(slots=True)
class TraceNode:
    """One value: a leaf, or the result of one operation."""

    index: int
    op: str  # "" of a leaf
    args: tuple[Any, ...] = ()  # Edge, or a constant: a number, an array
    attrs: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    group: int | None = None
    line: SourceLine | None = None
    needs_grad: bool = True
    metas: tuple[tuple[Shape, str], ...] = (((), "float"),)  # shape and dtype of each output
    values: list[Kept] = field(default_factory=list)  # of each output
    note: str = ""  # why no gradient can flow through it: "no_grad", "detach", "integer", ...
    defined: Any = None  # the op, if the program defined it; files do not have it
    block: SourceLine | None = None  # of a note "no_grad", the line that begins the block

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made it."""
        return not self.op

    @property
    def value(self) -> Kept:
        """The value of the first output."""
        return self.values[0] if self.values else None

    @property
    def shape(self) -> Shape:
        """The shape of the first output."""
        return self.metas[0][0]

    @property
    def edges(self) -> list[tuple[int, Edge]]:
        """The operands that are nodes, with their positions; a × a has two."""
        return [(i, a) for i, a in enumerate(self.args) if isinstance(a, Edge)]

    @property
    def inputs(self) -> list[int]:
        """The nodes it was computed from, one entry per edge."""
        return [a.node for a in self.args if isinstance(a, Edge)]


@dataclass(slots=True)
class Sweep:
    """One backward pass."""

    seeds: dict[Edge, Kept]  # roots and seeds
    visits: list[int] = field(default_factory=list)  # nodes with inputs, in the order visited
    grads: dict[int, list[Kept]] = field(default_factory=dict)  # of each output of each node
    pushed: dict[int, tuple[Kept, ...]] = field(default_factory=dict)  # along each argument
    line: SourceLine | None = None  # of the call to backward
    seconds: dict[int, float] = field(default_factory=dict)  # of each visit, if timed
    thrown_away: bool = False  # a gradient scaler found inf and skipped the step

    @property
    def root(self) -> int:
        """The node it started from (the first, if there were several)."""
        return next(iter(self.seeds)).node

    def grad(self, node: int, output: int = 0) -> Kept:
        """The gradient of a node; None if nothing arrived."""
        parts = self.grads.get(node)
        return None if parts is None else parts[output]


class Trace:
    """A recorded computation and its backward passes.

    >>> import gradwalk as gw
    >>> a = gw.Value(3.0, label="a")
    >>> trace = gw.record(a * a)
    >>> [node.op for node in trace], trace.grad(a)
    (['', 'mul'], 6.0)
    """

    def __init__(self) -> None:
        self.nodes: list[TraceNode] = []
        self.sweeps: list[Sweep] = []
        self.groups: list[Group] = []
        self.scalar = False  # whether the nodes are Values
        self.unrecorded = False  # made from an existing graph: backward() was not called
        self.reduced: dict[str, list[int]] = {}  # what did not fit -> of which nodes
        self.bytes_kept = 0
        self.saved: dict[int, tuple[Saved, ...]] = {}  # saved for backward
        self.memory: dict[Edge, Saved] = {}  # memory of each output
        self.regions: dict[int, int] = {}  # nodes of checkpointed regions -> which region
        self.region_saved: dict[int, tuple[Saved, ...]] = {}  # saved arguments of a region
        self.seconds: dict[int, float] = {}  # of each forward, if timed
        self.names: dict[int, str] = {}  # parameters -> their names in the model
        self.exits: list[Exit] = []  # values that left the graph
        self.beside: Beside | None = None  # of two traces in one, how they differ
        self._index: dict[Any, int] = {}  # live objects -> nodes; not part of a file
        self._outputs: dict[Any, int] = {}  # constants -> which output of their node
        self._alive: list[Any] = []  # keeps these keys valid
        self._earlier: dict[int, int] = {}  # leaves -> earlier versions, before in-place updates
        self._consumers: list[list[tuple[int, int]]] | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[TraceNode]:
        return iter(self.nodes)

    def __getitem__(self, thing: Any) -> TraceNode:
        return self.nodes[self.find(thing)]

    def find(self, thing: Any) -> int:
        """The node of a Value, a Tensor, an index, a label or a parameter's name."""
        if isinstance(thing, TraceNode):
            return thing.index
        if isinstance(thing, int) and not isinstance(thing, bool):
            if not 0 <= thing < len(self.nodes):
                raise KeyError(f"there is no node {thing}: the trace has {len(self.nodes)} nodes")
            return thing
        if isinstance(thing, str):
            return self._named(thing)
        index = self.lookup(thing)
        if index is None:
            raise KeyError(
                f"this {type(thing).__name__} is not in the trace: it was made outside the "
                "recording and not used in it. Fix: make or use it inside `with gradwalk.record():`"
            )
        return index

    def lookup(self, thing: Any) -> int | None:
        """The node of a live Value or Tensor; None if it is not in the trace.

        For a parameter that was updated and used again, the leaf that the last backward pass
        reached.
        """
        index = self._index.get(key_of(thing))
        return None if index is None else self._reached(index)

    def _reached(self, leaf: int) -> int:
        """The version of a leaf that the last backward pass reached, else the last version."""
        version: int | None = leaf if self.sweeps else None
        while version is not None and version not in self.sweeps[-1].grads:
            version = self._earlier.get(version)
        return leaf if version is None else version

    def output(self, thing: Any) -> int:
        """Which output of its node a live Tensor is; 0 for anything else."""
        if not hasattr(thing, "_array"):
            return 0
        return self._outputs.get(key_of(thing)) or int(thing._index)

    def shape_of(self, argument: Any) -> Shape:
        """The shape of an operand: an output of a node, or a constant."""
        if isinstance(argument, Edge):
            return self.nodes[argument.node].metas[argument.output][0]
        return np.shape(argument)

    def last_write(self, thing: Any) -> tuple[int, SourceLine | None] | None:
        """When (a monotonic count) and where a live Tensor was last written in place."""
        array = getattr(thing, "_array", None)
        stamp = None if array is None else stamp_of(array)
        return None if stamp is None else (stamp.time, source_line(stamp.code, stamp.position))

    def _named(self, name: str) -> int:
        matches = [n.index for n in self.nodes if name in (n.label, self.names.get(n.index))]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise KeyError(f"{len(matches)} nodes are called '{name}': {matches}; say which index")
        known = sorted({n.label for n in self.nodes if n.label} | set(self.names.values()))
        listed = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
        raise KeyError(f"no node is called '{name}'; names are: {listed or 'none'}")

    def name(self, index: int) -> str:
        """The name of a node: its label, its parameter's name, or its op and index."""
        node = self.nodes[index]
        return node.label or self.names.get(index) or f"{node.op or 'leaf'}#{index}"

    @property
    def sweep(self) -> Sweep:
        """The last backward pass."""
        if not self.sweeps:
            raise ValueError(
                "this trace has no backward pass. Fix: call loss.backward() inside "
                "`with gradwalk.record():`"
            )
        return self.sweeps[-1]

    @property
    def root(self) -> int:
        """Where the last backward pass started; without one, the last node."""
        return self.sweeps[-1].root if self.sweeps else len(self.nodes) - 1

    def grad(self, thing: Any) -> Kept:
        """The gradient of a node in the last backward pass; None if nothing arrived."""
        return self.sweep.grad(self.find(thing))

    @property
    def consumers(self) -> list[list[tuple[int, int]]]:
        """The consumers of every node as (node, argument) pairs."""
        if self._consumers is None or len(self._consumers) != len(self.nodes):
            self._consumers = [[] for _ in self.nodes]
            for node in self.nodes:
                for position, edge in node.edges:
                    self._consumers[edge.node].append((node.index, position))
        return self._consumers

    def group_path(self, index: int) -> list[Group]:
        """The groups of a node, outermost first."""
        groups: list[Group] = []
        at = self.nodes[index].group
        while at is not None:
            groups.append(self.groups[at])
            at = self.groups[at].above
        return groups[::-1]

    def add(self, node: TraceNode, *keys: Any) -> int:
        """Append a node, and remember which live objects it represents."""
        node.index = len(self.nodes)
        self.nodes.append(node)
        for key in keys:
            self._index[key] = node.index
        return node.index

    def to_dict(self) -> dict[str, Any]:
        """The trace in the form of docs/inspect/trace-file.md; large arrays as thumbnails.

        >>> import gradwalk as gw
        >>> a = gw.Value(3.0, label="a")
        >>> gw.record(a * a).to_dict()["nodes"][1]["args"]
        [[0, 0], [0, 0]]
        """
        from gradwalk.inspect.trace.file import describe

        return describe(self)[0]

    def __str__(self) -> str:
        """Summarize the recording: operations by kind, modules, what was kept."""
        kinds = Counter(n.op for n in self.nodes if n.op).most_common(8)
        listed = ", ".join(f"{count}\N{NO-BREAK SPACE}{op}" for op, count in kinds)
        wrapped = textwrap.wrap(listed, 78, initial_indent="  ", subsequent_indent="  ")
        lines = [repr(self), *(line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped)]
        outer = [g for g in self.groups if g.above is None]
        if outer:
            lines.append("  in " + ", ".join(g.name for g in outer[:6]))
        if not self.scalar:
            lines.append(f"  {in_bytes(self.bytes_kept)} of arrays kept")
        for what, nodes in self.reduced.items():
            lines.append(f"  no room for the {what} of {len(nodes)} nodes: statistics instead")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f'<pre class="gradwalk">{html.escape(str(self))}</pre>'

    def __repr__(self) -> str:
        count = sum(1 for n in self.nodes if n.op)
        kind = "Values" if self.scalar else "tensors"
        return f"<trace of {count} operations on {kind}, {len(self.sweeps)} backward pass(es)>"


def key_of(thing: Any) -> Any:
    """What identifies a live Value, Tensor or graph node while it lives."""
    node = getattr(thing, "_node", None)
    if node is not None:
        return id(node), thing._index
    return id(thing), 0
