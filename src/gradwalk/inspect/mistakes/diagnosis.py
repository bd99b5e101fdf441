"""Name the mistake behind a wrong gradient, from that gradient and the right one.

Most mistakes are simulated: each turns the right gradient into a wrong one, and the mistakes that
give the gradient in question are named. The others show in which elements are zero. gradcheck
brings Jacobians as evidence, audit what a recorded node passed on, compare gradients derived by
hand, the course what learners' engines compute.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gradwalk.inspect.mistakes.evidence import Array, Evidence, Mask, say


def explanations(evidence: Evidence) -> dict[str, str]:
    """Every mistake that gives these numbers, the likeliest first: its key, a sentence.

    The key of a mistake that is told from the two gradients alone is the sentence itself.
    """
    with np.errstate(all="ignore"):
        if evidence.is_given(evidence.right):
            return {}
        if evidence.given.shape != evidence.right.shape:
            return {"shape": _wrong_shape(evidence)}
        told: dict[str, str] = {}
        for key, sentence in _told(evidence):
            told.setdefault(key, sentence)
        rule = None if told else wrong_rule(evidence)
    if rule is not None:
        told["rule"] = say("rule", op=evidence.op, text=rule.text)
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
        yield (
            say(
                "factor",
                sign="" if factor > 0 else "wrong sign and ",
                size=f"1/{inverse}" if as_fraction else f"{size:.4g}",
                reasons=": " + "; or ".join(reasons) if reasons else ", everywhere",
            ),
            e.right * factor,
        )


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
            averaged = f"{place}: averaged instead of summed (the backward pass of a broadcast "
            yield n, f"{place}: summed where the forward takes the mean"
            yield 1 / n, averaged + "is a sum)"
        if n > 2:
            confused = f"{place}, and the factor takes n for n - 1 or the other way round"
            yield (n - 1) / n, confused
            yield n / (n - 1), confused
    yield 2, "a contribution is counted twice, or a 2 does not belong"
    for n in range(2, 11):
        lost = f"a factor {n} is missing, or one of {n} equal contributions arrives and the others "
        yield 1 / n, lost + "are overwritten (= instead of +=) or cut off"
        if n > 2:
            yield n, f"a {n} does not belong"
    for constant, reason in (
        (math.log(2), "that is ln 2 or its inverse: a logarithm or power of base 2"),
        (math.log(10), "that is ln 10 or its inverse: a logarithm or power of base 10"),
        (math.pi / 180, "that is π/180 or its inverse: degrees where radians are meant"),
    ):
        yield constant, reason
        yield 1 / constant, reason


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
    """Whether what is lacking is of low rank: it passes through a sum over the elements."""
    if e.jacobian is not None:
        return _pulled_elementwise(e, e.jacobian)
    given, right = e.matrix(e.given), e.matrix(e.right)
    smaller = min(right.shape)
    if smaller < 2 or not np.isfinite(given).all():
        return False
    square = len(right) == right.shape[1]
    if square and not e.nonzero(right - np.diag(np.diag(right))).any():
        return False  # elementwise: nothing is summed over
    if square and not e.nonzero(given - np.diag(np.diag(given))).any():
        return _low_rank_beside(np.diag(given), right, e.rtol)
    tolerance = max(e.atol, e.rtol * float(np.abs(right).max()))
    rank = int(np.linalg.matrix_rank(right - given, tol=tolerance))
    whole = int(np.linalg.matrix_rank(given, tol=tolerance))
    return 0 < rank <= (smaller - 1) // 2 and whole > rank


def _pulled_elementwise(e: Evidence, jacobian: Array) -> bool:
    """Whether an op that mixes elements is pulled through as if it did not: softmax, a norm.

    Then what was passed on is a·g for some a, element by element.
    """
    if e.g is None or e.g.shape != e.given.shape or not e.given.any():
        return False
    g, given = np.ravel(e.g), np.ravel(e.given)
    known = np.abs(g) > 1e-9 * np.abs(g).max(initial=0.0)
    if np.any(np.abs(given[~known]) > e.atol):
        return False
    return _low_rank_beside(np.where(known, given / g, np.nan), jacobian, e.rtol)


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
    ones = [
        lead + i for i, n in enumerate(right.shape) if lead >= 0 and n == 1 < given.shape[lead + i]
    ]
    axes = (*range(lead), *ones)
    total = given.sum(axis=axes, keepdims=True)
    if axes and total.size == right.size and e.same(total.reshape(right.shape), right):
        return say("unsummed_shape", given=given.shape, axes=", ".join(map(str, axes)))
    return say("shape", given=given.shape, right=right.shape)


# -- local derivatives that are often written in place of the right ones ---------------------------


class WrongRule(NamedTuple):
    """A derivative that is often written in place of the right one."""

    argument: int  # of the op
    text: str  # as a completion of "yours is"
    # The first operand, the second (or the exponent), the output; numbers or arrays.
    rule: Callable[[Any, Any, Any], Any]


RULES: dict[str, tuple[WrongRule, ...]] = {
    "sub": (WrongRule(1, "1: the minus sign is missing", lambda x, y, out: 1.0),),
    "neg": (WrongRule(0, "1: the minus sign is missing", lambda x, y, out: 1.0),),
    "mul": (
        WrongRule(0, "a itself; it is the other input, b", lambda x, y, out: x),
        WrongRule(1, "b itself; it is the other input, a", lambda x, y, out: y),
        WrongRule(0, "1", lambda x, y, out: 1.0),
        WrongRule(1, "1", lambda x, y, out: 1.0),
    ),
    "div": (
        WrongRule(0, "1; it is 1/b", lambda x, y, out: 1.0),
        WrongRule(0, "b; it is 1/b", lambda x, y, out: y),
        WrongRule(1, "a/b²: the minus sign is missing", lambda x, y, out: x / y**2),
        WrongRule(1, "−a/b: the square is missing", lambda x, y, out: -x / y),
        WrongRule(1, "−1/b²: the factor a is missing", lambda x, y, out: -1 / y**2),
        WrongRule(1, "1/b², which is neither negative nor times a", lambda x, y, out: 1 / y**2),
        WrongRule(1, "1/b", lambda x, y, out: 1 / y),
        WrongRule(1, "a; it is −a/b²", lambda x, y, out: x),
    ),
    "power": (
        WrongRule(0, "aⁿ⁻¹: the factor n is missing", lambda x, y, out: x ** (y - 1)),
        WrongRule(0, "n·aⁿ: the exponent is not lowered by 1", lambda x, y, out: y * out),
        WrongRule(0, "n·a: it is n·aⁿ⁻¹", lambda x, y, out: y * x),
        WrongRule(0, "(n−1)·aⁿ⁻¹: the factor is n", lambda x, y, out: (y - 1) * x ** (y - 1)),
        WrongRule(0, "aⁿ, the output itself", lambda x, y, out: out),
    ),
    "exp": (
        WrongRule(0, "the input; it is the output, exp(a)", lambda x, y, out: x),
        WrongRule(0, "1; it is the output, exp(a)", lambda x, y, out: 1.0),
        WrongRule(0, "a·exp(a − 1), as for a power", lambda x, y, out: x * out / math.e),
    ),
    "tanh": (
        WrongRule(0, "1 − a²: it is 1 − out², the output squared", lambda x, y, out: 1 - x * x),
        WrongRule(0, "1 − out: the square is missing", lambda x, y, out: 1 - out),
        WrongRule(0, "1 + out²: it is 1 − out²", lambda x, y, out: 1 + out * out),
        WrongRule(0, "out²: it is 1 − out²", lambda x, y, out: out * out),
        WrongRule(0, "out·(1 − out), as for a sigmoid", lambda x, y, out: out * (1 - out)),
        WrongRule(0, "1", lambda x, y, out: 1.0),
    ),
    "relu": (
        WrongRule(0, "1 for a negative input too, where it is 0", lambda x, y, out: 1.0),
        WrongRule(0, "the output; it is 1 where the input is positive", lambda x, y, out: out),
        WrongRule(0, "the wrong way round: 1 where the input is negative", lambda x, y, out: x < 0),
    ),
}
CUT = "0: the input receives nothing, as if the result did not know it"


def wrong_rule(e: Evidence) -> WrongRule | None:
    """Return the first wrong rule that gives the gradient, None if no rule does."""
    if e.output_shape or e.g is None or e.output is None or not e.operands:
        return None
    rules = [rule for rule in RULES.get(e.op, ()) if rule.argument == e.argument]
    rules.append(WrongRule(e.argument, CUT, lambda x, y, out: 0.0))
    return next((rule for rule in rules if fits(e, rule)), None)


def fits(e: Evidence, rule: WrongRule) -> bool:
    """Whether a wrong rule gives the gradient."""
    with np.errstate(all="ignore"):
        slope = np.asarray(rule.rule(e.operands[0], e.operands[-1], e.output))
        return e.g is not None and e.is_given(e.g * slope)
