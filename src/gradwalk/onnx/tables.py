"""All operators: importing their families fills the table."""

from gradwalk.onnx import control, other_domains
from gradwalk.onnx.operators import (
    attention,
    convolution,
    creation,
    elementwise,
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
    attention, control, convolution, creation, elementwise, images, indexing, normalization,
    other_domains, pooling, products, quantization, recurrent, reductions, shapes, training,
)  # fmt: skip
__all__ = ["FAMILIES", "OPERATORS"]
