"""Notes that the ranks of a job leave for one another in its store.

A note is no collective: a rank that waits for one gives up after a while, and a rank that never
looks at the store is not held up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

import torch.distributed as dist

from gradwalk.torch import private_distributed

ARRIVES = 5.0  # seconds within which every rank that stops at the same step says so
REPORTS = 60.0  # seconds within which a rank that said so has written its report
_POLL = 0.02
_AVAILABLE = dist.is_available()


def is_one_of_many() -> bool:
    """Whether this process is one of several ranks."""
    return _AVAILABLE and dist.is_initialized() and dist.get_world_size() > 1


class Notes:
    """The notes of one subject; all ranks give it the same name."""

    def __init__(self, subject: str) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self._subject = f"gradwalk/{subject}"
        self._store = private_distributed.default_store()

    def put(self, name: str, note: Any) -> None:
        """Leave a note of this rank."""
        self._store.set(self._key(name, self.rank), json.dumps(note))

    def read(self, name: str, ranks: Iterable[int], seconds: float) -> dict[int, Any]:
        """Wait for the notes of these ranks, and return those that came, by rank."""
        missing = {rank: self._key(name, rank) for rank in ranks}
        notes: dict[int, Any] = {}
        end = time.monotonic() + seconds
        while missing:
            try:
                for rank, key in list(missing.items()):
                    if self._store.check([key]):
                        notes[rank] = json.loads(self._store.get(key))
                        del missing[rank]
            except RuntimeError:  # the process that holds the store has ended
                break
            if not missing or time.monotonic() > end:
                break
            time.sleep(_POLL)
        return dict(sorted(notes.items()))

    def decide(self, name: str, answer: str) -> str:
        """Return the same answer on every rank: the one of the first rank that decided."""
        try:
            decided = self._store.compare_set(f"{self._subject}/{name}", "", answer)
        except RuntimeError:
            return ""
        return decided.decode() if isinstance(decided, bytes) else str(decided)

    def all_here(self, name: str) -> bool:
        """Whether every rank has come here within a while; all ranks get the same answer."""
        self.put(name, True)
        here = self.read(name, range(self.world), ARRIVES)
        return self.decide(f"{name}/all", "yes" if len(here) == self.world else "no") == "yes"

    def _key(self, name: str, rank: int) -> str:
        return f"{self._subject}/{name}/{rank}"
