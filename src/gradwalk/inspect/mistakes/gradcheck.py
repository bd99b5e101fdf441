"""gradcheck: backward against central differences; on failure, where, and what is likely wrong.

A wrong rule deep in a function reaches gradcheck mixed with everything around it. So every op and
Function of the user's is called again alone, on the operands it had, and compared there. The ops
of our table (which `gradwalk.bugs` may have made wrong on purpose) and the walk are audited in a
recording.
"""

from __future__ import annotations

import functools
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.backward import walk
from gradwalk.engine.errors import AutogradError, made_at
from gradwalk.engine.function import Context
from gradwalk.engine.modes import beside, no_grad
from gradwalk.graph.fork_locks import CALL, fork_safe
from gradwalk.graph.order import inputs_first
from gradwalk.inspect.mistakes.audit import audit
from gradwalk.inspect.mistakes.bugs import patch
from gradwalk.inspect.mistakes.diagnosis import say
from gradwalk.inspect.mistakes.differences import (
    Function,
    Tolerance,
    WrongJacobian,
    gradient_of,
    grads_put_back,
    in_float64,
    is_checked,
    jacobians,
    listed,
    numbers,
    outputs_of,
    wrong_jacobians,
)
from gradwalk.inspect.mistakes.forward_check import forward_fault, known_options
from gradwalk.inspect.mistakes.lost_contributions import contributions_to, overwritten
from gradwalk.inspect.trace.from_values import trace_of_values
from gradwalk.inspect.trace.recorder import Recorder
from gradwalk.inspect.trace.replay import computing
from gradwalk.inspect.trace.routes import listed as listed_names
from gradwalk.inspect.trace.trace import Edge, Trace
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op
from gradwalk.scalar.push import contributions
from gradwalk.scalar.value import Value
from gradwalk.tensors.tensor import Tensor

LARGEST = 2000  # elements in and out: a larger call would take long to check on its own
CALLS = 3  # of one op: a wrong rule shows in the first few

_patching = fork_safe(threading.RLock(), CALL)  # one at a time; func may itself call gradcheck


class GradcheckError(AutogradError):
    """A gradient that disagrees with central differences; `diagnosis` says what may be wrong."""

    def __init__(self, message: str, diagnosis: str | None = None) -> None:
        super().__init__(message)
        self.diagnosis = diagnosis


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    **unused: Any,
) -> bool:
    """Check the gradients of `func` at `inputs` against central differences; True if they agree.

    `inputs` is a tensor or a tuple; every tensor in it with `requires_grad` is checked, and should
    be float64. `func` returns a tensor or a tuple of them. An output that needs no gradient counts
    as one whose gradient is zero. Values work too, as inputs and as outputs. Inputs are nudged in
    place (and put back), so `func` may also use them without taking them as arguments.

    With `check_forward_ad`, forward mode is checked too. PyTorch's other options are accepted:
    every element is checked whatever `fast_mode` says, and what `check_undefined_grad`,
    `check_grad_dtypes`, `check_batched_grad`, `check_batched_forward_grad` and `masked` ask for
    is the same for every function here.

    >>> import gradwalk as gw
    >>> x = gw.tensor([0.5, -2.0], dtype=gw.float64, requires_grad=True)
    >>> gw.gradcheck(lambda x: gw.tanh(x) * x, x)
    True
    >>> wrong = gw.elementwise("wrong", lambda x: x * x, partials=[lambda x: x])
    >>> gw.gradcheck(wrong, x, raise_exception=False)
    False
    >>> gw.gradcheck(lambda a, b: a * b + a, (gw.Value(2.0), gw.Value(-3.0)))
    True
    """
    known_options("gradcheck", unused)
    given = listed(inputs)
    _require_inputs("gradcheck", given)
    tolerance = Tolerance(eps, atol, rtol)
    check = _Check("gradcheck", func, given, tolerance, nondet_tol, (func, given))
    if check_backward_ad and not check.run(raise_exception):
        return False
    fault = forward_fault(func, given, tolerance) if check_forward_ad else ""
    if fault and raise_exception:
        raise GradcheckError(f"gradcheck: {fault}")
    return not fault


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    **unused: Any,
) -> bool:
    """Check second derivatives: `gradcheck` of the gradient of `func`, as our backward gives it.

    The gradient is taken for random weights of the outputs (the same at every call), or for
    `grad_outputs`; it is checked in the inputs and in those weights. A first derivative that is
    wrong but differentiated rightly passes: run `gradcheck` too. PyTorch's other options are
    accepted, as there.

    >>> import gradwalk as gw
    >>> x = gw.tensor([0.5, -2.0], dtype=gw.float64, requires_grad=True)
    >>> gw.gradgradcheck(lambda x: gw.tanh(x) * x, x)
    True
    """
    known_options("gradgradcheck", unused)
    given = listed(inputs)
    if any(isinstance(x, Value) for x in given):
        raise TypeError(
            "gradgradcheck needs tensors: the gradients of Values are plain numbers, which cannot "
            "be differentiated again. Fix: use gradwalk.tensor(..., dtype=gradwalk.float64)."
        )
    _require_inputs("gradgradcheck", given)
    weights = None if grad_outputs is None else listed(grad_outputs)
    gradient, everything = gradient_of(func, given, weights)
    check = _Check(
        "gradgradcheck", gradient, everything, Tolerance(eps, atol, rtol), nondet_tol, (func, given)
    )
    return check.run(raise_exception)


