"""One file that holds everything: well formed, without any reference to elsewhere, and honest."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import gradwalk as gw
from gradwalk.cli import app
from gradwalk.course.catalogue import Catalogue
from gradwalk.inspect.trace.file import describe
from gradwalk.studio import pages
from gradwalk.studio.exporting import document_of, export, write_page
from gradwalk.studio.pages import NotBuilt, data_block, page
from tests.studio.serving import (
    STUB_SCRIPT,
    STUB_STYLE,
    scalar_trace,
    stub_page,
    tensor_trace,
)


class Reader(HTMLParser):
    """Elements in order, with their attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, dict[str, str | None], str]] = []
        self.closed: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br", "img"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1] == tag, f"</{tag}> closes {self._open}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if data.strip() and self._open:
            tag = self._open[-1]
            attrs = next(a for t, a in reversed(self.elements) if t == tag)
            self.texts.append((tag, attrs, data))

    def text(self, tag: str, **attrs: str) -> str:
        found = [
            t for name, has, t in self.texts
            if name == tag and all(has.get(k) == v for k, v in attrs.items())
        ]  # fmt: skip
        return "".join(found)

    @property
    def boot(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text("script", id="boot"))
        return found

    @property
    def program(self) -> str:
        return "".join(t for name, has, t in self.texts if name == "script" and "id" not in has)

    @property
    def policy(self) -> dict[str, str]:
        (content,) = [
            a["content"] or ""
            for tag, a in self.elements
            if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"
        ]
        return dict(part.split(" ", 1) for part in content.split("; "))


