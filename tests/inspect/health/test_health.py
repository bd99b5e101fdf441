"""health: silent about healthy networks, exact about its factors, and without side effects."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import gradwalk as gw
from benchmarks.models import NETWORKS, start
from gradwalk import nn
from gradwalk.inspect.health.examination import HealthReport
from gradwalk.inspect.health.findings import Factor, Limits, describe
from gradwalk.inspect.health.gradient_flow import Anatomy
from gradwalk.inspect.health.health import health
from gradwalk.inspect.health.update_sizes import step_norms
from gradwalk.inspect.trace.array_statistics import NormAndCount, norm_of, typical

cross_entropy = nn.functional.cross_entropy


def built(name: str, own_weights: bool) -> tuple[Any, Any, Any]:
    """A benchmark's network with its own or with the library's first weights, and a batch."""
    network = NETWORKS[name]
    model, inputs, labels = start(gw, network, "float32")
    if not own_weights:
        gw.manual_seed(1)
        model = network.model(gw)
    return model, gw.tensor(inputs), gw.tensor(labels)


def sigmoid_stack(depth: int = 6, width: int = 8) -> tuple[Any, Any]:
    gw.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
    h = gw.randn(32, width)
    for layer in layers:
        h = layer(h).sigmoid()
    return layers, h.square().sum()


# -- healthy networks ------------------------------------------------------------------------------


@pytest.mark.parametrize("own_weights", [True, False], ids=["benchmark", "default"])
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_healthy_networks_give_no_finding(name: str, own_weights: bool) -> None:
    model, x, y = built(name, own_weights)
    optimizer = NETWORKS[name].optimizer(gw, model.parameters(), 1e-3)
    with gw.record() as trace:
        cross_entropy(model(x), y).backward()
    recorded = health(model, trace, optimizer)
    live = health(model, cross_entropy(model(x), y), optimizer)
    if (name, own_weights) == ("lstm", False):
        # True of PyTorch's first weights: over 40 steps ×0.6 each. Checked in test_recurrence.py.
        for report in (recorded, live):
            assert [f.kind for f in report.findings] == ["vanishing"], str(report)
    else:
        assert recorded.findings == [] and recorded.healthy, str(recorded)
        assert live.findings == [], str(live)
    assert [layer.name for layer in live.layers] == [layer.name for layer in recorded.layers]
    for one, other in zip(recorded.layers, live.layers, strict=True):
        # The second call runs compiled kernels: a tie of max pooling may fall to another element.
        assert math.isclose(one.gradient, other.gradient, rel_tol=1e-3)
        assert math.isclose(one.activation, other.activation, rel_tol=1e-4)
        assert one.update is not None and math.isclose(one.update, other.update or 0, rel_tol=1e-3)


def test_gpt_layers_have_their_names_in_the_model() -> None:
    model, x, y = built("gpt", own_weights=False)
    with gw.record():
        cross_entropy(model(x), y).backward()
    names = [layer.name for layer in health(model).layers]  # of the recording that was just made
    assert names[:4] == [
        "tokens",
        "positions",
        "blocks.0.attention.qkv",
        "blocks.0.attention.project",
    ]
    assert names[-1] == "head" and len(names) == 2 + 4 * 4 + 1


# -- the chain of factors --------------------------------------------------------------------------


def test_the_chain_names_the_sigmoids_and_the_weights() -> None:
    model, loss = sigmoid_stack()
    (finding,) = health(model, loss).findings
    assert (finding.kind, finding.layer) == ("vanishing", "0")
    sigmoids = [f for f in finding.factors if f.op == "sigmoid"]
    linears = [f for f in finding.factors if f.op == "linear"]
    assert len(sigmoids) == len(linears) == 5
    assert all(0.1 < f.value <= 0.25 for f in sigmoids)
    weight = model[3].weight.detach().numpy()
    row = np.linalg.norm(weight) / math.sqrt(8)
    assert any(math.isclose(f.weight_norm or 0, row, rel_tol=1e-5) for f in linears)
    assert finding.chain.startswith("sigmoid ×0.24")
    assert "five times (weight norm 0.5885 per row)" in finding.chain
    assert finding.line is not None and "layer(h).sigmoid()" in finding.line.text


@pytest.mark.parametrize("residual", [False, True])
def test_the_product_of_the_factors_is_the_ratio_of_the_gradients(residual: bool) -> None:
    gw.manual_seed(3)
    layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(5))
    with gw.record() as trace:
        h = gw.randn(20, 6)
        for layer in layers:
            h = h + layer(h).tanh() if residual else layer(h).tanh()
        h.square().mean().backward()
    anatomy = Anatomy(trace, layers)
    top = anatomy.layers[-1]
    for layer in anatomy.layers:
        factors = anatomy.factors(layer.node)
        product = math.prod(f.value for f in factors)
        path = anatomy.main_path(layer.node)
        highest = max(other.node for other in anatomy.layers if other.node in path)
        expected = np.linalg.norm(trace.sweep.grad(layer.node)) / np.linalg.norm(
            trace.sweep.grad(highest)
        )
        assert math.isclose(product, expected, rel_tol=1e-6)
        assert residual or highest == top.node


def test_factors_in_words() -> None:
    def factor(op: str, value: float, weight: float | None = None) -> Factor:
        return Factor(0, op, value, "", None, weight)

    chain = [factor("sigmoid", 0.21)] * 6 + [factor("linear", 0.3, 0.3)] * 6 + [factor("add", 1.0)]
    assert describe(chain) == (
        "sigmoid ×0.21 six times, linear ×0.3 six times (weight norm 0.3 per row); "
        "in all ×6.252e−08".replace("−", "-")
    )
    assert describe([factor("relu", 0.0)]) == "relu ×0"
    assert describe([factor("mul", 2.0)] * 2) == "mul ×2 twice; in all ×4"
    assert describe([factor("mul", 2.0)] * 39).startswith("mul ×2 39 times")


def test_limits_can_be_moved() -> None:
    model, loss = sigmoid_stack()
    assert health(model, loss, limits=Limits(vanishing=1e-9)).healthy
    assert not health(model, loss).healthy  # the graph is still there


def test_a_gradient_of_attention_scores_may_be_small() -> None:
    """Queries and keys lie off the spine: at the start their gradients are small by nature."""
    gw.manual_seed(0)
    parts = nn.ModuleDict({name: nn.Linear(32, 32) for name in ("q", "k", "v", "out")})
    for part in (parts["q"], parts["k"]):
        nn.init.normal_(part.weight, std=0.0005)
        nn.init.zeros_(part.bias)
    x = gw.randn(4, 16, 32)
    weights = (parts["q"](x) @ parts["k"](x).mT / math.sqrt(32)).softmax(-1)
    report = health(parts, parts["out"](weights @ parts["v"](x)).square().mean())
    by_name = {layer.name: layer for layer in report.layers}
    assert by_name["q"].gradient < 1e-3 * by_name["out"].gradient
    assert report.healthy, str(report)


def test_attention_over_many_tokens_that_has_learned_nothing_is_healthy() -> None:
    """Each of 512 choices has little weight, and one token alone is read, as a classifier does."""
    gw.manual_seed(0)
    parts = nn.ModuleDict({name: nn.Linear(32, 32) for name in ("q", "k", "v", "out")})
    for name, part in parts.items():
        nn.init.normal_(part.weight, std=1e-4 if name in "qk" else 0.02)
        nn.init.zeros_(part.bias)
    x = gw.randn(2, 512, 32)
    weights = (parts["q"](x) @ parts["k"](x).mT / math.sqrt(32)).softmax(-1)
    out = parts["out"](x + weights @ parts["v"](x))
    report = health(parts, out[:, 0].square().mean())
    by_name = {layer.name: layer for layer in report.layers}
    assert by_name["k"].gradient < 1e-6 * by_name["out"].gradient
    assert report.healthy, str(report)


def test_a_weight_that_began_at_zero_is_nothing_but_its_updates() -> None:
    """LoRA's second matrix: a step moves it by its whole norm, and that is no fault."""
    for lr, is_healthy in ((5e-3, True), (0.5, False)):
        gw.manual_seed(0)
        down, up = nn.Linear(32, 4, bias=False), nn.Linear(4, 32, bias=False)
        nn.init.zeros_(up.weight)
        model, x = nn.Sequential(down, up), gw.randn(16, 32)
        optimizer = gw.optim.Adam([up.weight], lr=lr)
        (model(x) - x).square().mean().backward()
        optimizer.step()
        report = health(model, (model(x) - x).square().mean(), optimizer)
        assert (not [f for f in report.findings if f.kind == "update"]) == is_healthy, str(report)


