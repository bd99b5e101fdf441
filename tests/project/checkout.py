"""Where things are in the checkout, and how the project's tests start another Python."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "gradwalk"


def run(*command: str | Path, cwd: Path) -> str:
    """Run `command` in `cwd`, away from this Python's own search path, and return what it prints.

    Its standard error and exit status are for the reader of a failure, so a failure shows both.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # The terminal pytest runs in must not decide what is printed.
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
