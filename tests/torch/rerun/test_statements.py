"""Which statements lie between the call of a model and backward, and what they need."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from gradwalk.torch.rerun.call_stack import Everything, FrameSnapshot, frames_from
from gradwalk.torch.rerun.statements import (
    LeftTheBlock,
    NotRepeatable,
    Statements,
    statements_between,
)

Run = Callable[[str], tuple[Statements, FrameSnapshot]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a function's body, in which model() and backward() are called; what lies between them."""
    count = 0

    def run(body: str) -> tuple[Statements, FrameSnapshot]:
        nonlocal count
        count += 1
        path = tmp_path / f"program{count}.py"
        path.write_text(f"def work(x, log):\n{indent(dedent(body), '    ')}\n")
        found: dict[str, FrameSnapshot] = {}

        def model(value: Any = 0) -> Any:
            found["start"] = frames_from(sys._getframe(1), lambda *_: Everything())[0]
            return value + 1

        def backward(*_: Any) -> None:
            found["end"] = frames_from(sys._getframe(1))[0]

        names: dict[str, Any] = {"model": model, "backward": backward}
        exec(compile(path.read_text(), str(path), "exec"), names)
        names["work"](1, [])
        return statements_between(found["start"], found["end"]), found["start"]

    return run


def again(statements: Statements, snapshot: FrameSnapshot) -> list[Any]:
    """What the statements log when run again."""
    log: list[Any] = []
    assert snapshot.variables is not None
    snapshot.variables["log"] = log
    statements.run(snapshot)
    return log


def test_what_is_before_the_model_and_after_backward_is_left_out(run: Run) -> None:
    found = run("""
        log.append("before")
        out = model(x)
        loss = out * 2
        log.append(loss)
        backward(loss)
        log.append("after")
    """)
    assert again(*found) == [4]
    assert (found[0].first, found[0].last) == (4, 7)
    assert found[0].needs == {"model", "x", "log", "backward"}


def test_a_with_is_entered_again_and_an_if_or_try_is_not(run: Run) -> None:
    found = run("""
        import contextlib
        with contextlib.nullcontext(7) as seven:
            log.append("before")
            if x:
                log.append("before")
                try:
                    out = model(x)
                    log.append(seven)
                finally:
                    log.append("not again")
            log.append("inside")
        for i in range(2):
            log.append(i)
        if out:
            backward(out)
            log.append("after")
    """)
    assert again(*found) == [7, "inside", 0, 1]
    assert "out" not in found[0].needs and "contextlib" in found[0].needs


def test_a_loop_around_both_is_not_run_again(run: Run) -> None:
    found = run("""
        for k in range(3):
            log.append("before")
            out = model(k)
            if out < 0:
                continue
            log.append(out)
            backward(out)
    """)
    assert again(*found) == [3]
    assert "k" in found[0].needs


def test_a_loop_around_the_model_alone_is_run_from_its_start(run: Run) -> None:
    found = run("""
        total = 0
        for k in range(3):
            total = total + model(k)
        log.append(total)
        backward(total)
    """)
    assert again(found[0], found[1])[-1] == 9  # the last call saw total = 3
    assert "total" in found[0].needs


def test_one_statement_may_hold_both(run: Run) -> None:
    found = run("backward(log.append(model(x)))")
    assert again(*found) == [2]


def test_comprehensions_and_functions_see_the_variables(run: Run) -> None:
    found = run("""
        factor = 3
        out = model(x)
        log.extend(factor * out for _ in range(2))
        log.append((lambda: factor)())
        backward(out)
    """)
    assert again(*found) == [6, 6, 3]
    assert "factor" in found[0].needs


def test_a_way_that_was_not_taken_is_an_error(run: Run) -> None:
    statements, snapshot = run("""
        out = model(x)
        if log:
            return
        backward(out)
    """)
    assert snapshot.variables is not None
    snapshot.variables["log"] = [1]
    with pytest.raises(LeftTheBlock):
        statements.run(snapshot)


def test_a_backward_before_the_model_cannot_be_run_again(run: Run) -> None:
    with pytest.raises(NotRepeatable, match="before the call"):
        run("""
            for k in range(2):
                if k:
                    backward(out)
                    return
                out = model(k)
        """)


def test_a_file_that_was_changed_is_noticed(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("a = 1\n" * 5)
    code = compile("\n\n  \nmodel(1)", str(other), "exec")
    call = next(i for i, p in enumerate(code.co_positions()) if p[2] == 0 and p[3] == 8)
    with pytest.raises(NotRepeatable, match="was it changed"):
        statements_between(
            FrameSnapshot(0, code, 2 * call, {}), FrameSnapshot(0, code, 2 * call, {})
        )


def test_without_source() -> None:
    code = compile("model(1)", "<nowhere>", "exec")
    with pytest.raises(NotRepeatable, match="no source"):
        statements_between(FrameSnapshot(0, code, 4, {}), FrameSnapshot(0, code, 4, {}))


def test_a_yield_between_cannot_be_run_again(run: Run) -> None:
    body = """
        def inner():
            out = model(x)
            yield 1
            backward(out)
        list(inner())
    """
    with pytest.raises(NotRepeatable, match="yield"):
        run(body)
