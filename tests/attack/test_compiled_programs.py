"""Random programs as users write them: compiled ones are never wrong, and rarely refused.

A failure prints the program, without the lines that it does not need. `verdict(written(seed))`
repeats one.
"""

from __future__ import annotations

from typing import Any

import pytest

import gradwalk as gw
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
@pytest.mark.parametrize("first", range(1000, 1100, TOGETHER))
def test_more_compiled_programs(first: int) -> None:
    check(first, TOGETHER)


def test_a_wrong_program_is_noticed() -> None:
    """The comparison fails if compiled code computes something else, and finds the line."""
    twice = "y = x * 2 if isinstance(x._array, np.ndarray) else x * 3"
    program = UserProgram(0, [], ["x"], ["gw.rand(3)"], ["z = x + 1", twice], "y")
    assert verdict(program).startswith("wrong")
    assert smaller(program).body == [twice]


# -- programs that failed once, each of its own kind -----------------------------------------------


def test_backward_of_a_checkpointed_region_that_cannot_run_again() -> None:
    """Its argument was changed in place; the first program keeps its own random state."""

    w = gw.ones(2, requires_grad=True)

    def region(t: Any) -> Any:
        return (t * w).tanh()

    def step(x: Any) -> Any:
        y = x * 2
        out = gw.checkpoint(region, y)
        y.pow_(2)
        return out

    compiled = gw.compile(step)
    assert compiled(gw.ones(2)).tolist() == step(gw.ones(2)).tolist()
    with pytest.raises(gw.AutogradError, match="modified in place"):
        compiled(gw.ones(2)).sum().backward()


def test_a_write_through_windows_that_do_not_overlap() -> None:
    def step(x: Any) -> Any:
        y = x + 2
        y.unfold(1, 2, 2)[..., 0] = 5.0
        y[:1].expand(1, 4)[0, 1] = 9.0
        return y

    x = gw.arange(8.0).reshape(2, 4)
    assert gw.compile(step)(x).tolist() == step(x).tolist()


def test_a_piece_is_read_after_the_whole_was_changed() -> None:
    """The piece is computed in its part of the whole, so the change must wait for its readers."""

    def step(x: Any, y: Any) -> Any:
        piece = y.exp()
        whole = gw.cat([piece, y * 2], 0)
        whole[:, 0] = 0.0
        x[...] = piece
        return whole

    x, same = gw.zeros(2, 3), gw.zeros(2, 3)
    y = gw.arange(2.0).reshape(2, 1)
    assert gw.compile(step)(x, y).tolist() == step(same, y).tolist()
    assert gw.allclose(x, same)


def test_a_source_without_its_leading_ones_fits() -> None:
    def step(x: Any, y: Any) -> Any:
        return (x * 2).copy_(y)

    x, y = gw.ones(5), gw.full((1, 1), 3.0)
    assert gw.compile(step)(x, y).tolist() == step(x, y).tolist() == [3.0] * 5


def test_a_buffer_that_is_replaced_by_a_view_is_not_stale() -> None:
    """Each argument is kept until the next call; its array is a view of other memory."""
    box = gw.nn.Module()
    box.register_buffer("kept", gw.zeros(2, 2))

    @gw.compile
    def step(x: Any) -> Any:
        found = (box.kept * w).sum()
        box.kept = x.detach()
        return found

    w = gw.ones(2, 2, requires_grad=True)
    other = gw.arange(4.0).reshape(2, 2)

    @gw.compile
    def replaced() -> Any:
        found = (box.kept * w).sum()
        box.kept = other.detach()
        return found

    assert [replaced().item() for _ in range(10)] == [0.0, *[6.0] * 9]
    box.kept = gw.zeros(2, 2)
    found = [step(gw.arange(4.0).mul_(i).reshape(2, 2)).item() for i in range(10)]
    assert found == [0.0, *(6.0 * i for i in range(9))]
