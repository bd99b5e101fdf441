"""The models, optimizers and closures that a watch was given, and those it has met."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST_KNOWN = 32  # models and optimizers


def several(given: Any, kind: type) -> list[Any]:
    """A model or optimizer, several of them, or none, as a list."""
    things = [] if given is None else [given] if isinstance(given, kind) else list(given)
    for thing in things:
        if not isinstance(thing, kind):
            raise TypeError(
                f"watch takes a model (torch.nn.Module) and an optimizer (torch.optim.Optimizer), "
                f"or lists of them, not {type(thing).__name__}"
            )
    return things


def keep(known: dict[int, Any], thing: Any, kept: Any) -> Any:
    """Keep it, and drop the oldest: a program that makes many models must be able to free them."""
    known[id(thing)] = kept
    while len(known) > MOST_KNOWN:
        del known[next(iter(known))]
    return kept


def with_a_look(
    args: tuple[Any, ...], kwargs: dict[str, Any], look: Callable[[bool], None]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of a step whose closure is wrapped: `look(is_first)` comes after each call.

    None if the step has no closure.
    """
    closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
    if not callable(closure):
        return None
    calls = 0

    def watched(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        loss = closure(*args, **kwargs)
        calls += 1
        look(calls == 1)
        return loss

    if "closure" in kwargs:
        return args, {**kwargs, "closure": watched}
    return (args[0], watched, *args[2:]), kwargs
