"""What PyTorch's own tests of modules and optimizers found (`tools/pytorch_tests`)."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw


def numbers(tensor: Any) -> Any:
    return tensor.detach().numpy()


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_antialiased_interpolation(mode: str, align_corners: bool) -> None:
    rng = np.random.default_rng(0)
    asked: list[dict[str, Any]] = [{"size": size} for size in ((2, 2), (3, 5), (10, 9), (1, 1))]
    asked += [{"scale_factor": factor} for factor in (0.4, 0.77, 1.5)]
    for options in asked:
        x = rng.normal(size=(2, 3, 5, 7))
        found = []
        for library in (gw, torch):
            given: Any = library.tensor(x, requires_grad=True)
            out = library.nn.functional.interpolate(
                given, mode=mode, align_corners=align_corners, antialias=True, **options
            )
            out.backward(library.tensor(np.cos(np.arange(out.numel())).reshape(out.shape)))
            found.append((numbers(out), given.grad.numpy()))
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_antialiasing_of_bytes_and_its_modes() -> None:
    x = (np.random.default_rng(0).random((1, 3, 20, 30)) * 255).astype(np.uint8)
    for mode in ("bilinear", "bicubic"):
        ours, theirs = (
            library.nn.functional.interpolate(
                library.tensor(x), size=(7, 11), mode=mode, antialias=True
            ).numpy()
            for library in (gw, torch)
        )
        # PyTorch rounds the weights of bytes to integers, so a byte may differ by one.
        np.testing.assert_allclose(ours.astype(int), theirs.astype(int), atol=1)
    with pytest.raises(ValueError, match="antialias is for the modes"):
        gw.nn.functional.interpolate(gw.ones(1, 1, 4, 4), size=(2, 2), antialias=True)


def test_resized_volumes_lie_in_order() -> None:
    volume = gw.ones(1, 2, 4, 4, 4)
    for made in (
        gw.nn.functional.interpolate(volume, scale_factor=1.5, mode="trilinear"),
        gw.nn.functional.adaptive_avg_pool3d(volume, 3),
    ):
        assert made.is_contiguous()
        assert made.view(-1).shape == (made.numel(),)


@pytest.mark.parametrize("kind", [0.0, -math.inf, math.inf, 1.0, 3.0, -1.0])
def test_clipping_by_any_norm(kind: float) -> None:
    """A norm of order −inf was 1, and one of order 0 a division by zero."""
    found = []
    for library in (gw, torch):
        parameters: list[Any] = [library.zeros(3), library.zeros(2)]
        for parameter, gradient in zip(parameters, ([3.0, -4.0, 0.5], [1.0, 2.0]), strict=True):
            parameter.grad = library.tensor(gradient)
        norm = library.nn.utils.clip_grad_norm_(parameters, 0.25, norm_type=kind)
        found.append([float(norm), *(n for p in parameters for n in p.grad.tolist())])
    np.testing.assert_allclose(*found, rtol=1e-6)
    total = gw.compile(lambda arrays: gw.nn.utils.get_total_norm(arrays, kind))
    traced = total([gw.tensor([3.0, -4.0, 0.5]), gw.tensor([1.0, 2.0])])
    np.testing.assert_allclose(float(traced), found[1][0], rtol=1e-6)


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    ("layer", "sizes"),
    [("GroupNorm", (2, 4)), ("LayerNorm", (6,)), ("BatchNorm1d", (4,)), ("RMSNorm", (6,))],
)
@pytest.mark.filterwarnings("ignore:Mismatch dtype")
def test_a_normalized_half_is_a_half(layer: str, sizes: tuple[int, ...], half: str) -> None:
    """Parameters in float32 beside it do not make the result wider."""
    x = np.random.default_rng(0).normal(size=(2, 4, 6)).astype(np.float32)
    ours = getattr(gw.nn, layer)(*sizes)(gw.tensor(x).to(getattr(gw, half)))
    theirs = getattr(torch.nn, layer)(*sizes)(torch.tensor(x).to(getattr(torch, half)))
    assert (ours.dtype.name, str(theirs.dtype)) == (half, f"torch.{half}")
    np.testing.assert_allclose(numbers(ours.float()), numbers(theirs.float()), atol=0.02)


def test_a_similarity_of_integers_and_floats() -> None:
    x = np.array([[1.0, 2.0, 3.0], [4.0, -1.0, 0.5]])
    ours = gw.nn.functional.cosine_similarity(gw.tensor(x).to(gw.int8), gw.tensor(x))
    theirs = torch.nn.functional.cosine_similarity(torch.tensor(x).to(torch.int8), torch.tensor(x))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize(
    ("name", "options"), [("Rprop", {}), ("Adagrad", {"initial_accumulator_value": 0.5})]
)
def test_optimizers_of_complex_numbers(name: str, options: dict[str, float]) -> None:
    """State that begins with a number begins with it in both parts: Rprop did not move the
    imaginary ones."""
    found = []
    for library in (gw, torch):
        z: Any = library.tensor([1.0 + 2.0j, -0.5 + 0.25j], requires_grad=True)
        optimizer = getattr(library.optim, name)([z], **options)
        for _ in range(4):
            optimizer.zero_grad()
            (z * z.conj()).real.sum().backward()
            optimizer.step()
        found.append(numbers(z))
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_state_dicts_of_optimizers() -> None:
    w = gw.zeros(2, requires_grad=True)
    optimizer = gw.optim.SGD([w], lr=0.1)
    optimizer.param_groups.extend(optimizer.param_groups)
    assert [g["params"] for g in optimizer.state_dict()["param_groups"]] == [[0], [0]]
    optimizer.state["note"] = 1
    assert optimizer.state_dict()["state"] == {"note": 1}


def test_stacked_models_are_alike() -> None:
    first, second = gw.nn.Linear(2, 2), gw.nn.Linear(2, 2)
    first.weight.requires_grad_(False)
    with pytest.raises(RuntimeError, match="'weight' requires a gradient in some models only"):
        gw.func.stack_module_state([first, second])
    with pytest.raises(RuntimeError, match="some models are in training mode"):
        gw.func.stack_module_state([gw.nn.Linear(2, 2).eval(), second])


def test_eps_of_batch_norm_is_positive() -> None:
    for eps in (0.0, -1.0):
        with pytest.raises(ValueError, match="eps must be positive"):
            gw.nn.BatchNorm1d(2, eps=eps)(gw.ones(3, 2))
    norm = gw.nn.InstanceNorm1d(2, eps=0.0, track_running_stats=True).eval()
    assert norm(gw.ones(1, 2, 3)).tolist() == [[[1.0] * 3] * 2]


class Counter(gw.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = gw.nn.Buffer(gw.tensor([0.0]))
        self.plain = gw.tensor([1.0])

    def forward(self, x: Any) -> Any:
        self.count = self.count + 1
        return x + self.count * self.plain


def test_functional_call_hands_back_what_is_assigned() -> None:
    module, start = Counter(), gw.tensor([2.0])
    given = {"count": start, "plain": gw.tensor([10.0])}
    assert gw.func.functional_call(module, given, gw.tensor([0.5])).tolist() == [30.5]
    assert (given["count"].tolist(), start.tolist()) == ([3.0], [2.0])
    assert (module.count.tolist(), module.plain.tolist()) == ([0.0], [1.0])
    with pytest.raises(RuntimeError, match=r"it has no inner\.count"):
        gw.func.functional_call(module, {"inner.count": start}, gw.tensor([0.5]))
    with pytest.raises(TypeError, match="training is neither a parameter nor a buffer"):
        gw.func.functional_call(module, {"training": start}, gw.tensor([0.5]))


def test_functional_call_of_modules_in_a_circle() -> None:
    """It did not end."""
    outer, inner = Counter(), gw.nn.Linear(1, 1)
    outer.inner, inner.back = inner, outer
    out = gw.func.functional_call(outer, {"inner.back.count": gw.tensor([4.0])}, gw.tensor([0.0]))
    assert out.tolist() == [5.0]


def test_functional_call_of_tied_parameters() -> None:
    module = gw.nn.Linear(1, 1, bias=False)
    module.other = module.weight
    weight, x = gw.tensor([[3.0]]), gw.tensor([2.0])
    out = gw.func.functional_call(module, {"weight": weight}, x, strict=True)
    assert out.tolist() == [6.0]
    with pytest.raises(ValueError, match="tied to another name"):
        gw.func.functional_call(module, {"weight": weight, "other": gw.tensor([[4.0]])}, x)


@pytest.mark.parametrize("layer", ["RNN", "LSTM", "GRU"])
def test_options_of_recurrent_layers_have_their_kind(layer: str) -> None:
    """`LSTM(10, 20, 2, 0.5)` looks like a dropout, and is a bias."""
    make = getattr(gw.nn, layer)
    for args, options in (
        ((3.0, 5), {}), ((3, 5.0), {}), ((3, 5), {"batch_first": 1}), ((3, 5), {"bias": 0.5}),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="give the options by name"):
            make(*args, **options)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(
    ("layer", "sizes", "norm", "shape"),
    [
        ("Conv2d", (2, 3, 2), "BatchNorm2d", (1, 2, 4, 4)),
        ("ConvTranspose1d", (2, 3, 2), "BatchNorm1d", (1, 2, 4)),
        ("Linear", (2, 3), "BatchNorm1d", (5, 2)),
    ],
)
def test_batch_norm_is_folded_in(
    layer: str, sizes: tuple[int, ...], norm: str, shape: tuple[int, ...], affine: bool
) -> None:
    first = getattr(gw.nn, layer)(*sizes, bias=affine)
    second = getattr(gw.nn, norm)(3, affine=affine)
    second.running_mean.copy_(gw.tensor([0.5, -1.0, 2.0]))
    second.running_var.copy_(gw.tensor([0.5, 1.0, 2.0]))
    if affine:
        second.weight.data.copy_(gw.tensor([2.0, -1.0, 0.5]))
    with pytest.raises(ValueError, match="must be in evaluation"):
        gw.nn.utils.fuse_linear_bn_eval(gw.nn.Linear(2, 3), second)
    x = gw.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    first.eval(), second.eval()
    if layer == "Linear":
        fused = gw.nn.utils.fuse_linear_bn_eval(first, second)
    else:
        fused = gw.nn.utils.fuse_conv_bn_eval(first, second, "Transpose" in layer)
    np.testing.assert_allclose(numbers(fused(x)), numbers(second(first(x))), atol=1e-5)
    assert fused is not first
    assert (fused.weight.requires_grad, fused.bias.requires_grad) == (True, affine)


def test_older_hooks_of_state_dicts() -> None:
    layer = gw.nn.Linear(1, 1)
    seen: list[Any] = []
    layer._register_load_state_dict_pre_hook(lambda state, prefix, *_: seen.append(prefix))
    layer._register_load_state_dict_pre_hook(lambda module, *_: seen.append(module), True)
    layer._register_state_dict_hook(lambda module, state, prefix, meta: state.update(extra=1))
    assert layer.state_dict()["extra"] == 1
    layer.load_state_dict({"weight": gw.ones(1, 1), "bias": gw.ones(1)})
    assert seen[0] == "" and seen[1] is layer


def test_small_forms() -> None:
    named = gw.nn.ParameterDict({"a": gw.zeros(1), "b": gw.zeros(1)})
    assert list(reversed(named)) == ["b", "a"]
    assert isinstance(gw.nn.LazyLinear(2).weight, gw.nn.parameter.UninitializedParameter)
    for number in (1, 2.5):
        ours, theirs = (lib.distributions.Gamma(2.0, 3.0).log_prob(number) for lib in (gw, torch))
        assert ours.item() == pytest.approx(theirs.item())
    x, index = gw.eye(2), gw.tensor([[0], [1]])
    assert gw.gather(x, 1, index, sparse_grad=True).tolist() == [[1.0], [1.0]]


def test_pickled_modules_draw_numbers() -> None:
    """The dtype of an unpickled array is another object than ours."""
    layer = pickle.loads(pickle.dumps(gw.nn.Linear(2, 3)))
    layer.reset_parameters()
    lazy = pickle.loads(pickle.dumps(gw.nn.LazyLinear(3)))
    assert lazy(gw.ones(1, 2)).shape == (1, 3)
    assert pickle.loads(pickle.dumps(gw.zeros(3, dtype=gw.float64))).normal_().dtype == gw.float64


def test_a_backward_hook_may_return_the_gradients_it_got() -> None:
    layer, calls = gw.nn.Linear(2, 3), []
    handle = layer.register_full_backward_hook(lambda m, inputs, out: calls.append(1) or inputs)
    layer(gw.ones(1, 2)).sum().backward()  # no input needs a gradient: (None,)
    assert calls == [1]
    handle.remove()
    layer.register_full_backward_hook(lambda m, inputs, out: gw.ones(1, 2))
    with pytest.raises(RuntimeError, match="no input of the module needs one"):
        layer(gw.ones(1, 2)).sum().backward()


def state_program(library: Any) -> list[Any]:
    """Modules that save and load in their own way, as programs of PyTorch do."""
    nn = library.nn

    class Renamed(nn.Module):  # type: ignore[misc, name-defined]
        _version = 2

        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(library.zeros(2))
            self.register_buffer("seen", library.zeros(1))

        def _load_from_state_dict(self, state: Any, prefix: str, metadata: Any, *rest: Any) -> None:
            versions.append(metadata.get("version"))
            if prefix + "older" in state:
                state[prefix + "w"] = state.pop(prefix + "older")
            if prefix + "seen" in state:
                self.seen = library.zeros(state[prefix + "seen"].shape)
            super()._load_from_state_dict(state, prefix, metadata, *rest)

    class Own(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.count = 3

        def _save_to_state_dict(self, state: Any, prefix: str, keep_vars: bool) -> None:
            super()._save_to_state_dict(state, prefix, keep_vars)
            state[prefix + "count"] = library.tensor(self.count)

        def _load_from_state_dict(self, state: Any, prefix: str, *_: Any) -> None:
            self.count = state[prefix + "count"].item()

    versions: list[Any] = []
    model = nn.Sequential(Renamed(), Own(), nn.Linear(1, 1))
    state = model.state_dict()
    results: list[Any] = [list(state), dict(state._metadata)]
    results.append(repr(model.load_state_dict(state)))
    given = {**state, "0.older": library.ones(2), "0.seen": library.ones(3)}
    given["1.count"] = library.tensor(5)
    del given["0.w"]
    results.append(repr(model.load_state_dict(given)))
    results += [model[0].w.tolist(), model[0].seen.tolist(), model[1].count, sorted(given)]
    given.update({"0.more": library.ones(1), "else.x": library.ones(1), "1.own": library.ones(1)})
    del given["2.bias"]
    results.append(tuple(map(sorted, model.load_state_dict(given, strict=False))))
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: .*"0.more"'):
        model.load_state_dict(given)
    return [*results, versions]


def test_methods_that_save_and_load_a_module() -> None:
    assert state_program(gw) == state_program(torch)


def test_versions_of_modules_are_saved(tmp_path: Any) -> None:
    state = gw.nn.Sequential(gw.nn.Linear(1, 1)).state_dict()
    gw.save({"model": state}, tmp_path / "ours.pt")
    assert torch.load(tmp_path / "ours.pt")["model"]._metadata == state._metadata  # type: ignore[attr-defined]
    torch.save(torch.nn.Linear(1, 1).state_dict(), tmp_path / "theirs.pt")
    assert gw.load(tmp_path / "theirs.pt")._metadata == {"": {"version": 1}}


def test_newer_weight_norm_loads_files_of_the_older() -> None:
    older = gw.nn.utils.weight_norm(gw.nn.Linear(2, 3))
    newer = gw.nn.Sequential(gw.nn.utils.parametrizations.weight_norm(gw.nn.Linear(2, 3)))
    newer.load_state_dict({f"0.{name}": value for name, value in older.state_dict().items()})
    x = gw.ones(2)
    assert newer(x).tolist() == older(x).tolist()


def test_instance_norm_without_weight_takes_any_channels() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 4))
    with pytest.warns(UserWarning, match="3 channels"):
        ours = gw.nn.InstanceNorm2d(2)(gw.tensor(x))
    with pytest.warns(UserWarning, match="num_features"):
        theirs = torch.nn.InstanceNorm2d(2)(torch.tensor(x))
    np.testing.assert_allclose(numbers(ours), numbers(theirs), rtol=1e-12)
    with pytest.raises(ValueError, match="3 channels"):
        gw.nn.InstanceNorm2d(2, affine=True)(gw.tensor(x))


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # PyTorch's, of its own gradient
def test_a_sparse_embedding_has_the_same_numbers_in_its_gradient() -> None:
    table = np.random.default_rng(0).normal(size=(4, 2))
    found = []
    for library in (gw, torch):
        layer: Any = library.nn.Embedding(4, 2, sparse=True, dtype=library.float64)
        layer.load_state_dict({"weight": library.tensor(table)})
        optimizer = library.optim.Adagrad(layer.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (layer(library.tensor([1, 3, 1])) ** 3).sum().backward()
            optimizer.step()
        found.append(numbers(layer.weight))
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize("library", [gw, torch], ids=["gradwalk", "pytorch"])
def test_statistics_of_older_files_have_no_count_of_batches(library: Any) -> None:
    layer = library.nn.BatchNorm1d(2)
    layer(library.ones(3, 2))
    state = layer.state_dict()
    assert state._metadata == {"": {"version": 2}}
    older = {name: value + 1 for name, value in state.items() if name != "num_batches_tracked"}
    assert repr(layer.load_state_dict(older)) == "<All keys matched successfully>"
    assert layer.num_batches_tracked.item() == 1
    assert layer.running_mean.tolist() == older["running_mean"].tolist()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        layer.load_state_dict(state)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_of_convolutions_as_functions(n: int) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 4, *(7,) * n)), rng.normal(size=(6, 2, *(3,) * n))
    options = dict(stride=2, padding=1, dilation=2, groups=2)
    found = []
    for m in (gw, torch):
        given: Any = [m.tensor(array) for array in (x, w)]
        out = getattr(m.nn.functional, f"conv{n}d")(*given, None, **options)
        g = m.tensor(np.cos(np.arange(out.numel())).reshape(out.shape), requires_grad=True)
        of_input = getattr(m.nn.grad, f"conv{n}d_input")(x.shape, given[1], g, **options)
        of_weight = getattr(m.nn.grad, f"conv{n}d_weight")(given[0], w.shape, g, **options)
        (of_input.square().sum() + of_weight.square().sum()).backward()
        found.append([numbers(t) for t in (of_input, of_weight, g.grad)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_a_recurrent_layer_of_no_sequences(name: str) -> None:
    layer = getattr(gw.nn, name)(3, 4)
    layer(gw.zeros(5, 0, 3))[0].sum().backward()
    assert layer.weight_ih_l0.grad.abs().sum() == 0


def test_classes_that_do_not_exist_are_refused() -> None:
    layer = gw.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10])
    for wrong in (20, -1):
        with pytest.raises(IndexError, match=f"class {wrong} is out of range for 20"):
            layer(gw.ones(2, 16), gw.tensor([0, wrong]))
    with pytest.raises(IndexError, match="class -1"):
        gw.nn.functional.multi_margin_loss(gw.ones(2, 3), gw.tensor([0, -1]))
    with pytest.raises(ValueError, match="one_hot"):
        gw.nn.functional.one_hot(gw.tensor([3, 4]), -2)


def test_modules_of_complex_numbers() -> None:
    layer = gw.nn.Linear(2, 3)
    weight = layer.weight.detach().clone()
    layer.to(gw.complex64)
    assert layer.weight.dtype == gw.complex64 and gw.equal(layer.weight.real, weight)
    assert layer(gw.ones(1, 2, dtype=gw.complex64)).shape == (1, 3)
    assert layer.to(gw.float64).weight.dtype == gw.complex64
    with pytest.raises(TypeError, match="floating-point"):
        layer.to(gw.int64)
    drawn = []
    for m in (gw, torch):
        m.manual_seed(0, **({"like": "torch"} if m is gw else {}))
        made = m.nn.Linear(4, 5, dtype=m.complex128)
        drawn += [[made.weight, made.bias, m.nn.init.xavier_normal_(made.weight.detach() * 0, 2)]]
    gw.manual_seed(0)
    for ours, theirs in zip(*drawn, strict=True):
        np.testing.assert_allclose(numbers(ours), theirs.detach().numpy(), rtol=1e-6)


def test_small_helpers_of_modules() -> None:
    inner = gw.nn.Linear(2, 2)
    state = gw.nn.Sequential(gw.nn.ModuleDict({"net": inner})).state_dict()
    state["step"] = gw.tensor(3)
    gw.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "0.net.")
    assert list(state) == ["weight", "bias", "step"] and state._metadata[""] == {"version": 1}
    parameters = gw.nn.ParameterDict({"a": gw.ones(1), "b": gw.ones(2)})
    copied = parameters.copy()
    assert list(copied) == ["a", "b"] and copied["a"] is parameters["a"]
    gw.manual_seed(0)
    expected = gw.rand(1)
    gw.manual_seed(0)
    assert gw.nn.utils.skip_init(gw.nn.Linear, 2, 3).weight.shape == (3, 2)
    assert gw.equal(gw.rand(1), expected)
    with pytest.raises(RuntimeError, match="makes a Module"):
        gw.nn.utils.skip_init(len, [])


def test_a_hook_before_loading_sees_the_part_of_its_module() -> None:
    found = []
    for m in (gw, torch):
        model = m.nn.Sequential(m.nn.Linear(2, 2), m.nn.Sequential(m.nn.Linear(2, 2)))
        seen: list[Any] = []

        def rename(module: Any, state: Any, prefix: str, *_: Any, seen: Any = seen) -> None:
            seen.append((prefix, list(state)))
            for name in list(state):  # of all names that it sees, without a look at the prefix
                state[name.replace("old", "weight")] = state.pop(name)

        model[1].register_load_state_dict_pre_hook(rename)
        given = {name.replace("weight", "old"): t for name, t in model.state_dict().items()}
        keys = model.load_state_dict(given, strict=False)
        given["1.other"] = given["2.weight"] = given["3"] = given["1.0"] = given["0.bias"]
        more = model.load_state_dict(given, strict=False)
        found.append((seen, *map(sorted, (*keys, *more))))
    assert found[0] == found[1]


@pytest.mark.parametrize("padding", [None, 2])
def test_gradients_of_rows_divided_by_their_uses(padding: int | None) -> None:
    rows, weights = np.array([[0, 1, 1, 2], [2, 1, 4, 0]]), np.arange(10.0).reshape(5, 2)

    def gradient(m: Any) -> Any:
        weight = m.tensor(weights, requires_grad=True)
        found = m.nn.functional.embedding(
            m.tensor(rows), weight, padding_idx=padding, scale_grad_by_freq=True
        )
        return found.detach().numpy(), m.autograd.grad((found**2).sum(), weight)[0].numpy()

    for found, expected in zip(gradient(gw), gradient(torch), strict=True):
        np.testing.assert_allclose(found, expected)
