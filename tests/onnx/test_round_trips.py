"""What gradwalk saves, ONNX Runtime computes alike, and so does gradwalk after loading it."""

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.engine.tree import leaves
from tests.batches import check_each
from tests.onnx.models import NETWORKS, network
from tests.project.checkout import ROOT

CLOSE = 1e-5


def run_by_onnxruntime(path: Path, *args: gw.Tensor) -> list[Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return session.run(None, {n: a.detach().numpy() for n, a in zip(names, args, strict=True)})


def check_round_trip(fn: Callable[..., Any], path: Path, *args: gw.Tensor, **options: Any) -> None:
    """Save; compare ONNX Runtime and the loaded module with the function itself."""
    gw.onnx.save(fn, args, path, **options)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    with gw.no_grad():
        expected = [tensor.numpy() for tensor in leaves(fn(*args))]
        loaded = leaves(gw.onnx.load(path)(*args))
    for wanted, theirs, ours in zip(expected, run_by_onnxruntime(path, *args), loaded, strict=True):
        assert theirs.dtype == wanted.dtype == ours.dtype
        np.testing.assert_allclose(theirs, wanted, CLOSE, CLOSE)
        np.testing.assert_allclose(ours.numpy(), wanted, CLOSE, CLOSE)


# -- the six examples ------------------------------------------------------------------------------


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def characters() -> tuple[Any, ...]:
    return example("characters").GPT(27).eval(), gw.randint(0, 27, (2, 12))


def digits() -> tuple[Any, ...]:
    return example("digits").convolutional_network().eval(), gw.randn(3, 1, 8, 8)


def vae_encoder() -> tuple[Any, ...]:
    return example("digits_vae").VAE(2).encode, gw.rand(3, 1, 8, 8)


def vae_decoder() -> tuple[Any, ...]:
    return example("digits_vae").VAE(2).decoder, gw.randn(3, 2)


def moons() -> tuple[Any, ...]:
    layers = nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2)
    return nn.Sequential(*layers), gw.randn(5, 2)


def oscillator() -> tuple[Any, ...]:
    layers = nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    net = nn.Sequential(*layers).double()
    times = gw.linspace(0, 2 * math.pi, 9, dtype=gw.float64).reshape(-1, 1)
    return lambda t: net(2 * t / (2 * math.pi) - 1), times


def sequence() -> tuple[Any, ...]:
    return example("sequence").Memory(16), gw.randn(2, 7, 1)


EXAMPLES = (characters, digits, vae_encoder, vae_decoder, moons, oscillator, sequence)


@pytest.mark.parametrize("make", EXAMPLES, ids=lambda make: make.__name__)
def test_examples(make: Callable[[], tuple[Any, ...]], tmp_path: Path) -> None:
    gw.manual_seed(0)
    fn, *args = make()
    check_round_trip(fn, tmp_path / "example.onnx", *args)


# -- networks in the shape of torchvision's --------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, tmp_path: Path) -> None:
    model, x = network(name)
    check_round_trip(model, tmp_path / "network.onnx", x)
    check_round_trip(model, tmp_path / "older.onnx", x, opset=18)


def written(t: gw.Tensor) -> tuple[gw.Tensor, ...]:
    """Elements changed in place, diagonals and windows."""
    new = t.clone()
    new[:, 1] = 2.0
    new[0, ::2] += t[1, ::2]
    return new, t.diagonal(0, 1, 2), t.unfold(2, 3, 2), t.tril(), gw.pad(t, (1, 2), value=3.0)


def written_by_arrays(t: gw.Tensor, places: gw.Tensor) -> tuple[gw.Tensor, ...]:
    """Elements changed at arrays of indices, and where a mask is true."""
    some, column, masked = t.clone(), t.clone(), t.clone()
    some[places, :, places] = 0.0
    column[:, places] = t[:, :3] * 2
    masked[t > 0] = 0.5
    added = t.index_put((places.abs(),), t, accumulate=True)
    rows, index = t[:, :3, 0], places.abs()[None].expand(3, 3)
    reduced = [rows.scatter_reduce(0, index, t[:, :3, 1], how) for how in ("amax", "amin", "mean")]
    return some, column, masked, added, *reduced


