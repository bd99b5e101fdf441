"""Run the program of docs/pytorch/debugging.md with `gradwalk run --watch`.

`python -m tools.pytorch_page` writes the output into the page.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from gradwalk.cli import app
from tests.project.markdown import FENCE

PAGE = Path(__file__).parents[1] / "docs" / "pytorch" / "debugging.md"
COMMAND = "gradwalk run --watch train.py --lr 3e-4"


def program() -> str:
    """The first ```py block."""
    return next(f["body"] for f in FENCE.finditer(PAGE.read_text("utf-8")) if f["language"] == "py")


def run(folder: Path) -> str:
    """Run the program in this folder; return the session as the page shows it."""
    (folder / "train.py").write_text(program(), encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        result = CliRunner().invoke(app, COMMAND.split()[1:])
    finally:
        os.chdir(before)
    shown = result.output.replace(f"{folder.resolve()}{os.sep}", "")
    return f"$ {COMMAND}\n{shown}$ echo $?\n{result.exit_code}\n"


def with_output(text: str, shown: str) -> str:
    """Return the page with this session in its block."""
    block = next(f for f in FENCE.finditer(text) if f["body"].startswith(f"$ {COMMAND}"))
    return text[: block.start("body")] + shown + text[block.end("body") :]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(with_output(PAGE.read_text("utf-8"), run(Path(folder))), encoding="utf-8")
