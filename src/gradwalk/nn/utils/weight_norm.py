"""Weight normalization: a weight as a direction and a length, both learned."""

from __future__ import annotations

from typing import Any, TypeVar

from gradwalk.engine.hooks import RemovableHandle
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter
from gradwalk.tensors.tensor import Tensor

M = TypeVar("M", bound=Module)


def length(direction: Any, dim: int | None) -> Any:
    """The norm of every slice along `dim`, or of the whole."""
    if dim is None:
        return direction.norm()
    kept = dim % direction.ndim
    return direction.norm(dim=[i for i in range(direction.ndim) if i != kept], keepdim=True)


class _WeightNorm:
    """The hook that recomputes the weight before every forward."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, dim
        self.handle: RemovableHandle | None = None

    def weight(self, module: Module) -> Tensor:
        """direction × length / |direction|."""
        direction = getattr(module, self.name + "_v")
        return direction * (getattr(module, self.name + "_g") / length(direction, self.dim))

    def __call__(self, module: Module, args: Any) -> None:
        setattr(module, self.name, self.weight(module))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Replace a parameter by `name_g`, its length along `dim`, and `name_v`, its direction.

    >>> import gradwalk as gw
    >>> layer = gw.nn.utils.weight_norm(gw.nn.Linear(2, 3))
    >>> {key: value.shape for key, value in layer.state_dict().items()}
    {'bias': (3,), 'weight_g': (3, 1), 'weight_v': (3, 2)}
    """
    if any(hook.name == name for hook in _norms(module)):
        raise RuntimeError(f"'{name}' of {type(module).__name__} has weight_norm already")
    norm = _WeightNorm(name, None if dim == -1 else dim)
    weight = getattr(module, name)
    delattr(module, name)
    module.register_parameter(name + "_g", Parameter(length(weight.detach(), norm.dim)))
    module.register_parameter(name + "_v", Parameter(weight.detach().clone()))
    setattr(module, name, norm.weight(module))
    norm.handle = module.register_forward_pre_hook(norm)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Restore the single parameter, with its present value."""
    for norm in _norms(module):
        if norm.name == name:
            weight = norm.weight(module).detach()
            for part in (name, name + "_g", name + "_v"):
                delattr(module, part)
            module.register_parameter(name, Parameter(weight))
            assert norm.handle is not None
            norm.handle.remove()
            return module
    raise ValueError(f"'{name}' of {type(module).__name__} has no weight_norm")


def _norms(module: Module) -> list[_WeightNorm]:
    entries = module._hooks_of("before")
    return [entry.hook for entry in entries if isinstance(entry.hook, _WeightNorm)]
