"""Files that converters other than PyTorch's write, with their habits."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import gradwalk as gw
from tests.onnx.test_load import FLOAT, INT, write


def expected(path: Path, **given: np.ndarray) -> list[np.ndarray]:
    """What ONNX Runtime computes."""
    found: list[np.ndarray] = onnxruntime.InferenceSession(path).run(None, given)
    return found


def test_weights_in_nodes_are_parameters(tmp_path: Path) -> None:
    """As Paddle's converter writes them, with -1 for a dimension that is open."""
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(2, 3, 3, 3)), rng.normal(size=(1, 2, 1, 1))
    arrays = {"weight": weight, "bias": bias, "twice": np.array([2.0])}
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(a.astype("f4")))
        for name, a in arrays.items()
    ]
    nodes += [
        helper.make_node("Conv", ["x", "weight"], ["c"]),
        helper.make_node("Add", ["c", "bias"], ["s"]),
        helper.make_node("Mul", ["s", "twice"], ["y"]),
    ]
    inputs = [("x", FLOAT, (-1, 3, None, None))]
    path = write(tmp_path / "net.onnx", nodes, inputs, [("y", FLOAT, None)], opset=13)
    net = gw.onnx.load(path)
    assert [name for name, _ in net.named_parameters()] == ["weight", "bias"]
    x = rng.normal(size=(2, 3, 5, 6)).astype("f4")
    y = net(gw.tensor(x))
    np.testing.assert_allclose(y.detach().numpy(), expected(path, x=x)[0], atol=1e-5)
    y.sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    again = tmp_path / "again.onnx"
    gw.onnx.save(net, (gw.tensor(x),), again)
    np.testing.assert_allclose(gw.onnx.load(again)(gw.tensor(x)).detach().numpy(), y.detach(), 1e-5)


@pytest.mark.parametrize("factor", [1.7, 2.0, 0.6])
def test_aligned_corners_of_a_size_that_is_cut_off(tmp_path: Path, factor: float) -> None:
    """PyTorch's exporter writes the factor, and means the corners of the whole pixels."""
    options = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    nodes = [helper.make_node("Resize", ["x", "", "scales"], ["y"], **options)]
    held = {"scales": np.array([1, 1, factor, factor], "f4")}
    inputs = [("x", FLOAT, (1, 2, 5, 7))]
    path = write(tmp_path / "r.onnx", nodes, inputs, [("y", FLOAT, None)], opset=18, held=held)
    x = np.random.default_rng(0).normal(size=(1, 2, 5, 7)).astype("f4")
    found = gw.onnx.load(path)(gw.tensor(x)).detach().numpy()
    np.testing.assert_allclose(found, expected(path, x=x)[0], atol=1e-5)
    resized = gw.nn.functional.interpolate(
        gw.tensor(x), scale_factor=factor, mode="bilinear", align_corners=True
    )
    np.testing.assert_allclose(found, resized.numpy(), atol=1e-5)


def test_a_spectrum_of_signals_without_a_last_dimension(tmp_path: Path) -> None:
    """STFT asks for (batch, time, 1); ONNX Runtime takes (batch, time), and so do files."""
    nodes = [helper.make_node("STFT", ["x", "step", "window"], ["y"])]
    held = {"step": np.array(4), "window": np.hanning(16).astype("f4")}
    inputs = [("x", FLOAT, ("n", "t"))]
    path = write(tmp_path / "s.onnx", nodes, inputs, [("y", FLOAT, None)], opset=17, held=held)
    x = np.random.default_rng(0).normal(size=(2, 64)).astype("f4")
    found = gw.onnx.load(path)(gw.tensor(x))
    np.testing.assert_allclose(found.detach().numpy(), expected(path, x=x)[0], atol=1e-5)


ML = {
    "Scaler": dict(offset=[1.0, 0.0, 2.0], scale=[2.0, 0.5, 1.0]),
    "Imputer": dict(imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=math.nan),
    "Normalizer": dict(norm="L2"),
    "LinearRegressor": dict(
        coefficients=[1.0, 2.0, 3.0, -1.0, 0.0, 1.0], intercepts=[0.5, -1.0], targets=2,
        post_transform="LOGISTIC",
    ),
    "LinearClassifier": dict(
        coefficients=[1.0, 2.0, 3.0, -1.0, 0.0, 1.0, 2.0, 0.0, 0.0], intercepts=[0.5, -1.0, 0.0],
        classlabels_ints=[4, 5, 9], post_transform="SOFTMAX", multi_class=1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("op", ML)
def test_steps_around_the_networks_of_scikit_learn(op: str, tmp_path: Path) -> None:
    outputs = ["label", "y"] if op == "LinearClassifier" else ["y"]
    node = helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", **ML[op])
    kinds = {"label": INT, "y": FLOAT}
    graph = helper.make_graph(
        [node], "steps", [helper.make_tensor_value_info("x", FLOAT, ("n", 3))],
        [helper.make_tensor_value_info(name, kinds[name], None) for name in outputs],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    path = tmp_path / "steps.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    )
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("f4")
    if op == "Imputer":
        x[x > 0.5] = np.nan
    found = gw.onnx.load(path)(gw.tensor(x))
    found = found if isinstance(found, tuple) else (found,)
    for ours, theirs in zip(found, expected(path, x=x), strict=True):
        assert ours.numpy().dtype == theirs.dtype
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6, atol=1e-6)


# Operator, shapes of the inputs after x, which is (2, 3, 4), and attributes.
FUSED: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "Gelu": ([], {}),
    "BiasGelu": ([(4,)], {}),
    "FastGelu": ([(4,)], {}),
    "QuickGelu": ([], dict(alpha=1.5)),
    "FusedMatMul": ([(2, 5, 4)], dict(alpha=0.5, transB=1)),
    "SkipLayerNormalization": ([(2, 3, 4), (4,), (4,), (4,)], dict(epsilon=1e-3)),
    "SkipSimplifiedLayerNormalization": ([(2, 3, 4), (4,), (4,)], dict(epsilon=1e-3)),
    "FusedConv": ([(5, 3, 2), (5,)], dict(activation="LeakyRelu", activation_params=[0.1])),
}


@pytest.mark.parametrize("op", FUSED)
def test_what_onnx_runtime_fuses(op: str, tmp_path: Path) -> None:
    shapes, attributes = FUSED[op]
    rng = np.random.default_rng(0)
    held = {f"w{i}": rng.normal(size=shape).astype("f4") for i, shape in enumerate(shapes)}
    node = helper.make_node(op, ["x", *held], ["y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node], "fused", [helper.make_tensor_value_info("x", FLOAT, (2, 3, 4))],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        initializer=[numpy_helper.from_array(array, name) for name, array in held.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "fused.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    )
    x = rng.normal(size=(2, 3, 4)).astype("f4")
    net = gw.onnx.load(path)
    found = net(gw.tensor(x))
    np.testing.assert_allclose(found.detach().numpy(), expected(path, x=x)[0], 1e-5, 1e-5)
    if shapes:
        found.sum().backward()
        assert all(p.grad is not None for p in net.parameters())
