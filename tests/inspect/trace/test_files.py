"""Trace files: everything comes back, and a bad file gets a clear error."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.file import load_trace, save_trace
from gradwalk.inspect.trace.file_json import decode, encode, thumbnail
from gradwalk.inspect.trace.recorder import record
from gradwalk.inspect.trace.trace import Trace
from gradwalk.io.safetensors_files import read, write


def example(**options: Any) -> Trace:
    """A small network with indexing, splitting, NaN and a constant array."""
    gw.manual_seed(0)
    model = gw.nn.Sequential(gw.nn.Linear(6, 8), gw.nn.GELU(), gw.nn.Linear(8, 4))
    x = gw.randn(5, 6)
    with record(**options) as trace, gw.no_grad():
        x[0, 0] = float("nan")
    with record(**options) as trace:
        out = model(x)
        left, right = out.split(2, dim=1)
        loss = (left[:, 0] * right[1:3].sum() + np.arange(5.0, dtype="f4")).nan_to_num().mean()
        loss.label = "loss"
        loss.item()
        loss.backward()
    return trace


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b, True)
    if isinstance(a, Statistics):
        return repr(a) == repr(b)
    return a == b or (a != a and b != b)


def assert_equal(a: Trace, b: Trace) -> None:
    assert len(a) == len(b) and a.scalar == b.scalar
    assert (
        a.groups == b.groups
        and a.exits == b.exits
        and a.names == b.names
        and a.reduced == b.reduced
    )
    for x, y in zip(a, b):
        for name in ("op", "attrs", "label", "group", "line", "needs_grad", "metas", "note"):
            assert getattr(x, name) == getattr(y, name), name
        assert all(map(same, x.args, y.args)) and all(map(same, x.values, y.values))
    for s, t in zip(a.sweeps, b.sweeps, strict=True):
        assert s.visits == t.visits and s.line == t.line
        assert s.seeds.keys() == t.seeds.keys()
        for kept, again in ((s.grads, t.grads), (s.pushed, t.pushed)):
            assert kept.keys() == again.keys()
            for key in kept:
                assert all(map(same, kept[key], again[key]))


@pytest.mark.parametrize("options", [{}, {"keep": "stats"}, {"budget": 600}], ids=str)
def test_a_trace_comes_back(tmp_path: Path, options: dict[str, Any]) -> None:
    trace = example(**options)
    save_trace(trace, tmp_path / "a.trace")
    assert_equal(trace, load_trace(tmp_path / "a.trace"))


def test_memory_and_time_come_back(tmp_path: Path) -> None:
    """What a live trace knows of memory and time, a loaded one knows too."""
    gw.manual_seed(0)
    model = gw.nn.Sequential(gw.nn.Linear(6, 8), gw.nn.GELU(), gw.nn.LayerNorm(8))
    with record(timing=True) as trace:
        h = gw.checkpoint(model[:2], gw.randn(5, 6))
        model[2:](h).square().mean().backward()
    assert trace.saved and trace.memory and trace.regions and trace.region_saved
    save_trace(trace, tmp_path / "a.trace")
    again = load_trace(tmp_path / "a.trace")
    for name in ("saved", "memory", "regions", "region_saved", "seconds", "bytes_kept"):
        assert getattr(again, name) == getattr(trace, name), name
    assert again.sweep.seconds == trace.sweep.seconds
    live, loaded = gw.saved_memory(trace), gw.saved_memory(again)
    assert loaded.to_dict() == live.to_dict() and not loaded.notes
    assert str(again) == str(trace)


def test_a_file_of_version_1_is_read() -> None:
    """Written before memory and time were in the file: they are worked out, and it is said."""
    trace = load_trace(Path(__file__).with_name("version-1.trace"))
    assert trace.grad("0.weight").sum() == pytest.approx(-0.2663837)
    np.testing.assert_allclose(
        gw.run_order(trace)["0.weight"].got, trace.grad("0.weight"), rtol=1e-5
    )
    memory = gw.saved_memory(trace)
    assert memory.total == 524 and "estimated from the rules" in memory.notes[0]
    assert trace.bytes_kept > 0


def test_a_description_too_long_for_a_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradwalk.inspect.trace.file._LONGEST", 100)
    trace = example()
    save_trace(trace, tmp_path / "a.trace")
    arrays, metadata = read(tmp_path / "a.trace")
    assert len(metadata["gradwalk_trace"]) < 100 and "description" in arrays
    assert_equal(trace, load_trace(tmp_path / "a.trace"))


def test_a_trace_of_values_comes_back(tmp_path: Path) -> None:
    a, b = gw.Value(2.0, label="a"), gw.Value(0.0, label="b")
    trace = record(a / b + a**-1.5)
    save_trace(trace, tmp_path / "a.trace")
    assert_equal(trace, load_trace(tmp_path / "a.trace"))


def test_a_loaded_trace_can_be_computed_with(tmp_path: Path) -> None:
    trace = example()
    save_trace(trace, tmp_path / "a.trace")
    again = load_trace(tmp_path / "a.trace")
    for index in again.sweep.visits:
        for new, old in zip(replay.forward(again, again[index]), trace[index].values, strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-6)


def test_large_arrays_lie_beside_the_description(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    save_trace(example(), path)
    arrays, metadata = read(path)
    described = json.loads(metadata["gradwalk_trace"])
    large = [v for n in described["nodes"] for v in n["values"] if "array" in (v or {})]
    assert large and {v["array"] for v in large} <= arrays.keys()
    assert all(len(v["statistics"]["histogram"]["tuple"]) in (0, 16) for v in large)
    assert all(len(v["thumbnail"]["shape"]) == 2 for v in large)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2**70, 1.5, float("inf"), "text", (1, (2, None)), [1, 2], slice(1, None, 2),
        ..., {"a": 1, 2: "b"}, np.dtype("f4"), gw.tanh,
    ],
    ids=str,
)  # fmt: skip
def test_attributes_come_back(value: Any) -> None:
    text = json.dumps(encode(value), allow_nan=False)
    assert decode(json.loads(text)) == value


def test_thumbnails() -> None:
    assert thumbnail(np.arange(64.0).reshape(8, 8))[7, 7] == 63
    assert thumbnail(np.ones((3, 100, 4))).shape == (8, 4)
    assert thumbnail(np.ones((5, 0))).shape == (0, 0)


def test_the_graph_behind_a_loss_can_be_written(tmp_path: Path) -> None:
    a = gw.Value(3.0, label="a")
    save_trace(a * a, tmp_path / "a.trace")
    assert load_trace(tmp_path / "a.trace").grad("a") == 6.0
    with pytest.raises(TypeError, match="takes a Value or a Tensor, not int"):
        save_trace(5, tmp_path / "b.trace")


# -- bad files ------------------------------------------------------------------------------------


def damaged(tmp_path: Path, change: Any) -> Path:
    path = tmp_path / "bad.trace"
    save_trace(example(), path)
    arrays, metadata = read(path)
    described = json.loads(metadata["gradwalk_trace"])
    change(described)
    write(path, arrays, {"gradwalk_trace": json.dumps(described)})
    return path


def _set(path: list[Any], value: Any) -> Any:
    def change(described: Any) -> None:
        for key in path[:-1]:
            described = described[key]
        described[path[-1]] = value

    return change


DAMAGE = {
    "an input that is not there": (_set(["nodes", 5, "args"], [[99, 0]]), "names an input"),
    "an input after its consumer": (_set(["nodes", 5, "args"], [[7, 0]]), "names an input"),
    "a negative input": (_set(["nodes", 5, "args"], [[-1, 0]]), "names an input"),
    "no nodes": (_set(["nodes"], []), "there is no node"),
    "a group that is not there": (_set(["nodes", 5, "group"], 99), "lies in group 99"),
    "groups in a circle": (_set(["groups", 0, "above"], 1), "lies in group 1"),
    "a missing array": (_set(["nodes", 0, "values"], [{"array": "zz"}]), "KeyError"),
    "text for a node": (_set(["nodes", 5], "text"), "its description is inconsistent"),
    "an unknown kind": (_set(["nodes", 5, "attrs"], {"a": {"code": "x"}}), "'code' is unknown"),
    "a visit too far": (_set(["sweeps", 0, "visits"], [10**9]), "there is no node"),
    "a sweep from nowhere": (_set(["sweeps", 0, "seeds"], []), "starts nowhere"),
    "another version": (_set(["version"], 99), "version 99"),
    "a value of another shape": (_set(["nodes", 5, "values", 0], 1.5), "has shape"),
    "a gradient of another shape": (
        _set(["sweeps", 0, "grads", 0, 1], [{"small": [1.0], "shape": [1], "dtype": "float32"}]),
        "has shape",
    ),
    "a negative size": (_set(["nodes", 5, "metas", 0, 0], [-1]), "not a count"),
    "a size beyond all memory": (_set(["nodes", 5, "metas", 0, 0], [2**40, 2**40]), "nothing has"),
    "an unknown dtype": (
        _set(["nodes", 5, "metas", 0, 1], "nonsense"),
        "its description is inconsistent",
    ),
    "objects": (
        _set(["nodes", 5, "values", 0], {"small": ["x"], "shape": [1], "dtype": "object"}),
        "an array of object",
    ),
    "an empty object": (_set(["nodes", 5, "values", 0], {}), "'an empty object' is unknown"),
    "true for an index": (_set(["sweeps", 0, "visits", 0], True), "there is no node True"),
    "a visit twice": (
        lambda d: d["sweeps"][0]["visits"].append(d["sweeps"][0]["visits"][0]),
        "visits a node twice",
    ),
    "a visit untold of": (
        lambda d: d["sweeps"][0]["visits"].pop(),
        "do not match its gradients and pushes",
    ),
    "a seed at no output": (_set(["sweeps", 0, "seeds", 0, 1], 7), "has no output 7"),
    "NaN, which is not JSON": (
        _set(["sweeps", 0, "seeds", 0, 2], float("nan")),
        "NaN is not JSON",
    ),
    "memory of nobody": (_set(["saved", 0, 0], 10**6), "there is no node"),
    "less than no memory": (_set(["memory", 0, 2], -5), "not a count"),
}


@pytest.mark.parametrize(("change", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_description(tmp_path: Path, change: Any, message: str) -> None:
    with pytest.raises(gw.io.FileError, match=message):
        load_trace(damaged(tmp_path, change))


JUNK = [
    None, True, -1, 10**30, 1.5, float("nan"), "", "x", [], [0], [[0, 0]], {}, {"float": "zz"},
    {"integer": "9" * 5000}, {"slice": [1]}, {"dtype": "zz"}, {"array": "no"}, {"statistics": {}},
    {"small": [], "shape": [0, 10**15], "dtype": "float32"}, {"op": "zz"}, {"tuple": 5},
    {"dict": [[{"dict": []}, 1]]}, {"constant": 1},
]  # fmt: skip


def places(part: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
        yield (*before, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*before, key))


@pytest.mark.slow
@pytest.mark.parametrize("scalar", [False, True], ids=["tensors", "values"])
def test_anything_anywhere_is_refused_or_can_be_used(tmp_path: Path, scalar: bool) -> None:
    """A file changed in one place either gives a FileError, or a trace that tools can read."""
    a = gw.Value(2.0, label="a")
    trace = record(a * a + 1 / a) if scalar else example(timing=True)
    path = tmp_path / "a.trace"
    save_trace(trace, path)
    arrays, metadata = read(path)
    described = json.loads(metadata["gradwalk_trace"])
    where = list(places(described))
    source = random.Random(0)
    refused = 0
    for _ in range(150):
        changed = json.loads(metadata["gradwalk_trace"])
        _set(list(source.choice(where)), source.choice(JUNK))(changed)
        write(path, arrays, {"gradwalk_trace": json.dumps(changed)})
        try:
            loaded = load_trace(path)
        except gw.io.FileError:
            refused += 1
            continue
        str(loaded)
        for step in gw.walk(loaded).play():
            str(step)
        with contextlib.suppress(replay.NotReplayable):
            str(gw.run_order(loaded))
    assert 0 < refused < 150


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "x"
    gw.save({"a": gw.ones(2)}, path)
    with pytest.raises(gw.io.FileError, match=r"not a trace. Fix: gradwalk.load"):
        load_trace(path)
    for content in (b"", b"PK\x03\x04zip", b"{}", b"\xff" * 100):
        path.write_bytes(content)
        with pytest.raises(gw.io.FileError, match="cannot be loaded"):
            load_trace(path)
    save_trace(example(), path)
    whole = path.read_bytes()
    for cut in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:cut])
        with pytest.raises(gw.io.FileError):
            load_trace(path)
