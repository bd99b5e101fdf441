"""Sequences of different lengths in one tensor."""

from __future__ import annotations

from collections.abc import Iterable

from gradwalk.ops.shape.reshaping import pad, stack
from gradwalk.tensors.tensor import Tensor

__all__ = ["pad_sequence", "unpad_sequence"]


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Pad sequences to one length and stack them: (time, batch, ...), or batch first.

    >>> import gradwalk as gw
    >>> sequences = [gw.tensor([1.0, 2.0, 3.0]), gw.tensor([4.0])]
    >>> gw.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    tensor([[1., 2., 3.],
            [4., 0., 0.]])
    """
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side is 'left' or 'right', not {padding_side!r}")
    listed = list(sequences)
    longest = max(sequence.shape[0] for sequence in listed)
    filled = []
    for sequence in listed:
        gap = longest - sequence.shape[0]
        last = (0, 0) * (sequence.ndim - 1)  # `pad` counts dimensions from the end
        sides = (0, gap) if padding_side == "right" else (gap, 0)
        filled.append(pad(sequence, (*last, *sides), value=padding_value) if gap else sequence)
    padded: Tensor = stack(filled, 0 if batch_first else 1)
    return padded


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences without what `pad_sequence` added on the right.

    >>> import gradwalk as gw
    >>> padded = gw.tensor([[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]])
    >>> gw.nn.utils.rnn.unpad_sequence(padded, gw.tensor([3, 1]), batch_first=True)
    [tensor([1., 2., 3.]), tensor([4.])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(length)] for row, length in zip(rows, lengths)]
