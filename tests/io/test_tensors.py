"""State dicts survive files, PyTorch's files too, and bad files are refused with a reason."""

import json
import os
import pickle
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import gradwalk as gw
from gradwalk.io import FileError, safetensors_files
from gradwalk.io.errors import foreign

DTYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
STATE = {
    "b": gw.tensor([[1.0, 2.0], [3.0, 4.0]]),
    "a": gw.tensor([1, 2, 3]),
    "number": gw.tensor(2.5),
    "empty": gw.zeros(0, 3),
    "mask": gw.tensor([True, False]),
}


def same(ours: Any, expected: Any) -> None:
    assert ours.keys() == expected.keys()
    for name, tensor in ours.items():
        mine, theirs = tensor.detach().numpy(), expected[name].detach().numpy()
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        np.testing.assert_array_equal(mine, theirs)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    gw.save(STATE, path)
    same(gw.load(path), STATE)
    gw.load(str(path))["a"].add_(1)  # its memory is its own, and writable
    assert os.listdir(tmp_path) == ["state.safetensors"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_and_layouts(dtype: str, tmp_path: Path) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)
    state = {"whole": array, "turned": array.T, "part": array[::2, 1:], "row": array[0]}
    path = tmp_path / "state.safetensors"  # arrays become tensors in a file of tensors
    gw.save(state, path)
    for name, tensor in gw.load(path).items():
        np.testing.assert_array_equal(tensor.numpy(), state[name])
        assert tensor.dtype == np.dtype(dtype)
    theirs = safetensors.torch.load_file(path)
    np.testing.assert_array_equal(theirs["turned"].numpy(), array.T)


def test_a_state_keeps_its_order(tmp_path: Path) -> None:
    """As with torch.load: programs pair the names of two models by their order."""
    state = {"b": gw.ones(1), "a": gw.zeros(2, dtype=gw.int64), "c": gw.ones(3, dtype=gw.uint8)}
    for listed in (state, dict(reversed(state.items()))):
        gw.save(listed, tmp_path / "state")
        loaded = gw.load(tmp_path / "state")
        assert list(loaded) == list(listed)
        for name, tensor in listed.items():
            np.testing.assert_array_equal(loaded[name].numpy(), tensor.numpy())
        assert safetensors.torch.load_file(tmp_path / "state").keys() == state.keys()


