"""Recurrent layers in a trace: the loop over time stays a loop (ir/loops.py).

One step is traced on terms of a single time, and its gradient as well. Forward is a loop over the
calls of the step. It keeps all states, and stacks what backward needs and cannot compute from them.
Backward is a loop over the calls of the gradient, the other way. What it would add up from step to
step, the gradient of a weight, is one product of stacked factors after the loop, where it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gradwalk.compiler.ir.loops import add_loop
from gradwalk.compiler.ir.program import Argument, Builder, Call, Term, copy_call, replaced
from gradwalk.compiler.tracing.traced import Traced
from gradwalk.engine import gradients
from gradwalk.engine.backward import walk
from gradwalk.engine.function import Function
from gradwalk.engine.modes import enable_grad, no_grad, state
from gradwalk.graph.source import caller
from gradwalk.ops.elementwise.arithmetic import add
from gradwalk.ops.index.indexing import getitem
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.network.recurrent import unrolled
from gradwalk.ops.reduce.reduction import sum_op
from gradwalk.ops.shape.reshaping import permute, reshape

if TYPE_CHECKING:
    from gradwalk.compiler.tracing.tracer import Tracer

Later = Callable[[], Term]  # a term that exists once the loop was added


def traced_scan(
    tracer: Tracer,
    step: Any,
    x: Any,
    first: tuple[Any, ...],
    weights: tuple[Any, ...],
    reverse: bool,
) -> tuple[Any, ...]:
    """Record a scan (ops/network/recurrent.py) as a loop: all outputs, then the last state."""
    tracer.capture(x, *first, *weights)
    needs = [t.requires_grad and state.here.grad_enabled for t in (x, *first, *weights)]
    loops = ScanLoops(tracer, step, x, first, weights, reverse, needs)
    # No one loop is of a dtype that grows, and files of graphs have composites and no loops.
    if tracer.keeps_composites or not loops.keeps_states:
        out, last = unrolled(step, x, first, weights, reverse)
        return out, *last
    results: tuple[Any, ...] = Scan.apply(x, *first, *weights, loops=loops)
    return results


class Scan(Function):
    """The node of a scan."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any, loops: ScanLoops) -> Any:
        ctx.loops = loops
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)
        return tuple(gradients.wrap(Traced(loops.tracer, term)) for term in loops.forward())

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:
        loops, inputs, needs = ctx.loops, ctx.saved_tensors, ctx.needs_input_grad
        if not state.here.grad_enabled:
            terms = [None if part is None else part._array.term for part in g]
            return tuple(
                None if term is None else gradients.wrap(Traced(loops.tracer, term))
                for term in loops.backward(terms, needs)
            )
        # To be differentiated again: step by step.
        x, *others = inputs
        states, weights = others[: len(loops.states)], others[len(loops.states) :]
        out, last = unrolled(loops.step, x, tuple(states), tuple(weights), loops.reverse)
        pairs = [(o, part) for o, part in zip((out, *last), g, strict=True) if part is not None]
        wanted = [i for i, needed in zip(inputs, needs, strict=True) if needed]
        outs, seeds = zip(*pairs, strict=True)
        found = iter(gradients.grad(outs, wanted, seeds, create_graph=True, allow_unused=True))
        return tuple(next(found) if needed else None for needed in needs)