def layers() -> list[tuple[str, Any, tuple[gw.Tensor, ...]]]:
    gw.manual_seed(0)
    x, image = gw.randn(3, 4, 6), gw.randn(2, 4, 7, 8)
    places, column = gw.tensor([2, -1, 0]), gw.tensor([[0], [3]])
    functional = nn.functional
    return [
        ("LSTM with a projection", nn.LSTM(6, 5, proj_size=2), (x,)),
        ("several arrays", lambda t, i, j: (
            t[i, i], t[i, :, i], t[:, i, i], t[i[:1], j], t[0, :, i], t[i, 1, i], t[i, 1:3, i],
            t[:, None, j, i], t[i.int(), i.int()], t[None, i, i], t[None, i, i, None, 2],
        ), (x, places, column)),
        ("written by arrays", written_by_arrays, (x, places)),
        ("a loss of places", lambda t: functional.nll_loss(t, gw.tensor([[1], [0], [3]])),
         (x[:, :, :1],)),
        ("places of the largest", lambda t: functional.max_pool2d(
            t, 3, 2, 1, return_indices=True), (image,)),
        ("and back", lambda t: functional.max_unpool2d(
            *functional.max_pool2d(t, 2, return_indices=True), 2), (image,)),
        ("diagonals", gw.diag_embed, (x,)),
        ("edges", lambda t: (gw.bucketize(t, gw.tensor([-1.0, 0.0, 1.0])), gw.searchsorted(
            t.sort(2).values, t, right=True)), (x,)),
        ("no numbers", lambda t: gw.nan_to_num(t / (t - t[:, :1]), posinf=3.0), (x,)),
        ("norms", lambda t: [gw.norm(t, p, 1) for p in (0, 0.5, 1, 2, 3, math.inf, -math.inf)],
         (x,)),
        ("angles", lambda t: gw.atan2(t, t.flip(0)), (x,)),
        ("rare", lambda t: (
            gw.sinc(t), gw.heaviside(t, t), gw.special.entr(t.abs()), gw.logaddexp2(t, -t),
            gw.special.xlog1py(t.abs(), t.abs()),
        ), (x,)),
        ("logic of numbers", lambda t: (
            gw.logical_and(t.round(), t), gw.logical_not(t.round()), gw.count_nonzero(t > 0),
            (t > 0).cumsum(1), t.argmax(), gw.masked_scatter(t, t > 0, -t),
        ), (x,)),
        ("nothing", lambda t: gw.cat([t[:, :0].reshape(0, 6), t[0]]), (x,)),
        ("uneven steps", lambda t: gw.gradient(t, spacing=(gw.tensor([0.0, 1.0, 3.0]),), dim=0)[0],
         (x,)),
        ("one place twice", lambda t: functional.max_unpool1d(
            *functional.max_pool1d(t, 3, 1, return_indices=True), 3, 1), (x,)),
        ("a threshold", lambda t: functional.softplus(t * 5, 2, 3), (x,)),
        ("GRU", nn.GRU(6, 5, num_layers=2, bidirectional=True), (x,)),
        ("RNN", nn.RNN(6, 5, nonlinearity="relu"), (x,)),
        ("attention with weights", nn.MultiheadAttention(6, 2, batch_first=True), (x, x, x)),
        ("RMSNorm", nn.RMSNorm(6), (x,)),
        ("GroupNorm", nn.GroupNorm(2, 4), (image,)),
        ("transposed", nn.ConvTranspose2d(4, 3, 3, 2, 1, output_padding=1), (image,)),
        ("batch statistics", lambda t: functional.batch_norm(t, None, None, training=True), (x,)),
        ("loss", lambda t: functional.cross_entropy(t, gw.tensor([1, 0, 3])), (x[:, :, 0],)),
        ("indices", lambda t: (t[:, -1, ::2], t[1, None], t.flip(1), t.argmax(2)), (x,)),
        ("gathered", lambda t: t[:, gw.tensor([2, 0, 0])], (x,)),
        ("sorted", lambda t: (t.topk(2, 1), t.sort(2, descending=True)), (x,)),
        ("reductions", lambda t: (t.var(1), t.std(), t.prod(2), (t > 0).all(1), t.max(1)), (x,)),
        ("scans", lambda t: (t.cumsum(1), gw.logsumexp(t, (0, 1)), gw.norm(t, dim=1)), (x,)),
        ("remainders", lambda t: (t % 2, gw.fmod(t, 2), gw.trunc(t), t // 0.5, t.frac()), (x,)),
        ("losses", lambda t: (
            functional.binary_cross_entropy_with_logits(t, (t > 0).float()),
            functional.binary_cross_entropy(t.sigmoid(), (t > 0).float()),
            gw.logaddexp(t, -t), gw.xlogy(t, t.abs()),
        ), (x,)),
        ("written", written, (x,)),
        ("integers", lambda t: (gw.floor_divide(t, 3), t % 3, gw.div(t, 3, rounding_mode="trunc")),
         (gw.arange(-6, 6),)),
        ("activations", lambda t: [f(t) for f in (
            functional.selu, functional.celu, functional.mish, functional.softplus,
            functional.logsigmoid, functional.hardshrink, functional.softsign, gw.erfc, gw.expm1,
            gw.log1p, gw.exp2, gw.square, gw.rsqrt,
        )], (x.abs() + 0.1,)),
    ]  # fmt: skip


def test_layers_and_functions(tmp_path: Path) -> None:
    check_each(layers(), lambda case: check_round_trip(case[1], tmp_path / "layer.onnx", *case[2]))


def test_export_is_save_under_pytorchs_name(tmp_path: Path) -> None:
    net, x, path = nn.Linear(3, 2), gw.randn(4, 3), tmp_path / "net.onnx"
    names = {"input_names": ["x"], "output_names": ["y"]}
    gw.onnx.export(net, x, path, **names, opset_version=18, do_constant_folding=True, verbose=False)
    np.testing.assert_allclose(
        run_by_onnxruntime(path, x)[0], net(x).detach().numpy(), CLOSE, CLOSE
    )
    file = onnx.load(path)
    assert (file.graph.input[0].name, file.graph.output[0].name) == ("x", "y")
    assert file.opset_import[0].version == 18
    with pytest.raises(NotImplementedError, match="custom_opsets"):
        gw.onnx.export(net, x, path, custom_opsets={})
