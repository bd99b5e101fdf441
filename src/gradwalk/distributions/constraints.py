"""Constraints: where a distribution's parameters and values may lie.

A constraint checks a tensor: `positive.check(x)` is True for each element that is above 0. One of
whole vectors or matrices has an `event_dim` and gives one answer for each of them.

>>> import gradwalk as gw
>>> gw.distributions.constraints.unit_interval.check(gw.tensor([0.5, 1.5]))
tensor([ True, False])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradwalk as gw


class Constraint:
    """A set that values must lie in, with the words for it and a check."""

    def __init__(
        self,
        words: str = "",
        check: Callable[[Any], Any] | None = None,
        *,
        event_dim: int = 0,
        is_discrete: bool = False,
    ) -> None:
        self.words = words
        self.event_dim = event_dim
        self.is_discrete = is_discrete
        if check is not None:
            self.check = check  # type: ignore[assignment, method-assign]

    def check(self, value: Any) -> Any:
        """True for each event in `value` that lies in the set."""
        raise NotImplementedError(f"{type(self).__name__} has no check")

    def __repr__(self) -> str:
        return self.words or type(self).__name__


def greater_than(lower_bound: Any) -> Constraint:
    """Numbers above a bound."""
    return Constraint(f"above {_shown(lower_bound)}", lambda x: x > lower_bound)


def greater_than_eq(lower_bound: Any) -> Constraint:
    """Numbers at or above a bound."""
    return Constraint(f"at least {_shown(lower_bound)}", lambda x: x >= lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    """Numbers below a bound."""
    return Constraint(f"below {_shown(upper_bound)}", lambda x: x < upper_bound)


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers from one bound to another, with both."""
    return Constraint(
        f"from {_shown(lower_bound)} to {_shown(upper_bound)}",
        lambda x: (x >= lower_bound) & (x <= upper_bound),
    )


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers from one bound to another, without the second."""
    return Constraint(
        f"from {_shown(lower_bound)} to below {_shown(upper_bound)}",
        lambda x: (x >= lower_bound) & (x < upper_bound),
    )


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Whole numbers from one bound to another, with both."""
    return Constraint(
        f"a whole number from {_shown(lower_bound)} to {_shown(upper_bound)}",
        lambda x: (x % 1 == 0) & (x >= lower_bound) & (x <= upper_bound),
        is_discrete=True,
    )


def independent(base_constraint: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """A constraint that holds where it holds for all elements of the last dimensions."""

    def check(value: Any) -> Any:
        inside = base_constraint.check(value)
        for _ in range(reinterpreted_batch_ndims):
            inside = inside.all(-1)
        return inside

    return Constraint(
        f"{base_constraint} in the last {reinterpreted_batch_ndims} dimension(s)",
        check,
        event_dim=base_constraint.event_dim + reinterpreted_batch_ndims,
        is_discrete=base_constraint.is_discrete,
    )


def multinomial(upper_bound: Any) -> Constraint:
    """Vectors of counts that sum to a number."""
    return Constraint(
        f"counts that sum to {_shown(upper_bound)}",
        lambda x: ((x % 1 == 0) & (x >= 0)).all(-1) & (x.sum(-1) == upper_bound),
        event_dim=1,
        is_discrete=True,
    )


def _shown(bound: Any) -> str:
    if not hasattr(bound, "numel"):
        return f"{bound:g}"
    return f"{bound.item():g}" if bound.numel() == 1 else f"bounds of shape {tuple(bound.shape)}"


def _is_simplex(x: Any) -> Any:
    return (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6)


def _is_lower_cholesky(x: Any) -> Any:
    return (x.tril() == x).flatten(-2).all(-1) & (x.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def _is_positive_definite(x: Any) -> Any:
    symmetric = gw.isclose(x, x.mT, atol=1e-6).flatten(-2).all(-1)
    return symmetric & (gw.linalg.eigvalsh((x + x.mT) / 2) > 0).all(-1)


dependent = Constraint("dependent on parameters")
boolean = Constraint("0 or 1", lambda x: (x == 0) | (x == 1), is_discrete=True)
one_hot = Constraint(
    "one 1 among 0s",
    lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1),
    event_dim=1,
    is_discrete=True,
)
nonnegative_integer = Constraint(
    "a whole number of at least 0", lambda x: (x % 1 == 0) & (x >= 0), is_discrete=True
)
positive_integer = Constraint(
    "a whole number of at least 1", lambda x: (x % 1 == 0) & (x >= 1), is_discrete=True
)
real = Constraint("a real number, not NaN", lambda x: x == x)
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
simplex = Constraint("probabilities that sum to 1", _is_simplex, event_dim=1)
lower_cholesky = Constraint(
    "a lower triangular matrix with a positive diagonal", _is_lower_cholesky, event_dim=2
)
positive_definite = Constraint(
    "a symmetric matrix with positive eigenvalues", _is_positive_definite, event_dim=2
)
