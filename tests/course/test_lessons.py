"""The lessons: that they can be read, that their answers are right, and that page and Python agree.

The course teaches the numbers of docs/learn/textbook-examples.md; they are repeated here.
"""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import pytest

from gradwalk.course.catalogue import Catalogue, count_tasks
from gradwalk.course.lesson_files import CORES, Block, faults, shortcomings, told_apart
from gradwalk.course.quiz.quantities import Quantities, read_number
from gradwalk.inspect.expression.parser import expression
from tests.course.lesson_files import ENGLISH, Lesson, english, read_lesson
from tests.quick import some_quick
from tests.studio.node import Node

LESSONS = english()
QUESTIONS = [(lesson, block) for lesson in LESSONS for block in lesson.questions]
NUMERIC = [(lesson, block) for lesson, block in QUESTIONS if block.one("answer")]
FIELDS = {
    "graph": {"id", "source", "set", "step"},
    "question": {
        "id", "source", "set", "ask", "answer", "choice", "wrong", "hint", "explain",
    },
    "order": {"id", "source", "set", "ask", "goal", "hint", "explain", "overwrite"},
    "byhand": {"id", "source", "set", "ask", "asks", "hint", "explain"},
    "core": {"id", "source", "set", "ask", "hint", "explain"},
}  # fmt: skip

ORDER = [
    "Nudge", "Draw the graph", "Local derivatives", "Walk it backward", "Add what arrives", "Order",
    "Write the engine",
]  # fmt: skip
LATER = ("write-the-engine",)
NEURON = "p = x1*w1; q = x2*w2; s = p + q; n = s + b; o = tanh(n)"
DIAMOND = "a = x*1; b = a + 1; c = 3*a; d = b*c"
EXPOSES = "a = 2*x; b = 3*a; c = b + 1; d = a*c"
BIAS = 6.8813735870195432
# A graph, the numbers of its leaves, and what must come out of it.
TEXTBOOK: list[tuple[str, dict[str, float], dict[str, float]]] = [
    (
        "e = a + b; f = e * c",
        {"a": 2, "b": -3, "c": 10},
        {
            "value e": -1, "value f": -10, "local f.0": 10,
            "gradient f": 1, "gradient e": 10, "gradient c": -1, "gradient a": 10, "gradient b": 10,
        },
    ),
    (
        "e = a * b; d = e + c; L = d * f",
        {"a": 2, "b": -3, "c": 5, "f": -2},
        {
            "value e": -6, "value d": -1, "value L": 2, "gradient f": -1, "gradient d": -2,
            "gradient e": -2, "gradient c": -2, "gradient a": 6, "gradient b": -4,
        },
    ),
    (
        NEURON,
        {"x1": 2, "w1": -3, "x2": 0, "w2": 1, "b": BIAS},
        {
            "value p": -6, "value q": 0, "value s": -6, "value n": 0.8814, "value o": 0.7071,
            "gradient p": 0.5, "gradient q": 0.5, "gradient s": 0.5, "gradient n": 0.5,
            "gradient w1": 1, "gradient x1": -1.5, "gradient w2": 0, "gradient x2": 0.5,
            "gradient b": 0.5,
        },
    ),
    (
        "f = a * a",
        {"a": 3},
        {"value f": 9, "gradient a": 6, "overwritten a": 3, "paths a": 2},
    ),
    ("b = a + a", {"a": 4}, {"gradient a": 2, "overwritten a": 1}),
    ("y = x^3 + 5*x", {"x": 2}, {"value y": 18, "gradient x": 17}),
    ("m = max(a, b)", {"a": 2, "b": -3}, {"local m.0": 1, "gradient b": 0}),
    ("m = max(a, b)", {"a": 2, "b": 2}, {"local m.0": 0.5, "local m.1": 0.5}),
    (
        DIAMOND,
        {"x": 2},
        {
            "value b": 3, "value c": 6, "value d": 18, "gradient x": 15, "gradient a": 15,
            "received x (d c a b)": 9, "received x (d b a c)": 6, "overwritten x": 9,
            "received x (plain recursion)": 21, "received x (depth-first)": 6,
            "received x (breadth-first)": 15, "received x (twice)": 60,
        },
    ),
    (
        "b = a + 1; c = 3*a; d = b*c",
        {"a": 2},
        {"gradient a": 15, "received a (b d c a)": 9},
    ),
    (
        EXPOSES,
        {"x": 1},
        {
            "gradient x": 26, "received x (breadth-first)": 14,
            "received x (plain recursion)": 40,
        },
    ),
]  # fmt: skip
# Textbook numbers that are no quantity of a small graph, as the lessons write them.
WRITTEN = [
    "8 of the\n24 orders give 15, 4 give 9, 4 give 6 and 8 give 0",
    "exactly 2 give 15. Two give 9, two give 6, and 18 give 0",
    "never more than 0.25", "½ each",
]  # fmt: skip