def _require_inputs(asked: str, inputs: Sequence[Any]) -> None:
    if not any(is_checked(x) for x in inputs):
        raise ValueError(
            f"{asked}: none of the inputs requires a gradient, so there is nothing to check.\n"
            "Fix: make at least one with requires_grad=True (and dtype=gradwalk.float64)."
        )
    for position, x in enumerate(inputs):
        if not isinstance(x, Tensor) or not is_checked(x):
            continue
        array = x._array
        shared = any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))
        if array.size and (shared or not array.flags.writeable):
            raise ValueError(
                f"{asked}: the elements of input {position}, of shape {array.shape}, cannot be "
                "nudged one by one: they share memory (an expanded tensor) or are read-only.\n"
                "Fix: pass a .clone() of it."
            )


@dataclass
class _Check:
    """One check, and the words for its outcome."""

    asked: str
    func: Function
    inputs: tuple[Any, ...]
    tolerance: Tolerance
    nondet_tol: float
    given: tuple[Function, tuple[Any, ...]]  # the user's; of gradgradcheck, `func` is its gradient

    def run(self, raise_exception: bool) -> bool:
        """True, or the error (False without `raise_exception`)."""
        error = self._not_repeatable()
        wrong = [] if error else wrong_jacobians(self.func, self.inputs, self.tolerance)
        if raise_exception and (error or wrong):
            raise error or self._explained(wrong)
        return not (error or wrong)

    def _not_repeatable(self) -> GradcheckError | None:
        first, second = (
            [numbers(out) for out in outputs_of(self.func, self.inputs)] for _ in range(2)
        )
        if not first:
            raise ValueError(f"{self.asked}: func returns no floating-point output to check")
        if all(
            one.shape == other.shape and np.allclose(one, other, 0, self.nondet_tol, equal_nan=True)
            for one, other in zip(first, second, strict=True)
        ):
            return None
        diagnosis = say("not_repeatable")
        return GradcheckError(_wrapped(f"{self.asked}: func is {diagnosis}"), diagnosis)

    def _explained(self, wrong: list[WrongJacobian]) -> GradcheckError:
        wrong, diagnosis = self._in_float64(wrong)
        diagnosis = diagnosis or self._diagnosis(wrong[0])
        lines = self._facts(*wrong)
        if diagnosis:
            lines.append(_wrapped(f"Diagnosis: {diagnosis}"))
        return GradcheckError("\n".join(lines), diagnosis)

    # -- what may be wrong ------------------------------------------------------------------------

    def _in_float64(self, wrong: list[WrongJacobian]) -> tuple[list[WrongJacobian], str | None]:
        """If the inputs are float32: is it still wrong in float64? Then those numbers say more."""
        kinds = {x.dtype for x in self.inputs if isinstance(x, Tensor) and is_checked(x)}
        if kinds <= {np.dtype(np.float64), np.dtype(np.complex128)}:
            return wrong, None
        wider = tuple(map(in_float64, self.inputs))
        try:
            again = wrong_jacobians(self.func, wider, self.tolerance)
        except Exception:  # func insists on float32: all we know is that rounding blurs the check
            return wrong, say("float32", eps=self.tolerance.eps)
        if again:
            self.inputs = wider
            return again, None
        return wrong, say("only_float32", eps=self.tolerance.eps)

    def _diagnosis(self, worst: WrongJacobian) -> str | None:
        if worst.only_kinks:
            return self._kink(worst)
        output = outputs_of(self.func, self.inputs)[worst.place]
        (again,) = jacobians(output, [self.inputs[worst.argument]])
        if not np.array_equal(again, worst.matrix(worst.given), equal_nan=True):
            stale = _recorded_fault(self.func, self.inputs, "a stale value")
            return stale or say("random_backward")
        if isinstance(output, Tensor) and output.dtype != np.float64:
            return say("inside", dtype=output.dtype)
        if worst.only_rounding:
            return say("rounding", eps=self.tolerance.eps)
        func, given = self.given
        inputs = self.inputs[: len(given)]
        try:
            own = self._own_rule_at_fault(func, inputs)
            return own or _recorded_fault(func, inputs) or worst.named()
        except NotImplementedError:  # a recording cannot hold complex numbers
            return worst.named()

    def _own_rule_at_fault(self, func: Function, inputs: Sequence[Any]) -> str | None:
        """Name the first op or Function of the user's whose own derivative is wrong, and how.

        gradgradcheck looks at its second derivatives too, if the first are right.
        """
        for owner, node in _users_own(outputs_of(func, inputs)).items():
            name, is_class = owner.__name__, isinstance(owner, type)  # a Function
            for operands, keywords in _calls(owner, node, func, inputs):
                run = functools.partial(owner.apply if is_class else owner, **keywords)
                what, wrong, reason = "gradient", self._wrong(run, operands), None
                if wrong and is_class:
                    reason = _lost_use(owner, operands, keywords, wrong[0])
                elif not wrong and self.second:
                    what, wrong = "second derivative", self._wrong(*gradient_of(run, operands))
                if wrong:
                    return say(
                        "rule_at_fault",
                        reason=reason or wrong[0].named(wrong) or say("unknown"),
                        rule=f"{name}.backward" if is_class else f"that of op '{name}'",
                        what=what,
                        argument=wrong[0].argument,
                        line=made_at(node),
                    )
        return None

    def _wrong(self, call: Function, operands: tuple[Any, ...]) -> list[WrongJacobian]:
        """The Jacobians of a call on its own that are wrong, not just kinked."""
        checked = [x for x in operands if is_checked(x)]
        size = sum(numbers(x).size for x in (*checked, *outputs_of(call, operands)))
        if not checked or size > LARGEST:
            return []
        wrong = wrong_jacobians(call, operands, self.tolerance)
        return [pair for pair in wrong if not pair.only_kinks]

    def _kink(self, worst: WrongJacobian) -> str:
        ahead, behind = worst.ahead[worst.worst], worst.behind[worst.worst]
        eps = self.tolerance.eps
        # A slope that grows as eps shrinks is a jump; 1e-3 at eps 1e-6 is beyond any slope we met.
        jump = max(abs(ahead), abs(behind)) * eps > np.sqrt(eps)
        what = "jump" if jump else "kink"
        return say("kink", what=what, eps=eps, ahead=ahead, behind=behind)

    # -- what is seen -----------------------------------------------------------------------------

    def _facts(self, worst: WrongJacobian, *others: WrongJacobian) -> list[str]:
        at, count = list(worst.worst), len(worst.output_shape)
        out_name, in_name = self._names(worst)
        analytic, numeric = _told_apart(worst.given[worst.worst], worst.right[worst.worst])
        label, tolerance = self.inputs[worst.argument].label, self.tolerance
        facts = {
            in_name: (f"'{label}', " if label else "") + f"shape {worst.input_shape}",
            out_name: f"shape {worst.output_shape}",
            "worst element": f"d {out_name}{at[:count] or ''} / d {in_name}{at[count:] or ''}",
            "analytic": f"{analytic}  (backward)",
            "numeric": f"{numeric}  (central differences, eps = {tolerance.eps:g})",
            "wrong": f"{worst.wrong.sum()} of {worst.wrong.size} elements, by more than "
            f"{tolerance.atol:g} + {tolerance.rtol:g} × |numeric|",
        }
        if others:
            also = [" in ".join(self._names(pair)) for pair in others]
            facts["also wrong"] = listed_names(also, 2)
        width = max(len(name) for name in facts) + 1
        return [
            f"{self.asked}: the derivative of {out_name} in {in_name} is wrong.",
            *(f"  {name + ':':<{width}} {fact}" for name, fact in facts.items()),
        ]

    @property
    def second(self) -> bool:
        """Whether second derivatives are checked: more inputs, the weights of the outputs."""
        return self.func is not self.given[0]

    def _names(self, pair: WrongJacobian) -> tuple[str, str]:
        """What the output and the input of a Jacobian are called."""
        given = self.given[1]
        if not self.second:
            return f"output {pair.place}", f"input {pair.argument}"
        checked = [i for i, x in enumerate(given) if is_checked(x)]
        beyond = pair.argument - len(given)
        source = f"input {pair.argument}" if beyond < 0 else f"the weight of output {beyond}"
        return f"the gradient of input {checked[pair.place]}", source


