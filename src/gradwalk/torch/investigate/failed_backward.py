"""Explain an error of backward: run its step again, recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from gradwalk.torch.record.backward_errors import explain
from gradwalk.torch.record.freed_graphs import FREED
from gradwalk.torch.record.storages import OVERWRITTEN
from gradwalk.torch.rerun.call_stack import FrameSnapshot
from gradwalk.torch.rerun.rerun import Rerun, Run
from gradwalk.torch.rerun.snapshots import ModelCall

EXPLAINED = (FREED, OVERWRITTEN)
Reruns = Callable[[bool], AbstractContextManager[Rerun]]  # given whether ranks gather weights


def explain_again(
    error: RuntimeError,
    outputs: Sequence[Any],
    frames: list[FrameSnapshot],
    calls: list[ModelCall],
    reruns: Reruns,
) -> None:
    """Run a step whose backward failed again, for PyTorch's error to say which tensor it is about,
    and which line made it."""
    # Only what a recording can explain is worth a second run.
    if any(words in str(error) for words in EXPLAINED):
        with reruns(False) as again:
            second = again.failed(Run(calls, frames, None, None))
        if second is not None and str(second) == str(error):
            for note in dict.fromkeys(getattr(second, "__notes__", ())):
                error.add_note(note)
    explain(error, outputs, lambda node: None)
