"""Random eager programs, run line by line in gradwalk and in PyTorch.

A program is lines of Python on tensors `t0`, `t1`, ... with the library as `m`: views, in-place
changes, broadcasting, indexing, several dtypes, checkpoints, hooks, `no_grad`, `detach`, gradients
with a graph, backward passes. The lines are drawn with PyTorch's shapes at hand, so that most are
valid, and they print as a program to paste when one of them shows a difference.

`compare` returns what differs, "" if nothing does. Where PyTorch refuses what gradwalk computes,
finite differences judge, as far as they can.
"""

from __future__ import annotations

import functools
import math
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np
import torch

import gradwalk as gw

SHAPES = [(2, 3), (3,), (2, 3), (3, 2), (1, 3), (2, 1), (4,), (2, 2), (), (1,), (2, 1, 3), (0, 3)]
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError)
LARGEST = 20.0
MOST_ELEMENTS = 40


class Squared:
    """x², as a Function in either library."""

    def __init__(self) -> None:
        self.made: dict[str, Any] = {}

    def __call__(self, m: Any, x: Any) -> Any:
        if m.__name__ not in self.made:

            class Square(m.autograd.Function):
                @staticmethod
                def forward(ctx: Any, x: Any) -> Any:
                    ctx.save_for_backward(x)
                    return x * x

                @staticmethod
                def backward(ctx: Any, g: Any) -> Any:
                    return 2 * g * ctx.saved_tensors[0]

            self.made[m.__name__] = Square
        return self.made[m.__name__].apply(x)


squared = Squared()


def checkpointed(m: Any, function: Callable[..., Any], *args: Any) -> Any:
    if m is torch:
        return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False)
    return m.checkpoint(function, *args)


def slope(m: Any, output: Any, *args: Any, **options: Any) -> Any:
    """A gradient; a copy, because PyTorch's may be expanded, or share the memory of its seed."""
    return m.autograd.grad(output, *args, materialize_grads=True, **options)[0].clone()


HELPERS: dict[str, Any] = {"squared": squared, "checkpointed": checkpointed, "slope": slope}


@dataclass
class Machine:
    """One library and the tensors of a program in it."""

    m: Any
    names: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names |= HELPERS | {"m": self.m, "seen": {}}

    def do(self, line: str) -> Exception | None:
        """Run a line; the refusal, if the library refuses it."""
        try:
            exec(_compiled(line), self.names)
        except REFUSALS as error:
            return error
        return None

    def tensors(self) -> dict[str, Any]:
        return {k: v for k, v in self.names.items() if k[0] == "t" and k[1:].isdigit()}


@functools.lru_cache(200)
def _compiled(line: str) -> CodeType:
    return compile(line, line, "exec")


# -- drawing a program -----------------------------------------------------------------------------

