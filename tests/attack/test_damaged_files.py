"""Damaged and hostile files: every reader refuses them with our error, a name and a fix.

Nothing is executed and no memory is taken for what a file only claims.
"""

from __future__ import annotations

import io
import json
import os
import random
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.io import FileError, safetensors_files
from gradwalk.io.npz import LIMIT
from gradwalk.io.safetensors_files import MOST_TENSORS, read, write
from gradwalk.studio.sessions import Sessions

TRIALS = int(os.environ.get("GRADWALK_TRIALS", "120"))  # of each kind of file and of damage
MEGABYTE = 1 << 20


def model() -> Any:
    return gw.nn.Linear(3, 2)


def npz(compressed: bool = False) -> bytes:
    out = io.BytesIO()
    arrays = {"a": np.arange(12.0), "b": np.zeros((4, 4), "f4"), "c": np.array(3)}
    (np.savez_compressed if compressed else np.savez)(out, **arrays)
    return out.getvalue()


@cache
def good() -> dict[str, bytes]:
    """One good file of each kind."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "file"

        def content(save: Callable[[], object]) -> bytes:
            save()
            return path.read_bytes()

        state = {"b": gw.ones(2, 2), "a": gw.tensor([1, 2, 3]), "empty": gw.zeros(0, 3)}
        linear = model()
        optimizer = gw.optim.AdamW(linear.parameters())
        with gw.record() as trace:
            linear(gw.ones(20, 3)).tanh().sum().backward()
        optimizer.step()
        notes = {"best": [1.5, None], 3: (1, "x")}
        parts = {"model": linear, "optimizer": optimizer, "notes": notes}
        return {
            "state": content(lambda: gw.save(state, path)),
            "run": content(lambda: gw.save_run(path, **parts)),
            "trace": content(lambda: gw.save_trace(trace, path)),
            "npz": npz(),
            "compressed": npz(compressed=True),
            "ours": content(lambda: gw.io.save_npz(state, path, compressed=True)),
        }


def load_run(path: Path) -> Any:
    linear = model()
    return gw.load_run(path, model=linear, optimizer=gw.optim.AdamW(linear.parameters()))


READERS: dict[str, Callable[[Path], Any]] = {
    "state": gw.load,
    "run": load_run,
    "trace": gw.load_trace,
    "npz": gw.io.load_npz,
    "compressed": gw.io.load_npz,
    "ours": gw.io.load_npz,
}
every_kind = pytest.mark.parametrize("kind", READERS)


def refused_or_read(load: Callable[[Path], Any], path: Path) -> bool:
    """Whether it is refused; another error than ours fails the test."""
    try:
        load(path)
    except FileError as error:
        assert str(path) in str(error) and "Fix:" in str(error), error
        return True
    return False


def damaged(content: bytes, source: random.Random) -> bytes:
    """Cut, flipped, overwritten, spliced with another kind of file, or with a hole."""
    changed = bytearray(content)
    at = source.randrange(len(changed))
    match source.randrange(6):
        case 0:
            del changed[at:]
        case 1:
            for _ in range(source.choice([1, 1, 2, 8])):
                changed[source.randrange(len(changed))] ^= 1 << source.randrange(8)
        case 2:
            changed[at : at + source.randrange(1, 64)] = source.randbytes(source.randrange(64))
        case 3:
            other = source.choice(list(good().values()))
            begin = source.randrange(len(other))
            piece = other[begin : begin + source.randrange(1, 300)]
            changed[at : at + len(piece)] = piece
        case 4:
            size = source.choice([1, 2, 4, 8])
            changed[at : at + size] = source.choice([b"\xff" * size, b"\0" * size, b"9" * 20])
        case _:
            del changed[at : at + source.randrange(1, 100)]
    return bytes(changed)


@every_kind
def test_random_damage(kind: str, tmp_path: Path) -> None:
    source, content, path = random.Random(kind), good()[kind], tmp_path / "file"
    path.write_bytes(content)
    assert not refused_or_read(READERS[kind], path)
    refused = 0
    with limited_memory():
        for _ in range(TRIALS):
            path.write_bytes(damaged(content, source))
            refused += refused_or_read(READERS[kind], path)
    assert refused > 0.8 * TRIALS


@every_kind
def test_every_file_is_refused_by_the_readers_of_others(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for other, content in good().items():
        path.write_bytes(content)
        same = READERS[other] is READERS[kind] or (other, kind) == ("trace", "state")
        assert refused_or_read(READERS[kind], path) != same, other


@pytest.mark.parametrize("kind", ["npz", "compressed", "ours"])
def test_damaged_lists_of_entries(kind: str, tmp_path: Path) -> None:
    """Zip files, damaged where the sizes, offsets and methods of their entries are."""
    source, content, path = random.Random(kind), good()[kind], tmp_path / "file"
    places = [at for at in range(len(content)) if content[at : at + 2] == b"PK"]
    with limited_memory():
        for _ in range(TRIALS):
            changed = bytearray(content)
            for _ in range(source.choice([1, 1, 2, 4])):
                at = source.choice(places) + source.randrange(46)
                if at < len(changed):
                    changed[at] = source.choice([0, 1, 12, 14, 127, 128, 255])
            path.write_bytes(changed)
            refused_or_read(READERS[kind], path)


# -- descriptions that are well-formed and wrong ---------------------------------------------------

VALUES: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63, 2**64, 10**30, 1e300, -0.5, "", "x", "float32", "O",
    "V99999999", "f8,", [], [[]], {}, [1, 2], {"$": "tuple"}, {"$": "tensor", "name": "x"},
    {"$": "dict", "items": [[1]]}, {"array": "nothing"}, {"small": [1], "shape": [2**40],
    "dtype": "f4"}, {"small": [], "shape": [0, 2**62], "dtype": "f8"}, {"integer": "9" * 6000},
    {"float": "nan"}, {"slice": [1, 2, 3, 4]}, {"dtype": "O"}, {"op": "nothing"},
    {"dict": [[[], 1]]}, {"statistics": {}}, [0, 0], [[0, 0]], [2**62] * 4,
]  # fmt: skip


def changed_somewhere(tree: Any, source: random.Random) -> Any:
    """The same JSON with one value replaced, removed or doubled."""
    tree = json.loads(json.dumps(tree))
    spots: list[tuple[Any, Any]] = []

    def visit(inside: Any) -> None:
        keys = inside if isinstance(inside, dict) else range(len(inside))
        for key in list(keys):
            spots.append((inside, key))
            if isinstance(inside[key], (dict, list)):
                visit(inside[key])

    visit(tree)
    inside, key = source.choice(spots)
    match source.randrange(4):
        case 0:
            del inside[key]
        case 1 if isinstance(inside, list):
            inside.append(inside[key])
        case 2:
            inside[key] = source.choice(source.choice(spots)[0:1])
        case _:
            inside[key] = source.choice(VALUES)
    return tree


@pytest.mark.parametrize(("kind", "key"), [("run", "tree"), ("trace", "gradwalk_trace")])
def test_damaged_descriptions(
    kind: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the right checksum: the reader itself must notice."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # half of the time
    source, path = random.Random(kind), tmp_path / "file"
    path.write_bytes(good()[kind])
    arrays, metadata = read(path)
    tree = json.loads(metadata[key])
    del metadata["checksum"]
    with limited_memory():
        for _ in range(TRIALS):
            try:
                text = json.dumps(changed_somewhere(tree, source))
            except ValueError:  # it holds itself
                continue
            write(path, arrays, {**metadata, key: text})
            refused_or_read(READERS[kind], path)


def with_header(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def test_damaged_headers(tmp_path: Path) -> None:
    source, path = random.Random(0), tmp_path / "file"
    content = good()["state"]
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header.pop("__metadata__")
    with limited_memory():
        for _ in range(TRIALS):
            try:
                path.write_bytes(with_header(changed_somewhere(header, source), content[end:]))
            except ValueError:
                continue
            refused_or_read(gw.load, path)


def test_deep_json_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for depth in (500, 5_000, 200_000):
        for deep in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
            for key, version, load in (
                ("tree", {"gradwalk_run": "1"}, load_run),
                ("gradwalk_trace", {}, gw.load_trace),
            ):
                write(path, {}, {key: deep, **version})
                assert refused_or_read(load, path)
            path.write_bytes(with_header(deep.encode()))
            assert all(refused_or_read(load, path) for load in READERS.values())


def test_a_header_as_long_as_a_pickle_begins(tmp_path: Path) -> None:
    """640 is 80 02 in bytes, the beginning of a pickle."""
    lengths = set()
    for length in range(400, 640, 8):
        gw.save({"x" * length: gw.ones(1)}, tmp_path / "file")
        lengths.add(int.from_bytes((tmp_path / "file").read_bytes()[:8], "little"))
        assert len(gw.load(tmp_path / "file")) == 1
    assert 640 in lengths


# -- memory ----------------------------------------------------------------------------------------


@contextmanager
def limited_memory(most: int = 64 * MEGABYTE) -> Iterator[None]:
    """Fail if the block takes more, even for a moment. NumPy reports its arrays, too."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def npy(shape: str, data: bytes = b"", dtype: str = "<f8", version: int = 1) -> bytes:
    header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    size = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + data


