"""The layers in a trace, and how the gradient changes from one to the next.

A layer is an operation that multiplies by a learned matrix. Between two layers the gradient flows
along many edges; its **main path** follows, from each node, the consumer that sent most. The ratio
of gradient norms at two neighbours on that path is the **factor** of the operation between them, so
the product of the factors is exactly the ratio at its ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.health.findings import Factor, Finding, Limits, strongest
from gradwalk.inspect.report import short
from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.array_statistics import norm_of
from gradwalk.inspect.trace.routes import leading_to
from gradwalk.inspect.trace.trace import Edge, Kept, Trace

# Operations that multiply by a matrix, or look rows up in one.
LOOK_UP = frozenset(("embedding", "getitem", "gather_last"))
MULTIPLY = LOOK_UP | frozenset((
    "linear", "matmul", "addmm", "baddbmm", "einsum", "conv", "conv_bias", "conv_input", "lstm",
    "gru", "rnn", "lstm_layer",
))  # fmt: skip
CHOICES = ("softmax", "attention")  # how the names of ops end that weight what they choose from
BOUNDED = {"sigmoid": "at most 0.25", "tanh": "below 1 everywhere but at 0"}


@dataclass(slots=True)
class Layer:
    """One operation with a learned matrix."""

    node: int
    name: str  # "blocks.0.mlp.2", or the parameter's own name if it belongs to the model itself
    weight: int  # the node of its matrix (the largest, if there are several)
    parameters: list[int] = field(default_factory=list)
    call: int = 1  # number of the use, from 1
    below: int | None = None  # the layer that feeds it, as a position in the list of layers

    @property
    def title(self) -> str:
        """The name, and which call where there were several."""
        return self.name if self.call == 1 else f"{self.name} (call {self.call})"


class Anatomy:
    """A trace as layers; `health` asks it everything."""

    def __init__(self, trace: Trace, model: Any = None) -> None:
        self.trace = trace
        self.sweep = trace.sweep
        self.tensors: dict[int, Any] = {}  # parameters that are alive -> themselves
        self.names = self._parameter_names(model)
        self.layers: list[Layer] = []
        self.fed_by: list[int | None] = []  # node -> the last layer before it
        # Nodes made of parameters alone -> those parameters.
        self._derived: dict[int, tuple[int, ...]] = {}
        self._main: dict[int, int | None] = {}
        self._norms: dict[int, float] = {}
        self._find_layers()

    def _parameter_names(self, model: Any) -> dict[int, str]:
        trace = self.trace
        if model is None:
            leaves = [n for n in trace.nodes if n.is_leaf and n.needs_grad]
            return {n.index: trace.name(n.index) for n in leaves}
        listed = {name: index for index, name in trace.names.items()}
        names = {}
        for name, parameter in model.named_parameters():
            index = trace.lookup(parameter)
            if index is None:
                index = listed.get(name)  # of a trace that was read from a file
            if index is not None:
                names[index] = name
                self.tensors[index] = parameter
        return names

    # -- layers ------------------------------------------------------------------------------------

    def _find_layers(self) -> None:
        calls: dict[str, int] = {}
        for node in self.trace.nodes:
            if node.is_leaf:
                if node.index in self.names:
                    self._derived[node.index] = (node.index,)
                self.fed_by.append(None)
                continue
            learned = {a.node for a in node.args if isinstance(a, Edge) and a.node in self._derived}
            data = [i for i in node.inputs if i not in learned]
            alone = not data and all(isinstance(a, (Edge, int, float)) for a in node.args)
            # Of several layers that feed a node, the main one has the largest gradient.
            positions = [f for i in data if (f := self.fed_by[i]) is not None]
            feeding = max(positions, key=lambda k: self.gradient(self.layers[k].node), default=None)
            if learned and alone and node.op not in LOOK_UP:
                self._derived[node.index] = self._sources(learned)
            elif node.op in MULTIPLY and any(len(self.trace.nodes[i].shape) > 1 for i in learned):
                feeding = self._add_layer(node.index, learned, feeding, calls)
            self.fed_by.append(feeding)

    def _sources(self, learned: set[int]) -> tuple[int, ...]:
        """All parameters behind some nodes, each once."""
        return tuple(dict.fromkeys(p for i in sorted(learned) for p in self._derived[i]))

    def _add_layer(
        self, node: int, learned: set[int], below: int | None, calls: dict[str, int]
    ) -> int:
        matrices = [i for i in learned if len(self.trace.nodes[i].shape) > 1]
        largest = max(matrices, key=lambda i: math.prod(self.trace.nodes[i].shape))
        weight = self._derived[largest][0]
        full = self.names[weight]
        name = full.rpartition(".")[0] or full
        calls[name] = call = calls.get(name, 0) + 1
        parameters = sorted(self._sources(learned))
        self.layers.append(Layer(node, name, weight, parameters, call, below))
        return len(self.layers) - 1

    @cached_property
    def layer_at(self) -> dict[int, Layer]:
        """The layers by their nodes."""
        return {layer.node: layer for layer in self.layers}

    def layer_of(self, node: int) -> Layer | None:
        """The layer that a node is, or that feeds it."""
        position = self.fed_by[node]
        return None if position is None else self.layers[position]

    @cached_property
    def hidden(self) -> set[int]:
        """The nodes that some layer is computed from; the others are outputs."""
        nodes = self.trace.nodes
        return leading_to(self.trace, {i for n in self.layer_at for i in nodes[n].inputs})

    def data_of(self, layer: Layer) -> tuple[Kept, SourceLine | None]:
        """The operand of a layer that is not learned, and the line it was made at, if known."""
        for argument in self.trace.nodes[layer.node].args:
            if isinstance(argument, np.ndarray):
                return argument, None
            if isinstance(argument, Edge) and argument.node not in self._derived:
                return self.value(argument.node), self.trace.nodes[argument.node].line
        return None, None

    def spine(self) -> list[Layer]:
        """The layers from the first to the last, each fed by the one before it."""
        reached = [layer for layer in self.layers if self.gradient(layer.node) > 0]
        spine: list[Layer] = []
        at: Layer | None = reached[-1] if reached else self.layers[-1] if self.layers else None
        while at is not None:
            spine.append(at)
            at = None if at.below is None else self.layers[at.below]
        return spine[::-1]

    # -- gradients ---------------------------------------------------------------------------------

    def gradient(self, node: int) -> float:
        """The norm of the gradient of a node, over all its outputs; 0 if nothing arrived."""
        if node not in self._norms:
            parts = self.sweep.grads.get(node, ())
            self._norms[node] = math.hypot(*(norm_of(part) for part in parts))
        return self._norms[node]

    def above(self, node: int) -> int | None:
        """The next node on the main path to the loss: the consumer that sent most."""
        if node not in self._main:
            best, most = None, -1.0
            for consumer, argument in self.trace.consumers[node]:
                pushed = self.sweep.pushed.get(consumer)
                if pushed is None or consumer not in self.sweep.grads:
                    continue
                sent = norm_of(pushed[argument]) if argument < len(pushed) else 0.0
                if sent > most or math.isnan(sent):
                    best, most = consumer, math.inf if math.isnan(sent) else sent
            self._main[node] = best
        return self._main[node]

    def main_path(self, node: int) -> list[int]:
        """From a node up to the loss."""
        path = [node]
        while (following := self.above(path[-1])) is not None:
            path.append(following)
        return path

    def top_of(self, node: int) -> int:
        """The last layer on the main path of a node; the node itself if there is none."""
        return next((n for n in reversed(self.main_path(node)) if n in self.layer_at), node)

    def factors(self, node: int) -> list[Factor]:
        """The factors on the main path from its last layer down to a node.

        Their product is the gradient norm of the node relative to that of the layer.
        """
        path, layers = self.main_path(node), self.layer_at
        path = path[: path.index(self.top_of(node)) + 1]
        factors = []
        for below, above in reversed(list(pairwise(path))):
            before = self.gradient(above)
            value = self.gradient(below) / before if before else math.nan
            step = self.trace.nodes[above]
            factor = Factor(above, step.op, value, "", step.line)
            if above in layers:
                layer = layers[above]
                factor.layer, factor.weight_norm = layer.title, self.row_norm(layer.weight)
            factors.append(factor)
        return factors

    def row_norm(self, weight: int) -> float:
        """The norm of a matrix divided by the root of its number of rows."""
        rows = self.trace.nodes[weight].shape[0]
        return norm_of(self.value(weight)) / math.sqrt(max(rows, 1))

    # -- values and lines --------------------------------------------------------------------------

    def value(self, node: int) -> Kept:
        """The value of a node; where the trace has none, computed again from what it has."""
        kept = self.trace.nodes[node].value
        return self._recomputed.get(Edge(node)) if kept is None else kept

    @cached_property
    def _recomputed(self) -> dict[Edge, Any]:
        return replay.recomputed(self.trace)

    def written_at(self, layer: Layer, matrix_only: bool = True) -> SourceLine | None:
        """The line that last wrote a layer's matrix (or any parameter of it), or made it."""
        asked = [layer.weight] if matrix_only else layer.parameters
        writes = [self.trace.last_write(self.tensors.get(index)) for index in asked]
        times = [write for write in writes if write is not None]
        if times:
            return max(times, key=lambda write: write[0])[1]
        return self.trace.nodes[layer.weight].line


