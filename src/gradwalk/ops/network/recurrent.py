"""Recurrent networks over a whole sequence, one op each: a node per sequence, not per gate.

The input is multiplied by its weight for all times at once. Each time then needs one product with
the previous state, and the gates. Backward first computes everything that does not depend on later
times, for the whole sequence; at the end it computes the gradient of each weight as one product.
`expand` is the textbook's definition, step by step.

Shapes: x (time, batch, features), h and c (batch, hidden), weight_x (gates × hidden, features),
weight_h (gates × hidden, hidden), biases (gates × hidden,), out (time, batch, hidden).
Inside, the batch comes last, so that each gate is contiguous in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.graph.abstract import AbstractArray
from gradwalk.ops.core.dtypes import float32, is_half
from gradwalk.ops.core.op import Op, Shape, define
from gradwalk.ops.elementwise.activation import relu, sigmoid
from gradwalk.ops.elementwise.trigonometry import tanh
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.shape.reshaping import cast, split, squeeze, stack

Wants = tuple[bool, ...]
# How the rules are printed.
_BACK = "dz(t) = g(t) + dz(t+1) @ {weight_h}, back through the gates"
_FORMULA = {
    "x": f"dz @ {{weight_x}}, {_BACK}",
    "h": f"dz(1) @ {{weight_h}}, {_BACK}",
    "weight_x": f"Σ dz(t)ᵀ @ {{x}}(t), {_BACK}",
    "weight_h": f"Σ dz(t)ᵀ @ h(t−1), {_BACK}",
    "bias": f"Σ dz(t), {_BACK}",
}
# The gates in the residual `gates`, in order, and the activation of each.
GATES = {
    "lstm": (
        ("input", "sigmoid"),
        ("forget", "sigmoid"),
        ("candidate", "tanh"),
        ("output", "sigmoid"),
    ),
    "gru": (("reset", "sigmoid"), ("update", "sigmoid"), ("candidate", "tanh")),
}


def times(count: int, reverse: bool) -> range:
    """The times in the order they are visited."""
    return range(count - 1, -1, -1) if reverse else range(count)


def _turned(x: Any) -> Any:
    """The last two dimensions, one of them the batch, exchanged."""
    return np.ascontiguousarray(x.mT)


class TimeStep:
    """A part of a forward or of a rule, on arrays, some of which it changes in place. Where that
    pays it is native code, which tensors/single_calls.py makes of it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.native: Any = None
        PARTS.append(self)

    def on(self, *arrays: Any) -> Callable[..., None]:
        """What computes it where its largest arrays are like these."""
        native = self.native
        return native if native is not None and native.is_large(arrays) else self.function


PARTS: list[TimeStep] = []
_SMALL = 1 << 12  # elements of a matrix


def _from_input(x: Any, weight_x: Any, bias: Any) -> Any:
    """The contribution of the input to every gate, at all times: (time, gates × hidden, batch)."""
    out = matmul_op(weight_x, _turned(x))
    out += bias[:, None]
    return out


def _times(weight: Any, x: Any) -> Any:
    """The product of two matrices; NumPy's for small ones, which takes as long as a call of the
    op, at every time."""
    if x.__class__ is np.ndarray and weight.size < _SMALL and x.size < _SMALL:
        return np.matmul(weight, x)
    return matmul_op(weight, x)


def _before(states: Any, first: Any, reverse: bool) -> Any:
    """The state that each time started from: that of the time visited before it."""
    first = first[None]
    return np.concatenate((states[1:], first) if reverse else (first, states[:-1]))


def _sigmoid_(x: Any) -> None:
    """σ(x) = (1 + tanh(x / 2)) / 2, in place; tanh is quicker than exp."""
    x *= 0.5
    np.tanh(x, out=x)
    x *= 0.5
    x += 0.5


