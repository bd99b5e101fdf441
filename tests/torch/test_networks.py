"""What people train: each gradient is PyTorch's, the sick are diagnosed, their twins quiet."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import gradwalk as gw
from tests.torch import networks
from tests.torch.holding import Holding, compare_with_autograd


def seeded(build):
    torch.manual_seed(0)
    return build()


HEALTHY = {
    "resnet": (networks.ResNet, networks.images),
    "lstm": (networks.Sentiment, networks.sentences),
    "two heads": (lambda: networks.TwoHeads(False), networks.rows),
    "relu": (lambda: networks.with_relu(0.1), networks.rows),
    "recurrence": (lambda: networks.Recurrence(1.0), lambda: networks.rows(width=16, classes=2)),
    "out of place": (lambda: networks.Overwritten(False), networks.rows),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_every_node_has_the_gradient_that_pytorch_gives_it(name):
    build, batch = HEALTHY[name]
    model, (x, y) = seeded(build), batch()
    with Holding() as trace:
        loss = F.cross_entropy(model(x), y)
        loss.backward(retain_graph=True)
    assert compare_with_autograd(trace, loss) >= 9


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_network_is_quiet(name):
    build, batch = HEALTHY[name]
    model = seeded(build)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    report = gw.testing.assert_healthy(model, F.cross_entropy, batch(), optimizer=optimizer)
    assert report.layers


@pytest.mark.parametrize("name", HEALTHY)
def test_all_tools_read_it(name):
    build, batch = HEALTHY[name]
    model, (x, y) = seeded(build), batch()
    with gw.torch.record() as trace:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
    first = next(model.parameters())
    assert not gw.find_nan(trace)
    answer = gw.why(first, trace)
    np.testing.assert_array_equal(answer.gradient, first.grad.numpy())
    assert gw.why_no_grad(first, trace).verdict == "flows"
    assert gw.saved_memory(trace).total > 0
    walk = gw.walk(trace)
    while not walk.done:
        walk.step()
    assert walk.position == len(walk) > len(trace.sweep.visits)
    checked = gw.audit(trace)
    assert not checked and checked.checked >= len(trace.sweep.visits) - len(checked.skipped)
    right = gw.run_recipes(first, trace)["right"]
    np.testing.assert_allclose(right.got, first.grad.numpy(), 1e-3, 1e-6)


def test_a_detached_branch():
    model, (x, y) = seeded(lambda: networks.TwoHeads(True)), networks.rows()
    with gw.torch.record() as trace:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
    found = gw.why_no_grad(model.enc.weight, trace)
    assert (found.verdict, found.kind) == ("none", "detach")
    assert found.line.text == "features = features.detach()"
    report = gw.health(model, trace)
    assert [f.kind for f in report.findings] == ["unused"]


def test_dead_units():
    model, (x, y) = seeded(lambda: networks.with_relu(-10.0)), networks.rows()
    with gw.torch.record() as trace:
        F.cross_entropy(model(x), y).backward()
    (finding,) = [f for f in gw.health(model, trace).findings if f.kind == "dead"]
    assert finding.layer == "0"
    assert gw.why_no_grad(model[0].weight, trace).verdict == "zero"


def test_a_recurrence_that_explodes():
    model = seeded(lambda: networks.Recurrence(1.6))
    with gw.torch.record() as trace:
        x, y = networks.rows(width=16, classes=2)
        F.cross_entropy(model(x), y).backward()
    (finding,) = [f for f in gw.health(model, trace).findings if f.kind == "exploding"]
    assert finding.layer.startswith("cell") and finding.line.text == "x = self.cell(x)"


def test_a_resnet_whose_block_starts_at_zero():
    with gw.torch.record() as trace:
        model = seeded(networks.ResNet)
        torch.nn.init.zeros_(model.layer1[0].conv1.weight)  # instead of the last norm's weight
        x, y = networks.images()
        F.cross_entropy(model(x), y).backward()
    (finding,) = [f for f in gw.health(model, trace).findings if f.kind == "initialisation"]
    assert finding.layer == "layer1.0.conv1"
    assert finding.cause.text.startswith("torch.nn.init.zeros_(model.layer1[0].conv1.weight)")


def test_an_lstm_whose_gates_are_flat():
    with gw.torch.record() as trace:
        model = seeded(networks.Sentiment)
        torch.nn.init.normal_(model.embedding.weight, std=300.0)
        words, y = networks.sentences()
        F.cross_entropy(model(words), y).backward()
    kinds = {(f.kind, f.layer) for f in gw.health(model, trace).findings}
    assert ("saturated", "lstm") in kinds


def test_an_lstm_with_a_bad_word():
    model, (words, y) = seeded(networks.Sentiment), networks.sentences()
    with torch.no_grad():
        model.embedding.weight[7] = float("nan")
    words[2, 3] = 7
    with gw.torch.record() as trace:
        F.cross_entropy(model(words), y).backward()
    found = gw.find_nan(trace)
    assert found and found.name == "embedding.weight"


def test_a_gan_whose_loss_is_a_logarithm_of_zero():
    gan = seeded(lambda: networks.Gan(by_hand=True))
    with torch.no_grad():
        gan.discriminator[2].bias.fill_(-200.0)
    torch.manual_seed(2)
    with gw.torch.record() as trace:
        gan.step(torch.randn(16, 2), torch.randn(16, 4))
    found = gw.find_nan(trace)
    assert found.op == "log"
    assert found.line.text == "return -torch.log(torch.sigmoid(guess)).mean()"


def test_an_overwritten_value():
    model, (x, y) = seeded(lambda: networks.Overwritten(True)), networks.rows()
    with gw.torch.record(), pytest.raises(RuntimeError, match="inplace operation") as caught:
        F.cross_entropy(model(x), y).backward()
    (note,) = caught.value.__notes__
    assert "sigmoid" in note and "gate.mul_(2)" in note


def test_a_gan_with_two_optimizers():
    def run(recorded):
        gan = seeded(networks.Gan)
        torch.manual_seed(2)
        real, noise = torch.randn(16, 2), torch.randn(16, 4)
        if not recorded:
            return gan, [gan.step(real, noise) for _ in range(2)], None
        with gw.torch.record() as trace:
            losses = [gan.step(real, noise) for _ in range(2)]
        return gan, losses, trace

    bare, without, _ = run(False)
    gan, losses, trace = run(True)
    assert all(
        torch.equal(a, b) for pair in zip(without, losses, strict=True) for a, b in zip(*pair)
    )
    assert len(trace.sweeps) == 4
    for one, other in ((bare.generator, gan.generator), (bare.discriminator, gan.discriminator)):
        for before, after in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(before, after)
    assert not gw.find_nan(trace)
    generator = gan.generator[0].weight
    np.testing.assert_array_equal(trace.grad(generator), generator.grad.numpy())
