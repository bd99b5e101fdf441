"""Atomic file writes: at any moment the complete old or new file exists."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

_ABANDONED = 600.0  # seconds after which a partial file belongs to a run that was killed


def previous_of(path: str | os.PathLike[str]) -> Path:
    """Where `save_run` keeps the checkpoint before the last.

    >>> import gradwalk as gw
    >>> gw.io.previous_of("run.safetensors").name
    'run.safetensors.previous'
    """
    path = Path(path)
    return path.with_name(path.name + ".previous")


def write_atomically(
    path: Path, chunks: Iterable[bytes | memoryview], keep_previous: bool = False
) -> None:
    """Write a temporary file, sync it to disk, then rename it."""
    folder = path.parent
    _sweep(path)
    partial = folder / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial"
    try:
        with open(partial, "xb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        if keep_previous and path.exists():
            _keep(path, partial)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(folder)


def _keep(path: Path, partial: Path) -> None:
    """Link the present file under its previous name; `path` itself always exists."""
    second = partial.with_suffix(".kept.partial")
    try:
        os.link(path, second)
    except OSError:  # a file system without links
        shutil.copyfile(path, second)
    os.replace(second, previous_of(path))


def _sync_folder(folder: Path) -> None:
    """Sync the folder too, where the system allows it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sweep(path: Path) -> None:
    """Remove partial files of killed runs."""
    now = time.time()
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        try:
            if now - left.stat().st_mtime > _ABANDONED:
                left.unlink()
        except OSError:
            pass  # another run removed it first
