"""Writes random programs for `compiled_programs`: lines drawn from tables, each tried eagerly.

A line is a template; its operands are variables that exist so far. What raises, or makes numbers
too large, is dropped, so the tables need not say which shapes and dtypes fit.
"""

from __future__ import annotations

import random
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tests.attack.compiled_programs import PRELUDE, UserProgram, names

LARGEST = 1e3
MOST_ELEMENTS = 3000
DTYPES = ["gw.float32", "gw.float64", "gw.int64", "gw.int32", "gw.bool", "gw.uint8"]
NUMBERS = ["0.5", "2", "-1", "1.5", "-0.25", "3", "1", "0", "0.0", "-2.0", "True"]

LINES = Path(__file__).with_name("program_lines.txt")


def _sections() -> dict[str, list[str]]:
    """The templates by section of the file."""
    sections: dict[str, list[str]] = {}
    for line in LINES.read_text("utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            lines = sections[line[1:-1]] = []
        elif line and sections:
            lines.append(line)
    return sections


TEMPLATES = _sections()
LAYERS = [line.split(" => ") for line in TEMPLATES["layers"]]
BATCH_NORM = [line.removeprefix("none") for line in TEMPLATES["batch norm"]]
SHAPES = ["4, 3", "3, 4", "2, 3, 4", "5", "4, 4", "2, 3, 4, 4", "1", "2, 5, 3", "6, 2", "33, 3"]


EVERY_RESULT = """for t in result if isinstance(result, (list, tuple)) else ():
    if not hasattr(t, 'dtype'): continue
"""
WRITE_TO_IT = "    if not t.requires_grad and t.dtype != gw.bool: t.add_(1)"
GO_BACK_FROM_IT = "    if t.grad_fn is not None: t.sum().backward(retain_graph=True)"


class ProgramWriter:
    """Writes one program; `write` returns it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.program = UserProgram(seed)
        self.space = names()
        exec(PRELUDE, self.space)
        exec(f"gw.manual_seed({seed})", self.space)
        self.tensors: list[str] = []  # expressions of tensors in sight, in order
        self.leaves: list[str] = []  # that require a gradient
        self.layers: list[str] = []
        self.rates: list[str] = []
        self.count = 0

    # -- parts of templates ------------------------------------------------------------------------

    def value(self, expression: str) -> Any:
        return eval(expression, self.space)

    def among(self, test: Any, recent: bool = True) -> str:
        fit = [t for t in self.tensors if test(self.value(t))]
        if not fit:
            raise LookupError
        if recent and self.random.random() < 0.6:
            fit = fit[-3:]
        return self.random.choice(fit)

    def fill(self, template: str, **known: str) -> str:
        """A template with its operands drawn."""
        given: dict[str, str] = dict(known)
        first: Any = None
        if "{w}" in template:
            given["w"] = self.among(lambda t: True, recent=False)
            first = self.value(given["w"])
        elif "x" not in given:
            floats = self.random.random() < 0.7
            given["x"] = self.among(lambda t: not floats or t.is_floating_point())
        first = self.value(given["x"]) if first is None else first
        draw = self.random.choice
        shape = tuple(first.shape)
        axis = draw(range(-len(shape), len(shape))) if shape else 0
        length = shape[axis] if shape else 1

        def one(match: Any) -> str:
            name = match[1]
            if name in given:
                return given[name]
            if name in "yz":
                return self.among(lambda t: _fits(t, first) or self.random.random() < 0.1)
            if name == "s":
                return self.among(lambda t: tuple(t.shape) == shape)
            if name == "b":
                return self.among(lambda t: t.dtype == bool)
            if name == "k":
                return self.among(lambda t: np.dtype(t.dtype).kind in "iu")
            if name == "p":
                return draw(self.leaves)
            simple = {
                "c": lambda: draw(NUMBERS), "r": lambda: draw(self.rates or NUMBERS),
                "a": lambda: axis, "n": lambda: length, "i": lambda: draw(range(-length, length)),
                "h": lambda: (length + 1) // 2, "d": lambda: draw(DTYPES), "n-1": lambda: shape[-1],
                "n0": lambda: shape[0], "n1": lambda: shape[1], "m": lambda: draw([1, 2, 3, 5]),
                "bn": lambda: draw(BATCH_NORM), "rate": lambda: draw(["0.1", "0.5", "1"]),
            }  # fmt: skip
            return str(simple[name]())

        return re.sub(r"\{([\w-]+)\}", one, template)

    def attempt(self, line: str, where: list[str], result: str | None = None) -> bool:
        """Run a line eagerly; keep it if it works and its result stays small."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(line, self.space)
            if result is not None:
                made = self.value(result)
                array = made._array
                if array.size > MOST_ELEMENTS or array.size == 0:
                    return False
                if (
                    array.dtype.kind in "fiu"
                    and not np.abs(np.asarray(array, float)).max() < LARGEST
                ):
                    return False
        except Exception:
            return False
        where.append(line)
        return True

    # -- the parts of a program --------------------------------------------------------------------

    def make_values(self) -> None:
        """Arguments, memories and leaves."""
        draw, program = self.random.choice, self.program
        long = draw(["", "", "", ", dtype=gw.float64"])
        shapes = [draw(SHAPES)]
        shapes += [draw([shapes[0], shapes[0].split(", ")[-1], "3", "1"]) for _ in range(3)]

        def value() -> str:
            text: str = draw(TEMPLATES["values"])
            return (
                text.replace("{s}", draw(shapes)).replace("{d}", long).replace("{t}", draw(DTYPES))
            )

        self.attempt("box = nn.Module()", program.setup)
        for number in range(draw([0, 1, 2, 3])):
            if draw([True, False]):
                name = f"m{number}"
                line = f"{name} = {value()}"
            else:
                name = f"box.m{number}"
                line = f"box.register_buffer('m{number}', {value()}.detach())"
            if self.attempt(line, program.setup, name):
                self.remember(name)
                program.kept.append(name)
        for number in range(draw([0, 0, 1, 2])):
            name = f"w{number}"
            if self.attempt(
                f"{name} = nn.Parameter(gw.randn({draw(shapes)}{long}))", program.setup, name
            ):
                self.remember(name)
                program.kept.append(name)
        for number in range(draw([1, 1, 2, 3])):
            name = f"x{number}"
            line = f"{name} = gw.randn({shapes[0]}{long})" if not number else f"{name} = {value()}"
            if self.attempt(line, [], name):
                self.argument(name, line.split(" = ", 1)[1])
        if draw([True, False]):
            self.space["rate"] = 0.5
            program.arguments.append("rate")
            program.values.append("0.5 + 0.25 * call")
            self.rates.append("rate")
        program.kept.append("box")

    def argument(self, name: str, expression: str) -> None:
        """An argument by itself, or inside a tuple or dictionary."""
        form = self.random.choice(["plain", "plain", "plain", "tuple", "dict"])
        self.program.arguments.append(name if form == "plain" else f"given_{name}")
        if form == "plain":
            self.program.values.append(expression)
        elif form == "tuple":
            self.program.values.append(f"({expression}, 'other')")
            self.program.body.append(f"{name}, _ = given_{name}")
        else:
            self.program.values.append(f"{{'it': {expression}}}")
            self.program.body.append(f"{name} = given_{name}['it']")
        self.remember(name)

    def remember(self, name: str) -> None:
        self.tensors.append(name)
        if self.value(name).requires_grad and self.value(name).is_leaf:
            self.leaves.append(name)

    def grow(self) -> None:
        """One more line."""
        kind = self.random.random()
        try:
            if kind < 0.16:
                self.layer()
            elif kind < 0.32:
                self.write_somewhere()
            else:
                self.expression()
        except (LookupError, RecursionError):
            pass

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def expression(self) -> None:
        name = self.fresh()
        line = f"{name} = {self.fill(self.random.choice(TEMPLATES['expressions']))}"
        if self.random.random() < 0.05:
            line = f"with gw.no_grad():\n    {line}"
        if self.attempt(line, self.program.body, name):
            self.tensors.append(name)

    def layer(self) -> None:
        made, called = self.random.choice(LAYERS)
        x = self.among(lambda t: t.is_floating_point() and t.ndim > 0)
        name, result = f"l{len(self.layers)}", self.fresh()
        made = self.fill(made, x=x)
        if self.value(x).dtype == np.float64:
            made += ".double()"
        line = f"{name} = {made}"
        call = f"{result} = {self.fill(called, x=x, l=name)}"
        setup: list[str] = []
        if self.attempt(line, setup) and self.attempt(call, self.program.body, result):
            self.program.setup += setup
            self.layers.append(name)
            self.program.kept.append(name)
            self.tensors.append(result)

    def write_somewhere(self) -> None:
        line = self.fill(self.random.choice(TEMPLATES["writes"]))
        if re.match(r"[mw]\d+ .= ", line):  # a variable of the enclosing function
            return
        if self.random.random() < 0.3:
            line = f"with gw.no_grad():\n    {line}"
        self.attempt(line, self.program.body)
        # A memory with a history, which every call would continue, is refused: leave it out.
        for name in self.program.kept:
            memory = self.space.get(name)
            if name[0] == "m" and memory is not None and memory.grad_fn is not None:
                self.space[name] = memory.detach()
                self.program.body.pop()
            elif name.startswith("box.") and self.value(name).grad_fn is not None:
                exec(f"{name} = {name}.detach()", self.space)
                self.program.body.pop()

    def assign_attribute(self) -> None:
        """`box.m = ...`, in the shape and dtype that it has."""
        own = [t for t in self.tensors if t.startswith("box.")]
        if own:
            name = self.random.choice(own)
            now = self.value(name)
            try:
                other = self.among(lambda t: t.shape == now.shape and t.dtype == now.dtype)
            except LookupError:
                return
            text = self.random.choice(
                ["{o}.detach()", "{o}.detach() * 0.5", "{n} * 0.5 + {o}.detach()"]
            )
            value = text.replace("{o}", other).replace("{n}", name)
            if now.is_floating_point():
                self.attempt(f"{name} = {value}", self.program.body, name)

    def train(self) -> None:
        """The end of a training step: a loss, backward, and often an optimizer."""
        draw, program = self.random.choice, self.program
        parts = [t for t in self.tensors if self.value(t).grad_fn]
        if not parts:
            return
        chosen = self.random.sample(parts[-5:], min(len(parts[-5:]), draw([1, 2, 3])))
        loss = " + ".join(
            draw(["{}.tanh().mean()", "{}.mean()", "({0} * {0}).mean()"]).format(t) for t in chosen
        )
        self.attempt(f"loss = {loss}", program.body, "loss")
        trained = [n for n in self.layers if list(self.value(n).parameters())]
        trained += [n for n in self.leaves if re.match(r"w\d", n)]
        optimizer = bool(trained) and self.random.random() < 0.85
        if optimizer:
            lists = _parameters(trained)
            if draw([True, False, False]) and len(trained) > 1:
                groups = lists.replace(" + ", ", ")
                lists = f"[{{'params': ps, 'lr': 0.02}} for ps in ({groups},)]"
            made = draw(TEMPLATES["optimizers"]).replace("{p}", lists)
            if not self.attempt(f"opt = optim.{made}", program.setup):
                return
            program.kept.append("opt")
        zero = draw(["opt.zero_grad()", "opt.zero_grad(set_to_none=False)", "opt.zero_grad()", ""])
        end = (
            ["loss.backward()"]
            if self.random.random() < 0.9
            else ["loss.backward(retain_graph=True)", "loss.backward()"]
        )
        if optimizer and zero:
            if draw([True, False]):
                program.body.insert(len(program.arguments) and 0, zero)
            else:
                end.insert(0, zero)
        if trained and draw([True, False, False]):
            groups = _parameters(trained)
            clip = draw(["nn.utils.clip_grad_norm_({}, 0.5)", "nn.utils.clip_grad_value_({}, 0.1)",
                         "norm = nn.utils.clip_grad_norm_({}, 1.0)"])  # fmt: skip
            end.append(clip.format(groups))
        if self.leaves and draw([True, False, False, False]):
            leaf = draw(self.leaves)
            end.append(f"seen = {leaf}.grad * 2 if {leaf}.grad is not None else {leaf} * 0")
        if optimizer:
            end.append("opt.step()")
            if draw([True, False, False]):
                schedule = draw(TEMPLATES["schedules"]).replace("{o}", "opt")
                self.attempt(f"sched = optim.lr_scheduler.{schedule}", program.setup)
                program.between.append("sched.step()")
            elif draw([True, False, False]):
                program.between.append("opt.param_groups[0]['lr'] *= 0.5")
        before = list(program.body)
        for line in end:
            if not self.attempt(line, program.body):
                program.body[:] = before
                return
        if not optimizer and draw([True, False]):
            for leaf in self.leaves:
                if leaf[0] == "w":
                    program.body.append(
                        f"with gw.no_grad():\n    if {leaf}.grad is not None:\n"
                        f"        {leaf}.sub_(0.1 * {leaf}.grad)\n        {leaf}.grad = None"
                    )
        self.tensors.append("loss")
        if "seen" in self.space:
            self.tensors.append("seen")

    def hooks(self) -> None:
        """A hook on a leaf or a layer, made outside."""
        if self.leaves:
            leaf = self.random.choice(self.leaves)
            if re.match(r"w\d", leaf):
                self.attempt(f"{leaf}.register_hook(lambda g: g * 0.5)", self.program.setup)
        elif self.layers:
            layer = self.random.choice(self.layers)
            hook = "lambda m, i, o: o * 2 if hasattr(o, 'dtype') else None"
            self.attempt(f"{layer}.register_forward_hook({hook})", self.program.setup)

    def finish(self) -> None:
        draw, program = self.random.choice, self.program
        results = [t for t in self.tensors if re.match(r"v|loss|seen|m\d|x\d|box", t)]
        chosen = self.random.sample(results, min(len(results), draw([1, 2, 4, 8])))
        if "loss" in self.tensors and "loss" not in chosen:
            chosen.append("loss")
        form = draw(["{}", "[{}]", "tuple", "dict", "nested"])
        listed = ", ".join(chosen)
        if form == "dict":
            program.result = "{" + ", ".join(f"'{i}': {t}" for i, t in enumerate(chosen)) + "}"
        elif form == "nested":
            program.result = f"(({listed},), {{'count': 3, 'inner': [{chosen[0]}]}})"
        else:
            program.result = f"[{listed}]" if form == "[{}]" else f"({listed},)"
        if self.layers and draw([True, False, False]):
            for layer in self.layers:
                program.between.append(f"{layer}.train(call % 2 == 1)")
        # A result of a training step has no graph, so it may be written where eager code may not.
        if "loss" not in self.tensors and draw([True, False, False, False]):
            program.between.append(EVERY_RESULT + WRITE_TO_IT)
        if "loss" not in self.tensors and draw([True, False]):
            program.between.append(EVERY_RESULT + GO_BACK_FROM_IT)

    def write(self) -> UserProgram:
        self.make_values()
        for _ in range(self.random.choice([1, 3, 6, 10, 16])):
            self.grow()
            if self.random.random() < 0.06:
                self.assign_attribute()
        if self.random.random() < 0.15:
            self.hooks()
        if self.random.random() < 0.75:
            self.train()
        self.finish()
        return self.program


def _parameters(trained: list[str]) -> str:
    """The parameters of layers and leaves, as a list."""
    return " + ".join(f"list({n}.parameters())" if n[0] == "l" else f"[{n}]" for n in trained)


def _fits(one: Any, other: Any) -> bool:
    try:
        np.broadcast_shapes(tuple(one.shape), tuple(other.shape))
    except ValueError:
        return False
    return True


def written(seed: int) -> UserProgram:
    """The program of a seed."""
    return ProgramWriter(seed).write()
