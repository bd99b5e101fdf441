"""A loaded model is a module: it runs, trains, compiles, is recorded and shown."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import gradwalk as gw
from gradwalk import nn
from gradwalk.nn.graph_module import Unsupported
from gradwalk.studio.sessions import Sessions
from tests.onnx.models import network

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def write(
    path: Path, nodes: list[Any], inputs: Any, outputs: Any, opset: int = 23, **more: Any
) -> Path:
    """A model of these nodes; inputs and outputs are (name, type, shape)."""
    functions = more.pop("functions", [])
    values = [
        [helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)
    ]
    initializers = [numpy_helper.from_array(a, n) for n, a in more.pop("held", {}).items()]
    graph = helper.make_graph(nodes, "test", *values, initializer=initializers)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    imports += [helper.make_opsetid("ai.onnx.preview.training", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def exported(module: Any, path: Path, *args: torch.Tensor, **options: Any) -> Path:
    """A file that PyTorch writes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no further package is an old one
        torch.onnx.export(module, args, path, dynamo=False, **options)
    return path


# -- what PyTorch exports --------------------------------------------------------------------------


def torch_models() -> list[tuple[str, Any, tuple[Any, ...]]]:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    x, image = torch.randn(2, 5, 8), torch.randn(2, 3, 16, 16)
    convolutions = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.BatchNorm2d(8), torch.nn.ReLU6(),
        torch.nn.MaxPool2d(3, 2, ceil_mode=True), torch.nn.ConvTranspose2d(8, 4, 2, 2),
        torch.nn.Upsample(scale_factor=2, mode="bilinear"), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), torch.nn.Linear(4, 3),
    )  # fmt: skip
    return [
        ("convolutions", convolutions, (image,)),
        ("transformer", torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (x,)),
        ("lstm", torch.nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True), (x,)),
        ("gru", torch.nn.GRU(8, 6), (x,)),
        ("embedding", torch.nn.Embedding(9, 4), (torch.tensor([[1, 2], [8, 0]]),)),
    ]


@pytest.mark.parametrize("opset", [14, 20])
def test_models_that_pytorch_exports(opset: int, tmp_path: Path) -> None:
    for name, module, args in torch_models():
        path = exported(module.eval(), tmp_path / f"{name}.onnx", *args, opset_version=opset)
        net = gw.onnx.load(path)
        with torch.no_grad():
            wanted = module(*args)
        wanted = wanted if isinstance(wanted, torch.Tensor) else wanted[0]
        got = net(*(gw.from_numpy(a.numpy()) for a in args))
        got = got[0] if isinstance(got, tuple) else got
        np.testing.assert_allclose(got.detach().numpy(), wanted.numpy(), 1e-4, 1e-5, err_msg=name)


def test_gradients_are_those_of_pytorch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 2)
    )
    x = torch.randn(2, 3, 8, 8)
    net = gw.onnx.load(exported(module.eval(), tmp_path / "net.onnx", x))
    module(x).square().sum().backward()
    (net(gw.from_numpy(x.numpy())) ** 2).sum().backward()
    theirs = dict(module.named_parameters())
    ours = dict(net.named_parameters())
    assert ours.keys() == theirs.keys() == {"0.weight", "0.bias", "3.weight", "3.bias"}
    for name, parameter in ours.items():
        assert parameter.grad is not None and theirs[name].grad is not None
        np.testing.assert_allclose(parameter.grad.numpy(), theirs[name].grad.numpy(), 1e-4, 1e-5)