UNARY = """
    -{x}|{x}.sin()|{x}.tanh()|{x}.sigmoid()|({x} * 0.3).exp()|{x}**2|{x}**3|{x} * {x}|{x}.abs()
    {x}.relu()|m.clamp({x}, -0.7, 0.9)|{x}.clone()|{x} * 0.5 + 1|1 / ({x} * {x} + 1)|+{x}
    ({x} * {x} + 0.5).sqrt()|({x} * {x} + 0.5).log()|m.nn.functional.gelu({x})|squared(m, {x})
    m.where({x} > 0.1, {x}, {x} * 2)|m.nn.functional.softplus({x})|{x}.square()|m.atan({x})
    {x}.masked_fill({x} > 0.2, 0.3)|{x}.float().to({x}.dtype)|{x}.contiguous()|{x}.to(m.float64)
    {x}.repeat(2, *[1] * {x}.ndim)|m.tile({x}, (1,))|{x}.pow(2.0)|2.0**({x} * 0.2)|{x}.double()
"""
BINARY = """
    {x} + {y}|{x} - {y}|{x} * {y}|{x} / ({y} * {y} + 1)|m.maximum({x}, {y})|m.atan2({x}, {y} + 3)
    m.where({x} > {y}, {x}, {y})|m.lerp({x}, {y}, 0.3)|{x} * 2 - {y} * {y}|m.hypot({x}, {y} + 2)
    m.addcmul({x}, {y}, {y})|({x} * {x} + 0.5) ** (m.tanh({y}) + 2.1)|m.logaddexp({x}, {y})
"""
WHOLE = """
    {x}.sum({d})|{x}.sum({d}, keepdim=True)|{x}.mean({d})|{x}.cumsum({d})|m.softmax({x} * 1.0, {d})
    m.log_softmax({x} * 1.0, {d})|m.logsumexp({x}, {d})|m.flip({x}, [{d}])|m.roll({x}, 1, {d})
    m.cat([{x}, {x} * 2], {d})|m.stack([{x}, {x}], {d})|{x}.amax({d})|{x}.index_select(0, {i})
    {x}[{i}]|{x}[{k}]|m.gather({x}, 0, {z})|{x}[..., {j}]|m.tril({x}.reshape(1, -1))
    {x}.repeat_interleave(2, {d}).clone()|{x}.repeat_interleave(1, {d}).clone()|{x}.sum()
    m.outer({x}.ravel(), {x}.ravel())|{x}.var({d}, unbiased=False)|({x} * {x} + 0.1).norm()
    {x}[{b}]|m.nn.functional.pad({x}, (1, 0))|m.nn.functional.dropout({x}, 0.5, training=False)
    m.take({x}, {i})|{x}.mean({d}, keepdim=True)|{x}.reshape(-1) @ {x}.reshape(-1)
    m.transpose({x}, 0, -1) @ {x}|m.einsum('...i,...i->...', {x}, {x})|{x}.T
"""
VIEWS = """
    {x}[{s}]|{x}[{s}]|{x}[{s}, ...]|{x}[..., {s}]|{x}.t()|{x}.transpose(0, {d})|{x}.reshape(-1)
    {x}.view(-1)|{x}.unsqueeze({d})|{x}.squeeze()|{x}.squeeze({d})|{x}.expand(2, *{x}.shape)
    {x}.split(1, {d})[0]|{x}.split(2, {d})[-1]|m.chunk({x}, 2, {d})[0]|{x}.unbind({d})[-1]
    {x}.diagonal()|{x}.narrow({d}, 0, 1)|{x}.select({d}, -1)|m.movedim({x}, 0, -1)|{x}.flatten()
    {x}.detach()|{x}.view({x}.shape)|{x}[None]|{x}[...]|{x}.reshape({x}.shape)|{x}.ravel()
    m.atleast_2d({x})|m.broadcast_to({x}, {x}.shape)|{x}.expand_as({x})|{x}.T.reshape(-1)
    {x}.permute(tuple(range({x}.ndim))[::-1])|{x}.swapaxes(0, -1)|m.tensor_split({x}, 2, {d})[0]
    {x}.unflatten({d}, (-1, 1))|{x}.unfold({d}, 1, 1)|{x}.view(-1, 1)|{x}.hsplit(1)[0]
    m.nn.Flatten(0)({x})|m.nn.Identity()({x})|{x}.type({x}.dtype)
"""
CHANGES = """
    {x}.add_({y})|{x}.sub_({y})|{x}.mul_({y})|{x}.div_({y} * {y} + 1)|{x} += {y}|{x} *= {y}
    {x}.mul_(0.5)|{x}.add_(1.5)|{x}.pow_(2)|{x}.neg_()|{x}.abs_()|{x}.tanh_()|{x}.relu_()
    {x}.sigmoid_()|{x}.clamp_(-0.7, 0.7)|{x}.fill_(0.3)|{x}.zero_()|{x}.copy_({y})|{x}[{s}] = {y}
    {x}[{s}] = 0.4|{x}[{s}] *= 2|{x}[{s}] += {y}|{x}[{u}] = {y}|{x}[{u}] = 0.25
    {x}[{x} > 0.2] = 0.1|{x}[{b}] = {y}|{x}.masked_fill_({x} > 0.3, 0.2)
    {x}.index_add_(0, {i}, {x}.detach().index_select(0, {i}))|{x}.index_fill_(0, {u}, 0.3)
    {x}.addcmul_({y}, {y})|{x}.lerp_({y}, 0.3)|{x}.sin_()|{x}.square_()|{x}.exp_().mul_(0.1)
    {x}.T[{s}] = 0.2|{x}.add_({x})|{x}.mul_({x})|{x}[{s}] = {x}[{s}].clone() * 2
    {x}.view(-1)[{s}] = {y}|{x}.detach().mul_(0.5)|{x}.clip_(max=0.5)|{x}.fill_({n})
    {x}.scatter_(0, {z}, 0.3)|{x}.scatter_add_(0, {z}, {x}.detach().clone())
    {x}.index_copy_(0, {u}, {x}.index_select(0, {u}) * 2)|{x}.diagonal().mul_(2)
    {x}.unsqueeze(0).add_({y})|m.nn.functional.relu({x}, inplace=True)|{x}.masked_fill_({b}, {n})
    {x}.abs_().add_(0.1).sqrt_()|{x}.add_({y}, alpha=2)
"""
CALLS = [
    "{t} = checkpointed(m, lambda a: (a * 2).tanh() * a, {x})",
    "{t} = checkpointed(m, lambda a: a.sin().mul_(2).add_(a), {x})",
    "{t} = checkpointed(m, lambda a, b: a[..., None] * b.sum() + {x}.exp()[..., None], {x}, {y})",
    "{t} = checkpointed(m, lambda a: a * {y}.sum() + a.detach(), {x})",
    "{t} = slope(m, {x}.sum() * 1.5, [{leaf}], create_graph=True)",
    "{t} = slope(m, ({x} * {x}).sum(), [{leaf}], create_graph=True)",
    "{t} = slope(m, {x}, [{leaf}], {x}.detach().clone(), retain_graph=True)",
    "{t} = slope(m, {x}.sum(), [{inner}], create_graph=True)",
    "({x} * {x}).sum().backward(retain_graph=True)",
    "{x}.backward({x}.detach().clone(), retain_graph=True)",
    "{x}.register_hook(lambda g: g * 2)",
    "{x}.register_hook(lambda g: g.tanh())",
    "{x}.register_hook(lambda g: seen.setdefault('{x}', []).append(g.detach().clone()))",
    "{x}.retain_grad()",
    "{t} = {x}.detach().requires_grad_()",
    "{t} = m.ones_like({x}) * {n}",
    "{t} = {x}.clone(); {t}[{s}] = {y}",
    "{t} = m.empty_like({x}).copy_({y})",
    "{t} = m.zeros({x}.shape, dtype={x}.dtype); {t}.add_({y})",
    "{t} = {x}.float()",
    "{t} = ({x} > 0.1).to(m.int64)",
    "{t} = {leaf}.grad",
    "{leaf}.grad = None",
    "{t} = m.zeros({x}.shape, dtype={x}.dtype).copy_({x}).mul_({x})",
]