class ScanLoops:
    """One traced step, and the loops made of it."""

    def __init__(
        self,
        tracer: Tracer,
        step: Any,
        x: Any,
        first: Sequence[Any],
        weights: Sequence[Any],
        reverse: bool,
        needs: Sequence[bool],
    ) -> None:
        self.tracer, self.step = tracer, step
        self.count, self.reverse = x.shape[0], reverse
        self.xs: Term = x._array.term
        self.first: list[Term] = [s._array.term for s in first]
        self.x = _given(x.shape[1:], x.dtype)
        self.states = [_given(s.shape, s.dtype) for s in first]
        self.seeds = [_given(s.shape, s.dtype) for s in first]  # gradients of the new states
        self.g = _given(first[0].shape, first[0].dtype)  # that of the output
        inputs = [self.x, *self.states, *(w._array.term for w in weights)]
        recorded = any(needs)
        leaves = []
        for number, term in enumerate(inputs):
            leaf = gradients.wrap(Traced(tracer, term))
            # The gradient reaches earlier steps through every state.
            leaf._requires_grad = recorded and (needs[number] or 0 < number <= len(first))
            leaves.append(leaf)
        outer, tracer.build = tracer.build, Builder()
        try:
            with enable_grad() if recorded else no_grad():
                made = step(*leaves)
            self.new: list[Term] = [m._array.term for m in made]
            states = zip(self.states, self.new, strict=True)
            self.keeps_states = all((s.shape, s.dtype) == (n.shape, n.dtype) for s, n in states)
            forward = len(tracer.build.calls)
            recorded = recorded and self.keeps_states
            arrived = self._differentiate(made, leaves) if recorded else {}
        finally:
            calls, tracer.build = tracer.build.calls, outer
        if not self.keeps_states:
            return
        self.gradients: list[Term | None] = [
            arrived[leaf].term if leaf in arrived else None for leaf in leaves
        ]
        self.varying = {self.x, self.g, *self.states, *self.seeds}
        self.calls: list[Call] = []  # of the loops: all that depends on the step, and views
        for call in calls:
            if not self.varying.isdisjoint(call.terms):
                self.varying.update(call.outputs)
                self.calls.append(call)
            else:
                outer.calls.append(call)
                if call.op.view:
                    self.calls.append(call)
        self.made = {t for call in calls[:forward] for t in call.outputs} & self.varying
        self.of_gradient = calls[forward:]
        # Of which states all values are kept: those of the first are the output.
        self.remembered = [number == 0 for number in range(len(first))]
        self.kept: list[Term] = []  # what forward stacks for backward
        self.stacks: dict[Term, Term] = {self.x: self.xs}  # rows of arrays, known so far
        if recorded:
            self._choose_kept()

    def _differentiate(self, made: Sequence[Any], leaves: Sequence[Any]) -> dict[Any, Any]:
        """The gradients that arrive at the leaves."""
        tracer = self.tracer
        seeds = [Traced(tracer, seed) for seed in self.seeds]
        seeds[0] = seeds[0] + Traced(tracer, self.g)
        roots = [
            (m._node or m, m._index, seed)
            for m, seed in zip(made, seeds, strict=True)
            if m.requires_grad
        ]
        arrived: dict[Any, Any] = {}
        wanted = {leaf for leaf in leaves if leaf._requires_grad}
        with no_grad():
            walk(roots, arrived.__setitem__, gradients.wrap, wanted=wanted, retain=True)
        return arrived

    def _choose_kept(self) -> None:
        """Decide what forward stacks: what backward reads, except states, views, and what it can
        compute in one call from what it has."""
        known = {self.x, *self.states, *self.new}

        def saved(term: Term) -> bool:
            view = term.call is not None and term.call.op.view
            return term in known or (term in self.made and not view)

        kept = dict.fromkeys(t for t in self._read(saved) if t not in known)
        for term in list(kept):
            assert term.call is not None
            operands = {_viewed(t) for t in term.call.terms if t in self.varying}
            if term.call.op.elementwise and operands <= (known | kept.keys()) - {term}:
                del kept[term]
        self.kept = list(kept)
        read = set(self._read((known | kept.keys()).__contains__))
        self.remembered = [
            number == 0 or term in read or new in read
            for number, (term, new) in enumerate(zip(self.states, self.new, strict=True))
        ]

    def _read(self, saved: Callable[[Term], bool]) -> list[Term]:
        """The saved terms that backward reads, where it computes all others."""
        waiting = [g for g in self.gradients if g is not None]
        seen = set(waiting)
        read = []
        while waiting:
            term = waiting.pop()
            if saved(term):
                read.append(term)
            elif term.call is not None:
                new = [t for t in dict.fromkeys(term.call.terms) if t not in seen]
                seen.update(new)
                waiting += new
        return read

    # -- forward -----------------------------------------------------------------------------------

    def forward(self) -> list[Term]:
        """Add the loop of forward; return the outputs and the last states."""
        whole = self.remembered
        stacks, states = add_loop(
            self.tracer.build,
            self.calls,
            (self.count, self.reverse),
            [(self.x, self.xs)],
            list(zip(self.states, self.first, self.new, whole, strict=True)),
            self.kept,
        )
        self.stacks |= zip(self.kept, stacks, strict=True)
        last = []
        before, after = (1, 0) if self.reverse else (0, 1)
        for term, new, history, all_values in zip(
            self.states, self.new, states, whole, strict=True
        ):
            if all_values:
                self.stacks.setdefault(new, self._rows(history, after))
                self.stacks[term] = self._rows(history, before)
                row = 0 if self.reverse else self.count
                history = self.tracer.call(getitem, [history], {"index": (row,)})
            last.append(history)
        return [self.stacks[self.new[0]], *last]

    def _rows(self, history: Term, start: int) -> Term:
        index = (("slice", start, start + self.count, None),)
        rows: Term = self.tracer.call(getitem, [history], {"index": index})
        return rows

    # -- backward ----------------------------------------------------------------------------------

    def backward(self, g: list[Term | None], needs: Sequence[bool]) -> list[Term | None]:
        """Add the loop of backward; return the gradients of x, of the first states and of the
        weights."""
        g_out, *g_last = g
        line = caller()
        for call in self.of_gradient:
            call.line = line
        self.outputs: dict[Term, None] = {}  # rows that the loop gives
        self.sums: list[tuple[Term, Term, Term, bool]] = []  # states that add up
        self.more: list[Call] = []
        count = len(self.states)
        later: list[Later | None] = []
        for number, (found, needed) in enumerate(zip(self.gradients, needs, strict=True)):
            if not needed or found is None or 0 < number <= count:
                later.append(None)
            else:
                later.append(self._stacked(found) if number == 0 else self._total(found))
        states = []
        for seed, end, found in zip(self.seeds, g_last, self.gradients[1 : count + 1], strict=True):
            first = self._zeros(seed) if end is None else end
            states.append((seed, first, self._zeros(seed) if found is None else found, False))
        g_rows = self._zeros(self.g, self.count) if g_out is None else g_out
        calls = [*self.calls, *self.more]
        moved = self._moved_product() if g_last[0] is None else None
        if moved is not None:
            calls = moved.calls_before(calls, self.varying)
            states[:1] = moved.states(self._zeros)
            self.outputs.pop(moved.factor, None)
        stacks, last = add_loop(
            self.tracer.build,
            calls,
            (self.count, not self.reverse),
            [*self.stacks.items(), (self.g, g_rows)],
            [*states, *self.sums],
            list(self.outputs),
        )
        self.given = dict(zip(self.outputs, stacks, strict=True))
        self.given |= zip((term for term, *_ in self.sums), last[len(states) :], strict=True)
        ends = list(last[: len(states)])
        if moved is not None:
            history = ends[0]
            self.given[moved.factor] = self._rows(history, 1 if self.reverse else 0)
            row = self.count if self.reverse else 0
            ends[0] = self.tracer.call(getitem, [history], {"index": (row,)})
            kept = len(moved.carried)
            ends[:kept] = [moved.after(self.tracer, ends[:kept]) if needs[1] else ends[0]]
        found_last: list[Term | None] = [None if then is None else then() for then in later]
        for number, term in enumerate(ends, start=1):
            reached = needs[number] and self.gradients[number] is not None
            found_last[number] = term if reached else None
        return found_last

    def _moved_product(self) -> MovedProduct | None:
        """The product at the end of a step of backward, if it can be done at the start of the next
        one, where it is fused with what comes after it."""
        found = self.gradients[1]
        if found is None or found.call is None or found not in self.varying:
            return None
        parts = found.call.terms if found.call.op is add else (found,)
        products = [
            t for t in parts
            if t.call is not None and t.call.op is matmul_op
            and t.call.terms[0] in self.varying and t.call.terms[1] not in self.varying
        ]  # fmt: skip
        if len(products) != 1 or len(parts) > 2 or any(t.shape != found.shape for t in parts):
            return None
        return MovedProduct(found, products[0], self.seeds[0], self.varying)

    def _zeros(self, like: Term, *lead: int) -> Term:
        return self.tracer.filled((*lead, *like.shape), like.dtype, 0).term

    def _stacked(self, term: Term) -> Later:
        """A term of the body at all times."""
        if term in self.stacks:
            return lambda: self.stacks[term]
        call = term.call
        if call is not None and call.op is permute and term in self.varying:
            axes = (0, *(axis + 1 for axis in call.attrs["axes"]))
            inner = self._stacked(call.terms[0])
            return lambda: self.tracer.call(permute, [inner()], {"axes": axes})
        self.outputs[term] = None
        return lambda: self.given[term]

    def _total(self, term: Term) -> Later:
        """The sum of a term of the body over all times."""
        call, do = term.call, self.tracer.call
        if call is None or term not in self.varying:
            return self._added_up(term)
        if call.op in (permute, reshape):
            inner = self._total(call.terms[0])
            return lambda: do(call.op, [inner()], call.attrs)
        if call.op is matmul_op and call.terms[0].call is not None and term.ndim == 2:
            turned, right = call.terms
            if turned.call.op is permute and right.ndim == 2:  # type: ignore[union-attr]
                lefts, rights = map(self._stacked, (turned.call.terms[0], right))  # type: ignore[union-attr]
                return lambda: do(
                    matmul_op,
                    [do(permute, [self._flat(lefts())], {"axes": (1, 0)}), self._flat(rights())],
                    {},
                )
        if call.op is sum_op:
            all_rows = self._stacked(call.terms[0])
            axes = (0, *(axis + 1 for axis in call.attrs["axis"]))

            def total() -> Term:
                summed = do(sum_op, [all_rows()], {"axis": axes, "keepdim": False})
                return do(reshape, [summed], {"shape": term.shape})

            return total
        return self._added_up(term)

    def _flat(self, stack: Term) -> Term:
        """Matrices of all times, one below the other."""
        count, rows, columns = stack.shape
        flat: Term = self.tracer.call(reshape, [stack], {"shape": (count * rows, columns)})
        return flat

    def _added_up(self, term: Term) -> Later:
        """As a state of the loop."""
        so_far = _given(term.shape, term.dtype)
        call = Call(add, (so_far, term), {}, [(term.shape, term.dtype)])
        self.more.append(call)
        self.sums.append((so_far, self._zeros(term), call.outputs[0], False))
        return lambda: self.given[so_far]


