"""The pipeline, and how a further backend fits in: a module and a line of `BACKENDS`."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.compiler import pipeline, plan
from gradwalk.compiler.backends import BACKENDS
from gradwalk.compiler.plan.loop_kinds import Kind, kind_of
from tests.compiler.programs import Written, assert_same_bits

# It interprets programs as the XLA backend would: arrays in, arrays out, memory rebound at the end.
TOY = """
import numpy as np
from gradwalk.compiler.ir.program import Argument, Constant, Memory, Scalar, Term, forward

PASSES = {"drop_unused", "fold_constants"}
CAPABILITIES = None
built = []

class ToyExecutable:
    plan = None

    def __init__(self, program):
        self.program = program

    def __call__(self, arguments, memories, scalars):
        values = {}
        for term in self.program.sources():
            match term.source:
                case Argument(n): values[term] = arguments[n]
                case Memory(n): values[term] = memories[n]
                case Scalar(n): values[term] = np.float64(scalars[n])
                case Constant(array): values[term] = array
        for call in self.program.calls:
            operands = [values[a] if isinstance(a, Term) else a for a in call.args]
            out = forward(call.op, operands, call.attrs)
            values.update(zip(call.outputs, out if call.op.multiple else (out,)))
        results = [np.array(values[t], t.dtype) for t in self.program.results]
        new = [(t, np.array(values[v], t.dtype)) for t, v in self.program.updates]
        for target, value in new:
            if isinstance(target.source, Memory):
                memories[target.source.number][...] = value
        return results, [v.item() for t, v in new if isinstance(t.source, Scalar)]

def build(lower, layout, fast_math, stages):
    lowered = lower()
    assert lowered.plan is None
    built.append(lowered.program)
    stages.done("interpret")
    return ToyExecutable(lowered.program)
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "toy_backend.py").write_text(TOY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(BACKENDS, "toy", "toy_backend")
    return "toy"


def train(backend: str | None) -> list[float]:
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = gw.optim.Adam(model.parameters(), 0.01)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = step if backend is None else gw.compile(step, backend=backend)
    x, y = gw.randn(5, 3), gw.randn(5, 1)
    losses = [run(x, y).item() for _ in range(4)]
    if backend is not None:
        assert run.explain().programs[0].backend == backend
        assert backend == "llvm" or f"calls, run by {backend}" in str(run.explain())
        assert "there is no code" in run.source() or backend == "llvm"
        assert len(run.graph.nodes) > 10
    return losses


def test_a_toy_backend_trains_a_network(toy: str) -> None:
    np.testing.assert_allclose(train(toy), train(None), rtol=1e-6)
    np.testing.assert_allclose(train(toy), train("llvm"), rtol=1e-6)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="backend is one of numpy, llvm, xla, not 'toy'"):
        gw.compile(lambda x: x, backend="toy")


def test_a_backend_gets_the_passes_it_wants(toy: str) -> None:
    w = Written()
    x = w.argument(np.ones((2, 3), np.float32))
    w.add("exp", x)  # unused
    two = w.add("add", w.constant([1.0], np.float32), 1.0)
    w.returns(w.add("softmax", w.add("mul", x, two), axis=1))

    def ops(backend: str) -> list[str]:
        return [call.op.name for call in pipeline.lower(w.program, backend=backend).program.calls]

    assert ops("numpy") == [call.op.name for call in w.program.calls]
    assert ops(toy) == ["mul", "softmax"]
    assert "softmax" not in ops("llvm") and "exp" in ops("llvm")
    assert_same_bits(w.outcome(pipeline.build(w.program, backend=toy)), w.expected())


def test_the_plan_asks_the_backend_what_is_native(tmp_path: Path, monkeypatch: Any) -> None:
    module = TOY.replace(
        "CAPABILITIES = None",
        """
from gradwalk.compiler.plan.capabilities import Capabilities
CAPABILITIES = Capabilities(lambda op, dtypes, attrs: op.name == "add", lambda op: True)
""",
    )
    (tmp_path / "adding_backend.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(BACKENDS, "adding", "adding_backend")
    w = Written()
    x = w.argument(np.ones(3, np.float32))
    w.returns(w.add("exp", w.add("add", x, 1.0)))
    lowered = pipeline.lower(w.program, backend="adding")
    kinds = {call.op.name: kind_of(call) for call in lowered.program.calls}
    assert kinds == {"add": Kind.MAP, "exp": Kind.ALONE}
    assert lowered.plan is not None and len(lowered.plan.entries) == 2
    llvm = pipeline.lower(w.program).plan
    assert llvm is not None and len(llvm.entries) == 1


def imports(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]


def test_only_the_pipeline_knows_the_order() -> None:
    compiler = Path(plan.__file__).parents[1]
    stages = ("passes", "plan.schedule", "tracing.trace", "call.specialization")
    for folder in ("plan", "passes", "ir"):
        for path in (compiler / folder).rglob("*.py"):
            assert not [m for m in imports(path) if "compiler.backends" in m], path
    for path in (compiler / "backends").rglob("*.py"):
        forbidden = [f"gradwalk.compiler.{s}" for s in ("pipeline", "passes", "tracing", "call")]
        assert not [m for m in imports(path) if m.startswith(tuple(forbidden))], path
    known = imports(compiler / "pipeline.py")
    assert all(any(m.startswith(f"gradwalk.compiler.{s}") for m in known) for s in stages)
