"""The methods that reduce or order elements, every one a line to its op."""

from __future__ import annotations

from typing import Any, Self

from gradwalk.ops.core.argument_names import numpy_names
from gradwalk.ops.network import softmax
from gradwalk.ops.reduce import measures, reduction, scan, sorting


class ReductionMethods:
    """Methods of everything with `_apply` that reduce or order elements."""

    __slots__ = ()
    shape: Any
    ndim: Any
    _apply: Any

    @numpy_names
    def sum(self, dim: reduction.Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """Sum over `dim`, or over everything."""
        return reduction.sum(self, dim, keepdim, dtype=dtype)

    @numpy_names
    def mean(self, dim: reduction.Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """Mean over `dim`."""
        return reduction.mean(self, dim, keepdim, dtype=dtype)

    @numpy_names
    def prod(self, dim: reduction.Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """Product over `dim`."""
        return reduction.prod(self, dim, keepdim, dtype=dtype)

    @numpy_names
    def amax(self, dim: reduction.Dim = None, keepdim: bool = False) -> Self:
        """Largest value; ties share the gradient."""
        return reduction.amax(self, dim, keepdim)

    @numpy_names
    def amin(self, dim: reduction.Dim = None, keepdim: bool = False) -> Self:
        """Smallest value; ties share the gradient."""
        return reduction.amin(self, dim, keepdim)

    @numpy_names
    def all(self, dim: reduction.Dim = None, keepdim: bool = False) -> Self:
        """Whether every element is true."""
        return reduction.all(self, dim, keepdim)

    @numpy_names
    def any(self, dim: reduction.Dim = None, keepdim: bool = False) -> Self:
        """Whether some element is true."""
        return reduction.any(self, dim, keepdim)

    @numpy_names
    def max(self, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        """Largest value; with `dim` values and indices; with a tensor elementwise."""
        return reduction.max(self, dim, keepdim, other=other)

    @numpy_names
    def min(self, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        """Smallest value; with `dim` values and indices; with a tensor elementwise."""
        return reduction.min(self, dim, keepdim, other=other)

    @numpy_names
    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Index of the largest value."""
        return reduction.argmax(self, dim, keepdim)

    @numpy_names
    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Index of the smallest value."""
        return reduction.argmin(self, dim, keepdim)

    @numpy_names
    def var(
        self,
        dim: reduction.Dim | bool = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Self:
        """Variance over `dim`."""
        return reduction.var(self, dim, unbiased, keepdim, correction=correction)

    @numpy_names
    def std(
        self,
        dim: reduction.Dim | bool = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Self:
        """Standard deviation over `dim`."""
        return reduction.std(self, dim, unbiased, keepdim, correction=correction)

    def norm(
        self,
        p: float | str | None = "fro",
        dim: reduction.Dim = None,
        keepdim: bool = False,
        dtype: Any = None,
    ) -> Self:
        """(Σ |x|ᵖ)^(1/p) over `dim`."""
        return measures.norm(self, p, dim, keepdim, dtype)

    @numpy_names
    def nansum(
        self, dim: reduction.Dim = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Self:
        """The sum of what is not NaN."""
        return measures.nansum(self, dim, keepdim, dtype=dtype)

    @numpy_names
    def nanmean(
        self, dim: reduction.Dim = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Self:
        """The mean of what is not NaN."""
        return measures.nanmean(self, dim, keepdim, dtype=dtype)

    @numpy_names
    def count_nonzero(self, dim: reduction.Dim = None) -> Self:
        """How many elements are not 0."""
        return measures.count_nonzero(self, dim)

    @numpy_names
    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Self:
        """The indices that put the elements in order along `dim`."""
        return sorting.argsort(self, dim, descending, stable=stable)

    @numpy_names
    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> Any:
        """The k-th smallest value along `dim`, and where it was found."""
        return sorting.kthvalue(self, k, dim, keepdim)

    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """Every value once, in order."""
        return sorting.unique(self, sorted, return_inverse, return_counts, dim)

    @numpy_names
    def sort(self, dim: int = -1, descending: bool = False, *, stable: bool = True) -> Any:
        """Values in order along `dim`, and their indices."""
        return sorting.sort(self, dim, descending, stable=stable)

    @numpy_names
    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        """The k largest values along `dim` in order, and their indices."""
        return sorting.topk(self, k, dim, largest, sorted)

    @numpy_names
    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The middle element; with `dim` values and indices."""
        return sorting.median(self, dim, keepdim)

    @numpy_names
    def cumsum(self, dim: int, *, dtype: Any = None) -> Self:
        """Running sum along `dim`."""
        return reduction.cumsum(self, dim, dtype=dtype)

    @numpy_names
    def cumprod(self, dim: int, *, dtype: Any = None) -> Self:
        """Running product along `dim`."""
        return scan.cumprod(self, dim, dtype=dtype)

    @numpy_names
    def cummax(self, dim: int) -> Any:
        """Running maximum along `dim`, and where each was met."""
        return scan.cummax(self, dim)

    @numpy_names
    def cummin(self, dim: int) -> Any:
        """Running minimum along `dim`, and where each was met."""
        return scan.cummin(self, dim)

    @numpy_names
    def logcumsumexp(self, dim: int) -> Self:
        """Running log Σ exp along `dim`."""
        return scan.logcumsumexp(self, dim)

    @numpy_names
    def logsumexp(self, dim: reduction.Dim, keepdim: bool = False) -> Self:
        """log Σ exp(x), stable."""
        return softmax.logsumexp(self, dim, keepdim)

    @numpy_names
    def softmax(self, dim: int, dtype: Any = None) -> Self:
        """exp(x) / Σ exp(x) along `dim`."""
        return softmax.softmax(self, dim, dtype)

    @numpy_names
    def log_softmax(self, dim: int, dtype: Any = None) -> Self:
        """log(softmax(x)) along `dim`."""
        return softmax.log_softmax(self, dim, dtype)
