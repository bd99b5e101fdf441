"""find_nan: the first cause of a NaN or inf, forward or backward.

The search begins at a loss or gradient that is not finite. It goes back over values with a NaN to
the first whose inputs have none, and from an inf that became NaN to the operation that made the
inf. A constant inf (a mask of -inf) is not a cause by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.nan import causes
from gradwalk.inspect.nan.answer import FoundNan, Operand
from gradwalk.inspect.nan.causes import There
from gradwalk.inspect.nan.nonfinite import (
    Index,
    Numbers,
    at,
    bad_mask,
    dtype_of,
    first_bad,
    has_nan,
    is_bad,
)
from gradwalk.inspect.nan.targets import trace_and_root
from gradwalk.inspect.no_grad.cuts import Cause
from gradwalk.inspect.report import short, telling
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.live import is_tensor, numbers_of
from gradwalk.inspect.trace.replay import is_array, op_of
from gradwalk.inspect.trace.routes import PathStep, group_name, leading_to, steps_at
from gradwalk.inspect.trace.trace import Edge, Kept, Sweep, Trace, TraceNode


def find_nan(target: Any = None, *, budget: int | None = None) -> FoundNan:
    """Find the first cause of a NaN or inf in a loss, a trace, or what a function computes.

    `target` is a loss (a Value, or a Tensor before its backward), a trace, or a function, which is
    called and recorded: `find_nan(lambda: step(batch))`. The default is the current recording.
    `budget` limits the bytes of arrays kept of a function (64 MiB); beyond it only statistics are
    kept, and the operands at the element are unknown.

    >>> import gradwalk as gw
    >>> p = gw.tensor([0.5, 0.0], requires_grad=True)
    >>> answer = gw.find_nan(lambda: (-p.log()).sum().backward())
    >>> answer.text, answer.index, answer.operands[0].value
    ('log(0) = −inf', (1,), 0.0)
    >>> bool(gw.find_nan((p + 1).log().sum()))
    False
    """
    trace, root, called = trace_and_root(target, budget)
    return _Search(trace, root).answer(called)


class _Search:
    """One trace, and what is known to be wrong in it."""

    def __init__(self, trace: Trace, root: int | None) -> None:
        self.trace = trace
        self.numbers = Numbers(trace)
        self.asked = root

    def answer(self, called: bool) -> FoundNan:
        for sweep in self.trace.sweeps:
            for edge in sweep.seeds:
                if self._is_bad(edge.node) and not self._is_only_scaled(edge.node, sweep):
                    return self._forward(edge.node, sweep)
            if not sweep.thrown_away and any(
                is_bad(g) for grads in sweep.grads.values() for g in grads
            ):
                return self._backward(sweep)
        for sink in self._sinks():
            if self._is_bad(sink):
                return self._forward(sink, None)
        return self._after_update() if called else FoundNan()

    def _is_only_scaled(self, root: int, sweep: Sweep) -> bool:
        """Whether only a gradient scaler made a finite loss overflow; it handles that itself."""
        return sweep.thrown_away and not any(self._is_bad(i) for i in self.trace.nodes[root].inputs)

    def _sinks(self) -> Iterable[int]:
        """Where to look besides the losses: the target, or without a sweep the last nodes."""
        if self.asked is not None:
            return [self.asked]
        if self.trace.sweeps:
            return []
        used = self.trace.consumers
        return [n.index for n in self.trace.nodes if n.op and not used[n.index]]

    def _is_bad(self, index: int) -> bool:
        return any(self.numbers.bad(edge) for edge in self.numbers.outputs(index))

    def _is_nan(self, index: int) -> bool:
        return any(self.numbers.nan(edge) for edge in self.numbers.outputs(index))

    # -- forward -----------------------------------------------------------------------------------

    def _forward(self, sink: int, sweep: Sweep | None) -> FoundNan:
        test = self.numbers.nan if self._is_nan(sink) else self.numbers.bad
        answer = self._origin([sink], test)
        answer.reached = [f"the loss ({self._shown(sink)})"]
        if sweep is not None:
            answer.reached += self._bad_gradients(sweep)
        return answer

    def _origin(self, ends: list[int], test: Callable[[Any], bool]) -> FoundNan:
        """Describe where what fails the test at `ends` began."""
        producers, chain = self._producers(ends, test)
        producers = self._past_masks(producers, chain)
        first = self.trace.nodes[producers[0]]
        became = None
        if not first.is_leaf and self._is_nan(first.index):
            made = self._made_infinite(first)
            if made:
                became, chain = first, {*chain, *made[1]}
                producers = [*made[0], *producers[1:]]
                first = self.trace.nodes[producers[0]]
        answer = self._described(first)
        answer.became = None if became is None else PathStep.at(self.trace, became.index)
        answer.passed = steps_at(self.trace, sorted(chain - {first.index}))
        answer.others = steps_at(self.trace, [i for i in producers[1:] if i != first.index])
        return answer

    def _shown(self, index: int) -> str:
        value = self.trace.nodes[index].value
        return short(float(value)) if is_array(value) and np.size(value) == 1 else "not finite"

    def _producers(
        self, ends: Iterable[int], test: Callable[[Any], bool]
    ) -> tuple[list[int], set[int]]:
        """Go back from `ends` over operands that fail the test, to where that begins.

        Parameters come first: if they were bad from the start, nothing else matters.
        """
        chain = leading_to(self.trace, ends, test)
        nodes = self.trace.nodes
        begins = [i for i in chain if not any(test(edge) for _, edge in nodes[i].edges)]
        begins.sort(key=lambda i: (not (nodes[i].is_leaf and nodes[i].needs_grad), i))
        return begins, chain

    def _made_infinite(self, node: TraceNode) -> tuple[list[int], set[int]] | None:
        """The operations that made, from finite operands, the inf that became NaN in `node`."""
        index = first_bad(self.numbers.of(Edge(node.index)))
        op = op_of(node)
        ends = []
        for _, edge in node.edges:
            here = at(self.numbers.of(edge), index) if op is not None and op.elementwise else None
            if self.numbers.bad(edge) and (here is None or not np.isfinite(here)):
                ends.append(edge.node)
        if not ends:
            return None
        begins, chain = self._producers(ends, self.numbers.bad)
        nodes = self.trace.nodes
        # An inf in the data may be a mask, unless weights multiply it.
        meant = not any(nodes[i].op in causes.PRODUCTS for i in (node.index, *chain))
        made = [
            i
            for i in begins
            if not (self._given(i) or (meant and nodes[i].is_leaf and not nodes[i].needs_grad))
        ]
        if node.op in causes.SOFTMAXES:  # a mask may also be computed: keep.log()
            made = [i for i in made if self._is_learned(i)] or ([] if meant else made)
        return (made, chain) if made else None

    def _is_learned(self, index: int) -> bool:
        """Whether a parameter is among what a node is computed from."""
        nodes = self.trace.nodes
        return any(
            nodes[i].is_leaf and nodes[i].needs_grad for i in leading_to(self.trace, [index])
        )

    def _past_masks(self, producers: list[int], chain: set[int]) -> list[int]:
        """Blame the softmax that follows a constant −inf, which is a mask."""
        node = self.trace.nodes[producers[0]]
        constant = not node.needs_grad if node.is_leaf else self._given(node.index)
        if constant and not self._is_nan(node.index):
            after = [i for i in sorted(chain) if self.trace.nodes[i].op in causes.SOFTMAXES]
            producers = [*after[:1], *producers[1:]] if after else producers
        return producers

    def _given(self, index: int) -> bool:
        """Whether the node has a constant inf: masked_fill(mask, -inf)."""
        return any(is_bad(a) for a in self.trace.nodes[index].args if not isinstance(a, Edge))

    def _described(self, node: TraceNode) -> FoundNan:
        if node.is_leaf:
            user = self._user_of_number(node)
            if user is not None:
                return self._written(user, user.value, float(node.value))
            return self._given_leaf(node)
        constant = next((a for a in node.args if isinstance(a, np.ndarray) and is_bad(a)), None)
        if constant is not None:  # a saved operand of an unrecorded graph
            return self._given_data(node, constant)
        edge = next(e for e in self.numbers.outputs(node.index) if self.numbers.bad(e))
        value = self.numbers.of(edge)
        index = first_bad(value)
        written = next((a for a in node.args if a.__class__ is float and is_bad(a)), None)
        if written is not None:
            return self._written(node, value, written)
        there = There.of(self.numbers, node, index, value)
        answer = self._about(node, causes.forward_cause(there), "forward", value, there.text)
        answer.operands = self._operands(there)
        return answer

    def _about(
        self, node: TraceNode, cause: Cause, direction: str, value: Kept, text: str
    ) -> FoundNan:
        answer = FoundNan(True, direction, cause.kind, text, cause.reason, cause.fix, node.index)
        answer.name, answer.op, answer.line = self.trace.name(node.index), node.op, node.line
        answer.layer = group_name(self.trace, node.index)
        answer.index = first_bad(value)
        if isinstance(value, Statistics):
            answer.count, answer.total = value.nans or value.infs, value.count
        elif is_array(value):
            answer.count, answer.total = int(np.sum(bad_mask(value))), int(np.size(value))
        return answer

    def _operands(self, there: There) -> list[Operand]:
        operands = []
        for argument, here in zip(there.node.args, there.operands):
            if isinstance(argument, Edge):
                kept = self.numbers.of(argument)
                name, dtype = self.trace.name(argument.node), dtype_of(kept)
                operands.append(Operand(name, here, _summary(kept), dtype))
            elif isinstance(argument, (int, float)):
                operands.append(Operand(f"the constant {short(float(argument))}", None, ""))
        return operands

    def _user_of_number(self, leaf: TraceNode) -> TraceNode | None:
        """The operation that a number without a line of its own was written for: x[0] = inf."""
        node = leaf
        while not leaf.needs_grad and leaf.line is None and is_array(leaf.value):
            users = self.trace.consumers[node.index]
            if np.size(leaf.value) != 1 or not users:
                break
            node = self.trace.nodes[users[0][0]]
            if node.op not in ("alias", "clone", "cast"):
                return node
        return None

    def _given_leaf(self, node: TraceNode) -> FoundNan:
        """The NaN was there before the first operation."""
        value = node.value
        if not node.needs_grad:
            return self._given_data(node, value)
        what = "NaN" if has_nan(value) else "inf"
        when = node.attrs.get("changed_at")
        left = f"the update at {when} left it" if when else "an earlier step left it"
        cause = Cause(
            "weights",
            f"this parameter already held {what} when it was used: {left}.",
            "look at the step before: find_nan(lambda: step()) around it; then a smaller "
            "learning rate, or clip_grad_norm_.",
        )
        return self._about(node, cause, "forward", value, f"already {what}")

    def _written(self, node: TraceNode, value: Kept, constant: float) -> FoundNan:
        what = short(constant)
        cause = Cause(
            "constant",
            f"{what} enters here as a constant.",
            "use a large finite number (-1e9 in place of -inf), or keep it from reaching the loss.",
        )
        return self._about(node, cause, "forward", value, f"the constant {what}")

    def _given_data(self, node: TraceNode, value: Kept) -> FoundNan:
        what = "NaN" if has_nan(value) else "inf"
        rows = causes.rows_of(value) or "the value"
        owner = "this tensor" if node.is_leaf else f"an operand of {node.op}"
        cause = Cause(
            "data",
            f"{rows} of {owner} held {what} from the start{self._last_written(node)}.",
            "clean the data: drop such rows, or fill them (nan_to_num) before training.",
        )
        verb = "are" if rows.startswith("rows") else "is"
        return self._about(node, cause, "forward", value, f"{rows} {verb} {what}")

    def _last_written(self, node: TraceNode) -> str:
        """Where a tensor was last written, unless that line made it."""
        for tensor in self.trace._alive:
            if node.is_leaf and is_tensor(tensor) and self.trace.lookup(tensor) == node.index:
                line = self._written_at(tensor)
                return "" if line is None or line == node.line else f" (last written at {line})"
        return ""

    def _written_at(self, tensor: Any) -> SourceLine | None:
        write = self.trace.last_write(tensor)
        return None if write is None else write[1]

    # -- backward ----------------------------------------------------------------------------------

    def _backward(self, sweep: Sweep) -> FoundNan:
        for index in sweep.visits:
            grads = sweep.grads.get(index, [])
            pushed = sweep.pushed.get(index, ())
            if any(is_bad(g) for g in grads):
                return self._arrived(index, sweep)
            for position, contribution in enumerate(pushed):
                if is_bad(contribution):
                    return self._pushed(index, position, sweep)
        leaf = next(i for i, grads in sweep.grads.items() if any(is_bad(g) for g in grads))
        return self._arrived(leaf, sweep)

    def _arrived(self, index: int, sweep: Sweep) -> FoundNan:
        """All pushes are finite, but their sum is not."""
        node = self.trace.nodes[index]
        g = next(g for g in sweep.grads[index] if is_bad(g))
        if any(edge.node == index for edge in sweep.seeds):
            cause = Cause(
                "seed",
                "backward() was given a gradient that is not finite.",
                "look at the gradient= that backward() was given.",
            )
        else:
            cause = Cause(
                "sum or hook",
                "each contribution that arrives here is finite, but their sum, or what a hook "
                "made of it, is not.",
                "look at the hooks on it; scale the loss down.",
            )
        answer = self._about(node, cause, "backward", g, "its gradient is not finite")
        answer.reached = self._bad_gradients(sweep)
        return answer

    def _pushed(self, index: int, position: int, sweep: Sweep) -> FoundNan:
        node = self.trace.nodes[index]
        nans = [edge.node for _, edge in node.edges if self.numbers.nan(edge)]
        if nans:
            return self._swallowed(index, nans, sweep)
        contribution: Any = sweep.pushed[index][position]
        element = self._element(node, contribution, sweep)
        there = There.of(self.numbers, node, element, self.numbers.of(Edge(index)))
        g = at(sweep.grad(index), element)
        pushed = at(contribution, first_bad(contribution))
        cause = causes.backward_cause(there, position, g, pushed)
        text = f"gradient {short(g)} becomes {short(pushed)}"
        hider = None
        if cause.kind == "infinite slope" and g == 0:
            hider = self._hider(index, element, sweep)
            cause, text = self._masked(there, hider), "gradient 0 becomes NaN"
        answer = self._about(node, cause, "backward", contribution, text)
        answer.operands = self._operands(there)
        answer.masked_by = None if hider is None else PathStep.at(self.trace, hider)
        answer.passed = self._onward(index, sweep)
        answer.reached = self._bad_gradients(sweep)
        return answer

    def _swallowed(self, index: int, ends: list[int], sweep: Sweep) -> FoundNan:
        """A NaN of the forward pass that did not reach the loss, but comes back in a gradient.

        A fused attention gives finite numbers for a query with NaN; an index leaves a row out.
        """
        answer = self._origin(ends, self.numbers.nan)
        waiting, seen = deque([index]), {index}
        while waiting and self._is_nan(waiting[0]):
            after = {consumer for consumer, _ in self.trace.consumers[waiting.popleft()]} - seen
            waiting.extend(sorted(after))
            seen |= after
        answer.masked_by = PathStep.at(self.trace, waiting[0]) if waiting else None
        answer.reached = self._bad_gradients(sweep)
        return answer

    def _element(self, node: TraceNode, contribution: Any, sweep: Sweep) -> Index | None:
        """The element of the node's output at which the first bad contribution arose."""
        index = first_bad(contribution)
        shape = node.shape
        if index is None or np.shape(contribution) == shape:
            return index
        # The operand was broadcast: pick the non-finite element among those it went into.
        value, g = self.numbers.of(Edge(node.index)), sweep.grad(node.index)
        if np.ndim(contribution) > len(shape) or not is_array(g):
            return None
        lead = len(shape) - np.ndim(contribution)
        own = [slice(None)] * lead
        own += [slice(None) if n == 1 else i for i, n in zip(index, np.shape(contribution))]  # type: ignore[misc]
        bad = np.zeros(shape, bool)
        bad[tuple(own)] = True
        if is_array(value) and is_bad(value):
            bad &= ~np.isfinite(value)
        elif (np.asarray(g)[bad] == 0).any():
            bad &= np.asarray(g) == 0
        place = np.unravel_index(int(np.argmax(bad)), shape)
        return tuple(int(i) for i in place)

    def _masked(self, there: There, hider: int | None) -> Cause:
        """A masked branch: its gradient is 0, its derivative infinite, and 0 × inf is NaN."""
        by, op = "a mask" if hider is None else self.trace.nodes[hider].op, there.node.op
        return Cause(
            "masked",
            f"{by} hides this element, so the loss is finite and the gradient that comes back is "
            f"0. But the derivative of {op} there ({there.text}) is infinite, and 0 × inf is NaN.",
            f"make the input safe before, not the result after: {causes.safe_form(op)}.",
        )

    def _hider(self, index: int, element: Index | None, sweep: Sweep) -> int | None:
        """The node, towards the loss, that made the gradient 0 at this element."""
        seen = {index}
        waiting = deque([index])
        while waiting:
            here = waiting.popleft()
            for consumer, position in self.trace.consumers[here]:
                pushed = sweep.pushed.get(consumer, ())
                if consumer in seen or position >= len(pushed) or at(pushed[position], element):
                    continue
                seen.add(consumer)
                g = sweep.grad(consumer)
                same = np.shape(g) == np.shape(pushed[position])
                if (same and at(g, element)) or (not same and is_array(g) and np.any(g)):
                    return consumer
                waiting.append(consumer)
        return None

    def _onward(self, index: int, sweep: Sweep) -> list[PathStep]:
        """The nodes visited later whose gradients are not finite because of it."""
        after = sweep.visits[sweep.visits.index(index) + 1 :]
        bad = [i for i in after if any(is_bad(g) for g in sweep.grads.get(i, []))]
        return steps_at(self.trace, bad)

    def _bad_gradients(self, sweep: Sweep) -> list[str]:
        """The leaves with non-finite gradients."""
        return [
            f"the gradient of {self.trace.name(i)}"
            for i, grads in sorted(sweep.grads.items())
            if self.trace.nodes[i].is_leaf
            and self.trace.nodes[i].needs_grad
            and any(is_bad(g) for g in grads)
        ]

    # -- after the step ----------------------------------------------------------------------------

    def _after_update(self) -> FoundNan:
        """After finite gradients, look for parameters that the update made non-finite."""
        for tensor in self.trace._alive:
            if not is_tensor(tensor) or not (tensor.is_leaf and tensor.requires_grad):
                continue
            array, index = numbers_of(tensor), self.trace.lookup(tensor)
            if index is None or not is_bad(array):
                continue
            cause = Cause(
                "update",
                "the loss and all gradients are finite, but this parameter is not after the "
                "update.",
                "a smaller learning rate, an eps above 0 in the optimizer, or clip_grad_norm_.",
            )
            node = self.trace.nodes[index]
            answer = self._about(node, cause, "update", array, "not finite after the update")
            answer.line = self._written_at(tensor) or answer.line
            return answer
        return FoundNan()


def _summary(kept: Kept) -> str:
    """An operand's elements in a few words."""
    if kept is None:
        return "its values were not kept"
    known = Statistics.of(kept)
    if known.count <= 1:
        return "" if known.finite else ("NaN" if known.nans else "inf")
    parts = [f"{known.count} elements"]
    if known.count > known.nans + known.infs:
        low, high = (telling(x, dtype_of(kept)) for x in (known.low, known.high))
        parts.append(f"from {low} to {high}")
    parts += [f"{known.zeros} of them 0"] if known.zeros else []
    parts += [f"{known.nans} NaN"] if known.nans else []
    parts += [f"{known.infs} infinite"] if known.infs else []
    return ", ".join(parts)
