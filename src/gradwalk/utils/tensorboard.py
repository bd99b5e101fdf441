"""PyTorch's `SummaryWriter`: what TensorBoard shows.

If the package tensorboardX is installed, it is the writer. Otherwise gradwalk writes scalars,
histograms, pictures, figures, texts and hyperparameters (as text) by itself, and leaves out graphs
and embeddings.
"""

from __future__ import annotations

import functools
import importlib
import io
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gradwalk.engine.tree import mapped
from gradwalk.io import event_file
from gradwalk.tensors.tensor import Tensor


def __getattr__(name: str) -> Any:
    if name != "SummaryWriter":
        raise AttributeError(f"module 'gradwalk.utils.tensorboard' has no attribute {name!r}")
    return _writer()


@functools.cache
def _writer() -> type:
    """tensorboardX's writer, with arrays for our tensors, or ours."""
    try:
        base = importlib.import_module("tensorboardX").SummaryWriter
    except ImportError:
        return PlainWriter

    def method(name: str) -> Any:
        @functools.wraps(getattr(base, name))
        def add(self: Any, *args: Any, **options: Any) -> Any:
            return getattr(base, name)(self, *mapped(_plain, list(args)), **mapped(_plain, options))

        return add

    wrapped = {name: method(name) for name in dir(base) if name.startswith("add_")}
    return type("SummaryWriter", (base,), {"__doc__": base.__doc__, **wrapped})


def _plain(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value


def _array(value: Any) -> np.ndarray:
    return np.asarray(_plain(value))


class PlainWriter:
    """PyTorch's `SummaryWriter` with event files of our own.

    >>> import tempfile
    >>> from gradwalk.utils.tensorboard import PlainWriter
    >>> with PlainWriter(tempfile.mkdtemp()) as writer:
    ...     writer.add_scalar("loss", 0.5, global_step=1)
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            moment = time.strftime("%b%d_%H-%M-%S")
            log_dir = Path("runs", f"{moment}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self._suffix = filename_suffix
        self._flush_secs = flush_secs
        self._flushed = time.monotonic()
        self._files: dict[str, event_file.EventFile] = {}
        self._file()

    def _file(self, run: str = "") -> event_file.EventFile:
        """The event file of this run, or of a run in a folder inside it."""
        if run not in self._files:
            folder = Path(self.log_dir, run)
            self._files[run] = event_file.EventFile(folder, self._suffix)
        return self._files[run]

    def _add(self, value: bytes, step: Any, moment: float | None, run: str = "") -> None:
        self._file(run).add(value, None if step is None else int(_array(step)), moment)
        if time.monotonic() - self._flushed > self._flush_secs:
            self.flush()

    def get_logdir(self) -> str:
        """The folder of the event files."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number."""
        number = float(_array(scalar_value).reshape(()))
        self._add(event_file.scalar_value(tag, number), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write several numbers into one diagram: each has a run of its own."""
        for tag, scalar in tag_scalar_dict.items():
            run = f"{main_tag.replace('/', '_')}_{tag}"
            number = float(_array(scalar).reshape(()))
            self._add(event_file.scalar_value(main_tag, number), global_step, walltime, run)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write how often values lie in each of the bins; PyTorch's "tensorflow" is 30 bins."""
        bins = 30 if bins == "tensorflow" else bins
        value = event_file.histogram_value(tag, _array(values), bins)
        self._add(value, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write a picture: bytes, or floats from 0 to 1; `dataformats` names its dimensions."""
        pixels = _grid(_array(img_tensor), dataformats.upper())
        self._add(event_file.image_value(tag, pixels), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write pictures side by side, in rows of eight."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Write a figure of matplotlib, or a list of them, as pictures."""
        figures = figure if isinstance(figure, list) else [figure]
        pictures = []
        for each in figures:
            raw = io.BytesIO()
            each.savefig(raw, format="raw", dpi=each.dpi)
            width, height = each.canvas.get_width_height()
            pictures.append(np.frombuffer(raw.getvalue(), np.uint8).reshape(height, width, 4))
            if close:
                importlib.import_module("matplotlib.pyplot").close(each)
        self.add_image(tag, np.stack(pictures), global_step, walltime, "NHWC")

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a text, which TensorBoard reads as Markdown."""
        self._add(event_file.text_value(tag, text_string), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Write hyperparameters as a table of text, and metrics as numbers."""
        rows = "\n".join(f"|{name}|{_plain(value)}|" for name, value in hparam_dict.items())
        self.add_text("hparams", f"|hyperparameter|value|\n|-|-|\n{rows}", global_step)
        for tag, number in metric_dict.items():
            self.add_scalar(tag, number, global_step)

    def _left_out(self, *args: Any, **options: Any) -> None:
        """Nothing: install tensorboardX to have this written."""

    add_graph: Callable[..., None] = _left_out
    add_embedding: Callable[..., None] = _left_out

    def flush(self) -> None:
        """Write to the disk what is still in memory."""
        self._flushed = time.monotonic()
        for each in self._files.values():
            each.file.flush()

    def close(self) -> None:
        """Close the files; a later call opens new ones."""
        for each in self._files.values():
            each.file.close()
        self._files.clear()

    def __enter__(self) -> PlainWriter:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def _grid(picture: np.ndarray, dims: str) -> np.ndarray:
    """Bytes of shape (height, width, channels); several pictures stand in rows of eight."""
    if len(dims) != picture.ndim:
        raise ValueError(f"a picture of {picture.ndim} dimensions cannot be {dims!r}")
    if picture.dtype != np.uint8:
        picture = (np.asarray(picture, np.float32) * 255).clip(0, 255).astype(np.uint8)
    for name in "CN":
        if name not in dims:
            dims, picture = name + dims, picture[None]
    picture = picture.transpose([dims.index(name) for name in "NHWC"])
    count, height, width, channels = picture.shape
    columns = min(count, 8)
    rows = -(-count // columns)
    grid = np.zeros((rows * columns, height, width, channels), np.uint8)
    grid[:count] = picture
    grid = grid.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return grid.reshape(rows * height, columns * width, channels)
