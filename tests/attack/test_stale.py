"""Python state changes between two calls of a compiled function: the second is as in eager code."""

from __future__ import annotations

from typing import Any

import pytest

import gradwalk as gw
from tests.attack.python_state import ARGUMENTS, Program, programs
from tests.batches import batched


def called(program: Program, names: dict[str, Any]) -> Any:
    return eval(program.call, names)


@pytest.mark.filterwarnings("ignore")  # of what happens once
@batched("program", programs(), key=lambda program: program.name.partition(":")[0], quick=2)
def test_a_change_is_seen_by_the_next_call(program: Program) -> None:
    names = program.names()
    names["x"] = gw.ones(2)
    eager = names["run"]
    compiled = gw.compile(eager, backend="numpy")
    before = called(program, names).tolist()
    names["run"] = compiled
    holder, _, way = program.name.partition(": ")
    if holder in ("ndarray", "ndarray sum", "ndarray of objects") and way in ARGUMENTS:
        with pytest.raises(gw.TraceError, match="called with an ndarray"):
            called(program, names)
        return
    assert called(program, names).tolist() == before
    assert called(program, names).tolist() == before
    exec(program.change, names)
    names["run"] = eager
    after = called(program, names).tolist()
    assert after != before  # or the change is none
    names["run"] = compiled
    assert called(program, names).tolist() == after
