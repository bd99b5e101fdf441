"""The page walks every graph as Python does: values, gradients, formulas, edits, keys, links."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from playwright.sync_api import expect

from gradwalk.inspect.expression.parser import parse
from gradwalk.inspect.trace.trace import Trace
from gradwalk.inspect.walk.walk import Walk, walk
from gradwalk.studio.presets import PRESETS
from tests.batches import batched
from tests.studio.watched import Watched, number, same

pytestmark = pytest.mark.slow

SCALAR = [preset for preset in PRESETS if preset.recording is None]
NAMES = [preset.id for preset in SCALAR]


class Reference:
    """Python's walk of the same graph, by the page's steps.

    Python has steps for constants as well, which the page writes into the operation; the page has a
    step of its own for the seed.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.walk: Walk = walk(trace)
        self.names = [node.label for node in trace.nodes if node.label]
        self.leaves = [node.label for node in trace.nodes if node.label and node.is_leaf]
        steps = [self.walk.at(i) for i in range(1, len(self.walk) + 1)]
        forward = [s.number for s in steps if s.phase == "forward"]
        named = [i for i in forward if self.trace.nodes[steps[i - 1].index].label]
        backward = [s.number for s in steps if s.phase == "backward"]
        # (Python's position, whether the seed is there)
        self.positions = [(0, False), *((i, False) for i in named)]
        self.positions += [(len(forward), True), *((i, True) for i in backward)]

    def __len__(self) -> int:
        return len(self.positions) - 1

    def at(self, position: int) -> dict[str, tuple[float | None, float | None]]:
        """Value and gradient of every named node after so many steps of the page."""
        self.walk.jump(self.positions[position][0])
        seeded = self.positions[position][1]
        found = {}
        for name in self.names:
            value = self.walk.value(name)
            if name in self.leaves:  # given, not computed
                value = self.trace[name].value
            found[name] = (value, self.walk.grad(name) if seeded else None)
        return found


def differences(page: Watched, wanted: dict[str, tuple[float | None, float | None]]) -> list[str]:
    shown = page.nodes
    assert set(shown) == set(wanted)
    return [
        f"{name}: the page has {node['value']!r}, {node['grad']!r}, Python {wanted[name]}"
        for name, node in shown.items()
        if not same(number(node["value"]), wanted[name][0])
        or not same(number(node["grad"]), wanted[name][1])
    ]


def test_every_preset_at_every_step(open_page: Any) -> None:
    page: Watched = open_page()
    for preset in SCALAR:
        page.page.select_option("[data-presets]", preset.id)
        page.wait_for_position(0)
        page.page.locator("body").click(position={"x": 2, "y": 2})
        reference = Reference(preset.trace())
        for position in range(len(reference) + 1):
            page.wait_for_position(position)
            assert not differences(page, reference.at(position)), (preset.id, position)
            page.press("ArrowRight")
        page.wait_for_position(len(reference))
        # and all the way back: what is announced as next is what came
        came = {edge["edge"]: edge["pushed"] for edge in page.edges}
        announced: dict[str, str] = {}
        for position in range(len(reference) - 1, -1, -1):
            page.press("ArrowLeft")
            page.wait_for_position(position)
            announced |= {e["edge"]: e["next"] for e in page.edges if e["next"]}
        assert announced == came, preset.id
        assert not differences(page, reference.at(0)), preset.id


@batched("name", NAMES)
def test_edges_show_formula_and_number(same_page: Any, name: str) -> None:
    preset = next(p for p in SCALAR if p.id == name)
    reference = Reference(preset.trace())
    page: Watched = same_page(f"#v=1&preset={name}&step={len(reference)}")
    pushes = {
        f"{step.name}.{place}": push
        for i in range(1, len(reference.walk) + 1)
        for step in [reference.walk.at(i)]
        for place, push in _places(reference.trace, step)
    }
    shown = {edge["edge"]: edge for edge in page.edges}
    assert set(shown) == set(pushes)
    for key, push in pushes.items():
        assert same(number(shown[key]["local"]), push.slope), key
        assert same(number(shown[key]["pushed"]), push.amount), key
    page.press("v")
    page.page.wait_for_selector("table.edges")
    listed = page.page.evaluate(
        "() => [...document.querySelectorAll('table.edges tbody tr')].map("
        "(row) => row.children[2].textContent)"
    )
    assert listed == [pushes[key].formula for key in shown]
    page.press("v")
    for key in list(shown)[:6]:
        page.page.locator(f'[data-edge="{key}"]').focus()
        page.press("Enter")
        found = page.page.locator(f'[data-derivative="{key}"]')
        found.wait_for()
        assert same(
            number(found.locator("[data-number]").get_attribute("data-number")),
            push_at(pushes, key),
        )
        expect(found.locator("mfrac").first).to_be_attached()


