"""max, argmax, running extremes, sums and sorts along an axis: as in NumPy, ties and NaN alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from tests.compiler.native import agrees, drawn, gradients_agree, with_special
from tests.quick import some_quick

SHAPES = [(1,), (7,), (17,), (1003,), (5, 300), (300, 5), (3, 17, 4), (2, 1, 9)]
DTYPES = [np.float32, np.float64, np.int64, np.int32, np.uint8, np.bool_]  # three for most shapes


def arrays(shape: tuple[int, ...], dtype: Any) -> list[Any]:
    plain = drawn(*shape, dtype=dtype)
    return [plain, with_special(plain)] if np.dtype(dtype).kind == "f" else [plain]


CASES = some_quick([(s, d) for s in SHAPES for d in DTYPES[: 6 if len(s) == 2 else 3]], 5)


@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_along_every_axis(shape: tuple[int, ...], dtype: Any) -> None:
    def function(x: Any) -> Any:
        found = [x.argmax(), x.argmin(), x.median()]
        for axis, length in enumerate(shape):
            found += [*x.max(axis), *x.min(axis), x.argmin(axis, keepdim=True)]
            found += [gw.cumsum(x, axis), *x.cummax(axis), *x.cummin(axis)]
            found += [*x.median(axis), *gw.kthvalue(x, length // 2 + 1, axis)]
        return tuple(found)

    for x in arrays(shape, dtype):
        agrees(function, x)


@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_sorting_along_every_axis(shape: tuple[int, ...], dtype: Any) -> None:
    def function(x: Any) -> Any:
        found: list[Any] = []
        for axis, length in enumerate(shape):
            found += [*x.sort(axis), *x.sort(axis, True)]
            for k in sorted({1, min(3, length), min(40, length), length}):
                found += [*x.topk(k, axis), *x.topk(k, axis, False)]
        return tuple(found)

    for x in arrays(shape, dtype):
        agrees(function, x)


def test_a_million() -> None:
    x = drawn(1000003, dtype=np.float32)
    x[500_000] = 1e6
    agrees(lambda x: (x.argmax(), x.argmin(), *x.max(0), *x.topk(5)), x)
    agrees(lambda x: gw.cumsum(x, 0), x.astype(np.float64))


@pytest.mark.parametrize("layout", ["transposed", "reversed", "broadcast"])
def test_any_layout(layout: str) -> None:
    def laid_out(x: Any) -> Any:
        if layout == "transposed":
            return x.T
        return x.flip(1) if layout == "reversed" else x[:1].expand(6, 40)

    def function(x: Any) -> Any:
        x = laid_out(x)
        return (*x.max(0), *x.min(1), gw.cumsum(x, 0), gw.cumsum(x, 1), *x.sort(0), *x.sort(1))

    agrees(function, drawn(33, 40))


def test_gradients() -> None:
    distinct = np.random.default_rng(0).permutation(7 * 40).reshape(7, 40) / 10
    weights = drawn(7, 40, seed=1)  # so that an element in the wrong place would tell

    def function(x: Any) -> Any:
        found = []
        for axis in (0, 1):
            found += [x.max(axis, True)[0], x.cummin(axis)[0], gw.cumsum(x, axis), x.sort(axis)[0]]
            found += [x.topk(2, axis)[0], x.median(axis, True)[0]]
        wide = [gw.tensor(weights[tuple(slice(n) for n in y.shape)]) for y in found]
        return gw.stack([(y * w).sum() for y, w in zip(found, wide, strict=True)])

    gradients_agree(function, distinct)
    gradients_agree(lambda x: x.max(1), drawn(4, 5000))  # more than a comparison is made for


def test_the_first_of_equal_ones() -> None:
    x = np.zeros((3, 100))
    x[:, [20, 60, 61]] = 1
    values, first = agrees(lambda x: x.max(1), x)
    assert values.tolist() == [1] * 3 and first.tolist() == [20] * 3


@pytest.mark.parametrize("right", [False, True])
def test_searching(right: bool) -> None:
    ordered = np.array([*np.sort(drawn(40)), np.inf, np.nan, np.nan])
    values = np.array([*drawn(30, seed=1), *ordered[:5], np.nan, np.inf, -np.inf])
    agrees(lambda s, v: gw.searchsorted(s, v, right=right), ordered, values)
    agrees(lambda s: gw.searchsorted(s, 3.0, right=right), ordered)
    rows = np.sort(drawn(3, 9), axis=1)
    agrees(lambda s, v: gw.searchsorted(s, v, right=right), rows, drawn(3, 4, seed=1))
    agrees(lambda s, v: gw.bucketize(v, s, right=right), np.arange(9), drawn(5, 6))
