"""Weights that are shared by mistake, and copies that were meant to be shared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.trace.live import numbers_of
from gradwalk.inspect.trace.routes import listed
from gradwalk.inspect.trace.trace import Edge, Trace
from gradwalk.inspect.trace.written_at import assignment, repetition

_CONTAINERS = ("ModuleList", "Sequential", "ModuleDict")
_ALIKE = 0.9  # cosine of two weights: those that were drawn apart have one near 0
_PRODUCTS = frozenset(("linear", "matmul", "addmm"))


def shared_weights(trace: Trace, model: Any) -> list[Finding]:
    """Layers that a container holds several times, and an output layer that is a copy."""
    if model is None or not hasattr(model, "named_modules"):
        return []
    return [*_repeated_layers(trace, model), *_untied(trace, model)]


def _repeated_layers(trace: Trace, model: Any) -> Iterator[Finding]:
    """`[nn.Linear(8, 8)] * 4` is one layer four times."""
    for path, module in model.named_modules():
        if type(module).__name__ not in _CONTAINERS:
            continue
        held: dict[int, list[str]] = {}
        layers = {}
        for name, layer in module._modules.items():
            if layer is not None and next(iter(layer.parameters()), None) is not None:
                held.setdefault(id(layer), []).append(name)
                layers[id(layer)] = layer
        for key, names in held.items():
            if len(names) > 1:
                kind = type(layers[key]).__name__
                yield Finding(
                    "shared layer",
                    path or type(model).__name__,
                    float(len(names)),
                    f"entries {listed(names, 4)} of {path or 'the model'} are one {kind}, not "
                    f"{len(names)}: they have the same weights, and their gradients add up.",
                    f"a new layer for each entry: [{kind}(...) for _ in range({len(names)})], not "
                    "[layer] * n; for layers that are meant to be shared, call one in a loop.",
                    repetition(trace) or assignment(trace, path),
                    confidence="certain",
                    basis="the entries are the same object.",
                )


def _untied(trace: Trace, model: Any) -> Iterator[Finding]:
    """An embedding and an output layer with the same numbers that are two parameters."""
    parameters = dict(model.named_parameters())
    tables = _used_as(trace, "embedding", 0)
    for index, name in sorted(tables.items()):
        one = parameters.get(name)
        for other_name in sorted(_outputs(trace)):
            other = parameters.get(other_name)
            if one is None or other is None or other is one or other_name == name:
                continue
            if tuple(one.shape) != tuple(other.shape) or not _are_alike(one, other):
                continue
            yield Finding(
                "untied weights",
                other_name.rpartition(".")[0],
                1.0,
                f"{other_name} began as a copy of {name} but is a parameter of its own: they are "
                "not tied, and every step takes them further apart.",
                f"share the parameter itself: head.weight = embedding.weight ({other_name} = "
                f"{name}), after anything that makes new parameters.",
                assignment(trace, other_name) or trace.nodes[index].line,
                confidence="likely",
                basis="their numbers are nearly the same, which two weights that are drawn apart "
                "never have.",
            )


def _used_as(trace: Trace, op: str, position: int) -> dict[int, str]:
    """The parameters that an op uses in this place: the node that uses them, and their names."""
    found = {}
    for node in trace:
        if node.op == op and len(node.args) > position:
            argument = node.args[position]
            if isinstance(argument, Edge) and argument.node in trace.names:
                found[node.index] = trace.names[argument.node]
    return found


def _outputs(trace: Trace) -> set[str]:
    """The names of the weights that matrix products use, perhaps transposed."""
    names = set()
    for node in trace:
        if node.op in _PRODUCTS:
            for _, edge in node.edges:
                while trace.nodes[edge.node].op in ("permute", "expand", "reshape"):
                    edge = trace.nodes[edge.node].edges[0][1]
                if edge.node in trace.names:
                    names.add(trace.names[edge.node])
    return names


def _are_alike(one: Any, other: Any) -> bool:
    a, b = (np.ravel(numbers_of(p)).astype(np.float64) for p in (one, other))
    size = np.linalg.norm(a) * np.linalg.norm(b)
    varied = a.std() > 0 and b.std() > 0
    return bool(varied and size and abs(a @ b) / size > _ALIKE)
