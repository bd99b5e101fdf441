# Written by `python -m tools.stubs`.
# ruff: noqa: E501
from collections.abc import Sequence
from typing import Any, Self

from gradwalk.ops.elementwise.integers import MantissaExponent
from gradwalk.ops.linear.matrices import Factors, SignLog
from gradwalk.ops.linear.older_names import SingularV
from gradwalk.ops.linear.reflections import Reflections
from gradwalk.ops.linear.solving import Triangular
from gradwalk.ops.reduce.frequencies import Histogram
from gradwalk.ops.reduce.reduction import ValuesIndices
from gradwalk.ops.reduce.statistics import MinMax
from gradwalk.sparse.compressed import CompressedRows
from gradwalk.sparse.sparse_tensor import SparseTensor

class OperatorMethods:
    def __abs__(self) -> Self: ...
    def __add__(self, other: Any) -> Self: ...
    def __and__(self, other: Any) -> Self: ...
    def __eq__(self, other: Any) -> Self: ...  # type: ignore[override]
    def __floordiv__(self, other: Any) -> Self: ...
    def __ge__(self, other: Any) -> Self: ...
    def __gt__(self, other: Any) -> Self: ...
    def __invert__(self) -> Self: ...
    def __le__(self, other: Any) -> Self: ...
    def __lshift__(self, other: Any) -> Self: ...
    def __lt__(self, other: Any) -> Self: ...
    def __mod__(self, other: Any) -> Self: ...
    def __mul__(self, other: Any) -> Self: ...
    def __ne__(self, other: Any) -> Self: ...  # type: ignore[override]
    def __neg__(self) -> Self: ...
    def __or__(self, other: Any) -> Self: ...
    def __radd__(self, other: Any) -> Self: ...
    def __rand__(self, other: Any) -> Self: ...
    def __rfloordiv__(self, other: Any) -> Self: ...
    def __rlshift__(self, other: Any) -> Self: ...
    def __rmod__(self, other: Any) -> Self: ...
    def __rmul__(self, other: Any) -> Self: ...
    def __ror__(self, other: Any) -> Self: ...
    def __rrshift__(self, other: Any) -> Self: ...
    def __rshift__(self, other: Any) -> Self: ...
    def __rsub__(self, other: Any) -> Self: ...
    def __rtruediv__(self, other: Any) -> Self: ...
    def __rxor__(self, other: Any) -> Self: ...
    def __sub__(self, other: Any) -> Self: ...
    def __truediv__(self, other: Any) -> Self: ...
    def __xor__(self, other: Any) -> Self: ...

