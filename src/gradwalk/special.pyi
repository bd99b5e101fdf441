# Written by `python -m tools.stubs`.
from gradwalk.ops.elementwise.activation import erf as erf
from gradwalk.ops.elementwise.activation import sigmoid as expit
from gradwalk.ops.elementwise.arithmetic import exp2 as exp2
from gradwalk.ops.elementwise.arithmetic import expm1 as expm1
from gradwalk.ops.elementwise.arithmetic import log1p as log1p
from gradwalk.ops.elementwise.arithmetic import round as round
from gradwalk.ops.elementwise.bessel import airy_ai as airy_ai
from gradwalk.ops.elementwise.bessel import bessel_j0 as bessel_j0
from gradwalk.ops.elementwise.bessel import bessel_j1 as bessel_j1
from gradwalk.ops.elementwise.bessel import bessel_y0 as bessel_y0
from gradwalk.ops.elementwise.bessel import bessel_y1 as bessel_y1
from gradwalk.ops.elementwise.bessel import entr as entr
from gradwalk.ops.elementwise.bessel import erfcx as erfcx
from gradwalk.ops.elementwise.bessel import gammainc as gammainc
from gradwalk.ops.elementwise.bessel import gammaincc as gammaincc
from gradwalk.ops.elementwise.bessel import i0 as i0
from gradwalk.ops.elementwise.bessel import i0 as modified_bessel_i0
from gradwalk.ops.elementwise.bessel import i0e as i0e
from gradwalk.ops.elementwise.bessel import i1 as i1
from gradwalk.ops.elementwise.bessel import i1 as modified_bessel_i1
from gradwalk.ops.elementwise.bessel import i1e as i1e
from gradwalk.ops.elementwise.bessel import log_ndtr as log_ndtr
from gradwalk.ops.elementwise.bessel import modified_bessel_k0 as modified_bessel_k0
from gradwalk.ops.elementwise.bessel import modified_bessel_k1 as modified_bessel_k1
from gradwalk.ops.elementwise.bessel import mvlgamma as multigammaln
from gradwalk.ops.elementwise.bessel import ndtri as ndtri
from gradwalk.ops.elementwise.bessel import scaled_modified_bessel_k0 as scaled_modified_bessel_k0
from gradwalk.ops.elementwise.bessel import scaled_modified_bessel_k1 as scaled_modified_bessel_k1
from gradwalk.ops.elementwise.bessel import spherical_bessel_j0 as spherical_bessel_j0
from gradwalk.ops.elementwise.bessel import xlog1py as xlog1py
from gradwalk.ops.elementwise.bessel import zeta as zeta
from gradwalk.ops.elementwise.polynomials import chebyshev_polynomial_t as chebyshev_polynomial_t
from gradwalk.ops.elementwise.polynomials import chebyshev_polynomial_u as chebyshev_polynomial_u
from gradwalk.ops.elementwise.polynomials import chebyshev_polynomial_v as chebyshev_polynomial_v
from gradwalk.ops.elementwise.polynomials import chebyshev_polynomial_w as chebyshev_polynomial_w
from gradwalk.ops.elementwise.polynomials import hermite_polynomial_h as hermite_polynomial_h
from gradwalk.ops.elementwise.polynomials import hermite_polynomial_he as hermite_polynomial_he
from gradwalk.ops.elementwise.polynomials import laguerre_polynomial_l as laguerre_polynomial_l
from gradwalk.ops.elementwise.polynomials import legendre_polynomial_p as legendre_polynomial_p
from gradwalk.ops.elementwise.polynomials import (
    shifted_chebyshev_polynomial_t as shifted_chebyshev_polynomial_t,
)
from gradwalk.ops.elementwise.polynomials import (
    shifted_chebyshev_polynomial_u as shifted_chebyshev_polynomial_u,
)
from gradwalk.ops.elementwise.polynomials import (
    shifted_chebyshev_polynomial_v as shifted_chebyshev_polynomial_v,
)
from gradwalk.ops.elementwise.polynomials import (
    shifted_chebyshev_polynomial_w as shifted_chebyshev_polynomial_w,
)
from gradwalk.ops.elementwise.special import digamma as digamma
from gradwalk.ops.elementwise.special import digamma as psi
from gradwalk.ops.elementwise.special import erfc as erfc
from gradwalk.ops.elementwise.special import erfinv as erfinv
from gradwalk.ops.elementwise.special import lgamma as gammaln
from gradwalk.ops.elementwise.special import logit as logit
from gradwalk.ops.elementwise.special import ndtr as ndtr
from gradwalk.ops.elementwise.special import polygamma as polygamma
from gradwalk.ops.elementwise.special import xlogy as xlogy
from gradwalk.ops.elementwise.trigonometry import sinc as sinc
from gradwalk.ops.network.softmax import log_softmax as log_softmax
from gradwalk.ops.network.softmax import logsumexp as logsumexp
from gradwalk.ops.network.softmax import softmax as softmax

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]
