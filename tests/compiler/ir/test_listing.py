"""Programs as text: names, lines, types, 80 columns."""

from __future__ import annotations

import numpy as np
import pytest

from gradwalk.compiler.backends.llvm.backend import CAPABILITIES
from gradwalk.compiler.ir.listing import kernel_listing, listing
from gradwalk.compiler.ir.program import Argument, Call, Memory, Scalar
from gradwalk.compiler.plan.schedule import plan
from tests.compiler.loops import looped
from tests.compiler.programs import Written


def small() -> Written:
    written = Written()
    x, w = written.argument(np.zeros((5, 3), np.float32)), written.memory(np.zeros((3, 2)))
    rate = written.number(0.1)
    table = written.constant(np.arange(2.0))
    cast = written.add("cast", w, dtype=np.dtype(np.float32))
    product = written.add("matmul", x, cast)
    moved = written.add("mul", w, rate)
    added = written.add("add", moved, table)
    half = written.add("mul", product, written.constant(0.5, np.float32))
    written.results = [half]
    written.updates = [(w, added)]
    return written


def test_the_text_of_a_program() -> None:
    text = listing(small().program, {Argument(0): "x", Memory(0): "weight", Scalar(0): "lr"})
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines == [
        "a0 x float32 (5, 3)",
        "m0 weight float64 (3, 2) updated",
        "n0 lr float64",
        "c0 float64 (2,)",
        "t0 = cast(m0, dtype=float32) float32 (3, 2)",
        "t1 = matmul(a0, t0) float32 (5, 2)",
        "t2 = mul(m0, n0) float64 (3, 2)",
        "t3 = add(t2, c0) float64 (3, 2)",
        "t4 = mul(t1, 0.5) float32 (5, 2)",
        "return t4",
        "update m0 ← t3",
    ]
    assert str(small().program).splitlines()[4:] == text.splitlines()[4:]


def test_types_stand_at_the_right_edge() -> None:
    calls = [line for line in str(small().program).splitlines() if " = " in line]
    assert len(calls) == 5 and {len(line) for line in calls} == {80}


@pytest.mark.parametrize("count", [2, 40, 200])
def test_long_calls_are_wrapped(count: int) -> None:
    written = Written()
    pieces = [written.argument(np.zeros(1)) for _ in range(count)]
    joined = written.add("concatenate", *pieces, axis=0)
    written.results = [joined] * count
    text = str(written.program)
    assert max(map(len, text.splitlines())) <= 80
    assert all(f"a{number}" in text for number in range(count))
    assert text.count("t0") == count + 1


def test_an_op_with_several_outputs() -> None:
    written = Written()
    x = written.argument(np.zeros((4, 6)))
    first, second = written.add("split", x, sizes=(2, 4), axis=1)
    written.results = [second, first]
    text = str(written.program)
    assert "t0, t1 = split(a0, " in text and "float64 (4, 2), float64 (4, 4)" in text


def test_kernels_as_text() -> None:
    written = Written()
    x, y = written.argument(np.zeros((6, 9))), written.argument(np.zeros((9, 4)))
    total = written.add("sum", x, axis=(1,), keepdim=True)
    written.results = [
        written.add("sub", x, total),
        written.add("exp", written.add("matmul", x, y)),
        written.add("neg", total),
    ]
    entries = plan(written.program, {}, CAPABILITIES).entries
    texts = [kernel_listing(entry.work) for entry in entries if not isinstance(entry.work, Call)]
    (rows,) = [t for t in texts if "reduce  sum" in t]
    assert rows.startswith("outer 6, row 9\n") and "apply   sub" in rows and "store" in rows
    (product,) = [t for t in texts if t.startswith("matmul")]
    assert product.startswith("matmul of 6×9 and 9×4, then\n") and "apply   exp 0" in product


def test_the_body_of_a_loop_is_indented() -> None:
    written = Written()
    x, first = written.argument(np.zeros((5, 3))), written.argument(np.zeros(3))
    weight = written.memory(np.ones(3))
    states = looped(
        written,
        lambda add, rows, states: (rows, [add("mul", add("add", *rows, *states), weight)]),
        [x], [first], count=5,
    )  # fmt: skip
    written.results = [states[-1]]
    text = str(written.program)
    assert max(map(len, text.splitlines())) <= 80
    lines = text.splitlines()[3:]
    assert [" ".join(line.split()) for line in lines] == [
        "t0, t1 = loop(a0, a1, m0, count=5, reverse=False, rows=1, histories=(False,))",
        "float64 (5, 3), float64 (3,)",
        "a0 a row of a0 float64 (3,)",
        "a1 at first a1 float64 (3,)",
        "a2 m0 float64 (3,)",
        "t0 = add(a0, a1) float64 (3,)",
        "t1 = mul(t0, a2) float64 (3,)",
        "return a0, t1",
        "return t1",
    ]
    assert all(line.startswith("    ") for line in lines[2:-1])
