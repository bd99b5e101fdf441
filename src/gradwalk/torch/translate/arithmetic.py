"""Elementwise operations: arithmetic, functions, activations, comparisons, choices."""

from __future__ import annotations

from gradwalk.torch.translate.table import AtenCall, Known, direct, entry, same

# -- functions of one tensor -----------------------------------------------------------------------

same(
    "abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh deg2rad digamma erf erfc "
    "erfinv exp exp2 expm1 floor frac hardsigmoid hardswish isfinite isinf isnan lgamma log log10 "
    "log1p log2 logical_not mish neg rad2deg reciprocal relu round rsqrt sigmoid sign silu sin "
    "sinc sinh sqrt square tan tanh trunc",
    "self",
)
direct("sgn", "sign", "self")
direct("positive", "alias", "self")
direct("special_ndtr", "ndtr", "self")
direct("special_expit", "sigmoid", "self")
direct("log_sigmoid_forward", "logsigmoid", "self")
direct("round.decimals", "round", "self", decimals="decimals")
direct("polygamma", "polygamma", "self", n="n")
direct("logit", "logit", "self", eps="eps")
direct("nan_to_num", "nan_to_num", "self", nan="nan", posinf="posinf", neginf="neginf")

direct("leaky_relu", "leaky_relu", "self", negative_slope="negative_slope")
direct("elu", "elu", "self", alpha="alpha", scale="scale", input_scale="input_scale")
direct("celu", "elu", "self", alpha="alpha", scale=lambda c: 1.0, input_scale=lambda c: 1 / c.alpha)
direct("hardtanh", "hardtanh", "self", min_val="min_val", max_val="max_val")
direct("relu6", "hardtanh", "self", min_val=lambda c: 0.0, max_val=lambda c: 6.0)
direct("softplus", "softplus", "self", beta="beta", threshold="threshold")
direct("softshrink", "softshrink", "self", lambd="lambd")
direct("hardshrink", "hardshrink", "self", lambd="lambd")
direct("threshold", "threshold", "self", threshold="threshold", value="value")
direct("_prelu_kernel", "prelu", "self weight")
direct("glu", "glu", "self", axis=lambda c: c.axis())


@entry("gelu")
def _gelu(c: AtenCall) -> Known:
    return Known("gelu_tanh" if c.approximate == "tanh" else "gelu", (c.self,))


# -- functions of two ------------------------------------------------------------------------------

same(
    "atan2 copysign.Tensor fmax fmin hypot logaddexp logaddexp2 logical_and logical_or logical_xor "
    "maximum minimum",
    "self other",
)
same(
    "bitwise_and.Tensor bitwise_and.Scalar bitwise_or.Tensor bitwise_or.Scalar bitwise_xor.Tensor "
    "bitwise_xor.Scalar copysign.Scalar fmod.Tensor fmod.Scalar mul.Tensor mul.Scalar "
    "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor xlogy.Tensor xlogy.Scalar_Other "
    "xlogy.Scalar_Self",
    "self other",
)
direct("heaviside", "heaviside", "self values")

for name, ours in {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}.items():  # fmt: skip
    direct(f"{name}.Tensor {name}.Scalar", ours, "self other")

direct("floor_divide floor_divide.Scalar", "div_floor", "self other")
direct("pow.Tensor_Tensor pow.Scalar", "pow", "self exponent")
direct("pow.Tensor_Scalar", "power", "self", exponent="exponent")
direct("lerp.Scalar lerp.Tensor", "lerp", "self end weight")
direct("where.self where.ScalarSelf where.ScalarOther", "where", "condition self other")
direct("addcmul", "addcmul", "self tensor1 tensor2", value="value")
direct("addcdiv", "addcdiv", "self tensor1 tensor2", value="value")


@entry("add.Tensor", "add.Scalar")
def _add(c: AtenCall) -> Known:
    if c.alpha == 1:
        return Known("add", (c.self, c.other))
    return Known("add_scaled", (c.self, c.other), {"alpha": c.alpha})


@entry("sub.Tensor", "sub.Scalar")
def _sub(c: AtenCall) -> Known:
    if c.alpha == 1:
        return Known("sub", (c.self, c.other))
    return Known("add_scaled", (c.self, c.other), {"alpha": -c.alpha})


@entry("rsub.Tensor", "rsub.Scalar")
def _rsub(c: AtenCall) -> Known:
    if c.alpha == 1:
        return Known("sub", (c.other, c.self))
    return Known("add_scaled", (c.other, c.self), {"alpha": -c.alpha})


@entry("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode")
def _div(c: AtenCall) -> Known:
    mode = c.values.get("rounding_mode")
    return Known("div" if mode is None else f"div_{mode}", (c.self, c.other))


# -- limits ----------------------------------------------------------------------------------------


@entry("clamp", "clamp_min", "clamp_max")
def _clamp(c: AtenCall) -> Known:
    low, high = c.values.get("min"), c.values.get("max")
    return Known("clip", (c.self,), {"min": low, "max": high})


@entry("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def _clamp_tensor(c: AtenCall) -> Known:
    low, high = c.values.get("min"), c.values.get("max")
    if high is None:
        return Known("clamp_min", (c.self, low))
    if low is None:
        return Known("clamp_max", (c.self, high))
    return Known("clip_between", (c.self, low, high))


@entry("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(c: AtenCall) -> Known:
    return Known("masked_fill", (c.self, c.mask, c.value))
