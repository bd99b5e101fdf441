"""The methods that change shape, pick elements or multiply matrices, every one a line to its op."""

from __future__ import annotations

from typing import Any, Self

from gradwalk.ops import index as _index
from gradwalk.ops import linalg
from gradwalk.ops import shape as _shape


class ShapeMethods:
    """Methods of everything with `_apply` that change shape, pick elements or multiply matrices."""

    __slots__ = ()
    shape: Any
    ndim: Any
    _apply: Any

    # -- shape ---------------------------------------------------------------------------------

    def reshape(self, *sizes: Any) -> Self:
        """The same elements in another shape."""
        return _shape.reshape_to(self, *sizes)

    def permute(self, *dims: Any) -> Self:
        """Reorder the dimensions."""
        return _shape.permute_to(self, *dims)

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Swap two dimensions."""
        return _shape.transpose(self, dim0, dim1)

    def expand(self, *sizes: Any) -> Self:
        """Repeat along length-1 dimensions without copying; -1 keeps."""
        return _shape.expand(self, *sizes)

    def expand_as(self, other: Any) -> Self:
        """Expand to the shape of `other`."""
        return _shape.expand(self, *other.shape)

    def broadcast_to(self, *sizes: Any) -> Self:
        """Repeat along new or length-1 dimensions."""
        return _shape.broadcast_to(self, *sizes)

    def squeeze(self, dim: int | tuple[int, ...] | None = None) -> Self:
        """Drop dimensions of length 1."""
        return _shape.squeeze(self, dim)

    def unsqueeze(self, dim: int) -> Self:
        """Insert a dimension of length 1."""
        return _shape.unsqueeze(self, dim)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Merge dimensions into one."""
        return _shape.flatten(self, start_dim, end_dim)

    def flip(self, *dims: Any) -> Self:
        """Reverse along `dims`."""
        return _shape.flip_over(self, *dims)

    def split(self, split_size: Any, dim: int = 0) -> tuple[Self, ...]:
        """Cut along `dim` into pieces of one size, or of the listed sizes."""
        return _shape.split(self, split_size, dim)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """Cut along `dim` into `chunks` pieces."""
        return _shape.chunk(self, chunks, dim)

    @property
    def mT(self) -> Self:
        """The last two dimensions swapped."""
        return _shape.matrix_transpose(self)

    @property
    def T(self) -> Self:
        """All dimensions reversed."""
        return _shape.permute(self, axes=tuple(range(self.ndim))[::-1])

    def t(self) -> Self:
        """The transpose of a matrix (vectors stay as they are)."""
        if self.ndim > 2:
            raise ValueError(f"t() is for matrices; use .mT for shape {tuple(self.shape)}")
        return self.T

    # -- index and linear algebra --------------------------------------------------------------

    def gather(self, dim: int, index: Any) -> Self:
        """Pick along `dim` at `index`."""
        return _index.gather(self, dim, index)

    def scatter_add(self, dim: int, index: Any, src: Any) -> Self:
        """Add `src` at `index` along `dim`."""
        return _index.scatter_add(self, dim, index, src)

    def take(self, index: Any) -> Self:
        """Pick from the flattened tensor."""
        return _index.take(self, index)

    def index_select(self, dim: int, index: Any) -> Self:
        """The slices along `dim` that `index` lists."""
        return _index.index_select(self, dim, index)

    def take_along_dim(self, indices: Any, dim: int | None = None) -> Self:
        """Pick along `dim` at indices that broadcast."""
        return _index.take_along_dim(self, indices, dim)

    def matmul(self, other: Any) -> Self:
        """Matrix product."""
        return linalg.matmul(self, other)

    mm = mv = bmm = matmul

    def dot(self, other: Any) -> Self:
        """Inner product of two vectors."""
        return linalg.dot(self, other)

    def outer(self, other: Any) -> Self:
        """Outer product of two vectors."""
        return linalg.outer(self, other)
