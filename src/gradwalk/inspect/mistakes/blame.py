"""Whose rule is wrong: each op and Function that took part, checked on its own.

A wrong rule deep in a function reaches gradcheck mixed with everything around it. So every op is
called again alone, on the operands it had, and compared there: first what the user defined, then
the ops of our table (which `gradwalk.bugs` may have made wrong on purpose).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.backward import walk
from gradwalk.engine.errors import made_at
from gradwalk.engine.function import Context
from gradwalk.engine.modes import enable_grad, no_grad
from gradwalk.graph.order import inputs_first
from gradwalk.inspect.mistakes.arrivals import listening
from gradwalk.inspect.mistakes.diagnosis import HANDED_ON, TIMES_OUTPUT, Array, differs
from gradwalk.inspect.mistakes.differences import (
    Comparison,
    Function,
    Tolerance,
    compare,
    is_checked,
    is_tensor,
    is_value,
    outputs_of,
)
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op

LARGEST = 2000  # elements in and out: a larger call would take long to check on its own
LARGEST_OF_OURS = 500  # there may be many of them
CALLS = 3  # of one op: a wrong rule shows in the first few

_patching = threading.RLock()  # one at a time; func may itself call gradcheck
Derive = Callable[[Function, Sequence[Any]], tuple[Function, tuple[Any, ...]]]


def rule_at_fault(
    func: Function, inputs: Sequence[Any], tolerance: Tolerance, derive: Derive | None = None
) -> str | None:
    """Name the first op or Function whose own derivative is wrong, and how.

    `derive` turns a function and its inputs into their gradient function, for a check of second
    derivatives; first derivatives are looked at before.
    """
    with enable_grad():
        outputs = outputs_of(func, inputs)
    for owner, node in _users_own(outputs).items():
        for call in _calls(owner, node, func, inputs):
            what, wrong = "gradient", _wrong(call, call.operands, tolerance)
            if not wrong and derive is not None:
                what, wrong = "second derivative", _wrong(*derive(call, call.operands), tolerance)
            if wrong:
                worst = max(wrong, key=lambda c: c.badness)
                uses = _uses_inside(call, worst) if what == "gradient" else None
                reason = _swapped(wrong) or worst.diagnose(uses) or _UNKNOWN
                return f"{reason}\n{_at_fault(call, what, worst, node)}"
    return _ours_at_fault(func, inputs, outputs, tolerance)


_UNKNOWN = "the backward does not belong to the forward."


def _at_fault(call: Call, what: str, worst: Comparison, node: Any) -> str:
    return (
        f"  The rule at fault: {call.rule}, {what} for its input {worst.input}, called at\n"
        f"    {made_at(node)}"
    )


def _ours_at_fault(
    func: Function, inputs: Sequence[Any], outputs: Sequence[Any], tolerance: Tolerance
) -> str | None:
    """The same for the ops of the table, each as it was first applied; what can be named first."""
    fallback = None
    for call, node in _our_calls(func, inputs, outputs):
        wrong = _wrong(call, call.operands, tolerance, LARGEST_OF_OURS)
        if wrong and all(np.isfinite(c.numeric).all() for c in wrong):
            wrong.sort(key=lambda c: c.badness, reverse=True)
            told = [(c, _told_from_numbers(call, c, tolerance)) for c in wrong]
            worst, reason = next((pair for pair in told if pair[1]), told[0])
            swapped = _swapped(wrong)
            if swapped and len({text for _, text in told}) == 1 and reason:
                swapped = f"{reason}\n  Or {swapped}"  # of x - y, signs swapped are signs changed
            said = f"{swapped or reason or _UNKNOWN}\n{_at_fault(call, 'gradient', worst, node)}"
            if swapped or reason:
                return said
            fallback = fallback or said
    return fallback


def _told_from_numbers(call: Call, worst: Comparison, tolerance: Tolerance) -> str | None:
    """What is wrong with an op of the table; of Values at some more points than their own."""
    if any(is_value(x) for x in call.operands):
        call = _at_several_points(call)
        compared = _wrong(call, call.operands, tolerance, LARGEST_OF_OURS)
        same = [c for c in compared if c.input == worst.input and np.isfinite(c.numeric).all()]
        worst = same[0] if same else worst
    found = worst.diagnose()
    if found is not None and found.startswith("a constant factor"):
        identity = np.eye(len(worst.analytic))
        if np.array_equal(worst.analytic, identity):
            return f"{found}\n  Or {HANDED_ON}"
    return found or _times_output(call, worst)


def _at_several_points(call: Call) -> Call:
    """An op of Values on tensors: their numbers, and some near them.

    One number is always some factor times another, so that one alone tells little.
    """
    near = np.array([0.0, 0.07, -0.11, 0.13, -0.05])
    steps = [near if i % 2 == 0 else near[::-1] for i in range(len(call.operands))]
    points = [
        gradients.wrap(x.data + step * max(abs(x.data), 0.1))
        for x, step in zip(call.operands, steps, strict=True)
    ]
    for x in points:
        x.requires_grad = True
    return Call(call.owner, tuple(points), call.keywords)


def _times_output(call: Call, worst: Comparison) -> str | None:
    """Whether an elementwise op hands on the gradient times its output, and should not."""
    if worst.output_shape != worst.input_shape or not is_tensor(call.operands[worst.input]):
        return None
    with no_grad():
        output = outputs_of(call, call.operands)[worst.output]._array
    as_if = np.diag(np.ravel(output))
    off = differs(worst.analytic, as_if, worst.tolerance.atol, worst.tolerance.rtol)
    return None if off.any() else TIMES_OUTPUT


def _our_calls(
    func: Function, inputs: Sequence[Any], outputs: Sequence[Any]
) -> Iterator[tuple[Call, Any]]:
    seen: dict[Any, int] = {}
    if any(is_value(out) for out in outputs):
        for node in inputs_first([out for out in outputs if is_value(out)]):
            if isinstance(node.op, Op) and seen.get(node.op, 0) < CALLS:
                seen[node.op] = seen.get(node.op, 0) + 1
                yield (
                    Call(node.op, tuple(type(node)(i.data) for i in node.inputs), node.attrs),
                    node,
                )
        return
    with listening() as calls, enable_grad():
        outputs_of(func, inputs)
    for applied in calls:
        op, node = applied.op, applied.node
        if node is None or not isinstance(op, Op) or TABLE.get(op.name) is not op:
            continue
        if seen.get(op, 0) >= CALLS:
            continue
        seen[op] = seen.get(op, 0) + 1
        yield Call(op, tuple(_leaf(a) for a in applied.operands), applied.attrs), node


def _swapped(wrong: list[Comparison]) -> str | None:
    """Whether two inputs have received one another's gradient."""
    for one in wrong:
        for other in wrong:
            alike = one.output == other.output and one.analytic.shape == other.analytic.shape
            if alike and one.input < other.input:
                atol, rtol = one.tolerance.atol, one.tolerance.rtol
                crossed = differs(one.analytic, other.numeric, atol, rtol)
                if not (crossed | differs(other.analytic, one.numeric, atol, rtol)).any():
                    return (
                        f"swapped: input {one.input} receives the gradient of input {other.input}, "
                        "and the other way round."
                    )
    return None


