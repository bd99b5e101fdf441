"""Saving: links, rights, long names, several writers, kills, and disks that refuse."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import gradwalk as gw
from gradwalk.inspect.trace.recorder import record
from gradwalk.io import atomic
from gradwalk.io.atomic import previous_of, write_atomically, writing

posix = pytest.mark.skipif(os.name != "posix", reason="no such rights")
pytestmark = posix
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def saved_trace(path: Path) -> None:
    a = gw.Value(3.0, label="a")
    gw.save_trace(record(a * a), path)


def picture(path: Path) -> None:
    """What `Picture.save` writes, under any name."""
    a = gw.Value(3.0, label="a")
    write_atomically(path, [gw.show(a * a).svg().encode()])


WRITERS: dict[str, Callable[[Path], object]] = {
    "save": lambda path: gw.save({"x": gw.ones(2)}, path),
    "save_run": lambda path: gw.save_run(path, step=1, x=gw.ones(2)),
    "save_npz": lambda path: gw.io.save_npz({"x": gw.ones(2)}, path),
    "save_trace": saved_trace,
    "export": lambda path: gw.studio.export(gw.Value(3.0, label="a") * 2, path),
    "picture": picture,
}
every_writer = pytest.mark.parametrize("save", WRITERS.values(), ids=WRITERS)


def names(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if not name.endswith(".previous"))


# -- links -------------------------------------------------------------------------------------


@every_writer
def test_a_link_stays_and_its_target_is_written(
    tmp_path: Path, save: Callable[[Path], object]
) -> None:
    (tmp_path / "far").mkdir()
    target = tmp_path / "far" / "target"
    for number, lead in enumerate([target, "far/target", "first", tmp_path / "far" / "absent"]):
        link = tmp_path / ("first" if number == 1 else f"link{number}")
        link.symlink_to(lead)
        save(link)
        assert link.is_symlink() and os.readlink(link) == str(lead)
        assert link.resolve().is_file() and link.resolve().parent == tmp_path / "far"
    assert names(tmp_path / "far") == ["absent", "target"]
    assert names(tmp_path) == ["far", "first", "link0", "link2", "link3"]


@every_writer
def test_links_that_lead_nowhere(tmp_path: Path, save: Callable[[Path], object]) -> None:
    for a, b in (("a", "b"), ("b", "c"), ("c", "a"), ("self", "self")):
        (tmp_path / a).symlink_to(b)
    for name in ("a", "self"):
        with pytest.raises(OSError, match=r"circle.*Fix:.*") as caught:
            save(tmp_path / name)
        assert caught.value.errno == errno.ELOOP and caught.value.filename == str(tmp_path / name)
    (tmp_path / "lost").symlink_to("no/such/folder/file")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*no/such/folder.*Fix:"):
        save(tmp_path / "lost")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to folder").symlink_to("folder")
    with pytest.raises(IsADirectoryError, match="Fix: name a file in it"):
        save(tmp_path / "to folder")
    assert names(tmp_path) == ["a", "b", "c", "folder", "lost", "self", "to folder"]


def test_the_previous_checkpoint_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "latest").symlink_to("far/run")
    for step in range(3):
        gw.save_run(tmp_path / "latest", step=step)
    assert gw.load_run(tmp_path / "latest") == {"step": 2}
    assert gw.load_run(previous_of(tmp_path / "latest")) == {"step": 1}
    assert sorted(os.listdir(tmp_path / "far")) == ["run", "run.previous"]


@pytest.mark.skipif(not ROOT, reason="only root gives files away")
def test_a_link_that_another_user_planted(tmp_path: Path) -> None:
    shared, mine = tmp_path / "shared", tmp_path / "mine"
    shared.mkdir()
    shared.chmod(0o1777)
    os.chown(shared, 23456, -1)
    mine.write_bytes(b"old")
    for name, owner in (("theirs", 12345), ("ours", 0), ("the folder's", 23456)):
        (shared / name).symlink_to(mine)
        os.lchown(shared / name, owner, -1)
    with pytest.raises(PermissionError, match=r"another user's.*Fix: save under another name"):
        gw.save({"x": gw.ones(1)}, shared / "theirs")
    assert mine.read_bytes() == b"old"
    for name in ("ours", "the folder's"):
        gw.save({"x": gw.ones(1)}, shared / name)
        assert len(gw.load(mine)) == 1


def test_a_lock_of_another_does_not_stop_a_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    create = atomic._create
    others: list[int] = []

    def created(partial: Path, mode: int) -> int:
        handle = create(partial, mode)
        others.append(os.open(partial, os.O_RDONLY))
        fcntl.flock(others[-1], fcntl.LOCK_EX)
        return handle

    monkeypatch.setattr(atomic, "_create", created)
    write_atomically(tmp_path / "file", [b"new"])
    for handle in others:
        os.close(handle)
    assert len(others) > 1 and os.listdir(tmp_path) == ["file"]


def test_devices_and_pipes_are_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    gw.save({"x": gw.ones(2)}, pipe)
    reader.join()
    assert len(got[0]) > 60 and stat.S_ISFIFO(pipe.stat().st_mode)
    for device in ("/dev/null", "/dev/full"):
        (tmp_path / "device").unlink(missing_ok=True)
        (tmp_path / "device").symlink_to(device)
        if device == "/dev/null":
            gw.save({"x": gw.ones(2)}, tmp_path / "device")
        else:
            with pytest.raises(OSError, match="the disk is full"):
                gw.save({"x": gw.ones(2)}, tmp_path / "device")
        assert stat.S_ISCHR(os.stat(device).st_mode)


# -- rights ------------------------------------------------------------------------------------


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@every_writer
def test_rights_are_kept_and_new_files_have_those_of_the_umask(
    tmp_path: Path, save: Callable[[Path], object]
) -> None:
    path = tmp_path / "file"
    for mask in (0o077, 0o022, 0o002):
        path.unlink(missing_ok=True)
        with umask(mask):
            save(path)
            assert mode(path) == 0o666 & ~mask
            for kept in (0o600, 0o640, 0o664, 0o444, 0o755, 0o666, 0o400, 0o2644):
                path.chmod(kept)
                save(path)
                assert mode(path) == kept
    assert names(tmp_path) == ["file"]


def test_the_content_is_private_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o600)
    with umask(0), writing(path) as file:
        file.write(b"secret")
        assert all(mode(p) == 0o600 for p in tmp_path.iterdir())


def test_the_previous_file_keeps_its_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"

    def no_links(*_: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    for linked in (True, False):
        if not linked:
            monkeypatch.setattr(os, "link", no_links)
        for step in range(2):
            gw.save_run(path, step=step)
            path.chmod(0o600)
        assert mode(path) == mode(previous_of(path)) == 0o600
        assert gw.load_run(previous_of(path)) == {"step": 0}
    assert sorted(os.listdir(tmp_path)) == ["run", "run.previous"]


@pytest.mark.skipif(not ROOT, reason="only root gives files away")
def test_owner_and_group_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    gw.save({"x": gw.ones(1)}, path)
    facts = path.stat()
    assert (facts.st_uid, facts.st_gid, mode(path)) == (12345, 23456, 0o640)
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chown(shared, -1, 34567)
    shared.chmod(0o2775)
    gw.save({"x": gw.ones(1)}, shared / "new")
    assert (shared / "new").stat().st_gid == 34567


def test_another_group_gets_no_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that we may replace, and whose owner and group we may not set."""
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o2664)
    real = os.fstat

    def facts_of_another(handle: int) -> Any:
        facts = list(real(handle))
        facts[stat.ST_GID] += 1
        return os.stat_result(facts)

    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(os, "fstat", facts_of_another)
    monkeypatch.setattr(os, "fchown", refuse)
    write_atomically(path, [b"new"])
    assert mode(path) == 0o644


