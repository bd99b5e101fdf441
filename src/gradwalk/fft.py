"""Fourier transforms under the names of `torch.fft`; `python -m tools.stubs` writes fft.pyi."""

from gradwalk.ops.core.public import names_of
from gradwalk.tensors.creation import fftfreq as fftfreq
from gradwalk.tensors.creation import rfftfreq as rfftfreq

__all__ = ["fftfreq", "rfftfreq", *names_of("fft")]
globals().update(names_of("fft"))
