"""Adam in JAX, as a person would write it: one jitted step with donated state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def adam_step(
    loss_of: Callable[..., Any], parameters: Any, batch: tuple[Any, ...], rate: float, decay: float
) -> Callable[[], Any]:
    """A function that makes one step on the batch, and returns the loss."""
    import jax
    import jax.numpy as jnp

    def step(state: Any, *batch: Any) -> Any:
        p, m, v, t = state
        loss, g = jax.value_and_grad(loss_of)(p, *batch)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        one, two = 1 - 0.9**t, 1 - 0.999**t

        def update(p: Any, m: Any, v: Any) -> Any:
            return p * (1 - rate * decay) - rate * (m / one) / (jnp.sqrt(v / two) + 1e-8)

        return (jax.tree.map(update, p, m, v), m, v, t), loss

    run = jax.jit(step, donate_argnums=0)
    moments = [jax.tree.map(jnp.zeros_like, parameters) for _ in range(2)]
    state = (parameters, *moments, jnp.zeros((), jnp.float32))

    def call() -> Any:
        nonlocal state
        state, loss = run(state, *batch)
        return loss

    return call
