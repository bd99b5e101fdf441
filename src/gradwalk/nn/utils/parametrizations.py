"""Parametrizations under PyTorch's names: `weight_norm`, `spectral_norm`, `orthogonal`."""

from __future__ import annotations

from typing import Any, TypeVar

from gradwalk.nn.functional.normalization import normalize
from gradwalk.nn.module import Module
from gradwalk.nn.utils.parametrize import register_parametrization
from gradwalk.nn.utils.spectral_norm import (
    as_matrix,
    iterate,
    normalized,
    unit_vectors,
    usual_dim,
)
from gradwalk.nn.utils.weight_norm import length
from gradwalk.ops.linear.matrices import qr, solve
from gradwalk.ops.linear.reflections import geqrf, householder_product
from gradwalk.ops.linear.spectra import matrix_exp
from gradwalk.ops.shape.reshaping import cat
from gradwalk.random.sampling import randn
from gradwalk.tensors.creation import eye, zeros_like

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


class _WeightNorm(Module):
    """A weight from its length along `dim` and its direction."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = None if dim == -1 else dim

    def forward(self, g: Any, v: Any) -> Any:
        """g v / |v|."""
        return v * (g / length(v, self.dim))

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        """The length and the direction of a weight."""
        return length(weight, self.dim), weight


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Make a weight of its length along `dim` (`original0`) and its direction (`original1`).

    >>> import gradwalk as gw
    >>> layer = gw.nn.utils.parametrizations.weight_norm(gw.nn.Linear(2, 3))
    >>> [key for key in layer.state_dict() if "weight" in key]
    ['parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    register_parametrization(module, name, _WeightNorm(dim))

    def read_older_names(_: Any, state: dict[str, Any], prefix: str, *__: Any) -> None:
        """Let files of the older `nn.utils.weight_norm` fit."""
        older = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if all(key in state for key in older):
            for number, key in enumerate(older):
                state[f"{prefix}parametrizations.{name}.original{number}"] = state.pop(key)

    module.register_load_state_dict_pre_hook(read_older_names)
    return module


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which power iteration follows."""

    def __init__(self, weight: Any, times: int, dim: int, eps: float) -> None:
        super().__init__()
        self.n_power_iterations, self.dim, self.eps = times, dim, eps
        if weight.ndim > 1:
            u, v = unit_vectors(weight, dim, eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)
            self._iterate(weight, 15)

    def _iterate(self, weight: Any, times: int) -> None:
        """Power iteration, first of u."""
        matrix = as_matrix(weight.detach(), self.dim)
        iterate(matrix.mH, matrix, self._v, self._u, times, self.eps)

    def forward(self, weight: Any) -> Any:
        """W / uᴴ W v."""
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        if self.training:
            self._iterate(weight, self.n_power_iterations)
        return normalized(weight, self.dim, self._u.conj(), self._v)

    def right_inverse(self, value: Any) -> Any:
        """The value itself: it is divided again."""
        return value


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divide a weight by its largest singular value.

    >>> import gradwalk as gw
    >>> layer = gw.nn.utils.parametrizations.spectral_norm(gw.nn.Linear(20, 10))
    >>> round(float(gw.linalg.matrix_norm(layer.weight.detach(), 2)), 1)
    1.0
    """
    if n_power_iterations < 1:
        raise ValueError(f"n_power_iterations must be at least 1, not {n_power_iterations}")
    axis = usual_dim(module) if dim is None else dim
    weight = getattr(module, name)
    made = _SpectralNorm(weight, n_power_iterations, axis, eps)
    register_parametrization(module, name, made)
    return module


def _reflections(x: Any) -> Any:
    """A product of reflections, one for each column; the diagonal has their signs."""
    vectors = x.tril(-1)
    factors = 2 / (1 + vectors.square().sum(-2))
    signs = x.detach().diagonal(dim1=-2, dim2=-1).int().to(x.dtype)
    return householder_product(vectors, factors) * signs.unsqueeze(-2)


def _cayley(skew: Any) -> Any:
    one = eye(skew.shape[-1], dtype=skew.dtype, device=skew.device)
    return solve(one - skew / 2, one + skew / 2)


_OF_SKEW = {"matrix_exp": matrix_exp, "cayley": _cayley}  # maps of a skew-symmetric matrix
_MAPS = (*_OF_SKEW, "householder")


class _Orthogonal(Module):
    """Matrices with orthonormal columns, or rows if those are fewer.

    `base` is the matrix that the map is taken around: then any value can be assigned.
    """

    def __init__(self, orthogonal_map: str, around: bool, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.orthogonal_map, self.around, self.shape = orthogonal_map, around, shape
        if around:
            self.register_buffer("base", None)

    def forward(self, x: Any) -> Any:
        """The orthogonal matrix of a free one."""
        rows, columns = x.shape[-2:]
        if rows < columns:
            return self.forward(x.mT).mT
        if self.orthogonal_map == "householder":
            made = _reflections(x)
        else:
            lower = x.tril()
            if rows > columns:
                blank = lower.new_zeros(*lower.shape[:-1], rows - columns)
                lower = cat([lower, blank], -1)
            made = _OF_SKEW[self.orthogonal_map](lower - lower.mH)[..., :columns]
        return self.base @ made if self.around else made

    def right_inverse(self, value: Any) -> Any:
        """A free matrix of the orthogonal matrix that is nearest in direction to `value`."""
        if tuple(value.shape) != self.shape:
            raise ValueError(
                f"a value of shape {tuple(value.shape)} for orthogonal matrices of shape "
                f"{self.shape}"
            )
        wide = value.shape[-2] < value.shape[-1]
        return self._free(value.mT).mT if wide else self._free(value)

    def _free(self, value: Any) -> Any:
        rows, columns = value.shape[-2:]
        if self.around:
            if rows > columns:
                more = randn(*value.shape[:-1], rows - columns, dtype=value.dtype)
                value_and_more = cat([value, more.to(value.device)], -1)
            else:
                value_and_more = value
            q, r = qr(value_and_more)
            self.base = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
            free = zeros_like(value)
            free.diagonal(dim1=-2, dim2=-1).fill_(-1)
            return free
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                f"orthogonal: the map {self.orthogonal_map} has no inverse. Fix: "
                "use_trivialization=True, or orthogonal_map='householder'."
            )
        packed, factors = geqrf(value)
        diagonal = packed.diagonal(dim1=-2, dim2=-1)
        diagonal.copy_(diagonal.sign() * (1 - 2 * (factors == 0).to(value.dtype)))
        return packed


def orthogonal(
    module: M,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> M:
    """Keep a matrix orthogonal: its columns, or its rows if those are fewer, are orthonormal.

    >>> import gradwalk as gw
    >>> layer = gw.nn.utils.parametrizations.orthogonal(gw.nn.Linear(3, 3))
    >>> bool((layer.weight @ layer.weight.T).allclose(gw.eye(3), atol=1e-5))
    True
    """
    weight = getattr(module, name)
    if weight.ndim < 2:
        raise ValueError(f"orthogonal needs a matrix; {name} has shape {tuple(weight.shape)}")
    square = weight.shape[-2] == weight.shape[-1]
    chosen = orthogonal_map or ("matrix_exp" if square else "householder")
    if chosen not in _MAPS:
        raise ValueError(f"orthogonal_map is one of {', '.join(_MAPS)}, not {chosen!r}")
    if chosen == "householder" and weight.is_complex():
        raise ValueError("orthogonal_map='householder' takes real matrices, not complex ones")
    made = _Orthogonal(chosen, use_trivialization, tuple(weight.shape))
    register_parametrization(module, name, made, unsafe=True)
    return module
