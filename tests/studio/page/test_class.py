"""A class and the page: the line of completion, and a learning platform around a SCORM package."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Tree

import pytest
from playwright.sync_api import expect

from gradwalk.course.classroom.completion import read_line
from gradwalk.studio.pages import STATIC
from gradwalk.studio.scorm import VERSIONS
from gradwalk.studio.site import write_package, write_site
from tests.studio.conftest import serving
from tests.studio.page.test_access import complaints
from tests.studio.watched import Watched

pytestmark = pytest.mark.slow

KEY = "a key of the class"
LESSON = """---
title: Two questions
order: 1
minutes: 1
---

```question
id: one
ask: What is 1 + 1?
answer: 2
wrong: 1 | That is one.
wrong: 3 | That is three.
hint: Count.
explain: 2.
```

```question
id: two
ask: What is 2 + 2?
answer: 4
wrong: 1 | That is one.
wrong: 3 | That is three.
hint: Count.
explain: 4.
```
"""
# A platform: it keeps values, and writes down every call. The lesson is in a frame inside a frame.
PLATFORM = """<!doctype html><title>Platform</title><script>
const values = JSON.parse(localStorage.platform ?? "{}"); const calls = [];
const said = (name) => (...given) => {
  calls.push([name, ...given]);
  if (name.endsWith("GetValue")) return values[given[0]] ?? "";
  if (name.endsWith("SetValue")) values[given[0]] = given[1];
  localStorage.platform = JSON.stringify(values);
  return "true";
};
const names = ["Initialize", "GetValue", "SetValue", "Commit", "Terminate", "Finish"];
window.API = Object.fromEntries(names.map((n) => ["LMS" + n, said("LMS" + n)]));
window.API_1484_11 = Object.fromEntries(names.map((n) => [n, said(n)]));
</script><iframe src="middle.html" width="1000" height="700"></iframe>"""
MIDDLE = '<!doctype html><iframe src="site/index.html#v=1&lesson=two" width="950" height="650">'


@pytest.fixture(scope="module")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short course: one lesson of ours takes the place of them all in the index."""
    folder = tmp_path_factory.mktemp("lessons")
    (folder / "en").mkdir()
    (folder / "en" / "two.md").write_text(LESSON, encoding="utf-8")
    return folder


def answer(frame: Any, task: str, text: str) -> None:
    field = frame.locator(f'[data-task="{task}"] input').first
    field.fill(text)
    field.press("Enter")
    frame.locator(f'[data-task="{task}"][data-done=true]').wait_for()


# -- the line of completion ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def class_site(lessons: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("class") / "site"
    write_site(folder, lessons=[lessons], class_key=KEY)
    with serving(folder) as address:
        yield address


