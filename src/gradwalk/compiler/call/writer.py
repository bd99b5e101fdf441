"""CallText: the parts of the generated function, the things they name, and locations as code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gradwalk.compiler.capture.guards import Variable
from gradwalk.compiler.capture.locations import (
    ArgumentLocation,
    GradientLocation,
    OptionLocation,
    ParameterState,
    ScalarLocation,
    StateLocation,
    TensorLocation,
)
from gradwalk.compiler.capture.optimizers import SharedScalar
from gradwalk.compiler.tracing.deferred_signals import USUAL, signals_deferred

if TYPE_CHECKING:
    from gradwalk.compiler.call.specialization import Specialization

NEVER = sys.maxsize  # a count that is never reached
MISS: Any = object()  # what a call returns if a guard of the program does not hold
# What reading an argument, an option or a variable raises if it is gone or of another type.
_NOT_THERE = (AttributeError, IndexError, KeyError, TypeError, ValueError)


class CallText:
    """The function in parts: lines, or expressions of which none may be true."""

    def __init__(self, specialization: Specialization) -> None:
        self.specialization = specialization
        self.trace = specialization.trace
        self.values: list[str] = []  # names of the tensors, then the floats, it is called with
        # The parts, in the order in which they run:
        self.unpack: list[str] = []  # lines that give names to arguments and parameter groups
        self.conditions: list[str] = []  # expressions: the program is not right
        self.moved: list[str] = []  # expressions: captured memory must be found again
        self.scalars: list[str] = []  # lines that read the runtime scalars
        self.run: list[str] = []  # lines that run the program
        self.results: list[str] = []  # lines that put results where they belong
        self.answer = "None"  # the expression that is returned
        # Globals that a call assigns to:
        self.rebound: list[str] = ["due"] if specialization.due != NEVER else []
        self.reused: set[int] = set()  # slots of the tensors that exist before the run
        self.kept: set[int] = set()  # slots of the gradients that the executable itself puts
        self.things: dict[str, Any] = {
            "MISS": MISS,
            "NOT_THERE": _NOT_THERE,
            "Interrupt": KeyboardInterrupt,
            "USUAL": USUAL,
            "signals_deferred": signals_deferred,
            "count": 0,  # of the calls so far
            "specialization": specialization,
            "find_again": specialization.find_again,
            "due": specialization.due,  # the count at which the program is checked
            "check": specialization.check_as_scheduled,
        }
        self._names: dict[int, str] = {}
        self._counts: dict[str, int] = {}
        self._states: dict[str, ParameterState] = {}  # by the name of the global for its dictionary

    def __str__(self) -> str:
        lines = [f"global {', '.join(self.rebound)}"] if self.rebound else []
        guards = [*self.unpack, "if (", *alternatives(self.conditions), "):", "    return MISS"]
        if self.moved:
            guards += ["moved = (", *alternatives(self.moved), ")"]
        lines += ["try:", *indented(guards), "except NOT_THERE:", "    return MISS"]
        if self.moved:
            lines += [f"if moved and not find_again({self.given()}):", "    return MISS"]
        lines += [*self.scalars, "if look:", "    return specialization.arrays"]
        if self.specialization.due != NEVER:
            lines += ["if count >= due:", "    due = check(count, args, keywords)"]
        if self.specialization.native is None:
            lines += ["with signals_deferred(USUAL):", *indented([*self.run, *self.results])]
        else:
            lines += self.run
            # What a signal's handler raises waits until all is noted that the program did; each
            # line may run again. What fails twice is an error of its own.
            lines += ["while True:", "    try:", *indented(indented([*self.results, "break"]))]
            lines += ["    except BaseException as error:"]
            lines += ["        if interrupted is not None and error.__class__ is not Interrupt:"]
            lines += ["            raise", "        interrupted = error"]
            lines += ["if interrupted is not None:", "    raise interrupted"]
        lines.append(f"return {self.answer}")
        return "\n".join(["def call(args, keywords, here, look=False):", *indented(lines)]) + "\n"

    def function(self) -> Callable[..., Any]:
        """The function that the text defines."""
        # The file name marks gradwalk's own code, which `caller` looks past.
        exec(compile(str(self), f"{__file__}: {self.specialization.name}", "exec"), self.things)
        made: Callable[..., Any] = self.things["call"]
        return made

    def new_name(self, kind: str) -> str:
        """A name that the text does not use yet."""
        number = self._counts[kind] = self._counts.get(kind, -1) + 1
        return f"{kind}{number}"

    def name(self, kind: str, thing: Any) -> str:
        """The global that is this very thing."""
        known = self._names.get(id(thing))
        if known is None:
            known = self._names[id(thing)] = self.new_name(kind)
            self.things[known] = thing
        return known

    def use(self, **things: Any) -> None:
        """Let the text name these."""
        self.things |= things

    def given(self) -> str:
        """What the call was given, as `location.get` takes it."""
        return f"({', '.join(self.values)},)" if self.values else "()"

    def differs(self, now: str, then: Any) -> str:
        """The condition that something is neither the same object as before nor equal."""
        before = repr(then) if then is None or type(then) is bool else self.name("fixed", then)
        return f"{now} is not {before} and {now} != {before}"

    def differs_in_type(self, now: str, then: Any) -> str:
        """The same for plain values, where 1, 1.0 and True differ."""
        before = self.name("fixed", then)
        same = f"{now}.__class__ is {before}.__class__ and {now} == {before}"
        return f"{now} is not {before} and not ({same})"

    # -- locations ---------------------------------------------------------------------------------

    def read(self, location: Any) -> str:
        """The expression for what is at a location."""
        return self._direct(location) or f"{self.name('location', location)}.get({self.given()})"

    def write(self, location: Any, value: str) -> str:
        """The line that replaces what is at a location."""
        direct = None if getattr(location, "part", None) is not None else self._direct(location)
        if direct is not None:
            return f"{direct} = {value}"
        return f"{self.name('location', location)}.set({value}, {self.given()})"

    def _direct(self, location: Any) -> str | None:
        """An expression that can be read and assigned to; None if there is none."""
        match location:
            case TensorLocation(tensor):
                return self.name("tensor", tensor)
            case Variable("cell", cell):
                return f"{self.name('cell', cell)}.cell_contents"
            case Variable("item", holder, key):
                plain = repr(key) if type(key) in (str, int) else self.name("key", key)
                return f"{self.name('variables', holder)}[{plain}]"
            case Variable("method", holder, name):
                return f"{self.name('object', holder)}.{name}.__func__"
            case Variable(_, holder, name):
                return f"{self.name('object', holder)}.{name}"
            case ArgumentLocation(position) | ScalarLocation(position):
                return self.values[position]
            case GradientLocation(of):
                return f"{self.read(of)}._grad"
            case SharedScalar():
                return self.in_state(location.members[0], location.name)
            case StateLocation(state, name) if state.entries is not None:
                return self.in_state(state, name)
            case OptionLocation(optimizer, group, name, part) if (
                name in optimizer.param_groups[group]
            ):
                index = "" if part is None else f"[{part}]"
                return f"{self.group(optimizer, group)}[{name!r}]{index}"
        return None

    def group(self, optimizer: Any, number: int) -> str:
        """The local variable for a parameter group."""
        return f"group_{number}_of_{self.name('optimizer', optimizer)}"

    def state(self, state: ParameterState) -> str:
        """The global for the dictionary of a parameter's state."""
        known = self._names.get(id(state))
        if known is None:
            known = self._names[id(state)] = self.new_name("state")
            self._states[known] = state
            self.things[known] = state.entries
        return known

    def in_state(self, state: ParameterState, name: str) -> str:
        """What a parameter's state has under a name."""
        return f"{self.state(state)}[{name!r}]"

    def rebind(self) -> None:
        """Let the globals be the captured arrays and states as they are now."""
        specialization = self.specialization
        for number, array in enumerate(specialization.arrays):
            self.things[f"array{number}"] = array
        for name, state in self._states.items():
            self.things[name] = state.entries
        self.use(
            together=specialization.together,
            owners=specialization.owners,
            written=specialization.written_owners,
        )


def indented(lines: Iterable[str]) -> list[str]:
    """Lines one level deeper."""
    return ["    " + line for line in lines]


def alternatives(conditions: list[str]) -> list[str]:
    """Conditions of which one suffices, a line each."""
    return [f"    {'or ' * (i > 0)}({c})" for i, c in enumerate(conditions)]
