"""Training checkpoints: everything a run needs to continue.

In a job of several processes, all of them call `save_run`. Tensors that are divided over processes
go to files beside the main one, each piece once; rank 0 writes the main file last, so that a save
becomes valid in one moment, when that file is renamed.
"""

from __future__ import annotations

import copy
import json
import os
import secrets
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradwalk.distributed.processes import gather, get_rank, get_world_size
from gradwalk.graph.abstract import AbstractArray
from gradwalk.io.atomic import followed, previous_of
from gradwalk.io.errors import FileError, wrong
from gradwalk.io.nested_state import converted, pack, unpack
from gradwalk.io.safetensors_files import Array, array_of, read, write
from gradwalk.io.shards import OWN, Shards, describe, folder_of, sweep, write_pieces
from gradwalk.random.generator import get_rng_state, set_rng_state
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor

_VERSION = "1"
_WITH_SHARDS = "2"


def save_run(path: str | os.PathLike[str], **parts: Any) -> None:
    """Write a checkpoint of parts with a `state_dict` and of plain data.

    The random state is saved too. The file is written atomically, so a run killed at any moment
    leaves a complete checkpoint; the one before stays as `path + ".previous"`.

    In a job of several processes every one calls it. What is divided over them goes to files in
    `path + ".shards"`, which must be on a file system that all of them share.

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
    arrays: dict[str, Any] = {}
    states, plain = {}, {}
    name = ""
    try:
        for name, part in parts.items():
            if hasattr(part, "state_dict"):
                states[name] = pack(part.state_dict(), name, arrays, _kept)
            else:
                plain[name] = pack(part, name, arrays, _kept)
        states["random"] = pack(get_rng_state(), "random", arrays, _kept)
        text = json.dumps({"parts": states, "plain": plain})
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply for a file, or contains itself") from None
    if get_world_size() > 1:
        _save_together(Path(path), {"parts": states, "plain": plain}, arrays)
    else:
        write(Path(path), arrays, {"gradwalk_run": _VERSION, "tree": text}, keep_previous=True)


def load_run(path: str | os.PathLike[str], **parts: Any) -> dict[str, Any]:
    """Load a checkpoint into the given parts; returns the plain data that was saved with them.

    Pass each part under the name it was saved with; omitted parts are not loaded. The whole file is
    checked first. If a part does not fit, every part is restored, and `gradwalk.io.FileError` says
    what is wrong. A run of several processes can be loaded by any number of them, on any mesh and
    on the CPU; of its shards, each process reads those that it needs.
    """
    path = Path(path)
    error = contents = None
    token = ""
    try:
        contents, token = _contents(path, parts)
    except Exception as found:
        error = found
    _agree("load_run", path, error, token)
    assert contents is not None
    states, plain = contents
    random = states.pop("random", None)
    before = {name: converted(part.state_dict(), _copied) for name, part in parts.items()}
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


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else copy.deepcopy(value)


def _contents(
    path: Path, parts: Mapping[str, Any]
) -> tuple[tuple[dict[str, Any], dict[str, Any]], str]:
    """The states of the parts and the plain data of a checkpoint, and the name of its save."""
    arrays, metadata = read(path)
    version = metadata.get("gradwalk_run")
    if version is None:
        raise wrong(path, "it is not a training checkpoint. Fix: gradwalk.load(path).")
    if version not in (_VERSION, _WITH_SHARDS):
        raise wrong(path, f"it was written by another version of gradwalk (format {version})")
    shards = Shards(path, metadata.get("shards", "")) if version == _WITH_SHARDS else None
    try:
        tree = json.loads(metadata["tree"])
        known = {**tree["parts"]}
        missing = [name for name in parts if name not in known]
        if missing:
            raise wrong(path, f"it has no {', '.join(missing)}; it has {', '.join(known)}")
        wanted = {name: known[name] for name in (*parts, "random") if name in known}
        found: Any = _Arrays(arrays, shards, _places(parts))
        states, plain = unpack(wanted, found), unpack(tree["plain"], found)
        if shards is not None and shards.world_size == get_world_size():
            own = json.loads(shards.own(get_rank()) or '{"parts": {}}')
            arrays |= shards.own_arrays(get_rank()) if own["parts"] else {}
            mine: Any = _Arrays(arrays, shards, found.places)
            states |= {n: v for n, v in unpack(own["parts"], mine).items() if n in wanted}
            plain = unpack(own["plain"], mine) if "plain" in own else plain
    except FileError as error:
        if str(error).startswith(f"{path} "):
            raise
        raise wrong(path, str(error)) from None
    except Exception as error:
        raise wrong(path, f"its description is damaged ({error!r:.300})") from None
    if not isinstance(states, dict) or not isinstance(plain, dict):
        raise wrong(path, "its description is damaged")
    return (states, plain), "" if shards is None else shards.token


# -- several processes -----------------------------------------------------------------------------


def _kept(value: Any, name: str) -> Any:
    """The elements of an array, or the array itself if several processes have it."""
    array = value._array if isinstance(value, Tensor) else value
    return array if _spans_processes(array) else array_of(value, name)


def _spans_processes(array: Any) -> bool:
    return isinstance(array, AbstractArray) and not array.term.is_fully_addressable  # type: ignore[attr-defined]


def _save_together(path: Path, tree: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Every process writes its pieces; then rank 0 makes the save valid."""
    path = followed(path)
    rank, size = get_rank(), get_world_size()
    host = {n: a for n, a in arrays.items() if isinstance(a, np.ndarray)}
    on_devices = {n: a.term for n, a in arrays.items() if n not in host}
    divided = {n: value for n, value in on_devices.items() if not value.is_fully_replicated}
    digests = _digests(tree, host)
    token, of_rank_0 = gather(f"save_run({path.name})", (secrets.token_hex(6), digests))[0]
    own = {part for part, digest in digests.items() if of_rank_0.get(part) != digest}
    folder = folder_of(path)
    file = folder / f"{token}-{rank}.safetensors"
    facts: Any = None
    error: Exception | None = None
    try:
        mine = {n: v for n, v in tree["parts"].items() if n in own}
        text: dict[str, Any] = {"parts": mine}
        if "" in own:
            text["plain"] = tree["plain"]
        names = (*mine, *(tree["plain"] if "" in own else ()))
        kept = {OWN + n: a for n, a in host.items() if n.partition(".")[0] in names}
        if divided or own:
            facts = write_pieces(file, rank, divided, kept, json.dumps(text) if own else "")
    except Exception as found:
        error = found
    files = _agree("save_run", path, error, facts)
    if rank == 0:
        try:
            whole = {n: array_of(wrap(arrays[n]), n) for n in on_devices if n not in divided}
            facts = dict(enumerate(files))
            _commit(path, folder, token, facts, size, tree, divided, {**host, **whole})
        except Exception as found:
            error = found
    _agree("the end of save_run", path, error, None)


