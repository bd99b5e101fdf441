"""Codes of completion: a line that the page makes for a learner, and a teacher's key verifies.

    gradwalk-1 | Ada Lovelace | nudge 8/8, draw-the-graph 5/9 | 2026-11-17 | K7QF-3M2P-XW4T

The code is an HMAC of the rest of the line with the class's key. The key is in the site, so a line
shows that it was not mistyped, edited or signed for another name; a person who reads the page's
source, or answers for somebody else, can still make one. `web/src/state/completion.ts` makes it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

FORM = "gradwalk-1"
SHORTEST_KEY = 8
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: no I, L, O and U
LETTERS = 12  # of a code: 60 bits
_LESSON = re.compile(r"([a-z0-9][a-z0-9-]*) (\d{1,4})/(\d{1,4})")
_MISREAD = str.maketrans("ILO", "110")


@dataclass(frozen=True)
class Completion:
    """One line: who did how much, and whether its code is right."""

    line: str
    name: str = ""
    lessons: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # done, and of how many
    date: str = ""
    fault: str = ""  # why it does not count; empty if it does

    @property
    def completed(self) -> list[str]:
        """The lessons with every task done."""
        return [lesson for lesson, (done, tasks) in self.lessons.items() if done >= tasks > 0]


def checked_key(key: str) -> str:
    """The key; raise for one that is too short to keep a guess from fitting."""
    if len(key.strip()) < SHORTEST_KEY:
        raise ValueError(f"a class key has at least {SHORTEST_KEY} characters")
    return key.strip()


def completion_line(key: str, name: str, lessons: Mapping[str, tuple[int, int]], date: str) -> str:
    """The line that the page makes.

    >>> completion_line("a class key", "Ada Lovelace", {"nudge": (8, 8)}, "2026-11-17")
    'gradwalk-1 | Ada Lovelace | nudge 8/8 | 2026-11-17 | 5EFJ-7TKK-M189'
    """
    listed = ", ".join(f"{lesson} {done}/{tasks}" for lesson, (done, tasks) in lessons.items())
    fields = [FORM, one_line(name), listed, date]
    return " | ".join([*fields, code(key, fields)])


def code(key: str, fields: Iterable[str]) -> str:
    """The code of a line's other fields."""
    message = "\n".join(fields).encode()
    digest = hmac.new(checked_key(key).encode(), message, hashlib.sha256).digest()
    number = int.from_bytes(digest[:8]) >> 4  # 60 bits
    letters = "".join(ALPHABET[number >> 5 * i & 31] for i in reversed(range(LETTERS)))
    return "-".join(letters[i : i + 4] for i in range(0, LETTERS, 4))


def one_line(name: str) -> str:
    """A name as it stands in a line: one spelling of each letter, no bar."""
    return " ".join(unicodedata.normalize("NFC", name).replace("|", " ").split())


def verify(text: str, key: str) -> list[Completion]:
    """Every line of a text that could be one; blank lines and comments (#) are left out."""
    lines = [line.strip() for line in text.splitlines()]
    found = [read_line(line, key) for line in lines if line and not line.startswith("#")]
    first: dict[str, str] = {}
    return [_copied(one, first) for one in found]


def read_line(line: str, key: str) -> Completion:
    """Read one line and check its code."""
    shown = line if len(line) <= 200 else line[:199] + "…"
    fields = [part.strip() for part in line.split("|")]
    if len(fields) != 5 or fields[0] != FORM:
        return Completion(shown, fault="this is not a line of completion")
    _, name, listed, date, given = fields
    lessons = {}
    for part in filter(None, map(str.strip, listed.split(","))):
        match = _LESSON.fullmatch(part)
        if match is None:
            return Completion(shown, name, fault=f"'{part[:40]}' is not a lesson with its tasks")
        lessons[match[1]] = (int(match[2]), int(match[3]))
    wanted = code(key, [FORM, one_line(name), listed, date])
    typed = given.upper().translate(_MISREAD)
    right = hmac.compare_digest(typed.replace("-", "").encode(), wanted.replace("-", "").encode())
    fault = "" if right else "the code does not fit: the line was changed, or the key is another"
    return Completion(shown, name, lessons, date, fault)


def _copied(one: Completion, first: dict[str, str]) -> Completion:
    """A line that stands there twice counts once; the learner may have sent it again."""
    if one.fault or first.setdefault(one.line, one.name) is one.name:
        return one
    return Completion(one.line, one.name, one.lessons, one.date, "the same line stands above")
