"""Calling a module with other tensors in place of its parameters and buffers."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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

    Those that are not given keep their own, unless `strict`. A name that the module does not have
    becomes an attribute during the call, with a warning. With `tie_weights` a tensor also
    stands for the other names of a tied parameter. What the module assigns to a name, as
    `self.mean = self.mean + 1`, is put into the given dict; the module keeps its own.

    >>> import gradwalk as gw
    >>> layer = gw.nn.Linear(2, 1, bias=False)
    >>> gw.func.functional_call(layer, {"weight": gw.ones(1, 2)}, gw.tensor([3.0, 4.0]))
    tensor([7.])
    """
    found = parameter_and_buffer_dicts
    dicts: list[Any] = [found] if isinstance(found, Mapping) else list(found)
    given: dict[str, Any] = {}
    for one in dicts:
        twice = given.keys() & one.keys()
        if twice:
            raise ValueError(f"functional_call: {', '.join(sorted(twice))} is given twice")
        given |= one
    inputs = () if args is None else args if isinstance(args, tuple) else (args,)
    assigned: dict[str, Any] = {}
    with _swapped(module, given, tie_weights, strict, assigned):
        result = module(*inputs, **(kwargs or {}))
    for one in dicts:
        for name in assigned.keys() & one.keys():
            one[name] = assigned[name]
    return result


@contextmanager
def _swapped(
    module: Module, given: dict[str, Any], tie: bool, strict: bool, assigned: dict[str, Any]
) -> Iterator[None]:
    """Put tensors in the place of those of a module, and back at the end; `assigned` gets what the
    module put into their places meanwhile."""
    places: dict[str, tuple[Module, dict[str, Any], str]] = {}
    for path, owner in _owners(module):
        for register in (owner._parameters, owner._buffers):
            for name, tensor in register.items():
                if tensor is not None:
                    places[f"{path}{name}"] = owner, register, name
    for name in given.keys() - places.keys():
        place = _place(module, name)
        if place is not None:
            places[name] = place
    known = {name: register[key] for name, (_, register, key) in places.items()}
    unknown = {name: given[name] for name in given.keys() - known.keys()}
    given = {name: tensor for name, tensor in given.items() if name in known}
    if tie:
        given = _tied(known, given)
    missing = known.keys() - given.keys() if strict else set()
    _check_names(module, unknown, missing, strict)
    try:
        for name, tensor in given.items():
            owner, register, key = places[name]
            register[key] = tensor
        for name, tensor in unknown.items():
            lender, key = _owner_of(module, name)
            setattr(lender, key, tensor)
        yield
    finally:
        for name, tensor in given.items():
            owner, register, key = places[name]
            if register.get(key) is not tensor:
                assigned[name] = register.get(key)
            register[key] = known[name]
        for name in unknown:
            lender, key = _owner_of(module, name)
            if key in vars(lender):
                delattr(lender, key)


def _check_names(module: Module, unknown: Collection[str], missing: Any, strict: bool) -> None:
    """Raise for names that do not fit, or, without `strict`, warn of those that nothing may use."""
    homeless = [name for name in unknown if _owner_of(module, name)[0] is None]
    taken = [n for n in unknown if n not in homeless and hasattr(*_owner_of(module, n))]
    if taken:
        raise TypeError(
            f"functional_call of {type(module).__name__}: {', '.join(sorted(taken))} is neither a "
            "parameter nor a buffer"
        )
    found = (("it has no", unknown if strict else homeless), ("missing", missing))
    faults = [f"{what} {', '.join(sorted(names))}" for what, names in found if names]
    if faults:
        raise RuntimeError(f"functional_call of {type(module).__name__}: " + "; ".join(faults))
    if unknown:
        warnings.warn(
            f"functional_call of {type(module).__name__}: it has no {', '.join(sorted(unknown))}; "
            "they are attributes during the call. strict=True makes this an error.",
            stacklevel=5,
        )


def _owner_of(module: Module, name: str) -> tuple[Any, str]:
    """The module that would have a name (None if there is none), and the last part of the name."""
    *path, key = name.split(".")
    owner: Module | None = module
    for part in path:
        owner = None if owner is None else owner._modules.get(part)
    return owner, key


