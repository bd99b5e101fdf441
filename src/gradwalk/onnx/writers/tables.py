"""All writers: importing their families fills the table."""

from gradwalk.onnx.writers import elementwise, network, shapes
from gradwalk.onnx.writers.table import WRITERS

FAMILIES = (elementwise, network, shapes)
__all__ = ["FAMILIES", "WRITERS"]
