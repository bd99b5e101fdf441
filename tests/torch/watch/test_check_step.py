"""Which gradients count as exploded: growth does, noise, spikes and schedules do not."""

import math
from collections.abc import Iterable

import numpy as np
import pytest
import torch

from gradwalk.torch.watch.check_step import GradientHistory
from gradwalk.torch.watch.gradient_checks import norm_of


def first_explosion(norms: Iterable[float], floor: float = 1.0) -> int | None:
    history = GradientHistory(1e3, 10, floor)
    for step, norm in enumerate(norms):
        if history.has_exploded(norm):
            return step
        history.add(norm)
    return None


random = np.random.default_rng(0)
HEALTHY = {
    "heavy noise": np.exp(1.5 * random.standard_normal(5000)),
    "a warm-up": np.geomspace(1e-6, 3.0, 400),
    "begins with nothing": [*[0.0] * 20, *[1.0] * 100],  # an output layer that begins at zero
    "spikes at the start": [5e4, 2e5, 3.0, 8e3, *[2.0] * 50, 900.0, *[2.0] * 50],
    "a curriculum": [*[1.0] * 100, *[100.0] * 100, *[0.1] * 100, *[60.0] * 100],
    "fits the data, then new data": [*np.geomspace(10, 1e-8, 300), *[8.0] * 50],
    "grows all along": np.geomspace(1.0, 1e9, 1500),
    "rare spikes": [200.0 if step % 50 == 49 else 1.0 for step in range(1000)],
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_training_has_no_explosion(name: str) -> None:
    assert first_explosion(HEALTHY[name]) is None


def test_a_jump_is_one() -> None:
    assert first_explosion([*[1.0] * 40, 1e4]) == 40


def test_growth_by_half_a_step_is_one_long_before_it_is_infinite() -> None:
    found = first_explosion([*[1.0] * 100, *(1.5**k for k in range(200))])
    assert found is not None and found < 130


def test_in_the_first_steps_it_takes_the_square_of_the_factor() -> None:
    assert first_explosion([1.0, 1.0, 1.0, 1.0, 1e5]) is None
    assert first_explosion([1.0, 1.0, 1.0, 1.0, 1e7]) == 4
    assert first_explosion([1.0, 1e7]) is None  # two steps are no history


def test_below_the_floor_nothing_is() -> None:
    assert first_explosion([*[1e-9] * 40, 1e-2], floor=1.0) is None
    assert first_explosion([*[1e-9] * 40, 1e-2], floor=1e-3) == 40


def test_what_is_usual() -> None:
    history = GradientHistory(1e3, 10, 0.0)
    assert history.usual == 0.0
    for norm in (1.0, 3.0, 2.0):
        history.add(norm)
    assert history.usual == 2.0
    assert not GradientHistory(math.inf, 10, 0.0).has_exploded(1e300)


def test_the_norm_of_tensors_of_any_kind() -> None:
    few = [torch.randn(3, 4), torch.randn(5), torch.empty(0)]
    kinds: dict[str, list[torch.Tensor]] = {
        "contiguous": few,
        "double": [t.double() for t in few],
        "half": [t.bfloat16() for t in few],
        "transposed": [torch.randn(4, 3).t(), *few],
        "every second element": [torch.randn(8)[::2], *few],
        "one element, expanded": [torch.ones(1).expand(9), *few],
        "sparse": [torch.eye(3).to_sparse(), *few],
        "of two dtypes": [torch.randn(3).double(), *few],
        "not a number": [*few, torch.tensor([1.0, math.nan])],
        "infinite": [torch.tensor([-math.inf]), *few],
        "parameters": [torch.nn.Parameter(t) for t in few],
    }
    for name, tensors in kinds.items():
        norms = [float(torch.linalg.vector_norm(t.detach().to_dense().double())) for t in tensors]
        expected = math.sqrt(sum(norm * norm for norm in norms))
        found = float(norm_of(tensors))
        assert found == pytest.approx(expected, 1e-2 if name == "half" else 1e-5, nan_ok=True), name
