"""Methods with an underscore that modules of third parties override, as in PyTorch."""

from __future__ import annotations

from collections import OrderedDict
from types import ModuleType
from typing import Any

import pytest
import torch as pytorch

import gradwalk as gw


def renaming(torch: ModuleType) -> Any:
    class Renaming(torch.nn.Module):  # type: ignore[misc, name-defined]
        _version = 2

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(2))
            self.register_buffer("made", torch.ones(1))
            self.versions: list[Any] = []

        def _load_from_state_dict(
            self,
            state_dict: Any,
            prefix: str,
            local_metadata: Any,
            strict: Any,
            missing_keys: list[str],
            unexpected_keys: Any,
            error_msgs: Any,
        ) -> None:
            self.versions.append(local_metadata.get("version"))
            if prefix + "kernel" in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "kernel")
            super()._load_from_state_dict(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
            if prefix + "made" in missing_keys:
                missing_keys.remove(prefix + "made")

    return Renaming


@pytest.mark.parametrize("torch", [gw, pytorch], ids=["gradwalk", "pytorch"])
def test_a_module_renames_old_keys_and_excuses_missing_ones(torch: Any) -> None:
    net = torch.nn.Sequential(renaming(torch)(), torch.nn.Linear(2, 1))
    state = net.state_dict()
    assert dict(state._metadata) == {
        "": {"version": 1},
        "0": {"version": 2},
        "1": {"version": 1},
    }
    old = OrderedDict(state)
    old["0.kernel"] = old.pop("0.weight") + 3
    del old["0.made"]
    given = list(old)
    keys = net.load_state_dict(old)
    assert (keys.missing_keys, keys.unexpected_keys) == ([], []) and list(old) == given
    assert net[0].weight.tolist() == [3.0, 3.0]
    net.load_state_dict(state)
    assert net[0].versions == [None, 2]


@pytest.mark.parametrize("torch", [gw, pytorch], ids=["gradwalk", "pytorch"])
def test_a_module_may_read_its_part_in_another_way(torch: Any) -> None:
    class Own(torch.nn.Module):  # type: ignore[misc]
        def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
            self.number = state_dict[prefix + "number"]

    net = torch.nn.Sequential(Own(), torch.nn.Linear(2, 1))
    state = {**net.state_dict(), "0.number": 7}
    keys = net.load_state_dict(state)
    assert keys.unexpected_keys == [] and net[0].number == 7
    keys = net.load_state_dict({**state, "1.more": torch.ones(1)}, strict=False)
    assert keys.unexpected_keys == ["1.more"]


@pytest.mark.parametrize("torch", [gw, pytorch], ids=["gradwalk", "pytorch"])
def test_apply_is_called_where_a_module_is_moved(torch: Any) -> None:
    class Cached(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))
            self.cached = torch.ones(1)
            self.calls = 0

        def _apply(self, fn: Any, *args: Any, **keywords: Any) -> Any:
            self.calls += 1
            self.cached = fn(self.cached)
            return super()._apply(fn, *args, **keywords)

    net = torch.nn.Sequential(Cached(), torch.nn.BatchNorm1d(2))
    net[0].scale.grad = torch.ones(1)
    assert net.double() is net
    tensors = [net[0].scale, net[0].scale.grad, net[0].cached, net[1].running_mean]
    assert all(t.dtype == torch.float64 for t in tensors) and net[0].calls == 1
    assert net[1].num_batches_tracked.dtype == torch.int64
    net._apply(lambda t: t * 2)
    assert net[0].scale.tolist() == [2.0] and net[0].cached.tolist() == [2.0]


@pytest.mark.parametrize("torch", [gw, pytorch])
def test_a_function_in_the_body_of_a_class_is_no_method(torch: Any) -> None:
    class Body(torch.nn.Module):
        smooth = torch.nn.functional.conv2d
        activation = torch.nn.functional.softplus
        mix = torch.matmul

        @torch.no_grad()
        def size(self) -> int:
            return len(list(self.parameters()))

    x = torch.ones(1, 1, 3, 3)
    assert Body().smooth(x, weight=x).item() == 9
    assert Body().activation(x).shape == Body().mix(x, x).shape == x.shape
    assert Body().size() == 0