def sha256(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.fixture
def static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    static = stub_page(tmp_path / "static")
    monkeypatch.setattr(write_page, "__defaults__", (static,))
    return static


def exported(thing: Any, folder: Path, static: Path, **options: Any) -> tuple[Reader, Any]:
    report = export(thing, folder / "page.html", **options)
    return Reader((folder / "page.html").read_text(encoding="utf-8")), report


# -- the file ----------------------------------------------------------------------------------


def test_it_refers_to_nothing_outside_itself(tmp_path: Path, static: Path) -> None:
    found, _ = exported(tensor_trace(), tmp_path, static)
    references = [
        (tag, name, value)
        for tag, attrs in found.elements
        for name, value in attrs.items()
        if name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href")
    ]
    assert references == [("link", "href", "data:,")]
    assert not re.search(r"url\((?!['\"]?data:)|@import", found.text("style"))
    assert {tag for tag, _ in found.elements} == {
        "html", "head", "meta", "title", "link", "style", "script", "body", "noscript",
    }  # fmt: skip


def test_the_policy_allows_its_own_script_and_style_and_nothing_else(
    tmp_path: Path, static: Path
) -> None:
    found, _ = exported(scalar_trace(), tmp_path, static)
    assert found.policy == {
        "default-src": "'none'",
        "script-src": sha256(found.program),
        "style-src": sha256(found.text("style")),
        "connect-src": "'none'",
        "img-src": "data: blob:",
        "font-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    # It counts from where it stands: before it there is only the encoding.
    kinds = [tag for tag, _ in found.elements]
    assert kinds[:4] == ["html", "head", "meta", "meta"]
    assert found.elements[2][1] == {"charset": "utf-8"}


def test_the_script_is_the_bundle(tmp_path: Path, static: Path) -> None:
    found, _ = exported(scalar_trace(), tmp_path, static)
    assert "</script" not in found.program.lower() and "<!--" not in found.program
    assert found.program.replace("\\x3C", "<") == STUB_SCRIPT
    assert found.text("style") == STUB_STYLE


def test_windows_line_ends_do_not_break_the_hashes(tmp_path: Path, static: Path) -> None:
    (static / "app.js").write_bytes(b"a();\r\nb();\r\n")
    found, _ = exported(scalar_trace(), tmp_path, static)
    content = (tmp_path / "page.html").read_bytes()
    assert b"\r" not in content
    assert found.policy["script-src"] == sha256("a();\nb();\n")


NASTY = [
    "</script><script>alert(1)</script>",
    "</ScRiPt x>",
    "<!--<script>",
    "]]>",
    "line\u2028separator\u2029",
    "{{script}} {{boot}}",
    "\\u003c \\ \" ' & &lt;",
    "κ − ü 漢 \U0001f600",
    "\x00\x07\x7f",
]


@pytest.mark.parametrize("text", NASTY, ids=ascii)
def test_no_text_breaks_out_of_its_place(tmp_path: Path, static: Path, text: str) -> None:
    a = gw.Value(3.0, label=text)
    found, _ = exported(a * a, tmp_path, static, title=text)
    assert found.boot["document"]["title"] == text
    assert found.boot["document"]["trace"]["nodes"][0]["label"] == text
    blocks = [a.get("id") for tag, a in found.elements if tag == "script"]
    assert blocks == ["boot", "tables", "words", None]
    block = data_block({"x": text})
    assert block.isascii() and not set(block) & set("<>&")
    assert json.loads(block) == {"x": text}


def test_a_style_that_would_end_itself_is_refused(static: Path) -> None:
    (static / "app.css").write_text("a::after { content: '</style>' }", encoding="utf-8")
    with pytest.raises(ValueError, match="would end it"):
        page("export", static=static)


def test_a_page_that_was_not_built_says_how(tmp_path: Path, static: Path) -> None:
    (static / "app.js").unlink()
    with pytest.raises(NotBuilt, match="make page"):
        export(scalar_trace(), tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


# -- modes -------------------------------------------------------------------------------------


def test_modes_differ_in_where_the_script_is(static: Path) -> None:
    for mode in pages.MODES:
        found = Reader(page(mode, static=static))
        boot = found.boot
        assert boot["mode"] == mode and boot["document"] is None and boot["session"] is None
        inside = mode in ("export", "widget")
        assert bool(found.program) == inside
        sources = [a["src"] for tag, a in found.elements if tag == "script" and "src" in a]
        assert sources == ([] if inside else ["app.js"])
    assert "http-equiv" not in page("server", static=static)  # it is in the header there
    assert Reader(page("site", static=static)).policy["script-src"] == "'self'"
    with pytest.raises(ValueError, match="one of server, site, export, widget"):
        page("other", static=static)


def test_english_words_are_in_every_page(static: Path) -> None:
    words = Catalogue().words("en")
    for mode in pages.MODES:
        assert json.loads(Reader(page(mode, static=static)).text("script", id="words")) == words


def test_who_has_no_script_is_told(static: Path) -> None:
    assert "JavaScript" in Reader(page("site", static=static)).text("noscript")


# -- what is in it -----------------------------------------------------------------------------


def test_a_graph_of_numbers_is_whole(tmp_path: Path, static: Path) -> None:
    found, report = exported(scalar_trace(), tmp_path, static, title="The diamond")
    document = found.boot["document"]
    assert document == {
        "kind": "trace",
        "title": "The diamond",
        "trace": json.loads(json.dumps(describe(scalar_trace())[0])),
        "arrays": {},
    }
    assert found.text("title") == "The diamond"
    assert report.left_out == 0 and report.bytes == (tmp_path / "page.html").stat().st_size
    assert "no network" in str(report) and "statistics" not in str(report)


def arrays_of(document: dict[str, Any]) -> dict[str, Any]:
    return {
        name: np.frombuffer(base64.b64decode(a["base64"]), a["dtype"]).reshape(a["shape"])
        for name, a in document["arrays"].items()
    }


def test_arrays_are_there_bit_by_bit(tmp_path: Path, static: Path) -> None:
    trace = tensor_trace()
    found, _ = exported(trace, tmp_path, static)
    inside, expected = arrays_of(found.boot["document"]), describe(trace)[1]
    assert inside.keys() == expected.keys() and len(inside) > 10
    for name, array in expected.items():
        assert inside[name].dtype == array.dtype and np.array_equal(inside[name], array, True)


def test_what_has_no_room_is_known_by_its_statistics_and_said() -> None:
    trace = tensor_trace()
    described, arrays = describe(trace)
    sizes = sorted(array.nbytes for array in arrays.values())
    budget = sum(sizes[:4])
    document, left_out = document_of(trace, "x", budget)
    kept = document["arrays"]
    assert len(kept) == 4 and len(left_out) == len(sizes) - 4
    assert sum(a.nbytes for a in arrays_of(document).values()) <= budget
    text = json.dumps(document["trace"])
    named = set(re.findall(r'"array": "([^"]+)"', text))
    assert named == set(kept)
    assert text.count('"statistics"') == json.dumps(described).count('"statistics"')
    for what, nodes in document["trace"]["reduced"].items():
        assert nodes and what in ("values", "grads", "pushed")
    value = next(n for n in document["trace"]["reduced"]["values"])
    assert "array" not in document["trace"]["nodes"][value]["values"][0]
    none, everything = document_of(trace, "x", 0)
    assert none["arrays"] == {} and len(everything) == len(arrays)


def test_the_report_says_what_was_left_out(tmp_path: Path, static: Path) -> None:
    _, report = exported(tensor_trace(), tmp_path, static, budget=0)
    assert report.left_out > 10 and report.arrays == 0
    assert f"of {report.left_out} arrays" in str(report) and "statistics only" in str(report)


def test_numbers_that_json_lacks_stay_what_they_are(tmp_path: Path, static: Path) -> None:
    x = gw.Value(0.0, label="x")
    found, _ = exported(x.log() * 0, tmp_path, static)
    values = [n["values"][0] for n in found.boot["document"]["trace"]["nodes"]]
    assert {"float": "-inf"} in values and {"float": "nan"} in values


def test_a_loss_is_recorded_for_it(tmp_path: Path, static: Path) -> None:
    w = gw.ones(2, 3, requires_grad=True)
    w.label = "w"
    found, _ = exported((w * w).sum(), tmp_path, static)
    document = found.boot["document"]
    assert [n["op"] for n in document["trace"]["nodes"]] == ["", "mul", "sum"]
    with pytest.raises(TypeError, match="Value or a Tensor"):
        export(3, tmp_path / "page.html")


def test_the_function_is_not_hidden_by_a_module(tmp_path: Path, stubbed: None) -> None:
    for _ in range(2):  # importing a module of this name would put it in the function's place
        assert gw.studio.export(scalar_trace(), tmp_path / "page.html").left_out == 0


def test_writing_over_a_page_keeps_the_old_one_if_it_fails(tmp_path: Path, static: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_page({"title": "x", "trace": object()}, {}, path)
    assert path.read_text(encoding="utf-8") == "mine"
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["page.html"]


@pytest.fixture
def stubbed(static: Path) -> None:
    """Write the stub of a page."""


def test_the_command_writes_an_expression_that_stays_one(tmp_path: Path, stubbed: None) -> None:
    path = tmp_path / "page.html"
    arguments = ["studio", "y = x^3 + 5*x", "x=2", "--export", str(path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0 and f"wrote {path}" in result.output
    assert Reader(path.read_text(encoding="utf-8")).boot["document"] == {
        "kind": "expression",
        "title": "y = x^3 + 5*x",
        "source": "y = x^3 + 5*x",
        "values": {"x": 2.0},
    }


def test_the_command_writes_a_trace(tmp_path: Path, stubbed: None) -> None:
    gw.save_trace(tensor_trace(), tmp_path / "step.trace")
    path = tmp_path / "page.html"
    arguments = ["studio", str(tmp_path / "step.trace"), "--export", str(path)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    document = Reader(path.read_text(encoding="utf-8")).boot["document"]
    assert (document["kind"], document["title"]) == ("trace", "step.trace")
