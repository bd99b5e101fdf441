"""The second half of a call: the run, and what it leaves behind."""

from __future__ import annotations

import math
import sys
import sysconfig
from collections.abc import Iterable
from typing import Any

import numpy as np

from gradwalk.compiler.call.outer_gradient import attach
from gradwalk.compiler.call.writer import CallText
from gradwalk.compiler.capture.locations import OfGradient, OfNumber
from gradwalk.compiler.ir.program import Late
from gradwalk.compiler.tracing.arguments import UNALIGNED
from gradwalk.compiler.tracing.errors import TraceError
from gradwalk.compiler.tracing.outcome import Numeral, Record, Result, Slot
from gradwalk.graph.source import caller
from gradwalk.graph.versions import owner_of, stamp_for, touch_stamps, touch_together
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor

USED_AGAIN = 64 << 10  # bytes of the largest results whose memory is
# Tensors of results, their arrays, and the dictionaries of their attributes.
Pool = tuple[list[Any], list[Any], list[Any]]


def write_apart(text: CallText) -> None:
    """An argument on memory that the program changes, or the other way round, is an error."""
    text.use(shared_memory=_shared_memory, owner_of=owner_of)
    written = set(text.trace.written_arguments)
    for position, x in enumerate(text.values[: text.trace.arguments]):
        if position in text.trace.themselves:  # captured, as the function knows it by itself
            continue
        array = f"given{position}"
        text.write(f"{array} = {x}._array")
        if position in written or text.variant.written:
            owner = f"id({array}) if {array}.base is None else id(owner_of({array}))"
            owners = "owners" if position in written else "written"
            text.write(f"if ({owner}) in {owners}:", f"    raise shared_memory({position})")
        for other in range(position):
            if other not in text.trace.themselves and (position in written or other in written):
                text.use(overlap=np.shares_memory)
                text.write(f"if overlap(given{other}, {array}):")
                text.write(f"    raise shared_memory({position}, {other})")


def write_copies(text: CallText) -> None:
    """Copies of the arguments that are not aligned to the size of their elements."""
    for position in _unaligned(text):
        text.write(f"given{position} = given{position}.copy()")


def _unaligned(text: CallText) -> list[int]:
    orders = text.variant.tensor_key[2::4]
    without = text.trace.themselves
    return [i for i, order in enumerate(orders) if order == UNALIGNED and i not in without]


def _shared_memory(position: int, other: int | None = None) -> TraceError:
    known = "a tensor that the function knows by itself" if other is None else f"argument {other}"
    return TraceError(
        f"argument {position} of a compiled function shares memory with {known}, and one of the "
        "two is changed in place.\nFix: pass a .clone(), or do not pass it at all."
    )


# -- the run ---------------------------------------------------------------------------------------


def write_run(text: CallText) -> None:
    """Call the executable; if it is native code, do what its own call does, written out."""
    if hasattr(text.variant.executable, "start"):
        _write_native_run(text)
        return
    executable = text.name("executable", text.variant.executable)
    arrays = ", ".join(_given(text))
    numbers = ", ".join(f"number{i}" for i in range(len(text.trace.lates)))
    text.write(f"results, updates = {executable}([{arrays}], variant.arrays, [{numbers}])")
    count = len(text.trace.program.results)
    text.write(*(f"result{i} = results[{i}]" for i in range(count)))
    text.write(*(f"update{i} = updates[{i}]" for i in range(len(text.trace.updated))))


def _given(text: CallText) -> list[str]:
    """The arrays of the arguments; None for one that is captured."""
    without = text.trace.themselves
    return ["None" if i in without else f"given{i}" for i in range(text.trace.arguments)]


def _write_native_run(text: CallText) -> None:
    """Do what Executable.__call__ does."""
    native = text.variant.executable
    text.use(start=native.start, status=native.status_words, complain=native.complain)
    _write_native_numbers(text)
    _write_results(text)
    arrays = [f"given{i}" for i in native.argument_order]
    arrays += [f"result{i}" for i in range(len(native.result_kinds))]
    # An interrupt that comes while native code runs is raised right behind it, when the user's
    # memory has changed: then the call is finished first.
    lines = [
        "try:",
        f"    if start({', '.join(arrays)}) is not None:",
        "        return MISS",
        "except KeyboardInterrupt as error:",
        "    if error.__traceback__.tb_next is not None:",
        "        raise",
        "    interrupted = error",
        "if status[0]:",
        "    complain()",
    ]
    for run in native.others:
        lines += [f"{text.name('then', run)}()", "if status[0]:", "    complain()"]
    text.write("interrupted = None")
    _write_careful(text, lines)
    for i in range(native.late_written):
        text.write(f"update{i} = numbers[{native.late_read + i}]")


