"""Python's `multiprocessing`, with tensors that processes share: PyTorch's `multiprocessing`.

A tensor after `share_memory_()`, and the parameters of a module after `share_memory()`, are the
same memory in every process that gets them; others are copied.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from multiprocessing.reduction import ForkingPickler as _Pickler
from typing import Any

from gradwalk.graph.shared_memory import mapped_file as _mapped_file
from gradwalk.graph.shared_memory import shared_file as _shared_file
from gradwalk.nn.parameter import Buffer as _Buffer
from gradwalk.nn.parameter import Parameter as _Parameter
from gradwalk.tensors.tensor import Tensor as _Tensor

__all__ = [*_multiprocessing.__all__, "get_sharing_strategy", "set_sharing_strategy", "spawn"]


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> list[Any] | None:
    """Call `fn(i, *args)` in `nprocs` new processes, and wait for them unless `join` is false."""
    context: Any = _multiprocessing.get_context(start_method)
    started: list[Any] = [
        context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)
    ]
    for process in started:
        process.start()
    if not join:
        return started
    for process in started:
        process.join()
    failed = [i for i, process in enumerate(started) if process.exitcode]
    if failed:
        codes = ", ".join(f"process {i} ended with {started[i].exitcode}" for i in failed)
        raise RuntimeError(f"spawn: {codes}; its own error stands above")
    return None


def get_sharing_strategy() -> str:
    """How memory is shared: "file_system"."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Nothing: memory is shared as files."""


def _reduced(tensor: _Tensor) -> Any:
    """What is sent to another process of a tensor: the name of its memory, if it is shared."""
    path = _shared_file(tensor._array) if tensor.numel() else None
    if path is None:
        return tensor.__reduce_ex__(2)
    kind = type(tensor)
    return _restored, (kind, path, tensor.dtype, tuple(tensor.shape), tensor.requires_grad)


def _restored(kind: Any, path: str, dtype: Any, shape: tuple[int, ...], wanted: bool) -> Any:
    return kind(_mapped_file(path, dtype, shape)).requires_grad_(wanted)


for _kind in (_Tensor, _Parameter, _Buffer):
    _Pickler.register(_kind, _reduced)
