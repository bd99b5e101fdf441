"""For a class: grading services, similarity, codes of completion, and systems without a kernel."""

from __future__ import annotations

import ast
import csv
import io
import json
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gradwalk.cli import app
from gradwalk.course.checker.grading import check_file, check_source, starter
from gradwalk.course.checker.trials import OUT_OF, STAGES
from gradwalk.course.classroom.autograders import SERVICES
from gradwalk.course.classroom.completion import completion_line, read_line, verify
from gradwalk.course.classroom.notebooks import require, stage_points
from gradwalk.course.classroom.similarity import fingerprints, similarity
from tests.course.lecture_engines import LECTURE, lecture
from tests.course.wrong_engines import wrong
from tests.studio.node import Node

ENGINES = Path(__file__).with_name("engines")
KEY = "autumn 2026, group 3"


def run(*arguments: str, status: int = 0, **more: str) -> str:
    result = CliRunner().invoke(app, ["course", *arguments], **more)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ENGINES / "right_tape.py", tmp_path / "right.py")
    (tmp_path / "overwrites.py").write_text(wrong("overwrites"), encoding="utf-8")
    return tmp_path


# -- grading services ------------------------------------------------------------------------------


def test_gradescope_gets_its_results(folder: Path) -> None:
    found = json.loads(run("check", "overwrites.py", "--gradescope", status=1))
    assert found["score"] == sum(test["score"] for test in found["tests"]) < OUT_OF
    assert found["max_score"] == sum(test["max_score"] for test in found["tests"]) == OUT_OF
    assert "It overwrites instead of adding." in found["output"]
    assert {test["status"] for test in found["tests"]} == {"passed", "failed"}
    Path("bad.py").write_text("class", encoding="utf-8")
    found = json.loads(run("check", "bad.py", "--gradescope", status=1))
    assert found["score"] == 0 and "does not run" in found["output"]
    assert "for one file" in run("check", "right.py", "bad.py", "--gradescope", status=2)
    assert "together" in run("check", "right.py", "--gradescope", "--csv", status=2)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_gets_files_that_can_be_read(service: str, folder: Path) -> None:
    output = run("autograder", service, "out")
    written = [path for path in (folder / "out").rglob("*") if path.is_file()]
    assert len(written) == output.count("wrote")
    for path in written:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            ast.parse(text)
        elif path.suffix in (".ipynb", ".json"):
            json.loads(text)
        elif text.startswith("#!"):
            assert path.stat().st_mode & 0o111
            subprocess.run(["bash", "-n", str(path)], check=True)
    assert "exists already" in run("autograder", service, "out", status=2)
    assert "not 'canvas'" in run("autograder", "canvas", "out", status=2)


