"""Accumulation, determinism, learning, overfitting, two models: sick and healthy twins."""

import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk.testing import (
    assert_accumulates,
    assert_all_parameters_learn,
    assert_deterministic,
    assert_gradients_match,
    assert_overfits_one_batch,
)
from tests.testing.engines import both_engines


def net(lib, *, middle=None, last=None):
    lib.manual_seed(0)
    layers = [lib.nn.Linear(4, 16), middle or lib.nn.Tanh(), last or lib.nn.Linear(16, 3)]
    return lib.nn.Sequential(*layers)


def batch(lib, rows=8):
    lib.manual_seed(1)
    return lib.randn(rows, 4), lib.arange(rows) % 3


def fails(check, *arguments, match, **keywords):
    with pytest.raises(AssertionError, match=match) as caught:
        check(*arguments, **keywords)
    return " ".join(str(caught.value).split())


# -- accumulation ----------------------------------------------------------------------------------


@both_engines
@pytest.mark.parametrize("parts", [None, 2, 4])
def test_a_mean_accumulates_and_a_sum_is_told_by_its_factor(lib, parts):
    assert_accumulates(net(lib), lib.nn.CrossEntropyLoss(), batch(lib), parts=parts)
    loss = lib.nn.CrossEntropyLoss(reduction="sum")
    text = fails(
        assert_accumulates, net(lib), loss, batch(lib), parts=parts, match="times as large"
    )
    assert f"are {parts or 8} times as large" in text and 'reduction="mean"' in text
    assert "op: " in text and "at: " in text


@both_engines
def test_dropout_does_not_disturb_accumulation(lib):
    model = net(lib, middle=lib.nn.Dropout(0.5))
    assert_accumulates(model, lib.nn.CrossEntropyLoss(), batch(lib))
    assert_accumulates(
        net(lib),
        lambda output, y: lib.nn.functional.cross_entropy(
            lib.nn.functional.dropout(output, 0.0), y
        ),
        batch(lib),
    )


@both_engines
@pytest.mark.parametrize("parts", [2, 8])
def test_batch_norm_does_not_accumulate(lib, parts):
    model = net(lib, middle=lib.nn.BatchNorm1d(16))
    text = fails(
        assert_accumulates, model, lib.nn.CrossEntropyLoss(), batch(lib), parts=parts,
        match="influence one another",
    )  # fmt: skip
    assert "batch norm in train mode" in text and "in: 1" in text
    assert_accumulates(model.eval(), lib.nn.CrossEntropyLoss(), batch(lib), parts=parts)


@both_engines
def test_a_mean_over_valid_rows_does_not_accumulate(lib):
    x, _ = batch(lib)
    y = lib.tensor([0, 1, 2, -100, 1, -100, -100, 0])
    loss = lib.nn.CrossEntropyLoss(ignore_index=-100)
    text = fails(assert_accumulates, net(lib), loss, (x, y), parts=2, match="another gradient")
    assert "0.weight" in text and "valid tokens" in text and "op: " in text


def test_rows_that_cannot_be_divided_are_told():
    with pytest.raises(ValueError, match="7 rows cannot be divided"):
        assert_accumulates(net(gw), gw.nn.CrossEntropyLoss(), batch(gw, 7), parts=3)


# -- determinism -----------------------------------------------------------------------------------


@both_engines
def test_randomness_outside_the_seed_is_named(lib):
    model = net(lib, middle=lib.nn.Dropout(0.5))
    assert_deterministic(model, lib.nn.CrossEntropyLoss(), batch(lib))

    def loss(model, x, y):
        noise = np.random.default_rng().random((8, 4)).astype(np.float32)
        noisy = x + lib.tensor(noise)
        return lib.nn.functional.cross_entropy(model(noisy), y)

    text = fails(assert_deterministic, model, loss, batch(lib), match="not deterministic")
    assert "noisy = x" in text or "lib.tensor(noise)" in text


