"""A bad step of a compiled model: whose fault it is, and at which line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.backends.debugging import aot_eager

from gradwalk.torch import StepStopped, watch
from gradwalk.torch.watch.step_report import StepReport


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.enc(x))
        gate = torch.sigmoid(hidden) + 1  # GATE
        if x.shape[0] == 0:
            return gate
        return self.head(gate / x.std(1, keepdim=True))  # STD


def miscompiling(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """A backend that computes log where the model says sigmoid."""
    for node in graph.graph.nodes:
        if node.target is torch.sigmoid:
            node.target = torch.log
    graph.recompile()
    return graph.forward


def miscompiling_ahead(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """The same, with a backward pass that is compiled too."""
    miscompiling(graph, examples)
    return aot_eager(graph, examples)  # type: ignore[no-any-return]


def train(
    folder: Path,
    backend: Any,
    *,
    bad_row: bool = False,
    whole: bool = True,
    in_place: bool = False,
    **options: Any,
) -> tuple[list[StepReport], Any]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    compiled: Any = model if in_place else torch.compile(model, backend=backend)
    given = (compiled, optimizer) if whole else (None, None)
    if in_place and whole:
        model.compile(backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        watched = watch(*given, folder=folder, **options)
        if in_place and not whole:
            model.compile(backend=backend)
        try:
            for step in range(4):
                x, y = torch.randn(12, 6), torch.randint(0, 3, (12,))
                if bad_row and step == 2:
                    x[4] = 0.5
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(compiled(x), y)
                loss.backward()
                optimizer.step()
        except StepStopped:
            pass
        finally:
            watched.remove()
    return watched.reports, compiled


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_healthy_compiled_model_is_left_alone(tmp_path: Path, backend: str, whole: bool) -> None:
    reports, _ = train(tmp_path, backend, whole=whole)
    assert reports == []


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_fault_of_the_model_is_named_with_its_line(tmp_path: Path, backend: str) -> None:
    (report,), _ = train(tmp_path, backend, bad_row=True)
    assert (report.blamed, report.step, report.op, report.row) == ("model", 2, "div", 4)
    assert report.line is not None and report.line.text.endswith("# STD")
    assert "the fault is the model's" in str(report) and "compilation off" in report.rerun_told


@pytest.mark.parametrize("backend", [miscompiling, miscompiling_ahead])
def test_a_fault_of_the_compiler_is_named_with_its_line(tmp_path: Path, backend: Any) -> None:
    (report,), _ = train(tmp_path, backend)
    assert (report.blamed, report.op) == ("compiler", "sigmoid")
    assert report.line is not None and report.line.text.endswith("# GATE")
    assert report.found is None and "torch.compiler.disable" in report.fix
    assert "the fault is the compiler's" in str(report)


def test_compiled_code_runs_on_after_the_search(tmp_path: Path) -> None:
    # The search compiles the model again; what the program had compiled must stay as it was.
    (report, *_), compiled = train(tmp_path, miscompiling, action="warn", whole=False)
    assert report.blamed == "compiler"
    assert compiled(torch.randn(12, 6)).isnan().any()
    with torch.compiler.set_stance("force_eager"):
        assert compiled._orig_mod.enc.weight.isnan().all()  # the program went on with its NaN


@pytest.mark.parametrize("whole", [True, False], ids=["before watch", "while watched"])
def test_a_model_that_is_compiled_in_place(tmp_path: Path, whole: bool) -> None:
    # Its hooks are inside the compiled code.
    assert train(tmp_path, "eager", whole=whole, in_place=True)[0] == []
    (report,), _ = train(tmp_path, "eager", bad_row=True, whole=whole, in_place=True)
    assert (report.blamed, report.step, report.op, report.row) == ("model", 2, "div", 4)
    (report,), model = train(tmp_path, miscompiling, whole=whole, in_place=True)
    assert (report.blamed, report.op) == ("compiler", "sigmoid")
    assert model._compiled_call_impl.__module__.startswith("torch.")  # nothing is left behind


def test_no_call_is_no_finite_output(tmp_path: Path) -> None:
    weight = torch.ones(3, requires_grad=True)
    watched = watch(None, None, folder=tmp_path)
    with pytest.raises(StepStopped) as stopped:
        (weight - 1).sqrt().sum().mul(0).backward()
        torch.optim.SGD([weight], lr=0.1).step()
    watched.remove()
    assert "output was finite" not in str(stopped.value.report)
