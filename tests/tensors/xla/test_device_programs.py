"""Small programs as people write them for "cuda", on the CPU and on a device: the same numbers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn, optim
from tests.batches import batched

pytestmark = pytest.mark.slow
F = nn.functional
Program = Callable[[str], list[Any]]
PROGRAMS: list[Program] = []


def program(function: Program) -> Program:
    PROGRAMS.append(function)
    return function


def drawn(device: str, *shape: int, seed: int = 0) -> gw.Tensor:
    numbers = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return gw.tensor(numbers, device=device)


# -- training --------------------------------------------------------------------------------------


@program
def a_training_loop(device: str) -> list[Any]:
    model = nn.Linear(3, 2, device=device)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.mse_loss(model(drawn(device, 8, 3)), drawn(device, 8, 2, seed=1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [*losses, model.weight]


@program
def a_gan(device: str) -> list[Any]:
    maker = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3)).to(device)
    judge = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1)).to(device)
    steps = [optim.Adam(part.parameters(), lr=1e-2) for part in (judge, maker)]
    yes, no = gw.ones(5, 1, device=device), gw.zeros(5, 1, device=device)
    loss = F.binary_cross_entropy_with_logits
    found = []
    for i in range(2):
        fake = maker(gw.randn(5, 2, device=device))
        real = drawn(device, 5, 3, seed=i)
        for number in range(2):
            own = loss(judge(real), yes) + loss(judge(fake.detach()), no)
            total = own if number == 0 else loss(judge(fake), yes)
            steps[number].zero_grad()
            total.backward()
            steps[number].step()
            found.append(total.item())
    return found


@program
def every_optimizer(device: str) -> list[Any]:
    """With its state loaded into another one before the last step."""
    found: list[Any] = []
    kinds = [k for k in vars(optim).values() if isinstance(k, type) and k is not optim.Optimizer]
    for kind in kinds:
        if not issubclass(kind, optim.Optimizer) or kind is optim.SparseAdam:  # it is refused
            continue
        gw.manual_seed(0)
        model = nn.Linear(3, 2, bias=kind is not optim.Muon).to(device)  # it moves matrices
        optimizer: Any = kind(model.parameters(), lr=0.01)

        def closure(model: Any = model) -> Any:
            model.zero_grad()
            loss = model(drawn(device, 4, 3)).pow(2).mean()
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)
        again: Any = kind(model.parameters(), lr=0.01)
        again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        again.step(closure)
        found += [*model.parameters()]
    return found


@program
def schedules(device: str) -> list[Any]:
    model = nn.Linear(2, 1).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    rates = []
    kinds = optim.lr_scheduler
    for schedule in (kinds.StepLR(optimizer, 1), kinds.CosineAnnealingLR(optimizer, 5)):
        model(drawn(device, 2, 2)).sum().backward()
        optimizer.step()
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    plateau = kinds.ReduceLROnPlateau(optimizer, patience=0)
    for _ in range(3):
        plateau.step(model(drawn(device, 2, 2)).sum().detach())
    return [*rates, optimizer.param_groups[0]["lr"], model.weight]


@program
def accumulated_and_clipped(device: str) -> list[Any]:
    model = nn.Linear(3, 1).to(device)
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    for i in range(3):
        (model(drawn(device, 2, 3, seed=i)).pow(2).mean() / 3).backward()
    norms = [nn.utils.clip_grad_norm_(model.parameters(), 0.1, kind) for kind in (2.0, np.inf)]
    nn.utils.clip_grad_value_(model.parameters(), 0.01)
    optimizer.step()
    return [*norms, model.weight]


@program
def moving_average_of_weights(device: str) -> list[Any]:
    model = nn.Linear(3, 2).to(device)
    average = copy.deepcopy(model)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for i in range(2):
        model.zero_grad()
        model(drawn(device, 4, 3, seed=i)).pow(2).sum().backward()
        optimizer.step()
        with gw.no_grad():
            for mean, now in zip(average.parameters(), model.parameters(), strict=True):
                mean.mul_(0.9).add_(now, alpha=0.1)
    return [average.weight, model.weight]


@program
def a_frozen_layer(device: str) -> list[Any]:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).to(device)
    model[0].requires_grad_(False)
    model(drawn(device, 4, 3)).sum().backward()
    assert model[0].weight.grad is None
    return [model[2].weight.grad]


@program
def a_gradient_penalty(device: str) -> list[Any]:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(device)
    x = drawn(device, 5, 3).requires_grad_()
    (g,) = gw.autograd.grad(model(x).sum(), x, create_graph=True)
    penalty = ((g.norm(2, dim=1) - 1) ** 2).mean()
    penalty.backward()
    return [penalty, model[0].weight.grad]


@program
def a_checkpointed_region(device: str) -> list[Any]:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.3), nn.Linear(4, 1)).to(device)
    x = drawn(device, 6, 3).requires_grad_()
    y = gw.checkpoint(model, x)
    y.sum().backward()
    return [y, x.grad, model[0].weight.grad]


@program
def recurrence(device: str) -> list[Any]:
    model = nn.LSTM(3, 4, num_layers=2, bidirectional=True, dropout=0.1).to(device)
    out, (h, c) = model(drawn(device, 3, 2, 3))
    cell, state = nn.GRUCell(3, 4, device=device), None
    for row in drawn(device, 3, 2, 3):
        state = cell(row, state)
    (out.pow(2).mean() + state.sum()).backward()
    return [out, h, c, state, model.weight_hh_l0.grad, cell.weight_ih.grad]


@program
def attention_with_a_mask(device: str) -> list[Any]:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, device=device)
    mask = nn.Transformer.generate_square_subsequent_mask(5, device=device)
    out = model(drawn(device, 2, 5, 8), mask)
    late = gw.ones(5, 5, dtype=gw.bool, device=device).triu(1)
    other, weights = model.self_attn(out, out, out, attn_mask=late)
    other.mean().backward()
    return [out, other, weights, model.linear1.weight.grad]


@program
def a_convolution_network(device: str) -> list[Any]:
    layers = nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2)
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(48, 2)).to(device)
    images = drawn(device, 2, 1, 8, 8)
    loss = F.cross_entropy(model(images), gw.tensor([0, 1], device=device))
    loss.backward()
    mean = model[1].running_mean.clone()
    return [loss, model[0].weight.grad, mean, model.eval()(images)]


@program
def tied_weights_and_classes(device: str) -> list[Any]:
    table = nn.Embedding(5, 4, padding_idx=0).to(device)
    head = nn.Linear(4, 5, bias=False).to(device)
    head.weight = table.weight
    i = gw.tensor([0, 3, 2], device=device)
    F.cross_entropy(head(table(i)), i, label_smoothing=0.1).backward()
    return [table.weight.grad, F.one_hot(i), F.one_hot(i, 6)]


@program
def policy_gradient(device: str) -> list[Any]:
    model = nn.Linear(3, 2).to(device)
    shares = model(drawn(device, 4, 3)).softmax(-1)
    chosen = gw.multinomial(shares.detach(), 1)
    logs = shares.gather(1, chosen).log().squeeze(1)
    (-logs * gw.arange(4.0, device=device)).mean().backward()
    return [chosen, model.weight.grad]


# -- the engine ------------------------------------------------------------------------------------


@program
def hooks(device: str) -> list[Any]:
    seen: list[Any] = []
    x = drawn(device, 3).requires_grad_()
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    model = nn.Linear(3, 1).to(device)
    model.register_forward_hook(lambda m, given, out: seen.append(out.sum().item()))
    model.register_full_backward_hook(lambda m, to, of: seen.append(of[0].sum().item()))
    model(y).sum().backward()
    return [x.grad, y.grad, *seen]


@program
def writes_through_views(device: str) -> list[Any]:
    x = drawn(device, 4, 3).requires_grad_()
    y = x.clone()
    part, flat = y[1:3], y.view(12)
    part.mul_(2)
    y.t()[0].add_(1)
    flat[::2] = 0
    y.reshape(3, 4).add_(1)
    y[0] += 1
    (y**2).sum().backward()
    return [y, x.grad, part, flat]


@program
def a_function_of_ones_own(device: str) -> list[Any]:
    class Cube(gw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3, x * 2

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * x * x * g + 2 * h

    x = drawn(device, 4).requires_grad_()
    cube, double = Cube.apply(x)
    cube.sum().backward()
    return [cube, double, x.grad]


@program
def transforms(device: str) -> list[Any]:
    x = drawn(device, 3)

    def f(x: Any) -> Any:
        return (x.sin() * x).cumsum(0)

    out, back = gw.vjp(f, x)
    pushed = gw.jvp(f, (x,), (gw.ones_like(x),))
    second = gw.hessian(lambda x: (x**3).sum() + x.prod())(x)
    product = gw.hvp(lambda x: (x**4).sum(), x, x)
    return [*pushed, *back(out), gw.jacrev(f)(x), gw.jacfwd(f)(x), second, product]


# -- tensors ---------------------------------------------------------------------------------------

MAKERS: list[Callable[..., Any]] = [
    lambda **o: gw.zeros(2, **o),
    lambda **o: gw.ones(2, **o),
    lambda **o: gw.full((2,), 3.0, **o),
    lambda **o: gw.empty(2, **o),
    lambda **o: gw.eye(2, **o),
    lambda **o: gw.arange(3, **o),
    lambda **o: gw.linspace(0, 1, 3, **o),
    lambda **o: gw.logspace(0, 1, 3, **o),
    lambda **o: gw.rand(3, **o),
    lambda **o: gw.randn(3, **o),
    lambda **o: gw.randint(0, 5, (3,), **o),
    lambda **o: gw.randperm(4, **o),
    lambda **o: gw.normal(0.0, 1.0, (3,), **o),
    lambda **o: gw.tensor([1, 2], **o),
    lambda **o: gw.as_tensor([1.0], **o),
    lambda **o: gw.asarray([1.0], **o),
    lambda **o: gw.tril_indices(3, 3, **o),
    lambda **o: gw.triu_indices(3, 3, **o),
]
LIKE: list[Callable[[gw.Tensor], gw.Tensor]] = [
    *(gw.zeros_like, gw.ones_like, gw.empty_like, gw.rand_like, gw.randn_like, gw.bernoulli),
    *(F.dropout, F.gumbel_softmax, F.alpha_dropout),
    lambda x: gw.full_like(x, 2),
    lambda x: gw.randint_like(x, 0, 5),
    lambda x: x.new_zeros(2),
    lambda x: x.new_ones(2),
    lambda x: x.new_full((2,), 1.0),
    lambda x: x.new_tensor([1.0]),
    lambda x: gw.multinomial(x, 2),
    lambda x: gw.normal(x, 1.0),
    lambda x: gw.normal(x, x),
    lambda x: x.clone().uniform_(),
    lambda x: x.clone().normal_(),
    lambda x: x.clone().exponential_(),
    lambda x: x.clone().bernoulli_(x),
    lambda x: x.clone().random_(5),
]


@program
def creation(device: str) -> list[Any]:
    """The random ones draw the CPU's numbers."""
    with gw.device(device):
        found = [make() for make in MAKERS]
    found += [make(device=device) for make in MAKERS]
    found.append(gw.as_tensor(gw.ones(2), device=device))
    found += [make(gw.rand(3, device=device)) for make in LIKE]
    assert {t.device.type for t in found} == {device}
    return found


