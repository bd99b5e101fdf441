"""Which rule is wrong: the user's own, each called alone; else what a recording of it all shows.

A wrong rule deep in a function reaches gradcheck mixed with everything around it. So every op and
Function of the user's is called again alone, on the operands it had, and compared there. The ops
of our table (which `gradwalk.bugs` may have made wrong on purpose) and the walk are audited in a
recording.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.backward import walk
from gradwalk.engine.errors import made_at
from gradwalk.engine.function import Context
from gradwalk.engine.modes import enable_grad, no_grad, state
from gradwalk.graph.fork_locks import CALL, fork_safe
from gradwalk.graph.order import inputs_first
from gradwalk.inspect.mistakes.audit import audit
from gradwalk.inspect.mistakes.diagnosis import explanations
from gradwalk.inspect.mistakes.differences import (
    Function,
    Tolerance,
    WrongJacobian,
    gradient_of,
    grads_put_back,
    in_float64,
    is_checked,
    outputs_of,
    wrong_jacobians,
)
from gradwalk.inspect.mistakes.evidence import say
from gradwalk.inspect.mistakes.lost_contributions import contributions_to, overwritten
from gradwalk.inspect.trace.from_values import trace_of_values
from gradwalk.inspect.trace.recorder import Recorder
from gradwalk.inspect.trace.trace import Edge, Trace
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op
from gradwalk.scalar.push import contributions
from gradwalk.scalar.value import Value
from gradwalk.tensors.tensor import Tensor

LARGEST = 2000  # elements in and out: a larger call would take long to check on its own
CALLS = 3  # of one op: a wrong rule shows in the first few

_patching = fork_safe(threading.RLock(), CALL)  # one at a time; func may itself call gradcheck
Call = tuple[tuple[Any, ...], dict[str, Any]]  # operands and keywords


def own_rule_at_fault(
    func: Function, inputs: Sequence[Any], tolerance: Tolerance, second: bool = False
) -> str | None:
    """Name the first op or Function of the user's whose own derivative is wrong, and how.

    If its first derivatives are right, its `second` ones are checked too.
    """
    with enable_grad():
        outputs = outputs_of(func, inputs)
    for owner, node in _users_own(outputs).items():
        for operands, keywords in _calls(owner, node, func, inputs):
            # A Function class has apply; an op is called itself.
            run = functools.partial(getattr(owner, "apply", owner), **keywords)
            wrong, reason = _wrong(run, operands, tolerance), None
            what = "gradient"
            if wrong and isinstance(owner, type):
                reason = _lost_use(owner, operands, keywords, _worst(wrong))
            elif not wrong and second:
                what, wrong = "second derivative", _wrong(*gradient_of(run, operands), tolerance)
            if wrong:
                worst, name = _worst(wrong), owner.__name__
                rule = f"{name}.backward" if isinstance(owner, type) else f"that of op '{name}'"
                at_fault = _at_fault(rule, what, worst.argument, made_at(node))
                return f"{reason or said(worst, wrong) or say('unknown')}\n{at_fault}"
    return None


def said(worst: WrongJacobian, among: Sequence[WrongJacobian] = ()) -> str | None:
    """Name the mistakes that a Jacobian may show; `among` has all that are wrong."""
    return "\n  Or ".join(explanations(worst.evidence(among)).values()) or None


def _worst(wrong: Sequence[WrongJacobian]) -> WrongJacobian:
    return max(wrong, key=lambda pair: pair.badness)


def _lost_use(owner: Any, operands: Any, keywords: Any, worst: WrongJacobian) -> str | None:
    """Whether a Function hands back the gradient of some uses of its input only.

    Its forward is recorded: the rules of the table give what each use should hand back.
    """

    def forward(*operands: Any) -> Any:
        context = Context(tuple(is_checked(x) for x in operands))
        return owner.forward(context, *operands, **keywords)

    trace = _recording(forward, operands, worst.place)
    node = None if trace is None else trace.lookup(operands[worst.argument])
    if trace is None or node is None:
        return None
    (seed,) = trace.sweep.seeds.values()
    given = np.tensordot(seed, worst.given, np.ndim(seed))
    return overwritten(trace, given, contributions_to(trace, Edge(node)))


def _at_fault(rule: str, what: str, argument: int | None, line: str) -> str:
    return f"  The rule at fault: {rule}, {what} for its input {argument}, called at\n    {line}"


# -- what a recording shows -----------------------------------------------------------------------


def recorded_fault(func: Function, inputs: Sequence[Any], kind: str = "") -> str | None:
    """Name the first fault in a backward pass from each output; `kind` must be in its name."""
    faults = []
    with enable_grad():
        outputs = outputs_of(func, inputs)
    with enable_grad(), _known(_users_own(outputs)):
        for position, output in enumerate(outputs):
            if isinstance(output, Value):
                with grads_put_back(inputs_first([output])):
                    output.backward()
                    faults += audit(trace_of_values(output)).faults
            elif output.requires_grad:
                trace = _recording(func, inputs, position)
                faults += audit(trace).faults if trace is not None else []
    known = [fault for fault in faults if kind in fault.text]
    # Of a wrong rule there may be nothing to say but its numbers; then another may say more.
    known.sort(key=lambda fault: fault.text.startswith(("backward gives", "what it pushes")))
    for fault in known:
        text, line = fault.text[fault.text.index(kind) :], str(fault.line or "an unrecorded line")
        if fault.argument is None:
            return f"{text}\n  The gradient at fault: that of '{fault.name}', made at\n    {line}"
        at_fault = _at_fault(f"that of op '{fault.op}'", "gradient", fault.argument, line)
        return f"{text}\n{at_fault}"
    by_hand = (_assigning(out) for out in outputs if isinstance(out, Value) and not kind)
    return next(filter(None, by_hand), None)


@contextmanager
def _known(owners: Iterable[Any]) -> Iterator[None]:
    """Let the ops of the user's be computed again from a trace, as those of the table are."""
    own = {op.name: op for op in owners if isinstance(op, Op) and op.name not in TABLE}
    TABLE.update(own)
    try:
        yield
    finally:
        for name in own:
            del TABLE[name]


