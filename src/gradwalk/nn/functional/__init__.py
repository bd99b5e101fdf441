"""Layers as functions, without parameters of their own.

Each family lists its public names in its own `__all__`.
"""
# ruff: noqa: F403

from gradwalk.nn.functional import activation as _activation
from gradwalk.nn.functional import attention as _attention
from gradwalk.nn.functional import convolution as _convolution
from gradwalk.nn.functional import distance as _distance
from gradwalk.nn.functional import dropout as _dropout
from gradwalk.nn.functional import loss as _loss
from gradwalk.nn.functional import normalization as _normalization
from gradwalk.nn.functional import pooling as _pooling
from gradwalk.nn.functional import shuffle as _shuffle
from gradwalk.nn.functional import sparse as _sparse
from gradwalk.nn.functional.activation import *
from gradwalk.nn.functional.attention import *
from gradwalk.nn.functional.convolution import *
from gradwalk.nn.functional.distance import *
from gradwalk.nn.functional.dropout import *
from gradwalk.nn.functional.loss import *
from gradwalk.nn.functional.normalization import *
from gradwalk.nn.functional.pooling import *
from gradwalk.nn.functional.shuffle import *
from gradwalk.nn.functional.sparse import *
from gradwalk.ops.shape.reshaping import pad

__all__ = ["pad"]
__all__ += _activation.__all__
__all__ += _attention.__all__
__all__ += _convolution.__all__
__all__ += _distance.__all__
__all__ += _dropout.__all__
__all__ += _loss.__all__
__all__ += _normalization.__all__
__all__ += _pooling.__all__
__all__ += _shuffle.__all__
__all__ += _sparse.__all__
__all__.sort()
