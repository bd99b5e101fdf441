"""One opaque operation of B, such as compiled code, beside the operations of A it stands for.

Nothing inside it can be seen. What can be measured: how far A and B each are from float64 on the
same inputs, and whether rounding every result in between gives their numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.inspect.diff.alignment import Alignment, Pair
from gradwalk.inspect.diff.numbers import between, computed, precision_name, round_to
from gradwalk.inspect.trace.replay import NotReplayable
from gradwalk.inspect.trace.trace import Edge


def notes_of(alignment: Alignment, pair: Pair) -> list[str]:
    """What can be said of an opaque operation of B that is not out of line."""
    right = _replayed(alignment, pair)
    one, other = alignment.a.value(pair.a), alignment.b.value(pair.b)
    if right is None or other is None or len(pair.region_a) < 2:
        return []
    node = alignment.b.node(pair.b)
    apart_a, apart_b, both = between(one, right), between(other, right), between(other, one)
    text = f"{node.op} of B stands for {len(pair.region_a)} operations of A."
    if not both:
        return [f"{text} The results are equal to the last bit."]
    text += (
        f" Their results are {both:.1e} apart; from float64 on the same inputs, A's is "
        f"{apart_a:.1e} away and B's {apart_b:.1e}: rounding, not another computation."
    )
    return [text, *_ways(alignment, pair)]


def _ways(alignment: Alignment, pair: Pair) -> list[str]:
    """Whether A and B round every result in between, if these are of low precision."""
    eps = alignment.a.precision(pair.a)
    if eps < 1e-4:
        return []
    right = _replayed(alignment, pair, lambda x: round_to(x, eps))
    if right is None:
        return []
    one, other = alignment.a.value(pair.a), alignment.b.value(pair.b)
    apart_a, apart_b = between(one, right), between(other, right)
    name = precision_name(eps)
    text = (
        f"Rounded to {name} after each of these operations, float64 gives A up to {apart_a:.1e} "
        f"and B up to {apart_b:.1e}"
    )
    if apart_a > apart_b / 4:
        return [f"{text}."]
    return [
        f"{text}: A rounds every result in between, and B keeps more digits inside its kernels. To "
        "round as A does, try torch._inductor.config.emulate_precision_casts = True; to round less "
        "in A, compute in float32."
    ]


def _replayed(alignment: Alignment, pair: Pair, rounds: Callable[[Any], Any] | None = None) -> Any:
    """A's operations of the region in float64, each result as `rounds` makes it."""
    results: dict[int, list[Any]] = {}
    for index in pair.region_a:
        node = alignment.a.trace.nodes[index]
        args = [
            results[x.node][x.output] if isinstance(x, Edge) and x.node in results
            else alignment.a.value(x) if isinstance(x, Edge) else x
            for x in node.args
        ]  # fmt: skip
        try:
            outputs = computed(node, args)
        except NotReplayable:
            return None
        if rounds is not None:
            outputs = [rounds(x) if np.asarray(x).dtype.kind == "f" else x for x in outputs]
        results[index] = outputs
    found = results.get(pair.a.node)
    return None if found is None else found[pair.a.output]
