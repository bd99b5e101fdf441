"""PyTorch's `nn.attention.flex_attention`: attention whose scores and mask a program describes by
functions of one place. All scores are computed: no block is skipped."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from gradwalk.engine.guest_loaders import loaders
from gradwalk.nn.functional.activation import softmax
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.linear.matmul import matmul
from gradwalk.ops.network.softmax import logsumexp
from gradwalk.tensors.creation import arange, ones, tensor

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

ScoreMod = Callable[..., Any]
MaskMod = Callable[..., Any]
_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """What `flex_attention` returns besides its output."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by an `AuxRequest`."""

    lse: Any = None
    max_scores: Any = None


def _over_all(function: Callable[..., Any], sizes: tuple[int, ...], *scores: Any) -> Any:
    """The function of every place (batch, head, query, key), as a tensor of these sizes."""
    vmap = loaders["batching"]().vmap  # few programs use it
    first = (0,) * len(scores)
    for place in reversed(range(4)):
        places = tuple(0 if i == place else None for i in range(4))
        function = vmap(function, in_dims=first + places)
    return function(*scores, *(arange(size) for size in sizes))


def _fitting(block_mask: BlockMask, shape: tuple[int, ...]) -> Any:
    """The mask for scores of this shape: of a longer sequence than theirs, the beginning."""
    mask = block_mask.elements()
    if any(here < asked for here, asked in zip(mask.shape[-2:], shape[-2:], strict=True)):
        raise ValueError(
            f"block_mask was made for {mask.shape[-2]} queries and {mask.shape[-1]} keys, and "
            f"there are {shape[-2]} and {shape[-1]}. Fix: make it with the lengths of this call."
        )
    return mask[..., : shape[-2], : shape[-1]]


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """A mask under which every query attends to every key."""
    return tensor(True)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """A mask that holds where all of these hold."""

    def mask_mod(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = tensor(True)
        for each in mask_mods:
            result = result & each(b, h, q_idx, kv_idx)
        return result

    return mask_mod


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """A mask that holds where one of these holds."""

    def mask_mod(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = tensor(False)
        for each in mask_mods:
            result = result | each(b, h, q_idx, kv_idx)
        return result

    return mask_mod


def create_mask(
    mod_fn: MaskMod | ScoreMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
    device: Any = None,
) -> Any:  # fmt: skip
    """A mask as a boolean tensor of shape (B, H, Q_LEN, KV_LEN)."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    return _over_all(mod_fn, sizes) & ones(sizes, dtype=bool)


class BlockMask:
    """A mask of places, known by its function; `create_block_mask` makes one."""

    def __init__(self, mask_mod: MaskMod, shape: tuple[int, ...], block_size: Any) -> None:
        self.mask_mod = mask_mod
        self.shape = shape
        self.seq_lengths = shape[-2:]
        sizes = (block_size, block_size) if isinstance(block_size, int) else tuple(block_size)
        self.BLOCK_SIZE: tuple[int, int] = sizes
        self._made: Any = None

    def elements(self) -> Any:
        """The mask as a boolean tensor, one entry for each place."""
        if self._made is None:
            self._made = create_mask(self.mask_mod, *self.shape)
        return self._made

    def to_dense(self) -> Any:
        """A 1 for each block in which the mask holds somewhere, and else a 0."""
        rows, columns = (-(-n // size) for n, size in zip(self.seq_lengths, self.BLOCK_SIZE))
        mask = self.elements()
        found = mask.new_zeros(*self.shape[:2], rows * self.BLOCK_SIZE[0], self.seq_lengths[1])
        found[:, :, : self.seq_lengths[0]] = mask
        found = found.reshape(*self.shape[:2], rows, self.BLOCK_SIZE[0], -1).any(3)
        wide = found.new_zeros(*found.shape[:3], columns * self.BLOCK_SIZE[1])
        wide[..., : self.seq_lengths[1]] = found
        return wide.reshape(*found.shape[:3], columns, self.BLOCK_SIZE[1]).any(4).int()

    def sparsity(self) -> float:
        """The percentage of places outside the blocks in which the mask holds somewhere."""
        inside = int(self.to_dense().sum()) * math.prod(self.BLOCK_SIZE)
        return 100 * (1 - inside / math.prod(self.shape))

    def to(self, device: Any) -> BlockMask:
        """The mask itself: it is computed where it is used."""
        return self

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(
    mask_mod: MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE, **options: Any,
) -> BlockMask:  # fmt: skip
    """The mask that a function `mask_mod(b, h, q_idx, kv_idx)` describes; without B or H, it is
    the same for all samples or heads.

    >>> import gradwalk as gw
    >>> from gradwalk.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256).to_dense()[0, 0]
    tensor([[1, 0],
            [1, 1]], dtype=gradwalk.int32)
    """
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), BLOCK_SIZE)


def flex_attention(
    query: Any, key: Any, value: Any, score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
    return_lse: bool = False, kernel_options: Any = None, *, return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """softmax(score_mod(Q Kᵀ × scale)) V, of the keys that the mask names for each query.

    `score_mod(score, b, h, q_idx, kv_idx)` gives another score for a score and its place. A query
    without any key gets zeros. `return_lse` returns the logarithms of the sums of e^score as well.

    >>> import gradwalk as gw
    >>> from gradwalk.nn.attention.flex_attention import flex_attention
    >>> x = gw.eye(2)[None, None]
    >>> flex_attention(x, x, x, lambda s, b, h, q, k: gw.where(q >= k, s, -gw.inf))[0, 0, 0]
    tensor([1., 0.])
    """
    if enable_gqa:
        repeats = query.shape[1] // key.shape[1]
        key, value = (part.repeat_interleave(repeats, dim=1) for part in (key, value))
    elif query.shape[1] != key.shape[1]:
        raise ValueError(
            f"{query.shape[1]} heads of queries and {key.shape[1]} heads of keys. "
            "Fix: pass enable_gqa=True"
        )
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = matmul(query * factor, key.mT)  # (batch, heads, queries, keys)
    if score_mod is not None:
        scores = _over_all(score_mod, tuple(scores.shape), scores)
    if block_mask is not None:
        scores = where(_fitting(block_mask, scores.shape), scores, -math.inf)
    blind = (scores == -math.inf).all(-1, keepdim=True)
    weights = where(blind, 0.0, softmax(where(blind, 0.0, scores), -1))
    out = matmul(weights, value)
    if return_aux is not None:
        lse = logsumexp(scores, dim=-1) if return_aux.lse else None
        highest = scores.amax(-1) if return_aux.max_scores else None
        return out, AuxOutput(lse, highest)
    return (out, logsumexp(scores, dim=-1)) if return_lse else out
