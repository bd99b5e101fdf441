"""Record steps as they run: slower than running one again, but always faithful."""

from __future__ import annotations

from gradwalk.inspect.trace.trace import Trace
from gradwalk.torch.record.recorder import TorchRecorder


class StepRecordings:
    """Recordings of all steps from a given one on; only the last is kept."""

    def __init__(self, first: int | None, budget: int) -> None:
        self.first = first  # None: no step is recorded
        self.budget = budget
        self._recorder: TorchRecorder | None = None

    def begin(self, step: int) -> None:
        """Begin a step: end the recording of the one before."""
        self.end()
        if self.first is not None and step >= self.first:
            self._recorder = TorchRecorder(budget=self.budget)
            self._recorder.__enter__()

    def end(self) -> Trace | None:
        """End the recording and return its trace."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return None
        recorder.__exit__(None, None, None)
        return recorder.trace
