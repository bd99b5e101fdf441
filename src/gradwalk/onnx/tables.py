"""All operators: importing their families fills the table."""

from gradwalk.onnx import control
from gradwalk.onnx.operators import (
    attention,
    classical,
    convolution,
    creation,
    elementwise,
    fused,
    images,
    indexing,
    normalization,
    pooling,
    products,
    quantization,
    recurrent,
    reductions,
    shapes,
    training,
)
from gradwalk.onnx.operators.table import TABLE as OPERATORS

FAMILIES = (
    attention, classical, control, convolution, creation, elementwise, fused, images,
    indexing,
    normalization, pooling, products, quantization, recurrent, reductions, shapes, training,
)  # fmt: skip
__all__ = ["FAMILIES", "OPERATORS"]
