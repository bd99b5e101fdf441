"""Composites inside vmap run whole, and their gradients are those of a loop over the samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.batching.level import Level

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
