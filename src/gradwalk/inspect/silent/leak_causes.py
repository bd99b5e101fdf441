"""Why an operation leaks, and a change to try."""

from __future__ import annotations

from typing import Any

from gradwalk.inspect.silent.leaks import Leak
from gradwalk.inspect.trace.trace import Trace

_SOFTMAX = frozenset(("softmax", "log_softmax", "safe_softmax", "logsumexp"))
_ATTENTION = frozenset(("attention", "masked_attention", "grouped_attention"))
_BATCH_NORM = frozenset(("batch_norm", "batch_norm_update"))
_RECURRENT = ("lstm", "gru", "rnn")  # beginnings of ops and of module classes
_MOVES = frozenset(
    ("reshape", "permute", "flip", "roll", "getitem", "index_select", "gather", "concatenate",
     "stack", "expand", "unfold", "repeat", "as_strided")
)  # fmt: skip
_PRODUCTS = frozenset(("matmul", "addmm", "linear", "einsum", "tensordot", "dot"))


def time_leak(leak: Leak) -> tuple[str, str]:
    """Cause and fix of an operation that carries later positions into earlier ones."""
    op, axis = leak.node.op, _axis_words(leak)
    pair = any(len(clean.axes) == 2 and not clean.merged for clean in leak.operands)
    if op in _ATTENTION:
        mask = "its mask lets a position" if op == "masked_attention" else "every position can"
        return (
            f"{mask} see later ones.",
            "is_causal=True, or a mask that is True (or 0) only where key <= query: "
            "torch.ones(T, T).tril().",
        )
    if op in _SOFTMAX and pair:
        return (
            "the scores of later positions are not hidden before the softmax: the mask is missing, "
            "or it is shifted.",
            "scores.masked_fill(ones(T, T).triu(1).bool(), -inf) before the softmax over the keys.",
        )
    if op in _SOFTMAX:
        return (
            f"it normalises{axis}, over the positions.",
            "a softmax over the keys or the features: dim=-1.",
        )
    if op.startswith("conv"):
        return (
            "it reads later positions: it is padded on both sides.",
            "pad on the left only: F.pad(x, (dilation * (kernel - 1), 0)) and padding=0.",
        )
    if is_recurrent(leak.trace, leak.node.index):
        return "it runs backward in time.", "bidirectional=False."
    if _is_batch_norm(leak):
        return _batch_norm(leak, "positions")
    if "norm" in op or op.startswith("standardize"):
        return (
            "its mean and variance are taken over the positions.",
            "normalise over the features alone (LayerNorm of the last axis).",
        )
    if op.startswith("cum") or op == "scan":
        return "it sums from the end.", "sum from the beginning, without the flip."
    if op in _MOVES:
        return (
            "it moves later positions to earlier ones.",
            "index, shift or flip so that position t reads positions up to t; reshape only after "
            "transposing the axes into their new order.",
        )
    if op in _PRODUCTS:
        seen = "it sums scores of later positions, which no mask hides" if pair else "it sums"
        return f"{seen} over the positions.", "mask later positions before the product."
    if _reduces(leak):
        return (
            f"it reduces{axis}, over the positions.",
            "reduce over the features, or over positions up to t (cumsum / count).",
        )
    return _unknown(leak, "positions")


def row_leak(leak: Leak) -> tuple[str, str]:
    """Cause and fix of an operation that carries one row of a batch into others."""
    op, axis = leak.node.op, _axis_words(leak)
    pair = any(len(clean.axes) == 2 and not clean.merged for clean in leak.operands)
    if _is_batch_norm(leak):
        return _batch_norm(leak, "rows of the batch")
    if op in _SOFTMAX and not pair:
        return (
            f"it normalises{axis}, over the batch.",
            "a softmax over the classes, the keys or the features: dim=-1.",
        )
    if op in _SOFTMAX or op in _ATTENTION or is_recurrent(leak.trace, leak.node.index):
        return (
            "it takes the rows of the batch for positions in time.",
            "batch_first=True, or inputs of shape (time, batch, features).",
        )
    if "norm" in op or op.startswith("standardize"):
        return (
            "its mean and variance are taken over the batch.",
            "normalise over the features (LayerNorm).",
        )
    if op in _MOVES:
        return (
            "it moves numbers from one row of the batch to another.",
            "keep the batch axis: transpose the axes into their new order before reshape or view.",
        )
    if op in _PRODUCTS:
        return "it sums over the batch.", "a product over the features, with the batch axis kept."
    if _reduces(leak):
        return f"it reduces{axis}, over the batch.", "reduce over the features, not over the batch."
    return _unknown(leak, "rows of the batch")


def is_recurrent(trace: Trace, index: int) -> bool:
    """Whether an operation is a recurrent layer, or one of those that make up such a layer."""
    names = [group.class_name.lower() for group in trace.group_path(index)[-1:]]
    return any(name.startswith(_RECURRENT) for name in (trace.nodes[index].op, *names))


def _is_batch_norm(leak: Leak) -> bool:
    groups = leak.trace.group_path(leak.node.index)
    inside = bool(groups) and "BatchNorm" in groups[-1].class_name
    return inside or leak.node.op in _BATCH_NORM


def _batch_norm(leak: Leak, what: str) -> tuple[str, str]:
    return (
        f"batch norm in train mode takes its mean and variance over all {what}.",
        "model.eval() if the statistics are meant to be fixed, or LayerNorm or GroupNorm.",
    )


def _reduces(leak: Leak) -> bool:
    return "axis" in leak.node.attrs or "axes" in leak.node.attrs


def _axis_words(leak: Leak) -> str:
    axis: Any = leak.node.attrs.get("axis", leak.node.attrs.get("axes"))
    if isinstance(axis, tuple | list):
        axis = axis[0] if len(axis) == 1 else tuple(axis)
    return "" if axis is None else f" over dim={axis}"


def _unknown(leak: Leak, what: str) -> tuple[str, str]:
    if leak.node.is_leaf:
        return (
            f"it was computed outside of tensors (item(), numpy()) from other {what}.",
            "compute it with tensor operations that keep the axis.",
        )
    return (
        f"its operands keep the {what} apart, and its result does not.",
        f"an operation that acts on the {what} one by one.",
    )