def test_a_rate_that_a_schedule_took_to_zero_is_no_finding() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
    loss = model(gw.randn(16, 4)).square().mean()
    gw.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0)
    assert health(model, loss, optimizer).healthy
    off = gw.optim.SGD(model.parameters(), lr=0.0)
    assert [f.kind for f in health(model, loss, off).findings] == ["update"]


def test_gradients_that_are_not_finite_are_named() -> None:
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    x = gw.randn(32, 4)
    loss = (model(x) * 0).sqrt().sum()
    kinds = {finding.kind for finding in health(model, loss).findings}
    assert "exploding" in kinds


# -- units -----------------------------------------------------------------------------------------


def test_dead_channels_of_a_convolution() -> None:
    gw.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 2))
    with gw.no_grad():
        model[0].bias[:6] = -50.0
    (finding,) = health(model, model(gw.randn(16, 1, 8, 8)).square().mean()).findings
    assert (finding.kind, finding.layer, finding.value) == ("dead", "0", 0.75)
    assert "75 % of the 8 units" in finding.message


def test_few_rows_are_no_evidence_of_dead_units() -> None:
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    report = health(model, model(gw.randn(2, 8)).sum())
    assert report.layers[0].dead is None and report.healthy


@pytest.mark.parametrize(
    "relu",
    [
        lambda h: h.clamp(min=0),
        lambda h: nn.functional.relu6(h),
        lambda h: nn.functional.threshold(h, 0.0, 0.0),
        lambda h: gw.maximum(h, gw.tensor(0.0)),
    ],
    ids=["clamp", "relu6", "threshold", "maximum"],
)
def test_other_spellings_of_relu(relu: Callable[[Any], Any]) -> None:
    gw.manual_seed(0)
    model = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 1)])
    nn.init.constant_(model[0].bias, -20.0)
    loss = model[1](relu(model[0](gw.randn(32, 8)))).square().sum()
    assert [f.kind for f in health(model, loss).findings] == ["dead"]


