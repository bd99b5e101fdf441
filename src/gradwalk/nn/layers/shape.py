"""Layers that change the shape: flatten, pad, resize, rearrange channels."""

from __future__ import annotations

from typing import Any, ClassVar

from gradwalk.nn import functional
from gradwalk.nn.layers.options import Dimensional, OneInput, Options, layer, several
from gradwalk.ops.shape.reshaping import flatten

__all__ = [
    "ChannelShuffle", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d",
    "ConstantPad2d", "ConstantPad3d", "Flatten", "PixelShuffle", "PixelUnshuffle",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "Unflatten", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


@layer(flatten, shown="start_dim end_dim")
class Flatten(OneInput):
    """Merge dimensions into one; by default, all but the first.

    >>> import gradwalk as gw
    >>> gw.nn.Flatten()(gw.zeros(2, 3, 4)).shape
    (2, 12)
    """

    start_dim: int = 1
    end_dim: int = -1


@layer(shown="dim unflattened_size")
class Unflatten(Options):
    """Split one dimension into several.

    >>> import gradwalk as gw
    >>> gw.nn.Unflatten(1, (3, 4))(gw.zeros(2, 12)).shape
    (2, 3, 4)
    """

    dim: int
    unflattened_size: Any

    def _check(self) -> None:
        if not isinstance(self.dim, int):
            raise TypeError(f"named dimensions are not supported: dim is {self.dim!r}, not an int")
        self.unflattened_size = tuple(self.unflattened_size)

    def forward(self, input: Any) -> Any:
        """The input with a dimension split."""
        return input.unflatten(self.dim, self.unflattened_size)


@layer(functional.interpolate)
class Upsample(OneInput):
    """Make maps larger, by a factor or to a size, nearest or (bi)linear.

    >>> import gradwalk as gw
    >>> gw.nn.Upsample(scale_factor=2)(gw.zeros(1, 3, 4, 4)).shape
    (1, 3, 8, 8)
    """

    size: Any = None
    scale_factor: Any = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None

    def _check(self) -> None:
        if isinstance(self.scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in self.scale_factor)
        else:
            self.scale_factor = float(self.scale_factor) if self.scale_factor else None

    def extra_repr(self) -> str:
        """The factor or the size, and the mode."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` with the nearest element."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` by bilinear interpolation with aligned corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


@layer()
class _Pad(Dimensional, Options):
    padding: Any
    _mode: ClassVar[str] = "constant"

    def _check(self) -> None:
        self.padding = several(self.padding, 2 * self.dimensions, "padding")

    def forward(self, input: Any) -> Any:
        """The input with a border."""
        return functional.pad(input, self.padding, mode=self._mode)

    def extra_repr(self) -> str:
        """The padding, the last dimension first."""
        return f"{self.padding}"


@layer(shown="padding value")
class _ConstantPadNd(_Pad):
    value: float

    def forward(self, input: Any) -> Any:
        """The input with a border."""
        return functional.pad(input, self.padding, value=self.value)

    def extra_repr(self) -> str:
        """The padding and its value."""
        return Options.extra_repr(self)


class ConstantPad1d(_ConstantPadNd, dimensions=1):
    """A border of one value around (N, C, L)."""


class ConstantPad2d(_ConstantPadNd, dimensions=2):
    """A border of one value around (N, C, H, W)."""


class ConstantPad3d(_ConstantPadNd, dimensions=3):
    """A border of one value around (N, C, D, H, W)."""


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Zeros around (N, C, L)."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Zeros around (N, C, H, W)."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Zeros around (N, C, D, H, W)."""


class _ReflectionPadNd(_Pad):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd, dimensions=1):
    """The mirror image around (N, C, L), without the edge."""


class ReflectionPad2d(_ReflectionPadNd, dimensions=2):
    """The mirror image around (N, C, H, W), without the edge."""


class ReflectionPad3d(_ReflectionPadNd, dimensions=3):
    """The mirror image, without the edge, around (N, C, D, H, W)."""


class _ReplicationPadNd(_Pad):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd, dimensions=1):
    """The edge repeated around (N, C, L)."""


class ReplicationPad2d(_ReplicationPadNd, dimensions=2):
    """The edge repeated around (N, C, H, W)."""


class ReplicationPad3d(_ReplicationPadNd, dimensions=3):
    """The edge repeated around (N, C, D, H, W)."""


class _CircularPadNd(_Pad):
    _mode = "circular"

    def forward(self, input: Any) -> Any:
        """The border of a sample, or of each sample of a batch."""
        count = self.dimensions
        if input.ndim - count not in (1, 2):
            raise ValueError(
                f"{type(self).__name__} takes {count + 1} or {count + 2} dimensions, "
                f"not shape {tuple(input.shape)}"
            )
        return super().forward(input)


class CircularPad1d(_CircularPadNd, dimensions=1):
    """A circular border of (N, C, L)."""


class CircularPad2d(_CircularPadNd, dimensions=2):
    """A circular border of (N, C, H, W)."""


class CircularPad3d(_CircularPadNd, dimensions=3):
    """A circular border of (N, C, D, H, W)."""


@layer(functional.pixel_shuffle, shown="upscale_factor")
class PixelShuffle(OneInput):
    """Turn every r × r channels into r × r pixels: (..., C r², H, W) to (..., C, H r, W r)."""

    upscale_factor: int


@layer(functional.pixel_unshuffle, shown="downscale_factor")
class PixelUnshuffle(OneInput):
    """Turn every r × r pixels into r × r channels: (..., C, H r, W r) to (..., C r², H, W)."""

    downscale_factor: int


@layer(functional.channel_shuffle, shown="groups")
class ChannelShuffle(OneInput):
    """Interleave the channels of several groups."""

    groups: int
