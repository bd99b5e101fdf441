"""Memory that tensors share, in compiled functions: what is a view in eager mode is one there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.compiler.functional.memory_order import CONTIGUOUS
from gradwalk.compiler.tracing.trace_function import StandIns, trace
from gradwalk.compiler.tracing.traced import Traced
from gradwalk.compiler.tracing.tracer import Tracer
from tests.batches import batched
from tests.ops.samples.table import Sample, all_samples

F = nn.functional


def defined(body: str) -> Any:
    """A function of (x, k, j, m) with this body."""
    space: dict[str, Any] = {"gw": gw, "F": F}
    exec(f"def step(x, k, j, m):\n    {body}\n    return x, x[k], x[k][j], m[k], m\n", space)
    return space["step"]


@batched(
    "body",
    [
        "x[k].add_(1)", "x[k] += 1", "x[:, k] *= 2", "x[k, 1:] -= 1", "x[..., k] = 5",
        "y = x[k]; x.add_(1); x[0] = y * 2", "y = x[k][j]; y.add_(5)", "y = x.T[k]; y[0] = 7",
        "y = x[k].reshape(2, 2); y[0] += 1", "m[k] += 1", "m[k] += x.sum()", "m[m.argmax()] -= 1",
        "x[k][1:].add_(2)", "x[1:][k - 1].mul_(2)", "x[x[k].argmax() % 3].zero_()",
    ],
)  # fmt: skip
def test_an_index_that_is_a_tensor(body: str) -> None:
    """As with a Python integer: the part is a view, which can be read, written and returned."""
    outcomes = []
    for step in (defined(body), gw.compile(defined(body))):
        x, m = gw.arange(12.0).reshape(3, 4), gw.zeros(4)
        seen = []
        for k in (1, 2, 1):
            results = step(x, gw.tensor(k), gw.tensor(0), m)
            results[1].add_(1)  # a view of x
            seen.append([t.tolist() for t in results])
        outcomes.append(seen)
    assert outcomes[0] == outcomes[1]


def test_an_unknown_part_with_a_history_is_refused() -> None:
    w = gw.ones(4, requires_grad=True)

    @gw.compile
    def step(x: Any, k: Any) -> Any:
        x = x * 1
        x[k] *= w
        return x

    with pytest.raises(gw.TraceError, match=r"write x\[i\] = x\[i\] \* w"):
        step(gw.ones(3, 4), gw.tensor(1))


def test_a_buffer_on_a_part_of_other_memory_is_replaced() -> None:
    box = nn.Module()
    box.register_buffer("average", gw.ones(2, 3)[1])

    @gw.compile
    def step(x: Any) -> Any:
        box.average = box.average * 0.5 + x
        return box.average.sum()

    totals = [step(gw.zeros(3)).item() for _ in range(3)]
    assert totals == [1.5, 0.75, 0.375]


def test_a_buffer_is_replaced_and_the_old_one_returned() -> None:
    box = nn.Module()
    box.register_buffer("last", gw.zeros(()))

    @gw.compile
    def step(x: Any) -> Any:
        before = box.last
        box.last = x.sum()
        return before

    assert [step(gw.full((2,), i)).item() for i in (1.0, 2.0, 3.0)] == [0, 2, 4]


def test_what_an_op_makes_is_new_memory() -> None:
    """Also where its definition in other ops returns an operand: a product of one number."""

    @gw.compile
    def step(x: Any) -> Any:
        y = x.prod(0)
        x.add_(1)
        return y

    assert step(gw.tensor(1.5)).item() == 1.5


def test_leaves_that_a_result_does_not_reach_get_no_gradient() -> None:
    a, b = gw.ones(2, requires_grad=True), gw.ones(2, requires_grad=True)
    first, _ = gw.compile(lambda: (a * 2, b * 3))()
    first.sum().backward()
    assert a.grad is not None
    assert b.grad is None


def test_a_returned_view_has_the_history_of_a_later_write() -> None:
    layer = nn.Linear(1, 3, bias=False)

    @gw.compile
    def step(x: Any) -> Any:
        y = layer(x)
        y[::2].zero_()
        return y

    step(gw.ones(1)).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[0], [1], [0]]


def test_only_the_backward_of_what_was_overwritten_fails() -> None:
    w = gw.ones(2, requires_grad=True)

    @gw.compile
    def step() -> Any:
        y = w.tanh()
        z = w * 2
        y.detach().add_(1)
        return y, z

    y, z = step()
    z.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [2, 2]
    with pytest.raises(gw.AutogradError, match="modified in place"):
        y.sum().backward()


def test_an_argument_keeps_the_history_of_a_change() -> None:
    w = gw.full((2,), 3.0, requires_grad=True)

    @gw.compile
    def step(x: Any) -> None:
        x.mul_(w)

    x = gw.full((2,), 5.0)
    step(x)
    x.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [5, 5]


def test_a_checkpointed_region_draws_again_and_the_generator_goes_on() -> None:
    outcomes = []
    for compiled in (False, True):
        gw.manual_seed(3)
        w = gw.randn(4, requires_grad=True)

        def step(x: Any, w: Any = w) -> Any:
            return gw.checkpoint(lambda t: F.dropout(t * w, 0.5), F.dropout(x, 0.3))

        called = gw.compile(step) if compiled else step
        called(gw.ones(3, 4)).sum().backward()
        assert w.grad is not None
        outcomes.append([*w.grad.tolist(), gw.rand(1).item()])
    assert outcomes[0] == pytest.approx(outcomes[1], rel=1e-6)


# -- the order of elements in memory ---------------------------------------------------------------


def _arrays(sample: Sample, form: str) -> list[Any]:
    arrays = sample.arrays(np.float32)
    if form == "columns":
        return [np.asfortranarray(a) if a.ndim > 1 else a for a in arrays]
    return [np.repeat(a, 2, -1)[..., ::2] if form == "gaps" and a.ndim else a for a in arrays]


@pytest.mark.parametrize("form", ["rows", "columns", "gaps"])
def test_the_tracer_knows_the_order_that_numpy_gives(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the forward of every traced op on real arrays as well, and compare the strides."""
    real: dict[Traced, Any] = {}
    wrong: list[str] = []
    compute, stand_in = Tracer.compute, StandIns._tensor

    def watched(tracer: Tracer, op: Any, operands: Any, attrs: Any) -> Any:
        out = compute(tracer, op, operands, attrs)
        known = [real.get(o) if isinstance(o, Traced) else o for o in operands]
        picked = op.name == "getitem" and any(not np.shape(o) for o in operands[1:])
        if any(a is None for a in known) or picked:
            return out
        with np.errstate(all="ignore"):
            try:
                made = op.forward(*known, **attrs)
            except (TypeError, ValueError, IndexError, np.linalg.LinAlgError):
                return out
        for traced, array in zip(
            *((out, made) if op.multiple else ((out,), (made,))), strict=False
        ):
            real[traced] = array = np.asarray(array)
            strides = tuple(s // array.itemsize for s in array.strides)
            claimed = traced.layout
            if array.size < 2 or claimed is None:
                continue
            if claimed == CONTIGUOUS:
                good = bool(array.flags.c_contiguous)
            else:
                pairs = zip(claimed, strides, array.shape, strict=True)
                good = all(c == s for c, s, n in pairs if n != 1)
            shares = any(isinstance(a, np.ndarray) and np.may_share_memory(a, array) for a in known)
            if not good or (traced.base is not None and traced.sure and not shares):
                wrong.append(f"{op.name} {attrs}: {claimed}, NumPy {strides} {array.shape}")
        return out

    def given(standing: StandIns, tensor: Any) -> Any:
        made = stand_in(standing, tensor)
        real[made._array] = tensor._array
        return made

    monkeypatch.setattr(Tracer, "compute", watched)
    monkeypatch.setattr(StandIns, "_tensor", given)
    for sample in all_samples():
        tensors = tuple(gw.from_numpy(a) for a in _arrays(sample, form))
        try:
            trace(lambda *x, call=sample.ours: call(gw, *x), tensors)
        except (gw.TraceError, NotImplementedError):
            pass
        real.clear()
    assert not wrong
