"""PyTorch's longer path to the layers: `nn.modules` has the classes of `nn`, and the classes that
several of them have in common, which programs ask for (`isinstance(layer, _BatchNorm)`)."""

from gradwalk.nn import *  # noqa: F403
from gradwalk.nn import __all__ as __all__
from gradwalk.nn.layers import convolution as _convolution
from gradwalk.nn.layers import dropout as _dropout
from gradwalk.nn.layers import normalization as _normalization
from gradwalk.nn.layers import pooling as _pooling
from gradwalk.nn.layers import shape as _shape
from gradwalk.nn.layers.linear import (
    NonDynamicallyQuantizableLinear as NonDynamicallyQuantizableLinear,
)
from gradwalk.nn.layers.transformer import _get_activation_fn as _get_activation_fn
from gradwalk.nn.layers.transformer import _get_clones as _get_clones
from gradwalk.nn.modules import module as module
from gradwalk.nn.modules import utils as utils
from gradwalk.nn.modules.loss_bases import _Loss as _Loss
from gradwalk.nn.modules.loss_bases import _WeightedLoss as _WeightedLoss
from gradwalk.ops.core.longer_paths import longer_paths

_BatchNorm, _InstanceNorm = _normalization._BatchNorm, _normalization._InstanceNorm
_NormBase = _normalization._TrackedNorm
_ConvNd, _ConvTransposeNd = _convolution._Convolution, _convolution._ConvTranspose
_DropoutNd = _dropout._Dropout
_MaxPoolNd, _AvgPoolNd, _LPPoolNd = _pooling._MaxPool, _pooling._AvgPool, _pooling._LPPool
_AdaptiveAvgPoolNd, _AdaptiveMaxPoolNd = _pooling._AdaptiveAvgPool, _pooling._AdaptiveMaxPool
_ConstantPadNd, _ReflectionPadNd = _shape._ConstantPadNd, _shape._ReflectionPadNd
_ReplicationPadNd, _CircularPadNd = _shape._ReplicationPadNd, _shape._CircularPadNd

longer_paths(
    __name__, "activation", "adaptive", "batchnorm", "container", "conv", "distance",
    "flatten", "fold", "instancenorm", "lazy", "linear", "loss", "normalization", "padding",
    "pixelshuffle", "pooling", "rnn", "sparse", "transformer", "upsampling", "dropout",
)  # fmt: skip
