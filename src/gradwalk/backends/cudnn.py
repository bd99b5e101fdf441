"""PyTorch's `backends.cudnn`. Convolutions do not use cuDNN, so its switches change nothing."""

__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "is_available", "version"]

allow_tf32 = True
benchmark = False
deterministic = False
enabled = True


def is_available() -> bool:
    """False: cuDNN is not used."""
    return False


def version() -> int | None:
    """None: cuDNN is not used."""
    return None
