"""Mistakes of people who follow the lecture: each is named, and nothing that is not there.

They run in this process, as in a browser, and with shorter chains, because of their number.
"""

import itertools
import sys
from collections.abc import Iterator

import pytest

from gradwalk.course.checker import trials
from gradwalk.course.checker.grading import CheckedFile, check_source
from gradwalk.course.checker.outcomes import known_mistakes
from tests.batches import batched
from tests.course.lecture_engines import LECTURE, MISTAKES, OF_THE_LECTURE, lecture

# What is said when the numbers fit no single mistake: true, and no diagnosis.
WITHOUT_A_NAME = {"adding", "order", "somewhere"}
# Mistakes that hide no other, so that of two of them both are named.
IN_ONE_PLACE = [name for name, (_, keys) in MISTAKES.items() if keys[-2:] == list(OF_THE_LECTURE)]
IN_THE_WALK = [name for name in MISTAKES if name not in IN_ONE_PLACE]


# In these pairs the one that is named must be mended before the other can show.
HIDE_ONE_ANOTHER = {
    ("tanh does not know its input", "tanh of the input"),
    ("exp returns nothing", "exp without out.grad"),
    # tanh may be made of exp and of a quotient.
    ("tanh without brackets around its derivative", "// for /"),
    ("exp's derivative of the gradient", "tanh without brackets around its derivative"),
    ("rtruediv exchanged", "__div__, as in Python 2 (raghavsridharan)"),
}


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(trials, "LONG", 3000)
    trials.trials.cache_clear()
    monkeypatch.setattr(sys, "platform", "emscripten")
    yield
    trials.trials.cache_clear()


def keys(checked: CheckedFile) -> list[str]:
    assert not checked.reason, checked.reason
    return [mistake.key for mistake in checked.mistakes]


def test_the_lectures_engine_has_two_mistakes_of_its_own() -> None:
    assert keys(check_source(LECTURE.encode())) == list(OF_THE_LECTURE)


@batched("name", MISTAKES, quick=8)
def test_a_mistake_is_named_and_nothing_else(name: str) -> None:
    assert keys(check_source(lecture(name).encode())) == MISTAKES[name][1]


def test_what_a_walk_in_the_wrong_direction_is_told() -> None:
    checked = check_source(lecture("no reversed (the issue)").encode())
    first = checked.mistakes[0]
    assert first.title == "visits a node before its gradient is complete"
    assert "reversed(order)" in first.text and "is visited before" in first.text
    assert "derivative" not in str(checked).split("points", 1)[1].split("It ", 1)[1]


@pytest.mark.slow
def test_two_mistakes_are_both_named_and_nothing_else() -> None:
    apart, tried, hidden = 5, [], []
    for one, other in zip(IN_ONE_PLACE, IN_ONE_PLACE[apart:] + IN_ONE_PLACE[:apart]):
        try:
            source = lecture(one, other)
        except AssertionError:  # they change the same line
            continue
        found, both = set(keys(check_source(source.encode()))), {*MISTAKES[one][1]}
        both |= {*MISTAKES[other][1]}
        assert found <= both, (one, other)
        tried.append((one, other))
        hidden += [] if found == both else [(one, other)]
    assert len(tried) > 15
    assert set(hidden) <= HIDE_ONE_ANOTHER


@pytest.mark.parametrize(
    ("contributions", "key"),
    [
        ("= in every operation (dev.to)", "overwrites"),
        ("= for the second input only", "overwrites"),
        ("mul without out.grad", "local-not-total"),
    ],
)
def test_a_wrong_order_and_what_it_does_with_contributions(contributions: str, key: str) -> None:
    checked = check_source(lecture("no reversed (the issue)", contributions).encode())
    assert keys(checked) == ["before-complete", key, "recursion-limit"]


@pytest.mark.slow
def test_a_wrong_walk_blames_no_operation() -> None:
    tried = 0
    for one, other in itertools.product(IN_THE_WALK, IN_ONE_PLACE[::9]):
        try:
            source = lecture(one, other)
        except AssertionError:
            continue
        tried += 1
        found = set(keys(check_source(source.encode())))
        allowed = {*MISTAKES[one][1], *MISTAKES[other][1], *OF_THE_LECTURE} | WITHOUT_A_NAME
        assert found <= allowed, (one, other, found)
        assert found - {*OF_THE_LECTURE}, (one, other)
    assert tried > 20


def test_every_mistake_of_the_tables_is_tried() -> None:
    """Every key is named for an engine here or in test_check.py."""
    from tests.course.test_check import WRONG

    tried = {key for _, named in MISTAKES.values() for key in named} | set(WRONG.values())
    tried |= {"missing", "unwritten", "raises", "stops"}
    known = {name.partition(" ")[0] for name in known_mistakes()} - {"value", "derivative"}
    assert known - tried <= {"no-backward", "first-gradient", "data", "long", *WITHOUT_A_NAME}
