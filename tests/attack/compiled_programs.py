"""Programs as users write them, run twice: as they are and compiled. Everything is compared.

A `UserProgram` is source text, so that a failing one can be read, made smaller and kept. `run`
calls its step several times from a fresh state and notes after every call all that a user could
look at: results, arguments, gradients, buffers, the state of the optimizer, and the random
generator.
"""

from __future__ import annotations

import linecache
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk import nn, optim
from gradwalk.engine.tree import leaves

CALLS = 3
PRELUDE = '''
class Counter(nn.Module):
    """Keeps integer and float memories, and uses them."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate
        self.register_buffer("steps", gw.tensor(0))
        self.register_buffer("average", gw.zeros(()))

    def forward(self, x):
        self.steps += 1
        with gw.no_grad():
            self.average.mul_(1 - self.rate).add_(x.detach().mean() * self.rate)
        return x / (self.steps + 1) + self.average


class Residual(nn.Module):
    """Adds its input to what the inner module makes of it, scaled by a parameter."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.scale = nn.Parameter(gw.ones(1))

    def forward(self, x):
        return x + self.scale * self.inner(x)


class Remember(nn.Module):
    """Replaces an attribute at every call."""

    def __init__(self):
        super().__init__()
        self.last = gw.zeros(())

    def forward(self, x):
        out = x * 0.5 + self.last
        self.last = x.detach().mean()
        return out
'''


@dataclass
class UserProgram:
    """The source of a program: what is made once, the step, its arguments, and what happens
    between two calls."""

    seed: int
    setup: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)  # names
    values: list[str] = field(default_factory=list)  # expressions, evaluated before every call
    body: list[str] = field(default_factory=list)
    result: str = "None"
    between: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)  # expressions for what is looked at after a call

    def source(self) -> str:
        """The text of a function that returns the step and the other parts."""
        values = ", ".join(self.values)
        lines = [
            f"gw.manual_seed({self.seed})",
            *self.setup,
            f"def step({', '.join(self.arguments)}):",
            *_indented(self.body),
            f"    return {self.result}",
            "def values(call):",
            f"    gw.manual_seed({self.seed} * 100 + call)",
            f"    return ({values}{',' if values else ''})",
            "def between(call, given, result):",
            *_indented(self.between),
            "    return None",
            f"return step, values, between, lambda: [{', '.join(self.kept)}]",
        ]
        return PRELUDE + "\n\ndef make():\n" + "\n".join(_indented(lines)) + "\n"

    def __str__(self) -> str:
        return self.source()[len(PRELUDE) :]


def _indented(lines: list[str]) -> list[str]:
    return ["    " + part for line in lines for part in line.split("\n")]


def names() -> dict[str, Any]:
    """What a program may refer to."""
    return {"gw": gw, "nn": nn, "F": nn.functional, "optim": optim, "np": np, "__name__": "user"}


def run(program: UserProgram, backend: str | None = None, nudge: int = 0) -> list[Any]:
    """Call the step from a fresh state; return what there was to see after every call.

    With `nudge` all float arguments, parameters and buffers differ in their last bits.
    """
    text, file = program.source(), f"<program {program.seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = names()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, file, "exec"), space)
        step, values, between, kept = space["make"]()
        _nudge(leaves([_contents(k) for k in kept()]), nudge)
        called = step if backend is None else gw.compile(step, backend=backend)
        seen: list[Any] = []
        for call in range(CALLS):
            given = values(call)
            _nudge(leaves(list(given)), nudge + call if nudge else 0)
            gw.manual_seed(program.seed + call)
            result = called(*given)
            # A graph that backward has walked is over: what a compiled call leaves has none then.
            history = "backward" not in text
            looked = [_look(_contents(k)) for k in kept()]
            drawn = gw.rand(1)  # of float32, as are numbers that the step may draw
            seen.append([_look(result, history), _look(given, history), looked, _look(drawn)])
            between(call, given, result)
    return seen


def _nudge(things: Any, seed: int) -> None:
    if not seed:
        return
    source = np.random.default_rng(seed)
    for thing in things:
        if hasattr(thing, "_array") and thing._array.dtype.kind == "f":
            array = thing._array
            step = np.finfo(array.dtype).eps * 4
            array *= (1 + step * source.uniform(-1, 1, array.shape)).astype(array.dtype)


def _contents(thing: Any) -> Any:
    """What a module, an optimizer or an object holds."""
    if isinstance(thing, nn.Module):
        return dict(thing.state_dict(keep_vars=True))
    if isinstance(thing, optim.Optimizer):
        return thing.state_dict()
    return thing