def _owners(module: Module, path: str = "", *above: Module) -> Iterator[tuple[str, Module]]:
    """A module and those in it, with the beginnings of their names; each way to one of them, but
    none in circles."""
    yield path, module
    for name, inner in module._modules.items():
        if inner is not None and all(inner is not one for one in (module, *above)):
            yield from _owners(inner, f"{path}{name}.", module, *above)


def _place(module: Module, name: str) -> tuple[Module, dict[str, Any], str] | None:
    """Where a tensor is that a module reaches in a circle, or that is a plain attribute."""
    owner, key = _owner_of(module, name)
    if owner is None or not hasattr(vars(owner).get(key), "_array"):
        return None
    for register in (owner._parameters, owner._buffers):
        if key in register:
            return owner, register, key
    return owner, vars(owner), key


def _tied(known: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The given tensors, under the other names of tied ones too."""
    wanted: dict[int, Any] = {}
    for name, tensor in given.items():
        if wanted.setdefault(id(known[name]), tensor) is not tensor:
            raise ValueError(
                f"functional_call: {name!r} is tied to another name, and the two are given "
                "different tensors. Fix: give one of them, or tie_weights=False."
            )
    return {n: wanted[id(own)] for n, own in known.items() if id(own) in wanted}


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
    if len({model.training for model in models}) != 1:
        raise RuntimeError(
            "stack_module_state: some models are in training mode and some are not. "
            "Fix: call train() or eval() on all of them."
        )
    listed = [dict(model.named_parameters()) for model in models]
    for name, own in listed[0].items():
        if any(one[name].requires_grad != own.requires_grad for one in listed):
            raise RuntimeError(
                f"stack_module_state: {name!r} requires a gradient in some models only. "
                "Fix: requires_grad_(...) of all of them."
            )
    parameters = {
        name: stack([one[name] for one in listed]).detach().requires_grad_(own.requires_grad)
        for name, own in listed[0].items()
    }
    held = [dict(model.named_buffers()) for model in models]
    buffers = {name: stack([one[name] for one in held]) for name in held[0]}
    return parameters, buffers


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """functorch's older form of `functional_call`: a function of a tuple of parameters, and them.

    >>> import gradwalk as gw
    >>> function, parameters = gw.func.make_functional(gw.nn.Linear(2, 1))
    >>> function(parameters, gw.ones(3, 2)).shape
    (3, 1)
    """
    function, parameters, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return lambda params, *args, **kwargs: function(params, None, *args, **kwargs), parameters


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]:
    """`make_functional` whose function takes a tuple of buffers, too."""
    model = copy.deepcopy(model)
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    if disable_autograd_tracking:
        for parameter in parameters.values():
            parameter.requires_grad_(False)

    def function(
        params: Sequence[Any], held: Sequence[Any] | None, *args: Any, **kwargs: Any
    ) -> Any:
        given = _by_name("parameters", parameters, params)
        if held is not None:
            given |= _by_name("buffers", buffers, held)
        return functional_call(model, given, args, kwargs)

    return function, tuple(parameters.values()), tuple(buffers.values())


def _by_name(kind: str, names: Collection[str], tensors: Sequence[Any]) -> dict[str, Any]:
    if len(tensors) != len(names):
        raise ValueError(
            f"a function of {len(names)} {kind} was given {len(tensors)}. Fix: a tuple like the "
            "one that came with it."
        )
    return dict(zip(names, tensors, strict=True))


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]:
    """functorch's older form of `stack_module_state`: a function of one model, and tuples."""
    function, _, _ = make_functional_with_buffers(models[0])
    parameters, buffers = stack_module_state(models)
    return function, tuple(parameters.values()), tuple(buffers.values())


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Make every batch normalization inside a module one without running statistics.

    Those would be written inside `vmap`, where samples must not share what they change.

    >>> import gradwalk as gw
    >>> model = gw.func.replace_all_batch_norm_modules_(gw.nn.Sequential(gw.nn.BatchNorm1d(2)))
    >>> list(model.buffers())
    []
    """
    for module in root.modules():
        if getattr(module, "track_running_stats", False):
            module.track_running_stats = False
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(module, name, None)
    return root
