"""Layers that change the shape: flatten, pad, resize."""

from __future__ import annotations

from typing import Any

from gradwalk.nn import functional
from gradwalk.nn.layers._sizes import several
from gradwalk.nn.module import Module


class Flatten(Module):
    """Merge dimensions into one; all but the first, if nothing else is said.

    >>> import gradwalk as gw
    >>> gw.nn.Flatten()(gw.zeros(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Any:
        """The input with dimensions merged."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """From where to where."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split one dimension into several.

    >>> import gradwalk as gw
    >>> gw.nn.Unflatten(1, (3, 4))(gw.zeros(2, 12)).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"named dimensions do not exist here: dim is a number, not {dim!r}")
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Any) -> Any:
        """The input with a dimension split."""
        dim = self.dim % input.ndim
        shape = tuple(input.shape)
        return input.reshape(*shape[:dim], *self.unflattened_size, *shape[dim + 1 :])

    def extra_repr(self) -> str:
        """Which dimension, into what."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Upsample(Module):
    """Make maps larger, by a factor or to a size, nearest or (bi)linear.

    >>> import gradwalk as gw
    >>> gw.nn.Upsample(scale_factor=2)(gw.zeros(1, 3, 4, 4)).shape
    (1, 3, 8, 8)
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Any) -> Any:
        """The input, larger."""
        options: dict[str, Any] = {}
        if self.recompute_scale_factor is not None:
            options["recompute_scale_factor"] = self.recompute_scale_factor
        return functional.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, **options
        )

    def extra_repr(self) -> str:
        """The factor or the size, and how."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` to the nearest element."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` by a line between elements, corners on corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class _Pad(Module):
    dimensions = 1
    mode = "constant"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = several(padding, 2 * self.dimensions, "padding")

    def forward(self, input: Any) -> Any:
        """The input with a border."""
        return functional.pad(input, self.padding, mode=self.mode)

    def extra_repr(self) -> str:
        """Elements added at each end, the last dimension first."""
        return f"{self.padding}"


class ConstantPad1d(_Pad):
    """A border of one value around (N, C, L)."""

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        """The input with a border."""
        return functional.pad(input, self.padding, value=self.value)

    def extra_repr(self) -> str:
        """Elements added at each end, and what they hold."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad2d(ConstantPad1d):
    """A border of one value around (N, C, H, W)."""

    dimensions = 2


class ConstantPad3d(ConstantPad1d):
    """A border of one value around (N, C, D, H, W)."""

    dimensions = 3


class ZeroPad1d(ConstantPad1d):
    """Zeros around (N, C, L)."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Elements added at each end."""
        return f"{self.padding}"


class ZeroPad2d(ZeroPad1d):
    """Zeros around (N, C, H, W)."""

    dimensions = 2


class ZeroPad3d(ZeroPad1d):
    """Zeros around (N, C, D, H, W)."""

    dimensions = 3


class ReflectionPad1d(_Pad):
    """The mirror image around (N, C, L), without the edge."""

    mode = "reflect"


class ReflectionPad2d(ReflectionPad1d):
    """The mirror image around (N, C, H, W), without the edge."""

    dimensions = 2


class ReflectionPad3d(ReflectionPad1d):
    """The mirror image, without the edge, around (N, C, D, H, W)."""

    dimensions = 3


class ReplicationPad1d(_Pad):
    """The edge repeated around (N, C, L)."""

    mode = "replicate"


class ReplicationPad2d(ReplicationPad1d):
    """The edge repeated around (N, C, H, W)."""

    dimensions = 2


class ReplicationPad3d(ReplicationPad1d):
    """The edge repeated around (N, C, D, H, W)."""

    dimensions = 3


class CircularPad1d(_Pad):
    """The other end around (N, C, L)."""

    mode = "circular"


class CircularPad2d(CircularPad1d):
    """The other end around (N, C, H, W)."""

    dimensions = 2


class CircularPad3d(CircularPad1d):
    """The other end around (N, C, D, H, W)."""

    dimensions = 3
