# Written by `python -m tools.stubs`.
from gradwalk.ops.reduce.masked import amax as amax
from gradwalk.ops.reduce.masked import amin as amin
from gradwalk.ops.reduce.masked import argmax as argmax
from gradwalk.ops.reduce.masked import argmin as argmin
from gradwalk.ops.reduce.masked import cumprod as cumprod
from gradwalk.ops.reduce.masked import cumsum as cumsum
from gradwalk.ops.reduce.masked import log_softmax as log_softmax
from gradwalk.ops.reduce.masked import logaddexp as logaddexp
from gradwalk.ops.reduce.masked import logsumexp as logsumexp
from gradwalk.ops.reduce.masked import mean as mean
from gradwalk.ops.reduce.masked import median as median
from gradwalk.ops.reduce.masked import norm as norm
from gradwalk.ops.reduce.masked import normalize as normalize
from gradwalk.ops.reduce.masked import prod as prod
from gradwalk.ops.reduce.masked import softmax as softmax
from gradwalk.ops.reduce.masked import softmin as softmin
from gradwalk.ops.reduce.masked import std as std
from gradwalk.ops.reduce.masked import sum as sum
from gradwalk.ops.reduce.masked import var as var

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]
