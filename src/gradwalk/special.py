"""Special functions under the names of `torch.special`; the ops have other names too."""

from __future__ import annotations

import math
from typing import Any

from gradwalk.ops.elementwise.activation import erf, sigmoid
from gradwalk.ops.elementwise.arithmetic import exp2, expm1, log1p, round
from gradwalk.ops.elementwise.special import digamma, erfc, erfinv, lgamma, logit, polygamma, xlogy
from gradwalk.ops.elementwise.trigonometry import sinc
from gradwalk.ops.network.softmax import log_softmax, logsumexp, softmax

__all__ = [
    "digamma", "erf", "erfc", "erfinv", "exp2", "expit", "expm1", "gammaln", "log1p", "log_softmax",
    "logit", "logsumexp", "ndtr", "polygamma", "psi", "round", "sinc", "softmax", "xlogy",
]  # fmt: skip

expit = sigmoid
gammaln = lgamma
psi = digamma


def ndtr(input: Any) -> Any:
    """The share of a standard normal that lies below each element.

    >>> import gradwalk as gw
    >>> gw.special.ndtr(gw.tensor([0.0, 1.0]))
    tensor([0.5000, 0.8413])
    """
    return erfc(input * -math.sqrt(0.5)) * 0.5
