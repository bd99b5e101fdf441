"""diff: backward passes, live models, compiled code, dtypes, files and the command."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import gradwalk as gw
import gradwalk.torch
from gradwalk.cli import app
from gradwalk.inspect.diff.side_by_side import side_by_side

X = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))


class Wrong(torch.autograd.Function):
    """A square with another derivative."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] * x  # HERE it should be twice that


class Net(nn.Module):
    """Two layers and a square, which `how` changes in the backward pass alone."""

    def __init__(self, how: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.how = nn.Linear(8, 16), nn.Linear(16, 8), how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.a(x)
        h = Wrong.apply(h) if self.how == "function" else h * h
        if self.how == "detach":
            h = h.detach()
        if self.how == "hook":
            h.register_hook(lambda g: 2 * g)
        out: torch.Tensor = self.b(h)
        return out


@pytest.mark.parametrize(
    ("how", "op", "word"),
    [
        ("function", "Wrong", "what it passes on does not"),
        ("detach", "detach", "no gradient reaches"),
        ("hook", "addmm", "does not push the derivative"),
    ],
)
def test_a_wrong_backward_is_named(how: str, op: str, word: str) -> None:
    answer = gw.diff(Net(), Net(how), inputs=X)
    (only,) = answer.findings
    assert only.direction == "backward" and only.b is not None
    assert only.b.op == op and word in only.why, answer
    assert gw.diff(Net(how), Net(how), inputs=X).aligned == answer.total


def test_equal_models_of_two_engines() -> None:
    theirs = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    ours = gw.nn.Sequential(
        gw.nn.Linear(8, 16), gw.nn.GELU(), gw.nn.LayerNorm(16), gw.nn.Linear(16, 4)
    )
    ours.load_state_dict({n: gw.tensor(t.numpy()) for n, t in theirs.state_dict().items()})
    answer = gw.diff(theirs, ours, inputs=X)
    assert answer.equal, answer
    assert all(row.gradient is not None and row.gradient < 1e-5 for row in answer.operations)
    ours[2].eps = 1e-3
    first = gw.diff(theirs, ours, inputs=X).first
    assert first is not None and "1e-05 in A and 0.001 in B" in first.why


def test_a_live_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    before = copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    assert gw.diff(model, model, inputs=X).equal  # the same dropout in both
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_weights_with_equal_values_that_are_tied_in_one_only() -> None:
    class Tied(nn.Module):
        def __init__(self, tied: bool) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.table, self.head = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
            self.head.weight = nn.Parameter(self.table.weight.detach().clone())
            if tied:
                self.head.weight = self.table.weight

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(torch.tanh(self.table(words)))
            return out

    words = torch.arange(6)
    assert gw.diff(Tied(True), Tied(True), inputs=words).equal
    for one, other in ((True, False), (False, True)):
        answer = gw.diff(Tied(one), Tied(other), inputs=words)
        assert answer.first is not None and answer.first.kind == "tied", answer
        assert answer.first.direction == "backward"


def test_another_dtype_is_one_finding_and_nothing_else() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    for dtype, name in ((torch.bfloat16, "bfloat16"), (torch.float64, "float")):
        other = copy.deepcopy(model).to(dtype)
        answer = gw.diff(model, other, inputs=X)
        assert [one.kind for one in answer.findings] == ["precision"], answer
        assert name in answer.findings[0].why or "fewer digits" in answer.findings[0].why
        assert gw.diff(other, other, inputs=X).equal

    def mixed(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out: torch.Tensor = model(x)
        return out

    first = gw.diff(model, mixed, inputs=X).first
    assert first is not None and first.kind == "precision" and first.b is not None
    assert first.b.op == "cast" and "bfloat16" in first.why


def test_a_table_rounded_to_bfloat16() -> None:
    rates = 10.0 ** -torch.arange(8.0)

    def angles(table: torch.Tensor) -> torch.Tensor:
        return (X * table).cos().sum()

    first = gw.diff(lambda: angles(rates), lambda: angles(rates.bfloat16().float())).first
    assert first is not None and first.kind == "precision", first


def test_other_inputs_are_no_other_operation() -> None:
    model = Net()
    one = gw.diff(lambda: model(X).mean(), lambda: model(X + 1.0).mean()).first
    assert one is not None and one.b is not None
    assert one.b.op == "add"


def test_compiled_code_that_is_right() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)).bfloat16()
    answer = gw.diff(model, torch.compile(model, backend="aot_eager"), inputs=X)
    assert answer.equal, answer
    assert "stands for" in answer.notes[0]


