"""The first half of a call: its arguments, and the guards of the program."""

from __future__ import annotations

from typing import Any

from gradwalk.compiler.call.writer import CallText, alternatives
from gradwalk.compiler.capture.guards import OptimizerGuard, Variable, is_plain
from gradwalk.compiler.capture.locations import ArgumentLocation, GeneratorLocation
from gradwalk.compiler.capture.optimizers import SharedScalar
from gradwalk.compiler.tracing.arguments import UNALIGNED, Arguments, TensorSignature
from gradwalk.nn.module import changes
from gradwalk.ops.core import dtypes
from gradwalk.optim.optimizer import Optimizer

_PLAIN = (bool, int, float, str, type(None))

# -- arguments -------------------------------------------------------------------------------------


def write_arguments(text: CallText, args: Any, keywords: Any, static: frozenset[Any]) -> None:
    """Unpack the arguments, and guard what they must be."""
    signature = text.specialization.signature
    text.use(dtypes=dtypes)
    text.conditions += [
        f"here.grad_enabled is not {signature.grad_enabled}",
        text.differs("dtypes._default", signature.default_dtype),
        text.differs("dtypes._matmul_precision", signature.matmul_precision),
        "here.autocast is not None",
    ]
    if signature.autocast is not None:
        key = text.name("fixed", signature.autocast)
        text.conditions[-1] = f"here.autocast is None or here.autocast.key != {key}"
    if not _unpack_flat(text, args, keywords, static):
        text.use(Arguments=Arguments, static=static, signature=signature)
        text.values = [f"x{i}" for i in range(len(Arguments(args, keywords, static, True).values))]
        text.unpack += [
            "given = Arguments(args, keywords, static, here.grad_enabled)",
            "if given.signature != signature:",
            "    return MISS",
            *([f"{', '.join(text.values)}, = given.values"] if text.values else []),
        ]
        return
    tensors = text.values[: text.trace.arguments]
    compared = set(getattr(text.specialization.executable, "argument_order", ()))  # by the tape
    for position, (x, expected) in enumerate(zip(tensors, signature.tensors, strict=True)):
        text.conditions.append(
            f"({x}._requires_grad or {x}._node is not None if {x}._view is None "
            f"else {x}.requires_grad) is not {expected.requires_grad}"
        )
        text.conditions += [f"{x} is {other}" for other in tensors[:position]]
        if position not in compared or expected.order == UNALIGNED:
            text.conditions += _array_differs(text, f"{x}._array", expected)


def _array_differs(text: CallText, array: str, expected: TensorSignature) -> list[str]:
    in_order = f"{array}.flags.c_contiguous"
    match expected.order:
        case None:
            other_order = f"not {in_order}"
        case str():  # unaligned; an aligned one need not be copied
            other_order = f"{array}.flags.aligned"
        case strides:
            other_order = f"{in_order} or {array}.strides != {strides}"
    return [
        f"{array}.shape != {expected.shape}",
        text.differs(f"{array}.dtype", expected.dtype),
        other_order,
    ]


def _unpack_flat(text: CallText, args: Any, keywords: Any, static: frozenset[Any]) -> bool:
    """If they are different tensors, floats and plain values, not nested: without a signature."""
    things = [*enumerate(args), *keywords.items()]
    tensors = [id(a) for _, a in things if hasattr(type(a), "_array")]
    if len(set(tensors)) < len(tensors):
        return False
    if any(not hasattr(type(a), "_array") and type(a) not in _PLAIN for _, a in things):
        return False
    names: list[str] = []
    floats: list[str] = []
    for where, a in things:
        if hasattr(type(a), "_array"):
            names.append(f"x{len(text.values)}")
            text.values.append(names[-1])
        elif type(a) is float and where not in static:
            names.append(f"x{len(tensors) + len(floats)}")
            floats.append(names[-1])
            text.conditions.append(f"{names[-1]}.__class__ is not float")
        else:
            names.append(f"plain{len(names)}")
            text.conditions.append(text.differs_in_type(names[-1], a))
    text.values += floats
    if args:
        text.unpack.append(f"{', '.join(names[: len(args)])}, = args")
    if len(keywords) or not args:
        text.conditions.insert(0, f"len(args) != {len(args)} or len(keywords) != {len(keywords)}")
    else:
        text.conditions.insert(0, "keywords")
    for name, where in zip(names[len(args) :], keywords, strict=True):
        text.unpack.append(f"{name} = keywords[{where!r}]")
    return True


# -- guards ----------------------------------------------------------------------------------------


