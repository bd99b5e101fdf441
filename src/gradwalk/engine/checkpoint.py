"""Activation checkpointing: drop the saved arrays of a region, recompute them in backward.

The graph of the region is built as usual, but each node holds a numbered `Recompute` in place of
its saved arrays. The first one that backward visits reruns the region with the same random numbers
and distributes the saved arrays by number.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.errors import AutogradError, made_at, name_of
from gradwalk.engine.modes import enable_grad, state, switch
from gradwalk.engine.tree import leaves, mapped
from gradwalk.graph.abstract import is_array, numbers_of
from gradwalk.graph.node import Node
from gradwalk.graph.source import caller, where_text
from gradwalk.graph.versions import clock, stamp_of

# (get, set) of the library's own random state; random/generator.py sets it.
library_random: tuple[Callable[[], Any], Callable[[Any], None]] | None = None


class Recompute:
    """Replaces `Node.saved` of node number `index` of a region to be rerun."""

    __slots__ = ("index", "region")

    def __init__(self, region: _Region, index: int) -> None:
        self.region = region
        self.index = index

    def take(self, node: Any) -> dict[str, Any]:
        """The recomputed saved arrays of a node; sets its clock to the time of the rerun."""
        saved, node.clock, node.out_clock = self.region.saved_of(self.index)
        return saved


class _Region:
    """One call of a checkpointed function."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Any,
        keywords: Any,
        contexts: tuple[Any, Any],
        numbers_matter: bool,
    ) -> None:
        self.function = function
        self.within, self.within_again = contexts  # managers to run it in, and to rerun it in
        self.numbers_matter = numbers_matter
        self.args = args
        self.keywords = keywords
        self.random = _random_state()
        casting = state.here.autocast  # casts kept from outside would be missing in the rerun
        self.autocast = None if casting is None else casting.without_cache()
        self.level = state.here.level  # of the vmap around the region
        self.place = caller()
        self.began = self.ended = clock.now
        self.made: list[tuple[str, Any]] = []  # op name and output shapes of each node
        self.traces: list[Any] = []  # a few numbers of each result
        self.again: dict[int, Any] = {}

    def run(self) -> Any:
        nodes: list[Node] = []
        outer, casting = state.here.listener, state.here.autocast
        switch(listener=nodes.append, autocast=self.autocast)
        try:
            with self.within:
                result = self.function(*self.args, **self.keywords)
        finally:
            switch(listener=outer, autocast=casting)
        self.ended = clock.now
        self.traces = _traces(result)
        for index, node in enumerate(nodes):
            self.made.append((node.op.name, node.out_metas))
            if node.saved:
                node.saved = Recompute(self, index)
            if outer is not None:  # nested: the outer region must know these nodes as well
                outer(node)
        return result

    def saved_of(self, index: int) -> tuple[dict[str, Any], int, int | None]:
        """The saved arrays and clocks of node `index` in the rerun."""
        if index not in self.again:
            self._run_again()
        saved = self.again.pop(index)
        if isinstance(saved, Recompute):  # of a region within this one
            return saved.region.saved_of(saved.index)
        return saved

    def _run_again(self) -> None:
        for tensor in leaves((self.args, self.keywords)):
            if hasattr(tensor, "_array"):
                self._refuse_changed(tensor, tensor._array, self.began, clock.now)
        nodes: list[Node] = []
        now, again = _random_state(), clock.now
        outer, casting = state.here.listener, state.here.autocast
        level = state.here.level
        switch(listener=nodes.append, autocast=self.autocast, level=self.level)
        _set_random_state(self.random)
        try:
            with enable_grad(), self.within_again:
                # Stand-ins: the rerun must not touch the real graph or its gradients.
                args = mapped(_stand_in, self.args)
                keywords = mapped(_stand_in, self.keywords)
                result = self.function(*args, **keywords)
        finally:
            switch(listener=outer, autocast=casting, level=level)
            _set_random_state(now)
        self._compare(nodes)
        for index, node in enumerate(nodes):
            for source in node.inputs:
                if hasattr(source, "_array"):  # a parameter that the function captures
                    self._refuse_changed(source, source._array, self.ended, again)
            if isinstance(node.saved, Recompute):
                self.again[index] = node.saved
            elif node.saved:
                for array in saved_arrays(node):
                    self._refuse_changed(node, array, self.ended, again)
                self.again[index] = (node.saved, node.clock, node.out_clock)
        if self.numbers_matter and not _alike(self.traces, _traces(result)):
            raise self._differs("gave different numbers when backward ran it again.")

    def _name(self) -> str:
        return f"the checkpointed function {getattr(self.function, '__name__', self.function)}"

    def _compare(self, nodes: list[Node]) -> None:
        for (name, metas), node in zip(self.made, nodes, strict=False):
            if name != node.op.name or metas != node.out_metas:
                raise self._differs(
                    "behaved differently when backward ran it again: "
                    f"{name} gave {_shapes(metas)} the first time, now "
                    f"{node.op.name} gives {_shapes(node.out_metas)}.\n"
                    f"  at:                {made_at(node)}"
                )
        if len(nodes) != len(self.made):
            raise self._differs(
                f"recorded {len(self.made)} operations the first time and {len(nodes)} when "
                "backward ran it again."
            )

    def _differs(self, what: str) -> AutogradError:
        return AutogradError(
            f"{self._name()} {what}\n"
            f"  checkpointed at:   {where_text(*self.place)}\n"
            "Fix: let it depend only on its arguments and on the random numbers of gradwalk, "
            "np.random or random, which are restored; not on a generator of its own (such as "
            "np.random.default_rng()) nor on anything that changes."
        )

    def _refuse_changed(self, thing: Any, array: Any, after: int, until: int) -> None:
        """Raise if an array changed since the first run."""
        stamp = stamp_of(array)
        if stamp is not None and after < stamp.time <= until:
            raise AutogradError(
                f"{name_of(thing)}, used in {self._name()}, was modified in place before backward "
                "could run the function again.\n"
                f"  checkpointed at:   {where_text(*self.place)}\n"
                f"  modified at:       {where_text(stamp.code, stamp.position)}\n"
                "Fix: move the modification after backward(), or modify a .clone()."
            )


