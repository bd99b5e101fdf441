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
        state = self.state.setdefault(parameters[0], {"func_evals": 0, "n_iter": 0})
        first: Any = None

        def evaluate() -> tuple[float, Array]:
            nonlocal first
            with enable_grad():
                loss = closure()
            first = loss if first is None else first
            state["func_evals"] += 1
            flat = [
                np.zeros(p._array.size, p.dtype) if p._grad is None else p._grad._array.ravel()
                for p in parameters
            ]
            return float(loss), np.concatenate(flat)

        def place(start: list[Array], t: float, d: Array) -> None:
            offset = 0
            for p, array in zip(parameters, start):
                piece = d[offset : offset + array.size].reshape(array.shape)
                quietly(np.add, array, piece * t, out=p._array)
                touch(p._array, *here)
                offset += array.size

        before = state["func_evals"]
        loss, gradient = evaluate()
        if np.abs(gradient).max() <= group["tolerance_grad"]:
            return first
        memory = _Memory(state, group["history_size"])
        lowest_change = group["tolerance_change"]
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = memory.direction(gradient)
            memory.gradient, previous_loss = gradient.copy(), loss
            t = group["lr"]
            if state["n_iter"] == 1:
                t *= min(1.0, float(1.0 / np.abs(gradient).sum()))
            memory.d, memory.t = d, t
            slope = float(gradient @ d)
            if slope > -lowest_change:
                break
            start = [p._array.copy() for p in parameters]
            if group["line_search_fn"] is not None:

                def along(t: float, start: list[Array] = start, d: Array = d) -> Any:
                    place(start, t, d)
                    return evaluate()

                evaluated = state["func_evals"] - before
                loss, gradient, t = strong_wolfe(
                    along, t, d, loss, gradient, slope, longest=group["max_eval"] - evaluated
                )
                memory.t = t
                place(start, t, d)
            else:
                place(start, t, d)
                if iteration != group["max_iter"]:
                    loss, gradient = evaluate()
            if (
                state["func_evals"] - before >= group["max_eval"]
                or np.abs(gradient).max() <= group["tolerance_grad"]
                or np.abs(d * t).max() <= lowest_change
                or abs(loss - previous_loss) < lowest_change
            ):
                break
        memory.keep(state, loss=previous_loss)
        return first


class _Memory:
    """The last moves and gradient changes, from which the curvature is estimated."""

    def __init__(self, state: dict[str, Any], size: int) -> None:
        self.size = size
        self.changes = [x._array for x in state.get("old_dirs", ())]
        self.moves = [x._array for x in state.get("old_stps", ())]
        self.weights = [float(x) for x in state.get("ro", ())]
        self.scale = float(state.get("H_diag", 1.0))
        self.d: Any = state["d"]._array if "d" in state else None
        self.t: Any = state.get("t")
        self.gradient: Any = state["prev_flat_grad"]._array if self.d is not None else None

    def direction(self, gradient: Array) -> Array:
        """The descent direction, corrected by the estimated curvature."""
        if self.gradient is None:
            return -gradient
        change, move = gradient - self.gradient, self.d * self.t
        bend = float(change @ move)
        if bend > 1e-10:
            if len(self.changes) == self.size:
                del self.changes[0], self.moves[0], self.weights[0]
            self.changes.append(change)
            self.moves.append(move)
            self.weights.append(1.0 / bend)
            self.scale = bend / float(change @ change)
        d = -gradient
        known = range(len(self.changes))
        shares = [0.0] * len(self.changes)
        for i in reversed(known):
            shares[i] = float(self.moves[i] @ d) * self.weights[i]
            d -= shares[i] * self.changes[i]
        d *= self.scale
        for i in known:
            d += (shares[i] - float(self.changes[i] @ d) * self.weights[i]) * self.moves[i]
        return d

    def keep(self, state: dict[str, Any], loss: float) -> None:
        """Write the memory into the optimizer's state under PyTorch's names."""
        state |= {
            "d": wrap(self.d), "t": self.t, "old_dirs": [wrap(x) for x in self.changes],
            "old_stps": [wrap(x) for x in self.moves], "ro": list(self.weights),
            "H_diag": self.scale, "prev_flat_grad": wrap(self.gradient), "prev_loss": loss,
        }  # fmt: skip