def named(pairs: list[tuple[Lesson, Block]], every: int = 1) -> list[Any]:
    """One case for each; of `every` so many one is quick."""
    return [
        pytest.param(
            *pair, id=f"{pair[0].id}-{pair[1].id}", marks=[pytest.mark.slow] * (i % every > 0)
        )
        for i, pair in enumerate(pairs)
    ]


# -- each lesson -----------------------------------------------------------------------------------


def test_the_lessons_are_in_their_order() -> None:
    titles = [str(lesson.head["title"]) for lesson in LESSONS]
    assert [title for title in titles if title in ORDER] == ORDER
    orders = [lesson.head["order"] for lesson in LESSONS]
    assert len(set(orders)) == len(orders)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_a_lesson_is_well_formed(lesson: Lesson) -> None:
    ids = [block.id for block in lesson.blocks]
    assert all(ids) and len(ids) == len(set(ids))
    assert int(str(lesson.head["minutes"])) > 0
    if lesson.id not in LATER:
        assert shortcomings(lesson.text) == []
    for block in lesson.blocks:
        own = CORES.get(block.core, {})
        unknown = {name for name, _ in block.fields} - FIELDS[block.kind] - {*own}
        assert not unknown, (block.id, unknown)
        if block.kind != "graph":
            assert block.one("ask"), block.id
        if block.kind != "question" and (block.kind != "core" or "source" in own):
            assert block.source, block.id
    links = re.findall(r"\]\(([^)]+)\)", lesson.text)
    assert all((ENGLISH / link).is_file() or link.startswith("https://") for link in links)
    for word in ("parent", "child", "step back"):
        assert word not in lesson.text.lower()


@pytest.mark.parametrize("lesson", LESSONS[:3], ids=lambda lesson: lesson.id)
def test_the_first_lessons_do_without_the_word_gradient(lesson: Lesson) -> None:
    assert not re.findall(r"\w*grad\w*", lesson.text, re.IGNORECASE)
    assert lesson.head["shows"] in ("values", "edges")


def test_the_catalogue_counts_what_there_is_to_do() -> None:
    counts = {entry["id"]: entry["tasks"] for entry in Catalogue().lessons["en"]}
    assert counts == {lesson.id: len(lesson.tasks) for lesson in LESSONS}


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("```question\nid: a\n```\n```byhand\nid: b\n```\n", 2),
        ("```text\n```question\n```\n", 0),  # inside other code: one block that is text
        ("```graph\nid: a\n```\n\n``` order \nid: b\n```\n", 1),
        ("```core nudge\nid: a\n```\n```core  none \n```\n```python core\n", 2),
        ("question\n", 0),
    ],
)
def test_tasks_are_counted_as_the_page_counts_them(
    tmp_path: Path, engine: Node, text: str, tasks: int
) -> None:
    path = tmp_path / "one.md"
    path.write_text(f"---\ntitle: One\nminutes: 1\norder: 1\n---\n{text}", encoding="utf-8")
    assert count_tasks(path) == tasks
    assert len(engine("reader.readLesson", path.read_text("utf-8"))["tasks"]) == tasks


