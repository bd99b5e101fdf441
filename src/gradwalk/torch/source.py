"""Which line of the program called PyTorch."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import CodeType

import torch

from gradwalk.graph.source import own_files

_TORCH = str(Path(torch.__file__).resolve().parent) + os.sep


class _TorchFiles(dict[str, bool]):
    """File name -> whether it is PyTorch's, gradwalk's, or Python's own start."""

    def __missing__(self, filename: str) -> bool:
        made_up = filename.startswith(("<frozen", "<eval_with_key"))
        self[filename] = found = made_up or filename.startswith(_TORCH) or own_files[filename]
        return found


torch_files = _TorchFiles()


def caller() -> tuple[CodeType | None, int]:
    """The innermost place outside PyTorch and gradwalk that led here: (code, instruction)."""
    if not own_files.recording:
        return None, -1
    frame = sys._getframe(2)
    while torch_files[frame.f_code.co_filename]:
        if frame.f_back is None:
            return None, -1
        frame = frame.f_back
    return frame.f_code, frame.f_lasti
