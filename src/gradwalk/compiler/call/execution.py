"""The second half of a call: run the program, and put its results where they belong."""

from __future__ import annotations

import math
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from gradwalk.compiler.call.kept_gradients import KeptGradients
from gradwalk.compiler.call.outer_gradient import attach
from gradwalk.compiler.call.writer import CallText, indented
from gradwalk.compiler.capture.locations import GradientLocation, ScalarLocation
from gradwalk.compiler.ir.finite_errors import not_finite
from gradwalk.compiler.ir.program import Scalar
from gradwalk.compiler.tracing.arguments import UNALIGNED
from gradwalk.compiler.tracing.errors import TraceError
from gradwalk.compiler.tracing.outcome import Numeral, Record, Result, Slot
from gradwalk.graph.source import caller
from gradwalk.graph.versions import owner_of, stamp_for, touch_stamps, touch_together
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.devices import CPU
from gradwalk.tensors.tensor import Tensor

MOST_REUSED = 64 << 10  # bytes of a result whose memory a later call may use again
# Tensors of results, their arrays, and the dictionaries of their attributes.
Pool = tuple[list[Any], list[Any], list[Any]]

# -- before the run --------------------------------------------------------------------------------


def write_arrays(text: CallText) -> None:
    """Name the arrays of the arguments. One that shares memory with what the program changes is an
    error; one that is not aligned to the size of its elements is copied."""
    text.use(shared_memory=_shared_memory, owner_of=owner_of)
    written = set(text.trace.written_arguments)
    captured = text.trace.captured_arguments
    for position, x in enumerate(text.values[: text.trace.arguments]):
        if position in captured:
            continue
        array = f"given{position}"
        text.run.append(f"{array} = {x}._array")
        if position in written or text.specialization.written:
            owner = f"id({array}) if {array}.base is None else id(owner_of({array}))"
            owners = "owners" if position in written else "written"
            text.run += [f"if ({owner}) in {owners}:", f"    raise shared_memory({position})"]
        for other in range(position):
            if other not in captured and (position in written or other in written):
                text.use(overlap=np.shares_memory)
                text.run += [
                    f"if overlap(given{other}, {array}):",
                    f"    raise shared_memory({position}, {other})",
                ]
    text.run += [f"given{position} = given{position}.copy()" for position in _unaligned(text)]


def _unaligned(text: CallText) -> list[int]:
    """The arguments that are copied."""
    return [
        position
        for position, tensor in enumerate(text.specialization.signature.tensors)
        if tensor.order == UNALIGNED and position not in text.trace.captured_arguments
    ]


def _shared_memory(position: int, other: int | None = None) -> TraceError:
    known = "a tensor that the function captures" if other is None else f"argument {other}"
    return TraceError(
        f"argument {position} of a compiled function shares memory with {known}, and one of the "
        "two is changed in place.\nFix: pass a .clone(), or do not pass it."
    )


# -- the run ---------------------------------------------------------------------------------------


def write_run(text: CallText) -> None:
    """Call the executable; if it offers its parts, do what its own call does."""
    if text.specialization.native is not None:
        _write_native_run(text, text.specialization.native)
    else:
        _write_plain_run(text)
    if text.trace.tells_finite:
        text.use(not_finite=not_finite, program=text.trace.program)
        numbers = ", ".join(f"number{i}" for i in range(len(text.trace.scalars)))
        operands = f"program, {_arrays(text)}, specialization.arrays, [{numbers}]"
        text.run += [
            f"if not result{len(text.trace.program.results) - 1}:",
            f"    raise not_finite({operands})",
        ]


def _write_plain_run(text: CallText) -> None:
    executable = text.name("executable", text.specialization.executable)
    numbers = ", ".join(f"number{i}" for i in range(len(text.trace.scalars)))
    operands = f"{_arrays(text)}, specialization.arrays, [{numbers}]"
    kept = _kept_gradients(text)
    if kept is not None:
        operands += ", gradients"
    text.run.append(f"results, updates = {executable}({operands})")
    results = range(len(text.trace.program.results)) if kept is None else kept.others
    text.run += [f"result{number} = results[{i}]" for i, number in enumerate(results)]
    text.run += [f"update{i} = updates[{i}]" for i in range(len(text.trace.updated))]


