"""Small models and training steps; the tests run each one eagerly and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk import nn

F = nn.functional
Step = Callable[..., Any]
Make = Callable[[], tuple[nn.Module, Any, Step]]
Batch = tuple[Any, ...]


def numbers(*shape: int, seed: int = 0) -> gw.Tensor:
    """Normal numbers, in the default dtype."""
    drawn = np.random.default_rng(seed).normal(size=shape)
    return gw.tensor(drawn.astype(gw.get_default_dtype()))


def classes(count: int, *shape: int, seed: int = 0) -> gw.Tensor:
    """Class indices."""
    return gw.tensor(np.random.default_rng(seed).integers(0, count, shape))


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3)
    )  # fmt: skip


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(6 * 3 * 3, 3),
    )  # fmt: skip


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.cells = kind(4, 8, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.out(self.cells(x)[0][:, -1])


class Block(nn.Module):
    """A transformer block with dropout, a causal mask, and the embedding as its output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)
        self.rest = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 8))
        self.out = nn.Linear(8, 11, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, index: Any) -> Any:
        x = self.embedding(index)  # (batch, time, width)
        y = self.first(x)
        hidden = gw.triu(gw.full((index.shape[1],) * 2, -np.inf), 1)
        x = x + self.attention(y, y, y, attn_mask=hidden, need_weights=False)[0]
        x = x + self.rest(self.second(x))
        return self.out(x).reshape(-1, 11)


class Stateful(nn.Module):
    """Keeps its hidden state as an attribute, its steps as a number, and a normed weight."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.utils.weight_norm(nn.Linear(4 + 5, 5))
        self.out = nn.Linear(5, 3)
        self.hidden = gw.zeros(1, 5)
        self.register_buffer("last", gw.zeros(()))

    def forward(self, x: Any) -> Any:
        both = gw.cat([x, self.hidden.expand(x.shape[0], 5)], 1)
        h = self.cell(both).tanh()
        self.hidden = h.mean(0, keepdim=True).detach()
        self.last = h.detach().sum()
        return self.out(h)


def training(make: Callable[[], nn.Module], optimizer: Any, loss: Any = F.cross_entropy) -> Make:
    """zero_grad, forward, backward, step."""

    def made() -> tuple[nn.Module, Any, Step]:
        model = make()
        moves = optimizer(model.parameters())

        def step(x: Any, y: Any) -> Any:
            moves.zero_grad()
            found = loss(model(x), y)
            found.backward()
            moves.step()
            return found

        return model, moves, step

    return made


def clipped(largest: float, kind: float = 2.0) -> Make:
    def made() -> tuple[nn.Module, Any, Step]:
        model = mlp()
        moves = gw.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, y: Any) -> Any:
            loss = F.cross_entropy(model(x), y)
            moves.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), largest, kind)
            nn.utils.clip_grad_value_(model.parameters(), 0.05)
            moves.step()
            return loss.detach() + norm

        return model, moves, step

    return made


def accumulating() -> tuple[nn.Module, Any, Step]:
    """Several backward passes in one step."""
    model = mlp()
    moves = gw.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        moves.zero_grad()
        total = 0
        for part in range(2):
            some = slice(part * 5, part * 5 + 5)
            loss = F.cross_entropy(model(x[some]), y[some]) / 2
            loss.backward()
            total = total + loss.detach()
        moves.step()
        return total

    return model, moves, step


def only_backward() -> tuple[nn.Module, Any, Step]:
    """Gradients that grow from call to call."""
    model = mlp()

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return model, gw.optim.SGD(model.parameters(), lr=0.1), step


def second_derivatives() -> tuple[nn.Module, Any, Step]:
    """u'' + u = 0."""
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    moves = gw.optim.Adam(model.parameters(), lr=0.01)

    def step(x: Any) -> Any:
        moves.zero_grad()
        x = x.detach().requires_grad_()
        u = model(x)
        (du,) = gw.autograd.grad(u.sum(), x, create_graph=True)
        (ddu,) = gw.autograd.grad(du.sum(), x, create_graph=True)
        loss = ((ddu + u) ** 2).mean()
        loss.backward()
        moves.step()
        return loss

    return model, moves, step


def transforms() -> tuple[nn.Module, Any, Step]:
    """grad, jvp, hvp and a Jacobian inside."""
    model = mlp()
    moves = gw.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        moves.zero_grad()
        slope = gw.grad(lambda z: (model(z) ** 2).sum())(x)
        curve = gw.hvp(lambda z: (z**3).sum(), x, slope)
        _, moved = gw.jvp(model, (x,), (gw.ones_like(x),))
        matrix = gw.jacrev(lambda z: z.tanh() * 2)(x[0])
        loss = F.cross_entropy(model(x), y) + (slope**2).mean() + (curve**2).mean() * 0.01
        loss = loss + moved.mean() + matrix.sum()
        loss.backward()
        moves.step()
        return loss

    return model, moves, step


def checkpointed() -> tuple[nn.Module, Any, Step]:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 3))
    moves = gw.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        moves.zero_grad()
        loss = F.cross_entropy(gw.checkpoint(model, x), y)
        loss.backward()
        moves.step()
        return loss

    return model, moves, step


def groups() -> tuple[nn.Module, Any, Step]:
    model = mlp()
    weights = list(model.parameters())
    moves = gw.optim.AdamW(
        [{"params": weights[:2], "lr": 0.1}, {"params": weights[2:], "weight_decay": 0.0}], lr=0.01
    )

    def step(x: Any, y: Any) -> Any:
        rate = moves.param_groups[0]["lr"]  # read just before the step
        loss = F.cross_entropy(model(x), y) * (1 + rate)
        moves.zero_grad()
        loss.backward()
        moves.step()
        return loss

    return model, moves, step


def by_hand() -> tuple[nn.Module, Any, Step]:
    """Gradient descent without an optimizer, and a running average of the weights."""
    model = mlp()
    average = [p.detach().clone() for p in model.parameters()]

    def step(x: Any, y: Any) -> Any:
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with gw.no_grad():
            for p, mean in zip(model.parameters(), average, strict=True):
                p -= 0.1 * p.grad
                mean.mul_(0.9).add_(p, alpha=0.1)
                p.grad = None
        return sum((mean**2).sum() for mean in average)

    return model, None, step


def hooked() -> tuple[nn.Module, Any, Step]:
    """Hooks, retained gradients, and gradients set to zero instead of None."""
    model = mlp()
    moves = gw.optim.SGD(model.parameters(), lr=0.1)
    model[0].weight.register_hook(lambda g: g * 0.5)

    def step(x: Any, y: Any) -> Any:
        moves.zero_grad(set_to_none=False)
        hidden = model[0](x)
        hidden.retain_grad()
        loss = F.cross_entropy(model[4](model[1](hidden)), y)
        loss.backward()
        moves.step()
        return loss + hidden.grad.sum()

    return model, moves, step


class Doubled(gw.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * g


def custom_function() -> tuple[nn.Module, Any, Step]:
    return training(
        mlp, lambda p: gw.optim.SGD(p, lr=0.1), lambda out, y: Doubled.apply(out).mean()
    )()


# -- comparing -----------------------------------------------------------------------------------


@dataclass
class After:
    """Everything that a step changes."""

    loss: Any
    values: dict[str, Any]


def after(loss: Any, model: nn.Module, optimizer: Any) -> After:
    """Parameters, buffers, gradients, and the optimizer's state and options."""
    return After(np.array(loss.detach().numpy()), dict(_values(model, optimizer)))


