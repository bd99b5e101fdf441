"""Programs as passes see them: which are left as they are, and which may be changed in place."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given

from gradwalk.compiler.backends import numpy as reference
from gradwalk.compiler.ir.program import Builder, Call, Program, copied, rewrite
from gradwalk.compiler.pipeline import PASSES, no_collections, run_passes
from gradwalk.ops import TABLE
from tests.compiler.programs import Written, assert_same_bits, programs

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def text(program: Program) -> list[str]:
    """All of a program: every call with the numbers of its operands' calls, what it gives."""
    number = {term: f"{i}" for i, term in enumerate(program.sources())}
    lines = []
    for i, call in enumerate(program.calls):
        number |= {out: f"{i}.{out.index}" for out in call.outputs}
        args = [number.get(a, a) for a in call.args]  # type: ignore[call-overload]
        lines.append(f"{call.op.name} {args} {call.attrs} {call.outputs}")
    updates = [(number[place], number[value]) for place, value in program.updates]
    return [*lines, str([number[t] for t in program.results]), str(updates)]


@given(programs())
def test_passes_do_to_a_copy_what_they_do_to_a_program(written: Written) -> None:
    before, pure, own = text(written.program), written.program, copied(written.program)
    assert text(own) == before
    for each in PASSES:
        pure, own = each(pure), each(own)
        assert text(own) == text(pure), each.__name__
        assert own.owned and not pure.owned
    assert text(run_passes(written.program)) == text(pure)
    assert text(written.program) == before


def test_a_copy_has_calls_of_its_own_and_the_same_sources() -> None:
    w = Written()
    x, m = w.argument(ROWS), w.memory(ROWS)
    total = w.add("add", w.add("exp", x), m)
    program = w.returns(total).becomes(m, total).program
    found = copied(program)
    assert not set(found.calls) & set(program.calls)
    assert found.sources() == program.sources()
    assert all(term.call in found.calls for term in found.ends())
    assert_same_bits(w.outcome(reference.NumpyExecutable(found)), w.expected())


@pytest.mark.parametrize("own", [False, True])
def test_what_a_pass_leaves_alone_is_the_same_program(own: bool) -> None:
    w = Written()
    program = w.returns(w.add("mul", w.add("exp", w.argument(ROWS)), 2.0)).program
    program = copied(program) if own else program
    calls = list(program.calls)
    assert rewrite(program, lambda call, args, build: None) is program
    assert rewrite(program, lambda call, args, build: build.again(call, args)) is program
    assert program.calls == calls


def test_a_pass_is_asked_about_its_ops_only() -> None:
    w = Written()
    program = w.returns(w.add("neg", w.add("exp", w.argument(ROWS)))).program
    asked: list[Call] = []
    assert rewrite(program, lambda call, args, build: asked.append(call), [TABLE["neg"]]) is program
    assert [call.op.name for call in asked] == ["neg"]
    assert (
        rewrite(program, lambda call, args, build: asked.append(call), [TABLE["tanh"]]) is program
    )
    assert len(asked) == 1


@pytest.mark.parametrize("own", [False, True])
def test_a_call_on_other_operands(own: bool) -> None:
    w = Written()
    x, y = w.argument(ROWS), w.argument(ROWS)
    w.add("mul", x, 2.0)
    (call,) = w.build.calls
    build = Builder(changes=own)
    assert build.again(call, [x, call.args[1]]) is call.outputs
    (out,) = build.again(call, [y, 2.0])
    assert out.call is not None and out.call.terms == (y,) and out.call.args == (y, 2.0)
    assert (out is call.outputs[0]) is own
    assert call.terms == ((y,) if own else (x,))
    assert build.calls == [call, out.call]


def test_the_collector_waits_and_goes_on() -> None:
    assert gc.isenabled()
    with no_collections():
        assert not gc.isenabled()
        with no_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), no_collections():
        1 / 0
    assert gc.isenabled()
    gc.disable()
    try:
        with no_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_compiler_is_imported_when_it_is_needed() -> None:
    code = """
import sys, gradwalk
def loaded(*names): return [n for n in names if n in sys.modules]
print(loaded("gradwalk.compiler.compiled_function", "llvmlite"))
import gradwalk.compiler.compiled_function, gradwalk.compiler.scalars
print(loaded("llvmlite", "gradwalk.inspect"))
step = gradwalk.compile(lambda x: (x * x).sum())
step(gradwalk.ones(3))
convolution = "gradwalk.compiler.backends.llvm.kernels.convolution.kernel"
print(loaded("llvmlite", "gradwalk.inspect", convolution))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split("\n")[:3] == ["[]", "[]", "['llvmlite']"], found.stdout
