"""Spectral normalization: a weight divided by its largest singular value.

Power iteration follows that value: every forward in training turns two vectors, which are buffers,
a little further towards its singular vectors.
"""

from __future__ import annotations

from typing import Any, TypeVar

from gradwalk.engine.hooks import RemovableHandle
from gradwalk.engine.modes import no_grad
from gradwalk.nn.functional.normalization import normalize
from gradwalk.nn.layers.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter
from gradwalk.random.sampling import randn
from gradwalk.tensors.tensor import Tensor

M = TypeVar("M", bound=Module)


def as_matrix(weight: Any, dim: int) -> Any:
    """The weight with `dim` as rows and all others as columns."""
    order = (dim, *(i for i in range(weight.ndim) if i != dim))
    return weight.permute(*order).flatten(1)


def unit_vectors(weight: Any, dim: int, eps: float) -> tuple[Tensor, Tensor]:
    """Random vectors that power iteration begins with: of rows, and of columns."""
    sizes = as_matrix(weight.detach(), dim).shape
    u, v = (normalize(randn(n, dtype=weight.dtype), dim=0, eps=eps) for n in sizes)
    return u.to(weight.device), v.to(weight.device)


def iterate(matrix: Any, back: Any, u: Any, v: Any, times: int, eps: float) -> None:
    """Power iteration, in place: first v, by the matrix `back`, then u."""
    with no_grad():
        for _ in range(times):
            v.copy_(normalize(back @ u, dim=0, eps=eps))
            u.copy_(normalize(matrix @ v, dim=0, eps=eps))


def normalized(weight: Any, dim: int, u: Any, v: Any) -> Any:
    """The weight divided by uᵀ W v.

    A later forward turns u and v in place, so the graph has copies.
    """
    return weight / (u.clone() @ (as_matrix(weight, dim) @ v.clone()))


def usual_dim(module: Module) -> int:
    """The dimension of outputs: 1 of a transposed convolution, 0 of others."""
    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)))


class _SpectralNorm:
    """The hook that recomputes the weight before every forward."""

    def __init__(self, name: str, times: int, dim: int, eps: float) -> None:
        self.name, self.times, self.dim, self.eps = name, times, dim, eps
        self.handle: RemovableHandle | None = None

    def weight(self, module: Module, times: int) -> Tensor:
        """The normalized weight, after some power iteration."""
        original, u, v = (getattr(module, self.name + part) for part in ("_orig", "_u", "_v"))
        matrix = as_matrix(original.detach(), self.dim)
        iterate(matrix, matrix.mT, u, v, times, self.eps)
        made: Tensor = normalized(original, self.dim, u, v)
        return made

    def __call__(self, module: Module, args: Any) -> None:
        setattr(module, self.name, self.weight(module, self.times if module.training else 0))


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divide a parameter by its largest singular value before every forward.

    It becomes `name_orig`, beside the buffers `name_u` and `name_v`.

    >>> import gradwalk as gw
    >>> layer = gw.nn.utils.spectral_norm(gw.nn.Linear(2, 3))
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    if n_power_iterations < 1:
        raise ValueError(f"n_power_iterations must be at least 1, not {n_power_iterations}")
    if any(hook.name == name for hook in _norms(module)):
        raise RuntimeError(f"'{name}' of {type(module).__name__} has spectral_norm already")
    axis = usual_dim(module) if dim is None else dim
    norm = _SpectralNorm(name, n_power_iterations, axis, eps)
    weight = getattr(module, name)
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.detach())
    u, v = unit_vectors(weight, axis, eps)
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    norm.handle = module.register_forward_pre_hook(norm)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Restore the single parameter, with its present value."""
    for norm in _norms(module):
        if norm.name == name:
            weight = norm.weight(module, 0).detach()
            for part in ("", "_orig", "_u", "_v"):
                delattr(module, name + part)
            module.register_parameter(name, Parameter(weight))
            assert norm.handle is not None
            norm.handle.remove()
            return module
    raise ValueError(f"'{name}' of {type(module).__name__} has no spectral_norm")


def _norms(module: Module) -> list[_SpectralNorm]:
    entries = module._hooks_of("before")
    return [entry.hook for entry in entries if isinstance(entry.hook, _SpectralNorm)]
