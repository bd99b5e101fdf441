"""Which line of the program called PyTorch.

The innermost line outside PyTorch called the operation. If it lies in a library (`transformers`),
the user's own line that led there is given as well.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from gradwalk.graph.source import SourceLine, own_files, source_line

_TORCH = str(Path(torch.__file__).resolve().parent) + os.sep
_LIBRARIES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_PYTHON = sysconfig.get_paths()["stdlib"] + os.sep
INTERNAL, LIBRARY, USER = 0, 1, 2  # owners; INTERNAL: PyTorch, gradwalk, Python


class _Files(dict[str, int]):
    """File name -> owner of the file."""

    def __missing__(self, filename: str) -> int:
        owner = INTERNAL if filename.startswith(_PYTHON) else USER
        if filename.startswith(("<frozen", "<eval_with_key", _TORCH)) or own_files[filename]:
            owner = INTERNAL
        elif any(part in filename for part in _LIBRARIES):
            owner = LIBRARY
        self[filename] = owner
        return owner


files = _Files()
Place = tuple[CodeType, int] | None


def is_internal(filename: str) -> bool:
    """Whether a file belongs to PyTorch, gradwalk or Python."""
    return files[filename] == INTERNAL


def caller() -> tuple[Place, Place]:
    """The innermost line that led here and, if that is in a library, the user's own line."""
    if not own_files.recording:
        return None, None
    frame: FrameType | None = sys._getframe(2)
    inner: Place = None
    while frame is not None:
        owner = files[frame.f_code.co_filename]
        if owner == USER:
            place = frame.f_code, frame.f_lasti
            return (place, None) if inner is None else (inner, place)
        if owner == LIBRARY and inner is None:
            inner = frame.f_code, frame.f_lasti
        frame = frame.f_back
    return inner, None


_lines: dict[Any, tuple[Any, SourceLine | None]] = {}  # with the code objects, to keep their ids
_MOST = 8192  # of these


def line_at(inner: Place, user: Place) -> SourceLine | None:
    """The result of `caller` as file, line and text."""
    if inner is None:
        return None
    # By id: hashing a code object is slow.
    key = (id(inner[0]), inner[1], *(() if user is None else (id(user[0]), user[1])))
    known = _lines.get(key)
    if known is None:
        if len(_lines) >= _MOST:
            _lines.clear()
        line = source_line(*inner)
        if line is not None and user is not None:
            line = replace(line, caller=source_line(*user))
        known = _lines[key] = (inner, user), line
    return known[1]