def _listed(text: str) -> list[str]:
    return [item for line in text.split("\n") for item in line.strip().split("|") if item]


EXPRESSIONS = [(2, _listed(UNARY)), (3, _listed(BINARY)), (3, _listed(WHOLE)), (5, _listed(VIEWS))]
STATEMENTS = _listed(CHANGES)


# What finite differences see through, or what changes a gradient on its way.
OPAQUE = ("detach", "data", "no_grad", "hook", "slope(", ".grad", "backward", "> ", "float()", "32")


class Writer:
    """Draws the lines of one program."""

    def __init__(self, seed: int, most: int = 12) -> None:
        self.random = random.Random(seed)
        self.torch = Machine(torch)
        self.lines: list[str] = []
        self.refusals: list[Exception | None] = []  # PyTorch's, by line
        self.count = 0
        self.plain = self.random.random() < 0.4  # so that finite differences can judge it
        for _ in range(self.random.randrange(2, 5)):
            self._leaf()
        for _ in range(self.random.randrange(3, most)):
            try:
                self._step()
            except RuntimeError:  # PyTorch refuses to look at a piece of a split that was changed
                break

    def add(self, line: str) -> None:
        """Append a line; what PyTorch refuses stays, so that we are seen to refuse it too."""
        self.lines.append(line)
        self.refusals.append(self.torch.do(line))

    def _leaf(self) -> None:
        shape = self.random.choice(SHAPES)
        numbers = [round(self.random.uniform(-1.5, 1.5), 3) for _ in range(math.prod(shape))]
        kind = self.random.choice(["float64"] * 8 + ["float32", "int64"])
        nested = np.array(numbers).reshape(shape).tolist()
        line = f"t{self.count} = m.tensor({nested}, dtype=m.float64)"
        line += f".to(m.{kind})" if kind != "float64" else ""
        line += ".reshape(0, 3)" if shape == (0, 3) else ""
        if kind != "int64" and numbers and self.random.random() < 0.8:
            line += ".requires_grad_()"
        self.add(line)
        self.count += 1

    def _fill(self, text: str, changes: bool) -> str:
        source = self.random
        found = {k: v for k, v in self.torch.tensors().items() if v is not None}
        floats = [k for k, v in found.items() if v.is_floating_point()]
        usable = floats if floats and source.random() < 0.97 else list(found)
        x = source.choice(usable[-6:] if source.random() < 0.7 else usable)
        tensor = found[x]
        if "hook" in text and tensor._is_view():
            # PyTorch drops the hooks of a view that changes in place; without history, it crashes.
            text = "pass"
        shape = tuple(tensor.shape)
        rows = shape[0] if shape else 1
        last = max(shape[-1] if shape else 1, 1)
        some_row = max(rows, 1)
        fitting = [k for k, v in found.items() if _broadcasts(tuple(v.shape), shape)]
        y = source.choice(fitting if source.random() < 0.9 else list(found))
        if y != x and _shares(found[y], tensor) and changes:
            y += ".clone()"  # PyTorch does not notice every overlap, and then computes nonsense
        unique = source.sample(range(some_row), source.randrange(1, some_row + 1))
        some = [source.randrange(some_row) for _ in range(source.randrange(1, 4))]
        inner = [k for k, v in found.items() if _needs_gradient(v)] or [x]
        leaves = [k for k in inner if found[k].is_leaf] or [x]
        values = {
            "x": x,
            "y": y,
            "d": source.randrange(-1, max(len(shape), 1)),
            "k": [i - some_row * (i % 2) for i in some],
            "i": f"m.tensor({some})",
            "u": f"m.tensor({unique})",
            "z": f"m.zeros({shape}, dtype=m.int64)",
            "b": f"m.tensor({[source.random() < 0.6 for _ in range(rows)]}, dtype=m.bool)",
            "j": source.randrange(-last, last),
            "n": round(source.uniform(-1, 1), 2),
            "s": source.choice(["0", "-1", "0:1", "1:", "::2", "None", ":", "-1:"]),
            "leaf": source.choice(leaves),
            "inner": source.choice(inner),
            "t": f"t{self.count}",
        }
        return text.format(**values)

    def _step(self) -> None:
        source = self.random
        kind = source.choices(["expression", "change", "call"], [6, 4, 1.2])[0]
        group = source.choices(EXPRESSIONS, [weight for weight, _ in EXPRESSIONS])[0]
        if kind == "expression":
            line = "{t} = " + source.choice(group[1])
        else:
            line = source.choice(STATEMENTS if kind == "change" else CALLS)
        if self.plain and any(word in line for word in OPAQUE):
            return
        line = self._fill(line, kind == "change")
        # Not around views: PyTorch says that a view made in no_grad requires a gradient.
        if (
            not self.plain
            and source.random() < 0.15
            and (kind == "change" or group in EXPRESSIONS[:2])
        ):
            line = f"with m.{source.choice(['no_grad', 'no_grad', 'enable_grad'])}(): {line}"
        self.add(line)
        name = f"t{self.count}"
        if name not in self.torch.names:
            return
        self.count += 1
        made = self.torch.names[name]
        if made is None or not made.is_floating_point():
            return
        if made.numel() > MOST_ELEMENTS:
            self.add(f"{name} = {name}.reshape(-1)[:7].clone()")
        elif made.numel() and float(made.detach().abs().max()) > LARGEST:
            self.add(f"{name} = m.atan({name})")


