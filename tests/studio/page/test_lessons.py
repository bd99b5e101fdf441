"""Lessons in the page: done from beginning to end, in any language, with a new one put beside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from gradwalk.course.lesson_files import read_blocks
from gradwalk.ops import TABLE
from gradwalk.studio.pages import page as page_of
from gradwalk.studio.site import write_site
from tests.course.lesson_files import Lesson, english
from tests.studio import pseudo
from tests.studio.conftest import UNDER, serving
from tests.studio.learner import Learner
from tests.studio.page.test_access import complaints
from tests.studio.watched import Watched

pytestmark = pytest.mark.slow

LESSONS = {lesson.id: lesson for lesson in english()}
FIXTURE = """---
title: Only a test
order: 99
minutes: 3
---

Some text with <b>HTML</b>.

```graph
id: one
source: f = a * b
set: a=2 b=5
step: 0
```

```question
id: two
ask: What is f?
answer: value f
wrong: 7 | You added.
wrong: 3 | You took one from the other.
hint: Multiply.
explain: 2 · 5 = 10.
```

```question
id: three
ask: And the gradient of a?
answer: gradient a
wrong: gradient b | That is b's.
wrong: value f | That is f.
hint: The other input.
explain: 5.
```
"""

KINDS = """---
title: Every kind
order: 100
minutes: 3
---

```question
id: pick
ask: Which?
choice: no | first | Not the first.
choice: yes | the **second** | Yes, that.
hint: Not the first.
explain: So it is.
```

```order
id: lose
source: a = x*1; b = a + 1; c = 3*a; d = b*c
set: x=2
ask: Let x receive 9.
goal: x = 9
hint: Leave out b.
```

```order
id: replace
ask: Let x receive 9 with = for +=.
goal: x = 9
overwrite: yes
hint: A right order.
```

```byhand
id: hand
source: f = a*b
set: a=2 b=5
asks: value f, gradient a, gradient b
```

```question
id: comma
ask: One?
answer: 1
wrong: 1000 | A thousand is too much.
wrong: 3 | No.
```
"""
FIRST_WITH_GRADIENTS = 4  # the order of the lesson that has the word
# All that is said in a lesson, to eyes and to ears.
SAID = """() => {
  const article = document.querySelector("article");
  const labels = [...article.querySelectorAll("*")].map((e) => e.getAttribute("aria-label"));
  return [article.innerText, ...labels].join(" ");
}"""
FIXTURES = {"only-a-test": FIXTURE, "every-kind": KINDS}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site with more lessons and one more language: files in a folder, no code."""
    more = tmp_path_factory.mktemp("lessons")
    (more / "en").mkdir()
    pseudo.write_language(more)
    for name, text in FIXTURES.items():
        (more / "en" / f"{name}.md").write_text(text, encoding="utf-8")
        (more / pseudo.CODE / f"{name}.md").write_text(pseudo.lesson(text), encoding="utf-8")
    folder = tmp_path_factory.mktemp("site")
    write_site(folder / UNDER, lessons=[more])
    with serving(folder) as address:
        yield address + UNDER.replace(" ", "%20") + "/"


@pytest.fixture
def open_lesson(browser: Any, site: str) -> Iterator[Any]:
    """`open_lesson("draw-the-graph")` gives a Watched page; no message may be on its console."""
    opened: list[Watched] = []

    def open_lesson(link: str, **options: Any) -> Watched:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        watched = Watched(browser.new_context(**options), site)
        opened.append(watched)
        visit(watched, link)
        return watched

    yield open_lesson
    messages = [message for watched in opened for message in watched.messages]
    for watched in opened:
        watched.page.context.close()
    assert not messages


def read_text(name: str) -> Lesson:
    text = FIXTURES[name]
    return Lesson(name, {}, read_blocks(text), text)


def visit(watched: Watched, lesson: str) -> None:
    """Load the page anew with a link to a lesson."""
    watched.page.goto("about:blank")
    watched.page.goto(f"{watched.address}#v=1&lesson={lesson}")
    watched.page.wait_for_selector(".lesson .count")


