"""Run the checks on what was observed, and keep what they found and what they ruled out."""

from __future__ import annotations

import time
from collections.abc import Iterable

from gradwalk.inspect.doctor.checks import CHECKS, Check
from gradwalk.inspect.doctor.observed import ObservedRun, ObservedStep
from gradwalk.inspect.health.findings import Finding

MOST_SECONDS = 30.0  # that the checks of one step may take; dearer ones are then left out


class Examination:
    """The findings of all checks so far."""

    def __init__(self, checks: Iterable[Check] = CHECKS) -> None:
        self.checks = list(checks)
        self.found: list[Finding] = []
        self.silent: set[str] = set()  # what was looked for
        self.guilty: set[str] = set()  # what was found
        self.failed: dict[str, str] = {}  # checks that could not look, and why

    def of_step(self, step: ObservedStep) -> None:
        """Examine a recorded step."""
        began = time.monotonic()
        for check in self.checks:
            if check.of != "step":
                continue
            if time.monotonic() - began > MOST_SECONDS:
                self.failed.setdefault(check.rules_out, "no time was left for it")
            else:
                self._look(check, step)

    def of_run(self, run: ObservedRun) -> None:
        """Examine the whole run."""
        for check in self.checks:
            if check.of == "run":
                self._look(check, run)

    def _look(self, check: Check, observed: ObservedStep | ObservedRun) -> None:
        try:
            found = check(observed)
        except Exception as error:  # one check must not take the others with it
            self.failed[check.rules_out] = f"{type(error).__name__}: {error}"
            return
        if found is None:
            return
        self.silent.add(check.rules_out)
        for finding in found:
            self.guilty.add(check.rules_out)
            self.add(finding)

    def add(self, finding: Finding) -> None:
        """Add a finding, unless an earlier step showed the same."""
        if all(_key(f) != _key(finding) and not _is_about(f, finding) for f in self.found):
            self.found.append(finding)

    @property
    def ruled_out(self) -> list[str]:
        """What was looked for and not found."""
        return [
            check.rules_out for check in self.checks if check.rules_out in self.silent - self.guilty
        ]


def _is_about(known: Finding, finding: Finding) -> bool:
    """Whether a finding is about parameters that an earlier one of its kind is about."""
    about = finding._about
    return known.kind == finding.kind and bool(about) and about <= known._about


def _key(finding: Finding) -> tuple[object, ...]:
    """Equal for the same fault in two steps: of updates that are too large, another is largest."""
    layer = "" if finding.kind in ("update", "unused", "zero", "rows mix") else finding.layer
    return finding.kind, layer, finding.line
