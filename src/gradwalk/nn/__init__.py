"""Layers under PyTorch's names, containers, `functional`, `init` and `utils`.

Each family of layers lists its public names in its own `__all__`.
"""
# ruff: noqa: F403

from gradwalk.nn import attention as attention
from gradwalk.nn import functional as functional
from gradwalk.nn import init as init
from gradwalk.nn import parallel as parallel
from gradwalk.nn import utils as utils
from gradwalk.nn.containers import *
from gradwalk.nn.layers.activation import *
from gradwalk.nn.layers.adaptive_softmax import *
from gradwalk.nn.layers.attention import *
from gradwalk.nn.layers.convolution import *
from gradwalk.nn.layers.dropout import *
from gradwalk.nn.layers.lazy import *
from gradwalk.nn.layers.linear import *
from gradwalk.nn.layers.loss import *
from gradwalk.nn.layers.normalization import *
from gradwalk.nn.layers.pooling import *
from gradwalk.nn.layers.recurrent import *
from gradwalk.nn.layers.shape import *
from gradwalk.nn.layers.sparse import *
from gradwalk.nn.layers.transformer import *
from gradwalk.nn.module import Module as Module
from gradwalk.nn.parallel import DataParallel as DataParallel
from gradwalk.nn.parameter import Buffer as Buffer
from gradwalk.nn.parameter import Parameter as Parameter

__all__ = sorted(name for name, value in vars().items() if isinstance(value, type))

from gradwalk.nn import grad as grad
from gradwalk.nn import modules as modules  # it imports the names above
