"""How far one step of an optimizer moves each weight, relative to the weight's size."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from typing import Any

from gradwalk.engine.modes import quietly
from gradwalk.inspect.health.findings import Factor, Finding, Limits
from gradwalk.inspect.health.gradient_flow import Anatomy, Layer
from gradwalk.inspect.report import short
from gradwalk.inspect.trace.array_statistics import array_of, norm_of
from gradwalk.inspect.trace.live import gradient_of, guest
from gradwalk.tensors.apply import wrap

THOUSANDTH, HUNDREDTH = 1e-3, 1e-2  # one step should move a weight by between these
FIRST = 3  # how much further the first step of an adaptive optimizer may go
EARLY = 10  # steps: after more of them a weight that began at 0 has a size of its own


def step_norms(
    anatomy: Anatomy, optimizer: Any, lr: float | None = None, as_they_are: bool = False
) -> dict[int, float]:
    """The norm of the next update of each parameter, without making it.

    It uses the recorded gradients, or the current `.grad`s (which may be clipped).

    The optimizer's own update runs on copies of the parameters and its state. An optimizer that
    needs more than gradients (LBFGS) gives an empty result.
    """
    gradients = {}
    for index, parameter in anatomy.tensors.items():
        g = None if as_they_are else array_of(anatomy.sweep.grad(index))
        if g is None:
            g = gradient_of(parameter)
        if g is not None:
            gradients[index] = g
    if optimizer is None:
        if lr is None:
            return {}
        return {index: lr * norm_of(g) for index, g in gradients.items()}
    if not hasattr(optimizer, "_flat_state"):
        given = {anatomy.tensors[index]: g for index, g in gradients.items()}
        norms = guest().moves(optimizer, given)
        return {i: norms[p] for i, p in anatomy.tensors.items() if p in norms}
    if optimizer._flat_state:
        return {}
    numbers = {id(parameter): index for index, parameter in anatomy.tensors.items()}
    trial = copy.copy(optimizer)
    trial.state = defaultdict(dict)
    moved_by = {}
    for group in optimizer.param_groups:
        copies = []
        for parameter in group["params"]:
            index = numbers.get(id(parameter), -1)
            if index not in gradients:
                continue
            stand_in = wrap(parameter._array.copy())
            stand_in._grad = wrap(gradients[index].copy())
            if parameter in optimizer.state:
                trial.state[stand_in] = copy.deepcopy(optimizer.state[parameter])
            copies.append((index, parameter._array, stand_in))
        if copies:
            moved = [stand_in for _, _, stand_in in copies]
            quietly(trial.update, moved, {**group, "params": moved})
            for index, before, stand_in in copies:
                moved_by[index] = norm_of(stand_in._array - before)
    return moved_by


def update_sizes(
    anatomy: Anatomy, steps: dict[int, float], optimizer: Any, limits: Limits
) -> tuple[list[Finding], dict[int, float]]:
    """Weights that one step moves too far, or not at all; `steps` has the norm of each move."""
    ratios: dict[int, float] = {}
    owners: dict[int, Layer] = {}
    for layer in anatomy.layers:
        size = norm_of(anatomy.value(layer.weight))
        if layer.weight in steps and layer.weight not in ratios and size > 0:
            ratios[layer.weight] = steps[layer.weight] / size
            owners[layer.weight] = layer
    if not ratios:
        return [], ratios
    limit = limits.large_update * (FIRST if _is_first_adaptive(optimizer) else 1)
    among = [
        i
        for i, ratio in ratios.items()
        if not ratio <= limit and not _began_at_zero(anatomy, i, steps[i] / limit, optimizer)
    ]
    # Weights without a gradient are a finding of their own.
    pulled = {i: ratio for i, ratio in ratios.items() if norm_of(anatomy.sweep.grad(i)) > 0}
    middle = sorted(pulled.values())[len(pulled) // 2] if pulled else math.inf
    if among:
        worst = max(among, key=lambda i: math.inf if math.isnan(ratios[i]) else ratios[i])
        change = "a much smaller learning rate"
        if math.isfinite(ratios[worst]):
            change = f"a learning rate about {short(ratios[worst] / HUNDREDTH)} times smaller"
    elif middle < limits.small_update:
        among = [i for i, ratio in ratios.items() if ratio < limits.small_update]
        worst = min(pulled, key=lambda i: pulled[i])
        if _is_off(optimizer) and _is_scheduled(optimizer):
            return [], ratios  # before a warm-up, or after the last step of a schedule
        if middle:
            change = f"a learning rate about {short(THOUSANDTH / middle)} times larger"
        elif _is_off(optimizer):
            change = "a learning rate above 0"
        else:
            change = "a much larger learning rate"
    else:
        return [], ratios
    gradient, weight = norm_of(anatomy.sweep.grad(worst)), norm_of(anatomy.value(worst))
    factors = [Factor(worst, "gradient / weight", gradient / weight, "", None)]
    if gradient > 0:
        factors.append(Factor(worst, "step / gradient", steps[worst] / gradient, "", None))
    finding = Finding(
        "update",
        owners[worst].name,
        ratios[worst],
        f"one step moves {anatomy.names[worst]} by {short(ratios[worst])} of its norm",
        f"{change}: one step should move a weight by a thousandth to a hundredth",
        getattr(optimizer, "made_at", None),
        None,
        factors,
        [owners[i].name for i in among if i != worst],
    )
    return [finding], ratios


def _is_first_adaptive(optimizer: Any) -> bool:
    """Whether an optimizer that divides by the size of past gradients has none of them yet.

    It then moves every element by the whole learning rate; later steps are smaller.
    """
    if optimizer is None or optimizer.state:
        return False
    return any("eps" in group for group in optimizer.param_groups)


def _began_at_zero(anatomy: Anatomy, weight: int, wanted: float, optimizer: Any) -> bool:
    """Whether a weight may be nothing but its first updates, and these are not too large for it.

    Such a weight (of LoRA, a table of biases) is judged by the size that weights of its shape are
    drawn with: rows of norm 1 / √3.
    """
    if _is_first_adaptive(optimizer):
        return False  # nothing has moved it
    state = {} if optimizer is None else optimizer.state.get(anatomy.tensors.get(weight), {})
    done = float(state.get("step", 1))
    rows = anatomy.trace.nodes[weight].shape[0]
    return done <= EARLY and wanted < math.sqrt(rows / 3)


def _is_scheduled(optimizer: Any) -> bool:
    """Whether a schedule sets the learning rate, and began with another."""
    groups = () if optimizer is None else optimizer.param_groups
    return any(float(group.get("initial_lr") or 0) > 0 for group in groups)


def _is_off(optimizer: Any) -> bool:
    """Whether every learning rate is 0; so it is if steps of plain gradient descent are 0."""
    groups = () if optimizer is None else optimizer.param_groups
    return all(float(group["lr"]) == 0 for group in groups if "lr" in group)
