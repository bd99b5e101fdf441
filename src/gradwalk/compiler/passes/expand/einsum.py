"""einsum in other ops: matrix products of two operands at a time.

The letters of two operands are of four kinds:

    batch     in both, and asked for        the leading dimensions of the product
    left      in the first only             its rows
    right     in the second only            its columns
    inner     in both, and not asked for    what is summed over

Both are permuted to (batch..., left, inner) and (batch..., inner, right) and multiplied; the result
is permuted to the order that was asked for. More than two are multiplied in NumPy's order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from gradwalk.ops.core.dtypes import is_floating
from gradwalk.ops.elementwise.arithmetic import mul
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.reduce.reduction import sum_op
from gradwalk.ops.shape.reshaping import cast, permute, reshape


class LabeledArray(NamedTuple):
    """An array with a letter for each of its dimensions."""

    letters: str
    array: Any

    @property
    def lengths(self) -> dict[str, int]:
        """How long each letter's dimension is."""
        return dict(zip(self.letters, self.array.shape, strict=True))


def einsum_definition(*xs: Any, equation: str) -> Any:
    """The sum of products of an equation in normal form."""
    left, out = equation.split("->")
    waiting = _without_ones([LabeledArray(t, x) for t, x in zip(left.split(","), xs, strict=True)])
    dtype = np.result_type(*(x.dtype for x in xs))
    for chosen in _path(waiting, out):
        operands = [waiting[i] for i in chosen]
        waiting = [each for i, each in enumerate(waiting) if i not in chosen]
        waiting.append(_together(operands, out, waiting))
    (product,) = waiting
    result = _ordered(_summed(product, out), out).array
    return result if result.dtype == dtype else cast(result, dtype=dtype)


def _without_ones(operands: list[LabeledArray]) -> list[LabeledArray]:
    """Drop the dimensions of length 1 that are longer in another operand: they broadcast."""
    longest: dict[str, int] = {}
    for each in operands:
        for letter, length in each.lengths.items():
            longest[letter] = max(length, longest.get(letter, 1))
    result = []
    for letters, array in operands:
        kept = [
            (c, n) for c, n in zip(letters, array.shape, strict=True) if n == longest[c] or n != 1
        ]
        shape = tuple(n for _, n in kept)
        array = array if shape == array.shape else reshape(array, shape=shape)
        result.append(LabeledArray("".join(c for c, _ in kept), array))
    return result


def _path(operands: list[LabeledArray], out: str) -> list[tuple[int, ...]]:
    """The operands to multiply, one pair after the other; results go to the end of the list."""
    if len(operands) < 3:
        return [tuple(range(len(operands)))] if len(operands) == 2 else []
    nothing = np.zeros(())
    equation = ",".join(each.letters for each in operands) + "->" + out
    stand_ins = [np.broadcast_to(nothing, each.array.shape) for each in operands]
    return np.einsum_path(equation, *stand_ins, optimize="greedy")[0][1:]


def _together(operands: list[LabeledArray], out: str, others: list[LabeledArray]) -> LabeledArray:
    """The product of some operands, with the letters that are still needed."""
    first, *rest = operands
    for position, second in enumerate(rest):
        wanted = set(out).union(*(each.letters for each in [*rest[position + 1 :], *others]))
        # The rows should come first in the result: then it needs no permutation.
        turned = _rows_place(second, first, out) < _rows_place(first, second, out)
        pair = (second, first) if turned else (first, second)
        first = _product(*pair, wanted)
    return first


def _rows_place(x: LabeledArray, y: LabeledArray, out: str) -> int:
    """The position in the result of the first letter that only x has."""
    return min((out.index(c) for c in x.letters if c in out and c not in y.letters), default=0)


def _product(x: LabeledArray, y: LabeledArray, wanted: set[str]) -> LabeledArray:
    x, y = (_summed(a, wanted.union(b.letters)) for a, b in ((x, y), (y, x)))
    batch = [c for c in x.letters if c in y.letters and c in wanted]
    inner = [c for c in x.letters if c in y.letters and c not in wanted]
    left = [c for c in x.letters if c not in y.letters]
    right = [c for c in y.letters if c not in x.letters]
    lengths = {**x.lengths, **y.lengths}
    floats = is_floating(x.array.dtype) and is_floating(y.array.dtype)
    if not inner or not floats or 0 in lengths.values():
        letters = [*batch, *left, *right, *inner]
        product = mul(_spread(x, letters), _spread(y, letters))
        return _summed(LabeledArray("".join(letters), product), wanted)

    def lengths_of(letters: list[str]) -> tuple[int, ...]:
        return tuple(lengths[c] for c in letters)

    lead, rows, columns = lengths_of(batch), lengths_of(left), lengths_of(right)
    count = math.prod(lengths_of(inner))
    first = _ordered(x, [*batch, *left, *inner]).array
    second = _ordered(y, [*batch, *inner, *right]).array
    product = matmul_op(
        reshape(first, shape=(*lead, math.prod(rows), count)),
        reshape(second, shape=(*lead, count, math.prod(columns))),
    )
    return LabeledArray(
        "".join([*batch, *left, *right]), reshape(product, shape=(*lead, *rows, *columns))
    )


def _summed(x: LabeledArray, wanted: Iterable[str]) -> LabeledArray:
    """Sum over the letters that are not wanted."""
    axis = tuple(i for i, c in enumerate(x.letters) if c not in wanted)
    if not axis:
        return x
    total = sum_op(x.array, axis=axis, keepdim=False)
    return LabeledArray("".join(c for c in x.letters if c in wanted), total)


def _ordered(x: LabeledArray, letters: Iterable[str]) -> LabeledArray:
    order = "".join(letters)
    axes = tuple(x.letters.index(c) for c in order)
    in_order = axes == tuple(range(len(axes)))
    return LabeledArray(order, x.array if in_order else permute(x.array, axes=axes))


def _spread(x: LabeledArray, letters: list[str]) -> Any:
    """With a dimension for each of these letters, of length 1 where x has none."""
    own = _ordered(x, [c for c in letters if c in x.letters]).array
    shape = tuple(x.lengths.get(c, 1) for c in letters)
    return own if own.shape == shape else reshape(own, shape=shape)
