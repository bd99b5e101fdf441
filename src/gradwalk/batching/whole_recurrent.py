"""Recurrent networks that a transform inside the vmap records: all samples are one larger batch,
and backward computes a gradient of the weights for each sample.

The batch is the last dimension of what backward keeps, the second of sequences and the first of
states (`ops.network.recurrent`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.batching.lanes import Lanes, spread
from gradwalk.batching.rules import RULES
from gradwalk.compiler.functional.whole_ops import in_another_form
from gradwalk.ops.core.op import Op, define
from gradwalk.ops.network.recurrent import gru_op, lstm_op, rnn_op
from gradwalk.ops.shape.reshaping import permute, reshape

# Where the batch is in one sample of what an op takes or gives; of weights nowhere.
_PLACES = {
    "x": 1, "h": 0, "c": 0, "out": 1, "last_c": 0, "gates": 2, "cells": 2, "pushed": 2,
    "g": 1, "g_c": 0, "to_x": 1, "to_h": 0, "to_c": 0,
}  # fmt: skip


def shares_weights(op: Op, lanes: Sequence[Lanes]) -> bool:
    """Whether all samples have the same weights."""
    named = zip(op.inputs, lanes, strict=True)
    return not any(lane.batched for name, lane in named if name not in _PLACES)


def _together(x: Lanes, place: int, size: int) -> Any:
    """The batches of all samples as one."""
    whole = spread(x, size)  # (sample, ..., batch, ...)
    order = (*range(1, place + 1), 0, *range(place + 1, x.ndim + 1))
    shape = (*x.shape[:place], size * x.shape[place], *x.shape[place + 1 :])
    return reshape(permute(whole, axes=order), shape=shape)


def _apart(x: Any, place: int, size: int) -> Any:
    """One batch as those of all samples, samples first."""
    shape = tuple(x.shape)
    parted = reshape(x, shape=(*shape[:place], size, shape[place] // size, *shape[place + 1 :]))
    return permute(parted, axes=(place, *range(place), *range(place + 1, len(shape) + 1)))


def _run(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """One larger batch; the gradients of weights, which have no batch, come sample by sample."""
    given = [
        _together(a, _PLACES[name], size) if name in _PLACES else a.inner
        for name, a in zip(op.inputs, args, strict=True)
    ]
    if "samples" in op.attributes:
        attrs = attrs | {"samples": size * (attrs["samples"] or 1)}
    before = () if attrs.get("samples") in (None, size) else (attrs["samples"] // size,)
    made = op(*given, **attrs)
    parts = [
        _apart(part, _PLACES[name], size)
        if name in _PLACES
        else reshape(part, shape=(size, *before, *part.shape[1:]))
        for name, part in zip(op.outputs, made if op.multiple else (made,), strict=True)
    ]
    return tuple(parts) if op.multiple else parts[0]


def _forward(like: Op, outputs: str) -> Op:
    return define(
        f"{like.name}_forward", like.forward, outputs=outputs, vjp=[None] * len(like.inputs)
    )


def _every(op: Op) -> Any:
    assert op.joint is not None
    return op.joint


def _contiguous(gradients: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([np.ascontiguousarray(part) for part in gradients])


# -- LSTM ------------------------------------------------------------------------------------------

lstm_forward = _forward(lstm_op, "out last_c gates cells")
lstm_backward = define(
    "lstm_backward",
    lambda g, g_c, x, h, c, weight_x, weight_h, out, gates, cells, *, reverse, samples=None: (
        _contiguous(
            _every(lstm_op)(
                (g, g_c), x, h, c, weight_x, weight_h, out, gates, cells, reverse,
                wants=(True,) * 6, samples=samples,
            )
        )
    ),
    outputs="to_x to_h to_c to_weight_x to_weight_h to_bias",
    vjp=[None] * 10,
)  # fmt: skip


def _lstm_rule(
    g: Any, x: Any, h: Any, c: Any, weight_x: Any, weight_h: Any, out: Any, gates: Any, cells: Any,
    reverse: bool, *, wants: Any,
) -> Any:  # fmt: skip
    return lstm_backward(*g, x, h, c, weight_x, weight_h, out, gates, cells, reverse=reverse)


# -- GRU -------------------------------------------------------------------------------------------

gru_forward = _forward(gru_op, "out gates pushed")
gru_backward = define(
    "gru_backward",
    lambda g, x, h, weight_x, weight_h, out, gates, pushed, *, reverse, samples=None: _contiguous(
        _every(gru_op)(
            g, x, h, weight_x, weight_h, out, gates, pushed, reverse,
            wants=(True,) * 6, samples=samples,
        )
    ),
    outputs="to_x to_h to_weight_x to_weight_h to_bias_x to_bias_h",
    vjp=[None] * 8,
)  # fmt: skip


def _gru_rule(
    g: Any, x: Any, h: Any, weight_x: Any, weight_h: Any, out: Any, gates: Any, pushed: Any,
    reverse: bool, *, wants: Any,
) -> Any:  # fmt: skip
    return gru_backward(g, x, h, weight_x, weight_h, out, gates, pushed, reverse=reverse)


# -- the plain network -----------------------------------------------------------------------------

rnn_forward = define("rnn_forward", rnn_op.forward, vjp=[None] * 5)
rnn_backward = define(
    "rnn_backward",
    lambda g, x, h, weight_x, weight_h, out, *, reverse, nonlinearity, samples=None: _contiguous(
        _every(rnn_op)(
            g, x, h, weight_x, weight_h, out, reverse, nonlinearity,
            wants=(True,) * 5, samples=samples,
        )
    ),
    outputs="to_x to_h to_weight_x to_weight_h to_bias",
    vjp=[None] * 6,
)  # fmt: skip


def _rnn_rule(
    g: Any, x: Any, h: Any, weight_x: Any, weight_h: Any, out: Any, reverse: bool,
    nonlinearity: str, *, wants: Any,
) -> Any:  # fmt: skip
    return rnn_backward(
        g, x, h, weight_x, weight_h, out, reverse=reverse, nonlinearity=nonlinearity
    )


# -- the composites --------------------------------------------------------------------------------

RECURRENT: dict[Op, Op] = {
    lstm_op: in_another_form(
        lstm_op,
        lambda x, h, c, weight_x, weight_h, bias, *, reverse: lstm_forward(
            x, h, c, weight_x, weight_h, bias, reverse=reverse
        ),
        "gates cells", outputs="out last_c", joint=_lstm_rule,
    ),
    gru_op: in_another_form(
        gru_op,
        lambda x, h, weight_x, weight_h, bias_x, bias_h, *, reverse: gru_forward(
            x, h, weight_x, weight_h, bias_x, bias_h, reverse=reverse
        ),
        "gates pushed", joint=_gru_rule,
    ),
    rnn_op: in_another_form(
        rnn_op,
        lambda x, h, weight_x, weight_h, bias, *, reverse, nonlinearity: rnn_forward(
            x, h, weight_x, weight_h, bias, reverse=reverse, nonlinearity=nonlinearity
        ),
        "", joint=_rnn_rule,
    ),
}  # fmt: skip

RULES.update(
    dict.fromkeys(
        (lstm_forward, lstm_backward, gru_forward, gru_backward, rnn_forward, rnn_backward), _run
    )
)
