"""Object code on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradwalk.compiler.backends.llvm.runtime import object_cache

KEY = object_cache.key_of("some", "text")
OBJECTS = [b"first object" * 100, b"", b"\0third\xff"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADWALK_CACHE", str(tmp_path / "cache"))
    object_cache._warn_once.cache_clear()
    return tmp_path / "cache"


def only_file(place: Path) -> Path:
    (path,) = place.iterdir()
    return path


def test_what_is_stored_is_loaded(place: Path) -> None:
    assert object_cache.load(KEY) is None
    object_cache.store(KEY, OBJECTS)
    assert object_cache.load(KEY) == OBJECTS
    assert object_cache.load(object_cache.key_of("another")) is None
    object_cache.store(KEY, [])
    assert object_cache.load(KEY) == []


def test_only_the_owner_may_look(place: Path) -> None:
    object_cache.store(KEY, OBJECTS)
    assert place.stat().st_mode & 0o777 == 0o700
    assert only_file(place).stat().st_mode & 0o777 == 0o600


def test_keys_tell_parts_apart() -> None:
    texts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc")]
    assert len({object_cache.key_of(*parts) for parts in texts}) == len(texts)


@pytest.mark.parametrize("length", [0, 1, 7, 39, 60, 500, -1])
def test_a_file_cut_short(place: Path, length: int) -> None:
    object_cache.store(KEY, OBJECTS)
    path = only_file(place)
    path.write_bytes(path.read_bytes()[:length])
    assert object_cache.load(KEY) is None
    assert not path.exists()
    object_cache.store(KEY, OBJECTS)
    assert object_cache.load(KEY) == OBJECTS


def test_any_byte_changed(place: Path) -> None:
    object_cache.store(KEY, OBJECTS)
    path = only_file(place)
    whole = path.read_bytes()
    for at in range(0, len(whole), 17):
        changed = bytearray(whole)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        assert object_cache.load(KEY) is None, at
    path.write_bytes(whole + b"more")
    assert object_cache.load(KEY) is None


def test_a_file_under_another_name(place: Path) -> None:
    other = object_cache.key_of("other")
    object_cache.store(KEY, OBJECTS)
    only_file(place).rename(place / f"{other}.objects")
    assert object_cache.load(other) is None


def test_no_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADWALK_CACHE", "")
    object_cache.store(KEY, OBJECTS)
    assert object_cache.directory() is None
    assert object_cache.load(KEY) is None
    assert not place.exists()


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRADWALK_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert object_cache.directory() == tmp_path / "xdg" / "gradwalk" / "objects"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the standard
    assert object_cache.directory() == tmp_path / ".cache" / "gradwalk" / "objects"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert object_cache.directory() == tmp_path / "Library" / "Caches" / "gradwalk" / "objects"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners")
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_directory_others_can_write_to(place: Path, mode: int) -> None:
    object_cache.store(KEY, OBJECTS)
    place.chmod(mode)
    with pytest.warns(RuntimeWarning, match="loading object code executes it"):
        assert object_cache.load(KEY) is None
    object_cache.store(object_cache.key_of("new"), OBJECTS)  # warned once is enough
    place.chmod(0o700)
    assert object_cache.load(KEY) == OBJECTS
    assert object_cache.load(object_cache.key_of("new")) is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners")
def test_a_directory_of_another_user(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    object_cache.store(KEY, OBJECTS)
    someone = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: someone)
    with pytest.warns(RuntimeWarning, match="another user"):
        assert object_cache.load(KEY) is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners")
def test_a_file_others_can_write_to(place: Path) -> None:
    object_cache.store(KEY, OBJECTS)
    only_file(place).chmod(0o666)
    assert object_cache.load(KEY) is None


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="no such links")
def test_a_link_is_not_followed(place: Path, tmp_path: Path) -> None:
    object_cache.store(KEY, OBJECTS)
    path = only_file(place)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert object_cache.load(KEY) is None


def test_a_place_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("GRADWALK_CACHE", str(tmp_path / "file" / "below"))
    object_cache.store(KEY, OBJECTS)
    assert object_cache.load(KEY) is None
    monkeypatch.setenv("GRADWALK_CACHE", str(tmp_path / "file"))
    object_cache.store(KEY, OBJECTS)
    assert object_cache.load(KEY) is None


def test_a_full_disk(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    object_cache.store(KEY, OBJECTS)
    assert list(place.iterdir()) == []


def test_the_least_recently_used_go_first(place: Path) -> None:
    keys = [object_cache.key_of(str(k)) for k in range(4)]
    for age, key in enumerate(keys):
        object_cache.store(key, [b"x" * 1000])
        old = time.time() - 1000 + age
        os.utime(place / f"{key}.objects", (old, old))
    assert object_cache.load(keys[0]) is not None  # and is thereby the youngest
    object_cache.sweep(place, limit=2500)
    assert [key in {p.stem for p in place.iterdir()} for key in keys] == [True, False, False, True]


def test_strays_of_the_killed_are_swept(place: Path) -> None:
    object_cache.store(KEY, OBJECTS)
    stray, fresh = place / f"{KEY}.1.aa.temporary", place / f"{KEY}.2.bb.temporary"
    stray.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(stray, (0, 0))
    object_cache.sweep(place)
    assert sorted(p.name for p in place.iterdir()) == sorted([f"{KEY}.objects", fresh.name])


WRITER = """
import sys
from gradwalk.compiler.backends.llvm.runtime import object_cache as cache
key = cache.key_of("shared")
seed, rounds = int(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
wanted = [bytes([7]) * 300_000]
seen = 0
while rounds:
    cache.store(key, wanted)
    found = cache.load(key)
    assert found in (None, wanted)
    seen += found is not None
    rounds -= 1
print(seen)
"""


def writer(rounds: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, "0", str(rounds)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def test_many_writers_of_one_key(place: Path) -> None:
    """Each sees a whole file, always: nobody reads what another has half written."""
    writers = [writer(40) for _ in range(4)]
    found = [process.communicate(timeout=60)[0].split() for process in writers]
    assert [process.returncode for process in writers] == [0] * 4
    assert [words[1] for words in found] == ["40"] * 4
    assert [p.suffix for p in place.iterdir()] == [".objects"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_a_killed_writer_leaves_a_usable_cache(place: Path) -> None:
    key = object_cache.key_of("shared")
    for pause in (0.001, 0.004, 0.01):
        process = writer(-1)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(pause)
        process.kill()
        process.wait()
        process.stdout.close()
        assert object_cache.load(key) in (None, [bytes([7]) * 300_000])
    object_cache.store(key, OBJECTS)
    assert object_cache.load(key) == OBJECTS


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such files")
def test_a_pipe_where_a_file_should_be(place: Path) -> None:
    object_cache.store(KEY, OBJECTS)
    path = only_file(place)
    path.unlink()
    os.mkfifo(path, 0o600)
    assert object_cache.load(KEY) is None  # and does not wait for a writer
    object_cache.store(KEY, OBJECTS)
    assert object_cache.load(KEY) == OBJECTS


COMPILES = """
import gradwalk as gw
print("ready", flush=True)
step = gw.compile(lambda x: (x.exp() @ x.T).softmax(-1).sum(0).log())
print(step(gw.ones(7, 7)).tolist() == [0.0] * 7, step.newest.executable.library.compiled > 0)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_killed_while_compiling_and_two_at_once(place: Path) -> None:
    """The next process finds a usable cache, and so do two that compile the same together."""

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", COMPILES], stdout=-1, text=True)

    for pause in (0.05, 0.2):
        killed = start()
        assert killed.stdout is not None
        killed.stdout.readline()
        time.sleep(pause)
        killed.kill()
        killed.communicate()
    both = [start(), start()]
    for process in both:
        found, _ = process.communicate(timeout=120)
        assert found.split()[1] == "True" and process.returncode == 0
    assert start().communicate(timeout=120)[0].split()[1:] == ["True", "False"]  # from the cache
    for path in place.glob("*.objects"):
        path.write_bytes(path.read_bytes()[:-7])
    assert start().communicate(timeout=120)[0].split()[1:] == ["True", "True"]  # made anew


OUT_OF_MEMORY = """
import resource
import gradwalk as gw

small = gw.compile(lambda x: x.tanh().sum())
large = gw.compile(lambda x: (x.expand(500_000_000).exp().cumsum(0) * 2).sum())
before = small(gw.ones(7)).item()
_, most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (2**31, most))
try:
    large(gw.ones(1))
except MemoryError:
    print(small(gw.ones(7)).item() == before, gw.compile(lambda x: x * 3)(gw.ones(1)).item())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits differ")
def test_a_process_without_memory_for_a_program_goes_on() -> None:
    found = subprocess.run(
        [sys.executable, "-c", OUT_OF_MEMORY], capture_output=True, text=True, timeout=120
    )
    assert found.stdout.split() == ["True", "3.0"], found.stderr
