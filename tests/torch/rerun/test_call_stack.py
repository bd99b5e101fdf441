"""What is copied of a frame, and that taking it does not show."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

from gradwalk.torch.rerun.call_stack import Everything, FrameSnapshot, frames_from


def take(names: Any) -> FrameSnapshot:
    """The place of the caller."""
    return frames_from(sys._getframe(1), lambda depth, _: names if depth == 0 else None)[0]


def test_variables_are_copied_and_lists_with_them() -> None:
    number, items, waiting = 1, [1, 2], deque([3])
    snapshot = take({"number", "items", "waiting"})
    items.append(4)
    waiting.clear()
    number += 1
    assert snapshot.variables == {"number": 1, "items": [1, 2], "waiting": deque([3])}
    assert take({"number"}).variables == {"number": 2}
    assert frames_from(sys._getframe())[0].variables is None


def test_a_program_that_holds_its_variables_keeps_them() -> None:
    def train(rate: float, steps: int) -> dict[str, Any]:
        settings = locals()
        take(Everything())
        return settings

    assert {"rate": 0.1, "steps": 3}.items() <= train(0.1, 3).items()


def test_names_that_exec_made_stay() -> None:
    def program() -> Any:
        exec("made = 5")
        take(Everything())
        return eval("made") if "made" in locals() else 5  # from Python 3.13 on exec makes none

    assert program() == 5


def test_a_name_in_use_is_seen_as_it_is() -> None:
    def program() -> list[int]:
        seen = []
        for step in range(3):
            take(Everything())
            seen.append(locals()["step"] + step)
        return seen

    assert program() == [0, 2, 4]