# -- names -------------------------------------------------------------------------------------

LONGEST = {
    "letters": "a" * 255,
    "two bytes": "é" * 127,
    "three bytes": "語" * 85,
    "four bytes": "🙂" * 63 + "abc",
    "with an end": "a" * 243 + ".safetensors",
    "246": "a" * 246,
    "247": "é" * 123 + "a",
    "patterns": "[*]?.partial" * 21,
}


@pytest.mark.parametrize("name", LONGEST.values(), ids=LONGEST)
def test_names_up_to_the_limit(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for save in WRITERS.values():
        save(path)
        assert names(tmp_path) == [name]
    for step in range(3):
        gw.save_run(path, step=step)
    assert gw.load_run(path) == {"step": 2}
    assert gw.load_run(previous_of(path)) == {"step": 1}
    path.write_bytes(b"damaged")
    with pytest.raises(gw.io.FileError, match="saved before it is still there"):
        gw.load_run(path)


def test_a_path_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path
    while len(os.fsencode(path)) + 201 + 101 < 4095:
        path /= "d" * 200
    path.mkdir(parents=True)
    path /= "f" * (4095 - len(os.fsencode(path)) - 1)
    gw.save({"x": gw.ones(1)}, path)
    assert list(gw.load(path)) == ["x"]
    with pytest.raises(OSError, match=r"too long.*Fix"):
        gw.save({"x": gw.ones(1)}, path.with_name(path.name + "f"))


# -- several writers ---------------------------------------------------------------------------


def partial_files(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".partial")]


