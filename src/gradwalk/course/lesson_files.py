"""Read lesson files as the page reads them: their blocks, and the faults in them.

The format is in docs/learn/lessons.md; the page's reader is web/src/lessons/reader.ts. Tests
compare the two.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from gradwalk.course.quiz.quantities import Quantities, read_number
from gradwalk.inspect.expression.parser import parse

_COMMON = ("id", "source", "set")
_ASKING = ("ask", "hint", "explain")
# By kind, the fields a block may have; the first is required.
FIELDS: dict[str, tuple[str, ...]] = {
    "graph": ("id", "step", *_COMMON),
    "question": ("ask", "answer", "choice", "wrong", *_ASKING, *_COMMON),
    "order": ("goal", "overwrite", *_ASKING, *_COMMON),
    "byhand": ("asks", *_ASKING, *_COMMON),
    "core": ("ask", *_ASKING, *_COMMON),
}
TASKS = ("question", "order", "byhand", "core")  # blocks that count as done or not
# Interactive cores: by name, the type of each field of their own; "?" marks one that may be left
# out, and "source" says that the core needs a graph.
CORES: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parent / "cores.json").read_text(encoding="utf-8")
)
QUESTIONS = 8  # that a lesson of ours asks at least
MISTAKES = 2  # that each of them recognises at least
_SEVERAL = ("hint", "wrong", "choice")
_FENCE = re.compile(r"```\s*(\w*)\s*|```\s*core\s+(?P<core>[\w-]+)\s*", re.ASCII)
_FIELD = re.compile(r"(\w+):\s*(.*)", re.ASCII)
_ALL_OF_A_KIND = ("values", "locals", "gradients")
_GOAL = re.compile(r"(\w+)\s*(?:=\s*(.+)|correct)", re.ASCII)
# The words of quantities that the page knows; Python's have a few more.
_QUANTITY = re.compile(
    r"(?:minus )*(?:(?:value|gradient|slope|overwritten|paths) \w+|(?:local|push) \w+\.\d"
    r"|received \w+ \((?P<order>.+)\)|compute .+)"
)
_ASKED = re.compile(r"(?:value|gradient) \w+|local \w+\.\d")
_NEAR = 0.012  # closer than this, a rounded answer may be either of two numbers

_SAID = {
    "field": "'{}' is not understood",
    "missing": "'{}' is missing",
    "twice": "'{}' is there twice",
    "quantity": "'{}' cannot be computed",
    "source": "{}",
    "core": "there is no core '{}'",
    # The page shows these blocks all the same.
    "id": "the id '{}' cannot stand in links: letters, digits, - and _ can, but not digits alone",
    "near": "'{}' is too near to another answer to be told from it",
}


class LessonFault(NamedTuple):
    """What keeps a block from working."""

    line: int  # of the file, where the block begins
    block: str  # its kind and id
    key: str  # in strings.json: lesson.wrong.KEY, where the page has words for it
    text: str  # what it is about

    def __str__(self) -> str:
        return f"line {self.line}, {self.block}: {_SAID[self.key].format(self.text)}"


@dataclass
class Block:
    """Something to look at or to do."""

    kind: str
    line: int  # of the file, the first inside it
    fields: list[tuple[str, str]]
    core: str = ""  # of a core: its name
    source: str = ""  # its own, or that of the block before it
    values: dict[str, float] = field(default_factory=dict)
    unread: list[tuple[str, str]] = field(default_factory=list)  # faults of its lines: key, text

    def all(self, name: str) -> list[str]:
        """Every value of a field."""
        return [value for key, value in self.fields if key == name]

    def one(self, name: str) -> str:
        """The value of a field that occurs once; empty if it does not."""
        return next(iter(self.all(name)), "")

    @property
    def id(self) -> str:
        """Its name in the lesson."""
        return self.one("id")

    @property
    def wrong(self) -> list[list[str]]:
        """Quantity and feedback of each known mistake."""
        return [_cells(text, 2) for text in self.all("wrong")]

    @property
    def choices(self) -> list[tuple[bool, str, str]]:
        """Per choice whether it is right, its text, and its feedback."""
        cells = (_cells(text, 3) for text in self.all("choice"))
        return [(right == "yes", text, says) for right, text, says in cells]

    @cached_property
    def quantities(self) -> Quantities:
        """The numbers of its graph; without one, those of a single leaf."""
        return Quantities(self.source or "x", self.values)

    def number(self, quantity: str) -> float:
        """A quantity of its graph."""
        return self.quantities(quantity)

    @property
    def answer(self) -> float:
        """The answer of a question that asks for a number."""
        return self.number(self.one("answer"))

    def fault(self) -> LessonFault | None:
        """The first thing that is wrong with it."""
        for key, text in itertools.chain(self.unread, self._faults()):
            return LessonFault(self.line, f"{self.kind} {self.id}".strip(), key, text)
        return None

    def _faults(self) -> Iterator[tuple[str, str]]:
        """What cannot be computed or told apart; meant to be read up to the first fault."""
        if re.search(r"[^\w-]|^\d+$", self.id, re.ASCII):
            yield "id", self.id
        if self.source:
            try:
                parse(self.source)
            except ValueError as error:
                yield "source", str(error).partition("\n")[0]
        elif self.kind != "question" and "source" in CORES.get(self.core, ("source",)):
            yield "missing", "source"
        if self.kind == "order":
            goal = _GOAL.fullmatch(self.one("goal"))
            known = goal is not None and goal[1] in self.quantities.index
            if not goal or not known or (goal[2] and self._computed(goal[2]) is None):
                yield "quantity", self.one("goal")
        if self.kind == "byhand" and self.one("asks") not in _ALL_OF_A_KIND:
            parts = [part.strip() for part in self.one("asks").split(",")]
            if not all(_ASKED.fullmatch(p) and self._computed(p) is not None for p in parts):
                yield "quantity", self.one("asks")
        if self.kind == "core":
            for name, (kind, _) in _own_fields(self.core).items():
                if self.one(name) and not self._fits(kind, self.one(name)):
                    yield "quantity", f"{name}: {self.one(name)}"
        if self.kind == "question":
            numbers: list[float] = []
            for text in filter(None, (self.one("answer"), *(wrong for wrong, _ in self.wrong))):
                number = self._computed(text)
                if number is None:
                    yield "quantity", text
                elif not all(told_apart(number, other) for other in numbers):
                    yield "near", text
                else:
                    numbers.append(number)
            if [right for right, _, _ in self.choices].count(True) > 1:
                yield "twice", "yes"

    def _fits(self, kind: str, text: str) -> bool:
        """Whether the value of a core's field is of its type."""
        first, *choices = kind.split()
        return text in choices if first == "one-of" else _TYPES[first](self, text)

    def _computed(self, text: str) -> float | None:
        """A quantity as the page computes it; None if it is unknown or not finite."""
        number = read_number(text)
        if number is None:
            match = _QUANTITY.fullmatch(text)
            order = (match["order"] or "").split() if match else []
            if not match or not self.source or set(order) - set(self.quantities.index):
                return None
            try:
                sum_only = text.startswith("compute ") and not parse(text[8:]).leaves
                number = math.nan if sum_only else self.number(text)  # a number says it shorter
            except ValueError:
                return None
        return number if math.isfinite(number) else None


