"""PyTorch's longer path to the modes of recording."""

from gradwalk.engine.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
