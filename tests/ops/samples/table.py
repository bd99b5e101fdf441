"""The table of sample calls: every op and every public function of `gradwalk.ops`, with inputs.

A call is written once, `lambda m, x: m.sum(x, 1)`, and runs with m = gradwalk and m = torch; if the
two spell it differently, `torch=` has PyTorch's spelling.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op
from tests.batches import batched
from tests.ops.domains import domain_of

IN_FLOAT32 = 4  # samples of each op

Call = Callable[..., Any]
Draw = Callable[[np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Sample:
    """One call: the op it is about, the call in both engines, and how its inputs are drawn."""

    op: str  # its name in the op table
    ours: Call
    theirs: Call
    inputs: tuple[Draw, ...]
    note: str

    @property
    def seed(self) -> int:
        """Derived from the sample alone, so that adding another sample changes nothing here."""
        return zlib.crc32(f"{self.op} {self.note}".encode())

    def arrays(self, dtype: Any = np.float64) -> list[np.ndarray]:
        """Its inputs; floats in the given dtype."""
        source = np.random.default_rng(self.seed)
        drawn = [draw(source) for draw in self.inputs]
        return [a.astype(dtype) if a.dtype.kind == "f" else a for a in drawn]

    def __str__(self) -> str:
        return f"{self.op}-{self.note}" if self.note else self.op


# -- inputs -------------------------------------------------------------------------------------


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> Draw:
    """Differentiable input, uniform over a domain."""
    return lambda source: np.asarray(source.uniform(low, high, shape))


def integers(*shape: int, low: int = 0, high: int = 3) -> Draw:
    """Integers in [low, high)."""
    return lambda source: np.asarray(source.integers(low, high, shape))


def booleans(*shape: int) -> Draw:
    """Coin flips."""
    return lambda source: np.asarray(source.integers(0, 2, shape).astype(bool))


def given(values: Any, dtype: Any = None) -> Draw:
    """Exactly these."""
    return lambda source: np.array(values, dtype)


# -- elementwise ops ----------------------------------------------------------------------------

# PyTorch's name if it differs from ours, and the attributes to try.
_ELSEWHERE: dict[str, str] = {
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "power": "pow", "zero": "zeros_like", "clip_between": "clamp",
    "div_floor": "div", "div_trunc": "div",
    "leaky_relu": "nn.functional.leaky_relu", "softplus": "nn.functional.softplus",
    "ndtr": "special.ndtr",
    "silu": "nn.functional.silu", "mish": "nn.functional.mish", "elu": "_C._nn.elu",
    "logsigmoid": "nn.functional.logsigmoid", "hardtanh": "nn.functional.hardtanh",
    "hardsigmoid": "nn.functional.hardsigmoid", "hardswish": "nn.functional.hardswish",
    "softshrink": "nn.functional.softshrink", "hardshrink": "nn.functional.hardshrink",
    "threshold": "nn.functional.threshold",
}  # fmt: skip
_ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "power": [{"exponent": n} for n in (-2.5, -1, 0, 0.5, 1, 2, 3, 4, 2.0)],
    "leaky_relu": [{}, {"negative_slope": 0.3}],
    "softplus": [{}, {"beta": 2.0, "threshold": 1.0}],
    "clip": [{"min": 0.4}, {"max": 0.6}, {"min": 0.3, "max": 0.7}, {"min": 0.7, "max": 0.3}],
    "round": [{}, {"decimals": 1}],
    "elu": [
        {"alpha": 1.0},
        {"alpha": 0.7, "scale": 1.5},
        {"alpha": 2.0, "scale": 1.0, "input_scale": 0.5},
    ],
    "hardtanh": [{}, {"min_val": -0.3, "max_val": 0.8}],
    "softshrink": [{}, {"lambd": 1.0}],
    "hardshrink": [{}, {"lambd": 1.0}],
    "threshold": [{"threshold": 0.0, "value": 0.0}, {"threshold": 0.5, "value": -2.0}],
    "polygamma": [{"n": 0}, {"n": 1}, {"n": 2}],
    "logit": [{}, {"eps": 0.3}],
    "nan_to_num": [{}, {"nan": 1.5, "posinf": 2.5, "neginf": -3.0}],
}
_SHAPES: dict[int, list[tuple[tuple[int, ...], ...]]] = {
    1: [((3, 4),), ((),), ((1,),), ((0,),), ((2, 0, 3),)],
    2: [
        ((3, 4), (3, 4)), ((), ()), ((3,), ()), ((), (2, 2)), ((2, 1), (1, 3)), ((4,), (2, 3, 1)),
        ((1,), (3,)), ((0,), (1,)), ((2, 0), (2, 1)), ((0, 3), ()),
    ],
    3: [
        ((3, 4), (3, 4), (3, 4)), ((), (), ()), ((3,), (), (2, 1)), ((2, 1), (3,), ()),
        ((), (2, 3), (3,)), ((0,), (1,), ()),
    ],
}  # fmt: skip


def torch_function(op: Op) -> Call:
    """PyTorch's function for an elementwise op."""
    plain = _named(op)
    if op.name in ("lgamma", "digamma", "polygamma"):
        from tests.ops.gamma_functions import GAMMA

        return GAMMA[op.name]
    if not op.differentiable:  # PyTorch claims that some are, and fails in backward
        return lambda *xs, **attrs: plain(*[x.detach() for x in xs], **attrs)
    return plain


