"""Every number in the text of a lesson is one of the engine's, or is computed here."""

from __future__ import annotations

import pytest

from gradwalk.course.lesson_files import read_blocks
from gradwalk.inspect.expression.parser import expression
from tests.course.lesson_files import Lesson, english
from tests.course.written_numbers import unvouched

LESSONS = english()
GIVEN = ""  # chosen by the text itself: a step, a size, a number that somebody might think of
# By lesson, the numbers that are no quantity of a graph there: how each is computed.
COMPUTED: dict[str, dict[str, str]] = {
    "nudge": {
        "6.1": "(3.1^2 - 3^2) / 0.1", "6.01": "(3.01^2 - 3^2) / 0.01",
        "6.001": "(3.001^2 - 3^2) / 0.001", "0.01": GIVEN, "0.001": GIVEN,
    },
    "local-derivatives": {
        "−0.999": "-1 + 0.001", "−9.99": "(-1 + 0.001) * 10", "0.01": "0.001 * 10", "0.001": GIVEN,
        "2.001": GIVEN, "−2.9": GIVEN, "0.25": "0.5 * (1 - 0.5)",
    },
    "walk-it-backward": {"2.01": GIVEN},
    "order": {"15": "6 * 1 + 3 * 3"},
    "paths-and-cost": {
        "30": GIVEN, "60": "2 * 30", "10": GIVEN, "124": GIVEN, "160": GIVEN,
        "9": "2*2 + 2 + 2 + 1",
    },
    "activations": {"−1.9": GIVEN, "8": GIVEN, "0.1": GIVEN, "10": GIVEN},
    "write-the-engine": {"12": "6 + 6", "5": GIVEN},
    "matrices": {
        "3": GIVEN, "4": GIVEN, "0.5": GIVEN, "24": GIVEN, "80": "100000^2 * 8 / 10^9", "7": GIVEN,
    },
    "loss-and-training": {
        "10": GIVEN, "0.1": GIVEN, "1000": GIVEN, "5": "0.01 * 500", "60": GIVEN, "0.01": GIVEN,
        "0.00002": "0.01 / 500", "0.5": GIVEN, "500": GIVEN,
    },
    "trust-and-scale": {"16": GIVEN, "3": "1 + 2", "4": "1 + 1 + 2", "6": GIVEN},
}  # fmt: skip


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_every_number_is_vouched_for(lesson: Lesson) -> None:
    known = COMPUTED.get(lesson.id, {})
    left = unvouched(lesson)
    assert [one for one in left if one.rpartition(" ")[2] not in known] == []
    written = {one.rpartition(" ")[2] for one in left}
    assert set(known) <= written, "listed, and not needed any more"
    for number, source in known.items():
        if source:
            found = float(expression(f"0*unused + ({source})", {"unused": 1.0}).data)
            assert found == pytest.approx(float(number.replace("−", "-")), rel=1e-9), number


def test_a_number_that_is_wrong_is_found() -> None:
    """In the text around a graph, and in what is said to an answer."""
    lesson = next(one for one in LESSONS if one.id == "draw-the-graph")
    assert unvouched(lesson) == []
    for right, wrong in (
        ("q stays 0, and", "q stays 4.5, and"),
        ("With a = 2, b", "With a = 2.5, b"),
    ):
        assert right in lesson.text
        changed = lesson.text.replace(right, wrong)
        blocks = read_blocks(changed)
        assert unvouched(Lesson(lesson.id, lesson.head, blocks, changed)) != []
