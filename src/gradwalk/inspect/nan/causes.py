"""Explain how an op made a NaN or inf from its operands, with a fix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.inspect.nan.nonfinite import Index, Numbers, at, bad_mask, dtype_of
from gradwalk.inspect.no_grad.cuts import Cause, formula_of
from gradwalk.inspect.report import short, telling
from gradwalk.inspect.trace.replay import is_array, op_of
from gradwalk.inspect.trace.routes import listed
from gradwalk.inspect.trace.trace import TraceNode
from gradwalk.ops.core.dtypes import dtype_named, finfo, is_floating

LOGS = {"log", "log2", "log10", "log1p", "xlogy"}
EXPONENTIALS = {"exp", "exp2", "expm1", "sinh", "cosh"}
QUOTIENTS = {"div", "reciprocal", "remainder", "fmod", "div_floor", "floor_divide"}
ROOTS = {"sqrt": "the root of", "rsqrt": "1 by the root of"}
POWERS = {"pow", "power"}
ARCS = {"acos", "asin", "atanh", "acosh", "erfinv", "logit"}
SOFTMAXES = {"softmax", "log_softmax", "logsumexp", "attention", "cross_entropy", "logaddexp"}
SPREADS = {"std", "var"}
NORMALS = {"standardize", "standardize_affine", "layer_norm", "batch_norm", "group_norm"}
SUMS = {"sum", "mean", "matmul", "linear", "einsum", "conv", "conv_bias", "vector_norm", "prod"}
SUMS |= {"cumsum", "cumprod", "addmm", "baddbmm"}
PRODUCTS = {"linear", "matmul", "einsum", "conv", "conv_bias", "lstm", "gru", "rnn"}
PRODUCTS |= {"addmm", "baddbmm"}
INVERSES = {"inv", "solve", "cholesky", "det", "slogdet", "pinv", "svd", "eigh"}

_CLAMP_LOG = (
    "keep its input above 0: log(x.clamp(min=1e-12)) or log(x + 1e-12); of a softmax or sigmoid "
    "use log_softmax, cross_entropy or logsigmoid instead."
)
_SAFE_QUOTIENT = (
    "keep the denominator away from 0: x / (y + 1e-12), x / y.clamp(min=1e-12), or "
    "where(y != 0, x / where(y != 0, y, 1.0), 0.0)."
)
_SUBTRACT_LARGEST = (
    "subtract the largest input first, as softmax and logsumexp do by themselves, or clamp it "
    "before."
)
_POSITIVE_ROOT = "keep its input above 0: sqrt(x.clamp(min=0) + 1e-12)."
_INSIDE_DOMAIN = "clamp its input into the domain of {op}, a little inside its ends."
_ZERO_DEVIATION = "{op} divides by a standard deviation of 0 (eps is {eps})."
_SINGULAR = "{op} is given a matrix that is singular, or of a kind that it does not support."
_REGULARISE = "add a small multiple of the identity to the matrix."


@dataclass(frozen=True, slots=True)
class There:
    """An op and its operands and result at one element."""

    node: TraceNode
    index: Index | None
    operands: list[float | None]  # at that element, where it is known
    result: float | None
    numbers: Numbers

    @classmethod
    def of(cls, numbers: Numbers, node: TraceNode, index: Index | None, result: Any) -> There:
        """The operands of a node at the element `result`."""
        op = op_of(node)
        together = op is not None and op.elementwise
        operands = [at(numbers.of(a), index) if together else None for a in node.args]
        return cls(node, index, operands, at(result, index), numbers)

    @property
    def shown(self) -> list[str]:
        """The operands as text, with the digits that matter."""
        dtypes = [dtype_of(self.numbers.of(a)) for a in self.node.args]
        return [telling(v, dtype) for v, dtype in zip(self.operands, dtypes)]

    @property
    def text(self) -> str:
        """`log(0) = −inf`, `0 / 0 = NaN`."""
        node, values = self.node, self.operands
        if any(v is None for v in values) or not values:
            return f"{node.op} = {short(self.result)}" if self.result is not None else node.op
        shown = self.shown
        if node.op == "power":
            shown.append(short(node.attrs["exponent"]))
        sign = _SIGNS.get(node.op)
        spelled = (
            f" {sign} ".join(f"({s})" if s.startswith("−") else s for s in shown)
            if sign
            else f"{node.op}({', '.join(shown)})"
        )
        return spelled if self.result is None else f"{spelled} = {short(self.result)}"


_SIGNS = {"add": "+", "sub": "−", "mul": "×", "div": "/", "power": "^", "pow": "^"}


# -- forward ---------------------------------------------------------------------------------------


# Ops that fail in one way.
_SIMPLE: dict[str, Cause] = {
    op: cause
    for ops, cause in (
        (LOGS, Cause("log", "the logarithm of {x} is {result}.", _CLAMP_LOG)),
        (ROOTS, Cause("root", "{root} {x} is {result}.", _POSITIVE_ROOT)),
        (ARCS, Cause("domain", "{op} is {undefined} at {number}.", _INSIDE_DOMAIN)),
        (NORMALS, Cause("zero variance", _ZERO_DEVIATION, "give it an eps above 0, such as 1e-5.")),
        (INVERSES, Cause("singular", _SINGULAR, _REGULARISE)),
    )
    for op in ops
}


def forward_cause(there: There) -> Cause:
    """Why an op gave NaN or inf."""
    op, values = there.node.op, there.operands
    infinite = [v for v in values if v is not None and math.isinf(v)]
    if op in _SIMPLE:
        simple = _SIMPLE[op]
        position = 1 if op == "xlogy" else 0
        x = values[position] if position < len(values) else None
        told = {
            "op": op,
            "x": f"1 + x, {_sort(1 + x)}," if op == "log1p" and x is not None else _sort(x),
            "number": there.shown[position] if x is not None else "an element",
            "result": short(there.result),
            "root": ROOTS.get(op, ""),
            "undefined": "infinite" if _gave_inf(there) else "not defined",
            "eps": there.node.attrs.get("eps"),
        }
        return Cause(simple.kind, simple.reason.format(**told), simple.fix.format(op=op))
    if op in QUOTIENTS and not infinite:
        return _quotient(there)
    if op in ("sub", "add") and len(infinite) == 2:
        return Cause(
            "inf − inf",
            "inf − inf is NaN: both operands are infinite here.",
            "look at where they become infinite, or keep them finite (a large number such as "
            "-1e9 in place of -inf).",
        )
    if op == "mul" and infinite:
        return Cause(
            "0 × inf",
            "0 × inf is NaN: a mask of zeros does not remove an infinite element.",
            "use where(mask, x, 0.0) in place of x * mask, and keep x finite.",
        )
    if op in EXPONENTIALS:
        return _overflow(there, _SUBTRACT_LARGEST)
    if op in POWERS:
        return _power(there)
    if op == "binary_cross_entropy":
        given = there.numbers.of(there.node.args[0])
        p = at(given, there.index)
        shown = telling(p, dtype_of(given))
        if p is not None and not 0 <= p <= 1:
            return Cause(
                "domain",
                f"{op} takes probabilities, from 0 to 1, and is given {shown} here.",
                "use binary_cross_entropy_with_logits, or a sigmoid before it.",
            )
    if op in SOFTMAXES:
        return _softmax(there)
    if op in SPREADS:
        return _spread(there)
    if op in SUMS or not infinite:
        return _many(there)
    return _overflow(there, "keep its input smaller: scale it, clamp it, or use float64.")


def _gave_inf(there: There) -> bool:
    """Whether the op gave inf, and not NaN."""
    return there.result is not None and math.isinf(there.result)


def _sort(x: float | None) -> str:
    if x is None:
        return "a number outside its domain"
    return "0" if x == 0 else f"a negative number ({short(x)})" if x < 0 else short(x)


def _quotient(there: There) -> Cause:
    values = there.operands
    x, y = (1.0, values[0]) if len(values) == 1 else (values[0], values[1])
    if y == 0 and x == 0:
        return Cause("0 / 0", "0 / 0 is NaN.", _SAFE_QUOTIENT)
    if y == 0:
        return Cause("division by 0", f"{short(x)} / 0 is {short(there.result)}.", _SAFE_QUOTIENT)
    return _overflow(there, "scale both operands, or use float64.")


def _power(there: There) -> Cause:
    values = [*there.operands]
    if there.node.op == "power":
        values.append(float(there.node.attrs["exponent"]))
    x, n = values[0], values[1] if len(values) > 1 else None
    if x is not None and n is not None and x < 0 and n != int(n):
        return Cause(
            "power",
            f"a negative number ({short(x)}) to the power of {short(n)} is NaN.",
            "use abs(x) or x.clamp(min=0) as the base, or a whole exponent.",
        )
    if x == 0 and n is not None and n < 0:
        return Cause("division by 0", f"0 to the power of {short(n)} is inf.", _SAFE_QUOTIENT)
    return _overflow(there, "keep the base or the exponent smaller, or use float64.")


def _overflow(there: There, fix: str) -> Cause:
    dtype = there.node.metas[0][1]
    dtype = "float64" if dtype == "float" else dtype
    largest = float(finfo(dtype_named(dtype)).max) if "float" in dtype else math.inf
    if dtype == "float16":
        fix = fix.replace("use float64", "use bfloat16 or float32, which go up to 3.4e+38")
    return Cause(
        "overflow",
        f"{there.text}: beyond the largest {dtype}, {largest:.2g}.",
        fix,
    )


def _softmax(there: There) -> Cause:
    node, numbers = there.node, there.numbers
    logits: Any = numbers.of(node.args[0])
    axis = node.attrs.get("axis", -1)
    axis = axis[0] if isinstance(axis, tuple) and axis else axis
    if is_array(logits) and np.ndim(logits) and isinstance(axis, int):
        logits = np.asarray(logits)
        axis = 1 if node.op == "cross_entropy" else axis
        row = "" if there.index is None else _row(there.index, logits.ndim, axis)
        if _in_row(there.index, (logits == -math.inf).all(axis=axis), axis):
            return Cause(
                "all −inf",
                f"{node.op} over {row or 'a row'}, where every element is −inf: nothing is left "
                "to choose from (0 / 0).",
                "leave at least one element of every row unmasked, mask with a large finite "
                "number (-1e9), or zero such rows with where() after giving them finite logits.",
            )
        if (logits == math.inf).any():
            return Cause(
                "inf − inf",
                f"{node.op} of logits with +inf: inf − inf is NaN.",
                "keep the logits finite: clamp them, or look at what makes them infinite.",
            )
        if node.op == "cross_entropy" and np.isinf(logits).any():
            return Cause(
                "log",
                "the target class has a logit of −inf: its probability is 0, and the logarithm of "
                "0 is −inf.",
                "do not mask the target's class, or mask with a large finite number (-1e9).",
            )
    return _many(there)


def _in_row(index: Index | None, rows: Any, axis: int) -> bool:
    """A condition per row, for the row of an element; for any row if that is unknown."""
    if index is not None and len(index) == rows.ndim + 1:
        index = tuple(i for k, i in enumerate(index) if k != axis % len(index))
    if index is None or len(index) != rows.ndim:
        return bool(rows.any())
    return bool(rows[index])


def _row(index: Index, ndim: int, axis: int) -> str:
    if len(index) != ndim:
        return f"row {index[0]}" if index else ""
    place = [str(i) for k, i in enumerate(index) if k != axis % ndim]
    return f"row {place[0]}" if len(place) == 1 else f"[{', '.join(place)}, :]" if place else ""


def _spread(there: There) -> Cause:
    node = there.node
    shape = there.numbers.trace.nodes[node.args[0].node].shape
    axes = node.attrs.get("axis", ())
    count = math.prod(shape[i] for i in axes) if axes else math.prod(shape)
    correction = node.attrs.get("correction", 1)
    if count - correction <= 0:
        of = "one element" if count == 1 else f"{count} elements"
        left = short(count - correction)
        return Cause(
            "one element",
            f"{node.op} of {of} divides by n − {short(correction)} = {left}.",
            f"use {node.op}(correction=0), which divides by n, or take more than one element.",
        )
    return _many(there)


def _many(there: There) -> Cause:
    """An op over many elements."""
    node, numbers = there.node, there.numbers
    sizes = [numbers.of(a) for a in node.args]
    known = [np.asarray(v) for v in sizes if is_array(v) and not isinstance(v, str)]
    if any(v.size == 0 for v in known):
        return Cause(
            "empty",
            f"{node.op} is applied to no elements.",
            "check that something is left after filtering or masking.",
        )
    largest = max(
        (float(np.abs(v).max()) for v in known if is_floating(v.dtype) and v.size), default=math.nan
    )
    if math.isfinite(largest):
        return _overflow(
            there,
            f"its operands go up to {short(largest)}: scale them, clip the weights, or use "
            "float64.",
        )
    return Cause(
        "not finite",
        f"{node.op} gives {short(there.result)} for operands that are not all finite.",
        "look at which operand is infinite: if it was given on purpose, as a mask, use a large "
        "finite number (-1e9) in its place.",
    )


# -- backward --------------------------------------------------------------------------------------

# A replacement for masked inputs, at which the op's derivative is finite.
SAFE = {"acos": "0.0", "asin": "0.0", "atanh": "0.0", "exp": "0.0", "tan": "0.0"}
_SMOOTH = {
    "sqrt": "add a small number inside: sqrt(x + 1e-12).",
    "power": "add a small number to the base: (x + 1e-12) ** n.",
    "pow": "add a small number to the base.",
    "std": "add a small number inside: (x.var() + 1e-12).sqrt().",
    "log": _CLAMP_LOG,
    "div": _SAFE_QUOTIENT,
}


def backward_cause(there: There, position: int, g: float | None, pushed: float | None) -> Cause:
    """Why a finite gradient became NaN or inf on its way to the input at `position`."""
    node = there.node
    op = op_of(node)
    if op is None:
        return Cause(
            "own backward",
            f"the backward of {node.op} gives {short(pushed)} for its input {position}.",
            f"check {node.op}.backward with gradwalk.gradcheck.",
        )
    value = there.operands[position] if op.elementwise and position < len(there.operands) else None
    here = "" if value is None else f" at {op.inputs[position]} = {there.shown[position]}"
    slope = _slope(there, position)
    shown = formula_of(op, position, node.attrs)
    if slope is None or not math.isfinite(slope):
        if node.op in SPREADS:
            return Cause(
                "infinite slope",
                f"{node.op} of equal elements is 0, and there it has no finite derivative.",
                _SMOOTH["std"],
            )
        size = "not finite" if slope is None else short(slope)
        return Cause(
            "infinite slope",
            f"the derivative of {node.op}{shown} is {size}{here}.",
            _SMOOTH.get(node.op, f"keep the input of {node.op} away from this value."),
        )
    return Cause(
        "overflow",
        f"gradient {short(g)} × derivative {short(slope)} of {node.op} is beyond the largest "
        f"{node.metas[0][1]}.",
        "clip or scale: a smaller loss, smaller weights, or float64.",
    )


def _slope(there: There, position: int) -> float | None:
    """The local derivative at the element, from the op's own rule."""
    op = op_of(there.node)
    if op is None or not op.elementwise or any(v is None for v in there.operands):
        return None
    rule = op.rule(position)
    if rule is None:
        return None
    with np.errstate(all="ignore"):
        values = [np.float64(v if v is not None else math.nan) for v in there.operands]
        env: dict[str, Any] = dict(zip(op.inputs, values)) | there.node.attrs
        env |= {f"{name}_shape": () for name in op.inputs}
        env["out"] = np.float64(op.on_numbers([float(v) for v in values], there.node.attrs))
        try:
            return float(rule.local(env, np.float64(1.0)))
        except (TypeError, ValueError, KeyError):
            return None


def rows_of(kept: Any) -> str:
    """Describe the non-finite rows of a data tensor."""
    if not is_array(kept) or not np.ndim(kept):
        return ""
    mask = np.asarray(bad_mask(kept))
    rows = np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1))
    names = [str(row) for row in rows]
    return f"row {names[0]}" if len(names) == 1 else f"rows {listed(names, 5)}"


def safe_form(op: str) -> str:
    """How to write an op so that masked elements are harmless."""
    if op == "div":
        return "y = where(mask, y, 1.0); x / y"
    calls = {"power": "x ** n", "pow": "x ** y", "reciprocal": "1 / x"}
    return f"x = where(mask, x, {SAFE.get(op, '1.0')}); {calls.get(op, f'{op}(x)')}"