def zipped(*entries: tuple[str, bytes], method: int = 0, size: int | None = None) -> bytes:
    """A zip file made by hand; `size` is what it claims of each entry."""
    body, listed = b"", b""
    for name, content in entries:
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        data = content if method == 0 else packer.compress(content) + packer.flush()
        claimed = len(content) if size is None else size
        facts = struct.pack(
            "<HHHHHIIIHH", 20, 0, method, 0, 33, zlib.crc32(content), len(data), claimed,
            len(name), 0,
        )  # fmt: skip
        rest = struct.pack("<HHHII", 0, 0, 0, 0, len(body))
        listed += b"PK\x01\x02" + struct.pack("<H", 20) + facts + rest + name.encode()
        body += b"PK\x03\x04" + facts + name.encode() + data
    end = struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(listed), len(body), 0)
    return body + listed + b"PK\x05\x06" + end


def test_the_zip_files_made_by_hand_are_right(tmp_path: Path) -> None:
    numbers = np.arange(3.0).tobytes()
    for method in (0, 8):
        (tmp_path / "file").write_bytes(zipped(("x.npy", npy("(3,)", numbers)), method=method))
        assert gw.io.load_npz(tmp_path / "file")["x"].tolist() == [0, 1, 2]


def test_a_file_that_unpacks_to_gigabytes(tmp_path: Path) -> None:
    """Zeros pack a thousandfold."""
    path = tmp_path / "bomb.npz"
    one = npy(f"({2 * MEGABYTE},)", bytes(16 * MEGABYTE))
    path.write_bytes(zipped(*((f"x{i}.npy", one) for i in range(2)), method=8))
    with (
        limited_memory(8 * MEGABYTE),
        pytest.raises(FileError, match=r"unpacks to .* Fix: .*limit="),
    ):
        gw.io.load_npz(path, limit=30 * MEGABYTE)
    assert len(gw.io.load_npz(path, limit=40 * MEGABYTE)) == 2
    assert LIMIT == 1 << 30
    # And one that claims, entry by entry, what the default does not allow.
    path.write_bytes(zipped(*((f"x{i}.npy", npy("(1,)")) for i in range(3)), size=LIMIT // 2))
    with limited_memory(), pytest.raises(FileError, match="unpacks to"):
        gw.io.load_npz(path)
    # Not compressed, it is as large as it is: no limit.
    gw.io.save_npz({"x": gw.zeros(1000)}, path)
    assert len(gw.io.load_npz(path, limit=0)) == 1


NPY = {
    "a huge shape": npy("(1 << 40,)"),
    "terabytes": npy("(1000000000000,)"),
    "more than can be counted": npy("(9999999999999999999, 9999999999999999999)"),
    "a product that wraps": npy("(4294967296, 4294967296)"),
    "negative": npy("(-1,)", bytes(8)),
    "negative twice": npy("(-1, -1)", bytes(8)),
    "no numbers": npy("('a',)"),
    "fractions": npy("(1.0,)", bytes(8)),
    "too short": npy("(3,)", bytes(16)),
    "too long": npy("(3,)", bytes(32)),
    "objects": npy("(1,)", b"\x80\x04N.", "|O"),
    "records": npy("(1,)", bytes(8), "<f8,<f8"),
    "texts": npy("(1,)", bytes(8), "<U2"),
    "empty items": npy("(99999999,)", b"", "<V0"),
    "deep": npy("(" * 3000 + ")" * 3000),
    "deep minus": npy("-" * 5000 + "1"),
    "a call": npy("__import__('os').system('touch executed')"),
    "another version": npy("(1,)", bytes(8), version=2)[:6] + b"\x09\x00" + bytes(40),
    "a long header": npy("(" + "1," * 40_000 + ")", version=2),
    "nothing": b"",
    "not an array": b"hello",
}


@pytest.mark.parametrize("content", NPY.values(), ids=NPY)
def test_hostile_arrays(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file.npz"
    for method in (0, 8):
        for size in (None, 100, 900_000_000, 2**32 - 2):
            path.write_bytes(zipped(("x.npy", content), method=method, size=size))
            with limited_memory(32 * MEGABYTE):
                assert refused_or_read(gw.io.load_npz, path)
    assert os.listdir(tmp_path) == ["file.npz"]


def test_claims_that_the_content_does_not_keep(tmp_path: Path) -> None:
    """900 MB by the list of entries and by the header of the array, and 1 KB in truth."""
    path = tmp_path / "file.npz"
    lie = npy("(112500000,)", bytes(1000))
    size = len(lie) - 1000 + 900_000_000
    for method in (0, 8):
        path.write_bytes(zipped(("x.npy", lie), method=method, size=size))
        # NumPy asks the system for the memory, which it never touches.
        assert refused_or_read(gw.io.load_npz, path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions(method: int, tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("x.npy", npy(f"({2 * MEGABYTE},)", bytes(16 * MEGABYTE)))
    with limited_memory(8 * MEGABYTE), pytest.raises(FileError, match="savez_compressed"):
        gw.io.load_npz(path)


def test_files_that_never_end(tmp_path: Path) -> None:
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(1 << 40)
    os.mkfifo(tmp_path / "pipe")
    for path in (sparse, tmp_path / "pipe", Path("/dev/zero")):
        with limited_memory(8 * MEGABYTE):
            assert all(refused_or_read(load, path) for load in READERS.values())
            with pytest.raises(FileError):
                Sessions().open(path)
    claims = {"x": {"dtype": "U8", "shape": [1 << 39], "data_offsets": [0, 1 << 39]}}
    sparse.write_bytes(with_header(claims))
    for load in (gw.load, gw.load_trace, load_run):
        assert refused_or_read(load, sparse)


# -- very many tensors -----------------------------------------------------------------------------


def test_very_many_tensors_are_refused_before_they_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "many"
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    header = {f"layer.{i}": entry for i in range(300_000)}
    path.write_bytes(with_header(header, bytes(4)))
    parsed: list[Any] = []
    monkeypatch.setattr(safetensors_files.json, "loads", lambda *a, **_: parsed.append(a))
    for load in (gw.load, gw.load_trace, load_run):
        with pytest.raises(FileError, match=f"300,000 tensors, and {MOST_TENSORS:,} are allowed"):
            load(path)
    assert not parsed


def test_the_limit_of_tensors_can_be_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "some"
    state = {f"x{i}": gw.full((1,), i) for i in range(20)}
    gw.save(state, path)
    with pytest.raises(FileError, match="most_tensors="):
        gw.load(path, most_tensors=19)
    assert len(gw.load(path, most_tensors=20)) == 20
    monkeypatch.setattr(safetensors_files, "MOST_TENSORS", 19)
    before = path.read_bytes()
    for save in (lambda: gw.save(state, path), lambda: gw.save_run(path, state=state)):
        with pytest.raises(ValueError, match=r"is not saved: .*Fix: "):
            save()
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["some"]


def test_a_header_too_long_to_be_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safetensors_files, "LONGEST_HEADER", 1000)
    with pytest.raises(ValueError, match=r"room for 1,000. Fix: "):
        gw.save({"x" * 2000: gw.ones(1)}, tmp_path / "file")
    assert os.listdir(tmp_path) == []
