"""Random programs as users write them: compiled ones are never wrong, and rarely refused.

A failure prints the program, without the lines that it does not need. `verdict(written(seed))`
repeats one.
"""

from __future__ import annotations

import pytest

from tests.attack.compiled_programs import UserProgram, smaller, verdict
from tests.attack.program_writer import written

PROGRAMS = 160
TOGETHER = 20


def check(first: int, count: int, backend: str = "llvm") -> None:
    """Run programs; of a hundred at most one may be refused, and then loudly."""
    refused = []
    for seed in range(first, first + count):
        program = written(seed)
        found = verdict(program, backend)
        if found.startswith("refused"):
            refused.append(f"{seed}: {found}")
        elif not found.startswith(("right", "skipped")):
            pytest.fail(f"{seed}: {found}\n{smaller(program, backend)}")
    assert len(refused) <= max(1, count // 100), "\n".join(refused)


@pytest.mark.parametrize("first", range(0, PROGRAMS, TOGETHER))
def test_compiled_programs_agree_with_eager(first: int) -> None:
    check(first, TOGETHER)


def test_the_reference_agrees_with_eager() -> None:
    check(PROGRAMS, TOGETHER, backend="numpy")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1200, TOGETHER))
def test_more_compiled_programs(first: int) -> None:
    check(first, TOGETHER)


def test_a_wrong_program_is_noticed() -> None:
    """The comparison fails if compiled code computes something else, and finds the line."""
    twice = "y = x * 2 if isinstance(x._array, np.ndarray) else x * 3"
    program = UserProgram(0, [], ["x"], ["gw.rand(3)"], ["z = x + 1", twice], "y")
    assert verdict(program).startswith("wrong")
    assert smaller(program).body == [twice]
