# Written by `python -m tools.stubs`.
from gradwalk.ops.linear.fourier import fft as fft
from gradwalk.ops.linear.fourier import fft2 as fft2
from gradwalk.ops.linear.fourier import fftn as fftn
from gradwalk.ops.linear.fourier import fftshift as fftshift
from gradwalk.ops.linear.fourier import hfft as hfft
from gradwalk.ops.linear.fourier import hfft2 as hfft2
from gradwalk.ops.linear.fourier import hfftn as hfftn
from gradwalk.ops.linear.fourier import ifft as ifft
from gradwalk.ops.linear.fourier import ifft2 as ifft2
from gradwalk.ops.linear.fourier import ifftn as ifftn
from gradwalk.ops.linear.fourier import ifftshift as ifftshift
from gradwalk.ops.linear.fourier import ihfft as ihfft
from gradwalk.ops.linear.fourier import ihfft2 as ihfft2
from gradwalk.ops.linear.fourier import ihfftn as ihfftn
from gradwalk.ops.linear.fourier import irfft as irfft
from gradwalk.ops.linear.fourier import irfft2 as irfft2
from gradwalk.ops.linear.fourier import irfftn as irfftn
from gradwalk.ops.linear.fourier import rfft as rfft
from gradwalk.ops.linear.fourier import rfft2 as rfft2
from gradwalk.ops.linear.fourier import rfftn as rfftn
from gradwalk.tensors.creation import fftfreq as fftfreq
from gradwalk.tensors.creation import rfftfreq as rfftfreq

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
