"""Parameters that DistributedDataParallel waits for, and that the loss does not reach."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import torch

from gradwalk.inspect.trace.routes import listed
from gradwalk.torch.rerun.snapshots import WatchedModel

SHOWN = 4  # names to print


Marks = dict[int, tuple[int, int]]  # parameters by `id` -> their gradient and its version


def marks_of(known: Collection[WatchedModel]) -> Marks | None:
    """The gradients that are there before a backward pass; None if no model is one of several."""
    if not any(model.is_replica for model in known):
        return None
    parameters = [p for model in known for p in model.module.parameters()]
    return {id(p): (id(p.grad), p.grad._version) for p in parameters if p.grad is not None}


def unused_parameters(models: Iterable[torch.nn.Module], before: Marks) -> list[torch.Tensor]:
    """The parameters whose gradient a backward pass that reached these models did not change.

    It is missing, or as it was `before`: zeros, after `zero_grad(set_to_none=False)`. Only those
    that DDP waits for: without `find_unused_parameters` or a static graph, and when gradients are
    reduced in this pass.
    """
    from torch.nn.parallel import DistributedDataParallel

    found: dict[int, torch.Tensor] = {}
    for model in models:
        wrappers: list[Any] = [m for m in model.modules() if isinstance(m, DistributedDataParallel)]
        for wrapper in wrappers:
            if wrapper.find_unused_parameters or wrapper.static_graph:
                continue
            if not wrapper.require_backward_grad_sync:
                continue
            for name, parameter in wrapper.module.named_parameters():
                waited_for = parameter.requires_grad and name not in wrapper.parameters_to_ignore
                grad = parameter.grad
                if waited_for and (
                    grad is None or before.get(id(parameter)) == (id(grad), grad._version)
                ):
                    found[id(parameter)] = parameter
    return list(found.values())


def unused_in_words(names: list[str]) -> str:
    """What the check saw."""
    got = "got no gradient" if len(names) == 1 else "got no gradients"
    return (
        f"{listed(names, SHOWN)} {got} in backward, and DistributedDataParallel waits for every "
        "one: gradients are not reduced, ranks that do use them hang in backward, and the next "
        "call of the model fails"
    )


UNUSED_FIX = (
    "use these parameters on every rank in every step, freeze them with requires_grad_(False) "
    "before wrapping the model, or wrap it with DistributedDataParallel(..., "
    "find_unused_parameters=True), which searches the graph in every step."
)
