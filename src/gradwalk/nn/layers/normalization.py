"""Layers that normalize to mean 0 and variance 1."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, InitVar
from typing import Any

import numpy as np

from gradwalk.nn import functional, init
from gradwalk.nn.constructors import declared, on_device
from gradwalk.nn.layers.options import Dimensional, OneInput, described, layer, store
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter, empty_parameter
from gradwalk.tensors import creation
from gradwalk.tensors.tensor import Tensor

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm", "SyncBatchNorm",
]  # fmt: skip


class _Affine(Module):
    """A layer that may scale and shift its result by a weight and a bias."""

    weight: Parameter | None
    bias: Parameter | None

    def _new_parameters(self, shape: Any, weight: bool, bias: bool, dtype: Any) -> None:
        self.register_parameter("weight", empty_parameter(shape, dtype, weight))
        self.register_parameter("bias", empty_parameter(shape, dtype, weight and bias))

    def reset_parameters(self) -> None:
        """Set the weight to one and the bias to zero."""
        init.fill(init.ones_, self.weight)
        init.fill(init.zeros_, self.bias)


@declared
class _NormOptions(Module):
    num_features: int
    eps: float = 1e-5
    momentum: float | None = 0.1
    affine: bool = True
    track_running_stats: bool = True
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None
    _: KW_ONLY
    bias: InitVar[bool] = True  # the attribute is a parameter


class _TrackedNorm(_Affine, Dimensional, _NormOptions):
    """What batch and instance norm share: weights per channel and running statistics."""

    _version = 2  # the first did not count batches

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        key = prefix + "num_batches_tracked"
        count = self.num_batches_tracked
        if count is not None and (local_metadata.get("version") or 1) < 2:
            state_dict.setdefault(key, count)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _construct(self, *, device: Any, dtype: Any, bias: bool, **options: Any) -> None:
        store(self, options)
        self._new_parameters(self.num_features, self.affine, bias, dtype)
        mean = variance = count = None
        if self.track_running_stats:
            mean = creation.zeros(self.num_features, dtype=dtype)
            variance = creation.ones(self.num_features, dtype=dtype)
            count = creation.tensor(0, dtype=np.int64)
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", variance)
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running statistics."""
        if self.running_mean is not None and self.running_var is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set the weight to one, the bias to zero, and reset the running statistics."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check(self, x: Any, *ranks: int) -> None:
        if x.ndim not in ranks:
            raise ValueError(
                f"{type(self).__name__} takes {' or '.join(map(str, ranks))} dimensions, got shape "
                f"{tuple(x.shape)}"
            )

    def extra_repr(self) -> str:
        """The size, and the options."""
        options = "eps", "momentum", "affine", "bias", "track_running_stats"
        return f"{self.num_features}, {described(self, *options)}"


class _BatchNorm(_TrackedNorm):
    def _ranks(self, input: Any) -> list[int]:
        """The numbers of dimensions that it takes."""
        return [2, 3] if self.dimensions == 1 else [self.dimensions + 2]

    def forward(self, input: Any) -> Any:
        """The normalized input; in training, the running statistics move towards the batch's."""
        self._check(input, *self._ranks(input))
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        count = self.num_batches_tracked
        if self.training and self.track_running_stats and count is not None:
            count.add_(1)
            if self.momentum is None:  # the plain mean of all batches
                momentum = 1.0 / count.double()
        tracked = not self.training or self.track_running_stats
        return functional.batch_norm(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            self.training or (self.running_mean is None and self.running_var is None),
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm, dimensions=1):
    r"""$y = \gamma \frac{x - \mathrm{E}[x]}{\sqrt{\mathrm{Var}[x] + \epsilon}} + \beta$.

    Per channel of (N, C) or (N, C, L). Statistics are those of the batch in training, and
    running ones in evaluation.

    >>> import gradwalk as gw
    >>> gw.nn.BatchNorm1d(3)(gw.randn(8, 3)).shape
    (8, 3)
    """


class BatchNorm2d(_BatchNorm, dimensions=2):
    """`BatchNorm1d` over (N, C, H, W).

    >>> import gradwalk as gw
    >>> gw.nn.BatchNorm2d(3)(gw.randn(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """


class BatchNorm3d(_BatchNorm, dimensions=3):
    """`BatchNorm1d` over (N, C, D, H, W)."""


