"""CallText: lines of a function, the things they name, and how places are spelled in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradwalk.compiler.capture.locations import (
    KeptState,
    OfArgument,
    OfGradient,
    OfGroup,
    OfNumber,
    OfState,
    OfTensor,
)
from gradwalk.compiler.capture.optimizers import SharedNumber
from gradwalk.compiler.capture.variables import Variable

if TYPE_CHECKING:
    from gradwalk.compiler.call.specialization import Variant

MISS: Any = object()  # what a call returns if the program is not right for it


class CallText:
    """Lines of a function, and the things they name."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.trace = variant.trace
        self.lines: list[str] = []
        self.values: list[str] = []  # names of the tensors, then the floats, it is called with
        self.conditions: list[str] = []  # each says that the program is not right
        self.moved: list[str] = []  # each says that captured memory must be looked for
        self.rebound: list[str] = []  # globals that a call assigns to
        self.used_again: set[int] = set()  # tensors that exist before the run
        self.things: dict[str, Any] = {
            "MISS": MISS,
            "count": 0,  # of the calls so far
            "variant": variant,
        }
        self._names: dict[int, str] = {}
        self._counts: dict[str, int] = {}

    def __str__(self) -> str:
        head = ["def call(args, keywords, here, look=False):"]
        if self.rebound:
            head.append(f"    global {', '.join(self.rebound)}")
        return "\n".join([*head, *("    " + line for line in self.lines)]) + "\n"

    def function(self) -> Callable[..., Any]:
        """The function that the text defines."""
        # The file name says that it is gradwalk's own code, which `caller` looks past.
        exec(compile(str(self), f"{__file__}: {self.variant.name}", "exec"), self.things)
        made: Callable[..., Any] = self.things["call"]
        return made

    def write(self, *lines: str) -> None:
        """Add lines."""
        self.lines += lines

    def name(self, kind: str, thing: Any) -> str:
        """The name under which the text finds this very thing."""
        known = self._names.get(id(thing))
        if known is None:
            number = self._counts[kind] = self._counts.get(kind, -1) + 1
            known = self._names[id(thing)] = f"{kind}{number}"
            self.things[known] = thing
        return known

    def use(self, **things: Any) -> None:
        """Let the text name these."""
        self.things |= things

    def given(self) -> str:
        """What the call was given, as `place.get` takes it."""
        return f"({', '.join(self.values)},)" if self.values else "()"

    def differs(self, now: str, then: Any) -> str:
        """That something is neither the same as it was nor equal."""
        before = repr(then) if then is None or type(then) is bool else self.name("fixed", then)
        return f"{now} is not {before} and {now} != {before}"

    def spell(self, place: Any) -> str:
        """What a place holds."""
        return self._spelled(place) or f"{self.name('place', place)}.get({self.given()})"

    def put(self, place: Any, value: str) -> str:
        """The line that replaces what a place holds."""
        spelled = None if getattr(place, "part", None) is not None else self._spelled(place)
        if spelled is not None:
            return f"{spelled} = {value}"
        return f"{self.name('place', place)}.set({value}, {self.given()})"

    def _spelled(self, place: Any) -> str | None:
        match place:
            case OfTensor(tensor):
                return self.name("tensor", tensor)
            case Variable():
                return self.variable(place)
            case OfArgument(position) | OfNumber(position):
                return self.values[position]
            case OfGradient(of):
                return f"{self.spell(of)}._grad"
            case SharedNumber():
                return self.in_state(place.members[0], place.name)
            case OfState(state, name) if state.kept is not None:
                return self.in_state(state, name)
            case OfGroup(optimizer, group, name, part) if name in optimizer.param_groups[group]:
                index = "" if part is None else f"[{part}]"
                return f"{self.group(optimizer, group)}[{name!r}]{index}"
        return None

    def variable(self, variable: Variable) -> str:
        """What a variable holds."""
        of = {"cell": "cell", "item": "variables", "attribute": "object"}[variable.how]
        where = self.name(of, variable.holder)
        if variable.how == "cell":
            return f"{where}.cell_contents"
        if variable.how == "item":
            key = variable.name
            plain = type(key) in (str, int)
            return f"{where}[{repr(key) if plain else self.name('key', key)}]"
        return f"{where}.{variable.name}"

    def group(self, optimizer: Any, number: int) -> str:
        """The local variable for a parameter group."""
        return f"group_{number}_of_{self.name('optimizer', optimizer)}"

    def kept(self, state: KeptState) -> str:
        """The global for the dictionary of a parameter's state."""
        found = self.name("slot", state).replace("slot", "state")
        self.things.setdefault(found, state.kept)
        return found

    def in_state(self, state: KeptState, name: str) -> str:
        """What a parameter's state has under a name."""
        return f"{self.kept(state)}[{name!r}]"

    def found(self) -> None:
        """Note where captured arrays and states are now."""
        for number, array in enumerate(self.variant.arrays):
            self.things[f"array{number}"] = array
        for slot in [n for n in self.things if n.startswith("slot")]:
            self.things[slot.replace("slot", "state")] = self.things[slot].kept
        self.things["together"] = self.variant.together
        self.things["owners"] = self.variant.owners
        self.things["written"] = self.variant.written_owners
