"""Errors about files that cannot be loaded."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gradwalk.io.atomic import previous_of


class FileError(ValueError):
    """A file is damaged, foreign, or does not fit; nothing was changed."""


Source = Path | IO[bytes]  # where to load from: a path, or a file object from where it stands


def wrong(path: Source, what: str) -> FileError:
    """The error for a file; names the previous checkpoint if there is one."""
    name = path if isinstance(path, Path) else getattr(path, "name", f"a {type(path).__name__}")
    text = f"{name} cannot be loaded: {what}"
    previous = previous_of(path) if isinstance(path, Path) else None
    if previous is not None and os.path.exists(previous):
        text += f"\nThe file saved before it is still there: {previous}"
    elif "Fix:" not in text:
        text += f"{'' if text.endswith('.') else '.'} Fix: save or copy it again."
    return FileError(text)


@contextmanager
def opened(path: Source) -> Iterator[tuple[IO[bytes], int]]:
    """A file to read and its size. Whatever its content causes in the block is a FileError."""
    if not isinstance(path, Path):
        with content_of(path):
            yield path, _left(path)
        return
    kind = os.stat(path).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # may be endless
        raise wrong(path, "it is a pipe or a device. Fix: copy its content into a file.")
    with open(path, "rb") as file, content_of(path):
        yield file, os.fstat(file.fileno()).st_size


@contextmanager
def content_of(path: Source) -> Iterator[None]:
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


def _left(file: IO[bytes]) -> int:
    """The bytes from where a file object stands to its end."""
    here = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(here)
    if here and here >= end:
        raise wrong(file, "it is at its end. Fix: go to where the data begin, file.seek(0).")
    return end - here


def source_of(f: Any) -> Source:
    """What `load` was given: a path, or a file object that can be read and sought."""
    if not hasattr(f, "read"):
        return Path(f)
    if not (hasattr(f, "tell") and hasattr(f, "seek")):
        raise TypeError(
            f"load takes a path or a binary file with tell and seek, not a {type(f).__name__}. "
            "Fix: load(io.BytesIO(file.read()))."
        )
    found: Any = f if hasattr(f, "readinto") and hasattr(f, "seekable") else _Reader(f)
    source: IO[bytes] = found
    return source


class _Reader(io.RawIOBase):
    """A file object of a program's own that has read, seek and tell, and no more."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    seekable = readable

    def readinto(self, buffer: Any) -> int:
        if hasattr(self._file, "readinto"):
            return int(self._file.readinto(buffer))
        found = self._file.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._file.tell())


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
