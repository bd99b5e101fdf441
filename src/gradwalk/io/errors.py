"""Errors about files that cannot be loaded."""

from __future__ import annotations

from pathlib import Path

from gradwalk.io.atomic import previous_of


class FileError(ValueError):
    """A file is damaged, foreign, or does not fit; nothing was changed."""


def wrong(path: Path, what: str) -> FileError:
    """The error for a file; names the previous checkpoint if there is one."""
    text = f"{path} cannot be loaded: {what}"
    if previous_of(path).exists():
        text += f"\nThe file saved before it is still there: {previous_of(path)}"
    return FileError(text)


def foreign(start: bytes) -> str | None:
    """Describe a file of another format by its first bytes."""
    if start.startswith((b"PK\x03\x04", b"\x80\x02")):
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
        return "it is a GGUF file, which gradwalk does not read."
    return None
