"""Which numbers a lesson's text may contain, and which of those in it nothing vouches for.

A number is vouched for if it stands in a calculation (which a test evaluates), if it is a number of
the graph that the text is about, or if it is an answer or a recognised mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gradwalk.course.lesson_files import Block, fenced
from tests.course.lesson_files import Lesson
from tests.course.test_lessons import CALCULATION

# Not the 1 of x1, the 2 of 2x, or the 3 of 1e-3.
NUMBER = re.compile(r"(?<![\w.])−?\d+(?:\.\d+)?(?![\w.]*[A-Za-z(²³ⁿ⁻])")
SMALL = {0.0, 1.0, 2.0}  # "one of two edges", and the step's own direction
_WORDS = ("value", "gradient", "overwritten", "paths")


def numbers_in(text: str) -> set[str]:
    """The numbers that stand alone in a text."""
    return set(NUMBER.findall(re.sub(r"`[^`]*`|\]\([^)]*\)", " ", text)))


def vouched(blocks: Iterable[Block]) -> set[float]:
    """The numbers of the graphs of these blocks, and those that they ask for."""
    found = set(SMALL)
    for block in blocks:
        texts = [value for name, value in block.fields if name not in ("ask", "hint", "explain")]
        for text in texts:
            found |= {float(n) for n in re.findall(r"\d+(?:\.\d+)?", text.partition("|")[0])}
        if block.one("answer"):
            found |= {block.answer, *(block.number(quantity) for quantity, _ in block.wrong)}
        if not block.source:
            continue
        found |= set(block.values.values())
        for name in block.quantities.index:
            found |= {block.number(f"{word} {name}") for word in _WORDS}
        for node in block.quantities.trace:
            if node.label and node.op:
                edges = range(len(node.inputs))
                for word in ("local", "push"):
                    found |= {block.number(f"{word} {node.label}.{i}") for i in edges}
    return found


def texts_of(lesson: Lesson) -> Iterator[tuple[str, str, set[float]]]:
    """Each text of a lesson: where it stands, what it says, and what vouches for its numbers."""
    for block in lesson.blocks:
        numbers = vouched([block])
        said = [value for name, value in block.fields if name in ("ask", "hint", "explain")]
        said += [f"{text} {says}" for _, text, says in block.choices]
        said += [says for _, says in block.wrong]
        yield block.id, "\n".join(said), numbers
    prose = lesson.text.partition("\n---\n")[2]
    for _, _, lines in fenced(prose):
        prose = prose.replace("\n".join(lines), "")
    yield "prose", prose, vouched(lesson.blocks)


def unvouched(lesson: Lesson) -> list[str]:
    """The numbers in a lesson's text that nothing vouches for."""
    found = []
    for where, text, numbers in texts_of(lesson):
        flat = re.sub(r"\s+", " ", text)
        known = {
            n for left, _, right in CALCULATION.findall(flat) for n in numbers_in(f"{left} {right}")
        }
        for written in sorted(numbers_in(flat) - known):
            decimals = len(written.partition(".")[2])
            number = float(written.replace("−", "-"))
            near = 0.5 * 10**-decimals if decimals else 1e-9
            if not any(abs(abs(number) - abs(n)) <= near * 1.0001 for n in numbers):
                found.append(f"{where}: {written}")
    return found
