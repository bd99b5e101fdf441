"""Arithmetic, activations and comparison."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.compiler.ir.program import Call
from gradwalk.onnx.dtypes import code_of
from gradwalk.onnx.writers.table import GraphWriter, Value, composed, same, writes
from gradwalk.ops.core.dtypes import bool_, finfo, is_floating

same(
    abs="Abs", acos="Acos", acosh="Acosh", add="Add", alias="Identity", asin="Asin",
    asinh="Asinh", atan="Atan", atanh="Atanh", ceil="Ceil",
    clone="Identity", cos="Cos", cosh="Cosh", div="Div", equal="Equal", erf="Erf", exp="Exp",
    floor="Floor", greater="Greater", greater_equal="GreaterOrEqual", hardswish="HardSwish",
    isinf="IsInf", isnan="IsNaN", less="Less", less_equal="LessOrEqual", log="Log",
    matmul="MatMul", maximum="Max", minimum="Min", mul="Mul", neg="Neg", pow="Pow",
    reciprocal="Reciprocal", relu="Relu", sigmoid="Sigmoid", sign="Sign", sin="Sin",
    sinh="Sinh", sqrt="Sqrt", sub="Sub",
    tan="Tan", tanh="Tanh", where="Where", det="Det",
)  # fmt: skip

# `w` writes a node, `n` makes a constant.
composed(
    not_equal=lambda w, n, x, y: w("Not", w("Equal", x, y)),
    square=lambda w, n, x: w("Mul", x, x),
    power=lambda w, n, x, exponent: w("Pow", x, n(exponent)),
    rsqrt=lambda w, n, x: w("Reciprocal", w("Sqrt", x)),
    exp2=lambda w, n, x: w("Pow", n(2), x),
    expm1=lambda w, n, x: w("Sub", w("Exp", x), n(1)),
    log1p=lambda w, n, x: w("Log", w("Add", x, n(1))),
    log2=lambda w, n, x: w("Mul", w("Log", x), n(1 / math.log(2))),
    log10=lambda w, n, x: w("Mul", w("Log", x), n(1 / math.log(10))),
    zero=lambda w, n, x: w("Mul", x, n(0)),
    ndtr=lambda w, n, x: w("Mul", n(0.5), w("Add", n(1), w("Erf", w("Mul", x, n(0.5**0.5))))),
    erfc=lambda w, n, x: w("Sub", n(1), w("Erf", x)),
    isfinite=lambda w, n, x: w("Not", w("Or", w("IsNaN", x), w("IsInf", x))),
    trunc=lambda w, n, x: w("Mul", w("Sign", x), w("Floor", w("Abs", x))),
    frac=lambda w, n, x: w("Sub", x, w("Mul", w("Sign", x), w("Floor", w("Abs", x)))),
    silu=lambda w, n, x: w("Mul", x, w("Sigmoid", x)),
    mish=lambda w, n, x: w("Mul", x, w("Tanh", w("Softplus", x))),
    logsigmoid=lambda w, n, x: w("Neg", w("Softplus", w("Neg", x))),
    lerp=lambda w, n, a, b, t: w("Add", a, w("Mul", t, w("Sub", b, a))),
    logaddexp=lambda w, n, x, y: w(
        "Add", w("Max", x, y), w("Softplus", w("Neg", w("Abs", w("Sub", x, y))))
    ),
    logaddexp2=lambda w, n, x, y: w(
        "Add",
        w("Max", x, y),
        w(
            "Div",
            w("Softplus", w("Mul", n(-math.log(2)), w("Abs", w("Sub", x, y)))),
            n(math.log(2)),
        ),
    ),
    atan2=lambda w, n, y, x: _atan2(w, n, y, x),
    sinc=lambda w, n, x: _sinc(w, n, w("Mul", x, n(math.pi))),
    heaviside=lambda w, n, x, y: w(
        "Where", w("Equal", x, n(0)), y, w("Where", w("Greater", x, n(0)), n(1), n(0))
    ),
    xlog1py=lambda w, n, x, y: w(
        "Where", w("Equal", x, n(0)), n(0), w("Mul", x, w("Log", w("Add", y, n(1))))
    ),
    entr=lambda w, n, x: w("Where", w("Equal", x, n(0)), n(0), w("Neg", w("Mul", x, w("Log", x)))),
    xlogy=lambda w, n, x, y: w("Where", w("Equal", x, n(0)), n(0), w("Mul", x, w("Log", y))),
    binary_cross_entropy=lambda w, n, x, y: w(
        "Neg",
        w(
            "Add",
            w("Mul", y, w("Max", w("Log", x), n(-100))),
            w("Mul", w("Sub", n(1), y), w("Max", w("Log", w("Sub", n(1), x)), n(-100))),
        ),
    ),
    binary_cross_entropy_logits=lambda w, n, x, y: w("Sub", w("Softplus", x), w("Mul", x, y)),
    hypot=lambda w, n, x, y: w("Sqrt", w("Add", w("Mul", x, x), w("Mul", y, y))),
    clamp_min=lambda w, n, x, low: w("Max", x, low),
    clamp_max=lambda w, n, x, high: w("Min", x, high),
    clip_between=lambda w, n, x, low, high: w("Min", w("Max", x, low), high),
    deg2rad=lambda w, n, x: w("Mul", x, n(math.pi / 180)),
    rad2deg=lambda w, n, x: w("Mul", x, n(180 / math.pi)),
    clip=lambda w, n, x, min, max: w("Clip", x, *(None if m is None else n(m) for m in (min, max))),
    hardtanh=lambda w, n, x, min_val, max_val: w("Clip", x, n(min_val), n(max_val)),
    hardsigmoid=lambda w, n, x: w("HardSigmoid", x, alpha=1 / 6, beta=0.5),
    leaky_relu=lambda w, n, x, negative_slope: w("LeakyRelu", x, alpha=float(negative_slope)),
    softshrink=lambda w, n, x, lambd: w("Shrink", x, lambd=float(lambd), bias=float(lambd)),
    hardshrink=lambda w, n, x, lambd: w("Shrink", x, lambd=float(lambd), bias=0.0),
    threshold=lambda w, n, x, threshold, value: w(
        "Where", w("Greater", x, n(threshold)), x, n(value)
    ),
    softplus=lambda w, n, x, beta, threshold: _softplus(w, n, x, beta, threshold),
    elu=lambda w, n, x, alpha, scale, input_scale: _elu(w, n, x, alpha, scale, input_scale),
)


def _atan2(w: GraphWriter, n: Any, y: Value, x: Value) -> Value:
    """By the arc tangent of the smaller over the larger, and where the point is."""
    flat = w("GreaterOrEqual", w("Abs", x), w("Abs", y))
    above, below = w("Where", flat, y, x), w("Where", flat, x, y)
    apart = w("Where", w("Equal", below, n(0)), n(1), below)  # both are 0: the angle is 0 or π
    angle = w("Atan", w("Div", above, apart))
    up = w("GreaterOrEqual", y, n(0))
    turn = w("Where", up, n(math.pi), n(-math.pi))
    steep = w("Sub", w("Mul", turn, n(0.5)), angle)
    left = w("Add", angle, turn)
    return w("Where", flat, w("Where", w("Less", x, n(0)), left, angle), steep)


def _sinc(w: GraphWriter, n: Any, x: Value) -> Value:
    zero = w("Equal", x, n(0))
    return w("Where", zero, n(1), w("Div", w("Sin", x), w("Where", zero, n(1), x)))


def _softplus(w: GraphWriter, n: Any, x: Value, beta: float, threshold: float) -> Value:
    """From the threshold on it is x, which a float does not tell apart from 20 on."""
    steep = x if beta == 1 else w("Mul", x, n(beta))
    soft = w("Softplus", steep)
    soft = soft if beta == 1 else w("Div", soft, n(beta))
    return soft if threshold >= 20 else w("Where", w("Greater", steep, n(threshold)), x, soft)


def _elu(w: GraphWriter, n: Any, x: Value, alpha: float, scale: float, steep: float) -> Value:
    if steep == 1:
        if scale == 1:
            return w("Elu", x, alpha=float(alpha))
        return w("Selu", x, alpha=float(alpha), gamma=float(scale))
    below = w("Mul", n(alpha), w("Sub", w("Exp", w("Mul", x, n(steep))), n(1)))
    return w("Mul", n(scale), w("Where", w("Greater", x, n(0)), x, below))


@writes("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")
def bitwise(write: GraphWriter, call: Call, *values: Value) -> Value:
    op = call.op.name.removeprefix("bitwise_").title()
    return write(op if call.outputs[0].dtype.kind == "b" else f"Bitwise{op}", *values)


_LOGIC = {"logical_and": "And", "logical_not": "Not", "logical_or": "Or", "logical_xor": "Xor"}


@writes(*_LOGIC)
def logic(write: GraphWriter, call: Call, *values: Value) -> Value:
    """On booleans; numbers are true unless they are 0."""
    given = [
        value if getattr(arg, "dtype", bool_) == bool_ else write("Cast", value, to=code_of(bool_))
        for arg, value in zip(call.args, values, strict=True)
    ]
    return write(_LOGIC[call.op.name], *given)


@writes("cast")
def cast(write: GraphWriter, call: Call, x: Value) -> Value:
    return write("Cast", x, to=code_of(call.attrs["dtype"]))


@writes("round", fits=lambda call: not call.attrs["decimals"])
def round_(write: GraphWriter, call: Call, x: Value) -> Value:
    return write("Round", x)


@writes("fmod", "remainder", "floor_divide", "div_floor", "div_trunc")
def divided(write: GraphWriter, call: Call, x: Value, y: Value) -> Value:
    """Division with a remainder: ONNX truncates quotients of integers."""
    name, floats = call.op.name, is_floating(call.outputs[0].dtype)
    if name == "fmod":
        return write("Mod", x, y, fmod=1)
    if name == "div_trunc" and not floats:
        return write("Div", x, y)
    if name == "remainder" and not floats:
        return write("Mod", x, y)
    if not floats:
        rest = write("Mod", x, y)  # of the sign of y
        return write("Div", write("Sub", x, rest), y)
    quotient = write("Div", x, y)
    if name == "div_trunc":
        return write("Mul", write("Sign", quotient), write("Floor", write("Abs", quotient)))
    whole = write("Floor", quotient)
    return write("Sub", x, write("Mul", whole, y)) if name == "remainder" else whole


@writes("gelu", "gelu_tanh", since=20)
def gelu(write: GraphWriter, call: Call, x: Value) -> Value:
    return write("Gelu", x, approximate="tanh" if call.op.name == "gelu_tanh" else "none")


@writes("random_normal", "random_uniform")
def random(write: GraphWriter, call: Call, state: Value) -> Value:
    attrs = call.attrs
    given: dict[str, Any] = dict(shape=list(attrs["shape"]), dtype=code_of(attrs["dtype"]))
    if call.op.name == "random_normal":
        return write("RandomNormal", mean=float(attrs["mean"]), scale=float(attrs["std"]), **given)
    return write("RandomUniform", low=float(attrs["low"]), high=float(attrs["high"]), **given)


@writes("nan_to_num")
def nan_to_num(write: GraphWriter, call: Call, x: Value) -> Value:
    dtype = call.outputs[0].dtype
    if not is_floating(dtype):
        return x
    limits = finfo(dtype)
    given = call.attrs
    for name, number, which in (
        ("nan", 0.0, write("IsNaN", x)),
        ("posinf", limits.max, write("IsInf", x, detect_negative=0)),
        ("neginf", limits.min, write("IsInf", x, detect_positive=0)),
    ):
        value = number if given.get(name) is None else given[name]
        x = write("Where", which, write.constant(np.array(value, dtype)), x)
    return x
