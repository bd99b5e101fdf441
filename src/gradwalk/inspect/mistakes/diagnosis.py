"""Name the mistake behind a wrong gradient: a table of mistakes, and one matcher.

A mistake is a sentence and a function of the evidence. The function returns None if the mistake
would give other numbers, else what the sentence has to be filled in with. gradcheck brings
Jacobians as evidence, audit what a recorded node handed on, compare gradients derived by hand, the
course what learners' engines compute.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from gradwalk.inspect.mistakes.evidence import Array, Evidence, Mask
from gradwalk.inspect.mistakes.wrong_rules import wrong_rule

T = TypeVar("T")
Facts = tuple[Any, ...] | None
MANY = 6  # parts: of more, not every choice of them is tried,
TOO_MANY = 200  # and of more than these none


class NamedMistake(NamedTuple):
    """One entry of the table."""

    sentence: str
    facts: Callable[[Evidence], Facts]
    key: str = ""  # "" if it is told from the two arrays alone: only the first of these is named


def explanations(evidence: Evidence) -> dict[str, str]:
    """Every mistake that gives these numbers, the likeliest first: its key, a sentence.

    Without a key, the sentence itself is the key.
    """
    told: dict[str, str] = {}
    by_numbers = False
    with np.errstate(all="ignore"):
        if evidence.is_given(evidence.right):
            return {}
        table = MISTAKES if evidence.given.shape == evidence.right.shape else WRONG_SHAPES
        for mistake in table:
            if mistake.key or not by_numbers:
                facts = mistake.facts(evidence)
                if facts is not None:
                    by_numbers = by_numbers or not mistake.key
                    sentence = mistake.sentence.format(*facts)
                    told.setdefault(mistake.key or sentence, sentence)
        idea = None if told else _wrong_rule(evidence)
    return told if idea is None else {"rule": idea}


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


def split(parts: Sequence[T]) -> Iterator[tuple[list[T], list[T]]]:
    """Some of the parts and the others: one alone, all but one, then what lies between."""
    count = len(parts)
    sizes = [1, count - 1, *(range(2, count - 1) if count <= MANY else ())]
    for size in dict.fromkeys(size for size in sizes if 0 < size < count <= TOO_MANY):
        for some in itertools.combinations(range(count), size):
            yield [parts[i] for i in some], [parts[i] for i in range(count) if i not in some]


# -- the facts of each mistake ---------------------------------------------------------------------


def _when(condition: Any) -> Facts:
    return () if condition else None


def _overflow(e: Evidence) -> Facts:
    bad = ~np.isfinite(e.given)
    return ("NaN" if np.isnan(e.given).any() else "inf", bad.sum(), bad.size) if bad.any() else None


def _some_uses(e: Evidence) -> Facts:
    """The gradient of some uses only: the others were overwritten or forgotten."""
    if e.uses and e.same(sum(e.uses.values()), e.right):
        for kept, lost in split(list(e.uses)):
            if e.is_given(sum(e.uses[place] for place in kept)):
                return len(e.uses), "\n    ".join(kept), "\n    ".join(lost)
    return None


def _factor(e: Evidence) -> float:
    """By how much the right gradient was multiplied; NaN if it was not."""
    square = float(np.sum(e.right * e.right))
    factor = float(np.sum(e.given * e.right)) / square if square else math.nan
    return factor if e.is_given(factor * e.right) else math.nan


def _constant_factor(e: Evidence) -> Facts:
    factor = _factor(e)
    size = abs(factor)
    reasons = [reason for likely, reason in _likely_factors(e) if _near(size, likely)]
    # A single number is always some factor times another: claim one only if it is a likely one.
    if math.isnan(factor) or (not reasons and np.sum(e.nonzero(e.right)) < 3):
        return None
    inverse = round(1 / size) if size else 0
    as_fraction = size < 1 and 1 < inverse < 1e6 and _near(size, 1 / inverse)
    return (
        "a constant factor" if factor > 0 else "wrong sign and a constant factor",
        f"1/{inverse}" if as_fraction else f"{size:.4g}",
        f": {'; or '.join(dict.fromkeys(reasons))}" if reasons else ", everywhere",
    )


def _likely_factors(e: Evidence) -> Iterator[tuple[float, str]]:
    """Factors that a gradient may be off by, and why, the likeliest first."""
    sizes: dict[int, str] = {}
    for what, shape in (("output", e.output_shape), ("input", e.input_shape)):
        for axis, n in enumerate(shape):
            sizes.setdefault(n, f"{n} is the size of {what} axis {axis}")
        total = math.prod(shape)
        sizes.setdefault(total, f"{total} is the number of {what} elements")
    for n, place in sizes.items():
        if n > 1:
            averaged = f"{place}: averaged where the sum is meant (what is broadcast forward is "
            yield n, f"{place}: summed where the forward takes the mean"
            yield 1 / n, averaged + "summed backward)"
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


def _swapped_axes(e: Evidence) -> Facts:
    for one, other in itertools.combinations(e.input_axes, 2):
        if e.is_given(e.right.swapaxes(one, other)):
            return one - e.input_axes.start, other - e.input_axes.start
    return None


def _reshaped(e: Evidence) -> Facts:
    pairs = itertools.combinations(e.input_axes, 2)
    return _when(any(e.is_given(e.right.swapaxes(*p).reshape(e.right.shape)) for p in pairs))


def _jacobian_transposed(e: Evidence) -> Facts:
    right = e.matrix(e.right)
    return _when(len(right) > 1 and e.same(e.matrix(e.given), right.T))


def _spread(e: Evidence) -> Facts:
    """Summed or averaged over an axis and handed to all of its elements."""
    for axis in e.input_axes:
        for how, reduce in (("summed", np.sum), ("averaged", np.mean)):
            reduced = reduce(e.right, axis=axis, keepdims=True)
            if e.right.shape[axis] > 1 and e.is_given(np.broadcast_to(reduced, e.right.shape)):
                return how, axis - e.input_axes.start
    return None


def _reversed(e: Evidence) -> Facts:
    axes = (axis for axis in e.input_axes if e.is_given(np.flip(e.right, axis)))
    return next(((axis - e.input_axes.start,) for axis in axes), None)


def _holes(e: Evidence) -> tuple[Mask, Mask] | None:
    """As matrices, where something arrived and where it is missing; None unless that is all."""
    given, right = e.matrix(e.given), e.matrix(e.right)
    arrived = e.nonzero(given)
    missing = e.nonzero(right) & ~arrived
    filled = np.where(missing, right, given)
    return (arrived, missing) if missing.any() and e.same(filled, right) else None


def _silent_outputs(e: Evidence) -> tuple[Mask, Mask] | None:
    """Outputs that hand something back, and those that hand back nothing to shared inputs."""
    holes = _holes(e)
    if holes is None:
        return None
    arrived, missing = holes
    rows, columns = np.flatnonzero(missing.any(axis=1)), np.flatnonzero(missing.any(axis=0))
    if not arrived[:, columns].any(axis=0).all() or arrived[rows].any():
        return None
    some, none = (np.asarray(mask.any(axis=1)).reshape(e.output_shape) for mask in holes)
    return some, none


def _one_index(e: Evidence) -> Facts:
    """Only one index of some output axes hands its gradient back."""
    outputs = _silent_outputs(e)
    if outputs is None:
        return None
    arrived, missing = outputs
    axes, box = [], np.ones(arrived.shape, np.bool_)  # where all that arrived lies
    for axis, size in enumerate(arrived.shape):
        there = arrived.any(axis=tuple(i for i in range(arrived.ndim) if i != axis))
        if size > 1 and there.sum() == 1:
            axes.append(f"index {np.argmax(there)} of output axis {axis}")
            box &= there.reshape([-1 if i == axis else 1 for i in range(arrived.ndim)])
    return (" and ".join(axes),) if axes and not (missing & box).any() else None


def _only_diagonal(e: Evidence) -> Facts:
    holes = _holes(e)
    if holes is None or e.output_shape != e.input_shape:
        return None
    arrived, missing = holes
    diagonal = np.eye(*arrived.shape, dtype=np.bool_)
    return _when(not arrived[~diagonal].any() and not missing[diagonal].any())


def _in_part(e: Evidence) -> Facts:
    holes = _holes(e)
    if holes is None:
        return None
    first = np.unravel_index(int(np.argmax(holes[1])), e.right.shape)
    return holes[1].sum(), holes[1].size, tuple(map(int, first))


def _too_much(e: Evidence) -> Facts:
    extra = e.nonzero(e.given) & ~e.nonzero(e.right)
    right_but_for_it = extra.any() and e.same(np.where(extra, e.right, e.given), e.right)
    return (extra.sum(), extra.size) if right_but_for_it else None


def _without_term(e: Evidence) -> Facts:
    """What is lacking is of low rank: it passes through a sum over the elements."""
    if e.jacobian is not None:
        return _pulled_elementwise(e, e.jacobian)
    given, right = e.matrix(e.given), e.matrix(e.right)
    smaller = min(right.shape)
    if smaller < 2 or not np.isfinite(given).all():
        return None
    square = len(right) == right.shape[1]
    if square and not e.nonzero(right - np.diag(np.diag(right))).any():
        return None  # elementwise: nothing is summed over
    if square and not e.nonzero(given - np.diag(np.diag(given))).any():
        return _when(_low_rank_beside(np.diag(given), right, e.rtol))
    tolerance = max(e.atol, e.rtol * float(np.abs(right).max()))
    rank = int(np.linalg.matrix_rank(right - given, tol=tolerance))
    whole = int(np.linalg.matrix_rank(given, tol=tolerance))
    return _when(0 < rank <= (smaller - 1) // 2 and whole > rank)


def _pulled_elementwise(e: Evidence, jacobian: Array) -> Facts:
    """Whether an op that mixes elements is pulled through as if it did not: softmax, a norm.

    Then what was handed on is a·g for some a, element by element.
    """
    if e.g is None or e.g.shape != e.given.shape or not e.given.any():
        return None
    g, given = np.ravel(e.g), np.ravel(e.given)
    known = np.abs(g) > 1e-9 * np.abs(g).max(initial=0.0)
    if np.any(np.abs(given[~known]) > e.atol):
        return None
    return _when(_low_rank_beside(np.where(known, given / g, np.nan), jacobian, e.rtol))


def _low_rank_beside(diagonal: Array, jacobian: Array, rtol: float) -> bool:
    """Whether a square Jacobian is this diagonal and, in each row summed over, a low rank.

    So it is of softmax, diag(p) - p·pᵀ, and of a normalisation. Where the diagonal is NaN, it is
    unknown, and those rows are believed.
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


