"""Composites that NumPy or a kernel computes whole for all samples, also where a transform inside
the vmap records them: their forward and their gradient are two plain ops with batching rules."""

from __future__ import annotations

from typing import Any

from gradwalk.batching.rules import RULES
from gradwalk.batching.rules.elementwise import elementwise, side_by_side
from gradwalk.batching.rules.network import normalize, parted_rows, pull_normalized
from gradwalk.batching.whole_recurrent import RECURRENT
from gradwalk.compiler.functional import whole_ops
from gradwalk.compiler.functional.whole_ops import in_another_form
from gradwalk.ops.core.op import Op, define
from gradwalk.ops.elementwise.activation import gelu_exact, gelu_tanh
from gradwalk.ops.network.attention import attention_op
from gradwalk.ops.network.normalization import standardize, standardize_affine
from gradwalk.ops.network.pooling import max_pool
from gradwalk.ops.network.softmax import cross_entropy_op
from gradwalk.tensors.single_calls import SingleCall


def _plain(op: Op, outputs: str, forward: Any = None) -> Op:
    """The forward of a composite as an op without a gradient: residuals are outputs."""
    count = len(op.inputs)
    return define(f"{op.name}_forward", forward or op.forward, outputs=outputs, vjp=[None] * count)


# -- pooling ---------------------------------------------------------------------------------------

_pool = max_pool.rules[0]
assert _pool is not None
_pool_rule = _pool.function

max_pool_forward = _plain(
    max_pool,
    "out chosen",
    lambda x, *, kernel, out, stride, padding, dilation: max_pool.forward(
        x, kernel=kernel, out=out, stride=stride, padding=padding, dilation=dilation
    ),
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


# -- attention -------------------------------------------------------------------------------------

attention_forward = _plain(attention_op, "out weights")


def _attention_gradients(
    g: Any, query: Any, key: Any, value: Any, out: Any, weights: Any, *, scale: float
) -> Any:
    assert attention_op.joint is not None
    return attention_op.joint(g, query, key, value, out, weights, scale, wants=(True,) * 3)


attention_backward = define(
    "attention_backward",
    _attention_gradients,
    outputs="to_query to_key to_value",
    vjp=[None] * 6,
)


def _attention_rule(
    g: Any, query: Any, key: Any, value: Any, out: Any, weights: Any, scale: float, *, wants: Any
) -> Any:
    return attention_backward(g, query, key, value, out, weights, scale=scale)


# -- normalisation ---------------------------------------------------------------------------------

affine_forward = _plain(
    standardize_affine,
    "out mean rstd",
    lambda x, weight, bias, *, axes, eps, center: whole_ops.full_statistics(
        standardize_affine.forward(x, weight, bias, axes=axes, eps=eps, center=center)
    ),
)


def _affine_gradients(
    g: Any, x: Any, weight: Any, mean: Any, rstd: Any, *, bias_shape: Any, axes: Any, center: bool
) -> Any:
    assert standardize_affine.joint is not None
    return standardize_affine.joint(
        g, x, weight, mean, rstd, bias_shape, axes, center, wants=(True,) * 3
    )


affine_backward = define(
    "standardize_affine_backward",
    _affine_gradients,
    outputs="to_x to_weight to_bias",
    vjp=[None] * 5,
)


def _affine_rule(
    g: Any, x: Any, weight: Any, mean: Any, rstd: Any, bias_shape: Any, axes: Any, center: bool,
    *, wants: Any,
) -> Any:  # fmt: skip
    return affine_backward(
        g, x, weight, mean, rstd, bias_shape=bias_shape, axes=axes, center=center
    )


# -- cross entropy ---------------------------------------------------------------------------------

_entropy = cross_entropy_op.rules[0]
assert _entropy is not None
_entropy_rule = _entropy.function

cross_entropy_forward = _plain(cross_entropy_op, "loss probabilities")
cross_entropy_backward = define(
    "cross_entropy_backward",
    lambda g, target, probabilities, *, ignore_index: _entropy_rule(
        g, target, probabilities, ignore_index
    ),
    vjp=[None] * 3,
)


# -- activations -----------------------------------------------------------------------------------


def _activation(like: Op) -> tuple[Op, Op]:
    """The op that computes the value and the slope at once, and the composite made of it."""
    both = _plain(like, "out slope")
    return both, in_another_form(like, lambda x: both(x), "slope", vjp=[lambda g, slope: g * slope])


_ACTIVATIONS = {like: _activation(like) for like in (gelu_exact, gelu_tanh)}


# -- the composites --------------------------------------------------------------------------------

WHOLE: dict[Op, Op] = {
    standardize: whole_ops.WHOLE[standardize],
    **{like: whole for like, (_, whole) in _ACTIVATIONS.items()},
    **RECURRENT,
    attention_op: in_another_form(
        attention_op,
        lambda query, key, value, *, scale, causal: attention_forward(
            query, key, value, scale=scale, causal=causal
        ),
        "weights",
        joint=_attention_rule,
    ),
    standardize_affine: in_another_form(
        standardize_affine,
        lambda x, weight, bias, *, axes, eps, center: affine_forward(
            x, weight, bias, axes=axes, eps=eps, center=center
        ),
        "mean rstd",
        joint=_affine_rule,
    ),
    cross_entropy_op: in_another_form(
        cross_entropy_op,
        lambda logits, target, *, ignore_index: cross_entropy_forward(
            logits, target, ignore_index=ignore_index
        ),
        "probabilities",
        vjp=[
            lambda g, target, probabilities, ignore_index: cross_entropy_backward(
                g, target, probabilities, ignore_index=ignore_index
            ),
            None,
        ],
    ),
    max_pool: in_another_form(
        max_pool,
        lambda x, *, kernel, out, stride, padding, dilation: max_pool_forward(
            x, kernel=kernel, out=out, stride=stride, padding=padding, dilation=dilation
        ),
        "chosen",
        vjp=[_max_pool_rule],
    ),
}

_BOTH = [both for both, _ in _ACTIVATIONS.values()]
_NORMALIZED = (whole_ops.standardize_forward, whole_ops.standardize_backward, affine_forward)
RULES.update({
    **dict.fromkeys(_BOTH, elementwise),
    **dict.fromkeys((max_pool_forward, max_pool_backward), side_by_side),
    **dict.fromkeys((attention_forward, attention_backward), side_by_side),
    **dict.fromkeys(_NORMALIZED, normalize),
    affine_backward: pull_normalized,
    **dict.fromkeys((cross_entropy_forward, cross_entropy_backward), parted_rows),
})  # fmt: skip

for _op in (*_BOTH, *_NORMALIZED, affine_backward):
    _op.native = SingleCall(_op.forward)
