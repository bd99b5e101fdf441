"""Arrays in memory that several processes share: files that are mapped, and deleted at the end."""

from __future__ import annotations

import atexit
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_files: dict[int, tuple[str, Array]] = {}  # address of the memory -> its file, and all of it
_folder: list[str] = []  # of this process's own files


def in_shared_memory(array: Array) -> Array:
    """A copy of the array that other processes can map."""
    if not _folder:
        memory = "/dev/shm"
        _folder.append(tempfile.mkdtemp(dir=memory if os.path.isdir(memory) else None))
        atexit.register(_delete, os.getpid())
    path = os.path.join(_folder[0], str(len(_files)))
    Path(path).write_bytes(np.ascontiguousarray(array).tobytes())
    return mapped_file(path, array.dtype, array.shape)


def mapped_file(path: str, dtype: Any, shape: tuple[int, ...]) -> Array:
    """The array in a file that this or another process made."""
    array = np.asarray(np.memmap(path, np.uint8, "r+")).view(dtype).reshape(shape)
    _files[array.__array_interface__["data"][0]] = (path, array)
    return array


def shared_file(array: Array) -> str | None:
    """The file that holds exactly the elements of an array, in their order; None if none does."""
    found = _files.get(array.__array_interface__["data"][0])
    whole = found is not None and array.flags.c_contiguous and array.nbytes == found[1].nbytes
    return found[0] if found is not None and whole else None


def _delete(process: int) -> None:
    if os.getpid() == process:  # not in a process that was forked from it
        for path in Path(_folder[0]).iterdir():
            path.unlink()
        os.rmdir(_folder[0])
