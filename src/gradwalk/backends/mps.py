"""Libraries of PyTorch that are not used here: Apple's GPUs, oneDNN, OpenMP, MKL."""

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """False: it is not used."""
    return False


def is_built() -> bool:
    """False: it is not used."""
    return False
