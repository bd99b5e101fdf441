"""Every kind of bug × Values and tensors × gradcheck, audit and why: each names it, on many graphs.

And none of them names anything on the same graphs without the bug.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import Value
from gradwalk.inspect.mistakes import bugs
from gradwalk.inspect.mistakes.audit import audit
from gradwalk.inspect.mistakes.gradcheck import GradcheckError
from gradwalk.inspect.trace.recorder import record
from gradwalk.inspect.why.why import why
from gradwalk.ops import TABLE
from tests.quick import some_quick

Graph = Callable[..., Any]
functional = gw.nn.functional

NAMES: dict[str, tuple[str, ...]] = {
    "sign": ("wrong sign",),
    "factor": ("a constant factor",),
    "missing": ("missing",),
    "term": ("a term is missing", "a factor is missing", "a factor or a term is missing"),
    "mask": ("too much", "omits a factor, a term or a mask"),
    "swapped": ("swapped",),
    "transpose": ("transposed",),
    "unsummed": ("not summed over a broadcast axis",),
    "stale": ("a stale value",),
    "overwrite": ("overwritten instead of accumulated",),
    "order": ("wrong order",),
}
ONE = ["sqrt", "exp", "log", "reciprocal", "sin", "tanh", "silu"]
TWO = ["mul", "div", "pow", "hypot", "sub"]
FLAT = ["relu", "leaky_relu", "hardtanh", "softshrink", "hardshrink"]


def graphs_of(op: str) -> list[Graph]:
    """The op alone, among others, and several times."""
    f = TABLE[op]
    if len(f.inputs) == 1:
        return [
            lambda x: f(x),
            lambda x: (f(x * 1.3) + 3.0) * f(x * 0.7) + x * 0.2,
            lambda x: f(x * 1.1) - 2.5 * f(x * 0.6) + 0.4 * f(x),
        ]
    return [
        lambda x, y: f(x, y),
        lambda x, y: f(x * 1.2, y * 0.7) * x,
        lambda x, y: f(f(x, y) * 0.5 + 1.1, y * 1.4) + x,
    ]


def trap(x: Any) -> Any:
    """The graph that exposes breadth first."""
    a = x * 2
    return a * (a * 3 + 1)


def two_uses(x: Any) -> Any:
    return x.tanh() + x * 3


# kind -> (op, graph, numbers or shapes) for both Values and tensors
ELEMENTWISE: dict[str, list[tuple[str | None, Graph]]] = {
    **{k: [(op, g) for op in ONE + TWO for g in graphs_of(op)] for k in ("sign", "factor")},
    "missing": [(op, g) for op in ONE + TWO for g in graphs_of(op)],
    "stale": [(op, g) for op in ONE + TWO for g in graphs_of(op)[-1:]],
    "term": [(op, g) for op in ("tanh", "tan", "sigmoid", "expm1") for g in graphs_of(op)],
    "mask": [(op, g) for op in FLAT for g in graphs_of(op)],
    "swapped": [(op, g) for op in TWO for g in graphs_of(op)],
    "overwrite": [("mul", lambda x: x * x), (None, two_uses), ("add", lambda x: (x + x).exp())],
    "order": [(None, trap), (None, lambda x: trap(x).tanh() * x)],
}


def arguments(graph: Graph, kind: str, tensors: bool, seed: int) -> list[Any]:
    count = graph.__code__.co_argcount
    random = np.random.default_rng(seed)
    drawn = random.uniform(0.3, 0.9, (count, 5))
    if kind == "mask":
        drawn[:, ::2] = random.uniform(-4.0, -3.2, (count, 3)) + 6.4 * (random.random() < 0.5)
        drawn[:, 1::2] *= 0.3
    if tensors:
        return [gw.tensor(row, requires_grad=True) for row in drawn]
    return [Value(float(row[0])) for row in drawn]


def traced(graph: Graph, inputs: list[Any], tensors: bool) -> Any:
    if not tensors:
        out = graph(*inputs)
        out.backward()
        return record(out)
    with record() as trace:
        out = graph(*inputs)
        weights = gw.tensor(np.linspace(0.6, 1.4, out.numel()).reshape(out.shape), dtype=out.dtype)
        (out * weights).sum().backward()
    return trace


def said_by_all(
    graph: Graph, make: Callable[[], list[Any]], tensors: bool, *bug: Any
) -> dict[str, str] | None:
    """What each tool says with the bug, and that none says it without; None if it cannot show."""
    healthy = make()
    assert gw.gradcheck(graph, tuple(healthy))
    trace = traced(graph, healthy, tensors)
    assert not audit(trace), str(audit(trace))
    notes = " ".join(note for x in healthy for note in why(x, trace).notes)
    assert not any(name in notes for names in NAMES.values() for name in names)
    sick = make()
    with bugs.inject(*bug):
        trace = traced(graph, sick, tensors)
    if all(
        np.allclose(np.asarray(a.grad), np.asarray(b.grad), 1e-2, 1e-3)
        for a, b in zip(healthy, sick, strict=True)
        if b.grad is not None
    ):
        return None
    found = {
        "audit": " ".join(fault.text for fault in audit(trace).faults),
        "why": " ".join(note for x in sick for note in why(x, trace).notes),
    }
    with pytest.raises(GradcheckError) as raised, bugs.inject(*bug):
        gw.gradcheck(graph, tuple(make()))
    found["gradcheck"] = raised.value.diagnosis or ""
    return found


@pytest.mark.parametrize("tensors", [False, True], ids=["Value", "Tensor"])
@pytest.mark.parametrize("kind", some_quick(ELEMENTWISE, every=4))
def test_on_values_and_tensors(kind: str, tensors: bool) -> None:
    shown = 0
    for seed, (op, graph) in enumerate(ELEMENTWISE[kind]):
        said = said_by_all(
            graph, lambda g=graph, s=seed: arguments(g, kind, tensors, s), tensors, kind, op
        )
        for tool, text in (said or {}).items():
            assert any(name in text for name in NAMES[kind]), (tool, op, seed, text)
        shown += said is not None
    assert shown > len(ELEMENTWISE[kind]) / 3


LABELS = gw.tensor([0, 2, 1])


def broadcast(op: str) -> Graph:
    return lambda x, y: (TABLE[op](x * x + 2, y * y + 2) * 0.1).tanh()


ON_ARRAYS: list[tuple[str, str | None, Graph, list[tuple[int, ...]]]] = [
    *(("term", "softmax", lambda x: gw.softmax(x * 2, 1), [s]) for s in [(2, 4), (3, 2), (3, 3)]),
    ("term", "softmax", lambda x: gw.softmax(x * 2, -1).log().mean(-1), [(2, 2, 3)]),
    ("term", "log_softmax", lambda x: gw.log_softmax(x * 2, 1), [(3, 3)]),
    ("term", "log_softmax",
     lambda x: functional.nll_loss(gw.log_softmax(x * 2, 1), LABELS), [(3, 3)]),
    ("term", "standardize", lambda x: functional.layer_norm(x * 2, (5,)), [(2, 5)]),
    ("term", "standardize", lambda x: functional.layer_norm(x * 2, (3,)), [(4, 3)]),
    ("term", "standardize_affine",
     lambda x, w: functional.layer_norm(x * 2, (6,), w, w * 2), [(2, 6), (6,)]),
    ("sign", "softmax", lambda x: gw.softmax(x * 2, 1), [(2, 4)]),
    ("factor", "softmax", lambda x: gw.softmax(x * 2, 1), [(2, 4)]),
    ("missing", "softmax", lambda x: gw.softmax(x * 2, 1) + x, [(2, 4)]),
    ("sign", "cross_entropy", lambda x: functional.cross_entropy(x * 2, LABELS), [(3, 3)]),
    ("factor", "mean", lambda x: (x * x).mean(1), [(3, 2)]),
    ("sign", "getitem", lambda x: x[1:] * 2, [(3, 2)]),
    ("sign", "concatenate", lambda x, y: gw.cat([x, y]).tanh(), [(2,), (3,)]),
    ("swapped", "matmul", lambda x, y: (x @ y).tanh(), [(3, 3), (3, 3)]),
    ("transpose", "matmul", lambda x, y: (x @ y).tanh(), [(2, 3), (3, 4)]),
    ("transpose", "matmul", lambda x, y: (x @ y).tanh(), [(2, 3, 3), (2, 3, 3)]),
    ("transpose", "exp", lambda x: (x * 2).exp(), [(2, 3)]),
    ("transpose", "conv",
     lambda x, w: functional.conv2d(x, w).tanh(), [(1, 1, 4, 4), (1, 1, 3, 3)]),
    *(("unsummed", op, broadcast(op), shapes) for op in ("add", "sub", "mul", "div", "pow")
      for shapes in ([(3, 4), (4,)], [(3, 4), (3, 1)], [(2, 3, 4), (1, 4)], [(3, 4), ()])),
    ("stale", "matmul", lambda x, w: (x @ w).tanh() @ w, [(3, 3), (3, 3)]),
    ("stale", "softmax", lambda x: gw.softmax(x, 1) + gw.softmax(x * 2, 1) * 3, [(2, 4)]),
    ("overwrite", "matmul", lambda x: x @ x, [(3, 3)]),
    ("overwrite", "getitem", lambda x: x[0] * x[1] + x[0], [(2, 3)]),
    ("overwrite", None, lambda x, w: (x @ w).tanh() @ w, [(2, 3), (3, 3)]),
    ("order", None, lambda x, w: (h := x @ w) + h.tanh() @ w, [(2, 3), (3, 3)]),
    ("mask", "maximum", lambda x, y: gw.maximum(x, y), [(8,), (8,)]),
    ("mask", "where", lambda x, y: gw.where(x > 0, x, y), [(8,), (8,)]),
]  # fmt: skip


@pytest.mark.parametrize("dtype", some_quick([gw.float64, gw.float32], every=2), ids=str)
@pytest.mark.parametrize(
    "case", ON_ARRAYS, ids=[f"{k}-{o}-{i}" for i, (k, o, *_) in enumerate(ON_ARRAYS)]
)
def test_on_arrays(case: tuple[str, str | None, Graph, list[tuple[int, ...]]], dtype: Any) -> None:
    kind, op, graph, shapes = case
    gw.manual_seed(len(shapes))
    inputs = [gw.randn(*shape, dtype=gw.float64) for shape in shapes]

    def make(kept: Any = dtype) -> list[Any]:
        return [x.clone().to(kept).requires_grad_() for x in inputs]

    if dtype is gw.float64:
        said = said_by_all(graph, make, True, kind, op)
        assert said is not None
    else:  # gradcheck is for float64
        assert not audit(traced(graph, make(), True))
        with bugs.inject(kind, op):
            trace = traced(graph, make(), True)
        said = {"audit": str(audit(trace).faults)}
    for tool, text in said.items():
        assert any(name in text for name in NAMES[kind]), (tool, text)


def written_into_a_view(x: Any) -> Any:
    y = x * 1
    view = y[0]
    view.copy_(x[2] * 3)
    return y.tanh() * view


@pytest.mark.parametrize(
    "graph", [lambda x: x * 2 + x.tanh().exp(), lambda x: x.tanh().exp() * x, written_into_a_view]
)
def test_a_leaf_that_is_visited_too_early(graph: Graph) -> None:
    """A leaf has no visit of its own. It lacks the last arrivals, so nothing overwrote them."""
    numbers = [0.5, -0.7, 1.2]
    said = said_by_all(
        graph, lambda: [gw.tensor(numbers, dtype=gw.float64, requires_grad=True)], True, "order"
    )
    assert said is not None
    for tool, text in said.items():
        assert "wrong order" in text and "overwritten" not in text, (tool, text)


def test_every_kind_is_tried() -> None:
    tried = set(ELEMENTWISE) | {kind for kind, *_ in ON_ARRAYS}
    assert tried == set(bugs.KINDS) == set(NAMES)


def test_a_small_gradient_is_audited_too() -> None:
    """A mean over many elements: gradients of 1e-5 and a wrong sign among them."""
    x = gw.rand(300, requires_grad=True)
    with bugs.inject("sign", "tanh"), record() as trace:
        (x.tanh().mean() * 1e-3).backward()
    (fault,) = audit(trace).faults
    assert fault.op == "tanh" and fault.text.startswith("wrong sign")


def test_after_the_block_the_grads_of_values_still_tell() -> None:
    for kind, op, graph in (("order", None, trap), ("overwrite", "mul", lambda x: x * x * x)):
        x = Value(1.5, label="x")
        with bugs.inject(kind, op):
            loss = graph(x)
            loss.backward()
        assert any(NAMES[kind][0] in note for note in why(x, loss).notes)
        assert any(NAMES[kind][0] in fault.text for fault in audit(loss).faults)
        x.grad = 0
        loss = graph(x)
        loss.backward()
        assert not why(x, loss).notes and not audit(loss)


def test_a_lost_gradient_of_exactly_zero_is_seen() -> None:
    x = Value(2.0, label="x")
    with bugs.inject("overwrite", "minimum"):
        loss = TABLE["minimum"](x, Value(1.0)) + x * 3
        loss.backward()
    assert x.grad == 0
    assert any("overwritten instead of accumulated" in note for note in why(x, loss).notes)


def test_stale_values_and_their_recording_agree() -> None:
    x = Value(0.3)
    with bugs.inject("stale", "tanh"):
        loss = x.tanh() + 3 * (x * 2).tanh()
        loss.backward()
        trace = record(loss)
    right = 1 - np.tanh(0.3) ** 2 + 6 * (1 - np.tanh(0.6) ** 2)
    assert x.grad == pytest.approx(trace.grad(x)) and x.grad != pytest.approx(right)
    x.grad = 0
    (x.tanh() + 3 * (x * 2).tanh()).backward()
    assert x.grad == pytest.approx(right)
