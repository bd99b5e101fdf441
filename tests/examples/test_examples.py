"""Every example runs by one command, saves a picture, and keeps what it promises."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from matplotlib.image import imread

from tests.project.checkout import ROOT, run, run_here

pytestmark = pytest.mark.slow  # each starts a program of its own

EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
NUMBER = r"(\d[\d.e+-]*)"


def run_example(name: str, *options: str, cwd: Path) -> str:
    """Run an example as a reader would, with warnings as errors; return what it prints."""
    program = ROOT / "examples" / f"{name}.py"
    return run(sys.executable, "-W", "error", program, *options, cwd=cwd)


def code_that_runs(name: str, *options: str, first: str) -> str:
    """Code that does something first and then runs an example."""
    program = str(ROOT / "examples" / f"{name}.py")
    return f"""
import runpy, signal, sys
{first}
sys.argv = {[program, *options]!r}
runpy.run_path({program!r}, run_name="__main__")
"""


def numbers(pattern: str, text: str) -> list[float]:
    """The number at each NUMBER of the first match of `pattern`."""
    found = re.search(pattern, text)
    assert found, f"{pattern} is not in\n{text}"
    return [float(group) for group in found.groups()]


def assert_is_a_picture(path: Path) -> None:
    pixels = imread(path)  # fails unless it is a whole PNG
    assert min(pixels.shape[:2]) > 300
    assert pixels[..., :3].std() > 0.02, "nothing is drawn"


def test_the_examples_are_found() -> None:
    assert {"moons", "digits", "characters", "sequence", "oscillator", "digits_vae"} <= {*EXAMPLES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_quick_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for screen in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(screen, raising=False)
    printed = run_example(name, "--quick", cwd=tmp_path)
    assert_is_a_picture(tmp_path / f"{name}.png")
    assert str(tmp_path / f"{name}.png") in printed
    following = printed.partition("\nNext:\n")[2]
    named = re.findall(r"examples/(\w+)\.py", following)
    assert named and {*named} <= {*EXAMPLES} - {name}
    program = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    for option in re.findall(r"--\w+", following):
        assert f'"{option}"' in program, f"{option} is advised but not known"


@pytest.mark.parametrize("name", EXAMPLES)
def test_without_matplotlib(name: str, tmp_path: Path) -> None:
    missing = 'sys.modules["matplotlib"] = None  # as if it were not installed'
    printed = run_here(code_that_runs(name, "--quick", first=missing), cwd=tmp_path)
    (line,) = (line for line in printed.splitlines() if "No picture" in line)
    assert line.endswith("python -m pip install matplotlib")
    assert "loss" in printed or "accuracy" in printed or "error" in printed  # the result
    assert "\nNext:\n" in printed
    assert not list(tmp_path.glob("*.png"))


def test_the_picture_goes_where_it_is_told(tmp_path: Path) -> None:
    run_example("moons", "--quick", "--out", "pictures/two moons.png", cwd=tmp_path)
    assert_is_a_picture(tmp_path / "pictures" / "two moons.png")
    assert not (tmp_path / "moons.png").exists()


def test_characters_says_which_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"there is no file nowhere\.txt"):
        run_example("characters", "--text", "nowhere.txt", cwd=tmp_path)
    with pytest.raises(AssertionError, match=r"there is no file characters\.safetensors"):
        run_example("characters", "--resume", cwd=tmp_path)


def test_characters_goes_on_exactly_where_it_was_stopped(tmp_path: Path) -> None:
    options = ["--steps", "120"]  # the first checkpoint is half way
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    straight.mkdir()
    stopped.mkdir()
    expected = run_example("characters", *options, cwd=straight)

    # Tests may run where the interrupt is ignored; a reader's terminal does not ignore it.
    listen = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = code_that_runs("characters", *options, first=listen)
    command = [sys.executable, "-u", "-W", "error", "-c", code]
    with subprocess.Popen(command, cwd=stopped, stdout=subprocess.PIPE, text=True) as program:
        while not (stopped / "characters.safetensors").exists() and program.poll() is None:
            time.sleep(0.02)
        program.send_signal(signal.SIGINT)
        printed, _ = program.communicate(timeout=120)
    assert program.returncode == 130 and "Continue with --resume" in printed, printed

    resumed = run_example("characters", *options, "--resume", cwd=stopped)
    assert "continuing after step 60" in resumed
    assert (
        resumed.partition("--- a sample")[2].partition("picture:")[0]
        == (expected.partition("--- a sample")[2].partition("picture:")[0])
    )
    pattern = f"loss {NUMBER} in training, {NUMBER} on"
    assert numbers(pattern, resumed) == numbers(pattern, expected)


def test_digits_reads_98_of_100(tmp_path: Path) -> None:
    (percent,) = numbers(f"test accuracy {NUMBER}%", run_example("digits", cwd=tmp_path))
    assert percent >= 98


@pytest.mark.parametrize("seed", range(2))
def test_oscillator_is_right_to_a_thousandth(seed: int, tmp_path: Path) -> None:
    printed = run_example("oscillator", "--seed", str(seed), cwd=tmp_path)
    (error,) = numbers(rf"largest error of u\(t\) against sin\(t\): {NUMBER}", printed)
    assert error < 1e-3


def test_sequence_needs_its_memory(tmp_path: Path) -> None:
    printed = run_example("sequence", "--steps", "500", cwd=tmp_path)
    near, middle, _ = numbers(rf"LSTM +{NUMBER} +{NUMBER} +{NUMBER}", printed)
    near_without, middle_without, _ = numbers(rf"no memory +{NUMBER} +{NUMBER} +{NUMBER}", printed)
    assert near < near_without / 2 and middle < middle_without / 3
