"""A PyTorch function as a graph of ATen operations, made by torch.export.

Export loses where gradients stop: `detach()` becomes an alias and `no_grad()` disappears. So before
functionalization we mark these points with an operation of our own, `gradwalk::stop`. We decompose
only ATen operations that we cannot translate: one step of the program stays one step.
"""

from __future__ import annotations

import functools
import inspect
import io
import logging
import operator
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch

from gradwalk.graph.source import SourceLine
from gradwalk.torch import private
from gradwalk.torch.translate import is_known
from gradwalk.torch.user_lines import is_internal

aten = torch.ops.aten
Program = torch.export.ExportedProgram


@torch.library.custom_op("gradwalk::stop", mutates_args=())
def stop(x: torch.Tensor) -> torch.Tensor:
    """Return the same values and stop gradients."""
    return x.detach().clone()


@stop.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


STOP = torch.ops.gradwalk.stop.default


class Wrapped(torch.nn.Module):
    """A function as a module that owns the modules and parameters it uses."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.tensors: dict[str, torch.Tensor] = {}  # tensors that require gradients
        for name, used in _used_by(function).items():
            if isinstance(used, torch.nn.Module):
                self.add_module(name, used)
            elif isinstance(used, torch.Tensor) and used.is_leaf and used.requires_grad:
                self.tensors[name] = used

        @functools.wraps(function)  # export names the arguments by the signature
        def forward(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        self.forward = forward


def _used_by(function: Callable[..., Any]) -> dict[str, Any]:
    """The variables that a function captures, by name."""
    inner = inspect.unwrap(function)
    if inspect.ismethod(inner):
        return {"self": inner.__self__}
    if not inspect.isfunction(inner):
        return {}
    around = inspect.getclosurevars(inner)
    return {**around.globals, **around.nonlocals}


def learned(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The parameters of a module, or the tensors requiring gradients that a function captures."""
    parameters: dict[str, torch.Tensor] = {}
    parameters |= module.named_parameters(remove_duplicate=False)
    return {**parameters, **module.tensors} if isinstance(module, Wrapped) else parameters


def exported(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
    """Export a module on example arguments; the graph is not functional yet."""
    with quiet(), private.lines_kept(after=__file__):
        try:
            program = torch.export.export(module, args, kwargs, strict=False)
        except Exception as error:
            try:
                program = torch.export.export(module, args, kwargs, strict=True)
            except Exception:
                raise not_a_graph(module, *_what_failed(error)) from None
    _mark_stops(program)
    return program


def not_a_graph(module: torch.nn.Module, what: str, where: str) -> ValueError:
    """The error for a module whose graph would depend on numbers."""
    return ValueError(
        f"torch.export cannot make a graph of {name_of(module)}: {what}{where}\nFix: give "
        "import_graph a part of it that is a graph (no branch on numbers, no item(), no shape that "
        "depends on them), or record the program as it is with gradwalk.torch.record()."
    )


def _what_failed(error: Exception) -> tuple[str, str]:
    """The first sentence of an error inside torch.export, and the user's line that it is about."""
    said = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if type(error).__name__.startswith("GuardOnDataDependent"):
        said = f"a shape or a branch depends on numbers ({said.strip().rstrip('.')})"
    elif not isinstance(error, RuntimeError):
        said = f"{type(error).__name__}: {said}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not is_internal(f.filename)]
    if not frames:
        return said, ""
    last = frames[-1]
    return said, f"\n  at {SourceLine(last.filename, last.lineno or 0, last.line or '', last.name)}"


@contextmanager
def quiet() -> Iterator[None]:
    """Silence torch.export: it logs, warns and prints its own internals, and we report errors."""
    before = logging.root.manager.disable
    with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(before)


def name_of(module: torch.nn.Module) -> str:
    """The user's name for a function or module."""
    if isinstance(module, Wrapped):
        return str(getattr(module.function, "__qualname__", module.function))
    return type(module).__name__


def _mark_stops(program: Program) -> None:
    """Insert STOP where gradients stop; undo choices that only PyTorch's kernels can make."""
    graph = program.graph
    region = getattr(torch.ops.higher_order, "wrap_with_set_grad_enabled", None)
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is aten.detach.default:
            node.target = STOP
        elif node.target is aten.view.default:
            node.target = aten.reshape.default  # the functional graph may have another layout
        elif node.target is aten.topk.default and len(node.args) == 5:
            node.args = (*node.args[:4], True)  # the order of an unsorted result is unspecified
        elif node.target is aten.sort.default:  # as is that of equal elements
            names = ("dim", "descending")
            node.target = aten.sort.stable
            node.kwargs = dict(zip(names, node.args[1:])) | node.kwargs | {"stable": True}
            node.args = node.args[:1]
        elif node.target is region and node.args[0] is False:  # no_grad()
            for user in list(node.users):
                if user.target is operator.getitem:
                    _stop_after(graph, user)
    program.graph_module.recompile()


def _stop_after(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    with graph.inserting_after(node):
        stopped = graph.call_function(STOP, (node,))
    stopped.meta = dict(node.meta)
    node.replace_all_uses_with(stopped, delete_user_cb=lambda user: user is not stopped)


def functional(program: Program, taken_apart: Iterable[Any] = ()) -> Program:
    """Functionalize the graph; keep the operations that we can translate.

    `taken_apart` are operations that we know, but not with the arguments they have here.
    """
    table: Any = torch.export.default_decompositions()
    apart = set(taken_apart)
    for func in list(table.keys()):
        if func not in apart and is_known(func):
            table.pop(func)
    with quiet():
        return program.run_decompositions(table)


def can_be_taken_apart(func: Any) -> bool:
    """Whether ATen has a decomposition of an operation."""
    return private.is_overload(func) and func in torch.export.default_decompositions()
