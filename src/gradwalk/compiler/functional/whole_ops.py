"""Composites that a device runs whole: attention, cross entropy and normalisation.

NumPy keeps what their gradients need as residuals, and a compiled CPU program opens them into other
ops. A device has one kernel for the forward and one for the gradient of each. So here each is an op
whose forward and rule call two plain ops, which have a spelling in backends/xla/forwards.
Second derivatives go through `expand`, as everywhere.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import float32
from gradwalk.ops.core.op import Op, define
from gradwalk.ops.elementwise.activation import gelu_exact, gelu_tanh
from gradwalk.ops.network.attention import attention_op, causal_mask
from gradwalk.ops.network.normalization import standardize, standardize_affine
from gradwalk.ops.network.softmax import cross_entropy_op, logsumexp_op
from gradwalk.ops.reduce.reduction import sum_op

Shape = tuple[int, ...]


def _plain(name: str, forward: Any, outputs: str, shape: Any, statistics: int = 0) -> Op:
    """An op without a gradient; the last outputs are statistics, at least in float32."""
    operands, count = forward.__code__.co_argcount, len(outputs.split())
    gives = (*[None] * (count - statistics), *[_wide] * statistics)
    return define(name, forward, vjp=[None] * operands, outputs=outputs, shape=shape, gives=gives)


def _rule_of(op: Op) -> Any:
    """The rule of an op with one differentiable input, on arrays."""
    rule = op.rules[0]
    assert rule is not None
    return rule.function


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return float32 if dtype.itemsize < float32.itemsize else dtype


# -- attention -------------------------------------------------------------------------------------


def _attention_forward(
    query: Any, key: Any, value: Any, *, scale: float, causal: bool
) -> tuple[Any, Any]:
    out, _ = attention_op.forward(query, key, value, scale=scale, causal=causal)
    scores = np.matmul(query * scale, key.mT)  # (..., queries, keys)
    if causal:
        scores = scores + causal_mask(*scores.shape[-2:], scores.dtype)
    return out, logsumexp_op.forward(scores, axis=(scores.ndim - 1,), keepdim=False)


def _attention_backward(
    g: Any, query: Any, key: Any, value: Any, out: Any, log_sum: Any, *, scale: float, causal: bool
) -> Any:
    assert attention_op.joint is not None
    _, weights = attention_op.forward(query, key, value, scale=scale, causal=causal)
    return attention_op.joint(g, query, key, value, out, weights, scale, wants=(True,) * 3)


attention_forward = _plain(
    "attention_forward",
    _attention_forward,
    "out log_sum",
    lambda query, key, value, **_: ((*query[:-1], value[-1]), query[:-1]),
    statistics=1,
)
attention_backward = _plain(
    "attention_backward",
    _attention_backward,
    "to_query to_key to_value",
    lambda g, query, key, value, *_, **__: (query, key, value),
)


def _attention_rule(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    log_sum: Any,
    scale: float,
    causal: bool,
    *,
    wants: tuple[bool, ...],
) -> Any:
    return attention_backward(g, query, key, value, out, log_sum, scale=scale, causal=causal)


# -- cross entropy ---------------------------------------------------------------------------------


def _cross_entropy_forward(logits: Any, target: Any, *, ignore_index: int) -> tuple[Any, Any]:
    loss, _ = cross_entropy_op.forward(logits, target, ignore_index=ignore_index)
    return loss, logsumexp_op.forward(logits, axis=(1,), keepdim=False)


def _cross_entropy_backward(
    g: Any, logits: Any, target: Any, log_sum: Any, *, ignore_index: int
) -> Any:
    return _rule_of(cross_entropy_op)(g, target, np.exp(logits - log_sum[:, None]), ignore_index)


cross_entropy_forward = _plain(
    "cross_entropy_forward",
    _cross_entropy_forward,
    "loss log_sum",
    lambda logits, target, **_: (target, target),
    statistics=1,
)
cross_entropy_backward = define(
    "cross_entropy_backward",
    _cross_entropy_backward,
    vjp=[None] * 4,
    shape=lambda g, logits, target, log_sum, **_: logits,
)


# -- normalisation ---------------------------------------------------------------------------------


def _statistics_shape(x: Shape, *, axes: Shape, **_: Any) -> tuple[Shape, Shape, Shape]:
    kept = tuple(1 if i in axes else n for i, n in enumerate(x))
    return x, kept, kept


standardize_forward = _plain(
    "standardize_forward",
    lambda x, *, axes, eps, center: full_statistics(
        standardize.forward(x, axes=axes, eps=eps, center=center)
    ),
    "out mean rstd",
    _statistics_shape,
    statistics=2,
)
standardize_backward = define(
    "standardize_backward",
    lambda g, x, mean, rstd, *, axes, center: _rule_of(standardize)(g, x, mean, rstd, axes, center),
    vjp=[None] * 4,
    shape=lambda g, x, *_, **__: x,
)

# For running statistics: computed as `standardize_forward` does, so that XLA computes them once.
moments = _plain(
    "moments",
    lambda x, *, axes: (x.mean(axes), x.var(axes)),
    "mean variance",
    lambda x, *, axes: (tuple(n for i, n in enumerate(x) if i not in axes),) * 2,
    statistics=2,
)


def full_statistics(found: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """The mean of what is not centred is one zero: as large as the other statistics."""
    out, mean, rstd = found
    return (out, mean if mean.shape == rstd.shape else np.broadcast_to(mean, rstd.shape), rstd)


# -- activations -----------------------------------------------------------------------------------


def _activation(like: Op) -> tuple[Op, Op]:
    """The value, and the gradient computed from x alone: nothing but x is kept."""
    value = define(
        f"{like.name}_forward", lambda x: like.forward(x)[0], vjp=[None], shape=lambda x: x
    )
    gradient = define(
        f"{like.name}_backward",
        lambda g, x: g * like.forward(x)[1],
        vjp=[None, None],
        shape=lambda g, x: x,
    )
    return value, gradient


ACTIVATIONS = {like: _activation(like) for like in (gelu_exact, gelu_tanh)}


# -- the composites --------------------------------------------------------------------------------


def _affine_forward(
    x: Any, weight: Any, bias: Any, *, axes: Shape, eps: float, center: bool
) -> tuple[Any, Any, Any]:
    out, mean, rstd = standardize_forward(x, axes=axes, eps=eps, center=center)
    return out * weight + bias, mean, rstd


def _affine_rule(
    g: Any,
    x: Any,
    weight: Any,
    mean: Any,
    rstd: Any,
    bias_shape: Shape,
    axes: Shape,
    center: bool,
    *,
    wants: tuple[bool, ...],
) -> tuple[Any, ...]:
    if all(weight.shape[axis] == 1 for axis in axes):
        # Batch norm's weight can wait: without it, the sums are those of its own gradient and of
        # the bias's, and XLA computes them once.
        back = standardize_backward(g.astype(rstd.dtype), x, mean, rstd, axes=axes, center=center)
        to_x = back * weight
    else:
        to_x = standardize_backward(g * weight, x, mean, rstd, axes=axes, center=center)
    to_weight = _summed(g * ((x - mean) * rstd), weight.shape)
    return to_x, to_weight, _summed(g, bias_shape)


def _summed(g: Any, shape: Shape) -> Any:
    """Summed over the axes along which an array of `shape` was broadcast."""
    axes = tuple(i for i, (n, m) in enumerate(zip(g.shape, shape, strict=True)) if n != m)
    return sum_op(g, axis=axes, keepdim=True) if axes else g


def in_another_form(like: Op, forward: Any, residuals: str, **rule: Any) -> Op:
    """A composite with another forward and another rule."""
    return define(
        like.name, forward, residuals=residuals, shape=like.shape, expand=like.expand,
        promotes=like.promotes, to_float=like.to_float, formula=like.formula, **rule,
    )  # fmt: skip


def _whole_activation(like: Op) -> Op:
    value, gradient = ACTIVATIONS[like]
    return define(
        like.name, lambda x: value(x), vjp=[lambda g, x: gradient(g, x)], shape=like.shape,
        expand=like.expand, formula=like.formula, to_float=True, promotes=True, array_only=True,
    )  # fmt: skip


WHOLE: dict[Op, Op] = {
    attention_op: in_another_form(
        attention_op,
        lambda query, key, value, *, scale, causal: attention_forward(
            query, key, value, scale=scale, causal=causal
        ),
        "log_sum",
        joint=_attention_rule,
    ),
    cross_entropy_op: in_another_form(
        cross_entropy_op,
        lambda logits, target, *, ignore_index: cross_entropy_forward(
            logits, target, ignore_index=ignore_index
        ),
        "log_sum",
        vjp=[
            lambda g, logits, target, log_sum, ignore_index: cross_entropy_backward(
                g, logits, target, log_sum, ignore_index=ignore_index
            ),
            None,
        ],
    ),
    standardize: in_another_form(
        standardize,
        lambda x, *, axes, eps, center: standardize_forward(x, axes=axes, eps=eps, center=center),
        "mean rstd",
        vjp=[
            lambda g, x, mean, rstd, axes, center: standardize_backward(
                g, x, mean, rstd, axes=axes, center=center
            )
        ],
    ),
    standardize_affine: in_another_form(
        standardize_affine, _affine_forward, "mean rstd", joint=_affine_rule
    ),
    **{like: _whole_activation(like) for like in ACTIVATIONS},
}
PLAIN: tuple[Op, ...] = (
    attention_forward, attention_backward, cross_entropy_forward, cross_entropy_backward,
    standardize_forward, standardize_backward, moments, *sum(ACTIVATIONS.values(), ()),
)  # fmt: skip


@functools.cache
def kept(op: Op) -> Op:
    """A composite that is one call of a program, without a gradient."""

    @functools.wraps(op.forward)
    def forward(*operands: Any, **attrs: Any) -> Any:
        found = op.forward(*operands, **attrs)
        if not op.residuals:
            return found
        return found[: -len(op.residuals)] if op.multiple else found[0]

    @functools.wraps(op.forward)
    def call(*operands: Any, **attrs: Any) -> Any:
        return plain(*operands, **attrs)

    facts: dict[str, Any] = dict(
        elementwise=False, outputs=op.outputs if op.multiple else (), shape=op.shape,
        gives=op.gives, promotes=op.promotes, to_float=op.to_float, expand=op.expand,
    )  # fmt: skip
    rules = [None] * len(op.inputs)
    plain = Op(op.name, forward, None, rules, **facts)
    return Op(op.name, call, None, rules, **facts)


def name_for_users(op: Op) -> str:
    """The name of an op in an error: its composite's, if it is a part of one."""
    for suffix, words in (("_forward", ""), ("_backward", "the gradient of ")):
        if op in PLAIN and op.name.endswith(suffix):
            return words + op.name.removesuffix(suffix)
    return op.name
