"""The programs of `problems.py` in JAX: pure functions, the whole step under one `jit`.

Parameters and optimizer state are pytrees whose buffers are donated, so that updates happen in
place. They start from the weights of the other contestants: drawn in the same order, with PyTorch's
names and shapes, then transposed into the layout that JAX users choose.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from models import HEADS, LAYERS, TIME, VOCABULARY, WIDTH, drawn_weight

from . import Answer, Begin, Step
from .problems import PROBLEMS

Array = Any
Tree = Any  # a pytree of arrays
Loss = Callable[[Tree, Array, Array], Array]  # parameters, inputs, labels
Shapes = dict[str, tuple[int, ...]]


class Program(NamedTuple):
    """A problem in JAX; if JAX users might write a loss in two ways, it has both."""

    shapes: Shapes
    optimizer: Callable[[Tree, Tree, Tree, float], tuple[Tree, Tree]]
    loss: Loss
    other_loss: Loss | None = None


# -- Parameters ----------------------------------------------------------------------------------


def linear(name: str, inputs: int, outputs: int, bias: bool = True) -> Shapes:
    weight = {f"{name}.weight": (outputs, inputs)}
    return weight | {f"{name}.bias": (outputs,)} if bias else weight


def convolution(name: str, inputs: int, outputs: int, kernel: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs, kernel, kernel), f"{name}.bias": (outputs,)}


def norm(name: str) -> Shapes:
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


def dense_layers(*widths: int) -> Shapes:
    """Linear layers at every second place, as in a Sequential with activations between."""
    shapes: Shapes = {}
    for place, (inputs, outputs) in enumerate(pairwise(widths)):
        shapes |= linear(str(2 * place), inputs, outputs)
    return shapes


def gpt_shapes() -> Shapes:
    shapes: Shapes = {"tokens.weight": (VOCABULARY, WIDTH), "positions.weight": (TIME, WIDTH)}
    for layer in range(LAYERS):
        block = f"blocks.{layer}"
        shapes |= norm(f"{block}.first_norm")
        shapes |= linear(f"{block}.attention.qkv", WIDTH, 3 * WIDTH)
        shapes |= linear(f"{block}.attention.project", WIDTH, WIDTH)
        shapes |= norm(f"{block}.second_norm")
        shapes |= linear(f"{block}.mlp.0", WIDTH, 4 * WIDTH)
        shapes |= linear(f"{block}.mlp.2", 4 * WIDTH, WIDTH)
    return shapes | norm("norm") | linear("head", WIDTH, VOCABULARY, bias=False)


def start(program: Program, draw_batch: Callable[..., Any]) -> tuple[Tree, Array, Array]:
    """Parameters and batch, the same numbers that `models.start` gives the others."""
    source = np.random.default_rng(7)
    parameters = {}
    for name, shape in program.shapes.items():
        weight = drawn_weight(source, name, shape, "float32")
        if len(shape) == 4:
            weight = weight.transpose(2, 3, 1, 0)  # (height, width, inputs, outputs)
        elif not name.startswith(("tokens", "positions")):
            weight = weight.T  # (inputs, outputs)
        parameters[name] = jnp.array(weight)
    inputs, labels = draw_batch(source)
    if inputs.dtype.kind == "f":
        inputs = inputs.astype("float32")
    if inputs.ndim == 4:
        inputs = inputs.transpose(0, 2, 3, 1)  # (batch, height, width, channels)
    if labels.dtype.kind == "i":
        labels = labels.astype("int32")
    return parameters, jnp.array(inputs), jnp.array(labels)


# -- Optimizers ----------------------------------------------------------------------------------


def adam(parameters: Tree, gradients: Tree, state: Tree, rate: float, decay: float = 0.0) -> Any:
    """Adam with the defaults of torch.optim; AdamW if there is a decay."""
    beta, gamma, epsilon = 0.9, 0.999, 1e-8
    count = state["count"] + 1
    means = jax.tree.map(lambda m, g: beta * m + (1 - beta) * g, state["means"], gradients)
    squares = jax.tree.map(
        lambda v, g: gamma * v + (1 - gamma) * g * g, state["squares"], gradients
    )
    mean_scale = 1 / (1 - beta**count)
    square_scale = 1 / (1 - gamma**count)

    def update(p: Array, m: Array, v: Array) -> Array:
        move = mean_scale * m / (jnp.sqrt(square_scale * v) + epsilon)
        return p * (1 - rate * decay) - rate * move

    parameters = jax.tree.map(update, parameters, means, squares)
    return parameters, {"count": count, "means": means, "squares": squares}


adamw = partial(adam, decay=0.01)


def momentum(parameters: Tree, gradients: Tree, state: Tree, rate: float) -> Any:
    means = jax.tree.map(lambda m, g: 0.9 * m + g, state["means"], gradients)
    return jax.tree.map(lambda p, m: p - rate * m, parameters, means), {"means": means}


def empty_state(parameters: Tree, optimizer: Any) -> Tree:
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    if optimizer is momentum:
        return {"means": zeros}
    again = jax.tree.map(jnp.zeros_like, parameters)  # a donated buffer may not be shared
    return {"count": jnp.zeros((), jnp.float32), "means": zeros, "squares": again}


# -- Programs ------------------------------------------------------------------------------------


def dense(p: Tree, name: str, x: Array) -> Array:
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def cross_entropy(scores: Array, labels: Array) -> Array:
    picked = jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1)
    return -picked.mean()


def mlp(p: Tree, x: Array, activation: Callable[[Array], Array]) -> Array:
    x = activation(dense(p, "0", x))
    x = activation(dense(p, "2", x))
    return dense(p, "4", x)


def moons_loss(p: Tree, points: Array, labels: Array) -> Array:
    return cross_entropy(mlp(p, points, jnp.tanh), labels)


def mlp_loss(p: Tree, images: Array, labels: Array) -> Array:
    return cross_entropy(mlp(p, images, jax.nn.relu), labels)


def equation_by_grad(p: Tree, times: Array, force: Array) -> Array:
    """u'' by `grad` of `grad` at one point, mapped over all."""

    def u(time: Array) -> Array:
        return mlp(p, time[None], jnp.tanh)[0]

    both = jax.vmap(lambda time: (u(time), jax.grad(jax.grad(u))(time)))
    values, accelerations = both(times[:, 0])
    return ((accelerations + values - force[:, 0]) ** 2).mean()


def equation_by_jvp(p: Tree, times: Array, force: Array) -> Array:
    """u'' in forward mode, by `jvp` of `jvp`: cheaper if there is one input."""

    def u(times: Array) -> Array:
        return mlp(p, times, jnp.tanh)

    def speed(times: Array) -> tuple[Array, Array]:
        return jax.jvp(u, (times,), (jnp.ones_like(times),))

    (values, _), (_, accelerations) = jax.jvp(speed, (times,), (jnp.ones_like(times),))
    return ((accelerations + values - force) ** 2).mean()


def lstm_loss(p: Tree, x: Array, labels: Array) -> Array:
    # The inputs' part of the gates needs no scan: one product covers all times.
    driven = x @ p["lstm.weight_ih_l0"] + (p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"])

    def cell(carry: tuple[Array, Array], gates_in: Array) -> tuple[tuple[Array, Array], None]:
        hidden, memory = carry
        gates = gates_in + hidden @ p["lstm.weight_hh_l0"]  # (batch, 4 * 64)
        write, keep, content, show = jnp.split(gates, 4, axis=1)
        memory = jax.nn.sigmoid(keep) * memory + jax.nn.sigmoid(write) * jnp.tanh(content)
        return (jax.nn.sigmoid(show) * jnp.tanh(memory), memory), None

    nothing = jnp.zeros((x.shape[0], 64))
    (hidden, _), _ = lax.scan(cell, (nothing, nothing), driven.transpose(1, 0, 2))
    return cross_entropy(dense(p, "head", hidden), labels)


def window_pool(x: Array) -> Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def reshape_pool(x: Array) -> Array:
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels).max((2, 4))


def cnn_loss(p: Tree, x: Array, labels: Array, pool: Callable[[Array], Array]) -> Array:
    for name in ("0", "3"):
        x = lax.conv_general_dilated(
            x, p[f"{name}.weight"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = pool(jax.nn.relu(x + p[f"{name}.bias"]))
    x = x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1)  # in the order of the others' weights
    return cross_entropy(dense(p, "7", x), labels)


def layer_norm(p: Tree, name: str, x: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def attention(p: Tree, name: str, x: Array) -> Array:
    batch, time, width = x.shape
    q, k, v = (
        part.reshape(batch, time, HEADS, width // HEADS)
        for part in jnp.split(dense(p, f"{name}.qkv", x), 3, axis=2)
    )  # (batch, time, heads, width / heads)
    scores = jnp.einsum("bthc,bshc->bhts", q, k) * (width // HEADS) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, -jnp.inf)
    mixed = jnp.einsum("bhts,bshc->bthc", jax.nn.softmax(scores), v)
    return dense(p, f"{name}.project", mixed.reshape(batch, time, width))


def gpt_loss(p: Tree, tokens: Array, labels: Array) -> Array:
    x = p["tokens.weight"][tokens] + p["positions.weight"]  # (batch, time, width)
    for layer in range(LAYERS):
        block = f"blocks.{layer}"
        x = x + attention(p, f"{block}.attention", layer_norm(p, f"{block}.first_norm", x))
        inner = dense(p, f"{block}.mlp.0", layer_norm(p, f"{block}.second_norm", x))
        x = x + dense(p, f"{block}.mlp.2", jax.nn.gelu(inner, approximate=False))
    scores = layer_norm(p, "norm", x) @ p["head.weight"]  # (batch, time, vocabulary)
    return cross_entropy(scores.reshape(-1, VOCABULARY), labels)


PROGRAMS = {
    "moons": Program(dense_layers(2, 16, 16, 2), adamw, moons_loss),
    "pinn": Program(dense_layers(1, 32, 32, 1), adam, equation_by_jvp, equation_by_grad),
    "lstm": Program(
        {
            "lstm.weight_ih_l0": (256, 32),
            "lstm.weight_hh_l0": (256, 64),
            "lstm.bias_ih_l0": (256,),
            "lstm.bias_hh_l0": (256,),
            **linear("head", 64, 10),
        },
        adam,
        lstm_loss,
    ),
    "cnn": Program(
        convolution("0", 1, 16, 5) | convolution("3", 16, 32, 5) | linear("7", 512, 10),
        adamw,
        partial(cnn_loss, pool=reshape_pool),
        partial(cnn_loss, pool=window_pool),
    ),
    "gpt": Program(gpt_shapes(), adamw, gpt_loss),
    "mlp": Program(dense_layers(784, 512, 512, 10), momentum, mlp_loss),
}


def prepare(name: str, rate: float, *, other: bool = False) -> Begin:
    program = PROGRAMS[name]
    loss_of = program.other_loss if other and program.other_loss else program.loss
    parameters, inputs, labels = start(program, PROBLEMS[name].network.batch)
    state = empty_state(parameters, program.optimizer)

    def update(parameters: Tree, state: Tree, inputs: Array, labels: Array) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, inputs, labels)
        return *program.optimizer(parameters, gradients, state, rate), loss

    def begin() -> Step:
        compiled = jax.jit(update, donate_argnums=(0, 1))

        def step() -> Answer:
            nonlocal parameters, state
            parameters, state, loss = compiled(parameters, state, inputs, labels)
            jax.block_until_ready((parameters, state, loss))
            return loss.item

        return step

    return begin
