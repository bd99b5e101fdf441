"""How Python calls a tape: a builtin function of our own, in LLVM.

A call through ctypes costs about as much as a small kernel, and setting two input pointers from
Python twice that. So `Tape.call` is a real builtin (METH_FASTCALL): Python passes its arguments as
they lie on the stack, it compares each array with what the program expects, takes the data
pointer straight from NumPy's struct, lets go of the GIL, runs the tape, and returns None. Whatever
is not as expected goes to one Python function, `refused(program, reason, *arrays)`.

NumPy's struct (PyArrayObject_fields) has kept its layout since NumPy 1.7: after Python's object
head come data, nd, dimensions, strides, base, descr, flags.
"""

from __future__ import annotations

import ctypes

from gradwalk.compiler.backends.llvm.runtime.runtime_function import (
    Definition,
    RuntimeFunction,
    define,
)
from gradwalk.compiler.backends.llvm.runtime.tape_loop import ARRAYS, FIELD

# NumPy's flags
CONTIGUOUS = 0x0001  # C order
ALIGNED = 0x0100
WRITEABLE = 0x0400

# The words that describe an expected array; its sizes follow, then its strides if it is strided.
WANTED = {"slot": 0, "descr": 1, "flags": 2, "ndim": 3, "strided": 4}

SYMBOLS = (
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyObject_Vectorcall", "PyLong_FromLong",
    "Py_IncRef", "Py_DecRef",
)  # fmt: skip
FUNCTION = "gradwalk_call"  # the builtin behind Tape.call

# Where the fields of an array lie, in bytes; its type is the last word of Python's object head.
HEAD = object.__basicsize__
DATA, NDIM, SIZES, STRIDES, DESCR, FLAGS = (HEAD + n for n in (0, 8, 16, 24, 40, 48))
TYPE = HEAD - 8
CALL: list[Definition] = []


