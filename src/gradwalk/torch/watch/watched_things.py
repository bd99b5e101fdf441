"""The models and optimizers that a watch was given, and those it has met."""

from __future__ import annotations

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