def test_saturated_attention_that_is_one_op() -> None:
    gw.manual_seed(0)
    parts = nn.ModuleDict({name: nn.Linear(32, 32) for name in ("q", "k", "v", "out")})
    x = gw.randn(2, 4, 16, 32)

    def report(size: float) -> HealthReport:
        q, k, v = size * parts["q"](x), size * parts["k"](x), parts["v"](x)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return health(parts, parts["out"](mixed).square().mean())

    assert report(1.0).healthy
    (finding,) = report(40.0).findings
    assert finding.kind == "saturated" and "rows of attention" in finding.message


def test_a_saturated_output_is_what_a_classifier_wants() -> None:
    gw.manual_seed(0)
    model = nn.Linear(4, 1)
    nn.init.constant_(model.weight, 50.0)
    x = gw.randn(64, 4)
    out = model(x).sigmoid()
    report = health(model, nn.functional.binary_cross_entropy(out, (x.sum(1) > 0).float()[:, None]))
    assert report.healthy, str(report)


def wide_output(scale: float, outputs: int = 1) -> Any:
    gw.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, outputs))
    with gw.no_grad():
        model[2].weight *= scale
    return model


def test_an_output_that_is_flat_where_it_is_wrong() -> None:
    gw.manual_seed(0)
    x, y = gw.randn(64, 8), (gw.rand(64, 1) > 0.5).float()
    labels = gw.randint(0, 5, (64,))
    losses: dict[str, tuple[int, Callable[[Any], Any]]] = {
        "sigmoid": (1, lambda z: (z.sigmoid() - y).square().mean()),
        "absolute": (1, lambda z: (z.sigmoid() - y).abs().mean()),
        "out of reach": (1, lambda z: (z.tanh() - 50 * y).square().mean()),
        "softmax": (5, lambda z: (z.softmax(-1) - gw.eye(5)[labels]).square().mean()),
        "twice": (5, lambda z: cross_entropy(z.softmax(-1), labels)),
    }
    for name, (outputs, loss) in losses.items():
        flat, soft = wide_output(60.0, outputs), wide_output(1.0, outputs)
        with gw.record() as trace:
            loss(flat(x)).backward()
        for report in (health(flat, loss(flat(x))), health(flat, trace)):
            assert [(f.kind, f.layer) for f in report.findings] == [("saturated", "2")], name
            (finding,) = report.findings
            assert "gradient ends here" in finding.message and "×" in finding.chain
        assert health(soft, loss(soft(x))).healthy, name


