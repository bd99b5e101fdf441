"""Distributions, constraints and transforms that a program defines, in both libraries."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import pytest
import torch as pytorch

import gradwalk as gw

BOTH = pytest.mark.parametrize("torch", [gw, pytorch])


def between(torch: ModuleType) -> Any:
    """A class of distributions whose support depends on its parameters."""
    D = torch.distributions

    class Between(D.Distribution):  # type: ignore[misc, name-defined]
        arg_constraints = {  # noqa: RUF012
            "low": D.constraints.real,
            "high": D.constraints.dependent,
        }

        def __init__(self, low: Any, high: Any, validate_args: Any = None) -> None:
            self.low, self.high = D.utils.broadcast_all(low, high)
            super().__init__(self.low.shape, validate_args=validate_args)

        @D.constraints.dependent_property(is_discrete=False, event_dim=0)  # type: ignore[untyped-decorator]
        def support(self) -> Any:
            return D.constraints.interval(self.low, self.high)

        def log_prob(self, value: Any) -> Any:
            self._validate_sample(value)
            return -(self.high - self.low).log()

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            new = self._get_checked_instance(Between, _instance)
            new.low, new.high = self.low.expand(batch_shape), self.high.expand(batch_shape)
            super(Between, new).__init__(batch_shape, validate_args=False)
            return new

    return Between


@BOTH
def test_a_distribution_with_a_support_of_its_own(torch: ModuleType) -> None:
    cls = between(torch)
    one = cls(torch.zeros(2), 2.0)
    assert torch.distributions.constraints.is_dependent(cls.support)
    assert one.support.upper_bound.tolist() == [2, 2] and cls.support.event_dim == 0
    wide = one.expand((3, 2))
    assert wide.batch_shape == (3, 2) and wide.log_prob(torch.ones(2)).shape == (3, 2)
    assert torch.distributions.Independent(one, 1).expand((5,)).batch_shape == (5,)
    with pytest.raises(ValueError):
        one.log_prob(torch.tensor([1.0, 3.0]))


@BOTH
def test_a_subclass_expands_by_its_base(torch: ModuleType) -> None:
    class Scaled(torch.distributions.LogNormal):  # type: ignore[misc, name-defined]
        def __init__(self, loc: Any, scale: Any, factor: float) -> None:
            self.factor = factor
            super().__init__(loc, scale)

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            new = self._get_checked_instance(Scaled, _instance)
            new.factor = self.factor * 2
            return super().expand(batch_shape, _instance=new)

    wide = Scaled(torch.tensor(0.0), 1.0, 3.0).expand((4,))
    assert (wide.factor, wide.batch_shape, wide.sample().shape) == (6.0, (4,), (4,))

    class Silent(torch.distributions.Distribution):  # type: ignore[misc, name-defined]
        arg_constraints: Any = {}  # noqa: RUF012

        def __init__(self) -> None:
            self.loc = torch.zeros(2)
            super().__init__((2,))

    with pytest.raises(NotImplementedError):
        Silent().expand((3, 2))


@BOTH
def test_a_constraint_says_in_its_class_what_it_is(torch: ModuleType) -> None:
    class Whole(torch.distributions.constraints.Constraint):  # type: ignore[misc, name-defined]
        is_discrete, event_dim = True, 1

        def check(self, value: Any) -> Any:
            return (value % 1 == 0).all(-1)

    assert Whole().is_discrete and Whole().event_dim == 1
    triangular = torch.distributions.constraints.lower_triangular
    assert triangular.check(torch.eye(2)) and not triangular.check(torch.ones(2, 2))
    assert "positive" in torch.distributions.constraints.__all__


@BOTH
def test_a_transform_may_be_a_module(torch: ModuleType) -> None:
    class Shift(torch.distributions.Transform, torch.nn.Module):  # type: ignore[misc, name-defined]
        domain = codomain = torch.distributions.constraints.real
        bijective = True

        def __init__(self) -> None:
            super().__init__(cache_size=1)
            self.by = torch.nn.Parameter(torch.tensor(2.0))

        __hash__ = torch.nn.Module.__hash__

        def _call(self, x: Any) -> Any:
            return x + self.by

        def _inverse(self, y: Any) -> Any:
            return y - self.by

        def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
            return torch.zeros_like(x)

    shift = Shift()
    base = torch.distributions.Normal(torch.zeros(3), 1.0)
    moved = torch.distributions.TransformedDistribution(base, [shift])
    moved.log_prob(torch.ones(3)).sum().backward()
    assert shift.by.grad.item() == pytest.approx(-3.0)
    x = torch.zeros(1)
    assert shift._inv_call(shift(x)) is x and len(list(shift.parameters())) == 1


@BOTH
def test_an_exponential_family_by_its_normalizer(torch: ModuleType) -> None:
    class Rate(torch.distributions.ExponentialFamily):  # type: ignore[misc, name-defined]
        arg_constraints: Any = {}  # noqa: RUF012
        _mean_carrier_measure = 0

        def __init__(self, rate: Any) -> None:
            self.rate = rate
            super().__init__(rate.shape)

        @property
        def _natural_params(self) -> Any:
            return (-self.rate,)

        def _log_normalizer(self, x: Any) -> Any:
            return -torch.log(-x)

    rate = torch.tensor([0.5, 2.0])
    assert Rate(rate).entropy().tolist() == pytest.approx([1 - math.log(0.5), 1 - math.log(2)])
    apart = torch.distributions.kl_divergence(Rate(rate), Rate(torch.ones(2)))
    assert apart.tolist() == pytest.approx([math.log(0.5) + 2 - 1, math.log(2) + 0.5 - 1])
    half = torch.distributions.HalfNormal(torch.ones(2))
    assert half.base_dist.scale.tolist() == [1, 1]
