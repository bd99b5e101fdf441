"""PyTorch's second names for ops that have one already."""

from __future__ import annotations

from gradwalk.ops.elementwise.arithmetic import abs, div, mul, neg, sub, trunc
from gradwalk.ops.elementwise.trigonometry import acos, acosh, asin, asinh, atan, atan2, atanh
from gradwalk.ops.linear.matmul import outer
from gradwalk.ops.shape.rearranging import vstack

__all__ = [
    "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "divide",
    "fix", "ger", "multiply", "negative", "row_stack", "subtract",
]  # fmt: skip

absolute, negative, fix = abs, neg, trunc
subtract, multiply, divide = sub, mul, div
arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
arcsinh, arccosh, arctanh = asinh, acosh, atanh
row_stack = vstack
ger = outer
