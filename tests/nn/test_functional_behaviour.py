"""`nn.functional` beyond the table: running statistics, chance, in-place forms, what is refused."""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.ops.oracle import OURS, THEIRS

F = gw.nn.functional

# -- batch norm's running statistics --------------------------------------------------------------


@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
@pytest.mark.parametrize("momentum", [0.1, 0.5])
@pytest.mark.parametrize("affine", [False, True])
def test_running_statistics(name: str, momentum: float, affine: bool) -> None:
    source = np.random.default_rng(0)
    images = [source.normal(size=(4, 3, 5, 2)) for _ in range(3)]
    weight, bias = source.normal(size=(2, 3))
    found = []
    for engine in (OURS, THEIRS):
        mean, var = engine.tensor(np.zeros(3)), engine.tensor(np.ones(3))
        function = getattr(engine.module.nn.functional, name)
        training = {"training" if name == "batch_norm" else "use_input_stats": True}
        leaves = []
        for image in images:
            x, w, b = (engine.tensor(a.copy()).requires_grad_() for a in (image, weight, bias))
            parameters = (w, b) if affine else (None, None)
            out = function(x, mean, var, *parameters, momentum=momentum, **training)
            (out * out * out).sum().backward()
            leaves += [x.grad, *((w.grad, b.grad) if affine else ())]
        training = dict.fromkeys(training, False)
        final = function(engine.tensor(images[0]), mean, var, **training)
        found.append([engine.array(t) for t in (mean, var, final, *leaves)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)


# -- chance ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [gw.float32, gw.float64])
def test_dropout(dtype: Any) -> None:
    gw.manual_seed(0)
    x = gw.full((200, 300), 2.0, dtype=dtype, requires_grad=True)
    out = F.dropout(x, 0.3)
    assert out.dtype == dtype
    kept = out.detach().numpy() != 0
    np.testing.assert_allclose(kept.mean(), 0.7, atol=0.01)
    np.testing.assert_allclose(out.detach().numpy()[kept], 2 / 0.7, rtol=1e-6)
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), kept / 0.7, rtol=1e-6)
    gw.manual_seed(0)
    np.testing.assert_array_equal(F.dropout(x, 0.3).detach().numpy(), out.detach().numpy())
    assert F.dropout(x, 0.3, training=False) is x
    assert not F.dropout(x, 1.0).detach().numpy().any()


@pytest.mark.parametrize(
    ("function", "shape"),
    [(F.dropout1d, (40, 50, 3)), (F.dropout2d, (40, 50, 3, 2)), (F.dropout3d, (40, 50, 2, 1, 2))],
)
def test_dropout_of_whole_channels(function: Any, shape: tuple[int, ...]) -> None:
    gw.manual_seed(1)
    out = function(gw.ones(shape), 0.4).numpy().reshape(40, 50, -1)
    assert (out == out[..., :1]).all()
    np.testing.assert_allclose((out != 0).mean(), 0.6, atol=0.04)


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    gw.manual_seed(2)
    x = gw.randn(400, 500, dtype=gw.float64)
    out = F.alpha_dropout(x, 0.2, training=True).numpy()
    np.testing.assert_allclose([out.mean(), out.var()], [0, 1], atol=0.03)


def test_dropout_in_place() -> None:
    gw.manual_seed(3)
    x = gw.ones(100)
    assert F.dropout(x, 0.5, inplace=True) is x
    assert set(x.tolist()) == {0.0, 2.0}


def test_dropout_of_attention_weights() -> None:
    gw.manual_seed(4)
    q = gw.randn(2, 50, 8)
    plain = F.scaled_dot_product_attention(q, q, q)
    dropped = F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
    assert not np.allclose(plain.numpy(), dropped.numpy())


