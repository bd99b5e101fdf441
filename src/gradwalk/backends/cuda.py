"""PyTorch's `backends.cuda`: whether products on a GPU may round to TF32."""

import contextlib
from typing import Any

from gradwalk.ops.core.dtypes import get_float32_matmul_precision, set_float32_matmul_precision

__all__ = [
    "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp",
    "flash_sdp_enabled", "is_built", "math_sdp_enabled", "matmul", "mem_efficient_sdp_enabled",
    "sdp_kernel",
]  # fmt: skip


class _Products:
    """What `backends.cuda.matmul` is: another name for `set_float32_matmul_precision`."""

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 may round to TF32.

        >>> import gradwalk as gw
        >>> gw.backends.cuda.matmul.allow_tf32
        False
        """
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        set_float32_matmul_precision("high" if allowed else "highest")


matmul = _Products()


def is_built() -> bool:
    """False: a GPU is reached through JAX, and this package has no part built for CUDA."""
    return False


# PyTorch has several kernels for attention. Here there is one, and nothing to switch.


def enable_flash_sdp(enabled: bool) -> None:
    """Nothing: there is one kernel for attention."""


enable_math_sdp = enable_mem_efficient_sdp = enable_cudnn_sdp = enable_flash_sdp


def flash_sdp_enabled() -> bool:
    """False: attention is computed by its definition."""
    return False


mem_efficient_sdp_enabled = flash_sdp_enabled


def math_sdp_enabled() -> bool:
    """True: attention is computed by its definition."""
    return True


def sdp_kernel(*args: Any, **switches: Any) -> Any:
    """A context with other kernels for attention, which changes nothing."""
    return contextlib.nullcontext()
