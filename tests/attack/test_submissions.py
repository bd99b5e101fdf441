"""Hostile files handed in to `gradwalk course check`: each scores 0, is told, and does no harm.

Each layer is tried alone: the kernel's with Python's watcher switched off, the watcher without the
kernel's help, and both, whatever this system has of them.
"""

import os
import struct
import sys
from pathlib import Path

import pytest

from gradwalk.course.checker import confine, process, runner
from gradwalk.course.checker.grading import CheckedFile, check_file
from gradwalk.course.checker.process import LearnerProcess, ProcessLimits
from tests.attack.hostile_files import ALL, FILES, PROCESSES, hostile, lay_out, looks
from tests.quick import some_quick

ENGINE = Path(__file__).parents[1] / "course" / "engines" / "right_closures.py"
QUICK = ProcessLimits(seconds=1)
# What happens in Python, and every third of what the kernel prevents.
_OUTSIDE = [name for name in ALL if name.startswith(("files: ", "processes: "))]
WATCHED = [name for name in ALL if name not in _OUTSIDE] + _OUTSIDE[::3]
LAYERS = ["", confine.LANDLOCK, confine.KILLS, confine.REPORTS, confine.KILLS + confine.LANDLOCK]


def missing() -> list[str]:
    """What this system does not enforce."""
    with LearnerProcess(b"", QUICK) as learner:
        return learner.begin()


def attacked(name: str, tmp_path: Path) -> CheckedFile:
    """Check a hostile file; it must do no harm."""
    before = lay_out(tmp_path / "outside")
    path = tmp_path / "engine.py"
    source = ENGINE.read_text(encoding="utf-8")
    path.write_text(hostile(name, tmp_path / "outside", source), encoding="utf-8")
    found = check_file(path, limits=QUICK)
    assert looks(tmp_path / "outside") == before, str(found)
    return found


@pytest.mark.parametrize("name", some_quick(ALL, 19))
def test_a_hostile_file_scores_nothing_and_is_told(name: str, tmp_path: Path) -> None:
    found = attacked(name, tmp_path)
    assert found.points == 0 and found.reason, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", WATCHED)
