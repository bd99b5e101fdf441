"""Sources of graphs: an expression, or a function in a user's file."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from gradwalk.graph.source import own_files
from gradwalk.inspect import record
from gradwalk.inspect.expression.parser import DEFAULT, parse
from gradwalk.inspect.expression.tokens import MARKS
from gradwalk.inspect.trace.trace import Trace
from gradwalk.printers.graphs.view import view_of
from gradwalk.printers.scalars import number
from gradwalk.scalar.value import Value
from gradwalk.tensors.tensor import Tensor

IN_A_FILE = re.compile(r"(?P<path>.+\.py)(?::(?P<function>[^\W\d]\w*)?(?:\(\s*\))?)?")
DEEPEST = 6  # the most lines of a failed program that are shown
_NAMED = re.compile(rf"(?P<name>[^\W\d][\w{MARKS}]*)=(?P<value>.+)", re.DOTALL)


# The argument of every command that takes an expression.
GivenValues = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME=VALUE",
        help="Values of the names in it: x=2 w=-3 t=pi/4. Names without a value are 1.",
        show_default=False,
    ),
]


@dataclass
class Source:
    """A trace, with notes about its origin."""

    title: str
    trace: Trace
    notes: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)  # the user's names
    expression: str = ""  # the source text of an expression
    values: dict[str, float] = field(default_factory=dict)  # the given values

    def find(self, name: str) -> int:
        """The node of a name, mul#3, or an index."""
        if name in self.names:
            node_index = self.trace.lookup(self.names[name])
            if node_index is None:
                raise KeyError(f"'{name}' is not part of the differentiated expression")
            return node_index
        op, _, index = name.rpartition("#")
        if index.isdecimal() and int(index) < len(self.trace):
            node = self.trace.nodes[int(index)]
            if op in ("", node.op or "leaf"):
                return node.index
        # A parameter initialized inside the recording has an earlier node, too.
        used = {node.key for node in view_of(self.trace).nodes}
        called = [n.index for n in self.trace if name in (n.label, self.trace.names.get(n.index))]
        called = [index for index in called if index in used]
        return called[0] if len(called) == 1 else self.trace.find(name)


def source_of(text: str, given: Sequence[str]) -> Source:
    """The trace of `text` (an expression, or file.py:function) at the values that were given."""
    values = dict(_value(pair) for pair in given)
    if len(values) < len(given):
        names = [pair.partition("=")[0].strip() for pair in given]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice} is given twice")
    match = IN_A_FILE.fullmatch(text.strip())
    if match is not None:
        return _from_file(Path(match["path"]), match["function"] or "", values)
    return _from_expression(text, values)


def _value(pair: str) -> tuple[str, float]:
    """`w1=-3`, `x=1/3`, `t=pi/2`."""
    match = _NAMED.fullmatch(pair.strip())
    if match is None:
        if pair.startswith("--"):
            raise ValueError(f"there is no option {pair}; --help lists them")
        raise ValueError(
            f"'{pair}' is not of the form name=value. Fix: put the whole expression in quotes, and "
            "after it x=2 w=-3"
        )
    return match["name"], constant(match["value"], f"the value of {match['name']}")


def constant(text: str, what: str = "it") -> float:
    """The value of an expression without names: -3, 1/3, pi/2."""
    program = parse(text)
    (statement, *others) = program.statements
    if others or statement.name or program.leaves:
        raise ValueError(f"{what} must be a number, not '{text}'")
    return program.build().root.data


def _from_expression(text: str, values: dict[str, float]) -> Source:
    built = parse(text).build(values)
    title = " ".join(text.split())
    return Source(title, built.trace(), built.notes(), dict(built.names), text, built.given)


# -- user files ----------------------------------------------------------------------------------


def _from_file(path: Path, name: str, values: dict[str, float]) -> Source:
    function = function_in(path, name)
    arguments, assumed = _arguments(function, name, values)
    with record() as recorded:
        with _told(f"{name}() of {path}", arguments):
            loss = function(**arguments)
        if isinstance(loss, Tensor) and not recorded.sweeps:
            _check_loss(loss, name)
            loss.backward()
    notes = [f"ran {name}() of {path}"]
    if assumed:
        notes.append(f"no value given, so set to {number(DEFAULT)}: {', '.join(assumed)}")
    if isinstance(loss, Value):
        return Source(f"{path.name}:{name}", record(loss), notes, dict(arguments))
    if isinstance(loss, Tensor):
        return Source(f"{path.name}:{name}", recorded, notes, dict(arguments))
    raise ValueError(
        f"{name}() returned {type(loss).__name__}; it must return the loss, a Value or a Tensor"
    )


def _check_loss(loss: Tensor, name: str) -> None:
    if not loss.requires_grad:
        raise ValueError(
            f"{name}() returned a tensor without a gradient: nothing it was computed from has "
            "requires_grad, or a detach() or no_grad() came between. Fix: compute the loss from "
            "parameters, or from tensors made with requires_grad=True"
        )
    if loss.numel() != 1:
        raise ValueError(
            f"{name}() returned a tensor of shape {tuple(loss.shape)}; a loss is a single number. "
            "Fix: return its .sum() or .mean()"
        )


@contextmanager
def _told(what: str, arguments: dict[str, Value]) -> Iterator[None]:
    """Report a failure of the user's code by its own lines, without ours."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [f for f in frames if not own_files[f.filename] and "importlib" not in f.filename]
        lines = [f"{what} did not finish"]
        lines += [f"  {Path(f.filename).name}:{f.lineno}: {f.line}" for f in theirs[-DEEPEST:]]
        lines += "".join(traceback.format_exception_only(error)).rstrip().split("\n")
        if arguments and isinstance(error, TypeError):
            lines.append(f"(its parameters are Values: {', '.join(arguments)})")
        raise ValueError("\n".join(lines)) from error


def function_in(path: Path, name: str) -> Callable[..., Any]:
    """Run the file as a module and return the function."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if not name:
        raise ValueError(f"say which function of {path} to run: {path}:NAME")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.resolve().parent))
    with _told(str(path), {}):
        spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        known = [
            n
            for n, f in vars(module).items()
            if inspect.isfunction(f) and f.__module__ == module.__name__ and n[0] != "_"
        ]
        raise ValueError(f"{path} has no function {name}; it has: {', '.join(known) or 'none'}")
    return function


def _arguments(
    function: Callable[..., Any], name: str, values: dict[str, float]
) -> tuple[dict[str, Value], list[str]]:
    """Every parameter as a named Value; missing values are assumed."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    unknown = [given for given in values if given not in [p.name for p in named]]
    if unknown:
        listed = ", ".join(p.name for p in named) or "none"
        raise ValueError(f"{name}() has no parameter '{unknown[0]}'; its parameters: {listed}")
    needed = [p.name for p in named if p.default is p.empty]
    assumed = [p for p in needed if p not in values]
    given = {**dict.fromkeys(assumed, DEFAULT), **values}
    arguments = {key: Value(value, label=key) for key, value in given.items()}
    for v in arguments.values():  # made here, not on a line of the user's
        v.code, v.position = None, -1
    return arguments, assumed
