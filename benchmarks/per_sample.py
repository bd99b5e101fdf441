"""Gradients of every sample, `vmap(grad(loss))`, and Jacobians: gradwalk against torch.func.

Two networks, written once for both libraries: a small CNN and a small GPT. The result of a step is
one gradient per sample and parameter, what private training and influence functions need. Then the
Jacobians of a layer, tall and wide, and its Hessian. Two threads each, ours eager and compiled.

`python benchmarks/per_sample.py cnn` runs only some rows. `--check` compares the gradients instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from harness import (
    Bar,
    Contestant,
    Measurement,
    Round,
    agreement,
    duration,
    play,
    race,
    ratio_cells,
    seconds_per_step,
    table,
)

THREADS = 2
ROUNDS = 15
REST = 0.05  # seconds, until the threads of the previous contestant stop spinning
WARM_UP = 1
REPEATS = 3
BAR = Bar(highest=1.0)
VOCABULARY, TIME, WIDTH, HEADS, LAYERS = 64, 32, 64, 4, 2

Parameters = dict[str, Any]


def of_every_sample(transforms: Any, loss: Any) -> Any:
    return transforms.vmap(transforms.grad(loss), in_dims=(None, 0, 0))


def by_input(name: str) -> Callable[[Any, Any], Any]:
    """The transform of this name, of a layer by its input."""
    return lambda transforms, layer: (
        lambda p, x, y: {"by input": getattr(transforms, name)(layer, argnums=1)(p, x, y)}
    )


class Problem(NamedTuple):
    """A network: its loss of one sample, the shapes of its parameters, a batch, what to compute."""

    title: str
    loss: Callable[[Any, Parameters, Any, Any], Any]
    shapes: dict[str, tuple[int, ...]]
    batch: Callable[[np.random.Generator], tuple[Any, Any]]
    derivative: Callable[[Any, Any], Any] = of_every_sample


def cnn_loss(library: Any, p: Parameters, image: Any, label: Any) -> Any:
    f = library.nn.functional
    x = image.reshape(1, *image.shape)
    x = f.relu(f.conv2d(x, p["conv1.weight"], p["conv1.bias"], padding=1))
    x = f.max_pool2d(x, 2)
    x = f.relu(f.conv2d(x, p["conv2.weight"], p["conv2.bias"], padding=1))
    x = f.max_pool2d(x, 2).reshape(1, -1)
    return f.cross_entropy(f.linear(x, p["out.weight"], p["out.bias"]), label.reshape(1))


CNN_SHAPES = {
    "conv1.weight": (16, 1, 3, 3), "conv1.bias": (16,),
    "conv2.weight": (32, 16, 3, 3), "conv2.bias": (32,),
    "out.weight": (10, 32 * 7 * 7), "out.bias": (10,),
}  # fmt: skip


def gpt_loss(library: Any, p: Parameters, tokens: Any, targets: Any) -> Any:
    f = library.nn.functional
    x = f.embedding(tokens, p["tokens"]) + p["places"]  # (time, width)
    for layer in range(LAYERS):
        own = {key.split(".", 1)[1]: p[key] for key in p if key.startswith(f"{layer}.")}
        h = f.layer_norm(x, (WIDTH,), own["norm1.weight"], own["norm1.bias"])
        joined = f.linear(h, own["qkv.weight"], own["qkv.bias"])
        q, k, v = (
            part.reshape(1, TIME, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in joined.split(WIDTH, 1)
        )
        mixed = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = mixed.transpose(1, 2).reshape(TIME, WIDTH)
        x = x + f.linear(mixed, own["mix.weight"], own["mix.bias"])
        h = f.layer_norm(x, (WIDTH,), own["norm2.weight"], own["norm2.bias"])
        h = f.gelu(f.linear(h, own["up.weight"], own["up.bias"]))
        x = x + f.linear(h, own["down.weight"], own["down.bias"])
    x = f.layer_norm(x, (WIDTH,), p["norm.weight"], p["norm.bias"])
    return f.cross_entropy(f.linear(x, p["tokens"]), targets)


def gpt_shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"tokens": (VOCABULARY, WIDTH), "places": (TIME, WIDTH)}
    for layer in range(LAYERS):
        for norm in ("norm1", "norm2"):
            shapes |= {f"{layer}.{norm}.{part}": (WIDTH,) for part in ("weight", "bias")}
        sizes = {"qkv": (3, 1), "mix": (1, 1), "up": (4, 1), "down": (1, 4)}
        for name, (outputs, inputs) in sizes.items():
            shapes[f"{layer}.{name}.weight"] = (outputs * WIDTH, inputs * WIDTH)
            shapes[f"{layer}.{name}.bias"] = (outputs * WIDTH,)
    return shapes | {"norm.weight": (WIDTH,), "norm.bias": (WIDTH,)}


def layer(library: Any, p: Parameters, x: Any, y: Any) -> Any:
    return library.nn.functional.linear(x, p["weight"]).tanh()


def layer_problem(name: str, outputs: int, inputs: int) -> Problem:
    return Problem(
        f"{name}, {inputs} inputs, {outputs} outputs",
        layer,
        {"weight": (outputs, inputs)},
        lambda rng: (rng.normal(size=inputs), np.zeros(1)),
        by_input(name),
    )


PROBLEMS = {
    "cnn": Problem(
        "CNN, 32 images 1x28x28",
        cnn_loss,
        CNN_SHAPES,
        lambda rng: (rng.normal(size=(32, 1, 28, 28)), rng.integers(0, 10, 32)),
    ),
    "gpt": Problem(
        "GPT, 16 texts of 32 tokens",
        gpt_loss,
        gpt_shapes(),
        lambda rng: (
            rng.integers(0, VOCABULARY, (16, TIME)), rng.integers(0, VOCABULARY, (16, TIME)),
        ),
    ),
    "tall": layer_problem("jacrev", 2048, 32),
    "wide": layer_problem("jacfwd", 32, 2048),
    "hessian": layer_problem("hessian", 32, 256),
}  # fmt: skip


def start(name: str) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Parameters and a batch, as arrays."""
    rng = np.random.default_rng(0)
    problem = PROBLEMS[name]
    parameters = {
        key: (rng.normal(size=shape) * shape[-1] ** -0.5).astype(np.float32)
        for key, shape in problem.shapes.items()
    }
    inputs, labels = problem.batch(rng)
    return parameters, inputs.astype(np.float32) if inputs.dtype.kind == "f" else inputs, labels


