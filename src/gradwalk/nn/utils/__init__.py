"""Helpers around training: clipped gradients, parameters as one vector, sequences of any length."""

from gradwalk.nn.utils import fusion as fusion
from gradwalk.nn.utils import parametrizations as parametrizations
from gradwalk.nn.utils import parametrize as parametrize
from gradwalk.nn.utils import prune as prune
from gradwalk.nn.utils import rnn as rnn
from gradwalk.nn.utils import stateless as stateless
from gradwalk.nn.utils.clipping import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from gradwalk.nn.utils.fusion import fuse_conv_bn_eval as fuse_conv_bn_eval
from gradwalk.nn.utils.fusion import fuse_conv_bn_weights as fuse_conv_bn_weights
from gradwalk.nn.utils.fusion import fuse_linear_bn_eval as fuse_linear_bn_eval
from gradwalk.nn.utils.fusion import fuse_linear_bn_weights as fuse_linear_bn_weights
from gradwalk.nn.utils.init import skip_init
from gradwalk.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from gradwalk.nn.utils.vectors import parameters_to_vector, vector_to_parameters
from gradwalk.nn.utils.weight_norm import remove_weight_norm, weight_norm
from gradwalk.ops.core.longer_paths import longer_paths

longer_paths(__name__, "clip_grad", "convert_parameters")

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
    "fusion",
    "get_total_norm",
    "parameters_to_vector", "parametrizations", "parametrize", "prune", "remove_spectral_norm",
    "remove_weight_norm", "rnn", "skip_init", "spectral_norm", "stateless", "vector_to_parameters",
    "weight_norm",
]  # fmt: skip
