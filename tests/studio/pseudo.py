"""An invented language: English with an accent on every letter.

Text without accents on the page was not translated. Values inserted into sentences are in
⟦brackets⟧, so that the tests can tell names and numbers from words.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.course.lesson_files import ENGLISH

PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
ACCENTED = "áƀćđéƒǵħíĵķłḿńóṕʠŕśţúṽẃẋýźÁɃĆĐÉƑǴĦÍĴĶŁḾŃÓṔɊŔŚŢÚṼẂẊÝŹ"
CODE = "qx"
_TABLE = str.maketrans(PLAIN, ACCENTED)
_PLACE = re.compile(r"(\{\w+\})")
_KEPT = re.compile(r"(`[^`]*`|\]\([^)]*\))")  # code, and where links lead
_TEXT = ("ask", "hint", "explain")


def accented(text: str) -> str:
    """Every letter with its accent."""
    return text.translate(_TABLE)


def sentence(text: str) -> str:
    """Accent a sentence of strings.json: placeholders stay, in brackets."""
    parts = _PLACE.split(text)
    return "".join(f"⟦{p}⟧" if _PLACE.fullmatch(p) else accented(p) for p in parts)


def marked(text: str) -> str:
    """Accent the text of a lesson: code and addresses stay."""
    parts = _KEPT.split(text)
    return "".join(p if _KEPT.fullmatch(p) else accented(p) for p in parts)


def write_language(folder: Path) -> None:
    """Write the strings of the page and all lessons into a folder of this language."""
    out = folder / CODE
    out.mkdir(parents=True)
    words = json.loads((ENGLISH / "strings.json").read_text(encoding="utf-8"))
    found = {key: sentence(text) for key, text in words.items()}
    found["language.direction"] = words["language.direction"]
    text = json.dumps(found, ensure_ascii=False, indent=1)
    (out / "strings.json").write_text(text, encoding="utf-8")
    for path in ENGLISH.glob("*.md"):
        (out / path.name).write_text(lesson(path.read_text(encoding="utf-8")), encoding="utf-8")


def lesson(text: str) -> str:
    """Accent a lesson, except names of fields, formulas and quantities."""
    found, block, words, head = [], "", False, 0
    for line in text.splitlines():
        fence = re.fullmatch(r"```(\w*)(?: [\w-]+)?", line)
        if line == "---" and head < 2:
            head += 1
            found.append(line)
        elif head == 1:
            found.append(_field(line, ("title",)))
        elif fence:
            block = "" if block else fence[1] or "text"
            found.append(line)
        elif not block:
            found.append(marked(line))
        elif line.startswith("  ") and block != "text":
            found.append(marked(line) if words else line)
        else:
            words = line.partition(":")[0] in (*_TEXT, "wrong", "choice")
            found.append(line if block == "text" else _field(line, _TEXT))
    return "\n".join(found) + "\n"


def _field(line: str, names: tuple[str, ...]) -> str:
    name, _, value = line.partition(": ")
    if name in ("wrong", "choice"):
        first, _, rest = value.partition("|")
        return f"{name}: {first}|{marked(rest)}"
    return f"{name}: {marked(value)}" if name in names else line


def stray(text: str, filled_in: set[str], names: set[str]) -> list[str]:
    """The untranslated words in a text, except names that may be inserted into a sentence or that
    may occur in this text."""
    found: list[str] = []
    while match := re.search(r"⟦([^⟦⟧]*)⟧", text):
        found += _unknown(match[1], filled_in)
        text = text[: match.start()] + text[match.end() :]
    return found + _unknown(text, names)


def _unknown(text: str, names: set[str]) -> list[str]:
    words: list[str] = re.findall(r"[A-Za-z][A-Za-z0-9_]*", re.sub(r"\b(nan|inf)\b", "", text))
    # v1, v2 are unnamed results, and single letters are keys.
    return [w for w in words if w not in names and not (names and re.fullmatch(r"v\d+|[a-z]", w))]