def gradients_of(name: str, how: str) -> Callable[[], Parameters]:
    """A function that computes the derivatives of a problem."""
    library = import_module("torch" if how == "torch.func" else "gradwalk")
    transforms = library.func if how == "torch.func" else library
    if how == "torch.func":
        library.set_num_threads(THREADS)
    parameters, inputs, labels = start(name)
    given = {key: library.from_numpy(array) for key, array in parameters.items()}
    x, y = library.from_numpy(inputs), library.from_numpy(labels)
    loss = partial(PROBLEMS[name].loss, library)
    each = PROBLEMS[name].derivative(transforms, loss)
    if how == "compiled":
        each = library.compile(each)
    return lambda: each(given, x, y)


def contestant(name: str, how: str) -> Round:
    gradients = gradients_of(name, how)

    def step() -> float:
        found = gradients()
        return float((found[min(found)][0] ** 2).sum())  # of the first sample, or row

    step()

    def one_round() -> Measurement:
        time.sleep(REST)
        for _ in range(WARM_UP):
            step()
        return seconds_per_step(step, REPEATS)

    return one_round


HOW = ("eager", "compiled", "torch.func")
CONTESTANTS: dict[str, Contestant] = {
    f"{name} {how}": partial(contestant, name, how) for name in PROBLEMS for how in HOW
}


def report(names: Sequence[str]) -> None:
    rows, agreements = [], []
    for name in names:
        measured = race([f"{name} {how}" for how in HOW], ROUNDS, threads=THREADS)
        theirs = measured[f"{name} torch.func"]
        for how in HOW[:2]:
            ours = measured[f"{name} {how}"]
            times = [duration(each["seconds"]) for each in (ours, theirs)]
            ratio = ours["seconds"] / theirs["seconds"]
            rows.append([f"{PROBLEMS[name].title}, {how}", *times, *ratio_cells(ratio, BAR)])
        agreements.append(agreement(*measured.values()))
    table(
        f"Gradients of every sample, and Jacobians, in float32, {THREADS} threads",
        ["", "gradwalk", "torch.func", "ratio", "bar", ""],
        rows,
    )
    print("\n".join(agreements))


def check(names: Sequence[str]) -> None:
    """Compare all derivatives."""
    for name in names:
        expected = gradients_of(name, "torch.func")()
        for how in HOW[:2]:
            found = gradients_of(name, how)()
            for key, gradient in expected.items():
                np.testing.assert_allclose(
                    found[key].numpy(), gradient.numpy(), rtol=2e-3, atol=2e-4, err_msg=key
                )
        print(f"{name}: {len(expected)} derivatives agree")


if __name__ == "__main__":
    play(CONTESTANTS, report, check, list(PROBLEMS))