def test_compiled_code_that_rounds_less_is_explained() -> None:
    """As inductor does inside its kernels, which take half a minute to compile."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def as_dtype(x: Any, dtype: torch.dtype) -> Any:
        return x.to(dtype) if x is not None and x.is_floating_point() else x

    def wide(graph: Any, _: Any) -> Any:
        def run(*given: Any) -> list[Any]:
            results = graph(*(as_dtype(x, torch.float32) for x in given))
            return [as_dtype(x, torch.bfloat16) for x in results]

        return make_boxed_func(run)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 64), nn.Tanh()).bfloat16()
    backend = aot_autograd(fw_compiler=wide)
    answer = gw.diff(model, torch.compile(model, backend=backend), inputs=X)
    assert answer.equal, answer
    text = " ".join(answer.notes)
    assert "rounding, not another computation" in text
    assert "B keeps more digits inside its kernels" in text
    assert "emulate_precision_casts" in text


def test_compiled_code_that_is_wrong() -> None:
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def scaled(x: Any) -> Any:
        return x * 1.001 if x is not None and x.is_floating_point() else x

    def bad(graph: Any, _: Any) -> Any:
        return make_boxed_func(lambda *given: [scaled(x) for x in graph(*given)])

    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16))
    backend = aot_autograd(fw_compiler=bad)
    answer = gw.diff(model, torch.compile(model, backend=backend), inputs=X)
    assert answer.first is not None and answer.first.b is not None, answer
    assert answer.first.b.op == "CompiledFunction"


def test_values_that_were_not_kept_are_not_called_equal() -> None:
    traces = []
    for _ in range(2):
        with gradwalk.torch.record(keep="stats") as trace:
            Net()(X).sum().backward()
        traces.append(trace)
    first = gw.diff(*traces).first
    assert first is not None and first.kind == "unknown" and 'keep="all"' in first.fix


def test_scalars_and_neighbours() -> None:
    a, b = gw.Value(3.0, label="a"), gw.Value(3.0, label="b")
    assert gw.diff(gw.record(a * a + a), gw.record(b * b + b)).equal
    first = gw.diff(gw.record(a * a + 2.0), gw.record(b * b + 2.5)).first
    assert first is not None and first.b is not None and first.b.op == "add"
    assert gw.diff(gw.tensor([1.0, 4.0, 9.0])).tolist() == [3.0, 5.0]
    with pytest.raises(TypeError, match="compares traces"):
        gw.diff(3.0, 4.5)


PROGRAM = """
import gradwalk as gw
w = gw.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
def loss(): return ((w @ w) ** 2).mean()
def other(): return ((w @ w.mT) ** 2).mean()
"""


def test_the_command(tmp_path: Path) -> None:
    runner = CliRunner()
    for name, factor in (("a", 1.0), ("b", 1.0), ("c", 1.5)):
        w = gw.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
        gw.save_trace(gw.record((w * 2 * factor).tanh().sum()), tmp_path / f"{name}.trace")
    a, b, c = (str(tmp_path / f"{name}.trace") for name in "abc")
    same = runner.invoke(app, ["diff", a, b])
    assert same.exit_code == 0 and "No operation differs" in same.output
    assert "A is a.trace, B is b.trace" in same.output
    other = runner.invoke(app, ["diff", a, c, "--all"])
    assert other.exit_code == 1 and "mul" in other.output
    data = json.loads(runner.invoke(app, ["diff", a, c, "--json"]).stdout)
    assert data["equal"] is False and data["first"]["b"]["op"] == "mul"
    assert runner.invoke(app, ["diff", a, str(tmp_path / "none.trace")]).exit_code == 2
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    live = runner.invoke(app, ["diff", f"{program}:loss", f"{program}:other"])
    assert live.exit_code == 1 and "transposed" in live.output, live.output


def test_both_as_one_trace(tmp_path: Path) -> None:
    answer = gw.diff(Net(), Net("function"), inputs=X)
    gw.save_trace(side_by_side(answer), tmp_path / "both.trace")
    both = gw.load_trace(tmp_path / "both.trace")
    assert len(both) == len(answer.a) + len(answer.b)
    assert both.beside is not None
    (found,) = both.beside.findings
    assert both.nodes[found.nodes[0]].op == "Wrong" and found.kind == "gradient"
    outer = [group.path for group in both.groups if group.above is None]
    assert sorted(outer) == ["A", "B"]
    a, b = gw.Value(3.0), gw.Value(3.0)
    values = side_by_side(gw.diff(gw.record(a * a), gw.record(b * b)))
    gw.save_trace(values, tmp_path / "values.trace")
    assert len(gw.load_trace(tmp_path / "values.trace")) == 4


class Attention(nn.Module):
    """A block with fused attention; `how` writes it out by hand, and wrongly."""

    def __init__(self, how: str = "fused") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.parts = nn.LayerNorm(8), nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.places, self.how = nn.Embedding(6, 8), how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.places((torch.arange(6) + 1) % 5 if self.how == "places" else torch.arange(6))
        h = self.norm(x)
        q, k, v = (part(h).unsqueeze(1) for part in self.parts[:3])
        if self.how == "no bias":
            v = nn.functional.linear(h, self.parts[2].weight).unsqueeze(1)
        if self.how == "fused":
            out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.mT / 8**0.5
            future = torch.ones(6, 6, dtype=torch.bool).triu(2 if self.how == "leak" else 1)
            scores = scores.masked_fill(future, -torch.inf)
            out = scores.softmax(-2 if self.how == "axis" else -1).nan_to_num() @ v
        out = self.parts[3](out.squeeze(1))
        return out if self.how == "no residual" else x + out


@pytest.mark.parametrize(
    ("how", "op", "word"),
    [
        ("leak", "masked_fill", "A computes attention"),
        ("axis", "softmax", "A computes attention"),
        ("places", "embedding", "at other places"),
        ("no bias", "matmul", "A reads parts.2.bias here, and B does not"),
    ],
)
def test_differences_inside_a_fused_operation(how: str, op: str, word: str) -> None:
    x = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(1))
    assert gw.diff(Attention(), Attention("by hand"), inputs=x).equal
    answer = gw.diff(Attention(), Attention(how), inputs=x)
    assert answer.first is not None and answer.first.b is not None
    assert answer.first.b.op == op, answer
    assert word in answer.first.why, answer


def test_a_residual_that_is_missing_and_an_end_that_goes_on() -> None:
    x = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(1))
    first = gw.diff(Attention(), Attention("no residual"), inputs=x).first
    assert first is not None and first.a is not None and first.a.op == "add", first
    w = torch.randn(8, requires_grad=True)
    longer = gw.diff(lambda: (w * w).sum(), lambda: (w * w).sum() * 2 + w.abs().sum()).first
    assert longer is not None and longer.kind in ("extra", "operation"), longer


@pytest.mark.parametrize("swapped", [False, True])
def test_both_sides_are_named_by_what_they_compute(swapped: bool) -> None:
    """Not by the result that both go on to, although only that one is aligned."""
    weights = torch.randn(8, 8, requires_grad=True), torch.randn(8, 3, requires_grad=True)

    def by_hand(x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1 + torch.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))

    traces = []
    for gelu in (nn.functional.gelu, by_hand):
        with gradwalk.torch.record() as trace:
            (gelu(X @ weights[0]) @ weights[1]).sum()
        traces.append(trace)
    first = gw.diff(*(traces[::-1] if swapped else traces)).first
    assert first is not None and first.a is not None and first.b is not None
    assert {first.a.op, first.b.op} == {"gelu", "mul"}


def test_other_data_are_no_other_operation() -> None:
    """Two ranks read their own rows, and here the same words."""
    model, words = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1)), nn.Embedding(5, 8)
    ids, own = torch.arange(6) % 5, torch.randn(6, 8)

    def run(x: torch.Tensor) -> torch.Tensor:
        return model(x + words(ids)).mean()

    report = gw.diff(lambda: run(X), lambda: run(own))
    assert [found.kind for found in report.findings] == ["input"]
    assert report.first is not None and report.first.b is not None and report.first.b.op == "add"