def test_a_live_writer_is_left_alone_and_a_dead_one_swept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with writing(path) as first:
        first.write(b"first")
        first.flush()
        write_atomically(path, [b"second"])  # sweeps, and finds it held
        assert path.read_bytes() == b"second" and len(partial_files(tmp_path)) == 1
        with writing(path) as third:
            third.write(b"third")
            assert len(partial_files(tmp_path)) == 2
    assert path.read_bytes() == b"first"
    left = [
        tmp_path / ".file.1-0a.held.partial", tmp_path / ".file.1-0a.kept.partial",
        tmp_path / ".file.2-0b.kept.partial",
    ]  # fmt: skip
    mine = [tmp_path / ".file.notes.partial", tmp_path / ".file2.1-0a.held.partial"]
    for other in left + mine:
        other.write_bytes(b"half")
    left[0].chmod(0o400)
    write_atomically(path, [b"fourth"])
    assert sorted(partial_files(tmp_path)) == sorted(p.name for p in mine)


SAVES = """
import os, sys
import gradwalk as gw
print("ready", flush=True)
for step in range(int(sys.argv[2])):
    gw.save_run(sys.argv[1], step=step, x=gw.ones(20_000))
"""


def saving(path: Path, count: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", SAVES, str(path), str(count)]
    return subprocess.Popen(arguments, stdout=-1, stderr=-1, text=True)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
@pytest.mark.slow
def test_writers_at_once_and_killed_leave_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run"
    together = [saving(path, 60) for _ in range(3)]
    for process in together:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert sorted(os.listdir(tmp_path)) == ["run", "run.previous"]
    assert gw.load_run(path)["step"] < 60
    process = None
    for round in range(12):
        process = saving(path, 10_000)
        assert process.stdout is not None
        process.stdout.readline()
        threading.Event().wait(0.003 * round)
        process.kill()
        process.communicate()
        assert gw.load_run(path)["step"] >= 0
    gw.save_run(path, step=0)
    assert sorted(os.listdir(tmp_path)) == ["run", "run.previous"]


KILLED = """
import os, sys
from pathlib import Path
from gradwalk.io import atomic

def die(*_):
    os.kill(os.getpid(), 9)

at, name, path = sys.argv[1], sys.argv[2], Path(sys.argv[3])
before = getattr(os, name)
count = 0
def dies(*args, **options):
    global count
    count += 1
    if count == int(at):
        die()
    return before(*args, **options)
setattr(os, name, dies)
atomic.write_atomically(path, [b"new" * 1000], keep_previous=True)
"""


@pytest.mark.parametrize(
    ("call", "at"), [("fsync", 1), ("fchmod", 1), ("link", 1), ("replace", 1), ("replace", 2)]
)
def test_killed_at_each_step(tmp_path: Path, call: str, at: int) -> None:
    path = tmp_path / "run"
    path.write_bytes(b"old")
    died = subprocess.run([sys.executable, "-c", KILLED, str(at), call, str(path)], timeout=60)
    assert died.returncode == -signal.SIGKILL and path.read_bytes() == b"old"
    assert partial_files(tmp_path)
    write_atomically(path, [b"newer"])
    assert path.read_bytes() == b"newer" and partial_files(tmp_path) == []


def test_killed_before_the_last_step_and_saved_again(tmp_path: Path) -> None:
    """The file and its previous one are then one file, which does not rename to itself."""
    path = tmp_path / "run"
    gw.save_run(path, step=0)
    os.link(path, previous_of(path))
    gw.save_run(path, step=1)
    assert gw.load_run(previous_of(path)) == {"step": 0}
    assert sorted(os.listdir(tmp_path)) == ["run", "run.previous"]


# -- disks that refuse ---------------------------------------------------------------------------

REFUSALS = [
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
    errno.EBUSY, errno.ESTALE, errno.ENOMEM,
]  # fmt: skip


@pytest.mark.parametrize("number", REFUSALS, ids=errno.errorcode.get)
@pytest.mark.parametrize("call", ["fsync", "replace", "open", "write"])
def test_the_old_file_stays_and_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    for writer, save in WRITERS.items():
        path = tmp_path / writer
        save(path)
        before = path.read_bytes()

        def refuse(*_: Any, **__: Any) -> Any:
            raise OSError(number, os.strerror(number))

        class Refusing:
            """A file whose disk takes nothing."""

            def __init__(self, file: Any) -> None:
                self.file = file

            write = flush = staticmethod(refuse)

            def __getattr__(self, name: str) -> Any:
                return getattr(self.file, name)

        real = os.fdopen
        with monkeypatch.context() as patched:
            if call == "write":
                patched.setattr(os, "fdopen", lambda *a, real=real: Refusing(real(*a)))
            else:
                patched.setattr(os, call, refuse)
            with pytest.raises(OSError, match=r"(?s)file saved before is unchanged.*Fix: ") as got:
                save(path)
        assert got.value.errno == number and got.value.filename == str(path)
        assert path.read_bytes() == before
    assert names(tmp_path) == sorted(WRITERS)


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, chunks())
    assert path.read_bytes() == b"old" and names(tmp_path) == ["file"]


