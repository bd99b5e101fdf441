"""The built-in graphs of the page: expressions, which stay live, and small recorded traces.

Links refer to presets by id, so an id is never changed or reused. The language files have titles
and descriptions: `preset.<id>.title` and `preset.<id>.about`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gradwalk as gw
from gradwalk.inspect.expression.parser import parse
from gradwalk.inspect.trace.file import describe
from gradwalk.inspect.trace.recorder import record, scope
from gradwalk.inspect.trace.trace import Trace
from gradwalk.io.nested_state import converted

GROUPS = ("first", "network", "tensor", "sick", "order")  # `preset.group.<name>`, as in a menu

# omitted from the page
COSTS = ("bytes_kept", "memory", "region_saved", "regions", "saved", "seconds")


@dataclass(frozen=True)
class Preset:
    """One graph: a source with the values of its leaves, or a function that records one."""

    id: str
    group: str
    source: str = ""
    values: dict[str, float] = field(default_factory=dict)
    recording: Callable[[], Trace] | None = None

    def trace(self) -> Trace:
        """Its recording, forward and backward."""
        if self.recording is None:
            return parse(self.source).build(self.values).trace()
        trace = self.recording()
        for node in trace.nodes:
            node.line = None  # a line of this file, not of a user's program
        for sweep in trace.sweeps:
            sweep.line = None
        return trace

    def as_data(self) -> dict[str, Any]:
        """The data for the page."""
        about = {"id": self.id, "group": self.group}
        if self.recording is None:
            return about | {"kind": "expression", "source": self.source, "values": self.values}
        described, arrays = describe(self.trace())
        assert not arrays, f"{self.id} is too large: a preset stands in the page itself"
        kept = {key: value for key, value in described.items() if key not in COSTS}
        kept = converted(kept, _rounded)
        return about | {"kind": "trace", "trace": kept}


def as_data() -> list[dict[str, Any]]:
    """All presets, ready for JSON."""
    return [preset.as_data() for preset in PRESETS]


def _rounded(value: Any) -> Any:
    """Keep twelve digits: the others differ between machines, and tests compare the page."""
    return float(f"{value:.12g}") if isinstance(value, float) else value


# -- graphs of tensors -----------------------------------------------------------------------------


def _leaf(numbers: list[list[float]], label: str) -> Any:
    leaf = gw.tensor(numbers, dtype=gw.float64, requires_grad=True)
    leaf.label = label
    return leaf


def _named(value: Any, label: str) -> Any:
    value.label = label
    return value


def _dense_layer() -> Trace:
    with record() as trace:
        a = _leaf([[1.0, -1.0], [2.0, 0.5], [-1.0, 3.0]], "a")  # (features, batch)
        W = _leaf([[0.5, -0.25, 1.0], [-1.0, 0.75, 0.5]], "W")
        b = _leaf([[0.25], [-0.5]], "b")
        z = _named(_named(W @ a, "Wa") + b, "z")
        out = _named(gw.sigmoid(z), "a′")
        _named(out.square().sum(), "L").backward()
    return trace


def _matrix_product() -> Trace:
    with record() as trace:
        X = _leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "X")
        W = _leaf([[1.0, -1.0], [2.0, 0.5], [0.0, 3.0]], "W")
        Y = _named(X @ W, "Y")
        _named(Y.square().sum(), "L").backward()
    return trace


def _tied_weight() -> Trace:
    with record() as trace:
        x = _leaf([[1.0, -2.0]], "x")
        W = _leaf([[0.5, -1.0], [0.25, 0.75]], "W")
        with scope("first"):
            h = _named(gw.tanh(x @ W), "h")
        with scope("second"):
            y = _named(h @ W, "y")
        _named(y.square().sum(), "L").backward()
    return trace


# -- the list --------------------------------------------------------------------------------------

_NEURON = "x1w1 = x1·w1; x2w2 = x2·w2; sum = x1w1 + x2w2; n = sum + b; "
_NEURON_VALUES = {"x1": 2.0, "w1": -3.0, "x2": 0.0, "w2": 1.0, "b": 6.8813735870195432}

PRESETS = (
    Preset("neuron", "first", _NEURON + "o = tanh(n)", _NEURON_VALUES),
    Preset("sum-times", "first", "e = a + b; f = e·c", {"a": 2.0, "b": -3.0, "c": 10.0}),
    Preset(
        "product-chain",
        "first",
        "e = a·b; d = e + c; L = d·f",
        {"a": 2.0, "b": -3.0, "c": 5.0, "f": -2.0},
    ),
    Preset("square", "first", "f = a·a", {"a": 3.0}),
    Preset("double", "first", "b = a + a", {"a": 3.0}),
    Preset("diamond", "first", "b = a + 1; c = 3·a; d = b·c", {"a": 2.0}),
    Preset("cubic", "first", "y = x^3 + 5·x", {"x": 2.0}),
    Preset("maximum", "first", "m = max(a, b)", {"a": 2.0, "b": -3.0}),
    Preset("maximum-tie", "first", "m = max(a, b)", {"a": 2.0, "b": 2.0}),
    Preset(
        "tanh-opened",
        "network",
        _NEURON + "u = exp(2·n); o = (u − 1)/(u + 1)",
        _NEURON_VALUES,
    ),
    Preset(
        "network-2-2-1",
        "network",
        "h1 = tanh(w11·x1 + w12·x2 + b1)\n"
        "h2 = tanh(w21·x1 + w22·x2 + b2)\n"
        "y = u1·h1 + u2·h2 + c\n"
        "L = (y − t)^2",
        {
            "x1": 1.0, "x2": -0.5, "w11": 0.5, "w12": -1.0, "b1": 0.0,
            "w21": -0.75, "w22": 0.25, "b2": 0.5, "u1": 1.5, "u2": -1.0, "c": 0.25, "t": 1.0,
        },
    ),
    Preset(
        "softmax",
        "network",
        "e1 = exp(z1); e2 = exp(z2); e3 = exp(z3)\n"
        "total = e1 + e2 + e3\n"
        "p1 = e1/total\n"
        "L = −log(p1)",
        {"z1": 2.0, "z2": 1.0, "z3": -1.0},
    ),
    Preset("dense-layer", "tensor", recording=_dense_layer),
    Preset("matrix-product", "tensor", recording=_matrix_product),
    Preset("tied-weight", "tensor", recording=_tied_weight),
    Preset(
        "six-sigmoids",
        "sick",
        "; ".join(f"s{i} = sigmoid({f's{i - 1}' if i > 1 else 'x'})" for i in range(1, 7)),
        {"x": 0.5},
    ),
    Preset(
        "dead-relu",
        "sick",
        "n = w·x + b; h = relu(n); L = (h − t)^2",
        {"w": 1.0, "x": 2.0, "b": -5.0, "t": 1.0},
    ),
    Preset(
        "exploding",
        "sick",
        "; ".join(f"h{i} = w·h{i - 1} + x" for i in range(1, 9)),
        {"w": 3.0, "h0": 1.0, "x": 0.5},
    ),
    Preset(
        "clipped-loss",
        "sick",
        "r = w·x − t; s = r^2; L = min(s, 1)",
        {"w": 3.0, "x": 2.0, "t": 1.0},
    ),
    Preset(
        "masked-log",
        "sick",
        "l1 = m1·log(p1); l2 = m2·log(p2); L = −(l1 + l2)",
        {"m1": 1.0, "p1": 0.5, "m2": 0.0, "p2": 0.0},
    ),
    Preset("order-diamond", "order", "a = x·1; b = a + 1; c = 3·a; d = b·c", {"x": 2.0}),
    Preset("order-breadth", "order", "a = 2·x; b = 3·a; c = b + 1; d = a·c", {"x": 1.0}),
)  # fmt: skip
