"""Rearranging channels and pixels."""

from __future__ import annotations

from typing import Any

from gradwalk.ops.shape.reshaping import apart, permute, reshape

__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Turn every r × r channels into r × r pixels: (..., C r², H, W) to (..., C, H r, W r).

    >>> import gradwalk as gw
    >>> gw.nn.functional.pixel_shuffle(gw.zeros(1, 8, 3, 3), 2).shape
    (1, 2, 6, 6)
    """
    r = upscale_factor
    *batch, channels, height, width = _image("pixel_shuffle", input)
    if r <= 0 or channels % (r * r):
        raise ValueError(f"pixel_shuffle: {channels} channels are not a multiple of {r} × {r}")
    n = len(batch)
    x = reshape(input, shape=(*batch, channels // (r * r), r, r, height, width))
    x = permute(x, axes=(*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return apart(reshape(x, shape=(*batch, channels // (r * r), height * r, width * r)), input)


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """The inverse of `pixel_shuffle`: (..., C, H r, W r) to (..., C r², H, W)."""
    r = downscale_factor
    *batch, channels, height, width = _image("pixel_unshuffle", input)
    if r <= 0 or height % r or width % r:
        raise ValueError(f"pixel_unshuffle: {height} × {width} is not a multiple of {r} × {r}")
    n = len(batch)
    x = reshape(input, shape=(*batch, channels, height // r, r, width // r, r))
    x = permute(x, axes=(*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return apart(reshape(x, shape=(*batch, channels * r * r, height // r, width // r)), input)


def channel_shuffle(input: Any, groups: int) -> Any:
    """Interleave the channels of `groups` groups."""
    batch, channels, *rest = input.shape
    if groups <= 0 or channels % groups:
        raise ValueError(f"channel_shuffle: {channels} channels cannot be cut into {groups} groups")
    x = reshape(input, shape=(batch, groups, channels // groups, *rest))
    x = permute(x, axes=(0, 2, 1, *range(3, x.ndim)))
    return apart(reshape(x, shape=(batch, channels, *rest)), input)


def _image(name: str, x: Any) -> tuple[int, ...]:
    if x.ndim < 3:
        raise ValueError(f"{name} takes (..., channels, height, width), not {tuple(x.shape)}")
    return tuple(x.shape)
