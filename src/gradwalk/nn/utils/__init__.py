"""Helpers around training: clipped gradients, parameters as one vector, sequences of any length."""

from gradwalk.nn.utils import parametrizations as parametrizations
from gradwalk.nn.utils import parametrize as parametrize
from gradwalk.nn.utils import rnn as rnn
from gradwalk.nn.utils import stateless as stateless
from gradwalk.nn.utils.clipping import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from gradwalk.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from gradwalk.nn.utils.vectors import parameters_to_vector, vector_to_parameters
from gradwalk.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm",
    "parameters_to_vector", "parametrizations", "parametrize", "remove_spectral_norm",
    "remove_weight_norm", "rnn", "spectral_norm", "stateless", "vector_to_parameters",
    "weight_norm",
]  # fmt: skip