def _needs_gradient(tensor: Any) -> bool:
    try:
        return bool(tensor.requires_grad)
    except RuntimeError:  # PyTorch refuses to look at a piece of a split whose base was changed
        return False


def _shares(one: Any, other: Any) -> bool:
    return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())


def _broadcasts(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(one, other) == other
    except ValueError:
        return False


# -- comparing ------------------------------------------------------------------------------------


class Different(Exception):
    """The two libraries disagree."""


@dataclass
class Outcome:
    """What came of one program.

    `kind` is "same"; "refused" by both; "loud": only we refuse; "allowed": only PyTorch refuses,
    and finite differences say that we are right, or cannot say; or "WRONG".
    """

    kind: str
    text: str = ""
    lines: Sequence[str] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}\n" + "\n".join(f"    {line}" for line in self.lines)


def array_of(tensor: Any) -> Any:
    return tensor.detach().numpy()


def check_equal(what: str, one: Any, other: Any, coarse: bool) -> None:
    """Raise unless two tensors (or None) are the same; `coarse` if float32 took part."""
    if one is None or other is None:
        if one is not other:
            raise Different(f"{what}: {one} here, {other} in PyTorch")
        return
    a, b = array_of(one), array_of(other)
    if a.shape != b.shape or a.dtype != b.dtype:
        raise Different(f"{what}: {a.dtype} {a.shape} here, {b.dtype} {b.shape} in PyTorch")
    if np.array_equal(a, b):
        return
    scale = 1 + float(np.abs(b[np.isfinite(b)]).max(initial=0))
    rtol, atol = (1e-2, 1e-3) if coarse else (1e-6, 1e-8)
    if not np.allclose(a, b, rtol=rtol, atol=atol * scale, equal_nan=True):
        raise Different(f"{what}:\n{a}\nhere,\n{b}\nin PyTorch")


