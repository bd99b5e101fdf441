"""The stubs of methods and namespaces are up to date, and say to mypy what a tensor can do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import stubs

PROGRAM = """
import gradwalk as gw

x = gw.ones(2, 3)
reveal_type(x.sum(dim=1))  # Tensor
reveal_type(x.arcsin())  # Tensor
reveal_type(x.add_(1.0, alpha=2).clamp_(min=0))  # Tensor
reveal_type(x.split(1))  # tuple[Tensor, ...]
reveal_type(x.sort(dim=1))  # tuple[Any, Any, fallback=ValuesIndices]
reveal_type(x.allclose(x))  # bool
reveal_type(x.T.mT)  # Tensor
gw.arcsin(gw.concatenate([x, x]))
gw.linalg.det(gw.special.gammaln(x))
x.sum(dimension=1)  # error: call-arg
x.tanh(1)  # error: call-arg
x.tanh_(1)  # error: call-arg
x.tahn()  # error: attr-defined
x.arcsinn_()  # error: attr-defined
gw.linalg.dett(x)  # error: attr-defined
"""


def test_the_stubs_are_up_to_date() -> None:
    for path, text in stubs.stubs().items():
        written = (stubs.PACKAGE / path).read_text(encoding="utf-8")
        assert written == text, f"{path} is out of date: run `python -m tools.stubs`"


@pytest.mark.slow
def test_mypy_knows_methods_in_place_forms_and_second_names(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    said: dict[int, str] = {}
    for line, text in re.findall(r"program\.py:(\d+): (.*)", checked.stdout):
        said.setdefault(int(line), text)  # notes may follow an error
    for number, line in enumerate(PROGRAM.split("\n"), 1):
        code, _, expected = line.partition("  # ")
        answer = said.pop(number, "")
        if expected.startswith("error: "):
            assert answer.endswith(f"[{expected.removeprefix('error: ')}]"), (code, answer)
        elif expected:
            shown = re.sub(r"gradwalk\.[\w.]+\.(\w+)", r"\1", answer)
            shown = shown.replace("builtins.", "")
            assert f'Revealed type is "{expected}"' in shown, (code, answer)
        else:
            assert not answer, (code, answer)
    assert not said
