"""Automatic mixed precision, under PyTorch's names."""

from gradwalk.ops.core.longer_paths import longer_paths
from gradwalk.optim.grad_scaler import GradScaler
from gradwalk.tensors.autocast import autocast
from gradwalk.tensors.autocast_functions import custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

longer_paths(__name__, "autocast_mode", "grad_scaler")
