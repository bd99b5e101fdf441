"""Memory shared with other libraries, where PyTorch has it."""

from typing import Any

from gradwalk.tensors.creation import from_dlpack as from_dlpack
from gradwalk.tensors.tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """The memory in a capsule, which one call of `from_dlpack` may take, here or elsewhere.

    >>> import gradwalk as gw
    >>> gw.utils.dlpack.from_dlpack(gw.utils.dlpack.to_dlpack(gw.arange(3)))
    tensor([0, 1, 2])
    """
    return tensor.__dlpack__()
