"""Products of matrices and tensors, under all of PyTorch's names for them, and einsum."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import held_by, int64, result_dtype
from gradwalk.ops.core.factors_first import factors_first
from gradwalk.ops.core.halves import autocast_as_one, rounds_once
from gradwalk.ops.core.op import OpError, Shape, define
from gradwalk.ops.core.public import other_names, public
from gradwalk.ops.core.signature import OperandError
from gradwalk.ops.elementwise.complex_numbers import conj
from gradwalk.ops.reduce.reduction import sum
from gradwalk.ops.shape.rearranging import diagonal, diagonal_op
from gradwalk.ops.shape.reshaping import (
    broadcast_to,
    cast,
    normal_axes,
    permute,
    permute_to,
    reshape,
    unsqueeze,
    unviewed,
)


def _matmul_shape(x: Shape, y: Shape) -> Shape:
    if x[-1] != y[-2]:
        raise OperandError(f"matmul of shapes {x} and {y}")
    return (*np.broadcast_shapes(x[:-2], y[:-2]), x[-2], y[-1])


def _matmul_forward(x: Any, y: Any) -> Any:
    if x.ndim > 2 and y.ndim == 2 and x.size:  # one large product instead of many small ones
        return np.matmul(x.reshape(-1, x.shape[-1]), y).reshape(*x.shape[:-1], y.shape[-1])
    return np.matmul(x, y)


def _rows(x: Any) -> Any:
    """All leading axes merged into one."""
    if len(x.shape) == 2:
        return x
    return reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))


def _times(x: Any, g: Any, y_shape: Shape) -> Any:
    """xᵀ g; if all matrices share one y, a single product, which also sums over them."""
    same_lead = x.shape[:-2] == g.shape[:-2]
    return _rows(x).mT @ _rows(g) if len(y_shape) == 2 and same_lead else x.mT @ g


# For operands of at least two dimensions; the function `matmul` lifts vectors first.
matmul_op = define(
    "matmul",
    _matmul_forward,
    vjp=[lambda g, y: g @ y.mT, lambda g, x, y_shape: _times(x, g, y_shape)],
    shape=_matmul_shape,
    multilinear=True,
    broadcasts=True,
    promotes=True,
    symbol="@",
)


@public(namespaces="gradwalk linalg", method=True)
def matmul(input: Any, other: Any) -> Any:
    """Matrix product of all ranks: vectors are lifted to matrices, leading axes broadcast.

    >>> import gradwalk as gw
    >>> gw.matmul(gw.tensor([[1.0, 2.0], [3.0, 4.0]]), gw.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    if not hasattr(input, "ndim") or not hasattr(other, "ndim"):
        return matmul_op(input, other)  # which raises
    if not input.ndim or not other.ndim:
        raise OperandError(
            f"matmul needs at least 1-d operands, got shapes {tuple(input.shape)} and "
            f"{tuple(other.shape)}; use * to scale by a number"
        )
    left = input if input.ndim > 1 else reshape(input, shape=(1, *input.shape))
    right = other if other.ndim > 1 else reshape(other, shape=(*other.shape, 1))
    out = matmul_op(left, right)
    if left is input and right is other:
        return out
    rows = out.shape[-2:-1] if left is input else ()
    columns = out.shape[-1:] if right is other else ()
    return unviewed(reshape(out, shape=(*out.shape[:-2], *rows, *columns)))


def _product(name: str, x: Any, y: Any, left: int, right: int) -> Any:
    """`matmul` of two ranks only; it would broadcast or lift other operands."""
    if x.ndim != left or y.ndim != right:
        raise OperandError(
            f"{name} takes a {left}-d and a {right}-d tensor, got shapes {tuple(x.shape)} and "
            f"{tuple(y.shape)}; matmul takes all ranks"
        )
    return matmul(x, y)


@public(method=True)
@autocast_as_one
def dot(input: Any, tensor: Any) -> Any:
    """Inner product of two vectors."""
    return _product("dot", input, tensor, 1, 1)


@public(names="outer ger", method=True)
def outer(input: Any, vec2: Any) -> Any:
    """Outer product of two vectors."""
    if input.ndim != 1 or vec2.ndim != 1:
        raise OperandError(
            f"outer takes two vectors, got shapes {tuple(input.shape)}, {tuple(vec2.shape)}"
        )
    return unsqueeze(input, 1) * vec2


@public(method=True)
def mm(input: Any, mat2: Any) -> Any:
    """The product of two matrices."""
    return _product("mm", input, mat2, 2, 2)


@public(method=True)
@autocast_as_one
def mv(input: Any, vec: Any) -> Any:
    """The product of a matrix and a vector."""
    return _product("mv", input, vec, 2, 1)


@public(method=True)
def bmm(input: Any, mat2: Any) -> Any:
    """The products of two equally long batches of matrices."""
    if input.ndim == mat2.ndim == 3 and input.shape[0] != mat2.shape[0]:
        raise OperandError(
            f"bmm needs batches of one length, got {input.shape[0]} and {mat2.shape[0]}; "
            "matmul broadcasts"
        )
    return _product("bmm", input, mat2, 3, 3)


@public(method=True)
@autocast_as_one
def vdot(input: Any, other: Any) -> Any:
    """The inner product of two vectors, the first one conjugated if it is complex."""
    return _product("vdot", conj(input), other, 1, 1)


@public(method=True)
def inner(input: Any, other: Any) -> Any:
    """Sums of products over the last dimension of both.

    >>> import gradwalk as gw
    >>> gw.inner(gw.tensor([1.0, 2.0]), gw.tensor([[3.0, 4.0], [5.0, 6.0]]))
    tensor([11., 17.])
    """
    if not input.ndim or not other.ndim:
        return input * other
    if input.ndim == other.ndim == 1:
        return dot(input, other)
    return tensordot(input, other, ([-1], [-1]))


def _added(input: Any, product: Any, beta: float, alpha: float) -> Any:
    dtype = result_dtype([input, product])
    beta, alpha = held_by(dtype, beta), held_by(dtype, alpha)  # 0.5 × an integer matrix is 0
    if alpha != 1:
        product = product * alpha
    if beta == 0:  # as in BLAS, also where the input is not finite
        return product
    return (input if beta == 1 else input * beta) + product


@public(method=True, inplace=True)
@factors_first("beta", "alpha")
@autocast_as_one
@rounds_once
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta × input + alpha × mat1 @ mat2."""
    return _added(input, mm(mat1, mat2), beta, alpha)


@public(method=True, inplace=True)
@factors_first("beta", "alpha")
@autocast_as_one
@rounds_once
def addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta × input + alpha × mat @ vec."""
    return _added(input, mv(mat, vec), beta, alpha)


@public(method=True, inplace=True)
@factors_first("beta", "alpha")
@autocast_as_one
@rounds_once
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta × input + alpha × batch1 @ batch2."""
    return _added(input, bmm(batch1, batch2), beta, alpha)


@public(method=True, inplace=True)
@factors_first("beta", "alpha")
@autocast_as_one
@rounds_once
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta × input + alpha × the sum of the products in a batch."""
    products = bmm(batch1, batch2)
    return _added(input, sum(products, 0, dtype=products.dtype), beta, alpha)


@public(method=True)
def kron(input: Any, other: Any) -> Any:
    """Every element of `input` times the whole of `other`, laid out as blocks."""
    ndim = max(input.ndim, other.ndim)
    outer = (1,) * (ndim - input.ndim) + tuple(input.shape)
    block = (1,) * (ndim - other.ndim) + tuple(other.shape)
    left = reshape(input, shape=tuple(n for length in outer for n in (length, 1)))
    right = reshape(other, shape=tuple(n for length in block for n in (1, length)))
    shape = tuple(a * b for a, b in zip(outer, block, strict=True))
    return unviewed(reshape(left * right, shape=shape))


@public()
@other_names(axes="dims")
def tensordot(a: Any, b: Any, dims: int | Sequence[Any] = 2) -> Any:
    """Sums of products over pairs of dimensions: the last `dims` of a and the first of b, or lists.

    >>> import gradwalk as gw
    >>> gw.tensordot(gw.ones(2, 3, 4), gw.ones(3, 4, 5)).shape
    (2, 5)
    """
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise OperandError(f"tensordot: {dims} dimensions of {a.ndim} and {b.ndim}")
        left, right = tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims))
    else:
        left, right = (normal_axes(d, t.ndim) for d, t in zip(dims, (a, b), strict=True))
    # A dimension of length 1 broadcasts: sum over the longer one first.
    ones_a = tuple(i for i, j in zip(left, right) if a.shape[i] != b.shape[j] == 1)
    ones_b = tuple(j for i, j in zip(left, right) if b.shape[j] != a.shape[i] == 1)
    a = sum(a, ones_a, keepdim=True, dtype=a.dtype) if ones_a else a
    b = sum(b, ones_b, keepdim=True, dtype=b.dtype) if ones_b else b
    if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise OperandError(
            f"tensordot: dimensions {left} of {tuple(a.shape)} do not fit {right} of "
            f"{tuple(b.shape)}"
        )
    kept_a = tuple(i for i in range(a.ndim) if i not in left)
    kept_b = tuple(i for i in range(b.ndim) if i not in right)
    inside = math.prod(a.shape[i] for i in left)
    shape_a, shape_b = tuple(a.shape[i] for i in kept_a), tuple(b.shape[i] for i in kept_b)
    rows = reshape(permute_to(a, kept_a + left), shape=(math.prod(shape_a), inside))
    columns = reshape(permute_to(b, kept_b + right), shape=(math.prod(shape_b), inside))
    return unviewed(reshape(matmul(rows, columns.mT), shape=(*shape_a, *shape_b)))