def _write_careful(text: CallText, lines: list[str]) -> None:
    """Lines that may fail when they have changed what the user has: then it is put back."""
    native = text.variant.executable
    risky = [f"array{n}" for n in native.memories_at_risk]
    risky += [f"given{n}" for n in native.arguments_at_risk]
    if not risky:
        text.write(*lines)
        return
    text.write(*(f"before_{name} = {name}.copy()" for name in risky))
    text.write("try:", *("    " + line for line in lines), "except BaseException:")
    text.write(*(f"    {name}[...] = before_{name}" for name in risky), "    raise")


def _write_native_numbers(text: CallText) -> None:
    """Write the late numbers down; most are the same as in the last call."""
    native = text.variant.executable
    sources = [place.source for place, _ in text.trace.program.updates]
    updated = {source.number for source in sources if isinstance(source, Late)}
    text.use(numbers=native.numbers)
    lasting = []
    for i, place in enumerate(text.trace.lates[: native.late_read]):
        if i in updated or isinstance(place, OfNumber):
            text.write(f"numbers[{i}] = number{i}")
        else:
            lasting.append(i)
            text.things[f"noted{i}"] = None
            text.rebound.append(f"noted{i}")
    if lasting:
        differ = [f"number{i} is not noted{i}" for i in lasting]
        text.write(f"if {' or '.join(differ)}:")
        text.write(*(f"    numbers[{i}] = noted{i} = number{i}" for i in lasting))


def _write_results(text: CallText) -> None:
    """Memory for the results. Small ones are tensors of an earlier call, with their arrays, if
    nobody else has them and they are as they were made; there are two of each, in turn."""
    kinds = text.variant.executable.result_kinds
    made = [(t.number, slot) for slot, t in enumerate(text.trace.tensors) if isinstance(t, Result)]
    numbers = [number for number, _ in made]
    again = {
        number: slot
        for number, slot in made
        if _is_plain(text.trace.tensors[slot])
        and numbers.count(number) == 1
        and _is_small(*kinds[number])
        and text.trace.gradient is None
        and _HELD is not None
    }
    text.used_again = set(again.values())
    if again:
        text.use(turn=0, getrefcount=sys.getrefcount, fresh=_fresh)
        text.use(pool0=_pool(kinds, again), pool1=_pool(kinds, again))
        text.rebound.append("turn")
        text.write(
            "turn = 1 - turn",
            "tensors, memory, attributes = pool = pool1 if turn else pool0",
            f"{', '.join(f'out{slot}' for slot in again.values())}, = tensors",
            f"{', '.join(f'result{number}' for number in again)}, = memory",
            f"{', '.join(f'set{number}' for number in again)}, = attributes",
        )
    _write_forgetting(text, {slot for number, slot in made if number not in again})
    for number, (shape, dtype) in enumerate(kinds):
        kind = text.name("dtype", dtype)
        result = f"result{number}"
        if number not in again:
            text.use(empty=np.empty)
            text.write(f"{result} = empty({shape}, {kind})")
            continue
        out, place = f"out{again[number]}", list(again).index(number)
        tensor, array = _HELD  # type: ignore[misc]
        taken = f"getrefcount({out}) != {tensor} or getrefcount({result}) != {array}"
        changed = f"{out}._array is not {result} or {out}._node is not None or set{number}"
        text.write(
            f"if {taken} or {changed}:",
            f"    {out}, {result} = fresh({shape}, {kind}, pool, {place})",
        )


def _write_forgetting(text: CallText, slots: set[int]) -> None:
    """Forget old gradients that are about to be replaced, so that there is never memory for both;
    as in eager mode, where `zero_grad` does it."""
    unread = set(map(id, text.trace.unread))
    for place, slot in text.trace.assigned:
        if slot in slots and isinstance(place, OfGradient) and id(place.of) in unread:
            text.write(text.put(place, "None"))


def _is_plain(kind: Any) -> bool:
    """Whether a tensor is simply a new one on a result."""
    return isinstance(kind, Result) and not kind.chain and not kind.requires_grad


