"""The built page: it is what its sources give, it is small, and it asks nobody for anything."""

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.studio.node import WEB, need_node, run
from tools.page import tables as page_tables

STATIC = WEB.parent / "src" / "gradwalk" / "studio" / "static"
MAKES_ELEMENTS = re.compile(r"innerHTML|HTML\s*=[^=]|insertAdjacentHTML|document\.write\b", re.I)
MOST_BYTES = 140 * 1000  # of script, gzipped


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_node()
    page_tables.main()
    folder = tmp_path_factory.mktemp("page")
    run("node", "build.mjs", folder)
    return folder


def test_the_committed_page_is_what_its_sources_give(rebuilt: Path) -> None:
    made = {path.name: path.read_bytes() for path in rebuilt.iterdir()}
    assert {"app.js", "tables.json", "app.css", "widget.js"} < set(made)
    parts = {path.name for path in STATIC.glob("part-*.js")}
    assert parts == {name for name in made if name.startswith("part-")}, "Fix: make page"
    stale = [name for name, content in made.items() if (STATIC / name).read_bytes() != content]
    assert stale == [], "Fix: make page"


def test_the_script_is_small(rebuilt: Path) -> None:
    size = len(gzip.compress((rebuilt / "app.js").read_bytes(), 9, mtime=0))
    assert size <= MOST_BYTES, f"the script has {size:,} bytes gzipped"


def test_the_script_executes_no_text_and_names_no_other_server(rebuilt: Path) -> None:
    scripts = [rebuilt / "app.js", *rebuilt.glob("part-*.js")]
    script = "\n".join(path.read_text(encoding="utf-8") for path in scripts)
    assert not re.search(r"\beval\(|new Function\(", script)
    for source in [*(WEB / "src").rglob("*.ts"), *(WEB / "src").rglob("*.tsx")]:
        text = source.read_text(encoding="utf-8")
        found = MAKES_ELEMENTS.search(text)
        assert not found, f"{source.name} makes elements of text: {found}"
    # Names of languages, not addresses: nothing is ever loaded from them.
    known = {"http://www.w3.org/1998/Math/MathML", "http://www.w3.org/2000/svg"}
    known |= {"http://www.w3.org/1999/xhtml", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\s\"'`)]+", script)) <= known


def test_a_link_that_opens_another_page_does_not_hand_ours_over() -> None:
    """In the page, and wherever Python, a tool or the documentation writes a link."""
    opened = 0
    sources = [path for ext in ("ts", "tsx") for path in (WEB / "src").rglob(f"*.{ext}")]
    for folder, endings in (
        ("src", ("*.py", "*.html", "*.json", "*.md", "widget.js")),
        ("tools", ("*.py",)),
        ("docs", ("*.py", "*.html", "*.js", "*.md")),
    ):
        sources += [p for end in endings for p in (WEB.parent / folder).rglob(end)]
    for source in sources:
        text = source.read_text(encoding="utf-8")
        assert not re.search(r"\bwindow\.open\(", text), source
        for link in re.findall(r"<a\b[^>]*target=[^>]*>", text):
            opened += 1
            assert re.search(r'rel="[^"]*\bnoopener\b', link), f"{source.name}: {link}"
    assert opened  # of a lesson
    assert '<meta name="referrer" content="no-referrer">' in (STATIC / "index.html").read_text(
        encoding="utf-8"
    )


@pytest.mark.slow
def test_the_types_hold() -> None:
    need_node()
    page_tables.main()
    known = ("--incremental", "--tsBuildInfoFile", "node_modules/.types")  # for the next time
    run("node", "node_modules/typescript/bin/tsc", "--noEmit", *known)


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: p for name, p in lock["packages"].items() if name}
    assert packages
    for name, package in packages.items():
        assert "resolved" not in package, name
        assert package["integrity"], name


def test_the_page_depends_on_little() -> None:
    package = json.loads((WEB / "package.json").read_text(encoding="utf-8"))
    assert set(package["dependencies"]) == {"preact", "@preact/signals"}
    # axe-core checks the page in the tests, and is no part of it.
    assert set(package["devDependencies"]) == {"esbuild", "typescript", "axe-core"}
