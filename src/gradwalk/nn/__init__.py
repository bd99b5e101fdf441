"""Layers under PyTorch's names, containers, `functional`, `init` and `utils`.

Each family of layers lists its public names in its own `__all__`.
"""
# ruff: noqa: F403

from gradwalk.nn import containers as _containers
from gradwalk.nn import functional as functional
from gradwalk.nn import init as init
from gradwalk.nn import utils as utils
from gradwalk.nn.containers import *
from gradwalk.nn.layers import activation as _activation
from gradwalk.nn.layers import attention as _attention
from gradwalk.nn.layers import convolution as _convolution
from gradwalk.nn.layers import dropout as _dropout
from gradwalk.nn.layers import linear as _linear
from gradwalk.nn.layers import loss as _loss
from gradwalk.nn.layers import normalization as _normalization
from gradwalk.nn.layers import pooling as _pooling
from gradwalk.nn.layers import recurrent as _recurrent
from gradwalk.nn.layers import shape as _shape
from gradwalk.nn.layers import sparse as _sparse
from gradwalk.nn.layers import transformer as _transformer
from gradwalk.nn.layers.activation import *
from gradwalk.nn.layers.attention import *
from gradwalk.nn.layers.convolution import *
from gradwalk.nn.layers.dropout import *
from gradwalk.nn.layers.linear import *
from gradwalk.nn.layers.loss import *
from gradwalk.nn.layers.normalization import *
from gradwalk.nn.layers.pooling import *
from gradwalk.nn.layers.recurrent import *
from gradwalk.nn.layers.shape import *
from gradwalk.nn.layers.sparse import *
from gradwalk.nn.layers.transformer import *
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Buffer, Parameter

__all__ = ["Buffer", "Module", "Parameter"]
__all__ += _activation.__all__
__all__ += _attention.__all__
__all__ += _containers.__all__
__all__ += _convolution.__all__
__all__ += _dropout.__all__
__all__ += _linear.__all__
__all__ += _loss.__all__
__all__ += _normalization.__all__
__all__ += _pooling.__all__
__all__ += _recurrent.__all__
__all__ += _shape.__all__
__all__ += _sparse.__all__
__all__ += _transformer.__all__
__all__.sort()
