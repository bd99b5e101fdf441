"""The number of threads of matrix products and compiled functions.

NumPy's matrix products are BLAS's, and BLAS starts as many threads as there are cores. For small
networks one thread is often faster: the others wait for work, and on a busy machine for one
another. Compiled functions have their own pool (compiler/backends/llvm/runtime/thread_pool.py),
which is notified here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

chosen: int | None = None  # the last setting; None if there was none
on_change: list[Callable[[int], None]] = []  # called on every change


def set_num_threads(count: int) -> None:
    """Let matrix products and compiled functions run on `count` threads.

    >>> import gradwalk as gw
    >>> gw.set_num_threads(1)
    >>> gw.get_num_threads()
    1
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"the number of threads is an integer of at least 1, not {count!r}")
    global chosen
    chosen = count
    for library in _libraries().lib_controllers:
        library.set_num_threads(count)
    for tell in on_change:
        tell(count)


def set_num_interop_threads(count: int) -> None:
    """Accepted for PyTorch's programs: operations run one after another."""


def get_num_interop_threads() -> int:
    """1: operations run one after another."""
    return 1


def get_num_threads() -> int:
    """The threads that matrix products run on."""
    return max((library.get_num_threads() for library in _libraries().lib_controllers), default=1)


def _libraries() -> Any:
    """The BLAS libraries of this process: NumPy brings one, and SciPy another when it is used."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