@public(method=True)
def trace(input: Any) -> Any:
    """The sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise OperandError(f"trace takes a matrix, not shape {tuple(input.shape)}")
    return sum(diagonal(input))


def _linear_forward(x: Any, weight: Any, bias: Any) -> Any:
    out = _matmul_forward(x, weight.mT)
    out += bias
    return out


# x Wᵀ + b in one node: one buffer forward, and dW as one product over all leading axes.
linear_op = define(
    "linear",
    _linear_forward,
    vjp=[
        lambda g, weight: g @ weight,
        lambda g, x: _rows(g).mT @ _rows(x),
        lambda g: sum(g, tuple(range(len(g.shape) - 1))),
    ],
    shape=lambda x, weight, bias: (*x[:-1], weight[0]),
    promotes=True,
    expand=lambda x, weight, bias: x @ weight.mT + bias,
    on_complex=True,
)


@public(out=False)
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """x Wᵀ + b, for x of any leading shape; `weight` is (out features, in features)."""
    if bias is None:
        return matmul(input, weight.mT)
    if input.ndim == 1:
        out = linear_op(reshape(input, shape=(1, *input.shape)), weight, bias)
        return unviewed(reshape(out, shape=(weight.shape[0],)))
    return linear_op(input, weight, bias)


# -- einsum ------------------------------------------------------------------------------------


def _terms(equation: str) -> tuple[list[str], str]:
    left, out = equation.split("->")
    return left.split(","), out


def _einsum_rule(
    g: Any, xs: tuple[Any, ...], xs_shape: tuple[Shape, ...], position: int, equation: str
) -> Any:
    """Swap roles: g and the other operands in, this operand's letters out."""
    terms, out = _terms(equation)
    mine, shape = terms[position], xs_shape[position]
    others = [(t, x) for i, (t, x) in enumerate(zip(terms, xs, strict=True)) if i != position]
    known = set(out).union(*(t for t, _ in others))
    kept = "".join(c for c in mine if c in known)
    swapped = ",".join([out, *(t for t, _ in others)]) + "->" + kept
    contribution = einsum_op(g, *(x for _, x in others), equation=swapped)
    # A letter that only this operand has was summed over, and one that has length 1 in the others
    # was broadcast: the gradient is constant along it.
    left = iter(contribution.shape)
    lifted = tuple(next(left) if c in known else 1 for c in mine)
    full = tuple(n if m == 1 else m for m, n in zip(lifted, shape, strict=True))
    return broadcast_to(contribution if kept == mine else reshape(contribution, shape=lifted), full)


