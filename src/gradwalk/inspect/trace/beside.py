"""Two traces in one, side by side: which nodes are counterparts, how far apart, what was found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeBeside:
    """A node and its counterpart in the other trace; errors are relative to A's norm."""

    node: int
    counterpart: int | None
    own: float | None
    accumulated: float | None
    verdict: str  # "" in line, "differs", "precision", "gradient"


@dataclass(frozen=True, slots=True)
class FindingBeside:
    """One difference, in the words of the studio's findings."""

    kind: str
    layer: str
    nodes: tuple[int, ...]
    text: str
    line: str
    chain: str
    fix: str


@dataclass(slots=True)
class Beside:
    """What `diff` says about the nodes of a trace that holds both."""

    nodes: list[NodeBeside] = field(default_factory=list)
    findings: list[FindingBeside] = field(default_factory=list)


def beside_as_json(beside: Beside) -> dict[str, Any]:
    """Plain data for a trace file; infinite errors are left out."""

    def finite(number: float | None) -> float | None:
        return number if number is not None and math.isfinite(number) else None

    return {
        "nodes": [
            [n.node, n.counterpart, finite(n.own), finite(n.accumulated), n.verdict]
            for n in beside.nodes
        ],
        "findings": [asdict(finding) for finding in beside.findings],
    }


def read_beside(described: dict[str, Any], node_at: Callable[[Any], int]) -> Beside:
    """Read it again; `node_at` checks an index."""

    def number(given: Any) -> float | None:
        return None if given is None else float(given)

    nodes = [
        NodeBeside(
            node_at(node),
            None if other is None else node_at(other),
            number(own),
            number(accumulated),
            str(verdict),
        )
        for node, other, own, accumulated, verdict in described["nodes"]
    ]
    texts = [f.name for f in fields(FindingBeside) if f.name != "nodes"]
    findings = [
        FindingBeside(
            nodes=tuple(node_at(i) for i in found["nodes"]), **{n: str(found[n]) for n in texts}
        )
        for found in described["findings"]
    ]
    return Beside(nodes, findings)
