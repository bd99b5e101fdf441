"""How an op or a function is offered: its names, its method, its in-place form.

The definition says it:

    tanh = elementwise("tanh", np.tanh, ..., method=True, inplace=True)

    @public(method=True)
    def flatten(input, start_dim=0, end_dim=-1): ...

Everything else follows. `Tensor`, `Symbol` and `Value` take their methods from here, later
registrations included; the namespaces (`gradwalk`, `gradwalk.linalg`, `gradwalk.special`) take
their names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pickle import PicklingError
from typing import Any, ParamSpec, TypeVar

from gradwalk.ops.core.out import takes_out, written

P = ParamSpec("P")
R = TypeVar("R")

# Facts of a definition: a function of `gradwalk`; with a method; with an in-place method as well;
# of floats; in `gradwalk.special` besides.
FUNCTION: dict[str, Any] = {"namespaces": "gradwalk"}
METHOD: dict[str, Any] = {**FUNCTION, "method": True}
IN_PLACE: dict[str, Any] = {**METHOD, "inplace": True}
FLOAT: dict[str, Any] = {**IN_PLACE, "to_float": True}
SPECIAL: dict[str, Any] = {**IN_PLACE, "namespaces": "gradwalk special"}

# The op, operands and attributes that a call amounts to.
Change = tuple[Any, tuple[Any, ...], dict[str, Any]]
Mixed = Any  # the result of a function that returns one tensor or several, by its arguments


@dataclass(frozen=True, eq=False)
class Registration:
    """One op or function, its names, and where they are offered."""

    call: Any
    names: tuple[str, ...]  # the others are second names of the first
    namespaces: tuple[str, ...]  # "special" has all names; "special.psi" is one more there
    method: bool | Callable[..., Any]  # a function: the method, where it is not `call` itself
    inplace: bool | Callable[..., Change]  # a function returns the change to write


registered: list[Registration] = []
_followers: list[Callable[[Registration], None]] = []
# Names that a method defined later may not take; the Tensor class lists its own here.
reserved: set[str] = set()


def register(registration: Registration) -> None:
    """Add a registration, and tell the followers."""
    registered.append(registration)
    for follower in _followers:
        follower(registration)


def follow(follower: Callable[[Registration], None]) -> None:
    """Call `follower` with every registration, past and future."""
    for registration in registered:
        follower(registration)
    _followers.append(follower)


def names_of(namespace: str) -> dict[str, Any]:
    """The public names of a namespace, sorted, and what each one is."""
    names: dict[str, Any] = {}
    for registration in registered:
        for place in registration.namespaces:
            space, _, name = place.partition(".")
            if space == namespace:
                names |= dict.fromkeys((name,) if name else registration.names, registration.call)
    return dict(sorted(names.items()))


def name_of(call: Any) -> tuple[str, str]:
    """A public name of an op, for a pickle: its namespace, and its name there."""
    for registration in registered:
        if registration.call is call and registration.namespaces:
            space, _, name = registration.namespaces[0].partition(".")
            return space, name or registration.names[0]
    raise PicklingError(f"{call!r} has no public name, which a pickle would hold")


def named(namespace: str, name: str) -> Any:
    """What has this public name."""
    return names_of(namespace)[name]


def public(
    *,
    names: str = "",
    namespaces: str = "gradwalk",
    method: bool | Callable[..., Any] = False,
    inplace: bool | Callable[..., Change] = False,
    numpy: bool = False,
    out: bool = True,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register the function that is defined below, under its own name or under `names`.

    `numpy` lets `axis` and `keepdims` stand for `dim` and `keepdim`, `x` for `input`. Functions
    that return no new tensor, but a view or a fact, have `out=False`.

    >>> import gradwalk as gw
    >>> gw.ones(2, 3).sum(axis=1, keepdims=True).shape
    (2, 1)
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        call = _numpy(function) if numpy else function
        plain = numpy or not out or _has_out(function)
        offered = call if plain else takes_out(function)
        listed = tuple((names or function.__name__).split())
        if offered is not call and namespaces:  # a pickle finds it under its public name
            space = namespaces.split()[0].partition(".")[0]
            offered.__module__ = "gradwalk" if space == "gradwalk" else f"gradwalk.{space}"
            offered.__qualname__ = listed[0]
        own = call if method is True else method  # methods take no `out`, as in PyTorch
        register(Registration(offered, listed, tuple(namespaces.split()), own, inplace))
        return call

    return decorate


def _has_out(function: Callable[..., Any]) -> bool:
    return "out" in inspect.signature(function).parameters


def public_change(**facts: Any) -> Callable[[Callable[P, Change]], Callable[P, Any]]:
    """Register a function that returns a change: calls apply it, the in-place method writes it."""

    def decorate(change: Callable[P, Change]) -> Callable[P, Any]:
        @wraps(change)
        def applied(*args: P.args, **keywords: P.kwargs) -> Any:
            op, operands, attrs = change(*args, **keywords)
            return op(*operands, **attrs)

        signature = inspect.signature(change).replace(return_annotation="Any")
        applied.__signature__ = signature  # type: ignore[attr-defined]
        return public(method=True, inplace=change, **facts)(applied)

    return decorate


def public_as(name: str, doc: str, **facts: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`public` for a function that a factory makes: it gives it its name and docstring."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        function.__name__ = function.__qualname__ = name
        function.__doc__ = doc
        return public(**facts)(function)

    return decorate


def other_names(**known_as: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator that accepts other names of keywords: `other_names(axis="dim")`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def named(*args: Any, **keywords: Any) -> Any:
            if keywords:
                if "out" in keywords:
                    return written(keywords.pop("out"), named(*args, **keywords))
                keywords = {known_as.get(name, name): given for name, given in keywords.items()}
            return function(*args, **keywords)

        # Read by the tool that compares our signatures with PyTorch's.
        named.__dict__["known_as"] = {**function.__dict__.get("known_as", {}), **known_as}
        return named

    return decorate


_numpy = other_names(a="input", axis="dim", keepdims="keepdim", x="input", x1="input", x2="other")
_SPLIT = "indices_or_sections"
split_names = other_names(indices=_SPLIT, sections=_SPLIT, tensor_indices_or_sections=_SPLIT)
