"""Layers (softmax, convolution, pooling, normalization, attention, dropout) and losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradwalk.torch.translate.table import AtenCall, Known, Made, direct, entry, has_dims, same

# -- softmax ---------------------------------------------------------------------------------------


def _keeps_dtype(c: AtenCall) -> bool:
    converts = c.values.get("half_to_float")
    return not converts and c.values.get("dtype") in (None, c.self.dtype) and has_dims(c)


for ours, theirs in {
    "softmax": "_softmax softmax.int",
    "log_softmax": "_log_softmax log_softmax.int",
    "safe_softmax": "_safe_softmax",
}.items():
    direct(theirs, ours, "self", when=_keeps_dtype, axis=AtenCall.axis)

# -- convolution -----------------------------------------------------------------------------------


def _sizes(value: Any, count: int) -> tuple[int, ...]:
    """Repeat one number for all dimensions; keep one for each."""
    given = (value,) if isinstance(value, int) else tuple(int(n) for n in value)
    return given * count if len(given) == 1 else given


def _pairs(padding: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return tuple((p, p) for p in padding)


@entry("convolution", "conv1d", "conv2d", "conv3d")
def _convolution(c: AtenCall) -> Known | None:
    weight = c.weight
    count = weight.dim() - 2
    x = c.values["input"]
    if x.dim() != count + 2:
        return None
    stride, padding, dilation = (
        _sizes(c.values[name], count) for name in ("stride", "padding", "dilation")
    )
    attrs: dict[str, Any] = {
        "stride": stride, "padding": _pairs(padding), "dilation": dilation, "groups": c.groups,
    }  # fmt: skip
    bias = () if c.bias is None else (c.bias,)
    if not c.values.get("transposed", False):
        return Known("conv_bias" if bias else "conv", (x, weight, *bias), attrs)
    extra = _sizes(c.output_padding, count)
    attrs["shape"] = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(
            x.shape[2:], stride, padding, dilation, weight.shape[2:], extra, strict=True
        )
    )
    return Known("conv_input_bias" if bias else "conv_input", (x, weight, *bias), attrs)


direct(
    "im2col", "im2col", "self", when=lambda c: c.self.dim() == 4,
    kernel="kernel_size", dilation="dilation", padding="padding", stride="stride",
)  # fmt: skip

# -- pooling ---------------------------------------------------------------------------------------


def _windows(c: AtenCall, count: int) -> dict[str, Any]:
    """Kernel, stride, padding and number of windows in our pooling's form."""
    kernel = _sizes(c.kernel_size, count)
    stride = _sizes(c.stride, count) if c.stride else kernel
    padding = _sizes(c.padding, count)
    dilation = _sizes(c.values.get("dilation", 1), count)
    out = []
    size = c.self.shape[c.self.dim() - count :]
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        windows = (room + (s - 1 if c.ceil_mode else 0)) // s + 1
        # The last window must begin inside the input or the padding before it.
        out.append(windows - 1 if c.ceil_mode and (windows - 1) * s >= n + p else windows)
    return {
        "kernel": kernel, "out": tuple(out), "stride": stride, "padding": _pairs(padding),
        "dilation": dilation,
    }  # fmt: skip


def _average(c: AtenCall, count: int) -> dict[str, Any]:
    kernel = _sizes(c.kernel_size, count)
    return {
        "kernel": kernel,
        "stride": _sizes(c.stride, count) if c.stride else kernel,
        "padding": _sizes(c.padding, count),
        "ceil_mode": c.ceil_mode,
        "include_pad": c.count_include_pad,
        "divisor": c.values.get("divisor_override"),
    }


def _adaptive(c: AtenCall, count: int) -> dict[str, Any]:
    return {"size": _sizes(c.output_size, count)}


def _pooling(names: str, op: str, count: int, attrs: Callable[[AtenCall, int], Any]) -> None:
    entry(*names.split())(lambda c: Known(op, (c.self,), attrs(c, count)))


