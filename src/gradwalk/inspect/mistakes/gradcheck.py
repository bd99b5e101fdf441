"""gradcheck: backward against central differences; on failure, where, and what is likely wrong."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.engine.errors import AutogradError
from gradwalk.inspect.mistakes.diagnosis import say
from gradwalk.inspect.mistakes.differences import (
    Function,
    Tolerance,
    WrongJacobian,
    gradient_of,
    in_float64,
    is_checked,
    jacobians,
    listed,
    numbers,
    outputs_of,
    wrong_jacobians,
)
from gradwalk.inspect.mistakes.rule_at_fault import own_rule_at_fault, recorded_fault
from gradwalk.inspect.trace.routes import listed as listed_names
from gradwalk.scalar.value import Value
from gradwalk.tensors.tensor import Tensor


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
) -> bool:
    """Check the gradients of `func` at `inputs` against central differences; True if they agree.

    `inputs` is a tensor or a tuple; every tensor in it with `requires_grad` is checked, and should
    be float64. `func` returns a tensor or a tuple of them. An output that needs no gradient counts
    as one whose gradient is zero. Values work too, as inputs and as outputs. Inputs are nudged in
    place (and put back), so `func` may also use them without taking them as arguments.

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
    given = listed(inputs)
    _require_inputs("gradcheck", given)
    check = _Check("gradcheck", func, given, Tolerance(eps, atol, rtol), nondet_tol, (func, given))
    return check.run(raise_exception)


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
) -> bool:
    """Check second derivatives: `gradcheck` of the gradient of `func`, as our backward gives it.

    The gradient is taken for random weights of the outputs (the same at every call), or for
    `grad_outputs`; it is checked in the inputs and in those weights. A first derivative that is
    wrong but differentiated rightly passes: run `gradcheck` too.

    >>> import gradwalk as gw
    >>> x = gw.tensor([0.5, -2.0], dtype=gw.float64, requires_grad=True)
    >>> gw.gradgradcheck(lambda x: gw.tanh(x) * x, x)
    True
    """
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
        if kinds <= {np.dtype(np.float64)}:
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
            stale = recorded_fault(self.func, self.inputs, "a stale value")
            return stale or say("random_backward")
        if isinstance(output, Tensor) and output.dtype != np.float64:
            return say("inside", dtype=output.dtype)
        if worst.only_rounding:
            return say("rounding", eps=self.tolerance.eps)
        func, given = self.given
        inputs = self.inputs[: len(given)]
        fault = own_rule_at_fault(func, inputs, self.tolerance, self.second)
        return fault or recorded_fault(func, inputs) or worst.named()

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
