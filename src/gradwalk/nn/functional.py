"""Layers as functions: what they compute, without parameters of their own."""

from gradwalk.ops.activation import leaky_relu, relu, sigmoid, softplus
from gradwalk.ops.linalg import linear
from gradwalk.ops.loss import cross_entropy, log_softmax, softmax
from gradwalk.ops.shape import pad
from gradwalk.ops.trigonometry import tanh

__all__ = [
    "cross_entropy",
    "leaky_relu",
    "linear",
    "log_softmax",
    "pad",
    "relu",
    "sigmoid",
    "softmax",
    "softplus",
    "tanh",
]
