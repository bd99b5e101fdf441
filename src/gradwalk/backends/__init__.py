"""PyTorch's `backends`: switches of libraries that are not here, which programs set and ask for.

>>> import gradwalk as gw
>>> gw.backends.mps.is_available()
False
"""

import sys

from gradwalk.backends import cuda as cuda
from gradwalk.backends import cudnn as cudnn
from gradwalk.backends import mps as mps

__all__ = ["cuda", "cudnn", "mps"]

mkl = mkldnn = openmp = mps  # nor are these here
for _name in ("mkl", "mkldnn", "openmp"):
    sys.modules[f"{__name__}.{_name}"] = mps

_deterministic = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted as a hint: on the CPU no op depends on the order in which threads finish.

    On a GPU, XLA decides; its flag `--xla_gpu_deterministic_ops=true` asks for the same there.
    """
    global _deterministic
    _deterministic = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was called with last."""
    return _deterministic
