"""Matrix products and what is made of them."""

from __future__ import annotations

import math
import string
from typing import Any

import numpy as np

from gradwalk.ops.core.op import OpError, Shape, define
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.arithmetic import add, mul
from gradwalk.ops.reduce.reduction import sum
from gradwalk.ops.shape.reshaping import broadcast_to, reshape


def _matmul_shape(x: Shape, y: Shape) -> Shape:
    if x[-1] != y[-2]:
        raise ValueError(f"matmul of shapes {x} and {y}")
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
    """xᵀ g; where all matrices met the same y, as one product, which is also their sum."""
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
        raise ValueError(
            f"matmul needs at least 1-d operands, got shapes {tuple(input.shape)} and "
            f"{tuple(other.shape)}; use * to scale by a number"
        )
    left, right = input, other
    if input.ndim == 1:
        left = reshape(input, shape=(1, *input.shape))
    if other.ndim == 1:
        right = reshape(other, shape=(*other.shape, 1))
    out = matmul_op(left, right)
    if input.ndim == 1 and other.ndim == 1:
        return reshape(out, shape=())
    if input.ndim == 1:
        return reshape(out, shape=(*out.shape[:-2], out.shape[-1]))
    if other.ndim == 1:
        return reshape(out, shape=out.shape[:-1])
    return out


@public(method=True)
def dot(input: Any, tensor: Any) -> Any:
    """Inner product of two vectors."""
    if input.ndim != 1 or tensor.ndim != 1:
        raise ValueError(
            f"dot takes two vectors, got shapes {tuple(input.shape)}, {tuple(tensor.shape)}"
        )
    return matmul(input, tensor)


@public(names="outer ger", method=True)
def outer(input: Any, vec2: Any) -> Any:
    """Outer product of two vectors."""
    if input.ndim != 1 or vec2.ndim != 1:
        raise ValueError(
            f"outer takes two vectors, got shapes {tuple(input.shape)}, {tuple(vec2.shape)}"
        )
    return mul(reshape(input, shape=(*input.shape, 1)), vec2)


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
    expand=lambda x, weight, bias: add(x @ weight.mT, bias),
)


@public()
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """x Wᵀ + b, for x of any leading shape; `weight` is (out features, in features)."""
    if bias is None:
        return matmul(input, weight.mT)
    if input.ndim == 1:
        out = linear_op(reshape(input, shape=(1, *input.shape)), weight, bias)
        return reshape(out, shape=(weight.shape[0],))
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
    # A letter that only this operand has was summed away, and one that the others have with
    # length 1 was broadcast: its gradient is the same all along.
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
    # Of one operand NumPy may return a view; a view that is not recorded as one.
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
def einsum(equation: str, *operands: Any) -> Any:
    """Einstein summation: `einsum("ij,jk->ik", x, y)` is the matrix product.

    >>> import gradwalk as gw
    >>> gw.einsum("ii->", gw.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    terms, out = _normal_equation(equation, operands)
    tensors = list(operands)
    for i, term in enumerate(terms):
        terms[i], tensors[i] = _without_repeats(term, tensors[i], terms, out)
    return einsum_op(*tensors, equation=",".join(terms) + "->" + out)


def _normal_equation(equation: str, operands: tuple[Any, ...]) -> tuple[list[str], str]:
    text = equation.replace(" ", "")
    left, arrow, out = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ValueError(
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
            raise ValueError(
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
        raise ValueError(f"einsum '{equation}': bad output '{out}'")
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
                raise ValueError(f"einsum: '{letter}' is {x.shape[first]} and {x.shape[axis]} long")
            shape = [1] * x.ndim
            shape[first] = shape[axis] = x.shape[axis]
            x = where(np.eye(x.shape[axis], dtype=bool).reshape(shape), x, 0)
            letter = next((c for c in string.ascii_letters if c not in used), "")
            if not letter:
                raise OpError("einsum: out of letters")
            used.add(letter)
        letters.append(letter)
    return "".join(letters), x
