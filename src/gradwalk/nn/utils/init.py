"""Making a module whose first numbers do not matter."""

from __future__ import annotations

from typing import Any, TypeVar

from gradwalk.nn.module import Module
from gradwalk.random.generator import get_rng_state, set_rng_state

M = TypeVar("M", bound=Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """A module whose weights are to be overwritten: it takes nothing from the random stream.

    >>> import gradwalk as gw
    >>> gw.nn.utils.skip_init(gw.nn.Linear, 2, 3).weight.shape
    (3, 2)
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"skip_init makes a Module, not {module_cls!r}")
    before = get_rng_state()
    try:
        return module_cls(*args, **kwargs)
    finally:
        set_rng_state(before)
