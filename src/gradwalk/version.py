"""PyTorch's `version`: no part of this package is built for CUDA or ROCm; JAX reaches GPUs."""

__all__ = ["cuda", "hip"]

cuda: str | None = None
hip: str | None = None
