"""The answer of why_no_grad."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.routes import PathStep, chain, labelled, wrapped


@dataclass(kw_only=True)
class Cut:
    """A point where the gradient stops."""

    name: str
    kind: str = ""
    reason: str = ""
    fix: str = ""
    node: int | None = None
    op: str = ""
    layer: str = ""
    line: SourceLine | None = None
    passing: bool = False  # the first step of training ends it
    path: list[PathStep] = field(default_factory=list)  # from the parameter to the cut
    beyond: list[PathStep] = field(default_factory=list)  # from behind the cut to the loss


@dataclass(kw_only=True)
class WhyNoGrad(Cut, Report):
    """The answer of `why_no_grad`. `verdict` is "none", "zero" or "flows"."""

    verdict: str
    others: list[Cut] = field(default_factory=list)  # cuts on other paths to the loss
    suspects: list[str] = field(default_factory=list)  # guesses where nothing is certain
    scalar: bool = False

    def __bool__(self) -> bool:
        """Whether something stops the gradient, and for longer than the first step."""
        return self.verdict != "flows" and not self.passing

    def __str__(self) -> str:
        others = [
            f"{cut.kind}{'' if cut.line is None else f' at {cut.line}'}: {cut.reason}"
            for cut in self.others[:3]
        ]
        if len(self.others) > 3:
            others.append(f"{len(self.others) - 3} more")
        lines = [
            *wrapped(f"{self.name}: {self._headline()}", "", ""),
            *labelled(
                ("made at" if self.kind in _ABOUT_ITSELF else "cut at", self.line),
                ("in", self.layer),
                ("why", self.reason),
                ("path", chain(self.path) if len(self.path) > 1 else ""),
                ("beyond", chain(self.beyond)),
                *(("also", other) for other in others),
                *(("perhaps", suspect) for suspect in self.suspects[:3]),
            ),
        ]
        if self.fix:
            lines += wrapped(f"Fix: {self.fix}", "", "     ")
        return "\n".join(lines)

    def _headline(self) -> str:
        if self.verdict == "flows":
            return "the gradient is neither None nor zero."
        if self.kind in ("not a leaf", "cleared"):
            return ".grad is None, though a gradient arrived."
        if self.verdict == "zero":
            return "the gradient is 0: the path to the loss is unbroken, but multiplied by 0."
        if self.scalar:
            return "the gradient is 0 because nothing arrives."
        return "the gradient is None: nothing arrives."


_ABOUT_ITSELF = {
    "requires_grad", "integer leaf", "not a leaf", "unused", "no gradient below", "no graph",
    "no backward", "not asked for", "cleared",
}  # fmt: skip
