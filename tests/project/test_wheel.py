"""The built wheel works by itself: installed in a clean environment, outside the checkout."""

import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.project.checkout import ROOT, run
from tests.project.markdown import python_blocks

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT),
        cwd=folder,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_is_pure_python_and_holds_the_package_whole(wheel: Path) -> None:
    assert wheel.name.startswith("gradwalk-")
    assert wheel.name.endswith("-py3-none-any.whl")
    packed = {name for name in ZipFile(wheel).namelist() if name.startswith("gradwalk/")}
    source = ROOT / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in (source / "gradwalk").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "gradwalk/py.typed" in packed
    assert packed == files


def test_installed_wheel_shows_the_first_screen(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "clean", cwd=tmp_path)
    python = tmp_path / "clean" / "bin" / "python"
    # Bytecode of all that NumPy and SciPy hold would take longer than the rest of this test.
    options = ("-qq", "--disable-pip-version-check", "--no-compile")
    run(python, "-m", "pip", "install", *options, wheel, cwd=tmp_path)

    where = run(python, "-c", "import gradwalk; print(gradwalk.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path)

    first = python_blocks(ROOT / "README.md")[0]
    assert first.output, "the README's first Python block is followed by a ```text block"
    script = tmp_path / "first_screen.py"
    script.write_text(first.code, encoding="utf-8")
    assert run(python, "-W", "error", script, cwd=tmp_path) == first.output

    from_module = run(python, "-m", "gradwalk", cwd=tmp_path)
    from_command = run(tmp_path / "clean" / "bin" / "gradwalk", cwd=tmp_path)
    assert from_module
    assert from_command == from_module
