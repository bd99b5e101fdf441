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
    with pytest.raises(TypeError, match=r"such as \('data',\), not 'data'"):
        gw.distribute(gw.ones(8), mesh, "data")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"dimension 0 of its shape \(6,\).*8 equal parts"):
        gw.distribute(gw.ones(6), mesh, ("data",))
    with pytest.raises(RuntimeError, match=r"of this optimizer is on cpu(.|\n)*model first"):
        gw.distribute(gw.optim.SGD(own.parameters(), lr=0.1), mesh)
    with pytest.raises(RuntimeError, match=r"two devices(.|\n)*gw.distribute\(x, mesh\)"):
        gw.ones(8, device=mesh) + gw.ones(8)
    assert (gw.ones(8, device=mesh) + np.float32(1)).device == mesh
