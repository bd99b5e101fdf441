"""The hand-written steps of benchmarks/floor do all the work that gradwalk's steps do."""

import numpy as np
import pytest
from scipy.special import ndtr

import gradwalk
from benchmarks.floor import FLOORS
from benchmarks.floor.gpt import normal_below
from benchmarks.models import NETWORKS, start, training_step

RATE = 1e-3


def arrays(model):
    return {name: each.detach().numpy().copy() for name, each in model.named_parameters()}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_two_steps_by_hand_are_two_steps_of_gradwalk(name):
    before, inputs, labels = start(gradwalk, NETWORKS[name], "float64")
    floor = FLOORS[name](arrays(before), RATE)
    model, step = training_step(gradwalk, NETWORKS[name], RATE, "float64")

    for _ in range(2):
        assert floor.step(inputs, labels) == pytest.approx(step(), rel=1e-9)

    after = arrays(model)
    assert floor.parameters.keys() == after.keys()
    for key, expected in after.items():
        np.testing.assert_allclose(floor.parameters[key], expected, rtol=1e-9, atol=1e-9 * RATE)
        assert not np.array_equal(expected, before.get_parameter(key).detach().numpy()), key


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_by_hand_in_float32(name):
    model, inputs, labels = start(gradwalk, NETWORKS[name], "float32")
    loss, gradients = FLOORS[name](arrays(model), RATE).gradients(inputs, labels)
    same, step = training_step(gradwalk, NETWORKS[name], RATE)

    assert loss == pytest.approx(step(), rel=1e-5)
    for key, parameter in same.named_parameters():
        expected = parameter.grad.numpy()
        assert gradients[key].dtype == np.float32
        # A gradient that is 0 but for rounding, a key's bias, has no scale of its own.
        near = 1e-4 * max(np.abs(expected).max(), 1e-4)
        np.testing.assert_allclose(gradients[key], expected, rtol=1e-4, atol=near)


def test_normal_distribution_in_float32():
    x = np.linspace(-12, 12, 20001, dtype=np.float32)
    out, scratch = np.empty_like(x), np.empty_like(x)
    normal_below(x, np.exp(-0.5 * x * x), out, scratch)
    np.testing.assert_allclose(out, ndtr(x.astype(np.float64)), rtol=0, atol=3e-7)