# -- each question ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("lesson", "block"), named(QUESTIONS))
def test_a_question_has_one_answer_and_names_two_mistakes(lesson: Lesson, block: Block) -> None:
    assert bool(block.one("answer")) != bool(block.choices)
    assert block.all("hint")
    if block.choices:
        assert [right for right, _, _ in block.choices].count(True) == 1
        assert len(block.choices) >= 3
        assert all(text and says for _, text, says in block.choices)
        assert len({text for _, text, _ in block.choices}) == len(block.choices)
        return
    assert block.one("explain")
    assert len(block.wrong) >= 2 and all(says for _, says in block.wrong)
    numbers = [block.answer, *(block.number(quantity) for quantity, _ in block.wrong)]
    assert all(map(math.isfinite, numbers))
    for one, other in itertools.combinations(numbers, 2):
        assert told_apart(one, other), (block.id, numbers)


@pytest.mark.parametrize(("lesson", "block"), named(NUMERIC, every=8))
def test_the_page_computes_the_same_answers(lesson: Lesson, block: Block, engine: Node) -> None:
    found = engine("reader.readLesson", lesson.text)
    read = next(other for other in found["blocks"] if other["id"] == block.id)
    numbers = engine("quantities.numbersOf", read)
    quantities = [block.one("answer"), *(quantity for quantity, _ in block.wrong)]
    page = engine.each("quantities.quantity", [[numbers, text] for text in quantities])
    assert page == pytest.approx([block.number(text) for text in quantities], rel=1e-12)
    for typed in spellings(block.answer):
        assert engine("answers.judge", read, numbers, typed)["verdict"] == "right", typed
    for (quantity, says), there in zip(block.wrong, read["wrong"], strict=True):
        for typed in spellings(block.number(quantity)):
            judged = engine("answers.judge", read, numbers, typed)
            assert judged == {"verdict": "wrong", "says": there["feedback"]}, typed
        assert engine("reader.plainText", there["feedback"]) == re.sub(r"[*`]", "", says)


def spellings(number: float) -> list[str]:
    """How people write a number."""
    short = f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"
    fraction = f"{number * 2:.4f}/2"
    written = [repr(number), short, fraction, f" {short} ", short.replace(".", ",")]
    return [*written, *(text.replace("-", "−") for text in written)]


@pytest.mark.parametrize(
    ("typed", "verdict"),
    [
        ("-1.5", "right"), ("−1.5", "right"), ("-3/2", "right"), ("−3/2", "right"),
        ("−1,5", "right"), ("-1.50", "right"), ("-1.504", "right"), ("-1.52", "wrong"),
        ("1.5", "wrong"), ("-1.5.", "unread"), ("minus 1.5", "unread"), ("", "unread"),
        ("nan", "unread"), ("inf", "wrong"), ("-3/0", "wrong"), ("1/2/3", "unread"),
        ("- 1.5", "right"), ("− 1,5", "right"), ("- 3 / 2", "right"), ("1 5", "unread"),
        ("-1,500", "unread"), ("-1.500", "right"), ("- - 1.5", "unread"),
    ],
)  # fmt: skip
def test_a_typed_number(engine: Node, typed: str, verdict: str) -> None:
    file = "```question\nid: a\nask: ?\nanswer: -1.5\nwrong: 3 | x\nwrong: 4 | y\n```\n"
    block = engine("reader.readLesson", file)["blocks"][0]
    assert engine("answers.judge", block, None, typed)["verdict"] == verdict


