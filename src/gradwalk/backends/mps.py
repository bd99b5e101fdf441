"""PyTorch's `backends.mps`, Apple's GPUs, which are not supported."""

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """False: there is no device "mps"."""
    return False


def is_built() -> bool:
    """False: there is no device "mps"."""
    return False
