"""The environment: what a function reads besides its arguments, through closures and globals, and
from object to object.

A trace freezes it, so every part is guarded: a call after one has changed traces anew. Plain values
are compared by value, everything else by identity. The bytecode of the function, and of the
functions and methods it uses, says which parts it reads (capture/bytecode.py).
"""

from __future__ import annotations

import functools
import io
import os
import random
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from gradwalk.compiler.capture.guards import (
    MISSING,
    ArrayOutside,
    Container,
    Variable,
    is_plain,
    same,
)
from gradwalk.compiler.capture.user_code import (
    Chain,
    bound,
    chains,
    defaults,
    is_basic,
    is_compiled,
    is_filled,
    is_installed,
    is_library,
    names,
    vars_of,
)
from gradwalk.compiler.tracing.errors import untraceable
from gradwalk.engine.tree import leaves
from gradwalk.graph.abstract import AbstractArray
from gradwalk.graph.source import own_files, where_text
from gradwalk.graph.versions import owner_of
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter
from gradwalk.optim.optimizer import Optimizer
from gradwalk.tensors.tensor import Tensor

_CLOCKS = (
    time.time, time.time_ns, time.perf_counter, time.perf_counter_ns, time.monotonic,
    time.monotonic_ns, time.process_time, time.thread_time, os.urandom, os.getenv,
)  # fmt: skip
_NUMPY_GENERATOR = "numpy.random._generator.Generator"
_MOST = 10_000  # elements of containers that are looked at
_DEEPEST = 4  # containers in containers
_NAMESPACES = ("types.SimpleNamespace", "argparse.Namespace")  # by name: imports cost time
_CONTAINERS = (list, dict, set, deque)


