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
# Of `nn.common_types`: sizes of layers in so many dimensions.
_size_any_t = _size_1_t = _size_2_t = _size_3_t = int | tuple[int, ...]
_ratio_any_t = _ratio_2_t = _ratio_3_t = float | tuple[float, ...]


class SymInt:
    """PyTorch's integer that is not known while it compiles; programs ask whether they have one."""


class SymFloat:
    """Likewise a float."""


class SymBool:
    """Likewise a condition."""