def _to_weights(to_gates: Any, *given: Any, samples: int | None = None) -> tuple[Any, ...]:
    """The gradients of the weights of some inputs (time, batch, features), then of the bias; with
    `samples`, of which the batch is made, a gradient for each."""
    if samples is not None:
        steps, width, _ = to_gates.shape
        by_sample = to_gates.reshape(steps, width, samples, -1).transpose(2, 1, 0, 3)
        rows = by_sample.reshape(samples, width, -1)
        parts = [x.reshape(steps, samples, -1, x.shape[-1]).swapaxes(0, 1) for x in given]
        own = [matmul_op(rows, x.reshape(samples, -1, x.shape[-1])) for x in parts]
        return *own, rows.sum(2)
    rows = to_gates.transpose(1, 0, 2).reshape(to_gates.shape[1], -1)  # (..., time × batch)
    to_weights = [matmul_op(rows, x.reshape(-1, x.shape[-1])) for x in given]
    return *to_weights, rows.sum(1)


def _to_input(to_gates: Any, weight_x: Any) -> Any:
    return _turned(matmul_op(weight_x.T, to_gates))


def scan(
    step: Any, x: Any, state: tuple[Any, ...], weights: tuple[Any, ...], reverse: bool
) -> tuple[Any, tuple[Any, ...]]:
    """All outputs and the last state. At each time the next state is step(x at that time, *state,
    *weights); its first part is the output.

    A compiled function keeps the loop (compiler/tracing/scan.py).
    """
    array = getattr(x, "_array", None)
    if isinstance(array, AbstractArray) and not array.on_device and x.shape[0] > 1:
        out, *last = array.scan(step, x, state, weights, reverse)
        return out, tuple(last)
    return unrolled(step, x, state, weights, reverse)


def unrolled(
    step: Any, x: Any, state: tuple[Any, ...], weights: tuple[Any, ...], reverse: bool
) -> tuple[Any, tuple[Any, ...]]:
    """The same, step by step."""
    outs: dict[int, Any] = {}
    parts = split(x, 1, 0)
    for t in times(len(parts), reverse):
        state = step(squeeze(parts[t], 0), *state, *weights)
        outs[t] = state[0]
    return stack([outs[t] for t in range(len(parts))]), state


# -- LSTM: gates i, f, g, o ------------------------------------------------------------------------


@TimeStep
def _lstm_now(now: Any, weight_h: Any, h: Any, c: Any, cell: Any, hidden: Any) -> None:
    """One time: from what the input gives to the gates, `now`, to the gates, the cell and h."""
    size = c.shape[0]
    now += _times(weight_h, h)
    _sigmoid_(now[: 2 * size])
    g, o = now[2 * size : 3 * size], now[3 * size :]
    np.tanh(g, out=g)
    _sigmoid_(o)
    np.multiply(now[size : 2 * size], c, out=cell)
    np.multiply(now[:size], g, out=hidden)
    cell += hidden
    np.tanh(cell, out=hidden)
    hidden *= o


def _lstm_forward(
    x: Any, h: Any, c: Any, weight_x: Any, weight_h: Any, bias: Any, *, reverse: bool
) -> tuple[Any, Any, Any, Any]:
    gates = _from_input(x, weight_x, bias)  # (time, 4 × hidden, batch)
    steps, width, batch = gates.shape
    size = width // 4
    hidden = np.empty((steps, size, batch), gates.dtype)
    cells = np.empty_like(hidden)
    h, c = _turned(h), _turned(c)
    now = _lstm_now.on(gates[:1], weight_h)
    for t in times(steps, reverse):
        now(gates[t], weight_h, h, c, cells[t], hidden[t])
        h, c = hidden[t], cells[t]
    return _turned(hidden), _turned(c), gates, cells