# -- the gradient from layer to layer --------------------------------------------------------------


def gradient_flow(anatomy: Anatomy, limits: Limits) -> list[Finding]:
    """Layers whose gradient is far smaller, or larger, than that of the last layer above them."""
    if not anatomy.layers:
        return []
    spine = {layer.node for layer in anatomy.spine()}
    small: list[tuple[float, Layer]] = []
    large: list[tuple[float, Layer]] = []
    for layer in anatomy.layers:
        if layer.node not in anatomy.sweep.grads:
            continue
        own = anatomy.gradient(layer.node)
        reference = anatomy.gradient(anatomy.top_of(layer.node))
        if not math.isfinite(own):
            if not anatomy.sweep.thrown_away:
                large.append((math.inf, layer))
        elif reference > 0:
            ratio = own / reference
            # Off the spine (queries and keys, gates) a gradient may be small by nature.
            if layer.node not in spine and ratio < limits.vanishing**2:
                ratio /= _taken_by_choices(anatomy, layer)
            if ratio < (limits.vanishing if layer.node in spine else limits.vanishing**2):
                small.append((ratio, layer))
            elif ratio > limits.exploding:
                large.append((ratio, layer))
    findings = []
    small = [(ratio, layer) for ratio, layer in small if ratio or not _is_no_fault(anatomy, layer)]
    if small:
        findings.append(_flow(anatomy, min(small, key=itemgetter(0)), small, growing=False))
    if large:
        findings.append(_flow(anatomy, max(large, key=itemgetter(0)), large, growing=True))
    return findings


