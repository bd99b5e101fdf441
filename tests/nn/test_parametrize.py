"""Parametrized weights: PyTorch's names, values, gradients and power iteration."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched

# PyTorch's own word on its first weight_norm.
pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")

WRAPPED: dict[str, Any] = {
    "weight_norm": lambda nn: nn.utils.weight_norm(nn.Conv2d(3, 4, 3), dim=1),
    "parametrized weight_norm": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)),
    "spectral_norm": lambda nn: nn.utils.spectral_norm(nn.Conv2d(3, 4, 3)),
    "transposed": lambda nn: nn.utils.spectral_norm(nn.ConvTranspose2d(3, 4, 3), "weight", 2),
    "parametrized spectral_norm": lambda nn: nn.utils.parametrizations.spectral_norm(
        nn.ConvTranspose2d(3, 4, 3)
    ),
    **{
        f"orthogonal {shape} {kind} {around}": lambda nn, shape=shape, kind=kind, around=around: (
            nn.utils.parametrizations.orthogonal(
                nn.Linear(*shape), orthogonal_map=kind, use_trivialization=around
            )
        )
        for shape in ((6, 6), (6, 4), (6, 9))
        for kind in ("matrix_exp", "cayley", "householder", None)
        for around in (True, False)
        if around or kind == "householder"
    },
    "of a vector": lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4), "bias"),
}


@batched("name", WRAPPED)
def test_values_gradients_and_state_are_pytorchs(name: str) -> None:
    ours, theirs = WRAPPED[name](gw.nn).double(), WRAPPED[name](torch.nn).double()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
    x = np.random.default_rng(0).normal(size=(2, 3, 6, 6))
    for training in (True, True, False):
        results = []
        for m, module in ((gw, ours), (torch, theirs)):
            module.train(training)
            module.zero_grad()
            out = module(m.tensor(x))
            (out * out).sum().backward()
            gradients = [p.grad for p in module.parameters()]
            state = list(module.state_dict().values())
            results.append([out.detach(), *gradients, *state])
        for mine, other in zip(*results):
            np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)


def test_complex_weights_are_divided_by_their_largest_singular_value() -> None:
    results = []
    start = np.random.default_rng(0).normal(size=(2, 4, 6))
    for m in (gw, torch):
        layer = m.nn.Linear(6, 4, dtype=m.complex128)
        layer.weight.data.copy_(m.tensor(start[0] + 1j * start[1]))
        normed = m.nn.utils.parametrizations.spectral_norm(layer, n_power_iterations=300)
        made = normed.weight
        (made.abs() ** 3).sum().backward()
        gradient = normed.parametrizations.weight.original.grad
        results.append((made.detach().numpy(), gradient.numpy()))
    for mine, theirs in zip(*results):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_two_forwards_before_one_backward() -> None:
    """Power iteration changes its vectors in place; the first forward keeps its own."""
    layer = gw.nn.utils.spectral_norm(gw.nn.Linear(4, 3))
    (layer(gw.ones(2, 4)).sum() - layer(gw.zeros(2, 4)).sum()).backward()
    assert layer.weight_orig.grad is not None


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
def test_a_norm_is_removed_and_not_added_twice(name: str) -> None:
    add, remove = getattr(gw.nn.utils, name), getattr(gw.nn.utils, f"remove_{name}")
    layer = add(gw.nn.Linear(4, 3)).eval()
    before = layer(gw.ones(4))
    with pytest.raises(RuntimeError, match="already"):
        add(layer)
    assert gw.allclose(remove(layer)(gw.ones(4)), before)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="has no"):
        remove(layer)


class Doubled(gw.nn.Module):
    def forward(self, x: Any) -> Any:
        return 2 * x

    def right_inverse(self, x: Any) -> Any:
        return x / 2


class Flattened(gw.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.flatten()


class Lengthened(gw.nn.Module):
    def forward(self, x: Any) -> Any:
        return gw.cat([x, x])


def test_parametrizations_are_added_assigned_and_removed() -> None:
    parametrize = gw.nn.utils.parametrize
    layer = gw.nn.Linear(2, 2)
    weight, start = layer.weight, layer.weight.tolist()
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert layer.weight.tolist() == start
    parametrize.register_parametrization(layer, "weight", Doubled())  # of what it is by now
    assert layer.weight.tolist() == [[2 * w for w in row] for row in start]
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is gw.nn.Linear
    assert isinstance(layer, gw.nn.Linear)
    assert layer.parametrizations.weight.original is weight  # an optimizer may have it
    layer.weight = gw.ones(2, 2)
    assert weight.tolist() == [[0.25, 0.25], [0.25, 0.25]]
    layer(gw.ones(2)).sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]
    other = copy.deepcopy(layer)
    with gw.no_grad():
        other.parametrizations.weight.original.zero_()
    assert layer.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with parametrize.cached():
        assert layer.weight is layer.weight
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is gw.nn.Linear and layer.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    parametrize.remove_parametrizations(other, "weight", leave_parametrized=False)
    assert other.weight.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_parametrization_that_changes_the_shape_is_refused() -> None:
    parametrize = gw.nn.utils.parametrize
    layer = gw.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="unsafe=True"):
        parametrize.register_parametrization(layer, "weight", Flattened())
    parametrize.register_parametrization(layer, "bias", Doubled())
    with pytest.raises(ValueError, match="unsafe=True"):
        parametrize.register_parametrization(layer, "bias", Lengthened())
    with pytest.raises(ValueError, match="no parameter or buffer"):
        parametrize.register_parametrization(layer, "size", Doubled())
    with pytest.raises(ValueError, match="not parametrized"):
        parametrize.remove_parametrizations(layer, "weight")


def test_a_training_step_with_spectral_norm_compiles() -> None:
    def losses(compiled: bool) -> list[float]:
        gw.manual_seed(0)
        layer = gw.nn.utils.parametrizations.spectral_norm(gw.nn.Linear(4, 3))
        optimizer = gw.optim.SGD(layer.parameters(), lr=0.1)
        x = gw.randn(5, 4)

        def step() -> Any:
            optimizer.zero_grad()
            loss = (layer(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = gw.compile(step) if compiled else step
        return [float(run()) for _ in range(4)]

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-5)


@batched("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
def test_orthogonal_keeps_orthogonal_values(shape: tuple[int, ...]) -> None:
    for kind in ("matrix_exp", "cayley", "householder"):
        holder = gw.nn.Module()
        holder.w = gw.nn.Parameter(gw.randn(*shape, dtype=gw.float64))
        gw.nn.utils.parametrizations.orthogonal(holder, "w", kind)
        tall = holder.w if shape[-2] >= shape[-1] else holder.w.mT
        product = (tall.mT @ tall).detach().numpy()
        np.testing.assert_allclose(
            product, np.broadcast_to(np.eye(min(shape[-2:])), product.shape), atol=1e-12
        )
        target = holder.w.detach().clone()
        holder.w = target  # what is orthogonal keeps its value
        np.testing.assert_allclose(holder.w.detach().numpy(), target.numpy(), atol=1e-12)


def test_orthogonal_refuses() -> None:
    orthogonal = gw.nn.utils.parametrizations.orthogonal
    with pytest.raises(ValueError, match="needs a matrix"):
        orthogonal(gw.nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="one of matrix_exp, cayley, householder"):
        orthogonal(gw.nn.Linear(2, 2), orthogonal_map="polar")
    layer = gw.nn.Linear(2, 2)
    with pytest.raises(NotImplementedError, match=r"has no inverse\. Fix: "):
        orthogonal(layer, orthogonal_map="cayley", use_trivialization=False)
        layer.weight = gw.eye(2)
    square = gw.nn.Linear(3, 4)
    orthogonal(square)
    before = square.weight.detach().clone()
    with pytest.raises(ValueError, match=r"\(5, 5\) for orthogonal matrices of shape \(4, 3\)"):
        square.weight = gw.ones(5, 5)
    assert gw.equal(square.weight, before)
    with pytest.raises(ValueError, match="takes real matrices"):
        orthogonal(gw.nn.Linear(2, 2, dtype=gw.complex64), orthogonal_map="householder")


@pytest.mark.parametrize("around", [True, False])
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley"])
@pytest.mark.parametrize("shape", [(3, 4), (4, 3)])
def test_a_map_that_has_no_inverse_and_complex_matrices(
    orthogonal_map: str, around: bool, shape: tuple[int, int]
) -> None:
    for dtype in (gw.float64, gw.complex128):
        layer = gw.nn.Linear(*shape, dtype=dtype)
        before = layer.weight.detach().clone()
        gw.nn.utils.parametrizations.orthogonal(
            layer, orthogonal_map=orthogonal_map, use_trivialization=around
        )
        if not around:  # as in PyTorch, what it had is what it is made from
            assert gw.equal(layer.parametrizations.weight.original, before)
        w = layer.weight if shape == (4, 3) else layer.weight.mH  # more columns than rows
        np.testing.assert_allclose((w @ w.mH).detach().numpy(), np.eye(3), atol=1e-12)


def test_a_further_parametrization_with_a_wrong_inverse() -> None:
    class Same(gw.nn.Module):
        def forward(self, x: Any) -> Any:
            return x

    class Wrong(Same):
        def __init__(self, inverse: Any) -> None:
            super().__init__()
            self.inverse = inverse

        def right_inverse(self, x: Any) -> Any:
            return self.inverse(x)

    register = gw.nn.utils.parametrize.register_parametrization
    layer = register(gw.nn.Linear(2, 2), "weight", Same())
    for inverse, why in (
        (lambda x: (x, x), "returns a tuple"),
        (lambda x: x[:1], r"of shape \(1, 2\)"),
        (lambda x: x.bool(), "returns bool"),
    ):
        with pytest.raises(ValueError, match=why):
            register(layer, "weight", Wrong(inverse))
    assert len(layer.parametrizations.weight) == 1
