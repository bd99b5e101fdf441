"""Meshes, and what is divided over them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.distributed import sharding_of


def model() -> Any:
    gw.manual_seed(0)
    return gw.nn.Sequential(gw.nn.Linear(4, 8), gw.nn.BatchNorm1d(8), gw.nn.Linear(8, 3))


def test_a_mesh_is_a_device_with_named_axes() -> None:
    mesh = gw.Mesh(data=4, model=-1)
    assert dict(mesh.shape) == {"data": 4, "model": 2} and mesh.size == 8
    assert repr(mesh) == "Mesh(data=4, model=2, device='xla')" and mesh.type == "xla"
    assert mesh == gw.Mesh(data=4, model=2, device="xla") != gw.Mesh(data=8)
    assert pickle.loads(pickle.dumps(mesh)).shape == mesh.shape == copy.deepcopy(mesh).shape
    x = gw.ones(3, device=mesh)
    assert x.device == mesh and x.to(mesh) is x and gw.zeros_like(x).device == mesh
    assert x.to("xla:1").device == gw.device("xla:1") and x.cpu().is_cpu


@pytest.mark.parametrize(
    "axes, complaint",
    [
        ({}, r"needs a named axis. Fix: gw.Mesh\(data=8\)"),
        ({"data": 3}, "data=3 needs 3 devices, and there are 8 of kind 'xla'(.|\n)*count=3"),
        ({"data": -1, "model": 3}, "needs a multiple of 3 devices"),
        ({"data": -1, "model": -1}, "one axis of a mesh may be -1"),
        ({"data": 0}, "positive size, or -1; not 0"),
        ({"data": 8.0}, "positive size, or -1; not 8.0"),
        ({"data": 8, "device": "cpu"}, "no mesh of devices 'cpu': they are cuda, tpu, xla"),
    ],
)
def test_a_mesh_that_cannot_be(axes: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        gw.Mesh(**axes)


def test_a_tensor_is_divided_and_gathered() -> None:
    mesh = gw.Mesh(data=4, model=2)
    x = gw.arange(16.0, requires_grad=True)
    parts = gw.distribute({"x": [x.reshape(8, 2)], "name": "a"}, mesh, ("data",))
    divided = parts["x"][0]
    assert parts["name"] == "a" and sharding_of(divided) == ("data", None)
    assert divided._array.term.addressable_shards[0].data.shape == (2, 2)
    assert sharding_of(gw.distribute(divided, mesh)) == (None, None)
    assert sharding_of(gw.distribute(x, mesh, (("data", "model"),))) == (("data", "model"),)
    assert divided.tolist() == x.reshape(8, 2).tolist()
    (divided * divided).sum().backward()
    assert x.grad is not None and x.grad.is_cpu and x.grad.tolist() == (2 * x).tolist()


def test_copies_and_writes_keep_the_division() -> None:
    mesh = gw.Mesh(data=8)
    x = gw.distribute(gw.zeros(8, 2), mesh, ("data",))
    row = x[3]
    row += 1
    x.mul_(2.0).copy_(x + gw.ones(8, 2, device=mesh))
    assert x.tolist() == [[3.0, 3.0] if i == 3 else [1.0, 1.0] for i in range(8)]
    for same in (x, copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert sharding_of(same) == ("data", None) and same.device == mesh


def test_a_model_is_divided_by_patterns() -> None:
    mesh, own = gw.Mesh(data=4, model=2), model()
    own(gw.ones(2, 4)).sum().backward()
    optimizer = gw.optim.Adam(own.parameters())
    optimizer.step()
    before = {name: value.tolist() for name, value in own.state_dict().items()}
    gw.distribute(own, mesh, {"2.bias": (), "2.*": (None, "model"), "*weight": ("model",)})
    gw.distribute(optimizer, mesh)
    found = {name: sharding_of(p) for name, p in own.named_parameters()}
    assert found == {
        "0.weight": ("model", None), "0.bias": (None,), "1.weight": ("model",), "1.bias": (None,),
        "2.weight": (None, "model"), "2.bias": (None,),
    }  # fmt: skip
    for name, parameter in own.named_parameters():
        kept = [v for v in optimizer.state[parameter].values() if isinstance(v, gw.Tensor)]
        assert len(kept) == 2
        for follower in (parameter.grad, *kept):
            assert follower is not None and sharding_of(follower) == found[name]
    assert {name: value.tolist() for name, value in own.state_dict().items()} == before
    assert all(buffer.device == mesh for buffer in own.buffers())


@pytest.mark.parametrize(
    "patterns, complaint",
    [
        ({"*": (), "0.*": ("data",)}, r"'0.\*' has no effect: '\*', before it(.|\n)*Fix: write"),
        ({"*.Weight": ("data",)}, r"'\*.Weight' matches no parameter(.|\n)*'0.weight'"),
        ({"0.wieght": ("data",)}, "'0.wieght' matches no parameter(.|\n)*such as '0.weight'"),
        (
            {"*": ("data",)},
            r"parameter '2.weight'.*\(3, 8\).*axis 'data'.*4 equal(.|\n)*Fix: .*: \(\)",
        ),
        ({"0.bias": (None, "data")}, r"'0.bias'.*\(8,\) has 1 dimensions"),
        ({"0.weight": ("rows",)}, "no axis 'rows', but 'data', 'model'"),
        ({"0.weight": ("data", "data")}, "names an axis twice"),
    ],
)
def test_patterns_that_do_not_fit_change_nothing(patterns: Any, complaint: str) -> None:
    own = model()
    with pytest.raises(ValueError, match=complaint):
        gw.distribute(own, gw.Mesh(data=4, model=2), patterns)
    assert all(p.is_cpu for p in own.parameters())


def test_the_wrong_kind_of_sharding() -> None:
    mesh, own = gw.Mesh(data=8), model()
    with pytest.raises(TypeError, match="a model takes patterns"):
        gw.distribute(own, mesh, ("data",))
    with pytest.raises(TypeError, match="patterns are for a model"):
        gw.distribute(gw.ones(8), mesh, {"*": ("data",)})
    with pytest.raises(TypeError, match=r"such as \('data',\).* not 'data'"):
        gw.distribute(gw.ones(8), mesh, "data")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"dimension 0 of its shape \(6,\).*8 equal parts"):
        gw.distribute(gw.ones(6), mesh, ("data",))
    with pytest.raises(RuntimeError, match=r"of this optimizer is on cpu(.|\n)*model first"):
        gw.distribute(gw.optim.SGD(own.parameters(), lr=0.1), mesh)
    with pytest.raises(RuntimeError, match=r"two devices(.|\n)*gw.distribute\(x, mesh\)"):
        gw.ones(8, device=mesh) + gw.ones(8)
    assert (gw.ones(8, device=mesh) + np.float32(1)).device == mesh
    for wrong in (np.ones(8), 3, gw.compile(lambda x: x)):
        with pytest.raises(TypeError, match="takes a model, an optimizer or tensors, not "):
            gw.distribute(wrong, mesh)
    with pytest.raises(TypeError, match=r"takes a gw\.Mesh, not Sequential"):
        gw.distribute(mesh, own)
    with pytest.raises(TypeError, match=r"\(\) for what stays whole; not None"):
        gw.distribute(own, mesh, {"*": None})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="a pattern is a text that matches names, not 0"):
        gw.distribute(own, mesh, {0: ("data",)})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"have names: gw.Mesh\(data=8, model=2\), not 8"):
        gw.Mesh(8)  # type: ignore[arg-type]
    assert gw.Mesh(data=np.int64(8)) == mesh


def test_a_tied_parameter_is_found_by_each_of_its_names() -> None:
    tied = gw.nn.Sequential(gw.nn.Embedding(8, 4), gw.nn.Linear(4, 8, bias=False))
    tied[1].weight = tied[0].weight
    gw.distribute(tied, gw.Mesh(data=8), {"1.weight": ("data",)})
    assert tied[1].weight is tied[0].weight and sharding_of(tied[0].weight) == ("data", None)


def test_a_model_is_distributed_again() -> None:
    own = model()
    before = own[0].weight.tolist()
    for mesh, axis in ((gw.Mesh(data=8), "data"), (gw.Mesh(data=4, model=2), "model")):
        for _ in range(2):
            gw.distribute(own, mesh, {"0.*": (axis,)})
            assert sharding_of(own[0].weight) == (axis, None) and own[0].weight.device == mesh
    assert own[0].weight.tolist() == before


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop"])
def test_the_state_of_an_optimizer_follows_parameters_that_move(kind: str) -> None:
    """Without gw.distribute(optimizer, mesh), there and back."""
    mesh = gw.Mesh(data=8)
    x = gw.tensor(np.random.default_rng(0).standard_normal((8, 4)))

    def parameters_after(places: Any) -> list[Any]:
        gw.manual_seed(0)
        own = gw.nn.Linear(4, 8, dtype=gw.float64)
        options = {"momentum": 0.9} if kind in ("SGD", "RMSprop") else {}
        optimizer = getattr(gw.optim, kind)(own.parameters(), lr=0.1, **options)
        for place in places:
            if place is mesh:
                gw.distribute(own, mesh, {"*": ("data",)})
            else:
                own.to(place)
            for _ in range(2):
                optimizer.zero_grad()
                (own(x.to(place)) ** 2).mean().backward()
                optimizer.step()
            kept = optimizer.state[own.weight].values()
            tensors = [value for value in kept if isinstance(value, gw.Tensor)]
            assert tensors and all(value.device == own.weight.device for value in tensors)
            assert all(sharding_of(value) == sharding_of(own.weight) for value in tensors)
        return [parameter.detach().cpu().numpy() for parameter in own.parameters()]

    wanted, found = parameters_after(["cpu"] * 4), parameters_after(["cpu", "xla", mesh, "cpu"])
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_allclose(other, one, 1e-10)
