"""The server in a real browser: our page works under its policy, other pages reach nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import gradwalk as gw
from gradwalk.studio.launch import Studio, expression_link
from gradwalk.studio.sessions import Sessions
from gradwalk.studio.site import write_site
from tests.studio.conftest import ARGUMENTS, need_browser, serving
from tests.studio.serving import tensor_trace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def studio() -> Iterator[Studio]:
    sessions = Sessions()
    sessions.show(tensor_trace(), "a model")
    found = Studio(sessions, port=0)
    yield found
    found.stop()


class Visit:
    """A page, and what happened to it."""

    def __init__(self, browser: Any) -> None:
        self.page = browser.new_page()
        self.messages: list[str] = []
        self.answers: list[tuple[int, str]] = []
        self.page.on("console", lambda m: self.messages.append(m.text))
        self.page.on("pageerror", lambda e: self.messages.append(str(e)))
        self.page.on("response", lambda r: self.answers.append((r.status, r.url)))

    def of(self, studio: Studio) -> list[int]:
        """The statuses of what this server answered."""
        return [status for status, url in self.answers if f":{studio.port}/" in url]


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    found = Visit(browser)
    yield found
    found.page.close()


def test_the_page_works_under_its_policy(visit: Visit, studio: Studio) -> None:
    link = expression_link("y = x^3 + 5·x", {"x": 2.0})
    visit.page.goto(studio.url(link=link))
    visit.page.wait_for_selector("#app *")
    visit.page.wait_for_load_state("networkidle")
    assert visit.messages == []
    assert set(visit.of(studio)) == {200} and len(visit.of(studio)) == len(visit.answers)
    ask = """async (token) => {
        const headers = token ? {"X-Gradwalk-Token": token} : {};
        const answer = await fetch("api/sessions", {headers});
        return [answer.status, (await answer.json()).length ?? 0];
    }"""
    assert visit.page.evaluate(ask, studio.token) == [200, 1]
    assert visit.page.evaluate(ask, "") == [403, 0]


def test_the_token_is_in_memory_alone(visit: Visit, studio: Studio) -> None:
    """Not in the address, not in storage: there only while one page ends and the next begins."""
    page = visit.page
    everything = """() => [location.href, document.cookie, JSON.stringify(history.state),
        JSON.stringify(sessionStorage), JSON.stringify(localStorage),
        document.documentElement.outerHTML].join("\\n")"""
    page.goto(studio.url(link=expression_link("y = x^2", {"x": 3.0})))
    page.wait_for_selector("#app *")
    assert studio.token not in page.evaluate(everything)
    assert "source=" in page.evaluate("location.hash")
    page.goto(studio.url(studio.sessions.latest))
    for _ in range(3):  # loaded again, the page still may ask
        page.wait_for_load_state("networkidle")
        assert visit.messages == []
        expect(page.locator("body").first).to_contain_text("a model", use_inner_text=True)
        assert studio.token not in page.evaluate(everything)
        page.reload()
    page.wait_for_load_state("networkidle")
    page.goto("about:blank")
    page.go_back()
    page.wait_for_load_state("networkidle")
    expect(page.locator("body").first).to_contain_text("a model", use_inner_text=True)
    assert studio.token not in page.evaluate(everything)
    assert set(visit.of(studio)) <= {200, 304}


def test_nothing_injected_runs_and_nothing_leaves(visit: Visit, studio: Studio) -> None:
    visit.page.goto(studio.url())
    visit.page.wait_for_selector("#app *")
    found = visit.page.evaluate("""async () => {
        const inline = document.createElement("script");
        inline.textContent = "window.injected = true";
        document.body.append(inline);
        const holder = document.createElement("div");
        holder.innerHTML = "<img src=x onerror='window.injected = true'>";
        document.body.append(holder);
        const elsewhere = await fetch("http://127.0.0.1:1/", {mode: "no-cors"}).then(
            () => "sent", () => "blocked");
        const frame = document.createElement("iframe");
        frame.src = "http://example.com/";
        document.body.append(frame);
        await new Promise((done) => setTimeout(done, 300));
        return [window.injected ?? false, elsewhere];
    }""")
    assert found == [False, "blocked"]
    assert any("Content Security Policy" in message for message in visit.messages)
    assert not [url for _, url in visit.answers if "example.com" in url]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Another server of this machine: same site, but not our origin."""
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "index.html").write_text("<!doctype html><link rel=icon href=data:,>", "utf-8")
    with serving(folder) as address:
        yield address