@program
def initialization(device: str) -> list[Any]:
    init = nn.init
    fill: list[Any] = [init.xavier_normal_, init.kaiming_uniform_, init.orthogonal_, init.eye_]
    fill += [init.trunc_normal_, lambda t: init.sparse_(t, 0.5), lambda t: init.constant_(t, 2.0)]
    with gw.device(device):
        return [each(gw.empty(4, 4)) for each in fill] + [init.dirac_(gw.empty(2, 2, 3))]


@program
def indices_of_both_devices(device: str) -> list[Any]:
    x, i = gw.zeros(5, 3, device=device), gw.tensor([0, 2, 2], device=device)
    x.index_put_((i,), gw.ones(3, 3, device=device), accumulate=True)
    x[gw.tensor([1])] = 5.0
    x[gw.tensor([3, 4]), gw.tensor([0, 1])] = gw.tensor([7.0, 8.0], device=device)
    x[0] = gw.ones(3)
    few = gw.tensor([True, False, True, False, False])
    return [x, x[gw.tensor([0, 1])], x[few], x[[0, 1]], x[i], x[i[0]], x[x > 1]]


@program
def masks(device: str) -> list[Any]:
    x = drawn(device, 4, 5).requires_grad_()
    positive = x.detach() > 0
    total = x.masked_fill(positive, 0.0).sum() + x[positive].pow(2).sum()
    total = total + gw.where(positive, x, gw.zeros_like(x)).mean()
    total = total + x.masked_select(~positive).sum()
    total.backward()
    return [total, x.grad, positive.sum(), positive.nonzero()]


