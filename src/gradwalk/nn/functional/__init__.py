"""Layers as functions, without parameters of their own.

Each family lists its public names in its own `__all__`.
"""
# ruff: noqa: F403

from gradwalk.nn.functional.activation import *
from gradwalk.nn.functional.attention import *
from gradwalk.nn.functional.convolution import *
from gradwalk.nn.functional.ctc import *
from gradwalk.nn.functional.distance import *
from gradwalk.nn.functional.dropout import *
from gradwalk.nn.functional.interpolation import *
from gradwalk.nn.functional.loss import *
from gradwalk.nn.functional.margins import *
from gradwalk.nn.functional.normalization import *
from gradwalk.nn.functional.pooling import *
from gradwalk.nn.functional.shuffle import *
from gradwalk.nn.functional.sparse import *
from gradwalk.ops.shape.reshaping import pad as pad

__all__ = sorted(name for name, value in vars().items() if callable(value) and name[0] != "_")
