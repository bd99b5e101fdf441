"""Layers under PyTorch's names: the first few; the rest comes with them."""

from gradwalk.nn import functional as functional
from gradwalk.nn.layers import Linear, ReLU, Sequential, Sigmoid, Tanh
from gradwalk.nn.module import Module, Parameter

__all__ = ["Linear", "Module", "Parameter", "ReLU", "Sequential", "Sigmoid", "Tanh"]
