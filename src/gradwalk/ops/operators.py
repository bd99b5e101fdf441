"""Operators: what Tensor and Symbol have in common, every method one line to its op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from gradwalk.ops import activation, arithmetic, choice, linalg, loss, reduction, sorting
from gradwalk.ops import index as _index
from gradwalk.ops import shape as _shape
from gradwalk.ops import trigonometry as trig
from gradwalk.ops.op import Op

_NONE: dict[str, Any] = {}  # no attributes; shared, never written to


def raised(x: Any, exponent: Any) -> Any:
    """x ** exponent: the op with one input if the exponent is a number, else the one with two."""
    if isinstance(exponent, (int, float)):
        return arithmetic.power(_shape.promoted(x, exponent), exponent=exponent)
    return arithmetic.pow(x, exponent)


class Operators:
    """Arithmetic, comparison, and the methods PyTorch users expect, for anything with `_apply`."""

    __slots__ = ()
    shape: Any
    ndim: Any

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        raise NotImplementedError

    def __add__(self, other: Any) -> Self:
        return self._apply(arithmetic.add, (self, other), _NONE)

    def __radd__(self, other: Any) -> Self:
        return self._apply(arithmetic.add, (other, self), _NONE)

    def __sub__(self, other: Any) -> Self:
        return self._apply(arithmetic.sub, (self, other), _NONE)

    def __rsub__(self, other: Any) -> Self:
        return self._apply(arithmetic.sub, (other, self), _NONE)

    def __mul__(self, other: Any) -> Self:
        return self._apply(arithmetic.mul, (self, other), _NONE)

    def __rmul__(self, other: Any) -> Self:
        return self._apply(arithmetic.mul, (other, self), _NONE)

    def __truediv__(self, other: Any) -> Self:
        return self._apply(arithmetic.div, (self, other), _NONE)

    def __rtruediv__(self, other: Any) -> Self:
        return self._apply(arithmetic.div, (other, self), _NONE)

    def __pow__(self, exponent: Any) -> Self:
        return raised(self, exponent)

    def __rpow__(self, base: Any) -> Self:
        return self._apply(arithmetic.pow, (base, self), _NONE)

    def __neg__(self) -> Self:
        return self._apply(arithmetic.neg, (self,), _NONE)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self._apply(arithmetic.abs, (self,), _NONE)

    def __matmul__(self, other: Any) -> Self:
        return linalg.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Self:
        return linalg.matmul(other, self)

    def __lt__(self, other: Any) -> Self:
        return self._apply(choice.less, (self, other), _NONE)

    def __le__(self, other: Any) -> Self:
        return self._apply(choice.less_equal, (self, other), _NONE)

    def __gt__(self, other: Any) -> Self:
        return self._apply(choice.greater, (self, other), _NONE)

    def __ge__(self, other: Any) -> Self:
        return self._apply(choice.greater_equal, (self, other), _NONE)

    def __eq__(self, other: Any) -> Self:  # type: ignore[override]
        return self._apply(choice.equal, (self, other), _NONE)

    def __ne__(self, other: Any) -> Self:  # type: ignore[override]
        return self._apply(choice.not_equal, (self, other), _NONE)

    __hash__ = object.__hash__  # == is elementwise; as a key, a tensor is itself

    def __and__(self, other: Any) -> Self:
        return self._apply(choice.bitwise_and, (self, other), _NONE)

    def __rand__(self, other: Any) -> Self:
        return self._apply(choice.bitwise_and, (other, self), _NONE)

    def __or__(self, other: Any) -> Self:
        return self._apply(choice.bitwise_or, (self, other), _NONE)

    def __ror__(self, other: Any) -> Self:
        return self._apply(choice.bitwise_or, (other, self), _NONE)

    def __xor__(self, other: Any) -> Self:
        return self._apply(choice.bitwise_xor, (self, other), _NONE)

    def __rxor__(self, other: Any) -> Self:
        return self._apply(choice.bitwise_xor, (other, self), _NONE)

    def __invert__(self) -> Self:
        return self._apply(choice.bitwise_not, (self,), _NONE)

    def __getitem__(self, key: Any) -> Self:
        return _index.take_item(self, key)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-d tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        if not self.shape:
            raise TypeError("a 0-d tensor cannot be iterated over; use .item() for its number")
        return (self[i] for i in range(self.shape[0]))

    # -- elementwise, one operand --------------------------------------------------------------

    def abs(self) -> Self:
        """|x|."""
        return self._apply(arithmetic.abs, (self,), _NONE)

    def neg(self) -> Self:
        """−x."""
        return self._apply(arithmetic.neg, (self,), _NONE)

    def square(self) -> Self:
        """x²."""
        return self._apply(arithmetic.square, (self,), _NONE)

    def sqrt(self) -> Self:
        """√x."""
        return self._apply(arithmetic.sqrt, (self,), _NONE)

    def rsqrt(self) -> Self:
        """1/√x."""
        return self._apply(arithmetic.rsqrt, (self,), _NONE)

    def sign(self) -> Self:
        """−1, 0 or 1; its gradient is zero."""
        return self._apply(arithmetic.sign, (self,), _NONE)

    def floor(self) -> Self:
        """The integer below; its gradient is zero."""
        return self._apply(arithmetic.floor, (self,), _NONE)

    def exp(self) -> Self:
        """eˣ."""
        return self._apply(arithmetic.exp, (self,), _NONE)

    def expm1(self) -> Self:
        """eˣ − 1, exact near 0."""
        return self._apply(arithmetic.expm1, (self,), _NONE)

    def log(self) -> Self:
        """Natural logarithm."""
        return self._apply(arithmetic.log, (self,), _NONE)

    def log1p(self) -> Self:
        """Log(1 + x), exact near 0."""
        return self._apply(arithmetic.log1p, (self,), _NONE)

    def sin(self) -> Self:
        """Sine."""
        return self._apply(trig.sin, (self,), _NONE)

    def cos(self) -> Self:
        """Cosine."""
        return self._apply(trig.cos, (self,), _NONE)

    def tan(self) -> Self:
        """Tangent."""
        return self._apply(trig.tan, (self,), _NONE)

    def asin(self) -> Self:
        """Arc sine."""
        return self._apply(trig.asin, (self,), _NONE)

    def acos(self) -> Self:
        """Arc cosine."""
        return self._apply(trig.acos, (self,), _NONE)

    def atan(self) -> Self:
        """Arc tangent."""
        return self._apply(trig.atan, (self,), _NONE)

    def sinh(self) -> Self:
        """Hyperbolic sine."""
        return self._apply(trig.sinh, (self,), _NONE)

    def cosh(self) -> Self:
        """Hyperbolic cosine."""
        return self._apply(trig.cosh, (self,), _NONE)

    def tanh(self) -> Self:
        """Hyperbolic tangent."""
        return self._apply(trig.tanh, (self,), _NONE)

    def sigmoid(self) -> Self:
        """1 / (1 + e⁻ˣ)."""
        return self._apply(activation.sigmoid, (self,), _NONE)

    def relu(self) -> Self:
        """Max(x, 0)."""
        return self._apply(activation.relu, (self,), _NONE)

    def erf(self) -> Self:
        """The error function."""
        return self._apply(activation.erf, (self,), _NONE)

    def logical_not(self) -> Self:
        """True where x is zero."""
        return self._apply(choice.logical_not, (self,), _NONE)

    # -- elementwise, two operands -------------------------------------------------------------

    def add(self, other: Any, *, alpha: float = 1) -> Self:
        """self + alpha × other."""
        return self + (other if alpha == 1 else other * alpha)

    def sub(self, other: Any, *, alpha: float = 1) -> Self:
        """self − alpha × other."""
        return self - (other if alpha == 1 else other * alpha)

    def mul(self, other: Any) -> Self:
        """self × other."""
        return self._apply(arithmetic.mul, (self, other), _NONE)

    def div(self, other: Any) -> Self:
        """self / other."""
        return self._apply(arithmetic.div, (self, other), _NONE)

    def maximum(self, other: Any) -> Self:
        """The larger, element by element."""
        return self._apply(choice.maximum, (self, other), _NONE)

    def minimum(self, other: Any) -> Self:
        """The smaller, element by element."""
        return self._apply(choice.minimum, (self, other), _NONE)

    def eq(self, other: Any) -> Self:
        """self == other."""
        return self._apply(choice.equal, (self, other), _NONE)

    def ne(self, other: Any) -> Self:
        """self != other."""
        return self._apply(choice.not_equal, (self, other), _NONE)

    def lt(self, other: Any) -> Self:
        """self < other."""
        return self._apply(choice.less, (self, other), _NONE)

    def le(self, other: Any) -> Self:
        """self <= other."""
        return self._apply(choice.less_equal, (self, other), _NONE)

    def gt(self, other: Any) -> Self:
        """self > other."""
        return self._apply(choice.greater, (self, other), _NONE)

    def ge(self, other: Any) -> Self:
        """self >= other."""
        return self._apply(choice.greater_equal, (self, other), _NONE)

    def logical_and(self, other: Any) -> Self:
        """True where both are non-zero."""
        return self._apply(choice.logical_and, (self, other), _NONE)

    def logical_or(self, other: Any) -> Self:
        """True where one is non-zero."""
        return self._apply(choice.logical_or, (self, other), _NONE)

    def logical_xor(self, other: Any) -> Self:
        """True where exactly one is non-zero."""
        return self._apply(choice.logical_xor, (self, other), _NONE)

    def pow(self, exponent: Any) -> Self:
        """self to the power of `exponent`."""
        return raised(self, exponent)

    def where(self, condition: Any, other: Any) -> Self:
        """self where the condition holds, `other` elsewhere."""
        return choice.where(condition, self, other)

    def round(self, *, decimals: int = 0) -> Self:
        """Nearest integer, halves to even; its gradient is zero."""
        return arithmetic.round(self, decimals=decimals)

    def clip(self, min: float | None = None, max: float | None = None) -> Self:
        """Limit to [min, max]; the bounds themselves pass the gradient."""
        return choice.clip(self, min=min, max=max)

    clamp = clip

    # -- reductions ----------------------------------------------------------------------------

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