def push_at(pushes: dict[str, Any], key: str) -> float:
    """The local derivative Python has for an edge."""
    slope: float = pushes[key].slope
    return slope


def _places(trace: Trace, step: Any) -> Any:
    """Each push to a named input with the place of its operand."""
    for push in step.pushes:
        if trace.nodes[push.to].label:
            yield push.argument, push


EDITS = [("neuron", "w1", -2.5), ("diamond", "a", 0.5), ("softmax", "z2", 3.25),
         ("dead-relu", "b", 1.0), ("masked-log", "p2", 0.25), ("exploding", "w", -1.5)]  # fmt: skip


@batched("name, leaf, to", EDITS)
def test_editing_a_leaf(same_page: Any, name: str, leaf: str, to: float) -> None:
    preset = next(p for p in SCALAR if p.id == name)
    before = Reference(preset.trace())
    steps = len(before)
    page: Watched = same_page(f"#v=1&preset={name}&step={steps}")
    old = before.at(steps)
    page.page.fill(f'[data-leaf="{leaf}"]', f"{to}".replace("-", "−").replace(".", ","))
    page.wait_for_value(leaf, to)
    after = Reference(parse(preset.source).build(preset.values | {leaf: to}).trace())
    assert not differences(page, after.at(steps))
    root = after.trace.nodes[-1].label
    row = page.page.locator(f'[data-changed="{root}"]')
    predicted = number(row.locator("[data-predicted]").get_attribute("data-predicted"))
    real = number(row.locator("[data-real]").get_attribute("data-real"))
    old_value, new_value = old[root][0], after.at(steps)[root][0]
    assert old[leaf][1] is not None and old_value is not None and new_value is not None
    assert same(predicted, old[leaf][1] * (to - preset.values[leaf]))
    assert same(real, new_value - old_value)
    # Stepping still works, and the leaves go back to where they were.
    page.page.get_by_role("button", name="reset all leaves").click()
    page.wait_for_value(leaf, preset.values[leaf])
    assert not differences(page, old)


