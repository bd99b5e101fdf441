"""The functions and layers of the package einops, for gradwalk's tensors.

Replace `from einops.layers.torch import ...` by `from gradwalk.einops import ...`. Functions of
einops itself know gradwalk's tensors once a module was made, or this module was used. The package
is not installed with gradwalk: `pip install einops`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.tensors.tensor import Tensor

_LAYERS = ("EinMix", "Rearrange", "Reduce")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'gradwalk.einops' has no attribute {name!r}")
    try:
        package = importlib.import_module("einops")
    except ImportError as error:
        raise ImportError(
            f"gradwalk.einops.{name} is a part of the package einops: pip install einops"
        ) from error
    register()
    return _layers()[name] if name in _LAYERS else getattr(package, name)


@functools.cache
def register() -> type:
    """Tell einops of our tensors: it asks every subclass of its `AbstractBackend`, which lives as
    long as something refers to it."""

    class EinopsBackend(importlib.import_module("einops._backends").AbstractBackend):  # type: ignore[misc]
        framework_name = "gradwalk"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, Tensor)

        def from_numpy(self, x: np.ndarray) -> Tensor:
            return gw.from_numpy(x)

        def to_numpy(self, x: Tensor) -> np.ndarray:
            return x.detach().cpu().numpy()

        def arange(self, start: int, stop: int) -> Tensor:
            return gw.arange(start, stop)

        def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
            return x.permute(axes)

        def reduce(self, x: Tensor, operation: str, reduced_axes: Sequence[int]) -> Tensor:
            if operation in ("any", "all", "prod"):  # one dimension at a time, from the last
                for axis in sorted(reduced_axes, reverse=True):
                    x = getattr(x, operation)(dim=axis)
                return x
            return getattr(x, {"min": "amin", "max": "amax"}.get(operation, operation))(
                dim=tuple(reduced_axes)
            )

        def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
            return gw.stack(tensors)

        def add_axis(self, x: Tensor, new_position: int) -> Tensor:
            return x.unsqueeze(new_position)

        def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
            sizes = [-1] * n_axes
            for position, length in pos2len.items():
                x = x.unsqueeze(position)
                sizes[position] = length
            return x.expand(sizes)

        def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
            return x.repeat(*repeats)

        def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
            return gw.cat(tensors, dim=axis)

        def is_float_type(self, x: Tensor) -> bool:
            return x.is_floating_point()

        def einsum(self, pattern: str, *x: Tensor) -> Tensor:
            return gw.einsum(pattern, *x)

    return EinopsBackend


@functools.cache
def _layers() -> dict[str, type]:
    """einops's layers, which it writes once for every library, as our modules."""
    shared = importlib.import_module("einops.layers")
    mixin = importlib.import_module("einops.layers._einmix")._EinmixMixin

    class Rearrange(shared.RearrangeMixin, gw.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, input: Tensor) -> Tensor:
            return self._apply_recipe(input)

    class Reduce(shared.ReduceMixin, gw.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, input: Tensor) -> Tensor:
            return self._apply_recipe(input)

    class EinMix(mixin, gw.nn.Module):  # type: ignore[misc, valid-type]
        def _create_parameters(
            self,
            weight_shape: Sequence[int],
            weight_bound: float,
            bias_shape: Sequence[int] | None,
            bias_bound: float,
        ) -> None:
            def drawn(shape: Sequence[int], bound: float) -> gw.nn.Parameter:
                return gw.nn.Parameter(gw.zeros(shape).uniform_(-bound, bound))

            self.weight = drawn(weight_shape, weight_bound)
            self.bias = None if bias_shape is None else drawn(bias_shape, bias_bound)

        def _create_rearrange_layers(
            self,
            pre_reshape_pattern: str | None,
            pre_reshape_lengths: dict[str, int] | None,
            post_reshape_pattern: str | None,
            post_reshape_lengths: dict[str, int] | None,
        ) -> None:
            def layer(pattern: str | None, lengths: dict[str, int] | None) -> Rearrange | None:
                made: Any = Rearrange
                return None if pattern is None else made(pattern, **(lengths or {}))

            self.pre_rearrange = layer(pre_reshape_pattern, pre_reshape_lengths)
            self.post_rearrange = layer(post_reshape_pattern, post_reshape_lengths)

        def forward(self, input: Tensor) -> Tensor:
            if self.pre_rearrange is not None:
                input = self.pre_rearrange(input)
            out = gw.einsum(self.einsum_pattern, input, self.weight)
            if self.bias is not None:
                out = out + self.bias
            return out if self.post_rearrange is None else self.post_rearrange(out)

    return {layer.__name__: layer for layer in (EinMix, Rearrange, Reduce)}
