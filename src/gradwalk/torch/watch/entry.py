"""watch: the public function. It checks its arguments and starts a `Watch`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from gradwalk.torch.watch.check_step import WatchLimits
from gradwalk.torch.watch.watch import BUDGET, Watch


def watch(
    model: torch.nn.Module | Sequence[torch.nn.Module],
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    *,
    explosion: float = 1e3,
    warmup: int = 10,
    floor: float | None = None,
    folder: str | os.PathLike[str] = ".",
    action: str = "raise",
    budget: int = BUDGET,
    record_from: int | None = None,
) -> Watch:
    """Stop before the first `optimizer.step()` whose gradients are NaN, inf or have exploded.

    `watch` then runs the step again, recorded, and raises `StepStopped`, which names the op that
    made the NaN, its line and module, and the row of the batch. It saves the trace in `folder` for
    the studio. With `action="warn"` it warns instead, and training goes on. Pass several models
    and optimizers (of a GAN) as lists.

    A gradient has exploded if its norm is `explosion` times the usual norm of this training and
    above `floor` (default: the norm of all parameters). During the first `warmup` steps the square
    of the factor applies. `explosion=math.inf` checks for NaN and inf only.

    Some faults do not occur again when their step is run again. `record_from` catches those: it
    records every step from that one on, which is slower.

    >>> import torch, gradwalk.torch
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with gradwalk.torch.watch(model, optimizer) as watched:
    ...     for _ in range(3):
    ...         optimizer.zero_grad()
    ...         model(torch.ones(4, 2)).square().mean().backward()
    ...         optimizer.step()
    >>> watched.steps
    3
    """
    models = [model] if isinstance(model, torch.nn.Module) else list(model)
    optimizers = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else list(optimizer)
    for given, kind in ((models, torch.nn.Module), (optimizers, torch.optim.Optimizer)):
        wrong = [type(thing).__name__ for thing in given if not isinstance(thing, kind)]
        if wrong:
            raise TypeError(
                f"watch takes a model (torch.nn.Module) and an optimizer (torch.optim.Optimizer), "
                f"or lists of them, not {wrong[0]}"
            )
    return Watch(
        models,
        optimizers,
        WatchLimits(explosion, warmup, floor),
        folder=Path(folder),
        action=action,
        budget=budget,
        record_from=record_from,
    )