# -- doing lessons ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LESSONS)
def test_a_learner_completes_the_lesson(open_lesson: Any, name: str) -> None:
    page: Watched = open_lesson(name)
    lesson = LESSONS[name]
    learner = Learner(page.page, lesson)
    learner.has_done(0)
    learner.do_all()
    mistakes = sum(
        len(block.wrong) + len([c for c in block.choices if not c[0]]) for block in lesson.questions
    )
    assert learner.said == mistakes >= 16
    page.page.wait_for_selector("[data-all-done]")
    expect(page.page.locator("[data-problem]")).to_have_count(0)
    if int(str(lesson.head["order"])) < FIRST_WITH_GRADIENTS:
        assert not re.findall(r"grad\w*", page.page.evaluate(SAID), re.IGNORECASE)

    visit(page, name)  # as after days
    learner.has_done(len(lesson.tasks))
    expect(page.page.locator("[data-task][data-done=false]")).to_have_count(0)
    for block in lesson.questions:
        if block.one("answer"):
            field = page.page.locator(f'[data-task="{block.id}"] form input')
            expect(field).not_to_have_value("")
            shown = field.input_value()
            assert float(shown.replace("−", "-")) == pytest.approx(block.answer, abs=5e-5)
    visit(page, "index")
    entry = page.page.locator(f'[data-entry="{name}"] .count')
    expect(entry).to_have_attribute("data-complete", "true")
    others = page.page.locator("[data-entry] .count[data-complete=true]")
    expect(others).to_have_count(1)

    visit(page, f"{name}&lang={pseudo.CODE}")  # progress has no language
    page.page.wait_for_selector(f"article[lang={pseudo.CODE}]")
    learner.has_done(len(lesson.tasks))
    page.page.locator("[data-forget]").click()
    learner.has_done(0)


def test_lessons_are_listed_and_lead_to_each_other(open_lesson: Any) -> None:
    page: Watched = open_lesson("index")
    entries = page.page.locator("[data-entry]")
    expect(entries).to_have_count(len(LESSONS) + len(FIXTURES))
    listed = [entries.nth(i).get_attribute("data-entry") for i in range(entries.count())]
    assert listed == [*LESSONS, *FIXTURES]
    texts = page.page.locator("[data-entry] .count")
    for i, name in enumerate(LESSONS):
        text = texts.nth(i).inner_text()
        assert f"{LESSONS[name].head['minutes']} minutes" in text
        assert f"0 of {len(LESSONS[name].tasks)}" in text
    first, second = [str(lesson.head["title"]) for lesson in LESSONS.values()][:2]
    page.page.locator("[data-entry] a").first.click()
    page.page.wait_for_selector(f"h2:text('{first}')")
    page.page.wait_for_selector("h2:focus")
    assert f"lesson={next(iter(LESSONS))}" in page.link
    page.page.locator("footer [data-way='lesson.next'] a").click()
    page.page.wait_for_selector(f"h2:text('{second}')")
    page.page.wait_for_function("() => scrollY === 0")
    expect(page.page).to_have_title(re.compile(f"^{re.escape(second)}"))
    page.page.locator("footer [data-way='lesson.previous'] a").click()
    page.page.wait_for_selector(f"h2:text('{first}')")
    page.page.locator("[data-graph]").click()
    page.page.wait_for_selector(".workbench")
    page.page.locator("[data-lessons]").click()
    page.page.wait_for_selector(".lesson.list")


def test_an_unknown_lesson_is_said_to_be_so(open_lesson: Any) -> None:
    page: Watched = open_lesson("no-such-lesson")
    expect(page.page.locator(".lesson")).to_contain_text("no-such-lesson", use_inner_text=True)
    expect(page.page.locator("[data-entry]")).to_have_count(len(LESSONS) + len(FIXTURES))


# -- a lesson that is only a file ------------------------------------------------------------------


