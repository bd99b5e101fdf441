"""The search for what a function reads, from variable to variable and from object to object.

It follows the chains of the bytecode (capture/user_code.py), of the functions and methods that the
function uses too. What is passed on to other code may be read there: containers are guarded as a
whole, objects in the attributes whose names occur in the code.
"""

from __future__ import annotations

import functools
import io
import os
import random
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from itertools import islice
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

import numpy as np

from gradwalk.compiler.capture.found_guards import FoundGuards
from gradwalk.compiler.capture.guards import (
    MISSING,
    ArrayOutside,
    Container,
    Reading,
    Variable,
    is_plain,
)
from gradwalk.compiler.capture.state_readers import (
    bytes_of,
    generator_state,
    set_generator_state,
    state_of,
)
from gradwalk.compiler.capture.user_code import (
    Chain,
    attributes_of,
    bound,
    chains,
    defaults,
    is_compiled,
    is_filled,
    is_installed,
    is_masked,
    names,
    vars_of,
)
from gradwalk.graph.source import own_files
from gradwalk.nn.module import Module
from gradwalk.optim.optimizer import Optimizer
from gradwalk.tensors.tensor import Tensor

_CLOCKS = (
    time.time, time.time_ns, time.perf_counter, time.perf_counter_ns, time.monotonic,
    time.monotonic_ns, time.process_time, time.thread_time, os.urandom,
)  # fmt: skip
_NUMPY_GENERATOR = "numpy.random._generator.Generator"
_MOST = 1_000_000  # elements of containers that are looked at
_DEEPEST = 64  # containers in containers
_NAMESPACES = ("types.SimpleNamespace", "argparse.Namespace")  # by name: imports cost time
_CONTAINERS = (list, dict, set, deque, MappingProxyType)
_BUILT_IN = (*_CONTAINERS, tuple, frozenset)
# Code with one of these may read any attribute of what it gets.
_ANY_ATTRIBUTE = {
    "vars", "__dict__", "getattr", "asdict", "astuple", "fields", "dir", "copy", "deepcopy",
    "__slots__", "__getattribute__", "__getstate__",
}  # fmt: skip
# Special methods that give no value to the code that uses an object.
_NO_VALUE = {
    "__init__", "__new__", "__del__", "__exit__", "__aexit__", "__setattr__", "__delattr__",
    "__setitem__", "__delitem__", "__set__", "__delete__", "__set_name__", "__init_subclass__",
    "__class_getitem__", "__repr__", "__reduce__", "__reduce_ex__", "__setstate__", "__sizeof__",
    "__subclasshook__", "__post_init__",
}  # fmt: skip
# Calls whose effects nothing undoes, by the name in the code.
_EFFECTS = {
    "open", "input", "subprocess", "socket", "shutil", "tempfile", "urlopen", "write_text",
    "write_bytes", "unlink", "mkdir",
}  # fmt: skip
_COMPARISONS = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"}