def run_both(lines: Sequence[str]) -> Outcome:
    """Run a program in both libraries and compare after every line."""
    ours, theirs = Machine(gw), Machine(torch)
    for position, line in enumerate(lines):
        outcome = _step(ours, line, theirs.do(line), lines[: position + 1])
        if outcome is not None:
            return outcome
        try:
            check_tensors(ours, theirs, is_coarse(lines))
        except Different as difference:
            return Outcome("WRONG", str(difference), lines)
    return finished(ours, theirs, lines)


def is_coarse(lines: Sequence[str]) -> bool:
    return any(word in line for line in lines for word in ("float32", "int64", "float()"))


def _step(
    ours: Machine, line: str, refusal: Exception | None, lines: Sequence[str]
) -> Outcome | None:
    """Run a line here; an outcome if only one library refuses it."""
    mine = ours.do(line)
    if refusal is not None and mine is None:
        return judged(ours, lines, f"{line}: PyTorch: {refusal}")
    if mine is not None and refusal is None:
        return Outcome("loud", f"{line}: {mine}", lines)
    return None


def finished(ours: Machine, theirs: Machine, lines: Sequence[str]) -> Outcome:
    """Compare the tensors and their derivatives after the last line."""
    try:
        check_tensors(ours, theirs, is_coarse(lines))
        return check_derivatives(ours, theirs, lines)
    except Different as difference:
        return Outcome("WRONG", str(difference), lines)
    except RuntimeError as error:  # PyTorch refuses to look at a piece of a split
        return judged(ours, lines, f"PyTorch: {error}")


def check_tensors(ours: Machine, theirs: Machine, coarse: bool) -> None:
    mine, others = ours.tensors(), theirs.tensors()
    if mine.keys() != others.keys():
        raise Different(f"{mine.keys() ^ others.keys()} is not in both")
    for name, other in others.items():
        check_equal(name, mine[name], other, coarse)
        if other is None or not other.numel():
            continue
        if mine[name].requires_grad != other.requires_grad and not is_flat(other, theirs):
            raise Different(f"{name}.requires_grad is {mine[name].requires_grad} here")


