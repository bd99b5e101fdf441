"""Writes to a part of an array: slices, masks, index arrays, diagonals, views; and in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from tests.compiler.backends.llvm.test_native_ops import in_numpy
from tests.compiler.native import agrees, drawn, gradients_agree

ROWS = gw.tensor([2, 0, 2])
COLUMNS = gw.tensor([1, 1, -1])


def written(index: Any, number: float | None = None) -> Any:
    """A function that writes a number, or its second argument, to x[index]."""

    def function(x: Any, *value: Any) -> Any:
        x = x * 2
        x[index] = value[0] if value else number
        return x

    return function


def entries(compiled: Any) -> list[Any]:
    (specializations,) = compiled.specializations.values()
    return list(specializations[-1].executable.plan.entries)


SLICES: list[tuple[Any, tuple[int, ...]]] = [
    ((slice(1, 3), slice(None, None, 2)), (2, 3)),
    (0, (6,)),
    ((slice(None), -1), ()),
    (slice(None, None, -1), (1, 5, 6)),
    ((..., 3), (5,)),
    ((slice(1, 1),), (1, 6)),
    ((slice(None), None, slice(2)), (5, 1, 2)),
]


@pytest.mark.parametrize(("index", "shape"), SLICES, ids=str)
def test_slices(index: Any, shape: tuple[int, ...]) -> None:
    for dtype in (np.float32, np.float64, np.int64):
        agrees(written(index), drawn(5, 6, dtype=dtype), drawn(*shape, dtype=dtype))
        agrees(written(index, 3.0), drawn(5, 6, dtype=dtype))
    agrees(written(index, True), drawn(5, 6) > 0)
    agrees(written(index), drawn(5, 6, dtype=np.float32), drawn(*shape, dtype=np.float64))
    gradients_agree(written(index), drawn(5, 6), drawn(*shape))
    gradients_agree(written(index, 3.0), drawn(5, 6))


ARRAYS: list[tuple[Any, tuple[int, ...], tuple[int, ...]]] = [
    (ROWS, (5, 6), (3, 6)),
    (ROWS, (5, 6), (6,)),
    (ROWS, (5, 6), ()),
    (ROWS, (5, 2, 7), (7,)),
    (ROWS, (5,), (3,)),
    ((ROWS, COLUMNS), (5, 6), (3,)),
    ((slice(None), ROWS), (5, 6), (5, 3)),
    ((..., ROWS), (2, 5, 6), (5, 3)),
    ((1, slice(1, 4), ROWS), (3, 5, 6), (3, 3)),
    ((ROWS, 0, COLUMNS), (3, 5, 6), (3,)),
    ((ROWS, slice(1, 3), COLUMNS), (3, 4, 6), (3, 2)),
    ((ROWS, None, COLUMNS), (3, 4, 6), (1, 6)),
    ((slice(None), None, ROWS), (2, 5), (2, 1, 3)),
]


@pytest.mark.parametrize(("index", "shape", "values"), ARRAYS, ids=str)
def test_index_arrays(index: Any, shape: tuple[int, ...], values: tuple[int, ...]) -> None:
    """Of several writes to one element the last stays, and only it has a gradient."""
    for dtype in (np.float32, np.int64):
        agrees(written(index), drawn(*shape, dtype=dtype), drawn(*values, dtype=dtype, seed=1))
    agrees(written(index, 3.0), drawn(*shape))
    agrees(lambda x: x[index], drawn(*shape))
    gradients_agree(written(index), drawn(*shape), drawn(*values, seed=1))
    gradients_agree(lambda x: x[index], drawn(*shape))


def test_masks_are_choices() -> None:
    whole, rows = drawn(5, 6) > 0, drawn(5, seed=2) > 0

    def function(x: Any, mask: Any, *value: Any) -> Any:
        x = x * 2
        x[mask] = value[0] if value else 0.0
        return x

    for mask in (whole, rows):
        gradients_agree(function, drawn(5, 6), mask)
        agrees(function, drawn(5, 6, dtype=np.int64), mask)
    agrees(function, drawn(5, 6), whole, drawn())
    for shape in ((6,), (1, 6), (1, 1, 6)):
        agrees(function, drawn(5, 6), rows, drawn(*shape, seed=3))
    agrees(function, drawn(5, 6, 2), whole, drawn(2, seed=3))

    def beside(x: Any, mask: Any) -> Any:
        x = x * 2
        x[1, :, mask] = 0.0
        return x

    agrees(beside, drawn(2, 3, 5), rows)
    compiled = gw.compile(function)
    compiled(gw.tensor(drawn(5, 6)), gw.tensor(whole))
    assert len(entries(compiled)) == 1  # with the product before it


def test_diagonals_windows_and_views() -> None:
    gradients_agree(lambda x: gw.diag(x), drawn(4))
    gradients_agree(lambda x: gw.diagonal(x, -1, 0, 2), drawn(4, 3, 5))
    for axis, size, step in ((0, 4, 1), (1, 3, 2), (1, 2, 3), (0, 1, 1), (1, 7, 7), (1, 9, 1)):
        gradients_agree(lambda x, a=axis, n=size, s=step: x.unfold(a, n, s), drawn(7, 9))

    def through_views(x: Any, v: Any) -> Any:
        x = x * 2
        x.diagonal()[1:] = v
        x.view(-1).mul_(3)
        x[0].copy_(x[2])
        x.T[1] += 2.0
        return x

    agrees(through_views, drawn(3, 3), drawn(2))
    gradients_agree(through_views, drawn(3, 3), drawn(2))


def test_what_was_read_before_a_write_stays() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        y[0] = 1.0
        z, first = y * 3, y[1].clone()
        y[1] = y[0] * 2
        y[2:] = y[:-2].clone()
        return y, z, first, y[1:]

    agrees(function, drawn(5, 4))


def test_a_loop_writes_where_its_result_is() -> None:
    """No step copies what the others have written."""

    def function(x: Any) -> Any:
        out = gw.zeros(8, 3, dtype=gw.float64)
        for t in range(8):
            out[t] = x * (t + 1)
        return out

    agrees(function, drawn(3))
    compiled = gw.compile(function)
    compiled(gw.tensor(drawn(3)))
    whole = [e for e in entries(compiled) if any(p.shape == (8, 3) for p in e.writes)]
    assert len(whole) == 1


# -- memory ----------------------------------------------------------------------------------------


def test_only_the_part_of_a_memory_is_written() -> None:
    memory = gw.zeros(1000, 3)

    def step(v: Any) -> Any:
        memory[1] = v
        memory[2] = v * 2
        return v + 1

    compiled = gw.compile(step)
    for k in range(3):
        compiled(gw.tensor([1.0, 2.0, 3.0]) + k)
    assert memory[:4].tolist() == [[0] * 3, [3, 4, 5], [6, 8, 10], [0] * 3]
    assert all(p.shape != (1000, 3) for e in entries(compiled) for p in e.writes)


def test_index_arrays_write_in_memory_after_all_who_read_it() -> None:
    memory, expected = (gw.tensor(drawn(4, 3)) for _ in range(2))

    def step(memory: Any, v: Any, i: Any) -> Any:
        total, old = memory.sum(), memory[1].clone()
        memory[i] = v
        return total, old

    compiled = gw.compile(lambda v, i: step(memory, v, i))
    for k in range(4):
        given = (gw.tensor(drawn(3, seed=k)), gw.tensor([3, k]))
        for got, want in zip(compiled(*given), step(expected, *given), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-14)
        np.testing.assert_array_equal(memory.numpy(), expected.numpy())
    assert not in_numpy(compiled)


@pytest.mark.parametrize("clones", [True, False])
def test_a_memory_moved_within_itself(clones: bool) -> None:
    memory, expected = (gw.tensor(drawn(6)) for _ in range(2))

    def step(memory: Any, v: Any) -> Any:
        memory[1:] = memory[:-1].clone() if clones else memory[:-1] * 2
        memory[0] = v
        return memory[2:]

    compiled = gw.compile(lambda v: step(memory, v).clone())
    for k in range(4):
        got, want = compiled(gw.tensor(k + 0.5)), step(expected, gw.tensor(k + 0.5))
        np.testing.assert_array_equal(got.numpy(), want.numpy())
        np.testing.assert_array_equal(memory.numpy(), expected.numpy())


def test_a_memory_that_is_replaced_and_then_changed() -> None:
    """Its new value is computed elsewhere while the old one is still read."""
    memory, expected = (gw.tensor(drawn(6)) for _ in range(2))

    def step(memory: Any, v: Any, i: Any) -> Any:
        new = v * 2
        new[i] = 7.0
        total = (memory * v).sum()
        memory.copy_(new)
        return total

    compiled = gw.compile(lambda v, i: step(memory, v, i))
    for k in range(3):
        given = (gw.tensor(drawn(6, seed=k)), gw.tensor([k, 5]))
        np.testing.assert_allclose(
            compiled(*given).numpy(), step(expected, *given).numpy(), 1e-14, 1e-14
        )
        np.testing.assert_array_equal(memory.numpy(), expected.numpy())


def test_an_index_that_does_not_exist() -> None:
    compiled = gw.compile(written(gw.tensor([0, 9]), 1.0))
    with pytest.raises(IndexError):
        compiled(gw.ones(5, 6))


def test_a_memory_is_as_it_was_after_an_error() -> None:
    memory = gw.zeros(5, 3)

    def step(i: Any) -> None:
        memory[1] = 3.0
        memory[i] = 1.0

    compiled = gw.compile(step)
    compiled(gw.tensor([0, 2]))
    before = memory.numpy().copy()
    assert before.sum() == 15
    with pytest.raises(IndexError):
        compiled(gw.tensor([4, 5]))
    np.testing.assert_array_equal(memory.numpy(), before)
