"""Layers whose constructor only stores options, and whose `forward` passes them to a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform

from gradwalk.nn.module import Module

Layer = TypeVar("Layer", bound="Options")


class Options(Module):
    """A layer without parameters: `_function` of its inputs and of its options."""

    _function: ClassVar[Callable[..., Any]]
    _options: ClassVar[tuple[str, ...]] = ()  # the keyword arguments of `_function`
    _shown: ClassVar[tuple[str, ...]] = ()  # the options in `extra_repr`

    def _apply(self, *inputs: Any) -> Any:
        options = {name: getattr(self, name) for name in self._options}
        return type(self)._function(*inputs, **options)

    def _check(self) -> None:
        """Reject options that make no sense; called by the constructor."""

    def extra_repr(self) -> str:
        """The options as name=value."""
        shown = [(name, getattr(self, name)) for name in self._shown]
        return ", ".join(f"{k}={v!r}" if isinstance(v, str) else f"{k}={v}" for k, v in shown)


@dataclass_transform(eq_default=False)
def layer(cls: type[Layer]) -> type[Layer]:
    """Give a class a constructor that stores its annotated attributes, as a dataclass has.

    It is no `dataclasses.dataclass`, because compiled functions treat one as a tree of arguments.
    """
    annotations = inspect.get_annotations(cls)
    options = {name: kind for name, kind in annotations.items() if not name.startswith("_")}
    cls._options = tuple(options)
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=vars(cls).get(name, inspect.Parameter.empty),
            annotation=kind,
        )
        for name, kind in options.items()
    ]
    signature = inspect.Signature(parameters)

    def __init__(self: Layer, *args: Any, **keywords: Any) -> None:
        Module.__init__(self)
        try:
            given = signature.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}: {error}") from None
        given.apply_defaults()
        for name, value in given.arguments.items():
            setattr(self, name, value)
        self._check()

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    __init__.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]
    cls.__init__ = __init__  # type: ignore[assignment]
    return cls


def changed(layer: Module, **defaults: Any) -> str:
    """The options of a layer, each after a comma; defaults are omitted."""
    options = ((name, getattr(layer, name)) for name in defaults)
    return "".join(f", {name}={value}" for name, value in options if value != defaults[name])


def several(value: Any, count: int, name: str) -> tuple[Any, ...]:
    """`value` as a tuple of length `count`; a single value is repeated."""
    if not isinstance(value, (tuple, list)):
        return (value,) * count
    if len(value) != count:
        raise ValueError(f"{name} is one number or {count}, not {len(value)}: {value!r}")
    return tuple(value)