def _is_small(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    return math.prod(shape) * dtype.itemsize <= USED_AGAIN


def _pool(kinds: list[Any], numbers: Iterable[int]) -> Pool:
    """Tensors for these results."""
    pool: Pool = ([], [], [])
    for place, number in enumerate(numbers):
        for part in pool:
            part.append(None)
        shape, dtype = kinds[number]
        _fresh(shape, dtype, pool, place)
    return pool


def _fresh(shape: tuple[int, ...], dtype: np.dtype[Any], pool: Pool, place: int) -> Any:
    """A new tensor and its array, in the place of one that somebody has."""
    tensors, memory, attributes = pool
    array = memory[place] = np.empty(shape, dtype)
    tensor = tensors[place] = wrap(array)
    attributes[place] = tensor.__dict__  # empty as long as nobody sets one
    return tensor, array


def _held() -> tuple[int, int] | None:
    """What getrefcount says, in such a text, of a tensor and its array that nobody else has."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None  # it says nothing there
    pool = _pool([((), np.dtype(np.float32))], [0])
    names: dict[str, Any] = {"pool": pool, "getrefcount": sys.getrefcount}
    lines = ["def held():", "tensors, memory, _ = pool", "out, = tensors", "result, = memory"]
    exec("\n    ".join([*lines, "return getrefcount(out), getrefcount(result)"]), names)
    counts: tuple[int, int] = names["held"]()
    return counts


_HELD = _held()


# -- after the run ---------------------------------------------------------------------------------


def write_changes(text: CallText) -> None:
    """Note which memory changed."""
    for position in _unaligned(text):
        own = f"{text.values[position]}._array"
        if position in text.trace.written_arguments:
            text.write(f"{own}[...] = given{position}")
        text.write(f"given{position} = {own}")
    text.rebound.append("count")
    text.write("count += 1")
    for number in text.variant.generators:
        text.write(f"stream{number}.move_to(words{number}[1])")
    arguments = [f"given{i}" for i in text.trace.written_arguments]
    if text.variant.touched:
        text.use(touch_together=touch_together)
        text.write("if not together.stamps:", "    together = variant.join()")
        text.rebound.append("together")
        text.write("touch_together(together)")
    if arguments:
        text.use(stamp_for=stamp_for, touch_stamps=touch_stamps, caller=caller)
        stamps = ", ".join(f"stamp_for({array})" for array in arguments)
        text.write(f"touch_stamps(({stamps},), *caller())")


def write_tensors(text: CallText) -> None:
    """Make tensors of the results, put them where they belong, and return."""
    trace = text.trace
    results = f"[{', '.join(f'result{i}' for i in range(len(trace.program.results)))}]"
    arrays = f"[{', '.join(_given(text))}]"
    for slot, kind in enumerate(trace.tensors):
        one = f"out{slot}"
        if slot in text.used_again:
            continue
        if isinstance(kind, Result) and _is_plain(kind):
            text.use(new=object.__new__, Tensor=Tensor)
            text.write(
                f"{one} = new(Tensor)",
                f"{one}._array = result{kind.number}",
                f"{one}._node = None",
                f"{one}._index = 0",
            )
        else:
            what = text.name("kind", kind)
            text.write(f"{one} = variant.tensor({what}, {text.given()}, {results}, {arrays})")
    tensors = f"[{', '.join(f'out{i}' for i in range(len(trace.tensors)))}]"
    if trace.gradient is not None:
        text.use(attach=attach, gradient=trace.gradient)
        text.write(f"attach(variant, gradient, {tensors}, {text.given()}, {results}, {arrays})")
    for place, slot_or_none in trace.assigned:
        text.write(text.put(place, "None" if slot_or_none is None else f"out{slot_or_none}"))
    for i, places in enumerate(trace.updated):
        whole = f"{text.spell(places[0])}.__class__ is int"
        text.write(f"if {whole}:", f"    update{i} = int(update{i})")
        text.write(*(text.put(place, f"update{i}") for place in places))
    for place, slot in trace.rebound:
        text.write(f"{text.spell(place)}.data = out{slot}")
    for place, on in trace.flags:
        text.write(f"{text.spell(place)}.requires_grad = {on}")
    for place, value in trace.counted:
        text.write(text.put(place, text.name("fixed", value)))
    if hasattr(text.variant.executable, "start"):
        text.write("if interrupted is not None:", "    raise interrupted")
    text.write(f"return {_answer(text, trace.result)}")


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