@dataclass(frozen=True)
class Call:
    """One call of an op or a Function class, as a function of its operands."""

    owner: Any
    operands: tuple[Any, ...]
    keywords: dict[str, Any]

    def __call__(self, *operands: Any) -> Any:
        run = getattr(self.owner, "apply", self.owner)  # a Function class has apply
        return run(*operands, **self.keywords)

    @property
    def rule(self) -> str:
        """What the user wrote its derivative as."""
        name = self.owner.__name__
        return f"{name}.backward" if isinstance(self.owner, type) else f"that of op '{name}'"

    def recorded_forward(self, *operands: Any) -> Any:
        """A Function's forward, with what it does recorded instead of the Function."""
        context = Context(tuple(is_checked(x) for x in operands))
        return self.owner.forward(context, *operands, **self.keywords)


def _users_own(outputs: Sequence[Any]) -> dict[Any, Any]:
    """The ops and Function classes behind `outputs` that are not ours -> a node of each."""
    roots = [out if is_value(out) else out.grad_fn for out in outputs]
    owners: dict[Any, Any] = {}
    for node in inputs_first([root for root in roots if root is not None]):
        op: Any = getattr(node, "op", None)  # a leaf tensor has none
        if isinstance(op, Op):
            if TABLE.get(op.name) is not op:
                owners.setdefault(op, node)
        elif hasattr(op, "function"):
            owners.setdefault(op.function, node)
    return owners


