"""Object code on disk is never run if it is damaged or if others could have written it."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradwalk.compiler.backends.llvm import target
from gradwalk.compiler.backends.llvm.runtime import object_cache, object_code

KEY = object_cache.key_of("some", "text")
OBJECTS = [b"first object" * 40, b"", b"\0third\xff"]
TEXT = "define i64 @answer() {\n  ret i64 42\n}\n"
owners = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners")
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADWALK_CACHE", str(tmp_path / "above" / "cache"))
    object_cache._warn_once.cache_clear()
    return tmp_path / "above" / "cache"


def damaged(content: bytes, source: random.Random) -> bytes:
    changed = bytearray(content)
    at = source.randrange(len(changed))
    kind = source.randrange(5)
    if kind == 0:
        del changed[at:]
    elif kind == 1:
        changed[at] ^= 1 << source.randrange(8)
    elif kind == 2:
        changed[at : at + source.randrange(40)] = source.randbytes(source.randrange(40))
    elif kind == 3:
        changed[at : at + 8] = source.choice([b"\xff" * 8, b"\0" * 8, b"\xff" * 7 + b"\x7f"])
    else:
        del changed[at : at + source.randrange(1, 60)]
    return bytes(changed)


def test_2500_damaged_files_are_absent(place: Path) -> None:
    object_cache.store(KEY, OBJECTS)
    path = place / f"{KEY}.objects"
    whole, source = path.read_bytes(), random.Random(0)
    for trial in range(2500):
        content = damaged(whole, source)
        path.write_bytes(content)
        path.chmod(0o600)
        expected = OBJECTS if content == whole else None
        assert object_cache.load(KEY) == expected, trial


def test_a_right_checksum_of_anything_is_no_error(place: Path) -> None:
    """Whatever was written with a checksum that fits: another version's file, for example."""
    object_cache.store(KEY, OBJECTS)
    path = place / f"{KEY}.objects"
    whole, source = path.read_bytes(), random.Random(1)
    for _ in range(500):
        body = damaged(whole[40:], source)
        path.write_bytes(b"gradwalk" + hashlib.sha256(body).digest() + body)
        path.chmod(0o600)
        found = object_cache.load(KEY)
        assert found is None or all(isinstance(part, bytes) for part in found)


def compiled() -> Any:
    return object_code._load_or_compile([TEXT], ["answer"], [], {}, threads=1)


def test_damage_is_compiled_again(place: Path) -> None:
    import ctypes

    assert compiled().compiled == 1
    assert compiled().compiled == 0
    (path,) = place.iterdir()
    whole, source = path.read_bytes(), random.Random(2)
    for _ in range(60):
        content = damaged(whole, source)
        path.write_bytes(content)
        library = compiled()
        assert library.compiled == (content != whole)
        assert library.function("answer", ctypes.c_int64)() == 42
        assert path.read_bytes() == whole


def test_the_key_has_all_that_code_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(object_cache, "load", asked.append)
    monkeypatch.setattr(object_cache, "store", lambda *_: None)
    host = target.host()
    compiled()
    for change in ("triple", "cpu", "features", "llvm_version"):
        other = dataclasses.replace(host, **{change: "another"})
        with monkeypatch.context() as patched:
            patched.setattr(target, "host", lambda other=other: other)
            patched.setattr(object_code, "_generate", lambda *_: [])
            patched.setattr(object_code, "_link", lambda *_: object_code.Library({}, []))
            compiled()
    monkeypatch.setattr(object_code, "_version", lambda: "99.0")
    compiled()
    monkeypatch.setattr(object_cache, "FORMAT", 99)
    compiled()
    assert len(asked) == len(set(asked)) == 7


@owners
def test_it_is_made_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADWALK_CACHE", str(tmp_path / "a" / "b" / "c"))
    before = os.umask(0)
    try:
        object_cache.store(KEY, OBJECTS)
    finally:
        os.umask(before)
    for folder in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"):
        assert folder.stat().st_mode & 0o7777 == 0o700
    assert (tmp_path / "a" / "b" / "c" / f"{KEY}.objects").stat().st_mode & 0o7777 == 0o600


