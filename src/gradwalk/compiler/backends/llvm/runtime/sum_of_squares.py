"""The sum of the squares of many arrays, given by their addresses: one call, and no copy.

`watch` takes the norm of all gradients of a PyTorch program in each step. PyTorch would start one
operation for each gradient, or copy all of them, which takes ten times as long.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from gradwalk.compiler.backends.llvm import target
from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.runtime.object_code import compile_text
from gradwalk.compiler.backends.llvm.runtime.runtime_function import RuntimeFunction

_SUMS = 4  # vectors that are added up side by side: an addition takes 4 cycles
_TYPES = {4: "float", 8: "double"}


def sum_of_squares(itemsize: int) -> Callable[[int, int, int], float] | None:
    """A function of (addresses, sizes, their number), both lists of words, for floats of 4 or 8
    bytes; None without LLVM."""
    if not target.available():
        return None
    name = f"sum_of_squares_{_TYPES[itemsize]}"
    f = RuntimeFunction(f"double @{name}(ptr %places, ptr %sizes, i64 %count)", target.host())
    _write(f, _TYPES[itemsize], f.host.lanes(itemsize))
    library = compile_text({name: f.finish()}, f.declarations)
    word = ctypes.c_int64
    return library.function(name, ctypes.c_double, word, word, word)


def _write(f: RuntimeFunction, kind: str, lanes: int) -> None:
    vector = f"<{lanes} x {kind}>"
    with f.loop(0, "%count", carried=[("double", "0.0")]) as array:
        place, size = f.word("%places", array.index, "ptr"), f.word("%sizes", array.index)
        last = f.subtract(size, _SUMS * lanes - 1)
        zeros = [(vector, "zeroinitializer")] * _SUMS
        with f.loop(0, last, _SUMS * lanes, carried=zeros) as block:
            block.carry(
                *(
                    _with_square(f, vector, kind, place, f.add(block.index, k * lanes), total)
                    for k, total in enumerate(block.carried)
                )
            )
        first, *others = block.results
        for other in others:
            first = f.set(f"fadd {vector} {first}, {other}")
        reduced = f.call(
            kind, f"llvm.vector.reduce.fadd.v{lanes}f{32 if kind == 'float' else 64}",
            (kind, "-0.0"), (vector, first),
        )  # fmt: skip
        total = f.set(f"fadd double {array.carried[0]}, {_wide(f, kind, reduced)}")
        with f.loop(block.index, size, carried=[("double", total)]) as rest:
            rest.carry(_with_square(f, kind, kind, place, rest.index, rest.carried[0]))
        array.carry(rest.results[0])
    f.give(f"double {array.results[0]}")


def _with_square(
    f: RuntimeFunction, loaded: str, kind: str, place: str, index: I64, total: str
) -> str:
    """The total and the square of what is loaded; of a single element, in double."""
    align = 4 if kind == "float" else 8
    value = f.set(f"load {loaded}, ptr {f.pointer(kind, place, index)}, align {align}")
    if loaded == kind:
        value, loaded = _wide(f, kind, value), "double"
    square = f.set(f"fmul contract {loaded} {value}, {value}")
    return f.set(f"fadd contract {loaded} {total}, {square}")


def _wide(f: RuntimeFunction, kind: str, value: str) -> str:
    return value if kind == "double" else f.set(f"fpext float {value} to double")