@both_engines
def test_a_backward_that_differs_is_named(lib):
    class Noisy(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * float(np.random.default_rng().random())

    def loss(model, x, y):
        return lib.nn.functional.cross_entropy(Noisy.apply(model(x)), y)

    text = fails(assert_deterministic, net(lib), loss, batch(lib), match="not deterministic")
    assert "grad of: 0.weight" in text and "test_steps.py" in text


# -- learning --------------------------------------------------------------------------------------


@both_engines
def test_every_parameter_learns(lib):
    model = net(lib)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss = lib.nn.CrossEntropyLoss()
    before = [p.detach().clone() for p in model.parameters()]
    assert_all_parameters_learn(model, loss, batch(lib))
    assert_all_parameters_learn(model, loss, batch(lib), optimizer=optimizer)
    assert all((a == b).all() for a, b in zip(before, model.parameters(), strict=True))
    assert not optimizer.state_dict()["state"]
    model[0].weight.requires_grad_(False)  # frozen on purpose
    assert_all_parameters_learn(model, loss, batch(lib))


@both_engines
def test_a_replaced_layer_is_in_no_optimizer(lib):
    model = net(lib)
    optimizer = lib.optim.Adam(model.parameters(), lr=0.1)
    model[2] = lib.nn.Linear(16, 3)
    arguments = model, lib.nn.CrossEntropyLoss(), batch(lib)
    text = fails(assert_all_parameters_learn, *arguments, optimizer=optimizer, match="not update")
    assert "2.weight, 2.bias" in text and "replaced" in text and "in: 2" in text
    assert_all_parameters_learn(*arguments, optimizer=optimizer, ignore=("2.*",))


@both_engines
def test_a_cut_and_a_dead_layer_are_named(lib):
    loss = lib.nn.CrossEntropyLoss()

    def cut(model, x, y):
        return loss(model[2](model[1](model[0](x)).detach()), y)

    text = fails(assert_all_parameters_learn, net(lib), cut, batch(lib), match="no gradient")
    assert "0.weight, 0.bias" in text and "test_steps.py" in text and "detach()" in text
    dead = net(lib, middle=lib.nn.ReLU())
    dead[0].bias.data.fill_(-100.0)
    text = fails(assert_all_parameters_learn, dead, loss, batch(lib), match="no gradient")
    assert "0.weight" in text and "relu" in text.lower()


@both_engines
def test_a_learning_rate_of_zero_is_told(lib):
    model = net(lib)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.0)
    arguments = model, lib.nn.CrossEntropyLoss(), batch(lib)
    text = fails(assert_all_parameters_learn, *arguments, optimizer=optimizer, match="not change")
    assert "learning rate of their group is 0" in text


@both_engines
def test_what_starts_at_zero_on_purpose_learns(lib):
    class LoRA(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.base = lib.nn.Linear(4, 3)
            self.a = lib.nn.Linear(4, 2, bias=False)
            self.b = lib.nn.Linear(2, 3, bias=False)
            self.b.weight.data.fill_(0.0)

        def forward(self, x):
            return self.base(x) + self.b(self.a(x))

    assert_all_parameters_learn(LoRA(), lib.nn.CrossEntropyLoss(), batch(lib))


# -- overfitting -----------------------------------------------------------------------------------


@both_engines
def test_a_batch_is_learnt_by_heart_and_unlearnt(lib):
    model = net(lib)
    before = [p.detach().clone() for p in model.parameters()]
    assert_overfits_one_batch(model, lib.nn.CrossEntropyLoss(), batch(lib))
    assert all((a == b).all() for a, b in zip(before, model.parameters(), strict=True))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.5)
    assert_overfits_one_batch(model, lib.nn.CrossEntropyLoss(), batch(lib), optimizer=optimizer)


@both_engines
def test_probabilities_instead_of_logits_do_not_fit(lib):
    loss = lib.nn.CrossEntropyLoss()
    sick = lib.nn.Sequential(net(lib), lib.nn.Softmax(-1))
    text = fails(assert_overfits_one_batch, sick, loss, batch(lib), match="does not overfit")
    assert "op: softmax" in text and "Fix:" in text and "probabilities" in text


