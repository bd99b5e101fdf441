"""Files: state dicts and training checkpoints, read without executing anything.

>>> import gradwalk as gw
>>> import pathlib, tempfile
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> gw.save({"weight": gw.ones(2)}, folder / "model.safetensors")
>>> gw.load(folder / "model.safetensors")
{'weight': tensor([1., 1.])}
"""

from gradwalk.io.atomic import previous_of
from gradwalk.io.convert import from_torch, to_torch
from gradwalk.io.errors import FileError
from gradwalk.io.load import load
from gradwalk.io.npz import load_npz, save_npz
from gradwalk.io.save import save
from gradwalk.io.training_run import load_run, save_run

__all__ = [
    "FileError", "from_torch", "load", "load_npz", "load_run", "previous_of", "save", "save_npz",
    "save_run", "to_torch",
]  # fmt: skip