def _named(op: Op) -> Call:
    import torch

    found: Any = torch
    for part in _ELSEWHERE.get(op.name, op.name).split("."):
        found = getattr(found, part)
    return found


def attributes_of(op: Op) -> list[dict[str, Any]]:
    """The attributes with which an elementwise op is tested."""
    return _ATTRIBUTES.get(op.name, [{}])


def elementwise_pair(op: Op, attrs: dict[str, Any]) -> tuple[Call, Call]:
    """The op and PyTorch's, both as calls that begin with the module."""
    other = torch_function(op)
    if op.name == "power":  # PyTorch takes the exponent by position only
        return lambda m, x: op(x, **attrs), lambda m, x: other(x, attrs["exponent"])
    if op.name == "hardsigmoid":  # PyTorch's slope is 1/6 rounded to float32, in float64 too
        return lambda m, x: op(x), lambda m, x: m.nn.functional.relu6(x + 3) / 6
    if op.name == "polygamma":  # PyTorch takes the order first
        return lambda m, x: op(x, **attrs), lambda m, x: other(attrs["n"], x)
    if op.name == "clip_between":  # PyTorch's gradient fails where it has to broadcast
        return lambda m, *xs: op(*xs), lambda m, *xs: other(*m.broadcast_tensors(*xs))
    if op.name.startswith("div_"):  # rounding modes of div
        mode = op.name.removeprefix("div_")
        return lambda m, *xs: op(*xs), lambda m, *xs: m.div(*xs, rounding_mode=mode)
    return lambda m, *xs: op(*xs, **attrs), lambda m, *xs: other(*xs, **attrs)


def _elementwise_inputs(op: Op, shapes: tuple[tuple[int, ...], ...]) -> list[tuple[Draw, ...]]:
    """How to draw the inputs of an elementwise op: floats in its domain, mostly."""
    if op.name == "where":
        return [(booleans(*shapes[0]), floats(*shapes[1]), floats(*shapes[2]))]
    if op.name.startswith(("logical_", "bitwise_")):
        whole = tuple(integers(*s) for s in shapes)
        return [tuple(booleans(*s) for s in shapes), whole]
    if op.name == "floor_divide":
        whole = tuple(integers(*s, low=1, high=9) for s in shapes)
        return [whole, tuple(floats(*s) for s in shapes)]
    if not op.differentiable:  # comparisons: integers, so that ties occur
        return [tuple(integers(*s) for s in shapes), tuple(floats(*s) for s in shapes)]
    each = zip(shapes, domain_of(op, 2.0), strict=True)
    return [tuple(floats(*s, low=low, high=high) for s, (low, high) in each)]


def _elementwise_samples() -> list[Sample]:
    found = []
    for op in TABLE.values():
        if not op.elementwise:
            continue
        for number, attrs in enumerate(attributes_of(op)):
            shape_list = _SHAPES[len(op.inputs)]
            for shapes in shape_list if not number else shape_list[:2]:
                for kind, inputs in enumerate(_elementwise_inputs(op, shapes)):
                    words = [str(s).replace(" ", "") for s in shapes]
                    words += [f"{k}={v}" for k, v in attrs.items()] + ["again"] * kind
                    pair = elementwise_pair(op, attrs)
                    found.append(Sample(op.name, *pair, inputs, " ".join(words)))
    return found


ELEMENTWISE = _elementwise_samples()


# -- ops on whole arrays ------------------------------------------------------------------------


class Structural:
    """Collects the samples of one family, numbered per op."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._count: dict[str, int] = {}

    def add(self, op: str, call: Call, *inputs: Draw, torch: Call | None = None) -> None:
        """Add one sample; give `torch` only if PyTorch spells the call differently."""
        number = self._count[op] = self._count.get(op, 0) + 1
        self.samples.append(Sample(op, call, torch or call, inputs, str(number)))


def all_samples() -> list[Sample]:
    """The whole table."""
    from tests.ops.samples.arguments import ARGUMENTS
    from tests.ops.samples.networks_a import NETWORKS_A
    from tests.ops.samples.networks_b import NETWORKS_B
    from tests.ops.samples.networks_c import NETWORKS_C
    from tests.ops.samples.structural import STRUCTURAL

    return [*ELEMENTWISE, *NETWORKS_A, *STRUCTURAL, *NETWORKS_B, *NETWORKS_C, *ARGUMENTS]


def each_sample(
    samples: Iterable[Sample], quick: int | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Parametrize a test over these samples, one batch per op; `make quick` runs `quick`."""
    return batched("sample", samples, lambda sample: sample.op, quick)


def in_both_precisions(
    samples: Iterable[Sample],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Parametrize a test over samples in float64, and over the first of each op in float32 too:
    what comes after those are other shapes and attributes."""
    cases: list[tuple[Sample, Any]] = []
    seen: Counter[str] = Counter()
    for sample in samples:
        cases.append((sample, np.float64))
        if seen[sample.op] < IN_FLOAT32:
            cases.append((sample, np.float32))
        seen[sample.op] += 1
    return batched("sample, dtype", cases, lambda case: case[0].op)


def samples_of_every_op(quick: int = 1) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Parametrize a test over all samples; `make quick` runs the first `quick` of each op."""
    return each_sample(all_samples(), quick)
