"""Activation functions: the smooth ones are made of the other functions of this folder."""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.emit.functions.exponential import exp, expm1
from gradwalk.compiler.backends.llvm.emit.functions.logarithm import log1p
from gradwalk.compiler.backends.llvm.emit.vector import Vector


def scaled(x: Vector, factor: float) -> Vector:
    """x × factor, and no instruction for a factor of 1."""
    return x if factor == 1 else x * factor


def softplus(x: Vector, beta: float, threshold: float) -> Vector:
    """log(1 + e^(βx)) / β; x itself above the threshold."""
    steep = scaled(x, beta)
    soft = log1p(exp(-steep.absolute())) + steep.at_least(0.0)
    soft = soft if beta == 1 else soft / beta
    return (steep > threshold).choose(x, soft)


def logsigmoid(x: Vector) -> Vector:
    """log σ(x), without overflow."""
    return x.at_most(0.0) - log1p(exp(-x.absolute()))


def elu(x: Vector, alpha: float, scale: float, input_scale: float) -> Vector:
    """x above 0, α (eˣ − 1) below, with the scales of celu and selu."""
    low = scaled(expm1(scaled(x, input_scale)), alpha * scale)
    return (x <= 0.0).choose(low, scaled(x, scale))


def leaky_relu(x: Vector, negative_slope: float) -> Vector:
    """x above 0, a small multiple of it below."""
    return (x > 0.0).choose(x, x * negative_slope)


def six(x: Vector) -> Vector:
    """x + 3 limited to [0, 6]."""
    return (x + 3.0).at_least(0.0).at_most(6.0)


def softshrink(x: Vector, lambd: float) -> Vector:
    """Towards 0 by λ, and 0 where that would cross it."""
    inside = (x < -lambd).choose(x + lambd, x * 0.0)
    return (x > lambd).choose(x - lambd, inside)


def hardshrink(x: Vector, lambd: float) -> Vector:
    """0 where |x| ≤ λ."""
    return ((x >= -lambd) & (x <= lambd)).choose(x * 0, x)


def threshold(x: Vector, threshold: float, value: float) -> Vector:
    """The value where x is not above the threshold."""
    return (x <= threshold).choose(x.constant(value), x)