def is_flat(tensor: Any, machine: Machine) -> bool:
    """Whether PyTorch derives only zeros from a tensor: the slope of relu is an answer without a
    history here, and there one whose derivative is 0."""
    leaves = [t for t in machine.tensors().values() if t is not None and t.requires_grad]
    leaves = [t for t in leaves if t.is_leaf]
    if not tensor.requires_grad or not leaves:
        return False
    found = torch.autograd.grad(tensor.sum(), leaves, allow_unused=True, retain_graph=True)
    return all(g is None or not g.any() for g in found)


def total_of(machine: Machine, counted: Collection[str] | None = None) -> Any:
    """A number that depends on every tensor that needs a gradient, each in its own way."""
    total: Any = 0.0
    for position, (name, tensor) in enumerate(machine.tensors().items()):
        if counted is None:
            wanted = tensor is not None and tensor.requires_grad and tensor.numel()
        else:
            wanted = name in counted
        if wanted:
            total = total + (tensor.double() * (1.0 + 0.1 * position)).sin().sum()
    return total


def squares(gradients: Any) -> Any:
    """A number to differentiate again."""
    given = [g.double() for g in gradients if g is not None]
    return sum((g * g * 0.1).sum() + g.sum() for g in given)


HELPERS |= {"total_of": total_of, "squares": squares}
LAST = [
    "T = total_of(machine)",
    "G = m.autograd.grad(T, L, create_graph=True, allow_unused=True)",
    "S = squares(G)",
    "H = m.autograd.grad(S, L, allow_unused=True, retain_graph=True)",
    "T.backward()",
]


def check_derivatives(
    ours: Machine, theirs: Machine, lines: Sequence[str], judges: bool = True
) -> Outcome:
    """The derivatives of everything that was computed, `.grad` of all tensors, and hooks."""
    coarse = is_coarse(lines)
    leaves = [k for k, v in theirs.tensors().items() if v is not None and v.requires_grad]
    leaves = [name for name in leaves if theirs.names[name].is_leaf]
    for machine in (ours, theirs):
        machine.names |= {"machine": machine, "L": [machine.names[name] for name in leaves]}
    for line in LAST:
        if line[0] == "H" and not getattr(theirs.names["S"], "requires_grad", False):
            continue
        mine, other = ours.do(line), theirs.do(line)
        if mine is not None and other is not None:
            return Outcome("refused", f"{mine}", lines)
        if mine is not None:
            return Outcome("loud", f"{line}: {mine}", lines)
        if other is not None:
            text = f"{line}: PyTorch: {other}"
            return judged(ours, lines, text) if judges else Outcome("allowed, not judged", text)
        if not getattr(theirs.names["T"], "requires_grad", False):
            return Outcome("same", lines=lines)
    for what, order in (("G", "first"), ("H", "second")):
        for name, one, other in zip(leaves, ours.names.get(what, ()), theirs.names.get(what, ())):
            zero = array_of(theirs.names[name]) * 0  # None and zeros are the same answer
            one, other = (torch.tensor(zero) if g is None else g for g in (one, other))
            check_equal(f"{order} derivative by {name}", one, other, coarse)
    # PyTorch makes the history of a view again after a change under no_grad, past what retains.
    retained = not any("no_grad" in line for line in lines)
    for name, tensor in theirs.tensors().items():
        if tensor is not None and (tensor.is_leaf or (tensor.retains_grad and retained)):
            check_equal(f"{name}.grad", ours.names[name].grad, tensor.grad, coarse)
    seen, others = ours.names["seen"], theirs.names["seen"]
    for name in seen.keys() | others.keys():
        counts = [len(found.get(name, ())) for found in (seen, others)]
        if counts[0] != counts[1]:
            raise Different(f"hooks of {name} ran {counts[0]} times, in PyTorch {counts[1]} times")
        for one, other in zip(seen.get(name, ()), others.get(name, ()), strict=True):
            check_equal(f"a hook's gradient of {name}", one, other, coarse)
    return Outcome("same", lines=lines)