def refused(place: Path, named: Path) -> None:
    """Neither read nor written, with one warning that names the folder and a fix."""
    files = sorted(place.iterdir()) if place.is_dir() else None
    other = object_cache.key_of("other")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert object_cache.load(KEY) is None
            object_cache.store(other, OBJECTS)
    assert len(caught) == 1, [str(w.message) for w in caught]
    message = str(caught[0].message)
    assert f"{named} belongs to another user or others can write" in message and "Fix:" in message
    assert (sorted(place.iterdir()) if place.is_dir() else None) == files
    object_cache._warn_once.cache_clear()


@owners
@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o775, 0o770])
def test_a_folder_above_that_others_can_write_to(place: Path, mode: int) -> None:
    object_cache.store(KEY, OBJECTS)
    place.parent.chmod(mode)
    refused(place, place.parent)
    place.parent.chmod(mode | 0o1000)  # sticky, like /tmp: others cannot replace what is ours
    assert object_cache.load(KEY) == OBJECTS
    place.chmod(mode | 0o1000)  # of no help for the folder itself: others could add files
    refused(place, place)


@owners
def test_nothing_is_made_below_a_folder_that_others_can_write_to(
    tmp_path: Path, place: Path
) -> None:
    place.parent.mkdir()
    place.parent.chmod(0o777)
    refused(place, place.parent)
    assert not place.exists()


@as_root
def test_folders_and_links_of_another_user(tmp_path: Path, place: Path) -> None:
    object_cache.store(KEY, OBJECTS)
    for folder in (place, place.parent):
        os.chown(folder, 12345, -1)
        refused(place, folder)
        os.chown(folder, 0, -1)
    path = place / f"{KEY}.objects"
    os.chown(path, 12345, -1)
    assert object_cache.load(KEY) is None
    os.chown(path, 0, -1)
    assert object_cache.load(KEY) == OBJECTS


@owners
def test_links_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    object_cache.store(KEY, OBJECTS)
    link, second = tmp_path / "link", tmp_path / "second"
    link.symlink_to(place.parent)
    second.symlink_to("link/../link")
    monkeypatch.setenv("GRADWALK_CACHE", str(second / "cache"))
    assert object_cache.load(KEY) == OBJECTS
    through = tmp_path / "open"  # a link to a link in a folder that others can write to
    through.mkdir()
    (through / "link").symlink_to(place.parent)
    link.unlink()
    link.symlink_to(through / "link")
    through.chmod(0o777)
    refused(place, through)
    link.unlink()
    link.symlink_to("second")
    assert object_cache.load(KEY) is None  # a circle
    object_cache.store(KEY, OBJECTS)


def other_things(path: Path, elsewhere: Path) -> list[Callable[[], object]]:
    return [
        lambda: path.symlink_to(elsewhere),
        lambda: path.symlink_to(path.name),
        lambda: path.mkdir(),
        lambda: os.mkfifo(path),
        lambda: path.symlink_to("/dev/zero"),
        lambda: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), 1 << 40),
    ]


@owners
@pytest.mark.parametrize("number", range(6))
def test_what_is_no_file_of_ours_is_not_read(place: Path, tmp_path: Path, number: int) -> None:
    object_cache.store(KEY, OBJECTS)
    path = place / f"{KEY}.objects"
    path.rename(tmp_path / "elsewhere")
    other_things(path, tmp_path / "elsewhere")[number]()
    assert object_cache.load(KEY) is None
    object_cache.store(KEY, OBJECTS)
    if not path.is_dir():
        assert object_cache.load(KEY) == OBJECTS
        assert not path.is_symlink()
    assert {p.suffix for p in place.iterdir()} == {".objects"}


FULL = """
import resource, sys
from gradwalk.compiler.backends.llvm.runtime import object_cache
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
object_cache.store("key", [b"x" * 300_000])
print(object_cache.load("key"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits differ")
def test_a_disk_without_room(place: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", FULL], capture_output=True, text=True, timeout=120
    )
    assert found.stdout.split() == ["None"] and not found.stderr
    assert list(place.iterdir()) == []
