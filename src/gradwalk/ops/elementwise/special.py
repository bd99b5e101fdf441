"""Special functions: relatives of the error function, of the gamma function, of log and exp.

erf and erfc are ours (`error_function.py`); lgamma, digamma, polygamma and erfinv are SciPy's,
imported at their first use.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.op import Op, elementwise, unary
from gradwalk.ops.core.public import FLOAT, METHOD, Change, public
from gradwalk.ops.elementwise.activation import sigmoid
from gradwalk.ops.elementwise.arithmetic import abs, exp, log
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.elementwise.error_function import erfc_array

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_LOG_2 = math.log(2)
_BOTH = "gradwalk special"


def _scipy(name: str) -> Any:
    def forward(x: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(x)

    return forward


erfc = unary(
    "erfc",
    erfc_array,
    lambda x: -_TWO_OVER_ROOT_PI * exp(-(x * x)),
    "1 − erf(x).",
    number=math.erfc,
    namespaces=_BOTH,
)
erfinv = unary(
    "erfinv",
    _scipy("erfinv"),
    lambda out: (1 / _TWO_OVER_ROOT_PI) * exp(out * out),
    "The inverse of erf.",
    namespaces=_BOTH,
)

# log |Γ(x)|, and its derivatives: digamma, then polygamma of order 1, 2, ...
lgamma = unary(
    "lgamma",
    lambda x: _scipy("gammaln")(np.where(x == -math.inf, math.inf, x)),
    lambda x: digamma(x),
    "Log |Γ(x)|.",
    namespaces="gradwalk special.gammaln",
)
digamma: Op = unary(
    "digamma",
    _scipy("digamma"),
    lambda x: polygamma_op(x, n=1),
    "The derivative of lgamma.",
    namespaces="gradwalk special special.psi",
)


def _polygamma_forward(x: Any, *, n: int) -> Any:
    from scipy.special import polygamma as scipy_polygamma
    from scipy.special import zeta

    if n == 0:
        return _scipy("digamma")(x)
    if n > 1:
        return scipy_polygamma(n, x).astype(x.dtype)
    # Reflected to the right half: SciPy's sum would take |x| steps on the left one.
    left = x < 0.5
    right = zeta(2.0, np.where(left, 1 - x, x))
    out = np.where(left, (math.pi / np.sin(math.pi * x)) ** 2 - right, right)
    return np.where(left & (x == np.floor(x)), math.inf, out).astype(x.dtype)  # the poles


polygamma_op: Op = elementwise(
    "polygamma",
    _polygamma_forward,
    partials=[lambda x, n: polygamma_op(x, n=n + 1)],
    to_float=True,
)


def _polygamma_method(self: Any, n: int) -> Any:
    """The derivative of order n of digamma."""
    return polygamma(n, self)


def _polygamma_change(self: Any, n: int) -> Change:
    return polygamma_op, (self,), {"n": int(n)}


@public(namespaces="gradwalk special", method=_polygamma_method, inplace=_polygamma_change)
def polygamma(n: int, input: Any) -> Any:
    """The derivative of order n of digamma.

    >>> import gradwalk as gw
    >>> gw.polygamma(1, gw.tensor([1.0, 0.5]))
    tensor([1.6449, 4.9348])
    """
    if n < 0:
        raise ValueError(f"polygamma: the order n is {n}; it must not be negative")
    return polygamma_op(input, n=int(n))


# log(eˣ + eʸ), and the same to base 2. Each input's share is a sigmoid of their difference.
logaddexp = elementwise(
    "logaddexp",
    np.logaddexp,
    partials=[lambda x, y: sigmoid(x - y), lambda x, y: sigmoid(y - x)],
    to_float=True,
    doc="Log(eˣ + eʸ).",
    **METHOD,
)
logaddexp2 = elementwise(
    "logaddexp2",
    np.logaddexp2,
    partials=[lambda x, y: sigmoid((x - y) * _LOG_2), lambda x, y: sigmoid((y - x) * _LOG_2)],
    to_float=True,
    doc="Log₂(2ˣ + 2ʸ).",
    **METHOD,
)


def _xlogy_forward(x: Any, y: Any) -> Any:
    if not hasattr(y, "dtype"):  # a plain number must not promote x
        y = x.dtype.type(y)
    return np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y))


# x × log y, where 0 × log 0 is 0.
xlogy = elementwise(
    "xlogy",
    _xlogy_forward,
    vjp=[lambda g, x, y: where((x == 0) & (y <= 0), 0, g * log(y)), lambda g, x, y: g * (x / y)],
    doc="self × log(other), 0 where self is 0.",
    **FLOAT | {"namespaces": _BOTH},
)


def _logit_forward(x: Any, *, eps: float | None = None) -> Any:
    if eps is not None:
        x = np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


def _logit_rule(g: Any, x: Any, eps: float | None) -> Any:
    if eps is None:
        return where((x < 0) | (x > 1), math.nan, g / abs(x * (1 - x)))  # abs for −0
    return where((x < eps) | (x > 1 - eps), 0, g / abs(x * (1 - x)))


# log(x / (1 − x)), the inverse of sigmoid; with eps, of x limited to [eps, 1 − eps].
logit = unary(
    "logit",
    _logit_forward,
    _logit_rule,
    "Log(x / (1 − x)), the inverse of sigmoid.",
    namespaces=_BOTH,
)


@public(namespaces="special")
@rounds_once
def ndtr(input: Any) -> Any:
    """The share of a standard normal that lies below each element.

    >>> import gradwalk as gw
    >>> gw.special.ndtr(gw.tensor([0.0, 1.0]))
    tensor([0.5000, 0.8413])
    """
    return erfc(input * -math.sqrt(0.5)) * 0.5
