"""Activation checkpointing: forget what a region saved, compute it again when backward asks.

The graph of the region is built as usual, only without what its nodes saved: in place of it
each holds a `Recompute` with its number. The first of them that backward visits runs the region
again, with the same random numbers, and everything saved is handed out by number.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.errors import AutogradError, made_at, name_of
from gradwalk.engine.modes import enable_grad, state
from gradwalk.engine.tree import leaves, mapped
from gradwalk.graph.node import Node
from gradwalk.graph.source import where_text
from gradwalk.graph.versions import clock, stamp_of

# (get, set) of the library's own random state; random.py, which is above us, puts it here.
library_random: tuple[Callable[[], Any], Callable[[Any], None]] | None = None


class Recompute:
    """Stands in `Node.saved`: node number `index` of a region to be run again."""

    __slots__ = ("index", "region")

    def __init__(self, region: _Region, index: int) -> None:
        self.region = region
        self.index = index

    def take(self) -> dict[str, Any]:
        """What the node would have saved."""
        return self.region.saved_of(self.index)


class _Region:
    """One call of a checkpointed function."""

    def __init__(self, function: Callable[..., Any], args: Any, keywords: Any) -> None:
        self.function = function
        self.args = args
        self.keywords = keywords
        self.random = _random_state()
        self.clock = clock.now
        self.made: list[tuple[str, Any]] = []  # op name and output shapes of each node
        self.again: dict[int, Any] | None = None

    def run(self) -> Any:
        nodes: list[Node] = []
        outer, state.here.listener = state.here.listener, nodes.append
        try:
            result = self.function(*self.args, **self.keywords)
        finally:
            state.here.listener = outer
        for index, node in enumerate(nodes):
            self.made.append((node.op.name, node.out_metas))
            if node.saved:
                node.saved = Recompute(self, index)
            if outer is not None:  # nested: the region around us must know these nodes as well
                outer(node)
        return result

    def saved_of(self, index: int) -> dict[str, Any]:
        if self.again is None or index not in self.again:
            self.again = self._run_again()
        saved = self.again.pop(index)
        return saved.take() if isinstance(saved, Recompute) else saved

    def _run_again(self) -> dict[int, Any]:
        nodes: list[Node] = []
        now = _random_state()
        outer, state.here.listener = state.here.listener, nodes.append
        _set_random_state(self.random)
        try:
            with enable_grad():
                # Stand-ins: running again must not touch the real graph or its gradients.
                args = mapped(_stand_in, self.args)
                keywords = mapped(_stand_in, self.keywords)
                self.function(*args, **keywords)
        finally:
            state.here.listener = outer
            _set_random_state(now)
        self._compare(nodes)
        self._check_unchanged(nodes)
        return {index: node.saved for index, node in enumerate(nodes) if node.saved}

    def _compare(self, nodes: list[Node]) -> None:
        for (name, metas), node in zip(self.made, nodes, strict=False):
            if name != node.op.name or metas != node.out_metas:
                raise AutogradError(
                    "a checkpointed function did something else when it was run again for "
                    f"backward: {name} gave {_shapes(metas)} the first time, now "
                    f"{node.op.name} gives {_shapes(node.out_metas)}.\n"
                    f"  at:   {made_at(node)}\n"
                    "Fix: let the function depend only on its arguments and on gradwalk, NumPy "
                    "or Python random numbers (which are restored), not on anything that changes."
                )
        if len(nodes) != len(self.made):
            raise AutogradError(
                f"a checkpointed function recorded {len(self.made)} operations the first time "
                f"and {len(nodes)} when it was run again for backward.\n"
                "Fix: let the function depend only on its arguments."
            )

    def _check_unchanged(self, nodes: list[Node]) -> None:
        """Running again is only right on what the first run saw."""
        seen = [a for a in leaves((self.args, self.keywords)) if hasattr(a, "_array")]
        seen += [i for node in nodes for i in node.inputs if hasattr(i, "_array")]
        for tensor in seen:
            stamp = stamp_of(tensor._array)
            if stamp is not None and stamp.time > self.clock:
                raise AutogradError(
                    f"{name_of(tensor)}, used in a checkpointed function, was modified in place "
                    "before backward could run the function again.\n"
                    f"  modified at:   {where_text(stamp.code, stamp.position)}\n"
                    "Fix: move the modification after backward(), or modify a .clone()."
                )


def _shapes(metas: Any) -> str:
    return " and ".join(str(shape) for shape, _ in metas)


def _stand_in(argument: Any) -> Any:
    if not hasattr(argument, "_array"):
        return argument
    fresh = gradients.wrap(argument._array)
    if argument.requires_grad:
        fresh.requires_grad = True
    return fresh


def _random_state() -> tuple[Any, ...]:
    library = None if library_random is None else library_random[0]()
    return library, np.random.get_state(), random.getstate()


def _set_random_state(saved: tuple[Any, ...]) -> None:
    if library_random is not None:
        library_random[1](saved[0])
    np.random.set_state(saved[1])
    random.setstate(saved[2])


def checkpoint(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """function(*args), keeping only its arguments and computing the rest again in backward.

    Trades time (one more forward of the region) for memory. Randomness inside (gradwalk's,
    NumPy's, Python's) is replayed. May be nested.

    >>> import gradwalk as gw
    >>> x = gw.tensor([1.0], requires_grad=True)
    >>> gw.checkpoint(lambda t: (t * 2).tanh(), x).backward()
    >>> x.grad
    tensor([0.1413])
    """
    keywords.pop("use_reentrant", None)  # PyTorch's switch between two ways; we have one
    if not state.here.grad_enabled:
        return function(*args, **keywords)
    return _Region(function, args, keywords).run()


