"""The first half of a call: its arguments, and whether everything is as the program needs it."""

from __future__ import annotations

from typing import Any

from gradwalk.compiler.call.writer import CallText
from gradwalk.compiler.capture.locations import OfArgument, OfGenerator
from gradwalk.compiler.capture.optimizers import OptimizerAsBefore, SharedNumber
from gradwalk.compiler.capture.variables import Variable, is_plain
from gradwalk.compiler.tracing.arguments import UNALIGNED, Arguments
from gradwalk.nn.module import changes
from gradwalk.ops.core import dtypes
from gradwalk.optim.optimizer import Optimizer

_PLAIN = (bool, int, float, str, type(None))
# What reading an argument, an option or a variable raises if it is not there, or not what it was.
_NOT_THERE = (AttributeError, IndexError, KeyError, TypeError, ValueError)

# -- arguments -------------------------------------------------------------------------------------


def write_arguments(text: CallText, args: Any, keywords: Any, static: frozenset[Any]) -> None:
    """Take the arguments apart; what they must be goes to the conditions."""
    text.use(dtypes=dtypes, NOT_THERE=_NOT_THERE)
    text.write("try:")
    text.conditions += [
        f"here.grad_enabled is not {text.variant.key[0]}",
        text.differs("dtypes._default", text.variant.key[1]),
    ]
    if not _write_flat_arguments(text, args, keywords, static):
        text.use(Arguments=Arguments, static=static, key=text.variant.key)
        given = Arguments(args, keywords, static, True)
        text.values = [f"x{i}" for i in range(len(given.values))]
        text.write(
            "    given = Arguments(args, keywords, static, here.grad_enabled)",
            "    if given.key != key:",
            "        return MISS",
            *([f"    {', '.join(text.values)}, = given.values"] if text.values else []),
        )
        return
    tensors = text.values[: text.trace.arguments]
    looked_at = set(getattr(text.variant.executable, "argument_order", ()))
    parts = text.variant.tensor_key
    for position, x in enumerate(tensors):
        shape, dtype, order, needs = parts[4 * position : 4 * position + 4]
        text.conditions.append(
            f"({x}._requires_grad or {x}._node is not None if {x}._view is None "
            f"else {x}.requires_grad) is not {needs}"
        )
        text.conditions += [f"{x} is {other}" for other in tensors[:position]]
        if position not in looked_at or order == UNALIGNED:  # the tape compares those it is given
            array = f"{x}._array"
            in_order = f"{array}.flags.c_contiguous"
            other = {
                None: f"not {in_order}",
                UNALIGNED: f"{array}.flags.aligned",  # then nothing need be copied
            }.get(order, f"{in_order} or {array}.strides != {order}")
            text.conditions += [
                f"{array}.shape != {shape}",
                text.differs(f"{array}.dtype", dtype),
                other,
            ]


def _write_flat_arguments(text: CallText, args: Any, keywords: Any, static: frozenset[Any]) -> bool:
    """If they are different tensors, floats and plain values, not nested: without a key."""
    things = [*enumerate(args), *keywords.items()]
    tensors = [id(a) for _, a in things if hasattr(a, "_array")]
    if len(set(tensors)) < len(tensors):
        return False
    if any(not hasattr(a, "_array") and type(a) not in _PLAIN for _, a in things):
        return False
    names: list[str] = []
    floats: list[str] = []
    for where, a in things:
        if hasattr(a, "_array"):
            names.append(f"x{len(text.values)}")
            text.values.append(names[-1])
        elif type(a) is float and where not in static:
            names.append(f"x{len(tensors) + len(floats)}")
            floats.append(names[-1])
            text.conditions.append(f"{names[-1]}.__class__ is not float")
        else:
            names.append(f"plain{len(names)}")
            before = text.name("fixed", a)
            same = f"{names[-1]}.__class__ is {before}.__class__ and {names[-1]} == {before}"
            text.conditions.append(f"{names[-1]} is not {before} and not ({same})")
    text.values += floats
    if args:
        text.write(f"    {', '.join(names[: len(args)])}, = args")
    if len(keywords) or not args:
        text.conditions.insert(0, f"len(args) != {len(args)} or len(keywords) != {len(keywords)}")
    else:
        text.conditions.insert(0, "keywords")
    for name, where in zip(names[len(args) :], keywords, strict=True):
        text.write(f"    {name} = keywords[{where!r}]")
    return True


# -- conditions ------------------------------------------------------------------------------------


