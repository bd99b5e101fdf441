"""All writers: importing their families fills the table."""

from gradwalk.onnx.writers import elementwise, indexing, network, shapes
from gradwalk.onnx.writers.table import WRITERS

FAMILIES = (elementwise, indexing, network, shapes)
__all__ = ["FAMILIES", "WRITERS"]
