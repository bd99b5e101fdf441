"""Programs written for PyTorch print the same under gradwalk when only their imports change."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import pytest

import gradwalk as gw
from tests.project.checkout import ROOT

FOLDER = ROOT / "examples" / "from_pytorch"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")
ALONE = {"onnx_file"}  # it checks itself: PyTorch exports with packages that are not installed


def printed_by(program: Path) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(str(program), run_name="__main__")
    return out.getvalue()


@pytest.mark.filterwarnings(
    "error", "ignore:.torch.jit.script:DeprecationWarning", "ignore:Sparse invariant:UserWarning"
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_prints_what_pytorch_prints(name: str, tmp_path: Path) -> None:
    source = (FOLDER / f"{name}.py").read_text("utf-8")
    program = tmp_path / f"{name}.py"
    program.write_text(source.replace("gradwalk", "torch"), encoding="utf-8")
    gw.manual_seed(0, like="torch")  # the programs seed, which keeps PyTorch's numbers
    ours = printed_by(FOLDER / f"{name}.py")
    if name in ALONE:
        return
    theirs = printed_by(program)
    assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs)
    # Rounding grows over the steps of training, and bfloat16 has eight bits.
    close = 3e-2 if name == "mixed_precision" else 2e-3
    for here, there in zip(ours.splitlines(), theirs.splitlines(), strict=True):
        numbers = [[float(n) for n in NUMBER.findall(line)] for line in (here, there)]
        assert numbers[0] == pytest.approx(numbers[1], rel=close, abs=close / 10), there


def test_there_are_twenty() -> None:
    assert len(PROGRAMS) >= 20