def test_a_new_file_is_a_lesson_by_keyboard_alone(open_lesson: Any) -> None:
    page: Watched = open_lesson("only-a-test&at=one")
    expect(page.page.locator(".lesson")).to_contain_text("<b>HTML</b>", use_inner_text=True)
    expect(page.page.locator(".lesson b")).to_have_count(0)
    graph = page.page.locator("[data-graph=one]")

    def tab_to(selector: str) -> None:
        for _ in range(60):
            if page.page.evaluate("(s) => document.activeElement.matches(s)", selector):
                return
            page.press("Tab")
        raise AssertionError(f"the focus does not come to {selector}")

    position = graph.locator("[data-position]")
    expect(position).to_have_attribute("data-position", "0")
    tab_to("[data-graph=one] [data-step]")
    page.press("Enter")
    expect(position).to_have_attribute("data-position", "1")
    page.press("ArrowRight")
    expect(position).to_have_attribute("data-position", "2")
    expect(page.page.locator("[data-announced]")).to_have_text(re.compile("^Step 2"))
    page.press("End")
    expect(graph.locator("[data-node=a]")).to_have_attribute("data-grad", "5")
    page.press("ArrowLeft")

    tab_to("[data-task=two] form input")
    assert page.link.endswith("lesson=only-a-test&at=two")
    before = position.get_attribute("data-position")
    for key in ("1", "0", "ArrowLeft", "Enter"):
        page.press(key)
    page.page.wait_for_selector("[data-task=two][data-done=true]")
    expect(page.page.locator("[data-announced]")).to_have_text("Right. 2 · 5 = 10.")
    tab_to("[data-task=three] form input")
    page.page.keyboard.type("2")
    page.press("Enter")
    page.page.wait_for_selector("[data-task=three] [data-feedback=wrong]")
    expect(page.page.locator("[data-announced]")).to_have_text("That is b's.")
    page.press("Backspace")
    page.page.keyboard.type("5")
    page.press("Enter")
    page.page.wait_for_selector("[data-all-done]")
    expect(position, "no key went to the graph").to_have_attribute("data-position", str(before))
    learner = Learner(page.page, read_text("only-a-test"))
    assert len(learner.lesson.tasks) == 2
    learner.has_done(2)


def test_a_link_leads_to_a_place_in_a_lesson(open_lesson: Any) -> None:
    page: Watched = open_lesson("order&at=nine")
    page.page.wait_for_selector("#at-nine:focus")
    page.page.wait_for_function(
        """() => {
          const {top} = document.getElementById("at-nine").getBoundingClientRect();
          return 0 <= top && top < 200;
        }"""
    )
    assert page.link.endswith("lesson=order&at=nine")
    third = LESSONS["order"].blocks[2].id
    page.page.evaluate("location.hash = '#v=1&lesson=order&at=3'")  # as of old
    page.page.wait_for_selector(f"#at-{third}:focus")
    assert page.link.endswith(f"lesson=order&at={third}")
    page.page.evaluate("location.hash = '#v=1&lesson=order&at=nowhere'")
    page.page.wait_for_selector("h2:focus")
    page.page.evaluate("location.hash = '#v=1&preset=square&step=3'")
    page.page.wait_for_selector(".workbench")
    page.wait_for_position(3)


def test_the_answer_is_shown_to_who_has_tried(open_lesson: Any) -> None:
    page: Watched = open_lesson("only-a-test")
    task = page.page.locator("[data-task=two]")
    task.locator("[data-more]").click()
    expect(task.locator("[data-reveal]")).to_have_count(0)
    task.locator("form input").fill("11")
    task.locator("[data-check]").click()
    task.locator("[data-reveal]").click()
    expect(page.page.locator("[data-announced]")).to_contain_text("10", use_inner_text=True)
    expect(task).to_have_attribute("data-done", "false")


def test_two_windows_share_what_is_done(open_lesson: Any) -> None:
    page: Watched = open_lesson("only-a-test")
    other = page.page.context.new_page()
    other.goto(f"{page.address}#v=1&lesson=only-a-test")
    other.wait_for_selector("[data-task=two]")
    page.page.locator("[data-task=two] form input").fill("10")
    page.page.locator("[data-task=two] [data-check]").click()
    other.wait_for_selector("[data-task=two][data-done=true]")


