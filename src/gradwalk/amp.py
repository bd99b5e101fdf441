"""Automatic mixed precision, under PyTorch's names."""

from gradwalk.ops.core.longer_paths import longer_paths
from gradwalk.optim.grad_scaler import GradScaler
from gradwalk.tensors.autocast import autocast

__all__ = ["GradScaler", "autocast"]

longer_paths(__name__, "autocast_mode", "grad_scaler")