class Search(FoundGuards):
    """What a function, and the functions it uses, can read."""

    def __init__(
        self,
        function: Callable[..., Any],
        given: Mapping[str, Any] | None = None,  # arguments by name
        inside: Iterable[Any] = (),  # objects inside arguments, or without a name
    ) -> None:
        super().__init__(function)
        self._use(function, given or {})
        for thing in inside:
            if issubclass(type(thing), (dict, list)):  # its elements are arguments
                self._special_methods(thing)
            else:
                self._use(thing)
        self._read_what_is_passed_on()

    def _read_what_is_passed_on(self) -> None:
        """Guard the attributes that code which gets an object may read."""
        known: Any = None
        while known != (known := (len(self._passed_on), len(self._names), len(self.variables))):
            texts = {v.value for v in self.variables if type(v.value) is str}
            every = not _ANY_ATTRIBUTE.isdisjoint(self._names)
            for thing in self._passed_on:
                own = attributes_of(thing).keys()
                kinds = thing.__mro__ if isinstance(thing, type) else type(thing).__mro__
                of_classes = {n for kind in kinds for n in vars(kind) if kind is not object}
                wanted = (self._names | texts) & (of_classes | own)
                for name in sorted(wanted | own if every else wanted):
                    self._use(self._attribute(thing, name))

    def _computes_with(self, array: Any) -> None:
        """Guard the elements of an array that NumPy computes with."""
        self._use(array)
        next(a for a in self.arrays if a.holder is array).read = True

    # -- functions ---------------------------------------------------------------------------------

    def _function(self, function: FunctionType, given: Mapping[str, Any]) -> None:
        """Note what the code of a function reads."""
        code = function.__code__
        if not self._first_time(code, function, *given.values()):
            return
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self._use(wrapped, given)
        if function is os.getenv:
            self._use(os.environ)
        if own_files[code.co_filename] or (
            is_installed(code.co_filename) and self._foreign(function.__module__)
        ):
            return
        self._note("attribute", function, "__code__", code)
        if function.__defaults__:
            self._note("attribute", function, "__defaults__", function.__defaults__)
        if function.__kwdefaults__:
            self._note("attribute", function, "__kwdefaults__", function.__kwdefaults__)
            self._use(function.__kwdefaults__)
        self._names |= set(names(code))
        self.effects += [f"{name}()" for name in code.co_names if name in _EFFECTS]
        if "__class__" in code.co_freevars:  # super(): a method of one of the classes
            self._super(code, given)
        if "globals" in code.co_names:
            variables = function.__globals__
            for name in {name for name in names(code) if name in variables}:
                self._use(self._note("item", variables, name, variables[name]))
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        given = {**defaults(function), **given}
        for chain in chains(code):
            self._follow(chain, function, cells, given)

    def _follow(
        self,
        chain: Chain,
        function: FunctionType,
        cells: Mapping[str, CellType],
        given: Mapping[str, Any],
    ) -> None:
        first: Any
        first, *rest = chain
        value: Any = MISSING
        if first.how == "local":
            value = given.get(first.name, MISSING)
        elif first.how == "free" and first.name in cells:
            cell = cells[first.name]
            if is_filled(cell):
                value = self._note("cell", cell, first.name, cell.cell_contents)
        elif first.name in function.__globals__:
            variables = function.__globals__
            value = self._note("item", variables, first.name, variables[first.name])
        for link in rest:
            if value is MISSING or issubclass(type(value), (Tensor, Optimizer)):
                break
            read = self._attribute if link.how == "attribute" else self._item
            value = read(value, link.name)
        if value is not MISSING:
            self._use(value)

    def _super(self, code: CodeType, given: Mapping[str, Any]) -> None:
        thing = given.get(code.co_varnames[0]) if code.co_varnames else None
        if thing is None:
            return
        lowest = thing if isinstance(thing, type) else type(thing)
        if not self._foreign(lowest.__module__):
            self._note("attribute", lowest, "__mro__", lowest.__mro__)
        for name in code.co_names:
            for kind in lowest.__mro__:
                value: Any = vars(kind).get(name)
                if issubclass(type(value), FunctionType) and not self._foreign(kind.__module__):
                    self._note("attribute", kind, name, value)
                    self._use(MethodType(value, thing))

    # -- links of chains ---------------------------------------------------------------------------

    def _attribute(self, thing: Any, name: Any) -> Any:
        """Note an attribute that is read, and return it."""
        if is_plain(thing):
            return MISSING
        if is_masked(thing):
            self._use(thing)
            return self._read_attribute(thing, name)
        if type(thing) in _BUILT_IN or thing is os.environ:
            self._use(thing)
            return MISSING
        if isinstance(thing, ModuleType):
            return self._attribute_of_module(thing, name)
        if isinstance(thing, np.ndarray):
            if name not in ("dtype", "ndim", "shape", "size"):
                self._computes_with(thing)
            return MISSING
        if isinstance(thing, type) and thing.__module__ == "datetime":
            if name in ("now", "today", "utcnow"):
                self._happens_once(f"{thing.__name__}.{name}")
            return MISSING
        kind = thing if isinstance(thing, type) else type(thing)
        if self._foreign(kind.__module__) and not isinstance(thing, Module):
            if not isinstance(thing, (type, *_CALLABLE)):
                self._use(thing)
            if not vars_of(thing):
                value = self._read_attribute(thing, name, noted=False)
                return self._note("attribute", thing, name, value) if is_plain(value) else MISSING
        elif isinstance(thing, _BUILT_IN):  # a class of the user's
            self._use(thing)
        self._object(thing)
        for owner in kind.__mro__:
            if name in vars(owner):
                value = vars(owner)[name]
                users = not self._foreign(owner.__module__)
                if users and issubclass(type(value), property) and value.fget is not None:
                    self._note("attribute", kind, name, value)
                    self._use(value.fget, bound(value.fget, thing))
                    return MISSING
                self._descriptor(value, thing)
                break
        value = self._read_attribute(thing, name, noted=False)
        if value is MISSING:
            return MISSING
        if issubclass(type(value), MethodType):
            if not self._foreign(value.__func__.__module__):
                self._note("method", thing, name, value.__func__)
            return value
        if issubclass(type(value), FunctionType) and name not in vars_of(thing):
            if not self._foreign(value.__module__):
                self._note("attribute", thing, name, value)
            return value  # of the class
        return self._note("attribute", thing, name, value)

    def _read_attribute(self, thing: Any, name: str, noted: bool = True) -> Any:
        try:
            value = getattr(thing, name)
        except Exception:
            return MISSING
        return self._note("attribute", thing, name, value) if noted else value

    def _descriptor(self, value: Any, thing: Any) -> None:
        """Note what a descriptor of the user's reads."""
        get = getattr(type(value), "__get__", None)
        if isinstance(get, FunctionType) and not self._foreign(type(value).__module__):
            first, second = (*get.__code__.co_varnames, "", "")[:2]
            self._use(get, {first: value, second: thing})

    def _attribute_of_module(self, module: ModuleType, name: str) -> Any:
        value = vars(module).get(name, MISSING)
        if value is os.environ:
            return value
        if value is os.getenv or any(value is clock for clock in _CLOCKS):
            self._use(value)
        if self._foreign(module.__name__):
            return value if issubclass(type(value), type) else MISSING
        if value is MISSING:  # of its __getattr__, perhaps
            self._use(vars(module).get("__getattr__", MISSING))
            return self._read_attribute(module, name)
        return self._note("item", vars(module), name, value)

    def _item(self, thing: Any, key: Any) -> Any:
        """Note an element that is read, and return it."""
        if is_plain(thing):
            return MISSING
        if is_masked(thing):
            self._use(thing)
            return MISSING
        if isinstance(thing, np.ndarray):
            self._computes_with(thing)
            return MISSING
        if isinstance(thing, tuple) and not isinstance(key, str):
            return thing[key] if -len(thing) <= key < len(thing) else MISSING
        foreign = self._foreign(type(thing).__module__)
        if not foreign or type(thing) not in (dict, list):
            self._use(thing)
        if (isinstance(thing, (dict, list)) or foreign) and not isinstance(thing, _CALLABLE):
            try:
                value = thing[key]
            except Exception:
                return MISSING
            if isinstance(thing, (dict, list)) or thing is os.environ or is_plain(value):
                return self._note("item", thing, key, value)
            return value if isinstance(thing, Collection) else MISSING
        return MISSING

    # -- what is called, iterated over or passed on ------------------------------------------------

    def _use(self, thing: Any, given: Mapping[str, Any] | None = None, depth: int = 0) -> None:
        """Note something that is called, iterated over or passed on."""
        if thing is MISSING or is_plain(thing) or issubclass(type(thing), Tensor):
            return
        if is_masked(thing):
            if self._first_time("used", thing):
                self._special_methods(thing)
        elif isinstance(thing, np.ndarray):
            if self._first_time("array", thing):
                self.arrays.append(ArrayOutside(thing))
                if thing.dtype.hasobject and thing.size <= _MOST:
                    self._use(thing.ravel().tolist(), None, depth + 1)
        elif isinstance(thing, MethodType):
            function = thing.__func__
            self._use(function, {**bound(function, thing.__self__), **(given or {})})
        elif isinstance(thing, FunctionType):
            self._function(thing, given or {})
        elif isinstance(thing, (staticmethod, classmethod)):
            self._use(thing.__func__)
        elif isinstance(thing, Optimizer):
            if thing not in self.optimizers:
                self.optimizers.append(thing)
                self._hooks(thing._hooks or {})
        elif type(thing) in _BUILT_IN:
            self._go_through(thing, depth)
        elif not self._first_time("used", thing):
            return
        elif type(thing) in weakref.ProxyTypes:  # it looks like what it stands for
            self._weakly(weakref.ref(thing.__repr__.__self__))
        elif isinstance(thing, ModuleType):
            if not self._foreign(thing.__name__):
                self._passed_on.append(thing)
                self._use(vars(thing).get("__getattr__", MISSING))
        elif isinstance(thing, random.Random):
            self.once.append(("a random.Random", thing.getstate, thing.setstate, thing.getstate()))
        elif _kind(thing) == _NUMPY_GENERATOR:
            bits = thing.bit_generator
            read = functools.partial(generator_state, bits)
            put = functools.partial(set_generator_state, bits)
            self.once.append(("a NumPy generator", read, put, read()))
        elif isinstance(thing, io.IOBase):
            if thing not in (sys.stdout, sys.stderr):
                self.effects.append("a file")
        elif isinstance(thing, Iterator):
            self._happens_once(f"an iterator ({type(thing).__name__})")
        elif isinstance(thing, Module):
            self._module(thing)
        elif is_compiled(thing):
            self._use(thing.function)
        elif isinstance(thing, type):
            if not self._foreign(thing.__module__):
                for name in ("__new__", "__init__", "__post_init__"):
                    made = getattr(vars(thing).get(name), "__func__", vars(thing).get(name))
                    if isinstance(made, FunctionType):
                        self._note("attribute", thing, name, made)
                        self._use(made)
                self._passed_on.append(thing)
        elif not self._foreign(type(thing).__module__) or _kind(thing) in _NAMESPACES:
            self._users_object(thing, depth)
        else:
            self._librarys_object(thing, depth)

    def _module(self, thing: Module) -> None:
        """Note a module of a network."""
        self.modules.append(thing)
        for module in thing.modules():
            forward = getattr(module, "forward", None)
            function = getattr(forward, "__func__", None)
            if function is not None and not self._foreign(function.__module__):
                self._note("attribute", type(module), "forward", function)
            self._use(forward)
            self._hooks(module._hooks or {})
            for parameter in module._parameters.values():
                self._hooks(getattr(parameter, "hooks", None) or {})

    def _users_object(self, thing: Any, depth: int) -> None:
        """Note an object of a class that is not a library's."""
        self._object(thing)
        self._passed_on.append(thing)
        self._special_methods(thing)
        if isinstance(thing, _BUILT_IN):
            self._go_through(thing, depth)
        elif (held := bytes_of(thing)) is not None:  # a structure of ctypes
            self.readings.append(Reading(functools.partial(bytes_of, thing)))
            del held

    def _special_methods(self, thing: Any) -> None:
        """Note what operators, `len`, `for` and the like read of an object."""
        kind = type(thing)
        for owner in kind.__mro__:
            if self._foreign(owner.__module__):
                continue
            generated = "__dataclass_fields__" in vars(owner) or "__attrs_attrs__" in vars(owner)
            for name, method in list(vars(owner).items()):
                if (
                    isinstance(method, FunctionType)
                    and name.startswith("__")
                    and name.endswith("__")
                    and name not in _NO_VALUE
                    and not (generated and name in _COMPARISONS)
                    and getattr(kind, name, None) is method
                ):
                    self._note("attribute", kind, name, method)
                    self._use(method, bound(method, thing))

    def _librarys_object(self, thing: Any, depth: int) -> None:
        """Note what an object of a library's class holds, if it is known how it does."""
        if thing is os.environ:
            self._use(vars(thing)["_data"])
        elif isinstance(thing, ContextVar):
            self._reading(functools.partial(thing.get, MISSING))
        elif isinstance(thing, weakref.ReferenceType):
            self._weakly(thing)
        elif isinstance(thing, functools.partial):
            self._note("attribute", thing, "func", thing.func)
            self._use(thing.func)
            self._use(thing.args)
            self._use(thing.keywords)
        elif any(thing is clock for clock in _CLOCKS):
            self._happens_once(f"{thing.__module__}.{thing.__name__}")
        elif isinstance(thing, _CALLABLE):
            owner = getattr(thing, "__self__", None)
            if not isinstance(owner, (ModuleType, type)):
                self._use(owner)
        elif _kind(thing) == "operator.attrgetter":
            self._names |= {part for name in thing.__reduce__()[1] for part in name.split(".")}
        elif hasattr(thing, "__wrapped__") and callable(thing):  # functools.lru_cache
            self._use(thing.__wrapped__)
        elif bytes_of(thing) is not None:
            self.readings.append(Reading(functools.partial(bytes_of, thing)))
        elif isinstance(thing, Collection) and vars_of(thing):  # UserDict, ChainMap, ...
            self._object(thing)
            for name, value in list(vars_of(thing).items()):
                self._note("attribute", thing, name, value)
                self._use(value, None, depth + 1)
        elif isinstance(thing, _BUILT_IN):  # a subclass, such as OrderedDict
            self._go_through(thing, depth)

    def _weakly(self, reference: Callable[[], Any]) -> None:
        """Guard an object without keeping it alive."""
        self.readings.append(Reading(functools.partial(state_of, reference)))
        self._use(type(reference()))

    def _reading(self, read: Callable[[], Any]) -> None:
        self.readings.append(Reading(read))
        self._use(self.readings[-1].value)

    def _hooks(self, kinds: Mapping[Any, Mapping[Any, Any]]) -> None:
        """Note hooks."""
        for functions in kinds.values():
            for hook in functions.values():
                self._use(getattr(hook, "hook", hook))

    def _go_through(self, thing: Any, depth: int) -> None:
        if depth > _DEEPEST or not self._first_time("through", thing):
            return
        if isinstance(thing, _CONTAINERS) and len(thing) <= _MOST:
            container = Container(thing)
            self.containers.append(container)
            if isinstance(thing, (dict, list)):
                for key, value in zip(container.keys, container.elements, strict=True):
                    if issubclass(type(value), Tensor):
                        self._note_tensor(Variable("item", thing, key, value))
        elements = thing.values() if isinstance(thing, (dict, MappingProxyType)) else thing
        for element in list(islice(elements, _MOST)):
            if not is_plain(element):
                self._use(element, None, depth + 1)


_CALLABLE = (BuiltinMethodType, MethodWrapperType, FunctionType, MethodType)


def _kind(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__name__}"