def told_apart(one: float, other: float) -> bool:
    """Whether two numbers are so far apart that a rounded answer fits only one."""
    return not math.isclose(one, other, rel_tol=_NEAR, abs_tol=1e-9)


def _own_fields(core: str) -> dict[str, tuple[str, bool]]:
    """The fields of a core: the type of each, and whether it must be there."""
    found = CORES.get(core, {}).items()
    return {
        name: (kind.removesuffix("?"), not kind.endswith("?"))
        for name, kind in found
        if name != "source"
    }


def _are_nodes(block: Block, text: str) -> bool:
    return set(text.split()) <= set(block.quantities.index)


def _are_numbers(block: Block, text: str) -> bool:
    numbers = [block._computed(word) for word in text.split()]
    return None not in numbers


def _is_leaf(block: Block, text: str) -> bool:
    return text in parse(block.source).leaves


def _is_nudge_goal(block: Block, text: str) -> bool:
    wanted = re.fullmatch(r"agree|slope = (.+)", text)
    return wanted is not None and (not wanted[1] or block._computed(wanted[1]) is not None)


# What the fields of cores may hold; `one-of a b` is one of these words. The page: fits() of
# web/src/lessons/quantities.ts.
_TYPES: dict[str, Callable[[Block, str], bool]] = {
    "text": lambda block, text: True,
    "number": lambda block, text: block._computed(text) is not None,
    "numbers": _are_numbers,
    "leaf": _is_leaf,
    "node": lambda block, text: text in block.quantities.index,
    "nodes": _are_nodes,
    "nudge": _is_nudge_goal,
}


