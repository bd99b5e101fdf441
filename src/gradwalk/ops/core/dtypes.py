"""Dtypes and how they promote: as in PyTorch, which differs from NumPy.

Three things decide, strongest first: tensors with dimensions, 0-d tensors, Python numbers. A
weaker one matters only if its category (bool < integer < float < complex) is higher.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

float16 = np.dtype(np.float16)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
int8 = np.dtype(np.int8)
int16 = np.dtype(np.int16)
int32 = np.dtype(np.int32)
int64 = np.dtype(np.int64)
uint8 = np.dtype(np.uint8)
uint16 = np.dtype(np.uint16)
uint32 = np.dtype(np.uint32)
uint64 = np.dtype(np.uint64)
bool_ = np.dtype(np.bool_)
complex64 = np.dtype(np.complex64)
complex128 = np.dtype(np.complex128)

# NumPy numbers its dtypes. Those up to this one are computed with as they are: halves and complex
# numbers come after it.
LAST_PLAIN = np.dtype(np.longdouble).num

_CATEGORY = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_COMPLEX: dict[np.dtype[Any], np.dtype[Any]] = {float32: complex64, float64: complex128}
_PARTS = {pair: part for part, pair in _COMPLEX.items()}
_default = float32
_matmul_precision = "highest"


def bfloat16() -> np.dtype[Any]:
    """The dtype bfloat16, which NumPy has from ml_dtypes; imported when it is first asked for."""
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError(
            "bfloat16 needs ml_dtypes, which is not installed.\n"
            'Fix: pip install "gradwalk[xla]", or use gradwalk.float16'
        ) from error
    return np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class FloatLimits:
    """The limits of a floating-point dtype, as Python's numbers: twice the largest is no inf."""

    dtype: str
    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    resolution: float
    nmant: int  # bits of the fraction

    @property
    def smallest_normal(self) -> float:
        """`tiny` under its other name."""
        return self.tiny


def finfo(type: Any = None) -> FloatLimits:
    """The limits of a floating-point dtype: `max`, `min`, `eps`, `tiny`, `bits`.

    Without one, those of the default dtype.

    >>> import gradwalk as gw
    >>> gw.finfo(gw.float16).max
    65504.0
    """
    dtype = _default if type is None else np.dtype(type)
    if not has_gradients(dtype):
        raise TypeError(f"finfo is of floating-point dtypes, not of {dtype}. Fix: iinfo")
    return _limits_of(dtype)


def iinfo(type: Any) -> np.iinfo[Any]:
    """The limits of an integer dtype: `max`, `min`, `bits`.

    >>> import gradwalk as gw
    >>> gw.iinfo(gw.uint8).max
    255
    """
    dtype = np.dtype(type)
    if dtype.kind not in "iu":
        raise TypeError(f"iinfo is of integer dtypes, not of {dtype}. Fix: finfo")
    return np.iinfo(dtype)


@cache
def _limits_of(dtype: np.dtype[Any]) -> FloatLimits:
    if is_bfloat16(dtype):
        import ml_dtypes

        found: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    else:
        found = np.finfo(dtype)
    return FloatLimits(
        dtype=part_of(dtype).name,
        bits=int(found.bits),
        eps=float(found.eps),
        max=float(found.max),
        min=float(found.min),
        tiny=float(found.tiny),
        resolution=10.0**-found.precision,  # what it has itself is rounded
        nmant=int(found.nmant),
    )


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is bfloat16; to NumPy its kind is "V", not "f"."""
    return dtype.kind == "V" and dtype.type.__name__ == "bfloat16"


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is a floating-point one."""
    return dtype.kind == "f" or is_bfloat16(dtype)


def is_complex_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is complex64 or complex128."""
    return dtype.kind == "c"


def real_only(name: str, x: Any) -> None:
    """Raise for a complex operand of a function whose formula is for real numbers."""
    if is_complex_dtype(x.dtype):
        raise TypeError(
            f"{name} is not defined for complex numbers ({x.dtype}).\n"
            "Fix: compute with x.abs(), x.real and x.imag, or with gradwalk.view_as_real(x)."
        )


def check_cast(old: np.dtype[Any], new: np.dtype[Any]) -> None:
    """Raise if complex numbers would lose their imaginary part."""
    if old.kind == "c" and new.kind not in "cb":
        raise TypeError(f"{old} as {new} would lose the imaginary part.\nFix: .real or .abs()")


def has_gradients(dtype: np.dtype[Any]) -> bool:
    """Whether numbers of a dtype can change by a little: floats and complex numbers."""
    return is_floating(dtype) or dtype.kind == "c"


def complex_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The complex dtype whose parts have a dtype; that of the default dtype for integers."""
    if dtype.kind == "c":
        return dtype
    part = dtype if is_floating(dtype) else _default
    if part not in _COMPLEX:
        raise TypeError(
            f"there are no complex numbers with parts in {part}.\nFix: cast to gradwalk.float32"
        )
    return _COMPLEX[part]