class MovedProduct:
    """The last calls of a step of backward, g @ W or u + g @ W, at the start of the next step: the
    states are then g, all values of which are kept, and u; at first they are zero."""

    def __init__(self, found: Term, product: Term, seed: Term, varying: set[Term]) -> None:
        assert found.call is not None and product.call is not None
        self.factor = product.call.terms[0]
        others = [t for t in found.call.terms if t is not product] if found is not product else []
        self.carried = [self.factor, *(t for t in others if t in varying)]
        self.before = [_given(t.shape, t.dtype) for t in self.carried]
        self.tail = [product.call] if found is product else [product.call, found.call]
        now = dict(zip(self.carried, self.before, strict=True))
        self.calls = []
        for call in self.tail:
            made = copy_call(call, replaced(call, now))
            self.calls.append(made)
            now |= zip(call.outputs, made.outputs, strict=True)
        self.calls[-1].outputs = (seed,)

    def calls_before(self, calls: Sequence[Call], varying: set[Term]) -> list[Call]:
        """All calls of a step, these first but for what is the same in all steps."""
        fixed = [call for call in calls if varying.isdisjoint(call.terms)]
        return [*fixed, *self.calls, *(c for c in calls if not varying.isdisjoint(c.terms))]

    def states(self, zeros: Callable[[Term], Term]) -> list[tuple[Term, Term, Term, bool]]:
        """The states of the loop in place of the gradient."""
        pairs = zip(self.before, self.carried, strict=True)
        return [(b, zeros(b), term, term is self.factor) for b, term in pairs]

    def after(self, tracer: Tracer, ends: Sequence[Term]) -> Term:
        """The gradient that the last step leaves."""
        now = dict(zip(self.carried, ends, strict=True))
        for call in self.tail:
            term: Term = tracer.call(call.op, replaced(call, now), call.attrs)
            now[call.outputs[0]] = term
        return term


def _given(shape: tuple[int, ...], dtype: Any) -> Term:
    """A term that the loop gives to its body."""
    return Term(shape, dtype, source=Argument(0))


def _viewed(term: Term) -> Term:
    """What a term is a view of."""
    while term.call is not None and term.call.op.view:
        (term,) = term.call.terms
    return term
