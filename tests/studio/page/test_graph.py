"""The drawing of a scalar graph: what moves, what is dragged, what lines mean, and curves."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from playwright.sync_api import expect

import gradwalk as gw
from gradwalk.ops import TABLE
from gradwalk.studio.presets import PRESETS
from tests.studio.graphs import page_graph
from tests.studio.node import Node
from tests.studio.page.test_access import complaints
from tests.studio.page.test_engine_ops import close, same_slope
from tests.studio.watched import Watched

# Everything that is written on tokens from now on.
_WATCH = """() => {
  window.tokens = [];
  const read = () => document.querySelectorAll(".token text").forEach((text) => {
    if (!window.tokens.includes(text.textContent)) window.tokens.push(text.textContent);
  });
  new MutationObserver(read).observe(document.querySelector("[data-drawing] svg"),
    {subtree: true, childList: true, characterData: true});
}"""
_SLIDE = """(slider, to) => {
  slider.value = to;
  slider.dispatchEvent(new Event("input", {bubbles: true}));
}"""
_RELEASE = """(slider) => slider.dispatchEvent(new Event("change", {bubbles: true}))"""
_WIDTHS = """() => Object.fromEntries(
  [...document.querySelectorAll("[data-drawing] > svg .edge")].map((edge) => {
    const style = getComputedStyle(edge.querySelector(".line"));
    return [edge.querySelector("[data-edge]").dataset.edge, {
      width: parseFloat(style.strokeWidth), opacity: parseFloat(style.opacity),
      colour: style.stroke, dashes: style.strokeDasharray}];
  }))"""


def texts(page: Watched, selector: str) -> list[str]:
    found: list[str] = page.page.locator(selector).all_text_contents()
    return found


def test_a_gradient_is_multiplied_on_its_way(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=neuron&step=15")
    slider = page.page.locator("[data-position] input[type=range]")
    on_the_way = ((15.1, "+0.5", "+0.5"), (15.5, "0.5 × (−3)", "0.5 × 2"), (15.9, "−1.5", "+1"))
    for at, to_x1, to_w1 in on_the_way:
        slider.evaluate(_SLIDE, at)
        page.page.wait_for_function(
            "(text) => document.querySelector('.token text')?.textContent === text", arg=to_x1
        )
        assert texts(page, ".token text") == [to_x1, to_w1]
        arrived = any("−1.5" in text for text in texts(page, ".node .grad"))
        assert not arrived, "it is on its way"
    slider.evaluate(_RELEASE)
    page.page.wait_for_selector(".token", state="detached")
    page.page.wait_for_selector(".edge.now .pushed >> text=+= −1.5")
    page.wait_for_position(16)
    page.wait_for_grad("x1", pytest.approx(-1.5))
    # Less than half of the way: it goes back.
    slider.evaluate(_SLIDE, 14.2)
    slider.evaluate(_RELEASE)
    page.wait_for_position(14)
    page.page.wait_for_selector(".token", state="detached")


def test_a_step_is_seen_and_changes_the_page_at_once(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=neuron&step=15")
    page.page.evaluate(_WATCH)
    page.page.locator("#main").focus()
    page.press("ArrowRight")
    assert page.grad("x1") == pytest.approx(-1.5), "data does not wait for motion"
    page.page.wait_for_function("() => window.tokens.includes('+0.5')")
    page.page.wait_for_selector(".token", state="detached")
    assert any("−1.5" in text for text in texts(page, ".node .grad"))
    page.go("#v=1&preset=neuron&step=6")
    page.page.evaluate(_WATCH)
    page.page.locator("#main").focus()
    page.press("ArrowRight")
    page.page.wait_for_function("() => window.tokens.length > 0")
    now = page.page.locator(".node.now [data-node]").get_attribute("data-node")
    assert (now, page.page.evaluate("() => window.tokens")) == ("sum", ["−6", "0"])


def test_nothing_moves_where_that_is_asked(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=neuron&step=12", reduced_motion="reduce")
    page.page.evaluate(_WATCH)
    page.page.locator("#main").focus()
    for position in (13, 14, 15, 16):
        page.press("ArrowRight")
        page.wait_for_position(position)
    page.page.locator("[data-position] input[type=range]").evaluate(_SLIDE, 13.6)
    page.wait_for_position(14)
    assert page.page.evaluate("() => window.tokens") == []


def test_a_leaf_is_dragged_and_all_follows(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=product-chain&step=99")
    box = page.page.locator('[data-node="a"]').bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    seen = set()
    for by in range(10, 60, 10):
        page.page.mouse.move(x + by, y)
        seen.add((page.value("a"), page.value("L"), page.grad("b")))
    page.page.mouse.up()
    a = page.value("a")
    assert len(seen) == 5 and a == pytest.approx(2.5)
    page.wait_for_value("L", pytest.approx((a * -3 + 5) * -2))
    page.wait_for_grad("b", pytest.approx(-2 * a))
    assert "select" not in page.link, "a drag is no click"
    # The name beside the field in the panel is dragged too.
    box = page.page.locator(".leaves .dragged").first.bounding_box()
    page.page.mouse.move(box["x"] + 4, box["y"] + 8)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 14, box["y"] + 8, steps=4)
    page.page.mouse.up()
    page.wait_for_value("a", pytest.approx(2.6))
    # The same with keys, and a click still opens the field.
    handle = page.page.locator('[data-drag="a"]')
    handle.focus()
    page.press("ArrowRight")
    page.press("Shift+ArrowLeft")
    page.wait_for_value("a", pytest.approx(1.7))
    expect(handle).to_have_attribute("aria-valuenow", "1.7")
    page.page.locator('[data-node="a"]').click()
    page.page.wait_for_selector('.graph [data-leaf="a"]:focus')


def test_width_and_colour_are_size_and_sign(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=six-sigmoids&step=99")
    lines = page.page.evaluate(_WIDTHS)
    chain = [lines[f"s{i}.0"] for i in range(6, 0, -1)]
    assert all(one["width"] > other["width"] for one, other in itertools.pairwise(chain))
    assert chain[0]["opacity"] > chain[-1]["opacity"]
    page.go("#v=1&preset=exploding&step=99")
    lines = page.page.evaluate(_WIDTHS)
    chain = [lines[f"h{i}.0"]["width"] for i in range(8, 0, -1)]
    assert chain == sorted(chain) and chain[-1] > 2 * chain[0]
    page.go("#v=1&preset=neuron&step=99")
    lines = page.page.evaluate(_WIDTHS)
    minus, plus, none = lines["x1w1.0"], lines["x1w1.1"], lines["x2w2.1"]
    assert len({minus["colour"], plus["colour"], none["colour"]}) == 3
    assert len({minus["dashes"], plus["dashes"], none["dashes"]}) == 3, "in grey too"
    expect(page.page.locator(".magnitudes").first).to_contain_text("positive", use_inner_text=True)


def test_the_graph_goes_down_on_a_narrow_screen(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=sum-times", viewport={"width": 360, "height": 740})
    page.page.wait_for_selector("[aria-label*='leaves above']")
    top = {n: page.page.locator(f'[data-node="{n}"]').bounding_box()["y"] for n in "acef"}
    assert top["a"] < top["e"] < top["f"]
    page.page.set_viewport_size({"width": 1280, "height": 800})
    page.page.wait_for_selector("[aria-label*='leaves left']")


def test_every_edge_has_the_curve_that_python_has(engine: Node) -> None:
    compared = 0
    for preset in (preset for preset in PRESETS if preset.recording is None):
        graph, values, _ = page_graph(preset.trace())
        computed = engine("graph.compute", graph, values)
        for node, made in enumerate(graph["nodes"]):
            for argument, operand in enumerate(made["args"]):
                if "node" not in operand:
                    continue
                at = values[operand["node"]]
                places = [at, at + 0.5, at - 0.25, 3.0, 0.1]
                edge = {"node": node, "argument": argument, "source": operand["node"]}
                found = engine("curve.curveAt", computed, edge, places)
                for place, (value, slope) in zip(places, found):
                    operands = [
                        gw.Value(values[one["node"]] if "node" in one else one["constant"])
                        for one in made["args"]
                    ]
                    operands[argument] = gw.Value(place)
                    out = TABLE[made["op"]](*operands, **made["attrs"])
                    out.backward()
                    assert close(value, out.data), (preset.id, made["label"], place)
                    assert same_slope(slope, operands[argument].grad, 1.0), (preset.id, made)
                    compared += 1
    assert compared > 400


_POINT_IS_SEEN = """() => {
  const point = document.querySelector("[data-handle=point]");
  const { left, top, width, height } = point.getBoundingClientRect();
  return document.elementFromPoint(left + width / 2, top + height / 2) === point;
}"""


def test_an_edge_opens_its_curve(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=neuron&step=99")
    page.page.locator('[data-edge="x1w1.0"]').focus()
    page.press("Enter")
    curve = page.page.locator("[data-curve]")
    curve.wait_for()
    assert float(curve.get_attribute("data-slope")) == -3
    assert not complaints(page)
    # The point of a leaf takes the graph along.
    page.page.locator("[data-handle=point]").focus()
    page.press("Shift+ArrowRight")
    assert page.value("x1") == pytest.approx(3) == float(curve.get_attribute("data-curve"))
    page.wait_for_value("x1w1", pytest.approx(-9))
    page.wait_for_position(16)  # arrows on a handle are for the handle
    # What it changed is listed below the panel, which scrolls: the curve stays in sight.
    page.page.locator(".change").wait_for()
    page.page.wait_for_function(_POINT_IS_SEEN)
    # That of a computed operand does not.
    page.page.locator('[data-edge="o.0"]').focus()
    page.press("Enter")
    page.page.wait_for_selector("[data-curve] >> text=How o moves with n alone")
    n = page.value("n")
    page.page.locator("[data-handle=point]").scroll_into_view_if_needed()  # in its panel
    box = page.page.locator("[data-handle=point]").bounding_box()
    page.page.mouse.move(box["x"] + 10, box["y"] + 10)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] - 40, box["y"] + 10, steps=3)
    page.page.mouse.up()
    looked = float(curve.get_attribute("data-curve"))
    assert looked < n == page.value("n")
    out = gw.Value(looked)
    gw.tanh(out).backward()
    assert float(curve.get_attribute("data-slope")) == pytest.approx(out.grad, rel=1e-12)
    page.page.get_by_role("button", name="back to").click()
    assert float(curve.get_attribute("data-curve")) == n
    nudge = float(curve.get_attribute("data-by"))
    page.page.locator("[data-handle=nudge]").focus()
    page.press("ArrowLeft")
    assert float(curve.get_attribute("data-by")) < nudge


def test_two_fingers_zoom(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=neuron", has_touch=True)
    frame = page.page.locator(".graph").bounding_box()
    x, y = frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] - 30
    before = page.page.locator('[data-node="o"]').bounding_box()["width"]
    devices = page.page.context.new_cdp_session(page.page)

    def touch(kind: str, *places: float) -> None:
        points = [{"x": place, "y": y, "id": i} for i, place in enumerate(places)]
        devices.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", x - 40)
    touch("touchStart", x - 40, x + 40)
    for apart in range(45, 61, 5):
        touch("touchMove", x - apart, x + apart)
    touch("touchEnd")
    after = page.page.locator('[data-node="o"]').bounding_box()["width"]
    assert after == pytest.approx(1.5 * before, rel=0.05)


def test_a_large_graph_has_a_map(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=square", reduced_motion="reduce")
    expect(page.page.locator("[data-minimap]"), "all of it is in sight").to_have_count(0)
    page.go("#v=1&preset=network-2-2-1&step=44")
    box = page.page.locator("[data-minimap]").bounding_box()
    frame = page.page.locator(".graph").bounding_box()
    root = page.page.locator('[data-node="L"]')
    assert root.bounding_box()["x"] > frame["x"] + frame["width"]
    page.page.mouse.click(box["x"] + box["width"] - 8, box["y"] + box["height"] / 2)
    assert root.bounding_box()["x"] < frame["x"] + frame["width"]
    # From far away nodes have their numbers, and little else.
    page.page.click(".zoom button:last-child")
    page.page.wait_for_selector(".graph.far")
    expect(page.page.locator(".badge")).to_have_count(0)
    expect(page.page.locator("[data-minimap]")).to_have_count(0)


@pytest.mark.parametrize("preset", ["neuron", "network-2-2-1"])
def test_on_a_telephone_the_map_stands_below_the_drawing(open_page: Any, preset: str) -> None:
    page: Watched = open_page(
        f"#v=1&preset={preset}", viewport={"width": 320, "height": 640}, reduced_motion="reduce"
    )
    page.page.locator("[data-minimap]").wait_for()
    page.page.locator("#main").focus()
    strip = page.page.locator(".foot")
    assert strip.evaluate("e => getComputedStyle(e).backgroundColor") == page.page.locator(
        ".graph"
    ).evaluate("e => getComputedStyle(e).backgroundColor"), "what lies behind it is not seen"
    for position in range(1, 17):
        page.press("ArrowRight")
        page.wait_for_position(position)
        page.resting_box(".node.now .box")
        hidden = page.page.evaluate(
            """() => document.querySelector(".node.now .box").getBoundingClientRect().bottom
              - document.querySelector(".foot").getBoundingClientRect().top"""
        )
        assert hidden <= 0, position


def test_a_button_beside_the_drawing_does_not_move_it(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=neuron", reduced_motion="reduce")
    before = page.resting_box('[data-node="o"]')
    page.page.locator(".zoom button").first.focus()
    assert page.resting_box('[data-node="o"]') == before


def test_of_a_large_graph_what_is_in_sight_is_in_the_page(open_page: Any) -> None:
    page: Watched = open_page("#v=1&train=data:moons&trained=1&point=3", reduced_motion="reduce")
    page.page.wait_for_selector("[data-node]")

    def in_sight() -> set[str]:
        found: list[str] = page.page.evaluate(
            """() => {
              const frame = document.querySelector(".graph").getBoundingClientRect();
              return [...document.querySelectorAll("[data-node]")].filter((node) => {
                const {left, right, top, bottom} = node.getBoundingClientRect();
                return left >= frame.left && right <= frame.right && top >= frame.top &&
                  bottom <= frame.bottom;
              }).map((node) => node.dataset.node);
            }"""
        )
        return set(found)

    assert "x1" in in_sight(), "it begins where the first number is"
    assert page.page.locator("[data-node]").count() < 200
    page.page.locator("#main").focus()
    page.press("End")
    page.page.wait_for_selector(".node.now")
    assert page.page.locator(".node.now [data-node]").get_attribute("data-node") in in_sight()
    page.press("f")
    page.page.wait_for_function("() => document.querySelectorAll('[data-node]').length === 983")