def test_the_watcher_alone(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system without seccomp and Landlock."""
    monkeypatch.setattr(process, "ASKED_FOR", ())
    found = attacked(name, tmp_path)
    assert found.points == 0 and (found.reason or found.mistakes), str(found)
    assert found.not_enforced == list(process.PREVENTED.values())


@pytest.mark.parametrize("name", some_quick([f"files: {n}" for n in FILES], 9))
def test_no_file_is_harmed_with_the_watcher_off(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_the_watcher(tmp_path, monkeypatch)
    if len(missing()) == len(process.PREVENTED):
        pytest.skip("this kernel has neither seccomp nor Landlock")
    attacked(name, tmp_path)


@pytest.mark.parametrize("name", some_quick([f"processes: {n}" for n in PROCESSES], 9))
def test_nothing_starts_with_the_watcher_off(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_the_watcher(tmp_path, monkeypatch)
    if process.PREVENTED[confine.REPORTS] in missing():
        pytest.skip("this kernel has no seccomp")
    found = attacked(name, tmp_path)
    assert found.points == 0 and found.reason, str(found)


def without_the_watcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a file had found a way around everything in Python."""
    source = Path(runner.__file__).read_text(encoding="utf-8")
    for line in ("    watch.start()\n", "            watch.check_untouched()\n"):
        assert line in source
        source = source.replace(line, line[: len(line) - len(line.lstrip())] + "pass\n")
    # Nothing stands in front of the import then.
    source = source.replace(
        "    kept: list[Any] = []",
        "    real = __import__\n"
        "    builtins.__import__ = lambda *a, **k: real(*a, **k)\n"
        "    kept = []",
    )
    blind = tmp_path / "blind.py"
    blind.write_text(source, encoding="utf-8")
    real = process._path_of
    monkeypatch.setattr(
        process, "_path_of", lambda module: str(blind) if module is runner else real(module)
    )


# -- layers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", some_quick(LAYERS, 4))
def test_a_right_engine_has_all_points_whatever_the_kernel_offers(
    layers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "ASKED_FOR", tuple(layers))
    found = check_file(ENGINE)
    assert found.passed, str(found)
    for layer, words in process.PREVENTED.items():
        asked = layer in layers.replace(confine.KILLS, confine.REPORTS)
        assert asked or words in found.not_enforced
        assert asked or f"Not enforced on this system: {words}" in str(found)


def test_a_python_that_does_not_start_with_a_layer_starts_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that reads files from places that nobody thought of."""
    source = Path(confine.__file__).read_text(encoding="utf-8")
    narrow = tmp_path / "narrow.py"
    library = "    for path in sys.path:\n"
    assert library in source
    narrow.write_text(source.replace(library, "    for path in []:\n"), encoding="utf-8")
    (tmp_path / "system_calls.txt").write_bytes(
        Path(confine.__file__).with_name("system_calls.txt").read_bytes()
    )
    real = process._path_of
    monkeypatch.setattr(
        process, "_path_of", lambda module: str(narrow) if module is confine else real(module)
    )
    found = check_file(ENGINE)
    assert found.passed, str(found)
    if sys.platform == "linux":
        assert process.PREVENTED[confine.LANDLOCK] in found.not_enforced


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's reports are Linux's")
def test_what_the_kernel_stops_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_watcher(tmp_path, monkeypatch)
    if process.PREVENTED[confine.REPORTS] in missing():
        pytest.skip("this kernel has no seccomp")
    for name, words in {
        "files: remove": "deletes a file or a folder",
        "files: rename": "renames a file",
        "files: mkdir": "creates a file or a folder",
        "files: open to append": "opens a file to write to it",
        "files: chmod": "changes a file",
        "processes: fork": "starts a process or a thread",
        "processes: execv of Python": "starts another program",
        "processes: a thread": "starts a process or a thread",
        "processes: kills its parent": "sends a signal",
    }.items():
        folder = tmp_path / name.replace(": ", "-")
        folder.mkdir()
        reason = attacked(name, folder).reason
        assert words in reason or "a system call that no engine needs" in reason, (name, reason)


def run_filter(machine: str, number: int, arguments: tuple[int, ...]) -> int:
    """What the filter answers to a call, computed as the kernel does."""
    code = confine.filter_program(machine, confine._REPORT, (0x7F0000001000, 0x2000, 0x3000))
    steps = list(struct.iter_unpack("HBBI", code))
    data = struct.pack("<iIQ6Q", number, confine.MACHINES[machine][0], 0, *arguments)
    place = loaded = 0
    while True:
        what, then, otherwise, value = steps[place]
        place += 1
        if what == confine._LOAD:
            (loaded,) = struct.unpack_from("<I", data, value)
        elif what == confine._RETURN:
            return int(value)
        else:
            holds = {
                confine._EQUAL: loaded == value,
                confine._AT_LEAST: loaded >= value,
                confine._ANY_BIT: bool(loaded & value),
            }[what]
            place += then if holds else otherwise


@pytest.mark.parametrize("machine", confine.MACHINES)
def test_the_filter_of_each_machine(machine: str) -> None:
    nothing = (0,) * 6
    table = confine.calls(machine)
    number = {name: n for known in table.values() for n, name in known.items()}
    for section, known in table.items():
        for n in known:
            if section == confine.ALLOWED:
                assert run_filter(machine, n, nothing) == confine._ALLOW
            elif section != confine.BY_ARGUMENTS:
                assert run_filter(machine, n, nothing) == confine._REPORT
    assert run_filter(machine, 9999, nothing) == confine._EPERM
    ours, exec_ = (0x7F0000001000, 0x2000, 0x3000, 0, 0, 0), number["execve"]
    assert run_filter(machine, exec_, ours) == confine._ALLOW
    for i in range(3):
        other = tuple(x ^ (1 << 33 if k == i else 0) for k, x in enumerate(ours))
        assert run_filter(machine, exec_, other) == confine._REPORT
    for flags in (os.O_RDONLY, os.O_RDONLY | os.O_CLOEXEC):
        opened = (0, 0, flags, 0, 0, 0)
        assert run_filter(machine, number["openat"], opened) == confine._ALLOW
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, os.O_TMPFILE):
        opened = (0, 0, flags, 0, 0, 0)
        assert run_filter(machine, number["openat"], opened) == confine._REPORT
    for pid, action in ((os.getpid(), confine._ALLOW), (1, confine._REPORT)):
        assert run_filter(machine, number["tgkill"], (pid, pid, 6, 0, 0, 0)) == action
    for request, action in ((0x5401, confine._ALLOW), (0x5412, confine._EPERM)):
        assert run_filter(machine, number["ioctl"], (0, request, 0, 0, 0, 0)) == action
    assert run_filter(machine, number["prlimit64"], (1, 0, 0, 0, 0, 0)) == confine._EPERM


def test_each_call_is_listed_once() -> None:
    for machine in confine.MACHINES:
        listed = [n for known in confine.calls(machine).values() for n in known]
        assert len(listed) == len(set(listed)) > 80


# -- files that are none, and too much of everything -----------------------------------------------


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link.py").symlink_to(ENGINE)
    found = check_file(tmp_path / "link.py", limits=QUICK)
    assert found.points == 0 and "symbolic link" in found.reason


@pytest.mark.parametrize("name", ["eng\u0456ne \u202e.py", "a\nb.py", "-.py", "\U0001f600.py"])
def test_odd_names_are_checked_and_shown_on_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("x = 1\n", encoding="utf-8")
    found = check_file(path, limits=QUICK)
    assert "there is no class Value" in found.reason
    assert found.file.isprintable()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    for path in (tmp_path / "pipe.py", tmp_path, Path("/dev/zero"), Path("nul\0.py")):
        found = check_file(path, limits=QUICK)
        assert found.points == 0 and found.reason.startswith("Not graded")


@pytest.mark.parametrize(
    "flood",
    [
        "for i in range(2000):\n    print('x' * 10000)",
        "import sys\nfor i in range(2000):\n    sys.stderr.write('x' * 10000)",
    ],
)
def test_printing_a_lot_costs_nothing(flood: str, tmp_path: Path) -> None:
    path = tmp_path / "engine.py"
    path.write_text(f"{flood}\n{ENGINE.read_text(encoding='utf-8')}", encoding="utf-8")
    assert check_file(path).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "while True:\n    pass",
        "x = bytearray(2**40)",
        "x = [0]\nwhile True:\n    x += x",
        "raise ValueError('x' * 10**8)",
        "x = 10 ** 10 ** 10",
        "sorted(range(10**9), key=lambda i: -i)",
    ],
)
def test_too_much_comes_to_an_end(code: str, tmp_path: Path) -> None:
    path = tmp_path / "engine.py"
    path.write_text(f"{code}\n", encoding="utf-8")
    found = check_file(path, limits=ProcessLimits(seconds=1, megabytes=256))
    assert found.points == 0 and found.reason


def test_the_process_gets_an_empty_folder_and_no_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADES", "secret")
    path = tmp_path / "engine.py"
    path.write_text(
        "import sys\nos = sys.modules['os']\n"
        "raise ValueError(f'{set(os.environ) - {\"LC_CTYPE\"}} {os.getcwd()} {sys.argv}')\n",
        encoding="utf-8",
    )
    reason = check_file(path, limits=QUICK).reason
    assert "ValueError: set() /" in reason and "['engine']" in reason
    assert "gradwalk-check-" in reason
