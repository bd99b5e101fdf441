"""`gradwalk course` as a person types it, and the page about it."""

import csv
import io
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gradwalk.cli import app
from gradwalk.course.checker import diagnosis, exceptions
from gradwalk.course.checker.outcomes import known_mistakes
from gradwalk.course.classroom.completion import completion_line
from gradwalk.inspect.mistakes import wrong_walks
from tests.course.lecture_engines import LECTURE
from tests.course.wrong_engines import wrong
from tests.project.checkout import ROOT

ENGINES = Path(__file__).with_name("engines")
PAGE = ROOT / "docs" / "learn" / "course.md"


def run(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["course", *arguments])
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a class of three, and what else the page uses."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ENGINES / "right_tape.py", tmp_path / "right.py")
    (tmp_path / "overwrites.py").write_text(wrong("overwrites"), encoding="utf-8")
    (tmp_path / "exits.py").write_text("import sys\nsys.exit()\n", encoding="utf-8")
    (tmp_path / "one.py").write_text(LECTURE, encoding="utf-8")
    (tmp_path / "two.py").write_text(LECTURE.replace("other", "second"), encoding="utf-8")
    (tmp_path / "names.csv").write_text("name\nAda Lovelace\nGrace Hopper\n", encoding="utf-8")
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "ada-lovelace.txt").write_text("1 = a\n2 = -4\n", encoding="utf-8")
    line = completion_line("autumn 2026", "Ada Lovelace", {"nudge": (15, 15)}, "2026-11-17")
    (tmp_path / "lines.txt").write_text(line + "\n", encoding="utf-8")
    return tmp_path


def test_start_writes_a_file_once(folder: Path) -> None:
    assert "wrote engine.py" in run("start")
    text = (folder / "engine.py").read_text(encoding="utf-8")
    compile(text, "engine.py", "exec")
    assert "class Value" in text
    assert "exists already" in run("start", status=2)
    assert (folder / "engine.py").read_text(encoding="utf-8") == text
    assert "cannot write" in run("start", "no/such/folder/engine.py", status=2)


def test_check_says_what_is_wrong_and_leaves_with_1(folder: Path) -> None:
    output = run("check", "overwrites.py", status=1)
    assert "41 of 100" in output
    assert "It overwrites instead of adding." in output
    assert max(map(len, output.splitlines())) <= 80
    assert "100 of 100" in run("check", "right.py")
    assert "name its files: *.py" in run("check", ".", status=1)


def test_check_as_json(folder: Path) -> None:
    found = json.loads(run("check", "right.py", "exits.py", "overwrites.py", "--json", status=1))
    assert found["schema"] == "gradwalk.check/1"
    assert [f["points"] for f in found["files"]] == [100, 0, 41]
    assert [f["passed"] for f in found["files"]] == [True, False, False]
    assert found["files"][2]["mistakes"][0]["key"] == "overwrites"
    assert sum(stage["out_of"] for stage in found["files"][0]["stages"]) == 100


def test_check_as_csv(folder: Path) -> None:
    (folder / "=cmd.py").write_text("raise ValueError('a,\"b\"')\n", encoding="utf-8")
    text = run("check", "right.py", "=cmd.py", "--csv", status=1)
    right, formula = csv.DictReader(io.StringIO(text))
    assert (right["file"], right["points"], right["long"]) == ("right.py", "100", "10")
    assert formula["file"] == "./=cmd.py"
    assert 'ValueError: a,"b"' in formula["reason"]


@pytest.mark.slow
def test_details_of_a_class(folder: Path) -> None:
    short = run("check", "right.py", "overwrites.py", status=1)
    assert "f = a·a" not in short
    assert "f = a·a" in run("check", "right.py", "overwrites.py", "--details", status=1)


def test_questions_that_make_no_sense(folder: Path) -> None:
    assert "cannot be used together" in run("check", "right.py", "--json", "--csv", status=2)
    assert "40 questions, not 99" in run("quiz", "--count", "99", status=2)
    assert "not 'xml'" in run("quiz", "--format", "xml", status=2)


def test_help_says_what_keeps_files_in() -> None:
    output = " ".join(run("check", "--help").replace("│", " ").split())
    assert "On Linux the kernel prevents it" in output
    assert "the report says what is not enforced" in output
    assert max(map(len, run("--help").splitlines())) <= 80


def test_quiz_formats() -> None:
    assert "Answer" not in run("quiz", "--seed", "Ada")
    assert run("quiz", "--seed", "Ada", "--answers").count("Answer: ") == 10
    assert run("quiz", "--format", "gift", "--count", "2").count("::[plain]") == 2
    assert len(json.loads(run("quiz", "--format", "json", "--count", "3"))["questions"]) == 3


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_terminal_shows_how_far_it_is(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "gradwalk",
        "course",
        "check",
        "right.py",
        "exits.py",
        "--json",
    ]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "PYTHONUTF8": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as going:
        os.close(theirs)
        assert going.stdout is not None
        answer = going.stdout.read()
    shown = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert b"checking" in shown
    assert [f["points"] for f in json.loads(answer)["files"]] == [100, 0]


# -- the page --------------------------------------------------------------------------------------


def shown_commands() -> list[tuple[str, str]]:
    """Every `$ gradwalk ...` of the page, with the output it shows."""
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.M)]
    pairs = [part.partition("\n") for part in parts]
    return [(command, output) for command, _, output in pairs if output.strip()]


def test_the_page_has_examples() -> None:
    assert len(shown_commands()) == 9


@pytest.mark.slow
@pytest.mark.parametrize(("command", "output"), shown_commands(), ids=lambda text: text[:40])
def test_the_page_shows_what_is_printed(command: str, output: str, folder: Path) -> None:
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    printed = "\n".join(line.rstrip() for line in result.output.splitlines()).strip()
    pattern = re.escape(output.strip()).replace(re.escape("..."), ".*")
    assert re.fullmatch(pattern, printed, re.S), printed


def test_the_page_has_every_key_of_a_mistake() -> None:
    """Keys are for tables and statistics: what can be in one is on the page."""
    text = PAGE.read_text("utf-8")
    keys = {name.partition(" ")[0] for name in known_mistakes()}
    keys = (keys - {"value", "derivative"}) | {"value-OP", "derivative-OP"}
    assert len(keys) > 20
    for key in keys:
        assert f"`{key}`" in text


def test_every_mistake_that_is_looked_for_has_words() -> None:
    assert known_mistakes().keys() >= {*wrong_walks.WALKS, *exceptions.LACKS}
    code = "".join(Path(one.__file__).read_text("utf-8") for one in (diagnosis, exceptions))
    assert known_mistakes().keys() >= set(re.findall(r'(?:shows|mistake)\("([a-z -]+)"', code))
    for entry in known_mistakes().values():
        assert entry.keys() == {"title", "text"} and entry["text"]