def test_gumbel_softmax() -> None:
    gw.manual_seed(5)
    p = np.array([0.1, 0.2, 0.7])
    logits = gw.tensor(np.tile(np.log(p), (20000, 1)), requires_grad=True)
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(soft.sum(-1).detach().numpy(), 1)
    hard = F.gumbel_softmax(logits, hard=True)
    assert set(np.unique(np.round(hard.detach().numpy(), 9))) == {0.0, 1.0}
    np.testing.assert_allclose(hard.detach().numpy().mean(0), p, atol=0.02)
    (hard * gw.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert np.isfinite(logits.grad.numpy()).all() and logits.grad.numpy().any()


# -- in place, and what is refused ----------------------------------------------------------------

IN_PLACE = ["relu", "relu6", "leaky_relu", "elu", "selu", "celu", "silu", "mish", "hardtanh",
            "hardsigmoid", "hardswish"]  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str) -> None:
    function = getattr(F, name)
    x = gw.tensor([-4.0, -0.5, 0.5, 7.0], dtype=gw.float64, requires_grad=True)
    function(x).sum().backward()
    expected, x.grad = x.grad.numpy(), None
    y = x * 1
    assert function(y, inplace=True) is y
    np.testing.assert_array_equal(y.detach().numpy(), function(x).detach().numpy())
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_embedding_with_a_largest_norm() -> None:
    weight = np.random.default_rng(0).normal(size=(5, 4))
    index = np.array([0, 2, 2])
    ours, theirs = gw.tensor(weight), torch.tensor(weight)
    out = F.embedding(gw.tensor(index), ours, max_norm=1.0)
    other = torch.nn.functional.embedding(torch.tensor(index), theirs, max_norm=1.0)
    np.testing.assert_allclose(out.numpy(), other.numpy())
    np.testing.assert_allclose(ours.numpy(), theirs.numpy())


x4 = gw.zeros(1, 2, 4, 4)
REFUSED = {
    "kernel too large": (lambda: F.conv2d(x4, gw.zeros(1, 2, 5, 5)), "does not fit"),
    "channels": (lambda: F.conv2d(x4, gw.zeros(1, 3, 2, 2)), "do not fit with groups=1"),
    "dimensions": (lambda: F.conv1d(x4, gw.zeros(1, 2, 3)), "without a batch"),
    "same": (lambda: F.conv2d(x4, gw.zeros(1, 2, 2, 2), padding="same", stride=2), "stride 1"),
    "padding": (lambda: F.conv2d(x4, gw.zeros(1, 2, 2, 2), padding="full"), "'same' or 'valid'"),
    "output": (lambda: F.conv_transpose2d(x4, gw.zeros(2, 1, 2, 2), output_padding=1), "smaller"),
    "pool": (lambda: F.max_pool2d(x4, 2, padding=2), "at most half"),
    "integers": (lambda: F.adaptive_max_pool1d(gw.arange(8).reshape(1, 8), 2), "floating-point"),
    "booleans": (lambda: F.max_pool1d(gw.arange(8).reshape(1, 8) > 3, 2), "floating-point"),
    "embedding": (lambda: F.embedding(gw.tensor([3]), gw.zeros(3, 2)), "out of range"),
    "embedding weight": (lambda: F.embedding(gw.tensor([0]), gw.zeros(1, 1, 1)), "a matrix"),
    "stride": (lambda: F.max_pool1d(gw.zeros(1, 3, 3), 1, stride=0), "at least 1"),
    "adaptive": (lambda: F.adaptive_max_pool2d(gw.zeros(1, 1, 1, 1), (-1, 0)), "positive"),
    "triplet": (lambda: F.triplet_margin_loss(*[gw.ones(2, 3)] * 3, margin=-1), "above 0"),
    "between integers": (
        lambda: F.interpolate(gw.ones(1, 1, 4, dtype=gw.int64), 2, mode="linear"),
        "uint8",
    ),
    "class": (lambda: F.nll_loss(gw.zeros(1, 3), gw.tensor([3])), "out of range"),
    "layer norm": (lambda: F.layer_norm(x4, (3,)), "last dimensions"),
    "batch norm": (lambda: F.batch_norm(gw.zeros(1, 3), None, None, training=True), "more than"),
    "eval": (lambda: F.batch_norm(gw.zeros(2, 3), None, None), "running statistics"),
    "groups": (lambda: F.group_norm(gw.zeros(1, 3), 2), "do not divide"),
    "reduction": (lambda: F.mse_loss(x4, x4, reduction="max"), "'mean', 'sum' or 'none'"),
    "gelu": (lambda: F.gelu(x4, approximate="erf"), "'none' or 'tanh'"),
    "mode": (lambda: F.interpolate(x4, 2, mode="cubic"), "unknown mode"),
    "corners": (lambda: F.interpolate(x4, 2, align_corners=True), "no meaning"),
    "dropout": (lambda: F.dropout(x4, 1.5), "between 0 and 1"),
    "two masks": (
        lambda: F.scaled_dot_product_attention(
            gw.zeros(2, 2), gw.zeros(2, 2), gw.zeros(2, 2), gw.ones(2, 2), is_causal=True
        ),
        "not both",
    ),
}


