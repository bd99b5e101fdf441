"""`nn.attention.flex_attention` computes what PyTorch's does."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch as pytorch
from torch.nn.attention import flex_attention as theirs

import gradwalk as gw
from gradwalk.nn.attention import flex_attention as ours

RNG = np.random.default_rng(0)
QUERY, KEY, VALUE = (RNG.normal(size=(2, 4, n, 3)) for n in (10, 12, 12))
BIAS = RNG.normal(size=(22, 4))
DOCUMENTS = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3])


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


# Functions of the library that give the function of one place.
SCORES: dict[str, Any] = {
    "none": lambda torch: None,
    "table": lambda torch: lambda s, b, h, q, k: s + torch.tensor(BIAS)[q - k + 11, h],
    "slope": lambda torch: lambda s, b, h, q, k: s - (h + 1) * (q - k).abs() * 0.1 + b,
    "soft cap": lambda torch: lambda s, b, h, q, k: 2 * torch.tanh(s / 2),
    "causal": lambda torch: lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")),
}
MASKS: dict[str, Any] = {
    "causal": lambda torch, flex: causal,
    "documents": lambda torch, flex: (
        lambda b, h, q, k: torch.tensor(DOCUMENTS)[q] == torch.tensor(DOCUMENTS)[k]
    ),
    "both": lambda torch, flex: flex.and_masks(causal, lambda b, h, q, k: q - k < 3),
    "either": lambda torch, flex: flex.or_masks(causal, lambda b, h, q, k: k < 2),
    "blind": lambda torch, flex: lambda b, h, q, k: (q > 2) & (k > 0),
}


def both_libraries(compute: Any) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of uncompiled calls
        return compute(pytorch, theirs), compute(gw, ours)


@pytest.mark.parametrize("name", SCORES)
def test_scores(name: str) -> None:
    def compute(torch: Any, flex: Any) -> Any:
        tensors = [torch.tensor(x) for x in (QUERY, KEY, VALUE)]
        out, lse = flex.flex_attention(*tensors, SCORES[name](torch), scale=0.5, return_lse=True)
        return out.numpy(), lse.numpy()

    expected, found = both_libraries(compute)
    for each in zip(found, expected, strict=True):
        np.testing.assert_allclose(*each, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    def compute(torch: Any, flex: Any) -> Any:
        tensors = [torch.tensor(x) for x in (QUERY, KEY, VALUE)]
        mask = MASKS[name](torch, flex)
        blocks = flex.create_block_mask(mask, None, None, 10, 12, device="cpu", BLOCK_SIZE=4)
        out = flex.flex_attention(*tensors, block_mask=blocks).numpy()
        dense = flex.create_mask(mask, 2, None, 10, 12, device="cpu")
        return out, (blocks.to_dense().tolist(), blocks.sparsity(), tuple(blocks.shape)), dense

    expected, found = both_libraries(compute)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12, atol=1e-12)
    assert found[1] == expected[1] and found[2].tolist() == expected[2].tolist()


def test_fewer_heads_of_keys() -> None:
    def compute(torch: Any, flex: Any) -> Any:
        query, key, value = (torch.tensor(x) for x in (QUERY, KEY[:, :2], VALUE[:, :2]))
        return flex.flex_attention(query, key, value, enable_gqa=True).numpy()

    expected, found = both_libraries(compute)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="enable_gqa=True"):
        ours.flex_attention(gw.ones(1, 4, 2, 2), gw.ones(1, 2, 2, 2), gw.ones(1, 2, 2, 2))


def test_gradients_are_those_of_plain_attention() -> None:
    found = []
    for masked in (False, True):
        tensors = [gw.tensor(x, requires_grad=True) for x in (QUERY, KEY[:, :, :10], VALUE)]
        tensors[2] = gw.tensor(VALUE[:, :, :10], requires_grad=True)
        if masked:
            blocks = ours.create_block_mask(causal, None, None, 10, 10)
            out = ours.flex_attention(*tensors, block_mask=blocks)
        else:
            attention = gw.nn.functional.scaled_dot_product_attention
            out = attention(*tensors, is_causal=True)
        (out * gw.arange(out.numel()).reshape(out.shape)).sum().backward()
        found.append([t.grad.numpy() for t in tensors])
    for each in zip(*found, strict=True):
        np.testing.assert_allclose(*each, rtol=1e-9, atol=1e-9)


def test_a_mask_of_another_length_is_refused() -> None:
    blocks = ours.create_block_mask(causal, None, None, 4, 4)
    x = gw.ones(1, 1, 5, 2)
    with pytest.raises(ValueError, match="there are 5 and 5"):
        ours.flex_attention(x, x, x, block_mask=blocks)
    assert "sparsity" in repr(blocks) and blocks.to("cpu") is blocks
