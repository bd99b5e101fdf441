"""Shortcuts change how something is computed, never what: sums, masks, layouts, joint rules."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk.ops import TABLE
from gradwalk.ops.elementwise.choice import masked
from gradwalk.ops.network.convolution import batch_first, batch_last, is_batch_last
from gradwalk.ops.reduce.row_sums import SHORT, dot_over, sum_last, sum_leading, sum_over
from gradwalk.ops.shape.array_views import repeated

RNG = np.random.default_rng(3)
DTYPES = ("f4", "f8", "i8")
SHAPES = ((3, 5), (2, 3, 40), (4, SHORT), (2, SHORT + 1), (3, 0), (0, 4), (1, 9), (2, 3, 4, 5))


def arrays() -> list[Any]:
    found = []
    for shape, dtype in itertools.product(SHAPES, DTYPES):
        plain = (RNG.standard_normal(shape) * 8).astype(dtype)
        found += [plain, plain[..., ::2], np.asfortranarray(plain)]
    return found


@pytest.mark.parametrize("x", arrays(), ids=lambda x: f"{x.shape}{x.dtype}{x.strides}")
def test_sums_are_numpys(x: Any) -> None:
    close = dict(rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(sum_last(x), x.sum(-1, keepdims=True), **close)
    np.testing.assert_allclose(sum_leading(x, 1), x.sum(tuple(range(x.ndim - 1))), **close)
    for count in range(1, x.ndim + 1):
        for axes in itertools.combinations(range(x.ndim), count):
            np.testing.assert_allclose(sum_over(x, axes), x.sum(axes, keepdims=True), **close)
            product = (x * x).sum(axes, keepdims=True)
            np.testing.assert_allclose(dot_over(x, x, axes), product, **close)


def test_sums_carry_infinities_and_nans() -> None:
    x = np.ones((3, 9), "f4")
    x[0, 0], x[1, 1], x[2, 2:4] = np.inf, np.nan, (np.inf, -np.inf)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(sum_last(x), x.sum(-1, keepdims=True))
        np.testing.assert_array_equal(sum_leading(x, 1), x.sum(0))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize("size", [(7,), (70, 80), (5, 1000)])
def test_masking_keeps_every_bit(dtype: str, size: tuple[int, ...]) -> None:
    x = (RNG.standard_normal(size) * 100).astype(dtype)
    if dtype != "i8":
        x.flat[:3] = np.nan, -0.0, np.inf
    condition = RNG.random(size) < 0.5
    condition.flat[:3] = True
    for values, mask in ((x, condition), (x.T, condition.T), (x, np.asfortranarray(condition))):
        for keep in (True, False):
            found = masked(mask, values, keep=keep)
            expected = np.where(mask == keep, values, np.zeros((), dtype))
            assert found.dtype == values.dtype
            assert found.tobytes() == expected.tobytes()


def test_a_gradient_of_infinity_is_masked_to_zero() -> None:
    x = gw.full((5000,), -1.0, requires_grad=True)
    gw.relu(x).backward(gw.full((5000,), float("inf")))
    assert (x.grad.numpy() == 0).all()


# -- layouts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(64, 8, 4, 4), (3, 2, 5), (1, 2, 3, 3), (0, 2, 3), (6, 256)])
def test_batch_last_and_back(shape: tuple[int, ...]) -> None:
    x = RNG.standard_normal(shape)
    last = batch_last(x)
    assert last.flags.c_contiguous and last.shape == (*shape[1:], shape[0])
    np.testing.assert_array_equal(batch_first(last), x)
    assert is_batch_last(batch_first(last))
    assert np.shares_memory(batch_last(batch_first(last)), last) or not x.size


def network(lib: Any, x: Any, weight: Any, bias: Any) -> Any:
    h = lib.relu(lib.nn.functional.conv2d(x, weight, bias, padding=1))
    h = lib.nn.functional.max_pool2d(h, 2)
    return h.view(h.shape[0], -1)  # as people write it: the elements must be in order


def test_a_view_of_a_convolution_has_its_elements_in_order() -> None:
    given = [RNG.standard_normal(s) for s in ((5, 2, 6, 6), (4, 2, 3, 3), (4,))]
    found = []
    for lib, lift in ((gw, gw.tensor), (torch, torch.tensor)):
        inputs = [lift(a, requires_grad=True) for a in given]
        out = network(lib, *inputs)
        (out * lift(np.arange(out.shape[1], dtype="f8"))).sum().backward()
        found.append([out.detach().numpy(), *(i.grad.numpy() for i in inputs)])
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)


def test_a_view_of_a_convolution_shares_its_memory() -> None:
    out = gw.nn.functional.conv2d(gw.ones(3, 1, 4, 4), gw.ones(2, 1, 3, 3))
    flat = out.view(3, -1)
    flat.zero_()
    assert not out.any()


# -- joint rules ---------------------------------------------------------------------------------


def test_a_joint_rule_is_asked_only_for_what_is_wanted() -> None:
    asked = []

    def rule(g: Any, x: Any, y: Any, *, wants: tuple[bool, ...]) -> tuple[Any, Any]:
        asked.append(wants)
        return g * y, g * x

    product = gw.define(
        "joint_product", lambda x, y: x * y, joint=rule, shape=lambda x, y: x,
        expand=lambda x, y: x * y,
    )  # fmt: skip
    x = gw.tensor([2.0, 3.0], dtype=gw.float64, requires_grad=True)
    y = gw.tensor([5.0, 7.0], dtype=gw.float64, requires_grad=True)
    product(x, y).sum().backward()
    product(x.detach(), y).sum().backward()
    assert asked == [(True, True), (False, True)]
    assert x.grad.tolist() == [5.0, 7.0] and y.grad.tolist() == [4.0, 6.0]
    assert gw.gradgradcheck(product, (x, y))


def test_residuals_are_no_outputs_without_a_gradient_either() -> None:
    lstm = gw.nn.LSTM(2, 3)
    x = gw.ones(4, 1, 2)
    with gw.no_grad():
        out, (h, c) = lstm(x)
    expected, _ = lstm(x)
    assert np.array_equal(out.numpy(), expected.detach().numpy())
    assert h.shape == c.shape == (1, 1, 3)


def test_residuals_are_no_outputs_of_arrays() -> None:
    rng = np.random.default_rng(0)
    shapes = ((4, 2, 3), (2, 5), (2, 5), (20, 3), (20, 5), (20,))
    found = TABLE["lstm"](*(rng.standard_normal(s) for s in shapes), reverse=False)
    assert [part.shape for part in found] == [(4, 2, 5), (2, 5)]


# -- memory --------------------------------------------------------------------------------------

ASK = "import gradwalk, gradwalk.engine.allocator as m; print(m.keep_freed_memory())"


@pytest.mark.parametrize(
    ("setting", "kept"), [("1", sys.platform.startswith("linux")), ("0", False)]
)
def test_memory_is_kept_unless_asked_not_to(setting: str, kept: bool) -> None:
    environment = {**os.environ, "GRADWALK_KEEP_MEMORY": setting}
    done = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(kept)


def test_repeating_an_array_is_what_numpy_does() -> None:
    shapes = [s for count in range(4) for s in itertools.product((0, 1, 2, 3), repeat=count)]
    for own, wanted in itertools.product(shapes, [*shapes, (-1,), (2, -1)]):
        x = np.arange(math.prod(own), dtype=np.float32).reshape(own)
        try:
            expected = np.broadcast_to(x, wanted)
        except ValueError:
            with pytest.raises(ValueError):
                repeated(x, wanted)
            continue
        found = repeated(x, wanted)
        assert not found.flags.writeable, (own, wanted)
        np.testing.assert_array_equal(found, expected, strict=True)
