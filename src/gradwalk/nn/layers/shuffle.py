"""Layers that turn channels into pixels and back."""

from __future__ import annotations

from typing import Any

from gradwalk.nn import functional
from gradwalk.nn.module import Module


class PixelShuffle(Module):
    """Every r × r channels as r × r pixels: an image r times as large."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Any:
        """(..., C r², H, W) as (..., C, H r, W r)."""
        return functional.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """How many times as large."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Every r × r pixels as r × r channels."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Any:
        """(..., C, H r, W r) as (..., C r², H, W)."""
        return functional.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """How many times as small."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channels taken by turns from several groups."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Any:
        """The input with its channels in another order."""
        return functional.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """How many groups."""
        return f"groups={self.groups}"
