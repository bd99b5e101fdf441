"""The guards that a search has found so far, and what it must remember of the objects it met."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gradwalk.compiler.capture.guards import ArrayOutside, Container, Reading, Variable, same
from gradwalk.compiler.capture.state_readers import numpy_random_state, set_numpy_random_state
from gradwalk.compiler.capture.user_code import attributes_of, is_basic, is_library
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter
from gradwalk.optim.optimizer import Optimizer
from gradwalk.tensors.tensor import Tensor


class FoundGuards:
    """What a function reads, as far as it is known."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.variables: list[Variable] = []
        self.containers: list[Container] = []
        self.readings: list[Reading] = []
        self.optimizers: list[Optimizer] = []
        self.modules: list[Module] = []
        self.arrays: list[ArrayOutside] = []
        # What happens only once: its name, how to read its state and to set it, and the state
        # before. What cannot be set has None.
        self.once: list[tuple[str, Callable[[], Any], Callable[[Any], Any] | None, Any]] = []
        self.effects: list[str] = []  # that nothing undoes
        self.drawn = self.once[:0]  # those of them that did happen
        # By the id of a tensor: the one variable that refers to it; None if there are several.
        self.tensors: dict[int, Variable | None] = {}
        self.objects: list[tuple[Any, dict[str, Any]]] = []  # with their attributes before
        self._kept: list[Any] = []  # objects whose ids are known
        self._seen: set[Any] = set()
        self._names: set[str] = set()  # of attributes, in all code
        self._passed_on: list[Any] = []
        package = (getattr(function, "__module__", None) or "").partition(".")[0]
        self._package = None if is_basic(package) else package
        self.once.append(("random", random.getstate, random.setstate, random.getstate()))
        state = numpy_random_state()
        self.once.append(("np.random", numpy_random_state, set_numpy_random_state, state))

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
        if (how, id(holder), name) not in self._seen:
            self._kept.append(holder)
            self._seen.add((how, id(holder), name))
            variable = Variable(how, holder, name, value)
            # What is made anew whenever it is read cannot be compared.
            if not issubclass(type(value), ModuleType) and same(variable.now(), value):
                if how in ("attribute", "method") and not name.isidentifier():
                    self.readings.append(Reading(variable.now))
                else:
                    self.variables.append(variable)
                    self._note_tensor(variable)
        return value

    def _note_tensor(self, variable: Variable) -> None:
        """Note a variable that may refer to another tensor in the next call."""
        tensor = variable.value
        if not issubclass(type(tensor), Tensor) or issubclass(type(variable.holder), Module):
            return
        known = self.tensors.get(id(tensor), variable)
        here = known is not None and known.holder is variable.holder
        alone = here and known.name == variable.name  # type: ignore[union-attr]
        plain = not isinstance(tensor, Parameter) and not tensor.hooks
        self.tensors[id(tensor)] = variable if alone and plain else None

    def _happens_once(self, what: str) -> None:
        """Note something that returns another value at every call."""
        if (what,) not in self._seen:
            self._seen.add((what,))
            self.once.append((what, object, None, None))

    def _object(self, thing: Any) -> None:
        """Note the attributes of an object, to see if the function changes them."""
        if isinstance(thing, (Module, type, ModuleType)):
            return
        attributes = attributes_of(thing)
        if (attributes or hasattr(thing, "__dict__")) and self._first_time("object", thing):
            self.objects.append((thing, attributes))
