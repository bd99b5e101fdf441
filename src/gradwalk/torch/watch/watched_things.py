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


def with_a_look(closure: Callable[..., Any], look: Callable[[bool], None]) -> Callable[..., Any]:
    """Wrap the closure of a step: `look(is_first)` comes after each call of it."""
    calls = 0

    def watched(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        loss = closure(*args, **kwargs)
        calls += 1
        look(calls == 1)
        return loss

    return watched
