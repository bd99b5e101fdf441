"""Files with open dimensions: ONNX Runtime computes at every size what the function computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.engine.tree import leaves
from tests.batches import check_each
from tests.onnx.models import NETWORKS, network
from tests.onnx.test_round_trips import CLOSE, run_by_onnxruntime

functional = nn.functional
ORDER = gw.tensor([2, 0, 1])
Sizes = list[tuple[int, ...]]
BATCH, ONE = [{0: "batch"}], [(2,), (1,), (5,)]
BOTH, TWO = [{0: "batch", 1: "time"}], [(2, 4), (1, 1), (3, 7)]


def dims(value: Any) -> list[Any]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def check_sizes(
    fn: Callable[..., Any], path: Path, make: Callable[..., Any], open: Any, sizes: Sizes
) -> Any:
    """Save at the first size; compare at each."""
    for opset in (18, 23):
        gw.onnx.save(fn, make(*sizes[0]), path, dynamic_shapes=open, opset=opset)
        onnx.checker.check_model(onnx.load(path), full_check=True)
        loaded = gw.onnx.load(path)
        for size in sizes:
            args = make(*size)
            with gw.no_grad():
                expected = [tensor.numpy() for tensor in leaves(fn(*args))]
                ours = leaves(loaded(*args))
            theirs = run_by_onnxruntime(path, *args)
            for wanted, one, two in zip(expected, theirs, ours, strict=True):
                assert one.shape == wanted.shape
                np.testing.assert_allclose(one, wanted, CLOSE, CLOSE)
                np.testing.assert_allclose(two.numpy(), wanted, CLOSE, CLOSE)
    return onnx.load(path)


def rows(*shape: int) -> Callable[[int], Any]:
    return lambda n: (gw.randn(n, *shape),)


def moved(t: Any) -> Any:
    return (
        gw.roll(t, 1, 0),
        t.flip(0),
        t[1:],
        t[-1],
        t[::2],
        t.repeat(2, 1),
        t[None].expand(3, -1, -1),
    )


def written(t: Any) -> Any:
    t = t.clone()
    t[:, 0] = 1.0
    return t


def masked(t: Any) -> Any:
    n = t.shape[1]
    seen = gw.tril(gw.ones(n, n))
    later = gw.triu(gw.full((n, n), -1e9), diagonal=1)
    return (t @ t.mT).masked_fill(seen == 0, -9.0), t @ t.mT + later, t @ t.mT * seen


def cases() -> list[Any]:
    words = lambda n, t: (gw.randint(0, 7, (n, t)),)
    text = lambda n, t: (gw.randn(n, t, 6),)
    image = lambda n, h: (gw.randn(n, 3, h, h),)
    square = [{0: "batch", 2: "side", 3: "side"}]
    encoder = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True).eval()
    return [
        ("linear", nn.Linear(3, 2), rows(3), BATCH, ONE),
        ("LSTM", nn.LSTM(6, 5, batch_first=True), text, BOTH, TWO),
        ("GRU", nn.GRU(6, 5), lambda n: (gw.randn(4, n, 6),), [{1: "batch"}], ONE),
        ("encoder", encoder, text, BOTH, TWO),
        ("causal", lambda q: functional.scaled_dot_product_attention(q, q, q, is_causal=True), text,
         BOTH, TWO),
        ("masks", masked, text, BOTH, TWO),
        ("means", lambda t: (t.mean(0), t.var(0), t.sum() / t.shape[0], t * len(t)), rows(3), BATCH,
         [(2,), (5,)]),
        ("positions", lambda t: t + gw.arange(t.shape[1]), lambda n, t: (gw.randn(n, t),), BOTH,
         TWO),
        ("zeros", lambda t: gw.cat([t, gw.zeros(t.shape[0], 2)], 1), rows(3), BATCH, ONE),
        ("moved", moved, rows(4), BATCH, [(2,), (5,)]),
        ("several arrays", lambda t: t[:, ORDER, ORDER], rows(4, 3), BATCH, ONE),
        ("places", lambda t: functional.max_pool2d(t, 2, return_indices=True),
         lambda n: (gw.randn(n, 3, 4, 4),), BATCH, ONE),
        ("a loss of places", lambda t: functional.nll_loss(t, t.argmin(1)), rows(4, 3), BATCH, ONE),
        ("written", written, rows(4), BATCH, ONE),
        ("embedding", nn.Embedding(7, 3), words, BOTH, TWO),
        ("larger", nn.Upsample(scale_factor=2), image, square, [(2, 4), (1, 3)]),
        ("pooled", nn.AdaptiveAvgPool2d(1), image, square, [(2, 4), (1, 3)]),
        ("even sizes only", lambda t: t.reshape(2, t.shape[0] // 2, 3), rows(3), BATCH,
         [(2,), (6,)]),
        ("at most eight", lambda t: t + gw.arange(8.0)[: len(t), None] * gw.ones(8, 3)[: len(t)],
         rows(3), BATCH, [(8,), (1,), (3,)]),
    ]  # fmt: skip


def test_layers_and_functions(tmp_path: Path) -> None:
    check_each(cases(), lambda c: check_sizes(c[1], tmp_path / "file.onnx", *c[2:]))


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_run_at_any_batch_size(name: str, tmp_path: Path) -> None:
    net, x = network(name)
    file = check_sizes(net, tmp_path / "net.onnx", rows(*x.shape[1:]), BATCH, [(2,), (1,), (3,)])
    assert dims(file.graph.input[0]) == ["batch", *x.shape[1:]]
    assert dims(file.graph.output[0])[0] == "batch"


def test_pytorchs_ways_to_name_dimensions(tmp_path: Path) -> None:
    path, args = tmp_path / "sum.onnx", (gw.ones(2, 3), gw.ones(2, 3))
    ways: list[dict[str, Any]] = [
        {"dynamic_axes": {"x": {0: "n"}, "y": {0: "n"}, "z": {0: "n"}}},
        {"dynamic_shapes": {"x": {0: "n"}, "y": {0: "n"}}},
        {"dynamic_shapes": ({0: "n"}, {-2: "n"})},
        {"dynamic_shapes": (("n", None), ("n", None))},
    ]
    for way in ways:
        names = {"input_names": ["x", "y"], "output_names": ["z"]}
        gw.onnx.export(lambda x, y: (x + y).T, args, path, **names, **way)
        graph = onnx.load(path).graph
        assert [dims(v) for v in graph.input] == [["n", 3]] * 2 and dims(graph.output[0]) == [
            3,
            "n",
        ]
    gw.onnx.save(gw.exp, (gw.ones(2, 3),), path, input_names=["x"], dynamic_axes={"x": [0, 1]})
    assert dims(onnx.load(path).graph.input[0]) == ["x_0", "x_1"]


def test_what_fixes_a_size_is_refused_with_its_line(tmp_path: Path) -> None:
    path, x = tmp_path / "file.onnx", gw.randn(4, 3)
    table = gw.randn(4, 3)
    refused: list[tuple[str, Any]] = [
        ("batch cannot be left open.*does not fit.*x.shape", lambda t: t.reshape(2, 2, 3).sum(0)),
        ("batch cannot be left open", lambda t: t + table),
        (r"depends on it", lambda t: t * gw.arange(float(len(t)))[:, None] ** 2),
        (r"Mul in mul at .*test_dynamic_shapes", lambda t: t * (len(t) ** 0.5)),
    ]
    for words, fn in refused:
        with pytest.raises(ValueError, match=f"(?s){words}"):
            gw.onnx.save(fn, (x,), path, dynamic_shapes=BATCH)
    with pytest.raises(ValueError, match="the same name"):
        gw.onnx.save(lambda a, b: a + b, (x, x), path, dynamic_shapes=({0: "n"}, {0: "m"}))
    with pytest.raises(ValueError, match="no dimension 5"):
        gw.onnx.save(gw.exp, (x,), path, input_names=["x"], dynamic_axes={"x": [5]})
    with pytest.raises(ValueError, match="no input is called 'y'"):
        gw.onnx.save(gw.exp, (x,), path, input_names=["x"], dynamic_shapes={"y": {0: "n"}})
    assert not path.exists()