def _commit(
    path: Path,
    folder: Path,
    token: str,
    files: dict[int, Any],
    size: int,
    tree: dict[str, Any],
    divided: dict[str, Any],
    host: dict[str, Array],
) -> None:
    """Write the main file, and remove what it and the one before do not need."""
    written = {rank: facts for rank, facts in files.items() if facts is not None}
    for rank, (name, length, _) in written.items():
        if not (folder / name).exists() or (folder / name).stat().st_size != length:
            raise OSError(
                f"rank 0 does not see {folder / name}, which rank {rank} wrote. Fix: save to a "
                "file system that all processes share."
            )
    metadata = {"gradwalk_run": _VERSION, "tree": json.dumps(tree)}
    if written:
        shards = describe(folder, token, written, size, divided)
        metadata |= {"gradwalk_run": _WITH_SHARDS, "shards": shards}
    write(path, host, metadata, keep_previous=True)
    kept = [token]
    before = previous_of(path)
    if before.exists():
        try:
            said = read(before)[1].get("shards")
        except (OSError, FileError):
            return  # what it needs is unknown
        kept += [Shards(before, said).token] if said else []
    sweep(folder, kept)


def _agree(where: str, path: Path, error: Exception | None, value: Any) -> list[Any]:
    """What every rank has; an error of one is raised in all of them."""
    if get_world_size() == 1:
        if error is not None:
            raise error
        return [value]
    found = gather(f"{where}({path.name})", (None if error is None else str(error), value))
    if error is not None:
        raise error
    for rank, (said, _) in enumerate(found):
        if said is not None:
            raise FileError(f"{where}: rank {rank} failed, so nothing was changed. {said}")
    if where == "load_run" and len({token for _, token in found}) > 1:
        raise FileError(f"{path}: the processes see different saves under this name")
    return [value for _, value in found]


def _digests(tree: dict[str, Any], host: Mapping[str, Array]) -> dict[str, int]:
    """A number for the state of each part in this process; "" stands for the plain data."""
    found = {name: zlib.crc32(json.dumps(part).encode()) for name, part in tree["parts"].items()}
    found[""] = zlib.crc32(json.dumps(tree["plain"]).encode())
    for name, array in host.items():
        part = name.partition(".")[0]
        part = part if part in tree["parts"] else ""
        found[part] = zlib.crc32(np.ascontiguousarray(array).tobytes(), found[part])
    return found


def _places(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays, by their names in a file, that are on the devices of several processes now."""
    found: dict[str, Any] = {}
    for name, part in parts.items():
        pack(part.state_dict(), name, found, lambda value, _: getattr(value, "_array", value))
        groups = getattr(part, "param_groups", ())  # an optimizer's state follows its parameters
        parameters = [p for group in groups for p in group["params"]]
        found |= {f"{name}.state.{i}": p._array for i, p in enumerate(parameters)}
    return {name: array for name, array in found.items() if _spans_processes(array)}


class _Arrays(Mapping[str, Any]):
    """The arrays of a checkpoint; those that are divided over processes come in pieces."""

    def __init__(self, host: Mapping[str, Array], shards: Shards | None, places: Any) -> None:
        self.host, self.shards, self.places = host, shards, places

    def __getitem__(self, name: str) -> Any:
        if name in self.host:
            shape, part = self.host[name].shape, lambda index: self.host[name][index]
        else:
            assert self.shards is not None
            shape = self.shards.shapes[name]
            part = lambda index: self.shards.read(name, index)  # type: ignore[union-attr]
        place = self.places.get(name, self.places.get(name.rpartition(".")[0]))
        if place is not None and place.shape == shape:
            return place.machine.assembled(place, part)
        return self.host[name] if name in self.host else self.shards.read(name)  # type: ignore[union-attr]

    def __contains__(self, name: object) -> bool:
        return name in self.host or (self.shards is not None and name in self.shards.shapes)

    def __iter__(self) -> Any:
        yield from self.host
        yield from () if self.shards is None else self.shards.shapes

    def __len__(self) -> int:
        return sum(1 for _ in self)
