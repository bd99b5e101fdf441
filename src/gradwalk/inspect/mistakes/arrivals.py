"""What can be wrong around the rules: a value from another call, a contribution that is lost.

Every rule may be right and the gradient still wrong: if backward is handed the operands of another
call, if what arrives at a node replaces what is there, or if a node is visited too early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.backward import walk
from gradwalk.engine.errors import made_at
from gradwalk.engine.modes import enable_grad, no_grad, state
from gradwalk.graph.order import inputs_first
from gradwalk.inspect.mistakes.differences import Function, outputs_of
from gradwalk.ops.core.op import Op


@dataclass(frozen=True)
class Applied:
    """One call of an op on tensors: what went in, what came out, and the node that was made."""

    op: Any
    operands: tuple[Any, ...]
    attrs: dict[str, Any]
    outputs: tuple[Any, ...]

    @property
    def node(self) -> Any:
        """The graph node, None if nothing was recorded."""
        return next((o._node for o in self.outputs if o._node is not None), None)


class _Listener:
    """Notes every op that is applied; takes the place of a recorder for a while."""

    def __init__(self) -> None:
        self.calls: list[Applied] = []

    def operands(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args

    def made(
        self, op: Any, args: Any, attrs: Any, outputs: Any, code: Any, position: int, note: str = ""
    ) -> None:
        self.calls.append(Applied(op, tuple(args), dict(attrs), tuple(outputs)))

    def __getattr__(self, name: str) -> Any:  # whatever else a recorder is told
        return lambda *args, **keywords: None


@contextmanager
def listening() -> Iterator[list[Applied]]:
    """The ops this thread applies to tensors inside the block, in order."""
    listener, before = _Listener(), state.here.watcher
    state.here.watcher = listener
    try:
        yield listener.calls
    finally:
        state.here.watcher = before


def stale_value(func: Function, inputs: Sequence[Any]) -> str | None:
    """Whether a node holds, for its backward, other numbers than its call computed with."""
    with listening() as calls, enable_grad():
        outputs_of(func, inputs)
    for call in calls:
        node = call.node
        if node is None or not isinstance(call.op, Op) or not isinstance(node.saved, dict):
            continue
        for name, saved in node.saved.items():
            true = _true(call, name)
            if isinstance(saved, np.ndarray) and true is not None and not _alike(saved, true):
                return (
                    f"a stale value: {call.op.name} keeps '{name}' for backward, but the numbers "
                    "it kept are not those of this call. Something that was saved earlier was "
                    "not replaced (or one buffer serves several calls): save a fresh value, or a "
                    "copy, at each call.\n"
                    f"  The op at fault: '{call.op.name}', called at\n    {made_at(node)}"
                )
    return None


def stale_visit(output: Any) -> str | None:
    """The same for Values, which keep nothing: whether one is visited with another's numbers.

    What a visit hands on is compared with that of a fresh Value made from the same numbers.
    """
    made = [v for v in inputs_first([output]) if isinstance(v.op, Op) and v.inputs]
    for v in made:
        given = _handed_on(v)
        if np.allclose(given, _handed_on(_again(v)), 1e-6, 1e-9, equal_nan=True):
            continue
        for other in made:
            if other.op is v.op and np.allclose(given, _handed_on(_again(other)), 1e-6, 1e-9):
                return (
                    f"a stale value: {v.op.name} hands on what belongs to the numbers of another "
                    f"call, the one at\n    {made_at(other)}\n  Compute a local derivative from "
                    "the numbers of its own call.\n"
                    f"  The op at fault: '{v.op.name}', called at\n    {made_at(v)}"
                )
    return None


def _again(v: Any) -> Any:
    """The same operation on leaves of its own."""
    return v.op(*(type(v)(i.data) for i in v.inputs), **v.attrs)


def _handed_on(v: Any) -> list[float]:
    """What one visit hands to each input if the gradient is 1; every grad is left as it was."""
    touched = dict.fromkeys((v, *v.inputs))
    kept = [u.grad for u in touched]
    try:
        for u in touched:
            u.grad = 0
        v.grad = 1
        v._backward()
        return [float(i.grad) for i in v.inputs]
    finally:
        for u, grad in zip(touched, kept, strict=True):
            u.grad = grad


def _true(call: Applied, name: str) -> Any:
    """What a rule's parameter was in this call."""
    op = call.op
    if name in op.outputs:
        return call.outputs[op.outputs.index(name)]._array
    if name in op.inputs and not (op.variadic and name == op.inputs[-1]):
        operand = call.operands[op.inputs.index(name)]
        return getattr(operand, "_array", None)
    return None


def _alike(saved: Any, true: Any) -> bool:
    return saved is true or (saved.shape == true.shape and np.array_equal(saved, true, True))


class _Arrivals:
    """One walk, noted: what each node received, from whom, and when it handed it on."""

    def __init__(self, output: Any) -> None:
        self.arrived: dict[Any, list[tuple[Any, Any, int]]] = {}  # (consumer, what, when)
        self.used: dict[Any, tuple[Any, int]] = {}  # the gradient a node went on with, and when
        self.clock = 0
        root = output.grad_fn
        # Weights that differ, so that nothing cancels by chance.
        seed = np.linspace(1, 2, output.numel()).reshape(output.shape).astype(output.dtype)
        self.root = root
        with no_grad(), np.errstate(all="ignore"):
            walk(
                [(root, output._index, seed)],
                lambda leaf, g: self._use(leaf, g),
                gradients.wrap,
                retain=True,
                on_step=self._visit,
            )

    def _use(self, node: Any, g: Any) -> None:
        self.clock += 1
        self.used.setdefault(node, (g, self.clock))

    def _visit(self, node: Any, g: Any, contributions: Sequence[Any]) -> None:
        self._use(node, g)
        for i, contribution in enumerate(contributions):
            if contribution is not None:
                entry = (node, contribution, self.clock)
                self.arrived.setdefault((node.inputs[i], node.picks[i]), []).append(entry)


def lost_in_the_walk(output: Any) -> str | None:
    """Whether a node went on with less than what arrived at it, and why."""
    if output.grad_fn is None:
        return None
    seen = _Arrivals(output)
    for (node, index), arrived in seen.arrived.items():
        if node is seen.root:
            continue
        g, when = seen.used.get(node, (None, -1))
        late = [consumer for consumer, _, at in arrived if at > when]
        if late:
            did = "is visited" if when > 0 else "was due"
            return (
                f"wrong order: {_name(node)} {did} before {_name(late[0])} has added to its "
                "gradient, and what arrives later is lost. Visit a node after all of its "
                "consumers: in reverse topological order."
            )
        mine = g[index] if isinstance(g, list) else g
        total = np.asarray(sum(np.asarray(c) for _, c, _ in arrived))
        if len(arrived) > 1 and not np.allclose(total, mine, 1e-5, 1e-9, equal_nan=True):
            names = " and ".join(dict.fromkeys(_name(consumer) for consumer, _, _ in arrived))
            return (
                f"overwritten instead of accumulated: {_name(node)} receives {len(arrived)} "
                f"contributions, from {names}, but its gradient is not their sum. What arrives "
                "must be added (+=), not assigned (=)."
            )
    return None


def _name(node: Any) -> str:
    label = getattr(node, "label", "")
    op = getattr(node, "op", None)
    what = f"'{label}'" if label else op.name if op is not None else "a leaf"
    return f"{what} ({made_at(node)})"
