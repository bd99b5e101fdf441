"""compare: gradients derived by hand beside the true ones, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.engine.errors import AutogradError
from gradwalk.inspect.mistakes.diagnosis import diagnose
from gradwalk.inspect.mistakes.lost_contributions import contributions_to, overwritten
from gradwalk.inspect.report import Report, short
from gradwalk.inspect.trace.live import gradient_of, is_tensor, numbers_of
from gradwalk.inspect.trace.recorder import as_trace
from gradwalk.inspect.trace.replay import is_array
from gradwalk.inspect.trace.routes import wrapped
from gradwalk.inspect.trace.trace import Trace
from gradwalk.inspect.why.why import place_of
from gradwalk.ops.core.dtypes import is_number

__all__ = ["Compared", "Comparison", "compare"]


@dataclass
class Compared:
    """One gradient derived by hand, judged by the largest number in the right one."""

    name: str
    exact: bool = False  # equal to the last bit
    close: bool = False  # equal up to rounding
    largest_difference: float = np.inf
    at: tuple[int, ...] | None = None  # where it is
    given: float | None = None  # the number there
    right: float | None = None  # and the true one
    shape: tuple[int, ...] = ()
    diagnosis: str | None = None  # what is wrong, if it can be told
    node: int | None = None


@dataclass
class Comparison(Report):
    """Every gradient derived by hand, beside the true one."""

    tensors: list[Compared]
    first_wrong: str | None  # of those that are wrong, the one nearest to the loss
    source: str  # where the true gradients come from

    @property
    def all_close(self) -> bool:
        """Whether every one is right."""
        return all(one.close for one in self.tensors)

    def __str__(self) -> str:
        lines = [f"{'tensor':<24}{'shape':<16}{'verdict':<10}{'largest difference':>20}"]
        for one in self.tensors:
            verdict = "exact" if one.exact else "close" if one.close else "WRONG"
            shape = "×".join(map(str, one.shape)) or "number"
            lines.append(
                f"{one.name:<24.24}{shape:<16.16}{verdict:<10}{short(one.largest_difference):>20}"
            )
            if one.close:
                continue
            if one.at is not None:
                place = f" at {list(one.at)}" if one.at else ""
                lines.append(f"    yours {short(one.given)}, right {short(one.right)}{place}")
            for line in (one.diagnosis or "").splitlines():
                lines += wrapped(line.strip(), "    ", "    ")
        if self.first_wrong is not None and sum(not one.close for one in self.tensors) > 1:
            lines += wrapped(
                f"Start with {self.first_wrong}: it is nearest to the loss, and the gradients "
                "behind it may be wrong only because of it.",
                "",
                "",
            )
        return "\n".join(lines)


def compare(loss: Any, gradients: Any = None, *, rtol: float | None = None) -> Comparison:
    """Compare gradients derived by hand with the true ones.

    `gradients` has for every tensor or Value (or its label) the gradient you derived. `loss` is
    the loss or a trace, and may be left out after a recording. If the graph has been used up by
    backward(), the `.grad` of each tensor is what it is compared with.

    >>> import gradwalk as gw
    >>> x = gw.tensor([1.0, 2.0], requires_grad=True)
    >>> x.label = "x"
    >>> print(compare((x**2).sum(), {x: -2 * x}))
    tensor                  shape           verdict     largest difference
    x                       2               WRONG                        8
        yours −4, right 4 at [1]
        wrong sign: backward gives the negative of the derivative.
    """
    if isinstance(loss, Mapping):
        loss, gradients = gradients, loss
    if not isinstance(gradients, Mapping):
        raise TypeError(
            "compare takes the loss and a dictionary {tensor: the gradient you derived for it}"
        )
    trace: Trace | None = None
    source = "the recorded backward pass"
    try:
        trace = as_trace(loss)
    except AutogradError:
        if any(isinstance(thing, (str, int)) for thing in gradients):
            raise
        source = "the .grad of each tensor"  # the graph has been used up
    tensors = [_compared(thing, given, trace, rtol) for thing, given in gradients.items()]
    wrong = [one for one in tensors if not one.close]
    nearest = max(wrong, key=lambda one: -1 if one.node is None else one.node, default=None)
    return Comparison(tensors, None if nearest is None else nearest.name, source)


def _compared(thing: Any, given: Any, trace: Trace | None, rtol: float | None) -> Compared:
    start = None if trace is None else place_of(trace, thing)
    if trace is not None and start is not None:
        name = trace.name(start.node)
        right = trace.sweep.grad(start.node, start.output)
        shape = trace.nodes[start.node].metas[start.output][0]
        if right is not None and not is_array(right):
            raise ValueError(
                f"the gradient of {name} was not kept. Fix: record with keep='all', or a larger "
                "budget"
            )
    else:
        name = getattr(thing, "label", "") or type(thing).__name__
        right = gradient_of(thing) if is_tensor(thing) else thing.grad
        shape = tuple(getattr(thing, "shape", ()))
    mine, right = _numbers(name, given), np.asarray(np.zeros(shape) if right is None else right)
    if rtol is None:
        rtol = 1e-4 if np.float32 in (mine.dtype, right.dtype) else 1e-9
    one, other = mine.astype(np.float64), right.astype(np.float64)
    scale = float(np.abs(other[np.isfinite(other)]).max(initial=0.0)) or 1.0
    # gradcheck's tolerances, but relative: a gradient of 1e-7 may be wrong as well.
    atol = max(rtol, 1e-5) * scale
    compared = Compared(name, shape=right.shape, node=None if start is None else start.node)
    if one.shape != other.shape:
        compared.diagnosis = diagnose(one, other, atol=atol)
        return compared
    with np.errstate(all="ignore"):
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        apart = np.where(same, 0.0, np.abs(one - other))
    apart = np.where(np.isnan(apart), np.inf, apart)
    compared.exact, compared.largest_difference = bool(same.all()), float(apart.max(initial=0.0))
    compared.close = compared.largest_difference <= rtol * scale
    if one.size:
        at = compared.at = tuple(map(int, np.unravel_index(int(np.argmax(apart)), apart.shape)))
        compared.given, compared.right = float(one[at]), float(other[at])
    if not compared.close:
        if trace is not None and start is not None:
            compared.diagnosis = overwritten(trace, one, contributions_to(trace, start))
        compared.diagnosis = compared.diagnosis or diagnose(one, other, atol=atol)
    return compared


def _numbers(name: str, given: Any) -> Any:
    """A gradient derived by hand: a tensor, a Value, an array, a list or a number."""
    array = numbers_of(given)
    if array is None:
        array = np.asarray(getattr(given, "data", given) if hasattr(given, "_grad") else given)
    if not is_number(array.dtype):
        raise TypeError(
            f"the gradient derived for {name} is {given!r}, not numbers. Fix: give a tensor, an "
            "array, a list or a number."
        )
    return array
