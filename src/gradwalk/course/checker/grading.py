"""`gradwalk course check`: try a learner's Value class on graphs, grade it, and say why.

The file runs in a process of its own (`process.py`, `runner.py`), which receives graphs and answers
with numbers; the right numbers stay here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradwalk.course.checker.diagnosis import diagnose
from gradwalk.course.checker.outcomes import NOT_TRIED, SLOW, Mistake, Outcome
from gradwalk.course.checker.process import (
    Ended,
    Failure,
    Forbidden,
    LearnerProcess,
    NotLoaded,
    ProcessLimits,
    TooSlow,
    printable,
    supported,
)
from gradwalk.course.checker.same_process import SameProcess
from gradwalk.course.checker.trials import OUT_OF, STAGES, GraphTrial, trials
from gradwalk.inspect.report import Report

__all__ = ["CheckedFile", "CheckedStage", "check_file", "check_files", "check_source", "starter"]

LARGEST_FILE = 2**20
MOST_RESTARTS = 3  # of a process that did not answer
_STARTER = Path(__file__).with_name("starter.txt")


@dataclass
class CheckedStage(Report):
    """One part of the exercise."""

    key: str
    title: str
    right: int  # trials
    tried: int
    points: int
    out_of: int


@dataclass
class CheckedFile(Report):
    """The grade of one file."""

    file: str
    points: int = 0
    out_of: int = OUT_OF
    stages: list[CheckedStage] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    reason: str = ""  # why it was not graded, if it was not
    not_enforced: list[str] = field(default_factory=list)  # what this system could not prevent

    @property
    def passed(self) -> bool:
        """Whether the file has all points."""
        return self.points == self.out_of

    def to_dict(self) -> dict[str, Any]:
        """The grade as plain data."""
        mistakes = [mistake._asdict() for mistake in self.mistakes]
        return {**Report.to_dict(self), "passed": self.passed, "mistakes": mistakes}

    def __str__(self) -> str:
        lines = [f"{self.file}: {self.points} of {self.out_of} points"]
        if self.reason:
            lines.append(f"  {self.reason}")
        lines += [f"  Not enforced on this system: {words}." for words in self.not_enforced]
        wide = max((len(stage.title) for stage in self.stages), default=0)
        for stage in self.stages:
            wrong = stage.tried - stage.right
            note = f"  {wrong} of {stage.tried} wrong" if wrong else ""
            lines.append(f"  {stage.title:<{wide}}  {stage.points:>2} of {stage.out_of}{note}")
        for mistake in self.mistakes:
            lines += ["", f"It {mistake.title}.", f"  {mistake.text}"]
        return "\n".join(lines)


def starter() -> str:
    """The file a learner begins with; it describes the exercise."""
    return _STARTER.read_text(encoding="utf-8")


def check_file(path: str | Path, seed: int = 0, limits: ProcessLimits | None = None) -> CheckedFile:
    """Run the class Value in a file on every trial, in a process of its own, and grade it.

    It never raises for what the file is or does: a file that cannot be graded has a `reason`.
    """
    name = printable(str(path), most=1000)
    try:
        source = _read(Path(path))
    except (OSError, ValueError) as error:
        return CheckedFile(name, reason=f"Not graded: {error}.")
    return check_source(source, name, seed, limits)


def check_source(
    source: bytes,
    name: str = "engine.py",
    seed: int = 0,
    limits: ProcessLimits | None = None,
    only_enforced: bool = False,
) -> CheckedFile:
    """Grade the text of a file; `only_enforced`: not where the kernel does not keep it in."""
    missing = supported()
    if missing:
        raise OSError(missing)
    checked = CheckedFile(name)
    try:
        outcomes = _run(
            source, trials(seed), limits or ProcessLimits(), checked.not_enforced, only_enforced
        )
    except (Forbidden, OSError) as error:
        checked.reason = f"Not graded: {error}."
    except NotLoaded as error:
        checked.reason = f"The file does not run: {error}."
    else:
        checked.stages = _grade(outcomes)
        checked.points = sum(stage.points for stage in checked.stages)
        checked.mistakes = diagnose(outcomes)
    return checked


def check_files(
    paths: Sequence[str | Path],
    seed: int = 0,
    limits: ProcessLimits | None = None,
    on_done: Callable[[CheckedFile], None] = lambda checked: None,
) -> list[CheckedFile]:
    """Check many files at once, as many as there are cores; answers in the order of `paths`.

    A fault of one file is in its own answer. `on_done` is called with each as it is ready.
    """
    trials(seed)  # made once, before several threads ask for them
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        waiting = [pool.submit(_checked, path, seed, limits) for path in paths]
        for done in as_completed(waiting):
            on_done(done.result())
        return [done.result() for done in waiting]
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupt waits for the few that are running


def _checked(path: str | Path, seed: int, limits: ProcessLimits | None) -> CheckedFile:
    try:
        return check_file(path, seed, limits)
    except Exception as error:  # a fault of the checker's must not stop a class either
        reason = f"Not graded: the checker failed ({printable(repr(error))})."
        return CheckedFile(printable(str(path), most=1000), reason=reason)


# -- running ---------------------------------------------------------------------------------------


def _read(path: Path) -> bytes:
    if path.is_symlink():
        raise ValueError("this is a symbolic link, which is not followed; name the file itself")
    if not path.is_file():
        wanted = f"this is a folder; name its files: {path / '*.py'}"
        raise ValueError(wanted if path.is_dir() else "there is no such file")
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        source = file.read(LARGEST_FILE + 1)
    if len(source) > LARGEST_FILE:
        raise ValueError(f"the file is larger than {LARGEST_FILE // 2**20} MB")
    return source


def _run(
    source: bytes,
    asked: Sequence[GraphTrial],
    limits: ProcessLimits,
    not_enforced: list[str],
    only_enforced: bool,
) -> list[Outcome]:
    """Run every trial; after one without an answer, go on with the next in a new process."""
    outcomes: list[Outcome] = []
    for _ in range(1 + MOST_RESTARTS):
        with _place_for(source, limits) as process:
            not_enforced[:] = process.begin()
            if not_enforced and only_enforced:
                raise OSError(f"this system does not prevent {not_enforced[0]}")
            process.load()
            for trial in asked[len(outcomes) :]:
                try:
                    answer = process.ask(trial.request, 2 * len(trial.watched))
                except TooSlow:
                    outcomes.append(Outcome(trial, ended=SLOW))
                    break
                except Ended as error:
                    outcomes.append(Outcome(trial, ended=f"the process {error}"))
                    break
                if isinstance(answer, Failure):
                    outcomes.append(Outcome(trial, failure=answer))
                else:
                    outcomes.append(Outcome(trial, numbers=tuple(answer)))
        if len(outcomes) == len(asked):
            return outcomes
    return outcomes + [Outcome(trial, ended=NOT_TRIED) for trial in asked[len(outcomes) :]]


def _place_for(source: bytes, limits: ProcessLimits) -> LearnerProcess | SameProcess:
    if sys.platform == "emscripten":
        return SameProcess(source)
    return LearnerProcess(source, limits)


def _grade(outcomes: Sequence[Outcome]) -> list[CheckedStage]:
    grades = []
    for key, title, out_of in STAGES:
        right = [o.right for o in outcomes if o.trial.stage == key]
        points = out_of * sum(right) // len(right)
        grades.append(CheckedStage(key, title, sum(right), len(right), points, out_of))
    return grades