def test_another_page_cannot_ask(visit: Visit, studio: Studio, foreign: str) -> None:
    visit.page.goto(foreign)
    found = visit.page.evaluate(
        """async ([place, token]) => {
            const ask = (path, options) => fetch(place + path, options).then(
                async (answer) => answer.type === "opaque" ? "opaque" : answer.text(),
                () => "refused");
            const load = (tag, name, path) => new Promise((done) => {
                const made = document.createElement(tag);
                made.onload = () => done("loaded");
                made.onerror = () => done("refused");
                made[name] = place + path;
                document.body.append(made);
            });
            return {
                page: await ask("", {}),
                token: await ask("api/sessions", {headers: {"X-Gradwalk-Token": token}}),
                simple: await ask("api/sessions", {mode: "no-cors"}),
                post: await ask("api/walk", {method: "POST", body: "{}", mode: "no-cors"}),
                script: await load("script", "src", "app.js"),
                image: await load("img", "src", "app.css"),
            };
        }""",
        [f"http://127.0.0.1:{studio.port}/", studio.token],
    )
    assert set(found.values()) == {"refused"}, found
    assert set(visit.of(studio)) <= {403}


def test_another_page_cannot_frame_or_send_forms(
    visit: Visit, studio: Studio, foreign: str
) -> None:
    place = f"http://127.0.0.1:{studio.port}/"
    visit.page.goto(foreign)
    visit.page.evaluate("(place) => document.body.innerHTML = `<iframe src='${place}'>`", place)
    visit.page.wait_for_timeout(500)
    assert visit.of(studio) == [403]
    visit.page.goto(foreign)
    form = "<form method=post action='{}api/walk'><input name=source value=x></form>"
    visit.page.evaluate("(html) => document.body.innerHTML = html", form.format(place))
    with visit.page.expect_navigation() as navigation:
        visit.page.evaluate("document.forms[0].submit()")
    assert navigation.value.status == 403
    expect(visit.page.locator("body").first).to_contain_text("another", use_inner_text=True)


def test_a_name_that_was_made_to_point_here_is_refused(browser: Any, studio: Studio) -> None:
    """DNS rebinding: the browser believes that the attacker's own page is asking."""
    rule = "--host-resolver-rules=MAP attacker.example 127.0.0.1"
    rebound = browser.browser_type.launch(executable_path=need_browser(), args=[*ARGUMENTS, rule])
    try:
        page = rebound.new_page()
        answer = page.goto(f"http://attacker.example:{studio.port}/")
        assert answer.status == 403
        ask = "(token) => fetch('/api/sessions', {headers: {'X-Gradwalk-Token': token}})"
        assert page.evaluate(f"{ask}.then((a) => a.status)", studio.token) == 403
    finally:
        rebound.close()


def test_an_export_works_from_disk_without_a_network(browser: Any, tmp_path: Path) -> None:
    a = gw.Value(3.0, label="a </script> & <b>")
    gw.studio.export(a * a, tmp_path / "square.html", "a × a")
    context = browser.new_context(offline=True)
    messages: list[str] = []
    asked: list[str] = []
    page = context.new_page()
    page.on("console", lambda m: messages.append(m.text))
    page.on("pageerror", lambda e: messages.append(str(e)))
    page.on("request", lambda r: asked.append(r.url))
    page.goto((tmp_path / "square.html").as_uri())
    page.wait_for_selector("#app *")
    page.wait_for_timeout(300)
    assert messages == []
    others = [url for url in asked if not url.startswith(("data:", "blob:"))]
    assert others == [(tmp_path / "square.html").as_uri()]
    context.close()


def test_a_site_stands_in_a_frame_under_a_path(visit: Visit, tmp_path: Path) -> None:
    write_site(tmp_path / "deep" / "site")
    frame = "<!doctype html><link rel=icon href=data:,><iframe src='deep/site/'></iframe>"
    (tmp_path / "index.html").write_text(frame, encoding="utf-8")
    with serving(tmp_path) as address:
        visit.page.goto(address)
        visit.page.frame_locator("iframe").locator("#app *").first.wait_for()
        visit.page.wait_for_load_state("networkidle")
    assert visit.messages == []
    assert {status for status, _ in visit.answers} == {200}
