"""Operations that PyTorch's own rules are made of: they run when a gradient is computed."""

from __future__ import annotations

from typing import Any

from gradwalk.ops.shape import normal_axis
from gradwalk.torch.translate.table import Call, Known, direct, entry

direct("threshold_backward", "threshold_pull", "grad_output self", threshold="threshold")
direct("tanh_backward", "tanh_pull", "grad_output output")
direct("sigmoid_backward", "sigmoid_pull", "grad_output output")


def _softmax(name: str, op: str) -> None:
    def known(c: Call) -> Known | None:
        if not c.output.dim() or c.input_dtype != c.output.dtype:
            return None
        return Known(op, (c.grad_output, c.output), {"axis": normal_axis(c.dim, c.output.dim())})

    entry(name)(known)


_softmax("_softmax_backward_data", "softmax_pull")
_softmax("_log_softmax_backward_data", "log_softmax_pull")


def _put(c: Call, part: Any) -> Known:
    """Zeros with the gradient at one place."""
    axis = normal_axis(c.dim, len(c.input_sizes))
    index = (*(("slice", None, None, None),) * axis, part)
    return Known("put", (c.grad_output,), {"index": index, "shape": tuple(c.input_sizes)})


@entry("select_backward")
def _select(c: Call) -> Known:
    return _put(c, int(c.index))


@entry("slice_backward")
def _slice(c: Call) -> Known:
    length = c.input_sizes[normal_axis(c.dim, len(c.input_sizes))]
    ends = (max(min(n + length if n < 0 else n, length), 0) for n in (c.start, c.end))
    return _put(c, ("slice", *ends, c.step))


@entry("embedding_dense_backward")
def _embedding(c: Call) -> Known | None:
    if c.scale_grad_by_freq:
        return None
    attrs = {"count": c.num_weights, "skip": None if c.padding_idx < 0 else c.padding_idx}
    return Known("sum_rows", (c.grad_output, c.indices), attrs)


@entry("diagonal_backward")
def _diagonal(c: Call) -> Known:
    count = len(c.input_sizes)
    axes = normal_axis(c.dim1, count), normal_axis(c.dim2, count)
    attrs = {"shape": tuple(c.input_sizes), "offset": c.offset, "axes": axes}
    return Known("diagonal_put", (c.grad_output,), attrs)


@entry("unfold_backward")
def _unfold(c: Call) -> Known | None:
    if not c.input_sizes:
        return None
    axis = normal_axis(c.dim, len(c.input_sizes))
    attrs = {"shape": tuple(c.input_sizes), "axis": axis, "size": c.size, "step": c.step}
    return Known("windows_add", (c.grad_in,), attrs)
