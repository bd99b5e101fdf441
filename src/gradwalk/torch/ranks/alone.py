"""Run a step again on this rank alone: no collective that other ranks would have to join.

DistributedDataParallel calls the model it wraps, without its reduction. The parameters of a model
divided by `fully_shard` are gathered first, by all ranks together, and stay whole. Any other
collective is answered with the numbers of this rank, or makes the step not repeatable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from gradwalk.torch import private, private_distributed
from gradwalk.torch.ranks.notes import is_one_of_many
from gradwalk.torch.rerun.statements import NotRepeatable
from gradwalk.torch.watch.gradient_checks import is_distributed

_KEEPS = ("allreduce_", "allreduce_coalesced_", "broadcast_", "reduce_")  # their own operands
_FUNCTIONAL = ("_c10d_functional", "_c10d_functional_autograd", "_dtensor")


class Answers(private.TorchDispatchMode):
    """Answer collectives with the numbers of this rank."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.answered: dict[str, None] = {}  # names of the collectives, in order

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        space, _, name = func._schema.name.partition("::")
        if space in _FUNCTIONAL:
            raise NotRepeatable(f"they call {name}, which every rank would have to join")
        if space != "c10d":
            return func(*args, **(kwargs or {}))
        self.answered[name.strip("_")] = None
        work = private_distributed.finished_work()
        if work is None:
            raise NotRepeatable(f"they call {name}, which every rank would have to join")
        if name in _KEEPS or name == "barrier":
            several = len(func._schema.returns) > 1
            return (args[0], work) if several else work
        if name == "allgather_":
            for outputs, own in zip(args[0], args[1]):
                for output in outputs:
                    output.copy_(own)
            return args[0], work
        if name == "_allgather_base_":
            args[0].view(-1, args[1].numel()).copy_(args[1].reshape(1, -1))
            return args[0], work
        raise NotRepeatable(f"they call {name}, which every rank would have to join")

    @property
    def note(self) -> str:
        """What was answered, for the report."""
        if not self.answered:
            return ""
        names = " and ".join(self.answered)
        return f"in the re-run {names} saw the numbers of this rank only"


def sharded_parts(models: Iterable[torch.nn.Module]) -> list[torch.nn.Module]:
    """The modules that `fully_shard` divided over ranks."""
    return [
        part for model in models for part in model.modules() if private_distributed.is_sharded(part)
    ]


@contextmanager
def alone(models: Iterable[torch.nn.Module], gathers: bool = False) -> Iterator[Answers | None]:
    """Keep what runs inside on this rank. `gathers`: every rank comes here, to gather weights."""
    if not is_one_of_many():
        yield None
        return
    from torch.nn.parallel import DistributedDataParallel

    def forward(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapper.module(*args, **kwargs)

    parts = sharded_parts(models)
    with ExitStack() as stack:
        if gathers and parts:
            stack.enter_context(private_distributed.gathered(parts))
        stack.enter_context(mock.patch.object(DistributedDataParallel, "forward", forward))
        yield stack.enter_context(Answers())


def refuse_if_divided(models: Iterable[torch.nn.Module]) -> None:
    """Raise NotRepeatable if the weights of a model are on other ranks too."""
    for model in models:
        for parameter in model.parameters():
            if is_distributed(parameter):
                raise NotRepeatable("other ranks hold a part of the model's weights")
        for part in model.modules():
            if type(part).__name__ == "FullyShardedDataParallel":
                raise NotRepeatable("FullyShardedDataParallel holds its weights on several ranks")