def fenced(text: str) -> Iterator[tuple[str, int, list[str]]]:
    """The fenced parts of a file: their name, the number of their first line, their lines.

    The name of `core nudge` is `core:nudge`.
    """
    lines = re.split(r"\r?\n", text.removeprefix("\ufeff"))
    at = 0
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at])
        at += 1
        if fence:
            ends = (i for i in range(at, len(lines)) if re.fullmatch(r"```\s*", lines[i]))
            end = next(ends, len(lines))
            name = f"core:{fence['core']}" if fence["core"] else fence[1]
            yield name, at + 1, lines[at:end]
            at = end + 1


def read_blocks(text: str) -> list[Block]:
    """The blocks of a lesson, good or not."""
    blocks: list[Block] = []
    for name, line, lines in fenced(text):
        kind, _, core = name.partition(":")
        if kind in FIELDS:
            blocks.append(_block(Block(kind, line, [], core), lines, blocks))
    return blocks


def shortcomings(text: str) -> list[str]:
    """What a lesson still lacks to be one of ours; the page shows it all the same."""
    blocks = read_blocks(text)
    questions = [block for block in blocks if block.kind == "question"]
    found = [] if any(block.kind == "core" for block in blocks) else ["there is no core"]
    if len(questions) < QUESTIONS:
        found.append(f"{len(questions)} questions, and {QUESTIONS} are wanted")
    for block in questions:
        known = len(block.wrong) or sum(not right for right, _, _ in block.choices)
        if known < MISTAKES:
            mistakes = f"it recognises {known} of {MISTAKES} mistakes"
            found.append(f"line {block.line}, question {block.id}: {mistakes}")
    return found


def faults(text: str) -> list[LessonFault]:
    """The first fault of each block of a lesson that has one."""
    return [fault for block in read_blocks(text) if (fault := block.fault())]


def _block(block: Block, lines: Sequence[str], before: Sequence[Block]) -> Block:
    block.unread += _fill(block, lines, {other.id for other in before})
    if block.one("source"):
        block.source = block.one("source")
    elif before:
        block.source, block.values = before[-1].source, before[-1].values
    return block


def _fill(block: Block, lines: Sequence[str], ids: set[str]) -> Iterator[tuple[str, str]]:
    """Fill in all that the lines say; yield their faults."""
    own = _own_fields(block.core)
    if block.kind == "core" and block.core not in CORES:
        yield "core", block.core
    for text in lines:
        match = _FIELD.fullmatch(text)
        if text.startswith("  ") and block.fields:
            name, value = block.fields.pop()
            block.fields.append((name, f"{value} {text.strip()}"))
        elif not match or match[1] not in (*FIELDS[block.kind], *own):
            if text.strip():
                yield "field", text.strip()
        else:
            if block.all(match[1]) and match[1] not in _SEVERAL:
                yield "twice", match[1]
            block.fields.append((match[1], match[2].strip()))
    needed = ("id", FIELDS[block.kind][0], *(name for name, (_, must) in own.items() if must))
    yield from (("missing", name) for name in needed if not block.one(name))
    chosen = any(re.match(r"yes\s*\|", text) for text in block.all("choice"))
    if block.kind == "question" and bool(block.all("answer")) == chosen:
        yield "missing", "answer"
    if block.id in ids:
        yield "twice", block.id
    for pair in block.one("set").split():
        name, _, text = pair.partition("=")
        number = read_number(text)
        if not name or number is None:
            yield "field", pair
        else:
            block.values[name] = number


def _cells(text: str, count: int) -> list[str]:
    """`a | b | c`; the last cell may hold further bars, and missing cells are empty."""
    cells = [cell.strip() for cell in text.split("|", count - 1)]
    return cells + [""] * (count - len(cells))
