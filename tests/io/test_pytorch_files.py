"""Files of `torch.save`: read as PyTorch reads them, and nothing in them is executed."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import check_each

both_formats = pytest.mark.parametrize("new", [True, False], ids=["zip", "old"])


def saved(thing: Any, path: Path, new: bool) -> Path:
    torch.save(thing, path, _use_new_zipfile_serialization=new)
    return path


@both_formats
def test_a_checkpoint_of_pytorch_is_continued(new: bool, tmp_path: Path) -> None:
    theirs = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    optimizer = torch.optim.Adam(theirs.parameters())
    theirs(torch.ones(2, 3, 5, 5)).sum().backward()
    optimizer.step()
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 2, 5])
    checkpoint = {
        "model": theirs.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "epoch": 3,
    }
    found = gw.load(saved(checkpoint, tmp_path / "run.pt", new), map_location="cpu")
    ours = gw.nn.Sequential(gw.nn.Conv2d(3, 4, 3), gw.nn.BatchNorm2d(4))
    ours.load_state_dict(found["model"])
    gw.optim.Adam(ours.parameters()).load_state_dict(found["optimizer"])
    assert found["epoch"] == 3 and found["schedule"]["milestones"] == Counter({2: 2, 5: 1})
    assert isinstance(found["model"], OrderedDict)
    for name, value in theirs.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[name], value)


@both_formats
def test_kinds_of_numbers_and_containers(new: bool, tmp_path: Path) -> None:
    names = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]
    names += ["complex64", "complex128"]
    plain = [1, -(2**70), 2.5, None, True, "ö", b"bytes", (1, (2,)), {3: [4]}, {5}]
    tensors = {name: torch.arange(3).to(getattr(torch, name)) for name in names}
    tensors["half"] = torch.ones(2).bfloat16()
    others = [torch.nn.Parameter(torch.ones(2)), torch.ones(2, 3).shape, torch.float32]
    thing = {"plain": plain, "tensors": tensors, "others": [*others, torch.device("cpu")]}
    found = gw.load(saved(thing, tmp_path / "all.pt", new))
    assert found["plain"] == plain
    for name, value in tensors.items():
        assert found["tensors"][name].tolist() == value.tolist()
    for name in names:
        assert str(found["tensors"][name].dtype) == name
    parameter, shape, dtype, device = found["others"]
    assert isinstance(parameter, gw.nn.Parameter) and parameter.requires_grad
    assert (shape, dtype, device) == ((2, 3), gw.float32, gw.device("cpu"))


@pytest.mark.parametrize("new", [True, False])
def test_a_conjugate_and_a_sign_beside_the_memory(new: bool, tmp_path: Path) -> None:
    """PyTorch saves the memory of `z.conj()` as it is, and a note."""
    z = torch.tensor([1 + 2j, 3 - 4j])
    saved = {"conj": z.conj(), "neg": z.clone().conj().imag, "plain": z, "number": 1 + 2j}
    saved["weight"] = torch.nn.Parameter(z.clone())
    torch.save(saved, tmp_path / "complex.pt", _use_new_zipfile_serialization=new)
    found = gw.load(tmp_path / "complex.pt")
    assert found["conj"].tolist() == [1 - 2j, 3 + 4j]
    assert found["neg"].tolist() == [-2.0, 4.0]
    assert found["plain"].tolist() == z.tolist()
    assert found["number"] == 1 + 2j
    assert found["weight"].requires_grad


@both_formats
def test_tensors_of_one_storage_share_memory(new: bool, tmp_path: Path) -> None:
    a = torch.arange(12.0).reshape(3, 4)
    path = saved([a, a.T, a[1], a[:, 1::2], a.expand(2, 3, 4), a[:0]], tmp_path / "views.pt", new)
    whole, turned, row, columns, repeated, empty = gw.load(path)
    whole[1, 3] = 99.0
    assert turned.stride() == (1, 4) and turned[3, 1] == row[3] == columns[1, 1] == 99
    assert repeated.shape == (2, 3, 4) and repeated[1, 1, 3] == 99 and empty.shape == (0, 4)


class Runs:
    """An object whose pickle calls a function."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@both_formats
