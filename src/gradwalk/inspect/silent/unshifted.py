"""A model that predicts the next position is given targets that are its inputs, not shifted."""

from __future__ import annotations

import numpy as np

from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.silent.leaks import LeakSearch
from gradwalk.inspect.silent.other_numbers import other_numbers
from gradwalk.inspect.silent.replayed import Replays
from gradwalk.inspect.silent.step_parts import Head, StepParts
from gradwalk.inspect.trace.trace import Edge, Trace


def unshifted_targets(trace: Trace) -> list[Finding]:
    """Token ids as input and target of a causal model: each position has to copy itself."""
    parts = StepParts(trace)
    for head in parts.heads:
        target = parts.values(head.target)
        if target is None or target.dtype.kind not in "iu":
            continue
        for edge in parts.entries(head.prediction):
            given = parts.values(edge)
            if given.dtype.kind not in "iu" or given.ndim != 2 or given.shape[1] < 3:
                continue
            flat = given.size == target.size and given.reshape(target.shape)
            known = target >= 0
            if flat is False or len(np.unique(given)) < 3 or known.mean() < 0.5:
                continue
            if (flat == target)[known].all() and _is_causal(parts, head, edge):
                return [_finding(head)]
    return []


def _is_causal(parts: StepParts, head: Head, edge: Edge) -> bool:
    """Whether later positions reach no earlier prediction, while earlier reach later ones."""
    given = parts.values(edge)
    length = given.shape[1]
    replays = Replays(parts.trace, [edge], [head.prediction])
    reach = []
    for kept in (np.arange(length) < length // 2, np.arange(length) >= length // 2):
        array = np.array(given)
        noise = np.random.Generator(np.random.PCG64(0))
        array[:, ~kept] = other_numbers(array, array[:, ~kept], noise)
        search = LeakSearch(replays.unchanged, replays.run({edge: array}), kept, ordered=False)
        search.first(head.prediction)
        reach.append(search.clean(head.prediction) is None)
    return reach == [False, True]


def _finding(head: Head) -> Finding:
    return Finding(
        "unshifted targets",
        "",
        1.0,
        "the targets are the inputs themselves, and the model sees at each position what it has "
        "to predict there: it learns to copy, not to predict.",
        "predict the next position: logits[:, :-1] against tokens[:, 1:].",
        head.node.line,
        confidence="certain",
        basis="the ids of input and target are equal at every position, and predictions depend on "
        "earlier positions alone.",
    )
