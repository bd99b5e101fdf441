"""explain(), source() and graph: what a compiled function tells about itself is true."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.compiler.backends.llvm.runtime import object_code
from gradwalk.compiler.introspect.explain import in_operations
from gradwalk.compiler.ir.loops import body_of, loop
from gradwalk.compiler.plan.loop_kinds import Kind, kind_of
from tests.compiler.models import Block, Recurrent, after, assert_same, classes, cnn, mlp, numbers

F = nn.functional


def adam(model: nn.Module) -> Any:
    return gw.optim.AdamW(model.parameters(), lr=0.01)


def trained(model: nn.Module, x: Any, y: Any, **options: Any) -> tuple[Any, Any]:
    """A compiled training step after two calls, and its optimizer."""
    optimizer = adam(model)

    @gw.compile(**options)
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step(x, y)
    step(x, y)
    return step, optimizer


MODELS = {
    "mlp": lambda: (mlp(), numbers(10, 4), classes(3, 10)),
    "cnn": lambda: (cnn(), numbers(2, 1, 14, 14), classes(3, 2)),
    "lstm": lambda: (Recurrent(nn.LSTM), numbers(3, 5, 4), classes(3, 3)),
    "transformer": lambda: (Block(), classes(11, 2, 6), classes(11, 12)),
}


@pytest.fixture(params=MODELS)
def step(request: pytest.FixtureRequest) -> Any:
    gw.manual_seed(0)
    return trained(*MODELS[request.param]())[0]


# -- explain -------------------------------------------------------------------------------------


def test_it_fits_80_columns(step: Any) -> None:
    for text in (str(step.explain()), step.program):
        assert max(map(len, text.splitlines())) <= 80, text


def test_every_call_is_in_one_kernel_or_needs_none(step: Any) -> None:
    (report,) = step.explain().programs
    program = step.newest.executable.program
    bodies = [body_of(call).calls for call in program.calls if call.op is loop]
    free = (Kind.VIEW, Kind.JOIN, Kind.LOOP)
    needing = Counter(
        call.op.name for calls in (program.calls, *bodies) for call in calls
        if kind_of(call) not in free
    )  # fmt: skip
    told = Counter(op for kernel in report.kernels for op in kernel.ops)
    del told["copy or fill"]
    assert told == needing


def test_a_loop_counts_all_its_iterations() -> None:
    model = nn.LSTM(4, 8)
    reports = []
    for steps in (6, 12):
        f = gw.compile(lambda x: model(x)[0])
        f(gw.zeros(steps, 3, 4))
        (report,) = f.explain().programs
        inside = [k for k in report.kernels if k.times > 1]
        assert [k.times for k in inside] == [steps, steps]
        assert f"{steps} times: matmul add" in str(report)
        timed = f.explain(time=True).programs[0].kernels
        assert all(k.seconds > 0 for k in timed if k.times > 1)
        reports.append(inside)
    for short, long in zip(*reports, strict=True):
        assert (long.operations, long.bytes) == (2 * short.operations, 2 * short.bytes)


def test_the_arena_is_no_larger_than_its_buffers(step: Any) -> None:
    (report,) = step.explain().programs
    assert 0 < report.arena <= report.without_reuse
    assert report.buffers > 0 and report.functions <= len(report.kernels)
    assert 0 <= report.compiled <= report.functions
    assert min(report.stages.values()) >= 0 and {"passes", "plan", "code"} <= report.stages.keys()


def test_captured_state_has_the_users_names() -> None:
    model = mlp()
    step, _ = trained(model, numbers(10, 4), classes(3, 10))
    found = step.explain()
    names = {f"model.{name}" for name, _ in model.named_parameters()}
    moments = {f"{kept} of {name}" for name in names for kept in ("exp_avg", "exp_avg_sq")}
    assert {array.name for array in found.captured} == names | moments
    assert all(array.updated for array in found.captured)
    shapes = {array.name: array.shape for array in found.captured}
    assert shapes["model.0.weight"] == (8, 4) and shapes["exp_avg of model.4.bias"] == (3,)
    assert [array.name for array in found.arguments] == ["x", "y"]
    assert "lr of AdamW" in found.numbers
    assert found.calls == 2 and "called 2 times" in str(found)


def test_tensors_and_methods_have_names() -> None:
    scale = gw.ones(3)

    class Wrapped:
        def __init__(self) -> None:
            self.model = nn.Linear(3, 2)

        def run(self, x: Any) -> Any:
            return self.model(x)

    @gw.compile
    def scaled(x: Any) -> Any:
        return x * scale

    scaled(gw.ones(3))
    (array,) = scaled.explain().captured
    assert (array.name, array.updated) == ("scale", False)
    run = gw.compile(Wrapped().run)
    run(gw.ones(1, 3))
    assert {a.name for a in run.explain().captured} == {"Linear.weight", "Linear.bias"}


def test_lines_are_the_users(step: Any) -> None:
    (report,) = step.explain().programs
    lines = {line for kernel in report.kernels for line in kernel.lines}
    texts = {line.text for line in lines if Path(line.file) == Path(__file__)}
    assert {"loss.backward()", "optimizer.step()"} <= texts
    assert all(Path(__file__).parents[1] in Path(line.file).parents for line in lines)


def test_work_of_a_product() -> None:
    @gw.compile
    def product(x: Any, y: Any) -> Any:
        return x @ y + 1

    product(gw.ones(7, 5), gw.ones(5, 3))
    (kernel,) = product.explain().programs[0].kernels
    assert (kernel.kind, kernel.ops) == ("product", ["matmul", "add"])
    assert kernel.operations == 7 * 3 * (2 * 5 + 1)
    assert kernel.bytes == 4 * (7 * 5 + 5 * 3 + 7 * 3)


def test_work_of_a_map_and_of_rows() -> None:
    @gw.compile
    def rows(x: Any) -> Any:
        return (x - x.sum(1, keepdim=True)).exp()

    rows(gw.ones(6, 11))
    (kernel,) = rows.explain().programs[0].kernels
    assert (kernel.kind, kernel.ops) == ("rows", ["sum", "sub", "exp"])
    assert kernel.operations == 3 * 6 * 11
    assert kernel.bytes == 2 * 4 * 6 * 11


def test_work_of_a_convolution() -> None:
    weight = gw.randn(4, 3, 5, 5)

    @gw.compile
    def convolved(x: Any) -> Any:
        return F.conv2d(x, weight)

    convolved(gw.randn(2, 3, 8, 8))
    kernels = convolved.explain().programs[0].kernels
    assert sum(k.operations for k in kernels if k.kind == "convolve") == (
        2 * (2 * 4 * 4 * 4) * (3 * 5 * 5)
    )


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 FLOP"), (999, "999 FLOP"), (1234, "1.23 kFLOP"), (5e9, "5 GFLOP")]
)
def test_numbers_of_operations(count: float, text: str) -> None:
    assert in_operations(count) == text


def test_timing_changes_nothing(step: Any) -> None:
    model = next(c.cell_contents for c in step.function.__closure__ if is_module(c))
    optimizer = next(c.cell_contents for c in step.function.__closure__ if not is_module(c))
    state = gw.get_rng_state()
    expected = after(gw.zeros(()), model, optimizer)
    (report,) = step.explain(time=True).programs
    assert all(kernel.seconds is not None and kernel.seconds > 0 for kernel in report.kernels)
    assert_same(expected, after(gw.zeros(()), model, optimizer), 0)
    assert str(gw.get_rng_state()) == str(state)
    assert max(map(len, str(report).splitlines())) <= 80


def is_module(cell: Any) -> bool:
    return isinstance(cell.cell_contents, nn.Module)


def test_timing_of_arrays_in_another_order() -> None:
    table = gw.randn(4, 6).T  # captured with strides (1, 6)

    @gw.compile
    def both(x: Any) -> Any:
        return x * table

    x = gw.randn(4, 6).T
    expected = both(x).numpy().copy()
    (report,) = both.explain(time=True).programs
    assert all(kernel.seconds for kernel in report.kernels)
    np.testing.assert_array_equal(both(x).numpy(), expected)


def test_a_gradient_has_a_program_of_its_own() -> None:
    @gw.compile
    def square(x: Any) -> Any:
        return (x * x).sum()

    x = gw.ones(5, requires_grad=True)
    out = square(x)
    assert [p.title for p in square.explain().programs] == ["program"]
    out.backward()
    assert [p.title for p in square.explain(time=True).programs] == ["program", "gradient program"]
    np.testing.assert_array_equal(x.grad.numpy(), np.full(5, 2.0, np.float32))


def test_before_the_first_call_it_says_what_to_do() -> None:
    function = gw.compile(lambda x: x)
    for ask in (function.explain, function.source, lambda: function.graph):
        with pytest.raises(RuntimeError, match=r"not been compiled yet.*call it once"):
            ask()


def test_the_newest_program_is_explained() -> None:
    function = gw.compile(lambda x: x * 2)
    for n in (3, 5):
        function(gw.ones(n))
    found = function.explain()
    assert found.specializations == 2 and found.arguments[0].shape == (5,)
    assert "the newest of 2 programs" in str(found)


def test_the_numpy_backend() -> None:
    step, _ = trained(mlp(), numbers(10, 4), classes(3, 10), backend="numpy")
    found = step.explain(time=True)
    assert "calls, run by numpy" in str(found) and len(found.captured) == 18
    assert "is run by numpy, op by op" in step.source()
    assert len(step.graph) > 50


def test_as_plain_data(step: Any) -> None:
    found = step.explain().to_dict()
    kernels = found["programs"][0]["kernels"]
    assert [k["number"] for k in kernels] == list(range(len(kernels)))
    assert "<pre" in step.explain()._repr_html_()


# -- source --------------------------------------------------------------------------------------


def test_source_of_all_kernels_and_of_one(step: Any) -> None:
    kernels = step.newest.executable.kernels
    names = {k.name for k in kernels if k is not None}
    everything = step.source(form="llvm")
    assert everything.count("define void @k") >= len(names)
    assert all(f"@{name}(" in everything for name in names)
    one = next(k for k in kernels if k is not None)
    llvm = step.source(kernel=kernels.index(one), form="llvm")
    assert one.text.strip() in llvm
    assert object_code.compile_text({one.name: one.text}, one.declarations, one.symbols)[one.name]
    assembly = step.source(kernel=kernels.index(one), form="assembly")
    assert f"{one.name}:" in assembly and "ret" in assembly and "define" not in assembly
    both = step.source(kernel=kernels.index(one))
    assert "define" in both and f"{one.name}:" in both
    assert repr(both) == str(both)


def test_source_complains() -> None:
    function = gw.compile(lambda x: x * 2)
    function(gw.ones(3))
    assert function.source(kernel=-1) == function.source(kernel=0)
    with pytest.raises(IndexError, match="no kernel 1"):
        function.source(kernel=1)
    with pytest.raises(ValueError, match="llvm, assembly"):
        function.source(form="c")


# -- graph ---------------------------------------------------------------------------------------


def test_the_graph_is_the_program(step: Any, tmp_path: Path) -> None:
    program = step.newest.executable.program
    trace = step.graph
    assert [n.op for n in trace if n.op] == [call.op.name for call in program.calls]
    assert {n.label for n in trace if n.is_leaf} >= {a.name for a in step.explain().captured}
    assert all(value is None for n in trace for value in n.values)
    for node, call in zip([n for n in trace if n.op], program.calls, strict=True):
        assert node.metas == tuple((t.shape, t.dtype.name) for t in call.outputs)
        assert len(node.inputs) <= len(call.args)
    title, *others = trace.groups
    assert title.path == step.name
    groups = {g.path for g in others}
    kernels = step.explain().programs[0].kernels
    once = {f"{k.kind} {k.number}" for k in kernels if k.lines and k.times == 1}
    several = {k.number for k in kernels if k.times > 1}
    assert groups == once | {f"loop {n}" for n in several if n - 1 not in several}
    gw.save_trace(trace, tmp_path / "step.trace")
    again = gw.load_trace(tmp_path / "step.trace")
    assert [n.op for n in again] == [n.op for n in trace]
    assert str(gw.walk(trace).step()).startswith("step 1 of")


def test_the_graph_with_numbers() -> None:
    model = mlp()
    x, y = numbers(10, 4), classes(3, 10)
    step, optimizer = trained(model, x, y)
    expected = after(gw.zeros(()), model, optimizer)
    trace = step.graph_of(x, y)
    assert_same(expected, after(gw.zeros(()), model, optimizer), 0)
    np.testing.assert_array_equal(trace["x"].value, x.numpy())
    np.testing.assert_array_equal(trace["model.0.weight"].value, model[0].weight.detach().numpy())
    loss = F.cross_entropy(model(x), y).item()
    results = [n for n in trace if n.label == "result"]
    assert min(abs(float(n.value) - loss) for n in results if n.shape == ()) < 1e-6
    step(x, y)
    moved = trace["becomes model.0.weight"].value
    np.testing.assert_allclose(moved, model[0].weight.detach().numpy(), rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="was not compiled for these arguments"):
        step.graph_of(numbers(9, 4), classes(3, 9))


# -- what NumPy runs -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("always:.* have no native kernel")
def test_what_numpy_runs_is_told_once() -> None:
    @gw.compile
    def inverted(x: Any) -> Any:
        y = x * 2
        return gw.linalg.inv(y).exp()

    x = gw.eye(3)
    with pytest.warns(UserWarning, match="no native kernel") as caught:
        found = inverted(x)
    (warning,) = caught
    assert "inv has no native kernel" in str(warning.message)
    assert "return gw.linalg.inv(y).exp()" in str(warning.message)
    assert warning.filename == __file__
    np.testing.assert_allclose(found.numpy(), np.exp(np.eye(3) / 2), rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inverted(gw.eye(4))  # another program of the same function
    (report,) = inverted.explain(time=True).programs
    (by_numpy,) = [k for k in report.kernels if k.kind == "NumPy"]
    assert by_numpy.ops == ["inv"] and by_numpy.seconds is not None
    assert f"kernel {by_numpy.number} runs in NumPy: inv" in str(report)
    assert "runs in NumPy" in inverted.source(kernel=by_numpy.number)


@pytest.mark.filterwarnings("error")
def test_native_programs_warn_of_nothing() -> None:
    trained(mlp(), numbers(10, 4), classes(3, 10))


# -- Values --------------------------------------------------------------------------------------


def test_a_replay_has_source_and_graph() -> None:
    a, b = gw.Value(2.0, label="a"), gw.Value(-3.0, label="b")
    loss = (a * b).tanh() + a
    replay = gw.compile(loss)
    assert "define void @scalar_tanh" in replay.source("llvm")
    assert "define" not in replay.source("assembly")
    assert [n.op for n in replay.graph if n.op] == ["mul", "tanh", "add"]
    assert "3 operations on 2 leaves" in replay.explain()
    slow = gw.compile(loss, backend="numpy")
    assert "no code" in slow.source() and "one by one" in slow.explain()
