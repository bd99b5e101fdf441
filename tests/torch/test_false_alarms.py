"""Programs that look sick and are not, and wrong custom Functions, on PyTorch and on gradwalk."""

import math

import pytest
import torch

import gradwalk as gw
from gradwalk.inspect.mistakes.audit import audit

pytestmark = pytest.mark.filterwarnings("ignore")
ENGINES = pytest.mark.parametrize("lib", (torch, gw), ids=("torch", "gradwalk"))
INFINITY = math.inf


def recording(lib):
    return gw.torch.record() if lib is torch else gw.record()


def function(lib, name, forward, backward):
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name, (lib.autograd.Function,), methods)


def audited(lib, made, width):
    """The audit of a network with a custom Function between two layers."""
    lib.manual_seed(0)
    first, last = lib.nn.Linear(width, width), lib.nn.Linear(width, 2)
    with recording(lib) as trace:
        last(made.apply(first(lib.randn(width, width)))).square().mean().backward()
    return audit(trace)


def saved(compute):
    """A forward that saves its input."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return compute(x)

    return forward


def pulled(compute):
    """A backward that reads the saved input."""
    return lambda ctx, g: compute(g, *ctx.saved_tensors)


def softmax(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


# The forward, a wrong backward, the right one, and what the wrong one is called.
WRONG = {
    "sign": (
        lambda x: x.tanh(),
        lambda g, x: -g * (1 - x.tanh() ** 2),
        lambda g, x: g * (1 - x.tanh() ** 2),
        "wrong sign",
    ),
    "factor": (
        lambda x: x.exp() * 2,
        lambda g, x: g * x.exp(),
        lambda g, x: g * x.exp() * 2,
        "a constant factor",
    ),
    "mask": (
        lambda x: x.clamp(min=0),
        lambda g, x: g,
        lambda g, x: g * (x > 0),
        "too much",
    ),
    "term": (
        softmax,
        lambda g, x: g * softmax(x),
        lambda g, x: softmax(x) * (g - (g * softmax(x)).sum(-1, keepdim=True)),
        "",
    ),
    "transposed": (
        lambda x: x.mT.exp(),
        lambda g, x: g * x.exp(),
        lambda g, x: g.mT * x.exp(),
        "",
    ),
}


@ENGINES
@pytest.mark.parametrize("width", (6, 40))  # 40 × 40 is more than is looked at one by one
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_custom_function_is_found_and_its_twin_is_not(lib, width, case):
    forward, wrong, right, words = WRONG[case]
    report = audited(lib, function(lib, "Own", saved(forward), pulled(wrong)), width)
    (fault,) = report.faults
    assert fault.op == "Own" and fault.text.startswith(words), str(fault)
    healthy = audited(lib, function(lib, "Own", saved(forward), pulled(right)), width)
    assert not healthy and not healthy.skipped, str(healthy)


@ENGINES
@pytest.mark.parametrize(
    ("forward", "backward", "words"),
    (
        (lambda x: x.reshape(x.shape), lambda g, x: -0.1 * g, "returns its input"),
        (lambda x: x.round(), lambda g, x: g, "flat"),
    ),
    ids=("gradient reversal", "straight-through"),
)
def test_a_backward_that_is_no_derivative_on_purpose_is_said_and_not_called_wrong(
    lib, forward, backward, words
):
    report = audited(lib, function(lib, "Meant", saved(forward), pulled(backward)), 6)
    assert not report and words in "".join(report.skipped.values())
    assert "not checked: Meant" in str(report)


MASKS = {
    "masked_fill": lambda lib, s, keep: s.masked_fill(keep == 0, -INFINITY).softmax(-1),
    "added": lambda lib, s, keep: (s + keep.log()).softmax(-1),
    "where": lambda lib, s, keep: lib.where(keep == 1, s, lib.tensor(-INFINITY)).softmax(-1),
    "log_softmax": lambda lib, s, keep: (
        s.masked_fill(keep == 0, -INFINITY).log_softmax(-1).masked_fill(keep == 0, 0.0)
    ),
    "large": lambda lib, s, keep: (s + (1 - keep) * -1e9).softmax(-1),
    "sharp": lambda lib, s, keep: (s * 50).masked_fill(keep == 0, -INFINITY).softmax(-1),
}


@ENGINES
@pytest.mark.parametrize("name", MASKS)
def test_a_causal_mask_is_no_fault_of_the_backward_pass(lib, name):
    lib.manual_seed(0)
    q = lib.randn(2, 24, 16).requires_grad_()  # 576 scores per head: more than 400
    with recording(lib) as trace:
        out = MASKS[name](lib, q @ q.mT / 4, lib.ones(24, 24).tril())
        (out * lib.randn(2, 24, 24)).sum().backward()
    report = audit(trace)
    assert not report and not report.skipped, str(report)
    assert "wrong" not in str(gw.why(q, trace))
    assert not gw.find_nan(trace)


@ENGINES
def test_lora_starts_at_zero_and_that_is_no_fault(lib):
    lib.manual_seed(0)
    nn = lib.nn
    parts = {"base": nn.Linear(8, 8), "down": nn.Linear(8, 2, bias=False)}
    model = nn.ModuleDict(parts | {"up": nn.Linear(2, 8, bias=False), "head": nn.Linear(8, 1)})
    nn.init.zeros_(model["up"].weight)
    for parameter in model["base"].parameters():
        parameter.requires_grad_(False)
    optimizer = lib.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    x = lib.randn(16, 8)
    with recording(lib) as trace:
        h = model["base"](x) + model["up"](model["down"](x))
        model["head"](h.tanh()).square().mean().backward()
    assert gw.health(model, trace, optimizer).findings == []
    answer = gw.why_no_grad(model["down"].weight, trace)
    assert (answer.verdict, answer.passing, bool(answer)) == ("zero", True, False)
    assert "receives a gradient" in answer.reason and answer.fix.startswith("none is needed")


@ENGINES
def test_what_the_optimizer_does_not_hold_is_frozen_on_purpose(lib):
    lib.manual_seed(0)
    model = lib.nn.ModuleDict({"body": lib.nn.Linear(8, 8), "head": lib.nn.Linear(8, 1)})
    x = lib.randn(16, 8)
    with recording(lib) as trace:
        with lib.no_grad():
            h = model["body"](x)
        model["head"](h).square().mean().backward()
    only_head = lib.optim.SGD(model["head"].parameters(), lr=0.01)
    assert gw.health(model, trace, only_head).findings == []
    everything = lib.optim.SGD(model.parameters(), lr=0.01)
    (finding,) = gw.health(model, trace, everything).findings
    assert finding.kind == "unused" and "no_grad():" in str(finding.line)
    assert "remove" not in finding.change


@ENGINES
def test_attention_that_learned_to_be_sharp_is_not_called_saturated(lib):
    """Queries and keys pick one token each: the one that the loss wants, or one too far."""
    for shift in (0, 1):  # without a shift it picks what the loss wants
        lib.manual_seed(0)
        model = lib.nn.ModuleDict({k: lib.nn.Linear(16, 16, bias=False) for k in "qkvo"})
        for name, layer in model.items():
            lib.nn.init.orthogonal_(layer.weight)
            if name in "qk":
                layer.weight.data.copy_(10 * lib.eye(16))
        tokens = lib.eye(16)
        picked = lib.roll(tokens, shift, 0)
        wanted = model["o"](model["v"](tokens)).detach() + 0.05 * lib.randn(16, 16)
        with recording(lib) as trace:
            weights = (model["q"](picked) @ model["k"](tokens).mT).softmax(-1)
            out = model["o"](weights @ model["v"](tokens))
            (out - wanted).square().sum().backward()
        kinds = [finding.kind for finding in gw.health(model, trace).findings]
        assert ("saturated" in kinds) == bool(shift), kinds


def test_a_norm_in_bfloat16_is_audited_as_one():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(20, 64), torch.nn.LayerNorm(64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )
    with gw.torch.record() as trace, torch.autocast("cpu", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(32, 20)), torch.arange(32) % 10)
        loss.backward()
    assert audit(trace).faults == []
