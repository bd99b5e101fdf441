"""How Python calls a tape: a builtin function of our own, as LLVM text.

A call through ctypes costs about as much as a small kernel, and setting two input pointers from
Python twice that. So `Tape.call` is a real builtin (METH_FASTCALL): Python hands it its arguments
as they lie on the stack, it compares each array with what the program expects, takes the data
pointer straight from NumPy's struct, lets go of the GIL, runs the tape, and returns None. Whatever
is not as expected goes to one Python function, `refused(program, reason, *arrays)`.

NumPy's struct (PyArrayObject_fields) has kept its layout since NumPy 1.7: after Python's object
head come data, nd, dimensions, strides, base, descr, flags.
"""

from __future__ import annotations

import ctypes

from gradwalk.compiler.backends.llvm.runtime import tape_loop

# NumPy's flags
CONTIGUOUS = 0x0001  # C order
ALIGNED = 0x0100
WRITEABLE = 0x0400

# The words that describe an expected array; its sizes follow, then its strides if it is strided.
WANTED = ("slot", "descr", "flags", "ndim", "strided")

SYMBOLS = (
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyObject_Vectorcall", "PyLong_FromLong",
    "Py_IncRef", "Py_DecRef",
)  # fmt: skip


FUNCTION = "gradwalk_call"  # the builtin behind Tape.call


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


def call_text(head: int) -> str:
    """The builtin; `head` is the size of Python's object head."""
    wanted = {f"wanted_{name}": place for place, name in enumerate(WANTED)}
    return tape_loop.filled_in(
        _CALL,
        **wanted,
        wanted_words=len(WANTED),
        function=FUNCTION,
        type=head - 8,
        data=head,
        ndim=head + 8,
        sizes=head + 16,
        strides=head + 24,
        descr=head + 40,
        flags=head + 48,
        arrays=tape_loop.ARRAYS,
    )


