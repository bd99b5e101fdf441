"""Lazy layers: they become PyTorch's layer at their first input, or when a state is loaded."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched

SHAPES = {"1d": (2, 4, 9), "2d": (2, 4, 7, 8), "3d": (2, 4, 5, 6, 5)}
LAYERS = [
    ("LazyLinear(3)", (2, 5, 4)),
    ("LazyLinear(3, bias=False, dtype=m.float64)", (4,)),
    *(
        (f"Lazy{kind}{n}({arguments})", shape)
        for n, shape in SHAPES.items()
        for kind, arguments in (
            ("Conv", "6, 3, groups=2"),
            ("Conv", "6, 3, bias=False"),
            ("ConvTranspose", "6, 3, groups=2"),
            ("BatchNorm", ""),
            ("BatchNorm", "affine=False, momentum=None"),
            ("InstanceNorm", "affine=True, track_running_stats=True"),
        )
    ),
]


@batched("text, shape", LAYERS)
def test_a_lazy_layer_becomes_pytorchs(text: str, shape: tuple[int, ...]) -> None:
    gw.manual_seed(0, like="torch")
    torch.manual_seed(0)
    results = []
    for m in (gw, torch):
        layer = eval(f"nn.{text}", {"m": m, "nn": m.nn}).double()
        parameters = list(layer.parameters())
        x = m.tensor(np.random.default_rng(0).normal(size=shape), requires_grad=True)
        out = layer(x)
        assert [p is q for p, q in zip(parameters, layer.parameters())] == [True] * len(parameters)
        (out * out).sum().backward()
        gradients = [p.grad for p in parameters]
        results.append((repr(layer), [out.detach(), *gradients, *layer.state_dict().values()]))
        if m is gw:
            again = eval(f"nn.{text}", {"m": m, "nn": m.nn}).double()
            again.load_state_dict(layer.state_dict())
            assert type(again) is type(layer)
            assert gw.equal(again.eval()(x), layer.eval()(x))
    (text, ours), (their_text, theirs) = results
    assert text == their_text and len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-9)
    gw.manual_seed(0)


def test_an_optimizer_made_before_the_first_input_moves_the_parameters() -> None:
    model = gw.nn.Sequential(gw.nn.LazyLinear(3), gw.nn.Tanh(), gw.nn.LazyLinear(1)).eval()
    optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
    assert model[0].has_uninitialized_params() and repr(model[0]) == "LazyLinear(out_features=3)"
    model(gw.ones(2, 5)).sum().backward()
    before: Any = model[0].weight.detach().clone()
    optimizer.step()
    assert model[0].weight.shape == (3, 5) and not gw.equal(before, model[0].weight)
    assert not model[2].training


def test_arguments_are_checked_at_once() -> None:
    with pytest.raises(TypeError):
        gw.nn.LazyConv2d(3)


def test_an_input_given_by_name_and_a_layer_that_waits_for_nothing() -> None:
    layer = gw.nn.LazyBatchNorm1d()
    assert layer(input=gw.ones(3, 4)).shape == (3, 4) and type(layer) is gw.nn.BatchNorm1d
    plain = gw.nn.LazyInstanceNorm1d(affine=False, track_running_stats=False)
    assert not plain.has_uninitialized_params()


@pytest.mark.parametrize("name", [name for name in gw.nn.__all__ if name.startswith("Lazy")])
def test_defaults_are_pytorchs(name: str) -> None:
    def defaults(library: Any) -> dict[str, Any]:
        parameters = inspect.signature(getattr(library.nn, name)).parameters.values()
        return {p.name: p.default for p in parameters}

    assert defaults(gw).items() <= defaults(torch).items()
