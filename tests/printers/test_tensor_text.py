"""`tensor_text` against the text that PyTorch prints for the same numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gradwalk as gw
from gradwalk.printers.tensor_text import tensor_text

Array = npt.NDArray[Any]

FLOATS: list[np.dtype[Any]] = [np.dtype(np.float32), np.dtype(np.float64)]
DTYPES: list[np.dtype[Any]] = [
    *FLOATS,
    *(np.dtype(name) for name in ("int8", "uint8", "int16", "int32", "int64", "?")),
]

# Small shapes show wrapping, the larger ones lie on either side of the 1000 elements from which
# on a tensor is summarised, with axes on either side of the 6 that fit a summarised one.
SHAPES = st.one_of(
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=30),
    st.sampled_from(
        [(1000,), (1001,), (5, 200), (6, 167), (7, 143), (143, 7), (1, 1001), (1001, 1)]
    ),
    st.sampled_from([(10, 10, 10), (7, 13, 11), (6, 6, 28), (2, 500, 1), (2, 501, 1), (1, 2, 600)]),
)

# One scale for all elements stays in fixed point, and a choice of scales leaves it.
SCALES = st.one_of(
    st.integers(-5, 9).map(lambda exponent: [10.0**exponent]),
    st.lists(st.floats(1e-30, 1e30), min_size=1, max_size=3),
)
SPECIAL = st.lists(st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0]), max_size=3)


@st.composite
def float_arrays(draw: st.DrawFn) -> Array:
    """Random numbers of chosen scales, perhaps rounded, with special values strewn in."""
    shape = draw(SHAPES)
    source = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = source.standard_normal(shape) * source.choice(draw(SCALES), shape)
    if draw(st.booleans()):
        values = np.round(values)
    special = draw(SPECIAL)
    if special:
        often = draw(st.sampled_from([0.05, 0.5, 1.0]))
        values = np.where(source.random(shape) < often, source.choice(special, shape), values)
    with np.errstate(over="ignore"):
        array: Array = np.asarray(values, draw(st.sampled_from(FLOATS)))
    return array


def torch_text(array: Array) -> tuple[str, list[str]]:
    """PyTorch's text, and the suffixes that it has in it (those after `size=`)."""
    tensor = torch.from_numpy(array.copy())
    said_by_brackets = (
        [torch.float32] if array.size == 0 else [torch.float32, torch.int64, torch.bool]
    )
    suffixes = [] if tensor.dtype in said_by_brackets else [f"dtype={tensor.dtype}"]
    return repr(tensor), suffixes


def check(array: Array) -> None:
    expected, suffixes = torch_text(array)
    assert tensor_text(array, suffixes) == expected


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(float_arrays())
def test_random_floats(array: Array) -> None:
    check(array)


@settings(deadline=None)
@given(
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
    )
)
def test_any_bits(array: Array) -> None:
    check(array)


@settings(deadline=None)
@given(SHAPES, st.sampled_from(DTYPES[2:]), st.integers(0, 2**32 - 1), st.integers(0, 62))
def test_random_integers(
    shape: tuple[int, ...], dtype: np.dtype[Any], seed: int, bits: int
) -> None:
    source = np.random.default_rng(seed)
    check(source.integers(-(2**bits), 2**bits, shape).astype(dtype))


