"""Name the mistake behind a wrong gradient: one table of mistakes, and one matcher.

`Evidence` is a gradient that is wrong beside the right one, and what is known of the op it came
from. Every entry of `MISTAKES` is a function from evidence to a sentence, or to None if that
mistake would give other numbers. gradcheck brings Jacobians as evidence, audit brings recorded
contributions, compare brings gradients derived by hand, the course brings what learners' engines
compute.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gradwalk.inspect.mistakes.wrong_rules import wrong_rule

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """A gradient that is wrong beside the right one.

    Both are gradients, in the shape of the input. Or both are Jacobians, in the shape of the
    output followed by that of the input.
    """

    given: Array
    right: Array
    output_shape: tuple[int, ...] = ()  # () for a gradient
    atol: float = 1e-5
    rtol: float = 1e-3
    uses: Mapping[str, Array] = field(default_factory=dict)  # what should arrive from each use
    # What is known of the op; a trace knows most, and two plain gradients know nothing.
    op: str = ""
    argument: int = 0
    operands: tuple[Array, ...] = ()
    output: Array | None = None
    g: Array | None = None  # the gradient at its output: of the shape of a Jacobian, the identity
    others: Mapping[int, Array] = field(default_factory=dict)  # the right gradients of its inputs
    jacobian: Array | None = None  # of an op that mixes elements, a row per output element
    unsummed: tuple[str, Array] | None = None  # the axes, the gradient of their index 0 alone
    right_for: tuple[str, ...] = ()  # other calls of the op for which it would be right
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

    def nonzero(self, array: Array) -> npt.NDArray[np.bool_]:
        """Where an array is more than rounding away from zero."""
        return np.asarray(np.abs(array) > self.atol)

    @property
    def input_axes(self) -> range:
        """The axes of the arrays that belong to the input."""
        return range(len(self.output_shape), self.right.ndim)

    def matrix(self, array: Array) -> Array:
        """One row per element of the output, one column per element of the input."""
        return array.reshape(math.prod(self.output_shape), math.prod(self.input_shape))


def explanations(evidence: Evidence) -> dict[str, str]:
    """Every mistake that gives these numbers: its key and a sentence, the likeliest first.

    Of the mistakes that are told from the two arrays alone, only the first is named. A common
    wrong derivative is named where nothing else fits.
    """
    case = evidence
    told: dict[str, str] = {}
    if case.given.shape != case.right.shape:
        return {"shape": _other_shape(case)}
    with np.errstate(all="ignore"):
        if case.same(case.given, case.right):
            return {}
        by_numbers = False
        for mistake in MISTAKES:
            if (mistake.by_numbers and by_numbers) or not told.keys().isdisjoint(mistake.unless):
                continue
            sentence = mistake.find(case)
            if sentence is not None:
                by_numbers = by_numbers or mistake.by_numbers
                told.setdefault(mistake.key or sentence, sentence)
        other = None if told else _other_derivative(case)
    return told if other is None else {"rule": other}


def diagnose(
    given: npt.ArrayLike,
    right: npt.ArrayLike,
    *,
    uses: Mapping[str, npt.ArrayLike] | None = None,
    atol: float = 1e-5,
    rtol: float = 1e-3,
) -> str | None:
    """Name the likeliest mistake in a gradient; None if it is right, or no mistake fits.

    `uses` has, per place where the input is used, what should arrive from there: together they
    are the right gradient.

    >>> diagnose([2.0, -8.0, 6.0], [-2.0, 8.0, -6.0])
    'wrong sign: backward gives the negative of the derivative.'
    >>> diagnose([[1.0, 3.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]])
    'transposed: the gradient is the transpose of what it should be.'
    """
    one, other = np.asarray(given, np.float64), np.asarray(right, np.float64)
    parts = {place: np.asarray(use, np.float64) for place, use in (uses or {}).items()}
    told = explanations(Evidence(one, other, atol=atol, rtol=rtol, uses=parts))
    return next(iter(told.values()), None)


def differs(
    given: npt.ArrayLike, right: npt.ArrayLike, atol: float = 1e-5, rtol: float = 1e-3
) -> npt.NDArray[np.bool_]:
    """Where the two are further apart than atol + rtol·|right|; NaN differs from everything.

    >>> differs([1.0, 2.0], [1.0, 2.1])
    array([False,  True])
    """
    one, other = np.asarray(given, np.float64), np.asarray(right, np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(one - other) <= atol + rtol * np.abs(other)
    near &= np.isfinite(other)  # inf is near nothing but itself, though inf <= rtol × inf
    return np.asarray(~(near | (one == other)))


def _other_shape(case: Evidence) -> str:
    given, right = case.given, case.right
    if given.ndim >= 2 and case.same(given.swapaxes(-1, -2), right):
        return "transposed: the gradient is the transpose of what it should be."
    lead = given.ndim - right.ndim
    if lead >= 0:
        ones = [i for i, n in enumerate(right.shape) if n == 1 and given.shape[lead + i] > 1]
        axes = [*range(lead), *(lead + i for i in ones)]
        total = given.sum(axis=tuple(axes), keepdims=True)
        if axes and total.size == right.size and case.same(total.reshape(right.shape), right):
            return (
                f"not summed over a broadcast axis: the gradient has shape {given.shape}; summed "
                f"over axis {', '.join(map(str, axes))} it is right. What is broadcast forward is "
                "summed backward."
            )
    return (
        f"a wrong shape: the gradient has shape {given.shape} where the input has {right.shape}; "
        "they must be equal."
    )


# -- the mistakes, each a function from evidence to a sentence or None -----------------------------


def _not_finite(case: Evidence) -> str | None:
    if not np.isfinite(case.right).all():
        return (
            "not finite: the function itself gives NaN or inf within eps of this input, so it has "
            "no derivative there. Move the input into the function's domain."
        )
    bad = ~np.isfinite(case.given)
    if not bad.any():
        return None
    kind = "NaN" if np.isnan(case.given).any() else "inf"
    return (
        f"not finite: backward gives {kind} for {bad.sum()} of {bad.size} elements where the "
        "derivative is finite. A 0 × inf in the rule is the usual cause: put g inside where(...), "
        "or rewrite the rule for the values that overflow."
    )


def _missing(case: Evidence) -> str | None:
    if case.nonzero(case.given).any():
        return None
    return (
        "missing: backward gives no gradient although the output changes with this input. Its "
        "path is cut: a detach(), a no_grad(), an item() or a conversion to NumPy in between, or "
        "a rule that returns None or 0."
    )


def _overwritten(case: Evidence) -> str | None:
    """The gradient of some uses only: the others were overwritten or forgotten."""
    places = list(case.uses)
    if len(places) < 2 or not case.same(_total(case, places), case.right):
        return None
    for kept in _proper_subsets(places):
        if case.same(case.given, _total(case, kept)):
            lost = [place for place in places if place not in kept]
            return (
                f"overwritten instead of accumulated: the input is used in {len(places)} places "
                "and what arrives from them must be added (+=), but the gradient is that of\n"
                + "".join(f"    {place}\n" for place in kept)
                + "  alone; lost is that of"
                + "".join(f"\n    {place}" for place in lost)
            )
    return None


def _total(case: Evidence, places: list[str]) -> Array:
    return np.asarray(sum((case.uses[place] for place in places), np.zeros(case.right.shape)))


def _proper_subsets(places: list[str]) -> Iterator[list[str]]:
    """One of the uses, all but one, then what lies between (not for many: there are 2ⁿ)."""
    count = len(places)
    sizes = [1, count - 1, *(range(2, count - 1) if count <= 8 else ())]
    for size in dict.fromkeys(sizes):
        yield from map(list, itertools.combinations(places, size))


def _factor(case: Evidence) -> str | None:
    """A constant times the right gradient, -1 among them."""
    square = float(np.sum(case.right * case.right))
    if square == 0:
        return None
    factor = float(np.sum(case.given * case.right)) / square
    if not case.same(case.given, factor * case.right):
        return None
    if _near(factor, -1):
        return "wrong sign: backward gives the negative of the derivative."
    size = abs(factor)
    reasons = _reasons(size, case)
    # A single number is always some factor times another: claim one only if it is a likely one.
    if not reasons and np.sum(case.nonzero(case.right)) < 3:
        return None
    kind = "a constant factor" if factor > 0 else "wrong sign and a constant factor"
    text = f"{kind}: backward gives {_factor_text(size)} times the derivative"
    return f"{text}: {'; or '.join(reasons)}." if reasons else f"{text}, everywhere."


def _reasons(factor: float, case: Evidence) -> list[str]:
    """Why a gradient may be off by this factor, the likeliest first."""
    reasons = []
    for place, n in _sizes(case):
        if _near(factor, n):
            reasons.append(f"{place}: summed where the forward takes the mean")
        elif _near(factor, 1 / n):
            reasons.append(
                f"{place}: averaged where the sum is meant (what is broadcast forward is summed "
                "backward)"
            )
        elif n > 2 and (_near(factor, (n - 1) / n) or _near(factor, n / (n - 1))):
            reasons.append(f"{place}, and the factor takes n for n - 1 or the other way round")
    if _near(factor, 2):
        reasons.append("a contribution is counted twice, or a 2 does not belong")
    for n in range(2, 11):
        if _near(factor, 1 / n):
            reasons.append(
                f"a factor {n} is missing, or one of {n} equal contributions arrives and the "
                "others are overwritten (= instead of +=) or cut off"
            )
        elif n > 2 and _near(factor, n):
            reasons.append(f"a {n} does not belong")
    for constant, reason in _CONSTANTS.items():
        if _near(factor, constant) or _near(factor, 1 / constant):
            reasons.append(reason)
    return reasons


_CONSTANTS = {
    math.log(2): "that is ln 2 or its inverse: a logarithm or power of base 2",
    math.log(10): "that is ln 10 or its inverse: a logarithm or power of base 10",
    math.pi / 180: "that is π/180 or its inverse: degrees where radians are meant",
}


def _sizes(case: Evidence) -> Iterator[tuple[str, int]]:
    """Every size that a mean may divide by, once, with the words for it."""
    seen = {0, 1}
    for what, shape in (("output", case.output_shape), ("input", case.input_shape)):
        named = [(f"{n} is the size of {what} axis {axis}", n) for axis, n in enumerate(shape)]
        total = math.prod(shape)
        for words, n in [*named, (f"{total} is the number of {what} elements", total)]:
            if n not in seen:
                seen.add(n)
                yield words, n


def _factor_text(factor: float) -> str:
    inverse = 1 / factor
    if factor < 1 and _near(inverse, round(inverse)) and inverse < 1e6:
        return f"1/{round(inverse)}"
    return f"{factor:.4g}"


def _near(found: float, wanted: float) -> bool:
    return abs(found - wanted) <= 1e-4 * abs(wanted)


def _transposed(case: Evidence) -> str | None:
    axes = case.input_axes
    for one, other in itertools.combinations(axes, 2):
        swapped = case.right.swapaxes(one, other)
        if case.same(case.given, swapped):
            if len(axes) == 2:
                return "transposed: the gradient is the transpose of what it should be."
            first, second = one - axes.start, other - axes.start
            return f"transposed: axes {first} and {second} of the gradient are swapped."
        # Of another shape, the transpose was reshaped to fit.
        if case.same(case.given, swapped.reshape(case.right.shape)):
            return (
                "transposed: the gradient has the elements of the transpose, reshaped to fit. Use "
                "a transpose (.mT) in the rule, not a reshape."
            )
    given, right = case.matrix(case.given), case.matrix(case.right)
    if len(right) > 1 and case.same(given, right.T):
        return (
            "transposed: backward multiplies by the Jacobian where its transpose is meant "
            "(A @ g instead of A.mT @ g)."
        )
    return None


def _spread(case: Evidence) -> str | None:
    """Summed or averaged over an axis and handed to all of its elements."""
    for axis in case.input_axes:
        if case.right.shape[axis] == 1:
            continue
        for how, reduce in (("summed", np.sum), ("averaged", np.mean)):
            spread = np.broadcast_to(reduce(case.right, axis=axis, keepdims=True), case.right.shape)
            if case.same(case.given, spread):
                return (
                    f"{how} over input axis {axis - case.input_axes.start} and handed to every "
                    "element alike; each element has a gradient of its own."
                )
    return None


def _reversed(case: Evidence) -> str | None:
    for axis in case.input_axes:
        if case.same(case.given, np.flip(case.right, axis)):
            return (
                f"reversed: the gradient runs backwards along input axis "
                f"{axis - case.input_axes.start}."
            )
    return None


def _missing_in_part(case: Evidence) -> str | None:
    """Zero at some elements, right at the others."""
    given, right = case.matrix(case.given), case.matrix(case.right)
    arrived = case.nonzero(given)
    missing = case.nonzero(right) & ~arrived
    if not missing.any() or not case.same(np.where(missing, right, given), right):
        return None
    rows, columns = np.asarray(missing.any(axis=1)), np.asarray(missing.any(axis=0))
    still_reached = np.asarray(arrived.any(axis=0))[columns].all()
    if still_reached and not arrived[rows].any():
        return _one_of_several_outputs(case, np.asarray(arrived.any(axis=1)), rows)
    on_diagonal = np.eye(*right.shape, dtype=np.bool_)
    square = case.output_shape == case.input_shape
    if square and not arrived[~on_diagonal].any() and not missing[on_diagonal].any():
        return (
            "missing in part: only the diagonal of the Jacobian is there. Each output depends on "
            "several input elements (as in softmax), and the rule treats it as elementwise."
        )
    first = np.unravel_index(int(np.argmax(missing)), case.right.shape)
    return (
        f"missing in part: backward gives 0 for {missing.sum()} of {missing.size} elements, the "
        f"first at {tuple(map(int, first))}; the others are right."
    )


def _one_of_several_outputs(
    case: Evidence, arrived: npt.NDArray[np.bool_], missing: npt.NDArray[np.bool_]
) -> str:
    """Some outputs hand nothing back to an input element that other outputs do reach."""
    arrived, missing = arrived.reshape(case.output_shape), missing.reshape(case.output_shape)
    axes, box = [], np.ones(arrived.shape, np.bool_)  # where all that arrived lies
    for axis, size in enumerate(arrived.shape):
        there = arrived.any(axis=tuple(i for i in range(arrived.ndim) if i != axis))
        if size > 1 and there.sum() == 1:
            axes.append((axis, int(np.argmax(there))))
            box &= there.reshape([-1 if i == axis else 1 for i in range(arrived.ndim)])
    if axes and not (missing & box).any():
        places = " and ".join(f"index {index} of output axis {axis}" for axis, index in axes)
        return (
            f"not summed over a broadcast axis: only {places} reaches the input. What is broadcast "
            "forward is summed backward."
        )
    return (
        "overwritten instead of accumulated: several output elements come from the same input "
        "element, and only one of them hands its gradient back. Add what arrives (np.add.at, "
        "scatter_add) instead of assigning it."
    )


def _too_much(case: Evidence) -> str | None:
    extra = case.nonzero(case.given) & ~case.nonzero(case.right)
    if not extra.any() or not case.same(np.where(extra, case.right, case.given), case.right):
        return None
    if not case.nonzero(case.right).any():
        return "too much: the output does not change with this input, yet it gets a gradient."
    return (
        f"too much: {extra.sum()} of {extra.size} elements get a gradient though the output does "
        "not depend on them; the others are right. A mask is missing in the rule."
    )


def _missing_term(case: Evidence) -> str | None:
    """What is lacking is of low rank: it passes through a sum over the elements."""
    if case.jacobian is not None:
        return _pulled_elementwise(case, case.jacobian)
    given, right = case.matrix(case.given), case.matrix(case.right)
    smaller = min(right.shape)
    if smaller < 2 or not np.isfinite(given).all():
        return None
    square = len(right) == right.shape[1]
    if square and not case.nonzero(right - np.diag(np.diag(right))).any():
        return None  # elementwise: nothing is summed over
    if square and not case.nonzero(given - np.diag(np.diag(given))).any():
        return TERM_MISSING if low_rank_beside(np.diag(given), right, case.rtol) else None
    tolerance = max(case.atol, case.rtol * float(np.abs(right).max()))
    rank = int(np.linalg.matrix_rank(right - given, tol=tolerance))
    whole = int(np.linalg.matrix_rank(given, tol=tolerance))
    return TERM_MISSING if 0 < rank <= (smaller - 1) // 2 and whole > rank else None


def _pulled_elementwise(case: Evidence, jacobian: Array) -> str | None:
    """Whether an op that mixes elements is pulled through as if it did not: softmax, a norm.

    Then what was handed on is a·g for some a, element by element, and the Jacobian is diag(a) and
    what passes through sums: in each row that is summed over, a matrix of less than full rank.
    """
    if case.g is None or case.g.shape != case.given.shape or not case.given.any():
        return None
    g, given = np.ravel(case.g), np.ravel(case.given)
    known = np.abs(g) > 1e-9 * np.abs(g).max(initial=0.0)
    if np.any(np.abs(given[~known]) > case.atol):
        return None
    diagonal = np.where(known, given / g, np.nan)
    return TERM_MISSING if low_rank_beside(diagonal, jacobian, case.rtol) else None


TERM_MISSING = (
    "a term is missing: the way through a sum or mean over the elements, such as softmax's "
    "normaliser or layer_norm's mean and variance, is left out of the rule."
)


def low_rank_beside(diagonal: Array, jacobian: Array, rtol: float) -> bool:
    """Whether a square Jacobian is this diagonal and, in each row summed over, a low rank.

    So it is of softmax, diag(p) - p·pᵀ, and of a normalisation. Where the diagonal has a NaN, it
    is not known, and those rows are believed.
    """
    for block in _tied(jacobian):
        if len(block) < 2 or np.isnan(diagonal[block]).any():
            continue
        sizes = np.linalg.svd(jacobian[np.ix_(block, block)] - np.diag(diagonal[block]))[1]
        if sizes[-1] > rtol * sizes[0]:
            return False
    return True


def _tied(jacobian: Array) -> list[list[int]]:
    """The elements that depend on one another: the rows of a softmax, for one."""
    tied = np.abs(jacobian) > 1e-7 * np.abs(jacobian).max(initial=0.0)
    tied |= tied.T
    left = set(range(len(tied)))
    found = []
    while left:
        waiting = [left.pop()]
        block = list(waiting)
        while waiting:
            fresh = left.intersection(np.flatnonzero(tied[waiting.pop()]).tolist())
            left -= fresh
            block += fresh
            waiting += fresh
        found.append(sorted(block))
    return found


def _handed_on(case: Evidence) -> str | None:
    if case.g is None or not case.same(case.given, case.g):
        return None
    return (
        "a factor is missing: the gradient is handed on unchanged, as if the derivative were 1 "
        "everywhere. A factor, a term or a mask is left out of the rule."
    )


def _times_output(case: Evidence) -> str | None:
    if case.g is None or case.output is None or not case.same(case.given, case.g * case.output):
        return None
    return (
        "a factor or a term is missing: the derivative is taken to be the output itself, which is "
        "a part of it only."
    )


def _swapped(case: Evidence) -> str | None:
    for other, right in case.others.items():
        if other != case.argument and case.same(case.given, right):
            return (
                f"swapped: input {case.argument} receives the gradient of input {other}. Each "
                "input must receive its own."
            )
    return None


def _unsummed(case: Evidence) -> str | None:
    """Only the first of the places an operand was broadcast to has handed back its part."""
    if case.unsummed is None or not case.same(case.given, case.unsummed[1]):
        return None
    return (
        f"not summed over a broadcast axis: only index 0 of axis {case.unsummed[0]} reaches the "
        "input. What is broadcast forward is summed backward."
    )


def _stale(case: Evidence) -> str | None:
    if not case.right_for:
        return None
    return (
        f"a stale value: computed with what {case.right_for[0]} had saved. Save a fresh value, or "
        "a copy, at each call."
    )


def _surely_stale(case: Evidence) -> str | None:
    """A wrong rule is wrong at every call; one that was right elsewhere speaks for this."""
    return _stale(case) if case.right_elsewhere else None


def _other_derivative(case: Evidence) -> str | None:
    """Somebody's idea of the local derivative, if a common one."""
    if case.output_shape or case.g is None or case.output is None or not case.operands:
        return None
    if case.g.shape != case.given.shape:
        return None
    g, out = case.g, case.output
    x, y = case.operands[0], case.operands[-1]  # the same of an op with one operand
    idea = wrong_rule(
        case.op, case.argument, lambda r: case.same(case.given, g * np.asarray(r.rule(x, y, out)))
    )
    if idea is None:
        return None
    return f"a wrong derivative: that of {case.op} is taken to be {idea.text}."


class Candidate(NamedTuple):
    """One entry of the table."""

    key: str  # the same for every evidence of this mistake; "" if the sentence says more
    find: Callable[[Evidence], str | None]
    by_numbers: bool = False  # told from the two arrays alone
    unless: tuple[str, ...] = ()  # keys of mistakes that say more


MISTAKES = (
    Candidate("stale", _surely_stale),
    Candidate("unsummed", _unsummed),
    Candidate("", _not_finite, by_numbers=True),
    Candidate("", _missing, by_numbers=True),
    Candidate("", _overwritten, by_numbers=True),
    Candidate("", _factor, by_numbers=True),
    Candidate("", _transposed, by_numbers=True),
    Candidate("swapped", _swapped),
    Candidate("", _spread, by_numbers=True),
    Candidate("", _reversed, by_numbers=True),
    Candidate("", _missing_in_part, by_numbers=True),
    Candidate("", _too_much, by_numbers=True),
    Candidate("term", _missing_term),
    Candidate("handed on", _handed_on, unless=("term",)),
    Candidate("output", _times_output, unless=("term",)),
    Candidate("stale", _stale),
)