@pytest.mark.parametrize(
    ("answer", "typed", "verdict"),
    [
        ("256", "256", "right"), ("256", "255", "wrong"), ("256", "257", "wrong"),
        ("0", "0", "right"), ("0", "-0", "right"), ("0", "0.001", "wrong"),
        ("0.7071", "0.71", "right"), ("0.7071", "0.7", "wrong"), ("1000", "1001", "wrong"),
        ("1", "1,000", "unread"), ("1000", "1,000", "unread"), ("1000", "1000", "right"),
        ("3", "3,000", "unread"), ("0.125", "0,125", "right"), ("12.5", "12,50", "right"),
        ("1", "1,0", "right"), ("4000", "1,000,000", "unread"), ("500", "1,000/2", "unread"),
    ],
)  # fmt: skip
def test_whole_numbers_are_not_rounded(engine: Node, answer: str, typed: str, verdict: str) -> None:
    file = f"```question\nid: a\nask: ?\nanswer: {answer}\nwrong: 3 | x\nwrong: 4 | y\n```\n"
    block = engine("reader.readLesson", file)["blocks"][0]
    assert engine("answers.judge", block, None, typed)["verdict"] == verdict


WRITTEN_NUMBERS = [
    "1.5", "1,5", "3/2", "-3/2", "− 1.5", "–1", "+2", "+ 2", "1e-3", "1E3", ".5", ",5", "5.", "5,",
    "1,000", "10,000", "100,000", "1,000,000", "0,125", "00,125", "1,0000", "1,00", "1000,123",
    "1,234e2", "1,000/2", "2/1,000", "3/0", "-3/0", "0/0", "3/-0", "1/2/3", "inf", "-inf", "∞",
    "- ∞", "NaN", "nan", "infinity", "1_000", "0x10", "", " ", "-", "/", "1/", "/2", "1 5", "--1",
    "- - 1", "\t7 ", "1.2.3", "1,2,3", "١", "constructor", "e5", "1e", "1e400", "−0",
]  # fmt: skip


def test_python_reads_numbers_as_the_page_does(engine: Node) -> None:
    page = engine.each("numbers.readNumber", [[text] for text in WRITTEN_NUMBERS])
    python = [read_number(text) for text in WRITTEN_NUMBERS]
    assert list(map(repr, map(as_float, page))) == list(map(repr, python))


def as_float(number: float | None) -> float | None:
    return None if number is None else float(number)


# -- order and byhand blocks -----------------------------------------------------------------------


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_the_page_finds_no_fault_with_a_lesson(lesson: Lesson, engine: Node) -> None:
    found = engine("reader.readLesson", lesson.text)
    assert found["head"] == {name: str(value) for name, value in lesson.head.items()}
    assert [block["id"] for block in found["blocks"]] == [block.id for block in lesson.blocks]
    problems = engine.each("quantities.problemOf", [[block] for block in found["blocks"]])
    assert problems == [None] * len(problems)
    for read, block in zip(found["blocks"], lesson.blocks, strict=True):
        assert (read["source"], read["set"]) == (block.source, block.values)


def test_every_order_asked_for_exists() -> None:
    orders = [block for lesson in LESSONS for block in lesson.blocks if block.kind == "order"]
    assert orders
    for block in orders:
        node = block.one("goal").split()[0]
        measure = Quantities(block.source, block.values)
        inner = [n.label for n in measure.trace if n.op and n.label]
        outcomes = {
            measure(f"received {node} ({' '.join(order)})")
            for order in itertools.permutations(inner)
        }
        goal = block.one("goal")
        wanted = (
            measure(f"gradient {node}")
            if goal.endswith("correct")
            else measure(goal.partition("=")[2].strip())
        )
        assert wanted in outcomes, block.id


# -- what must be taught ---------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "values", "expected"), TEXTBOOK, ids=lambda x: str(x)[:24])
def test_textbook_numbers_come_out(
    source: str, values: dict[str, float], expected: dict[str, float]
) -> None:
    measure = Quantities(source, values)
    assert {q: round(measure(q), 4) for q in expected} == expected


