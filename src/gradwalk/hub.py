"""PyTorch's `hub`. gradwalk downloads nothing: a file that is already there is read.

>>> import gradwalk as gw
>>> gw.hub.load_state_dict_from_url("https://example.com/weights.pth", model_dir="/nowhere")
Traceback (most recent call last):
FileNotFoundError: gradwalk downloads nothing. Fix: save https://example.com/weights.pth as \
/nowhere/weights.pth
"""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlparse

from gradwalk.io import load as _load

__all__ = [
    "download_url_to_file", "get_dir", "load", "load_state_dict_from_url", "load_url", "set_dir",
]  # fmt: skip

_dir: str | None = None
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # in names of files, as in resnet18-f37072fd.pth


def get_dir() -> str:
    """The folder of downloaded files: PyTorch's, so that what it downloaded is found.

    It is `$TORCH_HOME/hub`, or `~/.cache/torch/hub`, unless `set_dir` was called.
    """
    return _dir or str(Path(_get_torch_home()) / "hub")


def _get_torch_home() -> str:
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return str(Path(os.environ.get("TORCH_HOME", f"{cache}/torch")).expanduser())


def set_dir(d: str | Path) -> None:
    """Look for files in this folder."""
    global _dir
    _dir = str(Path(d).expanduser())


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """The weights of a file that was downloaded before."""
    folder = Path(model_dir or Path(get_dir()) / "checkpoints")
    path = folder / (file_name or Path(urlparse(url).path).name)
    if not path.exists():
        raise FileNotFoundError(f"gradwalk downloads nothing. Fix: save {url} as {path}")
    return _load(path, map_location=map_location)


load_url = load_state_dict_from_url  # the name in `utils.model_zoo`


def __getattr__(name: str) -> Any:
    """The bar of progress that programs take from here, as PyTorch's from the package tqdm."""
    if name != "tqdm":
        raise AttributeError(f"module 'gradwalk.hub' has no attribute {name!r}")
    return importlib.import_module("tqdm").tqdm


def download_url_to_file(url: str, dst: str, *args: Any, **options: Any) -> NoReturn:
    """An error that names the file."""
    raise NotImplementedError(f"gradwalk downloads nothing. Fix: save {url} as {dst}")


def load(repo_or_dir: str, model: str, *args: Any, **options: Any) -> NoReturn:
    """An error: such a repository is code for PyTorch."""
    raise NotImplementedError(
        f"hub.load runs the code of {repo_or_dir}, which is written for PyTorch. Fix: load the "
        "model there, and take it over with gradwalk.torch.import_graph, or its weights with "
        "gradwalk.io.from_torch."
    )
