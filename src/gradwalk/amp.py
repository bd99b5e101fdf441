"""Automatic mixed precision, under PyTorch's names."""

from gradwalk.optim.grad_scaler import GradScaler
from gradwalk.tensors.autocast import autocast

__all__ = ["GradScaler", "autocast"]