@pytest.mark.parametrize(("source", "values", "expected"), TEXTBOOK, ids=lambda x: str(x)[:24])
def test_mission_numbers_are_asked_for_or_told(
    source: str, values: dict[str, float], expected: dict[str, float]
) -> None:
    about = [b for le in LESSONS for b in le.blocks if (b.source, b.values) == (source, values)]
    assert about, source
    asked = set()
    for block in about:
        if block.one("answer"):
            asked.add(round(block.answer, 4))
        for quantity in asks(block):
            asked.add(round(block.number(quantity), 4))
        if block.kind == "order":
            asked.add(expected["gradient x"])
    told = {number for lesson in LESSONS for number in numbers_in(lesson.text)}
    missing = {q: n for q, n in expected.items() if n not in asked | told}
    assert not missing
    assert set(expected.values()) & asked


def asks(block: Block) -> list[str]:
    """What a byhand block asks for."""
    text = block.one("asks")
    measure = Quantities(block.source, block.values)
    if text == "values":
        return [f"value {n.label}" for n in measure.trace if n.op and n.label]
    if text == "gradients":
        return [f"gradient {name}" for name in measure.index]
    return [part.strip() for part in text.split(",")] if text else []


def numbers_in(text: str) -> set[float]:
    found = re.findall(r"−?\d+(?:\.\d+)?", text)
    return {float(number.replace("−", "-")) for number in found}


def test_what_mission_says_in_words_is_told() -> None:
    text = "\n".join(lesson.text for lesson in LESSONS)
    assert [words for words in WRITTEN if words not in text] == []


CALCULATION = re.compile(r"(−?[\d.(][−\d.()+·×/²³√ ]*[\d)²³]) (=|≈) (−?[\d.]*\d)")


def calculations(text: str) -> list[tuple[str, str, float]]:
    """What a text says is equal: the calculation, the sign, the result."""
    found = []
    for left, sign, right in CALCULATION.findall(re.sub(r"\s+", " ", text)):
        if re.search(r"[+·×/²³−]", left.removeprefix("−")):
            found.append((left, sign, float(right.replace("−", "-"))))
    return found


def wrong_calculations(text: str) -> list[str]:
    """The calculations in a text that do not come out as it says."""
    wrong = []
    for left, sign, right in calculations(text):
        source = left.replace("·", "*").replace("×", "*").replace("−", "-")
        source = re.sub("[²³]", lambda power: "^" + power[0].translate(POWERS), source)
        number = float(expression(f"0*unused + ({source})", {"unused": 1.0}).data)
        near = 0.02 if sign == "≈" else 1e-4
        if not math.isclose(number, right, rel_tol=near, abs_tol=5e-5):
            wrong.append(f"{left} {sign} {right}, and it is {number}")
    return wrong


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_every_calculation_in_the_text_is_right(lesson: Lesson) -> None:
    assert calculations(lesson.text)
    assert wrong_calculations(lesson.text) == []


def test_a_wrong_calculation_is_found() -> None:
    assert wrong_calculations("so 2 · 3 = 6, and −1 − (−2) = 3.") == [
        "−1 − (−2) = 3.0, and it is 1.0"
    ]


POWERS = str.maketrans("²³", "23")


# -- the reader ------------------------------------------------------------------------------------

SAMPLE = """---
title: A sample
minutes: 5
order: 9
---

One **bold *and* so** and `a*b`, 2 * 3 * 4,
on two lines. <b>not HTML</b> [next](walk-it-backward.md) [out](https://example.org)
[bad](javascript:1)

## A heading

- first
  goes on
- second

1. one

```python
x = "```"
```

### Small
"""


