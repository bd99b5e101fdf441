"""Inside a recurrent op: its gradient over time, and its gates.

`lstm`, `gru` and `rnn` are one node for a whole sequence. We cut the sequence into pieces,
recompute each with the op itself, and pull the gradient of the state through it with the op's own
rule. The numbers are those of the step-by-step expansion, at the price of one more pass through the
op.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from gradwalk.inspect.health.checks import RECURRENT, SLOPES, why_so_large
from gradwalk.inspect.health.findings import Factor, Finding, Limits, percent
from gradwalk.inspect.health.gradient_flow import Anatomy, Layer
from gradwalk.inspect.report import short
from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.array_statistics import array_of, norm_of
from gradwalk.inspect.trace.trace import TraceNode
from gradwalk.ops import TABLE
from gradwalk.ops.network.recurrent import GATES, times

PIECES = 24  # a sequence is cut into about so many,
FEW = 4  # or so many where only some rows are looked at
# Gates that keep the state: wide open they remember, which is healthy.
KEEPERS = {"lstm": "forget", "gru": "update"}
WEIGHT_OF_STATE = {"lstm": 4, "gru": 3, "rnn": 3}  # which operand multiplies the state


def unroll(anatomy: Anatomy, node: TraceNode, rows: int | None) -> Unrolled | None:
    """The state's gradient over time, for the whole batch or some rows; None if unknown."""
    given = [array_of(g) for g in anatomy.sweep.grads.get(node.index, ())]
    try:
        args = [array_of(a) for a in replay.operands(anatomy.trace, node)]
    except replay.NotReplayable:
        return None
    if node.op == "lstm_layer" and given and all(a is not None for a in args):
        node, args, given = _as_lstm(node, args, given)
    if not given or given[0] is None:
        return None
    states = len(node.metas)  # h, and of an LSTM c
    if any(a is None for a in args) or not all(a.size for a in args[: 1 + states]):
        return None
    some = slice(None, None, max(1, args[0].shape[1] // rows)) if rows else slice(None)
    # In float64: over a hundred steps float32 underflows to 0.
    x, *state = (np.asarray(a, np.float64)[..., some, :] for a in args[: 1 + states])
    weights = [np.asarray(a, np.float64) for a in args[1 + states :]]
    to_out = np.asarray(given[0], np.float64)[:, some]
    last = None if states < 2 or given[1] is None else np.asarray(given[1], np.float64)[some]
    return Unrolled(node, x, state, weights, to_out, last, FEW if rows else PIECES)


def _as_lstm(
    node: TraceNode, args: list[Any], given: list[Any]
) -> tuple[TraceNode, list[Any], list[Any]]:
    """PyTorch's layer as our op: it has two biases and also returns the last state."""
    *others, bias_x, bias_h = args
    out, last, cell = given
    if last is not None:
        out = np.zeros(*node.metas[0]) if out is None else out.copy()
        out[0 if node.attrs["reverse"] else -1] += last
    seen = replace(node, op="lstm", metas=(node.metas[0], node.metas[2]))
    return seen, [*others, bias_x + bias_h], [out, cell]


class Unrolled:
    """One recurrent node over time, computed piece by piece.

    `sizes` are norms of the gradient of the state, from the first time visited on; `lengths` says
    how many steps lie between two of them.
    """

    def __init__(
        self,
        node: TraceNode,
        x: Any,
        state: list[Any],
        weights: list[Any],
        to_out: Any,
        to_cell: Any,
        count: int,
    ) -> None:
        self.node = node
        self.to_out = to_out
        self.to_cell = to_cell
        self.op = TABLE[node.op]
        self.weights = weights
        self.several = len(state) > 1
        order = list(times(len(x), node.attrs["reverse"]))
        most = max(1, math.ceil((len(order) - 1) / count))
        # The first piece is one step, so that the first state is among those looked at.
        cuts = [0, *range(1, len(order), most), len(order)]
        self.pieces = [sorted(order[a:b]) for a, b in pairwise(cuts)]
        self.done: list[tuple[list[Any], Any]] = []  # operands and results of each
        for piece in self.pieces:
            args = [x[piece], *state, *weights]
            results = self.op.forward(*args, **node.attrs)
            self.done.append((args, results))
            out = results[0] if self.several or self.op.residuals else results
            state = [out[self._end(out)], *([results[1]] if self.several else [])]
        self.follow()

    def _end(self, piece: Any) -> int:
        """The time of a piece that is visited last."""
        return 0 if self.node.attrs["reverse"] else len(piece) - 1

    def follow(self, only_last: bool = False) -> None:
        """Pull the gradient of the state, or only that of the last state read, down the pieces."""
        args, _ = self.done[0]
        plan = self.op.plan((False, *(True for _ in args[1:]))).write()
        carried = [np.zeros_like(args[1])]
        if self.several:
            carried.append(np.zeros_like(args[2]) if self.to_cell is None else self.to_cell)
        sizes: list[float] = []
        for piece, (args, results) in zip(self.pieces[::-1], self.done[::-1]):
            end = self._end(piece)
            g = self.to_out[piece]
            if only_last and any(sizes):
                g = np.zeros_like(g)
            elif only_last:
                g[[k for k in range(len(piece)) if k != end]] = 0
            g[end] += carried[0]
            sizes.append(math.hypot(*(norm_of(part) for part in (g[end], *carried[1:]))))
            if len(sizes) < len(self.pieces):
                given = [g, carried[1]] if self.several else g
                pulled = plan.pull(given, plan.save(results, *args), self.node.attrs)
                carried = list(pulled[1 : 1 + len(carried)])
        self.sizes, self.lengths = sizes[::-1], [len(piece) for piece in self.pieces[1:]]

    def trim(self) -> None:
        """Drop the times after the last one that the loss reads."""
        count = max((k for k, size in enumerate(self.sizes, 1) if size), default=0)
        self.sizes, self.lengths = self.sizes[:count], self.lengths[: count - 1]

    @property
    def ratio(self) -> float:
        """The gradient of the first state relative to the last; 1 if undefined."""
        known = len(self.sizes) > 1 and all(map(math.isfinite, self.sizes))
        return self.sizes[0] / self.sizes[-1] if known else 1.0

    def factors(self, anatomy: Anatomy) -> list[Factor]:
        """One factor per time step, from the last state down to the first."""
        weight = self.node.args[WEIGHT_OF_STATE[self.node.op]]
        row = anatomy.row_norm(weight.node) if hasattr(weight, "node") else None
        factors = []
        for below, above, steps in list(zip(self.sizes, self.sizes[1:], self.lengths))[::-1]:
            each = (below / above) ** (1 / steps) if above else math.nan
            name = f"{self.node.op} step"
            factors += [Factor(self.node.index, name, each, "", self.node.line, row)] * steps
        return factors

    @cached_property
    def gates(self) -> dict[str, tuple[str, Any]]:
        """The activation and values of each gate, by name; times are in no order."""
        name = self.node.op
        if name == "rnn":
            activation = self.node.attrs["nonlinearity"]
            return {"state": (activation, np.concatenate([out for _, out in self.done]))}
        position = len(self.op.outputs)
        gates = np.concatenate([results[position] for _, results in self.done])
        size = gates.shape[1] // len(GATES[name])
        return {
            gate: (activation, gates[:, k * size : (k + 1) * size])
            for k, (gate, activation) in enumerate(GATES[name])
        }


# -- the findings ----------------------------------------------------------------------------------


def through_time(
    anatomy: Anatomy, limits: Limits, rows: int | None = None
) -> tuple[list[Finding], dict[int, float]]:
    """Gradients that vanish or explode over time, and flat gates; also how flat, by node."""
    findings: list[Finding] = []
    shares: dict[int, float] = {}
    for layer in anatomy.layers:
        node = anatomy.trace.nodes[layer.node]
        if node.op not in RECURRENT:
            continue
        unrolled = unroll(anatomy, node, rows)
        if unrolled is None:
            continue
        flat = _flat_gates(anatomy, layer, unrolled, limits, shares)
        flow = _flow(anatomy, layer, unrolled, limits)
        if flat and flow is not None and flow.kind == "vanishing":  # it is the reason
            flat[0].message += f"; {short(flow.value)} of the gradient reaches the first state"
            flat[0].factors = flow.factors
            flow = None
        findings += flat if flow is None else [*flat, flow]
    return findings, shares


def _flow(anatomy: Anatomy, layer: Layer, unrolled: Unrolled, limits: Limits) -> Finding | None:
    unrolled.trim()
    growing = unrolled.ratio > limits.exploding
    if growing:
        # The loss may pull harder at earlier outputs: only the effect of the steps counts.
        unrolled.follow(only_last=True)
        unrolled.trim()
    ratio, steps = unrolled.ratio, sum(unrolled.lengths)
    # All times train the same weights, so some fading is harmless. Below the square of the limit
    # for layers (1e-6, the precision of float32) the first times contribute nothing.
    if not (ratio > limits.exploding if growing else ratio < limits.vanishing**2):
        return None
    node = unrolled.node
    message = (
        f"inside layer {layer.title} ({node.op}) the gradient of the first state is {short(ratio)} "
        f"times that of the state {steps} steps later{_kept_by(unrolled)}"
    )
    return Finding(
        "exploding" if growing else "vanishing",
        layer.title,
        ratio,
        message,
        _change(node, growing),
        node.line,
        anatomy.written_at(layer, matrix_only=False),
        unrolled.factors(anatomy),
    )


def _kept_by(unrolled: Unrolled) -> str:
    """About how much of the state one step passes on."""
    op = unrolled.node.op
    if op in KEEPERS:
        gate = KEEPERS[op]
        size = short(unrolled.gates[gate][1].mean())
        return f"; its {gate} gate, which passes the state on, is {size} on average"
    activation, out = unrolled.gates["state"]
    slope = SLOPES[activation](out) if activation in SLOPES else out > 0
    return f"; the slope of its {activation} is {short(slope.mean())} on average"


def _change(node: TraceNode, growing: bool) -> str:
    if growing:
        return (
            "a smaller or orthogonal weight_hh (nn.init.orthogonal_), nn.utils.clip_grad_norm_ "
            "before each step, or shorter sequences"
        )
    if node.op == "rnn":
        return (
            "an LSTM or GRU, an orthogonal weight_hh (nn.init.orthogonal_), or a loss that also "
            "reads earlier outputs"
        )
    bias = "a forget bias of 1 to 3" if node.op == "lstm" else "an update bias of 1 to 3"
    return f"{bias} (in bias_hh), a loss that also reads earlier outputs, or shorter sequences"


def _flat_gates(
    anatomy: Anatomy,
    layer: Layer,
    unrolled: Unrolled,
    limits: Limits,
    shares: dict[int, float],
) -> list[Finding]:
    """At most one finding: the gate that is worst."""
    node = unrolled.node
    flat: dict[str, float] = {}
    for gate, (activation, out) in unrolled.gates.items():
        if activation in SLOPES:
            stuck = SLOPES[activation](out) < limits.flat
            if gate == KEEPERS.get(node.op):
                stuck &= out < 0.5
            flat[gate] = float(np.count_nonzero(stuck)) / out.size
    if not flat:
        return []
    worst = max(flat, key=lambda gate: flat[gate])
    shares[node.index] = share = flat[worst]
    if share < limits.saturated:
        return []
    activation = unrolled.gates[worst][0]
    what = f"{activation}s of the {worst} gate" if worst != "state" else f"{activation}s"
    also = [g for g, s in flat.items() if s >= limits.saturated and g != worst]
    more = f", and of the {' and '.join(also)} gate" if also else ""
    cause, change = why_so_large(anatomy, layer, node)
    return [
        Finding(
            "saturated",
            layer.title,
            share,
            f"{percent(share)} of the {what} inside layer {layer.title}{more} are flat (slope "
            f"below {percent(limits.flat)} of the largest)",
            change,
            node.line,
            cause,
            unrolled.factors(anatomy),
        )
    ]
