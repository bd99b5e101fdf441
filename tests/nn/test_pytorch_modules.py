"""More of what PyTorch's own tests of modules found (`tools/pytorch_tests`)."""

from __future__ import annotations

import gc
import itertools
import warnings
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

BOTH = (gw, torch)


def test_a_class_behind_module_is_made_if_asked() -> None:
    for library in BOTH:

        class Mixin:
            def __init__(self, name: str = "") -> None:
                self.given = name

        class Model(library.nn.Module, Mixin):  # type: ignore[misc, name-defined]
            pass

        assert not hasattr(Model(), "given")
        with pytest.raises(TypeError):
            Model("name")
        Model.call_super_init = True
        assert Model("name").given == "name"


def test_register_buffer_from_before_buffers_were_objects() -> None:
    for library in BOTH:

        class Old(library.nn.Module):  # type: ignore[misc, name-defined]
            def register_buffer(self, name: str, tensor: Any) -> None:
                super().register_buffer(name, tensor)

        model = Old()
        model.mean = library.nn.Buffer(library.ones(2))
        assert list(model.state_dict()) == ["mean"]
        with pytest.raises((TypeError, RuntimeError)):
            Old().mean = library.nn.Buffer(library.ones(2), persistent=False)


def test_dir_lists_no_numbers() -> None:
    for library in BOTH:
        names = dir(library.nn.Sequential(library.nn.Linear(2, 2)))
        assert "0" not in names and "forward" in names


def test_backward_hooks_of_outputs_by_name() -> None:
    class Named(gw.nn.Module):
        def forward(self, x: Any) -> Any:
            return OrderedDict(doubled=x * 2, text="of no matter", squared=x**2)

    model, seen, unseen = Named(), [], []
    model.register_full_backward_hook(lambda *given: unseen.append(given)).remove()
    model.register_backward_hook(lambda module, given, arrived: seen.append((given, arrived)))
    x = gw.tensor([3.0], requires_grad=True)
    out = model(x)
    assert type(out) is OrderedDict and list(out) == ["doubled", "text", "squared"]
    (out["doubled"] + 10 * out["squared"]).sum().backward()
    ((given,), (doubled, text, squared)) = seen[0]
    assert (given.item(), doubled.item(), text, squared.item()) == (62.0, 1.0, None, 10.0)
    model = Named()  # a full hook does not see them, as in PyTorch
    model.register_full_backward_hook(lambda *given: unseen.append(given))
    model(x)["doubled"].sum().backward()
    assert not unseen


