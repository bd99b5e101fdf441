"""PyTorch's `types`, for annotations."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import numpy as np

from gradwalk.tensors.devices import device as _device
from gradwalk.tensors.size import Size
from gradwalk.tensors.tensor import Tensor

__all__ = ["Device", "Number"]

Number = int | float | bool
Device = _device | str | int | None
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_dtype, _size = np.dtype, Size | list[int] | tuple[int, ...]
_TensorOrTensors = _TensorOrTensorsOrGradEdge = Tensor | Sequence[Tensor]
