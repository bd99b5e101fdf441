"""bugs: make gradients wrong on purpose, to see what mistakes look like and to test the tools.

    with bugs.inject("sign", op="tanh"):
        gradcheck(gw.tanh, x)  # says: wrong sign, the rule of op 'tanh'

Inside the block the op's derivative is wrong, for tensors and Values alike, in the whole process;
the forward is untouched. When the block ends, however it ends, everything is as before.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.engine import backward
from gradwalk.engine import pull as pulling
from gradwalk.inspect.trace import from_values as tracing
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op, Rule
from gradwalk.ops.elementwise.arithmetic import zero
from gradwalk.ops.shape.reshaping import reshape
from gradwalk.scalar import push as scalar_push
from gradwalk.scalar import value as scalar_value

__all__ = ["KINDS", "Bug", "active", "inject"]

KINDS = {
    "sign": "the negative of the derivative",
    "factor": "the derivative times a constant (factor=2.0)",
    "missing": "no gradient for an input",
    "term": "the rule lacks a term: softmax without its normaliser, ...",
    "mask": "the gradient passes where the function is flat: relu as if it were the identity",
    "swapped": "each of two inputs receives the gradient of the other",
    "transpose": "the gradient transposed",
    "unsummed": "no sum over a broadcast axis: the input receives the first slice only",
    "stale": "backward uses the values that an earlier call of the op saved",
    "overwrite": "a contribution overwrites the gradient of an input: = instead of +=",
    "order": "nodes are visited breadth first, some before all their consumers (no op)",
}


@dataclass(frozen=True)
class Bug:
    """One injected bug."""

    kind: str
    op: str  # "" if it is not about one op
    input: str = ""  # "" if all inputs are concerned
    factor: float = 2.0

    @property
    def text(self) -> str:
        """In a line."""
        where = f" in {self.op}" if self.op else ""
        return f"{self.kind}{where}{f', input {self.input}' if self.input else ''}"


_active: list[Bug] = []


def active() -> tuple[Bug, ...]:
    """The bugs that are injected now.

    >>> from gradwalk.inspect import bugs
    >>> with bugs.inject("factor", op="mul"):
    ...     [bug.text for bug in bugs.active()]
    ['factor in mul']
    >>> bugs.active()
    ()
    """
    return tuple(_active)


@contextmanager
def inject(
    kind: str, op: str | Op | None = None, *, input: str | int | None = None, factor: float = 2.0
) -> Iterator[Bug]:
    """Make gradients wrong inside the block. `kind` is one of `bugs.KINDS`.

    `op` names the op whose rule is to be wrong; `input` one of its inputs, by name or position
    (left out: all). "overwrite" without an op concerns every op. Compute and go backward inside
    the block.

    >>> import gradwalk as gw
    >>> from gradwalk.inspect import bugs
    >>> a = gw.Value(3.0)
    >>> with bugs.inject("overwrite", op="mul"):
    ...     (a * a).backward()
    >>> a.grad
    3.0
    """
    if kind not in KINDS:
        raise ValueError(f"bug {kind!r} is not one of {', '.join(KINDS)}")
    target = _target(kind, op)
    positions = [] if target is None else _positions(target, input)
    named = "" if input is None or target is None else target.inputs[positions[0]]
    bug = Bug(kind, "" if target is None else target.name, named, factor)
    with ExitStack() as undo:
        _AROUND.get(kind, _inject_rules)(undo, target, positions, bug)
        _active.append(bug)
        undo.callback(_active.remove, bug)
        yield bug


def _target(kind: str, op: str | Op | None) -> Op | None:
    if kind == "order" and op is not None:
        raise ValueError("'order' is about the order of visits, not about one op")
    if op is None:
        if kind in ("order", "overwrite"):
            return None
        raise ValueError(f"{kind!r} needs the op whose rule is to be wrong: op='tanh'")
    target = op if isinstance(op, Op) else TABLE.get(op)
    if target is None:
        raise ValueError(f"there is no op called {op!r}")
    if not target.differentiable:
        raise ValueError(f"{target.name} has no derivative that could be wrong")
    return target


def _positions(op: Op, input: str | int | None) -> list[int]:
    if isinstance(input, str):
        if input not in op.inputs:
            raise ValueError(f"{op.name} has the inputs {', '.join(op.inputs)}, not {input!r}")
        input = op.inputs.index(input)
    chosen = range(len(op.inputs)) if input is None else [input]
    positions = [i for i in chosen if op.rules[i] is not None]
    if not positions:
        raise ValueError(f"input {input} of {op.name} has no derivative that could be wrong")
    return positions


# -- wrong rules -----------------------------------------------------------------------------------


def _transposed(c: Any) -> Any:
    return c if getattr(c, "ndim", 0) < 2 else reshape(c.mT, shape=tuple(c.shape))


# What becomes of a right contribution; g is what arrived.
_CHANGES: dict[str, Callable[[Any, Any, Bug], Any]] = {
    "sign": lambda c, g, bug: -c,
    "factor": lambda c, g, bug: c * bug.factor,
    "missing": lambda c, g, bug: zero(c),
    "mask": lambda c, g, bug: g,
    "transpose": lambda c, g, bug: _transposed(c),
}
_MASKING = {
    "relu", "leaky_relu", "clip", "where", "threshold", "hardtanh", "hardsigmoid", "softshrink",
    "hardshrink", "maximum", "minimum", "clamp_min", "clamp_max",
}  # fmt: skip

# Rules with a part left out, by op and input (None: that rule stays right): what people forget.
_TERMS: dict[str, list[Callable[..., Any] | None]] = {
    "softmax": [lambda g, out: g * out],
    "log_softmax": [lambda g: g],
    "tanh": [lambda g: g],
    "tan": [lambda g: g],
    "sigmoid": [lambda g, out: g * out],
    "expm1": [lambda g, out: g * out],
    "standardize": [lambda g, rstd: g * rstd],
    "standardize_affine": [lambda g, weight, rstd: g * weight * rstd, None, None],
}


def _inject_rules(undo: ExitStack, op: Any, positions: list[int], bug: Bug) -> None:
    """Give an op wrong rules, and drop the code that was generated from its own."""
    rules = _wrong_rules(op, positions, bug)
    undo.callback(_refresh, op)  # runs last
    patch(undo, op, "rules", tuple(rules))
    patch(undo, op, "joint", None)  # each input by its own rule
    _refresh(op)


def _wrong_rules(op: Op, positions: list[int], bug: Bug) -> list[Rule | None]:
    rules = list(op.rules)
    if bug.kind == "swapped":
        if len(op.inputs) != 2 or len(positions) != 2 or op.joint is not None:
            raise ValueError(f"'swapped' is for ops with two differentiable inputs, not {op.name}")
        return rules[::-1]
    if bug.kind == "term":
        if op.name not in _TERMS:
            raise ValueError(f"'term' is known for {', '.join(sorted(_TERMS))}, not for {op.name}")
        terms = {i: f for i, f in enumerate(_TERMS[op.name]) if f is not None and i in positions}
        if not terms:
            raise ValueError(f"'term' is not known for input {bug.input} of {op.name}")
        return [Rule(terms[i], False) if i in terms else rule for i, rule in enumerate(rules)]
    if bug.kind == "mask" and op.name not in _MASKING:
        raise ValueError(f"{op.name} has no mask; ops that have one: {', '.join(sorted(_MASKING))}")
    return [_changed(rule, bug) if i in positions else rule for i, rule in enumerate(rules)]


def _changed(rule: Any, bug: Bug) -> Rule:
    """A rule that changes what another one gives."""

    names = tuple(dict.fromkeys(("g", *rule.names)))

    def wrong(*args: Any) -> Any:
        given = dict(zip(names, args))
        right = rule.function(*(given[name] for name in rule.names))
        return _CHANGES[bug.kind](given["g"] * right if rule.partial else right, given["g"], bug)

    made = Rule(0.0, partial=False)
    made.function, made.names, made.constant = wrong, names, None
    return made


def _refresh(op: Op) -> None:
    for plan in op._plans.values():
        plan.save, plan.pull = plan._first_save, plan._first_pull
        plan.written = plan.verified = False
    scalar_push.pushes.pop(op, None)


# -- around the rules ------------------------------------------------------------------------------


def patch(undo: ExitStack, owner: Any, name: str, replacement: Any) -> None:
    """Replace an attribute of a module, a class or an object; what was inherited is so again."""
    if name in vars(owner):
        undo.callback(setattr, owner, name, vars(owner)[name])
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, replacement)


def _inject_unsummed(undo: ExitStack, op: Any, positions: list[int], bug: Bug) -> None:
    if not (op.elementwise or op.broadcasts) or len(op.inputs) < 2:
        raise ValueError(f"{op.name} broadcasts nothing")
    right = pulling.fit

    def fit(contribution: Any, node: Any, position: int) -> Any:
        if node.op is op and position in positions and node.metas is not None:
            shape, lead = node.metas[position][0], contribution.ndim - len(node.metas[position][0])
            ones = zip(shape, contribution.shape[lead:])
            kept = [slice(0, 1) if n == 1 < m else slice(None) for n, m in ones]
            contribution = contribution[(0,) * lead + tuple(kept)]
        return right(contribution, node, position)

    patch(undo, pulling, "fit", fit)


def _inject_stale(undo: ExitStack, op: Any, positions: list[int], bug: Bug) -> None:
    undo.callback(_refresh, op)
    kept: dict[str, Any] = {}
    count = len(op.inputs)
    for needs in itertools.product((False, True), repeat=count) if count <= 3 else ():
        op.plan(needs)
    for plan in op._plans.values():
        plan.write()
        plan.save = functools.partial(_stale_save, plan.save, kept)
    if op.elementwise:
        _inject_stale_values(undo, op)


def _inject_stale_values(undo: ExitStack, op: Op) -> None:
    """Visit Values, which save nothing, with the numbers of another call.

    That call is the one before it in the graph, inputs first, so that backward() and a recording
    of it agree.
    """
    earlier: dict[Any, Any] = {}

    def noting(listed: Callable[[Any], list[Any]], roots: Any) -> list[Any]:
        nodes = listed(roots)
        for before, v in itertools.pairwise(v for v in nodes if v.op is op):
            earlier.setdefault(v, before)
        return nodes

    def contributions(v: Any, g: float) -> tuple[float | None, ...]:
        return scalar_push.contributions(earlier.get(v, v), g)

    def push(v: Any) -> None:
        for source, contribution in zip(v.inputs, contributions(v, v._grad)):
            source._grad += contribution or 0.0

    for module, listing in ((scalar_value, "inner_first"), (tracing, "inputs_first")):
        patch(undo, module, listing, functools.partial(noting, getattr(module, listing)))
    patch(undo, tracing, "contributions", contributions)
    undo.callback(scalar_push.pushes.pop, op, None)
    scalar_push.pushes[op] = push


def _stale_save(save: Callable[..., Any], kept: dict[str, Any], *given: Any) -> dict[str, Any]:
    """What an earlier call saved, where it fits."""
    fresh = save(*given)
    stale = {
        name: kept[name]
        for name, value in fresh.items()
        if isinstance(value, np.ndarray) and getattr(kept.get(name), "shape", None) == value.shape
    }
    kept.update(fresh)
    return fresh | stale


def _inject_overwrite(undo: ExitStack, op: Any, positions: list[int], bug: Bug) -> None:
    """What arrives from this op, or from any, replaces what is there."""
    right_pull, right_arrive = pulling.pull, backward._arrive
    pushing: list[Any] = [None]

    def pull(node: Any, g: Any, needed: Any, wrap: Any) -> Any:
        pushed = right_pull(node, g, needed, wrap)
        pushing[0] = node.op
        return pushed

    def arrive(grads: Any, ours: Any, graph: bool, node: Any, index: int, g: Any) -> None:
        concerned = pushing[0] is not None and (op is None or pushing[0] is op)
        if concerned and not node.many and node in grads:
            grads[node] = g
            ours.discard(node)
        else:
            right_arrive(grads, ours, graph, node, index, g)

    patch(undo, backward, "pull", pull)
    patch(undo, backward, "_arrive", arrive)
    for changed in [o for o in TABLE.values() if o.elementwise] if op is None else [op]:
        if changed.elementwise and changed.differentiable:
            undo.callback(scalar_push.pushes.pop, changed, None)
            scalar_push.pushes[changed] = scalar_push.write_push(changed, "=")


def _inject_order(undo: ExitStack, op: Any, positions: list[int], bug: Bug) -> None:
    patch(undo, backward, "inputs_first", _breadth_first)
    patch(undo, scalar_value, "inner_first", lambda root: _breadth_first([root], leaves=False))


def _breadth_first(roots: Any, stop: Any = (), leaves: bool = True) -> list[Any]:
    """Nodes by their distance from the root, the farthest first: not a topological order."""
    order = list(dict.fromkeys(roots))
    seen = {None, *order}
    for node in order:  # which grows meanwhile
        new = [] if node in stop else [i for i in dict.fromkeys(node.inputs) if i not in seen]
        seen.update(new)
        order += new
    return [node for node in reversed(order) if leaves or node.inputs]


_AROUND: dict[str, Callable[[ExitStack, Any, list[int], Bug], None]] = {
    "unsummed": _inject_unsummed,
    "stale": _inject_stale,
    "overwrite": _inject_overwrite,
    "order": _inject_order,
}
