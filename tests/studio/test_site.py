"""The studio as files: complete, relative, careful with what is there; and the lessons' list."""

from __future__ import annotations

import functools
import http.client
import http.server
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gradwalk as gw
from gradwalk.cli import app
from gradwalk.course.catalogue import LESSONS, Catalogue, front_matter
from gradwalk.studio import site
from gradwalk.studio.site import MANIFEST, write_site
from tests.studio.serving import STUB_SCRIPT, stub_page
from tests.studio.test_export import Reader

LESSON = "---\ntitle: {title}\nminutes: 5\norder: {order}\n---\n\n# {title}\n"


@pytest.fixture
def static(tmp_path: Path) -> Path:
    return stub_page(tmp_path / "static")


def files_in(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def make_lessons(folder: Path, language: str, **lessons: int) -> Path:
    place = folder / language
    place.mkdir(parents=True)
    words = {"language.name": language.upper()}
    (place / "strings.json").write_text(json.dumps(words), encoding="utf-8")
    for title, order in lessons.items():
        text = LESSON.format(title=title, order=order)
        (place / f"{title}.md").write_text(text, encoding="utf-8")
    return folder


# -- the site ----------------------------------------------------------------------------------


def test_a_site_is_complete(tmp_path: Path, static: Path) -> None:
    out = tmp_path / "new" / "site"
    written = write_site(out, static=static)
    names = files_in(out)
    assert names == {p.relative_to(out).as_posix() for p in written}
    own = {f"lessons/{name}" for name in Catalogue().files}
    assert names == own | {"index.html", "app.js", "app.css", "lessons/index.json", MANIFEST}
    assert (out / "app.js").read_text(encoding="utf-8") == STUB_SCRIPT
    for name in Catalogue().files:
        assert (out / "lessons" / name).read_bytes() == (LESSONS / name).read_bytes()
    listed = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
    assert set(listed["files"]) == names and listed["version"] == gw.__version__


def test_every_address_in_it_is_relative(tmp_path: Path, static: Path) -> None:
    write_site(tmp_path / "site", static=static)
    found = Reader((tmp_path / "site" / "index.html").read_text(encoding="utf-8"))
    addresses = [a[name] for _, a in found.elements for name in ("src", "href") if a.get(name)]
    assert addresses == ["data:,", "app.css", "app.js"]
    assert found.boot == {
        "mode": "site",
        "version": gw.__version__,
        "document": None,
        "session": None,
        "languages": Catalogue().languages,
    }
    assert found.policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data: blob:",
        "font-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }  # and no frame-ancestors: it may stand in a frame


def test_it_is_served_by_any_server_under_any_path(tmp_path: Path, static: Path) -> None:
    write_site(tmp_path / "root" / "deep" / "er", static=static)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path / "root"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        for name in ("", "app.js", "app.css", "lessons/index.json", "lessons/en/strings.json"):
            connection.request("GET", f"/deep/er/{name}")
            answer = connection.getresponse()
            assert answer.status == 200 and answer.read(), name
        connection.close()
        server.shutdown()


def test_a_folder_of_someone_else_is_left_alone(tmp_path: Path, static: Path) -> None:
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "index.html").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match=r"not empty.*nothing was changed"):
        write_site(out, static=static)
    assert files_in(out) == {"index.html"}
    assert (out / "index.html").read_text(encoding="utf-8") == "mine"
    (out / MANIFEST).write_text("{}", encoding="utf-8")  # not one of ours
    with pytest.raises(ValueError, match="not empty"):
        write_site(out, static=static)
    with pytest.raises(ValueError, match="is a file"):
        write_site(out / "index.html", static=static)


def test_a_site_is_renewed_and_what_was_added_stays(tmp_path: Path, static: Path) -> None:
    out = tmp_path / "site"
    more = make_lessons(tmp_path / "more", "da", Eins=1, Zwei=2)
    write_site(out, static=static, lessons=[more])
    (out / "CNAME").write_text("example.com", encoding="utf-8")
    (static / "app.js").write_text("newer();", encoding="utf-8")
    (more / "da" / "Zwei.md").unlink()
    write_site(out, static=static, lessons=[more])
    assert (out / "app.js").read_text(encoding="utf-8") == "newer();"
    assert "lessons/da/Eins.md" in files_in(out) and "lessons/da/Zwei.md" not in files_in(out)
    write_site(out, static=static)
    assert not (out / "lessons" / "da").exists()
    assert (out / "CNAME").read_text(encoding="utf-8") == "example.com"


