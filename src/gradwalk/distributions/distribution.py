"""Distribution: the base class, which broadcasts, checks and expands the parameters.

A subclass names its parameters in `arg_constraints` and passes them to `_set`. Each becomes a
tensor of the batch shape (followed by its own event dimensions) and an attribute.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

import gradwalk as gw
from gradwalk.distributions.constraints import Constraint, is_dependent
from gradwalk.graph.abstract import numbers_of
from gradwalk.tensors.size import Size
from gradwalk.tensors.tensor import Tensor

Shape = tuple[int, ...]


class derived:
    """A parameter computed from another one, unless the instance was given it."""

    def __init__(self, function: Callable[[Any], Tensor]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self.function(instance)


class Distribution:
    """A probability distribution, or a batch of them; see the subclasses.

    `batch_shape` is the shape of the parameters, `event_shape` that of one draw. `sample` draws
    without gradients; `rsample`, where `has_rsample` is True, passes them to the parameters.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    support: Any = None
    _validate_args = True
    _given: tuple[str, ...] = ()  # the parameters that `expand` expands

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their parameters and values if `validate_args` is None."""
        if not isinstance(value, bool):
            raise ValueError(f"set_default_validate_args takes True or False, not {value!r}")
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = tuple(batch_shape)
        self._event_shape = tuple(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, constraint in self.arg_constraints.items():
                if name in self.__dict__ and not is_dependent(constraint):
                    self._check(name, self.__dict__[name], constraint)
        super().__init__()  # a program's distribution may be a Module, too

    def _set(self, validate_args: bool | None, event_shape: Any = (), **parameters: Any) -> None:
        """Broadcast the parameters against each other and keep them as attributes."""
        tensors = _tensors(parameters)
        shapes, batches = {}, []
        for name, tensor in tensors.items():
            batch = tensor.ndim - self.arg_constraints[name].event_dim
            if batch < 0:
                raise ValueError(
                    f"{type(self).__name__}: {name} has shape {tuple(tensor.shape)}; it needs at "
                    f"least {self.arg_constraints[name].event_dim} dimension(s)"
                )
            shapes[name] = tensor.shape[batch:]
            batches.append(tensor.shape[:batch])
        batch_shape = np.broadcast_shapes(*batches)
        for name, tensor in tensors.items():
            self.__dict__[name] = tensor.expand(batch_shape + shapes[name])
        self._given = tuple(tensors)
        Distribution.__init__(self, batch_shape, event_shape, validate_args)

    def _check(self, name: str, value: Tensor, constraint: Constraint) -> None:
        if numbers_of(value) is None or not hasattr(constraint, "check"):
            return  # being traced: the values come later
        inside = numbers_of(constraint.check(value.detach()))
        if inside is not None and not inside.all():
            first = np.unravel_index(int(np.argmin(inside)), inside.shape)
            place = [int(i) for i in first]
            event = value.shape[value.ndim - constraint.event_dim :]
            found = value.detach().expand(*inside.shape, *event)[tuple(place)]
            raise ValueError(
                f"Expected {name} (shape {tuple(value.shape)}) of {type(self).__name__} to be "
                f"{constraint}, but found {found}"
                + (f" at index {place}" if place else "")
                + ". Fix: correct the value, or pass validate_args=False to skip this check."
            )

    def _validate_sample(self, value: Any) -> None:
        """Check a value before `log_prob` or `cdf`."""
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{type(self).__name__}: a value is a Tensor, not {type(value).__name__}. "
                "Fix: gradwalk.tensor(value)."
            )
        events = len(self._event_shape)
        if tuple(value.shape[value.ndim - events :]) != self._event_shape:
            raise ValueError(
                f"{type(self).__name__}: the last dimensions of a value must be the event shape "
                f"{self._event_shape}; its shape is {tuple(value.shape)}"
            )
        try:
            np.broadcast_shapes(value.shape, self._batch_shape + self._event_shape)
        except ValueError:
            raise ValueError(
                f"{type(self).__name__}: a value of shape {tuple(value.shape)} does not broadcast "
                f"with the batch shape {self._batch_shape} and event shape {self._event_shape}"
            ) from None
        if self.support is not None:
            self._check("value", value, self.support)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The same distribution with its parameters expanded to a larger batch shape.

        A subclass with parameters of its own sets them in the instance that it passes on.
        """
        if not self._given and type(self).expand is Distribution.expand:
            raise NotImplementedError(
                f"{type(self).__name__} does not say how its parameters expand. Fix: define "
                "expand()."
            )
        new = self._get_checked_instance(type(self), _instance)
        new.__dict__.update({**self.__dict__, **new.__dict__})
        old, new._batch_shape = len(self._batch_shape), tuple(batch_shape)
        for name in self._given:
            tensor = self.__dict__[name]
            new.__dict__[name] = tensor.expand(new._batch_shape + tensor.shape[old:])
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """What `expand` of a class fills: a new instance, unless a subclass already made one."""
        own: Any = type(self)
        if _instance is None and own.__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"{type(self).__name__} has an __init__ of its own, which the expand() of "
                f"{cls.__name__} does not call. Fix: define expand()."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return Size(self._batch_shape)

    @property
    def event_shape(self) -> Size:
        """The shape of one draw of one distribution."""
        return Size(self._event_shape)

    def _extended_shape(self, sample_shape: Any = ()) -> Shape:
        """The shape of a sample: (sample shape, batch shape, event shape)."""
        return (*sample_shape, *self._batch_shape, *self._event_shape)

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise self._without("mean")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise self._without("mode")

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean."""
        raise self._without("variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw a sample, without gradients."""
        with gw.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw a sample whose gradients reach the parameters."""
        raise self._without("rsample")

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at `value`."""
        raise self._without("log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a draw at or below `value`."""
        raise self._without("cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise self._without("icdf")

    def entropy(self) -> Tensor:
        """The expected −log_prob, in nats."""
        raise self._without("entropy")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Every value of a discrete distribution, along a new first dimension."""
        raise self._without("enumerate_support")

    def _listed(self, values: Tensor, expand: bool) -> Tensor:
        """Values along a first dimension, in front of the batch."""
        event = values.shape[1:]
        values = values.reshape(-1, *(1,) * len(self._batch_shape), *event)
        return values.expand(-1, *self._batch_shape, *event) if expand else values

    def perplexity(self) -> Tensor:
        """Exp of the entropy."""
        return self.entropy().exp()

    def _without(self, name: str) -> NotImplementedError:
        hint = " Fix: sample() draws without gradients." if name == "rsample" else ""
        return NotImplementedError(f"{type(self).__name__} has no {name}.{hint}")

    def __repr__(self) -> str:
        shown = (f"{name}: {_shown(self.__dict__[name])}" for name in self._given)
        return f"{type(self).__name__}({', '.join(shown)})"


class ProbsOrLogits(Distribution):
    """A distribution that is given as `probs` or as `logits`."""

    @property
    def _parameter(self) -> Tensor:
        """The one that was given."""
        return self.__dict__["probs" if "probs" in self.__dict__ else "logits"]

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of `probs` and `logits`."""
        return tuple(self._parameter.shape)


def _shown(tensor: Tensor) -> str:
    unknown = numbers_of(tensor) is None
    return str(tuple(tensor.shape)) if unknown or tensor.numel() != 1 else f"{tensor.item():g}"


def _tensors(parameters: dict[str, Any]) -> dict[str, Tensor]:
    """Parameters as tensors; numbers get the dtype and device of the tensors beside them."""
    first = next((value for value in parameters.values() if isinstance(value, Tensor)), None)
    options: dict[str, Any] = {"dtype": gw.get_default_dtype()}
    if first is not None:
        options = {"dtype": first.dtype, "device": first.device}
    for name, value in parameters.items():
        if not isinstance(value, (Tensor, int, float, np.number)):
            raise ValueError(
                f"the parameter {name} is a Tensor or a number, not {type(value).__name__}"
            )
    return {
        name: value if isinstance(value, Tensor) else gw.tensor(value, **options)
        for name, value in parameters.items()
    }


class ExponentialFamily(Distribution):
    """A base for densities h(x) exp(η·T(x) − A(η)), whose entropy follows from the gradient of A.

    A subclass gives η as `_natural_params`, A as `_log_normalizer`, and the mean of log h(x) as
    `_mean_carrier_measure`.
    """

    _natural_params: tuple[Tensor, ...]
    _mean_carrier_measure: Any

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not define _log_normalizer()")

    def _normalizer_and_slopes(self) -> tuple[Tensor, Any]:
        with gw.enable_grad():
            natural = [
                p if p.requires_grad else p.detach().requires_grad_() for p in self._natural_params
            ]
            normalizer = self._log_normalizer(*natural)
            return normalizer, gw.autograd.grad(normalizer.sum(), natural, create_graph=True)

    def entropy(self) -> Tensor:
        normalizer, slopes = self._normalizer_and_slopes()
        entropy = normalizer - self._mean_carrier_measure
        for parameter, slope in zip(self._natural_params, slopes, strict=True):
            entropy = entropy - (parameter * slope).reshape((*self._batch_shape, -1)).sum(-1)
        return entropy


def one_of(cls: type, **choices: Any) -> dict[str, Any]:
    """The one parameter that is not None, out of several that mean the same."""
    given = {name: value for name, value in choices.items() if value is not None}
    if len(given) != 1:
        raise ValueError(f"{cls.__name__} takes exactly one of {', '.join(choices)}")
    return given


def sum_rightmost(tensor: Tensor, dims: int) -> Tensor:
    """The sum over the last `dims` dimensions."""
    return tensor.sum(tuple(range(-dims, 0))) if dims else tensor


# -- what programs with distributions of their own import from `distributions.utils` ---------------


class lazy_property(functools.cached_property[Any]):
    """An attribute that is computed once, when it is first read; with gradients even in no_grad."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with gw.enable_grad():
            return super().__get__(instance, owner)


_sum_rightmost = sum_rightmost


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return gw.randn(shape, dtype=dtype, device=device)


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape.

    >>> import gradwalk as gw
    >>> from gradwalk.distributions.utils import broadcast_all
    >>> broadcast_all(gw.ones(2), 3)
    (tensor([1., 1.]), tensor([3., 3.]))
    """
    named = _tensors({str(i): value for i, value in enumerate(values)})
    return tuple(gw.broadcast_tensors(*named.values()))


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of square matrices on a diagonal and below, row by row.

    >>> import gradwalk as gw
    >>> from gradwalk.distributions.utils import tril_matrix_to_vec
    >>> tril_matrix_to_vec(gw.tensor([[1, 2], [3, 4]]))
    tensor([1, 3, 4])
    """
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"diag is in [{-size}, {size - 1}], not {diag}")
    rows, columns = gw.tril_indices(size, size, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The inverse of `tril_matrix_to_vec`, with zeros above the diagonal.

    >>> import gradwalk as gw
    >>> from gradwalk.distributions.utils import vec_to_tril_matrix
    >>> vec_to_tril_matrix(gw.tensor([1, 3, 4])).tolist()
    [[1, 0], [3, 4]]
    """
    count = vec.shape[-1]
    square = (1 + 2 * diag) ** 2 + 4 * abs(diag) * (diag + 1) + 8 * count
    size = (math.isqrt(square) - 1 - 2 * diag) // 2
    rows, columns = gw.tril_indices(size, size, diag)
    if len(rows) != count:
        raise ValueError(f"{count} numbers do not fill the lower triangle of a square matrix")
    return vec.new_zeros(*vec.shape[:-1], size, size).index_put((..., rows, columns), vec)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities away from 0 and 1 by the rounding of their dtype."""
    least = float(gw.finfo(probs.dtype).eps)
    return probs.clamp(min=least, max=1 - least)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The sigmoid of logits, or their softmax."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The logarithm of probabilities, or of p / (1 - p)."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()
