"""Composites inside vmap run whole, and their gradients are those of a loop over the samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.batching.level import Level
from gradwalk.ops.core.op import Op

f = gw.nn.functional
SAMPLES, TIME, WIDTH = 3, 4, 6
ROWS, FEATURES = (TIME, WIDTH), (WIDTH,)

CASES: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "layer_norm": (lambda x, w, b: f.layer_norm(x, FEATURES, w, b), (ROWS, FEATURES, FEATURES)),
    "rms_norm": (lambda x, w: f.rms_norm(x, FEATURES, w), (ROWS, FEATURES)),
    "group_norm": (lambda x, w, b: f.group_norm(x, 2, w, b), ((2, WIDTH, 4), FEATURES, FEATURES)),
    "without_weight": (lambda x: f.layer_norm(x, FEATURES), (ROWS,)),
    "gelu": (f.gelu, (ROWS,)),
    "gelu_tanh": (lambda x: f.gelu(x, approximate="tanh"), (ROWS,)),
    "cross_entropy": (
        lambda x: f.cross_entropy(x, gw.tensor([0, 5, -100, 2]), reduction="sum"),
        (ROWS,),
    ),
    "attention": (
        lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
        ((1, 2, TIME, WIDTH),) * 3,
    ),
}  # fmt: skip


@pytest.fixture(params=["always", "never"])
def _kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    before = gw.get_eager_kernels()
    gw.set_eager_kernels(request.param)
    yield
    gw.set_eager_kernels(before)


@pytest.mark.usefixtures("_kernels")
@pytest.mark.parametrize("shared", ["none", "first", "others"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_a_loop(name: str, shared: str) -> None:
    function, shapes = CASES[name]
    rng = np.random.default_rng(0)
    dims = [None if (shared == "first") == (i == 0) and shared != "none" else 0
            for i in range(len(shapes))]  # fmt: skip
    if all(dim is None for dim in dims):
        dims[0] = 0
    arrays = [
        rng.normal(size=shape if dim is None else (SAMPLES, *shape))
        for shape, dim in zip(shapes, dims, strict=True)
    ]
    scale = gw.tensor(rng.normal(size=(SAMPLES, *shapes[0])))

    def loss(scale: Any, *operands: Any) -> Any:
        return (function(*operands) * scale).sum()

    places = tuple(range(1, len(shapes) + 1))
    gradients = gw.grad(loss, argnums=places)
    tensors = [gw.tensor(array) for array in arrays]
    found = gw.vmap(gradients, in_dims=(0, *dims))(scale, *tensors)
    for i in range(SAMPLES):
        own = [t if dim is None else t[i] for t, dim in zip(tensors, dims, strict=True)]
        for ours, expected in zip(found, gradients(scale[i], *own), strict=True):
            np.testing.assert_allclose(ours[i].numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("layer_norm", ["standardize_affine_forward", "standardize_affine_backward"]),
        ("attention", ["attention_forward", "attention_backward"]),
        ("gelu", ["gelu_forward", "mul"]),
        ("cross_entropy", ["cross_entropy_forward", "cross_entropy_backward"]),
    ],
)
def test_forward_and_gradient_are_one_op_each(
    name: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    function, shapes = CASES[name]
    called = []
    call = Level.call

    def noted(level: Level, op: Any, args: Any, attrs: Any) -> Any:
        called.append(op.name)
        return call(level, op, args, attrs)

    monkeypatch.setattr(Level, "call", noted)
    xs = [gw.ones(SAMPLES, *shape) for shape in shapes]
    gw.vmap(gw.grad(lambda *operands: function(*operands).sum()))(*xs)
    assert [n for n in called if n not in ("reshape", "sum", "expand", "permute")] == expected


# -- recurrent networks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options"),
    [("LSTM", {"bidirectional": True}), ("GRU", {"num_layers": 2}), ("RNN", {}),
     ("RNN", {"nonlinearity": "relu"})],
)  # fmt: skip
def test_gradients_of_recurrent_weights_by_sample(kind: str, options: dict[str, Any]) -> None:
    gw.manual_seed(0)
    model = getattr(gw.nn, kind)(3, 4, **options).double()
    weights = {name: p.detach() for name, p in model.named_parameters()}
    x = gw.randn(2, 3, 5, 2, 3, dtype=gw.float64)  # (sample, sample, time, batch, features)

    def loss(weights: Any, x: Any) -> Any:
        out, last = gw.func.functional_call(model, weights, (x,))
        states = last if isinstance(last, tuple) else (last,)
        return (out**2).sum() + sum((state**3).sum() for state in states)

    each = gw.grad(loss)
    found = gw.vmap(gw.vmap(each, in_dims=(None, 0)), in_dims=(None, 0))(weights, x)
    stacked = {name: gw.stack([p, p * 0.5]) for name, p in weights.items()}
    ensemble = gw.vmap(each, in_dims=(0, None))(stacked, x[0, 0])
    for i, j in ((0, 0), (0, 2), (1, 1)):
        for name, expected in each(weights, x[i, j]).items():
            np.testing.assert_allclose(found[name][i, j].numpy(), expected.numpy(), atol=1e-10)
    for name, expected in each({n: p * 0.5 for n, p in weights.items()}, x[0, 0]).items():
        np.testing.assert_allclose(ensemble[name][1].numpy(), expected.numpy(), atol=1e-10)


def test_a_recurrent_network_is_one_op_for_all_samples_and_times(monkeypatch: Any) -> None:
    model = gw.nn.LSTM(3, 4)
    weights = {name: p.detach() for name, p in model.named_parameters()}
    called: list[str] = []
    plain = Op.__call__

    def noted(op: Op, *args: Any, **attrs: Any) -> Any:
        called.append(op.name)
        return plain(op, *args, **attrs)

    monkeypatch.setattr(Op, "__call__", noted)
    each = gw.grad(lambda w, x: gw.func.functional_call(model, w, (x,))[0].sum())
    counts = []
    for times in (2, 20):
        called.clear()
        gw.vmap(each, in_dims=(None, 0))(weights, gw.randn(3, times, 2, 3))
        counts.append(sum(name != "matmul" for name in called))  # one product at each time
    assert counts[0] == counts[1]
