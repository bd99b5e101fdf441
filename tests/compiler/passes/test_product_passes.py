"""The passes on matrix products: those that are none, and sums of many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradwalk.compiler.passes.products import (
    OFTEN,
    open_thin_products,
    stack_products,
    stage_transposed,
)
from gradwalk.compiler.passes.simplify import drop_unused
from tests.compiler.passes.test_passes import after, names, whole
from tests.compiler.programs import WHOLE, Written

# -- products that are none ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shapes",
    [
        ((5, 1), (1, 7)), ((5, 3), (3, 1)), ((1, 3), (3, 7)), ((1, 1), (1, 1)), ((1, 3), (3, 1)),
        ((4, 5, 3), (3, 1)), ((4, 5, 3), (4, 3, 1)), ((1, 5, 3), (4, 3, 1)), ((4, 1, 3), (4, 3, 7)),
        ((4, 5, 1), (1, 7)), ((5, 1), (4, 1, 7)), ((5, 0), (0, 1)), ((1, 0), (0, 7)),
        ((0, 3), (3, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("turned", [False, True])
def test_thin_products_are_multiplications(shapes: Any, turned: bool) -> None:
    w = Written()
    operands = []
    for shape in shapes:
        if turned:  # as the gradient has it: what is transposed again
            x = w.argument(whole(*shape[:-2], shape[-1], shape[-2]))
            last = len(shape) - 1
            operands.append(w.add("permute", x, axes=(*range(last - 1), last, last - 1)))
        else:
            operands.append(w.argument(whole(*shape)))
    w.returns(w.add("matmul", *operands))
    assert "matmul" not in after(open_thin_products, w, 0.0)


def test_other_products_stay() -> None:
    w = Written()
    w.returns(w.add("matmul", w.argument(whole(5, 3)), w.argument(whole(3, 2))))
    integers = [w.argument(whole(*s).astype(np.int64)) for s in ((5, 3), (3, 1))]
    w.returns(w.add("matmul", *integers))  # of integers: there is no kernel for those anyway
    assert after(open_thin_products, w) == ["matmul", "matmul"]


# -- sums of products ------------------------------------------------------------------------------


def _sum_of_products(w: Written, count: int) -> tuple[list[Any], Any]:
    """Σ xᵀ g, as the gradient of a weight that is used at every time step; the xs, and the sum."""
    source = np.random.default_rng(1)
    drawn = [w.argument(source.integers(-4, 5, (7, 5)).astype(np.float32)) for _ in range(count)]
    xs = [w.add("neg", x) for x in drawn]
    total = None
    for x in xs:
        g = w.argument(source.integers(-4, 5, (7, 6)).astype(np.float32))
        product = w.add("matmul", w.add("permute", x, axes=(1, 0)), g)
        total = product if total is None else w.add("add", total, product)
    return xs, total


def test_a_sum_of_products_is_one_product() -> None:
    w = Written()
    _, total = _sum_of_products(w, 5)
    w.returns(total)
    assert names(drop_unused(stack_products(w.program))).count("matmul") == 1
    after(stack_products, w, 0.0)


def test_few_products_stay() -> None:
    w = Written()
    _, total = _sum_of_products(w, 3)
    assert after(stack_products, w.returns(total)).count("matmul") == 3


def test_a_stack_that_is_there_is_used() -> None:
    w = Written()
    xs, total = _sum_of_products(w, 5)
    w.returns(w.add("concatenate", *xs, axis=0), total)
    assert names(drop_unused(stack_products(w.program))).count("concatenate") == 2
    after(stack_products, w, 0.0)


def test_a_stack_that_holds_the_sum_itself_is_not_used() -> None:
    w = Written()
    xs, total = _sum_of_products(w, 5)  # the sum is (5, 6)
    made_of_it = w.add("pad", total, widths=((0, 2), (0, 0)), value=0)
    last = w.add("getitem", made_of_it, index=(WHOLE, ("slice", 0, 5, None)))
    w.returns(w.add("concatenate", *xs, last, axis=0), total)
    after(stack_products, w, 0.0)


def test_a_part_of_the_sum_that_is_asked_for_stays() -> None:
    w = Written()
    _, total = _sum_of_products(w, 5)
    (part,) = (a for a in total.call.args if a.call.op.name == "add")
    w.returns(part, total)
    after(stack_products, w, 0.0)


# -- a matrix that is read transposed again and again ----------------------------------------------


@pytest.mark.parametrize("times", [OFTEN - 1, OFTEN])
@pytest.mark.parametrize("turned", [False, True])
def test_what_is_often_read_transposed_is_transposed_once(times: int, turned: bool) -> None:
    w = Written()
    weight = w.argument(whole(6, 5))
    right = w.add("permute", weight, axes=(1, 0) if turned else (0, 1))
    for _ in range(times):
        w.returns(w.add("matmul", w.argument(whole(3, right.shape[0])), right))
    assert after(stage_transposed, w).count("clone") == (turned and times == OFTEN)