def test_an_empty_folder_and_one_of_a_version_control_system(tmp_path: Path, static: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_site(tmp_path / "empty", static=static)
    (tmp_path / "clone" / ".git").mkdir(parents=True)
    (tmp_path / "clone" / ".git" / "HEAD").write_text("ref", encoding="utf-8")
    write_site(tmp_path / "clone", static=static)
    assert "index.html" in files_in(tmp_path / "clone")
    assert ".git/HEAD" in files_in(tmp_path / "clone")


def test_a_forged_list_removes_nothing_elsewhere(tmp_path: Path, static: Path) -> None:
    out = tmp_path / "site"
    write_site(out, static=static)
    (tmp_path / "precious").write_text("mine", encoding="utf-8")
    listed = {"files": ["../precious", str(tmp_path / "precious"), 3, "gone.txt"]}
    (out / MANIFEST).write_text(json.dumps(listed), encoding="utf-8")
    write_site(out, static=static)
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "mine"


def test_the_index_comes_last(
    tmp_path: Path, static: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks while it is written finds the old page, or the new one with all it needs."""
    written: list[str] = []
    real = site.write_atomically

    def noting(path: Path, chunks: Any) -> None:
        written.append(path.name)
        real(path, chunks)

    monkeypatch.setattr(site, "write_atomically", noting)
    write_site(tmp_path / "site", static=static)
    assert written[-1] == "index.html" and "app.js" in written[:-1]


def test_the_command(tmp_path: Path, static: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert write_site.__kwdefaults__ is not None
    monkeypatch.setitem(write_site.__kwdefaults__, "static", static)
    more = make_lessons(tmp_path / "more", "xx", Fixture=9)
    out = tmp_path / "site"
    result = CliRunner().invoke(app, ["site", str(out), "--lessons", str(more)])
    assert result.exit_code == 0, result.output
    assert "files to" in result.output and "http.server" in result.output
    assert "lessons/xx/Fixture.md" in files_in(out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("", encoding="utf-8")
    for arguments, said in (
        ([str(tmp_path / "full")], "not empty"),
        ([str(out), "--lessons", str(tmp_path / "none")], "no folder of lessons"),
    ):
        result = CliRunner().invoke(app, ["site", *arguments])
        assert result.exit_code == 2 and said in result.output


def test_the_command_tells_of_blocks_that_cannot_be_shown(
    tmp_path: Path, static: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert write_site.__kwdefaults__ is not None
    monkeypatch.setitem(write_site.__kwdefaults__, "static", static)
    more = make_lessons(tmp_path / "more", "xx", Fixture=9)
    path = more / "xx" / "Fixture.md"
    with path.open("a", encoding="utf-8") as file:
        file.write("\n```question\nid: one\nask: ?\nanswer: value q\n```\n")
    out = tmp_path / "site"
    result = CliRunner().invoke(app, ["site", str(out), "--lessons", str(more)])
    assert result.exit_code == 0, result.output
    said = f"warning: {path}, line 10, question one: 'value q' cannot be computed"
    assert said in result.output.splitlines()
    assert "lessons/xx/Fixture.md" in files_in(out)
    path.write_text(path.read_text("utf-8").replace("value q", "7"), encoding="utf-8")
    result = CliRunner().invoke(app, ["site", str(out), "--lessons", str(more)])
    assert result.exit_code == 0 and "warning" not in result.output


# -- lessons -----------------------------------------------------------------------------------


def test_lessons_are_listed_in_order(tmp_path: Path) -> None:
    make_lessons(tmp_path, "xx", Second=2, First=1, Also=2)
    found = Catalogue([tmp_path])
    assert found.languages == {"xx": "XX"}
    assert found.index() == {
        "languages": {
            "xx": {
                "name": "XX",
                "lessons": [
                    {"id": "First", "title": "First", "minutes": 5, "order": 1, "tasks": 0},
                    {"id": "Also", "title": "Also", "minutes": 5, "order": 2, "tasks": 0},
                    {"id": "Second", "title": "Second", "minutes": 5, "order": 2, "tasks": 0},
                ],
            }
        }
    }


def test_our_own_lessons_can_be_listed() -> None:
    found = Catalogue()
    assert found.languages["en"] == "English"
    assert all(lesson["minutes"] > 0 for lesson in found.lessons["en"])


def test_a_later_folder_adds_and_replaces(tmp_path: Path) -> None:
    one = make_lessons(tmp_path / "one", "en", A=1, B=2)
    two = make_lessons(tmp_path / "two", "en", B=1, C=3)
    make_lessons(tmp_path / "two", "fr", D=1)
    found = Catalogue([one, two])
    assert [lesson["id"] for lesson in found.lessons["en"]] == ["A", "B", "C"]
    assert found.files["en/B.md"] == two / "en" / "B.md"
    assert list(found.languages) == ["en", "fr"]


def test_what_is_no_lesson_is_not_listed(tmp_path: Path) -> None:
    make_lessons(tmp_path, "xx", One=1)
    for name in ("notes.txt", ".hidden.md", "_draft.md", "picture.png", "a b.md"):
        (tmp_path / "xx" / name).write_text("no", encoding="utf-8")
    (tmp_path / "xx" / "folder.md").mkdir()
    (tmp_path / "not_a_language").mkdir()
    (tmp_path / "README.md").write_text("no", encoding="utf-8")
    assert set(Catalogue([tmp_path]).files) == {"xx/strings.json", "xx/One.md"}


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "does not begin"),
        ("# Title\n", "does not begin"),
        ("---\ntitle: x\n", "does not begin"),
        ("---\ntitle x\n---\n", "line 2"),
        ("---\ntitle: x\norder: 1\n---\n", "lacks minutes"),
        ("---\ntitle:\nminutes: 3\norder: 1\n---\n", "lacks title"),
        ("---\ntitle: x\nminutes: long\norder: 1\n---\n", "minutes is 'long'"),
        ("---\ntitle: x\nminutes: 3\norder: -1\n---\n", "order is '-1'"),
    ],
)
def test_a_lesson_with_a_bad_head_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.md"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"bad\.md") as raised:
        front_matter(path)
    assert said in str(raised.value)


def test_further_keys_of_a_head_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "one.md"
    path.write_text("---\ntitle: A: b\nminutes: 3\norder: 1\nneeds: x\n---\n", encoding="utf-8")
    assert front_matter(path) == {"title": "A: b", "minutes": 3, "order": 1, "needs": "x"}


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}'])
def test_words_that_cannot_be_read_are_named(tmp_path: Path, text: str) -> None:
    make_lessons(tmp_path, "xx")
    (tmp_path / "xx" / "strings.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"strings\.json"):
        Catalogue([tmp_path])
