"""Windows of signals under the names of `torch.signal`."""

from gradwalk.signal import windows as windows

__all__ = ["windows"]
