"""The question bank, and quizzes drawn from it."""

import json
import math
import re
import tomllib
from typing import Any

import pytest

from gradwalk.course.quiz import bank as bank_module
from gradwalk.course.quiz.bank import (
    APART,
    KINDS,
    QUESTIONS,
    Question,
    bank,
    draw_question,
    misconceptions,
)
from gradwalk.course.quiz.draw import ChoiceStream
from gradwalk.course.quiz.quantities import Quantities
from gradwalk.course.quiz.quiz import as_gift, as_json, as_text, make_quiz
from tests.quick import some_quick

BY_ID = {question.id: question for question in bank()}
DIAMOND = "a = x*1; b = a + 1; c = 3*a; d = b*c"


# -- the bank --------------------------------------------------------------------------------------


def test_there_are_forty_questions_of_every_kind() -> None:
    assert len(bank()) == 40
    assert {question.kind for question in bank()} == set(KINDS)


def test_every_misconception_is_said_and_used() -> None:
    used = {name for q in bank() for name in q.misconceptions}
    used |= {option["mistake"] for q in bank() for option in q.options}
    assert used == set(misconceptions())
    assert list(misconceptions()) == sorted(misconceptions())


@pytest.mark.parametrize("question", bank(), ids=lambda q: q.id)
def test_no_answer_is_written_down(question: Question) -> None:
    """Quantities are computed: none is a number by itself."""
    asked = [question.answer, *question.misconceptions.values()]
    asked += [option["score"] for option in question.options]
    for quantity in filter(None, asked):
        assert not re.fullmatch(r"[-\d./ ]+", quantity)
    named = list(question.misconceptions) or [o["mistake"] for o in question.options]
    assert len(set(named)) >= 2


def check_drawn(question: Question, seed: str) -> None:
    drawn = draw_question(question, seed)
    assert "{" not in drawn.text and "*" not in drawn.text
    assert drawn == draw_question(question, seed)
    assert len(drawn.wrong) >= 2
    given = [w.gives for w in drawn.wrong]
    if question.options or question.leaves:
        assert drawn.answer in drawn.options and drawn.answer not in given
        assert len(set(drawn.options)) == len(drawn.options) >= 3
        assert sorted([drawn.answer, *given], key=str) == sorted(drawn.options)
        return
    assert isinstance(drawn.answer, float) and math.isfinite(drawn.answer)
    for i, x in enumerate([drawn.answer, *given]):
        for y in given[i:]:
            assert abs(float(x) - float(y)) >= APART > 2 * drawn.tolerance
    assert drawn.names(drawn.answer) is None
    for wrong in drawn.wrong:
        assert drawn.names(wrong.gives) == wrong


@pytest.mark.parametrize("question", some_quick(bank(), 8), ids=lambda q: q.id)
def test_a_question_has_one_answer_that_no_mistake_gives(question: Question) -> None:
    for seed in range(20):
        check_drawn(question, str(seed))


@pytest.mark.slow
@pytest.mark.parametrize("question", bank(), ids=lambda q: q.id)
def test_a_question_has_one_answer_at_many_seeds(question: Question) -> None:
    for seed in range(20, 90):
        check_drawn(question, f"student {seed}")


@pytest.mark.parametrize(
    "question", some_quick([q for q in bank() if q.numbers], 8), ids=lambda q: q.id
)
def test_numbers_differ_from_seed_to_seed(question: Question) -> None:
    texts = {draw_question(question, str(seed)).text for seed in range(40)}
    assert len(texts) >= 3


def answer(identifier: str, **numbers: float) -> tuple[float, dict[str, float]]:
    """A question at numbers of our own: its answer, and what its misconceptions give."""
    question = BY_ID[identifier]
    fixed = {name: (numbers[name],) for name in question.numbers}
    changed = Question(**{**vars(question), "numbers": fixed})
    drawn = draw_question(changed, "any")
    assert isinstance(drawn.answer, float)
    return drawn.answer, {w.name: float(w.gives) for w in drawn.wrong}


def test_known_answers() -> None:
    """By hand, from the examples every lesson uses."""
    assert answer("square", a=3) == (6, {"overwrote": 3, "output-not-derivative": 9})
    right, wrong = answer("diamond", a=2, k=1, m=3)
    assert right == 15 and wrong["overwrote"] in (6, 9)
    assert answer("cubic", x=2, k=5)[0] == 17
    assert answer("distributor", a=2, b=-3, c=10) == (10, {"local": 1, "other-input": -1})
    assert answer("chain-of-three", a=2, b=-3, c=5, f=-2)[0] == 6
    assert answer("edge", a=2, b=-3, c=10)[0] == 10
    at = dict(x=2, p=1, k=1, m=3)
    assert answer("a-too-early", **at) == (6, {"right-anyway": 15, "lost-part": 9})
    assert answer("assignment", **at)[0] == 9
    assert answer("plain-recursion", **at) == (21, {"right-anyway": 15, "path-missing": 6})
    assert answer("how-much-is-lost", **at) == (6, {"kept-part": 9, "whole": 15})
    right, wrong = answer("breadth-first", x=1, p=2, q=3, k=1)
    assert (right, wrong["right-anyway"], wrong["recursion-twice"]) == (14, 26, 40)
    assert answer("router", a=2, b=-3, c=5) == (5, {"half-shared": 2.5, "local": 1})
    assert answer("residual", x=1, w=3, v=4)[0] == 15
    assert answer("tanh-by-output", n=0.5)[0] == pytest.approx(1 - math.tanh(0.5) ** 2)


