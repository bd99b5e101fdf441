"""Parameters as functions of others: `module.weight` is computed from `parametrizations.weight`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from gradwalk.engine.modes import no_grad
from gradwalk.nn.containers import ModuleDict, ModuleList
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter
from gradwalk.tensors.tensor import Tensor

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "type_before_parametrizations",
]  # fmt: skip

# The tensors computed inside `cached()`, by module and name; None outside.
_known: ContextVar[dict[tuple[int, str], Any] | None] = ContextVar("parametrized", default=None)


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once inside the block."""
    token = _known.set(_known.get() or {})
    try:
        yield
    finally:
        _known.reset(token)


class ParametrizationList(ModuleList):
    """The functions that make a tensor, one after the other, and what they make it from.

    That is `original`, or `original0`, `original1`, ... if the first function's `right_inverse`
    returns several tensors.
    """

    def __init__(self, modules: list[Module], original: Any, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        value = original.detach()
        for module in reversed(modules):
            if hasattr(module, "right_inverse"):
                # One that cannot be computed counts as the identity.
                with no_grad(), suppress(NotImplementedError):
                    value = module.right_inverse(value)
        self.is_tensor = isinstance(value, Tensor)
        self.ntensors = 1 if self.is_tensor else len(value)
        learned = isinstance(original, Parameter)
        for name, part in zip(self.originals(), [value] if self.is_tensor else value):
            if self.is_tensor and learned and part.shape == original.shape:
                original.data = part  # an optimizer may have it already
                self.register_parameter(name, original)
            elif learned:
                wanted = original.requires_grad and part.is_floating_point()
                self.register_parameter(name, Parameter(part.clone(), requires_grad=wanted))
            else:
                self.register_buffer(name, part)

    def originals(self) -> list[str]:
        """The names of what the tensor is made from."""
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that `forward` returns `value`, as far as the functions can."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"{type(module).__name__} has no right_inverse, so its result cannot be "
                        "assigned. Fix: assign to the original, or write the method."
                    )
                value = module.right_inverse(value)
            for name, part in zip(self.originals(), [value] if self.is_tensor else value):
                getattr(self, name).copy_(part)

    def forward(self) -> Tensor:
        """The tensor."""
        first, *others = self
        value: Tensor = first(*(getattr(self, name) for name in self.originals()))
        for module in others:
            value = module(value)
        return value


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer of `module` the result of a function: a module.

    If the function has `right_inverse`, the tensor keeps its value. A further function is applied
    to the result of those before it, which stays as it is.

    >>> import gradwalk as gw
    >>> class Positive(gw.nn.Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> layer = gw.nn.Linear(2, 1)
    >>> _ = gw.nn.utils.parametrize.register_parametrization(layer, "weight", Positive())
    >>> bool((layer.weight > 0).all()), list(layer.state_dict())
    (True, ['bias', 'parametrizations.weight.original'])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        listed, present = module.parametrizations[tensor_name], getattr(module, tensor_name)
        if not unsafe:
            value = _check(lambda: parametrization(present), present, tensor_name)
            if hasattr(parametrization, "right_inverse"):  # of what the function may return
                with suppress(NotImplementedError):
                    _check(lambda: parametrization.right_inverse(value), present, tensor_name)
        listed.append(parametrization)
        listed.unsafe = listed.unsafe or unsafe
        return module
    original: Tensor | None = module._parameters.get(tensor_name)
    if original is None:
        original = module._buffers.get(tensor_name)
    if original is None:
        raise ValueError(f"{type(module).__name__} has no parameter or buffer '{tensor_name}'")
    made = ParametrizationList([parametrization], original, unsafe)
    if not unsafe:
        _check(made, original, tensor_name)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = made
    _set_class(module)
    return module


def _set_class(module: Module) -> None:
    """Give a module a class of its own, in which the parametrized names are properties."""
    plain = type_before_parametrizations(module)
    names = list(module.parametrizations)
    facts = {"_plain": plain} | {name: _computed(name) for name in names}
    kind = type(f"Parametrized{plain.__name__}", (plain,), facts) if names else plain
    module.__class__ = kind


def _check(made: Callable[[], Tensor], original: Tensor, name: str) -> Tensor:
    with no_grad():
        value = made()
    if not isinstance(value, Tensor):
        raise ValueError(
            f"a parametrization of '{name}' returns a {type(value).__name__}, not a tensor"
        )
    if value.shape != original.shape or value.dtype != original.dtype:
        raise ValueError(
            f"a parametrization of '{name}' returns {value.dtype} of shape {tuple(value.shape)}, "
            f"the tensor is {original.dtype} of shape {tuple(original.shape)}. "
            "Fix: pass unsafe=True if that is meant."
        )
    return value


def _computed(name: str) -> property:
    def read(module: Module) -> Any:
        known = _known.get()
        if known is None:
            return module.parametrizations[name]()
        key = id(module), name
        if key not in known:
            known[key] = module.parametrizations[name]()
        return known[key]

    def write(module: Module, value: Tensor) -> None:
        module.parametrizations[name].right_inverse(value)

    return property(read, write)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module, or one of its tensors, is parametrized."""
    lists = module._modules.get("parametrizations")
    if not isinstance(lists, ModuleDict) or not hasattr(type(module), "_plain"):
        return False
    return bool(len(lists)) if tensor_name is None else tensor_name in lists


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a tensor a plain one again, with its present value or with its original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"'{tensor_name}' of {type(module).__name__} is not parametrized")
    listed = module.parametrizations[tensor_name]
    originals = [getattr(listed, name) for name in listed.originals()]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name)
    elif len(originals) > 1:
        raise ValueError(f"'{tensor_name}' has {len(originals)} originals. Fix: keep its value.")
    else:
        value = originals[0]
    del module.parametrizations[tensor_name]
    _set_class(module)
    if isinstance(originals[0], Parameter):
        kept = originals[0] if originals[0].shape == value.shape else Parameter(value.detach())
        kept.data = value.detach()
        module.register_parameter(tensor_name, kept)
    else:
        module.register_buffer(tensor_name, value.detach())
    if not len(module.parametrizations):
        delattr(module, "parametrizations")
    return module


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class that the module had."""
    plain: type[Module] = getattr(type(module), "_plain", type(module))
    return plain
