"""What programs write into a module's registers, and copies of modules."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import torch as pytorch

import gradwalk as gw


def clone(module: Any) -> Any:
    """A differentiable copy of a module, as programs of meta-learning make it."""
    made = module.__new__(type(module))
    made.__dict__ = module.__dict__.copy()
    made._parameters = made._parameters.copy()
    made._buffers = made._buffers.copy()
    made._modules = made._modules.copy()
    for name, parameter in module._parameters.items():
        made._parameters[name] = parameter.clone()
    for name, inner in module._modules.items():
        made._modules[name] = clone(inner)
    return made


def adapted(torch: Any) -> Any:
    """The gradient through one inner step."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    for parameter in net.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    x = torch.tensor([[1.0, -0.5], [0.3, 2.0]])
    fast = clone(net)
    inner = fast(x).pow(2).sum()
    slopes = torch.autograd.grad(inner, list(fast.parameters()), create_graph=True)
    entries = [(m, name) for m in fast.modules() for name in m._parameters]
    for (module, name), slope in zip(entries, slopes, strict=True):
        module._parameters[name] = module._parameters[name] - 0.1 * slope
    fast(x).sum().backward()
    return [parameter.grad.tolist() for parameter in net.parameters()]


def test_fast_weights_are_used_and_differentiated() -> None:
    for ours, theirs in zip(adapted(gw), adapted(pytorch), strict=True):
        assert gw.allclose(gw.tensor(ours), gw.tensor(theirs), atol=1e-6)


def test_what_is_written_into_a_register_is_the_attribute() -> None:
    ones = gw.ones(1, 2)
    for layer in (gw.nn.Linear(2, 1), copy.deepcopy(gw.nn.Linear(2, 1))):
        for module in (layer, pickle.loads(pickle.dumps(layer)), copy.copy(layer)):
            module._parameters["weight"] = ones
            assert module.weight is ones
            module._parameters.update(bias=None)
            assert module(ones).tolist() == [[2.0]]
            del module._parameters["weight"]
            assert not hasattr(module, "weight")
    converted = gw.nn.SyncBatchNorm.convert_sync_batchnorm(norm := gw.nn.BatchNorm1d(2))
    assert converted.weight is norm.weight
    assert list(converted._buffers) == ["running_mean", "running_var", "num_batches_tracked"]
    assert norm._buffers.popitem()[0] == "num_batches_tracked" and norm._buffers.pop("x", 1) == 1
    norm._buffers.clear()
    assert not hasattr(norm, "running_mean")


class Versioned(gw.nn.Module):
    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("slope", 0.1)
        super().__setstate__(state)


def test_a_module_may_complete_an_older_state() -> None:
    assert copy.deepcopy(Versioned()).slope == 0.1


class Indirect(gw.nn.Module):
    """Keeps its parameters in the register only."""

    def __setattr__(self, name: str, value: Any) -> None:
        dict.__setitem__(self._parameters, name, value)


def test_an_entry_without_an_attribute_is_found() -> None:
    module = Indirect()
    module.scale = gw.ones(1)
    assert module.scale.item() == 1


def test_a_module_is_freed_with_its_last_name() -> None:
    gc.disable()
    try:
        net = gw.nn.Sequential(gw.nn.Linear(1, 1))
        seen = weakref.ref(net)
        del net
        assert seen() is None
    finally:
        gc.enable()


class Asked(gw.nn.Linear):
    """Counts how often its entries are asked for, as modules of Pyro do."""

    asked: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        type(self).asked += (name,)
        return super().__getattr__(name)


def test_a_class_with_its_own_getattr_is_asked_for_every_entry() -> None:
    layer = Asked(2, 1)
    Asked.asked = ()
    assert layer(gw.ones(1, 2)).shape == (1, 1) and Asked.asked == ("weight", "bias")
    copied = copy.deepcopy(layer)
    plain = gw.nn.Linear(2, 1)
    plain.__class__ = Asked
    for module in (copied, plain):
        Asked.asked = ()
        assert module.weight.requires_grad and Asked.asked == ("weight",)