def test_numbers_are_drawn_again_where_a_mistake_would_be_right() -> None:
    """2·a and a² are the same at 2."""
    question = BY_ID["square"]
    changed = Question(**{**vars(question), "numbers": {"a": (0.0, 2.0, 5.0)}})
    for seed in range(30):
        assert "a = 5" in draw_question(changed, str(seed)).text
    never = Question(**{**vars(question), "numbers": {"a": (2.0,)}})
    with pytest.raises(ValueError, match="question square: no numbers"):
        draw_question(never, "any")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, "unknown colour"),
        ({"misconceptions": {"nobody-said-this": "value f"}}, "has no 'nobody-said-this'"),
    ],
)
def test_a_question_with_a_fault_says_which(change: dict[str, Any], message: str) -> None:
    text = (QUESTIONS / "value.toml").read_text(encoding="utf-8")
    entry = {"kind": "value", **tomllib.loads(text)["question"][0], **change}
    with pytest.raises(ValueError, match=message):
        bank_module._question(entry, "value.toml")


# -- quantities ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quantity", "number"),
    [
        ("value d", 18), ("gradient x", 15), ("local d.0", 6), ("local d.1", 3), ("push d.0", 6),
        ("overwritten x", 9), ("received x (d b a c)", 6), ("received x (plain recursion)", 21),
        ("received x (twice)", 60), ("received x (depth-first)", 6), ("lost x (d b a c)", 9),
        ("through x (b)", 6), ("through x (c)", 9), ("paths x", 2), ("edges", 5), ("uses a", 2),
        ("visits (plain recursion)", 5), ("minus gradient x", -15), ("3.5", 3.5),
        ("compute grad_b + paths_x*x", 10), ("minus compute b*c", -18),
    ],
)  # fmt: skip
def test_quantities(quantity: str, number: float) -> None:
    assert Quantities(DIAMOND, {"x": 2})(quantity) == number


@pytest.mark.parametrize(
    "quantity",
    ["gradient", "gradient q", "colour x", "compute q + 1", "local d.7", "through x (q)"],
)
def test_what_is_no_quantity_says_so(quantity: str) -> None:
    with pytest.raises(ValueError, match=re.escape(quantity.split(" (")[0])):
        Quantities(DIAMOND, {"x": 2})(quantity)


# -- quizzes ---------------------------------------------------------------------------------------


# What Ada was given: whoever got a quiz can be given it again, on any machine, in any release.
FROZEN = [
    ("dense-weight", "X has shape (6, 7), W has shape (7, 3)"),
    ("lower-it", "a = 9, b = 4, c = −5"),
    ("distributor", "a = 8, b = −8, c = −8"),
    ("cubic-value", "x = −2"),
    ("denominator", "a = 2 and b = 4"),
    ("how-much-is-lost", "x = 1"),
    ("doubling", "v5 = v4·v4"),
]


def test_a_quiz_is_the_same_on_every_machine() -> None:
    questions = make_quiz("Ada Lovelace", 7).questions
    assert [q.id for q in questions] == [identifier for identifier, _ in FROZEN]
    for question, (_, numbers) in zip(questions, FROZEN):
        assert numbers in question.text


def test_draws_are_spread_evenly() -> None:
    draw = ChoiceStream("die")
    rolled = [draw.integer(1, 6) for _ in range(6000)]
    assert set(rolled) == set(range(1, 7))
    assert all(abs(rolled.count(face) - 1000) < 150 for face in range(1, 7))
    assert sorted(draw.shuffled(range(50))) == list(range(50))


def test_a_name_may_be_typed_in_several_ways() -> None:
    assert make_quiz("Zoë").questions == make_quiz("Zoe\N{COMBINING DIAERESIS}").questions
    assert make_quiz("Zoë").questions != make_quiz("Zoe").questions


