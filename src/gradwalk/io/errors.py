"""Errors about files that cannot be loaded."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gradwalk.io.atomic import previous_of


class FileError(ValueError):
    """A file is damaged, foreign, or does not fit; nothing was changed."""


def wrong(path: Path, what: str) -> FileError:
    """The error for a file; names the previous checkpoint if there is one."""
    text = f"{path} cannot be loaded: {what}"
    previous = previous_of(path)
    if os.path.exists(previous):
        text += f"\nThe file saved before it is still there: {previous}"
    elif "Fix:" not in text:
        text += f"{'' if text.endswith('.') else '.'} Fix: save or copy it again."
    return FileError(text)


@contextmanager
def opened(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    """A file to read and its size. Whatever its content causes in the block is a FileError."""
    kind = os.stat(path).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # may be endless
        raise wrong(path, "it is a pipe or a device. Fix: copy its content into a file.")
    with open(path, "rb") as file, content_of(path):
        yield file, os.fstat(file.fileno()).st_size


@contextmanager
def content_of(path: Path) -> Iterator[None]:
    """Turn whatever the content of a file causes in the block into a FileError."""
    try:
        yield
    except FileError:
        raise
    except MemoryError as error:
        raise wrong(path, "there is not enough memory for its content") from error
    except Exception as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise wrong(path, f"it is damaged or of another kind ({what:.300})") from error


def foreign(start: bytes) -> str | None:
    """Describe a file of another format by its first bytes."""
    # The length of a header can begin like a pickle. It has four bytes at most, and zeros follow;
    # what follows in a pickle is not zero, or it is the length of a frame.
    framed = start[2:3] == b"\x95" and start[3:4] != b"\0"
    pickled = start[:1] == b"\x80" and start[1:2] in b"\2\3\4\5"
    if (pickled and (framed or len(start) < 8 or start[4:8].strip(b"\0"))) or start.startswith(
        b"PK\x03\x04"
    ):
        return (
            "it is a zip or pickle file, such as torch.save or numpy.savez writes. Unpickling "
            "can execute code, so gradwalk never does it. Fix: for PyTorch, "
            "gradwalk.io.from_torch(torch.load(path, weights_only=True)); for NumPy, "
            "gradwalk.io.load_npz(path)."
        )
    if start.startswith(b"\x89HDF"):
        return "it is an HDF5 file. Fix: save its arrays as safetensors or npz."
    if start.startswith(b"\x93NUMPY"):
        return "it is a single NumPy array (.npy). Fix: numpy.load(path)."
    if start.startswith(b"GGUF"):
        return "it is a GGUF file. Fix: convert it to safetensors."
    return None
