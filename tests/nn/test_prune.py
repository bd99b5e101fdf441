"""Pruning leaves the parameters that PyTorch's pruning leaves."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch as pytorch
import torch.nn.utils.prune

import gradwalk as gw
from gradwalk.nn.utils import prune

RECIPES: dict[str, Callable[[Any, Any], Any]] = {
    "random": lambda p, m: p.random_unstructured(m, "weight", 0.3),
    "l1": lambda p, m: p.l1_unstructured(m, "weight", amount=5),
    "scores": lambda p, m: p.l1_unstructured(m, "weight", 3, importance_scores=m.weight.flip(0)),
    "slices": lambda p, m: p.random_structured(m, "weight", amount=2, dim=1),
    "norms": lambda p, m: p.ln_structured(m, "weight", amount=0.5, n=2, dim=0),
    "mask": lambda p, m: p.custom_from_mask(m, "weight", (m.weight > 0).float()),
    "nothing": lambda p, m: p.identity(m, "weight"),
    "again": lambda p, m: p.l1_unstructured(p.l1_unstructured(m, "weight", 4), "weight", 0.5),
    "slices after elements": lambda p, m: p.ln_structured(
        p.random_unstructured(m, "weight", 0.4), "weight", 0.5, n=1, dim=-1
    ),
    "elements after slices": lambda p, m: p.l1_unstructured(
        p.ln_structured(m, "weight", 1, n=2, dim=0), "weight", 0.25
    ),
    "slices after slices": lambda p, m: p.ln_structured(
        p.ln_structured(m, "weight", 1, n=2, dim=0), "weight", 1, n=2, dim=0
    ),
    "all layers": lambda p, m: p.global_unstructured(
        [(m, "weight"), (m, "bias")], pruning_method=p.L1Unstructured, amount=0.4
    ),
    "removed": lambda p, m: p.remove(p.l1_unstructured(m, "weight", 4), "weight"),
}


def pruned(torch: ModuleType, recipe: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """What the state has after the recipe and three steps of training."""
    torch.manual_seed(0, **({"like": "torch"} if torch is gw else {}))
    layer = torch.nn.Linear(4, 6)
    recipe(torch.nn.utils.prune, layer)
    before = layer.weight.detach().numpy().copy()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    x = torch.ones(2, 4)
    for _ in range(3):
        optimizer.zero_grad()
        (layer(x) ** 2).sum().backward()
        optimizer.step()
    layer(x)
    names = [name for name, _ in layer.named_parameters()]
    found = {name: value.numpy() for name, value in layer.state_dict().items()}
    used = layer.weight.detach().numpy()
    return {"before": before, **found, "used": used, "names": np.array(names)}


@pytest.mark.parametrize("name", RECIPES)
def test_pruning_is_pytorchs(name: str) -> None:
    ours, theirs = pruned(gw, RECIPES[name]), pruned(pytorch, RECIPES[name])
    assert list(ours) == list(theirs)
    assert ours.pop("names").tolist() == theirs.pop("names").tolist()
    for key, value in theirs.items():
        np.testing.assert_allclose(ours[key], value, rtol=1e-5, atol=1e-6, err_msg=key)


class EveryOther(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        mask = default_mask.clone()
        mask.view(-1)[::2] = 0
        return mask


def test_a_method_of_ones_own() -> None:
    layer = gw.nn.Linear(3, 4)
    EveryOther.apply(layer, "bias")
    assert layer.bias_mask.tolist() == [0, 1, 0, 1]
    assert prune.is_pruned(gw.nn.Sequential(layer))
    prune.remove(layer, "bias")
    assert not prune.is_pruned(layer) and layer.bias[::2].tolist() == [0, 0]
    assert EveryOther().prune(gw.ones(3)).tolist() == [0, 1, 0]


def test_what_cannot_be_pruned_is_refused_and_nothing_changes() -> None:
    layer = gw.nn.Linear(3, 4)
    for ask, error in (
        (lambda: prune.l1_unstructured(layer, "weight", 1.5), ValueError),
        (lambda: prune.l1_unstructured(layer, "weight", 13), ValueError),
        (lambda: prune.l1_unstructured(layer, "weight", "half"), TypeError),
        (lambda: prune.ln_structured(layer, "bias", 1, n=2, dim=0), ValueError),
        (lambda: prune.ln_structured(layer, "weight", 1, n=2, dim=2), IndexError),
        (lambda: prune.remove(layer, "weight"), ValueError),
        (lambda: prune.l1_unstructured(layer, "weight", 1, gw.ones(2)), ValueError),
    ):
        with pytest.raises(error):
            ask()  # type: ignore[no-untyped-call]
    with pytest.raises(TypeError, match="structured"):
        prune.global_unstructured([(layer, "weight")], prune.LnStructured, amount=1, n=2)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    assert not prune.is_pruned(layer)
