"""Modules and parameters in lists and dictionaries."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Self

from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter
from gradwalk.tensors.tensor import Tensor

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _Numbered(Module):
    """What all lists share: values that are attributes named "0", "1", ..."""

    _what = "modules"

    def _names(self) -> list[str]:
        return list(self._modules)

    def _name(self, index: Any) -> str:
        position, count = operator.index(index), len(self)
        if not -count <= position < count:
            raise IndexError(f"index {position} is out of range: there are {count} {self._what}")
        return self._names()[position]

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Iterator[Any]:
        return iter([getattr(self, name) for name in self._names()])

    def __getitem__(self, index: int | slice) -> Any:
        return self._part(index) if isinstance(index, slice) else getattr(self, self._name(index))

    def _part(self, places: slice) -> Self:
        """A new container of some of the values."""
        return type(self)(list(self)[places])

    def __iadd__(self, other: Iterable[Any]) -> Self:
        return self.extend(other)


class _Listed(_Numbered):
    """What Sequential and ModuleList share."""

    def _renumber(self, modules: Iterable[Module]) -> None:
        listed = list(modules)
        for name in list(self._modules):
            delattr(self, name)
        for i, module in enumerate(listed):
            self.add_module(str(i), module)

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name(index), module)

    def __delitem__(self, index: int | slice) -> None:
        gone = self._names()[index] if isinstance(index, slice) else [self._name(index)]
        for name in gone:
            delattr(self, name)
        self._renumber(self)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add several modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"extend takes an iterable of modules, not {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Insert a module before the one at `index`."""
        if not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"index {index} is out of range: there are {len(self)} modules")
        listed = list(self)
        listed.insert(index, module)
        self._renumber(listed)
        return self

    def pop(self, index: int) -> Module:
        """Remove a module and return it."""
        module: Module = self[index]
        del self[index]
        return module


class Sequential(_Listed):
    """Modules one after the other, named "0", "1", ... or by an OrderedDict.

    >>> import gradwalk as gw
    >>> net = gw.nn.Sequential(gw.nn.Linear(1, 2), gw.nn.ReLU())
    >>> net
    Sequential(
      (0): Linear(in_features=1, out_features=2, bias=True)
      (1): ReLU()
    )
    >>> net[1]
    ReLU()
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0]
        else:
            named = OrderedDict((str(i), module) for i, module in enumerate(args))
        for name, module in named.items():
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        """Each module applied to the result of the one before."""
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def _part(self, places: slice) -> Self:
        return type(self)(OrderedDict(list(self._modules.items())[places]))

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"only a Sequential can be added to one, not {type(other).__name__}")
        return Sequential(*self, *other)

    def __mul__(self, times: int) -> Sequential:
        if times <= 0:
            raise ValueError(
                f"a Sequential can be repeated a positive number of times, not {times}"
            )
        return Sequential(*list(self) * times)

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        self._renumber(self * times)
        return self


class ModuleList(_Listed):
    """Modules in a list that a Module finds.

    >>> import gradwalk as gw
    >>> layers = gw.nn.ModuleList([gw.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Equal neighbours are written once, with their number."""
        if not len(self):
            return f"{self._get_name()}()"
        lines, start = [], 0
        for text, group in groupby(repr(module) for module in self):
            count = len(list(group))
            names = f"{start}" if count == 1 else f"{start}-{start + count - 1}"
            lines.append(f"({names}): " + ("" if count == 1 else f"{count} x ") + text)
            start += count
        inside = "\n".join(lines).replace("\n", "\n  ")
        return f"{self._get_name()}(\n  {inside}\n)"


class _Keyed(Module):
    """What ModuleDict and ParameterDict share: values under the keys of `_keyed()`."""

    def _keyed(self) -> dict[str, Any]:
        return self._modules

    def __getitem__(self, key: str) -> Any:
        raise NotImplementedError

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def __len__(self) -> int:
        return len(self._keyed())

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self))

    def __iter__(self) -> Iterator[str]:
        return iter(self._keyed())

    def __contains__(self, key: object) -> bool:
        return key in self._keyed()

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keyed().keys()

    def values(self) -> Iterable[Any]:
        """The values."""
        return dict(self.items()).values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The names and values."""
        return {key: self[key] for key in self._keyed()}.items()

    def clear(self) -> None:
        """Remove everything."""
        for key in list(self._keyed()):
            self.pop(key)

    def pop(self, key: str) -> Any:
        """Remove a value and return it."""
        value = self[key]
        delattr(self, key)
        return value


class ModuleDict(_Keyed):
    """Modules by name, in a dictionary that a Module finds.

    >>> import gradwalk as gw
    >>> heads = gw.nn.ModuleDict({"policy": gw.nn.Linear(4, 2), "value": gw.nn.Linear(4, 1)})
    >>> heads["value"](gw.zeros(4)).shape
    (1,)
    """

    def __init__(
        self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None
    ) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules by name, in the order given."""
        pairs = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        for key, module in pairs:
            self[key] = module


def _as_parameter(value: Any) -> Any:
    plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if plain else value


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(map(str, value.shape))
    return f"{kind} containing: [gradwalk.{value.dtype.name} of size {size}]"


class ParameterList(_Numbered):
    """Parameters in a list that a Module finds; plain tensors become parameters.

    >>> import gradwalk as gw
    >>> weights = gw.nn.ParameterList([gw.zeros(2), gw.zeros(3)])
    >>> [name for name, _ in weights.named_parameters()]
    ['0', '1']
    """

    _what = "values"

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _names(self) -> list[str]:
        return [str(i) for i in range(self._size)]

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._name(index), _as_parameter(value))

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add several values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"extend takes an iterable of values, not {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """A line per value."""
        return "\n".join(f"  ({i}): {_described(value)}" for i, value in enumerate(self))


class ParameterDict(_Keyed):
    """Parameters by name, in a dictionary that a Module finds; plain tensors become parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _keyed(self) -> dict[str, Any]:
        return self._keys

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self._keys and hasattr(self, key):
            raise KeyError(f"'{key}' cannot be a key: ParameterDict has an attribute of that name")
        setattr(self, key, _as_parameter(value))
        self._keys[key] = None

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        return self[key] if key in self._keys else default

    def pop(self, key: str) -> Any:
        """Remove a value and return it."""
        value = super().pop(key)
        del self._keys[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the value that was added last; return it with its name."""
        key = next(reversed(self))
        return key, self.pop(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a name; `default` is added if there is none."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Another dictionary, with one value for all names."""
        return ParameterDict((key, default) for key in keys)

    def copy(self) -> ParameterDict:
        """Another dictionary of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def __or__(self, other: ParameterDict) -> ParameterDict:
        joined = self.copy()
        joined.update(other)
        return joined

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def update(self, parameters: Any) -> None:
        """Add values by name; a plain dict is added in sorted order, as in PyTorch."""
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            pairs = parameters.items()
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items())
        else:
            pairs = parameters
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        """A line per value."""
        return "\n".join(f"  ({key}): {_described(value)}" for key, value in self.items())
