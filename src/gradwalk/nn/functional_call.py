"""Calling a module with other tensors in place of its parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gradwalk.nn.module import Module
from gradwalk.ops.shape.reshaping import stack


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """The result of a module whose parameters and buffers are the given tensors, by dotted name.

    Those that are not given keep their own, unless `strict`. With `tie_weights` a tensor also
    stands for the other names of a tied parameter.

    >>> import gradwalk as gw
    >>> layer = gw.nn.Linear(2, 1, bias=False)
    >>> gw.func.functional_call(layer, {"weight": gw.ones(1, 2)}, gw.tensor([3.0, 4.0]))
    tensor([7.])
    """
    dicts = parameter_and_buffer_dicts
    given: dict[str, Any] = {}
    for one in [dicts] if isinstance(dicts, Mapping) else dicts:
        twice = given.keys() & one.keys()
        if twice:
            raise ValueError(f"functional_call: {', '.join(sorted(twice))} is given twice")
        given |= one
    inputs = () if args is None else args if isinstance(args, tuple) else (args,)
    with _swapped(module, given, tie_weights, strict):
        return module(*inputs, **(kwargs or {}))


@contextmanager
def _swapped(module: Module, given: dict[str, Any], tie: bool, strict: bool) -> Iterator[None]:
    """Put tensors in the place of those of a module, and back at the end."""
    places: dict[str, tuple[Module, dict[str, Any], str]] = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        for register in (owner._parameters, owner._buffers):
            for name, tensor in register.items():
                if tensor is not None:
                    places[f"{path}.{name}" if path else name] = owner, register, name
    known = {name: register[key] for name, (_, register, key) in places.items()}
    unknown = given.keys() - known.keys()
    missing = known.keys() - given.keys() if strict else set()
    if unknown or missing:
        raise RuntimeError(
            f"functional_call of {type(module).__name__}: "
            + "; ".join(
                f"{what} {', '.join(sorted(names))}"
                for what, names in (("it has no", unknown), ("missing", missing))
                if names
            )
        )
    if tie:
        wanted = {id(known[name]): tensor for name, tensor in given.items()}
        given = {n: wanted[id(own)] for n, own in known.items() if id(own) in wanted} | given
    try:
        for name, tensor in given.items():
            owner, register, key = places[name]
            owner.__dict__[key] = register[key] = tensor
        yield
    finally:
        for name in given:
            owner, register, key = places[name]
            owner.__dict__[key] = register[key] = known[name]


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of models of one architecture, each stacked in front.

    >>> import gradwalk as gw
    >>> parameters, _ = gw.func.stack_module_state([gw.nn.Linear(2, 3), gw.nn.Linear(2, 3)])
    >>> parameters["weight"].shape
    (2, 3, 2)
    """
    if not models or len({type(model) for model in models}) != 1:
        raise RuntimeError("stack_module_state takes one or more models of the same class")
    listed = [dict(model.named_parameters()) for model in models]
    parameters = {
        name: stack([one[name] for one in listed]).detach().requires_grad_(own.requires_grad)
        for name, own in listed[0].items()
    }
    held = [dict(model.named_buffers()) for model in models]
    buffers = {name: stack([one[name] for one in held]) for name in held[0]}
    return parameters, buffers