@pytest.mark.parametrize(("call", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(call: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError, IndexError), match=words):
        call()


def test_a_target_that_is_broadcast_is_worth_a_warning() -> None:
    with pytest.warns(UserWarning, match="rarely intended"):
        F.mse_loss(gw.zeros(3, 1), gw.zeros(3))


def test_the_old_flags_still_work() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert F.mse_loss(gw.ones(3), gw.zeros(3), size_average=False).item() == 3
        assert F.mse_loss(gw.ones(3), gw.zeros(3), reduce=False).shape == (3,)
    with pytest.warns(DeprecationWarning, match="use reduction"):
        F.l1_loss(gw.ones(3), gw.zeros(3), size_average=True)


def test_convolution_keeps_only_its_operands() -> None:
    x = gw.zeros(8, 4, 12, 12, requires_grad=True)
    weight = gw.zeros(4, 4, 5, 5, requires_grad=True)
    out = F.conv2d(x, weight, padding=2)
    assert gw.saved_bytes(out) <= x.nbytes + weight.nbytes


def test_arguments_have_the_names_of_pytorch() -> None:
    for name in F.__all__:
        ours = list(inspect.signature(getattr(F, name)).parameters)
        try:
            theirs = inspect.signature(getattr(torch.nn.functional, name))
        except ValueError:  # built in: its signature cannot be read
            continue
        if not any(p.kind is p.VAR_POSITIONAL for p in theirs.parameters.values()):
            assert ours == [p for p in theirs.parameters if p != "out"], name


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_without_dim_warns_and_takes_pytorchs(name: str) -> None:
    for shape in [(3,), (2, 3), (2, 3, 4), (2, 3, 4, 5)]:
        x = np.random.default_rng(0).normal(size=shape)
        with pytest.warns(UserWarning, match="dim"):
            ours = getattr(F, name)(gw.tensor(x))
        with pytest.warns(UserWarning, match="dim"):
            theirs = getattr(torch.nn.functional, name)(torch.tensor(x))
        np.testing.assert_allclose(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize(
    "asked",
    [{"size": (3, 4)}, {"size": (1, 20)}, {"size": (9, 13)}, {"scale_factor": (0.4, 1.7)}],
    ids=str,
)
def test_antialiased_images(mode: str, corners: bool, asked: dict[str, Any]) -> None:
    image = np.random.default_rng(0).normal(size=(2, 3, 9, 13))
    found = []
    for library in (gw, torch):
        x = library.tensor(image, requires_grad=True)
        y = library.nn.functional.interpolate(
            x, mode=mode, align_corners=corners, antialias=True, **asked
        )
        (y * y).sum().backward()
        found.append((y.detach().numpy(), x.grad.numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


ATTENTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "separate weights": {"use_separate_proj_weight": True},
    "padding": {"key_padding_mask": [[False, True, False, False], [False, False, False, True]]},
    "mask": {"attn_mask": [[0.0, -1.0, 0.5, 2.0]] * 3},
    "without weights": {"need_weights": False},
    "each head": {"average_attn_weights": False},
    "keys that are given": {"static_k": (4, 4, 3), "static_v": (4, 4, 3)},
}


@pytest.mark.parametrize("case", ATTENTIONS)
@pytest.mark.parametrize("extra", [False, True])
def test_attention_of_given_weights(case: str, extra: bool) -> None:
    results = []
    for library in (gw, torch):
        draw = np.random.default_rng(0)
        tensor = lambda *shape, draw=draw, library=library: library.tensor(draw.normal(size=shape))
        query, key, value = tensor(3, 2, 6), tensor(4, 2, 6), tensor(4, 2, 6)
        packed, bias, out = tensor(18, 6), tensor(18), (tensor(6, 6), tensor(6))
        more = (tensor(1, 1, 6), tensor(1, 1, 6)) if extra else (None, None)
        options = {name: tensor(6, 6) for name in ("q_proj_weight", "k_proj_weight")}
        options["v_proj_weight"] = tensor(6, 6)
        for name, given in ATTENTIONS[case].items():
            if isinstance(given, bool):
                options[name] = given
            else:
                static = isinstance(given, tuple)
                options[name] = (
                    tensor(*given)
                    if static
                    else library.tensor(given).to(
                        library.bool if name == "key_padding_mask" else library.float64
                    )
                )
        if extra and case == "keys that are given":
            return  # PyTorch refuses both
        results.append(
            library.nn.functional.multi_head_attention_forward(
                query, key, value, 6, 2, packed, bias, *more, extra, 0.0, *out, **options
            )
        )
    for ours, theirs in zip(*results, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9)


@pytest.mark.parametrize("lambd", [0.0, 0.25, 1.0, math.inf])
def test_hardshrink_gives_plain_zeros(lambd: float) -> None:
    values = [0.0, 0.25, -0.25, 1.0, -1.0, math.inf, -math.inf, math.nan]
    expected = torch.tensor(values).hardshrink(lambd).tolist()
    compiled = gw.compile(lambda x: F.hardshrink(x, lambd))
    for found in (F.hardshrink(gw.tensor(values), lambd), compiled(gw.tensor(values))):
        assert str(found.tolist()) == str(expected)  # the text tells -0.0 from 0.0
    number = [gw.Value(v) for v in values[:-1]]
    assert [gw.ops.TABLE["hardshrink"](v, lambd=lambd).data for v in number] == expected[:-1]


def test_the_edge_of_hardshrink_in_half_precision() -> None:
    x = [1.0, 0.3, -0.3, 0.5]
    for name in ("float16", "bfloat16"):
        expected = torch.nn.functional.hardshrink(torch.tensor(x, dtype=getattr(torch, name)), 0.3)
        found = F.hardshrink(gw.tensor(x, dtype=getattr(gw, name)), 0.3)
        assert found.float().tolist() == expected.float().tolist()


SHRUNK = [
    {"size": (99, 30)}, {"size": (250, 300)}, {"scale_factor": (1.3, 2.3)}, {"size": (506, 7)},
    {"scale_factor": (1.3, 0.7)}, {"scale_factor": (0.2, 0.1)}, {"scale_factor": (0.3, 1.0)},
]  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_resizing_takes_pytorchs_pixels(mode: str, dtype: str) -> None:
    """At the border between two pixels, roundings decide: PyTorch's are those of float32."""
    wrong = []
    for shape in ((1, 2, 253), (1, 1, 57, 45), (2, 2, 3, 57), (1, 1, 3, 57, 2)):
        n = len(shape) - 2
        pixels = np.arange(math.prod(shape)).reshape(shape) % 251
        for asked in SHRUNK:
            options = {name: (*value, 2.0)[:n] for name, value in asked.items()}
            if "size" in options:
                options["size"] = tuple(int(v) for v in options["size"])
            if any(
                math.floor(o * f) < 1 for o, f in zip(shape[2:], options.get("scale_factor", ()))
            ):
                continue
            ours, theirs = (
                library.nn.functional.interpolate(
                    library.tensor(pixels, dtype=getattr(library, dtype)), mode=mode, **options
                ).numpy()
                for library in (gw, torch)
            )
            if not np.array_equal(ours, theirs):
                wrong.append((shape, options))
    assert not wrong


def test_a_copied_pixel_may_be_infinite() -> None:
    """It is copied alone: a product with a matrix of zeros and ones made its whole row NaN."""
    for factor in (2, 0.7, 1.5):
        found = []
        for library in (gw, torch):
            x: Any = library.tensor([[[0.0, -math.inf, 2.0, math.nan, 4.0]]], requires_grad=True)
            out = library.nn.functional.interpolate(x, scale_factor=factor)
            out.sum().backward()
            found.append((out.detach().numpy(), x.grad.numpy()))
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_array_equal(ours, theirs)