def test_the_right_choice_is_shown_too(open_lesson: Any) -> None:
    page: Watched = open_lesson("every-kind")
    task = page.page.locator("[data-task=pick]")
    task.locator("[data-more]").click()
    expect(task.locator("[data-reveal]")).to_have_count(0)
    task.locator("[data-choice='0']").check()
    task.locator("[data-check]").click()
    task.locator("[data-reveal]").click()
    expect(page.page.locator("[data-announced]")).to_contain_text("the second", use_inner_text=True)
    expect(task).to_have_attribute("data-done", "false")


def test_an_order_is_found_by_ordering(open_lesson: Any) -> None:
    """Not by ticking `=` for `+=`; and one is shown to who has tried."""
    page: Watched = open_lesson("every-kind")
    task = page.page.locator("[data-task=lose]")
    expect(task.locator("[data-overwrite]")).to_have_count(0)
    learner = Learner(page.page, read_text("every-kind"))
    learner._arrange(task, ["d", "b", "c", "a"])
    task.locator("[data-more]").click()
    expect(task.locator("[data-reveal]")).to_have_count(0)
    task.locator("[data-run]").click()
    expect(task.locator("[data-outcome=x]")).to_have_attribute("data-got", "15")
    expect(task).to_have_attribute("data-done", "false")
    task.locator("[data-reveal]").click()
    said = page.page.locator("[data-announced]").inner_text()
    (shown,) = re.findall(r"(?:\w, )+\w", said)
    learner._arrange(task, shown.split(", "))
    task.locator("[data-run]").click()
    page.page.wait_for_selector("[data-task=lose][data-done=true]")

    fixed = page.page.locator("[data-task=replace]")
    switch = fixed.locator("[data-overwrite]")
    expect(switch).to_be_checked()
    expect(switch).to_be_disabled()
    learner._arrange(fixed, ["d", "b", "c", "a"])
    fixed.locator("[data-run]").click()
    page.page.wait_for_selector("[data-task=replace][data-done=true]")


def test_numbers_that_were_revealed_are_not_found(open_lesson: Any) -> None:
    page: Watched = open_lesson("every-kind")
    task = page.page.locator("[data-task=hand]")
    right = {"value f": "10", "grad a": "5", "grad b": "2"}

    def answer(*reveal: str) -> None:
        for asked, number in right.items():
            form = task.locator(f'[data-asked="{asked}"]')
            form.locator("input").focus()  # its buttons are shown then
            if asked in reveal:
                form.get_by_role("button", name="reveal").click()
            else:
                form.locator("input").fill(number)
                form.locator("input").press("Enter")
            task.locator(f'[data-asked="{asked}"]:not([data-done=""])').wait_for()

    answer("value f", "grad b")
    progress = task.locator(".progress")
    expect(progress).to_contain_text("2 revealed", use_inner_text=True)
    expect(progress).to_contain_text("does not count", use_inner_text=True)
    expect(task).to_have_attribute("data-done", "false")
    task.get_by_role("button", name="start again").click()
    answer("value f")
    page.page.wait_for_selector("[data-task=hand][data-done=true]")
    expect(progress).to_contain_text("1 revealed", use_inner_text=True)
    expect(progress).to_contain_text("All done", use_inner_text=True)


def test_a_comma_may_be_a_point_or_not(open_lesson: Any) -> None:
    page: Watched = open_lesson("every-kind")
    task = page.page.locator("[data-task=comma]")
    task.locator("form input").fill("1,000")
    task.locator("[data-check]").click()
    task.locator("[data-feedback=unread]").wait_for()
    expect(task.locator("[data-feedback=unread]")).to_contain_text("1,000", use_inner_text=True)
    expect(task).to_have_attribute("data-done", "false")


def test_a_lesson_is_shared_but_not_saved(open_lesson: Any) -> None:
    page: Watched = open_lesson("every-kind")
    expect(page.page.get_by_role("button", name="Share")).to_have_count(1)
    expect(page.page.get_by_role("button", name="Export")).to_have_count(0)
    page.page.locator("[data-graph]").click()
    page.page.get_by_role("button", name="Export").wait_for()


