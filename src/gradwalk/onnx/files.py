"""ONNX files: read through onnx-ir, with nothing executed and every size checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from gradwalk.io.errors import content_of, opened, wrong
from gradwalk.onnx.dtypes import dtype_of
from gradwalk.onnx.operators.table import Array


def onnx_ir() -> Any:
    """The package that reads and writes ONNX files, imported when it is first needed."""
    try:
        import onnx_ir
    except ImportError as error:
        raise ImportError(
            "gradwalk.onnx needs onnx-ir, which is not installed.\n"
            'Fix: pip install "gradwalk[onnx]"'
        ) from error
    return onnx_ir


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


class ModelFile:
    """An ONNX file: its model, and the arrays of its tensors."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))
        self.ir = onnx_ir()
        with opened(self.path):
            try:
                self.model = self.ir.load(self.path, format="protobuf")
            except self.ir.serde.SerdeError as error:
                why = _first_cause(error)
                if isinstance(why, NotImplementedError):
                    raise wrong(
                        self.path,
                        f"it has what onnx-ir cannot read ({str(why).partition('.')[0]}). Fix: "
                        "convert the model with dense tensors and without maps, in scikit-learn's "
                        'converter options={"zipmap": False}.',
                    ) from error
                raise
        if not len(self.model.graph.outputs):
            raise wrong(self.path, "it holds no graph with outputs")

    def array(self, tensor: Any) -> Array:
        """The elements of a tensor, in memory of their own."""
        dtype = dtype_of(tensor.dtype.value, f"tensor '{tensor.name}'")
        with content_of(self.path):
            if isinstance(tensor, self.ir.ExternalTensor):
                self._check_external(tensor)
            if any(n < 0 for n in tensor.shape):
                raise ValueError(f"tensor '{tensor.name}' has shape {tuple(tensor.shape)}")
            array = np.array(tensor.numpy())  # a copy: the file may change or go away
            return array.reshape(tuple(tensor.shape)).astype(dtype, copy=False)

    def _check_external(self, tensor: Any) -> None:
        """Tensors in other files lie beside the model; onnx-ir refuses any path that leads away
        from there, if it knows where that is."""
        tensor.base_dir = self.path.parent
        if not os.path.isfile(tensor.path):
            raise wrong(
                self.path,
                f"tensor '{tensor.name}' is in the file {str(tensor.location)!r}, which is not "
                "there. Fix: copy it into the folder of the model.",
            )
        start, size = tensor.offset or 0, os.path.getsize(tensor.path)
        if start < 0 or start + tensor.nbytes > size:
            raise wrong(
                self.path,
                f"tensor '{tensor.name}' of shape {tuple(tensor.shape)} needs {tensor.nbytes} "
                f"bytes from {start} on, and {str(tensor.location)!r} has {size}",
            )
