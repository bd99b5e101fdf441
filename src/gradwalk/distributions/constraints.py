"""Constraints: where a distribution's parameters and values may lie.

A constraint checks a tensor: `positive.check(x)` is True for each element that is above 0. One of
whole vectors or matrices has an `event_dim` and gives one answer for each of them.

>>> import gradwalk as gw
>>> gw.distributions.constraints.unit_interval.check(gw.tensor([0.5, 1.5]))
tensor([ True, False])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gradwalk as gw

__all__ = [
    "Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval",
    "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial",
    "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
    "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square",
    "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set that values must lie in, with the words for it and a check."""

    event_dim = 0
    is_discrete = False
    words = ""
    kind = ""  # of sets that numbers are brought to in one way (constraint_registry.py)

    def __init__(
        self, words: str = "", check: Callable[[Any], Any] | None = None, **facts: Any
    ) -> None:
        if words:
            self.words = words
        vars(self).update(facts)  # those above, and PyTorch's attributes, such as lower_bound
        if check is not None:
            self.check = check  # type: ignore[assignment, method-assign]

    def check(self, value: Any) -> Any:
        """True for each event in `value` that lies in the set."""
        raise NotImplementedError(f"{type(self).__name__} has no check")

    def __repr__(self) -> str:
        return self.words or type(self).__name__


class greater_than(Constraint):
    """Numbers above a bound."""

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(
            f"above {_shown(lower_bound)}",
            lambda x: x > lower_bound,
            kind="above",
            lower_bound=lower_bound,
        )


class greater_than_eq(Constraint):
    """Numbers at or above a bound."""

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(
            f"at least {_shown(lower_bound)}",
            lambda x: x >= lower_bound,
            kind="above",
            lower_bound=lower_bound,
        )


class less_than(Constraint):
    """Numbers below a bound."""

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(
            f"below {_shown(upper_bound)}",
            lambda x: x < upper_bound,
            kind="below",
            upper_bound=upper_bound,
        )


class interval(Constraint):
    """Numbers from one bound to another, with both."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(
            f"from {_shown(lower_bound)} to {_shown(upper_bound)}",
            lambda x: (x >= lower_bound) & (x <= upper_bound),
            kind="between",
            lower_bound=lower_bound,
            upper_bound=upper_bound,
        )


class half_open_interval(Constraint):
    """Numbers from one bound to another, without the second."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(
            f"from {_shown(lower_bound)} to below {_shown(upper_bound)}",
            lambda x: (x >= lower_bound) & (x < upper_bound),
            kind="between",
            lower_bound=lower_bound,
            upper_bound=upper_bound,
        )


class integer_interval(Constraint):
    """Whole numbers from one bound to another, with both."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(
            f"a whole number from {_shown(lower_bound)} to {_shown(upper_bound)}",
            lambda x: (x % 1 == 0) & (x >= lower_bound) & (x <= upper_bound),
            is_discrete=True,
            lower_bound=lower_bound,
            upper_bound=upper_bound,
        )


class independent(Constraint):
    """A constraint that holds where it holds for all elements of the last dimensions."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:

        def check(value: Any) -> Any:
            inside = base_constraint.check(value)
            for _ in range(reinterpreted_batch_ndims):
                inside = inside.all(-1)
            return inside

        super().__init__(
            f"{base_constraint} in the last {reinterpreted_batch_ndims} dimension(s)",
            check,
            event_dim=base_constraint.event_dim + reinterpreted_batch_ndims,
            is_discrete=base_constraint.is_discrete,
            kind="independent",
            base_constraint=base_constraint,
            reinterpreted_batch_ndims=reinterpreted_batch_ndims,
        )


class cat(Constraint):
    """Parts along a dimension, of these lengths (1 each), with a constraint each."""

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        sizes = [1] * len(cseq) if lengths is None else list(lengths)

        def check(value: Any) -> Any:
            parts = zip(cseq, value.split(sizes, dim), strict=True)
            return gw.cat([one.check(part) for one, part in parts], dim)

        super().__init__(
            f"parts along dimension {dim}: {', '.join(map(str, cseq))}",
            check,
            event_dim=max((one.event_dim for one in cseq), default=0),
            is_discrete=any(one.is_discrete for one in cseq),
            kind="cat",
            cseq=list(cseq),
            dim=dim,
            lengths=sizes,
        )


