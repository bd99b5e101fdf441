"""`load`: a state dict from a file of any of the formats that are read."""

from __future__ import annotations

import os
from typing import IO, Any

from gradwalk.io.errors import opened, source_of
from gradwalk.io.pytorch_files import load_pt, mapped
from gradwalk.io.safetensors_files import MOST_TENSORS, load_safetensors

_OLD_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
    most_tensors: int = MOST_TENSORS,
) -> Any:
    """Read what `save` or `torch.save` wrote, or any safetensors file; nothing is executed.

    `f` is a path or a binary file object, which is read from where it stands.

    Of PyTorch's files, tensors in dictionaries, lists and tuples, with numbers and text, are read;
    a file that has anything else is refused, with `weights_only=False` too. Tensors are on the
    CPU unless `map_location` names a device; PyTorch's functions and dictionaries are accepted.
    Without ml_dtypes, bfloat16 becomes float32.

    A file that is damaged, of another kind, or has more than `most_tensors` tensors raises
    `gradwalk.io.FileError`.
    """
    source = source_of(f)
    with opened(source) as (file, _):
        start = file.read(len(_OLD_START))
        file.seek(-len(start), os.SEEK_CUR)
    if start == _OLD_START or start.startswith(b"PK\x03\x04"):
        return load_pt(source, map_location)
    state = load_safetensors(source, most_tensors=most_tensors)
    if map_location is None:
        return state
    return {name: mapped(tensor, map_location) for name, tensor in state.items()}
