"""The steps of benchmarks/steps do the same work in gradwalk, PyTorch and JAX."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from compiled import TENSOR_ROWS, prepare  # the benchmark is a script and its folder no package

STEPS = 4
RATE = 1e-2


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def losses(row, form):
    step = prepare(row, form, RATE)()
    return [step()() for _ in range(STEPS)]


@pytest.mark.slow
@pytest.mark.parametrize("row", TENSOR_ROWS)
@pytest.mark.parametrize("form", ["torch", "torch fused", "jax", "jax other"])
def test_losses_are_those_of_gradwalk(row, form):
    if form.startswith("jax"):
        pytest.importorskip("jax")
    expected = losses(row, "gradwalk eager")
    assert expected[0] != pytest.approx(expected[-1], rel=1e-3), "nothing was learnt"
    assert losses(row, form) == pytest.approx(expected, rel=1e-4)
