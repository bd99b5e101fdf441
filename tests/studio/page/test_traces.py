"""Recorded traces in the page: opened from files, looked into, walked."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import gradwalk as gw
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.file import describe
from gradwalk.inspect.trace.trace import Trace
from gradwalk.studio.presets import PRESETS
from tests.studio import recordings
from tests.studio.page.test_access import complaints
from tests.studio.recordings import transformer
from tests.studio.traced import check_numbers, find, heat_cells, open_file, saved, scope
from tests.studio.watched import Watched, number

pytestmark = pytest.mark.slow

MOST_ELEMENTS = 600  # in the page, whatever is open
SLACK = 4  # where tests run, other programs do too
BARS = {"gradwalk.trace": 1500, "gradwalk.group": 100}  # milliseconds, of the issue
BLOCKS = 72


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Path]:
    """A transformer of 2,000 operations, with the statistics of its arrays."""
    trace = transformer(BLOCKS)
    assert sum(1 for node in trace.nodes if node.op) > 2000
    return trace, saved(trace, tmp_path_factory.mktemp("large"))


def elements(page: Watched) -> int:
    return int(page.page.evaluate("document.querySelectorAll('*').length"))


def measured(page: Watched) -> dict[str, float]:
    """The longest of each kind, in milliseconds."""
    page.page.wait_for_timeout(300)
    entries = page.page.evaluate(
        "performance.getEntriesByType('measure').map((m) => [m.name, m.duration])"
    )
    found: dict[str, float] = {}
    for name, duration in entries:
        found[name] = max(duration, found.get(name, 0.0))
    return found


# -- 2,000 operations ------------------------------------------------------------------------------


def test_a_large_trace_opens_fast_and_stays_small(
    open_page: Any, large: tuple[Trace, Path], record_property: Any
) -> None:
    trace, path = large
    page: Watched = open_page()
    open_file(page, path)
    counts = {"collapsed": elements(page)}
    operations = int(page.page.inner_text("[data-operations]"))
    assert operations == sum(1 for node in trace.nodes if node.op)
    scope(page, "GPT").click()
    scope(page, "blocks.0").click()
    page.page.wait_for_selector('[data-scope][data-name="norm1"]')
    counts["a block"] = elements(page)

    # everything open, from near and from far
    page.page.evaluate(
        "() => {const t = gradwalkStudio.trace; t.open.value = new Set(t.outline.scopes.keys())}"
    )
    page.page.wait_for_timeout(200)
    counts["all open"] = elements(page)
    page.page.locator("#main").focus()
    for zoom in range(20):
        page.press("-")
        counts[f"zoomed out {zoom}"] = elements(page)
    frames = page.page.evaluate(PAN)
    counts["panned"] = elements(page)
    times = measured(page)
    for name, value in {**times, **counts, "frame": frames}.items():
        record_property(name, value)
    print({name: round(ms) for name, ms in times.items()}, counts, "frame", round(frames, 1))
    assert max(counts.values()) <= MOST_ELEMENTS, counts
    for name, bar in BARS.items():
        assert times[name] < SLACK * bar, (name, times[name])
    assert frames < SLACK * 34, "moving the drawing stutters"


# Drags the drawing about for 40 frames; milliseconds of the median frame.
PAN = """async () => {
  const box = document.querySelector("[data-trace-drawing]");
  const at = box.getBoundingClientRect();
  const send = (type, x) => box.dispatchEvent(new PointerEvent(type, {
    bubbles: true, button: 0, pointerId: 1, clientX: at.left + x, clientY: at.top + 8}));
  box.setPointerCapture = () => {};
  const frame = () => new Promise(requestAnimationFrame);
  send("pointerdown", 400);
  const times = [];
  let last = await frame();
  for (let i = 0; i < 40; i++) {
    send("pointermove", 400 - 25 * i);
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  send("pointerup", 0);
  return times.sort((a, b) => a - b)[20];
}"""


def test_modules_open_and_close_by_mouse_and_keyboard(
    open_page: Any, large: tuple[Trace, Path]
) -> None:
    trace, path = large
    page: Watched = open_page()
    open_file(page, path)
    expect(page.page.locator("[data-scope]"), "it begins collapsed").to_have_count(1)
    scope(page, "GPT").click()
    expect(scope(page, "GPT")).to_have_attribute("aria-expanded", "true")
    expect(scope(page, "blocks.0")).to_have_attribute("aria-expanded", "false")

    scope(page, "blocks.0").press("Enter")
    block = next(i for i, g in enumerate(trace.groups) if g.path == "blocks.0")
    page.page.wait_for_selector('[data-name="blocks.0"][aria-expanded="true"]')
    inside = [trace.name(n.index) for n in trace.nodes if n.op and n.group == block]
    page.page.locator("#main").focus()
    page.press("v")  # the table has one module at a time
    page.page.click("tr[data-row-scope] button")
    page.page.locator("tr[data-row-scope] button", has_text="blocks.0").first.click()
    page.page.wait_for_selector(f'tr[data-row="{inside[0]}"]')
    rows = page.page.locator("tr[data-row]").evaluate_all("rows => rows.map(r => r.dataset.row)")
    assert [name for name in rows if name in inside] == inside
    page.press("v")
    page.page.wait_for_selector("[data-trace-drawing] .box")

    scope(page, "blocks.0").press("Space")
    expect(scope(page, "blocks.0")).to_have_attribute("aria-expanded", "false")
    expect(page.page.locator('[data-scope][data-name="norm1"]')).to_have_count(0)
    page.page.locator("#main").focus()
    page.press("c")
    expect(page.page.locator("[data-scope]")).to_have_count(1)


def test_search_by_name_operation_and_line(open_page: Any, large: tuple[Trace, Path]) -> None:
    trace, path = large
    page: Watched = open_page()
    open_file(page, path)

    def search(asked: str, count: int) -> None:
        page.page.fill("#trace-search", asked)
        status = page.page.locator(".results [role=status]")
        expect(status).to_have_text(re.compile(rf"^{count}\b"))

    def holding(asked: str) -> int:
        """Operations, leaves and modules that have it in name, op, path or source line."""
        found = [f"{g.name} {g.class_name}" for g in trace.groups]
        for node in trace.nodes:
            line = node.line
            place = f"{Path(line.file).name}:{line.line} {line.text}" if line else ""
            path = trace.groups[node.group].path if node.group is not None else ""
            found.append(f"{trace.name(node.index)} {node.op} {path} {place}")
        return sum(asked in text.lower() for text in found)

    softmax = next(n for n in trace.nodes if n.op == "softmax")
    assert softmax.line is not None
    place = f"{Path(softmax.line.file).name}:{softmax.line.line}"
    for asked in ("softmax", "layernorm", "blocks.7.", place):
        assert holding(asked) > 0
        search(asked, holding(asked))
    search("softmax", holding("softmax"))  # the operation itself comes first
    expect(page.page.locator("[data-result]").first).to_have_text(re.compile("^softmax#"))
    search("nothing of the kind", 0)

    name = "blocks.37.down.weight"
    page.page.fill("#trace-search", name)
    page.page.press("#trace-search", "Enter")
    page.page.wait_for_selector("[data-selected]")
    index = trace.find(name)
    expect(page.page.locator("[data-selected]").first).to_have_attribute(
        "data-selected", str(index)
    )
    expect(page.page.locator(f'[data-node="{index}"]')).to_be_visible()


# -- numbers ---------------------------------------------------------------------------------------


def test_numbers_of_a_file_are_pythons(open_page: Any, small: tuple[Trace, Path]) -> None:
    page: Watched = open_page()
    open_file(page, small[1])
    check_numbers(page, small[0])


def test_small_matrices_are_shown_in_figures(open_page: Any) -> None:
    """A matrix product: dX = dY·Wᵀ, dW = Xᵀ·dY, in the shapes of X and W."""
    preset = next(p for p in PRESETS if p.id == "matrix-product")
    trace = preset.trace()
    page: Watched = open_page("#v=1&preset=matrix-product")
    for name in ("X", "W", "Y"):
        find(page, name)
        for tensor, array in (("value", trace[name].value), ("gradient", trace.grad(name))):
            cells = page.page.locator(f'[data-tensor="{tensor}"] td')
            expect(cells).to_have_count(array.size)
            figures = cells.evaluate_all("cells => cells.map(c => Number(c.dataset.number))")
            assert np.allclose(np.reshape(figures, array.shape), array, rtol=1e-11)
            shown = page.page.locator(f'[data-tensor="{tensor}"] [data-statistic]')
            for name_, text in shown.evaluate_all(
                "all => all.map(e => [e.dataset.statistic, e.dataset.number])"
            ):
                wanted = getattr(Statistics.of(array), name_)
                assert math.isclose(float(text), wanted, rel_tol=1e-10, abs_tol=1e-12), name_


@pytest.mark.parametrize(("edge", "rule"), [("0", "g @ Wᵀ"), ("1", "Xᵀ @ g")], ids=["to X", "to W"])
def test_an_edge_has_its_formula(open_page: Any, edge: str, rule: str) -> None:
    trace = next(p for p in PRESETS if p.id == "matrix-product").trace()
    product = trace.find("Y")
    page: Watched = open_page(f"#v=1&preset=matrix-product&select=~{product}.{edge}")
    expect(page.page.locator(f'[data-rule="{product}.{edge}"]').first).to_have_text(rule)
    pushed = trace.sweep.pushed[product][int(edge)]
    cells = page.page.locator('[data-tensor="pushed"] td')
    expect(cells).to_have_count(pushed.size)
    figures = cells.evaluate_all("cells => cells.map(c => Number(c.dataset.number))")
    assert np.allclose(np.reshape(figures, pushed.shape), pushed, rtol=1e-11)


# -- walking ---------------------------------------------------------------------------------------

STEPS = """() => gradwalkStudio.trace.steps.value.map(({phase, node}) => [phase, node])"""
VISITED = """() => [...new Set([...document.querySelectorAll('[data-visited=true]')].map(
  (e) => Number(e.dataset.node)))].sort((a, b) => a - b)"""


def test_the_steps_are_the_recorded_visits(open_page: Any, large: tuple[Trace, Path]) -> None:
    trace, path = large
    page: Watched = open_page()
    open_file(page, path)
    steps = page.page.evaluate(STEPS)
    assert [n for phase, n in steps if phase == "forward"] == [n.index for n in trace.nodes if n.op]
    assert [n for phase, n in steps if phase == "seed"] == [edge.node for edge in trace.sweep.seeds]
    assert [n for phase, n in steps if phase == "backward"] == trace.sweep.visits
    page.wait_for_position(len(steps))  # what was recorded is all there


@pytest.mark.parametrize("name", ["dense-layer", "matrix-product", "tied-weight"])
def test_walking_a_small_trace(open_page: Any, name: str) -> None:
    trace = next(p for p in PRESETS if p.id == name).trace()
    page: Watched = open_page(f"#v=1&preset={name}")
    operations = [n.index for n in trace.nodes if n.op]
    page.page.locator("#main").focus()
    page.press("0")  # all of it in sight
    for position in range(len(operations)):
        page.wait_for_position(position)
        expect(page.page.locator("[data-known=false]")).to_have_count(len(operations) - position)
        later = page.page.locator("[data-known=false]").evaluate_all(
            "all => all.map(e => Number(e.dataset.node))"
        )
        assert sorted(later) == operations[position:]
        page.press("ArrowRight")
    assert page.page.evaluate(VISITED) == []
    page.press("ArrowRight")
    page.page.wait_for_selector("[data-phase=seed]")
    for done, node in enumerate(trace.sweep.visits, 1):
        page.press("ArrowRight")
        page.wait_for_position(len(operations) + 1 + done)
        assert page.page.evaluate(VISITED) == sorted(trace.sweep.visits[:done])
        pushed = trace.sweep.pushed[node]
        for argument, part in enumerate(pushed):
            if part is None:
                continue
            norms = page.page.locator(f'[data-edge="{node}.{argument}"]').evaluate_all(
                "all => all.map(e => e.dataset.pushed)"
            )
            assert norms
            for norm in norms:
                assert math.isclose(float(norm), Statistics.of(part).norm, rel_tol=1e-10)
    for index, parts in trace.sweep.grads.items():
        shown = number(page.page.get_attribute(f'[data-node="{index}"]', "data-grad"))
        assert shown is not None
        assert math.isclose(shown, Statistics.of(parts[0]).norm, rel_tol=1e-10)
    last = page.position
    page.press("ArrowLeft")
    page.wait_for_position(last - 1)
    assert page.page.evaluate(VISITED) == sorted(trace.sweep.visits[:-1])
    page.press("Home")
    page.wait_for_position(0)
    page.press("End")
    page.wait_for_position(last)
    page.page.select_option(".speed select", "4")
    page.page.locator("#main").focus()
    page.page.evaluate(
        "() => {window.seen = []; gradwalkStudio.trace.position.subscribe((p) => seen.push(p))}"
    )
    page.press("Space")
    page.page.wait_for_selector('button[aria-label="pause"]')
    page.page.wait_for_selector('button[aria-label="play"]')
    assert page.page.evaluate("seen") == [last, *range(last + 1)]


def test_a_link_opens_a_preset_where_it_was(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=tied-weight&step=7")
    page.wait_for_position(7)
    find(page, "W")
    link = page.link
    page.go(link)
    page.wait_for_position(7)
    expect(page.page.locator("[data-selected]").first).to_have_text("W")


def test_a_file_can_be_dropped(open_page: Any, small: tuple[Trace, Path]) -> None:
    page: Watched = open_page()
    page.page.evaluate(
        """(numbers) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([new Uint8Array(numbers)], "dropped.trace"));
          document.body.dispatchEvent(
            new DragEvent("drop", {bubbles: true, cancelable: true, dataTransfer: transfer}));
        }""",
        list(small[1].read_bytes()),
    )
    page.page.wait_for_selector("[data-trace-drawing] .box")
    expect(page.page.locator("#scene-title")).to_have_text("dropped")


# -- what is drawn ---------------------------------------------------------------------------------

# Texts that leave the box they stand in, or (what is handed back) lie on another box.
STRAY = """() => {
  const spot = (e) => e.getBoundingClientRect();
  const boxes = [...document.querySelectorAll("[data-trace-drawing] .node, .scope.closed")];
  const stray = boxes.flatMap((g) => [...g.querySelectorAll("text")].filter((text) => {
    const [inner, outer] = [spot(text), spot(g.querySelector(".box"))];
    return inner.left < outer.left || inner.right > outer.right;
  }));
  const rows = boxes.flatMap((g) => {
    const [name, mark] = [g.querySelector(".name"), g.querySelector(".mark")];
    return mark && spot(name).right > spot(mark).left ? [name] : [];
  });
  const labels = [...document.querySelectorAll(".pushed")].filter((text) => boxes.some((g) => {
    const [one, other] = [spot(text), spot(g.querySelector(".box"))];
    return one.left < other.right && other.left < one.right && one.top < other.bottom - 2 &&
      other.top < one.bottom - 2;
  }));
  return [...stray, ...rows, ...labels].map((text) => text.textContent);
}"""


@pytest.mark.parametrize("name", ["exploding", "not_a_number", "transformer"])
def test_texts_stay_in_their_boxes(open_page: Any, tmp_path: Path, name: str) -> None:
    trace = transformer(1, keep="all") if name == "transformer" else getattr(recordings, name)()
    page: Watched = open_page()
    open_file(page, saved(trace, tmp_path))
    page.page.evaluate(
        "() => {const t = gradwalkStudio.trace; t.open.value = new Set(t.outline.scopes.keys())}"
    )
    for matrices, text in [("true", ".side"), ("false", ".fact")]:
        page.page.evaluate(f"gradwalkStudio.trace.matrices.value = {matrices}")
        expect(page.page.locator(f"[data-trace-drawing] .node {text}").nth(5)).to_be_attached()
        page.resting_box("[data-trace-drawing] .box")
        assert page.page.evaluate(STRAY) == []
    page.page.evaluate("gradwalkStudio.trace.closeAll()")
    page.resting_box("[data-trace-drawing] .box")
    assert page.page.evaluate(STRAY) == []


def test_a_long_trace_begins_with_what_can_be_read(open_page: Any, tmp_path: Path) -> None:
    page: Watched = open_page()
    open_file(page, saved(transformer(12), tmp_path))

    def scale() -> float:
        return float(page.page.evaluate("document.querySelector('.trace .box').getScreenCTM().a"))

    assert scale() >= 0.7
    first = page.resting_box("[data-trace-drawing] .box")
    frame = page.page.locator("[data-trace-drawing]").bounding_box()
    assert first["x"] >= frame["x"], "it begins with the beginning"
    page.page.get_by_role("button", name="Fit").click()
    page.resting_box("[data-trace-drawing] .box")
    assert scale() < 0.5, "all of it, when that is asked for"


def test_what_is_opened_stays_in_sight(open_page: Any, tmp_path: Path) -> None:
    """However far it is from where the walk stands."""
    page: Watched = open_page()
    open_file(page, saved(transformer(12), tmp_path))
    page.page.fill("#trace-search", "blocks.9")
    page.page.click('[data-result="blocks.9"]')
    scope(page, "blocks.9").press("Enter")
    page.page.wait_for_selector('[data-name="blocks.9"][aria-expanded="true"]')
    box = page.resting_box('[data-scope][data-name="blocks.9"]')
    frame = page.page.locator("[data-trace-drawing]").bounding_box()
    assert frame["x"] <= box["x"] < frame["x"] + frame["width"] - 100


def test_a_sick_trace_begins_with_what_is_wrong(open_page: Any, tmp_path: Path) -> None:
    gw.manual_seed(0)
    model = recordings.Deep(24, 1.0)
    with gw.record() as trace:
        (model(gw.randn(8, 16)) - 10).sqrt().mean().backward()
    page: Watched = open_page()
    open_file(page, saved(trace, tmp_path))
    cause = min(n.index for n in trace.nodes if not np.isfinite(n.value).all())
    page.page.wait_for_selector(f'[data-node="{cause}"]')
    box = page.resting_box(f'[data-node="{cause}"]')
    frame = page.page.locator("[data-trace-drawing]").bounding_box()
    assert frame["x"] <= box["x"] and box["x"] + box["width"] <= frame["x"] + frame["width"]


# -- for everybody ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 320])
def test_axe_finds_nothing(
    open_page: Any, small: tuple[Trace, Path], scheme: str, width: int
) -> None:
    page: Watched = open_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    open_file(page, small[1])
    found = {"begin": complaints(page)}
    find(page, "blocks.0.q.weight")
    heat_cells(page, "value", "d")
    found["node"] = complaints(page)
    page.page.locator("[data-to-edge]").first.click()
    page.page.wait_for_selector("[data-rule]")
    found["edge"] = complaints(page)
    page.page.locator("#main").focus()
    page.press("v")
    page.page.wait_for_selector("tr[data-row-scope]")
    found["table"] = complaints(page)
    if width == 320:
        page.page.click("button.menu")
    page.page.click("[data-open-trace]")
    page.page.wait_for_selector("dialog[open]")
    found["dialog"] = complaints(page)
    assert not {name: list_ for name, list_ in found.items() if list_}


def test_a_description_without_groups_or_sweeps(open_page: Any, tmp_path: Path) -> None:
    """Nothing went backward: values are there, gradients are not."""
    with gw.record() as trace:
        x = gw.ones(3, 4)
        x.tanh().sum()
    assert not describe(trace)[0]["sweeps"]
    page: Watched = open_page()
    open_file(page, saved(trace, tmp_path))
    find(page, trace.name(1))
    expect(page.page.locator('[data-tensor="value"]')).to_have_count(1)
    expect(page.page.locator('[data-tensor="gradient"]')).to_have_count(0)
