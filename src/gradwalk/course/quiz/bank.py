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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from gradwalk.course.quiz.draw import ChoiceStream
from gradwalk.course.quiz.quantities import Quantities, Shapes
from gradwalk.printers.scalars import number

QUESTIONS = Path(__file__).with_name("questions")
KINDS = ("value", "local", "gradient", "order", "paths", "shape", "choice")
MISCONCEPTIONS = "misconceptions.toml"
TRIES = 500  # draws until no misconception gives the answer
APART = 0.02  # between the answer and what mistakes give
LARGEST = 10_000.0
_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Question:
    """One question of the bank, before its numbers are drawn."""

    id: str
    kind: str
    text: str
    graph: str | Sequence[str] = ()  # one of several is drawn
    numbers: Mapping[str, Mapping[str, Any] | Sequence[float]] = field(default_factory=dict)
    answer: str = ""
    misconceptions: Mapping[str, str] = field(default_factory=dict)  # name -> quantity
    options: Sequence[Mapping[str, str]] = ()  # each a text, a quantity, a misconception
    leaves: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of arrays
    steps: Sequence[Sequence[str]] = ()


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
    unknown = entry.keys() - {f.name for f in fields(Question)}
    if unknown:
        raise ValueError(f"{file}, {entry.get('id')}: unknown {', '.join(sorted(unknown))}")
    question = Question(**entry)
    for name in [*question.misconceptions, *(option["mistake"] for option in question.options)]:
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
    ranges = {name: _range(spec) for name, spec in question.numbers.items()}
    graphs = [question.graph] if isinstance(question.graph, str) else question.graph
    make = _shapes if question.leaves else _choices if question.options else _number
    for _ in range(TRIES):
        numbers = {name: draw.choice(choices) for name, choices in ranges.items()}
        graph = draw.choice(graphs) if graphs else ""
        drawn = make(question, graph, numbers)
        if drawn is not None:
            options = tuple(draw.shuffled(drawn.options)) if drawn.options else ()
            return replace(drawn, options=options)
    raise ValueError(f"question {question.id}: no numbers were found that tell mistakes apart")


def _drawn(
    question: Question, text: str, answer: float | str, gives: Iterable[tuple[str, float | str]]
) -> Drawn:
    wrong = tuple(Wrong(name, given, misconceptions()[name]) for name, given in gives)
    return Drawn(question.id, question.kind, text, answer, wrong)


def _measured(graph: str, numbers: Mapping[str, float]) -> Quantities:
    source = _PLACE.sub(lambda m: f"{numbers[m[1]]:g}", graph)
    return Quantities(source, {n: x for n, x in numbers.items() if re.search(rf"\b{n}\b", source)})


def _number(question: Question, graph: str, numbers: Mapping[str, float]) -> Drawn | None:
    """A number is asked for, and each mistake gives another."""
    measure = _measured(graph, numbers)
    answer = measure(question.answer, **numbers)
    known = {**numbers, "answer": answer}
    gives = {name: measure(text, **known) for name, text in question.misconceptions.items()}
    ordered = sorted([answer, *gives.values()])
    if not all(math.isfinite(x) and abs(x) <= LARGEST for x in ordered):
        return None
    if any(b - a < APART for a, b in itertools.pairwise(ordered)):
        return None
    rounding = "" if _is_short(answer) else " (two decimals)"
    named = {name: measure.value(name) for name in measure.index}
    text = _fill(question.text.replace("{graph}", graph.replace("*", "·")), {**named, **numbers})
    return _drawn(question, text + rounding, answer + 0.0, gives.items())


def _shapes(question: Question, graph: str, numbers: Mapping[str, float]) -> Drawn | None:
    """The shape of a gradient is asked for, and each mistake gives another."""
    leaves = {n: [int(numbers[size]) for size in sizes] for n, sizes in question.leaves.items()}
    shape = Shapes(leaves, question.steps)
    gives = {name: shape(text) for name, text in question.misconceptions.items()}
    options = (shape(question.answer), *gives.values())
    if len(set(options)) < len(options):
        return None
    drawn = _drawn(question, _fill(question.text, numbers), options[0], gives.items())
    return replace(drawn, options=options)


def _choices(question: Question, graph: str, numbers: Mapping[str, float]) -> Drawn | None:
    """The option with the largest score is right; it must stand out clearly."""
    measure = _measured(graph, numbers)
    scores = [measure(option["score"], **numbers) for option in question.options]
    texts = [_fill(option["text"], numbers) for option in question.options]
    second, best = sorted(scores)[-2:]
    if not math.isfinite(best) or best - second < APART:
        return None
    right = scores.index(best)
    gives = ((o["mistake"], texts[i]) for i, o in enumerate(question.options) if i != right)
    drawn = _drawn(question, _fill(question.text, numbers), texts[right], gives)
    return replace(drawn, options=tuple(texts))


def _fill(text: str, numbers: Mapping[str, float]) -> str:
    return _PLACE.sub(lambda match: number(numbers[match[1]]), text)


def _is_short(x: float) -> bool:
    """Whether two decimals are exact."""
    return math.isclose(x, round(x, 2), rel_tol=0, abs_tol=1e-9)
