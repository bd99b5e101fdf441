"""Random programs that gradwalk and PyTorch both run, so that their gradients can be compared.

A program is data: leaves, then steps (op, operands, argument), where operands are earlier nodes by
number. A node may be used several times, also twice in one step. We build a program step by step
with PyTorch, which gives the shapes and sizes, so every program is valid, and large numbers are
squashed when they appear. The ops are smooth at the values that occur, unless kinks are requested.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

LARGEST = 30.0  # larger nodes are squashed: differences of large numbers are imprecise

# name -> function of (gradwalk or torch, operand[s])
UNARY: dict[str, Callable[..., Any]] = {
    "neg": lambda lib, x: -x,
    "scale": lambda lib, x: 1.5 * x - 0.25,
    "reciprocal": lambda lib, x: 1 / (x * x + 0.5),
    "square": lambda lib, x: x**2,
    "cube": lambda lib, x: x**3,
    "power": lambda lib, x: (x * x + 1) ** -1.5,
    "root": lambda lib, x: lib.sqrt(x * x + 0.1),
    "exp": lambda lib, x: lib.exp(0.1 * x),
    "base": lambda lib, x: 1.3**x,
    "log": lambda lib, x: lib.log(x * x + 0.5),
    "log1p": lambda lib, x: lib.log1p(x * x),
    "sin": lambda lib, x: lib.sin(x),
    "cos": lambda lib, x: lib.cos(x),
    "atan": lambda lib, x: lib.atan(x),
    "tanh": lambda lib, x: lib.tanh(x),
    "sigmoid": lambda lib, x: lib.sigmoid(x),
    "erf": lambda lib, x: lib.erf(x),
    "self_product": lambda lib, x: x * x,
    "self_sum": lambda lib, x: x + x,
    "self_quotient": lambda lib, x: (x + 1) / (x * x + 1),
}
BINARY: dict[str, Callable[..., Any]] = {
    "add": lambda lib, x, y: x + y,
    "sub": lambda lib, x, y: x - y,
    "mul": lambda lib, x, y: x * y,
    "div": lambda lib, x, y: x / (y * y + 1),
    # Never an exponent of 0: PyTorch masks the rule there, and with it a second derivative.
    "pow": lambda lib, x, y: (x * x + 0.5) ** (lib.tanh(y) + 0.1),
}
KINKED_UNARY: dict[str, Callable[..., Any]] = {
    "relu": lambda lib, x: lib.relu(x),
    "abs": lambda lib, x: lib.abs(x),
    "clamp": lambda lib, x: lib.clamp(x, -1.0, 1.5),
}
KINKED_BINARY: dict[str, Callable[..., Any]] = {
    "maximum": lambda lib, x, y: lib.maximum(x, y),
    "minimum": lambda lib, x, y: lib.minimum(x, y),
    "where": lambda lib, x, y: lib.where(x > y, x, y * 2),
}

# Ops on whole tensors: (what the operand must be like, the function with its axis d).
Shaped = tuple[Callable[[Any], bool], Callable[..., Any]]
RANKED = lambda x: x.ndim >= 1
FILLED = lambda x: x.ndim >= 1 and x.numel() >= 1
LONG = lambda x: x.ndim >= 1 and min(x.shape) >= 2
SMALL = lambda x: x.ndim <= 2
STRUCTURAL: dict[str, Shaped] = {
    "sum": (lambda x: True, lambda lib, x, d: x.sum()),
    "sum_dim": (RANKED, lambda lib, x, d: x.sum(d)),
    "sum_keep": (RANKED, lambda lib, x, d: x.sum(d, keepdim=True)),
    "mean": (FILLED, lambda lib, x, d: x.mean(d, keepdim=True)),
    "prod": (RANKED, lambda lib, x, d: lib.sin(x).prod(d)),
    "var": (LONG, lambda lib, x, d: x.var(d)),
    "cumsum": (RANKED, lambda lib, x, d: x.cumsum(d)),
    "logsumexp": (FILLED, lambda lib, x, d: lib.logsumexp(x, d)),
    "softmax": (FILLED, lambda lib, x, d: lib.softmax(x, d)),
    "log_softmax": (FILLED, lambda lib, x, d: lib.log_softmax(x, d)),
    "flatten": (lambda x: True, lambda lib, x, d: x.reshape(-1)),
    "transpose": (RANKED, lambda lib, x, d: lib.transpose(x, 0, d)),
    "unsqueeze": (SMALL, lambda lib, x, d: x.unsqueeze(d)),
    "squeeze": (lambda x: True, lambda lib, x, d: x.squeeze()),
    "flip": (RANKED, lambda lib, x, d: lib.flip(x, [d])),
    "expand": (lambda x: x.ndim <= 1, lambda lib, x, d: x.expand(2, *x.shape)),
    "first": (FILLED, lambda lib, x, d: x[0]),
    "slice": (LONG, lambda lib, x, d: x[..., 1:]),
    "ellipsis": (SMALL, lambda lib, x, d: x[..., None]),
    "repeats": (FILLED, lambda lib, x, d: x[[0, -1, 0]]),
    "mask": (FILLED, lambda lib, x, d: x[[i % 2 == 0 for i in range(x.shape[0])]]),
    "chunks": (LONG, lambda lib, x, d: _sum_of_products(lib.chunk(x, 2, d))),
    "twice": (RANKED, lambda lib, x, d: lib.cat([x, x * 2], d)),
    "stack": (SMALL, lambda lib, x, d: lib.stack([x, x], d)),
    "gram": (lambda x: x.ndim >= 2, lambda lib, x, d: x @ x.mT),
    "outer": (lambda x: x.ndim == 1, lambda lib, x, d: lib.outer(x, x)),
    "einsum": (lambda x: x.ndim == 2, lambda lib, x, d: lib.einsum("ij,kj->ik", x, x)),
}
KINKED_STRUCTURAL: dict[str, Shaped] = {
    "amax": (FILLED, lambda lib, x, d: lib.amax(x, d)),
    "max_dim": (FILLED, lambda lib, x, d: x.max(d)[0]),
    "max": (FILLED, lambda lib, x, d: x.max()),
    "min_dim": (FILLED, lambda lib, x, d: x.min(d)[0]),
}


ELEMENTWISE = {**UNARY, **BINARY, **KINKED_UNARY, **KINKED_BINARY}
EVERY_OP = [*ELEMENTWISE, *STRUCTURAL, *KINKED_STRUCTURAL, "matmul"]


def _sum_of_products(parts: Any) -> Any:
    return sum(p.sum() * (i + 1) for i, p in enumerate(parts))


Step = tuple[str, tuple[int, ...], int]


@dataclass(frozen=True)
class Program:
    """Leaves and the steps on them; the result is the last node."""

    leaves: list[Any]
    steps: list[Step]

    def nodes(self, lib: Any, leaves: Any) -> list[Any]:
        """Every node, leaves first, computed with `lib` (gradwalk or torch) on its own leaves."""
        found = list(leaves)
        for step in self.steps:
            found.append(take(lib, found, step))
        return found

    def __call__(self, lib: Any, leaves: Any) -> Any:
        """The result."""
        return self.nodes(lib, leaves)[-1]


def take(lib: Any, nodes: list[Any], step: Step) -> Any:
    """Compute one step."""
    name, operands, axis = step
    args = [nodes[i] for i in operands]
    if name in ELEMENTWISE:
        return ELEMENTWISE[name](lib, *args)
    if name == "matmul":
        return args[0] @ args[1]
    (_, function) = {**STRUCTURAL, **KINKED_STRUCTURAL}[name]
    return function(lib, args[0], axis)


# Quarters are exact in every float dtype, so that ties and zeros occur where kinks are allowed.
NUMBERS = st.integers(-8, 8).map(lambda n: n / 4)
SHAPES = st.sampled_from([(), (1,), (2,), (3,), (2, 3), (3, 2), (1, 3), (2, 1), (2, 2), (2, 1, 3)])


@st.composite
def programs(draw: Any, tensors: bool, kinks: bool = False, longest: int = 10) -> Program:
    """A program on numbers, or with `tensors` on arrays of up to three dimensions."""
    unary = [*UNARY, *(KINKED_UNARY if kinks else ())]
    binary = [*BINARY, *(KINKED_BINARY if kinks else ())]
    shaped = {**STRUCTURAL, **(KINKED_STRUCTURAL if kinks else {})} if tensors else {}
    leaves = draw(st.lists(_leaf(tensors), min_size=1, max_size=3))
    steps: list[Step] = []
    nodes = [torch.tensor(leaf, dtype=torch.float64) for leaf in leaves]

    def add(name: str, *operands: int, axis: int = 0) -> None:
        step = (name, operands, axis)
        steps.append(step)
        nodes.append(take(torch, nodes, step))

    for _ in range(draw(st.integers(min(4, longest), longest))):
        first = draw(st.integers(0, len(nodes) - 1))
        x = nodes[first]
        kind = draw(st.sampled_from(["unary", "binary", "binary", "shaped", "shaped", "matmul"]))
        fitting = [name for name, (fits, _) in shaped.items() if fits(x)]
        partners = [i for i, y in enumerate(nodes) if _multiplies(x, y)] if tensors else []
        if kind == "shaped" and fitting:
            name = draw(st.sampled_from(fitting))
            add(name, first, axis=draw(st.integers(0, max(x.ndim - 1, 0))))
        elif kind == "matmul" and partners:
            add("matmul", first, draw(st.sampled_from(partners)))
        elif kind == "unary":
            add(draw(st.sampled_from(unary)), first)
        else:
            second = draw(st.sampled_from([i for i, y in enumerate(nodes) if _broadcasts(x, y)]))
            add(draw(st.sampled_from(binary)), first, second)
        if nodes[-1].numel() > 24:
            add("sum_dim", len(nodes) - 1)
        if nodes[-1].numel() and nodes[-1].abs().max() > LARGEST:
            add("atan", len(nodes) - 1)
    return Program(leaves, steps)


@st.composite
def _leaf(draw: Any, tensors: bool) -> Any:
    if not tensors:
        return draw(NUMBERS)
    shape = draw(SHAPES)
    count = int(np.prod(shape))
    return np.reshape(draw(st.lists(NUMBERS, min_size=count, max_size=count)), shape)


def _broadcasts(x: Any, y: Any) -> bool:
    pairs = zip(x.shape[::-1], y.shape[::-1], strict=False)
    return all(n == m or 1 in (n, m) for n, m in pairs)


def _multiplies(x: Any, y: Any) -> bool:
    if not x.ndim or not y.ndim:
        return False
    inner = y.shape[-2] if y.ndim >= 2 else y.shape[0]
    batches = zip(x.shape[:-2][::-1], y.shape[:-2][::-1], strict=False)
    return x.shape[-1] == inner and all(n == m or 1 in (n, m) for n, m in batches)