@TimeStep
def _lstm_effects(gates: Any, cells: Any, before: Any, effect: Any, through: Any) -> None:
    """What is free of later times: the effect of each gate's input, on c_t for i, f and g, on h_t
    for o, and `through`, that of c_t on h_t."""
    size = cells.shape[1]
    i, _, g, o = (gates[:, k * size : (k + 1) * size] for k in range(4))
    to_i, to_f, to_g, to_o = (effect[:, k * size : (k + 1) * size] for k in range(4))
    np.subtract(1, gates, out=effect)
    effect *= gates  # right for the three sigmoids
    to_i *= g
    to_f *= before
    np.multiply(g, g, out=to_g)
    np.subtract(1, to_g, out=to_g)
    to_g *= i
    np.tanh(cells, out=through)
    to_o *= through
    through *= through
    np.subtract(1, through, out=through)
    through *= o


@TimeStep
def _lstm_back(
    dh: Any, dc: Any, g: Any, through: Any, by_gate: Any, f: Any, from_gates: Any
) -> None:
    """One time, backward: the effects of the gates' inputs become their gradients, and dh and dc
    those of the time before."""
    dh += g
    dc += dh * through
    by_gate[:3] *= dc
    by_gate[3] *= dh
    dc *= f
    dh[...] = _times(from_gates, by_gate.reshape(from_gates.shape[1], dh.shape[1]))


def _lstm_rule(
    g: Any,
    x: Any,
    h: Any,
    c: Any,
    weight_x: Any,
    weight_h: Any,
    out: Any,
    gates: Any,
    cells: Any,
    reverse: bool,
    *,
    wants: Wants,
    samples: int | None = None,
) -> tuple[Any, ...]:
    steps, size, batch = cells.shape
    effect, through = np.empty_like(gates), np.empty_like(cells)
    _lstm_effects.on(gates)(gates, cells, _before(cells, c.T, reverse), effect, through)
    by_gate, f = effect.reshape(steps, 4, size, batch), gates[:, size : 2 * size]
    g_out, dc = _turned(g[0]), g[1].T.copy()
    from_gates = np.ascontiguousarray(weight_h.T)
    dh = np.zeros((size, batch), cells.dtype)
    back = _lstm_back.on(by_gate[:1], weight_h)
    for t in times(steps, not reverse):
        back(dh, dc, g_out[t], through[t], by_gate[t], f[t], from_gates)
    to_x = _to_input(effect, weight_x) if wants[0] else None
    given = (x, _before(out, h, reverse))
    return to_x, dh.T, dc.T, *_to_weights(effect, *given, samples=samples)


def _product(h: Any, weight_h: Any) -> Any:
    """The contribution of the state to the gates. Of half weights a product of halves, though the
    state is float32."""
    if h.dtype == float32 and is_half(weight_h.dtype):
        h = cast(h, dtype=weight_h.dtype)
    return h @ weight_h.mT