_SAMPLED = 64  # elements of each result that a rerun compares


def _traces(result: Any) -> list[Any]:
    """Some elements and two sums of each result: enough to detect different numbers."""
    samples = []
    for tensor in leaves(result):
        array = numbers_of(tensor) if hasattr(tensor, "_array") else None
        if array is not None and array.size:
            flat = array.reshape(-1)
            some = flat[:: -(-flat.size // _SAMPLED)].astype(np.float64)
            size = np.abs(flat).sum(dtype=np.float64)
            samples.append((some, flat.sum(dtype=np.float64), size))
    return samples


def _alike(before: list[Any], after: list[Any]) -> bool:
    """Equal up to the rounding of float32 sums in another order."""
    with np.errstate(all="ignore"):
        return len(before) == len(after) and all(
            np.allclose(some, again, rtol=1e-4, atol=1e-4 * size / some.size, equal_nan=True)
            and np.isclose(total, total_again, rtol=0, atol=1e-5 * size, equal_nan=True)
            for (some, total, size), (again, total_again, _) in zip(before, after, strict=True)
        )


def saved_arrays(node: Any) -> list[np.ndarray[Any, Any]]:
    """All arrays that a node saved."""
    values = node.saved.values()
    listed = [a for value in values for a in (value if isinstance(value, tuple) else (value,))]
    return [a for a in listed if is_array(a)]


def _shapes(metas: Any) -> str:
    return " and ".join(str(shape) for shape, _ in metas)


def _stand_in(argument: Any) -> Any:
    if not hasattr(argument, "_array"):
        return argument
    fresh = gradients.wrap(argument._shared())
    fresh._keeps_layout = True  # on the memory of the argument
    if argument.requires_grad:
        fresh.requires_grad = True
    return fresh


def _random_state() -> tuple[Any, ...]:
    library = None if library_random is None else library_random[0]()
    # While a function is traced, an np.random that nobody has imported stays so: the tracer takes
    # it for drawn from.
    unused = state.here.tracer is not None and "numpy.random" not in sys.modules
    return library, None if unused else np.random.get_state(), random.getstate()


def _set_random_state(saved: tuple[Any, ...]) -> None:
    if library_random is not None:
        library_random[1](saved[0])
    if saved[1] is not None:
        np.random.set_state(saved[1])
    random.setstate(saved[2])


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **keywords: Any,
) -> Any:
    """function(*args), keeping only its arguments and recomputing the rest in backward.

    Trades time (one more forward of the region) for memory. Randomness inside (gradwalk's,
    NumPy's, Python's) is always replayed. May be nested. `context_fn` returns two context managers:
    one for the first run, one for the rerun. `determinism_check="none"` accepts a rerun that gives
    other numbers. The other options are PyTorch's choices of implementation; ours is one.

    >>> import gradwalk as gw
    >>> x = gw.tensor([1.0], requires_grad=True)
    >>> gw.checkpoint(lambda t: (t * 2).tanh(), x).backward()
    >>> x.grad
    tensor([0.1413])
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check is 'default' or 'none', not {determinism_check!r}")
    contexts = (nullcontext(), nullcontext()) if context_fn is None else context_fn()
    if not state.here.grad_enabled:
        with contexts[0]:
            return function(*args, **keywords)
    return _Region(function, args, keywords, contexts, determinism_check == "default").run()
