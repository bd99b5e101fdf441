"""Transforms that bring real numbers to where a constraint wants them.

`biject_to` gives one with an inverse, `transform_to` one that may be simpler.

>>> import gradwalk as gw
>>> from gradwalk.distributions import constraints, transform_to
>>> transform_to(constraints.greater_than(2.0))(gw.tensor([0.0, 1.0]))
tensor([3.0000, 4.7183])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwalk.distributions import transforms
from gradwalk.distributions.constraints import Constraint

Factory = Callable[[Any], transforms.Transform]


class ConstraintRegistry:
    """From constraints to transforms. `register` adds a constraint, or a class of them."""

    def __init__(self, by_kind: dict[str, Factory]) -> None:
        self._by_kind = by_kind
        self._own: list[tuple[Any, Factory]] = []

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Use `factory(constraint)` for this constraint; without a factory, as a decorator."""
        if factory is None:
            return lambda given: self.register(constraint, given)
        self._own.append((constraint, factory))
        return factory

    def __call__(self, constraint: Constraint) -> transforms.Transform:
        for known, factory in reversed(self._own):
            if constraint is known or (isinstance(known, type) and isinstance(constraint, known)):
                return factory(constraint)
        found = self._by_kind.get(getattr(constraint, "kind", ""))
        if found is None:
            raise NotImplementedError(f"no transform is known that leads to {constraint!r}")
        return found(constraint)


def _above(constraint: Any) -> transforms.Transform:
    exponential = transforms.ExpTransform()
    if not hasattr(constraint.lower_bound, "numel") and constraint.lower_bound == 0:
        return exponential
    return _then(exponential, constraint.lower_bound, 1)


def _between(constraint: Any) -> transforms.Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if not hasattr(low, "numel") and not hasattr(high, "numel") and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return _then(transforms.SigmoidTransform(), low, high - low)


def _then(first: transforms.Transform, loc: Any, scale: Any) -> transforms.Transform:
    return transforms.ComposeTransform([first, transforms.AffineTransform(loc, scale)])


def _of_parts(registry: Callable[[Any], transforms.Transform]) -> dict[str, Factory]:
    """Of constraints that are made of others, whose transforms the registry knows."""
    return {
        "independent": lambda c: transforms.IndependentTransform(
            registry(c.base_constraint), c.reinterpreted_batch_ndims
        ),
        "cat": lambda c: transforms.CatTransform(list(map(registry, c.cseq)), c.dim, c.lengths),
        "stack": lambda c: transforms.StackTransform(list(map(registry, c.cseq)), c.dim),
    }


_COMMON: dict[str, Factory] = {
    "real": lambda c: transforms.identity_transform,
    "above": _above,
    "below": lambda c: _then(transforms.ExpTransform(), c.upper_bound, -1),
    "between": _between,
    "corr_cholesky": lambda c: transforms.CorrCholeskyTransform(),
}
biject_to: ConstraintRegistry = ConstraintRegistry(
    _COMMON
    | {"simplex": lambda c: transforms.StickBreakingTransform()}
    | _of_parts(lambda c: biject_to(c))
)
transform_to: ConstraintRegistry = ConstraintRegistry(
    _COMMON
    | {
        "simplex": lambda c: transforms.SoftmaxTransform(),
        "lower_cholesky": lambda c: transforms.LowerCholeskyTransform(),
        "positive_definite": lambda c: transforms.PositiveDefiniteTransform(),
    }
    | _of_parts(lambda c: transform_to(c))
)