def write_conditions(text: CallText) -> None:
    """What must be as it was."""
    trace = text.trace
    modules = text.name("modules", trace.modules)
    if trace.modules.tensors:
        text.conditions.append(f"not {modules}.holds()")
    elif trace.modules.attributes or trace.modules.hooked:
        text.use(changes=changes)
        text.conditions.append(f"changes.now != {modules}.seen and not {modules}.holds()")
    for variable in trace.environment.variables:
        text.conditions.append(_variable_changed(text, variable))
    for container in (*trace.environment.containers, *trace.environment.arrays):
        text.conditions.append(f"{text.name('container', container)}.changed()")
    for position, tensor in trace.themselves.items():
        text.conditions.append(f"{text.values[position]} is not {text.name('tensor', tensor)}")
    for place, needs in trace.needs:
        one = text.spell(place)
        if isinstance(place, Variable):
            text.conditions.append(f"{one}.hooks and any({one}.hooks.values())")
        needed = f"{one}._requires_grad or {one}._node is not None"
        text.conditions.append(f"not ({needed})" if needs else needed)
    for place in [place for place, _ in trace.grads if isinstance(place, OfArgument)]:
        one = text.spell(place)
        text.conditions.append(f"{one}.hooks and any({one}.hooks.values())")
    for place, none in trace.grads:
        text.conditions.append(f"{text.spell(place)}._grad is {'not ' if none else ''}None")
    for place, array in trace.views:
        text.conditions.append(f"{text.spell(place)}._array is not {text.name('part', array)}")
    for number in text.variant.generators:
        generator = text.name("generator", text.variant.generators[number])
        text.conditions.append(f"{generator}.like != 'gradwalk'")
    for optimizer in trace.optimizers:
        _write_optimizer(text, optimizer)
    text.write("    if (", *_alternatives(text.conditions), "    ):", "        return MISS")


def _variable_changed(text: CallText, variable: Variable) -> str:
    now = text.spell(variable)
    kind = "optimizer" if isinstance(variable.value, Optimizer) else "fixed"
    before = text.name(kind, variable.value)
    if not is_plain(variable.value):
        return f"{now} is not {before}"
    same = f"{now}.__class__ is {before}.__class__ and {now} == {before}"
    return f"{now} is not {before} and not ({same})"


def _write_optimizer(text: CallText, before: OptimizerAsBefore) -> None:
    """Its groups are conditions; its state, if a dictionary was replaced, is looked for."""
    optimizer = text.name("optimizer", before.optimizer)
    text.conditions.append(f"len({optimizer}.param_groups) != {len(before.params)}")
    for number, (params, count) in enumerate(before.params):
        group = text.group(before.optimizer, number)
        text.write(f"    {group} = {optimizer}.param_groups[{number}]")
        listed = text.name("listed", params)
        text.conditions.append(f"{group}['params'] is not {listed} or len({listed}) != {count}")
    for number, name, value in before.fixed:
        group = text.group(before.optimizer, number)
        text.conditions.append(text.differs(f"{group}[{name!r}]", value))
    if before.names is None:
        return
    if len(before.slots) != len(before.names):  # some do not move: their names count as well
        text.conditions.append(f"not {text.name('options', before)}.holds()")
    states = optimizer.replace("optimizer", "states")
    text.write(f"    {states} = {optimizer}.state", f"    get_from_{states} = {states}.get")
    text.moved.append(f"len({states}) != {len(before.names)}")
    for slot, count in before.slots:
        kept, parameter = text.kept(slot), text.name("tensor", slot.parameter)
        now = f"get_from_{states}({parameter})"
        text.moved.append(f"{now} is not {kept} or len({kept}) != {count}")


def _alternatives(conditions: list[str]) -> list[str]:
    """Conditions of which one is enough, a line each."""
    return [f"        {'or ' * (i > 0)}({c})" for i, c in enumerate(conditions)]


def write_finding(text: CallText) -> None:
    """Find captured memory; after that the program is right but for its numbers."""
    for number, captured in enumerate(text.trace.captured):
        for place in captured.places:
            if not isinstance(place, OfGenerator):
                text.moved.append(f"{text.spell(place)}._array is not array{number}")
    if text.moved:
        text.write("    moved = (", *_alternatives(text.moved), "    )")
    text.write("except NOT_THERE:", "    return MISS")
    if text.moved:
        text.use(find_again=text.variant.find_again)
        text.write(f"if moved and not find_again({text.given()}):", "    return MISS")


# -- numbers ---------------------------------------------------------------------------------------


def write_numbers(text: CallText) -> None:
    """Read the late numbers; branches that were taken on some are conditions."""
    for number, place in enumerate(text.trace.lates):
        text.write(f"number{number} = {text.spell(place)}")
        if isinstance(place, SharedNumber):
            others = [text.in_state(member, place.name) for member in place.members[1:]]
            unequal = [f"{o} is not number{number} and {o} != number{number}" for o in others]
            if unequal:
                text.write("if (", *_alternatives(unequal), "):", "    return MISS")
    for decided, truth in text.trace.decisions:
        place = getattr(decided.read, "__self__", None)
        known = place is not None and decided.read.__name__ == "get"
        now = text.spell(place) if known else f"{text.name('read', decided.read)}({text.given()})"
        text.write(f"if {'not ' if truth else ''}{now}:", "    return MISS")
    _write_generators(text)
    text.write("if look:", "    return variant.arrays")


def _write_generators(text: CallText) -> None:
    """The state of random streams is captured memory: [seed, offset]."""
    for number, generator in text.variant.generators.items():
        state: Any = text.variant.arrays[number]
        text.things[f"words{number}"] = memoryview(state).cast("B").cast("Q")
        text.write(
            f"stream{number} = {text.name('generator', generator)}.stream",
            f"words{number}[0] = stream{number}.seed % 2**64",
            f"words{number}[1] = stream{number}.offset",
        )