def test_the_tests_of_otter_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As otter runs them: every function with its mark, in the folder of the notebook."""
    marked: list[tuple[int, object]] = []

    def test_case(points: int, hidden: bool) -> object:
        return lambda function: marked.append((points, function))

    otter = types.ModuleType("otter")
    test_files = types.ModuleType("otter.test_files")
    vars(test_files)["test_case"] = test_case
    monkeypatch.setitem(sys.modules, "otter", otter)
    monkeypatch.setitem(sys.modules, "otter.test_files", test_files)
    for name, text in SERVICES["otter"]().items():
        if name.endswith(".py"):
            exec(compile(text, name, "exec"), {})
    assert sum(points for points, _ in marked) == OUT_OF and len(marked) == len(STAGES)
    shutil.copy("overwrites.py", "engine.py")
    failed = 0
    for _, function in marked:
        assert callable(function)
        try:
            function()
        except AssertionError:
            failed += 1
    assert failed == 5


def test_the_cells_of_nbgrader_give_points(folder: Path, capsys: pytest.CaptureFixture) -> None:
    notebook = json.loads(SERVICES["nbgrader"]()["source/engine/engine.ipynb"])
    about = [c["metadata"]["nbgrader"] for c in notebook["cells"] if "nbgrader" in c["metadata"]]
    assert sum(one.get("points", 0) for one in about) == OUT_OF
    assert [one["solution"] for one in about].count(True) == 1
    with pytest.raises(FileNotFoundError, match="writefile"):
        stage_points("values")
    shutil.copy("overwrites.py", "engine.py")
    graded = [c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade")]
    points = {}
    for cell in graded:
        *lines, last = cell["source"].splitlines()
        known: dict[str, object] = {}
        exec("\n".join(lines), known)
        points[cell["metadata"]["nbgrader"]["grade_id"]] = eval(last, known)
    assert sum(points.values()) == check_file("overwrites.py").points
    assert points["check-values"] == 15 and "It overwrites" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="adding: 0 of 15"):
        require("adding")
    with pytest.raises(ValueError, match="has no part 'nothing'"):
        stage_points("nothing")


# -- similarity ------------------------------------------------------------------------------------


def disguised(source: str) -> str:
    """Other names, other comments, other layout, methods in another order."""
    source = source.replace("other", "second").replace("_backward", "_push").replace("out", "res")
    head, *methods = source.split("\n    def ")
    turned = "\n    def ".join([head, *methods[::-1]])
    return f"# my own work\n{turned}".replace("        ", "         ")


def test_a_disguise_is_seen_through_and_own_work_is_not_listed() -> None:
    files = [(p.name, p.read_text(encoding="utf-8")) for p in sorted(ENGINES.glob("right_*.py"))]
    files += [("one.py", LECTURE), ("two.py", disguised(lecture("tanh of the input")))]
    report = similarity(files, starter())
    assert [(pair.one, pair.other) for pair in report.pairs] == [("one.py", "two.py")]
    (pair,) = report.pairs
    assert 0.8 < pair.share <= 1
    for (a, b), (c, d) in pair.lines:
        assert 1 <= a <= b <= len(LECTURE.splitlines()) and 1 <= c <= d


def test_the_starter_and_what_all_have_do_not_count() -> None:
    begun = starter()
    report = similarity([("a.py", begun), ("b.py", begun)], begun)
    assert not report.pairs and {why for _, why in report.left_out} == {
        "it has too little code of its own"
    }
    everybody = [(f"{i}.py", LECTURE) for i in range(6)]
    assert not similarity(everybody).pairs
    assert set(fingerprints(begun)) and fingerprints("x = 1") == {}


def test_similar_on_the_command_line(folder: Path) -> None:
    (folder / "copy.py").write_text(wrong("overwrites"), encoding="utf-8")
    (folder / "bad.py").write_text("class", encoding="utf-8")
    output = run("similar", ".")
    assert "100%" in output and "Read both files before you conclude anything." in output
    assert "bad.py was left out: it is not Python" in output
    found = json.loads(run("similar", "right.py", "copy.py", "overwrites.py", "--json"))
    assert found["schema"] == "gradwalk.similarity/1"
    assert {found["pairs"][0]["one"], found["pairs"][0]["other"]} == {"copy.py", "overwrites.py"}
    assert "needs two files" in run("similar", "right.py", status=2)
    assert "there is no no.py" in run("similar", "right.py", "no.py", status=2)
    said = (output + run("similar", "--help")).lower()
    assert not any(word in said for word in ("plagiar", "cheat", "copied from"))


# -- codes of completion ---------------------------------------------------------------------------


def test_a_line_is_right_only_as_it_was_made() -> None:
    line = completion_line(KEY, "Ada Lovelace", {"nudge": (8, 8), "order": (2, 9)}, "2026-11-17")
    found = read_line(line, KEY)
    assert not found.fault and found.completed == ["nudge"] and found.name == "Ada Lovelace"
    sloppy = line.lower().replace("ada lovelace", "Ada  Lovelace").replace(" | ", "|")
    assert not read_line(sloppy, KEY).fault
    for old, new in (("Ada", "Eve"), ("8/8", "9/9"), ("2/9", "9/9"), ("-17 ", "-18 ")):
        assert "does not fit" in read_line(line.replace(old, new), KEY).fault
    assert "does not fit" in read_line(line, KEY + "!").fault
    assert "not a line of completion" in read_line("hello", KEY).fault
    assert "not a lesson" in read_line(line.replace("nudge 8/8", "<b>"), KEY).fault
    twice = verify(f"# sent by mail\n\n{line}\n{line}\n", KEY)
    assert [bool(one.fault) for one in twice] == [False, True]


def test_verify_on_the_command_line(folder: Path) -> None:
    line = completion_line(KEY, "Ada Lovelace", {"nudge": (8, 8)}, "2026-11-17")
    Path("lines.txt").write_text(line + "\n", encoding="utf-8")
    Path("names.csv").write_text("name\nAda Lovelace\nGrace\n", encoding="utf-8")
    output = run("verify", "lines.txt", "--key", KEY, "--roster", "names.csv")
    (row,) = csv.DictReader(io.StringIO(output.split("Grace")[0]))
    assert (row["name"], row["right"], row["lessons_completed"]) == ("Ada Lovelace", "1", "1")
    assert "Grace sent no line that is right." in output
    changed = line.replace("8/8", "9/9")
    assert ",0,1,1,9," in run("verify", "-", "--key", KEY, status=1, input=changed)
    assert "at least 8 characters" in run("verify", "lines.txt", "--key", "short", status=2)
    Path("lines.txt").write_text("\n", encoding="utf-8")
    assert "lines.txt has no lines of completion in it." in run("verify", "lines.txt", "--key", KEY)


@pytest.mark.parametrize("name", ["Ada Lovelace", "  Zoë | O'Neil ", "李雷", "Ａ" * 70])
def test_the_page_makes_the_same_line(engine: Node, name: str) -> None:
    lessons = {"nudge": (8, 8), "draw-the-graph": (3, 9)}
    listed = [{"id": one, "done": d, "tasks": t} for one, (d, t) in lessons.items()]
    made = engine("completion.completionLine", KEY, name, listed, "2026-11-17")
    assert made == completion_line(KEY, name, lessons, "2026-11-17")


# -- other systems ---------------------------------------------------------------------------------


def test_windows_is_told_why_not_and_the_rest_works(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows: no process groups, no limits, no descriptors over sockets."""
    monkeypatch.setattr(sys, "platform", "win32")
    assert "Windows Subsystem for Linux" in run("check", "right.py", status=2)
    with pytest.raises(OSError, match="Windows"):
        check_file("right.py")
    with pytest.raises(OSError, match="Windows"):
        check_source(b"class Value: pass")
    run("start", "engine.py")
    run("quiz", "--seed", "Ada")
    run("similar", "right.py", "overwrites.py")
    run("autograder", "github", "out")


def test_a_browsers_python_checks_and_says_what_it_cannot(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "emscripten")
    found = check_file("right.py")
    assert found.passed and "limits on time and memory" in found.not_enforced[0]
    assert "does not run: line 1: SyntaxError" in check_source(b"class").reason
    assert "does not run" in check_source(b"import sys\nsys.exit()").reason
