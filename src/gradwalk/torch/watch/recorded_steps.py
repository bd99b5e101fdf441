"""Recording the steps of a program as they run: slower than to run one again, but always true."""

from __future__ import annotations

from gradwalk.inspect.trace.trace import Trace
from gradwalk.torch.record.recorder import TorchRecorder


class StepRecordings:
    """From a step on, a recording of each; only the last one is kept."""

    def __init__(self, first: int | None, budget: int) -> None:
        self.first = first  # None: no step is recorded
        self.budget = budget
        self._recorder: TorchRecorder | None = None

    def begin(self, step: int) -> None:
        """A step begins: the one before is over."""
        self.end()
        if self.first is not None and step >= self.first:
            self._recorder = TorchRecorder(budget=self.budget)
            self._recorder.__enter__()

    def end(self) -> Trace | None:
        """Stop, and give what was recorded."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return None
        recorder.__exit__(None, None, None)
        return recorder.trace
