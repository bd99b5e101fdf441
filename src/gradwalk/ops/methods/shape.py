"""The methods that change shape, pick elements or multiply matrices, every one a line to its op."""

from __future__ import annotations

from typing import Any, Self

from gradwalk.ops.core.argument_names import numpy_names, split_names
from gradwalk.ops.index import indexing as _index
from gradwalk.ops.index import picking
from gradwalk.ops.linear import decompositions, matmul, products
from gradwalk.ops.shape import rearranging
from gradwalk.ops.shape import reshaping as _shape


class ShapeMethods:
    """Methods of everything with `_apply` that change shape, pick elements or multiply matrices."""

    __slots__ = ()
    shape: Any
    ndim: Any
    _apply: Any

    # -- shape ---------------------------------------------------------------------------------

    def reshape(self, *sizes: Any, shape: Any = None) -> Self:
        """The same elements in another shape."""
        return _shape.reshape_to(self, *sizes, shape=shape)

    def permute(self, *axes: Any, dims: Any = None) -> Self:
        """Reorder the dimensions."""
        return _shape.permute_to(self, *axes, dims=dims)

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Swap two dimensions."""
        return _shape.transpose(self, dim0, dim1)

    def expand(self, *sizes: Any, size: Any = None) -> Self:
        """Repeat along length-1 dimensions without copying; -1 keeps."""
        return _shape.expand(self, *sizes, size=size)

    def expand_as(self, other: Any) -> Self:
        """Expand to the shape of `other`."""
        return _shape.expand(self, *other.shape)

    def broadcast_to(self, *sizes: Any, size: Any = None) -> Self:
        """Repeat along new or length-1 dimensions."""
        return _shape.broadcast_to(self, *sizes, size=size)

    @numpy_names
    def squeeze(self, dim: int | tuple[int, ...] | None = None) -> Self:
        """Drop dimensions of length 1."""
        return _shape.squeeze(self, dim)

    @numpy_names
    def unsqueeze(self, dim: int) -> Self:
        """Insert a dimension of length 1."""
        return _shape.unsqueeze(self, dim)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Merge dimensions into one."""
        return _shape.flatten(self, start_dim, end_dim)

    def flip(self, *axes: Any, dims: Any = None) -> Self:
        """Reverse along `dims`."""
        return _shape.flip_over(self, *axes, dims=dims)

    @numpy_names
    def split(self, split_size: Any, dim: int = 0) -> tuple[Self, ...]:
        """Cut along `dim` into pieces of one size, or of the listed sizes."""
        return _shape.split(self, split_size, dim)

    @numpy_names
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

    def ravel(self) -> Self:
        """All elements in one dimension."""
        return rearranging.ravel(self)

    @numpy_names
    def unflatten(self, dim: int, sizes: Any) -> Self:
        """One dimension seen as several."""
        return rearranging.unflatten(self, dim, sizes)

    def movedim(self, source: Any, destination: Any) -> Self:
        """Move dimensions to new places."""
        return rearranging.movedim(self, source, destination)

    moveaxis = movedim

    def swapaxes(self, axis0: int, axis1: int) -> Self:
        """Swap two dimensions."""
        return rearranging.swapaxes(self, axis0, axis1)

    swapdims = swapaxes

    def reshape_as(self, other: Any) -> Self:
        """The same elements in the shape of `other`."""
        return _shape.reshape_to(self, *other.shape)

    def repeat(self, *sizes: Any, repeats: Any = None) -> Self:
        """Repeat the whole tensor, so many times along each dimension."""
        return rearranging.repeat(self, _shape.sizes_of(sizes, repeats))

    def tile(self, *times: Any, dims: Any = None) -> Self:
        """Repeat the whole tensor; missing numbers in front are 1."""
        return rearranging.tile(self, _shape.sizes_of(times, dims))

    @numpy_names
    def repeat_interleave(
        self, repeats: Any, dim: int | None = None, *, output_size: int | None = None
    ) -> Self:
        """Repeat every element."""
        return rearranging.repeat_interleave(self, repeats, dim, output_size=output_size)

    def roll(self, shifts: Any, dims: Any = None) -> Self:
        """Shift along dimensions, round the end."""
        return rearranging.roll(self, shifts, dims)

    def rot90(self, k: int = 1, dims: Any = (0, 1)) -> Self:
        """Turn a plane by k × 90°."""
        return rearranging.rot90(self, k, dims)

    def fliplr(self) -> Self:
        """Reverse the columns."""
        return rearranging.fliplr(self)

    def flipud(self) -> Self:
        """Reverse the rows."""
        return rearranging.flipud(self)

    def diag(self, diagonal: int = 0) -> Self:
        """A vector as a diagonal matrix, or the diagonal of a matrix."""
        return rearranging.diag(self, diagonal)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """The diagonal over two dimensions, a view."""
        return rearranging.diagonal(self, offset, dim1, dim2)

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Self:
        """Matrices with the last dimension on their diagonal."""
        return rearranging.diag_embed(self, offset, dim1, dim2)

    def tril(self, diagonal: int = 0) -> Self:
        """The lower triangle."""
        return rearranging.tril(self, diagonal)

    def triu(self, diagonal: int = 0) -> Self:
        """The upper triangle."""
        return rearranging.triu(self, diagonal)

    def unfold(self, dimension: int, size: int, step: int) -> Self:
        """All windows along a dimension, a view."""
        return rearranging.windows(self, dimension, size, step)

    @numpy_names
    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """All slices along a dimension."""
        return rearranging.unbind(self, dim)

    @numpy_names
    @split_names
    def tensor_split(self, indices_or_sections: Any, dim: int = 0) -> tuple[Self, ...]:
        """Cut into so many parts, or at the given indices."""
        return rearranging.tensor_split(self, indices_or_sections, dim)

    def split_with_sizes(self, split_sizes: Any, dim: int = 0) -> tuple[Self, ...]:
        """Cut along `dim` into pieces of the listed sizes."""
        return _shape.split(self, list(split_sizes), dim)

    @numpy_names
    def narrow(self, dim: int, start: Any, length: int) -> Self:
        """`length` slices from `start` on, a view."""
        return rearranging.narrow(self, dim, start, length)

    @numpy_names
    def select(self, dim: int, index: int) -> Self:
        """One slice, a view."""
        return rearranging.select(self, dim, index)

    # -- index and linear algebra --------------------------------------------------------------

    @numpy_names
    def gather(self, dim: int, index: Any) -> Self:
        """Pick along `dim` at `index`."""
        return _index.gather(self, dim, index)

    @numpy_names
    def scatter_add(self, dim: int, index: Any, src: Any) -> Self:
        """Add `src` at `index` along `dim`."""
        return _index.scatter_add(self, dim, index, src)

    def take(self, index: Any) -> Self:
        """Pick from the flattened tensor."""
        return _index.take(self, index)

    @numpy_names
    def index_select(self, dim: int, index: Any) -> Self:
        """The slices along `dim` that `index` lists."""
        return _index.index_select(self, dim, index)

    @numpy_names
    def take_along_dim(self, indices: Any, dim: int | None = None) -> Self:
        """Pick along `dim` at indices that broadcast."""
        return _index.take_along_dim(self, indices, dim)

    def matmul(self, other: Any) -> Self:
        """Matrix product."""
        return matmul.matmul(self, other)

    @numpy_names
    def scatter(
        self, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None
    ) -> Self:
        """`src` or `value` written at `index` along `dim`."""
        return picking.scatter(self, dim, index, src, value=value, reduce=reduce)

    @numpy_names
    def index_add(self, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Self:
        """The slices of alpha × source added at `index`."""
        return picking.index_add(self, dim, index, source, alpha=alpha)

    @numpy_names
    def index_copy(self, dim: int, index: Any, source: Any) -> Self:
        """The slices at `index` replaced by those of `source`."""
        return picking.index_copy(self, dim, index, source)

    @numpy_names
    def index_fill(self, dim: int, index: Any, value: Any) -> Self:
        """The slices at `index` filled with one value."""
        return picking.index_fill(self, dim, index, value)

    def index_put(self, indices: Any, values: Any, accumulate: bool = False) -> Self:
        """self[indices] = values, or += values."""
        return picking.index_put(self, indices, values, accumulate)

    def masked_fill(self, mask: Any, value: Any) -> Self:
        """`value` where the mask is true."""
        return picking.masked_fill(self, mask, value)

    def masked_select(self, mask: Any) -> Self:
        """The elements where the mask is true."""
        return picking.masked_select(self, mask)

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """The places of the elements that are not zero."""
        return picking.nonzero(self, as_tuple=as_tuple)

    def argwhere(self) -> Self:
        """The places of the elements that are not zero, one row each."""
        return picking.argwhere(self)

    def mm(self, mat2: Any) -> Self:
        """The product of two matrices."""
        return products.mm(self, mat2)

    def mv(self, vec: Any) -> Self:
        """The product of a matrix and a vector."""
        return products.mv(self, vec)

    def bmm(self, mat2: Any) -> Self:
        """The products of two batches of matrices."""
        return products.bmm(self, mat2)

    def inner(self, other: Any) -> Self:
        """Sums of products over the last dimension of both."""
        return products.inner(self, other)

    def vdot(self, other: Any) -> Self:
        """The inner product of two vectors."""
        return products.vdot(self, other)

    def addmm(self, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Self:
        """beta × self + alpha × mat1 @ mat2."""
        return products.addmm(self, mat1, mat2, beta=beta, alpha=alpha)

    def addmv(self, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Self:
        """beta × self + alpha × mat @ vec."""
        return products.addmv(self, mat, vec, beta=beta, alpha=alpha)

    def baddbmm(self, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Self:
        """beta × self + alpha × batch1 @ batch2."""
        return products.baddbmm(self, batch1, batch2, beta=beta, alpha=alpha)

    def kron(self, other: Any) -> Self:
        """Every element times the whole of `other`."""
        return products.kron(self, other)

    def trace(self) -> Self:
        """The sum of the diagonal."""
        return products.trace(self)

    def det(self) -> Self:
        """The determinant."""
        return decompositions.det(self)

    def logdet(self) -> Self:
        """The logarithm of the determinant."""
        return decompositions.logdet(self)

    def slogdet(self) -> Any:
        """The sign of the determinant and the logarithm of its absolute value."""
        return decompositions.slogdet(self)

    def inverse(self) -> Self:
        """The inverse."""
        return decompositions.inverse(self)

    def matrix_power(self, n: int) -> Self:
        """The matrix product of n copies."""
        return decompositions.matrix_power(self, n)

    def dot(self, tensor: Any) -> Self:
        """Inner product of two vectors."""
        return matmul.dot(self, tensor)

    def outer(self, vec2: Any) -> Self:
        """Outer product of two vectors."""
        return matmul.outer(self, vec2)
