"""Composites that NumPy computes whole for all samples, also where a transform inside the vmap
records them: their forward and their gradient are two plain ops with batching rules."""

from __future__ import annotations

from typing import Any

from gradwalk.batching.rules import RULES
from gradwalk.batching.rules.elementwise import elementwise, side_by_side
from gradwalk.batching.rules.network import normalize, parted_rows
from gradwalk.compiler.functional import whole_ops
from gradwalk.ops.core.op import Op, define
from gradwalk.ops.elementwise.activation import gelu_exact, gelu_tanh
from gradwalk.ops.network.attention import attention_op
from gradwalk.ops.network.pooling import max_pool

_pool = max_pool.rules[0]
assert _pool is not None
_pool_rule = _pool.function

max_pool_forward = define(
    "max_pool_forward",
    lambda x, *, kernel, out, stride, padding, dilation: max_pool.forward(
        x, kernel=kernel, out=out, stride=stride, padding=padding, dilation=dilation
    ),
    outputs="out chosen",
    vjp=[None],
)
max_pool_backward = define(
    "max_pool_backward",
    lambda g, chosen, *, shape, kernel, out, stride, padding, dilation: _pool_rule(
        g, chosen, (*chosen.shape[: chosen.ndim - len(out)], *shape), kernel, out, stride, padding,
        dilation,
    ),
    vjp=[None, None],
)  # fmt: skip


def _max_pool_rule(g: Any, chosen: Any, x_shape: Any, attrs: dict[str, Any]) -> Any:
    shape = x_shape[len(x_shape) - len(attrs["kernel"]) :]
    return max_pool_backward(g, chosen, shape=shape, **attrs)


# Attention is as fast through its definition.
WHOLE: dict[Op, Op] = {
    **{op: whole for op, whole in whole_ops.WHOLE.items() if op is not attention_op},
    max_pool: define(
        "max_pool",
        lambda x, *, kernel, out, stride, padding, dilation: max_pool_forward(
            x, kernel=kernel, out=out, stride=stride, padding=padding, dilation=dilation
        ),
        vjp=[_max_pool_rule],
        residuals="chosen",
        shape=max_pool.shape,
        expand=max_pool.expand,
        formula=max_pool.formula,
    ),
}


_ACTIVATIONS = [op for like in (gelu_exact, gelu_tanh) for op in whole_ops.ACTIVATIONS[like]]
RULES.update({
    **dict.fromkeys(_ACTIVATIONS, elementwise),
    **dict.fromkeys((max_pool_forward, max_pool_backward), side_by_side),
    whole_ops.standardize_forward: normalize,
    whole_ops.standardize_backward: normalize,
    whole_ops.cross_entropy_forward: parted_rows,
    whole_ops.cross_entropy_backward: parted_rows,
})  # fmt: skip
