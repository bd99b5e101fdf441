"""A user's program passes strict type checking against the installed package."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.checkout import ROOT

CACHE = ROOT / ".mypy_cache" / "of a user"  # apart from the linter's, whose options are others
PROGRAM = """
import gradwalk as gw

x: gw.Tensor = gw.tensor([1.0], requires_grad=True)
y = (x * 2 + gw.ones(1)).sum()
y.backward()
gw.tanh(x)
gw.reshape(x, 1, 1)
v: gw.Value = 2 * gw.Value(1.0) + 1
slope = gw.grad(lambda t: t**2)(gw.tensor(3.0))
model = gw.nn.Sequential(gw.nn.Linear(1, 2), gw.nn.ReLU())
gw.optim.AdamW(model.parameters(), lr=1e-3).step()
with gw.no_grad():
    x += 1
"""


@pytest.mark.slow
def test_a_users_program_is_typed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(CACHE), str(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
