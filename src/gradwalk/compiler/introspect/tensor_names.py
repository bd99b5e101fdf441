"""Names for captured tensors, from the user's own variables.

model.0.weight        a parameter of the module in the variable `model`
exp_avg of w          the state that an optimizer keeps for the tensor in `w`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from gradwalk.compiler.capture.guards import Variable
from gradwalk.compiler.capture.locations import (
    GeneratorLocation,
    GradientLocation,
    StateLocation,
    TensorLocation,
)
from gradwalk.compiler.capture.modules import AttributeLocation
from gradwalk.compiler.capture.user_code import is_filled
from gradwalk.compiler.ir.program import Argument, Memory, Scalar, Source
from gradwalk.compiler.tracing.outcome import TracedProgram
from gradwalk.nn.module import Module


def source_names(compiled: Any, trace: TracedProgram) -> dict[Source, str]:
    """What the sources of a program are to the user."""
    names: dict[Source, str] = {}
    for kind, listed in (
        (Argument, argument_names(compiled.names, trace)),
        (Memory, captured_names(compiled.function, trace)),
        (Scalar, map(str, trace.scalars)),
    ):
        names |= {kind(number): name for number, name in enumerate(listed)}
    return names


def captured_names(function: Callable[..., Any], trace: TracedProgram) -> list[str]:
    """A name for each captured memory, by its number."""
    known = _tensors_of(function, trace)
    return [
        _name(memory.locations[0], number, known) if memory.locations else f"memory {number}"
        for number, memory in enumerate(trace.captured)
    ]


def argument_names(parameters: list[str], trace: TracedProgram) -> list[str]:
    """A name for each tensor argument: the parameter's, where each parameter is one tensor."""
    if len(parameters) == trace.arguments:
        return parameters
    return [f"argument {position}" for position in range(trace.arguments)]


def _tensors_of(function: Callable[..., Any], trace: TracedProgram) -> dict[int, str]:
    """Names by the ids of tensors."""
    names: dict[int, str] = {}
    for name, thing in _variables(function):
        if isinstance(thing, Module):
            _add_module(names, name, thing)
        elif hasattr(thing, "_array"):
            names.setdefault(id(thing), name)
    # Modules that no variable of the function refers to, such as those of `self`: outer ones first.
    modules = list(dict.fromkeys(module for module, _, _ in trace.modules.attributes))
    inner = {id(m) for module in modules for m in module.modules() if m is not module}
    for module in modules:
        if id(module) not in inner:
            _add_module(names, type(module).__name__, module)
    return names


def _add_module(names: dict[int, str], name: str, module: Module) -> None:
    for path, tensor in (*module.named_parameters(), *module.named_buffers()):
        names.setdefault(id(tensor), f"{name}.{path}")


def _variables(function: Any) -> Iterator[tuple[str, Any]]:
    """The variables from outside that a function names."""
    if not isinstance(function, FunctionType):
        return
    closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in closure:
        if is_filled(cell):
            yield name, cell.cell_contents
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _name(location: Any, number: int, known: dict[int, str]) -> str:
    match location:
        case TensorLocation(tensor):
            return known.get(id(tensor)) or tensor.label or f"tensor {number}"
        case Variable():
            return str(location.name)
        case GradientLocation(of):
            return f"{_name(of, number, known)}.grad"
        case StateLocation(state, name):
            return f"{name} of {known.get(id(state.parameter), 'a parameter')}"
        case AttributeLocation(module, name):
            return f"{type(module).__name__}.{name}"
        case GeneratorLocation():
            return "random generator"
    return str(location)
