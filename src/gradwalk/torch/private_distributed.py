"""Everything private of `torch.distributed` that gradwalk uses; the rest is in private.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from gradwalk.torch import private


def default_store() -> Any:
    """The store of the job's default process group."""
    from torch.distributed import distributed_c10d

    try:
        return distributed_c10d._get_default_store()
    except AttributeError:
        raise private.missing("torch.distributed.distributed_c10d._get_default_store") from None


def memory_may_be_freed() -> bool:
    """Whether `fully_shard` may free the memory of tensors that are in use.

    It resizes their storage, which fails once an array has shared that storage.
    """
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def finished_work() -> Any:
    """A collective that has ended, as the dispatcher returns it; None if there is none."""
    from torch._C import _distributed_c10d

    try:
        return _distributed_c10d.FakeWork().boxed()
    except AttributeError:
        return None


def is_sharded(module: torch.nn.Module) -> bool:
    """Whether `fully_shard` was applied to a module."""
    return hasattr(module, "unshard") and hasattr(module, "_get_fsdp_state")


@contextmanager
def gathered(modules: Sequence[Any]) -> Iterator[None]:
    """Gather the weights of modules made by `fully_shard`, and keep them whole and unreduced.

    Gathering is a collective; every rank must enter. Inside, calls and backward passes are local.
    """
    groups: list[Any] = []
    for module in modules:
        state = module._get_fsdp_state()
        several = getattr(state, "_fsdp_param_groups", None)
        one = getattr(state, "_fsdp_param_group", None) if several is None else None
        groups += [one] if one is not None else several or []
    local: dict[str, Any] = {
        "reduce_grads": False,
        "reshard_after_backward": False,
        "post_forward_mesh_info": None,
    }
    changed: list[tuple[Any, dict[str, Any]]] = [(group, local) for group in groups]
    # Without a dtype to reduce in, gradients stay where a re-run looks for them, in `.grad`.
    changed += [(p, {"reduce_dtype": None}) for group in groups for p in group.fsdp_params]
    before = []
    for thing, settings in changed:
        if not all(hasattr(thing, name) for name in settings):
            raise private.missing(f"{type(thing).__name__}.{', '.join(settings)}")
        before.append({name: getattr(thing, name) for name in settings})
    for module in modules:
        module.unshard()
    try:
        for thing, settings in changed:
            vars(thing).update(settings)
        yield
    finally:
        for (thing, _), was in zip(changed, before):
            vars(thing).update(was)
        for module in modules:
            module.reshard()