def _kept_gradients(text: CallText) -> KeptGradients | None:
    """The gradients that the executable itself puts where they belong, on a device."""
    trace = text.trace
    if trace.device == CPU or trace.gradient is not None:
        return None
    made = Counter(t.number for t in trace.tensors if isinstance(t, Result))
    assigned = Counter(slot for _, slot in trace.assigned)
    elsewhere = {slot for _, slot in trace.rebound} | set(_slots(trace.result))
    found: dict[int, tuple[int, str]] = {}  # by slot: the number of the result, and whose it is
    for location, slot in _replaced_gradients(text):
        kind = trace.tensors[slot]
        if not isinstance(kind, Result) or not _is_plain(kind) or slot in elsewhere:
            continue
        if made[kind.number] == assigned[slot] == 1:
            found[slot] = (kind.number, text.read(location.of))
    if not found:
        return None
    text.kept = set(found)
    kept = KeptGradients([number for number, _ in found.values()], len(trace.program.results))
    text.use(gradients=kept)
    text.run.append(f"gradients.holders = [{', '.join(holder for _, holder in found.values())}]")
    return kept


def _slots(result: Any) -> Iterator[int]:
    """The tensors in a nested result."""
    if isinstance(result, Slot):
        yield result.number
    elif isinstance(result, Record):
        yield from _slots(list(result.attributes.values()))
    elif isinstance(result, (tuple, list, dict)):
        for part in result.values() if isinstance(result, dict) else result:
            yield from _slots(part)


def _arrays(text: CallText) -> str:
    """The arrays of the arguments; None for one that is captured."""
    without = text.trace.captured_arguments
    names = ["None" if i in without else f"given{i}" for i in range(text.trace.arguments)]
    return f"[{', '.join(names)}]"


def _write_native_run(text: CallText, native: Any) -> None:
    text.use(start=native.start, status=native.status_words, complain=native.complain)
    _write_native_scalars(text, native)
    _write_results(text, native.result_kinds)
    arrays = [f"given{i}" for i in native.argument_order]
    arrays += [f"result{i}" for i in range(len(native.result_kinds))]
    tapes = {tape.call: tape for tape in native.stretches}

    def finished(run: Any, lines: list[str]) -> list[str]:
        """Python raises an interrupt that comes while native code runs right after it, when the
        user's memory has changed: the call is finished first."""
        if run not in tapes:
            return lines
        unless = [f"    if not {text.name('ran', tapes[run].ran)}():", "        raise"]
        after = ["except BaseException as error:", *unless, "    interrupted = error"]
        return ["try:", *indented(lines), *after]

    failed = ["if status[0]:", "    complain()"]
    first = [f"if start({', '.join(arrays)}) is not None:", "    return MISS"]
    lines = [*finished(native.start, first), *failed]
    for run in native.others:
        lines += [*finished(run, [f"{text.name('then', run)}()"]), *failed]
    # What may fail after it changed the user's memory puts it back.
    risky = [f"array{n}" for n in native.memories_at_risk]
    risky += [f"given{n}" for n in native.arguments_at_risk]
    if risky:
        restore = [*(f"{name}[...] = before_{name}" for name in risky), "raise"]
        text.run += [f"before_{name} = {name}.copy()" for name in risky]
        lines = ["try:", *indented(lines), "except BaseException:", *indented(restore)]
    text.run += ["interrupted = None", *lines]
    text.run += [
        f"update{i} = numbers[{native.scalars_read + i}]" for i in range(native.scalars_written)
    ]


def _write_native_scalars(text: CallText, native: Any) -> None:
    """Hand the runtime scalars over; most are the same as in the last call."""
    sources = [target.source for target, _ in text.trace.program.updates]
    updated = {source.number for source in sources if isinstance(source, Scalar)}
    text.use(numbers=native.numbers)
    lasting = []
    for i, location in enumerate(text.trace.scalars[: native.scalars_read]):
        if i in updated or isinstance(location, ScalarLocation):
            text.run.append(f"numbers[{i}] = number{i}")
        else:
            lasting.append(i)
            text.things[f"noted{i}"] = None
            text.rebound.append(f"noted{i}")
    if lasting:
        text.run.append(f"if {' or '.join(f'number{i} is not noted{i}' for i in lasting)}:")
        text.run += [f"    numbers[{i}] = noted{i} = number{i}" for i in lasting]


