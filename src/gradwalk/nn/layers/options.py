"""Layers whose constructor only stores options, and whose `forward` passes them to a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform

from gradwalk.nn.constructors import declared
from gradwalk.nn.module import Module

Layer = TypeVar("Layer", bound="Options")


class Options(Module):
    """A layer without parameters: `_function` of its inputs and of its options."""

    _function: ClassVar[Callable[..., Any]]
    _options: ClassVar[tuple[str, ...]] = ()  # the keyword arguments of `_function`
    _shown: ClassVar[tuple[str, ...]] = ()  # the options in `extra_repr`
    _saved: ClassVar[tuple[str, ...]] = ()  # the options that are buffers

    def _construct(self, **options: Any) -> None:
        buffers = {name: options.pop(name) for name in self._saved}
        store(self, options)
        for name, value in buffers.items():
            self.register_buffer(name, value)
        self._check()

    def _check(self) -> None:
        """Reject options that make no sense; called by the constructor."""

    def _computed(self, *inputs: Any) -> Any:
        options = {name: getattr(self, name) for name in self._options}
        return self._function(*inputs, **options)

    def extra_repr(self) -> str:
        """The options as name=value."""
        return described(self, *self._shown)


class OneInput(Options):
    """A layer of one input."""

    def forward(self, input: Any) -> Any:
        """The function of the input and the options."""
        return self._computed(input)


@dataclass_transform(eq_default=False)
def layer(
    function: Callable[..., Any] | None = None, *, shown: str = "", buffers: str = ""
) -> Callable[[type[Layer]], type[Layer]]:
    """Declare a layer: its annotated attributes are the options of `function`.

    `shown` names the options in its text, `buffers` those that are part of its state.
    """

    def declare(cls: type[Layer]) -> type[Layer]:
        declared(cls)
        names: Any = cls
        cls._options = tuple(name for name in names._declared if name not in names._unstored)
        if function is not None:
            cls._function = staticmethod(function)
        if shown:
            cls._shown = tuple(shown.split())
        if buffers:
            cls._saved = tuple(buffers.split())
        return cls

    return declare


class Dimensional(Module):
    """A layer for a number of spatial dimensions: `class Conv2d(_Conv, dimensions=2)`."""

    dimensions: ClassVar[int]

    def __init_subclass__(cls, dimensions: int | None = None, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if dimensions is not None:
            cls.dimensions = dimensions


def store(layer: Module, options: dict[str, Any]) -> None:
    """Begin a layer: initialize the module, and set its options."""
    Module.__init__(layer)
    for name, value in options.items():
        setattr(layer, name, value)


def described(layer: Module, *names: str) -> str:
    """Attributes of a layer as name=value; of a parameter, whether there is one."""
    values = {name: getattr(layer, name) for name in names}
    values |= {name: values[name] is not None for name in names if name in layer._parameters}
    return ", ".join(f"{k}={v!r}" if isinstance(v, str) else f"{k}={v}" for k, v in values.items())


def changed(layer: Module, **defaults: Any) -> str:
    """The options of a layer, each after a comma; defaults are omitted."""
    options = ((name, getattr(layer, name)) for name in defaults)
    return "".join(f", {name}={value}" for name, value in options if value != defaults[name])


def several(value: Any, count: int, name: str) -> tuple[Any, ...]:
    """`value` as a tuple of length `count`; a single value is repeated, also if it is in a list."""
    if not isinstance(value, (tuple, list)):
        return (value,) * count
    if len(value) == 1:
        return tuple(value) * count
    if len(value) != count:
        raise ValueError(f"{name} is one number or {count}, not {len(value)}: {value!r}")
    return tuple(value)
