"""`load`: a state dict from a file of any of the formats that are read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gradwalk.io.pytorch_files import load_pt
from gradwalk.io.safetensors_files import MOST_TENSORS, load_safetensors

_OLD_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


def load(
    path: str | os.PathLike[str],
    map_location: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
    most_tensors: int = MOST_TENSORS,
) -> Any:
    """Read a state dict from a safetensors file, or what `torch.save` wrote; nothing is executed.

    Of PyTorch's files, tensors in dictionaries, lists and tuples, with numbers and text, are read;
    a file that has anything else is refused, with `weights_only=False` too. Tensors are on the
    CPU unless `map_location` names a device. Without ml_dtypes, bfloat16 becomes float32.

    A file that is damaged, of another kind, or has more than `most_tensors` tensors raises
    `gradwalk.io.FileError`.
    """
    if is_pytorch(Path(path)):
        return load_pt(Path(path), map_location)
    state = load_safetensors(path, most_tensors=most_tensors)
    if map_location is None:
        return state
    return {name: tensor.to(map_location) for name, tensor in state.items()}


def is_pytorch(path: Path) -> bool:
    """Whether a file begins as a zip, or with the number that began PyTorch's first files."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        start = file.read(len(_OLD_START))
    return start == _OLD_START or start.startswith(b"PK\x03\x04")