class MethodDef(ctypes.Structure):
    """Python's PyMethodDef: what a builtin function is made of."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


METH_FASTCALL = 0x0080


def method(address: int) -> MethodDef:
    """The definition of the builtin, whose code is there. It must outlive every such builtin."""
    text = b"call($self, /, *arrays)\n--\n\nRun the tape on these arrays."
    return MethodDef(b"call", address, METH_FASTCALL, text)


@define("internal i1 @same_layout(ptr %array, ptr %wanted)", CALL)
def _same_layout(f: RuntimeFunction) -> None:
    """Whether sizes and strides are as expected; `wanted` are the expected words of this array."""
    ndim = f.word("%wanted", WANTED["ndim"])
    strided = f.differ(f.word("%wanted", WANTED["strided"]), 0)
    wanted_sizes = f.pointer("i64", "%wanted", len(WANTED))
    wanted_strides = f.pointer("i64", wanted_sizes, ndim)
    sizes, strides = f.field("ptr", "%array", SIZES), f.field("ptr", "%array", STRIDES)
    with f.loop(0, ndim) as d:
        size = f.word(sizes, d.index)
        _give_if_other(f, size, f.word(wanted_sizes, d.index))
        matters = f.compare("sgt", size, 1)
        with f.when(f.set(f"and i1 {matters}, {strided}")):
            _give_if_other(f, f.word(strides, d.index), f.word(wanted_strides, d.index))
    f.give("i1 true")


def _give_if_other(f: RuntimeFunction, has: str, wants: str) -> None:
    with f.when(f.differ(has, wants)):
        f.give("i1 false")


@define("internal i1 @as_expected(ptr %program, ptr %array, ptr %wanted)", CALL)
def _as_expected(f: RuntimeFunction) -> None:
    """Whether this object is the array that is expected."""
    _give_if_other(f, f.field("i64", "%array", TYPE), f.word("%program", FIELD["ndarray"]))
    descr, flags, ndim = (f.word("%wanted", WANTED[name]) for name in ("descr", "flags", "ndim"))
    _give_if_other(f, f.field("i64", "%array", DESCR), descr)
    own_flags, own_ndim = (
        f.set(f"zext i32 {f.field('i32', '%array', place)} to i64") for place in (FLAGS, NDIM)
    )
    _give_if_other(f, f.bits("and", own_flags, flags), flags)
    _give_if_other(f, own_ndim, ndim)
    same = f.ours("i1", "same_layout", ("ptr", "%array"), ("ptr", "%wanted"))
    f.give(f"i1 {same}")


@define("internal i64 @bind(ptr %program, ptr %given, i64 %count)", CALL)
def _bind(f: RuntimeFunction) -> None:
    """Put the data pointers into their slots; 0, or why not."""
    slots, expected = (f.word("%program", FIELD[name], "ptr") for name in ("slots", "expected"))
    with f.when(f.differ(f.word("%program", FIELD["arrays"]), "%count")):
        f.give(f"i64 {ARRAYS}")
    with f.loop(0, "%count", carried=[("ptr", expected)]) as loop:
        (wanted,) = loop.carried
        array = f.word("%given", loop.index, "ptr")
        given = ("ptr", "%program"), ("ptr", array), ("ptr", wanted)
        fits = f.ours("i1", "as_expected", *given)
        with f.when(f.set(f"xor i1 {fits}, true")):
            f.give(f"i64 {ARRAYS}")
        f.store_word(f.field("i64", array, DATA), slots, f.word(wanted, WANTED["slot"]))
        lists = f.add(f.word(wanted, WANTED["strided"]), 1)
        words = f.multiply(lists, f.word(wanted, WANTED["ndim"]))
        loop.carry(f.pointer("i64", wanted, f.add(words, len(WANTED))))
    f.give("i64 0")


@define(f"ptr @{FUNCTION}(ptr %self, ptr %given, i64 %count)", CALL)
def _call(f: RuntimeFunction) -> None:
    """The builtin behind Tape.call; `self` is the program, an ndarray of words."""
    program = ("ptr", f.field("ptr", "%self", DATA))

    def run() -> str:
        state = f.call("ptr", "PyEval_SaveThread")
        result = f.ours("i64", "gradwalk_perform", program)
        done = f.set(f"zext i1 {f.compare('eq', result, 0)} to i64")
        f.store_word(done, program[1], FIELD["ran"])
        f.ours("void", "gradwalk_leave", program)
        f.call("void", "PyEval_RestoreThread", ("ptr", state))
        return result

    def bind_and_run() -> str:
        f.store_word(0, program[1], FIELD["ran"])
        wrong = f.ours("i64", "bind", program, ("ptr", "%given"), ("i64", "%count"))
        with f.when(f.differ(wrong, 0)):
            f.ours("void", "gradwalk_leave", program)
        return f.either(f.compare("eq", wrong, 0), "i64", wrong, run)

    busy = f.ours("i64", "gradwalk_take", program)
    reason = f.either(f.compare("eq", busy, 0), "i64", busy, bind_and_run)
    with f.when(f.compare("eq", reason, 0)):
        none = f.word(program[1], FIELD["none"], "ptr")
        f.call("void", "Py_IncRef", ("ptr", none))
        f.give(f"ptr {none}")
    # refused(program, reason, *arrays)
    number = f.call("ptr", "PyLong_FromLong", ("i64", reason))
    count = f.add("%count", 2)
    everything = f.set(f"alloca ptr, i64 {count}")
    f.store_word("%self", everything, 0, "ptr")
    f.store_word(number, everything, 1, "ptr")
    f.call(
        "void", "llvm.memcpy.p0.p0.i64", ("ptr", f.pointer("ptr", everything, 2)),
        ("ptr", "%given"), ("i64", f.bits("shl", "%count", 3)), ("i1", "false"),
    )  # fmt: skip
    refused = f.word(program[1], FIELD["refused"], "ptr")
    given = ("ptr", refused), ("ptr", everything), ("i64", count), ("ptr", "null")
    answer = f.call("ptr", "PyObject_Vectorcall", *given)
    f.call("void", "Py_DecRef", ("ptr", number))
    f.give(f"ptr {answer}")
