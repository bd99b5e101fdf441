"""Jacobians run their sweeps side by side, and say so where they cannot."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.autograd import jacobians

WEIGHT = np.random.default_rng(0).normal(size=(7, 5))


def layer(calls: list[int]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        h = gw.tensor(WEIGHT) @ x
        h.register_hook(lambda g: calls.append(1))
        return h.tanh()

    return run


def slopes(x: Any) -> Any:
    return (1 - np.tanh(WEIGHT @ x.numpy()) ** 2)[:, None] * WEIGHT


@pytest.mark.parametrize(("chunk_size", "sweeps"), [(None, 1), (3, 3), (7, 1), (100, 1), (1, 7)])
def test_reverse_sweeps_run_in_chunks(chunk_size: int | None, sweeps: int) -> None:
    x, calls = gw.tensor(WEIGHT[0]), list[int]()
    found = gw.jacrev(layer(calls), chunk_size=chunk_size)(x)
    np.testing.assert_allclose(found.numpy(), slopes(x), rtol=1e-12)
    assert len(calls) == sweeps and not found.requires_grad


def test_a_wide_function_runs_as_many_sweeps_as_memory_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jacobians, "_AT_ONCE", 15)  # the widest of 7 elements: 2 at a time
    x, calls = gw.tensor(WEIGHT[0]), list[int]()
    np.testing.assert_allclose(gw.jacrev(layer(calls))(x).numpy(), slopes(x), rtol=1e-12)
    assert len(calls) == 4
    np.testing.assert_allclose(gw.jacfwd(layer([]))(x).numpy(), slopes(x), rtol=1e-12)


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_results_are_free_unless_something_around_needs_their_graph(name: str) -> None:
    jacobian = getattr(gw, name)(lambda x: x**3)
    x = gw.tensor([1.0, 2.0])
    assert not jacobian(x).requires_grad
    x.requires_grad_()
    (second,) = gw.autograd.grad(jacobian(x).sum(), x)
    assert second.tolist() == [6.0, 12.0]
    nested = gw.jacrev(getattr(gw, name)(gw.jacfwd(lambda x: x**3)))(gw.tensor([1.0, 2.0]))
    assert not nested.requires_grad and nested[1, 1, 1, 1] == 6.0 and nested.count_nonzero() == 2


class Doubled(gw.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return gw.tensor(2 * x.numpy())

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return gw.tensor(2 * g.numpy())


def test_what_vmap_refuses_is_swept_one_by_one_with_a_warning() -> None:
    x = gw.tensor([1.0, 2.0])
    with pytest.warns(UserWarning, match="jacrev computes its sweeps one after the other") as told:
        found = gw.jacrev(Doubled.apply)(x)
    assert found.tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gw.equal(gw.jacrev(Doubled.apply, chunk_size=1)(x), found)


def test_a_checkpointed_dropout_is_drawn_again_as_it_was() -> None:
    gw.manual_seed(3)

    def dropped(x: Any) -> Any:
        return gw.utils.checkpoint.checkpoint(lambda t: gw.nn.functional.dropout(t * t), x)

    x = gw.ones(40)
    factors = gw.jacrev(dropped)(x).diagonal()
    assert set(factors.tolist()) == {0.0, 4.0}


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_nothing_has_an_empty_jacobian(shape: tuple[int, ...]) -> None:
    x = gw.zeros(*shape)
    assert gw.jacrev(lambda x: x**2)(x).shape == (*shape, *shape)
    assert gw.jacfwd(lambda x: x.sum())(x).shape == shape


def test_chunks_have_a_size() -> None:
    with pytest.raises(ValueError, match="chunk_size is at least 1, not 0"):
        gw.jacrev(lambda x: x, chunk_size=0)


@pytest.mark.parametrize(
    "name", ["vmap", "grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "linearize"]
)
def test_the_function_is_an_argument_of_pytorchs_name(name: str) -> None:
    assert next(iter(inspect.signature(getattr(gw.func, name)).parameters)) == "func"
