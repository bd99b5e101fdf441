"""The methods that reduce or order elements, every one a line to its op."""

from __future__ import annotations

from typing import Any, Self

from gradwalk.ops import loss, reduction, sorting


class ReductionMethods:
    """Methods of everything with `_apply` that reduce or order elements."""

    __slots__ = ()
    shape: Any
    ndim: Any
    _apply: Any

    def sum(self, dim: reduction.Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """Sum over `dim`, or over everything."""
        return reduction.sum(self, dim, keepdim, dtype=dtype)

    def mean(self, dim: reduction.Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """Mean over `dim`."""
        return reduction.mean(self, dim, keepdim, dtype=dtype)

    def prod(self, dim: reduction.Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """Product over `dim`."""
        return reduction.prod(self, dim, keepdim, dtype=dtype)

    def amax(self, dim: reduction.Dim = None, keepdim: bool = False) -> Self:
        """Largest value; ties share the gradient."""
        return reduction.amax(self, dim, keepdim)

    def amin(self, dim: reduction.Dim = None, keepdim: bool = False) -> Self:
        """Smallest value; ties share the gradient."""
        return reduction.amin(self, dim, keepdim)

    def all(self, dim: reduction.Dim = None, keepdim: bool = False) -> Self:
        """Whether every element is true."""
        return reduction.all(self, dim, keepdim)

    def any(self, dim: reduction.Dim = None, keepdim: bool = False) -> Self:
        """Whether some element is true."""
        return reduction.any(self, dim, keepdim)

    def max(self, dim: Any = None, keepdim: bool = False) -> Any:
        """Largest value; with `dim` values and indices; with a tensor elementwise."""
        return reduction.max(self, dim, keepdim)

    def min(self, dim: Any = None, keepdim: bool = False) -> Any:
        """Smallest value; with `dim` values and indices; with a tensor elementwise."""
        return reduction.min(self, dim, keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Index of the largest value."""
        return reduction.argmax(self, dim, keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Index of the smallest value."""
        return reduction.argmin(self, dim, keepdim)

    def var(self, dim: reduction.Dim = None, **options: Any) -> Self:
        """Variance over `dim`; options `correction`, `unbiased`, `keepdim`."""
        return reduction.var(self, dim, **options)

    def std(self, dim: reduction.Dim = None, **options: Any) -> Self:
        """Standard deviation over `dim`; options `correction`, `unbiased`, `keepdim`."""
        return reduction.std(self, dim, **options)

    def sort(self, dim: int = -1, descending: bool = False) -> Any:
        """Values in order along `dim`, and their indices."""
        return sorting.sort(self, dim, descending)

    def topk(self, k: int, dim: int = -1, largest: bool = True) -> Any:
        """The k largest values along `dim`, and their indices."""
        return sorting.topk(self, k, dim, largest)

    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The middle element; with `dim` values and indices."""
        return sorting.median(self, dim, keepdim)

    def cumsum(self, dim: int) -> Self:
        """Running sum along `dim`."""
        return reduction.cumsum(self, dim)

    def logsumexp(self, dim: reduction.Dim, keepdim: bool = False) -> Self:
        """log Σ exp(x), stable."""
        return reduction.logsumexp(self, dim, keepdim)

    def softmax(self, dim: int) -> Self:
        """exp(x) / Σ exp(x) along `dim`."""
        return loss.softmax(self, dim)

    def log_softmax(self, dim: int) -> Self:
        """log(softmax(x)) along `dim`."""
        return loss.log_softmax(self, dim)
