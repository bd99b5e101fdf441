"""RNN, GRU and LSTM.

With the usual activations, and sequences of one length, they are our composite ops. Otherwise one
step after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradwalk as gw
from gradwalk.nn import functional as F
from gradwalk.onnx.operators.table import Array, OnnxNode, constant, operator
from gradwalk.ops.network.recurrent import gru_op, lstm_op, rnn_op

Activation = Callable[[Any], Any]

_USUAL = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
# The gates of our ops among those of ONNX.
_ORDER = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}


def _activation(name: str, alpha: Any, beta: Any) -> Activation:
    given = {"alpha": alpha, "beta": beta}

    def get(key: str, default: float) -> float:
        return default if given[key] is None else given[key]

    table: dict[str, Activation] = {
        "sigmoid": gw.sigmoid,
        "tanh": gw.tanh,
        "relu": gw.relu,
        "softsign": F.softsign,
        "softplus": F.softplus,
        "affine": lambda x: get("alpha", 1.0) * x + get("beta", 0.0),
        "elu": lambda x: F.elu(x, get("alpha", 1.0)),
        "leakyrelu": lambda x: F.leaky_relu(x, get("alpha", 0.01)),
        "thresholdedrelu": lambda x: gw.where(x > get("alpha", 1.0), x, 0),
        "scaledtanh": lambda x: get("alpha", 1.0) * gw.tanh(get("beta", 1.0) * x),
        "hardsigmoid": lambda x: gw.clip(get("alpha", 0.2) * x + get("beta", 0.5), 0, 1),
    }
    return table[name.lower()]


def _activations(node: OnnxNode, count: int) -> list[Activation]:
    """The activations of all directions, with their parameters in order."""
    names = node.get("activations") or _USUAL[node.op] * count
    alphas, betas = iter(node.get("activation_alpha", ())), iter(node.get("activation_beta", ()))
    return [_activation(name, next(alphas, None), next(betas, None)) for name in names]


@operator("RNN", "GRU", "LSTM", numbers=(4,))
def recurrent(
    node: OnnxNode, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None,
    c: Any = None, peepholes: Any = None,
) -> Any:  # fmt: skip
    batch_first = bool(node.get("layout", 0))
    if batch_first:
        x = gw.movedim(x, 0, 1)
        h, c = (None if s is None else gw.movedim(s, 0, 1) for s in (h, c))
    time, batch, _ = x.shape
    count, size = w.shape[0], r.shape[-1]
    zeros = x.new_zeros((count, batch, size))
    h, c = (zeros if state is None else state for state in (h, c))
    if b is None:
        b = x.new_zeros((count, 2 * _GATES[node.op] * size))
    if lengths is not None and (lengths == time).all():
        lengths = None
    functions, each = _activations(node, count), len(_USUAL[node.op])
    outs, lasts, cells = [], [], []
    for k in range(count):
        reverse = node.get("direction", "forward") == "reverse" or k == 1
        own = functions[k * each : (k + 1) * each]
        given = (x, w[k], r[k], b[k], h[k], c[k])
        if lengths is None and peepholes is None and _is_usual(node):
            out, last, cell = _whole(node.op, *given, reverse)
        else:
            weights = None if peepholes is None else peepholes[k]
            out, last, cell = _in_steps(node, *given, weights, lengths, own, reverse)
        outs.append(out)
        lasts.append(last)
        cells.append(cell)
    y, states = gw.stack(outs, 1), [gw.stack(lasts)]  # (time, directions, batch, size)
    if node.op == "LSTM":
        states.append(gw.stack(cells))
    if batch_first:
        y, states = gw.permute(y, (2, 0, 1, 3)), [gw.movedim(s, 0, 1) for s in states]
    return (y, *states)


def _is_usual(node: OnnxNode) -> bool:
    names = node.get("activations")
    usual = _USUAL[node.op]
    same = names is None or [n.lower() for n in names] == [n.lower() for n in usual] * (
        len(names) // len(usual)
    )
    plain = not node.get("clip") and not node.get("input_forget", 0)
    return same and plain and (node.op != "GRU" or bool(node.get("linear_before_reset", 0)))


def _whole(
    op: str, x: Any, w: Any, r: Any, b: Any, h: Any, c: Any, reverse: bool
) -> tuple[Any, Any, Any]:
    """All steps as one op: the outputs, the last one, the last cell."""
    size = r.shape[-1]

    def ours(parameter: Any) -> Any:
        parts = gw.split(parameter, size, 0)
        return parts[0] if op == "RNN" else gw.cat([parts[i] for i in _ORDER[op]], 0)

    of_input, of_state = gw.split(b, b.shape[0] // 2, 0)
    weights, last = (ours(w), ours(r)), 0 if reverse else -1
    if op == "GRU":
        out = gru_op(x, h, *weights, ours(of_input), ours(of_state), reverse=reverse)
        return out, out[last], None
    bias = ours(of_input + of_state)
    if op == "LSTM":
        out, cell = lstm_op(x, h, c, *weights, bias, reverse=reverse)
        return out, out[last], cell
    out = rnn_op(x, h, *weights, bias, reverse=reverse, nonlinearity="tanh")
    return out, out[last], None


def _in_steps(
    node: OnnxNode, x: Any, w: Any, r: Any, b: Any, h: Any, c: Any, peepholes: Any,
    lengths: Array | None, functions: list[Activation], reverse: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    limit = node.get("clip")

    def clipped(z: Any) -> Any:
        return gw.clip(z, -limit, limit) if limit else z

    def next_state(z: Any, h: Any, c: Any) -> tuple[Any, Any]:
        if node.op == "RNN":
            return functions[0](clipped(z @ w.mT + h @ r.mT + of_input + of_state)), c
        if node.op == "GRU":
            return _gru(node, z @ w.mT + of_input, h, r, of_state, functions, clipped), c
        gates = z @ w.mT + h @ r.mT + of_input + of_state
        return _lstm(node, gates, c, peepholes, functions, clipped)

    of_input, of_state = gw.split(b, b.shape[0] // 2, 0)
    time = x.shape[0]
    outs: list[Any] = [None] * time
    for t in range(time - 1, -1, -1) if reverse else range(time):
        new, cell = next_state(x[t], h, c)
        outs[t] = new
        if lengths is not None:  # a sequence that is over keeps its state
            on = constant((t < lengths)[:, None])
            outs[t] = gw.where(on, new, 0)
            new, cell = gw.where(on, new, h), gw.where(on, cell, c)
        h, c = new, cell
    return gw.stack(outs), h, c


def _gru(
    node: OnnxNode,
    z: Any,
    h: Any,
    r: Any,
    bias: Any,
    functions: list[Activation],
    clipped: Activation,
) -> Any:
    size = h.shape[-1]
    update_x, reset_x, new_x = gw.split(z, size, -1)
    (update_r, reset_r, new_r), (update_b, reset_b, new_b) = (
        gw.split(part, size, 0) for part in (r, bias)
    )
    update = functions[0](clipped(update_x + h @ update_r.mT + update_b))
    reset = functions[0](clipped(reset_x + h @ reset_r.mT + reset_b))
    if node.get("linear_before_reset", 0):
        new = functions[1](clipped(new_x + reset * (h @ new_r.mT + new_b)))
    else:
        new = functions[1](clipped(new_x + (reset * h) @ new_r.mT + new_b))
    return (1 - update) * new + update * h


def _lstm(
    node: OnnxNode,
    gates: Any,
    c: Any,
    peepholes: Any,
    functions: list[Activation],
    clipped: Activation,
) -> tuple[Any, Any]:
    size = c.shape[-1]
    i, o, f, new = gw.split(gates, size, -1)
    p_i, p_o, p_f = (0, 0, 0) if peepholes is None else gw.split(peepholes, size, 0)
    i = functions[0](clipped(i + p_i * c))
    f = 1 - i if node.get("input_forget", 0) else functions[0](clipped(f + p_f * c))
    cell = f * c + i * functions[1](clipped(new))
    o = functions[0](clipped(o + p_o * cell))
    return o * functions[2](cell), cell
