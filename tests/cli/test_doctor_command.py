"""`gradwalk doctor`: exit status, JSON, limits, and what the program itself prints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gradwalk.cli import app
from tests.inspect.doctor.programs import HEAD, LOOP, SGD

HEALTHY = HEAD + SGD + LOOP + "print('trained')\n"
SICK = HEALTHY.replace("    optimizer.zero_grad()\n", "")


def doctor(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "train.py"


def test_a_healthy_program(program: Path) -> None:
    program.write_text(HEALTHY)
    status, said, _ = doctor(str(program))
    assert status == 0
    assert said.startswith("trained\ndoctor: nothing found in 30 steps of SGD (gradwalk).")
    assert all(len(line) <= 80 for line in said.splitlines())


def test_json_is_all_that_is_printed(program: Path) -> None:
    program.write_text(SICK)
    status, said, beside = doctor("--json", str(program))
    assert status == 3
    assert json.loads(said)["findings"][0]["kind"] == "left over"
    assert "trained" in beside


def test_it_stops_after_some_steps(program: Path) -> None:
    program.write_text(HEALTHY.replace("range(30)", "range(10**9)"))
    status, said, _ = doctor("--steps", "12", str(program))
    assert status == 0
    assert "by the doctor, after 12 steps" in said
    assert "trained" not in said


def test_arguments_belong_to_the_program(program: Path) -> None:
    program.write_text("import sys\nprint(sys.argv[1:], __name__)\nsys.exit(5)\n")
    status, said, _ = doctor(str(program), "--steps", "3")
    assert (status, said.splitlines()[0]) == (5, "['--steps', '3'] __main__")


def test_a_crash_keeps_its_traceback(program: Path) -> None:
    program.write_text("def inner():\n    return {}['key']\ninner()\n")
    status, said, beside = doctor(str(program))
    assert status == 3
    assert "error: the program ends with KeyError: 'key'" in said
    assert "train.py:2: return {}['key']" in said
    assert beside.startswith("Traceback") and "gradwalk" not in beside


def test_a_missing_file_and_a_wrong_option() -> None:
    assert doctor("nothing.py")[0] == 2
    assert doctor("--steps", "-1", __file__)[0] == 2


def test_it_does_not_import_pytorch_for_a_program_without_it(program: Path) -> None:
    program.write_text(HEALTHY)
    code = (
        "import sys; from gradwalk.cli import app\n"
        f"try: app(['doctor', {str(program)!r}])\n"
        "except SystemExit as left: print(left.code, 'torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "0 False"