def test_an_output_that_is_flat_and_right_is_healthy() -> None:
    gw.manual_seed(0)
    model, x = wide_output(60.0), gw.randn(64, 8)
    right = (model(x) > 0).float()
    nearly = right.clone()
    nearly[:2] = 1 - nearly[:2]  # two outliers are no sickness
    for target in (right, nearly):
        for loss in (
            (model(x).sigmoid() - target).square().mean(),
            nn.functional.binary_cross_entropy(model(x).sigmoid(), target),
        ):
            report = health(model, loss)
            assert report.layers[-1].saturated and report.layers[-1].saturated > 0.5
            assert report.healthy, str(report)


# -- the start -------------------------------------------------------------------------------------


def test_a_zero_head_is_not_symmetric() -> None:
    """Its own gradient differs from row to row, so it gets away from 0 in one step."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    nn.init.zeros_(model[2].weight)
    x, y = gw.randn(64, 8), gw.randint(0, 4, (64,))
    report = health(model, cross_entropy(model(x), y))
    assert report.layers[0].gradient == 0.0 and report.healthy, str(report)


def test_a_zero_residual_branch_is_healthy() -> None:
    gw.manual_seed(0)
    body, branch = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    nn.init.zeros_(branch[2].weight)
    nn.init.zeros_(branch[2].bias)
    model = nn.ModuleDict({"body": body, "branch": branch, "head": nn.Linear(8, 4)})
    h = body(gw.randn(64, 8))
    for added in (h + branch(h), branch(h) + h):
        loss = cross_entropy(model["head"](added), gw.randint(0, 4, (64,)))
        assert health(model, loss).healthy


# -- steps -----------------------------------------------------------------------------------------

OPTIMIZERS = {
    "sgd": lambda p: gw.optim.SGD(p, lr=0.1),
    "momentum": lambda p: gw.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
    "adam": lambda p: gw.optim.Adam(p, lr=1e-2),
    "adamw": lambda p: gw.optim.AdamW(p, lr=1e-2, amsgrad=True),
    "rmsprop": lambda p: gw.optim.RMSprop(p, lr=1e-3),
    "adagrad": lambda p: gw.optim.Adagrad(p, lr=1e-2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_predicted_steps_are_those_of_the_optimizer(name: str) -> None:
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = OPTIMIZERS[name](model.parameters())
    x = gw.randn(32, 4)

    def loss() -> Any:
        optimizer.zero_grad()
        return model(x).square().mean()

    for _ in range(3):
        loss().backward()
        optimizer.step()
    with gw.record() as trace:
        loss().backward()
    before = {key: p.detach().clone() for key, p in model.named_parameters()}
    state = json.dumps(optimizer.state_dict(), default=str)
    ratios = {layer.name: layer.update for layer in health(model, trace, optimizer).layers}
    assert json.dumps(optimizer.state_dict(), default=str) == state
    assert all(bool((p == before[key]).all()) for key, p in model.named_parameters())
    optimizer.step()
    for layer in ("0", "2"):
        old = before[f"{layer}.weight"]
        moved = (model.get_parameter(f"{layer}.weight").detach() - old).norm() / old.norm()
        assert math.isclose(ratios[layer] or 0, float(moved), rel_tol=1e-4)


def test_a_learning_rate_alone_is_enough() -> None:
    model, loss = sigmoid_stack()
    trace = gw.record(loss)
    (layer, *_) = health(model, trace, lr=0.5).layers
    assert layer.update is not None
    assert math.isclose(layer.update, 0.5 * layer.weight_gradient / layer.weight, rel_tol=1e-6)


def test_the_steps_of_lbfgs_are_not_predicted() -> None:
    model, loss = sigmoid_stack()
    optimizer = gw.optim.LBFGS(model.parameters())
    assert step_norms(Anatomy(gw.record(loss), model), optimizer) == {}


def test_the_line_of_the_optimizer_is_named() -> None:
    model, loss = sigmoid_stack(depth=2)
    optimizer = gw.optim.SGD(model.parameters(), lr=1e4)
    (finding,) = health(model, loss, optimizer).findings
    assert finding.kind == "update"
    assert finding.line is not None and "lr=1e4" in finding.line.text
    assert math.isclose(math.prod(f.value for f in finding.factors), finding.value, rel_tol=1e-6)
    copied = optimizer.made_at
    assert copied is not None and copied.file == __file__


# -- parameters without a gradient -----------------------------------------------------------------


def test_frozen_parameters_are_not_unused() -> None:
    gw.manual_seed(0)
    model = nn.ModuleDict({"used": nn.Linear(4, 1), "other": nn.Linear(4, 4)})
    model["other"].requires_grad_(False)
    assert health(model, model["used"](gw.randn(8, 4)).sum()).healthy
    model["other"].requires_grad_(True)
    (finding,) = health(model, model["used"](gw.randn(8, 4)).sum()).findings
    assert (finding.kind, finding.layer, finding.value) == ("unused", "other", 2.0)


# -- what it takes and gives -----------------------------------------------------------------------


def test_metrics_are_flat_floats() -> None:
    model, loss = sigmoid_stack()
    report = health(model, loss, lr=0.1)
    metrics = report.metrics()
    assert all(type(value) is float for value in metrics.values())
    assert {"loss", "findings", "gradient_norm", "0/gradient", "5/update"} <= metrics.keys()
    assert math.isclose(metrics["loss"], loss.item(), rel_tol=1e-6)
    assert metrics["findings"] == float(len(report.findings)) > 0
    loss.backward()
    squares = sum(float(p.grad.square().sum()) for p in model.parameters())
    assert math.isclose(metrics["gradient_norm"], math.sqrt(squares), rel_tol=1e-5)


def test_the_report_is_plain_data_and_fits_80_columns() -> None:
    model, x, y = built("gpt", own_weights=True)
    optimizer = gw.optim.AdamW(model.parameters(), lr=1.0)
    report = health(model, cross_entropy(model(x), y), optimizer)
    data = report.to_dict()
    assert json.loads(json.dumps(data))["findings"][0]["kind"] == "update"
    assert all(len(row) <= 80 for row in str(report).splitlines()), str(report)
    assert "<pre" in report._repr_html_()
    picture = ElementTree.fromstring(report.svg())
    texts = {text.text: text.get("class") for text in picture.iter() if text.tag.endswith("text")}
    assert texts["blocks.0.mlp.0"] == "bad" and "norm of gradient" in texts


def test_a_trace_from_a_file_gives_the_same_findings(tmp_path: Path) -> None:
    gw.manual_seed(0)
    model = nn.Sequential(*(part for _ in range(7) for part in (nn.Linear(8, 8), nn.Sigmoid())))
    with gw.record() as trace:
        model(gw.randn(32, 8)).square().sum().backward()
    gw.save_trace(trace, tmp_path / "step.trace")
    loaded = gw.load_trace(tmp_path / "step.trace")
    here, there = health(model, trace), health(None, loaded)
    assert [f.kind for f in here.findings] == ["vanishing"]
    assert [f.kind for f in there.findings] == ["vanishing"]
    assert here.findings[0].chain == there.findings[0].chain
    assert health(model, loaded).findings[0].layer == "0"


def test_statistics_are_enough_for_the_flow_of_gradients() -> None:
    model, loss = sigmoid_stack()
    assert health(model, loss).notes == []
    kept = health(model, gw.record(loss, keep="stats"))
    assert [f.kind for f in kept.findings] == ["vanishing"]
    assert "note: of 6 of 6 activations only statistics were kept" in str(kept)


def test_a_layer_that_is_dead_as_a_whole_needs_no_arrays() -> None:
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    nn.init.constant_(model[0].bias, -20.0)
    with gw.record(keep="stats") as trace:
        model(gw.randn(32, 8)).square().sum().backward()
    (finding,) = health(model, trace).findings
    assert (finding.kind, finding.layer, finding.value) == ("dead", "0", 1.0)


def test_checkpointed_layers_are_examined_as_others() -> None:
    model, _ = sigmoid_stack(8)
    x = gw.randn(32, 8)

    def half(first: int, h: Any) -> Any:
        for layer in model[first : first + 4]:
            h = layer(h).sigmoid()
        return h

    def findings(wrapped: bool) -> list[Any]:
        model.zero_grad()
        with gw.record() as trace:
            h = gw.checkpoint(half, 0, x) if wrapped else half(0, x)
            h = gw.checkpoint(half, 4, h) if wrapped else half(4, h)
            h.square().sum().backward()
        return health(model, trace).findings

    (plain,), (checkpointed,) = findings(False), findings(True)
    assert plain.chain == checkpointed.chain and plain.layer == checkpointed.layer == "0"


def test_unclear_requests_are_explained() -> None:
    a = gw.Value(2.0)
    with pytest.raises(TypeError, match="graph of Values"):
        health(None, gw.record(a * a))
    _, loss = sigmoid_stack()
    report = health(nn.Linear(1, 1), loss)
    assert report.notes and "no layer was found" in report.notes[0]
    assert [f.layer for f in report.findings] == ["weight", "bias"]  # of the model itself


@pytest.mark.slow
def test_a_long_recurrence_is_examined_without_recursion() -> None:
    gw.manual_seed(0)
    cell = nn.Linear(4, 4)
    nn.init.orthogonal_(cell.weight)
    h = gw.randn(2, 4)
    for _ in range(5000):
        h = cell(h)
    report = health(cell, h.square().mean())
    assert len(report.layers) == 5000
    assert len(str(report).splitlines()) < 60


def test_sizes() -> None:
    tiny = np.full(4, 1e-25, np.float32)
    assert math.isclose(norm_of(tiny), 2e-25, rel_tol=1e-6)  # its square is 0 in float32
    assert math.isclose(norm_of(np.full(4, 1e25, np.float32)), 2e25, rel_tol=1e-6)
    assert math.isnan(norm_of(np.array([np.nan], np.float32)))
    assert norm_of(None) == 0.0 and typical(NormAndCount(6.0, 4)) == 3.0
    assert NormAndCount.of(np.array([3.0, 4.0])) == NormAndCount(5.0, 2)