def _values(model: nn.Module, optimizer: Any) -> Iterator[tuple[str, Any]]:
    for name, tensor in model.state_dict().items():
        yield name, np.array(tensor.detach().numpy())
    for name, parameter in model.named_parameters():
        grad = parameter.grad
        yield f"grad of {name}", None if grad is None else np.array(grad.numpy())
    if optimizer is not None:
        for i, group in enumerate(optimizer.param_groups):
            yield f"group {i}", {k: v for k, v in group.items() if k != "params"}
        for i, kept in enumerate(optimizer.state_dict()["state"].values()):
            for name, value in kept.items():
                array = np.array(value.numpy()) if hasattr(value, "numpy") else value
                yield f"{name} of parameter {i}", array


def assert_same(expected: After, found: After, tolerance: float) -> None:
    np.testing.assert_allclose(found.loss, expected.loss, tolerance, tolerance)
    assert expected.values.keys() == found.values.keys()
    for name, value in expected.values.items():
        other = found.values[name]
        assert type(other) is type(value), name
        if isinstance(value, np.ndarray):
            assert value.dtype == other.dtype
            np.testing.assert_allclose(other, value, tolerance, tolerance, err_msg=name)
        elif isinstance(value, float):
            assert abs(value - other) <= 1e-12 * abs(value), name
        else:
            assert value == other, name


def compiled(function: Any, **options: Any) -> Any:
    """A function compiled for the reference backend."""
    return gw.compile(function, backend="numpy", **options)


def programs(run: Any) -> int:
    """How many programs a compiled function has."""
    return sum(map(len, run.specializations.values()))
