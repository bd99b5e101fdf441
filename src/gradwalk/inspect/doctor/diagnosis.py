"""Diagnosis: the doctor's report. At most three findings, and what was ruled out."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradwalk.inspect.doctor.examination import Examination
from gradwalk.inspect.doctor.loss_curve import FALLS, UNKNOWN, verdict
from gradwalk.inspect.doctor.observed import ObservedRun
from gradwalk.inspect.doctor.rates import history
from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.routes import wrapped

CONFIDENCE = ("certain", "likely", "possible")
MOST = 3  # findings
WELL = 0.3  # share of the loss that is gone: the layers learn, whatever their sizes are
OF_LAYERS = {"vanishing", "exploding", "dead", "saturated", "initialisation", "update", "zero"}
# A finding of the first kind explains those of the others: they are its consequences.
EXPLAINS = {
    "error": {"NaN", "explosion", "spike", "update", "exploding", "vanishing", "unused"},
    "rate": {"update", "NaN", "Inf", "explosion", "spike", "exploding", "stuck"},
    "left over": {"NaN", "Inf", "explosion", "spike", "update", "exploding"},
    "sum": {"NaN", "Inf", "explosion", "spike", "update", "exploding"},
    "accumulation": {"update", "exploding", "explosion", "spike"},
    "eps": {"NaN", "Inf", "update"},
    "weight decay": {"vanishing", "update", "zero", "dead"},
    "dropout": {"update", "zero", "dead"},
    "update": {"exploding", "explosion", "spike", "Inf"},
    "dead": {"zero", "vanishing"},
    "saturated": {"zero", "vanishing"},
    "initialisation": {"zero", "vanishing"},
    "NaN": {"update", "vanishing", "exploding", "explosion", "spike"},
}


@dataclass
class Diagnosis(Report):
    """What is most likely wrong with a training run; `findings` is empty if nothing is."""

    findings: list[Finding]  # at most three, most likely first
    ruled_out: list[str]
    engine: str = ""
    steps: int = 0
    optimizers: list[str] = field(default_factory=list)
    loss: str = ""  # how it went
    rates: str = ""  # how the learning rate went
    ended: str = ""  # how the program ended
    more: int = 0  # findings that are less likely
    not_checked: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether something was found."""
        return bool(self.findings)

    def __str__(self) -> str:
        count = len(self.findings)
        said = "nothing found" if not count else f"{count} finding{'s' if count > 1 else ''}"
        of = f" of {', '.join(self.optimizers)}" if self.optimizers else ""
        where = f" in {self.steps} steps{of} ({self.engine})" if self.steps or count else ""
        none = "" if where else ": the program ran no backward pass, so there is nothing to examine"
        lines = wrapped(f"doctor: {said}{where}{none}.", "", "  ")
        for number, finding in enumerate(self.findings, 1):
            lines += ["", f"{number}. {finding}"]
        if self.more:
            lines += ["", f"{self.more} more, less likely, left out."]
        rows = [("loss", self.loss), ("rate", self.rates), ("ended", self.ended)]
        rows.append(("checked" if not count else "not it", "; ".join(self.ruled_out)))
        rows += [("unclear", f"{what}: {why}") for what, why in self.not_checked.items()]
        lines.append("")
        for head, text in rows:
            if text:
                lines += wrapped(text, f"{head:<8} ", " " * 9)
        return "\n".join(lines)


def diagnosis(run: ObservedRun, examination: Examination) -> Diagnosis:
    """Rank what was found."""
    verdict_of_loss = verdict(run.losses)
    found = list(examination.found)
    if verdict_of_loss.kind in (FALLS, UNKNOWN):
        learns = verdict_of_loss.fallen > WELL
        found = [
            f for f in found if f.confidence != "possible" and not (learns and f.kind in OF_LAYERS)
        ]
    found.sort(key=lambda f: CONFIDENCE.index(f.confidence or "likely"))
    kept = _without_consequences(found)
    if kept and kept[0].confidence == "certain":  # the sizes of layers may come from it
        kept = [f for f in kept if f.kind not in OF_LAYERS] or kept
    return Diagnosis(
        kept[:MOST],
        examination.ruled_out,
        run.engine,
        len(run.steps),
        _names(run),
        verdict_of_loss.text,
        history(run),
        run.stopped and f"by the doctor, {run.stopped}",
        max(len(kept) - MOST, 0),
        examination.failed,
    )


def _names(run: ObservedRun) -> list[str]:
    """The optimizers; the names of equal ones once."""
    names = [type(known.optimizer).__name__ for known in run.optimizers]
    return list(dict.fromkeys(names))


def _without_consequences(found: list[Finding]) -> list[Finding]:
    kept: list[Finding] = []
    for finding in found:
        cause = next((f for f in found if finding.kind in EXPLAINS.get(f.kind, ())), None)
        if cause is None or cause is finding:
            kept.append(finding)
        else:
            cause.others.append(f"{finding.kind} at {finding.layer or finding.line}")
    return kept
