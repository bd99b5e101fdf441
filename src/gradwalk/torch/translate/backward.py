"""Operations that PyTorch's backward rules call."""

from __future__ import annotations

from typing import Any

from gradwalk.ops.shape.reshaping import normal_axis
from gradwalk.torch.translate.losses import HOW
from gradwalk.torch.translate.table import AtenCall, Known, direct, entry

direct("threshold_backward", "threshold_pull", "grad_output self", threshold="threshold")
direct("tanh_backward", "tanh_pull", "grad_output output")
direct("sigmoid_backward", "sigmoid_pull", "grad_output output")


def _through(name: str, op: str, **attrs: str) -> None:
    """The gradient of an activation, by our own rule."""

    def known(c: AtenCall) -> Known | None:
        if c.values.get("is_result") or c.values.get("self_is_result"):
            return None  # computed from the result, because the operand was overwritten
        x = c.self if "self" in c.values else c.self_or_result
        inner = {ours: c.values[theirs] for ours, theirs in attrs.items()}
        return Known("pulled_through", (c.grad_output, x), {"op": op, "attrs": inner})

    entry(name)(known)


_through("silu_backward", "silu")
_through("mish_backward", "mish")
_through("hardswish_backward", "hardswish")
_through("hardsigmoid_backward", "hardsigmoid")
_through("log_sigmoid_backward", "logsigmoid")
_through("leaky_relu_backward", "leaky_relu", negative_slope="negative_slope")
_through("elu_backward", "elu", alpha="alpha", scale="scale", input_scale="input_scale")
_through("hardtanh_backward", "hardtanh", min_val="min_val", max_val="max_val")
_through("softplus_backward", "softplus", beta="beta", threshold="threshold")


@entry("gelu_backward")
def _gelu(c: AtenCall) -> Known:
    op = "gelu_tanh" if c.approximate == "tanh" else "gelu"
    return Known("pulled_through", (c.grad_output, c.self), {"op": op, "attrs": {}})


# -- of losses and layers --------------------------------------------------------------------------
# Without layer_norm and group_norm: their rules do not receive eps.


def _of_loss(name: str, op: str, *weights: str, **attrs: str) -> None:
    """The gradient of a loss with respect to its input."""

    def known(c: AtenCall) -> Known:
        inner = {ours: c.values[theirs] for ours, theirs in attrs.items()}
        inner["reduction"] = HOW[c.reduction]
        args = (c.grad_output, c.self, c.target, *c.given(*weights))
        return Known("pulled_through", args, {"op": op, "attrs": inner})

    entry(*name.split())(known)


_of_loss("mse_loss_backward", "mse_loss")
_of_loss("smooth_l1_loss_backward", "smooth_l1_loss", beta="beta")
_of_loss("huber_loss_backward", "huber_loss", delta="delta")
_of_loss("binary_cross_entropy_backward", "binary_cross_entropy_loss", "weight")
_of_loss("nll_loss_backward nll_loss2d_backward", "nll_loss", "weight", ignore_index="ignore_index")


@entry("convolution_backward")
def _convolution(c: AtenCall) -> Known | None:
    if c.transposed:
        return None
    wanted = tuple(bool(w) for w in c.output_mask)
    attrs = {
        "wanted": wanted,
        "stride": tuple(c.stride),
        "padding": tuple((p, p) for p in c.padding),
        "dilation": tuple(c.dilation),
        "groups": c.groups,
    }
    args = (c.grad_output, c.values["input"], c.weight)
    return Known("conv_pull", args, attrs, tuple(range(sum(wanted))))


def _softmax(name: str, op: str) -> None:
    def known(c: AtenCall) -> Known | None:
        if not c.output.dim() or c.input_dtype != c.output.dtype:
            return None
        return Known(op, (c.grad_output, c.output), {"axis": normal_axis(c.dim, c.output.dim())})

    entry(name)(known)


_softmax("_softmax_backward_data", "softmax_pull")
_softmax("_log_softmax_backward_data", "log_softmax_pull")


def _put(c: AtenCall, part: Any) -> Known:
    """Zeros with the gradient at one position."""
    axis = normal_axis(c.dim, len(c.input_sizes))
    index = (*(("slice", None, None, None),) * axis, part)
    return Known("put", (c.grad_output,), {"index": index, "shape": tuple(c.input_sizes)})


@entry("select_backward")
def _select(c: AtenCall) -> Known:
    return _put(c, int(c.index))


@entry("slice_backward")
def _slice(c: AtenCall) -> Known:
    length = c.input_sizes[normal_axis(c.dim, len(c.input_sizes))]
    ends = (max(min(n + length if n < 0 else n, length), 0) for n in (c.start, c.end))
    return _put(c, ("slice", *ends, c.step))


@entry("embedding_dense_backward")
def _embedding(c: AtenCall) -> Known | None:
    if c.scale_grad_by_freq:
        return None
    attrs = {"count": c.num_weights, "skip": None if c.padding_idx < 0 else c.padding_idx}
    return Known("sum_rows", (c.grad_output, c.indices), attrs)


@entry("diagonal_backward")
def _diagonal(c: AtenCall) -> Known:
    count = len(c.input_sizes)
    axes = normal_axis(c.dim1, count), normal_axis(c.dim2, count)
    attrs = {"shape": tuple(c.input_sizes), "offset": c.offset, "axes": axes}
    return Known("diagonal_put", (c.grad_output,), attrs)


@entry("unfold_backward")
def _unfold(c: AtenCall) -> Known | None:
    if not c.input_sizes:
        return None
    axis = normal_axis(c.dim, len(c.input_sizes))
    attrs = {"shape": tuple(c.input_sizes), "axis": axis, "size": c.size, "step": c.step}
    return Known("windows_add", (c.grad_in,), attrs)
