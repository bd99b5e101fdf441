"""State dicts as NumPy's .npz."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradwalk.io.atomic import write_atomically
from gradwalk.io.errors import FileError, wrong
from gradwalk.io.safetensors_files import array_of
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor

# What NumPy raises for files that are damaged in one way or another.
_DAMAGE = (
    ValueError, EOFError, OSError, KeyError, NotImplementedError, RuntimeError, SyntaxError,
    MemoryError, TypeError,
)  # fmt: skip


def save_npz(
    state: Mapping[str, Any], path: str | os.PathLike[str], compressed: bool = False
) -> None:
    """Write a state dict as .npz; `numpy.load` reads it.

    >>> import gradwalk as gw
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> gw.io.save_npz({"weight": gw.ones(2)}, path)
    >>> gw.io.load_npz(path)
    {'weight': tensor([1., 1.])}
    """
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:  # numpy.savez has no name "file"
        for name, value in state.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = method
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array_of(value, name), allow_pickle=False)
    write_atomically(Path(path), [content.getbuffer()])


def load_npz(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Read a state dict from .npz; arrays of Python objects, which are pickles, are refused."""
    path = Path(path)
    try:
        # Opened here: NumPy leaves a damaged file open.
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise wrong(path, "it holds a single array. Fix: numpy.load(path).")
            arrays = {name: file[name] for name in file.files}
    except (FileNotFoundError, FileError):
        raise
    except (*_DAMAGE, zipfile.BadZipFile, zlib.error) as error:
        raise wrong(path, f"it is damaged or not an npz file ({error})") from None
    try:
        return {name: wrap(array_of(array, name)) for name, array in arrays.items()}
    except TypeError as error:
        raise wrong(path, str(error)) from None
