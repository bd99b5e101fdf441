"""Composites: functions of several ops as one op. That they are PyTorch's, tests/torch says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.inspect.walk.wording import rule_text
from gradwalk.nn import composites
from gradwalk.nn.composites.composite import composite
from gradwalk.ops import TABLE
from tests.project.checkout import run_here


def floats(*shape: int) -> gw.Tensor:
    rng = np.random.default_rng(sum(shape))
    return gw.tensor(rng.standard_normal(shape), dtype=gw.float64, requires_grad=True)


def addmm(bias: Any, x: Any, weight: Any) -> Any:
    return TABLE["addmm"](bias, x, weight, beta=0.5, alpha=2.0)


def layer_norm(x: Any, weight: Any) -> Any:
    return TABLE["layer_norm"](x, weight, given=("weight",), count=1, eps=1e-5)


def gather(x: Any) -> Any:
    return TABLE["gather"](x, gw.tensor([[0, 2], [1, 1]]), axis=1)


def unbind(x: Any) -> Any:
    first, second = TABLE["unbind"](x, axis=0)
    return first * second


SAMPLES: list[Any] = [
    pytest.param(addmm, (floats(3), floats(2, 4), floats(4, 3)), id="addmm"),
    pytest.param(layer_norm, (floats(2, 3), floats(3)), id="layer_norm"),
    pytest.param(gather, (floats(2, 3),), id="gather"),
    pytest.param(unbind, (floats(2, 3),), id="unbind"),
]


@pytest.mark.parametrize("function, operands", SAMPLES)
def test_derivatives_of_both_orders(function: Callable[..., Any], operands: Any) -> None:
    assert gw.gradcheck(function, operands)
    assert gw.gradgradcheck(function, operands)


@pytest.mark.parametrize("function, operands", SAMPLES)
def test_compiled_and_forward_mode(function: Callable[..., Any], operands: Any) -> None:
    expected = function(*operands)
    np.testing.assert_allclose(
        gw.compile(function)(*operands).detach().numpy(), expected.detach().numpy(), 1e-10
    )
    ones = tuple(gw.ones_like(x) for x in operands)
    value, tangent = gw.jvp(function, operands, ones)
    np.testing.assert_allclose(value.detach().numpy(), expected.detach().numpy(), 1e-10)
    step = 1e-6
    moved = function(*(x.detach() + step for x in operands)).numpy()
    slope = (moved - expected.detach().numpy()) / step
    np.testing.assert_allclose(tangent.detach().numpy(), slope, 1e-4, 1e-4)


def test_the_table_finds_them_and_does_not_list_them() -> None:
    assert "addmm" in TABLE and TABLE.get("addmm") is TABLE["addmm"]
    assert "addmm" not in list(TABLE)
    assert TABLE.get("no such op") is None
    with pytest.raises(KeyError):
        TABLE["no such op"]
    assert composites.__all__ and not set(TABLE.composites) & set(TABLE)


def test_a_recording_has_one_node_that_opens() -> None:
    bias, x, weight = floats(3), floats(2, 4), floats(4, 3)
    with gw.record() as trace:
        addmm(bias, x, weight).sum().backward()
    node = next(n for n in trace if n.op == "addmm")
    opened = gw.open_op(trace, node.index)
    assert [n.op for n in opened.trace if n.op] == ["matmul", "mul", "mul", "add"]
    assert opened.equal
    assert rule_text(trace, node, 2) == f"alpha × {trace.name(1)}ᵀ @ g"


def test_every_operand_has_a_text_of_its_rule() -> None:
    for op in TABLE.composites.values():
        assert isinstance(op.formula, dict) and set(op.formula) == set(op.inputs), op.name


def test_a_trace_with_one_is_computed_where_there_is_no_torch(tmp_path: Path) -> None:
    x, weight = floats(2, 3), floats(3)
    with gw.record() as trace:
        layer_norm(x, weight).sum().backward()
    gw.save_trace(trace, tmp_path / "norm.trace")
    code = """
import sys
import gradwalk as gw
from gradwalk.inspect.trace import replay
trace = gw.load_trace("norm.trace")
node = trace.nodes[2]
pulled = replay.pull(trace, node, trace.sweep.grad(2))
same = all(abs(a - b).max() < 1e-12 for a, b in zip(pulled, trace.sweep.pushed[2]))
print(node.op, same, "torch" in sys.modules)
"""
    assert run_here(code, cwd=tmp_path).split() == ["layer_norm", "True", "False"]


def test_operands_without_a_gradient_and_numbers() -> None:
    try:
        twice = composite("twice_for_a_test", lambda x, y, *, times: x * times + y)
        x = floats(2)
        twice(x, 1.0, times=2.0).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]
    finally:
        TABLE.composites.pop("twice_for_a_test", None)
