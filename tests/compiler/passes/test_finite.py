"""`compile(step, check="finite")`: a step that would write NaN or infinity changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

import gradwalk as gw


def trained(backend: str, fails_at: int | None, steps: int = 5) -> tuple[Any, ...]:
    """The weight, the optimizer's step count and the losses; one more step in between fails."""
    gw.manual_seed(0)
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    optimizer = gw.optim.Adam([w], 0.1)

    @gw.compile(backend=backend, check="finite")
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (gw.nn.functional.dropout(w, 0.25) * x + x).log().sum()
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for i in range(steps):
        if i == fails_at:
            with pytest.raises(FloatingPointError, match=r"log made NaN(.|\n)*test_finite.py"):
                step(gw.zeros(2))
        losses.append(step(gw.tensor([1.0, 2.0])).item())
    return w.tolist(), optimizer.state[w]["step"], losses


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("fails_at", [1, 4])
def test_a_failed_step_leaves_no_trace(backend: str, fails_at: int) -> None:
    """Weights, moments, counts and random numbers go on as if it had not been called."""
    assert trained(backend, fails_at) == trained(backend, None)


def test_other_values_of_check_are_refused() -> None:
    with pytest.raises(ValueError, match='check is True, False or "finite"'):
        gw.compile(lambda x: x, check="nan")  # type: ignore[call-overload]
