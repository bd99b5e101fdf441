"""watch, as it is called: what it takes and what it promises."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from gradwalk.torch.watch.check_step import Limits
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

    The step is then run again, recorded, and `StepStopped` says which op made the NaN, in which
    line and module, and of which row of the batch; the trace is saved in `folder` for the studio.
    With `action="warn"` it is a warning, and training goes on. Several models and optimizers (of a
    GAN) are given as lists.

    An explosion is a gradient `explosion` times as long as is usual in this training and longer
    than `floor` (left out: than all parameters together); the first `warmup` steps are judged by
    the square of that. `explosion=math.inf` looks for NaN and inf alone.

    A fault that does not show again when its step is run again is caught as it happens with
    `record_from`: from that step on every one is recorded, which is slower.

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
        Limits(explosion, warmup, floor),
        folder=Path(folder),
        action=action,
        budget=budget,
        record_from=record_from,
    )
