"""Scalars: Value, the visit of one Value, and a small network of them."""

from gradwalk.scalar.mlp import MLP, Layer, Module, Neuron
from gradwalk.scalar.value import Value

__all__ = ["MLP", "Layer", "Module", "Neuron", "Value"]
