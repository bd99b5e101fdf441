"""The map in CONTRIBUTING.md: every room is on it, and every path and name it gives is there."""

import ast
import re
from pathlib import Path

import pytest

from tests.project.checkout import PACKAGE, ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# `path`, or `path`: `name`
PLACE = re.compile(r"`(?P<path>[^`]+)`(?:: `(?P<name>\w+)`)?")


def rows(heading: str) -> list[tuple[str, str]]:
    """The two cells of each row of a table."""
    _, _, rest = TEXT.partition(f"{heading}\n")
    lines = rest.partition("\n\n")[0].splitlines()[1:]
    return [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]


ROOMS = rows("| room | what it is for |")
CHANGES = rows("| I want to change | go to |")
HOPS = TEXT.partition("## How the pieces talk")[2].partition("\n## ")[0]


def found(path: str) -> Path | None:
    """A path from the package or from the checkout."""
    places = [start / path for start in (PACKAGE, ROOT) if (start / path).exists()]
    return places[0] if places else None


def defined(path: Path) -> set[str]:
    """The names that a module defines at its top level."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {
                    name.id for t in targets for name in ast.walk(t) if isinstance(name, ast.Name)
                }
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names


def test_every_room_is_on_the_map() -> None:
    listed = [room.strip("`/") for room, _ in ROOMS]
    assert len(listed) == len(set(listed))
    inner = {path.parent for path in PACKAGE.rglob("__init__.py")} - {PACKAGE}
    names = {path.relative_to(PACKAGE).as_posix() for path in inner}
    assert set(listed) == {name for name in names if name.count("/") < 2}


def test_the_table_is_long_enough_to_help() -> None:
    assert len(CHANGES) >= 20


@pytest.mark.parametrize(("what", "where"), CHANGES, ids=[what for what, _ in CHANGES])
def test_where_to_change(what: str, where: str) -> None:
    places = list(PLACE.finditer(where))
    assert places, f"no path is named for: {what}"
    for place in places:
        path = found(place["path"])
        assert path is not None, f"{place['path']} does not exist"
        if place["name"]:
            assert place["name"] in defined(path), (
                f"{place['path']} does not define {place['name']}"
            )


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([\w./]+/[\w.]*)`", HOPS))))
def test_a_hop_exists(path: str) -> None:
    assert found(path) is not None
