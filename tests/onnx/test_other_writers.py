"""Files that converters other than PyTorch's write, with their habits."""

from pathlib import Path

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

import gradwalk as gw
from tests.onnx.test_load import FLOAT, write


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


def test_a_spectrum_of_signals_without_a_last_dimension(tmp_path: Path) -> None:
    """STFT asks for (batch, time, 1); ONNX Runtime takes (batch, time), and so do files."""
    nodes = [helper.make_node("STFT", ["x", "step", "window"], ["y"])]
    held = {"step": np.array(4), "window": np.hanning(16).astype("f4")}
    inputs = [("x", FLOAT, ("n", "t"))]
    path = write(tmp_path / "s.onnx", nodes, inputs, [("y", FLOAT, None)], opset=17, held=held)
    x = np.random.default_rng(0).normal(size=(2, 64)).astype("f4")
    found = gw.onnx.load(path)(gw.tensor(x))
    np.testing.assert_allclose(found.detach().numpy(), expected(path, x=x)[0], atol=1e-5)