def lstm_step(x: Any, h: Any, c: Any, weight_h: Any) -> tuple[Any, Any]:
    """The next h and c, in other ops; x has been multiplied by its weight."""
    size = c.shape[-1]
    i, f, g, o = split(x + _product(h, weight_h), size, -1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def _lstm_expanded(
    x: Any, h: Any, c: Any, weight_x: Any, weight_h: Any, bias: Any, *, reverse: bool
) -> tuple[Any, Any]:
    out, (_, c) = scan(lstm_step, x @ weight_x.mT + bias, (h, c), (weight_h,), reverse)
    return out, c


lstm_op: Op = define(
    "lstm",
    _lstm_forward,
    joint=_lstm_rule,
    outputs="out last_c",
    residuals="gates cells",
    shape=lambda x, h, c, *weights, reverse: ((*x[:2], h[1]), c),
    expand=_lstm_expanded,
    formula=_FORMULA | {"c": "dc(1) × forget(1), dc(t) = gradient of the cell after step t"},
    promotes=True,
)

# -- GRU: gates r, z, n --------------------------------------------------------------------------


@TimeStep
def _gru_now(now: Any, weight_h: Any, bias_h: Any, h: Any, pushed: Any, hidden: Any) -> None:
    """One time: from what the input gives to the gates, `now`, to the gates and h; `pushed` is the
    contribution of the state to n, before the reset gate."""
    size = h.shape[0]
    product = _times(weight_h, h)
    product += bias_h[:, None]
    np.copyto(pushed, product[2 * size :])
    r_z, n = now[: 2 * size], now[2 * size :]
    r_z += product[: 2 * size]
    _sigmoid_(r_z)
    np.multiply(now[:size], pushed, out=hidden)
    n += hidden
    np.tanh(n, out=n)
    np.subtract(h, n, out=hidden)
    hidden *= now[size : 2 * size]
    hidden += n


def _gru_forward(
    x: Any, h: Any, weight_x: Any, weight_h: Any, bias_x: Any, bias_h: Any, *, reverse: bool
) -> tuple[Any, Any, Any]:
    gates = _from_input(x, weight_x, bias_x)  # (time, 3 × hidden, batch)
    steps, width, batch = gates.shape
    size = width // 3
    hidden = np.empty((steps, size, batch), gates.dtype)
    pushed = np.empty_like(hidden)
    h = _turned(h)
    now = _gru_now.on(gates[:1], weight_h)
    for t in times(steps, reverse):
        now(gates[t], weight_h, bias_h, h, pushed[t], hidden[t])
        h = hidden[t]
    return _turned(hidden), gates, pushed


@TimeStep
def _gru_effects(gates: Any, pushed: Any, starts: Any, effect: Any, from_x: Any) -> None:
    """What is free of later times: the effect of the gates' inputs on h_t, as the state reaches
    them, and `from_x`, that of the input of n, as x reaches it."""
    size = pushed.shape[1]
    r, z, n = (gates[:, k * size : (k + 1) * size] for k in range(3))
    to_r, to_z, to_n = (effect[:, k * size : (k + 1) * size] for k in range(3))
    np.multiply(n, n, out=from_x)
    np.subtract(1, from_x, out=from_x)
    np.subtract(1, z, out=to_z)
    from_x *= to_z
    np.multiply(from_x, r, out=to_n)
    np.subtract(1, r, out=to_r)
    to_r *= pushed
    to_r *= to_n
    to_z *= z
    to_z *= starts.mT - n


@TimeStep
def _gru_back(dh: Any, g: Any, by_gate: Any, from_x: Any, z: Any, from_gates: Any) -> None:
    """One time, backward: the effects of the gates' inputs become their gradients, and dh that of
    the time before."""
    dh += g
    by_gate *= dh
    from_x *= dh
    dh *= z
    dh += _times(from_gates, by_gate.reshape(from_gates.shape[1], dh.shape[1]))


def _gru_rule(
    g: Any,
    x: Any,
    h: Any,
    weight_x: Any,
    weight_h: Any,
    out: Any,
    gates: Any,
    pushed: Any,
    reverse: bool,
    *,
    wants: Wants,
    samples: int | None = None,
) -> tuple[Any, ...]:
    steps, size, batch = pushed.shape
    starts = _before(out, h, reverse)  # (time, batch, hidden)
    effect, from_x = np.empty_like(gates), np.empty_like(pushed)
    _gru_effects.on(gates)(gates, pushed, starts, effect, from_x)
    by_gate, z = effect.reshape(steps, 3, size, batch), gates[:, size : 2 * size]
    g = _turned(g)
    from_gates = np.ascontiguousarray(weight_h.T)
    dh = np.zeros((size, batch), gates.dtype)
    back = _gru_back.on(by_gate[:1], weight_h)
    for t in times(steps, not reverse):
        back(dh, g[t], by_gate[t], from_x[t], z[t], from_gates)
    to_weight_h, to_bias_h = _to_weights(effect, starts, samples=samples)
    by_gate[:, 2] = from_x  # now the gradient of the contribution of x to the gates
    to_weight_x, to_bias_x = _to_weights(effect, x, samples=samples)
    to_x = _to_input(effect, weight_x) if wants[0] else None
    return to_x, dh.T, to_weight_x, to_weight_h, to_bias_x, to_bias_h


def _gru_step(x: Any, h: Any, weight_h: Any, bias_h: Any) -> tuple[Any]:
    size = h.shape[-1]
    x_r, x_z, x_n = split(x, size, -1)
    h_r, h_z, h_n = split(_product(h, weight_h) + bias_h, size, -1)
    n = tanh(x_n + sigmoid(x_r + h_r) * h_n)
    return (n + sigmoid(x_z + h_z) * (h - n),)


def _gru_expanded(
    x: Any, h: Any, weight_x: Any, weight_h: Any, bias_x: Any, bias_h: Any, *, reverse: bool
) -> Any:
    return scan(_gru_step, x @ weight_x.mT + bias_x, (h,), (weight_h, bias_h), reverse)[0]


def _state_shape(x: Shape, h: Shape, *weights: Shape, **attrs: Any) -> Shape:
    return (*x[:2], h[1])


gru_op: Op = define(
    "gru",
    _gru_forward,
    joint=_gru_rule,
    residuals="gates pushed",
    shape=_state_shape,
    expand=_gru_expanded,
    formula=_FORMULA
    | {
        "h": f"dz(1) @ {{weight_h}} + dh(1) × update(1), {_BACK}",
        "weight_h": f"Σ dz(t)ᵀ @ h(t−1), reset gate inside, {_BACK}",
        "bias_x": _FORMULA["bias"],
        "bias_h": f"Σ dz(t), reset gate inside, {_BACK}",
    },
    promotes=True,
)

# -- the plain network ---------------------------------------------------------------------------


def _rnn_forward(
    x: Any, h: Any, weight_x: Any, weight_h: Any, bias: Any, *, reverse: bool, nonlinearity: str
) -> Any:
    hidden = _from_input(x, weight_x, bias)  # (time, hidden, batch)
    h = _turned(h)
    for t in times(len(x), reverse):
        now = hidden[t]
        now += _times(weight_h, h)
        h = np.tanh(now, out=now) if nonlinearity == "tanh" else np.maximum(now, 0, out=now)
    return _turned(hidden)


def _rnn_rule(
    g: Any,
    x: Any,
    h: Any,
    weight_x: Any,
    weight_h: Any,
    out: Any,
    reverse: bool,
    nonlinearity: str,
    *,
    wants: Wants,
    samples: int | None = None,
) -> tuple[Any, ...]:
    hidden = _turned(out)
    tangent = nonlinearity == "tanh"
    effect = 1 - hidden * hidden if tangent else (hidden > 0).astype(out.dtype)
    g = _turned(g)
    from_gates = np.ascontiguousarray(weight_h.T)
    dh = np.zeros(hidden.shape[1:], out.dtype)
    for t in times(len(out), not reverse):
        dh += g[t]
        if tangent:
            effect[t] *= dh
        else:
            np.copyto(effect[t], dh, where=effect[t] != 0)  # 0 stays 0, also beside a NaN
        dh = _times(from_gates, effect[t])
    to_x = _to_input(effect, weight_x) if wants[0] else None
    given = (x, _before(out, h, reverse))
    return to_x, dh.T, *_to_weights(effect, *given, samples=samples)


def _rnn_expanded(
    x: Any, h: Any, weight_x: Any, weight_h: Any, bias: Any, *, reverse: bool, nonlinearity: str
) -> Any:
    activation = tanh if nonlinearity == "tanh" else relu

    def step(x: Any, h: Any, weight_h: Any) -> tuple[Any]:
        return (activation(x + _product(h, weight_h)),)

    return scan(step, x @ weight_x.mT + bias, (h,), (weight_h,), reverse)[0]


rnn_op: Op = define(
    "rnn",
    _rnn_forward,
    joint=_rnn_rule,
    shape=_state_shape,
    expand=_rnn_expanded,
    formula=_FORMULA,
    promotes=True,
)
