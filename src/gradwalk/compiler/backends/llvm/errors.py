"""What the LLVM backend raises while it makes code."""

from __future__ import annotations


class NoKernel(NotImplementedError):
    """There is no native code for a call; NumPy runs it."""