def test_equal_states_make_equal_files(tmp_path: Path) -> None:
    gw.save(STATE, tmp_path / "a")
    gw.save(dict(STATE), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    (length,) = struct.unpack("<Q", (tmp_path / "a").read_bytes()[:8])
    assert length % 8 == 0  # so that the numbers are aligned
    gw.save({'ä ß\n"': gw.ones(1)}, tmp_path / "names")
    assert list(gw.load(tmp_path / "names")) == ['ä ß\n"']
    gw.save({}, tmp_path / "nothing")
    assert gw.load(tmp_path / "nothing") == {}


def test_a_model_goes_to_pytorch_and_back(tmp_path: Path) -> None:
    ours = gw.nn.Sequential(gw.nn.Linear(2, 3), gw.nn.ReLU(), gw.nn.Linear(3, 1))
    theirs = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    gw.save(ours.state_dict(), tmp_path / "ours")
    theirs.load_state_dict(safetensors.torch.load_file(tmp_path / "ours"))
    same(ours.state_dict(), theirs.state_dict())
    with torch.no_grad():
        for p in theirs.parameters():
            p.mul_(2)
    safetensors.torch.save_file(theirs.state_dict(), tmp_path / "theirs")
    ours.load_state_dict(gw.load(tmp_path / "theirs"))
    same(ours.state_dict(), theirs.state_dict())


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_halves_stay_as_they_are(name: str, tmp_path: Path) -> None:
    theirs = {"x": torch.randn(5, 3).to(getattr(torch, name)), "none": torch.ones(0).bfloat16()}
    safetensors.torch.save_file(theirs, tmp_path / "theirs")
    ours = gw.load(tmp_path / "theirs")
    assert ours["x"].dtype == getattr(gw, name)
    np.testing.assert_array_equal(ours["x"].float().numpy(), theirs["x"].float().numpy())
    gw.save(ours, tmp_path / "ours")
    assert torch.equal(safetensors.torch.load_file(tmp_path / "ours")["x"], theirs["x"])
    gw.io.save_npz(ours, tmp_path / "ours.npz")
    for again in (gw.load(tmp_path / "ours"), gw.io.load_npz(tmp_path / "ours.npz")):
        assert again["x"].dtype == getattr(gw, name)
        np.testing.assert_array_equal(again["x"].numpy(), ours["x"].numpy())


def test_without_ml_dtypes_bfloat16_becomes_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {"x": gw.randn(5).bfloat16()}
    gw.save(ours, tmp_path / "x")
    monkeypatch.setattr(safetensors_files, "find_spec", lambda name: None)
    loaded = gw.load(tmp_path / "x")["x"]
    assert loaded.dtype == gw.float32
    np.testing.assert_array_equal(loaded.numpy(), ours["x"].float().numpy())


def test_what_cannot_be_saved_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "state"
    gw.save({"x": gw.ones(2)}, path)
    for bad in ({"x": np.array([{}])}, {"x": object()}, {"x": [gw.nn.Linear(2, 2)]}):
        with pytest.raises(TypeError, match="'x'"):
            gw.save(bad, path)
    with pytest.raises(ValueError, match="name"):
        gw.save({"__metadata__": gw.ones(2)}, path)
    same(gw.load(path), {"x": gw.ones(2)})
    assert os.listdir(tmp_path) == ["state"]


def model_and_file(folder: Path) -> tuple[Any, Path, bytes]:
    model = gw.nn.Linear(4, 3)
    path = folder / "model.safetensors"
    gw.save({name: t.detach() + 1 for name, t in model.state_dict().items()}, path)
    return model, path, path.read_bytes()


def refused(model: Any, path: Path) -> None:
    before = {k: v.detach().clone() for k, v in model.state_dict().items()}
    with pytest.raises(FileError, match="cannot be loaded"):
        model.load_state_dict(gw.load(path))
    same(model.state_dict(), before)


def test_truncated_anywhere(tmp_path: Path) -> None:
    model, path, content = model_and_file(tmp_path)
    for end in range(0, len(content), 8):
        path.write_bytes(content[:end])
        refused(model, path)
    path.write_bytes(content + b"more")
    refused(model, path)


def test_random_bytes(tmp_path: Path) -> None:
    model, path, _ = model_and_file(tmp_path)
    source = random.Random(0)
    for length in range(0, 300, 3):
        path.write_bytes(source.randbytes(length))
        refused(model, path)


def test_any_flipped_bit_is_noticed_or_harmless(tmp_path: Path) -> None:
    _, path, content = model_and_file(tmp_path)
    good = gw.load(path)
    source = random.Random(0)
    noticed = 0
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 1 << source.randrange(8)
        path.write_bytes(changed)
        try:
            same(gw.load(path), good)
        except FileError:
            noticed += 1
    assert noticed > 0.9 * len(content)


def with_header(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


HOSTILE = {
    "huge header": (struct.pack("<Q", 2**63) + b"{}", "does not begin like"),
    "header longer than the file": (struct.pack("<Q", 5000) + b"{}", "cut off"),
    "deep JSON": (with_header(b"[" * 100_000), "JSON"),
    "deep objects": (with_header(b'{"a":' * 50_000 + b"1" + b"}" * 50_000), "JSON"),
    "not an object": (with_header(b"[1]"), "object"),
    "not text": (with_header(b"\xff\xfe{}"), "JSON"),
    "a name twice": (
        with_header(
            b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
            b'"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
            b"\0" * 8,
        ),
        "twice: a",
    ),
    "overlap": (
        with_header({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 0, 4)}, b"\0" * 4),
        "damaged",
    ),
    "a hole": (with_header({"a": entry("F32", [1], 4, 8)}, b"\0" * 8), "damaged"),
    "shape too large": (with_header({"a": entry("F32", [2**40], 0, 4)}, b"\0" * 4), "damaged"),
    "shape that wraps": (
        with_header({"a": entry("F32", [2**33, 2**33], 0, 4)}, b"\0" * 4),
        "damaged",
    ),
    "negative shape": (with_header({"a": entry("F32", [-1], 0, 4)}, b"\0" * 4), "damaged"),
    "offsets past the end": (with_header({"a": entry("F32", [9], 0, 36)}, b"\0" * 4), "damaged"),
    "unknown dtype": (with_header({"a": entry("X9", [1], 0, 4)}, b"\0" * 4), "damaged"),
    "a dtype we lack": (with_header({"a": entry("F8_E4M3", [4], 0, 4)}, b"\0" * 4), "F8_E4M3"),
    "metadata that is a number": (with_header({"__metadata__": {"a": 1}}), "text"),
    "a pickle": (b"\x80\x02}q\x00.", "execute code"),
    "a zip": (b"PK\x03\x04" + b"\0" * 60, "from_torch"),
    "HDF5": (b"\x89HDF\r\n\x1a\n", "HDF5"),
    "npy": (b"\x93NUMPY\x01\x00", "numpy.load"),
}


@pytest.mark.parametrize(("content", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(FileError, match=message):
        gw.load(path)
    with pytest.raises(FileError):
        gw.load_run(path)
    with pytest.raises(FileError):
        gw.io.load_npz(path)


def test_the_length_of_a_header_may_begin_like_a_pickle() -> None:
    for length in (0x0280, 0x030480, 0x010580, 0x950480):
        assert foreign(length.to_bytes(8, "little")) is None
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        for content in (None, 1, "a", list(range(300)), {"x": 1.0}):
            assert foreign(pickle.dumps(content, protocol)[:8]) is not None, (protocol, content)


def test_a_pickle_is_never_executed(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "executed"),)

    torch.save({"x": Trap()}, tmp_path / "trap.pt")
    np.savez(tmp_path / "trap.npz", x=np.array([Trap()], dtype=object))
    np.save(tmp_path / "trap.npy", np.array([Trap()], dtype=object))
    for path in list(tmp_path.iterdir()):
        for load in (gw.load, gw.load_run, gw.io.load_npz):
            with pytest.raises(FileError):
                load(path)
    assert not (tmp_path / "executed").exists()


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    for load in (gw.load, gw.load_run, gw.io.load_npz):
        with pytest.raises(FileNotFoundError):
            load(tmp_path / "nothing")


def test_wrong_shapes_and_names_leave_the_model_untouched(tmp_path: Path) -> None:
    model, path, _ = model_and_file(tmp_path)
    before = {k: v.detach().clone() for k, v in model.state_dict().items()}
    for change in ({"weight": gw.zeros(9)}, {"extra": gw.zeros(1)}):
        gw.save({**before, "bias": before["bias"] + 1, **change}, path)
        with pytest.raises(RuntimeError, match=next(iter(change))):
            model.load_state_dict(gw.load(path))
        same(model.state_dict(), before)


@pytest.mark.parametrize("compressed", [False, True])
def test_npz(compressed: bool, tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    state = {**STATE, "file": gw.ones(2), "layer.0/weight": gw.ones(2)}
    gw.io.save_npz(state, path, compressed)
    same(gw.io.load_npz(path), state)
    with np.load(path) as theirs:
        np.testing.assert_array_equal(theirs["b"], STATE["b"].numpy())
    np.savez(path, x=np.ones(3))
    assert gw.io.load_npz(path)["x"].tolist() == [1, 1, 1]


def test_damaged_npz(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    gw.io.save_npz(STATE, path)
    content = path.read_bytes()
    for end in range(0, len(content), 64):
        path.write_bytes(content[:end])
        with pytest.raises(FileError):
            gw.io.load_npz(path)


def test_from_and_to_torch() -> None:
    theirs = {
        "x": torch.randn(2, 3, requires_grad=True),
        "turned": torch.randn(2, 3).T,
        "half": torch.ones(2, dtype=torch.bfloat16),
        "nested": [torch.tensor(1), {"y": torch.tensor(True)}, "text"],
    }
    ours = gw.io.from_torch(theirs)
    np.testing.assert_array_equal(ours["x"].numpy(), theirs["x"].detach().numpy())
    assert ours["half"].dtype == gw.bfloat16
    assert ours["nested"][1]["y"].dtype == np.bool_
    assert ours["nested"][2] == "text"
    ours["x"].add_(1)  # a copy
    assert not np.array_equal(ours["x"].numpy(), theirs["x"].detach().numpy())
    back = gw.io.to_torch(ours)
    assert torch.equal(back["turned"], theirs["turned"])
    assert torch.equal(back["half"], theirs["half"])
    assert back["nested"][0].dtype == torch.int64
    assert gw.io.from_torch(gw.ones(1)).shape == (1,)