def test_markdown_becomes_a_tree(engine: Node) -> None:
    parts = engine("reader.readLesson", SAMPLE)["parts"]
    assert [part["kind"] for part in parts] == [
        "paragraph", "heading", "list", "list", "code", "heading",
    ]  # fmt: skip
    bold = {"tag": "strong", "inside": ["bold ", {"tag": "em", "inside": ["and"]}, " so"]}
    assert parts[0]["text"] == [
        "One ",
        bold,
        " and ",
        {"tag": "code", "inside": ["a*b"]},
        ", 2 * 3 * 4, on two lines. <b>not HTML</b> ",
        {"tag": "a", "to": "walk-it-backward", "inside": ["next"]},
        " ",
        {"tag": "a", "to": "https://example.org", "inside": ["out"]},
        " ",
        "[bad](javascript:1)",
    ]
    assert parts[2] == {"kind": "list", "numbered": False, "items": [["first goes on"], ["second"]]}
    assert parts[3]["numbered"] and parts[4]["text"] == 'x = "```"'
    assert [parts[1]["level"], parts[5]["level"]] == [2, 3]


SPAN = "leaf: a\nfrom: 0\nto: 1\ngoal: agree"


@pytest.mark.parametrize(
    ("block", "key", "text"),
    [
        ("question\nask: ?\nanswer: 1", "missing", "id"),
        ("question\nid: a\nanswer: 1", "missing", "ask"),
        ("question\nid: a\nask: ?", "missing", "answer"),
        ("question\nid: a\nask: ?\nanswer: 1\nchoice: yes | b | c", "missing", "answer"),
        ("question\nid: a\nask: ?\nanswer: value q", "quantity", "value q"),
        ("question\nid: a\nask: ?\nanswer: 1\nwrong: gradient | no", "quantity", "gradient"),
        ("question\nid: a\nid: b\nask: ?\nanswer: 1", "twice", "id"),
        ("question\nid: a\nask: ?\nanswer: 1\ncolour: red", "field", "colour: red"),
        ("graph\nid: a\nsource: f = a*b\nset: a:2", "field", "a:2"),
        ("graph\nid: a", "missing", "source"),
        ("order\nid: a\nsource: f = a*b\ngoal: c = 2", "quantity", "c = 2"),
        ("byhand\nid: a\nsource: f = a*b\nasks: value f, paths a", "quantity", "value f, paths a"),
        ("core none\nid: a\nask: ?", "core", "none"),
        ("core nudge\nid: a\nask: ?\nleaf: a\nfrom: 0\ngoal: agree", "missing", "to"),
        (f"core nudge\nid: a\nask: ?\n{SPAN}", "missing", "source"),
        (f"core nudge\nid: a\nask: ?\nsource: f = b*b\n{SPAN}", "quantity", "leaf: a"),
        (
            f"core nudge\nid: a\nask: ?\nsource: f = a*a\n{SPAN}".replace("agree", "slope"),
            "quantity",
            "goal: slope",
        ),
        (
            "question\nid: a\nask: ?\nsource: f = a*b\nanswer: compute a + c",
            "quantity",
            "compute a + c",
        ),
        ("question\nid: a\nask: ?\nchoice: no | b | c\nchoice: yes", "missing", "answer"),
        ("question\nid: a\nask: ?\nanswer: 1,000", "quantity", "1,000"),
        ("question\nid: a\nask: ?\nsource: f = a*b\nanswer: lost a (f)", "quantity", "lost a (f)"),
        (
            "question\nid: a\nask: ?\nsource: f = a*b\nanswer: received a (twice)",
            "quantity",
            "received a (twice)",
        ),
    ],
)
def test_what_is_wrong_with_a_block_is_said(engine: Node, block: str, key: str, text: str) -> None:
    file = f"---\ntitle: t\n---\n\n```{block}\n```\n"
    read = engine("reader.readLesson", file)["blocks"][0]
    problem = engine("quantities.problemOf", read)
    assert problem == {"key": f"lesson.wrong.{key}", "values": {"text": text}}
    (fault,) = faults(file)
    assert (fault.line, fault.key, fault.text) == (read["line"], key, text)
    assert text in str(fault) and "line 6" in str(fault)


