"""Explain an error of backward: run its step again, recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from gradwalk.graph.source import SourceLine, source_line
from gradwalk.torch import private
from gradwalk.torch.record.backward_errors import explained
from gradwalk.torch.record.freed_graphs import FREED
from gradwalk.torch.record.storages import OVERWRITTEN
from gradwalk.torch.rerun.call_stack import FrameSnapshot
from gradwalk.torch.rerun.rerun import Rerun, Run
from gradwalk.torch.rerun.snapshots import ModelCall

EXPLAINED = (FREED, OVERWRITTEN)
Reruns = Callable[[bool], AbstractContextManager[Rerun]]  # given whether ranks gather weights


@contextmanager
def explained_again(
    asked: private.BackwardCall, frames: list[FrameSnapshot], calls: list[ModelCall], reruns: Reruns
) -> Iterator[None]:
    """Around a backward pass: run a step whose backward fails again, for PyTorch's error to say
    which tensor it is about, and which line made it."""

    def line() -> SourceLine | None:
        return source_line(frames[0].code, frames[0].instruction) if frames else None

    with explained(asked, line, lambda node: None):
        try:
            yield
        except RuntimeError as error:
            # Only what a recording can explain is worth a second run.
            if any(words in str(error) for words in EXPLAINED):
                with reruns(False) as again:
                    second = again.failed(Run(calls, frames, None, None))
                if second is not None and str(second) == str(error):
                    for note in getattr(second, "__notes__", ()):
                        error.add_note(note)
            raise