def _write_results(text: CallText, kinds: list[Any]) -> None:
    """Memory for the results. Small ones are tensors of an earlier call, with their arrays, if
    only the pool still refers to them and they are unchanged; each has two, used in turn."""
    made = [(t.number, slot) for slot, t in enumerate(text.trace.tensors) if isinstance(t, Result)]
    numbers = [number for number, _ in made]
    again = {
        number: slot
        for number, slot in made
        if _is_plain(text.trace.tensors[slot])
        and numbers.count(number) == 1
        and _is_small(*kinds[number])
        and text.trace.gradient is None
        and _UNSHARED is not None
    }
    text.reused = set(again.values())
    if again:
        text.use(turn=0, getrefcount=sys.getrefcount, fresh=_fresh)
        text.use(pool0=_pool(kinds, again), pool1=_pool(kinds, again))
        text.rebound.append("turn")
        text.run += [
            "turn = 1 - turn",
            "tensors, memory, attributes = pool = pool1 if turn else pool0",
            f"{', '.join(f'out{slot}' for slot in again.values())}, = tensors",
            f"{', '.join(f'result{number}' for number in again)}, = memory",
            f"{', '.join(f'set{number}' for number in again)}, = attributes",
        ]
    _write_forgetting(text, {slot for number, slot in made if number not in again})
    for number, (shape, dtype) in enumerate(kinds):
        kind = text.name("dtype", dtype)
        result = f"result{number}"
        if number not in again:
            text.use(empty=np.empty)
            text.run.append(f"{result} = empty({shape}, {kind})")
            continue
        out, position = f"out{again[number]}", list(again).index(number)
        tensor, array = _UNSHARED  # type: ignore[misc]
        taken = f"getrefcount({out}) != {tensor} or getrefcount({result}) != {array}"
        changed = f"{out}._array is not {result} or {out}._node is not None or set{number}"
        text.run += [
            f"if {taken} or {changed}:",
            f"    {out}, {result} = fresh({shape}, {kind}, pool, {position})",
        ]


def _write_forgetting(text: CallText, slots: set[int]) -> None:
    """Forget old gradients that are about to be replaced, as `zero_grad` does in eager mode: there
    is never memory for both."""
    for location, slot in _replaced_gradients(text):
        if slot in slots:
            text.run.append(text.write(location, "None"))


def _replaced_gradients(text: CallText) -> list[tuple[GradientLocation, int]]:
    """The gradients that a call replaces, whatever they were before, and their slots."""
    unread = set(map(id, text.trace.unread))
    return [
        (location, slot)
        for location, slot in text.trace.assigned
        if slot is not None and isinstance(location, GradientLocation) and id(location.of) in unread
    ]


def _is_plain(kind: Any) -> bool:
    """Whether a tensor is simply a new one on a result."""
    if not isinstance(kind, Result) or kind.chain or kind.picked:
        return False
    return not kind.requires_grad