def test_a_class_is_refused_by_name_and_nothing_runs(new: bool, tmp_path: Path) -> None:
    path = tmp_path / "file.pt"
    trap = tmp_path / "trap"
    with pytest.raises(gw.io.FileError, match=r"posix\.mkdir|nt\.mkdir"):
        gw.load(saved({"a": Runs(trap)}, path, new), weights_only=False)
    assert not trap.exists()
    with pytest.raises(gw.io.FileError, match=r"modules\.linear\.Linear.*state_dict"):
        gw.load(saved(torch.nn.Linear(2, 2), path, new))


def archive(path: Path, data: bytes, **parts: bytes) -> Path:
    """A zip as torch.save makes it, of a given pickle."""
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("archive/data.pkl", data)
        for name, content in parts.items():
            made.writestr(f"archive/data/{name}", content)
    return path


KEY = b"X\x01\x00\x00\x000"  # the text "0"


def tensor_pickle(count: int, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    """The instructions that build one tensor, written by hand."""
    storage = (
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
    )
    numbers = [pickle.dumps(n, 2)[2:-1] for n in (count, offset)]
    shapes = b"".join(pickle.dumps(s, 2)[2:-1] for s in (size, stride))
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
        + storage + numbers[0] + b"tQ" + numbers[1] + shapes
        + b"\x89ccollections\nOrderedDict\n)RtR."
    )  # fmt: skip


def test_hostile_files_are_refused_without_using_memory(tmp_path: Path) -> None:
    path = tmp_path / "file.pt"
    four = np.ones(4, np.float32).tobytes()
    fine = tensor_pickle(4, 0, (2, 2), (2, 1))
    good = archive(path, fine, **{"0": four})
    assert gw.load(good).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    hostile = {
        "a longer storage": tensor_pickle(10**15, 0, (2, 2), (2, 1)),
        "a tensor beyond its storage": tensor_pickle(4, 1, (2, 2), (2, 1)),
        "a negative stride": tensor_pickle(4, 3, (2, 2), (-2, 1)),
        "a negative size": tensor_pickle(4, 0, (-2, 2), (2, 1)),
        "a huge shape": tensor_pickle(4, 0, (2**20, 2**20), (0, 0)),
        "strides for another shape": tensor_pickle(4, 0, (2, 2), (1,)),
        "no storage": fine.replace(KEY, b"X\x01\x00\x00\x007"),
        "another folder": fine.replace(KEY, b"X\x07\x00\x00\x00../../0"),
        "an empty stack": b"\x80\x02\x86.",
        "no mark": b"\x80\x02t.",
        "a memo that is not there": b"\x80\x02h\x05.",
        "a call of a tensor": b"\x80\x02)" + b")R.",
        "an object of its own": b"\x80\x02ccollections\nOrderedDict\n)\x81.",
        "a name of another module": b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.",
        "a persistent id of another kind": b"\x80\x02X\x01\x00\x00\x00aQ.",
        "two objects": b"\x80\x02)).",
        "nothing": b"",
    }  # fmt: skip

    def refused(name: str) -> None:
        with pytest.raises(gw.io.FileError):
            gw.load(archive(path, hostile[name], **{"0": four}))

    check_each(hostile, refused)


@both_formats
def test_damaged_files_are_refused_or_read(new: bool, tmp_path: Path) -> None:
    state = torch.nn.Linear(3, 2).state_dict()
    whole = saved(state, tmp_path / "file.pt", new).read_bytes()
    source = np.random.default_rng(0)
    path = tmp_path / "damaged.pt"
    for number in range(60):
        damaged = bytearray(whole)
        if number % 3:
            for place in source.integers(16, len(whole), 3):
                damaged[place] = source.integers(0, 256)
        else:
            del damaged[source.integers(16, len(whole)) :]
        path.write_bytes(damaged)
        try:
            gw.load(path)
        except gw.io.FileError:
            pass


def test_another_zip_or_pickle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a.npy", b"0" * 100)
    with pytest.raises(gw.io.FileError, match=r"not one that torch\.save wrote"):
        gw.load(path)
