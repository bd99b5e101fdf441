"""Bessel functions, incomplete gamma functions and other rare special functions, by SciPy.

Their rules are the recurrences between orders, so derivatives of any order follow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.op import Op, elementwise
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.arithmetic import exp, log, log1p, sign
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.elementwise.special import lgamma
from gradwalk.ops.elementwise.trigonometry import sinc
from gradwalk.ops.shape.reshaping import promoted

_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
_ROOT_2_PI = math.sqrt(2 * math.pi)


def _special(
    name: str, slope: Any, doc: str, function: str = "", namespaces: str = "special", **facts: Any
) -> Op:
    """A function of one float; SciPy has it as `function`. `slope` is its derivative."""

    def forward(x: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, function or name)(x)

    return elementwise(
        name, facts.pop("forward", forward), partials=[slope], to_float=True, doc=doc,
        namespaces=namespaces, **facts,
    )  # fmt: skip


def _over(x: Any, y: Any, limit: float) -> Any:
    """y / x; at x = 0 its limit."""
    return where(x == 0, limit, y / where(x == 0, 1, x))


i0: Op = _special(
    "i0", lambda x: i1(x), "The modified Bessel function of order 0.",
    namespaces="gradwalk special special.modified_bessel_i0", method=True, inplace=True,
)  # fmt: skip
i1: Op = _special(
    "i1", lambda x, out: i0(x) - _over(x, out, 0.5), "The modified Bessel function of order 1.",
    namespaces="special special.modified_bessel_i1",
)  # fmt: skip
i0e: Op = _special("i0e", lambda x, out: i1e(x) - sign(x) * out, "exp(−|x|) × i0(x).")
i1e: Op = _special(
    "i1e", lambda x, out: i0e(x) - sign(x) * out - _over(x, out, 0.5), "exp(−|x|) × i1(x)."
)
bessel_j0: Op = _special(
    "bessel_j0", lambda x: -bessel_j1(x), "The Bessel function of the first kind, order 0.", "j0"
)
bessel_j1: Op = _special(
    "bessel_j1",
    lambda x, out: bessel_j0(x) - _over(x, out, 0.5),
    "The Bessel function of the first kind, order 1.",
    "j1",
)
bessel_y0: Op = _special(
    "bessel_y0", lambda x: -bessel_y1(x), "The Bessel function of the second kind, order 0.", "y0"
)
bessel_y1: Op = _special(
    "bessel_y1",
    lambda x, out: bessel_y0(x) - out / x,
    "The Bessel function of the second kind, order 1.",
    "y1",
)
modified_bessel_k0: Op = _special(
    "modified_bessel_k0",
    lambda x: -modified_bessel_k1(x),
    "The modified Bessel function of the second kind, order 0.",
    "k0",
)
modified_bessel_k1: Op = _special(
    "modified_bessel_k1",
    lambda x, out: -modified_bessel_k0(x) - out / x,
    "The modified Bessel function of the second kind, order 1.",
    "k1",
)
scaled_modified_bessel_k0: Op = _special(
    "scaled_modified_bessel_k0",
    lambda x, out: out - scaled_modified_bessel_k1(x),
    "exp(x) × modified_bessel_k0(x).",
    "k0e",
)
scaled_modified_bessel_k1: Op = _special(
    "scaled_modified_bessel_k1",
    lambda x, out: out - scaled_modified_bessel_k0(x) - out / x,
    "exp(x) × modified_bessel_k1(x).",
    "k1e",
)


def _airy(which: int) -> Any:
    def forward(x: Any) -> Any:
        import scipy.special

        return np.asarray(scipy.special.airy(x)[which], x.dtype)

    return forward


airy_ai: Op = _special(
    "airy_ai", lambda x: airy_slope(x), "The Airy function Ai.", forward=_airy(0)
)
airy_slope: Op = _special(
    "airy_slope", lambda x: x * airy_ai(x), "", namespaces="", forward=_airy(1)
)


@public(namespaces="special")
def spherical_bessel_j0(input: Any) -> Any:
    """sin(x) / x, 1 at 0."""
    infinite = abs(input) == math.inf
    return where(infinite, 0.0, sinc(where(infinite, 1.0, input) * (1 / math.pi)))


# -- relatives of the error function and of the logarithm ----------------------------------------

erfcx: Op = _special(
    "erfcx", lambda x, out: 2 * x * out - 2 / math.sqrt(math.pi), "exp(x²) × erfc(x)."
)
log_ndtr: Op = _special(
    "log_ndtr",
    lambda x: _ROOT_2_OVER_PI / erfcx(x * -math.sqrt(0.5)),
    "The logarithm of `ndtr`, exact also far below 0.",
)
ndtri: Op = _special(
    "ndtri", lambda out: _ROOT_2_PI * exp(out * out * 0.5), "The inverse of `ndtr`."
)
entr: Op = _special("entr", lambda x: -1 - log(x), "−x × log x, 0 at 0 and −∞ below.")


def _both(function: str) -> Any:
    def forward(x: Any, y: Any) -> Any:
        import scipy.special

        dtype = np.result_type(x, y)
        return np.asarray(getattr(scipy.special, function)(x, y), dtype)

    return forward


xlog1py = elementwise(
    "xlog1py",
    _both("xlog1py"),
    vjp=[
        lambda g, x, y: where((x == 0) & (y <= -1), 0, g * log1p(y)),
        lambda g, x, y: g * (x / (y + 1)),
    ],
    to_float=True,
    doc="self × log(1 + other), 0 where self is 0.",
    namespaces="special",
)


zeta: Op = elementwise(
    "zeta",
    _both("zeta"),
    vjp=[lambda g: _no_rule("zeta"), lambda g, x, y: g * (-x * zeta(x + 1, y))],
    to_float=True,
    doc="Hurwitz' zeta function: Σ (k + other)^−self.",
    namespaces="special",
)


def _no_rule(name: str) -> Any:
    raise NotImplementedError(
        f"{name} has no derivative by its first argument in known functions: detach() that"
    )


def _density(x: Any, y: Any) -> Any:
    return exp((x - 1) * log(y) - y - lgamma(x))


gammainc = elementwise(
    "gammainc",
    _both("gammainc"),
    vjp=[lambda g: _no_rule("igamma"), lambda g, x, y: g * _density(x, y)],
    to_float=True,
    doc="The regularized lower incomplete gamma function of parameter self at other.",
    names="igamma",
    namespaces="gradwalk special.gammainc",
    method=True,
    inplace=True,
)
gammaincc = elementwise(
    "gammaincc",
    _both("gammaincc"),
    vjp=[lambda g: _no_rule("igammac"), lambda g, x, y: -g * _density(x, y)],
    to_float=True,
    doc="The regularized upper incomplete gamma function of parameter self at other.",
    names="igammac",
    namespaces="gradwalk special.gammaincc",
    method=True,
    inplace=True,
)


@public(names="mvlgamma", namespaces="gradwalk special.multigammaln", method=True, inplace=True)
@rounds_once
def mvlgamma(input: Any, p: int) -> Any:
    """The logarithm of the gamma function of p dimensions.

    >>> import gradwalk as gw
    >>> gw.mvlgamma(gw.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    if p < 1:
        raise ValueError(f"mvlgamma: p must be at least 1, not {p}")
    x = promoted(input, 1.0)
    total = lgamma(x) + p * (p - 1) / 4 * math.log(math.pi)
    for number in range(1, p):
        total = total + lgamma(x - number / 2)
    return total
