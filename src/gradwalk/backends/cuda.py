"""PyTorch's `backends.cuda`: whether products on a GPU may round to TF32."""

from gradwalk.ops.core.dtypes import get_float32_matmul_precision, set_float32_matmul_precision

__all__ = ["is_built", "matmul"]


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
