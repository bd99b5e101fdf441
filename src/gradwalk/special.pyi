# Written by `python -m tools.stubs`.
from gradwalk.ops.elementwise.activation import erf as erf
from gradwalk.ops.elementwise.activation import sigmoid as expit
from gradwalk.ops.elementwise.arithmetic import exp2 as exp2
from gradwalk.ops.elementwise.arithmetic import expm1 as expm1
from gradwalk.ops.elementwise.arithmetic import log1p as log1p
from gradwalk.ops.elementwise.arithmetic import round as round
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
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "log1p",
    "log_softmax",
    "logit",
    "logsumexp",
    "ndtr",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlogy",
]