@pytest.mark.slow
def test_a_quiz_has_many_kinds_and_no_question_twice() -> None:
    for seed in map(str, range(20)):
        questions = make_quiz(seed, 10).questions
        assert len({q.kind for q in questions}) == len(KINDS)
        assert len({q.id for q in questions}) == 10
        assert make_quiz(seed, 4).questions == questions[:4]
    assert {q.id for q in make_quiz("all", 40).questions} == set(BY_ID)
    with pytest.raises(ValueError, match="40 questions, not 41"):
        make_quiz("more", 41)


def test_text_has_answers_only_if_asked() -> None:
    quiz = make_quiz("text", 40)
    with_answers, without = as_text(quiz, True), as_text(quiz, False)
    assert max(map(len, without.splitlines())) <= 80
    assert with_answers.count("Answer: ") == 40
    assert "Answer" not in without and "✗" not in without
    for place in range(1, 41):
        assert f"\n{place}. " in without
    assert "parent" not in with_answers.lower() and "child" not in with_answers.lower()


def test_json_has_answers_only_if_asked() -> None:
    quiz = make_quiz("json", 40)
    found = json.loads(as_json(quiz, True))
    assert found["schema"] == "gradwalk.quiz/1"
    for question, drawn in zip(found["questions"], quiz.questions, strict=True):
        assert question["answer"] == drawn.answer
        assert len(question["misconceptions"]) >= 2
        assert ("options" in question) == bool(drawn.options)
    for question in json.loads(as_json(quiz, False))["questions"]:
        assert question.keys() <= {"id", "kind", "text", "options"}


# -- GIFT ------------------------------------------------------------------------------------------

ESCAPES = {":": "\ue000", "#": "\ue001", "=": "\ue002", "{": "\ue003", "}": "\ue004", "~": "\ue005"}


def read_gift(text: str) -> list[dict[str, Any]]:
    """A small reader that follows Moodle's: placeholders for escapes, then plain splitting."""
    found = []
    for part in re.split(r"\n\s*\n", text.strip()):
        lines = [line for line in part.splitlines() if not line.strip().startswith("//")]
        body = "\n".join(lines).strip()
        if not body or body.startswith("$CATEGORY:"):
            continue
        for sign, place in ESCAPES.items():
            body = body.replace(f"\\{sign}", place)
        match = re.fullmatch(r"::([^:]+)::\[plain\]([^{}]*)\{([^{}]*)\}", body, re.S)
        assert match, part
        name, question, answers = match.groups()
        numeric = answers.lstrip().startswith("#")
        assert ("~" in answers) is True
        if numeric:
            right, _, other = answers.strip()[1:].partition("~")
            assert other.startswith("#")
            entries = [e.strip() for e in right.split("=") if e.strip()]
        else:
            entries = [e.strip() for e in answers.replace("=", "~=").split("~") if e.strip()]
        found.append(
            {
                "name": back(name),
                "text": back(question),
                "answers": [read_answer(entry, numeric) for entry in entries],
            }
        )
    return found


def read_answer(entry: str, numeric: bool) -> tuple[Any, float, str]:
    """What is answered, how much it counts, and what is said."""
    what, _, said = entry.partition("#")
    if not numeric:
        right = what.startswith("=")
        return back(what.removeprefix("=")), float(right), back(said)
    match = re.fullmatch(r"%(\d+)%(-?[\d.]+):([\d.]+)", what.strip())
    assert match, entry
    weight, x, tolerance = map(float, match.groups())
    return (x, tolerance), weight / 100, back(said)


def back(text: str) -> str:
    for sign, place in ESCAPES.items():
        text = text.replace(place, sign)
    return text.strip()


def test_gift_round_trip() -> None:
    quiz = make_quiz("Moodle", 40)
    found = read_gift(as_gift(quiz))
    assert len(found) == 40
    for read, drawn in zip(found, quiz.questions, strict=True):
        assert read["text"] == drawn.text
        assert read["name"].endswith(drawn.id)
        right = [what for what, weight, _ in read["answers"] if weight == 1]
        assert len(right) == 1
        said = {what: says for what, weight, says in read["answers"] if weight == 0}
        assert len(said) == len(drawn.wrong)
        if drawn.options:
            assert right == [drawn.answer]
            assert [what for what, _, _ in read["answers"]] == list(drawn.options)
            assert said == {w.gives: w.says for w in drawn.wrong}
        else:
            assert right[0][0] == pytest.approx(drawn.answer, abs=1e-6)
            assert right[0][1] == drawn.tolerance
            for wrong in drawn.wrong:
                (says,) = [s for (x, _), s in said.items() if abs(x - float(wrong.gives)) < 1e-6]
                assert says == wrong.says


def test_a_seed_cannot_break_out_of_the_gift_comment() -> None:
    text = as_gift(make_quiz("Ada\n\n::x:: y {=z}", 3))
    assert text.splitlines()[0] == "// Quiz for Ada ::x:: y {=z}"
    assert len(read_gift(text)) == 3