def _look(thing: Any, history: bool = True) -> Any:
    """A copy of the numbers, the gradient and the flag of every tensor in a tree."""
    if hasattr(thing, "_array"):
        grad = None if thing.grad is None else np.array(thing.grad._array)
        return [np.array(thing._array), grad, history and thing.requires_grad]
    if isinstance(thing, dict):
        return {key: _look(value, history) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_look(value, history) for value in thing]
    return thing


def _flat(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _flat(value, f"{path}.{key}")
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from _flat(value, f"{path}.{number}")
    else:
        yield path, tree


# -- comparing -------------------------------------------------------------------------------------


def differences(found: Any, expected: Any, slack: bool = True) -> list[tuple[str, float]]:
    """The places that differ, and how much more than the tolerance; infinite if not in numbers."""
    one, other = dict(_flat(found)), dict(_flat(expected))
    arrays = [a for a in other.values() if isinstance(a, np.ndarray)]
    # A float64 beside float32 may have been computed from it.
    tolerance = 2e-5 if any(a.dtype == np.float32 for a in arrays) else 1e-11
    tolerance = tolerance if slack else 0.0
    apart = [(path, np.inf) for path in one.keys() ^ other.keys()]
    for path in one.keys() & other.keys():
        distance = _distance(one[path], other[path], tolerance)
        if distance:
            apart.append((path, distance))
    return sorted(apart)


def _distance(x: Any, y: Any, tolerance: float) -> float:
    """How far apart two things are, relative to the largest number; 0 within the tolerance."""
    numbers = (np.ndarray, float, int)
    if not isinstance(x, numbers) or isinstance(x, bool) or type(x) is not type(y):
        return 0.0 if type(x) is type(y) and x == y else np.inf
    x, y = np.asarray(x), np.asarray(y)
    if x.shape != y.shape or x.dtype != y.dtype:
        return np.inf
    if x.dtype.kind != "f":
        return float(not np.array_equal(x, y))
    finite = np.isfinite(x)
    if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return 1e30
    if not np.array_equal(finite, np.isfinite(y)):
        return 1e30
    gap = np.abs(x[finite].astype(np.float64) - y[finite]).max(initial=0)
    apart = float(gap / (1 + np.abs(y[finite]).max(initial=0)))
    return apart if apart > tolerance else 0.0


def verdict(program: UserProgram, backend: str = "llvm") -> str:
    """Right, skipped (eager code raises), refused, crashed or wrong, with the details."""
    try:
        expected = run(program)
    except Exception:
        return "skipped"
    try:
        found = run(program, backend)
    except gw.TraceError as error:
        return f"refused {str(error).splitlines()[0]}"
    except Exception as error:
        return f"crashed {type(error).__name__}: {error}"
    apart = differences(found, expected)
    if not apart:
        return "right"
    moves: dict[str, float] = {}  # how much rounding moves eager code itself
    for nudge in (1, 2, 3, 4):
        try:
            moved = differences(run(program, nudge=nudge), expected, slack=False)
        except Exception:
            return "right"
        for path, distance in moved:
            moves[path] = max(moves.get(path, 0.0), distance)
    path, distance = max(apart, key=lambda each: each[1] / (moves.get(each[0], 0.0) + 1e-30))
    if distance <= 50 * moves.get(path, 0.0):
        return "right"
    # Rounding that a nudge does not show, as where tanh is 1 to the last bit: gone in float64.
    if distance < 0.05 and not _apart_in_float64(program, backend):
        return "right"
    return f"wrong at {path} by {distance:.2g} (eager moves by {moves.get(path, 0.0):.2g})"


def _apart_in_float64(program: UserProgram, backend: str) -> bool:
    def double(lines: list[str]) -> list[str]:
        return [
            re.sub(r"float32\b", "float64", line).replace(".float()", ".double()") for line in lines
        ]

    before = gw.get_default_dtype()
    gw.set_default_dtype(gw.float64)
    try:
        parts = {name: double(getattr(program, name)) for name in ("setup", "values", "body")}
        wide = replace(program, **parts)
        apart = differences(run(wide, backend), run(wide))
        return any(distance > 1e-6 for _, distance in apart)
    finally:
        gw.set_default_dtype(before)


def smaller(program: UserProgram, backend: str = "llvm", kind: str = "") -> UserProgram:
    """The program without the lines that its verdict does not need."""
    kind = kind or verdict(program, backend).split(" ")[0]
    shorter = True
    while shorter:
        shorter = False
        for part in ("body", "between", "setup", "kept"):
            for number in reversed(range(len(getattr(program, part)))):
                lines = getattr(program, part)
                less = replace(program, **{part: lines[:number] + lines[number + 1 :]})
                if verdict(less, backend).startswith(kind):
                    program, shorter = less, True
    return program
