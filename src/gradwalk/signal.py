"""Windows of signals under the names of `torch.signal`."""

from gradwalk.tensors import signal_windows as windows

__all__ = ["windows"]
