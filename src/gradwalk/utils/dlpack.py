"""Memory shared with other libraries, where PyTorch has it."""

from gradwalk.tensors.creation import from_dlpack as from_dlpack
from gradwalk.tensors.tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]

to_dlpack = Tensor.__dlpack__
