"""Agree on one gradient norm when every rank holds only a part of the gradients.

A NaN may lie in the part of one rank. If only that rank stopped, the others would wait for it in
the next collective. So all ranks add up the squares of their norms: one number per step. They do
so only if all of them watch, which they find out once, without a collective.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
import torch.distributed as dist

from gradwalk.torch.ranks.notes import Notes, is_one_of_many
from gradwalk.torch.watch.gradient_checks import are_plain, is_distributed, local_part

_numbers = itertools.count()  # of watches; the same on every rank of a job


class Agreement:
    """The norm that all ranks agree on."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self._everyone: bool | None = None  # whether all ranks watch; None: not asked yet

    def norm(self, gradients: Sequence[torch.Tensor], norm: float, losses: list[float]) -> float:
        """The norm over all ranks, NaN if a loss on any rank is not finite.

        A rank that holds whole gradients, as under DDP, keeps its own norm.
        """
        if are_plain(gradients) or not is_one_of_many():
            return norm
        divided = next((g for g in gradients if is_distributed(g)), None)
        if divided is None:
            return norm
        if self._everyone is None:
            # The shapes tell apart what two ranks count as the same watch.
            shapes = hash(tuple(tuple(gradient.shape) for gradient in gradients))
            self._everyone = Notes(f"watch-{self.number}/{shapes}").all_here("watches")
        if not self._everyone:
            return norm
        own = norm * norm if all(map(math.isfinite, losses)) else math.nan
        total = torch.tensor(own, dtype=torch.float64, device=local_part(divided).device)
        dist.all_reduce(total)
        return math.sqrt(total.item()) if total.item() >= 0 else math.nan