@program
def numbers_of_the_cpu(device: str) -> list[Any]:
    x, two = drawn(device, 3).requires_grad_(), gw.tensor(2.0)
    y = (x * two + gw.tensor(3)) / two - two**2 + np.float64(1) + np.ones(3, np.float32)
    y.sum().backward()
    z = x.detach().clone()
    z.mul_(two)
    z[0] = gw.tensor(9.0)
    return [y, x.grad, z, x.detach() > 2, 1 - x.detach(), x.detach().to(gw.int8) == 300]


@program
def copies_between_devices(device: str) -> list[Any]:
    there, here = gw.zeros(3, device=device), gw.zeros(3)
    there.copy_(gw.ones(3))
    here.copy_(there * 2)
    p = drawn("cpu", 3).requires_grad_()
    q = gw.zeros(3, device=device)
    q.copy_(p)
    (q * q).sum().backward()
    like = p.detach().double().type_as(there)
    assert here.is_cpu and p.grad is not None and p.grad.is_cpu and like.device == there.device
    return [there, here, p.grad, p.detach().to(there), like]


@program
def python(device: str) -> list[Any]:
    x = gw.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    assert ("device" in repr(x)) == (device != "cpu")
    found = [
        len(x),
        [row.tolist() for row in x],
        x[0, 0].item(),
        bool(x[0, 0] > 0),
        f"{x[0, 1]:.2f}",
    ]
    found += [float(x[1, 1]), int(x[1, 0]), 2.0 in x, 7.0 in x, max(x[0]).item(), x.stride()]
    pickled, copied = pickle.loads(pickle.dumps(x.requires_grad_())), copy.deepcopy(x)
    assert pickled.device == copied.device == x.device and pickled.requires_grad
    return [*found, pickled, copied, copy.copy(x)]