_pooling("max_pool1d", "max_pool", 1, _windows)
_pooling("max_pool2d max_pool2d_with_indices", "max_pool", 2, _windows)
_pooling("max_pool3d max_pool3d_with_indices", "max_pool", 3, _windows)
_pooling("avg_pool1d", "avg_pool", 1, _average)
_pooling("avg_pool2d", "avg_pool", 2, _average)
_pooling("avg_pool3d", "avg_pool", 3, _average)
_pooling("adaptive_avg_pool1d", "adaptive_avg_pool", 1, _adaptive)
_pooling("adaptive_avg_pool2d _adaptive_avg_pool2d", "adaptive_avg_pool", 2, _adaptive)
_pooling("adaptive_avg_pool3d _adaptive_avg_pool3d", "adaptive_avg_pool", 3, _adaptive)
_pooling("adaptive_max_pool2d", "adaptive_max_pool", 2, _adaptive)

# -- resizing --------------------------------------------------------------------------------------

_MODES = {
    "upsample_nearest1d": "nearest", "upsample_nearest2d": "nearest",
    "upsample_nearest3d": "nearest", "_upsample_nearest_exact1d": "nearest-exact",
    "_upsample_nearest_exact2d": "nearest-exact", "_upsample_nearest_exact3d": "nearest-exact",
    "upsample_linear1d": "linear", "upsample_bilinear2d": "bilinear",
    "upsample_trilinear3d": "trilinear", "upsample_bicubic2d": "bicubic",
}  # fmt: skip


def _resizing(name: str, mode: str) -> None:
    @entry(name, f"{name}.vec")
    def known(c: AtenCall) -> Known | None:
        x = c.self if "self" in c.values else c.values["input"]
        own = x.shape[2:]
        scales: Any = c.values.get("scale_factors")
        if "scale_factors" not in c.values:
            names = ("scales",) if len(own) == 1 else ("scales_d", "scales_h", "scales_w")
            given = [c.values[n] for n in names if n in c.values]
            scales = given if None not in given else None
        size = c.output_size
        if size is None:
            size = [math.floor(n * s) for n, s in zip(own, scales, strict=True)]
        if scales is not None and [math.floor(n * s) for n, s in zip(own, scales)] != list(size):
            return None
        attrs = {
            "mode": mode,
            "size": tuple(int(n) for n in size),
            "scales": None if scales is None else tuple(float(s) for s in scales),
            "align_corners": c.values.get("align_corners"),
        }
        return Known("upsample", (x,), attrs)


for resizing, how in _MODES.items():
    _resizing(resizing, how)

for smooth in ("bilinear", "bicubic"):
    direct(
        f"_upsample_{smooth}2d_aa", "upsample_smooth", "self",
        when=lambda c: not c.align_corners and c.self.is_floating_point(),
        mode=lambda c, smooth=smooth: smooth, size="output_size",
        scales=lambda c: (c.scales_h, c.scales_w),
    )  # fmt: skip

# -- normalisation ---------------------------------------------------------------------------------


@entry("native_layer_norm", "layer_norm")
def _layer_norm(c: AtenCall) -> Known:
    count = len(c.normalized_shape)
    x = c.values["input"]
    axes = tuple(range(x.dim() - count, x.dim()))
    given = c.given("weight", "bias")
    operands = (x, *(c.values[name] for name in given))
    attrs = {"axes": axes, "eps": c.eps, "center": True}
    if not given:
        return Known("standardize", operands, attrs)
    if len(given) == 2 and count == x.dim():
        return Known("standardize_affine", operands, attrs)
    return Known("layer_norm", operands, {"given": given, "count": count, "eps": c.eps})


direct(
    "_fused_rms_norm", "rms_norm", "input weight?",
    # PyTorch 2.8 has another operation of this name.
    when=lambda c: "normalized_shape" in c.values and c.eps is not None,
    count=lambda c: len(c.normalized_shape), eps="eps",
)  # fmt: skip
direct(
    "native_group_norm", "group_norm", "input weight? bias?",
    given=lambda c: c.given("weight", "bias"), groups="group", eps="eps",
)  # fmt: skip


def _batch_norm(c: AtenCall, training: bool) -> Known:
    given = c.given("weight", "bias", *(() if training else ("running_mean", "running_var")))
    eps = c.epsilon if "epsilon" in c.values else c.eps
    operands = (c.values["input"], *(c.values[name] for name in given))
    return Known("batch_norm", operands, {"given": given, "training": training, "eps": eps})