class Methods:
    def abs(self) -> Self:
        """|x|."""
    def absolute(self) -> Self:
        """|x|."""
    def acos(self) -> Self:
        """Arc cosine."""
    def acosh(self) -> Self:
        """Inverse hyperbolic cosine."""
    def add(self, other: Any, *, alpha: float = 1) -> Self:
        """self + alpha × other."""
    def addbmm(self, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Self:
        """beta × input + alpha × the sum of the products in a batch."""
    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:
        """input + value × tensor1 / tensor2."""
    def addcmul(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:
        """input + value × tensor1 × tensor2."""
    def addmm(self, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Self:
        """beta × input + alpha × mat1 @ mat2."""
    def addmv(self, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Self:
        """beta × input + alpha × mat @ vec."""
    def addr(self, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Self:
        """beta × input + alpha × the outer product of two vectors."""
    def adjoint(self) -> Self:
        """The conjugate transpose of matrices: `x.mH`."""
    def all(
        self, dim: int | tuple[int, ...] | list[int] | None = None, keepdim: bool = False
    ) -> Self:
        """Whether every element is true."""
    def allclose(
        self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> bool:
        """Whether all elements are close (see `isclose`)."""
    def amax(
        self, dim: int | tuple[int, ...] | list[int] | None = None, keepdim: bool = False
    ) -> Self:
        """Largest value over `dim`; ties share the gradient equally."""
    def amin(
        self, dim: int | tuple[int, ...] | list[int] | None = None, keepdim: bool = False
    ) -> Self:
        """Smallest value over `dim`; ties share the gradient equally."""
    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
        """The smallest and the largest value."""
    def angle(self) -> Self:
        """The angle in the complex plane, between −π and π; of a real number 0 or π."""
    def any(
        self, dim: int | tuple[int, ...] | list[int] | None = None, keepdim: bool = False
    ) -> Self:
        """Whether some element is true."""
    def arccos(self) -> Self:
        """Arc cosine."""
    def arccosh(self) -> Self:
        """Inverse hyperbolic cosine."""
    def arcsin(self) -> Self:
        """Arc sine."""
    def arcsinh(self) -> Self:
        """Inverse hyperbolic sine."""
    def arctan(self) -> Self:
        """Arc tangent."""
    def arctan2(self, other: Any) -> Self:
        """The angle of the point (other, self)."""
    def arctanh(self) -> Self:
        """Inverse hyperbolic tangent."""
    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Index of the (first) largest value, over everything or along `dim`."""
    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Index of the (first) smallest value, over everything or along `dim`."""
    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Self:
        """The indices that put x in order along `dim`; always stable."""
    def argwhere(self) -> Self:
        """The places of the elements that are not zero, one row each."""
    def as_strided(
        self, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
    ) -> Self:
        """A view of the elements of a contiguous tensor, `stride` apart along each dimension."""
    def as_strided_scatter(
        self,
        src: Any,
        size: Sequence[int],
        stride: Sequence[int],
        storage_offset: int | None = None,
    ) -> Self:
        """A copy of `input` with `src` at the places that `as_strided` would show."""
    def asin(self) -> Self:
        """Arc sine."""
    def asinh(self) -> Self:
        """Inverse hyperbolic sine."""
    def atan(self) -> Self:
        """Arc tangent."""
    def atan2(self, other: Any) -> Self:
        """The angle of the point (other, self)."""
    def atanh(self) -> Self:
        """Inverse hyperbolic tangent."""
    def baddbmm(self, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Self:
        """beta × input + alpha × batch1 @ batch2."""
    def bincount(self, weights: Any = None, minlength: int = 0) -> Self:
        """How often each number 0, 1, 2, ... occurs, or the sum of its weights."""
    def bitwise_and(self, other: Any) -> Self:
        """self & other."""
    def bitwise_left_shift(self, other: Any) -> Self:
        """self << other."""
    def bitwise_not(self) -> Self:
        """~self."""
    def bitwise_or(self, other: Any) -> Self:
        """self | other."""
    def bitwise_right_shift(self, other: Any) -> Self:
        """self >> other."""
    def bitwise_xor(self, other: Any) -> Self:
        """self ^ other."""
    def bmm(self, mat2: Any) -> Self:
        """The products of two equally long batches of matrices."""
    def broadcast_to(self, *sizes: Any, size: Any = None) -> Self:
        """Repeat along new or length-1 dimensions, without copying; -1 keeps the size of one."""
    def ceil(self) -> Self:
        """The integer above; its gradient is zero."""
    def cholesky(self, upper: bool = False) -> Self:
        """The lower triangular L with L Lᵀ = input: `linalg.cholesky`."""
    def cholesky_inverse(self, upper: bool = False) -> Self:
        """The inverse of A = L Lᵀ (Uᵀ U if `upper`)."""
    def cholesky_solve(self, L: Any, upper: bool = False) -> Self:
        """X with A X = B, of A = L Lᵀ (Uᵀ U if `upper`)."""
    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """Cut along `dim` into (at most) `chunks` pieces of equal size."""
    def clamp(self, min: Any = None, max: Any = None) -> Self:
        """Limit to [min, max], numbers or tensors; the bounds themselves pass the gradient."""
    def clamp_max(self, max: Any) -> Self:
        """Limit from above."""
    def clamp_min(self, min: Any) -> Self:
        """Limit from below."""
    def clip(self, min: Any = None, max: Any = None) -> Self:
        """Limit to [min, max], numbers or tensors; the bounds themselves pass the gradient."""
    def conj(self) -> Self:
        """The complex conjugate; a real tensor itself."""
    def conj_physical(self) -> Self:
        """`conj`: here it always computes."""
    def copysign(self, other: Any) -> Self:
        """|self| with the sign of other."""
    def corrcoef(self) -> Self:
        """The correlations of the rows."""
    def cos(self) -> Self:
        """Cosine."""
    def cosh(self) -> Self:
        """Hyperbolic cosine."""
    def count_nonzero(self, dim: int | tuple[int, ...] | list[int] | None = None) -> Self:
        """How many elements are not 0."""
    def cov(self, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Self:
        """The covariance matrix of the rows, each a variable; weights belong to the columns."""
    def cross(self, other: Any, dim: int | None = None) -> Self:
        """The cross product of vectors along `dim`, or along the first dimension of length 3."""
    def cummax(self, dim: int) -> ValuesIndices:
        """Running maximum along `dim`, and where each was (last) met."""
    def cummin(self, dim: int) -> ValuesIndices:
        """Running minimum along `dim`, and where each was (last) met."""
    def cumprod(self, dim: int, *, dtype: Any = None) -> Self:
        """Running product along `dim`."""
    def cumsum(self, dim: int, *, dtype: Any = None) -> Self:
        """Running sum along `dim`."""
    def deg2rad(self) -> Self:
        """Degrees as radians."""
    def det(self) -> Self:
        """The determinant; its first two derivatives are right for singular matrices too."""
    def diag(self, diagonal: int = 0) -> Self:
        """A vector as the diagonal of a matrix; of a matrix, its diagonal."""
    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Self:
        """Matrices over `dim1` and `dim2` with the last dimension of `input` on their diagonal."""
    def diagflat(self, offset: int = 0) -> Self:
        """All elements on the diagonal of a matrix."""
    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """The diagonal over two dimensions, as a view; it becomes the last dimension."""
    def diagonal_scatter(self, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """A copy of `input` with `src` on its diagonal over two dimensions."""
    def diff(self, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Self:
        """Differences between neighbours along `dim`, `n` times over."""
    def digamma(self) -> Self:
        """The derivative of lgamma."""
    def dist(self, other: Any, p: float = 2) -> Self:
        """The p-norm of the difference."""
    def div(self, other: Any, *, rounding_mode: Any = None) -> Self:
        """self / other, rounded with mode "trunc" or "floor"."""
    def divide(self, other: Any, *, rounding_mode: Any = None) -> Self:
        """self / other, rounded with mode "trunc" or "floor"."""
    def dot(self, tensor: Any) -> Self:
        """Inner product of two vectors."""
    def dsplit(self, indices_or_sections: Any) -> tuple[Self, ...]:
        """Cut along the third dimension."""
    def eq(self, other: Any) -> Self:
        """self == other."""
    def equal(self, other: Any) -> bool:
        """Whether two tensors have the same shape and the same elements; `eq` compares each element."""
    def erf(self) -> Self:
        """The error function."""
    def erfc(self) -> Self:
        """1 − erf(x)."""
    def erfinv(self) -> Self:
        """The inverse of erf."""
    def exp(self) -> Self:
        """eˣ."""
    def exp2(self) -> Self:
        """2ˣ."""
    def expand(self, *sizes: Any, size: Any = None) -> Self:
        """Repeat along new or length-1 dimensions, without copying; -1 keeps the size of one."""
    def expand_as(self, other: Any) -> Self:
        """Expand to the shape of `other`."""
    def expm1(self) -> Self:
        """eˣ − 1, exact near 0."""
    def fix(self) -> Self:
        """The integer towards zero; its gradient is zero."""
    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Merge the dimensions from `start_dim` to `end_dim` into one."""
    def flip(self, *axes: Any, dims: Any = None) -> Self:
        """Reverse the order of elements along `dims`."""
    def fliplr(self) -> Self:
        """Reverse the columns."""
    def flipud(self) -> Self:
        """Reverse the rows."""
    def float_power(self, exponent: Any) -> Self:
        """input to the power of `exponent`, computed in float64 whatever they hold, or in complex128."""
    def floor(self) -> Self:
        """The integer below; its gradient is zero."""
    def floor_divide(self, other: Any) -> Self:
        """self / other rounded down; no gradient."""
    def fmax(self, other: Any) -> Self:
        """The larger, element by element; NaN only where both are."""
    def fmin(self, other: Any) -> Self:
        """The smaller, element by element; NaN only where both are."""
    def fmod(self, other: Any) -> Self:
        """The remainder with the sign of self."""
    def frac(self) -> Self:
        """The fractional part: x − trunc(x)."""
    def frexp(self) -> MantissaExponent:
        """The mantissa from ½ to 1 and the power of two: mantissa × 2^exponent is `input`."""
    def gather(self, dim: int, index: Any, *, sparse_grad: bool = False) -> Self:
        """Pick along `dim`: out[i][j] = x[index[i][j]][j] for dim 0."""
    def gcd(self, other: Any) -> Self:
        """The greatest common divisor."""
    def ge(self, other: Any) -> Self:
        """self >= other."""
    def geqrf(self) -> Reflections:
        """R, with the reflections below its diagonal, and their factors; `linalg.qr` has a gradient."""
    def ger(self, vec2: Any) -> Self:
        """Outer product of two vectors."""
    def greater(self, other: Any) -> Self:
        """self > other."""
    def greater_equal(self, other: Any) -> Self:
        """self >= other."""
    def gt(self, other: Any) -> Self:
        """self > other."""
    def hardshrink(self, lambd: float = 0.5) -> Self:
        """0 between −lambd and lambd; halves compare with the bound as a half."""
    def heaviside(self, values: Any) -> Self:
        """0 below zero, 1 above, `values` at zero; no gradient."""
    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Self:
        """How many elements fall into each of `bins` bins of equal width from `min` to `max`."""
    def histogram(
        self,
        bins: Any = 100,
        *,
        range: Sequence[float] | None = None,
        weight: Any = None,
        density: bool = False,
    ) -> Histogram:
        """How many elements fall into each bin, or the sum of their weights, and the bins' edges."""
    def hsplit(self, indices_or_sections: Any) -> tuple[Self, ...]:
        """Cut along the columns (a vector along its only dimension)."""
    def hypot(self, other: Any) -> Self:
        """√(self² + other²)."""
    def i0(self) -> Self:
        """The modified Bessel function of order 0."""
    def igamma(self, other: Any) -> Self:
        """The regularized lower incomplete gamma function of parameter self at other."""
    def igammac(self, other: Any) -> Self:
        """The regularized upper incomplete gamma function of parameter self at other."""
    def index_add(self, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Self:
        """`input` with the slices of alpha × source added at `index` along `dim`."""
    def index_copy(self, dim: int, index: Any, source: Any) -> Self:
        """`input` with the slices at `index` along `dim` replaced by those of `source`."""
    def index_fill(self, dim: int, index: Any, value: Any) -> Self:
        """`input` with the slices at `index` along `dim` filled with one value."""
    def index_put(self, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Self:
        """`input` with x[indices] = values, or += values with `accumulate`, repeats counted."""
    def index_reduce(
        self, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
    ) -> Self:
        """`input` with the slices of `source` reduced into those at `index` along `dim`."""
    def index_select(self, dim: int, index: Any) -> Self:
        """The slices of x along `dim` that `index` lists."""
    def inner(self, other: Any) -> Self:
        """Sums of products over the last dimension of both."""
    def inverse(self) -> Self:
        """The inverse: `linalg.inv`."""
    def is_complex(self) -> bool:
        """Whether the elements are complex numbers."""
    def is_conj(self) -> bool:
        """False: a conjugate is computed at once."""
    def is_nonzero(self) -> bool:
        """Whether the only element is not zero."""
    def is_same_size(self, other: Any) -> bool:
        """Whether two tensors have the same shape."""
    def isclose(
        self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> Self:
        """|input − other| ≤ atol + rtol × |other|, element by element."""
    def isfinite(self) -> Self:
        """True where x is neither infinite nor NaN."""
    def isinf(self) -> Self:
        """True where x is infinite."""
    def isnan(self) -> Self:
        """True where x is NaN."""
    def isneginf(self) -> Self:
        """True where it is −inf."""
    def isposinf(self) -> Self:
        """True where it is +inf."""
    def isreal(self) -> Self:
        """True where the imaginary part is zero; of real tensors everywhere."""
    def istft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Any = None,
        center: bool = True,
        normalized: bool = False,
        onesided: bool | None = None,
        length: int | None = None,
        return_complex: bool = False,
    ) -> Self:
        """The signal whose `stft` this is: pieces are added up and divided by the windows' squares."""
    def kron(self, other: Any) -> Self:
        """Every element of `input` times the whole of `other`, laid out as blocks."""
    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
        """The k-th smallest value along `dim` (from 1), and its index."""
    def lcm(self, other: Any) -> Self:
        """The least common multiple."""
    def ldexp(self, other: Any) -> Self:
        """input × 2^other."""
    def le(self, other: Any) -> Self:
        """self <= other."""
    def lerp(self, end: Any, weight: Any) -> Self:
        """self + weight × (end − self)."""
    def less(self, other: Any) -> Self:
        """self < other."""
    def less_equal(self, other: Any) -> Self:
        """self <= other."""
    def lgamma(self) -> Self:
        """Log |Γ(x)|."""
    def log(self) -> Self:
        """Natural logarithm."""
    def log10(self) -> Self:
        """Logarithm to base 10."""
    def log1p(self) -> Self:
        """Log(1 + x), exact near 0."""
    def log2(self) -> Self:
        """Logarithm to base 2."""
    def log_softmax(self, dim: int, dtype: Any = None) -> Self:
        """log(softmax(x)) along `dim`, without taking the log of a number near zero."""
    def logaddexp(self, other: Any) -> Self:
        """Log(eˣ + eʸ)."""
    def logaddexp2(self, other: Any) -> Self:
        """Log₂(2ˣ + 2ʸ)."""
    def logcumsumexp(self, dim: int) -> Self:
        """Running log Σ exp along `dim`, stable."""
    def logdet(self) -> Self:
        """The logarithm of the determinant: NaN where that is negative, but not of complex matrices."""
    def logical_and(self, other: Any) -> Self:
        """True where both are non-zero."""
    def logical_not(self) -> Self:
        """True where x is zero."""
    def logical_or(self, other: Any) -> Self:
        """True where one is non-zero."""
    def logical_xor(self, other: Any) -> Self:
        """True where exactly one is non-zero."""
    def logit(self, eps: Any = None) -> Self:
        """Log(x / (1 − x)), the inverse of sigmoid."""
    def logsumexp(
        self, dim: int | tuple[int, ...] | list[int] | None, keepdim: bool = False
    ) -> Self:
        """log Σ exp(x), stable for large x."""
    def lt(self, other: Any) -> Self:
        """self < other."""
    def lu(self, pivot: bool = True, get_infos: bool = False) -> Any:
        """L and U in one matrix, and the rows that were exchanged: `linalg.lu_factor`."""
    def lu_solve(self, LU_data: Any, LU_pivots: Any) -> Self:
        """X with A X = b, of A as `lu` returns it: `linalg.lu_solve`."""
    def masked_fill(self, mask: Any, value: Any) -> Self:
        """`input` with `value` where the mask is true, in the dtype of `input`."""
    def masked_scatter(self, mask: Any, source: Any) -> Self:
        """`input` with the next element of `source` wherever the mask is true."""
    def masked_select(self, mask: Any) -> Self:
        """The elements where the mask is true, in one dimension."""
    def matmul(self, other: Any) -> Self:
        """Matrix product of all ranks: vectors are lifted to matrices, leading axes broadcast."""
    def matrix_exp(self) -> Self:
        """The exponential of square matrices: Σ Aⁿ / n!."""
    def matrix_power(self, n: int) -> Self:
        """The matrix product of n copies; of the inverse for negative n."""
    def max(self, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        """`max(x)` the largest value, `max(x, dim)` values and indices, `max(x, y)` elementwise."""
    def maximum(self, other: Any) -> Self:
        """The larger, element by element."""
    def mean(
        self,
        dim: int | tuple[int, ...] | list[int] | None = None,
        keepdim: bool = False,
        *,
        dtype: Any = None,
    ) -> Self:
        """Mean over `dim`; integers have none, cast them first."""
    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The middle element (the lower of two); with `dim`, values and indices."""
    def min(self, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        """`min(x)` the smallest value, `min(x, dim)` values and indices, `min(x, y)` elementwise."""
    def minimum(self, other: Any) -> Self:
        """The smaller, element by element."""
    def mm(self, mat2: Any) -> Self:
        """The product of two matrices."""
    def mode(self, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
        """The value that occurs most often along `dim` (the smallest of several), and its last index."""
    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Move dimensions to new places; the others keep their order."""
    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Move dimensions to new places; the others keep their order."""
    def msort(self) -> Self:
        """In order along the first dimension."""
    def mul(self, other: Any) -> Self:
        """self × other."""
    def multiply(self, other: Any) -> Self:
        """self × other."""
    def mv(self, vec: Any) -> Self:
        """The product of a matrix and a vector."""
    def mvlgamma(self, p: int) -> Self:
        """The logarithm of the gamma function of p dimensions."""
    def nan_to_num(self, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Self:
        """Numbers in place of NaN (0) and of the infinities (the largest numbers)."""
    def nanmean(
        self,
        dim: int | tuple[int, ...] | list[int] | None = None,
        keepdim: bool = False,
        *,
        dtype: Any = None,
    ) -> Self:
        """The mean of the elements that are not NaN."""
    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """`median` of the elements that are not NaN."""
    def nanquantile(
        self,
        q: Any,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
    ) -> Self:
        """`quantile` of the elements that are not NaN."""
    def nansum(
        self,
        dim: int | tuple[int, ...] | list[int] | None = None,
        keepdim: bool = False,
        *,
        dtype: Any = None,
    ) -> Self:
        """The sum of the elements that are not NaN."""
    def narrow(self, dim: int, start: Any, length: int) -> Self:
        """`length` slices along a dimension from `start` on: a view."""
    def narrow_copy(self, dim: int, start: Any, length: int) -> Self:
        """`narrow`, as a copy."""
    def ne(self, other: Any) -> Self:
        """self != other."""
    def neg(self) -> Self:
        """−x."""
    def negative(self) -> Self:
        """−x."""
    def nextafter(self, other: Any) -> Self:
        """The next float after self towards other."""
    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """The places of the elements that are not zero: one row each, or an index per dimension."""
    def nonzero_static(self, *, size: int, fill_value: int = -1) -> Self:
        """The first `size` rows of `nonzero`, with rows of `fill_value` after the last."""
    def norm(
        self,
        p: float | str | None = "fro",
        dim: int | tuple[int, ...] | list[int] | None = None,
        keepdim: bool = False,
        dtype: Any = None,
    ) -> Self:
        """(Σ |x|ᵖ)^(1/p) over `dim`: "fro" and None are p = 2; inf the largest, 0 how many are not 0."""
    def not_equal(self, other: Any) -> Self:
        """self != other."""
    def ormqr(self, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Self:
        """Q other, Qᴴ other with `transpose`; other Q, other Qᴴ if not `left`."""
    def outer(self, vec2: Any) -> Self:
        """Outer product of two vectors."""
    def permute(self, *axes_in_order: Any, dims: Any = None) -> Self:
        """Reorder the dimensions."""
    def pinverse(self, rcond: float = 1e-15) -> Self:
        """The pseudo-inverse: `linalg.pinv`."""
    def polygamma(self, n: int) -> Self:
        """The derivative of order n of digamma."""
    def positive(self) -> Self:
        """Itself: +x."""
    def pow(self, exponent: Any) -> Self:
        """x ** exponent: the op with one input if the exponent is a number, else the one with two."""
    def prelu(self, weight: Any) -> Self:
        """x where positive, weight × x elsewhere; one weight, or one per channel (dimension 1)."""
    def prod(
        self,
        dim: int | tuple[int, ...] | list[int] | None = None,
        keepdim: bool = False,
        *,
        dtype: Any = None,
    ) -> Self:
        """Product over `dim`."""
    def put(self, index: Any, source: Any, accumulate: bool = False) -> Self:
        """`input`, seen as flat, with `source` written at `index`, or added with `accumulate`."""
    def qr(self, some: bool = True) -> Factors:
        """Q and R with Q R = input: `linalg.qr`, complete if not `some`."""
    def quantile(
        self,
        q: Any,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
    ) -> Self:
        """The value below which a share `q` (a number or a vector) of the elements lies."""
    def rad2deg(self) -> Self:
        """Radians as degrees."""
    def ravel(self) -> Self:
        """All elements in one dimension: a view if they lie in memory in order, else a copy."""
    def reciprocal(self) -> Self:
        """1/x."""
    def relu(self) -> Self:
        """Max(x, 0)."""
    def remainder(self, other: Any) -> Self:
        """The remainder with the sign of other."""
    def renorm(self, p: float, dim: int, maxnorm: float) -> Self:
        """`input` with the slices along `dim` whose p-norm is larger than `maxnorm` scaled to it."""
    def repeat(self, *sizes: Any, repeats: Any = None) -> Self:
        """Repeat the whole tensor a number of times along each dimension."""
    def repeat_interleave(
        self, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
    ) -> Self:
        """Repeat every element (along `dim`; flat without it), each `repeats` times."""
    def reshape(self, *sizes: Any, shape: Any = None) -> Self:
        """The same elements in another shape; one size may be -1."""
    def reshape_as(self, other: Any) -> Self:
        """The same elements in the shape of `other`."""
    def resolve_conj(self) -> Self:
        """Itself: conjugates and negatives are computed at once here."""
    def resolve_neg(self) -> Self:
        """Itself: conjugates and negatives are computed at once here."""
    def roll(self, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Self:
        """Shift elements along dimensions; elements that leave at one end enter at the other."""
    def rot90(self, k: int = 1, dims: Sequence[int] = (0, 1)) -> Self:
        """Turn the plane of two dimensions by k × 90°, from the first towards the second."""
    def round(self, decimals: float = 0) -> Self:
        """Nearest integer, halves to even; its gradient is zero."""
    def rsqrt(self) -> Self:
        """1/√x."""
    def scatter(
        self, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None
    ) -> Self:
        """`input` with `src` (or `value`) written at `index` along `dim`."""
    def scatter_add(self, dim: int, index: Any, src: Any) -> Self:
        """x with `src` added at `index` along `dim`; repeated places receive every addition."""
    def scatter_reduce(
        self, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
    ) -> Self:
        """`input` with `src` reduced into it at `index` along `dim`: sum, prod, mean, amax or amin."""
    def select(self, dim: int, index: int) -> Self:
        """One slice along a dimension, which is dropped: a view."""
    def select_scatter(self, src: Any, dim: int, index: int) -> Self:
        """A copy of `input` with `src` as its slice at `index` along `dim`."""
    def sgn(self) -> Self:
        """−1, 0 or 1; its gradient is zero."""
    def sigmoid(self) -> Self:
        """1 / (1 + e⁻ˣ)."""
    def sign(self) -> Self:
        """−1, 0 or 1; its gradient is zero."""
    def signbit(self) -> Self:
        """True where the sign is negative, also that of −0.0."""
    def sin(self) -> Self:
        """Sine."""
    def sinc(self) -> Self:
        """Sin(πx) / πx."""
    def sinh(self) -> Self:
        """Hyperbolic sine."""
    def slice_scatter(
        self,
        src: Any,
        dim: int = 0,
        start: int | None = None,
        end: int | None = None,
        step: int = 1,
    ) -> Self:
        """A copy of `input` with `src` as its slices from `start` to `end` along `dim`."""
    def slogdet(self) -> SignLog:
        """The sign of the determinant and the logarithm of its absolute value."""
    def softmax(self, dim: int, dtype: Any = None) -> Self:
        """exp(x) / Σ exp(x) along `dim`, stable for large x."""
    def sort(
        self, dim: int = -1, descending: bool = False, *, stable: bool = True
    ) -> ValuesIndices:
        """Values in order along `dim`, and where each came from; always stable."""
    def sparse_mask(self, mask: SparseTensor) -> SparseTensor:
        """The elements at the places that a sparse tensor stores."""
    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Cut along `dim` into pieces of one size, or of the listed sizes."""
    def split_with_sizes(self, split_sizes: Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Cut along `dim` into pieces of the listed sizes."""
    def sqrt(self) -> Self:
        """√x."""
    def square(self) -> Self:
        """x²."""
    def squeeze(self, dim: int | Sequence[int] | None = None) -> Self:
        """Drop dimensions of length 1: all of them, or those in `dim`."""
    def std(
        self,
        dim: int | tuple[int, ...] | list[int] | bool | None = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Self:
        """Standard deviation over `dim`: the square root of `var`."""
    def stft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Any = None,
        center: bool = True,
        pad_mode: str = "reflect",
        normalized: bool = False,
        onesided: bool | None = None,
        return_complex: bool | None = None,
    ) -> Self:
        """The Fourier transforms of pieces of `n_fft` samples, `hop_length` apart, times a window."""
    def sub(self, other: Any, *, alpha: float = 1) -> Self:
        """self − alpha × other."""
    def subtract(self, other: Any, *, alpha: float = 1) -> Self:
        """self − alpha × other."""
    def sum(
        self,
        dim: int | tuple[int, ...] | list[int] | None = None,
        keepdim: bool = False,
        *,
        dtype: Any = None,
    ) -> Self:
        """Sum over `dim` (one, several, or all)."""
    def sum_to_size(self, *sizes: Any, size: Any = None) -> Self:
        """The sum over the dimensions along which `size` would be repeated to fit."""
    def svd(self, some: bool = True, compute_uv: bool = True) -> SingularV:
        """U, S, V with U diag(S) Vᴴ = input; `linalg.svd` returns Vᴴ."""
    def swapaxes(self, axis0: int, axis1: int) -> Self:
        """Swap two dimensions: NumPy's name for `transpose`."""
    def swapdims(self, dim0: Any, dim1: int | None = None) -> Self:
        """Swap two dimensions. Given one argument, the order of all of them, as NumPy's `transpose`."""
    def t(self) -> Self:
        """The transpose of a matrix; a vector stays as it is."""
    def take(self, index: Any) -> Self:
        """Pick from x seen as flat."""
    def take_along_dim(self, indices: Any, dim: int | None = None) -> Self:
        """Pick along `dim` at indices that broadcast against x; flat if dim is None."""
    def tan(self) -> Self:
        """Tangent."""
    def tanh(self) -> Self:
        """Hyperbolic tangent."""
    def tensor_split(
        self, indices_or_sections: int | Sequence[int], dim: int = 0
    ) -> tuple[Self, ...]:
        """Cut into a number of parts of nearly equal size, or at the given indices."""
    def tile(self, *times: Any, dims: Any = None) -> Self:
        """Repeat the whole tensor along each dimension; missing numbers in front are 1."""
    def to_sparse(
        self, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None
    ) -> Self:
        """The elements that are not 0, as a sparse tensor."""
    def to_sparse_coo(self) -> SparseTensor:
        """`to_sparse` in the layout of coordinates, whatever it was."""
    def to_sparse_csr(self) -> CompressedRows:
        """The elements of a matrix that are not 0, in the layout `sparse_csr`."""
    def topk(
        self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
    ) -> ValuesIndices:
        """The k largest (or smallest) values along `dim` in order, and where each came from."""
    def trace(self) -> Self:
        """The sum of the diagonal of a matrix."""
    def transpose(self, dim0: Any, dim1: int | None = None) -> Self:
        """Swap two dimensions. Given one argument, the order of all of them, as NumPy's `transpose`."""
    def triangular_solve(
        self, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
    ) -> Triangular:
        """X with A X = b, and A; `linalg.solve_triangular` is its new name."""
    def tril(self, diagonal: int = 0) -> Self:
        """The lower triangle of matrices, zero above the given diagonal."""
    def triu(self, diagonal: int = 0) -> Self:
        """The upper triangle of matrices, zero below the given diagonal."""
    def true_divide(self, other: Any, *, rounding_mode: Any = None) -> Self:
        """self / other, rounded with mode "trunc" or "floor"."""
    def trunc(self) -> Self:
        """The integer towards zero; its gradient is zero."""
    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """All slices along a dimension, which is dropped."""
    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """One dimension seen as several; one size may be -1."""
    def unfold(self, dimension: int, size: int, step: int) -> Self:
        """All windows of `size` elements, `step` apart, along a dimension: a view."""
    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """Every value once, in order; also where each element is among them, and how often it occurs."""
    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """Every run of equal values once; also which run each element is in, and how long each is."""
    def unsafe_chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """Cut along `dim` into (at most) `chunks` pieces of equal size."""
    def unsafe_split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Cut along `dim` into pieces of one size, or of the listed sizes."""
    def unsqueeze(self, dim: int) -> Self:
        """Insert a dimension of length 1 at `dim`."""
    def var(
        self,
        dim: int | tuple[int, ...] | list[int] | bool | None = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Self:
        """Variance over `dim`, divided by n − correction (1 unless given; unbiased=False means 0)."""
    def vdot(self, other: Any) -> Self:
        """The inner product of two vectors, the first one conjugated if it is complex."""
    def vsplit(self, indices_or_sections: Any) -> tuple[Self, ...]:
        """Cut along the rows."""
    def where(self, condition: Any, other: Any) -> Self:
        """self where the condition holds, `other` elsewhere."""
    def xlogy(self, other: Any) -> Self:
        """self × log(other), 0 where self is 0."""

class InPlaceMethods:
    def abs_(self) -> Self:
        """`abs`, in place."""
    def absolute_(self) -> Self:
        """`abs`, in place."""
    def acos_(self) -> Self:
        """`acos`, in place."""
    def acosh_(self) -> Self:
        """`acosh`, in place."""
    def add_(self, other: Any, *, alpha: float = 1) -> Self:
        """`add`, in place."""
    def addbmm_(self, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Self:
        """`addbmm`, in place."""
    def addcdiv_(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:
        """`addcdiv`, in place."""
    def addcmul_(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:
        """`addcmul`, in place."""
    def addmm_(self, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Self:
        """`addmm`, in place."""
    def addmv_(self, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Self:
        """`addmv`, in place."""
    def addr_(self, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Self:
        """`addr`, in place."""
    def arccos_(self) -> Self:
        """`acos`, in place."""
    def arccosh_(self) -> Self:
        """`acosh`, in place."""
    def arcsin_(self) -> Self:
        """`asin`, in place."""
    def arcsinh_(self) -> Self:
        """`asinh`, in place."""
    def arctan2_(self, other: Any) -> Self:
        """`atan2`, in place."""
    def arctan_(self) -> Self:
        """`atan`, in place."""
    def arctanh_(self) -> Self:
        """`atanh`, in place."""
    def asin_(self) -> Self:
        """`asin`, in place."""
    def asinh_(self) -> Self:
        """`asinh`, in place."""
    def atan2_(self, other: Any) -> Self:
        """`atan2`, in place."""
    def atan_(self) -> Self:
        """`atan`, in place."""
    def atanh_(self) -> Self:
        """`atanh`, in place."""
    def baddbmm_(self, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Self:
        """`baddbmm`, in place."""
    def bitwise_and_(self, other: Any) -> Self:
        """`bitwise_and`, in place."""
    def bitwise_left_shift_(self, other: Any) -> Self:
        """`bitwise_left_shift`, in place."""
    def bitwise_not_(self) -> Self:
        """`bitwise_not`, in place."""
    def bitwise_or_(self, other: Any) -> Self:
        """`bitwise_or`, in place."""
    def bitwise_right_shift_(self, other: Any) -> Self:
        """`bitwise_right_shift`, in place."""
    def bitwise_xor_(self, other: Any) -> Self:
        """`bitwise_xor`, in place."""
    def ceil_(self) -> Self:
        """`ceil`, in place."""
    def clamp_(self, min: Any = None, max: Any = None) -> Self:
        """`clip`, in place."""
    def clamp_max_(self, max: Any) -> Self:
        """`clamp_max`, in place."""
    def clamp_min_(self, min: Any) -> Self:
        """`clamp_min`, in place."""
    def clip_(self, min: Any = None, max: Any = None) -> Self:
        """`clip`, in place."""
    def conj_physical_(self) -> Self:
        """`conj_physical`, in place."""
    def copysign_(self, other: Any) -> Self:
        """`copysign`, in place."""
    def cos_(self) -> Self:
        """`cos`, in place."""
    def cosh_(self) -> Self:
        """`cosh`, in place."""
    def cumprod_(self, dim: int, *, dtype: Any = None) -> Self:
        """`cumprod`, in place."""
    def cumsum_(self, dim: int, *, dtype: Any = None) -> Self:
        """`cumsum`, in place."""
    def deg2rad_(self) -> Self:
        """`deg2rad`, in place."""
    def digamma_(self) -> Self:
        """`digamma`, in place."""
    def div_(self, other: Any, *, rounding_mode: Any = None) -> Self:
        """`div`, in place."""
    def divide_(self, other: Any, *, rounding_mode: Any = None) -> Self:
        """`div`, in place."""
    def eq_(self, other: Any) -> Self:
        """`eq`, in place."""
    def erf_(self) -> Self:
        """`erf`, in place."""
    def erfc_(self) -> Self:
        """`erfc`, in place."""
    def erfinv_(self) -> Self:
        """`erfinv`, in place."""
    def exp2_(self) -> Self:
        """`exp2`, in place."""
    def exp_(self) -> Self:
        """`exp`, in place."""
    def expm1_(self) -> Self:
        """`expm1`, in place."""
    def fix_(self) -> Self:
        """`trunc`, in place."""
    def float_power_(self, exponent: Any) -> Self:
        """`float_power`, in place."""
    def floor_(self) -> Self:
        """`floor`, in place."""
    def floor_divide_(self, other: Any) -> Self:
        """`floor_divide`, in place."""
    def fmod_(self, other: Any) -> Self:
        """`fmod`, in place."""
    def frac_(self) -> Self:
        """`frac`, in place."""
    def gcd_(self, other: Any) -> Self:
        """`gcd`, in place."""
    def ge_(self, other: Any) -> Self:
        """`ge`, in place."""
    def greater_(self, other: Any) -> Self:
        """`gt`, in place."""
    def greater_equal_(self, other: Any) -> Self:
        """`ge`, in place."""
    def gt_(self, other: Any) -> Self:
        """`gt`, in place."""
    def heaviside_(self, values: Any) -> Self:
        """`heaviside`, in place."""
    def hypot_(self, other: Any) -> Self:
        """`hypot`, in place."""
    def i0_(self) -> Self:
        """`i0`, in place."""
    def igamma_(self, other: Any) -> Self:
        """`igamma`, in place."""
    def igammac_(self, other: Any) -> Self:
        """`igammac`, in place."""
    def index_add_(self, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Self:
        """`index_add`, in place."""
    def index_copy_(self, dim: int, index: Any, source: Any) -> Self:
        """`index_copy`, in place."""
    def index_fill_(self, dim: int, index: Any, value: Any) -> Self:
        """`index_fill`, in place."""
    def index_put_(self, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Self:
        """`index_put`, in place."""
    def index_reduce_(
        self, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
    ) -> Self:
        """`index_reduce`, in place."""
    def lcm_(self, other: Any) -> Self:
        """`lcm`, in place."""
    def ldexp_(self, other: Any) -> Self:
        """`ldexp`, in place."""
    def le_(self, other: Any) -> Self:
        """`le`, in place."""
    def lerp_(self, end: Any, weight: Any) -> Self:
        """`lerp`, in place."""
    def less_(self, other: Any) -> Self:
        """`lt`, in place."""
    def less_equal_(self, other: Any) -> Self:
        """`le`, in place."""
    def lgamma_(self) -> Self:
        """`lgamma`, in place."""
    def log10_(self) -> Self:
        """`log10`, in place."""
    def log1p_(self) -> Self:
        """`log1p`, in place."""
    def log2_(self) -> Self:
        """`log2`, in place."""
    def log_(self) -> Self:
        """`log`, in place."""
    def logical_and_(self, other: Any) -> Self:
        """`logical_and`, in place."""
    def logical_not_(self) -> Self:
        """`logical_not`, in place."""
    def logical_or_(self, other: Any) -> Self:
        """`logical_or`, in place."""
    def logical_xor_(self, other: Any) -> Self:
        """`logical_xor`, in place."""
    def logit_(self, eps: Any = None) -> Self:
        """`logit`, in place."""
    def lt_(self, other: Any) -> Self:
        """`lt`, in place."""
    def masked_fill_(self, mask: Any, value: Any) -> Self:
        """`masked_fill`, in place."""
    def masked_scatter_(self, mask: Any, source: Any) -> Self:
        """`masked_scatter`, in place."""
    def mul_(self, other: Any) -> Self:
        """`mul`, in place."""
    def multiply_(self, other: Any) -> Self:
        """`mul`, in place."""
    def mvlgamma_(self, p: int) -> Self:
        """`mvlgamma`, in place."""
    def nan_to_num_(self, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Self:
        """`nan_to_num`, in place."""
    def ne_(self, other: Any) -> Self:
        """`ne`, in place."""
    def neg_(self) -> Self:
        """`neg`, in place."""
    def negative_(self) -> Self:
        """`neg`, in place."""
    def nextafter_(self, other: Any) -> Self:
        """`nextafter`, in place."""
    def not_equal_(self, other: Any) -> Self:
        """`ne`, in place."""
    def polygamma_(self, input: Any) -> Self:
        """`polygamma`, in place."""
    def pow_(self, exponent: Any) -> Self:
        """`pow`, in place."""
    def put_(self, index: Any, source: Any, accumulate: bool = False) -> Self:
        """`put`, in place."""
    def rad2deg_(self) -> Self:
        """`rad2deg`, in place."""
    def reciprocal_(self) -> Self:
        """`reciprocal`, in place."""
    def relu_(self) -> Self:
        """`relu`, in place."""
    def remainder_(self, other: Any) -> Self:
        """`remainder`, in place."""
    def renorm_(self, p: float, dim: int, maxnorm: float) -> Self:
        """`renorm`, in place."""
    def round_(self, decimals: float = 0) -> Self:
        """`round`, in place."""
    def rsqrt_(self) -> Self:
        """`rsqrt`, in place."""
    def scatter_(
        self, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None
    ) -> Self:
        """`scatter`, in place."""
    def scatter_add_(self, dim: int, index: Any, src: Any) -> Self:
        """`scatter_add`, in place."""
    def scatter_reduce_(
        self, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
    ) -> Self:
        """`scatter_reduce`, in place."""
    def sgn_(self) -> Self:
        """`sign`, in place."""
    def sigmoid_(self) -> Self:
        """`sigmoid`, in place."""
    def sign_(self) -> Self:
        """`sign`, in place."""
    def sin_(self) -> Self:
        """`sin`, in place."""
    def sinc_(self) -> Self:
        """`sinc`, in place."""
    def sinh_(self) -> Self:
        """`sinh`, in place."""
    def sqrt_(self) -> Self:
        """`sqrt`, in place."""
    def square_(self) -> Self:
        """`square`, in place."""
    def sub_(self, other: Any, *, alpha: float = 1) -> Self:
        """`sub`, in place."""
    def subtract_(self, other: Any, *, alpha: float = 1) -> Self:
        """`sub`, in place."""
    def tan_(self) -> Self:
        """`tan`, in place."""
    def tanh_(self) -> Self:
        """`tanh`, in place."""
    def tril_(self, diagonal: int = 0) -> Self:
        """`tril`, in place."""
    def triu_(self, diagonal: int = 0) -> Self:
        """`triu`, in place."""
    def true_divide_(self, other: Any, *, rounding_mode: Any = None) -> Self:
        """`div`, in place."""
    def trunc_(self) -> Self:
        """`trunc`, in place."""
    def xlogy_(self, other: Any) -> Self:
        """`xlogy`, in place."""
