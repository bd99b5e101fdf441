"""Orthogonal polynomials of degree n at x, by SciPy; the derivative of one is another.

Chebyshev's and Legendre's are Gegenbauer polynomials, whose derivative has a larger parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import int64
from gradwalk.ops.core.op import Op, elementwise
from gradwalk.ops.core.public import public_as
from gradwalk.ops.elementwise.arithmetic import trunc
from gradwalk.ops.shape.reshaping import cast


def _at(function: str, x: Any, n: Any, *parameters: float) -> Any:
    """SciPy's function, of integer degrees; 0 for a degree below 0."""
    import scipy.special

    degree = np.asarray(n).astype(np.int64)
    wide = np.asarray(x, np.float64)
    out = getattr(scipy.special, function)(np.maximum(degree, 0), *parameters, wide)
    return np.where(degree < 0, 0, out).astype(np.result_type(x, n))


def _orthogonal(name: str, forward: Any, slope: Any) -> Op:
    return elementwise(name, forward, partials=[slope, None], to_float=True)


_ultra: Op = _orthogonal(
    "gegenbauer",
    lambda x, n, *, alpha: _at("eval_gegenbauer", x, n, alpha),
    lambda x, n, alpha: 2 * alpha * _ultra(x, n - 1, alpha=alpha + 1),
)
_first = _orthogonal(
    "chebyshev",
    lambda x, n: _at("eval_chebyt", x, n),
    lambda x, n: n * _ultra(x, n - 1, alpha=1.0),
)
_physical: Op = _orthogonal(
    "hermite_h",
    lambda x, n: _at("eval_hermite", x, n),
    lambda x, n: 2 * n * _physical(x, n - 1),
)
_normal: Op = _orthogonal(
    "hermite_he",
    lambda x, n: _at("eval_hermitenorm", x, n),
    lambda x, n: n * _normal(x, n - 1),
)
_associated: Op = _orthogonal(
    "laguerre",
    lambda x, n, *, alpha: _at("eval_genlaguerre", x, n, alpha),
    lambda x, n, alpha: -_associated(x, n - 1, alpha=alpha + 1),
)


def _polynomial(name: str, compute: Callable[[Any, Any], Any], doc: str) -> Callable[..., Any]:
    @public_as(name, doc, namespaces="special")
    def polynomial(input: Any, n: Any) -> Any:
        if getattr(n, "dtype", int64).kind in "ub":
            n = cast(n, dtype=int64)  # a degree below 0 occurs on the way
        return compute(input, trunc(n))

    return polynomial


def _second(x: Any, n: Any) -> Any:
    return _ultra(x, n, alpha=1.0)


def _third(x: Any, n: Any) -> Any:
    return _second(x, n) - _second(x, n - 1)


def _fourth(x: Any, n: Any) -> Any:
    return _second(x, n) + _second(x, n - 1)


def _shifted(kind: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A polynomial for x from 0 to 1."""
    return lambda x, n: kind(2.0 * x - 1.0, n)


chebyshev_polynomial_t = _polynomial(
    "chebyshev_polynomial_t", _first, "Chebyshev's polynomial of the first kind and degree n."
)
chebyshev_polynomial_u = _polynomial(
    "chebyshev_polynomial_u", _second, "Chebyshev's polynomial of the second kind and degree n."
)
chebyshev_polynomial_v = _polynomial(
    "chebyshev_polynomial_v", _third, "Chebyshev's polynomial of the third kind and degree n."
)
chebyshev_polynomial_w = _polynomial(
    "chebyshev_polynomial_w", _fourth, "Chebyshev's polynomial of the fourth kind and degree n."
)
shifted_chebyshev_polynomial_t = _polynomial(
    "shifted_chebyshev_polynomial_t",
    _shifted(_first),
    "Chebyshev's polynomial of the first kind and degree n, at 2x − 1.",
)
shifted_chebyshev_polynomial_u = _polynomial(
    "shifted_chebyshev_polynomial_u",
    _shifted(_second),
    "Chebyshev's polynomial of the second kind and degree n, at 2x − 1.",
)
shifted_chebyshev_polynomial_v = _polynomial(
    "shifted_chebyshev_polynomial_v",
    _shifted(_third),
    "Chebyshev's polynomial of the third kind and degree n, at 2x − 1.",
)
shifted_chebyshev_polynomial_w = _polynomial(
    "shifted_chebyshev_polynomial_w",
    _shifted(_fourth),
    "Chebyshev's polynomial of the fourth kind and degree n, at 2x − 1.",
)
hermite_polynomial_h = _polynomial(
    "hermite_polynomial_h", _physical, "Hermite's polynomial of degree n, of weight exp(−x²)."
)
hermite_polynomial_he = _polynomial(
    "hermite_polynomial_he", _normal, "Hermite's polynomial of degree n, of weight exp(−x² / 2)."
)
laguerre_polynomial_l = _polynomial(
    "laguerre_polynomial_l",
    lambda x, n: _associated(x, n, alpha=0.0),
    "Laguerre's polynomial of degree n.",
)
legendre_polynomial_p = _polynomial(
    "legendre_polynomial_p",
    lambda x, n: _ultra(x, n, alpha=0.5),
    "Legendre's polynomial of degree n.",
)