LIMITED = """
import resource, sys
import gradwalk as gw
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
for save in (gw.save, gw.io.save_npz):
    try:
        save({"x": gw.ones(100_000)}, sys.argv[1])
    except OSError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits differ")
def test_a_process_that_may_not_write_so_much(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    found = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=60
    )
    assert found.stdout.count("ulimit -f") == 2 and not found.stderr, found.stderr
    assert path.read_bytes() == b"old" and names(tmp_path) == ["file"]


def test_a_folder_that_may_only_be_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "file").write_bytes(b"old")
        folder.chmod(0o555)
        if ROOT:  # who may write anywhere
            os.seteuid(65534)
        try:
            for save in WRITERS.values():
                with pytest.raises(PermissionError, match=r"unchanged.*Fix: save to a folder"):
                    save(folder / "file")
                with pytest.raises(PermissionError, match=r"Nothing was written.*Fix: save to"):
                    save(folder / "new")
        finally:
            if ROOT:
                os.seteuid(0)
            folder.chmod(0o755)
        assert names(folder) == ["file"] and (folder / "file").read_bytes() == b"old"


@every_writer
def test_no_such_folder(tmp_path: Path, save: Callable[[Path], object]) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no (such )?folder"):
        save(tmp_path / "missing" / "file")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"there is no (such )?folder"):
        save(tmp_path / "file" / "below")
    assert names(tmp_path) == ["file"]
