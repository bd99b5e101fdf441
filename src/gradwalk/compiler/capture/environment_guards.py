"""The environment: what a function reads besides its arguments, through closures and globals, and
from object to object.

A trace freezes it, so every part is guarded: a call after one has changed traces anew. Plain values
are compared by value, everything else by identity.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from contextlib import suppress
from types import CodeType
from typing import Any

from gradwalk.compiler.capture.environment_search import Search
from gradwalk.compiler.capture.guards import MISSING, Variable, same
from gradwalk.compiler.capture.user_code import attributes_of
from gradwalk.compiler.tracing.errors import untraceable
from gradwalk.engine.tree import leaves
from gradwalk.graph.abstract import AbstractArray
from gradwalk.graph.source import where_text
from gradwalk.graph.versions import owner_of


class Environment(Search):
    """What a function can read, and what it changed of that while it was traced."""

    # -- what the function changed -----------------------------------------------------------------

    def settle(
        self, code: CodeType | None, set_again: Collection[tuple[int, str]], again: bool = False
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
        if again:
            self.put_all_back()
            return assigned
        for what, ask, put, before in self.once:
            if ask() != before:
                _warn_of_draw(what, where_text(code, 0))
                self.drawn.append((what, ask, put, before))
        for variable in self.variables:
            now = variable.now()
            if not same(now, variable.value):
                self._warn(code, f"{variable} from {variable.value!r} to {now!r}")
                variable.value = now
        for container in self.containers:
            if container.changed():
                kind, count = type(container.holder).__name__, len(container.elements)
                container.note()
                self._warn(code, f"a {kind} of {count} elements to {container.holder!r:.200}")
        for array in self.arrays:
            if array.changed():
                self._warn(code, f"an ndarray of shape {array.holder.shape}")
                array.note()
        for reading in self.readings:
            if reading.changed():
                self._warn(code, f"{reading.value!r} to {reading.read()!r}")
                reading.value = reading.read()
        return assigned

    def put_back(self) -> list[tuple[Variable, Any]]:
        """Put back what was there before the trace. Return the variables that were given a tensor,
        and the tensor; reject anything else that was put somewhere."""
        assigned: list[tuple[Variable, Any]] = []
        refused: list[tuple[str, Any]] = []
        for thing, before in self.objects:
            for name, now in attributes_of(thing).items():
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

    def put_all_back(self) -> None:
        """Put back, after a second trace, whatever else it changed."""
        for thing, before in self.objects:
            now = attributes_of(thing)
            for name in before.keys() | now.keys():
                old = before.get(name, MISSING)
                if old is not now.get(name, MISSING):
                    with suppress(AttributeError):
                        Variable("attribute", thing, name, old).put_back()
        for container in self.containers:
            if container.changed():
                container.put_back()
        for variable in self.variables:
            if variable.how != "method" and variable.now() is not variable.value:
                variable.put_back()
        for array in self.arrays:
            if array.changed():
                array.put_back()

    def changed(self) -> str:
        """The first thing that is not as it was, for a message."""
        for variable in self.variables:
            if not same(variable.now(), variable.value):
                return f"{variable}, now {variable.now()!r:.60}"
        for container in self.containers:
            if container.changed():
                return f"a {type(container.holder).__name__}, now {container.holder!r:.60}"
        return "a change of what it reads"

    def unrepeatable(self) -> str:
        """What keeps the function from being traced again; "" if nothing does."""
        drawn = [what for what, _, put, _ in self.drawn if put is None]
        return ", ".join(dict.fromkeys([*drawn, *self.effects]))

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
            if (id(v.holder), v.name) not in free or not hasattr(type(v.value), "_array")
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
            stacklevel=9,
        )


def _traced_in(thing: Any) -> list[Any]:
    """The tensors in a thing that a trace made."""
    nested = leaves(thing) if issubclass(type(thing), (tuple, list, dict)) else [thing]
    return [t for t in nested if isinstance(_array_of(t), AbstractArray)]


def _array_of(thing: Any) -> Any:
    return getattr(thing, "_array", None) if hasattr(type(thing), "_array") else None


def _warn_of_draw(what: str, where: str) -> None:
    warnings.warn(
        f"a compiled function used {what} while it was traced ({where}): every later call repeats "
        "this result. Fix: use it outside, and pass the result as an argument (a tensor or a "
        "float); draw random numbers with gradwalk (gradwalk.rand).",
        UserWarning,
        stacklevel=9,
    )
