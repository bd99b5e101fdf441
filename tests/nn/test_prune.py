"""Pruning, against PyTorch: masks, what forward and backward see, and what stays after `remove`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.utils.prune

import gradwalk as gw
from gradwalk.nn.utils import prune

WEIGHT = np.random.default_rng(3).normal(size=(4, 3, 3, 2))
SCORES = np.random.default_rng(4).normal(size=WEIGHT.shape)


def each_way(library: Any, layer: Any) -> dict[str, Callable[[], Any]]:
    """Ways to prune the weight of a layer."""
    p = library.nn.utils.prune
    scores = library.tensor(SCORES)
    every_other = library.tensor(np.indices(WEIGHT.shape).sum(0) % 2 == 0)
    return {
        "identity": lambda: p.identity(layer, "weight"),
        "smallest": lambda: p.l1_unstructured(layer, "weight", amount=0.3),
        "smallest by count": lambda: p.l1_unstructured(layer, "weight", 5),
        "by scores": lambda: p.l1_unstructured(layer, "weight", 5, importance_scores=scores),
        "none": lambda: p.random_unstructured(layer, "weight", 0),
        "all": lambda: p.random_unstructured(layer, "weight", 1.0),
        "random": lambda: p.random_unstructured(layer, "weight", 0.6),
        "random channels": lambda: p.random_structured(layer, "weight", 2, dim=0),
        "weak channels": lambda: p.ln_structured(layer, "weight", 0.5, n=2, dim=1),
        "weak channels by largest": lambda: p.ln_structured(
            layer, "weight", 1, n=float("inf"), dim=-1
        ),
        "weak channels by scores": lambda: p.ln_structured(
            layer, "weight", 1, n=1, dim=0, importance_scores=scores
        ),
        "mask": lambda: p.custom_from_mask(layer, "weight", every_other),
    }


def outcome(library: Any, ways: tuple[str, ...]) -> list[Any]:
    """What a layer is and does after it was pruned in some ways, and after `remove`."""
    if library is gw:
        gw.manual_seed(7, like="torch")
    else:
        torch.manual_seed(7)
    layer = library.nn.Conv2d(3, 4, (3, 2), dtype=library.float64)
    with library.no_grad():
        layer.weight.copy_(library.tensor(WEIGHT))
        layer.bias.zero_()
    parameter = layer.weight
    for way in ways:
        each_way(library, layer)[way]()
    assert layer.weight_orig is parameter
    assert library.nn.utils.prune.is_pruned(library.nn.Sequential(layer))
    state = layer.state_dict()
    x = library.tensor(np.random.default_rng(5).normal(size=(2, 3, 4, 4)))
    out = layer(x)
    (out**2).sum().backward()
    seen = [list(state), [name for name, _ in layer.named_parameters()]]
    arrays = [layer.weight_mask, layer.weight, layer.weight_orig, layer.weight_orig.grad, out]
    with library.no_grad():
        parameter.add_(1.0)
        arrays.append(layer(x))
    library.nn.utils.prune.remove(layer, "weight")
    assert layer.weight is parameter
    assert not library.nn.utils.prune.is_pruned(layer)
    seen += [list(layer.state_dict()), len(layer._forward_pre_hooks)]
    return [*seen, *(a.detach().numpy().copy() for a in [*arrays, layer.weight])]


SINGLE = [(way,) for way in each_way(gw, None)]
SEVERAL = [
    ("smallest", "random"),
    ("random channels", "smallest"),
    ("weak channels", "random channels"),
    ("mask", "weak channels", "smallest by count"),
]


@pytest.mark.parametrize("ways", SINGLE + SEVERAL, ids="+".join)
def test_pruned_as_pytorch_prunes(ways: tuple[str, ...]) -> None:
    for ours, theirs in zip(outcome(gw, ways), outcome(torch, ways), strict=True):
        if isinstance(theirs, np.ndarray):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
        else:
            assert ours == theirs


@pytest.mark.parametrize("scored", [False, True])
def test_several_parameters_together(scored: bool) -> None:
    found = []
    for library in (gw, torch):
        net = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.Linear(4, 2))
        rng = np.random.default_rng(0)
        net.load_state_dict(
            {
                name: library.tensor(rng.normal(size=tuple(value.shape)).astype("float32"))
                for name, value in net.state_dict().items()
            }
        )
        p = library.nn.utils.prune
        p.l1_unstructured(net[1], "weight", 2)
        pairs = [(net[0], "weight"), (net[1], "weight"), (net[0], "bias")]
        scores = {pairs[0]: library.ones(4, 3) * 9} if scored else None
        p.global_unstructured(pairs, p.L1Unstructured, scores, amount=0.4)
        found.append([getattr(*pair).detach().numpy().tolist() for pair in pairs])
    assert found[0] == found[1]


def test_the_last_method_sees_what_the_others_left() -> None:
    container = prune.PruningContainer()
    container._tensor_name = "t"
    for method in (prune.LnStructured(1, 1, dim=0), prune.L1Unstructured(2)):
        method._tensor_name = "t"
        container.add_pruning_method(method)
    assert len(container) == len(list(container)) == 2
    t = gw.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    mask = container.compute_mask(t, gw.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]))
    assert mask.tolist() == [[0, 0, 0], [0, 0, 1]]


def test_a_method_of_ones_own() -> None:
    class Every(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def __init__(self, step: int) -> None:
            self.step = step

        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[:: self.step] = 0
            return mask

    layer = gw.nn.Linear(2, 2)
    Every.apply(layer, "weight", 2)
    assert layer.weight_mask.tolist() == [[0, 1], [0, 1]]
    assert Every(4).prune(gw.ones(4)).tolist() == [0, 1, 1, 1]


def test_a_pruned_layer_trains_and_its_state_loads() -> None:
    layer = prune.l1_unstructured(gw.nn.Linear(4, 4), "weight", 0.5)
    optimizer = gw.optim.Adam(layer.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (layer(gw.ones(4)) - 1).square().sum().backward()
        optimizer.step()
    layer(gw.ones(4))
    assert int((layer.weight == 0).sum()) == 8
    other = prune.identity(gw.nn.Linear(4, 4), "weight")
    other.load_state_dict(layer.state_dict())
    assert other(gw.ones(4)).tolist() == layer(gw.ones(4)).tolist()
    prune.remove(layer, "weight")
    assert int((copy.deepcopy(layer).weight == 0).sum()) == 8


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        (lambda m: prune.l1_unstructured(m, "weight", -1), ValueError, "not -1"),
        (lambda m: prune.l1_unstructured(m, "weight", 1.1), ValueError, "not 1.1"),
        (lambda m: prune.l1_unstructured(m, "weight", float("nan")), ValueError, "not nan"),
        (lambda m: prune.l1_unstructured(m, "weight", "all"), TypeError, "not str"),
        (lambda m: prune.l1_unstructured(m, "weight", 7), ValueError, "7 to prune, of 6"),
        (lambda m: prune.random_structured(m, "bias", 1, 0), ValueError, "shape"),
        (lambda m: prune.random_structured(m, "weight", 1, 2), IndexError, "dimension 2"),
        (lambda m: prune.remove(m, "weight"), ValueError, "not pruned"),
        (lambda m: prune.l1_unstructured(m, "weight", 1, gw.ones(2)), ValueError, "be equal"),
        (
            lambda m: prune.global_unstructured([(m, "weight")], prune.LnStructured, amount=1, n=1),
            TypeError,
            "only unstructured",
        ),
    ],
)
def test_refusals_change_nothing(
    wrong: Callable[[Any], Any], kind: type[Exception], text: str
) -> None:
    layer = gw.nn.Linear(2, 3)
    with pytest.raises(kind, match=text):
        wrong(layer)
    assert list(layer.state_dict()) == ["weight", "bias"]
    assert not prune.is_pruned(layer)


def test_the_mask_of_a_container_has_the_dtype_of_the_tensor() -> None:
    masks = []
    for m in (gw, torch):
        container = m.nn.utils.prune.PruningContainer()
        container._tensor_name = "test"
        method = m.nn.utils.prune.L1Unstructured(amount=2)
        method._tensor_name = "test"
        container.add_pruning_method(method)
        t = m.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
        masks.append(container.compute_mask(t, m.tensor([[1, 1, 1, 0], [1, 1, 0, 1]])).numpy())
    assert masks[0].dtype == masks[1].dtype
    np.testing.assert_array_equal(*masks)