@program
def state_of_models(device: str) -> list[Any]:
    cpu, there = nn.Linear(3, 2), nn.Linear(3, 2, device=device)
    there.load_state_dict({name: value * 2 for name, value in cpu.state_dict().items()})
    cpu.load_state_dict(there.state_dict())
    assert there.weight.device.type == device and cpu.weight.is_cpu
    return [there.weight, cpu.weight]


@program
def batches_of_data(device: str) -> list[Any]:
    data = gw.data.TensorDataset(drawn(device, 6, 2), gw.arange(6, device=device))
    return [part for batch in gw.data.DataLoader(data, batch_size=4) for part in batch]


def numbers(results: list[Any]) -> Iterator[Any]:
    for result in results:
        yield result.detach().cpu().numpy() if isinstance(result, gw.Tensor) else result


@batched("run", PROGRAMS, key=lambda run: run.__name__)
def test_a_program(run: Program) -> None:
    found = {}
    for device in ("cpu", "xla"):
        gw.manual_seed(0)
        found[device] = list(numbers(run(device)))
    for want, got in zip(found["cpu"], found["xla"], strict=True):
        if isinstance(want, np.ndarray):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if isinstance(want, (np.ndarray, float)):
            np.testing.assert_allclose(got, want, 2e-5, 2e-6)
        else:
            assert got == want


def test_files_go_between_devices(tmp_path: Path) -> None:
    def after(model: Any, optimizer: Any) -> list[float]:
        model.zero_grad()
        model(drawn(model.weight.device, 4, 3)).pow(2).sum().backward()
        optimizer.step()
        return model.weight.tolist()

    def made(device: str) -> tuple[Any, Any]:
        model = nn.Linear(3, 2, device=device)
        return model, optim.Adam(model.parameters())

    model, optimizer = made("xla")
    after(model, optimizer)
    gw.save(model.state_dict(), tmp_path / "weights.safetensors")
    gw.save_run(tmp_path / "run", model=model, optimizer=optimizer)
    expected = after(model, optimizer)
    loaded = gw.load(tmp_path / "weights.safetensors")
    assert loaded["weight"].is_cpu
    for device in ("cpu", "xla"):
        again, steps = made(device)
        gw.load_run(tmp_path / "run", model=again, optimizer=steps)
        assert again.weight.device.type == device
        np.testing.assert_allclose(after(again, steps), expected, 1e-5)