class Environment:
    """What a function, and the functions it uses, can read."""

    def __init__(
        self, function: Callable[..., Any], given: Mapping[str, Any] | None = None
    ) -> None:
        self.variables: list[Variable] = []
        self.containers: list[Container] = []
        self.optimizers: list[Optimizer] = []
        self.modules: list[Module] = []
        self.arrays: list[ArrayOutside] = []
        # What happens only once: its name, how to read its state, and the state before.
        self.once: list[tuple[str, Callable[[], Any], Any]] = []
        # By the id of a tensor: the one variable that refers to it; None if there are several.
        self.tensors: dict[int, Variable | None] = {}
        self.objects: list[tuple[Any, dict[str, Any]]] = []  # with their attributes before
        self._kept: list[Any] = []  # objects whose ids are known
        self._seen: set[Any] = set()
        self._names: set[str] = set()  # of attributes, in all code
        self._passed_on: list[Any] = []
        package = (getattr(function, "__module__", None) or "").partition(".")[0]
        self._package = None if is_basic(package) else package
        for what, state in (("random", random.getstate), ("np.random", _numpy_random_state)):
            self.once.append((what, state, state()))
        self._use(function, given or {})
        texts = {v.value for v in self.variables if isinstance(v.value, str)}
        for thing in self._passed_on:  # code that gets it may read any of these
            of_classes = {n for kind in type(thing).__mro__[:-1] for n in vars(kind)}
            for name in (self._names | texts) & (of_classes | vars(thing).keys()):
                self._use(self._attribute(thing, name))

    # -- what the function changed -----------------------------------------------------------------

    def settle(
        self, code: CodeType | None, set_again: Collection[tuple[int, str]]
    ) -> list[tuple[Variable, Any]]:
        """After the run: put back what it set, and warn of what happens only once. Return the
        variables that were given a tensor, which every call will do.

        Attributes that a call sets again (by the id of the module, and the name) are not guarded.
        """
        self.variables = [
            v
            for v in self.variables
            if v.how != "attribute" or (id(v.holder), v.name) not in set_again
        ]
        assigned = self.put_back()
        for what, ask, before in self.once:
            if ask() != before:
                _warn_of_draw(what, where_text(code, 0))
        for variable in self.variables:
            now = variable.now()
            if not same(now, variable.value):
                self._warn(code, f"{variable} from {variable.value!r} to {now!r}")
                variable.value = now
        for container in self.containers:
            if container.changed():
                kind, count = type(container.holder).__name__, len(container.elements)
                container.note()
                self._warn(code, f"a {kind} of {count} elements to {container.holder!r}")
        return assigned

    def put_back(self) -> list[tuple[Variable, Any]]:
        """Put back what was there before the trace. Return the variables that were given a tensor,
        and the tensor; reject anything else that was put somewhere."""
        assigned: list[tuple[Variable, Any]] = []
        refused: list[tuple[str, Any]] = []
        for thing, before in self.objects:
            for name, now in list(vars(thing).items()):
                if now is not before.get(name) and _traced_in(now):
                    variable = Variable("attribute", thing, name, before.get(name, MISSING))
                    assigned.append((variable, now))
                    variable.put_back()
        for container in self.containers:
            made = [v for v in container.now() if _traced_in(v)]
            if made and container.changed():
                elements = [(v, v.now()) for v in container.variables()]
                given = [(v, now) for v, now in elements if _traced_in(now)]
                assigned += given
                for variable, _ in given:
                    variable.put_back()
                if not elements:
                    refused.append((f"a {type(container.holder).__name__}", made[-1]))
                    container.put_back()
        for variable in self.variables:
            now = variable.now()
            if now is not variable.value and _traced_in(now):
                assigned.append((variable, now))
                variable.put_back()
        refused += [(str(v), now) for v, now in assigned if not hasattr(now, "_array")]
        if refused:
            where, thing = refused[0]
            raise untraceable(
                f"a compiled function stored a result outside itself, in {where}: later calls "
                "would not store theirs.",
                "return it and store it outside the function, or change a tensor there in place, "
                "as with copy_().",
                **{"made at": _traced_in(thing)[0]._array.line},
            )
        return assigned

    def without(
        self,
        locations: Iterable[Any],
        assigned: Iterable[tuple[Variable, Any]],
        captured: Collection[int],
    ) -> None:
        """Remove guards of variables where a call finds any tensor, or to which it assigns, and of
        captured arrays (ids) that NumPy does not compute with."""
        free = {(id(v.holder), v.name) for v in locations if isinstance(v, Variable)}
        free |= {(id(v.holder), v.name) for v, _ in assigned}
        self.variables = [
            v
            for v in self.variables
            if (id(v.holder), v.name) not in free or not hasattr(v.value, "_array")
        ]
        for container in self.containers:
            container.free = {name for holder, name in free if holder == id(container.holder)}
        self.arrays = [a for a in self.arrays if a.read or id(owner_of(a.holder)) not in captured]

    def _warn(self, code: CodeType | None, what: str) -> None:
        warnings.warn(
            f"a compiled function changed {what} while it was traced ({where_text(code, 0)}); "
            "later calls will not change it. Fix: change it outside, or keep it in a tensor and "
            "change that in place.",
            UserWarning,
            stacklevel=7,
        )

    # -- searching ---------------------------------------------------------------------------------

    def _foreign(self, module: str | None) -> bool:
        """Whether a module is a library's, and not in the package of the function."""
        return is_library(module) and (module or "").partition(".")[0] != self._package

    def _first_time(self, *things: Any) -> bool:
        key = tuple(map(id, things))
        if key in self._seen:
            return False
        self._kept.append(things)
        self._seen.add(key)
        return True

    def _note(self, how: str, holder: Any, name: Any, value: Any) -> Any:
        """Guard a value that was read."""
        if (id(holder), name) not in self._seen:
            self._kept.append(holder)
            self._seen.add((id(holder), name))
            variable = Variable(how, holder, name, value)
            # What is made anew whenever it is read cannot be compared.
            if not isinstance(value, ModuleType) and same(variable.now(), value):
                self.variables.append(variable)
                self._note_tensor(variable)
        return value

    def _note_tensor(self, variable: Variable) -> None:
        """Note a variable that may refer to another tensor in the next call."""
        tensor = variable.value
        if not isinstance(tensor, Tensor) or isinstance(variable.holder, Module):
            return
        known = self.tensors.get(id(tensor), variable)
        here = known is not None and known.holder is variable.holder
        alone = here and known.name == variable.name  # type: ignore[union-attr]
        plain = not isinstance(tensor, Parameter) and not tensor.hooks
        self.tensors[id(tensor)] = variable if alone and plain else None

    def _function(self, function: FunctionType, given: Mapping[str, Any]) -> None:
        """Note what the code of a function reads."""
        code = function.__code__
        if not self._first_time(code, function, *given.values()):
            return
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self._use(wrapped, given)
        if own_files[code.co_filename] or (
            is_installed(code.co_filename) and self._foreign(function.__module__)
        ):
            return
        self._names |= set(names(code))
        if "__class__" in code.co_freevars:  # super(): a method of one of the classes
            self._super(code, given)
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
            if value is MISSING or isinstance(value, (Tensor, Optimizer)):
                break
            read = self._attribute if link.how == "attribute" else self._item
            value = read(value, link.name)
        if value is not MISSING:
            self._use(value)

    def _super(self, code: CodeType, given: Mapping[str, Any]) -> None:
        thing = given.get(code.co_varnames[0]) if code.co_varnames else None
        for name in code.co_names if thing is not None else ():
            for kind in type(thing).__mro__:
                value = vars(kind).get(name)
                if isinstance(value, FunctionType) and not self._foreign(kind.__module__):
                    self._use(MethodType(value, thing))

    def _computes_with(self, array: Any) -> None:
        """Guard the elements of an array that NumPy computes with."""
        self._use(array)
        next(a for a in self.arrays if a.holder is array).read = True

    def _happens_once(self, what: str) -> None:
        """Note something that returns another value at every call."""
        if (what,) not in self._seen:
            self._seen.add((what,))
            self.once.append((what, object, None))

    def _attribute(self, thing: Any, name: Any) -> Any:
        """Note an attribute that is read, and return it."""
        if isinstance(thing, _CONTAINERS):
            self._use(thing)
            return MISSING
        if isinstance(thing, ModuleType):
            value = vars(thing).get(name, MISSING)
            if value is os.environ:
                return value
            if value in _CLOCKS:
                self._happens_once(f"{thing.__name__}.{name}")
            if self._foreign(thing.__name__):
                return value if isinstance(value, type) else MISSING
            if value is MISSING:
                return MISSING
            return self._note("item", vars(thing), name, vars(thing)[name])
        if isinstance(thing, np.ndarray):
            if name not in ("dtype", "ndim", "shape", "size"):
                self._computes_with(thing)
            return MISSING
        if isinstance(thing, type) and thing.__module__ == "datetime":
            if name in ("now", "today", "utcnow"):
                self._happens_once(f"{thing.__name__}.{name}")
            return MISSING
        if isinstance(thing, random.Random) or _kind(thing) == _NUMPY_GENERATOR:
            self._use(thing)
            return MISSING
        kind = thing if isinstance(thing, type) else type(thing)
        if self._foreign(kind.__module__) and not isinstance(thing, Module) and not vars_of(thing):
            return MISSING
        self._object(thing)
        for owner in kind.__mro__:
            if name in vars(owner):
                value = vars(owner)[name]
                if isinstance(value, property):
                    if value.fget is not None:
                        self._use(value.fget, bound(value.fget, thing))
                    return MISSING
                break
        try:
            value = getattr(thing, name)
        except Exception:
            return MISSING
        if isinstance(value, MethodType) or (
            isinstance(value, FunctionType) and name not in vars_of(thing)
        ):
            return value  # of the class
        return self._note("attribute", thing, name, value)

    def _item(self, thing: Any, key: Any) -> Any:
        """Note an element that is read, and return it."""
        if isinstance(thing, np.ndarray):
            self._computes_with(thing)
            return MISSING
        if isinstance(thing, (dict, list)) or thing is os.environ:
            try:
                return self._note("item", thing, key, thing[key])
            except (LookupError, TypeError):
                return MISSING
        if isinstance(thing, tuple):
            return thing[key] if isinstance(key, int) and key < len(thing) else MISSING
        self._use(thing)
        return MISSING

    def _object(self, thing: Any) -> None:
        """Note the attributes of an object, to see if the function changes them."""
        if isinstance(thing, (Module, type)) or not hasattr(thing, "__dict__"):
            return
        if self._first_time("object", thing):
            self.objects.append((thing, dict(vars(thing))))

    def _use(self, thing: Any, given: Mapping[str, Any] | None = None, depth: int = 0) -> None:
        """Note something that is called, iterated over or passed on."""
        if thing is MISSING or is_plain(thing) or isinstance(thing, (Tensor, ModuleType)):
            return
        if isinstance(thing, np.ndarray):
            if self._first_time("array", thing):
                self.arrays.append(ArrayOutside(thing))
            return
        if isinstance(thing, MethodType):
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
        elif isinstance(thing, (*_CONTAINERS, tuple)):
            self._go_through(thing, depth)
        elif not self._first_time("used", thing):
            return
        elif isinstance(thing, random.Random):
            self.once.append(("a random.Random", thing.getstate, thing.getstate()))
        elif _kind(thing) == _NUMPY_GENERATOR:
            state = functools.partial(_generator_state, thing)
            self.once.append(("a NumPy generator", state, state()))
        elif isinstance(thing, Iterator) and not isinstance(thing, io.IOBase):
            self._happens_once(f"an iterator ({type(thing).__name__})")
        elif isinstance(thing, functools.partial):
            self._use(thing.func)
            self._use([*thing.args, *thing.keywords.values()])
        elif isinstance(thing, Module):
            self.modules.append(thing)
            for module in thing.modules():
                self._use(getattr(module, "forward", None))
                self._hooks(module._hooks or {})
                for parameter in module._parameters.values():
                    self._hooks(getattr(parameter, "hooks", None) or {})
        elif is_compiled(thing):
            self._use(thing.function)
        elif isinstance(thing, type):
            made = vars(thing).get("__init__")
            if isinstance(made, FunctionType) and not self._foreign(thing.__module__):
                self._use(made)
        elif not self._foreign(type(thing).__module__) or _kind(thing) in _NAMESPACES:
            self._object(thing)
            if hasattr(thing, "__dict__"):
                self._passed_on.append(thing)
            if callable(thing) and isinstance(type(thing).__call__, FunctionType):
                self._use(MethodType(type(thing).__call__, thing))

    def _hooks(self, kinds: Mapping[Any, Mapping[Any, Any]]) -> None:
        """Note hooks."""
        for functions in kinds.values():
            for hook in functions.values():
                self._use(getattr(hook, "hook", hook))

    def _go_through(self, thing: Any, depth: int) -> None:
        if depth > _DEEPEST or not self._first_time("through", thing):
            return
        if not isinstance(thing, tuple) and len(thing) <= _MOST:
            self.containers.append(Container(thing))
            for variable in self.containers[-1].variables():
                self._note_tensor(variable)
        elements = thing.values() if isinstance(thing, dict) else thing
        for element in islice(elements, _MOST):
            if not is_plain(element):
                self._use(element, None, depth + 1)


def _traced_in(thing: Any) -> list[Any]:
    """The tensors in a thing that a trace made."""
    nested = leaves(thing) if isinstance(thing, (tuple, list, dict)) else [thing]
    return [t for t in nested if isinstance(getattr(t, "_array", None), AbstractArray)]


def _kind(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__name__}"


def _numpy_random_state() -> Any:
    module = sys.modules.get("numpy.random")
    if module is None:
        return None
    kind, keys, *rest = module.get_state()
    return kind, keys.tobytes(), rest


def _generator_state(generator: Any) -> str:
    return repr(generator.bit_generator.state)


def _warn_of_draw(what: str, where: str) -> None:
    warnings.warn(
        f"a compiled function used {what} while it was traced ({where}): every later call repeats "
        "this result. Fix: use it outside, and pass the result as an argument (a tensor or a "
        "float); draw random numbers with gradwalk (gradwalk.rand).",
        UserWarning,
        stacklevel=8,
    )
