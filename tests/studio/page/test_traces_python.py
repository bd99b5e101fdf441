"""Recorded traces in the page: what is wrong with them, what Python says, links and exports."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import gradwalk as gw
from gradwalk.inspect.trace.trace import Trace
from gradwalk.studio import answers
from gradwalk.studio.launch import Studio
from gradwalk.studio.problems import findings as findings_of
from tests.studio.recordings import made_inside, not_a_number, transformer
from tests.studio.serving import sick_trace
from tests.studio.traced import check_numbers, find, open_file, saved
from tests.studio.watched import Watched, number

pytestmark = pytest.mark.slow

# -- what is wrong ---------------------------------------------------------------------------------


def test_nan_is_marked(open_page: Any, tmp_path: Path) -> None:
    trace = not_a_number()
    page: Watched = open_page()
    open_file(page, saved(trace, tmp_path))
    nodes = [n.index for n in trace.nodes if not np.isfinite(n.value).all()]
    grads = [i for i, g in trace.sweep.grads.items() if not np.isfinite(g[0]).all()]
    broken = set(nodes) | set(grads)
    expect(page.page.locator(".node:has(.mark.broken) [data-node]")).to_have_count(len(broken))
    marked = page.page.locator(".node:has(.mark.broken) [data-node]").evaluate_all(
        "all => all.map(e => Number(e.dataset.node))"
    )
    assert set(marked) == broken
    cause = min(nodes)  # what the first bad value came from; gradients are bad because of it
    first = page.page.locator(".mistake .link")
    assert trace.name(cause) == gw.find_nan(trace).name
    expect(first).to_have_text(trace.name(cause))
    first.click()
    expect(page.page.locator("[data-selected]").first).to_have_attribute(
        "data-selected", str(cause)
    )
    for index in grads:  # a norm of the finite elements would be 0
        expect(page.page.locator(f'[data-node="{index}"]').first).to_have_attribute(
            "data-grad", "NaN"
        )
    find(page, "weight")
    norm = page.page.locator('[data-tensor="gradient"] [data-statistic=norm]')
    expect(norm).to_have_attribute("data-number", "NaN")
    page.page.click("[data-matrices]")
    expect(page.page.locator("[data-trace-drawing]").first).to_contain_text(
        "∇ NaN", use_inner_text=True
    )
    expect(page.page.locator(".steptext").first).to_contain_text(
        "To weight: norm NaN", use_inner_text=True
    )


def test_the_first_of_gradients_is_the_first_to_arrive(open_page: Any, tmp_path: Path) -> None:
    """All values are finite: 0 × inf at the root of 0 makes the gradients NaN."""
    with gw.record() as trace:
        x = gw.zeros(3, requires_grad=True)
        ((x * 2).sqrt() * 0).sum().backward()
    assert all(np.isfinite(n.value).all() for n in trace.nodes)
    broken = {i for i, g in trace.sweep.grads.items() if not np.isfinite(g[0]).all()}
    first = next(i for i in trace.sweep.visits if i in broken)
    assert first != min(broken)
    page: Watched = open_page()
    open_file(page, saved(trace, tmp_path))
    expect(page.page.locator(".mistake .link").first).to_have_text(trace.name(first))


def damaged(small: Path, folder: Path) -> dict[str, tuple[bytes, str]]:
    """Files that are no good, and a part of what the page must say."""
    content = small.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    description = json.loads(header["__metadata__"]["gradwalk_trace"])

    def written(described: Any) -> bytes:
        changed = {**header, "__metadata__": {"gradwalk_trace": json.dumps(described)}}
        text = json.dumps(changed).encode()
        return len(text).to_bytes(8, "little") + text + content[8 + length :]

    def with_nodes(**changes: Any) -> bytes:
        nodes = [*description["nodes"]]
        nodes[2] = {**nodes[2], **changes}
        return written({**description, "nodes": nodes})

    gw.save({"weight": gw.ones(3)}, folder / "state")
    overlapping = json.dumps(
        {
            "__metadata__": {"gradwalk_trace": json.dumps(description)},
            "v0.0": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]},
        }
    ).encode()
    return {
        "truncated numbers": (content[:-100], "cut off"),
        "truncated header": (content[: 8 + length // 2], "cut off"),
        "nothing": (b"", "0 bytes"),
        "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(200), "not a trace file"),
        "text": (b"import gradwalk as gw\n" * 20, "not a trace file"),
        "a state dict": ((folder / "state").read_bytes(), "no trace in it"),
        "a newer version": (written({**description, "version": 7}), "version 7"),
        "an input that is not there": (with_nodes(args=[[10**9, 0]]), "nodes[2].args"),
        "a hostile shape": (with_nodes(metas=[[[2**53], "float32"]]), "nodes[2].metas"),
        "a hostile number": (with_nodes(values=[{"float": "9" * 400}]), "nodes[2].values"),
        "a hostile array": (
            len(overlapping).to_bytes(8, "little") + overlapping, "cut off"
        ),
        "a length beyond everything": (b"\xff" * 8 + content[8:], "not a trace file"),
    }  # fmt: skip


def test_bad_files_are_told_and_change_nothing(
    open_page: Any, small: tuple[Trace, Path], tmp_path: Path
) -> None:
    page: Watched = open_page("#v=1&preset=square")
    for name, (content, told) in damaged(small[1], tmp_path).items():
        path = tmp_path / "bad.trace"
        path.write_bytes(content)
        page.page.set_input_files("[data-trace-file]", path)
        notice = page.page.locator(".notices li").first
        expect(notice, name).to_contain_text(told, use_inner_text=True)
        page.page.click(".notices button")
        expect(page.page.locator(".notices")).to_have_count(0)
        expect(page.page.locator("[data-presets]")).to_be_attached()
        assert "f" in page.nodes, f"after {name} the graph is gone"
    open_file(page, small[1])


def test_without_python_the_page_says_so(open_page: Any, small: tuple[Trace, Path]) -> None:
    page: Watched = open_page()
    open_file(page, small[1])
    expect(page.page.locator("#panel")).to_contain_text("needs Python", use_inner_text=True)
    find(page, "blocks.0.q.weight")
    expect(page.page.locator("#panel")).to_contain_text("needs Python", use_inner_text=True)
    expect(page.page.locator("[data-why]")).to_have_count(0)


# -- with Python -----------------------------------------------------------------------------------


def test_a_live_session_with_its_findings(visit: Any, studio: Studio) -> None:
    sick = studio.sessions.show(sick_trace(), "seven sigmoids")
    studio.sessions.show(transformer(1), "another")
    page: Watched = visit(studio.url(sick))
    page.page.wait_for_selector("[data-finding]")
    findings = sick.findings
    assert findings
    expect(page.page.locator("[data-finding]")).to_have_count(len(findings))
    listed = page.page.locator("[data-finding]").evaluate_all(
        "all => all.map(e => e.dataset.finding)"
    )
    assert listed == [finding["kind"] for finding in findings]
    for finding in findings:
        expect(page.page.locator("#panel")).to_contain_text(finding["text"], use_inner_text=True)
        expect(page.page.locator("#panel")).to_contain_text(finding["line"], use_inner_text=True)
    # marked on the graph: on operations, or on the closed modules around them
    expect(page.page.locator(".mark.sick").first).to_be_attached()
    page.page.locator("[data-finding] button").first.click()
    expect(page.page.locator("[data-selected]").first).to_have_attribute(
        "data-selected", str(findings[0]["nodes"][0])
    )
    # the other one, from the list
    before = page.page.evaluate("location.search")
    page.page.click("[data-open-trace]")
    page.page.locator("[data-session]", has_text="another").click()
    page.page.locator("#scene-title", has_text="another").wait_for()
    page.page.wait_for_function("(before) => location.search !== before", arg=before)
    page.page.reload()
    page.page.wait_for_selector("[data-trace-drawing] .box")
    expect(page.page.locator("#scene-title")).to_have_text("another")


def test_why_and_one_element_are_asked_from_python(
    visit: Any, studio: Studio, small: tuple[Trace, Path]
) -> None:
    trace = small[0]
    page: Watched = visit(studio.url(studio.sessions.show(trace, "two blocks")))
    page.page.wait_for_selector("[data-trace-drawing] .box")
    norm = next(n for n in trace.nodes if n.op == "standardize_affine")  # goes into q, k and v
    find(page, trace.name(norm.index))
    page.page.click("[data-why]")
    page.page.wait_for_selector("[data-why-answer]")
    why = gw.why(norm.index, trace)
    assert {str(edge.consumer) for edge in why.edges} == set(
        page.page.locator("[data-contribution]").evaluate_all(
            "all => all.map(e => e.dataset.contribution)"
        )
    )
    page.page.locator(".ask input").fill("0, 1, 99")
    page.page.click("[data-why-element]")
    page.page.wait_for_selector(".ask [role=alert]")
    expect(page.page.locator(".ask [role=alert]").first).to_contain_text(
        "no element 0, 1, 99", use_inner_text=True
    )

    find(page, "linear#14")
    page.page.locator(".ask input").fill("0, 1, 2")
    page.page.click("[data-element]")
    page.page.wait_for_selector("[data-to-trace]")  # a graph of numbers, live
    page.page.locator("#main").focus()
    page.press("End")
    found = answers.element(trace, {"node": 14, "element": [0, 1, 2]})
    values = [number(node["value"]) for node in page.nodes.values()]
    # recorded in single precision, and computed in double here
    assert any(v is not None and math.isclose(v, found["value"], rel_tol=1e-5) for v in values)
    page.page.click("[data-to-trace]")
    page.page.wait_for_selector("[data-trace-drawing] .box")


def test_a_composite_is_taken_apart(visit: Any, studio: Studio, small: tuple[Trace, Path]) -> None:
    trace = small[0]
    page: Watched = visit(studio.url(studio.sessions.show(trace, "two blocks")))
    page.page.wait_for_selector("[data-trace-drawing] .box")
    composite = next(n for n in trace.nodes if n.op == "standardize_affine")
    find(page, trace.name(composite.index))
    page.page.get_by_role("button", name="what it is made of").click()
    page.page.wait_for_selector("text=back to two blocks")
    opened = answers.opened(trace, {"node": composite.index})
    expect(page.page.locator("#scene-title")).to_have_text(opened["name"])
    drawn = page.page.locator("[data-node]").evaluate_all("all => all.map(e => e.dataset.name)")
    ops = [f"{node['op']}#{i}" for i, node in enumerate(opened["trace"]["nodes"]) if node["op"]]
    assert len(ops) > 1 and set(ops) <= set(drawn)
    page.page.click("text=back to two blocks")
    page.page.wait_for_selector("#scene-title >> text=two blocks")
    expect(page.page.locator("[data-selected]").first).to_have_attribute(
        "data-selected", str(composite.index)
    )
    page.page.get_by_text("The whole trace").first.click()
    page.page.wait_for_selector("text=Nothing was found wrong")


def test_a_file_in_a_server_page_gets_pythons_tools(
    visit: Any, studio: Studio, tmp_path: Path
) -> None:
    studio.sessions.show(transformer(1), "one")
    page: Watched = visit(studio.url())
    page.page.wait_for_selector("[data-trace-drawing] .box")
    open_file(page, saved(sick_trace(), tmp_path))
    page.page.wait_for_selector("[data-finding]")
    kinds = page.page.locator("[data-finding]").evaluate_all(
        "all => all.map(e => e.dataset.finding)"
    )
    assert kinds == [finding["kind"] for finding in findings_of(sick_trace())]
    page.page.reload()
    page.page.wait_for_selector("[data-finding]")
    expect(page.page.locator("#scene-title"), "by the name of the file").to_have_text("step")


def test_a_file_of_numbers_in_a_server_page_is_shown_again(
    visit: Any, studio: Studio, tmp_path: Path
) -> None:
    p = gw.Value(0.0, label="p")
    page: Watched = visit(studio.url())
    file = saved(gw.record(p * p.log()), tmp_path)
    page.page.set_input_files("[data-trace-file]", file)
    page.page.wait_for_selector('[data-node="p"]')
    page.page.wait_for_url(lambda url: "session=" in url and "preset=" not in url)
    page.page.reload()
    page.page.wait_for_selector('[data-node="p"]')


def test_numbers_recorded_by_python_are_live(visit: Any, studio: Studio) -> None:
    """A graph of Values is computed in the page, and can be changed there."""
    a = gw.Value(2.0, label="a")
    b = a + 1
    b.label = "b"
    d = b * (3 * a)
    d.label = "d"
    page: Watched = visit(studio.url(studio.sessions.show(gw.record(d), "diamond")))
    page.page.wait_for_selector('[data-node="d"]')
    page.page.locator("#main").focus()
    page.press("End")
    page.wait_for_grad("a", 15.0)
    page.page.fill("[data-leaf=a]", "3")
    page.page.wait_for_selector('[data-node="d"][data-value="36"]')


def test_numbers_of_a_session_are_pythons(
    visit: Any, studio: Studio, small: tuple[Trace, Path]
) -> None:
    session = studio.sessions.show(small[0], "two blocks")
    page: Watched = visit(studio.url(session))
    page.page.wait_for_selector("[data-trace-drawing] .box")
    check_numbers(page, small[0])


@pytest.mark.parametrize("live", [False, True], ids=["a file", "a session"])
def test_an_exported_trace_opens_from_disk(
    open_page: Any,
    visit: Any,
    studio: Studio,
    browser: Any,
    small: tuple[Trace, Path],
    tmp_path: Path,
    live: bool,
) -> None:
    if live:
        page: Watched = visit(studio.url(studio.sessions.show(small[0], "two blocks")))
        page.page.wait_for_selector("[data-trace-drawing] .box")
    else:
        page = open_page()
        open_file(page, small[1])
    with page.page.expect_download() as download:
        page.page.get_by_role("button", name="Export").click()
    path = tmp_path / "copy.html"
    download.value.save_as(path)
    context = browser.new_context(offline=True)
    copy = Watched(context, path.as_uri())
    copy.go("")
    copy.page.wait_for_selector("[data-trace-drawing] .box")
    expect(copy.page.locator("#main")).to_contain_text(
        "replay what Python computed", use_inner_text=True
    )
    check_numbers(copy, small[0])
    assert not copy.messages
    context.close()


def test_a_recording_says_that_it_replays(
    open_page: Any, visit: Any, studio: Studio, small: tuple[Trace, Path]
) -> None:
    """Where no Python is, what is shown cannot be computed anew."""
    for link in ("#v=1&preset=matrix-product", "#v=1&preset=dense-layer"):
        expect(open_page(link).page.locator("#panel")).to_contain_text(
            "replay what Python computed", use_inner_text=True
        )
    expect(open_page("#v=1&preset=square").page.locator("#main")).not_to_contain_text(
        "replay", use_inner_text=True
    )
    page: Watched = visit(studio.url(studio.sessions.show(small[0], "two blocks")))
    page.page.wait_for_selector("[data-trace-drawing] .box")
    expect(page.page.locator("#main")).not_to_contain_text("replay", use_inner_text=True)


# -- sessions --------------------------------------------------------------------------------------


def test_the_findings_of_numbers_are_told(visit: Any, studio: Studio) -> None:
    p = gw.Value(0.0, label="p")
    trace = gw.record(p * p.log())
    session = studio.sessions.show(trace, "a logarithm")
    (finding,) = session.findings
    page: Watched = visit(studio.url(session))
    expect(page.page.locator(".notices")).to_contain_text("a logarithm", use_inner_text=True)
    told = page.page.inner_text(".notices")
    # Python calls the node without a name log#1, the page v1.
    assert finding["text"].startswith("log#1: ")
    assert finding["text"].replace("log#1", "v1") in told
    assert finding["line"] in told and finding["fix"] in told and "a logarithm" in told
    expect(page.page.locator("#panel"), "the cause is selected").to_contain_text(
        "Node v1", use_inner_text=True
    )
    healthy = gw.Value(2.0, label="a")
    page = visit(studio.url(studio.sessions.show(gw.record(healthy.log()), "another")))
    page.page.wait_for_selector('[data-node="a"]')
    page.page.wait_for_timeout(300)  # what is not told has no event to wait for
    expect(page.page.locator(".notices")).to_have_count(0)


def test_weights_being_made_are_folded_away(visit: Any, studio: Studio) -> None:
    trace = made_inside()
    page: Watched = visit(studio.url(studio.sessions.show(trace, "model.py:loss")))
    page.page.wait_for_selector("[data-trace-drawing] .box")
    drawn = page.page.locator("[data-node]").evaluate_all("all => all.map(e => +e.dataset.node)")
    assert "setitem" not in {trace.nodes[i].op for i in drawn}
    assert "linear" in {trace.nodes[i].op for i in drawn}
    facts = page.page.inner_text(".facts").split()
    assert facts[facts.index("Parameters") + 1] == "4"
    made = next(n for n in trace.nodes if n.op == "setitem")
    find(page, trace.name(made.index))
    expect(page.page.locator(f'[data-node="{made.index}"]')).to_be_visible()
    # What is initialised there has the name of the parameter, which is what one looks for.
    page.page.fill("#trace-search", "0.weight")
    page.page.press("#trace-search", "Enter")
    page.page.wait_for_selector('[data-tensor="gradient"]')


def test_a_link_to_a_session_opens_it_where_it_was(
    visit: Any, studio: Studio, small: tuple[Trace, Path]
) -> None:
    page: Watched = visit(studio.url(studio.sessions.show(small[0], "two blocks")))
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.page.wait_for_selector("[data-trace-drawing] .box")
    find(page, "blocks.1.q.weight")
    weight = page.page.get_attribute("[data-selected]", "data-selected")
    page.page.click("[data-to-edge]")
    page.page.evaluate("gradwalkStudio.trace.jump(33)")
    rule = page.page.get_attribute("[data-rule]", "data-rule")
    assert page.link  # once it follows
    page.page.get_by_role("button", name="Share").click()
    page.page.wait_for_selector(".notices")
    expect(page.page.locator(".notices").first).to_contain_text(
        "while this server runs. Export", use_inner_text=True
    )
    shared = page.page.evaluate("() => navigator.clipboard.readText()")
    page.page.reload()
    other = visit(shared)  # in another tab, without what this one keeps
    for again in (page, other):
        again.page.wait_for_selector("[data-rule]")
        again.wait_for_position(33)
        expect(again.page.locator("[data-rule]")).to_have_attribute("data-rule", str(rule))
        expect(again.page.locator(f'[data-node="{weight}"]'), "its module is open").to_be_visible()
    # at the very start, and all closed
    page.page.evaluate("gradwalkStudio.trace.jump(0); gradwalkStudio.trace.closeAll()")
    assert page.link
    page.page.reload()
    page.page.wait_for_selector("[data-trace-drawing] .box")
    page.wait_for_position(0)
    expect(page.page.locator("[data-scope]")).to_have_count(1)


def test_a_link_to_numbers_of_a_session(visit: Any, studio: Studio) -> None:
    a = gw.Value(2.0, label="a")
    d = a * (a + 1)
    d.label = "d"
    page: Watched = visit(studio.url(studio.sessions.show(gw.record(d), "numbers")))
    page.page.wait_for_selector('[data-node="d"]')
    page.page.locator("#main").focus()
    for _ in range(3):
        page.press("ArrowRight")
    page.page.fill("[data-leaf=a]", "5")
    page.page.wait_for_selector('[data-node="d"][data-value="30"]')
    position = page.position
    assert page.link
    page.page.reload()
    page.page.wait_for_selector('[data-node="d"]')
    page.wait_for_position(position)
    page.wait_for_value("a", 5.0)


def test_a_server_that_has_stopped_is_told_in_words(
    browser: Any, studio: Studio, small: tuple[Trace, Path]
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = Watched(context, studio.url(studio.sessions.show(small[0], "two blocks")))
    page.go("")
    page.page.wait_for_selector("[data-trace-drawing] .box")
    find(page, "blocks.1.q.weight")
    studio.stop()
    said = "the server has stopped"
    page.page.click("[data-why]")
    page.page.locator(".ask [role=alert]", has_text=said).wait_for()
    page.page.locator("[data-show-elements]").first.click()
    page.page.locator(".tensor [role=alert]", has_text=said).wait_for()
    page.page.click("[data-open-trace]")
    page.page.locator("dialog [role=alert]", has_text=said).wait_for()
    assert "fetch" not in page.page.inner_text("body").lower()
    context.close()