def test_a_dimension_that_varies(tmp_path: Path) -> None:
    """The shapes that PyTorch computes inside are known at each call."""

    class Flattens(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(x.shape[0], x.shape[1] * x.shape[2]) * x.shape[0]

    path = exported(
        Flattens(), tmp_path / "net.onnx", torch.ones(2, 3, 4), input_names=["x"],
        dynamic_axes={"x": [0, 1]},
    )  # fmt: skip
    net = gw.onnx.load(path)
    assert net(gw.ones(5, 2, 4)).shape == (5, 8)
    compiled = gw.compile(net)
    assert compiled(gw.ones(3, 2, 4)).sum().item() == 3 * 8 * 3
    assert compiled(gw.ones(2, 1, 4)).sum().item() == 2 * 4 * 2


# -- a module --------------------------------------------------------------------------------------


@pytest.fixture
def classifier(tmp_path: Path) -> nn.Module:
    model, x = network("resnet")
    gw.onnx.save(model, (x,), tmp_path / "net.onnx")
    return gw.onnx.load(tmp_path / "net.onnx")


def test_it_has_the_state_of_the_original(classifier: nn.Module) -> None:
    original, _ = network("resnet")
    state, expected = classifier.state_dict(), original.state_dict()
    assert {name for name, _ in classifier.named_parameters()} == {
        name for name, _ in original.named_parameters()
    }
    for name, tensor in state.items():
        np.testing.assert_array_equal(tensor.numpy(), expected[name].numpy())
    assert set(expected) - set(state) == {n for n in expected if n.endswith("num_batches_tracked")}
    assert "net.onnx: input -> output" in repr(classifier)


def test_it_can_be_trained(classifier: nn.Module) -> None:
    gw.manual_seed(0)
    x, y = gw.randn(2, 3, 32, 32), gw.tensor([3, 7])
    optimizer = gw.optim.Adam(classifier.parameters(), lr=0.01)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(classifier(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_it_can_be_compiled(classifier: nn.Module) -> None:
    x = gw.randn(2, 3, 32, 32)
    plain = classifier(x)
    plain.sum().backward()
    expected = [p.grad.numpy().copy() for p in classifier.parameters()]  # type: ignore[union-attr]
    classifier.zero_grad()
    compiled = gw.compile(classifier)(x)
    np.testing.assert_allclose(compiled.detach().numpy(), plain.detach().numpy(), 1e-5, 1e-5)
    compiled.sum().backward()
    for parameter, before in zip(classifier.parameters(), expected, strict=True):
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad.numpy(), before, 1e-3, 1e-5)


def test_it_is_recorded_and_shown(tmp_path: Path) -> None:
    """Shapes are no operations; modules are those in the names of nodes."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], name="/block/Shape"),
        helper.make_node("Gather", ["shape", "first"], ["n"], name="/block/Gather"),
        helper.make_node("Concat", ["n", "rest"], ["new"], axis=0, name="/block/Concat"),
        helper.make_node("Reshape", ["x", "new"], ["flat"], name="/block/Reshape"),
        helper.make_node("MatMul", ["flat", "block.w"], ["h"], name="/block/MatMul"),
        helper.make_node("Relu", ["h"], ["y"], name="/Relu"),
    ]
    held = {
        "first": np.array([0]), "rest": np.array([-1]), "block.w": np.ones((6, 2), np.float32),
    }  # fmt: skip
    path = write(
        tmp_path / "net.onnx", nodes, [("x", FLOAT, ["n", 2, 3])], [("y", FLOAT, None)], held=held
    )
    net = gw.onnx.load(path)
    x = gw.ones(4, 2, 3, requires_grad=True)
    with gw.record() as trace:
        net(x).sum().backward()
    assert [node.op for node in trace.nodes if node.op] == ["reshape", "matmul", "relu", "sum"]
    session = Sessions().show(trace, "net.onnx")  # as the studio's server keeps it
    assert b'"block"' in session.description and not session.findings


def test_inputs_by_name_and_what_is_wrong_with_them(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    gw.onnx.save(lambda a, b: a @ b, (gw.ones(2, 3), gw.ones(3, 1)), path)
    net = gw.onnx.load(path)
    assert net(b=gw.ones(3, 1), a=gw.ones(2, 3)).tolist() == [[3.0], [3.0]]
    assert net(np.ones((2, 3)), np.ones((3, 1))).shape == (2, 1)
    with pytest.raises(TypeError, match=r"net.onnx takes a, b; it was called with a"):
        net(gw.ones(2, 3))
    with pytest.raises(ValueError, match=r"input 'b' has shape \(3, 1\), it was given \(3, 2\)"):
        net(gw.ones(2, 3), gw.ones(3, 2))
    with pytest.raises(TypeError, match=r"input 'a' is of float32, it was given float64"):
        net(gw.ones(2, 3, dtype=gw.float64), gw.ones(3, 1))


# -- graphs in nodes, functions --------------------------------------------------------------------


def test_functions_of_the_file_with_attributes(tmp_path: Path) -> None:
    half = helper.make_function(
        "own", "Scaled", ["v"], ["w"],
        [
            helper.make_node("Constant", [], ["factor"]),
            helper.make_node("Mul", ["v", "factor"], ["w"]),
        ],
        [helper.make_opsetid("", 23)], ["by"],
    )  # fmt: skip
    attribute = half.node[0].attribute.add()
    attribute.name, attribute.ref_attr_name = "value_float", "by"
    attribute.type = onnx.AttributeProto.FLOAT
    nodes = [helper.make_node("Scaled", ["x"], ["y"], domain="own", by=2.5)]
    path = write(
        tmp_path / "f.onnx", nodes, [("x", FLOAT, [2])], [("y", FLOAT, [2])], functions=[half]
    )
    assert gw.onnx.load(path)(gw.tensor([1.0, 2.0])).tolist() == [2.5, 5.0]
    half.node.append(helper.make_node("Scaled", ["w"], ["again"], domain="own"))
    write(path, nodes, [("x", FLOAT, [2])], [("y", FLOAT, [2])], functions=[half])
    with pytest.raises(ValueError, match="its function 'Scaled' calls itself"):
        gw.onnx.load(path)


def test_a_loop_is_differentiated_and_compiled(tmp_path: Path) -> None:
    """x is squared three times; the weight is one of the graph around the body."""
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["v", "v"], ["squared"]),
            helper.make_node("Mul", ["squared", "w"], ["next"]),
            helper.make_node("Identity", ["on"], ["still"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", FLOAT, [1]),
        ],
    )
    nodes = [helper.make_node("Loop", ["times", "", "x"], ["y"], body=body)]
    held = {"times": np.array(3), "w": np.array([2.0], np.float32)}
    path = write(tmp_path / "loop.onnx", nodes, [("x", FLOAT, [1])], [("y", FLOAT, [1])], held=held)
    net = gw.onnx.load(path)
    x = gw.tensor([1.5], requires_grad=True)
    net(x).backward()  # y = w⁷ x⁸
    (w,) = net.parameters()
    assert w.grad is not None and x.grad is not None
    assert w.grad.item() == pytest.approx(7 * 2**6 * 1.5**8)
    assert x.grad.item() == pytest.approx(8 * 2**7 * 1.5**7)
    assert gw.compile(net)(x).item() == pytest.approx(2**7 * 1.5**8)


def test_the_gradient_operator_and_its_own_gradient(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["squared"]),
        helper.make_node("Mul", ["squared", "w"], ["y"]),
        helper.make_node(
            "Gradient", ["x"], ["slope"], domain="ai.onnx.preview.training", xs=["x"], y="y"
        ),
    ]
    path = write(
        tmp_path / "slope.onnx", nodes, [("x", FLOAT, [1])],
        [("y", FLOAT, [1]), ("slope", FLOAT, [1])], held={"w": np.array([3.0], np.float32)},
    )  # fmt: skip
    net = gw.onnx.load(path)
    y, slope = net(gw.tensor([2.0]))
    assert (y.item(), slope.item()) == (12.0, 12.0)
    slope.backward()
    (w,) = net.parameters()
    assert w.grad is not None and w.grad.item() == 4.0  # of 2 w x


def test_all_unknown_operators_are_listed_at_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Strange", ["x"], ["a"], name="first", domain="own"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Strange", ["b"], ["c"], name="second", domain="own"),
        helper.make_node("StringNormalizer", ["c"], ["y"], name="third"),
    ]
    path = write(tmp_path / "net.onnx", nodes, [("x", FLOAT, [1])], [("y", FLOAT, [1])])
    with pytest.raises(Unsupported) as error:
        gw.onnx.load(path)
    text = str(error.value)
    assert "net.onnx has 2 operation(s) without a counterpart in gradwalk" in text
    assert "Strange of own (version 1)     2 times, first at node 'first'" in text
    assert "StringNormalizer (version 23)  once at node 'third'" in text


def test_a_rare_operator_runs_as_onnx_defines_it(tmp_path: Path) -> None:
    nodes = [helper.make_node("CenterCropPad", ["x", "size"], ["y"], axes=[1])]
    held = {"size": np.array([2])}
    path = write(
        tmp_path / "net.onnx", nodes, [("x", FLOAT, [1, 4])], [("y", FLOAT, None)], held=held
    )
    x = gw.tensor([[1.0, 2.0, 3.0, 4.0]], requires_grad=True)
    y = gw.onnx.load(path)(x)
    assert y.tolist() == [[2.0, 3.0]]
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0.0, 1.0, 1.0, 0.0]]
