"""The ops behind composites that run whole: JAX's forwards against NumPy's."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from gradwalk.compiler.backends.xla.forwards import FORWARDS
from gradwalk.compiler.functional import whole_ops
from gradwalk.ops.core.op import Op

draw = np.random.default_rng(0).standard_normal


def agreed(op: Op, *operands: Any, **attrs: Any) -> Any:
    """What NumPy computes, which JAX must as well."""
    expected = op.forward(*operands, **attrs)
    found = FORWARDS[op.name](*map(jnp.asarray, operands), **attrs)
    pairs = zip(found, expected, strict=True) if op.multiple else [(found, expected)]
    for one, other in pairs:
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, 1e-12, 1e-12)
    return expected


def test_attention() -> None:
    query, g = draw((2, 3, 5, 4)), draw((2, 3, 5, 4))
    key, value = draw((2, 3, 6, 4)), draw((2, 3, 6, 4))
    for causal in (False, True):
        attrs: dict[str, Any] = {"scale": 0.4, "causal": causal}
        kept = agreed(whole_ops.attention_forward, query, key, value, **attrs)
        agreed(whole_ops.attention_backward, g, query, key, value, *kept, **attrs)


def test_cross_entropy() -> None:
    logits, target = draw((6, 7)), np.array([1, -100, 6, 0, 3, 2])
    _, log_sum = agreed(whole_ops.cross_entropy_forward, logits, target, ignore_index=-100)
    agreed(whole_ops.cross_entropy_backward, draw(6), logits, target, log_sum, ignore_index=-100)


def test_normalisation_far_from_zero() -> None:
    """One reading of x gives its variance, also where its mean is much larger."""
    x = draw((6, 7)) + 1e3
    for center in (False, True):
        _, *kept = agreed(whole_ops.standardize_forward, x, axes=(1,), eps=1e-5, center=center)
        agreed(whole_ops.standardize_backward, draw((6, 7)), x, *kept, axes=(1,), center=center)
    agreed(whole_ops.moments, x, axes=(0,))


def test_activations() -> None:
    x, g = draw(50) * 3, draw(50)
    for value, gradient in whole_ops.ACTIVATIONS.values():
        agreed(value, x)
        agreed(gradient, g, x)