@pytest.mark.filterwarnings("ignore:functional_call of Shifted:UserWarning")
@pytest.mark.parametrize("library", BOTH)
def test_functional_call_of_names_that_a_module_does_not_have(library: Any) -> None:
    class Shifted(library.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = library.nn.Linear(1, 1, bias=False)
            self.rate = 0.5

        def forward(self, x: Any) -> Any:
            return self.layer(x) + self.extra, len(list(self.parameters()))

    model, x = Shifted(), library.ones(1)
    given = {
        "layer.weight": library.ones(1, 1),
        "extra": library.nn.Parameter(2 * x),
        "layer.unused": x,
    }
    out, count = library.func.functional_call(model, given, x)
    assert (out.tolist(), count) == ([3.0], 2)
    assert not hasattr(model, "extra") and not hasattr(model.layer, "unused")
    for wrong in ({"rate": x}, {"other.weight": x}):
        with pytest.raises((TypeError, RuntimeError, AttributeError)):
            library.func.functional_call(model, {"extra": x, **wrong}, x)
    assert model.rate == 0.5
    with pytest.raises(RuntimeError):
        library.func.functional_call(model, given, x, strict=True)


def test_functional_call_warns_of_what_may_be_a_slip() -> None:
    with pytest.warns(UserWarning, match=r"has no wieght.*strict=True") as seen:
        gw.func.functional_call(gw.nn.Linear(1, 1), {"wieght": gw.ones(1, 1)}, gw.ones(1))
    assert seen[0].filename == __file__


def test_parameter_dicts_are_dictionaries() -> None:
    results = []
    for library in BOTH:
        parameters = library.nn.ParameterDict({"a": library.ones(1), "b": library.zeros(1)})
        name, last = parameters.popitem()
        kept = parameters.setdefault("a", library.zeros(1)), parameters.setdefault("c", last)
        joined = parameters | library.nn.ParameterDict({"d": library.ones(2)})
        parameters |= {"e": library.ones(3)}
        made = parameters.fromkeys(["x", "y"], library.ones(1))
        assert kept[0] is parameters["a"] and kept[1] is last
        results.append((name, list(parameters), list(joined), list(made)))
    assert results[0] == results[1] == ("b", ["a", "c", "e"], ["a", "c", "d"], ["x", "y"])


@pytest.mark.filterwarnings("ignore:dropout3d:UserWarning")  # PyTorch's
@pytest.mark.parametrize("rank", range(1, 7))
def test_dropout3d_of_any_rank(rank: int) -> None:
    kept = {}
    for library in BOTH:
        out = library.nn.functional.dropout3d(library.ones((8,) + (2,) * (rank - 1)), 0.5, True)
        lead = 2 if rank == 5 else 1
        kept[library] = out.reshape(*out.shape[:lead], -1).numpy()
    for values in kept.values():  # a channel is kept as a whole
        assert (values == values[..., :1]).all() and set(np.unique(values)) <= {0.0, 2.0}
    assert kept[gw].shape == kept[torch].shape


BAGS = {"sum": (False, True), "mean": (False,), "max": (False,)}


@pytest.mark.parametrize("mode", BAGS)
def test_bags_of_embeddings(mode: str) -> None:
    source = np.random.default_rng(0)
    table, shares = source.normal(size=(12, 4)), source.uniform(size=10)
    for weighted, padding, last in itertools.product(BAGS[mode], (None, 3, -1), (False, True)):
        index = source.integers(0, 12, 10)
        offsets = np.array([0, 2, 2, 7, *([10] if last else [])])
        found = []
        for library in BOTH:
            weight = library.tensor(table, requires_grad=True)
            each = library.tensor(shares, requires_grad=True) if weighted else None
            out = library.nn.functional.embedding_bag(
                library.tensor(index), weight, library.tensor(offsets), mode=mode,
                padding_idx=padding, per_sample_weights=each, include_last_offset=last,
            )  # fmt: skip
            (out**2).sum().backward()
            of_shares = each.grad.numpy() if each is not None else np.zeros(0)
            found.append((out.detach().numpy(), weight.grad.numpy(), of_shares))
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_many_bags_need_no_table_of_bags_and_indices() -> None:
    bags, each = 5000, 20
    weight = gw.ones(10, 2, requires_grad=True)
    index = gw.arange(bags * each) % 10
    offsets = gw.arange(0, bags * each, each)
    for mode in BAGS:  # a table would have 4 GB
        out = gw.nn.functional.embedding_bag(index, weight, offsets, mode=mode)
        assert out.shape == (bags, 2)
    out.sum().backward()
    assert weight.grad.sum().item() == bags * 2


@pytest.mark.filterwarnings("ignore:Argument order of nn.functional.embedding_bag")  # PyTorch's
def test_the_older_order_of_embedding_bag() -> None:
    found = []
    for library in BOTH:
        weight = library.tensor([[1.0], [2.0], [4.0]])
        given = (weight, library.tensor([0, 1, 2]), library.tensor([0, 2]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(library.nn.functional.embedding_bag(*given).tolist())
    assert found[0] == found[1] == [[1.5], [4.0]]
    with pytest.warns(UserWarning, match="they are exchanged"):
        gw.nn.functional.embedding_bag(gw.ones(3, 1), gw.tensor([0]), gw.tensor([0]))


def test_gradients_divided_by_how_often_an_index_comes() -> None:
    table = np.random.default_rng(0).normal(size=(5, 3))
    found = []
    for library in BOTH:
        weight = library.tensor(table, requires_grad=True)
        rows = library.nn.functional.embedding(
            library.tensor([[1, 2, 2], [1, 2, 3]]), weight, padding_idx=3, scale_grad_by_freq=True
        )
        (rows**2).sum().backward()
        found.append((rows.detach().numpy(), weight.grad.numpy()))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-12)


@pytest.mark.parametrize("library", BOTH)
def test_a_second_parametrization_is_checked_on_what_it_may_return(library: Any) -> None:
    class Skew(library.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x.triu(1) - x.triu(1).T

        def right_inverse(self, x: Any) -> Any:
            return x.triu(1)

    class Rotation(library.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            one = library.eye(len(x))
            return library.linalg.solve(one + x, one - x)

        def right_inverse(self, x: Any) -> Any:
            if not library.allclose(x.T @ x, library.eye(len(x)), atol=1e-4):
                raise ValueError("not a rotation")
            return library.zeros_like(x)

    layer = library.nn.Linear(3, 3)
    parametrize = library.nn.utils.parametrize
    parametrize.register_parametrization(layer, "weight", Skew())
    parametrize.register_parametrization(layer, "weight", Rotation())
    with pytest.raises(ValueError, match="not a rotation"):
        layer.weight = library.ones(3, 3)


def test_loading_leaves_no_circle_that_keeps_the_tensors() -> None:
    layer = gw.nn.Sequential(gw.nn.Linear(2, 2), gw.nn.Sequential(gw.nn.Linear(2, 2)))
    state = layer.state_dict()
    while gc.collect():  # what compiled functions of other tests leave takes two passes
        pass
    layer.load_state_dict(state)
    assert gc.collect() == 0
