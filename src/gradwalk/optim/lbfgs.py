"""L-BFGS: Newton's method with the curvature estimated from the last steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import InitVar as Option
from typing import Any

import numpy as np

from gradwalk.engine.modes import enable_grad, quietly
from gradwalk.graph.source import caller
from gradwalk.graph.versions import touch
from gradwalk.nn.constructors import declared
from gradwalk.ops.elementwise.complex_numbers import as_pairs
from gradwalk.optim.line_search import strong_wolfe
from gradwalk.optim.optimizer import Array, Optimizer
from gradwalk.tensors.apply import wrap


@declared
class LBFGS(Optimizer):
    """L-BFGS, for small smooth problems; `step` needs a closure, which it calls many times.

    >>> import gradwalk as gw
    >>> w = gw.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = gw.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 1) ** 4).sum() + (w * w).sum()
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure)
    >>> w
    tensor([0.4102, 0.4102], requires_grad=True)
    """

    _flat_state = True

    params: Option[Iterable[Any]]
    lr: Option[float] = 1
    max_iter: Option[int] = 20
    max_eval: Option[int | None] = None
    tolerance_grad: Option[float] = 1e-7
    tolerance_change: Option[float] = 1e-9
    history_size: Option[int] = 100
    line_search_fn: Option[str | None] = None

    def _construct(self, **options: Any) -> None:
        if options["line_search_fn"] not in (None, "strong_wolfe"):
            raise ValueError(
                f"line_search_fn is None or 'strong_wolfe', not {options['line_search_fn']!r}"
            )
        if options["max_eval"] is None:
            options["max_eval"] = options["max_iter"] * 5 // 4
        super()._construct(**options)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS takes one group of parameters")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make up to `max_iter` moves; return the loss before the first."""
        if closure is None:
            raise TypeError("LBFGS.step needs a closure that computes the loss again")
        here = caller()
        group = self.param_groups[0]
        parameters = group["params"]
        self._follow(parameters)
        state = self.state.setdefault(parameters[0], {"func_evals": 0, "n_iter": 0})
        first: Any = None

        def evaluate() -> tuple[float, Array]:
            nonlocal first
            with enable_grad():
                loss = closure()
            first = loss if first is None else first
            state["func_evals"] += 1
            flat = [
                np.zeros(_numbers(p).size, _numbers(p).dtype)
                if p._grad is None
                else _numbers(p._grad).ravel()
                for p in parameters
            ]
            return float(loss), np.concatenate(flat)

        def place(start: list[Array], t: float, d: Array) -> None:
            offset = 0
            for p, array in zip(parameters, start):
                piece = d[offset : offset + array.size].reshape(array.shape)
                quietly(np.add, array, piece * t, out=_numbers(p))
                touch(p._array, *here)
                offset += array.size

        before = state["func_evals"]
        loss, gradient = evaluate()
        if np.abs(gradient).max() <= group["tolerance_grad"]:
            return first
        lowest_change = group["tolerance_change"]
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = _direction(state, gradient, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = wrap(gradient.copy()), loss
            t = group["lr"]
            if state["n_iter"] == 1:
                t *= min(1.0, float(1.0 / np.abs(gradient).sum()))
            state["d"], state["t"] = wrap(d), t
            slope = float(gradient @ d)
            if slope > -lowest_change:
                break
            start = [_numbers(p).copy() for p in parameters]
            if group["line_search_fn"] is not None:

                def along(t: float, start: list[Array] = start, d: Array = d) -> Any:
                    place(start, t, d)
                    return evaluate()

                evaluated = state["func_evals"] - before
                loss, gradient, t = strong_wolfe(
                    along, t, d, loss, gradient, slope, longest=group["max_eval"] - evaluated
                )
                state["t"] = t
                place(start, t, d)
            else:
                place(start, t, d)
                if iteration != group["max_iter"]:
                    loss, gradient = evaluate()
            if (
                state["func_evals"] - before >= group["max_eval"]
                or np.abs(gradient).max() <= group["tolerance_grad"]
                or np.abs(d * t).max() <= lowest_change
                or abs(loss - state["prev_loss"]) < lowest_change
            ):
                break
        return first


def _numbers(tensor: Any) -> Array:
    """The real numbers that a tensor consists of, in its own memory."""
    return as_pairs(tensor._array)


def _direction(state: dict[str, Any], gradient: Array, size: int) -> Array:
    """The descent direction, corrected by the curvature that the last `size` moves show."""
    if "d" not in state:
        state |= {"old_dirs": [], "old_stps": [], "ro": [], "H_diag": 1.0}
        return -gradient
    change, move = gradient - state["prev_flat_grad"]._array, state["d"]._array * state["t"]
    bend = float(change @ move)
    if bend > 1e-10:
        new = {"old_dirs": wrap(change), "old_stps": wrap(move), "ro": 1.0 / bend}
        state |= {name: [*state[name], value][-size:] for name, value in new.items()}
        state["H_diag"] = bend / float(change @ change)
    known = [
        (change._array, move._array, float(weight))
        for change, move, weight in zip(state["old_dirs"], state["old_stps"], state["ro"])
    ]
    d = -gradient
    shares = []
    for change, move, weight in reversed(known):
        shares.append(float(move @ d) * weight)
        d -= shares[-1] * change
    d *= float(state["H_diag"])
    for (change, move, weight), share in zip(known, reversed(shares)):
        d += (share - float(change @ d) * weight) * move
    return d