def _taken_by_choices(anatomy: Anatomy, layer: Layer) -> float:
    """The factor of the softmaxes between a layer and the loss.

    Among many equal choices each has little weight, so queries and keys that have learned nothing
    get little; `saturated` judges a softmax that has made its choice.
    """
    taken = [f.value for f in anatomy.factors(layer.node) if f.op.endswith(CHOICES)]
    return math.prod(value for value in taken if 0 < value < 1)


def _is_no_fault(anatomy: Anatomy, layer: Layer) -> bool:
    """Whether a gradient of 0 is that of one call among others, or ends only at zero weights.

    The result of a call may be sliced away: the last step of a language model predicts nothing.
    Zero weights that do receive a gradient move on.
    """
    if norm_of(anatomy.sweep.grad(layer.weight)) > 0:
        return True
    zeros = [f for f in anatomy.factors(layer.node) if f.value == 0]
    return bool(zeros) and all(
        f.weight_norm == 0 and norm_of(anatomy.sweep.grad(anatomy.layer_at[f.node].weight)) > 0
        for f in zeros
    )


def _flow(
    anatomy: Anatomy,
    worst: tuple[float, Layer],
    among: list[tuple[float, Layer]],
    growing: bool,
) -> Finding:
    ratio, layer = worst
    if not math.isfinite(ratio):  # its factors would be 0, inf or NaN
        return Finding(
            "exploding",
            layer.title,
            ratio,
            f"the gradient of layer {layer.title} is not finite",
            "find_nan names the operation it began at, its line and a fix",
            anatomy.trace.nodes[layer.node].line,
            others=[other.title for _, other in among if other is not layer],
            _nodes={layer.node},
        )
    factors = anatomy.factors(layer.node)
    path = anatomy.main_path(layer.node)
    above = [anatomy.layer_at[n] for n in path if n in anatomy.layer_at]
    blamed = strongest(factors, growing)
    guilty = anatomy.layer_at.get(blamed.node) if blamed is not None else None
    return Finding(
        "exploding" if growing else "vanishing",
        layer.title,
        ratio,
        f"the gradient of layer {layer.title} is {short(ratio)} times that of layer "
        f"{above[-1].title}, {_layers(len(above) - 1)} above it",
        _change(blamed, growing),
        blamed.line if blamed is not None else anatomy.trace.nodes[layer.node].line,
        anatomy.written_at(guilty) if guilty is not None else None,
        factors,
        [other.title for _, other in among if other is not layer],
    )


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"


def _change(blamed: Factor | None, growing: bool) -> str:
    if growing and blamed is not None and not blamed.layer:
        return (
            f"a smaller factor at {blamed.op}, a normalisation, or nn.utils.clip_grad_norm_ before "
            "each step"
        )
    if growing:
        return (
            "smaller or orthogonal initial weights (nn.init), a normalisation between the layers, "
            "or nn.utils.clip_grad_norm_ before each step"
        )
    if blamed is not None and blamed.op in BOUNDED:
        return (
            f"relu or gelu in place of {blamed.op}, whose slope is {BOUNDED[blamed.op]}; or a "
            "residual connection (x + layer(x)), or a normalisation before it"
        )
    if blamed is not None and blamed.layer:
        return (
            "larger initial weights (nn.init.kaiming_normal_ before relu, xavier_normal_ before "
            "tanh), a residual connection (x + layer(x)), or a normalisation"
        )
    return "a residual connection (x + layer(x)) around the layers between, or a normalisation"