_CALL = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyLong_FromLong(i64)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Whether sizes and strides are as expected; `wanted` are the expected words of this array.
define internal i1 @same_layout(ptr %array, ptr %wanted) {
entry:
  %ndim = word i64 %wanted, $wanted_ndim
  %strided = word i64 %wanted, $wanted_strided
  %compares = icmp ne i64 %strided, 0
  %wanted.sizes = getelementptr i64, ptr %wanted, i64 $wanted_words
  %wanted.strides = getelementptr i64, ptr %wanted.sizes, i64 %ndim
  %sizes = field ptr %array, $sizes
  %strides = field ptr %array, $strides
  br label %head
head:
  %d = phi i64 [0, %entry], [%d.next, %next]
  %more = icmp ult i64 %d, %ndim
  br i1 %more, label %size, label %yes
size:
  %has = word i64 %sizes, %d
  %wants = word i64 %wanted.sizes, %d
  %fits = icmp eq i64 %has, %wants
  br i1 %fits, label %stride, label %no
stride:
  %matters = icmp sgt i64 %has, 1
  %looks = and i1 %matters, %compares
  br i1 %looks, label %compare, label %next
compare:
  %steps = word i64 %strides, %d
  %steps.wanted = word i64 %wanted.strides, %d
  %stride.equal = icmp eq i64 %steps, %steps.wanted
  br i1 %stride.equal, label %next, label %no
next:
  %d.next = add i64 %d, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether this object is the array that is expected.
define internal i1 @as_expected(ptr %program, ptr %array, ptr %wanted) {
entry:
  %type = field i64 %array, $type
  %ndarray = word i64 %program, $at_ndarray
  %is.array = icmp eq i64 %type, %ndarray
  br i1 %is.array, label %look, label %no
look:
  %descr = field i64 %array, $descr
  %descr.wanted = word i64 %wanted, $wanted_descr
  %same.dtype = icmp eq i64 %descr, %descr.wanted
  %flags.short = field i32 %array, $flags
  %flags = zext i32 %flags.short to i64
  %flags.wanted = word i64 %wanted, $wanted_flags
  %flags.both = and i64 %flags, %flags.wanted
  %has.flags = icmp eq i64 %flags.both, %flags.wanted
  %ndim.short = field i32 %array, $ndim
  %ndim = zext i32 %ndim.short to i64
  %ndim.wanted = word i64 %wanted, $wanted_ndim
  %same.ndim = icmp eq i64 %ndim, %ndim.wanted
  %two = and i1 %same.dtype, %has.flags
  %three = and i1 %two, %same.ndim
  br i1 %three, label %layout, label %no
layout:
  %same = call i1 @same_layout(ptr %array, ptr %wanted)
  ret i1 %same
no:
  ret i1 false
}

; Put the data pointers into their slots; 0, or why not.
define internal i64 @bind(ptr %program, ptr %given, i64 %count) {
entry:
  %arrays = word i64 %program, $at_arrays
  %all.given = icmp eq i64 %arrays, %count
  %slots = word ptr %program, $at_slots
  %expected = word ptr %program, $at_expected
  br i1 %all.given, label %head, label %no
head:
  %k = phi i64 [0, %entry], [%k.next, %fits]
  %wanted = phi ptr [%expected, %entry], [%wanted.next, %fits]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %body, label %bound
body:
  %array = word ptr %given, %k
  %right = call i1 @as_expected(ptr %program, ptr %array, ptr %wanted)
  br i1 %right, label %fits, label %no
fits:
  %slot = word i64 %wanted, $wanted_slot
  %slot.place = getelementptr i64, ptr %slots, i64 %slot
  %data = field i64 %array, $data
  store i64 %data, ptr %slot.place
  %ndim = word i64 %wanted, $wanted_ndim
  %strided = word i64 %wanted, $wanted_strided
  %lists = add i64 %strided, 1
  %words = mul i64 %lists, %ndim
  %length = add i64 %words, $wanted_words
  %wanted.next = getelementptr i64, ptr %wanted, i64 %length
  %k.next = add i64 %k, 1
  br label %head
bound:
  ret i64 0
no:
  ret i64 $arrays
}

; The builtin behind Tape.call; `self` is the program, an ndarray of words.
define ptr @$function(ptr %self, ptr %given, i64 %count) {
entry:
  %program = field ptr %self, $data
  %busy = call i32 @gradwalk_take(ptr %program)
  %ours = icmp eq i32 %busy, 0
  br i1 %ours, label %check, label %refused.busy
refused.busy:
  %busy.long = zext i32 %busy to i64
  br label %refused
check:
  %why.not = call i64 @bind(ptr %program, ptr %given, i64 %count)
  %bound = icmp eq i64 %why.not, 0
  br i1 %bound, label %run, label %unbound
unbound:
  call void @gradwalk_leave(ptr %program)
  br label %refused
run:
  %state = call ptr @PyEval_SaveThread()
  %result = call i32 @gradwalk_perform(ptr %program)
  call void @gradwalk_leave(ptr %program)
  call void @PyEval_RestoreThread(ptr %state)
  %done = icmp eq i32 %result, 0
  br i1 %done, label %good, label %refused.run
good:
  %none = word ptr %program, $at_none
  call void @Py_IncRef(ptr %none)
  ret ptr %none
refused.run:
  %result.long = zext i32 %result to i64
  br label %refused
refused:
  %reason = phi i64 [%busy.long, %refused.busy], [%why.not, %unbound], [%result.long, %refused.run]
  %number = call ptr @PyLong_FromLong(i64 %reason)
  %count.all = add i64 %count, 2
  %all = alloca ptr, i64 %count.all
  store ptr %self, ptr %all
  %number.at = getelementptr ptr, ptr %all, i64 1
  store ptr %number, ptr %number.at
  %rest.at = getelementptr ptr, ptr %all, i64 2
  %rest.bytes = shl i64 %count, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %rest.at, ptr %given, i64 %rest.bytes, i1 false)
  %function = word ptr %program, $at_refused
  %answer = call ptr @PyObject_Vectorcall(ptr %function, ptr %all, i64 %count.all, ptr null)
  call void @Py_DecRef(ptr %number)
  ret ptr %answer
}
"""