class stack(Constraint):
    """Slices along a dimension, with a constraint each."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:

        def check(value: Any) -> Any:
            parts = zip(cseq, value.unbind(dim), strict=True)
            return gw.stack([one.check(part) for one, part in parts], dim)

        dims = max((one.event_dim for one in cseq), default=0)
        super().__init__(
            f"slices along dimension {dim}: {', '.join(map(str, cseq))}",
            check,
            event_dim=dims + (dim + dims < 0),  # the slices themselves, if counted from the end
            is_discrete=any(one.is_discrete for one in cseq),
            kind="stack",
            cseq=list(cseq),
            dim=dim,
        )


class multinomial(Constraint):
    """Vectors of counts that sum to a number."""

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(
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


def _is_square(x: Any) -> Any:
    return gw.full(x.shape[:-2], x.shape[-2] == x.shape[-1], dtype=gw.bool, device=x.device)


def _is_symmetric(x: Any) -> Any:
    return gw.isclose(x, x.mT, atol=1e-6).flatten(-2).all(-1)


def _is_positive_definite(x: Any) -> Any:
    return _is_symmetric(x) & (gw.linalg.eigvalsh((x + x.mT) / 2) > 0).all(-1)


def _is_positive_semidefinite(x: Any) -> Any:
    return _is_symmetric(x) & (gw.linalg.eigvalsh((x + x.mT) / 2) >= -1e-6).all(-1)


def _is_corr_cholesky(x: Any) -> Any:
    rounding = 10 * x.shape[-1] * float(gw.finfo(x.dtype).eps)
    unit = ((gw.linalg.norm(x, dim=-1) - 1).abs() < rounding).all(-1)
    return _is_lower_cholesky(x) & unit


class dependent_property(property, Constraint):
    """A property that computes a constraint from the parameters of its distribution.

    >>> import gradwalk as gw
    >>> class Below(gw.distributions.Distribution):
    ...     @gw.distributions.constraints.dependent_property(is_discrete=False, event_dim=0)
    ...     def support(self):
    ...         return gw.distributions.constraints.less_than(self.bound)
    >>> gw.distributions.constraints.is_dependent(Below.support)
    True
    """

    def __init__(self, fn: Callable[[Any], Constraint] | None = None, **facts: Any) -> None:
        property.__init__(self, fn)
        Constraint.__init__(self, "dependent on parameters", **facts)
        self.facts = facts

    def __call__(self, fn: Callable[[Any], Constraint]) -> dependent_property:
        return dependent_property(fn, **self.facts)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint is known of a distribution only, not of its class."""
    return constraint is dependent or isinstance(constraint, dependent_property)


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
real = Constraint("a real number, not NaN", lambda x: x == x, kind="real")
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
simplex = Constraint("probabilities that sum to 1", _is_simplex, event_dim=1, kind="simplex")
lower_triangular = Constraint(
    "a lower triangular matrix", lambda x: (x.tril() == x).all(-1).all(-1), event_dim=2
)
lower_cholesky = Constraint(
    "a lower triangular matrix with a positive diagonal",
    _is_lower_cholesky,
    event_dim=2,
    kind="lower_cholesky",
)
corr_cholesky = Constraint(
    "a lower triangular matrix with a positive diagonal and rows of length 1",
    _is_corr_cholesky,
    event_dim=2,
    kind="corr_cholesky",
)
square = Constraint("a square matrix", _is_square, event_dim=2)
symmetric = Constraint("a symmetric matrix", _is_symmetric, event_dim=2)
positive_semidefinite = Constraint(
    "a symmetric matrix without negative eigenvalues",
    _is_positive_semidefinite,
    event_dim=2,
    kind="positive_definite",
)
positive_definite = Constraint(
    "a symmetric matrix with positive eigenvalues",
    _is_positive_definite,
    event_dim=2,
    kind="positive_definite",
)
