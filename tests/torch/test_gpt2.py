"""A foreign model, `transformers`' GPT-2: recorded, asked by every tool, and its NaN found."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import gradwalk as gw
from gradwalk.cli import app
from gradwalk.inspect.trace.file import load_trace, save_trace
from gradwalk.inspect.trace.trace import Trace
from gradwalk.ops import TABLE
from gradwalk.torch import StepStopped, watch
from tests.torch.gpt2 import BAD_ROW, BAD_STEP, WAYS, RootMeanSquare, gpt2, nobody, sentences
from tests.torch.holding import Holding, compare_with_autograd

ATTENTIONS = ("sdpa", "eager")


def one_step(attention: str, recorder: Any = None) -> tuple[Any, torch.Tensor]:
    """A step with dropout, which draws the same numbers each time."""
    model = gpt2(layers=2, attn_implementation=attention)
    (words,) = sentences()
    torch.manual_seed(2)
    if recorder is None:
        loss = model(words, labels=words).loss
        loss.backward()
        return model, loss
    with recorder:
        loss = model(words, labels=words).loss
        loss.backward(retain_graph=True)
    return model, loss


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_recorded_or_not_the_results_are_the_same_bit_for_bit(attention: str) -> None:
    model, loss = one_step(attention)
    same, recorded = one_step(attention, gw.torch.record())
    assert torch.equal(loss, recorded)
    for (name, before), after in zip(model.named_parameters(), same.parameters(), strict=True):
        assert before.grad is not None and after.grad is not None, name
        assert torch.equal(before.grad, after.grad), name


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_every_node_has_the_gradient_that_pytorch_gives_it(attention: str) -> None:
    recorder = Holding()
    _, loss = one_step(attention, recorder)
    assert compare_with_autograd(recorder.trace, loss) > 100


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_none_of_its_operations_is_opaque(attention: str) -> None:
    recorder = gw.torch.record()
    one_step(attention, recorder)
    trace = recorder.trace
    assert {node.op for node in trace.nodes if node.op and node.op not in TABLE} == set()
    checked = gw.audit(trace)
    assert not checked and checked.checked > 100 and checked.skipped == {}


def check_tools(trace: Trace, tied: Any, inner: Any) -> None:
    """Every tool, on the embedding (tied to the head) and on a weight inside."""
    answer = gw.why(tied, trace)
    assert {trace.nodes[edge.consumer].op for edge in answer.edges} == {"permute", "embedding"}
    assert gw.why_no_grad(inner, trace).verdict == "flows"
    assert not gw.find_nan(trace)
    assert gw.saved_memory(trace).total > 10_000
    assert gw.run_order(trace, "right").wrong == []
    walk = gw.walk(trace)
    while not walk.done:
        walk.step()
    assert walk.position == len(walk) > len(trace.sweep.visits)
    gradient = trace.grad(inner)
    np.testing.assert_allclose(gw.run_recipes(inner, trace)["right"].got, gradient, 1e-3, 1e-7)


def test_all_tools_read_it_live_and_from_a_file(tmp_path: Path) -> None:
    recorder = gw.torch.record()
    model, _ = one_step("sdpa", recorder)
    trace = recorder.trace
    tied, inner = model.transformer.wte.weight, model.transformer.h[0].ln_1.weight
    assert tied is model.lm_head.weight
    np.testing.assert_array_equal(gw.why(tied, trace).gradient, tied.grad.numpy())
    check_tools(trace, tied, inner)
    health = gw.health(model, trace)
    assert health.findings == []
    assert {"transformer.h.1.mlp.c_fc", "transformer.wte"} <= {x.name for x in health.layers}
    assert all(isinstance(x, float) for x in health.metrics().values())

    save_trace(trace, tmp_path / "step.trace")
    loaded = load_trace(tmp_path / "step.trace")
    check_tools(loaded, "transformer.wte.weight", "transformer.h.0.ln_1.weight")
    assert gw.health(None, loaded).findings == []


# -- a NaN at step 500 -----------------------------------------------------------------------------

# what is named: op, module, whether a row is
NAMED = {
    "data": ("add", "transformer", True),
    "module": ("div", "transformer.h.0.ln_2", True),
    "weight": ("addmm", "transformer.h.0.mlp.c_fc", False),
    "log_likelihood": ("log", "", True),
}


def line_marked(way: str) -> tuple[int, str]:
    """The line of a program with HERE at its end."""
    lines, first = inspect.getsourcelines(RootMeanSquare if way == "module" else WAYS[way])
    return next((first + i, x.strip()) for i, x in enumerate(lines) if x.endswith("# HERE\n"))


@pytest.mark.parametrize("way", NAMED)
def test_watch_finds_the_nan_of_step_500(way: str, tmp_path: Path) -> None:
    handles = []
    with pytest.raises(StepStopped) as stopped:
        WAYS[way](True, lambda *given: handles.append(watch(*given, folder=tmp_path)))
    handles[0].remove()
    report = stopped.value.report
    op, module, has_row = NAMED[way]
    assert (report.step, report.op, report.module) == (BAD_STEP, op, module)
    assert report.row == (BAD_ROW if has_row else None)
    assert report.line is not None
    line = report.line.caller or report.line  # the model's own line stands in transformers
    assert (line.line, line.text) == line_marked(way)
    assert report.rerun == "statements" and "bit for bit" in report.rerun_told
    assert gw.find_nan(load_trace(report.path)).op == report.found.op


@pytest.mark.parametrize("way", NAMED)
def test_run_watch_finds_it_in_a_program_as_it_is(way: str, tmp_path: Path) -> None:
    program = inspect.getsourcefile(gpt2)
    out, step = tmp_path / "report", 60  # early: the test above has shown that none is too late
    result = CliRunner().invoke(
        app, ["run", "--watch", "--out", str(out), str(program), way, str(step)]
    )
    assert (result.exit_code, result.stdout) == (3, "")
    report = json.loads((out / "report.json").read_text())
    op, module, has_row = NAMED[way]
    assert (report["step"], report["op"], report["module"]) == (step, op, module)
    assert report["row"] == (BAD_ROW if has_row else None)
    line = report["line"].get("caller") or report["line"]
    assert (line["line"], line["text"]) == line_marked(way)
    assert f"gradwalk-step-{step}.trace" in result.stderr


def test_without_the_nan_nothing_is_found_and_no_bit_is_different(tmp_path: Path) -> None:
    handles = []
    losses = WAYS["data"](False, lambda *given: handles.append(watch(*given, folder=tmp_path)))
    handles[0].remove()
    assert handles[0].reports == [] and handles[0].steps == BAD_STEP + 2
    assert losses == WAYS["data"](False, nobody)
