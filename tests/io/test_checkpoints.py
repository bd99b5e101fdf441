"""`save` of nested checkpoints and to file objects: `load` and PyTorch's own reader agree."""

from __future__ import annotations

import argparse
import io
import types
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw


def trained() -> tuple[Any, Any]:
    model = gw.nn.Sequential(gw.nn.Conv2d(3, 4, 3, bias=False), gw.nn.BatchNorm2d(4))
    optimizer = gw.optim.Adam(model.parameters(), lr=0.01)
    (model(gw.arange(150.0).cos().reshape(2, 3, 5, 5)) ** 3).sum().backward()
    optimizer.step()
    return model, optimizer


def test_a_checkpoint_is_continued_here_and_in_pytorch(tmp_path: Path) -> None:
    model, optimizer = trained()
    path = tmp_path / "checkpoint.pt"
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    gw.save({**state, "epoch": 3, "loss": np.float64(0.1), "best": gw.tensor(0.5)}, path)
    found = gw.load(path, map_location="cpu")
    assert (found["epoch"], found["loss"], found["best"].item()) == (3, 0.1, 0.5)
    ours, our_optimizer = trained()
    ours.load_state_dict(found["model"])
    our_optimizer.load_state_dict(found["optimizer"])
    theirs = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.BatchNorm2d(4))
    their_optimizer = torch.optim.Adam(theirs.parameters())
    read = torch.load(path)  # with weights_only, PyTorch's default
    theirs.load_state_dict(read["model"])
    their_optimizer.load_state_dict(read["optimizer"])
    for _ in range(2):  # both continue alike
        for library, one, stepper in (
            (gw, ours, our_optimizer),
            (torch, theirs, their_optimizer),
        ):
            stepper.zero_grad()
            x = library.arange(150.0).sin().reshape(2, 3, 5, 5)
            (one(x) ** 3).sum().backward()
            stepper.step()
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name].numpy(), value.numpy(), atol=1e-5)


def test_kinds_of_numbers_and_containers(tmp_path: Path) -> None:
    names = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]
    names += ["complex64", "complex128", "bfloat16"]
    plain = [1, -1, 2**31, -(2**70), 2.5, float("inf"), None, True, "ö", b"\x00\xff", (), (1, (2,))]
    plain += [{3: [4], (5, 6): {}}, {7, 8}, Counter("aab"), OrderedDict(a=1), 1 + 2j, []]
    tensors = {name: gw.arange(3).to(getattr(gw, name)) for name in names}
    tensors |= {"scalar": gw.tensor(2.0), "empty": gw.zeros(0, 4)}
    path = tmp_path / "all.pt"
    gw.save({"plain": plain, "tensors": tensors, "dtype": gw.float32, "at": gw.device("cpu")}, path)
    ours, theirs = gw.load(path), torch.load(path)
    assert ours["plain"] == theirs["plain"] == plain
    assert list(map(type, ours["plain"])) == list(map(type, plain))
    assert (ours["dtype"], ours["at"]) == (gw.float32, gw.device("cpu"))
    assert (theirs["dtype"], theirs["at"]) == (torch.float32, torch.device("cpu"))
    for name, value in tensors.items():
        for read in (ours["tensors"][name], theirs["tensors"][name]):
            assert read.tolist() == value.tolist() and tuple(read.shape) == value.shape
            assert str(read.dtype).removeprefix("torch.") == str(value.dtype)


def test_what_scripts_keep_beside_their_tensors(tmp_path: Path) -> None:
    args = argparse.Namespace(lr=0.1, out=Path("runs/1"), milestones=[3, 5], mean=gw.ones(2))
    history: Any = defaultdict(list, loss=[1.0, 0.5])
    beside = {"history": history, "frozen": frozenset({1, 2}), "seen": types.SimpleNamespace(n=3)}
    path = tmp_path / "beside.pt"
    gw.save({"args": args, **beside}, path)
    theirs = torch.load(path, weights_only=False)
    torch.save(theirs, tmp_path / "theirs.pt")
    for found in (theirs, gw.load(path), gw.load(tmp_path / "theirs.pt", weights_only=False)):
        assert {name: found[name] for name in beside} == beside
        assert found["history"]["accuracy"] == []
        options = vars(found["args"])
        assert options.pop("mean").tolist() == [1.0, 1.0]
        assert options == {"lr": 0.1, "out": Path("runs/1"), "milestones": [3, 5]}
    with pytest.raises(TypeError, match=r"defaultdict of .*Fix: save dict"):
        gw.save([defaultdict(lambda: 3)], path)


def test_layouts_sharing_and_gradients_are_kept(tmp_path: Path) -> None:
    weight = gw.nn.Parameter(gw.arange(12.0).reshape(3, 4))
    kept = [weight, weight.detach(), weight.detach().T, gw.ones(2, requires_grad=True)]
    others = [weight.detach()[:, 1::2], gw.ones(2).expand(3, 2), gw.ones(1, 2, 4, 4).mT]
    path = tmp_path / "views.pt"
    gw.save([*kept, *others, weight], path)
    for library in (gw, torch):
        read = library.load(path)
        for one, value in zip(read, [*kept, *others, weight], strict=True):
            assert one.tolist() == value.tolist()
        parameter, same, turned, leaf, *_, again = read
        assert isinstance(parameter, library.nn.Parameter) and parameter.requires_grad
        assert again is parameter and leaf.requires_grad and not same.requires_grad
        same[1, 3] = 99.0
        assert turned[3, 1] == 99 and parameter[1, 3] == 99
        assert tuple(turned.stride()) == (1, 4)


def test_a_list_that_contains_itself(tmp_path: Path) -> None:
    around: list[Any] = [gw.ones(1)]
    around.append(around)
    gw.save(around, tmp_path / "around.pt")
    read = gw.load(tmp_path / "around.pt")
    assert read[1] is read