entry("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "miopen_batch_norm")(
    lambda c: _batch_norm(c, bool(c.training))
)
entry("_native_batch_norm_legit.no_stats", "_batch_norm_with_update")(
    lambda c: _batch_norm(c, training=True)
)
entry("_native_batch_norm_legit_no_training", "_batch_norm_no_update")(
    lambda c: _batch_norm(c, training=False)
)


@entry("_native_batch_norm_legit_functional", "_batch_norm_with_update_functional")
def _batch_norm_functional(c: AtenCall) -> Known:
    if not c.values.get("training", True):
        return _batch_norm(c, training=False)
    given = c.given("weight", "bias", "running_mean", "running_var")
    operands = (c.values["input"], *(c.values[name] for name in given))
    attrs = {"given": given, "momentum": c.momentum, "eps": c.eps}
    moved = (3, 4) if "training" in c.values else (4, 5)
    return Known("batch_norm_update", operands, attrs, (0, *moved))


# -- attention, dropout, recurrent layers ----------------------------------------------------------


@entry(
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable", "scaled_dot_product_attention",
)  # fmt: skip
def _attention(c: AtenCall) -> Known | None:
    query, key, value = c.query, c.key, c.value
    alike = query.shape[:-2] == key.shape[:-2] == value.shape[:-2]
    grouped = not alike and _is_grouped(query.shape, key.shape, value.shape)
    mask = c.values.get("attn_mask", c.values.get("attn_bias"))
    if c.dropout_p or not (alike or grouped) or not key.shape[-2]:
        return None
    if mask is not None and c.is_causal:
        return None
    scale = float(1 / math.sqrt(query.shape[-1]) if c.scale is None else c.scale)
    if mask is None:
        attrs = {"scale": scale, "causal": bool(c.is_causal)}
        return Known("attention" if alike else "grouped_attention", (query, key, value), attrs)
    return Known("masked_attention", (query, key, value, mask), {"scale": scale})


def _is_grouped(query: Any, key: Any, value: Any) -> bool:
    """Whether heads of queries share heads of keys and values; shapes (..., heads, time, width)."""
    same = key[:-2] == value[:-2] and query[:-3] == key[:-3] and len(query) > 3
    return bool(same and key[-3] and query[-3] % key[-3] == 0)


@entry("native_dropout")
def _dropout(c: AtenCall) -> Known:
    if c.train is False or c.p == 0:
        return Known("clone", (c.values["input"],))
    return Known("dropout", (c.values["input"], Made(1)), {"p": c.p})


LSTM = 2  # PyTorch's number of the cell type
direct(
    "mkldnn_rnn_layer", "lstm_layer", "input hx_ cx_ weight0 weight1 weight2 weight3", (0, 1, 2),
    when=lambda c: c.mode == LSTM and not c.batch_sizes and c.has_biases, reverse="reverse",
)  # fmt: skip
direct("_weight_norm_interface", "weight_norm", "v g", axis="dim")

# -- losses ----------------------------------------------------------------------------------------


def reduction(c: AtenCall) -> str:
    """The name of a loss's reduction, which PyTorch encodes as a number."""
    return ("none", "mean", "sum")[c.reduction]


same("mse_loss l1_loss soft_margin_loss", "self target", reduction=reduction)
same("smooth_l1_loss", "self target", attrs="beta", reduction=reduction)
same("huber_loss", "self target", attrs="delta", reduction=reduction)
direct(
    "nll_loss_forward nll_loss2d_forward nll_loss_nd", "nll_loss", "self target weight?",
    reduction=reduction, ignore_index=lambda c: int(c.ignore_index),
)  # fmt: skip
direct(
    "binary_cross_entropy", "binary_cross_entropy_loss", "self target weight?", reduction=reduction
)
same(
    "binary_cross_entropy_with_logits", "self target weight? pos_weight?",
    given=lambda c: c.given("weight", "pos_weight"), reduction=reduction,
)  # fmt: skip