def _told_apart(*pair: float) -> list[str]:
    """Two numbers with as many digits as it takes to tell them apart, and in line."""
    for digits in (6, 10, 17):
        texts = [f"{number:.{digits}g}" for number in pair]
        if texts[0] != texts[1]:
            break
    return [text.rjust(max(map(len, texts))) for text in texts]


def _wrapped(text: str) -> str:
    """Long lines broken at 96 columns, except lines of the user's source (indented by four)."""
    wrap = textwrap.TextWrapper(96, subsequent_indent="  ", break_long_words=False)
    lines = text.split("\n")
    return "\n".join(line if line.startswith("    ") else wrap.fill(line) for line in lines)


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


def _calls(
    owner: Any, node: Any, func: Function, inputs: Sequence[Any]
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """How the op was called on the way to `node`: operands in float64 and cut off, keywords."""
    if isinstance(node, Value):
        yield tuple(Value(i.data) for i in node.inputs), node.attrs
        return
    calls, forward = [], owner.forward

    def noted(*args: Any, **keywords: Any) -> Any:
        calls.append((args, keywords))
        return forward(*args, **keywords)

    is_class = isinstance(owner, type)  # a Function, whose forward takes ctx first
    with _patching, ExitStack() as undo:
        patch(undo, owner, "forward", staticmethod(noted) if is_class else noted)
        outputs_of(func, inputs)
    for args, keywords in calls[:CALLS]:
        yield tuple(in_float64(a) for a in args[is_class:]), keywords


def _lost_use(owner: Any, operands: Any, keywords: Any, worst: WrongJacobian) -> str | None:
    """Whether a Function hands back the gradient of some uses of its input only.

    Its forward is recorded: the rules of the table give what each use should hand back.
    """

    def forward(*operands: Any) -> Any:
        context = Context(tuple(is_checked(x) for x in operands))
        return owner._forward(context, operands, keywords)

    trace = _recording(forward, operands, worst.place)
    node = None if trace is None else trace.lookup(operands[worst.argument])
    if trace is None or node is None:
        return None
    (seed,) = trace.sweep.seeds.values()
    given = np.tensordot(seed, worst.given, np.ndim(seed))
    return overwritten(trace, given, contributions_to(trace, Edge(node)))


# -- what a recording shows -----------------------------------------------------------------------


def _recorded_fault(func: Function, inputs: Sequence[Any], kind: str = "") -> str | None:
    """Name the first fault in a backward pass from each output; `kind` must be in its name."""
    faults, outputs = [], outputs_of(func, inputs)
    with _known(_users_own(outputs)):
        for position, output in enumerate(outputs):
            if isinstance(output, Value):
                with grads_put_back(inputs_first([output])):
                    output.backward()
                    faults += audit(trace_of_values(output)).faults
            elif output.requires_grad:
                trace = _recording(func, inputs, position)
                faults += audit(trace).faults if trace is not None else []
    known = [fault for fault in faults if kind in fault.text]
    if not known:
        by_hand = (_assigning(out) for out in outputs if isinstance(out, Value) and not kind)
        return next(filter(None, by_hand), None)
    # Of a wrong rule there may be nothing to say but its numbers; then another may say more.
    fault = min(known, key=lambda fault: fault.text.startswith("backward gives"))
    reason, line = fault.text[fault.text.index(kind) :], fault.line or "an unrecorded line"
    if fault.argument is None:
        return say("gradient_at_fault", reason=reason, node=fault.name, line=line)
    about = {"rule": f"that of op '{fault.op}'", "what": "gradient", "argument": fault.argument}
    return say("rule_at_fault", reason=reason, line=line, **about)


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
    recorder = Recorder(keep="all")
    try:
        with computing(recorder):
            out = outputs_of(func, inputs)[output]
            # Weights that differ, so that nothing cancels by chance.
            seed = np.linspace(1, 2, out.numel()).reshape(out.shape).astype(out.dtype)
            root = (out.grad_fn or out, out._index, beside(seed, out._array))
            recorder.sweeping([root])
            with no_grad(), np.errstate(all="ignore"):
                walk([root], recorder.delivered, gradients.wrap, on_step=recorder.visited)
            recorder.swept()
    except Exception:  # whatever a func does that recording forbids: no answer then
        return None
    recorder.take_labels()
    return recorder.trace if recorder.trace.sweeps else None


def _assigning(output: Any) -> str | None:
    """Name the Value whose `_backward` overwrites its own contribution to an input used twice.

    A visit must leave in an input what was there and what it adds.
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
