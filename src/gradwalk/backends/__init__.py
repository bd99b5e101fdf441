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

_LEVELS = ("default", "warn", "error")  # PyTorch's numbers of them are 0, 1, 2
_deterministic = 0
_warn_only = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted as a hint: on the CPU no op depends on the order in which threads finish.

    On a GPU, XLA decides; its flag `--xla_gpu_deterministic_ops=true` asks for the same there.
    """
    global _warn_only
    set_deterministic_debug_mode((1 if warn_only else 2) if mode else 0)
    _warn_only = warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was called with last."""
    return _deterministic > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was called last with `warn_only`."""
    return _warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by a number or a word: 0 "default", 1 "warn", 2 "error"."""
    global _deterministic, _warn_only
    if debug_mode not in (*_LEVELS, 0, 1, 2):
        raise ValueError(f"a mode is one of {', '.join(_LEVELS)}, 0, 1 and 2, not {debug_mode!r}")
    _deterministic = _LEVELS.index(debug_mode) if isinstance(debug_mode, str) else debug_mode
    _warn_only = _deterministic == 1


def get_deterministic_debug_mode() -> int:
    """The number that `set_deterministic_debug_mode` set."""
    return _deterministic


def set_flush_denormal(mode: bool) -> bool:
    """False: numbers below the smallest normal one stay as they are."""
    return False
