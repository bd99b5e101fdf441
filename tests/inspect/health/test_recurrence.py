"""health looks inside recurrent ops: the state's gradient over time, and the gates."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.inspect.health.checks import RECURRENT
from gradwalk.inspect.health.gradient_flow import Anatomy
from gradwalk.inspect.health.health import health
from gradwalk.inspect.health.monitor import Monitor
from gradwalk.inspect.health.recurrence import unroll

KINDS = {
    "lstm": lambda **options: nn.LSTM(5, 7, **options),
    "gru": lambda **options: nn.GRU(5, 7, **options),
    "tanh": lambda **options: nn.RNN(5, 7, **options),
    "relu": lambda **options: nn.RNN(5, 7, nonlinearity="relu", **options),
}


def network(kind: str, **options: Any) -> Any:
    gw.manual_seed(0)
    return KINDS[kind](**options).to(gw.float64)


def sequence(length: int) -> Any:
    gw.manual_seed(1)
    return gw.randn(length, 6, 5, dtype=gw.float64)


def gradient_after(model: Any, x: Any, t: int, loss: Any) -> float:
    """By hand: the norm of the gradient of the state after time t, run in two halves."""
    before, state = model(x[: t + 1])
    parts = [s.detach().requires_grad_() for s in (state if isinstance(state, tuple) else (state,))]
    after, _ = model(x[t + 1 :], tuple(parts) if len(parts) > 1 else parts[0])
    joined = gw.cat([before[:-1].detach(), parts[0], after])
    loss(joined).backward()
    return math.hypot(*(0.0 if p.grad is None else float(p.grad.norm()) for p in parts))


@pytest.mark.parametrize("every", [False, True], ids=["last", "every"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_the_state_is_that_of_two_halves(kind: str, every: bool) -> None:
    model, x = network(kind), sequence(9)

    def loss(out: Any) -> Any:
        return (out if every else out[-1]).square().sum()

    with gw.record() as trace:
        loss(model(x)[0]).backward()
    anatomy = Anatomy(trace, model)
    node = next(n for n in trace if n.op in RECURRENT)
    unrolled = unroll(anatomy, node, None)
    assert unrolled is not None and unrolled.lengths == [1] * 8
    for t in range(8):
        assert math.isclose(unrolled.sizes[t], gradient_after(model, x, t, loss), rel_tol=1e-9)
    chain = math.prod(f.value for f in unrolled.factors(anatomy))
    assert math.isclose(chain, unrolled.sizes[0] / unrolled.sizes[-1], rel_tol=1e-9)
    state_weight = model.weight_hh_l0.detach().numpy()
    row = np.linalg.norm(state_weight) / math.sqrt(len(state_weight))
    assert math.isclose(unrolled.factors(anatomy)[0].weight_norm or 0, row, rel_tol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_found_is_true(kind: str) -> None:
    """PyTorch's first weights forget, and a loss that reads only the last output shows it."""
    model, x = network(kind), sequence(60)
    (finding,) = health(model, model(x)[0][-1].square().sum()).findings
    assert finding.kind == "vanishing" and "59 times" in finding.chain
    assert f"({model(x)[0].grad_fn.op.name})" in finding.message
    out = model(x)[0]
    out.retain_grad()
    out[-1].square().sum().backward()
    first = gradient_after(model, x, 0, lambda out: out[-1].square().sum())
    last = float(out.grad[-1].norm())
    assert math.isclose(finding.value, first / last, rel_tol=1e-6)
    assert math.isclose(math.prod(f.value for f in finding.factors), finding.value, rel_tol=1e-6)
    # The same weights, with a loss that reads every output.
    assert health(model, model(x)[0].square().sum()).healthy


@pytest.mark.parametrize("reverse", [False, True])
def test_long_sequences_are_cut_into_pieces(reverse: bool) -> None:
    model, x = network("lstm", bidirectional=True), sequence(100)
    with gw.record() as trace:
        out = model(x)[0]
        (out[0, :, 7:] if reverse else out[-1, :, :7]).square().sum().backward()
    node = next(n for n in trace if n.op == "lstm" and n.attrs["reverse"] is reverse)
    unrolled = unroll(Anatomy(trace, model), node, None)
    assert unrolled is not None
    assert sum(unrolled.lengths) == 99 and len(unrolled.sizes) <= 26
    single = nn.LSTM(5, 7).to(gw.float64)
    suffix = "_reverse" if reverse else ""
    with gw.no_grad():
        for name, parameter in single.named_parameters():
            parameter.copy_(model.get_parameter(name + suffix))
    turned = x.flip(0) if reverse else x
    first = gradient_after(single, turned, 0, lambda out: out[-1].square().sum())
    assert math.isclose(unrolled.sizes[0], first, rel_tol=1e-8)


def test_a_loss_that_pulls_harder_at_first_is_no_explosion() -> None:
    model, x = network("lstm"), sequence(30)
    weight = gw.logspace(0, -9, 30, dtype=gw.float64)[:, None, None]
    report = health(model, (weight * model(x)[0].square()).sum())
    assert report.healthy, str(report)


def test_open_forget_gates_are_memory() -> None:
    model, x = network("lstm"), sequence(60)
    nn.init.constant_(model.bias_hh_l0[7:14], 8.0)
    assert health(model, model(x)[0][-1].square().sum()).healthy


def test_flat_gates_are_named() -> None:
    model, x = network("gru"), sequence(12)
    nn.init.constant_(model.bias_hh_l0[:7], -9.0)
    (finding,) = health(model, model(x)[0].square().sum()).findings
    assert finding.kind == "saturated" and "sigmoids of the reset gate" in finding.message
    assert finding.cause is not None and "-9.0" in finding.cause.text


def test_dead_units_of_a_recurrent_relu() -> None:
    model, x = network("relu"), sequence(12)
    nn.init.constant_(model.bias_hh_l0, -30.0)
    (finding,) = health(model, model(x)[0].square().sum()).findings
    assert (finding.kind, finding.value) == ("dead", 1.0)
    assert "nan" not in finding.chain


def test_a_monitor_and_a_file_see_the_same(tmp_path: Path) -> None:
    model, x = network("lstm"), sequence(60)
    with gw.record() as trace:
        model(x)[0][-1].square().sum().backward()
    gw.save_trace(trace, tmp_path / "lstm.trace")
    (read,) = health(model, gw.load_trace(tmp_path / "lstm.trace")).findings
    with Monitor(model, every=1) as monitor:
        model(x)[0][-1].square().sum().backward()
    (seen,) = monitor.findings
    (there,) = health(model, trace).findings
    assert read.kind == seen.kind == there.kind == "vanishing"
    assert math.isclose(read.value, there.value, rel_tol=1e-9)
    assert math.isclose(math.log(seen.value), math.log(there.value), rel_tol=0.1)  # of some rows