def test_without_its_files_the_page_says_so(open_lesson: Any) -> None:
    page: Watched = open_lesson("index")
    page.page.route("**/lessons/en/*.md", lambda route: route.abort())
    page.page.locator("[data-entry] a").first.click()
    page.page.wait_for_selector(".lesson button.main")
    page.messages.clear()  # the browser itself tells of a request that failed
    page.page.unroute("**/lessons/en/*.md")
    page.page.locator(".lesson button.main").click()
    page.page.wait_for_selector("article h2")


def test_a_page_in_one_file_offers_no_lessons(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    document = {"kind": "expression", "source": "f = a*a", "values": {"a": 3}}
    path.write_text(page_of("export", document=document), encoding="utf-8")
    watched = Watched(browser.new_context(), path.as_uri())
    watched.page.goto(f"{path.as_uri()}#v=1&lesson=draw-the-graph")
    watched.page.wait_for_selector(".lesson")
    expect(watched.page.locator("[data-lessons]")).to_have_count(0)
    expect(watched.page.locator(".lesson")).to_contain_text("single file", use_inner_text=True)
    assert not watched.messages
    watched.page.context.close()


# -- how it looks and reads ------------------------------------------------------------------------


def test_a_phone_shows_the_tools_of_a_task(open_lesson: Any) -> None:
    page: Watched = open_lesson("draw-the-graph", viewport={"width": 320, "height": 640})
    tools = page.page.locator("[data-task=sum-times] [data-tool]").all()
    assert len(tools) > 2
    for tool in tools:
        expect(tool).to_be_visible()
    asked = page.page.locator("[data-task=second-values] [data-asked]").first
    asked.locator("input").focus()
    expect(asked.get_by_role("button", name="reveal")).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 320)])