def _recording(func: Function, inputs: Sequence[Any], output: int) -> Trace | None:
    """Record func once more, and a backward pass from one of its outputs."""
    recorder, before = Recorder(keep="all"), state.here.watcher
    state.here.watcher = recorder
    try:
        with enable_grad():
            out = outputs_of(func, inputs)[output]
        # Weights that differ, so that nothing cancels by chance.
        seed = np.linspace(1, 2, out.numel()).reshape(out.shape).astype(out.dtype)
        root = (out.grad_fn or out, out._index, seed)
        recorder.sweeping([root])
        with no_grad(), np.errstate(all="ignore"):
            walk([root], recorder.delivered, gradients.wrap, on_step=recorder.visited)
        recorder.swept()
    except Exception:  # whatever a func does that recording forbids: no answer then
        return None
    finally:
        state.here.watcher = before
    recorder.take_labels()
    return recorder.trace if recorder.trace.sweeps else None


def _assigning(output: Any) -> str | None:
    """Name the Value whose `_backward`, written by hand, assigns where it must add.

    A visit must leave in an input what was there and what it adds. This catches a visit that
    overwrites its own contribution, to an input that it uses twice.
    """
    order = inputs_first([output])
    uses = [i for v in order for i in v.inputs]
    with grads_put_back(order):
        for v in order:
            amounts = contributions(v, 1.0)
            for i in dict.fromkeys(i for i in v.inputs if uses.count(i) > 1):
                added = sum(amount or 0.0 for j, amount in zip(v.inputs, amounts) if j is i)
                i.grad, v.grad = 1.0 + abs(added), 1.0
                v._backward()
                if np.isfinite(i.grad) and not np.isclose(i.grad, 1.0 + abs(added) + added):
                    return say("overwritten_in_a_visit", op=v._op, line=made_at(v))
    return None


# -- the user's own rules, each called alone -------------------------------------------------------


def _users_own(outputs: Sequence[Any]) -> dict[Any, Any]:
    """The ops and Function classes behind `outputs` that are not ours -> a node of each."""
    roots = [out if isinstance(out, Value) else out.grad_fn for out in outputs]
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
    if isinstance(node, Value):
        yield tuple(Value(i.data) for i in node.inputs), node.attrs
        return
    with _recorded(owner) as calls, enable_grad():
        outputs_of(func, inputs)
    for args, keywords in calls[:CALLS]:
        operands = args[1:] if isinstance(owner, type) else args  # a Function's first is ctx
        yield tuple(in_float64(a) for a in operands), keywords


@contextmanager
def _recorded(owner: Any) -> Iterator[list[Call]]:
    """Note what `owner.forward` is called with; the call itself is unchanged."""
    calls: list[Call] = []
    with _patching:
        own, forward = vars(owner).get("forward"), owner.forward

        def noted(*args: Any, **keywords: Any) -> Any:
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


def _wrong(call: Function, operands: tuple[Any, ...], tolerance: Tolerance) -> list[WrongJacobian]:
    """The Jacobians of a call on its own that are wrong, not just kinked."""
    checked = [x for x in operands if is_checked(x)]
    with enable_grad():
        sizes = [
            x.numel() for x in (*checked, *outputs_of(call, operands)) if isinstance(x, Tensor)
        ]
    if not checked or sum(sizes) > LARGEST:
        return []
    return [pair for pair in wrong_jacobians(call, operands, tolerance) if not pair.only_kinks]
