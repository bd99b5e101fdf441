"""`save`: a state dict or any nested checkpoint into a file."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from gradwalk.io.atomic import writing
from gradwalk.io.pytorch_files import write_pt
from gradwalk.io.safetensors_files import array_of, pieces
from gradwalk.tensors.tensor import Tensor


def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write tensors to a path, atomically, or to a binary file object; `load` reads it.

    PyTorch's options of how to pickle change nothing: our code writes the file.

    A state dict (names to tensors) is written as safetensors. Anything else (a checkpoint with the
    state of an optimizer, numbers and text; a list of tensors; complex tensors) is written in the
    format of `torch.save`, and `torch.load` reads it; NumPy's arrays in it stay arrays. An object
    that only code could make again is refused.

    >>> import gradwalk as gw
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> model = gw.nn.Linear(2, 1)
    >>> gw.save(model.state_dict(), folder / "model.safetensors")
    >>> model.load_state_dict(gw.load(folder / "model.safetensors"))
    <All keys matched successfully>
    >>> gw.save({"model": model.state_dict(), "epoch": 3}, folder / "checkpoint.pt")
    >>> gw.load(folder / "checkpoint.pt")["epoch"]
    3
    """
    if isinstance(f, io.TextIOBase):
        raise TypeError("save writes bytes, and this file is open for text. Fix: open(path, 'wb').")
    if _is_state_dict(obj, (Tensor, np.ndarray) if _is_safetensors(f) else Tensor):
        arrays = {name: array_of(value, name) for name, value in obj.items()}
        content = pieces(str(f), arrays, {})
        with _target(f) as file:
            for piece in content:
                file.write(piece)
    else:
        with _target(f) as file:
            write_pt(obj, file)


@contextmanager
def _target(f: Any) -> Iterator[IO[bytes]]:
    if not hasattr(f, "write"):
        with writing(Path(f)) as file:
            yield file
        return
    yield f
    if hasattr(f, "flush"):  # the file may be read before it is closed
        f.flush()


def _is_safetensors(f: Any) -> bool:
    """Whether the name of the file says that it holds tensors only."""
    return isinstance(f, (str, os.PathLike)) and Path(f).suffix == ".safetensors"


def _is_state_dict(obj: Any, kinds: Any) -> bool:
    """Whether safetensors hold it: names to tensors that are not complex."""
    return isinstance(obj, Mapping) and all(
        isinstance(name, str) and isinstance(value, kinds) and value.dtype.kind != "c"
        for name, value in obj.items()
    )