def test_axe_finds_nothing_in_lessons(open_lesson: Any, scheme: str, width: int) -> None:
    page: Watched = open_lesson(
        "index", viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    found = {"index": complaints(page)}
    for name in [*FIXTURES, *LESSONS]:
        visit(page, name)
        page.page.wait_for_selector("[data-task]")
        page.page.locator("[data-task] form:has([data-check]) input").first.focus()
        page.press("Enter")  # something wrong is said
        for run in page.page.locator("[data-run]").all():
            run.click()  # and what is lost
        found[name] = complaints(page)
        # Bold words and the tick stand in the sentence, not below each other.
        broken = "(all) => all.filter((p) => getComputedStyle(p).display !== 'block')"
        assert not page.page.locator(".lesson p[id^=ask-]").evaluate_all(broken), name
        # What is said to an answer stands below it, and covers nothing.
        afloat = "(all) => all.filter((p) => getComputedStyle(p).position !== 'static').length"
        assert page.page.locator(".lesson .feedback, .core .said").evaluate_all(afloat) == 0, name
        tables = page.page.locator(".scroll:has(.gradients)")
        hidden = tables.evaluate_all("(all) => all.filter((t) => t.scrollWidth > t.clientWidth)")
        assert not hidden, name
        wide = page.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, name
    assert [f"{name}: {said}" for name, said in found.items() if said] == []


# -- no stray English ------------------------------------------------------------------------------

# Every text of the page and where it stands. Names of nodes and ops, formulas and programs are
# marked as no words (translate="no"); in a label, which has no marks, the vocabulary knows them.
TEXTS = """() => {
  const labels = ["aria-label", "title", "alt", "placeholder", "aria-valuetext", "label"];
  const found = [];
  const look = (element) => {
    if (element.closest("script, style, noscript")) return;
    const words = !element.closest('[translate="no"]');
    const where = `${element.parentElement.className?.baseVal ?? element.parentElement.className} `
      + `${element.tagName}.${element.className?.baseVal ?? element.className}`;
    for (const name of labels) {
      if (element.hasAttribute(name)) found.push(["label", element.getAttribute(name), where]);
    }
    for (const child of element.childNodes) {
      if (child.nodeType === Node.ELEMENT_NODE) look(child);
      else if (words && child.nodeType === Node.TEXT_NODE) {
        const key = element.tagName === "KBD" && child.textContent.length === 1;
        if (!key) found.push(["text", child.textContent, where]);
      }
    }
  };
  look(document.body);
  return [["text", document.title, "title"], ...found];
}"""
# Names of nodes and of modules.
NAMES = """() => [...document.querySelectorAll("[data-node], [data-name]")].flatMap(
  ({ dataset }) => [dataset.node ?? "", dataset.name ?? ""])"""
PLACES = [
    "preset=neuron", "preset=neuron&step=9&select=n", "preset=neuron&step=14&select=o.0",
    "preset=diamond&step=9&select=d%3Ec%3Ea&drawing=edges", "preset=masked-log&step=40",
    "preset=square&step=99", "source=y%3D2x", "preset=none", "preset=dense-layer",
    "preset=maximum-tie&step=99&select=a", "preset=tied-weight",
]  # fmt: skip


class Reader:
    """Looks for words without accents."""

    def __init__(self, page: Watched) -> None:
        self.page = page
        self.found: dict[str, list[str]] = {}
        self.seen = 0
        self.vocabulary = {*TABLE, "max", "e", "inf", "nan", "missing", "none"}
        for lesson in LESSONS.values():
            for block in lesson.blocks:
                self.vocabulary |= {*_words(block.source), *_words(block.one("goal"))}

    def look(self, where: str) -> None:
        for name in self.page.page.evaluate(NAMES):
            self.vocabulary |= set(_words(name))
        texts = self.page.page.evaluate(TEXTS)
        self.seen += len(texts)
        for kind, text, element in texts:
            names = self.vocabulary if kind == "label" else set()
            if words := pseudo.stray(text, self.vocabulary, names):
                self.found.setdefault(f"{words}: {text[:90]} in {element}", []).append(where)


def _words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*", text)


def test_another_language_shows_no_english(open_lesson: Any) -> None:
    page: Watched = open_lesson(f"index&lang={pseudo.CODE}")
    page.page.wait_for_selector(f"html[lang={pseudo.CODE}]")
    reader = Reader(page)
    reader.look("index")
    for name in [*LESSONS, *FIXTURES, "missing"]:
        visit(page, f"{name}&lang={pseudo.CODE}")
        page.page.wait_for_selector(f"html[lang={pseudo.CODE}]")
        page.page.wait_for_selector("[data-task], [data-entry]")
        reader.look(name)
        page.page.evaluate(
            "document.querySelectorAll('[data-more], [data-check], details summary')"
            ".forEach((button) => button.click())"
        )
        page.page.wait_for_timeout(200)
        reader.look(f"{name}, answered")
    for place in PLACES:
        page.page.goto("about:blank")
        page.page.goto(f"{page.address}#v=1&{place}&lang={pseudo.CODE}")
        page.page.wait_for_selector(f"html[lang={pseudo.CODE}] main")
        page.page.wait_for_timeout(150)
        reader.look(place)
        for tab in page.page.locator("[role=tab]").all():
            tab.click()
            reader.look(f"{place}, {tab.get_attribute('id')}")
        page.page.locator("#main").focus()
        page.press("v")
        page.press("?")
        reader.look(f"{place}, table and keys")
    page.messages.clear()
    assert reader.seen > 1000
    assert not reader.found, "\n".join(f"{t}  [{w[0]}]" for t, w in reader.found.items())


def test_a_language_is_chosen_and_remembered(open_lesson: Any) -> None:
    page: Watched = open_lesson("only-a-test")
    page.page.select_option(f"select:has(option[value={pseudo.CODE}])", pseudo.CODE)
    page.page.wait_for_selector(f"article[lang={pseudo.CODE}]")
    expect(page.page.locator("article h2")).to_have_text(pseudo.accented("Only a test"))
    assert f"lang={pseudo.CODE}" in page.link
    visit(page, "only-a-test")
    page.page.wait_for_selector(f"article[lang={pseudo.CODE}]")
    page.page.select_option(f"select:has(option[value={pseudo.CODE}])", "en")
    page.page.wait_for_selector("article[lang=en]")
    expect(page.page.locator("article h2")).to_have_text("Only a test")