def _handed_on(e: Evidence, slope: Array | None) -> Facts:
    """What arrived times this, where a missing term does not say more."""
    if e.g is None or slope is None or not e.is_given(e.g * slope):
        return None
    return _when(_without_term(e) is None)


def _swapped(e: Evidence) -> Facts:
    others = (i for i, right in e.others.items() if i != e.argument and e.is_given(right))
    return next(((e.argument, i) for i in others), None)


def _wrong_rule(e: Evidence) -> str | None:
    """A local derivative that is often taken for the right one."""
    if e.output_shape or e.g is None or e.output is None or not e.operands:
        return None
    g, numbers = e.g, (e.operands[0], e.operands[-1], e.output)
    rule = wrong_rule(e.op, e.argument, lambda r: e.is_given(g * np.asarray(r.rule(*numbers))))
    return rule and f"a wrong derivative: that of {e.op} is taken to be {rule.text}."


def _transpose_fits(e: Evidence) -> Facts:
    return _when(e.given.ndim > 1 and e.same(e.given.swapaxes(-1, -2), e.right))


def _summed_is_right(e: Evidence) -> Facts:
    given, right = e.given, e.right
    lead = given.ndim - right.ndim
    if lead < 0:
        return None
    ones = [lead + i for i, n in enumerate(right.shape) if n == 1 < given.shape[lead + i]]
    axes = (*range(lead), *ones)
    total = given.sum(axis=axes, keepdims=True)
    fits = axes and total.size == right.size and e.same(total.reshape(right.shape), right)
    return (given.shape, ", ".join(map(str, axes))) if fits else None