@pytest.mark.parametrize("nested", [False, True], ids=["state dict", "nested"])
def test_file_objects(nested: bool, tmp_path: Path) -> None:
    state: Any = {"x": gw.arange(4.0)}
    state = {"model": state, "step": 2} if nested else state
    buffer = io.BytesIO()
    gw.save(state, buffer)
    with pytest.raises(gw.io.FileError, match=r"BytesIO.*at its end.*seek\(0\)"):
        gw.load(buffer)
    buffer.seek(0)
    with open(tmp_path / "state", "w+b") as file:
        gw.save(state, file)
        file.seek(0)
        for read in (gw.load(buffer), gw.load(file), gw.load(tmp_path / "state")):
            inner = read["model"] if nested else read
            assert inner["x"].tolist() == [0, 1, 2, 3]
    theirs = io.BytesIO()
    torch.save({"x": torch.ones(2)}, theirs)
    assert gw.load(io.BytesIO(theirs.getvalue()))["x"].tolist() == [1, 1]
    with pytest.raises(gw.io.FileError, match="BytesIO cannot be loaded"):
        gw.load(io.BytesIO(b"nothing of the kind"))
    with open(tmp_path / "text", "w") as text, pytest.raises(TypeError, match="'wb'"):
        gw.save(state, text)  # type: ignore[arg-type]


ARRAYS = {
    "rows": np.arange(6.0).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(4).reshape(2, 2)),
    "other order": np.array([1.5, 2.0], ">f4"),
    "part": np.arange(9, dtype=np.int16)[1::3],
    "none": np.zeros((0, 3)),
    "one": np.array(7),
    "text": np.array(["a", "bc"]),
    "flags": np.array([True, False]),
    "complex": np.array([1 + 2j]),
}


@pytest.mark.parametrize("old", [False, True])
def test_arrays_stay_arrays(tmp_path: Path, old: bool) -> None:
    """In files of both libraries, read by both; programs save arrays of data and of losses."""
    path = tmp_path / "data.pt"
    thing = {**ARRAYS, "best": np.float64(0.5), "list": [ARRAYS["rows"]]}
    torch.save(thing, path, _use_new_zipfile_serialization=not old)
    equal_arrays(gw.load(path), thing)
    gw.save(thing, path)
    equal_arrays(gw.load(path), thing)
    equal_arrays(torch.load(path, weights_only=False), thing)
    gw.save(ARRAYS["rows"], path)
    assert type(gw.load(path)) is np.ndarray


def equal_arrays(loaded: Any, saved: Any) -> None:
    assert list(loaded) == list(saved)
    assert loaded["list"][0] is loaded["rows"]
    for name, value in saved.items():
        if name in ARRAYS:
            assert type(loaded[name]) is np.ndarray and loaded[name].flags.writeable
        np.testing.assert_array_equal(loaded[name], value)
        assert np.asarray(loaded[name]).dtype == np.asarray(value).dtype.newbyteorder("=")


@pytest.mark.parametrize("bad", [np.array([{}]), np.zeros(1, [("a", "f4")]), np.zeros(1, "M8[s]")])
def test_arrays_of_anything_else_are_refused(tmp_path: Path, bad: Any) -> None:
    with pytest.raises(TypeError, match="not numbers or text"):
        gw.save([bad], tmp_path / "bad.pt")
    torch.save([bad], tmp_path / "bad.pt")
    with pytest.raises(gw.io.FileError, match=r"not numbers or text|not known"):
        gw.load(tmp_path / "bad.pt")


def test_what_needs_code_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    refused = {
        "model.*Linear.*state_dict": {"model": gw.nn.Linear(2, 2), "epoch": 1},
        r"\['args'\] is a Options.*vars": {"args": type("Options", (), {})()},
        r"\['steps'\]\[1\] is a range": {"steps": [1, range(3)]},
        r"\['x'\] holds uint32": {"x": gw.ones(2, dtype=gw.uint32), "epoch": 1},
    }
    for words, thing in refused.items():
        with pytest.raises(TypeError, match=words):
            gw.save(thing, path)
    assert not any(tmp_path.iterdir())


class Call:
    """In a pickle, a call of a function; then a state is set, if there is one."""

    def __init__(self, function: Any, *arguments: Any, state: Any = None) -> None:
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self) -> Any:
        return self.reduced


REBUILT = np.array([1.0]).__reduce__()[0]
HOSTILE = {
    # NumPy would take the bytes of an array of this dtype for pointers.
    "flags": Call(np.dtype, "f8", False, True, state=(3, "<", None, None, None, -1, -1, 5)),
    "size": Call(np.dtype, "S8", False, True, state=(3, "|", None, None, None, 800, 1, 0)),
    "fields": Call(np.dtype, "f8", False, True, state=(3, "<", None, ("a",), {}, -1, -1, 0)),
    "memory that was never written": Call(np.ndarray, (10,)),
    "a class of NumPy's": Call(REBUILT, np.matrix, (0,), b"b"),
    "too few bytes": Call(
        REBUILT, np.ndarray, (0,), b"b", state=(1, (1000,), np.dtype("f8"), False, b"12345678")
    ),
    "a negative size": Call(
        REBUILT, np.ndarray, (0,), b"b", state=(1, (-5,), np.dtype("f8"), False, b"")
    ),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_arrays_that_lie_are_refused(tmp_path: Path, hostile: Any) -> None:
    path = tmp_path / "data.pt"
    torch.save({"a": hostile}, path)
    with pytest.raises(gw.io.FileError, match="cannot be loaded") as caught:
        gw.load(path)
    assert " at 0x" not in str(caught.value)
