"""Training checkpoints: everything a run needs to continue."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

from gradwalk.io.errors import FileError, wrong
from gradwalk.io.nested_state import converted, pack, unpack
from gradwalk.io.safetensors_files import Array, read, write
from gradwalk.random.generator import get_rng_state, set_rng_state

_VERSION = "1"


def save_run(path: str | os.PathLike[str], **parts: Any) -> None:
    """Write a checkpoint of parts with a `state_dict` and of plain data.

    The random state is saved too. The file is written atomically, so a run killed at any moment
    leaves a complete checkpoint; the one before stays as `path + ".previous"`.

    >>> import gradwalk as gw
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.safetensors"
    >>> model = gw.nn.Linear(2, 1)
    >>> optimizer = gw.optim.AdamW(model.parameters())
    >>> gw.save_run(path, model=model, optimizer=optimizer, step=120, best_loss=0.5)
    >>> gw.load_run(path, model=model, optimizer=optimizer)
    {'step': 120, 'best_loss': 0.5}
    """
    if "random" in parts:
        raise ValueError("the name random is taken: the state of the random numbers is saved there")
    arrays: dict[str, Array] = {}
    states, plain = {}, {}
    name = ""
    try:
        for name, part in parts.items():
            if hasattr(part, "state_dict"):
                states[name] = pack(part.state_dict(), name, arrays)
            else:
                plain[name] = pack(part, name, arrays)
        states["random"] = pack(get_rng_state(), "random", arrays)
        text = json.dumps({"parts": states, "plain": plain})
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply for a file, or contains itself") from None
    write(Path(path), arrays, {"gradwalk_run": _VERSION, "tree": text}, keep_previous=True)


def load_run(path: str | os.PathLike[str], **parts: Any) -> dict[str, Any]:
    """Load a checkpoint into the given parts; returns the plain data that was saved with them.

    Pass each part under the name it was saved with; omitted parts are not loaded. The whole file is
    checked first. If a part does not fit, every part is restored, and `gradwalk.io.FileError` says
    what is wrong.
    """
    path = Path(path)
    states, plain = _contents(path)
    missing = [name for name in parts if name not in states]
    if missing:
        raise wrong(path, f"it has no {', '.join(missing)}; it has {', '.join(states)}")
    random = states.pop("random", None)
    detached = lambda value: value.detach() if hasattr(value, "detach") else value
    before = {
        name: copy.deepcopy(converted(part.state_dict(), detached)) for name, part in parts.items()
    }
    random_before = get_rng_state()
    name = ""
    try:
        for name, part in parts.items():
            part.load_state_dict(states[name])
        name = "random"
        if random is not None:
            set_rng_state(random)
    except Exception as error:
        for known, state in before.items():
            parts[known].load_state_dict(state)
        set_rng_state(random_before)
        raise wrong(path, f"its {name} does not fit, so nothing was changed. {error}") from error
    return plain


def _contents(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states and the plain data of a checkpoint."""
    arrays, metadata = read(path)
    version = metadata.get("gradwalk_run")
    if version is None:
        raise wrong(path, "it is not a training checkpoint. Fix: gradwalk.load(path).")
    if version != _VERSION:
        raise wrong(path, f"it was written by another version of gradwalk (format {version})")
    try:
        tree = json.loads(metadata["tree"])
        states, plain = unpack(tree["parts"], arrays), unpack(tree["plain"], arrays)
    except FileError as error:
        raise wrong(path, str(error)) from None
    except Exception as error:
        raise wrong(path, f"its description is damaged ({error!r:.300})") from None
    if not isinstance(states, dict) or not isinstance(plain, dict):
        raise wrong(path, "its description is damaged")
    return states, plain
