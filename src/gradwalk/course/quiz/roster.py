"""A class list: a CSV file with a name in each row, and the quiz of each name."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwalk.course.quiz.quiz import Quiz, make_quiz

MOST_ROWS = 10_000
NAME_HEADS = ("name", "names", "full name", "student", "learner", "student name")
FIRST_HEADS = ("first name", "firstname", "vorname")
LAST_HEADS = ("last name", "lastname", "surname", "nachname")
# Windows keeps these names for devices, whatever their ending.
_DEVICES = re.compile(r"con|prn|aux|nul|(com|lpt)\d")


class RosterError(ValueError):
    """A class list that cannot be used; the message says why."""


@dataclass(frozen=True)
class Learner:
    """One row of a class list."""

    name: str
    file: str  # the name's form for files; no two learners share one

    def quiz(self, term: str = "", count: int | None = None) -> Quiz:
        """The learner's quiz: the same for the same name and term, whoever else is listed."""
        return make_quiz(f"{term}: {self.name}" if term else self.name, count)


def read_roster(path: Path) -> list[Learner]:
    """Read a class list: a column `name` (or first and last name), or one name per line."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RosterError(f"{path} is not text in UTF-8. Fix: save it as CSV UTF-8") from None
    except OSError as error:
        raise RosterError(f"cannot read {path}: {error.strerror}") from None
    return learners_of(text, str(path))


def learners_of(text: str, source: str = "the list") -> list[Learner]:
    """The learners of a class list.

    >>> [learner.name for learner in learners_of("id;name\\n7;Ada Lovelace\\n8;Émile\\n")]
    ['Ada Lovelace', 'Émile']
    """
    rows = [
        row for row in csv.reader(io.StringIO(text), _dialect(text)) if any(map(str.strip, row))
    ]
    if len(rows) > MOST_ROWS:
        raise RosterError(f"{source} has more than {MOST_ROWS:,} rows")
    names = _names(rows, source) if rows else []
    if not names:  # nothing at all, or a head alone
        raise RosterError(f"{source} has no names in it")
    seen: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if not name:
            raise RosterError(f"{source}: learner {place} has no name")
        plain = unicodedata.normalize("NFC", name).casefold()
        if plain in seen:
            raise RosterError(
                f"{source}: {name} stands there twice (learners {seen[plain]} and {place}). Fix: "
                "tell them apart, for example by a middle name; each name has its own quiz"
            )
        seen[plain] = place
    return _with_files(names)


def _dialect(text: str) -> type[csv.Dialect]:
    first = text.splitlines()[0] if text else ""

    class Found(csv.excel):
        delimiter = max(",;\t", key=first.count)

    return Found


def _names(rows: Sequence[Sequence[str]], source: str) -> list[str]:
    heads = [" ".join(cell.lower().split()) for cell in rows[0]]
    column = next((heads.index(head) for head in NAME_HEADS if head in heads), None)
    first = next((heads.index(head) for head in FIRST_HEADS if head in heads), None)
    last = next((heads.index(head) for head in LAST_HEADS if head in heads), None)
    if column is not None:
        return [_cell(row, column) for row in rows[1:]]
    if first is not None and last is not None:
        return [f"{_cell(row, first)} {_cell(row, last)}".strip() for row in rows[1:]]
    if all(len(row) == 1 for row in rows):
        return [_cell(row, 0) for row in rows]
    raise RosterError(
        f"{source} has several columns, and none is called name. Fix: a first row with `name` in "
        "it, or one name per line"
    )


def _cell(row: Sequence[str], column: int) -> str:
    return " ".join(row[column].split()) if column < len(row) else ""


def _with_files(names: Sequence[str]) -> list[Learner]:
    """Each name as a file's name: letters and digits, and a few of a hash where two would meet."""
    plain = [file_name(name) for name in names]
    return [
        Learner(name, file if plain.count(file) == 1 else f"{file}-{_hash(name)}")
        for name, file in zip(names, plain)
    ]


def file_name(name: str) -> str:
    """A name with letters, digits and - alone.

    >>> file_name("Zoë O'Neil"), file_name("Ω")
    ('zoe-o-neil', 'learner-a780')
    """
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    plain = re.sub(r"[^a-z0-9]+", "-", letters).strip("-")[:60]
    return f"learner-{_hash(name)}" if not plain or _DEVICES.fullmatch(plain) else plain


def _hash(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=2).hexdigest()
