"""Arrays of two computations: how far apart they are, how precise each is, float64 results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.inspect.trace.replay import NotReplayable, is_array, op_of, outputs_of
from gradwalk.inspect.trace.trace import Kept, TraceNode
from gradwalk.ops.core.dtypes import dtype_named, finfo, is_bfloat16, is_floating

FEW = 8  # elements: of fewer, precision cannot be read from the bits
_BFLOAT16 = 2.0**-8
_NAMES = ((2e-2, "float8"), (2e-3, "bfloat16"), (2e-4, "float16"), (1e-9, "float32"))
# What a forward raises for operands that a trace does not describe in full.
_UNKNOWN = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


def doubles(kept: Kept) -> Any:
    """A kept value as a float64 array; integers and booleans keep their dtype; None if absent."""
    if not is_array(kept):
        return None
    array = np.asarray(kept)
    return array.astype(np.float64) if is_floating(array.dtype) else array


def computed(node: TraceNode, args: Sequence[Any]) -> list[Any]:
    """The outputs of a node in float64 from these operands."""
    if node.op == "detach":
        return [args[0]]
    op = op_of(node)
    if op is None or any(argument is None for argument in args):
        raise NotReplayable(f"the op table has no '{node.op}', or an operand is unknown")
    given = [doubles(a) if isinstance(a, np.ndarray) else a for a in args]
    attrs = {name: _wide(value) for name, value in node.attrs.items()}
    try:
        with np.errstate(all="ignore"):
            outputs = outputs_of(op, op.forward(*given, **attrs))
    except _UNKNOWN as error:
        raise NotReplayable(f"{node.op} cannot be computed from the trace ({error!r})") from error
    return [doubles(output) for output in outputs]


def _wide(attribute: Any) -> Any:
    """float64 for a floating-point dtype; other attributes as they are."""
    if isinstance(attribute, np.dtype) and is_floating(attribute):
        return np.dtype(np.float64)
    return attribute


def apart(one: Any, other: Any) -> float:
    """The norm of the difference by the norm of `other`; inf if NaNs and infs are elsewhere."""
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    finite = np.isfinite(other)
    if not finite.all() or not np.isfinite(one).all():
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        if not (same | (finite & np.isfinite(one))).all():
            return np.inf
        one, other = np.where(finite, one, 0.0), np.where(finite, other, 0.0)
    difference = float(np.linalg.norm((one - other).ravel()))
    if not difference:
        return 0.0
    size = float(np.linalg.norm(other.ravel()))
    return difference / size if size else np.inf


def in_order(array: Any) -> Any:
    """All elements, sorted: the same for every arrangement of the same numbers."""
    return np.sort(np.asarray(array, np.float64), axis=None)


def between(one: Any, other: Any) -> float:
    """How far two arrays are apart: element by element, or as the same numbers rearranged."""
    if one.shape == other.shape:
        direct = apart(one, other)
        if direct < 1e-2 or one.size <= 1:
            return direct
        return min(direct, apart(in_order(one), in_order(other)))
    return apart(in_order(one), in_order(other)) if one.size == other.size else np.inf


def laid_like(numbers: Any, pattern: Any) -> Any:
    """The numbers of one array in the arrangement of another with nearly the same numbers."""
    if numbers.shape == pattern.shape and apart(numbers, pattern) < 1e-2:
        return numbers
    ranks = np.argsort(pattern, axis=None, kind="stable")
    arranged = np.empty(pattern.size, numbers.dtype)
    arranged[ranks] = np.sort(numbers, axis=None)
    return arranged.reshape(pattern.shape)


def rearranged(one: Any, other: Any) -> bool:
    """Whether two arrays have the same numbers at other places."""
    if one is None or other is None or one.size != other.size or one.size < 2:
        return False
    if one.shape == other.shape and apart(one, other) < 1e-3:
        return False
    return apart(in_order(one), in_order(other)) < 1e-6


def precision_of(kept: Kept, dtype: str) -> float:
    """The relative precision of a value: that of its dtype, or of bfloat16 kept as float32."""
    kind = dtype_named("float64" if dtype == "float" else dtype)
    if not is_floating(kind):
        return 0.0
    eps = _BFLOAT16 if is_bfloat16(kind) else float(finfo(kind).eps)
    if kind == np.float32 and is_array(kept) and _is_bfloat16_inside(np.asarray(kept)):
        return _BFLOAT16
    return eps


def fits_bfloat16(kept: Kept) -> bool:
    """Whether every element can be written in bfloat16."""
    bits = np.ascontiguousarray(kept, np.float32).view(np.uint32)
    return not (bits & 0xFFFF).any()


def round_to(array: Any, eps: float) -> Any:
    """The nearest numbers of this precision: float16 or bfloat16."""
    if precision_name(eps) == "float16":
        return array.astype(np.float16).astype(np.float64)
    mantissa, exponent = np.frexp(array)
    return np.ldexp(np.rint(mantissa * 256) / 256, exponent)


def is_rounded(one: Any, other: Any) -> bool:
    """Whether one of two arrays is the other, rounded to float16 or bfloat16, perhaps moved."""
    if one.size != other.size:
        return False
    if one.shape != other.shape:
        one, other = in_order(one), in_order(other)
    for coarse, fine in ((one, other), (other, one)):
        near = np.abs(coarse - fine) <= _BFLOAT16 * np.abs(fine)
        if near.all() and (fits_bfloat16(coarse) or (coarse.astype(np.float16) == coarse).all()):
            return True
    return False


def _is_bfloat16_inside(array: Any) -> bool:
    """Whether many different numbers all have at most 8 significant bits."""
    if array.size < FEW or not fits_bfloat16(array):
        return False
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32).ravel()
    odd = bits[(bits & 0x000F0000) != 0]  # the last of these 8 bits are in use
    return len(np.unique(odd & 0x7FFFFFFF)) >= FEW


def precision_name(eps: float) -> str:
    """The dtype of a precision."""
    return next((name for least, name in _NAMES if eps >= least), "float64")
