"""Sequences of different lengths in one tensor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from gradwalk.ops.shape.reshaping import pad, stack
from gradwalk.tensors.creation import as_tensor
from gradwalk.tensors.tensor import Tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence(NamedTuple):
    """Sequences of different lengths, one time after the other, without padding.

    `batch_sizes` says how many sequences reach each time; `sorted_indices` is their order by
    length, if it is not the order in the batch. Recurrent layers take and return it.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **keywords: Any) -> PackedSequence:
        """The same with the data on another device or in another dtype; itself if it is so."""
        return self._with(self.data.to(*args, **keywords))

    def _with(self, data: Tensor) -> PackedSequence:
        return self if data is self.data else self._replace(data=data)

    def cpu(self) -> PackedSequence:
        """On the CPU."""
        return self.to("cpu")

    def cuda(self, *args: Any) -> PackedSequence:
        """On a GPU."""
        return self._with(self.data.cuda(*args))

    def pin_memory(self) -> PackedSequence:
        """With the data in memory from which a device copies faster."""
        return self._with(self.data.pin_memory())

    def is_pinned(self) -> bool:
        """Whether the data is in such memory."""
        return self.data.is_pinned()

    def double(self) -> PackedSequence:
        """With data in float64."""
        return self._with(self.data.double())

    def float(self) -> PackedSequence:
        """With data in float32."""
        return self._with(self.data.float())

    def half(self) -> PackedSequence:
        """With data in float16."""
        return self._with(self.data.half())

    def long(self) -> PackedSequence:
        """With data in int64."""
        return self._with(self.data.long())

    def int(self) -> PackedSequence:
        """With data in int32."""
        return self._with(self.data.int())

    def short(self) -> PackedSequence:
        """With data in int16."""
        return self._with(self.data.short())

    def char(self) -> PackedSequence:
        """With data in int8."""
        return self._with(self.data.char())

    def byte(self) -> PackedSequence:
        """With data in uint8."""
        return self._with(self.data.byte())

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another."""
    return None if permutation is None else permutation.argsort()


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch of sequences: (time, batch, ...), or batch first.

    >>> import gradwalk as gw
    >>> padded = gw.tensor([[1.0, 2.0], [3.0, 0.0]])
    >>> packed = gw.nn.utils.rnn.pack_padded_sequence(padded, [2, 1], batch_first=True)
    >>> packed.data, packed.batch_sizes
    (tensor([1., 3., 2.]), tensor([2, 1]))
    """
    numbers = np.array([int(n) for n in lengths])
    rows = input if batch_first else input.transpose(0, 1)
    if not (rows.shape[0] and rows.shape[1]):
        raise RuntimeError(f"cannot pack sequences without elements, of shape {tuple(input.shape)}")
    if len(numbers) != rows.shape[0]:
        raise ValueError(f"{len(numbers)} lengths for a batch of {rows.shape[0]} sequences")
    if len(numbers) and (numbers.min() < 1 or numbers.max() > rows.shape[1]):
        raise ValueError(f"lengths are from 1 to {rows.shape[1]}, not {numbers.tolist()}")
    order = None
    if not enforce_sorted:
        order = np.argsort(-numbers, kind="stable")
        numbers = numbers[order]
    elif (numbers[1:] > numbers[:-1]).any():
        raise RuntimeError(
            f"lengths {numbers.tolist()} are not sorted, the longest first. "
            "Fix: pass enforce_sorted=False."
        )
    sizes = (numbers > np.arange(numbers.max(initial=0))[:, None]).sum(1)
    of = [np.arange(size) for size in sizes]  # the sequences that reach each time
    times = np.repeat(np.arange(len(sizes)), sizes)
    which = np.concatenate(of) if of else np.zeros(0, int)
    data = rows[which if order is None else order[which], times]
    if order is None:
        return PackedSequence(data, as_tensor(sizes))
    return PackedSequence(data, as_tensor(sizes), as_tensor(order), as_tensor(np.argsort(order)))


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded batch and the lengths: what `pack_padded_sequence` was given."""
    rows, lengths = _unpacked(sequence)
    longest = max(lengths) if total_length is None else total_length
    if total_length is not None and total_length < max(lengths):
        raise ValueError(f"total_length {total_length} is below the longest, {max(lengths)}")
    padded = pad_sequence(rows, batch_first, padding_value)
    gap = longest - max(lengths)
    if gap:
        time_last = (0, 0) * (padded.ndim - 1 - batch_first)
        padded = pad(padded, (*time_last, 0, gap), value=padding_value)
    return padded, as_tensor(np.array(lengths))


def pack_sequence(sequences: Iterable[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences.

    >>> import gradwalk as gw
    >>> gw.nn.utils.rnn.pack_sequence([gw.tensor([1.0, 2.0]), gw.tensor([3.0])]).data
    tensor([1., 3., 2.])
    """
    listed = list(sequences)
    lengths = [sequence.shape[0] for sequence in listed]
    return pack_padded_sequence(pad_sequence(listed, True), lengths, True, enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The list that `pack_sequence` was given."""
    return _unpacked(packed_sequences)[0]


def _unpacked(packed: PackedSequence) -> tuple[list[Tensor], list[int]]:
    """The sequences in the order of the batch, and their lengths."""
    sizes = packed.batch_sizes.numpy()
    starts = np.cumsum(sizes) - sizes
    rows, lengths = [], []
    order = range(int(sizes[0])) if packed.unsorted_indices is None else packed.unsorted_indices
    for number in map(int, order):
        length = int((sizes > number).sum())
        rows.append(packed.data[starts[:length] + number])
        lengths.append(length)
    return rows, lengths


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
