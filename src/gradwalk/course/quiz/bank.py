"""The question bank: TOML files in questions/, read and drawn.

A question is a text, a graph, ranges for its numbers, and quantities: the answer, and what each
misconception would give. No number in it is an answer; all are computed when the question is drawn.
docs/learn/course.md describes the files.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradwalk.course.quiz.draw import ChoiceStream
from gradwalk.course.quiz.quantities import Quantities
from gradwalk.course.quiz.shape_questions import Shapes
from gradwalk.printers.scalars import number

QUESTIONS = Path(__file__).with_name("questions")
KINDS = ("value", "local", "gradient", "order", "paths", "shape", "choice")
MISCONCEPTIONS = "misconceptions.toml"
TRIES = 500  # draws until no misconception gives the answer
APART = 0.02  # between the answer and what mistakes give
LARGEST = 10_000.0
_PLACE = re.compile(r"\{(\w+)\}")
_KEYS = {
    "id", "kind", "text", "graph", "numbers", "answer", "misconceptions", "options", "leaves",
    "steps",
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """One question of the bank, before its numbers are drawn."""

    id: str
    kind: str
    text: str
    graph: tuple[str, ...] = ()  # one of them is drawn
    numbers: Mapping[str, Sequence[float]] = field(default_factory=dict)
    answer: str = ""
    misconceptions: tuple[tuple[str, str], ...] = ()  # name, quantity
    options: tuple[tuple[str, str, str], ...] = ()  # text, quantity, misconception
    leaves: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of arrays
    steps: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Wrong:
    """The answer a misconception gives, and the feedback for it."""

    name: str
    gives: float | str
    says: str


@dataclass(frozen=True)
class Drawn:
    """A question with its numbers."""

    id: str
    kind: str
    text: str
    answer: float | str
    wrong: tuple[Wrong, ...]
    options: tuple[str, ...] = ()  # of a multiple choice, in the order to be shown

    @property
    def tolerance(self) -> float:
        """How far a typed answer may be off: long decimals are rounded."""
        assert isinstance(self.answer, float)
        return 0.001 if _is_short(self.answer) else 0.006

    def names(self, typed: float | str) -> Wrong | None:
        """The misconception that gives this answer."""
        for wrong in self.wrong:
            if wrong.gives == typed:
                return wrong
            if not isinstance(typed, str) and abs(float(wrong.gives) - typed) <= self.tolerance:
                return wrong
        return None


@functools.cache
def bank() -> tuple[Question, ...]:
    """Every question, by kind and in the order of its file."""
    questions: dict[str, Question] = {}
    for kind in KINDS:
        path = QUESTIONS / f"{kind}.toml"
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["question"]:
            question = _question({"kind": kind, **entry}, path.name)
            if question.id in questions:
                raise ValueError(f"two questions are called {question.id}")
            questions[question.id] = question
    return tuple(questions.values())


@functools.cache
def misconceptions() -> dict[str, str]:
    """The feedback for each misconception, by its name."""
    text = (QUESTIONS / MISCONCEPTIONS).read_text(encoding="utf-8")
    return {name: str(says) for name, says in tomllib.loads(text).items()}


def _question(entry: dict[str, Any], file: str) -> Question:
    unknown = entry.keys() - _KEYS
    if unknown:
        raise ValueError(f"{file}, {entry.get('id')}: unknown {', '.join(sorted(unknown))}")
    graph = entry.get("graph", ())
    question = Question(
        id=entry["id"],
        kind=entry["kind"],
        text=entry["text"],
        graph=(graph,) if isinstance(graph, str) else tuple(graph),
        numbers={name: _range(spec) for name, spec in entry.get("numbers", {}).items()},
        answer=entry.get("answer", ""),
        misconceptions=tuple(entry.get("misconceptions", {}).items()),
        options=tuple((o["text"], o["score"], o["mistake"]) for o in entry.get("options", ())),
        leaves=entry.get("leaves", {}),
        steps=tuple(map(tuple, entry.get("steps", ()))),
    )
    named = [name for name, _ in question.misconceptions] or [o[2] for o in question.options]
    for name in named:
        if name not in misconceptions():
            raise ValueError(f"{file}, {question.id}: {MISCONCEPTIONS} has no '{name}'")
    return question


def _range(spec: Mapping[str, Any] | Sequence[float]) -> Sequence[float]:
    """`{from = 1, to = 9, step = 0.5, not = [2]}`, or a list of the numbers themselves."""
    if not isinstance(spec, Mapping):
        return tuple(map(float, spec))
    step = float(spec.get("step", 1))
    count = round((spec["to"] - spec["from"]) / step)
    every = [spec["from"] + i * step for i in range(count + 1)]
    return tuple(float(x) for x in every if x not in spec.get("not", ()))


# -- drawing ---------------------------------------------------------------------------------------


def draw_question(question: Question, seed: str) -> Drawn:
    """Draw the numbers of a question from a text; no mistake gives the right answer with them."""
    draw = ChoiceStream(f"{question.id} for {seed}")
    for _ in range(TRIES):
        numbers = {name: draw.choice(choices) for name, choices in question.numbers.items()}
        graph = draw.choice(question.graph) if question.graph else ""
        drawn = _drawn(question, graph, numbers, draw)
        if drawn is not None:
            return drawn
    raise ValueError(f"question {question.id}: no numbers were found that tell mistakes apart")


def _drawn(
    question: Question, graph: str, numbers: dict[str, float], draw: ChoiceStream
) -> Drawn | None:
    fill = functools.partial(_fill, numbers=numbers)
    if question.leaves:
        return _shape_question(question, fill, numbers, draw)
    source = _PLACE.sub(lambda m: f"{numbers[m[1]]:g}", graph)
    leaves = {n: x for n, x in numbers.items() if re.search(rf"\b{n}\b", source)}
    measure = Quantities(source, leaves)
    if question.options:
        return _choice_question(question, fill, measure, numbers, draw)
    answer = measure(question.answer, **numbers)
    known = {**numbers, "answer": answer}
    wrong = [
        Wrong(name, measure(gives, **known), misconceptions()[name])
        for name, gives in question.misconceptions
    ]
    if not _tells_apart([answer, *(float(w.gives) for w in wrong)]):
        return None
    rounding = "" if _is_short(answer) else " (two decimals)"
    shown = graph.replace("*", "·")
    known = {name: measure.value(name) for name in measure.index} | numbers
    text = _fill(question.text.replace("{graph}", shown), known)
    return Drawn(question.id, question.kind, text + rounding, answer + 0.0, tuple(wrong))


def _fill(text: str, numbers: Mapping[str, float]) -> str:
    return _PLACE.sub(lambda match: number(numbers[match[1]]), text)


def _is_short(x: float) -> bool:
    """Whether two decimals are exact."""
    return math.isclose(x, round(x, 2), rel_tol=0, abs_tol=1e-9)


def _tells_apart(numbers: Sequence[float]) -> bool:
    if not all(math.isfinite(x) and abs(x) <= LARGEST for x in numbers):
        return False
    ordered = sorted(numbers)
    return all(b - a >= APART for a, b in itertools.pairwise(ordered))


def _shape_question(
    question: Question, fill: Callable[[str], str], numbers: Mapping[str, float], draw: ChoiceStream
) -> Drawn | None:
    leaves = {
        name: [int(numbers[size]) for size in sizes] for name, sizes in question.leaves.items()
    }
    shape = Shapes(leaves, question.steps)
    answer = shape(question.answer)
    wrong = tuple(
        Wrong(name, shape(gives), misconceptions()[name]) for name, gives in question.misconceptions
    )
    options = [answer, *(str(w.gives) for w in wrong)]
    if len(set(options)) < len(options):
        return None
    shuffled = tuple(draw.shuffled(options))
    return Drawn(question.id, question.kind, fill(question.text), answer, wrong, shuffled)


def _choice_question(
    question: Question,
    fill: Callable[[str], str],
    measure: Quantities,
    numbers: Mapping[str, float],
    draw: ChoiceStream,
) -> Drawn | None:
    """The option with the largest score is right; it must stand out clearly."""
    scored = [
        (measure(score, **numbers), fill(text), name) for text, score, name in question.options
    ]
    best, second = sorted((score for score, _, _ in scored), reverse=True)[:2]
    if not math.isfinite(best) or best - second < APART:
        return None
    answer = next(text for score, text, _ in scored if score == best)
    wrong = tuple(
        Wrong(name, text, misconceptions()[name]) for score, text, name in scored if score != best
    )
    shuffled = tuple(draw.shuffled([text for _, text, _ in scored]))
    return Drawn(question.id, question.kind, fill(question.text), answer, wrong, shuffled)
