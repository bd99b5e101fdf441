"""Sick programs and their healthy twins: `health` names layer and line of the one, and is silent
about the other.

Each `health_*.py` has two functions, `sick` and `healthy`, that differ in one line. Each returns
the model, its loss (or a recording) and the optimizer; KIND and LAYER say what is to be found.
"""

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from gradwalk.inspect.health.health import health

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("health_*.py"))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"clinic_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def body(function: object) -> tuple[list[str], int]:
    """The lines of a function after its docstring, and the number of the first."""
    lines, first = inspect.getsourcelines(function)  # type: ignore[arg-type]
    return lines[2:], first + 2


def differing_line(module: ModuleType) -> int:
    """The number of the one line of `sick` that is another in `healthy`."""
    sick, first = body(module.sick)
    healthy, _ = body(module.healthy)
    assert len(sick) == len(healthy), "the twins have different numbers of lines"
    differing = [k for k, (one, other) in enumerate(zip(sick, healthy)) if one != other]
    assert len(differing) == 1, "the twins differ in one line"
    return first + differing[0]


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 12


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_sick_is_named_and_its_twin_is_not(path: Path) -> None:
    module = load(path)
    report = health(*module.sick())
    found = [finding for finding in report.findings if finding.kind == module.KIND]
    assert len(found) == 1, str(report)
    (finding,) = found
    assert finding.layer == module.LAYER
    named = [line.line for line in (finding.line, finding.cause) if line is not None]
    assert differing_line(module) in named, str(finding)
    assert finding.change
    assert health(*module.healthy()).findings == []
    if finding.kind in ("vanishing", "exploding", "dead", "saturated", "update"):
        assert finding.factors and "×" in finding.chain
    assert all(len(row) <= 80 for row in str(report).splitlines())
