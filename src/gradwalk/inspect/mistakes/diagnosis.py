"""Name the mistake behind a wrong gradient, from that gradient and the right one.

Most mistakes are simulated: each turns the right gradient into a wrong one, and the mistakes that
give the gradient in question are named. The others show in which elements are zero. gradcheck
brings Jacobians as evidence, audit what a recorded node passed on, compare gradients derived by
hand, the course what learners' engines compute.
"""

from __future__ import annotations

import functools
import itertools
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SENTENCES = Path(__file__).with_name("sentences.toml")
Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@functools.cache
def _sentences() -> dict[str, str]:
    return tomllib.loads(SENTENCES.read_text(encoding="utf-8"))


def say(name: str, **facts: Any) -> str:
    """The sentence for a mistake, filled in.

    >>> say("sign")
    'wrong sign: backward gives the negative of the derivative.'
    """
    return _sentences()[name].format(**facts)


def differs(
    given: npt.ArrayLike, right: npt.ArrayLike, atol: float = 1e-5, rtol: float = 1e-3
) -> Mask:
    """Where the two are further apart than atol + rtol·|right|; NaN differs from everything.

    >>> differs([1.0, 2.0], [1.0, 2.1])
    array([False,  True])
    """
    one, other = np.asarray(given, np.float64), np.asarray(right, np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(one - other) <= atol + rtol * np.abs(other)
    near &= np.isfinite(other)  # inf is near nothing but itself, though inf <= rtol × inf
    return np.asarray(~(near | (one == other)))


@dataclass(frozen=True)
class Evidence:
    """Two gradients, in the shape of the input, or two Jacobians, in that of output + input."""

    given: Array
    right: Array
    output_shape: tuple[int, ...] = ()  # of a Jacobian
    atol: float = 1e-5
    rtol: float = 1e-3
    # The op that handed it on. A trace knows most of this, two plain gradients nothing.
    op: str = ""
    argument: int = 0
    operands: tuple[Any, ...] = ()  # arrays and numbers
    output: Array | None = None
    g: Array | None = None  # the gradient at its output; beside a Jacobian the identity
    others: Mapping[int, Array] = field(default_factory=dict)  # the right gradients of its inputs
    jacobian: Array | None = None  # of an op that mixes elements, a row per output element
    unsummed: tuple[str, Array] | None = None  # broadcast axes, the gradient of their index 0
    right_for: str = ""  # another call of the op, for which it would be right
    right_elsewhere: bool = False  # whether the rule was right in another call

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the input."""
        return self.right.shape[len(self.output_shape) :]

    def same(self, given: npt.ArrayLike, right: npt.ArrayLike) -> bool:
        """Whether two arrays agree within the tolerances."""
        if np.shape(given) != np.shape(right):
            return False
        return not differs(given, right, self.atol, self.rtol).any()

    def is_given(self, array: npt.ArrayLike) -> bool:
        """Whether backward gives this."""
        return self.same(self.given, array)

    def nonzero(self, array: Array) -> Mask:
        """Where an array is more than rounding away from zero."""
        return np.asarray(np.abs(array) > self.atol)

    def matrix(self, array: Array) -> Array:
        """One row per element of the output, one column per element of the input."""
        return array.reshape(math.prod(self.output_shape), math.prod(self.input_shape))


def explanations(evidence: Evidence) -> dict[str, str]:
    """Every mistake that gives these numbers, the likeliest first: its key, a sentence.

    The key of a mistake that is told from the two gradients alone is the sentence itself.
    """
    told: dict[str, str] = {}
    with np.errstate(all="ignore"):
        if not evidence.is_given(evidence.right):
            for key, sentence in _told(evidence):
                told.setdefault(key, sentence)
            rule = None if told else wrong_rule(evidence)
            if rule is not None:
                told["rule"] = say("rule", op=evidence.op, text=rule[0])
    return told


def diagnose(
    given: npt.ArrayLike, right: npt.ArrayLike, *, atol: float = 1e-5, rtol: float = 1e-3
) -> str | None:
    """Name the likeliest mistake in a gradient; None if it is right, or no mistake fits.

    >>> diagnose([2.0, -8.0, 6.0], [-2.0, 8.0, -6.0])
    'wrong sign: backward gives the negative of the derivative.'
    >>> diagnose([[1.0, 3.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]])
    'transposed: the gradient is the transpose of what it should be.'
    """
    one, other = np.asarray(given, np.float64), np.asarray(right, np.float64)
    return next(iter(explanations(Evidence(one, other, atol=atol, rtol=rtol)).values()), None)


def _told(e: Evidence) -> Iterator[tuple[str, str]]:
    if e.given.shape != e.right.shape:
        yield "shape", _wrong_shape(e)
        return
    # A wrong rule is wrong at every call; one that was right elsewhere speaks for a stale value.
    if e.right_for and e.right_elsewhere:
        yield "stale", say("stale", other=e.right_for)
    if e.unsummed and e.is_given(e.unsummed[1]):
        yield "unsummed", say("unsummed", only=f"index 0 of axis {e.unsummed[0]}")
    by_numbers = next(_by_numbers(e), None)
    if by_numbers is not None:
        yield by_numbers, by_numbers
    for other, right in e.others.items():
        if other != e.argument and e.is_given(right):
            yield "swapped", say("swapped", one=e.argument, other=other)
    if _without_term(e):
        yield "term", say("term")
    elif e.g is not None:
        if e.is_given(e.g):
            yield "passed on", say("passed_on")
        if e.output is not None and e.is_given(e.g * e.output):
            yield "output", say("output")
    if e.right_for:
        yield "stale", say("stale", other=e.right_for)


def _by_numbers(e: Evidence) -> Iterator[str]:
    """Mistakes told from the two gradients alone, the likeliest first."""
    bad = ~np.isfinite(e.given)
    if not np.isfinite(e.right).all():
        yield say("domain")
    elif bad.any():
        what = "NaN" if np.isnan(e.given).any() else "inf"
        yield say("overflow", what=what, count=bad.sum(), size=bad.size)
    for sentence, gradient in _simulated(e):
        if e.is_given(gradient):
            yield sentence
    yield from _by_zeros(e)


# -- simulated: the gradient that a mistake would give ---------------------------------------------


def _simulated(e: Evidence) -> Iterator[tuple[str, Array]]:
    right, shape = e.right, e.right.shape
    yield say("missing"), np.zeros(shape)
    yield say("sign"), -right
    yield from _factored(e)
    first = len(e.output_shape)
    input_axes = range(first, right.ndim)
    pairs = list(itertools.combinations(input_axes, 2))
    for one, other in pairs:
        axes = say("transposed_axes", one=one - first, other=other - first)
        yield say("transposed") if len(pairs) == 1 else axes, right.swapaxes(one, other)
    for pair in pairs:
        yield say("reshaped"), right.swapaxes(*pair).reshape(shape)
    jacobian = e.matrix(right)
    if len(jacobian) == jacobian.shape[1] > 1:
        yield say("jacobian_transposed"), jacobian.T.reshape(shape)
    for axis in input_axes:
        for how, reduce in (("summed", np.sum), ("averaged", np.mean)):
            if shape[axis] > 1:
                reduced = reduce(right, axis=axis, keepdims=True)
                yield say("spread", how=how, axis=axis - first), np.broadcast_to(reduced, shape)
    for axis in input_axes:
        yield say("reversed", axis=axis - first), np.flip(right, axis)


def _factored(e: Evidence) -> Iterator[tuple[str, Array]]:
    square = float(np.sum(e.right * e.right))
    factor = float(np.sum(e.given * e.right)) / square if square else 0.0
    size = abs(factor)
    reasons = dict.fromkeys(reason for likely, reason in _factors(e) if _near(size, likely))
    # A single number is always some factor times another: claim one only if it is a likely one.
    if size and (reasons or np.sum(e.nonzero(e.right)) >= 3):
        inverse = round(1 / size)
        as_fraction = size < 1 and 1 < inverse < 1e6 and _near(size, 1 / inverse)
        sentence = say(
            "factor",
            sign="" if factor > 0 else "wrong sign and ",
            size=f"1/{inverse}" if as_fraction else f"{size:.4g}",
            reasons=": " + "; or ".join(reasons) if reasons else ", everywhere",
        )
        yield sentence, e.right * factor


def _factors(e: Evidence) -> Iterator[tuple[float, str]]:
    """Factors that a gradient may be off by, and why, the likeliest first."""
    sizes: dict[int, str] = {}
    for what, shape in (("output", e.output_shape), ("input", e.input_shape)):
        for axis, n in enumerate(shape):
            sizes.setdefault(n, f"{n} is the size of {what} axis {axis}")
        total = math.prod(shape)
        sizes.setdefault(total, f"{total} is the number of {what} elements")
    for n, place in sizes.items():
        if n > 1:
            yield n, say("factor_summed", place=place)
            yield 1 / n, say("factor_averaged", place=place)
        if n > 2:
            yield (n - 1) / n, say("factor_one_less", place=place)
            yield n / (n - 1), say("factor_one_less", place=place)
    yield 2, say("factor_twice")
    for n in range(2, 11):
        yield 1 / n, say("factor_lost", n=n)
        if n > 2:
            yield n, say("factor_extra", n=n)
    for name, constant in (("2", math.log(2)), ("10", math.log(10))):
        yield constant, say("factor_base", base=name)
        yield 1 / constant, say("factor_base", base=name)
    yield math.pi / 180, say("factor_degrees")
    yield 180 / math.pi, say("factor_degrees")


def _near(number: float, wanted: float) -> bool:
    return abs(number - wanted) <= 1e-4 * abs(wanted)


# -- told from where a gradient is zero ------------------------------------------------------------


def _by_zeros(e: Evidence) -> Iterator[str]:
    given, right = e.matrix(e.given), e.matrix(e.right)
    arrived = e.nonzero(given)
    missing = e.nonzero(right) & ~arrived
    if missing.any() and e.same(np.where(missing, right, given), right):
        yield from _holes(e, arrived, missing)
    extra = arrived & ~e.nonzero(right)
    if not e.nonzero(right).any():
        yield say("unrelated")
    elif extra.any() and e.same(np.where(extra, right, given), right):
        yield say("too_much", count=extra.sum(), size=extra.size)


def _holes(e: Evidence, arrived: Mask, missing: Mask) -> Iterator[str]:
    """What arrived is right, and the rest is zero: matrices of output and input elements."""
    rows, columns = missing.any(axis=1), missing.any(axis=0)
    # Some outputs hand back nothing to inputs that others hand something to.
    if arrived[:, columns].any(axis=0).all() and not arrived[rows].any():
        handing = np.asarray(arrived.any(axis=1)).reshape(e.output_shape)
        axes, box = [], np.ones(handing.shape, np.bool_)  # where all that arrived lies
        for axis, size in enumerate(handing.shape):
            there = handing.any(axis=tuple(i for i in range(handing.ndim) if i != axis))
            if size > 1 and there.sum() == 1:
                axes.append(f"index {np.argmax(there)} of output axis {axis}")
                box &= there.reshape([-1 if i == axis else 1 for i in range(handing.ndim)])
        if axes and not (rows.reshape(e.output_shape) & box).any():
            yield say("unsummed", only=" and ".join(axes))
        yield say("silent_outputs")
    diagonal = np.eye(*arrived.shape, dtype=np.bool_)
    if e.output_shape == e.input_shape and not (arrived & ~diagonal | missing & diagonal).any():
        yield say("diagonal")
    first = tuple(map(int, np.unravel_index(int(np.argmax(missing)), e.right.shape)))
    yield say("in_part", count=missing.sum(), size=missing.size, first=first)


# -- a term that passes through a sum over the elements --------------------------------------------


def _without_term(e: Evidence) -> bool:
    """Whether what is lacking is of low rank: it passes through a sum over the elements.

    Such an op is often pulled through as if it were elementwise: softmax, a norm.
    """
    if e.jacobian is not None:  # then what was passed on is a·g for some a, element by element
        if e.g is None or e.g.shape != e.given.shape or not e.given.any():
            return False
        if np.count_nonzero(e.jacobian, axis=1).max(initial=0) < 2:
            return False  # elementwise: nothing is summed over
        g, passed_on = np.ravel(e.g), np.ravel(e.given)
        known = np.abs(g) > 1e-9 * np.abs(g).max(initial=0.0)
        if np.any(np.abs(passed_on[~known]) > e.atol):
            return False
        return _low_rank_beside(np.where(known, passed_on / g, np.nan), e.jacobian, e.rtol)
    given, right = e.matrix(e.given), e.matrix(e.right)
    smaller = min(right.shape)
    if smaller < 2 or not np.isfinite(given).all():
        return False
    if len(right) == right.shape[1]:
        if not e.nonzero(right - np.diag(np.diag(right))).any():
            return False  # elementwise: nothing is summed over
        if not e.nonzero(given - np.diag(np.diag(given))).any():
            return _low_rank_beside(np.diag(given), right, e.rtol)
    tolerance = max(e.atol, e.rtol * float(np.abs(right).max()))
    lacking, whole = np.linalg.matrix_rank(np.stack([right - given, given]), tol=tolerance)
    return bool(0 < lacking <= (smaller - 1) // 2 and whole > lacking)


def _low_rank_beside(diagonal: Array, jacobian: Array, rtol: float) -> bool:
    """Whether a square Jacobian is this diagonal and, in each row summed over, a low rank.

    So it is of softmax, diag(p) - p·pᵀ, and of a normalisation. Rows whose diagonal is unknown
    (NaN) are not judged.
    """
    from scipy.sparse.csgraph import connected_components

    tied = np.abs(jacobian) > 1e-7 * np.abs(jacobian).max(initial=0.0)
    count, block_of = connected_components(tied, directed=False)
    for block in (np.flatnonzero(block_of == b) for b in range(count)):
        if len(block) < 2 or np.isnan(diagonal[block]).any():
            continue
        sizes = np.linalg.svd(jacobian[np.ix_(block, block)] - np.diag(diagonal[block]))[1]
        if sizes[-1] > rtol * sizes[0]:
            return False
    return True


def _wrong_shape(e: Evidence) -> str:
    given, right = e.given, e.right
    if given.ndim > 1 and e.same(given.swapaxes(-1, -2), right):
        return say("transposed")
    lead = given.ndim - right.ndim
    pairs = zip(given.shape[lead:], right.shape) if lead >= 0 else ()
    axes = (*range(lead), *(lead + i for i, (n, m) in enumerate(pairs) if m == 1 < n))
    total = given.sum(axis=axes, keepdims=True)
    if axes and total.size == right.size and e.same(total.reshape(right.shape), right):
        return say("unsummed_shape", given=given.shape, axes=", ".join(map(str, axes)))
    return say("shape", given=given.shape, right=right.shape)


# -- local derivatives that are often written in place of the right ones ---------------------------

# Of the first operand, the second (or the exponent) and the output; numbers or arrays.
Slope = Callable[[Any, Any, Any], Any]

# By op and argument: what completes "yours is".
SLOPES: dict[tuple[str, int], dict[str, Slope]] = {
    ("sub", 1): {"1: the minus sign is missing": lambda x, y, out: 1.0},
    ("neg", 0): {"1: the minus sign is missing": lambda x, y, out: 1.0},
    ("mul", 0): {
        "a itself; it is the other input, b": lambda x, y, out: x,
        "1": lambda x, y, out: 1.0,
    },
    ("mul", 1): {
        "b itself; it is the other input, a": lambda x, y, out: y,
        "1": lambda x, y, out: 1.0,
    },
    ("div", 0): {
        "1; it is 1/b": lambda x, y, out: 1.0,
        "b; it is 1/b": lambda x, y, out: y,
    },
    ("div", 1): {
        "a/b²: the minus sign is missing": lambda x, y, out: x / y**2,
        "−a/b: the square is missing": lambda x, y, out: -x / y,
        "−1/b²: the factor a is missing": lambda x, y, out: -1 / y**2,
        "1/b², which is neither negative nor times a": lambda x, y, out: 1 / y**2,
        "1/b": lambda x, y, out: 1 / y,
        "a; it is −a/b²": lambda x, y, out: x,
    },
    ("power", 0): {
        "aⁿ⁻¹: the factor n is missing": lambda x, y, out: x ** (y - 1),
        "n·aⁿ: the exponent is not lowered by 1": lambda x, y, out: y * out,
        "n·a: it is n·aⁿ⁻¹": lambda x, y, out: y * x,
        "(n−1)·aⁿ⁻¹: the factor is n": lambda x, y, out: (y - 1) * x ** (y - 1),
        "aⁿ, the output itself": lambda x, y, out: out,
    },
    ("exp", 0): {
        "the input; it is the output, exp(a)": lambda x, y, out: x,
        "1; it is the output, exp(a)": lambda x, y, out: 1.0,
        "a·exp(a − 1), as for a power": lambda x, y, out: x * out / math.e,
    },
    ("tanh", 0): {
        "1 − a²: it is 1 − out², the output squared": lambda x, y, out: 1 - x * x,
        "1 − out: the square is missing": lambda x, y, out: 1 - out,
        "1 + out²: it is 1 − out²": lambda x, y, out: 1 + out * out,
        "out²: it is 1 − out²": lambda x, y, out: out * out,
        "out·(1 − out), as for a sigmoid": lambda x, y, out: out * (1 - out),
        "1": lambda x, y, out: 1.0,
    },
    ("relu", 0): {
        "1 for a negative input too, where it is 0": lambda x, y, out: 1.0,
        "1 at exactly 0 too (>= in place of >), where it is 0 as PyTorch has it": (
            lambda x, y, out: x >= 0
        ),
        "the output; it is 1 where the input is positive": lambda x, y, out: out,
        "the wrong way round: 1 where the input is negative": lambda x, y, out: x < 0,
    },
}
CUT = {"0: the input receives nothing, as if the result did not know it": lambda x, y, out: 0.0}


def wrong_rule(e: Evidence) -> tuple[str, Slope] | None:
    """Return the first wrong derivative that gives the gradient, in words; None if none does."""
    if e.output_shape or e.g is None or e.output is None or not e.operands:
        return None
    slopes = SLOPES.get((e.op, e.argument), {}) | CUT
    return next((named for named in slopes.items() if fits(e, named[1])), None)


def fits(e: Evidence, slope: Slope) -> bool:
    """Whether a wrong derivative gives the gradient."""
    with np.errstate(all="ignore"):
        taken = np.asarray(slope(e.operands[0], e.operands[-1], e.output))
        return e.g is not None and e.is_given(e.g * taken)
