"""distribute: which device has which part of a tensor, by patterns on names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from gradwalk.distributed.mesh import Mesh, Sharding
from gradwalk.engine.errors import name_of
from gradwalk.engine.function import Function
from gradwalk.engine.guest_loaders import loaders
from gradwalk.engine.modes import state
from gradwalk.engine.tree import mapped
from gradwalk.graph.source import caller
from gradwalk.nn.module import Module
from gradwalk.optim.optimizer import Optimizer
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.moving import move
from gradwalk.tensors.tensor import Tensor

Thing = TypeVar("Thing")


def distribute(
    thing: Thing, mesh: Mesh, sharding: Mapping[str, Sharding] | Sharding | None = None
) -> Thing:
    """Put a model, an optimizer, or tensors on a mesh.

    A sharding says for each dimension over which axis of the mesh it is divided: None for none, a
    name, or a tuple of names. Dimensions that it leaves out are whole.

    - A model takes patterns on the names of its parameters, `{"*.mlp.*weight": (None, "model")}`;
      the first that matches counts. All other parameters, and buffers, are whole on every device.
      The model itself is changed, and its gradients follow.
    - An optimizer takes no sharding: its parameters are where they are, and its state follows them.
    - A tensor, or a tuple, list or dictionary of them, takes one sharding: `("data",)` for a batch.
      The result is new. Without a sharding it is whole on every device, which gathers its parts.
    """
    if not isinstance(mesh, Mesh):
        raise TypeError(
            f"distribute takes a gw.Mesh, not {_kind(mesh)}.\n"
            "Fix: gw.distribute(model, mesh, {...})"
        )
    if isinstance(thing, Module):
        if sharding is not None and not isinstance(sharding, Mapping):
            raise TypeError(
                'a model takes patterns on the names of its parameters, such as {"*weight": '
                f"{checked(sharding, mesh)!r}}}, not one sharding"
            )
        for pattern in sharding or ():
            if not isinstance(pattern, str):
                raise TypeError(f"a pattern is a text that matches names, not {pattern!r}")
        _distribute_model(thing, mesh, sharding or {})
        return thing
    if isinstance(thing, Optimizer):
        if sharding is not None:
            raise TypeError(
                "the state of an optimizer follows its parameters. Fix: "
                "gw.distribute(model, mesh, {...}), then gw.distribute(optimizer, mesh)"
            )
        _distribute_optimizer(thing, mesh)
        return thing
    if isinstance(sharding, Mapping):
        raise TypeError("patterns are for a model; tensors take one sharding, such as ('data',)")
    if not isinstance(thing, (Tensor, tuple, list, dict)):
        raise TypeError(
            f"distribute takes a model, an optimizer or tensors, not {_kind(thing)}.\n"
            "Fix: make an array a tensor with gw.tensor; what a compiled function uses is "
            "distributed, not the function."
        )
    wanted = checked(sharding or (), mesh)
    spread: Thing = mapped(
        lambda part: _spread(part, mesh, wanted) if isinstance(part, Tensor) else part, thing
    )
    return spread


def sharding_of(tensor: Tensor) -> Sharding:
    """Over which axes of its mesh each dimension of a tensor is divided.

    >>> import gradwalk as gw
    >>> gw.distributed.sharding_of(gw.zeros(2, 3))
    (None, None)
    """
    array: Any = tensor._array
    if not isinstance(tensor.device, Mesh):
        return (None,) * tensor.ndim
    found: Sharding = array.machine.sharding_of(array.term)
    return found


def _distribute_model(model: Module, mesh: Mesh, patterns: Mapping[str, Sharding]) -> None:
    """Choose all shardings, then move everything: an error changes nothing."""
    parameters = dict(model.named_parameters())
    every_name = dict(model.named_parameters(remove_duplicate=False))
    names: dict[int, list[str]] = {}  # tied parameters have several
    for name, parameter in every_name.items():
        names.setdefault(id(parameter), []).append(name)
    shardings = {pattern: checked(sharding, mesh) for pattern, sharding in patterns.items()}
    first: dict[str, str | None] = {}  # the pattern that counts for a parameter
    unused = dict.fromkeys(patterns, "")  # a pattern before it that takes its parameters
    for name, parameter in parameters.items():
        found = [p for p in patterns if any(fnmatchcase(n, p) for n in names[id(parameter)])]
        first[name] = found[0] if found else None
        for pattern in found:
            unused[pattern] = unused[pattern] or found[0]
    for pattern, taken in unused.items():
        if not taken:
            raise ValueError(_nothing_matches(pattern, every_name))
        if pattern not in first.values():
            raise ValueError(
                f"the pattern {pattern!r} has no effect: {taken!r}, before it, matches the same "
                f"parameters, and the first counts.\nFix: write {pattern!r} before it."
            )
    chosen: dict[str, Sharding] = {}
    for name, parameter in parameters.items():
        used = first[name]
        chosen[name] = () if used is None else shardings[used]
        problem = misfit(tuple(parameter.shape), chosen[name], mesh)
        if problem:
            raise ValueError(
                f"parameter {name!r}, by the pattern {used!r}: {problem}.\n"
                f"Fix: write {{{name!r}: ()}} before other patterns, which keeps it whole, or "
                "change its shape or the mesh."
            )
    for name, parameter in parameters.items():
        grad, parameter._grad = parameter._grad, None
        parameter.data = _moved(parameter, mesh, chosen[name])
        parameter._grad = None if grad is None else _moved(grad, mesh, chosen[name])
    for buffer in model.buffers():
        buffer.data = _moved(buffer, mesh, ())


def _distribute_optimizer(optimizer: Optimizer, mesh: Mesh) -> None:
    """Move its state to where its parameters are."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for parameter in parameters:
        if parameter.device != mesh:
            raise RuntimeError(
                f"{name_of(parameter)} of this optimizer is on {parameter.device}, not on {mesh}.\n"
                "Fix: distribute the model first."
            )
    for parameter, entries in optimizer.state.items():
        sharding = sharding_of(parameter)

        def follow(value: Any, of: Any = parameter, sharding: Sharding = sharding) -> Any:
            if not isinstance(value, Tensor):
                return value
            return _moved(value, mesh, sharding if value.shape == of.shape else ())

        entries.update({name: mapped(follow, value) for name, value in entries.items()})


