"""Operations that PyTorch's backward rules call."""

from __future__ import annotations

from typing import Any

from gradwalk.torch.translate.indexing import at_axis, clipped, padding_index
from gradwalk.torch.translate.layers import reduction
from gradwalk.torch.translate.table import AtenCall, direct

direct("threshold_backward", "threshold_pull", "grad_output self", threshold="threshold")
direct("tanh_backward", "tanh_pull", "grad_output output")
direct("sigmoid_backward", "sigmoid_pull", "grad_output output")


def _has_operand(c: AtenCall) -> bool:
    """Whether it is computed from the operand; the result serves where that was overwritten."""
    return not (c.values.get("is_result") or c.values.get("self_is_result"))


def _through(name: str, op: str, attrs: str = "", x: str = "self") -> None:
    """The gradient of an activation, by our own rule."""
    direct(
        name, "pulled_through", f"grad_output {x}", when=_has_operand, op=lambda c: op,
        attrs=lambda c: {attr: c.values[attr] for attr in attrs.split()},
    )  # fmt: skip


_through("silu_backward", "silu")
_through("mish_backward", "mish")
_through("hardswish_backward", "hardswish")
_through("hardsigmoid_backward", "hardsigmoid")
_through("log_sigmoid_backward", "logsigmoid")
_through("leaky_relu_backward", "leaky_relu", "negative_slope")
_through("elu_backward", "elu", "alpha scale input_scale", x="self_or_result")
_through("hardtanh_backward", "hardtanh", "min_val max_val")
_through("softplus_backward", "softplus", "beta threshold")
direct(
    "gelu_backward", "pulled_through", "grad_output self",
    op=lambda c: "gelu_tanh" if c.approximate == "tanh" else "gelu", attrs=lambda c: {},
)  # fmt: skip

# -- of losses and layers --------------------------------------------------------------------------
# Without layer_norm and group_norm: their rules do not receive eps.


def _of_loss(names: str, op: str, attr: str = "", weight: str = "") -> None:
    """The gradient of a loss with respect to its input."""

    def attrs(c: AtenCall) -> dict[str, Any]:
        own = {attr: c.values[attr]} if attr else {}
        return {**own, "reduction": reduction(c)}

    operands = f"grad_output self target {weight}"
    direct(names, "pulled_through", operands, op=lambda c: op, attrs=attrs)


_of_loss("mse_loss_backward", "mse_loss")
_of_loss("smooth_l1_loss_backward", "smooth_l1_loss", "beta")
_of_loss("huber_loss_backward", "huber_loss", "delta")
_of_loss("binary_cross_entropy_backward", "binary_cross_entropy_loss", weight="weight?")
_of_loss("nll_loss_backward nll_loss2d_backward", "nll_loss", "ignore_index", "weight?")

direct(
    "convolution_backward", "conv_pull", "grad_output input weight",
    lambda c: tuple(range(sum(c.output_mask))), when=lambda c: not c.transposed,
    wanted=lambda c: tuple(map(bool, c.output_mask)), stride="stride",
    padding=lambda c: tuple((p, p) for p in c.padding), dilation="dilation", groups="groups",
)  # fmt: skip
for name in ("softmax", "log_softmax"):
    direct(
        f"_{name}_backward_data", f"{name}_pull", "grad_output output",
        when=lambda c: c.output.dim() and c.input_dtype == c.output.dtype,
        axis=lambda c: c.axis(ndim=c.output.dim()),
    )  # fmt: skip
direct(
    "embedding_dense_backward", "sum_rows", "grad_output indices",
    when=lambda c: not c.scale_grad_by_freq, count="num_weights", skip=padding_index,
)  # fmt: skip

# -- of views: zeros with the gradient in its place ------------------------------------------------


def _axis(c: AtenCall, name: str = "dim") -> int:
    return c.axis(name, len(c.input_sizes))


def _slice(c: AtenCall) -> Any:
    length = c.input_sizes[_axis(c)]
    return ("slice", clipped(c.start, length), clipped(c.end, length), c.step)


direct(
    "select_backward", "put", "grad_output", index=lambda c: at_axis(_axis(c), int(c.index)),
    shape="input_sizes",
)  # fmt: skip
direct(
    "slice_backward", "put", "grad_output", index=lambda c: at_axis(_axis(c), _slice(c)),
    shape="input_sizes",
)  # fmt: skip
direct(
    "diagonal_backward", "diagonal_put", "grad_output", shape="input_sizes", offset="offset",
    axes=lambda c: (_axis(c, "dim1"), _axis(c, "dim2")),
)  # fmt: skip
direct(
    "unfold_backward", "windows_add", "grad_in", when=lambda c: c.input_sizes, shape="input_sizes",
    axis=_axis, size="size", step="step",
)  # fmt: skip
