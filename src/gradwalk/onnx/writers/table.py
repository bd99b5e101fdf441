"""The table from our ops to ONNX's operators, and the graph that they are written into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.compiler.ir.program import Call, Term
from gradwalk.onnx.dtypes import code_of

Value = Any  # of onnx-ir
OLDEST, NEWEST = 18, 23  # the operator sets that we write


class GraphWriter:
    """Collects the nodes of a graph. `write("Add", x, y)` adds one and returns its output."""

    def __init__(self, ir: Any, prefix: str = "") -> None:
        self.ir = ir
        self.prefix = prefix
        self.call: Call | None = None  # which is written now
        self.calls: dict[int, Call | None] = {}  # what each node belongs to, by its id
        self.nodes: list[Any] = []
        self.values: dict[Term, Value] = {}
        self._constants: dict[Any, Value] = {}
        self._count = 0

    def __call__(self, op: str, *inputs: Any, count: int = 1, **attributes: Any) -> Any:
        """Add a node and return its output, or a list of several.

        Integers in a list are a constant.
        """
        self._count += 1
        if op == "Reshape" and not all(inputs[1]):  # a 0 would stand for the length that x has
            attributes["allowzero"] = 1
        values = [self.ints(i) if isinstance(i, (list, tuple)) else i for i in inputs]
        name = f"{self.prefix}{op.lower()}_{self._count}"
        names = [name + (f"_{i}" if i else "") for i in range(count)]
        outputs = [self.ir.Value(name=name) for name in names]
        given = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(self.ir.node(op, values, given, outputs=outputs, name=names[0]))
        self.calls[id(self.nodes[-1])] = self.call
        return outputs[0] if count == 1 else outputs

    def constant(self, array: Any) -> Value:
        """An array as a value; equal ones are one."""
        array = np.asarray(array)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            tensor = self.ir.Tensor(array, dtype=self.ir.DataType(code_of(array.dtype)))
            self._constants[key] = self("Constant", value=tensor)
        return self._constants[key]

    def ints(self, numbers: Sequence[int]) -> Value:
        """A list of int64."""
        return self.constant(np.array([int(n) for n in numbers], np.int64))

    def unlifted(self, term: Term, shape: tuple[int, ...]) -> Value:
        """A term in a shape with fewer dimensions of length 1: the one that it was made of."""
        if term.call is not None and term.call.op.name == "reshape":
            before = term.call.terms[0]
            if before.shape == shape:
                return self.values[before]
        return self("Reshape", self.values[term], list(shape))

    def operands(self, call: Call) -> list[Value]:
        """The operands of a call as values; numbers in the dtype that the call computes in."""
        out = call.outputs[0].dtype
        dtype = call.terms[0].dtype if out.kind == "b" and call.terms else out
        return [
            self.values[a] if isinstance(a, Term) else self.constant(np.array(a, dtype))
            for a in call.args
        ]


Write = Callable[..., Any]  # (writer, call, *operands) -> the output, or a sequence of them


@dataclass(frozen=True)
class OpWriter:
    """How an op is written; calls that it does not fit are opened into other ops."""

    write: Write
    since: int = OLDEST  # the first operator set that has what it writes
    fits: Callable[[Call], bool] = lambda call: True


WRITERS: dict[str, OpWriter] = {}


def writes(
    *names: str, since: int = OLDEST, fits: Callable[[Call], bool] = lambda call: True
) -> Callable[[Write], Write]:
    """Register the decorated function for these ops."""

    def put(function: Write) -> Write:
        for name in names:
            WRITERS[name] = OpWriter(function, since, fits)
        return function

    return put


def same(**operators: str) -> None:
    """Register ops that are an operator of ONNX, without attributes."""
    for name, op in operators.items():
        WRITERS[name] = OpWriter(lambda write, call, *values, _op=op: write(_op, *values))


def composed(**definitions: Callable[..., Any]) -> None:
    """Register ops as small definitions in operators: (writer, a function that makes a constant of
    the call's dtype, *operands)."""
    for name, definition in definitions.items():

        def write(
            writer: GraphWriter, call: Call, *values: Value, _make: Any = definition
        ) -> Value:
            dtype = call.terms[0].dtype if call.terms else call.outputs[0].dtype

            def number(n: float) -> Value:
                return writer.constant(np.array(n, dtype))

            return _make(writer, number, *values, **call.attrs)

        WRITERS[name] = OpWriter(write)