def test_editing_on_the_leaf_itself(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=square&step=4")
    page.page.locator('[data-node="a"]').click()
    field = page.page.locator('.graph [data-leaf="a"]')
    expect(field).to_be_focused()  # a click begins typing
    page.press("ArrowUp")
    page.wait_for_value("a", 3.1)
    page.wait_for_grad("a", 6.2)
    page.press("Shift+ArrowDown")
    page.wait_for_value("a", 2.1)
    page.press("Control+a")
    page.page.keyboard.type("abc")
    expect(field).to_have_attribute("aria-invalid", "true")
    page.wait_for_value("a", 2.1)
    told = page.page.locator(".graph .notnumber")
    expect(told).to_contain_text("“abc” is not a number", use_inner_text=True)
    assert _uncovered(page, ".graph .notnumber")
    page.wait_for_position(4)  # arrows in a field are for the field
    page.press("Escape")
    expect(told).to_be_hidden()
    page.press("ArrowLeft")
    page.wait_for_position(3)


def _uncovered(page: Watched, selector: str) -> bool:
    """Whether an element is what one sees in its middle."""
    found: bool = page.page.evaluate(
        """(selector) => {
          const one = document.querySelector(selector);
          const {x, y, width, height} = one.getBoundingClientRect();
          return one.contains(document.elementFromPoint(x + width / 2, y + height / 2));
        }""",
        selector,
    )
    return found


def test_a_click_leaves_no_ring_and_a_key_shows_one(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=neuron&step=16")
    ring = "() => getComputedStyle(document.activeElement).outlineStyle"
    page.page.locator('[data-node="n"]').click()
    assert page.page.evaluate(ring) == "none"
    page.press("Tab")
    page.press("Shift+Tab")
    assert page.page.evaluate(ring) == "solid"


def test_no_page_is_longer_than_what_it_shows(open_page: Any) -> None:
    """What only screen readers see, deep in a panel that scrolls, must not lengthen the page."""
    page: Watched = open_page()
    for panel in ("byhand", "order", "why"):
        page.go(f"#v=1&preset=neuron&panel={panel}&select=w1")
        end, height = page.page.evaluate(
            "() => [document.querySelector('.workbench').getBoundingClientRect().bottom + scrollY,"
            " document.documentElement.scrollHeight]"
        )
        assert height <= max(end, 800) + 2, panel


def test_the_chain_rule_is_read_to_its_end(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=neuron&panel=why&select=w1")
    expect(page.page.locator(".derivation math").nth(5)).to_be_attached()
    cut = page.page.evaluate(
        """() => [...document.querySelectorAll('.derivation')].filter(
          (e) => e.scrollWidth > e.clientWidth + 1).length"""
    )
    assert cut == 0
    # d(x1w1), not dx1w1: that reads as a product
    names = page.page.locator(".derivation mfrac").all_text_contents()
    assert "do" + "d(x1w1)" in names, names


def test_on_paper_there_is_the_graph_and_nothing_to_press(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=neuron&step=12", color_scheme="dark")
    page.page.emulate_media(media="print", color_scheme="dark")
    for gone in ("[data-presets]", ".tabs", ".stepbar button", ".zoom button", "[data-send]"):
        expect(page.page.locator(gone).first).to_be_hidden()
    expect(page.page.locator("#scene-title")).to_be_visible()
    expect(page.page.locator('[data-node="n"]')).to_be_visible()
    ink = page.page.evaluate("() => getComputedStyle(document.body).color")
    assert sum(map(int, ink[4:-1].split(","))) < 200, "dark on white"


@pytest.mark.parametrize(("preset", "nodes"), [("network-2-2-1", 28), ("dense-layer", 8)])
def test_the_whole_graph_is_on_paper(open_page: Any, preset: str, nodes: int) -> None:
    page: Watched = open_page(f"#v=1&preset={preset}&step=8")
    page.resting_box(".graph > svg g")
    page.page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    page.page.emulate_media(media="print")  # a new size: the view glides to it while printing
    page.resting_box(".graph > svg")
    within = """() => [...document.querySelectorAll('.graph > svg [data-node]')].filter((node) => {
      const {left, right, top} = node.getBoundingClientRect();
      return left >= 0 && right <= innerWidth && top > 0;
    }).length"""
    assert page.page.evaluate(within) == nodes
    page.page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert page.page.locator(".graph > svg").get_attribute("viewBox") is None


def test_typing_ones_own(open_page: Any) -> None:
    page: Watched = open_page("#v=1&panel=type")
    source = "u = a*b + b\nsigmoid(u)/u"
    page.page.fill("#own", source)
    page.press("Control+Enter")
    page.wait_for_position(0)
    page.page.wait_for_selector('[data-node="out"]')
    expect(page.page.locator("#scene-title")).to_have_text("Your own graph")
    reference = Reference(parse(source).build({"b": 6.8813735870195432}).trace())
    page.page.locator("[data-presets]").focus()
    page.page.locator("#main").focus()
    page.press("End")
    page.wait_for_position(len(reference))
    assert not differences(
        page, reference.at(len(reference))
    )  # b was a leaf before, and keeps 6.88
    page.page.fill("#own", "y = 2x + 1")
    page.press("Control+Enter")
    wrong = page.page.locator(".mistake")
    with pytest.raises(ValueError) as raised:
        parse("y = 2x + 1")
    python = str(raised.value).splitlines()
    expect(wrong).to_have_attribute("data-column", str(python[2].index("^") - 1))
    expect(wrong).to_contain_text("2*x", use_inner_text=True)
    assert set(page.nodes) == set(reference.names), "a mistake leaves what is open alone"


def test_opening_and_closing_tanh(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=neuron&step=16&select=o")
    closed = page.nodes
    page.page.click('[data-open="o"]')
    page.page.wait_for_selector('[data-node="o_1"]')
    opened = page.nodes
    assert len(opened) > len(closed)
    for name, node in closed.items():
        for what in ("value", "grad"):
            one, other = number(node[what]), number(opened[name][what])
            assert one is not None and other is not None
            assert one == pytest.approx(other, rel=1e-12), name
    assert "open=o" in page.link
    page.go(page.link)
    assert set(page.nodes) == set(opened)
    page.page.locator('[data-node="o_1"]').focus()
    page.press("Enter")
    page.page.click('[data-close="o"]')
    page.page.wait_for_selector('[data-node="o_1"]', state="detached")
    assert set(page.nodes) == set(closed)


def test_by_keyboard_alone(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=square")
    page.press("Tab")
    expect(page.page.locator(":focus")).to_have_text("Skip to the graph")
    page.press("Enter")
    expect(page.page.locator("#main")).to_be_focused()
    said = []
    for position in (1, 2, 3, 4):
        page.press("ArrowRight")
        page.wait_for_position(position)
        said.append(page.page.inner_text("[data-announced]"))
    page.wait_for_grad("a", 6)
    assert len(set(said)) == 4
    assert "3 × 1" not in said[-1] and "6" in said[-1], "the last step says what a has now"
    page.press("ArrowRight")
    expect(page.page.locator("[data-announced]")).to_have_text("This is the last step.")
    page.press("Home")
    page.wait_for_position(0)
    page.press("]")
    page.wait_for_position(2)
    page.press("End")
    page.wait_for_position(4)
    page.press("[")
    page.wait_for_position(2)
    # Space plays to the end and stops there.
    page.press(" ")
    page.wait_for_position(4)
    # Tab reaches both edges of a × a and both nodes; Enter selects.
    reached = set()
    for _ in range(40):
        page.press("Tab")
        found = page.page.evaluate("() => ({...document.activeElement.dataset})")
        reached.add(found.get("edge") or found.get("node"))
        if found.get("edge") == "f.1":
            page.press("Enter")
    assert {"f.0", "f.1", "a", "f"} <= reached
    assert "select=f.1" in page.link
    page.page.locator("#main").focus()
    page.press("Escape")
    assert "select" not in page.link
    # The map of the keyboard names every key, and opens and closes by keyboard.
    page.page.locator("#main").focus()
    page.press("?")
    page.page.wait_for_selector("dialog[open]")
    keys = page.page.locator("dialog kbd").all_inner_texts()
    assert {"→", "←", "Space", "Home", "End", "?", "c", "i", "t", "+", "-"} <= set(keys)
    page.press("Escape")
    page.page.wait_for_selector("dialog[open]", state="detached")
    for key, name in (("c", "Code"), ("t", "Type"), ("i", "Inspect")):
        page.page.locator("#main").focus()
        page.press(key)
        page.page.wait_for_selector(f'[role=tab][aria-selected=true]:text-is("{name}")')
    page.press("e")
    page.page.wait_for_selector('[data-drawing="edges"]')


def test_the_line_of_code(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=diamond&panel=code")
    now = ".listing .now"
    lines = []
    for position in range(1, 9):
        page.press("ArrowRight")
        page.wait_for_position(position)
        lines.append(page.page.inner_text(now).strip())
    assert lines[:4] == ["order.append(v)"] * 4
    assert lines[4] == "d.grad = 1"
    assert lines[5:] == ["i.grad += v.grad * local"] * 3
    expect(page.page.locator(".drawer summary").first).to_contain_text(
        "4 of 4", use_inner_text=True
    )
    page.page.click(".drawer summary")
    for count, begins in (("edges", "4 of 4"), ("paths", "2")):
        told = page.page.locator(f'[data-count="{count}"]')
        expect(told).to_have_text(re.compile(f"^{begins}"), use_inner_text=True)
    # Line by line back: the walk follows.
    for _ in range(200):
        if page.position < 6:
            break
        page.page.get_by_role("button", name="undo one line").click()
    page.wait_for_position(5)


def test_selecting_a_path(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=diamond&step=8&select=a")
    listed = page.page.locator(".picks button", has_text="d →")
    expect(listed).to_have_count(2)
    assert sorted(t.split()[-1] for t in listed.all_inner_texts()) == ["+6", "+9"]
    listed.filter(has_text="+9").click()
    expect(page.page.locator("[data-product]").first).to_have_attribute("data-product", "9")
    expect(page.page.locator(".edge.path")).to_have_count(2)
    expect(page.page.locator(".legend")).to_have_text(re.compile("3 × 3 = 9$"))
    assert page.link.endswith("select=d%3Ec%3Ea")


LINKS = [
    "#v=1&preset=neuron&step=12&select=n&panel=code&drawing=edges",
    "#v=1&preset=square&set=a:-2.5&step=4&select=f.1",
    "#v=1&preset=diamond&step=8&select=d%3Eb%3Ea",
    "#v=1&preset=square&step=4&select=f.1%3Ea",
    "#v=1&source=y%3Dx%5E3%2B5*x%3B%20y*z&set=x:2,z:0.1&step=7",
    "#v=1&preset=neuron&open=o&step=9",
]


def _shown(page: Watched) -> dict[str, Any]:
    return {
        "nodes": page.nodes,
        "edges": page.edges,
        "position": page.position,
        "phase": page.phase,
        "title": page.page.inner_text("#scene-title"),
        "panel": page.page.inner_text("#panel"),
        "selected": page.page.locator(".selected").count(),
    }


def test_links_lead_back_to_what_they_came_from(open_page: Any) -> None:
    page: Watched = open_page()
    for link in LINKS:
        page.go(link)
        expect(page.page.locator(".notices"), link).to_have_count(0)
        first, written = _shown(page), page.link
        page.go(written)
        assert _shown(page) == first, link
        assert page.link == written
        page.go(link)
        assert page.link == written, "the same is always written the same"


WRONG = {
    "#v=2&preset=square": "version 2",
    "#v=1&preset=nothing": "nothing",
    "#v=1&preset=square&step=many": "step=many",
    "#v=1&preset=square&frog=1": "frog=1",
    "#v=1&preset=square&select=zz": "zz",
    "#v=1&preset=square&set=f:3": "f",
    "#v=1&preset=square&set=a:%ZZ": "a:%ZZ",
    "#v=1&source=a*b&set=q:3": "q",
    "#v=1&preset=square&order=a,q": "q",
}


def test_wrong_links_say_so_and_open_the_rest(open_page: Any) -> None:
    page: Watched = open_page()
    for link, told in WRONG.items():
        page.go(link)
        expect(page.page.locator(".notices").first, link).to_contain_text(told, use_inner_text=True)
        assert page.nodes, link
    page.go("#v=1&source=1%2B")
    expect(page.page.locator(".mistake").first).to_have_attribute("data-column", "3")
    page.go("#v=1&preset=square&step=99999")
    page.wait_for_position(4)


def test_going_back_in_the_address(open_page: Any) -> None:
    """An address typed by hand, or a link on the page itself, is followed without loading anew."""
    page: Watched = open_page("#v=1&preset=square")
    page.page.evaluate("() => { location.hash = '#v=1&preset=diamond&step=8' }")
    page.wait_for_position(8)
    page.wait_for_grad("a", 15)


def test_dragging_wheel_and_fit(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=sum-times")

    def corner() -> tuple[float, float, float]:
        box = page.resting_box('[data-node="f"]')
        return box["x"], box["y"], box["width"]

    frame = page.page.locator(".graph").bounding_box()
    start = corner()
    page.page.mouse.move(frame["x"] + 20, frame["y"] + 20)
    page.page.mouse.down()
    page.page.mouse.move(frame["x"] - 40, frame["y"] + 50, steps=4)
    page.page.mouse.up()
    moved = corner()
    assert moved[0] == pytest.approx(start[0] - 60, abs=1)
    assert moved[1] == pytest.approx(start[1] + 30, abs=1)
    # The wheel is the page's; with Ctrl it zooms.
    page.page.mouse.move(frame["x"] + 200, frame["y"] + 100)
    page.page.evaluate(
        "() => addEventListener('wheel', (event) => (window.taken = event.defaultPrevented))"
    )
    page.page.mouse.wheel(0, 120)
    page.page.wait_for_function("() => window.taken === false")
    assert corner()[2] == start[2]
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -300)
    page.page.keyboard.up("Control")
    wide = "(w) => document.querySelector('[data-node=f]').getBoundingClientRect().width > w"
    page.page.wait_for_function(wide, arg=start[2] * 1.2)
    page.page.locator("#main").focus()
    page.press("0")
    fitted = corner()
    assert fitted == pytest.approx(start, abs=1)
    page.press("Shift+ArrowRight")
    assert corner()[0] == pytest.approx(fitted[0] - 80, abs=1)
    page.press("-")
    assert corner()[2] == pytest.approx(fitted[2] * 0.8, rel=0.01)


SIZES = list(itertools.product([(1280, 800), (320, 640), (3840, 2160)], ["light", "dark"]))


@pytest.mark.parametrize(("size", "scheme"), SIZES)
def test_no_page_scrolls_sideways(open_page: Any, size: tuple[int, int], scheme: str) -> None:
    page: Watched = open_page(
        "#v=1&preset=exploding&step=30&select=w",
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,
    )
    for key in ("i", "c", "t", "v"):
        page.page.locator("#main").focus()
        page.press(key)
        wide = page.page.evaluate("() => document.documentElement.scrollWidth")
        assert wide <= size[0], key
    dark = page.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, dark[4:-1].split(","))) < 200) == (scheme == "dark")
