"""ONNX files: `load` makes a module of one, `save` writes a function or module as one.

Needs the extra `onnx` (onnx-ir), which is imported when the first file is read or written.
"""

from gradwalk.onnx.onnx_module import OnnxModule, load
from gradwalk.onnx.save_model import export, save

__all__ = ["OnnxModule", "export", "is_in_onnx_export", "load", "save"]


def is_in_onnx_export() -> bool:
    """False: `export` writes the function as it is."""
    return False
