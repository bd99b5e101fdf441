"""Sick programs and their healthy twins: NaN, no gradient, wrong rules.

Each file has two functions, `sick` and `healthy`, that differ in one line.
- `nan_*.py` returns a step for `find_nan`; KIND, OP and LAYER say what is to be found.
- `none_*.py` returns a parameter and a recording for `why_no_grad`; VERDICT, KIND, OP.
- `bug_*.py` returns a function and its inputs for `gradcheck`; NAMED and OP must be in its words.
The line that is named is the one the twins differ in, or LINE where that is another one.
"""

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gradwalk as gw
from gradwalk.inspect.mistakes.audit import audit
from gradwalk.inspect.mistakes.gradcheck import GradcheckError
from gradwalk.inspect.nan.find_nan import find_nan
from gradwalk.inspect.no_grad.why_no_grad import why_no_grad

HERE = Path(__file__).parent
NANS, NONES, BUGS = (sorted(HERE.glob(f"{kind}_*.py")) for kind in ("nan", "none", "bug"))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"clinic_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def body(function: Any) -> tuple[list[str], int]:
    """The lines of a function after its docstring, and the number of the first."""
    lines, first = inspect.getsourcelines(function)
    return lines[2:], first + 2


def expected_line(module: ModuleType) -> int:
    """The number of the line of `sick` that is to be named."""
    sick, first = body(module.sick)
    healthy, _ = body(module.healthy)
    assert len(sick) == len(healthy), "the twins have different numbers of lines"
    differing = [k for k, (one, other) in enumerate(zip(sick, healthy)) if one != other]
    assert len(differing) == 1, "the twins differ in exactly one line"
    if not hasattr(module, "LINE"):
        return first + differing[0]
    (place,) = [k for k, line in enumerate(sick) if line.strip() == module.LINE]
    return first + place


def test_there_are_enough_cases() -> None:
    assert len(NANS) + len(NONES) + len(BUGS) >= 14
    assert min(len(NANS), len(NONES), len(BUGS)) >= 5


@pytest.mark.parametrize("path", NANS, ids=lambda path: path.stem)
def test_the_first_cause_of_a_nan(path: Path) -> None:
    module = load(path)
    found = find_nan(module.sick())
    assert found, "nothing was found in the sick program"
    assert (found.kind, found.op, found.layer) == (module.KIND, module.OP, module.LAYER), str(found)
    assert found.line is not None and found.line.file == str(path)
    assert found.line.line == expected_line(module), str(found)
    assert found.direction == getattr(module, "DIRECTION", "forward")
    assert found.reason and found.fix
    assert getattr(module, "REASON", "") in found.reason
    if hasattr(module, "INDEX"):
        assert found.index == module.INDEX
    if hasattr(module, "NAME"):
        assert found.name == module.NAME
    if hasattr(module, "BECAME"):
        assert found.became is not None and found.became.op == module.BECAME
    assert all(len(row) <= 80 for row in str(found).splitlines())
    healthy = find_nan(module.healthy())
    assert not healthy, str(healthy)


@pytest.mark.parametrize("path", NONES, ids=lambda path: path.stem)
def test_why_there_is_no_gradient(path: Path) -> None:
    module = load(path)
    found = why_no_grad(*module.sick())
    assert (found.verdict, found.kind, found.op) == (module.VERDICT, module.KIND, module.OP), found
    assert found.line is not None and found.line.file == str(path)
    assert found.line.line == expected_line(module), str(found)
    assert found.reason and found.fix
    if hasattr(module, "LAYER"):
        assert found.layer == module.LAYER
    if hasattr(module, "REASON"):
        assert module.REASON in found.reason
    if hasattr(module, "SUSPECT"):
        assert module.SUSPECT in found.suspects[0]
    assert all(len(row) <= 80 for row in str(found).splitlines())
    healthy = why_no_grad(*module.healthy())
    assert healthy.verdict == "flows", str(healthy)


@pytest.mark.parametrize("path", BUGS, ids=lambda path: path.stem)
def test_a_wrong_rule_is_named(path: Path) -> None:
    module = load(path)
    expected_line(module)  # that they differ in one line
    with pytest.raises(GradcheckError) as raised:
        gw.gradcheck(*module.sick())
    diagnosis = raised.value.diagnosis
    assert diagnosis is not None and diagnosis.startswith(module.NAMED), diagnosis
    assert module.OP in diagnosis and f"{path.name}:" in diagnosis
    assert gw.gradcheck(*module.healthy())


@pytest.mark.parametrize("path", BUGS, ids=lambda path: path.stem)
def test_a_wrong_rule_is_found_by_audit(path: Path) -> None:
    function, inputs = load(path).sick()
    given = inputs if isinstance(inputs, tuple | list) else [inputs]
    with gw.record() as trace:
        out = function(*given)
        out = out.sum() if isinstance(out, gw.Tensor) else out
        out.backward()
    found = audit(trace if isinstance(out, gw.Tensor) else gw.record(out))
    assert found, str(found)