def judged(ours: Machine, lines: Sequence[str], text: str) -> Outcome:
    """We computed what PyTorch refuses: are our gradients right?

    Finite differences say so, or PyTorch itself once it copies what is saved and then changed.
    """
    total, found = total_of(ours), ours.tensors()
    if any(word in line for line in lines for word in OPAQUE) or isinstance(total, float):
        # PyTorch's copies miss what index_copy_ does to a single number.
        if "modified by an inplace" in text and not any("index_copy_" in line for line in lines):
            return with_copies(lines, text)
        return Outcome("allowed, not judged", text, lines)
    counted = [k for k, v in found.items() if v is not None and v.requires_grad and v.numel()]
    starts = {line.split(" = ")[0] for line in lines if " = m.tensor(" in line}
    leaves = [name for name in counted if found[name].is_leaf and name in starts]
    try:
        inputs = [found[name] for name in leaves]
        gradients = gw.autograd.grad(total, inputs, materialize_grads=True)
    except REFUSALS as error:
        return Outcome("refused", str(error), lines)

    def moved(name: str, k: int, step: float) -> float:
        again = Machine(gw)
        for line in lines:
            again.do(line)
            if line.startswith(f"{name} = m.tensor"):
                again.names[name]._array.reshape(-1)[k] += step
        return float(total_of(again, counted).item())

    for name, gradient in zip(leaves, gradients, strict=True):
        numbers = [
            (moved(name, k, 1e-6) - moved(name, k, -1e-6)) / 2e-6 for k in range(gradient.numel())
        ]
        if not np.allclose(array_of(gradient).reshape(-1), numbers, rtol=1e-4, atol=1e-5):
            return Outcome("WRONG", f"{text}\nbut by {name} {gradient}\nis not {numbers}", lines)
    return Outcome("allowed, and right", text, lines)


def with_copies(lines: Sequence[str], text: str) -> Outcome:
    """Compare once more, with a PyTorch that copies saved tensors when they are changed."""
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        ours, theirs = Machine(gw), Machine(torch)
        for line in lines:
            other, mine = theirs.do(line), ours.do(line)
            if other is not None and mine is None:
                return Outcome("allowed, not judged", text, lines)
        try:
            check_tensors(ours, theirs, is_coarse(lines))
            outcome = check_derivatives(ours, theirs, lines, judges=False)
        except Different as difference:
            if is_coarse(lines):  # its copies miss writes to views beside an operand that was cast
                return Outcome("allowed, not judged", text, lines)
            return Outcome("WRONG", f"{text}\n{difference}", lines)
        except RuntimeError:
            return Outcome("allowed, not judged", text, lines)
    return Outcome("allowed, and right", text, lines) if outcome.kind == "same" else outcome


def compare(seed: int) -> Outcome:
    """Draw a program and compare; a wrong one is shortened."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program, ours = Writer(seed), Machine(gw)
        lines = program.lines
        outcome = None
        for position, (line, refusal) in enumerate(zip(lines, program.refusals, strict=True)):
            outcome = _step(ours, line, refusal, lines[: position + 1])
            if outcome is not None:
                break
        outcome = outcome or finished(ours, program.torch, lines)
        return shortened(outcome) if outcome.kind == "WRONG" else outcome


def shortened(outcome: Outcome) -> Outcome:
    """The same with the lines left out that it does not need."""
    lines = list(outcome.lines)
    for line in reversed(outcome.lines):
        fewer = [other for other in lines if other is not line]
        try:
            found = run_both(fewer)
        except Exception:
            continue
        if found.kind == "WRONG":
            lines, outcome = fewer, found
    return outcome


def main(first: int, count: int) -> None:
    """Run many programs; print the tally as it goes, and every program of interest."""
    tally: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            outcome = compare(seed)
        except Exception as error:  # a bug of this file, or an error of the wrong kind
            outcome = Outcome("CRASH", f"{type(error).__name__}: {error}")
        tally[outcome.kind] += 1
        if outcome.kind in ("WRONG", "CRASH", "loud", "allowed, not judged"):
            print(f"seed {seed} {outcome}", flush=True)
        if (seed - first + 1) % 1000 == 0:
            print(f"TALLY {seed - first + 1} {dict(tally)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
