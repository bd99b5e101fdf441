"""Shapes and reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.compiler.ir.program import Call
from gradwalk.onnx.dtypes import code_of
from gradwalk.onnx.writers.table import GraphWriter, Value, writes

LONGEST = np.iinfo(np.int64).max


@writes("reshape")
def reshape(write: GraphWriter, call: Call, x: Value) -> Value:
    return write("Reshape", x, list(call.attrs["shape"]))


@writes("expand")
def expand(write: GraphWriter, call: Call, x: Value) -> Value:
    return write("Expand", x, list(call.attrs["shape"]))


@writes("permute")
def permute(write: GraphWriter, call: Call, x: Value) -> Value:
    return write("Transpose", x, perm=list(call.attrs["axes"]))


@writes("concatenate")
def concatenate(write: GraphWriter, call: Call, *xs: Value) -> Value:
    return xs[0] if len(xs) == 1 else write("Concat", *xs, axis=call.attrs["axis"])


@writes("split")
def split(write: GraphWriter, call: Call, x: Value) -> Any:
    sizes = call.attrs["sizes"]
    parts = write("Split", x, list(sizes), count=len(sizes), axis=call.attrs["axis"])
    return parts if len(sizes) > 1 else [parts]


@writes("pad")
def pad(write: GraphWriter, call: Call, x: Value) -> Value:
    widths = call.attrs["widths"]
    pads = [before for before, _ in widths] + [after for _, after in widths]
    value = write.constant(np.array(call.attrs["value"], call.outputs[0].dtype))
    return write("Pad", x, pads, value)


@writes("flip")
def flip(write: GraphWriter, call: Call, x: Value) -> Value:
    axes = call.attrs["axis"]
    axes = list(axes) if isinstance(axes, tuple) else [axes]
    n = len(axes)
    return write("Slice", x, [-1] * n, [-LONGEST] * n, axes, [-1] * n) if n else x


@writes("diagonal", "windows")
def moved(write: GraphWriter, call: Call, x: Value) -> Value:
    """An op that only moves elements, as a table of where they come from."""
    source = call.terms[0]
    places = call.op.forward(np.arange(source.size).reshape(source.shape), **call.attrs)
    return write("Gather", write("Reshape", x, [-1]), write.constant(places), axis=0)


@writes("embedding")
def embedding(write: GraphWriter, call: Call, weight: Value, indices: Value) -> Value:
    made = call.terms[1].call
    if made is not None and made.op.name == "where":  # no index is negative in PyTorch
        negative, original = made.terms
        if negative.call is not None and negative.call.args == (original, 0):
            indices = write.values[original]
    return write("Gather", weight, indices, axis=0)


@writes("gather_last")
def gather_last(write: GraphWriter, call: Call, x: Value, indices: Value) -> Value:
    return write("GatherElements", x, indices, axis=-1)


@writes("checked_index")
def checked_index(write: GraphWriter, call: Call, index: Value) -> Value:
    return index  # ONNX counts negative indices from the end, too


# -- reductions ------------------------------------------------------------------------------------

_REDUCTIONS = {
    "sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin",
    "prod": "ReduceProd", "logsumexp": "ReduceLogSumExp",
}  # fmt: skip


def reduced(write: GraphWriter, op: str, x: Value, axes: Any, keepdim: bool) -> Value:
    """A reduction over some axes."""
    return write(op, x, [int(a) for a in axes], keepdims=int(keepdim))


@writes(*_REDUCTIONS)
def reduction(write: GraphWriter, call: Call, x: Value) -> Value:
    axes = call.attrs["axis"]
    axes = axes if isinstance(axes, tuple) else (axes,)
    if call.terms[0].dtype != call.outputs[0].dtype:  # booleans and small integers are widened
        x = write("Cast", x, to=code_of(call.outputs[0].dtype))
    if not axes:
        return x
    return reduced(write, _REDUCTIONS[call.op.name], x, axes, call.attrs["keepdim"])


@writes("argmax", "argmin")
def arg_extreme(write: GraphWriter, call: Call, x: Value) -> Value:
    op, axes = "ArgMax" if call.op.name == "argmax" else "ArgMin", call.attrs["axis"]
    if len(axes) == 1:
        return write(op, x, axis=axes[0], keepdims=int(call.attrs["keepdim"]))
    place = write(op, write("Reshape", x, [-1]), axis=0)  # in the elements in a row
    return write("Reshape", place, list(call.outputs[0].shape))


@writes("max", "min", fits=lambda call: len(call.attrs["axis"]) == 1)
def extreme(write: GraphWriter, call: Call, x: Value) -> Any:
    name, (axis,), keep = call.op.name.title(), call.attrs["axis"], int(call.attrs["keepdim"])
    return (
        write(f"Reduce{name}", x, [axis], keepdims=keep),
        write(f"Arg{name}", x, axis=axis, keepdims=keep),
    )


@writes("var", "std")
def var(write: GraphWriter, call: Call, x: Value) -> Value:
    axes, keep = [int(a) for a in call.attrs["axis"]], int(call.attrs["keepdim"])
    count = int(np.prod([call.terms[0].shape[a] for a in axes]))
    centered = write("Sub", x, write("ReduceMean", x, axes, keepdims=1))
    squares = write("ReduceSum", write("Mul", centered, centered), axes, keepdims=keep)
    divisor = max(count - call.attrs["correction"], 0)
    found = write("Div", squares, write.constant(np.array(divisor, call.outputs[0].dtype)))
    return found if call.op.name == "var" else write("Sqrt", found)


@writes("all", "any")
def truth(write: GraphWriter, call: Call, x: Value) -> Value:
    axes = call.attrs["axis"]
    op = "ReduceMin" if call.op.name == "all" else "ReduceMax"
    numbers = write("Cast", write("Cast", x, to=9), to=6)
    axes = axes if isinstance(axes, tuple) else (axes,)
    return write("Cast", reduced(write, op, numbers, axes, call.attrs["keepdim"]), to=9)


@writes("cumsum")
def cumsum(write: GraphWriter, call: Call, x: Value) -> Value:
    if call.terms[0].dtype != call.outputs[0].dtype:  # booleans are counted
        x = write("Cast", x, to=code_of(call.outputs[0].dtype))
    return write("CumSum", x, write.constant(np.array(call.attrs["axis"], np.int64)))


@writes("topk", "sort")
def topk(write: GraphWriter, call: Call, x: Value) -> Any:
    axis = call.attrs["axis"]
    k = call.attrs.get("k", call.terms[0].shape[axis])
    largest = call.attrs["largest" if call.op.name == "topk" else "descending"]
    return write("TopK", x, [k], count=2, axis=axis, largest=int(largest))


@writes("vector_norm")
def vector_norm(write: GraphWriter, call: Call, x: Value) -> Value:
    p, axes, keep = call.attrs["p"], call.attrs["axis"], call.attrs["keepdim"]
    if p in (1, 2):
        return reduced(write, f"ReduceL{int(p)}", x, axes, keep)
    if math.isinf(p):
        return reduced(write, "ReduceMax" if p > 0 else "ReduceMin", write("Abs", x), axes, keep)
    dtype = call.outputs[0].dtype
    if p == 0:
        some = write("Not", write("Equal", x, write.constant(np.array(0, dtype))))
        return reduced(write, "ReduceSum", write("Cast", some, to=code_of(dtype)), axes, keep)
    powers = write("Pow", write("Abs", x), write.constant(np.array(p, dtype)))
    total = reduced(write, "ReduceSum", powers, axes, keep)
    return write("Pow", total, write.constant(np.array(1 / p, dtype)))


@writes("moments")
def moments(write: GraphWriter, call: Call, x: Value) -> Any:
    """The mean, and the variance as the mean of squares."""
    axes = call.attrs["axes"]
    rest = write("Sub", x, reduced(write, "ReduceMean", x, axes, True))
    spread = reduced(write, "ReduceMean", write("Mul", rest, rest), axes, False)
    return reduced(write, "ReduceMean", x, axes, False), spread


@writes("softmax", "log_softmax")
def softmax(write: GraphWriter, call: Call, x: Value) -> Value:
    op = "Softmax" if call.op.name == "softmax" else "LogSoftmax"
    return write(op, x, axis=call.attrs["axis"])


@writes("einsum")
def einsum(write: GraphWriter, call: Call, *xs: Value) -> Value:
    return write("Einsum", *xs, equation=call.attrs["equation"])