@pytest.mark.parametrize("lesson", some_quick(LESSONS, 3), ids=lambda lesson: lesson.id)
def test_python_finds_the_faults_that_the_page_finds(lesson: Lesson, engine: Node) -> None:
    """Also in what is left of a lesson when one of its lines is lost."""
    assert faults(lesson.text) == []
    lines = lesson.text.splitlines()
    inside = [i for i, line in enumerate(lines) if re.match(r"\w+:|```", line)]
    files = ["\n".join(lines[:i] + lines[i + 1 :]) for i in inside[:: len(inside) // 12]]
    for file in files:
        blocks = engine("reader.readLesson", file)["blocks"]
        problems = engine.each("quantities.problemOf", [[block] for block in blocks])
        page = {
            (block["line"], problem["key"].rpartition("lesson.wrong.")[2])
            for block, problem in zip(blocks, problems, strict=True)
            if problem
        }
        python = {(fault.line, fault.key) for fault in faults(file)}
        assert python == page


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("answer: 4\nwrong: 4.01 | no", "'4.01' is too near to another answer"),
        ("choice: yes | a | b\nchoice: yes | c | d", "'yes' is there twice"),
        ("source: f = 2a\nanswer: value f", "'a' follows a number without an operator"),
        ("source: f = log(a)\nset: a=0\nanswer: value f", "'value f' cannot be computed"),
    ],
)
def test_python_also_tells_of_what_the_page_would_show(block: str, said: str) -> None:
    (fault,) = faults(f"```question\nid: x\nask: ?\n{block}\n```\n")
    assert str(fault).startswith("line 2, question x: ") and said in str(fault)


@pytest.mark.parametrize("name", ["a b", "7", "ä"])
def test_an_id_that_no_link_can_name_is_told(name: str) -> None:
    (fault,) = faults(f"```question\nid: {name}\nask: ?\nanswer: 1\n```\n")
    assert f"the id '{name}' cannot stand in links" in str(fault)


def test_two_blocks_of_one_name_are_a_mistake(engine: Node) -> None:
    block = "```question\nid: a\nask: ?\nanswer: 1\n```\n"
    found = engine("reader.readLesson", block * 2)["blocks"]
    problems = engine.each("quantities.problemOf", [[read] for read in found])
    assert [problem and problem["key"] for problem in problems] == [None, "lesson.wrong.twice"]


def test_a_mistake_in_a_formula_is_told(engine: Node) -> None:
    read = engine("reader.readLesson", "```graph\nid: a\nsource: f = 2a\n```\n")["blocks"][0]
    assert engine("quantities.problemOf", read)["key"].startswith("parse.")


def test_reading_is_the_same_with_other_line_ends(engine: Node) -> None:
    text = read_lesson(ENGLISH / "draw-the-graph.md").text
    windows = "\ufeff" + text.replace("\n", "\r\n")
    assert engine("reader.readLesson", windows) == engine("reader.readLesson", text)


# -- the order of choices --------------------------------------------------------------------------


def test_the_right_choice_stands_anywhere(engine: Node) -> None:
    """Over learners each place comes about equally often, and over questions too."""
    chosen = [(le.id, b) for le in LESSONS for b in le.questions if b.choices]
    assert len(chosen) >= 6
    places = {3: [0, 0, 0], 4: [0, 0, 0, 0]}
    for lesson, block in chosen:
        right = [right for right, _, _ in block.choices].index(True)
        count = len(block.choices)
        asked = [[count, f"{lesson} {block.id}", seed] for seed in range(100)]
        orders = engine.each("shuffle.shuffled", asked)
        assert all(sorted(order) == list(range(count)) for order in orders)
        for order in orders:
            places[count][order.index(right)] += 1
    for count, found in places.items():
        assert all(0.7 < n * count / (sum(found) or 1) < 1.3 for n in found if sum(found)), places
    # The same learner finds the same order again.
    assert engine("shuffle.shuffled", 5, "a b", 7) == engine("shuffle.shuffled", 5, "a b", 7)