def _calls(owner: Any, node: Any, func: Function, inputs: Sequence[Any]) -> Iterator[Call]:
    """How the op was called on the way to `node`, the operands in float64 and cut off."""
    if is_value(node):
        yield Call(owner, tuple(type(node)(i.data) for i in node.inputs), node.attrs)
        return
    with _recorded(owner) as calls, enable_grad():
        outputs_of(func, inputs)
    for args, keywords in calls[:CALLS]:
        operands = args[1:] if isinstance(owner, type) else args  # a Function's first is ctx
        yield Call(owner, tuple(_leaf(a) for a in operands), keywords)


@contextmanager
def _recorded(owner: Any) -> Iterator[list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Note what this thread calls `owner.forward` with; the call itself goes on as ever."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    thread = threading.get_ident()
    with _patching:
        own = vars(owner).get("forward")
        forward = owner.forward

        def noted(*args: Any, **keywords: Any) -> Any:
            if threading.get_ident() == thread:
                calls.append((args, keywords))
            return forward(*args, **keywords)

        owner.forward = staticmethod(noted) if isinstance(owner, type) else noted
        try:
            yield calls
        finally:
            if own is None:  # it was inherited
                del owner.forward
            else:
                owner.forward = own


def _leaf(operand: Any) -> Any:
    """A float operand as a float64 leaf of its own; anything else as it is."""
    array = operand._array if is_tensor(operand) else operand
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        return operand
    leaf = gradients.wrap(np.array(array, np.float64))
    leaf.requires_grad = not is_tensor(operand) or operand.requires_grad
    return leaf


def _wrong(
    call: Function, operands: tuple[Any, ...], tolerance: Tolerance, largest: int = LARGEST
) -> list[Comparison]:
    """The Jacobians of a call on its own that are wrong, not just kinked."""
    checked = [x for x in operands if is_checked(x)]
    with enable_grad():
        sizes = [x.numel() for x in (*checked, *outputs_of(call, operands)) if is_tensor(x)]
    if not checked or sum(sizes) > largest:
        return []
    return [c for c in compare(call, operands, tolerance) if c.wrong.any() and not c.only_kinks]


def _uses_inside(call: Call, worst: Comparison) -> dict[str, Array] | None:
    """Per use of the input inside a Function's forward, the Jacobian through that use alone.

    Its forward is run once more, recorded this time: the rules of the table then give what each
    use should hand back. None if there is nothing to record, or it leaves for NumPy.
    """
    if not isinstance(call.owner, type):
        return None
    try:
        with enable_grad():
            output = outputs_of(call.recorded_forward, call.operands)[worst.output]
    except Exception:  # whatever a forward does that recording forbids: no answer then
        return None
    source = call.operands[worst.input]
    uses: dict[Any, Array] = {}
    for row in range(output.numel() if output.grad_fn is not None else 0):

        def step(node: Any, g: Any, contributions: Sequence[Any], row: int = row) -> None:
            for position, (i, c) in enumerate(zip(node.inputs, contributions, strict=False)):
                if i is source and c is not None:
                    zeros = np.zeros((output.numel(), source.numel()))
                    uses.setdefault((node, position), zeros)[row] = np.ravel(c)

        seed = np.zeros(output.shape, output.dtype)
        seed.flat[row] = 1
        root = (output.grad_fn, output._index, seed)
        with no_grad():
            walk([root], lambda node, g: None, gradients.wrap, retain=True, on_step=step)
    return {
        f"{node.op.name}, operand {position + 1}, at {made_at(node)}": use
        for (node, position), use in uses.items()
    }


# -- Values with a `_backward` written by hand ----------------------------------------------------


def lost_on_arrival(output: Any, source: Any, right: float) -> str | None:
    """Whether a hand-written `_backward` assigns a gradient (=) where it should add (+=).

    Walk with every grad at 0 before each visit, and add up what the visits leave: if that gives
    the right gradient of `source` and `backward()` does not, something was overwritten.
    """
    order = inputs_first([output])
    kept = {v: v.grad for v in order}
    try:
        for v in order:
            v.grad = 0
        output.backward()
        plain = {v: v.grad for v in order}
        arrived: dict[Any, list[Any]] = {v: [] for v in order}
        arrived[output] = [1]
        for v in reversed(order):
            sources = dict.fromkeys(v.inputs)
            for i in sources:
                i.grad = 0
            v.grad = sum(arrived[v])
            v._backward()
            for i in sources:
                arrived[i].append(i.grad)
    finally:
        for v, grad in kept.items():
            v.grad = grad
    assigning = _assigning(order)
    if source not in arrived or not np.isclose(sum(arrived[source]), right, 1e-3, 1e-5):
        if assigning is None:
            return None
        return (
            "overwritten instead of accumulated: a _backward assigns (=) its contribution to an "
            f"input with several uses where it must add (+=): that of {assigning}."
        )
    for v in reversed(order):
        if not np.isclose(plain[v], sum(arrived[v]), 1e-6, 1e-9):
            name = f"'{v.label}'" if v.label else f"the Value made at {made_at(v)}"
            parts = " + ".join(f"{part:.6g}" for part in arrived[v])
            received = f"{name} receives {parts} = {sum(arrived[v]):.6g} from its consumers, but "
            if assigning is not None:
                return (
                    f"overwritten instead of accumulated: {received}its grad is {plain[v]:.6g}. A "
                    f"_backward assigns (=) where it must add (+=): that of {assigning}."
                )
            early = next((u for u in order if v in u.inputs and len(arrived[u]) > 1), None)
            who = "a node" if early is None else f"{early._op}, made at {made_at(early)},"
            return (
                f"wrong order: {received}its grad is {plain[v]:.6g}, though every visit adds: "
                f"{who} is visited before all of its consumers have added to it. Visit in reverse "
                "topological order."
            )
    return None


def _assigning(order: Sequence[Any]) -> str | None:
    """The Value whose visit assigns what it should add to what other uses have left, in words."""
    consumers: dict[Any, list[Any]] = {}
    for v in order:
        for i in v.inputs:
            consumers.setdefault(i, []).append(v)
    kept = {v: v.grad for v in order}
    try:
        for shared, users in consumers.items():
            if len(users) < 2:
                continue
            for user in dict.fromkeys(users):
                left, before = [], 0.0
                for _ in range(2):
                    shared.grad, user.grad = before, 1.0
                    user._backward()
                    left.append(shared.grad)
                    before = 1.0 + abs(left[0])
                if not np.isclose(left[1] - left[0], 1.0 + abs(left[0])) and np.isfinite(left[1]):
                    return f"{user._op}, made at {made_at(user)}"
    finally:
        for v, grad in kept.items():
            v.grad = grad
    return None
