"""`assert_close`: numbers that are equal up to rounding, in tensors and containers of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradwalk.tensors.tensor import Tensor

# PyTorch's tolerances by the dtype of the numbers: relative and absolute.
_TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7), "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    msg: Any = None,
    **options: Any,
) -> None:
    """Raise AssertionError unless two tensors, numbers or containers of them are close.

    >>> import gradwalk as gw
    >>> gw.testing.assert_close(gw.tensor([1.0]), gw.tensor([1.0 + 1e-7]))
    >>> gw.testing.assert_close(gw.tensor([1.0, 2.0]), gw.tensor([1.0, 2.5]))
    Traceback (most recent call last):
    AssertionError: 1 of 2 elements differ, at most by 0.5, at (1,): 2.0, expected 2.5
    """
    if (rtol is None) != (atol is None):
        raise ValueError("assert_close takes both rtol and atol, or neither")
    again: dict[str, Any] = dict(
        rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype, msg=msg
    )
    if isinstance(expected, Mapping):
        if set(actual) != set(expected):
            _fail(f"the keys are {list(actual)}, expected {list(expected)}", msg)
        for key, value in expected.items():
            assert_close(actual[key], value, **again)
    elif isinstance(expected, Sequence) and not isinstance(expected, str):
        if len(actual) != len(expected):
            _fail(f"there are {len(actual)} values, expected {len(expected)}", msg)
        for one, other in zip(actual, expected):
            assert_close(one, other, **again)
    else:
        _compare(actual, expected, **again)


def _compare(
    actual: Any,
    expected: Any,
    *,
    rtol: Any,
    atol: Any,
    equal_nan: bool,
    check_dtype: bool,
    msg: Any,
) -> None:
    one, other = (
        np.asarray(x.detach().cpu() if isinstance(x, Tensor) else x) for x in (actual, expected)
    )
    both = isinstance(actual, Tensor) and isinstance(expected, Tensor)
    if one.shape != other.shape:
        _fail(f"the shape is {one.shape}, expected {other.shape}", msg)
    if both and check_dtype and one.dtype != other.dtype:
        _fail(f"the dtype is {one.dtype}, expected {other.dtype}", msg)
    if rtol is None:
        known = [_TOLERANCES.get(x.dtype.name, (0.0, 0.0)) for x in (one, other)]
        rtol, atol = (max(pair) for pair in zip(*known))
    wide = np.result_type(one, other, np.float64)
    one, other = one.astype(wide), other.astype(wide)
    close = np.isclose(one, other, rtol, atol, equal_nan)
    if close.all():
        return
    distance = np.where(close, 0.0, np.nan_to_num(abs(one - other), nan=np.inf))
    worst = np.unravel_index(distance.argmax(), distance.shape)
    place = tuple(int(i) for i in worst)
    _fail(
        f"{int((~close).sum())} of {close.size} elements differ, at most by "
        f"{distance[worst]:.6g}, at {place}: {one[worst]}, expected {other[worst]}",
        msg,
    )


def _fail(text: str, msg: Any) -> None:
    raise AssertionError(text if msg is None else msg(text) if callable(msg) else str(msg))
