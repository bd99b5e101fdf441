"""What ported code leans on beside layers: hooks of every kind, extra state, buffers, utilities.

Each function here is run with either library, and both must return the same.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw


def same(run: Callable[[Any], Any]) -> None:
    """Compare what a function returns with either library."""
    assert plain(run(gw)) == plain(run(torch))


def plain(value: Any) -> Any:
    """Tensors as rounded lists, all the way down."""
    if isinstance(value, (gw.Tensor, torch.Tensor)):
        return plain(value.detach().tolist())
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return round(value, 5) if isinstance(value, float) else value


def linear(lib: ModuleType, inputs: int = 2, outputs: int = 2) -> Any:
    """A layer with the same weights in both libraries."""
    layer = lib.nn.Linear(inputs, outputs)
    with lib.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            numbers = np.linspace(-1, 1, parameter.numel(), dtype=np.float32) + i
            parameter.copy_(lib.from_numpy(numbers.reshape(tuple(parameter.shape))))
    return layer


# -- hooks around the backward pass ----------------------------------------------------------------


def backward_pre_hooks(lib: Any, change: bool, needs: bool) -> Any:
    seen: list[Any] = []
    layer = linear(lib)

    def before(module: Any, grad_output: Any) -> Any:
        seen.append([list(g.shape) for g in grad_output])
        return tuple(g * 2 for g in grad_output) if change else None

    layer.register_full_backward_pre_hook(before)
    layer.register_full_backward_pre_hook(lambda m, g: seen.append("first"), prepend=True)
    layer.register_full_backward_hook(lambda m, gi, go: seen.append(go[0]))
    x = lib.ones(3, 2, requires_grad=needs)
    layer(x).sum().backward()
    return [seen, layer.weight.grad, layer.bias.grad, x.grad]


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # PyTorch's
@pytest.mark.parametrize("needs", [True, False])
@pytest.mark.parametrize("change", [True, False])
def test_backward_pre_hooks(change: bool, needs: bool) -> None:
    same(lambda lib: backward_pre_hooks(lib, change, needs))


def test_a_backward_pre_hook_must_return_as_many_gradients() -> None:
    layer = linear(gw)
    layer.register_full_backward_pre_hook(lambda m, g: (*g, *g))
    with pytest.raises(RuntimeError, match="2 gradient"):
        layer(gw.ones(1, 2)).sum().backward()


def test_a_forward_hook_that_is_always_called() -> None:
    def run(lib: Any) -> Any:
        seen: list[Any] = []
        layer = linear(lib)
        layer.register_forward_hook(lambda m, a, out: seen.append(out is None), always_call=True)
        layer.register_forward_hook(
            lambda m, a, k, out: seen.append((sorted(k), out is None)),
            with_kwargs=True,
            always_call=True,
        )
        layer.register_forward_hook(lambda m, a, out: seen.append("only if it succeeds"))
        layer(lib.ones(1, 2))
        with pytest.raises((RuntimeError, ValueError)):
            layer(input=lib.ones(1, 3))
        return seen

    same(run)


def test_an_always_called_hook_that_fails_itself_is_a_warning() -> None:
    layer = linear(gw)
    layer.register_forward_hook(lambda m, a, out: 1 / 0, always_call=True)
    with pytest.warns(UserWarning, match="division"), pytest.raises(ValueError, match="linear"):
        layer(gw.ones(1, 3))


def test_a_hook_is_taken_off_at_the_end_of_a_with() -> None:
    def run(lib: Any) -> Any:
        seen: list[int] = []
        layer = linear(lib)
        with layer.register_forward_hook(lambda *_: seen.append(1)):
            layer(lib.ones(1, 2))
        layer(lib.ones(1, 2))
        return seen

    same(run)


# -- hooks around the state ------------------------------------------------------------------------


def test_hooks_around_state_dict() -> None:
    def run(lib: Any) -> Any:
        seen: list[Any] = []
        net = lib.nn.Sequential(linear(lib), linear(lib, 2, 1))
        net[1].register_state_dict_pre_hook(lambda m, prefix, keep: seen.append((prefix, keep)))

        def renamed(module: Any, state: Any, prefix: str, metadata: Any) -> None:
            state[prefix + "w"] = state.pop(prefix + "weight")

        net[1].register_state_dict_post_hook(renamed)
        net.register_state_dict_post_hook(lambda m, s, p, d: seen.append(list(s)))
        return [dict(net.state_dict()), list(net.state_dict(prefix="net.")), seen]

    same(run)


def test_a_hook_renames_keys_before_loading() -> None:
    def run(lib: Any) -> Any:
        net = lib.nn.Sequential(linear(lib), linear(lib, 2, 1))
        seen: list[Any] = []

        def old_names(
            module: Any, state: Any, prefix: str, metadata: Any, strict: bool, *lists: Any
        ) -> None:
            seen.append((prefix, strict, [list(x) for x in lists]))
            if prefix + "w" in state:
                state[prefix + "weight"] = state.pop(prefix + "w")

        net[1].register_load_state_dict_pre_hook(old_names)
        state = {key: value * 2 for key, value in net.state_dict().items()}
        state["1.w"] = state.pop("1.weight")
        before = list(state)
        result = net.load_state_dict(state)
        assert list(state) == before  # the caller's dictionary stays as it was
        return [list(result), dict(net.state_dict()), seen]

    same(run)


def test_a_hook_excuses_missing_keys_after_loading() -> None:
    def run(lib: Any) -> Any:
        net = lib.nn.Sequential(linear(lib), linear(lib, 2, 1))
        seen: list[Any] = []

        def excuse(module: Any, keys: Any) -> None:
            seen.append([list(keys.missing_keys), list(keys.unexpected_keys)])
            keys.missing_keys.clear()

        handle = net.register_load_state_dict_post_hook(excuse)
        state = dict(net.state_dict())
        del state["1.bias"]
        result = net.load_state_dict(state)
        handle.remove()
        with pytest.raises(RuntimeError, match=r"1\.bias"):
            net.load_state_dict(state)
        net.register_load_state_dict_post_hook(lambda m, keys: None)
        with pytest.raises(RuntimeError, match=r"1\.bias"):
            net.load_state_dict(state)
        return [seen, list(result)]

    same(run)


def test_extra_state_travels_with_the_state_dict() -> None:
    def run(lib: Any) -> Any:
        base: Any = lib.nn.Module

        class Counting(base):
            def __init__(self) -> None:
                super().__init__()
                self.count = 0
                self.layer = linear(lib)

            def get_extra_state(self) -> Any:
                return {"count": self.count}

            def set_extra_state(self, state: Any) -> None:
                self.count = state["count"]

        net = lib.nn.Sequential(Counting())
        net[0].count = 7
        state = net.state_dict()
        other = lib.nn.Sequential(Counting())
        other.load_state_dict(state)
        del state["0._extra_state"]
        with pytest.raises(RuntimeError, match=r"0\._extra_state"):
            other.load_state_dict(state)
        return [list(net.state_dict()), other[0].count]

    same(run)


def test_a_module_without_extra_state_says_so() -> None:
    with pytest.raises(NotImplementedError, match="no extra state"):
        linear(gw).get_extra_state()
    with pytest.raises(NotImplementedError, match="set_extra_state"):
        linear(gw).set_extra_state(1)


def test_state_dict_in_the_old_order_of_arguments() -> None:
    def run(lib: Any) -> Any:
        given: Any = lib.nn.Linear(1, 1).state_dict().__class__()
        found = linear(lib).state_dict(destination=given, prefix="a.")
        return [list(found), found is given]

    same(run)
    found = gw.nn.Linear(1, 1).state_dict(None, "b.", True)
    assert list(found) == ["b.weight", "b.bias"]
    assert found["b.weight"].requires_grad


# -- modules and buffers by name -------------------------------------------------------------------


def test_set_submodule() -> None:
    def run(lib: Any) -> Any:
        net = lib.nn.Sequential(lib.nn.Sequential(lib.nn.ReLU()), lib.nn.ReLU())
        net.set_submodule("0.0", lib.nn.Tanh())
        net.set_submodule("0.added", lib.nn.Sigmoid())
        net.set_submodule("1", lib.nn.Identity(), strict=True)
        with pytest.raises(AttributeError):
            net.set_submodule("0.other", lib.nn.Tanh(), strict=True)
        with pytest.raises(AttributeError):
            net.set_submodule("training", lib.nn.Tanh())
        with pytest.raises(ValueError):
            net.set_submodule("", lib.nn.Tanh())
        shared = lib.nn.Sequential(net, net)
        return [repr(net), len(list(shared.modules())), len(list(shared.named_modules()))]

    same(run)


def test_buffers_by_assignment() -> None:
    def run(lib: Any) -> Any:
        module = lib.nn.Module()
        module.mean = lib.nn.Buffer(lib.ones(2))
        module.mask = lib.nn.Buffer(lib.ones(1), persistent=False)
        module.mean = lib.zeros(2)  # still a buffer
        return [dict(module.state_dict()), [n for n, _ in module.named_buffers()]]

    same(run)
    numbers = gw.ones(2)
    assert np.shares_memory(gw.nn.Buffer(numbers).numpy(), numbers.numpy())


def test_a_model_is_copied_and_pickled_with_its_names() -> None:
    def run(lib: Any) -> Any:
        net = lib.nn.Sequential(linear(lib), lib.nn.BatchNorm1d(2), lib.nn.ReLU())
        x = lib.arange(6).reshape(3, 2) * 1.0
        net(x)
        net.eval()
        copies = [copy.deepcopy(net), pickle.loads(pickle.dumps(net)), copy.copy(net)]
        return [[dict(c.state_dict()), repr(c), c(x)] for c in copies]

    same(run)


def test_dir_lists_what_was_registered() -> None:
    net = gw.nn.Sequential(gw.nn.BatchNorm1d(2))
    assert {"weight", "running_mean", "forward"} <= set(dir(net[0]))


# -- nn.utils --------------------------------------------------------------------------------------


def test_parameters_as_a_vector_and_back() -> None:
    def run(lib: Any) -> Any:
        net = lib.nn.Sequential(linear(lib), linear(lib, 2, 1))
        vector = lib.nn.utils.parameters_to_vector(net.parameters())
        (vector * vector).sum().backward()
        lib.nn.utils.vector_to_parameters(vector.detach() + 1, net.parameters())
        return [vector, [p.grad for p in net.parameters()], dict(net.state_dict())]

    same(run)
    with pytest.raises(TypeError):
        gw.nn.utils.vector_to_parameters([1.0], [])  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PyTorch has a newer form of weight_norm
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(dim: int | None) -> None:
    def run(lib: Any) -> Any:
        layer = lib.nn.utils.weight_norm(linear(lib, 3, 2), dim=dim)
        with lib.no_grad():
            layer.weight_g.mul_(2)
        out = layer(lib.ones(2, 3) * 0.5)
        (out * out).sum().backward()
        grads = {name: p.grad for name, p in layer.named_parameters()}
        with pytest.raises(RuntimeError):
            lib.nn.utils.weight_norm(layer)
        state = dict(layer.state_dict())
        lib.nn.utils.remove_weight_norm(layer)
        with pytest.raises(ValueError):
            lib.nn.utils.remove_weight_norm(layer)
        return [out, grads, state, sorted(layer.state_dict()), layer(lib.ones(2, 3) * 0.5)]

    same(run)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("side", ["left", "right"])
def test_sequences_are_padded(batch_first: bool, side: str) -> None:
    def run(lib: Any) -> Any:
        tools = lib.nn.utils.rnn
        rows = [lib.arange(n * 2).reshape(n, 2) * 1.0 for n in (2, 4, 1)]
        rows = [row.requires_grad_() for row in rows]
        padded = tools.pad_sequence(rows, batch_first, padding_value=-1.0, padding_side=side)
        (padded * padded).sum().backward()
        # PyTorch's transposes what it is given, in place
        back = tools.unpad_sequence(padded.clone(), lib.tensor([2, 4, 1]), batch_first)
        return [padded, [row.grad for row in rows], back]

    same(run)


def test_gradients_are_clipped_with_a_known_norm() -> None:
    def run(lib: Any) -> Any:
        w = lib.tensor([3.0, 4.0], requires_grad=True)
        found = []
        for largest in (1.0, 100.0):
            w.grad = None
            (w * w).sum().backward()
            norm = lib.nn.utils.get_total_norm([w.grad])
            lib.nn.utils.clip_grads_with_norm_([w], largest, norm)
            found.append(w.grad)
        return found

    same(run)