def test_a_learner_gets_a_line_that_the_teacher_can_check(browser: Any, class_site: str) -> None:
    context = browser.new_context(viewport={"width": 900, "height": 800})
    watched = Watched(context, class_site)
    page = watched.page
    page.goto(class_site + "#v=1&lesson=index")
    box = page.locator("[data-completion]")
    box.wait_for()
    expect(box.locator("[data-line]")).to_have_count(0)
    page.goto(class_site + "#v=1&lesson=two")
    answer(page, "one", "2")
    page.goto(class_site + "#v=1&lesson=index")
    box.locator("input").fill("Zoë  | Neil")
    line = box.locator("[data-line]").inner_text()
    found = read_line(line, KEY)
    assert not found.fault and found.name == "Zoë Neil"
    assert found.lessons == {"two": (1, 2)}
    assert "does not fit" in read_line(line.replace("1/2", "2/2"), KEY).fault
    assert not complaints(watched)
    for width in (320, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function("() => document.documentElement.scrollWidth <= innerWidth")
    assert not watched.messages
    context.close()


def test_without_a_key_there_is_no_line(open_page: Any, site: str) -> None:
    page = open_page().page
    page.goto(site + "#v=1&lesson=index")
    page.locator("[data-entry]").first.wait_for()
    expect(page.locator("[data-completion]")).to_have_count(0)


# -- SCORM -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=VERSIONS)
def platform(
    request: pytest.FixtureRequest, lessons: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The version of a package, and the address of a platform that shows it."""
    folder = tmp_path_factory.mktemp("platform")
    write_package(folder / "course.zip", request.param, lessons=[lessons])
    with zipfile.ZipFile(folder / "course.zip") as package:
        package.extractall(folder / "site")
    index = folder / "site" / "lessons" / "index.json"
    listed = json.loads(index.read_text(encoding="utf-8"))
    english = listed["languages"]["en"]
    english["lessons"] = [one for one in english["lessons"] if one["id"] == "two"]
    index.write_text(json.dumps(listed), encoding="utf-8")
    (folder / "index.html").write_text(PLATFORM, encoding="utf-8")
    (folder / "middle.html").write_text(MIDDLE, encoding="utf-8")
    with serving(folder) as address:
        yield request.param, address


def test_a_platform_hears_what_is_done(browser: Any, platform: tuple[str, str]) -> None:
    version, address = platform
    name, status, score = {
        "1.2": ("cmi.core.student_name", "cmi.core.lesson_status", "cmi.core.score.raw"),
        "2004": ("cmi.learner_name", "cmi.completion_status", "cmi.score.raw"),
    }[version]
    prefix = "LMS" if version == "1.2" else ""
    context = browser.new_context()
    page = context.new_page()
    page.goto(address + "middle.html")  # only to have an origin
    page.evaluate(f"""localStorage.platform = '{{"{name}": "Lovelace, Ada"}}';
        localStorage["gradwalk.lessons"] = '{{"two": ["one", "two"]}}'""")  # another learner's
    page.goto(address)
    frame = page.frame_locator("iframe").frame_locator("iframe")
    frame.locator('[data-task="one"][data-done=false]').wait_for()
    page.wait_for_function(f"values['{status}'] === 'incomplete'")
    answer(frame, "one", "2")
    page.wait_for_function(f"values['{score}'] === '50'")
    assert page.evaluate("values")[status] == "incomplete"
    page.wait_for_function("""localStorage["gradwalk.learner"] === '"Ada Lovelace"'""")

    page.goto(address + "middle.html")  # and the learner comes back, in another browser
    page.evaluate("localStorage.removeItem('gradwalk.lessons')")
    page.goto(address)
    frame.locator('[data-task="one"][data-done=true]').wait_for()
    answer(frame, "two", "4")
    page.wait_for_function(f"values['{score}'] === '100'")
    page.wait_for_function(f"values['{status}'] === 'completed'")
    found = page.evaluate("values")
    if version == "2004":
        assert (found["cmi.success_status"], found["cmi.score.scaled"]) == ("passed", "1")
    page.evaluate("document.querySelector('iframe').remove()")
    calls = page.evaluate("calls")
    assert calls[0] == [f"{prefix}Initialize", ""]
    ended = f"{prefix}Finish" if version == "1.2" else "Terminate"
    assert [call[0] for call in calls].count(ended) == 1 and calls[-1] == [ended, ""]
    assert calls[-2] == [f"{prefix}Commit", ""]
    context.close()


def test_a_package_is_what_a_platform_reads(tmp_path: Path) -> None:
    for version in VERSIONS:
        names = write_package(tmp_path / "course.zip", version)
        with zipfile.ZipFile(tmp_path / "course.zip") as package:
            assert package.testzip() is None and package.namelist() == names
            manifest = Tree.fromstring(package.read("imsmanifest.xml"))
            index = package.read("index.html").decode()
            assert package.read("scorm.js") == (STATIC / "scorm.js").read_bytes()
        tag = {e: e.tag.rpartition("}")[2] for e in manifest.iter()}
        assert [tag[e] for e in manifest] == ["metadata", "organizations", "resources"]
        schema, spoken = (e.text for e in manifest[0])
        assert schema == "ADL SCORM" and spoken == (
            "1.2" if version == "1.2" else "2004 4th Edition"
        )
        assert manifest[1].attrib["default"] == manifest[1][0].attrib["identifier"]
        (resource,) = manifest[2]
        kinds = {key.rpartition("}")[2]: value for key, value in resource.attrib.items()}
        assert kinds["scormtype" if version == "1.2" else "scormType"] == "sco"
        assert kinds["type"] == "webcontent" and kinds["href"] == "index.html"
        items = [e for e in manifest.iter() if tag[e] == "item"]
        assert [item.attrib["identifierref"] for item in items] == [kinds["identifier"]]
        listed = {e.attrib["href"] for e in resource}
        assert listed == set(names) - {"imsmanifest.xml"}
        assert index.index('src="scorm.js"') < index.index('src="app.js"')
    with pytest.raises(ValueError, match=r"SCORM is 1.2 or 2004, not '3'"):
        write_package(tmp_path / "course.zip", "3")
