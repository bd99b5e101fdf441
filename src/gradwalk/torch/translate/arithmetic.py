"""Elementwise operations: arithmetic, functions, activations, comparisons, choices."""

from __future__ import annotations

from typing import Any

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
same("polygamma", "self", attrs="n")
same("logit", "self", attrs="eps")
same("nan_to_num", "self", attrs="nan posinf neginf")

same("leaky_relu", "self", attrs="negative_slope")
same("elu", "self", attrs="alpha scale input_scale")
direct("celu", "elu", "self", alpha="alpha", scale=1.0, input_scale=lambda c: 1 / c.alpha)
same("hardtanh", "self", attrs="min_val max_val")
direct("relu6", "hardtanh", "self", min_val=0.0, max_val=6.0)
same("softplus", "self", attrs="beta threshold")
same("softshrink hardshrink", "self", attrs="lambd")
same("threshold", "self", attrs="threshold value")
direct("_prelu_kernel", "prelu", "self weight")
direct("gelu", lambda c: "gelu_tanh" if c.approximate == "tanh" else "gelu", "self")
same("glu", "self", axis=AtenCall.axis)

# -- functions of two ------------------------------------------------------------------------------

same(
    "atan2 fmax fmin hypot logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum "
    "bitwise_and.Tensor bitwise_and.Scalar bitwise_or.Tensor bitwise_or.Scalar bitwise_xor.Tensor "
    "bitwise_xor.Scalar copysign.Tensor copysign.Scalar fmod.Tensor fmod.Scalar mul.Tensor "
    "mul.Scalar remainder.Tensor remainder.Scalar remainder.Scalar_Tensor xlogy.Tensor "
    "xlogy.Scalar_Other xlogy.Scalar_Self",
    "self other",
)
same("heaviside", "self values")

for name, ours in {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}.items():  # fmt: skip
    direct(f"{name}.Tensor {name}.Scalar", ours, "self other")

direct("floor_divide floor_divide.Scalar", "div_floor", "self other")
direct("pow.Tensor_Tensor pow.Scalar", "pow", "self exponent")
direct("pow.Tensor_Scalar", "power", "self", exponent="exponent")
same("lerp.Scalar lerp.Tensor", "self end weight")
same("where.self where.ScalarSelf where.ScalarOther", "condition self other")
same("addcmul addcdiv", "self tensor1 tensor2", attrs="value")
same("masked_fill.Scalar masked_fill.Tensor", "self mask value")
same("div.Tensor div.Scalar", "self other")
direct(
    "div.Tensor_mode div.Scalar_mode",
    lambda c: "div" if c.rounding_mode is None else f"div_{c.rounding_mode}", "self other",
)  # fmt: skip


def _scaled(names: str, op: str, first: str, second: str, sign: int) -> None:
    """Register a sum or difference whose second operand is multiplied by `alpha`."""

    @entry(*names.split())
    def known(c: AtenCall) -> Known:
        args = c.values[first], c.values[second]
        if c.alpha == 1:
            return Known(op, args)
        return Known("add_scaled", args, {"alpha": sign * c.alpha})


_scaled("add.Tensor add.Scalar", "add", "self", "other", 1)
_scaled("sub.Tensor sub.Scalar", "sub", "self", "other", -1)
_scaled("rsub.Tensor rsub.Scalar", "sub", "other", "self", -1)

# -- limits ----------------------------------------------------------------------------------------


def _low(c: AtenCall) -> Any:
    return c.values.get("min")


def _high(c: AtenCall) -> Any:
    return c.values.get("max")


def _clamp(c: AtenCall) -> str:
    if _high(c) is None:
        return "clamp_min"
    return "clamp_max" if _low(c) is None else "clip_between"


direct("clamp clamp_min clamp_max", "clip", "self", min=_low, max=_high)
direct("clamp.Tensor clamp_min.Tensor clamp_max.Tensor", _clamp, "self min? max?")
