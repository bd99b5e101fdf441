"""Embedding layers."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Any, ClassVar, Self

from gradwalk.engine.modes import no_grad
from gradwalk.nn import functional, init
from gradwalk.nn.constructors import declared
from gradwalk.nn.layers.options import changed, store
from gradwalk.nn.module import Module, Parameter
from gradwalk.tensors import creation
from gradwalk.tensors.tensor import Tensor

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """Vectors that integers name: a weight of (num_embeddings, embedding_dim)."""

    _LOOKUP: ClassVar[dict[str, Any]]  # the options of the lookup, with their defaults
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None

    def _construct(
        self,
        *,
        _weight: Tensor | None,
        device: Any,
        dtype: Any,
        _freeze: bool = False,
        **options: Any,
    ) -> None:
        store(self, options)
        rows, padding = self.num_embeddings, self.padding_idx
        if padding is not None:
            if not -rows <= padding < rows:
                raise ValueError(f"padding_idx {padding} is not one of {rows} rows")
            self.padding_idx = padding % rows
        shape = (rows, self.embedding_dim)
        if _weight is None:
            self.weight = Parameter(creation.empty(shape, dtype=dtype), requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != shape:
                raise ValueError(f"a weight of shape {_weight.shape} given for a {shape} table")
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Initialize the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0

    def _lookup(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._LOOKUP}

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, **options: Any) -> Self:
        """A table made of given vectors."""
        if embeddings.ndim != 2:
            raise ValueError(f"the table has shape {embeddings.shape}, not (rows, features)")
        rows, columns = embeddings.shape
        kind: Any = cls  # whose constructor is declared
        made: Self = kind(rows, columns, _weight=embeddings, **options)
        made.weight.requires_grad_(not freeze)
        return made

    def extra_repr(self) -> str:
        """The sizes and options; defaults are omitted."""
        return f"{self.num_embeddings}, {self.embedding_dim}" + changed(self, **self._LOOKUP)


@declared
class Embedding(_Table):
    """A table of vectors, looked up by integers.

    The initial vectors are standard normal; that of `padding_idx` is zero and has no gradient.

    >>> import gradwalk as gw
    >>> gw.nn.Embedding(10, 3)(gw.tensor([[1, 2], [3, 1]])).shape
    (2, 2, 3)
    """

    _LOOKUP: ClassVar[dict[str, Any]] = dict(
        padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
    )
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None = None
    max_norm: float | None = None
    norm_type: float = 2.0
    scale_grad_by_freq: bool = False
    sparse: bool = False
    _weight: InitVar[Tensor | None] = None
    _freeze: InitVar[bool] = False
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None

    def forward(self, input: Any) -> Any:
        """The rows that `input` lists."""
        return functional.embedding(input, self.weight, **self._lookup())


@declared
class EmbeddingBag(_Table):
    """The sum, mean or maximum of the vectors of every bag of integers.

    >>> import gradwalk as gw
    >>> gw.nn.EmbeddingBag(10, 3)(gw.tensor([1, 2, 4, 5]), gw.tensor([0, 3])).shape
    (2, 3)
    """

    _LOOKUP: ClassVar[dict[str, Any]] = dict(
        max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="", sparse=False,
        include_last_offset=False, padding_idx=None,
    )  # fmt: skip
    num_embeddings: int
    embedding_dim: int
    max_norm: float | None = None
    norm_type: float = 2.0
    scale_grad_by_freq: bool = False
    mode: str = "mean"
    sparse: bool = False
    _weight: InitVar[Tensor | None] = None
    include_last_offset: bool = False
    padding_idx: int | None = None
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None

    def extra_repr(self) -> str:
        """The sizes and options; defaults are omitted."""
        return super().extra_repr().replace(f"mode={self.mode}", f"mode={self.mode!r}")

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """One vector for every bag."""
        return functional.embedding_bag(
            input, self.weight, offsets, per_sample_weights=per_sample_weights, **self._lookup()
        )
