"""The picture of the house is that of the code, and the drawing does what it says."""

from pathlib import Path

import pytest

from tools import house_map

UPDATE = "python -m tools.house_map"


@pytest.mark.slow
def test_the_picture_is_up_to_date() -> None:
    made = house_map.svg(house_map.drawing())
    assert house_map.PICTURE.read_text(encoding="utf-8") == made, (
        f"the rooms or their imports have changed. Run `{UPDATE}` and commit the picture."
    )


def build(package: Path, files: dict[str, str]) -> Path:
    for name, source in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return package


HOUSE = {
    "__init__.py": "from .top import a\nfrom .low.in_it import b",
    "special.py": "from gradwalk.low import c",
    "top/__init__.py": "import gradwalk\nfrom gradwalk.low import c",
    "low/__init__.py": "def f():\n    from ..beside import d",
    "low/in_it/__init__.py": "",
    "beside/__init__.py": "from ..low import c",
}


def test_a_small_house(tmp_path: Path) -> None:
    package = build(tmp_path / "gradwalk", HOUSE)
    assert house_map.rooms(package) == {
        "gradwalk": ["special"],
        "beside": [],
        "low": ["in_it"],
        "top": [],
    }
    # `top` is built on the public names, so that exporting it is no dependency.
    assert house_map.import_graph(package) == {
        "gradwalk": {"low"},
        "top": {"gradwalk", "low"},
        "low": {"beside"},
        "beside": {"low"},
    }
    drawing = house_map.drawing(package)
    assert [[place.rooms for place in row] for row in drawing.rows] == [
        [["top"]],
        [["gradwalk"]],
        [["beside", "low"]],
    ]
    # top imports low as well, which the other arrows imply.
    assert [(arrow.start, arrow.end) for arrow in drawing.arrows] == [
        ("gradwalk", "low"),
        ("top", "gradwalk"),
    ]