class SyncBatchNorm(_BatchNorm):
    """Batch norm over all devices of a mesh, for any number of dimensions.

    Every batch norm is: a batch that is divided over devices is one tensor here.

    >>> import gradwalk as gw
    >>> gw.nn.SyncBatchNorm.convert_sync_batchnorm(gw.nn.Sequential(gw.nn.BatchNorm2d(3)))[0]
    SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        if process_group is not None:
            raise NotImplementedError(
                "SyncBatchNorm: there are no process groups here. Fix: leave process_group out."
            )
        options = eps, momentum, affine, track_running_stats, device, dtype
        super().__init__(num_features, *options, bias=bias)

    def _ranks(self, input: Any) -> list[int]:
        return [max(2, input.ndim)]

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replace every batch norm in a module, keeping its parameters and statistics."""
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            options = module.eps, module.momentum, module.affine, module.track_running_stats
            made = cls(module.num_features, *options, process_group, bias=module.bias is not None)
            made.training = module.training
            made._parameters, made._buffers = module._parameters, module._buffers
            return made
        for name, inner in module.named_children():
            setattr(module, name, cls.convert_sync_batchnorm(inner, process_group))
        return module


@declared
class _InstanceNorm(_TrackedNorm):
    affine: bool = False
    track_running_stats: bool = False

    def forward(self, input: Any) -> Any:
        """The normalized input."""
        self._check(input, self.dimensions + 1, self.dimensions + 2)
        batched = input.ndim == self.dimensions + 2
        channels = input.shape[1 if batched else 0]
        if channels != self.num_features:
            told = f"{channels} channels given to {self!r}"
            if self.affine or self.track_running_stats:
                raise ValueError(told)
            warnings.warn(f"{told}, which has no weight for them", stacklevel=2)
        out = functional.instance_norm(
            input if batched else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out if batched else out.squeeze(0)


class InstanceNorm1d(_InstanceNorm, dimensions=1):
    """Every channel of every sample of (N, C, L) to mean 0 and variance 1."""


class InstanceNorm2d(_InstanceNorm, dimensions=2):
    """Every channel of every sample of (N, C, H, W) to mean 0 and variance 1."""


class InstanceNorm3d(_InstanceNorm, dimensions=3):
    """Every channel of every sample of (N, C, D, H, W) to mean 0 and variance 1."""


class LayerNorm(_Affine):
    r"""$y = \gamma \frac{x - \mathrm{E}[x]}{\sqrt{\mathrm{Var}[x] + \epsilon}} + \beta$.

    Over the last dimensions, each position by itself.

    >>> import gradwalk as gw
    >>> gw.nn.LayerNorm(3)(gw.tensor([[1.0, 2.0, 3.0]]))
    tensor([[-1.2247,  0.0000,  1.2247]], grad_fn=<...>)
    """

    @on_device
    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._new_parameters(self.normalized_shape, elementwise_affine, bias, dtype)
        self.reset_parameters()

    def forward(self, input: Any) -> Any:
        """The normalized input."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The shape, and the options."""
        options = described(self, "eps", "elementwise_affine", "bias")
        return f"{self.normalized_shape}, {options}"


@declared
class RMSNorm(Module):
    r"""$y = \gamma\, x / \sqrt{\mathrm{mean}(x^2) + \epsilon}$ over the last dimensions."""

    normalized_shape: Any
    eps: float | None = None
    elementwise_affine: bool = True
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None

    def _construct(self, *, device: Any, dtype: Any, **options: Any) -> None:
        store(self, options)
        self.normalized_shape = shape = _as_shape(self.normalized_shape)
        self.weight: Parameter | None
        self.register_parameter("weight", empty_parameter(shape, dtype, self.elementwise_affine))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to one."""
        init.fill(init.ones_, self.weight)

    def forward(self, x: Any) -> Any:
        """The normalized input."""
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The shape, and the options."""
        return f"{self.normalized_shape}, {described(self, 'eps', 'elementwise_affine')}"


class GroupNorm(_Affine):
    """Groups of channels to mean 0 and variance 1, each sample by itself; then γ, β per channel."""

    @on_device
    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"{num_channels} channels cannot be split into {num_groups} groups")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._new_parameters(num_channels, affine, bias, dtype)
        self.reset_parameters()

    def forward(self, input: Any) -> Any:
        """The normalized input."""
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The sizes, and the options."""
        options = described(self, "eps", "affine", "bias")
        return f"{self.num_groups}, {self.num_channels}, {options}"


@layer(functional.local_response_norm, shown="alpha beta k")
class LocalResponseNorm(OneInput):
    r"""$x_c \left(k + \frac{\alpha}{n} \sum_{c'} x_{c'}^2\right)^{-\beta}$ over $n$ channels."""

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def extra_repr(self) -> str:
        """The size and the options."""
        return f"{self.size}, {super().extra_repr()}"


def _as_shape(sizes: Any) -> tuple[int, ...]:
    return (int(sizes),) if isinstance(sizes, (int, np.integer)) else tuple(sizes)