def part_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of complex numbers; any other dtype as it is."""
    return _PARTS.get(dtype, dtype)


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is float16 or bfloat16: stored so, computed with in float32."""
    return dtype.itemsize == 2 and (dtype == float16 or is_bfloat16(dtype))


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether tensors can have a dtype: floats, complex numbers, integers, booleans."""
    return dtype.kind in "fciub" or is_bfloat16(dtype)


def dtype_named(name: str) -> np.dtype[Any]:
    """The dtype of a name, as files have it."""
    return bfloat16() if name == "bfloat16" else np.dtype(name)


_constants: dict[tuple[Any, Any], Any] = {}


def constant(number: Any, dtype: np.dtype[Any]) -> Any:
    """A Python number as a 0-d array, which takes NumPy half the time of a number.

    Only for floating-point dtypes; for others the number is returned as it is.
    """
    known = _constants.get((number, dtype))
    # 0.0 and -0.0 are one key, but two numbers: only the integer 0 is kept.
    if known is None or (number == 0 and number.__class__ is not int):
        if not is_floating(dtype):
            return number
        with np.errstate(all="ignore"):  # 1e300 is inf in float32
            known = np.array(number, dtype)
        known.flags.writeable = False
        if (number != 0 or number.__class__ is int) and len(_constants) < 1000:
            _constants[number, dtype] = known
    return known


def has_numpy_numbers(attrs: dict[str, Any]) -> bool:
    """Whether an attribute is a number of NumPy's: beside an array, it would decide the dtype."""
    for value in attrs.values():  # noqa: SIM110 (any() takes four times as long)
        if isinstance(value, np.generic):
            return True
    return False


def get_default_dtype() -> np.dtype[Any]:
    """The dtype of new floating-point tensors: float32 unless changed."""
    return _default


def set_default_dtype(dtype: Any) -> None:
    """Change the dtype of new floating-point tensors.

    >>> import gradwalk as gw
    >>> gw.set_default_dtype(gw.float32)
    """
    global _default
    chosen = np.dtype(dtype)
    if not is_floating(chosen):
        raise TypeError(f"the default dtype must be a floating-point one, not {chosen}")
    _default = chosen


_PRECISIONS = ("highest", "high", "medium")


def set_float32_matmul_precision(precision: str) -> None:
    """How exactly devices multiply float32 matrices: "highest" in float32, "high" in TF32,
    "medium" in bfloat16; sums are in float32. On the CPU it changes nothing.

    >>> import gradwalk as gw
    >>> gw.set_float32_matmul_precision("highest")
    """
    global _matmul_precision
    if precision not in _PRECISIONS:
        raise ValueError(f"the precision is one of {', '.join(_PRECISIONS)}, not {precision!r}")
    _matmul_precision = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` set."""
    return _matmul_precision


def category(dtype: np.dtype[Any]) -> int:
    """bool 0, integer 1, float 2, complex 3; raise for any other dtype."""
    try:
        return _CATEGORY[dtype.kind]
    except KeyError:
        if is_bfloat16(dtype):
            return 2
        raise TypeError(
            f"{dtype} is not supported: gradwalk tensors hold floats, complex numbers, integers or "
            "booleans"
        ) from None


def promote_types(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a result of two equally strong operands."""
    if a == b:
        return a
    first, second = category(a), category(b)
    if first != second:
        higher, lower = (a, b) if first > second else (b, a)
        if higher.kind == "c" and lower == float64:
            return complex128
        return higher  # int64 with float32 is float32
    if is_bfloat16(a) or is_bfloat16(b):
        return float32 if a.itemsize == b.itemsize else max(a, b, key=lambda d: d.itemsize)
    return np.promote_types(a, b)


def result_dtype(operands: Iterable[Any]) -> np.dtype[Any]:
    """The dtype that operands with a shape and a dtype, and Python numbers, combine to."""
    strength: list[np.dtype[Any] | None] = [None, None, None]
    for operand in operands:
        if hasattr(operand, "dtype"):
            level, dtype = (0 if operand.shape else 1), operand.dtype
        elif isinstance(operand, bool):
            level, dtype = 2, bool_
        else:
            level, dtype = 2, int64 if isinstance(operand, int) else _default
            if isinstance(operand, complex):
                dtype = complex_of(_default)
        known = strength[level]
        strength[level] = dtype if known is None else promote_types(known, dtype)
    result: np.dtype[Any] | None = None
    for candidate in strength:
        if candidate is None:
            continue
        if result is None or category(candidate) > category(result):
            # Floats beside a weaker complex number keep their precision.
            wide = candidate.kind == "c" and result is not None and is_floating(result)
            part = float32 if result is not None and is_bfloat16(result) else result
            result = complex_of(part) if wide and part is not None else candidate
    return _default if result is None else result


def result_type(tensor1: Any, tensor2: Any) -> np.dtype[Any]:
    """The dtype of an arithmetic result of two tensors or numbers.

    >>> import gradwalk as gw
    >>> gw.result_type(gw.tensor([1, 2]), 1.0)
    dtype('float32')
    """
    return result_dtype((tensor1, tensor2))


def can_cast(from_: Any, to: Any) -> bool:
    """Whether PyTorch's rules allow numbers of one dtype in memory of another.

    >>> import gradwalk as gw
    >>> gw.can_cast(gw.float64, gw.float32), gw.can_cast(gw.float32, gw.int64)
    (True, False)
    """
    return category(np.dtype(from_)) <= category(np.dtype(to))


def held_by(dtype: np.dtype[Any], number: Any) -> Any:
    """A Python number as a dtype stores it, as in PyTorch: 2.5 as the integer 2, −1 as 255."""
    if has_gradients(dtype):
        return number
    return bool(number) if dtype.kind == "b" else int(np.array(int(number)).astype(dtype))


def unsigned(dtype: np.dtype[Any], number: Any) -> Any:
    """A negative integer for memory of an unsigned dtype, as in PyTorch: −1 as 255. Anything else
    as it is; NumPy refuses what does not fit."""
    if number.__class__ is int and number < 0 and dtype.kind == "u":
        most = int(np.iinfo(dtype).max)
        return number + most + 1 if number >= -most else number
    return number


def furthest(dtype: np.dtype[Any], *, below: bool) -> Any:
    """What no number of a dtype is below (or above): an infinity, or the last integer."""
    if is_floating(dtype):
        return -np.inf if below else np.inf
    if dtype.kind == "b":
        return not below
    limits = np.iinfo(dtype)
    return int(limits.min if below else limits.max)
