"""The clinic's older pairs, one step or one function each, as programs for the doctor.

They are written for one tool each (`test_clinic_gradients.py`, `test_clinic_health.py`). Here the
doctor is given the step alone. Those of `why_no_grad` are left out: they ask about one tensor, and
nothing in a program says that it should have a gradient.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradwalk.inspect.doctor.diagnosis import Diagnosis
from gradwalk.inspect.doctor.doctor import examined
from tests.clinic.clinic_programs import HERE, VERDICTS
from tests.clinic.test_clinic_gradients import expected_line, load
from tests.clinic.test_clinic_health import differing_line
from tests.torch.test_clinic import on_torch

KINDS = {"nan": {"NaN"}, "bug": {"wrong backward"}}


@dataclass(frozen=True)
class ClinicFragment:
    """A sick step and its healthy twin, from one module."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def engines(self) -> tuple[str, ...]:
        return ("gradwalk",) if self.name.startswith("bug_") else ("torch", "gradwalk")

    def examine(self, folder: Path, engine: str, sick: bool) -> Diagnosis:
        """What the doctor says of one step."""
        module = on_torch(self.path) if engine == "torch" else load(self.path)
        make = module.sick if sick else module.healthy

        def program() -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _step(self.path.stem.partition("_")[0], make)

        return examined(program, [engine == "torch"])

    def verdict(self, said: Diagnosis) -> str:
        """As of a program."""
        module, kind = load(self.path), self.path.stem.partition("_")[0]
        wanted = KINDS.get(kind) or {module.KIND}
        line = differing_line(module) if kind == "health" else expected_line(module)
        best = 2
        for finding in said.findings:
            places = [p.line for p in (finding.line, finding.cause) if p is not None]
            near = line in places or kind == "bug"  # a Function is named, not its line
            best = min(best, 2 - (finding.kind in wanted) - (near and bool(places)))
        return VERDICTS[best]


def _step(kind: str, make: Callable[[], Any]) -> None:
    made = make()
    if kind == "nan":
        made()
    elif kind == "health":
        _, loss, optimizer = made
        if hasattr(loss, "backward"):
            loss.backward()
        if optimizer is not None:
            optimizer.step()
    elif kind == "bug":
        function, inputs = made
        out = function(*inputs) if isinstance(inputs, tuple | list) else function(inputs)
        (out.sum() if hasattr(out, "sum") else out).backward()


FRAGMENTS = [
    ClinicFragment(path)
    for kind in ("bug", "health", "nan")
    for path in sorted(HERE.glob(f"{kind}_*.py"))
]
