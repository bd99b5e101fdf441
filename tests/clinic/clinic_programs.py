"""Training programs with a bug, and what the doctor says about them and their healthy twins.

Each file in `programs/` is a program as people write it, for PyTorch; with other imports it runs on
gradwalk. The docstring states the symptom, the kinds of finding that name the cause, and the line
that heals it; that line replaces the one marked `# sick`. `at` is another line where the fault
shows, which may be named instead. `engine` says that a program makes sense on one engine only.

The doctor gets the program and nothing else.
"""

import ast
import contextlib
import io
import re
import runpy
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gradwalk.inspect.doctor.diagnosis import Diagnosis
from gradwalk.inspect.doctor.doctor import examined

HERE = Path(__file__).parent
FOLDER = HERE / "programs"
SYMPTOMS = ("loss stuck", "loss wrong", "diverges", "crashes")
ENGINES = ("torch", "gradwalk")
MARK = re.compile(r"^( *)(.*?)  # sick$", re.MULTILINE)
WORDS = ((r"^import torch$", "import gradwalk as torch"), (r"^from torch\b", "from gradwalk"))
VERDICTS = ("found", "partly", "missed")


@dataclass(frozen=True)
class ClinicProgram:
    """A sick program and its healthy twin."""

    path: Path

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @cached_property
    def source(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def header(self) -> dict[str, str]:
        lines = (ast.get_docstring(ast.parse(self.source)) or "").splitlines()
        return dict(line.split(": ", 1) for line in lines if re.match(r"^[a-z]+: ", line))

    @property
    def engines(self) -> tuple[str, ...]:
        return (self.header["engine"],) if "engine" in self.header else ENGINES

    @property
    def kinds(self) -> set[str]:
        return set(self.header["finds"].split(", "))

    @cached_property
    def lines(self) -> set[int]:
        """The numbers of the lines that may be named."""
        written = self.source.splitlines()
        sick = [k for k, line in enumerate(written, 1) if line.endswith("  # sick")]
        at = self.header.get("at")
        return {*sick, *(k for k, line in enumerate(written, 1) if at and line.strip() == at)}

    def text(self, engine: str, sick: bool) -> str:
        """The program, sick or healthy, with the imports of an engine."""
        (mark,) = MARK.finditer(self.source)
        line = mark[2] if sick else self.header["healthy"]
        text = f"{self.source[: mark.start()]}{mark[1]}{line}{self.source[mark.end() :]}"
        for theirs, ours in WORDS if engine == "gradwalk" else ():
            text = re.sub(theirs, ours, text, flags=re.MULTILINE)
        return text

    def examine(self, folder: Path, engine: str, sick: bool) -> Diagnosis:
        """What the doctor says."""
        file = folder / f"{self.path.stem}_{engine}_{'sick' if sick else 'healthy'}.py"
        file.write_text(self.text(engine, sick), encoding="utf-8")

        def program() -> None:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                runpy.run_path(str(file), run_name="__main__")

        return examined(program, [engine == "torch"])

    def verdict(self, said: Diagnosis) -> str:
        """ "found": cause and line; "partly": one of them; "missed": neither."""
        best = 2
        for finding in said.findings:
            cause = finding.kind in self.kinds
            line = any(self._is_here(place) for place in (finding.line, finding.cause))
            best = min(best, 2 - cause - line)
        return VERDICTS[best]

    def _is_here(self, place: Any) -> bool:
        """Whether a place is one of the lines, or defines the function that the sick line is in."""
        while place is not None:
            if place.line in self.lines or place.line in self._definitions:
                return True
            place = place.caller
        return False

    @cached_property
    def _definitions(self) -> set[int]:
        """A wrong backward is named by its definition: its lines are not told apart."""
        found = set()
        for node in ast.walk(ast.parse(self.source)):
            if isinstance(node, ast.FunctionDef) and node.name == "backward":
                inside = any(node.lineno <= line <= (node.end_lineno or 0) for line in self.lines)
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                found |= {first, node.lineno} if inside else set()
        return found


PROGRAMS = [ClinicProgram(path) for path in sorted(FOLDER.rglob("*.py"))]
