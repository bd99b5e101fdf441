"""Layers that learn the size of their input from the first one they get."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

from gradwalk.nn.layers import convolution, linear, normalization
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import UninitializedBuffer, UninitializedParameter
from gradwalk.random.generator import get_rng_state, set_rng_state

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
    "UninitializedBuffer", "UninitializedParameter",
]  # fmt: skip


class _Lazy(Module):
    """A layer without its first argument. The first call, or a loaded state, tells it; then the
    layer becomes what `_becomes` names, and its parameters stay the same objects.
    """

    _becomes: ClassVar[Any]  # a class
    _axis: ClassVar[int]  # the dimension of an input that has the size
    _sized: ClassVar[dict[str, int]]  # tensors of the state that have it, and in which dimension
    _otherwise: ClassVar[dict[str, Any]]  # defaults that differ from those of the layer
    _given: dict[str, Any]

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__()
        given = type(self).__signature__.bind(*args, **keywords)  # type: ignore[attr-defined]
        self._given = {**self._otherwise, **given.arguments}
        random = get_rng_state()  # the weights are drawn when the size is known
        made = self._becomes(self._groups(), **self._given)
        set_rng_state(random)
        for name, parameter in made._parameters.items():
            waits = None if parameter is None else UninitializedParameter()
            self.register_parameter(name, waits)
        for name, buffer in made._buffers.items():
            sized = buffer is not None and buffer.ndim > 0
            self.register_buffer(name, UninitializedBuffer() if sized else buffer)

    def _groups(self) -> int:
        return self._given.get("groups", 1)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Learn the size, and be called as the layer that it has become."""
        first = args[0] if args else next(iter(keywords.values()))
        self._settle(first.shape[self._axis])
        return self(*args, **keywords)

    def has_uninitialized_params(self) -> bool:
        """Whether it has a parameter or buffer whose size is not known yet."""
        own = (*self._parameters.values(), *self._buffers.values())
        return any(isinstance(t, UninitializedParameter | UninitializedBuffer) for t in own)

    def _settle(self, size: int) -> None:
        """Become the layer for inputs of this size."""
        first: Any = next(self.parameters(), next(self.buffers(), None))
        where = {} if first is None else {"dtype": first.dtype, "device": first.device}
        made = self._becomes(size, **self._given | where)
        for name, parameter in self._parameters.items():
            if isinstance(parameter, UninitializedParameter):
                parameter.materialize(made._parameters[name])
                made._parameters[name] = parameter
        made.training = self.training
        del self.__dict__["_given"]
        self.__setstate__(vars(made))
        self.__class__ = self._becomes

    def settle_for(self, state: Mapping[str, Any], prefix: str) -> None:
        """Become the layer that a state dict is of; its numbers are there, so none are drawn."""
        random = get_rng_state()
        for name, axis in self._sized.items():
            found = state.get(prefix + name)
            if found is not None:
                per_group = axis == 1  # of a convolution's weight
                self._settle(found.shape[axis] * (self._groups() if per_group else 1))
                return set_rng_state(random)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self._given.items())
        return f"{type(self).__name__}({given})"


def _lazy(becomes: type[Module], axis: int, otherwise: Any = (), **sized: int) -> type[Module]:
    """The lazy form of a layer."""
    doc = f"`{becomes.__name__}` that learns its first argument from its first input."
    facts = {"__doc__": doc, "__module__": __name__, "_becomes": becomes, "_axis": axis}
    _, *listed = inspect.signature(becomes).parameters.values()
    others = [p.replace(default=dict(otherwise).get(p.name, p.default)) for p in listed]
    facts |= {"__signature__": inspect.Signature(others), "forward": becomes.forward}
    facts |= {"_sized": sized, "_otherwise": dict(otherwise)}
    return type(f"Lazy{becomes.__name__}", (_Lazy,), facts)


LazyLinear = _lazy(linear.Linear, -1, weight=1)
LazyConv1d = _lazy(convolution.Conv1d, -2, weight=1)
LazyConv2d = _lazy(convolution.Conv2d, -3, weight=1)
LazyConv3d = _lazy(convolution.Conv3d, -4, weight=1)
LazyConvTranspose1d = _lazy(convolution.ConvTranspose1d, -2, weight=0)
LazyConvTranspose2d = _lazy(convolution.ConvTranspose2d, -3, weight=0)
LazyConvTranspose3d = _lazy(convolution.ConvTranspose3d, -4, weight=0)
LazyBatchNorm1d = _lazy(normalization.BatchNorm1d, 1, weight=0, running_mean=0)
LazyBatchNorm2d = _lazy(normalization.BatchNorm2d, 1, weight=0, running_mean=0)
LazyBatchNorm3d = _lazy(normalization.BatchNorm3d, 1, weight=0, running_mean=0)
# PyTorch's lazy norms have weights and running statistics unless they are told otherwise.
_WHOLE = {"affine": True, "track_running_stats": True}
LazyInstanceNorm1d = _lazy(normalization.InstanceNorm1d, -2, _WHOLE, weight=0, running_mean=0)
LazyInstanceNorm2d = _lazy(normalization.InstanceNorm2d, -3, _WHOLE, weight=0, running_mean=0)
LazyInstanceNorm3d = _lazy(normalization.InstanceNorm3d, -4, _WHOLE, weight=0, running_mean=0)
