"""Files that are damaged or mean harm: a clear error, nothing executed, nothing allocated."""

import os
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import gradwalk as gw
from gradwalk.io import FileError
from tests.batches import check_each
from tests.onnx.test_load import FLOAT, write

UNREADABLE = r"net\.onnx cannot be loaded"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    gw.manual_seed(0)
    path = tmp_path / "net.onnx"
    gw.onnx.save(gw.nn.Linear(30, 20), (gw.ones(2, 30),), path)
    return path


def test_truncated_at_any_place(saved: Path) -> None:
    content = saved.read_bytes()

    def check(length: int) -> None:
        saved.write_bytes(content[:length])
        with pytest.raises(FileError, match=UNREADABLE):
            gw.onnx.load(saved)

    check_each([0, 1, 5, len(content) // 2, len(content) - 40, len(content) - 1], check)


def test_other_content(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    for content in (b"PK\x03\x04 a zip file", os.urandom(2000), b"\x80\x04}q\x00.", b"{}"):
        path.write_bytes(content)
        with pytest.raises(FileError, match=UNREADABLE):
            gw.onnx.load(path)
    with pytest.raises(FileNotFoundError):
        gw.onnx.load(tmp_path / "absent.onnx")


def test_maps_are_named(tmp_path: Path) -> None:
    named = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(FLOAT, []))
    graph = helper.make_graph(
        [helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])],
        "test",
        [helper.make_tensor_value_info("x", FLOAT, [3, 2])],
        [helper.make_value_info("y", helper.make_sequence_type_proto(named))],
    )
    (tmp_path / "net.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(FileError, match=r"Map types(?s:.)*Fix: .*zipmap"):
        gw.onnx.load(tmp_path / "net.onnx")


def model_with(tensor: Any) -> Any:
    """The sum of an input and a stored tensor."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "test",
        [helper.make_tensor_value_info("x", FLOAT, [4])],
        [helper.make_tensor_value_info("y", FLOAT, [4])],
        [tensor],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def external(location: str, **more: str) -> Any:
    """A tensor of four floats in another file."""
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return tensor


def test_a_tensor_that_claims_to_be_huge(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    for dims in ([1 << 40], [1 << 31, 1 << 31], [-5]):
        tensor = TensorProto(name="w", data_type=FLOAT, dims=dims, raw_data=b"\0" * 16)
        path.write_bytes(model_with(tensor).SerializeToString())
        tracemalloc.start()
        with pytest.raises(FileError, match=UNREADABLE):
            gw.onnx.load(path)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
        tracemalloc.stop()


def test_constants_that_grow_are_not_computed_at_load(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["size"], ["big"]),
        helper.make_node("Tile", ["big", "times"], ["bigger"]),
        helper.make_node("ReduceSum", ["bigger"], ["total"], keepdims=0),
        helper.make_node("Add", ["x", "total"], ["y"]),
    ]
    held = {"size": np.array([1 << 40]), "times": np.array([1 << 20])}
    path = write(tmp_path / "net.onnx", nodes, [("x", FLOAT, [1])], [("y", FLOAT, [1])], held=held)
    gw.onnx.load(path)


def test_external_data_is_read_from_the_folder_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(np.arange(6, dtype=np.float32).tobytes())
    model = model_with(external("data/w.bin", offset="8", length="16"))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    monkeypatch.chdir(tmp_path)
    for path in ("net.onnx", tmp_path / "net.onnx"):
        assert gw.onnx.load(path)(gw.zeros(4)).tolist() == [2.0, 3.0, 4.0, 5.0]


def test_external_data_from_elsewhere_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, folder = tmp_path / "secret.bin", tmp_path / "model"
    secret.write_bytes(b"\1" * 16)
    folder.mkdir()
    (folder / "link.bin").symlink_to(secret)
    (folder / "hard.bin").hardlink_to(secret)
    (folder / "short.bin").write_bytes(b"\1" * 8)
    monkeypatch.chdir(folder)

    def check(location: str) -> None:
        content = model_with(external(location)).SerializeToString()
        (folder / "net.onnx").write_bytes(content)
        for path in ("net.onnx", folder / "net.onnx"):
            with pytest.raises(FileError, match=UNREADABLE):
                gw.onnx.load(path)

    outside = ["../secret.bin", str(secret), "link.bin", "hard.bin", "data/../../secret.bin"]
    check_each([*outside, "short.bin", "absent.bin", ".", ""], check)


def test_external_data_of_functions_is_confined_too(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(b"\1" * 16)
    folder = tmp_path / "model"
    folder.mkdir()
    constant = helper.make_node("Constant", [], ["w"])
    attribute = constant.attribute.add()
    attribute.name, attribute.type = "value", onnx.AttributeProto.TENSOR
    attribute.t.CopyFrom(external("../secret.bin"))
    body = [constant, helper.make_node("Add", ["v", "w"], ["u"])]
    opsets = [helper.make_opsetid("", 23)]
    function = helper.make_function("own", "Reads", ["v"], ["u"], body, opsets)
    nodes = [helper.make_node("Reads", ["x"], ["y"], domain="own")]
    path = write(
        folder / "net.onnx", nodes, [("x", FLOAT, [4])], [("y", FLOAT, [4])], functions=[function]
    )
    with pytest.raises(FileError, match="outside the base directory"):
        gw.onnx.load(path)


def test_functions_that_multiply(tmp_path: Path) -> None:
    """Each calls the one before ten times: read once, they are a few nodes, not a trillion."""
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("own", 1)]
    negated = [helper.make_node("Neg", ["v"], ["u"])]
    functions = [helper.make_function("own", "F0", ["v"], ["u"], negated, opsets)]
    for depth in range(1, 13):
        names = ["v", *(f"t{i}" for i in range(9)), "u"]
        calls = [
            helper.make_node(f"F{depth - 1}", [a], [b], domain="own") for a, b in pairwise(names)
        ]
        functions.append(helper.make_function("own", f"F{depth}", ["v"], ["u"], calls, opsets))
    nodes = [helper.make_node("F12", ["x"], ["y"], domain="own")]
    path = write(
        tmp_path / "net.onnx", nodes, [("x", FLOAT, [1])], [("y", FLOAT, [1])], functions=functions
    )
    gw.onnx.load(path)


def test_a_value_that_nothing_makes(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "nowhere"], ["y"], name="sum")]
    path = write(tmp_path / "net.onnx", nodes, [("x", FLOAT, [1])], [("y", FLOAT, [1])])
    with pytest.raises(FileError, match="'nowhere'"):
        gw.onnx.load(path)


def test_names_that_are_not_text(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "nowhere"], ["z"]),
        helper.make_node("Add", ["z", "neither"], ["y"]),
    ]
    path = write(tmp_path / "net.onnx", nodes, [("x", FLOAT, [1])], [("y", FLOAT, [1])])
    path.write_bytes(path.read_bytes().replace(b"neither", b"neith\xff\xff"))
    with pytest.raises(FileError, match="'nowhere'"):
        gw.onnx.load(path)