def _einsum_shape(*shapes: Shape, equation: str) -> Shape:
    terms, out = _terms(equation)
    size: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, n in zip(term, shape, strict=True):
            if size.get(letter, 1) == 1:
                size[letter] = n
    return tuple(size[c] for c in out)


def _einsum_forward(*xs: Any, equation: str) -> Any:
    out = np.einsum(equation, *xs, optimize=len(xs) > 1)
    # NumPy may return a view of a single operand, which the graph would not know as a view.
    return out.copy() if len(xs) == 1 and out.base is not None else out


# `equation` is in normal form: no ellipsis, an explicit output, no letter twice in one term.
einsum_op = define(
    "einsum",
    _einsum_forward,
    vjp=[_einsum_rule],
    shape=_einsum_shape,
    multilinear=True,
    broadcasts=True,
    promotes=True,
)


@public()
def einsum(equation: Any, *operands: Any) -> Any:
    """Einstein summation: `einsum("ij,jk->ik", x, y)` is the matrix product.

    So is `einsum(x, [0, 1], y, [1, 2], [0, 2])`: numbers below 52 instead of letters, and `...`.

    >>> import gradwalk as gw
    >>> gw.einsum("ii->", gw.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    if not isinstance(equation, str):
        equation, operands = _from_lists((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    terms, out = _normal_equation(equation, operands)
    if len(terms) == 1 and set(terms[0]) == set(out):
        return _rearranged(terms[0], out, operands[0])
    tensors = list(operands)
    for i, term in enumerate(terms):
        others = "".join([*terms[:i], *terms[i + 1 :], out])
        if tensors[i].dtype.kind in "iub" and not set(term) <= set(others):
            tensors[i] = cast(tensors[i], dtype=int64)  # a sum over one operand, as in `sum`
        terms[i], tensors[i] = _without_repeats(term, tensors[i], terms, out)
    return einsum_op(*tensors, equation=",".join(terms) + "->" + out)


# The letters of the dimensions 0 to 51: in the order in which an implicit result has them.
_LABELS = string.ascii_uppercase + string.ascii_lowercase


def _from_lists(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation and the operands of a call with a list of dimensions after each operand."""
    operands, lists = given[: len(given) // 2 * 2 : 2], given[1::2]
    known = [*lists, *given[len(operands) * 2 :]]
    if any(isinstance(dims, str) or not hasattr(dims, "__len__") for dims in known):
        raise TypeError("einsum takes an equation, or a list of dimensions after each operand")
    for dim in (d for dims in known for d in dims if d is not Ellipsis):
        if not 0 <= dim < len(_LABELS):
            raise OperandError(f"einsum: a dimension in a list is 0 to 51, or ..., not {dim}")
    words = ["".join("..." if d is Ellipsis else _LABELS[d] for d in k) for k in known]
    out = f"->{words[-1]}" if len(words) > len(operands) else ""
    return ",".join(words[: len(operands)]) + out, operands


def _rearranged(term: str, out: str, x: Any) -> Any:
    """One operand of which nothing is summed, as a view: its dimensions permuted, or diagonals."""
    letters = list(term)
    for letter in out:
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            if x.shape[first] != x.shape[second]:
                raise OperandError(
                    f"einsum: '{letter}' is {x.shape[first]} and {x.shape[second]} long"
                )
            x = diagonal_op(x, offset=0, axes=(first, second))  # it becomes the last dimension
            letters = [c for i, c in enumerate(letters) if i not in (first, second)] + [letter]
    return permute(x, axes=tuple(letters.index(letter) for letter in out))


def _normal_equation(equation: str, operands: tuple[Any, ...]) -> tuple[list[str], str]:
    text = equation.replace(" ", "")
    left, arrow, out = text.partition("->")
    strange = set((left + out).replace("...", "")) - {*string.ascii_letters, ","}
    if strange:
        raise OperandError(f"einsum '{equation}': a dimension is a letter, not {strange.pop()!r}")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise OperandError(
            f"einsum '{equation}' names {len(terms)} operand(s) but got {len(operands)}"
        )
    free = [c for c in string.ascii_letters if c not in text]
    most = 0
    for i, (term, x) in enumerate(zip(terms, operands, strict=True)):
        named = len(term.replace("...", ""))
        rest = x.ndim - named
        if "..." in term and rest >= 0:
            terms[i] = term.replace("...", "".join(free[:rest][::-1]))
            most = rest if rest > most else most
        elif rest:
            raise OperandError(
                f"einsum '{equation}': '{term}' does not fit operand {i + 1} of shape "
                f"{tuple(x.shape)}"
            )
    dots = "".join(free[:most][::-1])
    if not arrow:
        joined = "".join(terms)
        out = dots + "".join(
            sorted(c for c in set(joined) if joined.count(c) == 1 and c not in dots)
        )
    out = out.replace("...", dots)
    unknown = [c for c in out if c not in "".join(terms)]
    if unknown or len(set(out)) != len(out):
        raise OperandError(f"einsum '{equation}': bad output '{out}'")
    return terms, out


def _without_repeats(term: str, x: Any, terms: list[str], out: str) -> tuple[str, Any]:
    """Turn a diagonal ("ii") into a sum over a masked second letter ("ij", zero off i = j)."""
    from gradwalk.ops.elementwise.choice import where

    used = set("".join(terms)) | set(out)
    letters: list[str] = []
    for axis, letter in enumerate(term):
        if letter in letters:
            first = letters.index(letter)
            if x.shape[first] != x.shape[axis]:
                raise OperandError(
                    f"einsum: '{letter}' is {x.shape[first]} and {x.shape[axis]} long"
                )
            shape = [1] * x.ndim
            shape[first] = shape[axis] = x.shape[axis]
            x = where(np.eye(x.shape[axis], dtype=bool).reshape(shape), x, 0)
            letter = next((c for c in string.ascii_letters if c not in used), "")
            if not letter:
                raise OpError("einsum: out of letters")
            used.add(letter)
        letters.append(letter)
    return "".join(letters), x
