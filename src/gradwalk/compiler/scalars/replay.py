"""Replay: a recorded graph of Values, computed forward and backward for other leaves."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.compiler.introspect.introspection import PrintedText, check_form, code_of
from gradwalk.compiler.pipeline import no_collections
from gradwalk.compiler.scalars.flat_graph import Steps, read
from gradwalk.graph.fork_locks import CALL, fork_safe
from gradwalk.scalar.value import Value

if TYPE_CHECKING:
    from gradwalk.inspect.trace.trace import Trace

Numbers = Sequence[float] | np.ndarray[Any, Any] | Mapping[Value | str, float]


def compile_values(
    loss: Value, leaves: Sequence[Value] | None = None, backend: str = "llvm"
) -> Replay:
    """Compile the graph behind `loss`; call the result with new numbers for its leaves.

    >>> from gradwalk import Value
    >>> from gradwalk.compiler.scalars import compile_values
    >>> a, b = Value(2.0, label="a"), Value(-3.0, label="b")
    >>> replay = compile_values(a * b + a)
    >>> replay([5.0, 7.0])
    40.0
    >>> replay.gradients
    array([8., 5.])
    >>> replay({"b": 0.0}), replay.grad(a)
    (2.0, 1.0)
    """
    with no_collections():
        return Replay(loss, leaves, backend)


class Replay:
    """A graph of Values that can be computed again, with its gradients, for other leaves.

    `leaves` are the Values it takes numbers for: those given to `compile_values`, otherwise all
    without inputs, in the order in which the operations of the graph first use them. Numbers in
    expressions (the 2 of `2 * x`) are not among them unless they have a label; they, and leaves
    that were not asked for, keep the numbers they had when the graph was compiled.

    It replays the graph as recorded: a Python `if` on a Value, or a comparison, was decided then.
    All numbers are float64, also those of int Values. Results are those of running the same lines
    and `backward()` again, with the same bits in all arithmetic: every sum is added up in the same
    order. Functions such as exp and tanh are gradwalk's own vector functions, not those of Python's
    math module, and may differ in the last bits.
    """

    def __init__(
        self, loss: Value, leaves: Sequence[Value] | None = None, backend: str = "llvm"
    ) -> None:
        if not isinstance(loss, Value):
            raise TypeError(f"compile_values takes a Value, not {type(loss).__name__}")
        if backend not in ("llvm", "numpy"):
            raise ValueError(f"backend is llvm or numpy, not {backend!r}")
        steps = read(loss)
        inputs = _inputs(steps) if leaves is None else _given(steps, leaves)
        self.loss = loss
        self.leaves = tuple([steps.leaves[n - len(steps.walk)] for n in inputs])
        self._engine = _engine(steps, inputs, backend)
        self._last: float = float("nan")
        self._one_at_a_time = fork_safe(threading.Lock(), CALL)
        self._positions: dict[Value | str, int] | None = None

    def __call__(self, numbers: Numbers | None = None) -> float:
        """The loss for these numbers; `gradients` has its derivatives then.

        `numbers` are those of all `leaves` in order, or {leaf or its label: number} for some; the
        others, or all without an argument, have the number in their `data`.
        """
        if numbers is None or isinstance(numbers, Mapping):
            numbers = self._filled(numbers or {})
        elif len(numbers) != len(self.leaves):
            raise ValueError(
                f"this graph has {len(self.leaves)} leaves and got {len(numbers)} numbers; "
                "`replay.leaves` has their order"
            )
        with self._one_at_a_time:
            self._engine.numbers[:] = numbers
            self._last = self._engine.run()
            return self._last

    def _filled(self, some: Mapping[Value | str, float]) -> list[float]:
        numbers = [leaf.data for leaf in self.leaves]
        for name, number in some.items():
            numbers[self._position(name)] = number
        return numbers

    def _position(self, name: Value | str) -> int:
        """The position of a leaf, given itself or its label."""
        if self._positions is None:
            labels = Counter(leaf.label for leaf in self.leaves)
            self._positions = {leaf: k for k, leaf in enumerate(self.leaves)}
            for k, leaf in enumerate(self.leaves):
                if leaf.label and labels[leaf.label] == 1:
                    self._positions[leaf.label] = k
        position = self._positions.get(name)
        if position is None:
            raise KeyError(
                f"{name!r} is neither a leaf of this graph nor a label that only one of them has; "
                "`replay.leaves` lists all that can be set (label a constant before compiling to "
                "add it)"
            )
        return position

    @property
    def gradients(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """d loss / d leaf of the last call, for each of `leaves`."""
        gradients: np.ndarray[Any, np.dtype[np.float64]] = self._engine.gradients
        return gradients.copy()

    def grad(self, leaf: Value | str) -> float:
        """d loss / d leaf of the last call, for one leaf or its label."""
        return float(self._engine.gradients[self._position(leaf)])

    def write_back(self) -> None:
        """Write the last call to the Values: `data` of the leaves and of the loss, `grad` of the
        leaves. The Values between keep theirs."""
        engine = self._engine
        self.loss.data = self._last
        for leaf, number, gradient in zip(
            self.leaves, engine.numbers.tolist(), engine.gradients.tolist(), strict=True
        ):
            leaf.data, leaf.grad = number, gradient

    def explain(self) -> PrintedText:
        """What was recorded, and what runs."""
        return PrintedText(self._engine.explanation)

    def source(self, form: str | None = None) -> PrintedText:
        """The kernels as LLVM text and as assembly; `form` is "llvm" or "assembly", or both."""
        check_form(form)
        kernels = self._engine.texts
        if not kernels:
            return PrintedText("; this graph is replayed by Python: there is no code")
        return PrintedText("\n\n".join(f"; {k.name}\n{code_of(k, form)}" for k in kernels))

    @property
    def graph(self) -> Trace:
        """The graph as a trace, with the numbers that are in its Values now."""
        from gradwalk.inspect.trace.recorder import as_trace

        return as_trace(self.loss)


class PythonGraph:
    """The Values themselves, computed again one by one; then they are restored.

    Like `NativeGraph` it has `numbers` (of the leaves in order, to be filled in), `run()`, which
    returns the loss, and `gradients` after that.
    """

    texts = ()  # no kernels

    def __init__(self, steps: Steps, inputs: list[int]) -> None:
        self._steps = steps
        self.explanation = f"{len(steps.walk)} operations, computed one by one by Python"
        self._inputs = [steps.leaves[number - len(steps.walk)] for number in inputs]
        self.numbers, self.gradients = np.zeros((2, len(inputs)))

    def run(self) -> float:
        """Forward and backward."""
        walk, leaves = self._steps.walk, self._steps.leaves
        before = [(v, v.data, v._grad) for v in (*walk, *leaves)]
        try:
            for leaf in leaves:
                leaf._grad = 0
            for leaf, number in zip(self._inputs, self.numbers.tolist(), strict=True):
                leaf.data = number
            for v in walk:
                v.data = v.op.on_numbers([i.data for i in v.inputs], v.attrs)  # type: ignore[union-attr]
            root = walk[-1] if walk else leaves[0]
            root.backward()
            self.gradients[:] = [leaf.grad for leaf in self._inputs]
            return float(root.data)
        finally:
            for v, data, grad in before:
                v.data, v._grad = data, grad


def _engine(steps: Steps, inputs: list[int], backend: str) -> Any:
    if backend == "llvm":
        try:
            from gradwalk.compiler.scalars.native import NativeGraph

            return NativeGraph(steps, inputs)
        except ImportError as error:
            warnings.warn(
                f"{error} This graph is replayed by Python instead.", RuntimeWarning, stacklevel=5
            )
    return PythonGraph(steps, inputs)


def _inputs(steps: Steps) -> list[int]:
    """The leaves that are not constants of expressions, or have a label."""
    return [
        number
        for number, leaf in enumerate(steps.leaves, len(steps.walk))
        if number not in steps.constants or leaf.label
    ]


def _given(steps: Steps, leaves: Sequence[Value]) -> list[int]:
    """The numbers of leaves in a given order; reject those that are not in the graph."""
    number = {leaf: n for n, leaf in enumerate(steps.leaves, len(steps.walk))}
    for leaf in leaves:
        if leaf not in number:
            raise ValueError(f"{leaf!r} is not a leaf of this graph")
    if len(set(leaves)) < len(leaves):
        raise ValueError("a leaf is given twice")
    return [number[leaf] for leaf in leaves]