@settings(deadline=None)
@given(st.integers(0, 30), st.sampled_from(FLOATS), st.booleans(), st.integers(1, 3))
def test_suffixes_wrap(length: int, dtype: np.dtype[Any], leaf: bool, dimensions: int) -> None:
    array = np.full((1,) * (dimensions - 1) + (length,), 0.5, dtype)
    _, suffixes = torch_text(array)
    tensor = torch.from_numpy(array).requires_grad_()
    if leaf:
        assert tensor_text(array, [*suffixes, "requires_grad=True"]) == repr(tensor)
    else:
        suffixes.append("grad_fn=<MulBackward0>")
        assert tensor_text(array, suffixes) == repr(tensor * 1.0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (17.0, "tensor(17.)"),
        ([17.0], "tensor([17.])"),
        (1e-5, "tensor(1.0000e-05)"),
        (True, "tensor(True)"),
        (-3, "tensor(-3)"),
        (math.nan, "tensor(nan)"),
        ([], "tensor([])"),
        ([[], []], "tensor([], size=(2, 0))"),
        ([True, False], "tensor([ True, False])"),
        ([1, -20], "tensor([  1, -20])"),
        ([1.0, -20.0], "tensor([  1., -20.])"),
        ([0.5, -20.0], "tensor([  0.5000, -20.0000])"),
        ([1.0, 1000.0], "tensor([   1., 1000.])"),
        ([1.0, 1001.0], "tensor([1.0000e+00, 1.0010e+03])"),
        ([0.0, 2e8], "tensor([0.0000e+00, 2.0000e+08])"),
        ([1.0, math.nan, -math.inf], "tensor([1., nan, -inf])"),
        ([1.5, math.nan, -math.inf], "tensor([1.5000,    nan,   -inf])"),
        ([[1, 2], [3, 4]], "tensor([[1, 2],\n        [3, 4]])"),
        (range(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    ],
)
def test_fixed_cases(values: Any, expected: str) -> None:
    array = np.asarray(values)
    array = array.astype(np.float32) if array.dtype == np.float64 else array
    assert repr(torch.from_numpy(array)) == expected  # the case itself is right
    assert tensor_text(array) == expected


def test_the_middle_of_a_summarised_tensor_does_not_set_its_format() -> None:
    array = np.ones(2000, np.float32)
    array[1000] = 1e20
    assert tensor_text(array) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"


def test_another_prefix_moves_every_line() -> None:
    assert tensor_text(np.eye(2, dtype=int), ["label='W'"], "Parameter(") == (
        "Parameter([[1, 0],\n           [0, 1]], label='W')"
    )


def test_our_dtype_names() -> None:
    text = tensor_text(np.zeros(2), ["dtype=gradwalk.float64", "grad_fn=<Mul>"])
    assert text == "tensor([0., 0.], dtype=gradwalk.float64, grad_fn=<Mul>)"


def test_non_contiguous_and_read_only_arrays() -> None:
    array = np.arange(12.0, dtype=np.float32).reshape(3, 4)[::-1, ::2].T
    array.flags.writeable = False
    check(array)


ARRAYS = [
    np.linspace(0, 3, 12, dtype=np.float32).reshape(3, 4),
    np.float64([1e-7, 3.0, 2e9, math.inf]),
    np.arange(5000, dtype=np.float32).reshape(50, 100),
    np.arange(40).reshape(4, 10),
    np.float32([1, 2, 1000]),
    np.float32(3.14159),
]


@pytest.mark.parametrize(
    "options",
    [
        {"precision": 2},
        {"precision": 8, "linewidth": 120},
        {"sci_mode": True},
        {"sci_mode": False, "precision": 3},
        {"threshold": 10, "edgeitems": 1},
        {"threshold": 10, "edgeitems": 0},
        {"linewidth": 30},
        {"profile": "short"},
        {"profile": "full"},
        {"profile": "short", "precision": 6},
    ],
    ids=str,
)
def test_set_printoptions(options: dict[str, Any]) -> None:
    try:
        for engine in (gw, torch):
            engine.set_printoptions(**options)
        for array in ARRAYS:
            check(np.asarray(array))
    finally:
        for engine in (gw, torch):
            engine.set_printoptions(profile="default")
    check(ARRAYS[0])


def test_print_options_stay_but_notation_is_automatic_again() -> None:
    try:
        for engine in (gw, torch):
            engine.set_printoptions(precision=2, sci_mode=True)
            engine.set_printoptions(linewidth=50)
        check(ARRAYS[0])
    finally:
        for engine in (gw, torch):
            engine.set_printoptions(profile="default")
    with pytest.raises(ValueError, match="default, short, full"):
        gw.set_printoptions(profile="long")


def test_an_empty_tensor_names_the_dtype_that_its_elements_would_show() -> None:
    for name in ("float32", "float64", "int64", "bool", "complex64"):
        ours = repr(gw.zeros(2, 0, dtype=name))
        assert ours.replace("gradwalk.", "torch.") == repr(
            torch.zeros(2, 0, dtype=getattr(torch, name))
        )