def write_guards(text: CallText) -> None:
    """Guard everything that the trace saw besides the arguments, and find captured memory."""
    trace, conditions = text.trace, text.conditions
    modules = text.name("modules", trace.modules)
    if trace.modules.tensors:
        conditions.append(f"not {modules}.holds()")
    elif trace.modules.attributes or trace.modules.hooked:
        text.use(changes=changes)
        conditions.append(f"changes.now != {modules}.seen and not {modules}.holds()")
    environment = trace.environment
    for variable in environment.variables:
        conditions.append(_variable_differs(text, variable))
    for guard in (*environment.containers, *environment.arrays, *environment.readings):
        conditions.append(f"{text.name('guard', guard)}.changed()")
    for position, tensor in trace.captured_arguments.items():
        conditions.append(f"{text.values[position]} is not {text.name('tensor', tensor)}")
    for location, needs in trace.needs:
        tensor = text.read(location)
        if isinstance(location, Variable):
            conditions.append(_has_hooks(tensor))
        needed = f"{tensor}._requires_grad or {tensor}._node is not None"
        conditions.append(f"not ({needed})" if needs else needed)
    for location, _ in trace.grads:
        if isinstance(location, ArgumentLocation):
            conditions.append(_has_hooks(text.read(location)))
    for location, none in trace.grads:
        conditions.append(f"{text.read(location)}._grad is {'not ' if none else ''}None")
    for location, array in trace.views:
        conditions.append(f"{text.read(location)}._array is not {text.name('part', array)}")
    for generator in text.specialization.generators.values():
        conditions.append(f"{text.name('generator', generator)}.like != 'gradwalk'")
    for optimizer in trace.optimizers:
        _guard_optimizer(text, optimizer)
    for number, memory in enumerate(trace.captured):
        for location in memory.locations:
            if not isinstance(location, GeneratorLocation):
                text.moved.append(f"{text.read(location)}._array is not array{number}")


def _has_hooks(tensor: str) -> str:
    return f"{tensor}.hooks and any({tensor}.hooks.values())"


def _variable_differs(text: CallText, variable: Variable) -> str:
    now = text.read(variable)
    if is_plain(variable.value):
        return text.differs_in_type(now, variable.value)
    kind = "optimizer" if issubclass(type(variable.value), Optimizer) else "fixed"
    return f"{now} is not {text.name(kind, variable.value)}"


def _guard_optimizer(text: CallText, guard: OptimizerGuard) -> None:
    """Guard its groups; a state whose dictionary was replaced is found again."""
    optimizer = text.name("optimizer", guard.optimizer)
    text.conditions.append(f"len({optimizer}.param_groups) != {len(guard.params)}")
    for number, (params, count) in enumerate(guard.params):
        group = text.group(guard.optimizer, number)
        text.unpack.append(f"{group} = {optimizer}.param_groups[{number}]")
        listed = text.name("listed", params)
        text.conditions.append(f"{group}['params'] is not {listed} or len({listed}) != {count}")
    for number, name, value in guard.fixed:
        group = text.group(guard.optimizer, number)
        text.conditions.append(text.differs(f"{group}[{name!r}]", value))
    if guard.names is None:
        return
    if len(guard.states) != len(guard.names):  # some do not move: their names count as well
        text.conditions.append(f"not {text.name('options', guard)}.holds()")
    states = text.new_name("states")
    text.unpack += [f"{states} = {optimizer}.state", f"get_from_{states} = {states}.get"]
    text.moved.append(f"len({states}) != {len(guard.names)}")
    for state, count in guard.states:
        before, parameter = text.state(state), text.name("tensor", state.parameter)
        now = f"get_from_{states}({parameter})"
        text.moved.append(f"{now} is not {before} or len({before}) != {count}")


# -- runtime scalars -------------------------------------------------------------------------------


def write_scalars(text: CallText) -> None:
    """Read the runtime scalars, and guard the branches that the trace took on them."""
    for number, location in enumerate(text.trace.scalars):
        scalar = f"number{number}"
        text.scalars.append(f"{scalar} = {text.read(location)}")
        if isinstance(location, SharedScalar):
            others = [text.in_state(member, location.name) for member in location.members[1:]]
            unequal = [f"{o} is not {scalar} and {o} != {scalar}" for o in others]
            if unequal:
                text.scalars += ["if (", *alternatives(unequal), "):", "    return MISS"]
    for decided, truth in text.trace.decisions:
        if decided.location is not None:
            now = text.read(decided.location)
        else:
            now = f"{text.name('read', decided.read)}({text.given()})"
        text.scalars += [f"if {'not ' if truth else ''}{now}:", "    return MISS"]
    for number, generator in text.specialization.generators.items():
        state: Any = text.specialization.arrays[number]  # [seed, offset]
        text.things[f"words{number}"] = memoryview(state).cast("B").cast("Q")
        text.scalars += [
            f"stream{number} = {text.name('generator', generator)}.stream",
            f"words{number}[0] = stream{number}.seed % 2**64",
            f"words{number}[1] = stream{number}.offset",
        ]
