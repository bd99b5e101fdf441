"""Where things are in the checkout, and how the project's tests start another Python."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "gradwalk"


def run(*command: str | Path, cwd: Path) -> str:
    """Run `command` in `cwd`, without this Python's search path, and return what it prints.

    A failure shows its standard error and exit status.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # The output must not depend on the terminal in which pytest runs.
    environment |= {"PYTHONUTF8": "1", "COLUMNS": "100"}
    finished = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        encoding="utf-8",
    )
    assert finished.returncode == 0, (
        f"{' '.join(str(part) for part in command)}\n"
        f"ended with status {finished.returncode}\n{finished.stdout}{finished.stderr}"
    )
    return finished.stdout


def run_here(code: str, cwd: Path) -> str:
    """Run `code` in a new process of the Python that runs the tests."""
    return run(sys.executable, "-W", "error", "-c", code, cwd=cwd)