# -- the table -------------------------------------------------------------------------------------

_UNSUMMED = "What is broadcast forward is summed backward."
_STALE = (
    "a stale value: computed with what {} had saved. Save a fresh value, or a copy, at each call."
)
_TRANSPOSED = "transposed: the gradient is the transpose of what it should be."

MISTAKES = (
    # A wrong rule is wrong at every call; one that was right elsewhere speaks for a stale value.
    NamedMistake(
        _STALE,
        lambda e: (e.right_for,) if e.right_for and e.right_elsewhere else None,
        "stale",
    ),
    NamedMistake(
        "not summed over a broadcast axis: only index 0 of axis {} reaches the input. "
        f"{_UNSUMMED}",
        lambda e: e.unsummed[:1] if e.unsummed and e.is_given(e.unsummed[1]) else None,
        "unsummed",
    ),
    NamedMistake(
        "not finite: the function itself gives NaN or inf within eps of this input, so it has no "
        "derivative there. Move the input into the function's domain.",
        lambda e: _when(not np.isfinite(e.right).all()),
    ),
    NamedMistake(
        "not finite: backward gives {} for {} of {} elements where the derivative is finite. A "
        "0 × inf in the rule is the usual cause: put g inside where(...), or rewrite the rule for "
        "the values that overflow.",
        _overflow,
    ),
    NamedMistake(
        "missing: backward gives no gradient although the output changes with this input. Its path "
        "is cut: a detach(), a no_grad(), an item() or a conversion to NumPy in between, or a rule "
        "that returns None or 0.",
        lambda e: _when(not e.nonzero(e.given).any()),
    ),
    NamedMistake(
        "overwritten instead of accumulated: the input is used in {} places and what arrives from "
        "them must be added (+=), but the gradient is that of\n    {}\n  alone; lost is that of\n"
        "    {}",
        _some_uses,
    ),
    NamedMistake(
        "wrong sign: backward gives the negative of the derivative.",
        lambda e: _when(_near(_factor(e), -1)),
    ),
    NamedMistake("{}: backward gives {} times the derivative{}.", _constant_factor),
    NamedMistake(_TRANSPOSED, lambda e: _when(len(e.input_axes) == 2 and _swapped_axes(e))),
    NamedMistake("transposed: axes {} and {} of the gradient are swapped.", _swapped_axes),
    NamedMistake(
        "transposed: the gradient has the elements of the transpose, reshaped to fit. Use a "
        "transpose (.mT) in the rule, not a reshape.",
        _reshaped,
    ),
    NamedMistake(
        "transposed: backward multiplies by the Jacobian where its transpose is meant (A @ g "
        "instead of A.mT @ g).",
        _jacobian_transposed,
    ),
    NamedMistake(
        "swapped: input {} receives the gradient of input {}. Each input must receive its own.",
        _swapped,
        "swapped",
    ),
    NamedMistake(
        "{} over input axis {} and handed to every element alike; each element has a gradient of "
        "its own.",
        _spread,
    ),
    NamedMistake("reversed: the gradient runs backwards along input axis {}.", _reversed),
    NamedMistake(
        f"not summed over a broadcast axis: only {{}} reaches the input. {_UNSUMMED}", _one_index
    ),
    NamedMistake(
        "overwritten instead of accumulated: several output elements come from the same input "
        "element, and only one of them hands its gradient back. Add what arrives (np.add.at, "
        "scatter_add) instead of assigning it.",
        lambda e: _when(_silent_outputs(e) is not None),
    ),
    NamedMistake(
        "missing in part: only the diagonal of the Jacobian is there. Each output depends on "
        "several input elements (as in softmax), and the rule treats it as elementwise.",
        _only_diagonal,
    ),
    NamedMistake(
        "missing in part: backward gives 0 for {} of {} elements, the first at {}; the others are "
        "right.",
        _in_part,
    ),
    NamedMistake(
        "too much: the output does not change with this input, yet it gets a gradient.",
        lambda e: _when(not e.nonzero(e.right).any()),
    ),
    NamedMistake(
        "too much: {} of {} elements get a gradient though the output does not depend on them; the "
        "others are right. A mask is missing in the rule.",
        _too_much,
    ),
    NamedMistake(
        "a term is missing: the way through a sum or mean over the elements, such as softmax's "
        "normaliser or layer_norm's mean and variance, is left out of the rule.",
        _without_term,
        "term",
    ),
    NamedMistake(
        "a factor is missing: the gradient is handed on unchanged, as if the derivative were 1 "
        "everywhere. A factor, a term or a mask is left out of the rule.",
        lambda e: _handed_on(e, np.ones(())),
        "handed on",
    ),
    NamedMistake(
        "a factor or a term is missing: the derivative is taken to be the output itself, which is "
        "a part of it only.",
        lambda e: _handed_on(e, e.output),
        "output",
    ),
    NamedMistake(_STALE, lambda e: (e.right_for,) if e.right_for else None, "stale"),
)
WRONG_SHAPES = (
    NamedMistake(_TRANSPOSED, _transpose_fits),
    NamedMistake(
        "not summed over a broadcast axis: the gradient has shape {}; summed over axis {} it is "
        f"right. {_UNSUMMED}",
        _summed_is_right,
    ),
    NamedMistake(
        "a wrong shape: the gradient has shape {} where the input has {}; they must be equal.",
        lambda e: (e.given.shape, e.right.shape),
    ),
)
