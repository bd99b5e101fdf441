"""Packed sequences, and recurrent layers that take them: against PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched

CASES = list(itertools.product(("RNN", "LSTM", "GRU"), (False, True), (False, True)))


@batched("kind, bidirectional, in_order", CASES)
def test_a_recurrent_layer_of_packed_sequences(
    kind: str, bidirectional: bool, in_order: bool
) -> None:
    options = dict(num_layers=2, bidirectional=bidirectional, batch_first=True)
    ours = getattr(gw.nn, kind)(3, 4, dtype=gw.float64, **options)
    theirs = getattr(torch.nn, kind)(3, 4, dtype=torch.float64, **options)
    ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
    source = np.random.default_rng(0)
    batch = source.normal(size=(4, 6, 3))
    hidden = source.normal(size=(4 if bidirectional else 2, 4, 4))
    results = []
    for m, layer in ((gw, ours), (torch, theirs)):
        x, h = m.tensor(batch, requires_grad=True), m.tensor(hidden)
        lengths = m.tensor([6, 4, 4, 1] if in_order else [4, 1, 6, 4])
        rnn = m.nn.utils.rnn
        packed = rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=in_order)
        out, last = layer(packed, (h, 2 * h) if kind == "LSTM" else h)
        padded, counts = rnn.pad_packed_sequence(out, batch_first=True, total_length=7)
        states = last if isinstance(last, tuple) else (last,)
        (sum((s**3).sum() for s in states) + (padded**2).sum()).backward()
        gradients = [p.grad for p in layer.parameters()]
        results.append([padded.detach(), counts, x.grad, *gradients, *(s.detach() for s in states)])
    for mine, other in zip(*results):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)


def test_sequences_are_packed_and_unpacked() -> None:
    parts: list[Any] = [[1.0], [2.0, 3.0, 4.0], [5.0, 6.0]]
    packed = {}
    for m in (gw, torch):
        sequences = [m.tensor(part) for part in parts]
        one = m.nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
        packed[m] = [part.tolist() for part in one]
        assert [p.tolist() for p in m.nn.utils.rnn.unpack_sequence(one)] == parts
    assert packed[gw] == packed[torch]
    rnn = gw.nn.utils.rnn
    assert rnn.invert_permutation(gw.tensor([2, 0, 1])).tolist() == [1, 2, 0]


def test_wrong_lengths_are_explained() -> None:
    rnn = gw.nn.utils.rnn
    with pytest.raises(RuntimeError, match="enforce_sorted=False"):
        rnn.pack_padded_sequence(gw.ones(3, 2), [1, 3])
    with pytest.raises(ValueError, match="from 1 to 3"):
        rnn.pack_padded_sequence(gw.ones(3, 2), [4, 0])
    with pytest.raises(ValueError, match="3 lengths for a batch of 2"):
        rnn.pack_padded_sequence(gw.ones(3, 2), [3, 2, 1])
    packed = rnn.pack_padded_sequence(gw.ones(3, 2), [3, 2])
    with pytest.raises(ValueError, match="below the longest"):
        rnn.pad_packed_sequence(packed, total_length=2)
    for empty in (gw.ones(0, 0), gw.ones(0, 2)):
        with pytest.raises(RuntimeError, match="without elements"):
            rnn.pack_padded_sequence(empty, [1] * empty.shape[1])


def test_the_dtype_of_a_packed_sequence() -> None:
    packed = gw.nn.utils.rnn.pack_sequence([gw.ones(2), gw.ones(1)])
    assert packed.to("cpu") is packed and packed.cpu() is packed and packed.float() is packed
    for name in ["double", "half", "long", "int", "short", "char", "byte"]:
        changed = getattr(packed, name)()
        assert changed.data.dtype == getattr(packed.data, name)().dtype
        assert changed.batch_sizes is packed.batch_sizes