def _is_small(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    return math.prod(shape) * dtype.itemsize <= MOST_REUSED


def _pool(kinds: list[Any], numbers: Iterable[int]) -> Pool:
    """Tensors for these results."""
    pool: Pool = ([], [], [])
    for position, number in enumerate(numbers):
        for part in pool:
            part.append(None)
        shape, dtype = kinds[number]
        _fresh(shape, dtype, pool, position)
    return pool


def _fresh(shape: tuple[int, ...], dtype: np.dtype[Any], pool: Pool, position: int) -> Any:
    """A new tensor and its array, in place of one that is in use."""
    tensors, memory, attributes = pool
    array = memory[position] = np.empty(shape, dtype)
    tensor = tensors[position] = wrap(array)
    attributes[position] = tensor.__dict__  # empty until somebody sets one
    return tensor, array


def _unshared_counts() -> tuple[int, int] | None:
    """What getrefcount returns, in such a text, for a tensor and an array that only a pool has."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None  # there it returns nothing useful
    pool = _pool([((), np.dtype(np.float32))], [0])
    names: dict[str, Any] = {"pool": pool, "getrefcount": sys.getrefcount}
    lines = ["tensors, memory, _ = pool", "out, = tensors", "result, = memory"]
    lines.append("return getrefcount(out), getrefcount(result)")
    exec("\n".join(["def counts():", *indented(lines)]), names)
    counts: tuple[int, int] = names["counts"]()
    return counts


_UNSHARED = _unshared_counts()


# -- after the run ---------------------------------------------------------------------------------


def write_changes(text: CallText) -> None:
    """Note which memory changed."""
    for position in _unaligned(text):
        own = f"{text.values[position]}._array"
        if position in text.trace.written_arguments:
            text.results.append(f"{own}[...] = given{position}")
        text.results.append(f"given{position} = {own}")
    text.rebound.append("count")
    text.run.append("count += 1")
    for number in text.specialization.generators:
        text.results.append(f"stream{number}.move_to(words{number}[1])")
    if text.specialization.touched:
        text.use(touch_together=touch_together)
        text.rebound.append("together")
        text.results += [
            "if not together.stamps:",
            "    together = specialization.join()",
            "touch_together(together)",
        ]
    if text.trace.written_arguments:
        text.use(stamp_for=stamp_for, touch_stamps=touch_stamps, caller=caller)
        stamps = ", ".join(f"stamp_for(given{i})" for i in text.trace.written_arguments)
        text.results.append(f"touch_stamps(({stamps},), *caller())")


def write_tensors(text: CallText) -> None:
    """Make tensors of the results, put them where they belong, and return."""
    trace, lines = text.trace, text.results
    gradients = {trace.tensors[slot].number for slot in text.kept}  # type: ignore[union-attr]
    names = ["None" if i in gradients else f"result{i}" for i in range(len(trace.program.results))]
    operands = f"{text.given()}, [{', '.join(names)}], {_arrays(text)}"
    for slot, kind in enumerate(trace.tensors):
        out = f"out{slot}"
        if slot in text.reused or slot in text.kept:
            continue
        if isinstance(kind, Result) and _is_plain(kind):
            text.use(new=object.__new__, Tensor=Tensor)
            lines += [
                f"{out} = new(Tensor)",
                f"{out}._array = result{kind.number}",
                f"{out}._node = None",
                f"{out}._index = 0",
            ]
        else:
            lines.append(f"{out} = specialization.tensor({text.name('kind', kind)}, {operands})")
    if trace.gradient is not None:
        text.use(attach=attach, gradient=trace.gradient)
        tensors = f"[{', '.join(f'out{i}' for i in range(len(trace.tensors)))}]"
        lines.append(f"attach(specialization, gradient, {tensors}, {operands})")
    for location, slot_or_none in trace.assigned:
        if slot_or_none in text.kept:
            continue
        value = "None" if slot_or_none is None else f"out{slot_or_none}"
        lines.append(text.write(location, value))
    for i, locations in enumerate(trace.updated):
        whole = f"{text.read(locations[0])}.__class__ is int"
        lines += [f"if {whole}:", f"    update{i} = int(update{i})"]
        lines += [text.write(location, f"update{i}") for location in locations]
    for location, slot in trace.rebound:
        lines.append(f"{text.read(location)}.data = out{slot}")
    for location, on in trace.flags:
        lines.append(f"{text.read(location)}.requires_grad = {on}")
    for location, value in trace.counted:
        lines.append(text.write(location, text.name("fixed", value)))
    text.answer = _answer(text, trace.result)


def _answer(text: CallText, result: Any) -> str:
    """What the function returns: containers are made anew in every call."""
    if isinstance(result, Slot):
        return f"out{result.number}"
    if isinstance(result, Numeral):
        number = f"result{result.number}.item()"
        return f"int({number})" if result.whole else number
    if isinstance(result, Record):
        values = ", ".join(_answer(text, value) for value in result.attributes.values())
        return f"{text.name('record', result)}.make({values})"
    if isinstance(result, dict):
        entries = [f"{text.name('fixed', k)}: {_answer(text, v)}" for k, v in result.items()]
        made = f"{{{', '.join(entries)}}}"
        return made if type(result) is dict else f"{text.name('kind', type(result))}({made})"
    if isinstance(result, (tuple, list)):
        parts = "".join(f"{_answer(text, part)}, " for part in result)
        kind = text.name("kind", type(result))
        if hasattr(result, "_fields"):  # a named tuple
            return f"{kind}({parts})"
        made = f"[{parts}]" if isinstance(result, list) else f"({parts})"
        return made if type(result) in (tuple, list) else f"{kind}({made})"
    return text.name("fixed", result)