class Spread(Function):
    """A tensor on a mesh, in parts."""

    @staticmethod
    def forward(ctx: Any, x: Any, mesh: Mesh, sharding: Sharding) -> Any:
        ctx.source = x.device
        return _moved(x, mesh, sharding)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return move(g, ctx.source), None, None


def _spread(tensor: Tensor, mesh: Mesh, sharding: Sharding) -> Tensor:
    """A tensor of a batch, on the mesh."""
    if state.here.tracer is not None:
        return tensor  # it is the same tensor, and the compiler divides it
    problem = misfit(tuple(tensor.shape), sharding, mesh)
    if problem:
        raise ValueError(
            f"{name_of(tensor)}: {problem}.\nFix: change its shape, the sharding or the mesh."
        )
    if tensor.requires_grad and state.here.grad_enabled:
        spread: Tensor = Spread.apply(tensor, mesh, sharding)
        return spread
    moved = _moved(tensor, mesh, sharding)
    moved.code, moved.position = caller()
    return moved


def _moved(tensor: Tensor, mesh: Mesh, sharding: Sharding) -> Tensor:
    return wrap(loaders["xla"]().spread(tensor._array, mesh, sharding))


def checked(sharding: Sharding, mesh: Mesh) -> Sharding:
    """A sharding whose axes are all in the mesh, each at most once."""
    if isinstance(sharding, str) or not isinstance(sharding, Iterable):
        like = sharding if isinstance(sharding, str) else next(iter(mesh.shape))
        raise TypeError(
            "a sharding is a tuple with an axis for each dimension, such as "
            f"({like!r},), or () for what stays whole; not {sharding!r}"
        )
    found: Sharding = tuple(tuple(a) if isinstance(a, list) else a for a in sharding)
    named = [n for axes in found for n in (axes if isinstance(axes, tuple) else (axes,))]
    axes = [name for name in named if name is not None]
    for name in axes:
        if name not in mesh.shape:
            has = ", ".join(map(repr, mesh.shape))
            raise ValueError(f"sharding {found!r}: {mesh!r} has no axis {name!r}, but {has}")
    if len(set(axes)) < len(axes):
        raise ValueError(f"sharding {found!r} names an axis twice: it can divide one dimension")
    return found


def misfit(shape: tuple[int, ...], sharding: Sharding, mesh: Mesh) -> str:
    """Say why a tensor of this shape cannot be divided so; "" if it can."""
    if len(sharding) > len(shape):
        return (
            f"its shape {shape} has {len(shape)} dimensions, the sharding {sharding!r} has "
            f"{len(sharding)}"
        )
    for i, axes in enumerate(sharding):
        parts = mesh.parts(axes)
        if shape[i] % parts:
            return (
                f"dimension {i} of its shape {shape} cannot be divided by axis {axes!r} of the "
                f"mesh into {parts} equal parts"
            )
    return ""


def _kind(thing: object) -> str:
    """A thing in an error; a model or a batch would fill the screen."""
    return repr(thing) if isinstance(thing, (str, int)) else type(thing).__name__


def _nothing_matches(pattern: str, names: Iterable[str]) -> str:
    near = get_close_matches(pattern, list(names), 3, 0.4) or list(names)[:3]
    return (
        f"the pattern {pattern!r} matches no parameter.\n"
        f"Fix: use names of named_parameters(), such as {', '.join(map(repr, near))}; * stands "
        "for anything, dots too."
    )