@both_engines
def test_a_loss_that_broadcasts_is_named(lib):
    def loss(output, target):
        return ((output[:, :1] - target) ** 2).mean()

    data = batch(lib)[0], lib.randn(8)
    for check in (assert_overfits_one_batch, assert_accumulates):
        text = fails(check, net(lib), loss, data, match="broadcasts")
        assert "op: sub" in text and "test_steps.py" in text
    assert_accumulates(net(lib), lambda o, t: ((o[:, 0] - t) ** 2).mean(), data)


@both_engines
def test_a_cut_that_keeps_a_batch_from_being_learnt_is_named(lib):
    def cut(model, x, y):
        return lib.nn.functional.mse_loss(model[2](model[1](model[0](x)).detach()) * 0, y_of(lib))

    text = fails(assert_overfits_one_batch, net(lib), cut, batch(lib), match="does not overfit")
    assert "0.weight" in text and "test_steps.py" in text


def y_of(lib):
    return lib.ones(8, 3)


# -- two models ------------------------------------------------------------------------------------


def twin(lib, model, **layers):
    other = net(lib, **layers)
    other.load_state_dict(model.state_dict())
    return other


@both_engines
def test_equal_models_match_and_another_activation_is_named(lib):
    loss, model = lib.nn.CrossEntropyLoss(), net(lib, middle=lib.nn.GELU())
    assert_gradients_match(model, twin(lib, model, middle=lib.nn.GELU()), loss, batch(lib))
    other = twin(lib, model, middle=lib.nn.GELU(approximate="tanh"))
    text = fails(
        assert_gradients_match, model, other, loss, batch(lib), match="different", rtol=1e-6
    )
    assert "gelu" in text and "0.weight" in text


@both_engines
def test_another_reduction_is_named(lib):
    model, losses = net(lib), [lib.nn.MSELoss(reduction=how) for how in ("mean", "sum")]
    data = batch(lib)[0], lib.randn(8, 3)
    text = fails(
        assert_gradients_match,
        model,
        model,
        losses[0],
        data,
        loss_fn_b=losses[1],
        match="different",
    )
    assert "mean" in text and "sum" in text and "op: " in text


@both_engines
def test_other_weights_and_missing_ones_are_told(lib):
    loss, model = lib.nn.CrossEntropyLoss(), net(lib)
    other = twin(lib, model)
    other[2].weight.data.mul_(2.0)
    text = fails(assert_gradients_match, model, other, loss, batch(lib), match="different values")
    assert "2.weight" in text
    deeper = lib.nn.Sequential(*model, lib.nn.Linear(3, 3))
    fails(assert_gradients_match, deeper, model, loss, batch(lib), match="no counterpart")
    text = fails(assert_gradients_match, model, deeper, loss, batch(lib), match="has not")
    assert "3.weight" in text


def test_models_of_two_engines_match():
    theirs, ours = net(torch), net(gw)
    ours.load_state_dict({name: gw.tensor(v.numpy()) for name, v in theirs.state_dict().items()})
    losses = torch.nn.CrossEntropyLoss(), gw.nn.CrossEntropyLoss()
    assert_gradients_match(theirs, ours, losses[0], batch(torch), loss_fn_b=losses[1])
    assert_gradients_match(ours, theirs, losses[1], batch(gw), loss_fn_b=losses[0])
    ours[1] = gw.nn.Sigmoid()
    arguments = theirs, ours, losses[0], batch(torch)
    text = fails(assert_gradients_match, *arguments, loss_fn_b=losses[1], match="different")
    assert "loss: " in text


def test_weights_under_other_names_and_transposed_match():
    class Conv1D(torch.nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.w = torch.nn.Parameter(linear.weight.detach().T.clone())
            self.c = torch.nn.Parameter(linear.bias.detach().clone())

        def forward(self, x):
            return x @ self.w + self.c

    torch.manual_seed(0)
    linear = torch.nn.Linear(4, 3)
    assert_gradients_match(linear, Conv1D(linear), torch.nn.CrossEntropyLoss(), batch(torch))
