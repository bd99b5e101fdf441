"""What the page says and shows of graphs of numbers is so: in words, in boxes, in links."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from playwright.sync_api import expect

from gradwalk.studio.presets import PRESETS
from tests.studio.watched import Watched

pytestmark = pytest.mark.slow

_HIDDEN_ROWS = """() => [...document.querySelectorAll(".panel .scroll")]
  .filter((box) => box.clientHeight + 1 < box.firstElementChild.offsetHeight)
  .map((box) => `${box.ariaLabel}: ${box.clientHeight} < ${box.firstElementChild.offsetHeight}`)"""
# Texts of a node that are wider than its box.
_WIDE = """() => [...document.querySelectorAll(".node")].flatMap((node) => {
  const box = node.querySelector(".box").getBoundingClientRect();
  return [...node.querySelectorAll("text:not(.badge text)")].filter((text) => {
    const {left, right} = text.getBoundingClientRect();
    return left < box.left || right > box.right;
  }).map((text) => text.textContent);
})"""
_OVERLAPPING = """() => {
  const texts = [...document.querySelectorAll(".edge text")].map(
    (text) => [text.textContent, text.getBoundingClientRect()]);
  return texts.flatMap(([one, a], i) => texts.slice(i + 1).filter(([, b]) =>
    // letters are less high than their line
    a.left < b.right && b.left < a.right && a.top + 4 < b.bottom - 3 && b.top + 4 < a.bottom - 3
  ).map(([other]) => `${one} | ${other}`));
}"""

# Texts on edges that a box covers: boxes are drawn later.
_UNDER_A_BOX = """() => {
  const boxes = [...document.querySelectorAll(".node .box")].map((b) => b.getBoundingClientRect());
  return [...document.querySelectorAll(".edge text")].filter((text) => {
    const {left, right, top, bottom} = text.getBoundingClientRect();
    return boxes.some((b) =>
      left < b.right && b.left < right && top + 4 < b.bottom && b.top < bottom - 3);
  }).map((text) => text.textContent);
}"""
# Texts on edges that an edge passes through, its own or another.
_TOUCHED = """() => {
  const lines = [...document.querySelectorAll("[data-drawing] > svg .edge .line")].map((path) => {
    const at = path.getScreenCTM();
    const half = parseFloat(getComputedStyle(path).strokeWidth) * at.a / 2;
    const count = Math.ceil(path.getTotalLength() / 2) + 1;
    const points = Array.from({length: count}, (_, i) =>
      path.getPointAtLength(2 * i).matrixTransform(at));
    return {half, points};
  });
  return [...document.querySelectorAll("[data-drawing] > svg .edge text")].filter((text) => {
    const {left, right, top, bottom, width} = text.getBoundingClientRect();
    const blank = (bottom - top) * 0.22; // letters are less high than their line
    return width && lines.some(({half, points}) => points.some(({x, y}) =>
      x > left - half && x < right + half &&
      y > top + blank - half && y < bottom - blank + half));
  }).map((text) => text.textContent);
}"""
_DRAWINGS = ("nodes", "edges")


def narration(page: Watched) -> str:
    return str(page.page.inner_text(".steptext"))


def panel(page: Watched) -> str:
    return str(page.page.inner_text("#panel"))


def test_what_scrolls_in_a_panel_is_as_high_as_what_is_in_it(open_page: Any) -> None:
    page: Watched = open_page()
    for link in ("diamond&panel=why&select=a", "order-diamond&panel=order&step=99"):
        for width, height in ((1280, 1400), (1280, 800), (1280, 480), (320, 640)):
            page.page.set_viewport_size({"width": width, "height": height})
            page.go(f"#v=1&preset={link}")
            assert page.page.locator(".panel .scroll tbody tr").count() > 1
            assert not page.page.evaluate(_HIDDEN_ROWS), (link, width, height)


def test_numbers_that_are_typed_are_used(open_page: Any) -> None:
    page: Watched = open_page("#v=1&panel=type")

    def walk(source: str) -> None:
        page.page.fill("#own", source)
        page.press("Control+Enter")
        page.page.wait_for_selector(f'.scene code:text-is("{source}")')
        expect(page.page.locator(".mistake")).to_have_count(0)

    walk("a*b")
    page.wait_for_value("a", 1)
    walk("a = 2; a*b")
    page.wait_for_value("a", 2)
    walk("a*b*c")
    assert page.value("a") == 2, "what the new source leaves open stays"
    # A number by itself is a leaf that is called out; the next is another.
    walk("log(-1)")
    walk("1/0")
    page.wait_for_value("out", float("inf"))
    page.go(page.link)
    page.wait_for_value("out", float("inf"))
    expect(page.page.locator(".mistake")).to_have_count(0)


def test_nan_is_not_said_to_be_nothing(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=masked-log&step=15&select=p2")
    said = narration(page)
    assert "To p2: 0 × inf = nan." in said, "nothing was there to be added to"
    assert "not a number" in said and "does not change" not in said
    assert "not a number" in panel(page) and "does not change" not in panel(page)
    page.page.locator("#main").focus()
    page.press("w")
    page.page.wait_for_selector("[data-why=p2]")
    expect(page.page.locator("[data-cancellation]").first).to_have_attribute(
        "data-cancellation", "NaN"
    )
    for lie in ("brings nothing", "Nothing cancels", "nan times"):
        assert lie not in panel(page)
    # In formulas it is spelled as in the drawing.
    assert not re.search("NaN|∞", "".join(page.page.locator("math").all_text_contents()))


@pytest.mark.parametrize("preset", ["dead-relu", "clipped-loss", "maximum"])
def test_where_all_is_0_nothing_is_said_of_signs(open_page: Any, preset: str) -> None:
    page: Watched = open_page(f"#v=1&preset={preset}&panel=why")
    zero = 0
    for leaf in page.nodes:
        page.page.select_option("[data-choice]", label=leaf)
        page.page.wait_for_selector(f'[data-why="{leaf}"]')
        if page.page.get_attribute("[data-gradient]", "data-gradient") not in ("0", "-0"):
            continue
        if page.page.get_attribute("[data-cancellation]", "data-cancellation") == "1":
            zero += 1
            assert "same sign" not in panel(page) and "every contribution is 0" in panel(page)
    assert zero


def test_the_first_nan_or_infinity_is_marked(open_page: Any) -> None:
    page: Watched = open_page()
    # The one comes forward, from log(0); the other only backward: √0 has the slope 1/0.
    for link, cause in (("preset=masked-log", "v2"), ("source=sqrt(x)*2&set=x:0", "v1")):
        page.go(f"#v=1&{link}")
        told = []
        steps = int(page.page.get_attribute("[data-position] input[type=range]", "max") or 0)
        page.page.locator("#main").focus()
        for position in range(1, steps + 1):
            page.press("ArrowRight")
            page.wait_for_position(position)
            marked = page.page.locator(".node.cause [data-node]")
            if "first NaN or infinity" in narration(page):
                told.append(position)
            expect(marked).to_have_count(len(told))
        assert len(told) == 1, link
        assert marked.get_attribute("data-node") == cause
        assert page.page.locator(".badge.cause").text_content().startswith("⚠")
        assert "first cause" in str(marked.get_attribute("aria-label"))
    page.go("#v=1&preset=neuron&step=16")
    expect(page.page.locator(".cause")).to_have_count(0)


@pytest.mark.parametrize("how", ["key", "button"])
def test_fit_shows_the_whole_graph(open_page: Any, how: str) -> None:
    page: Watched = open_page("#v=1&preset=exploding")
    outside = """() => { const frame = document.querySelector(".graph").getBoundingClientRect();
      return [...document.querySelectorAll("[data-node]")].filter((node) => {
        const {left, right, top, bottom} = node.getBoundingClientRect();
        return left < frame.left || right > frame.right || top < frame.top
          || bottom > frame.bottom; }).map((node) => node.dataset.node) }"""
    assert page.page.evaluate(outside), "at first it is large enough to read"
    if how == "key":
        page.page.locator("#main").focus()
        page.press("f")
    else:
        page.page.click(".zoom button:last-child")
    assert not page.page.evaluate(outside)


_HIDDEN = """(names) => {
  const frame = document.querySelector(".graph").getBoundingClientRect();
  return names.filter((name) => {
    const {left, right, top, bottom} =
      document.querySelector(`[data-node="${name}"]`).getBoundingClientRect();
    return left < frame.left || right > frame.right || top < frame.top || bottom > frame.bottom;
  });
}"""


def test_the_nodes_of_every_step_are_in_sight(open_page: Any) -> None:
    page: Watched = open_page(reduced_motion="reduce")
    for preset, (width, height) in itertools.product(
        ("six-sigmoids", "softmax", "network-2-2-1"), ((1280, 800), (360, 700))
    ):
        page.page.set_viewport_size({"width": width, "height": height})
        page.go(f"#v=1&preset={preset}")
        inputs: dict[str, list[str]] = {}
        for edge in page.page.evaluate(
            "() => { const {graph} = window.gradwalkStudio.stage;"
            "return graph.value.nodes.map((n) => [n.label, n.args.flatMap((a) =>"
            "'node' in a ? [graph.value.nodes[a.node].label] : [])]) }"
        ):
            inputs[edge[0]] = edge[1]
        steps = int(page.page.get_attribute("[data-position] input[type=range]", "max") or 0)
        page.page.locator("#main").focus()
        for position in range(1, steps + 1):
            page.press("ArrowRight")
            page.wait_for_position(position)
            now = page.page.locator(".node.now [data-node]").get_attribute("data-node")
            taking = [now] if page.phase == "seed" else [now, *inputs[now]]
            assert not page.page.evaluate(_HIDDEN, taking), (preset, width, position)


def test_long_names_keep_their_beginning(open_page: Any) -> None:
    page: Watched = open_page("#v=1&source=learning_rate*gradient_of_the_last_layer_s_weights")
    names = page.page.locator(".node .name").all_text_contents()
    assert "learning_rate" in names, "there is room for it"
    assert any(re.match(r"gradient\w*…\w*weights$", name) for name in names)


def test_the_cause_of_a_nan_covers_nothing(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=masked-log&step=99")
    covered = page.page.evaluate(
        """() => { const badge = document.querySelector(".badge.cause").getBoundingClientRect();
          return [...document.querySelectorAll(".node text")].filter((text) => {
            if (text.closest(".cause.badge")) return false;
            const {left, right, top, bottom} = text.getBoundingClientRect();
            return left < badge.right && badge.left < right
              && top + 3 < badge.bottom && badge.top < bottom - 3;
          }).map((text) => text.textContent) }"""
    )
    assert not covered


def test_products_of_small_numbers_are_right_as_written(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=six-sigmoids")
    page.page.locator("#main").focus()
    page.press("End")
    seen = 0
    for _ in range(99):
        for one, other, product in re.findall(r"(\S+) × (\S+) = (\S+?)[.,]? ", narration(page)):
            numbers = [float(text.replace("−", "-")) for text in (one, other, product)]
            assert numbers[0] * numbers[1] == pytest.approx(numbers[2], rel=0.01)
            seen += 1
        if page.phase == "seed":
            break
        page.press("ArrowLeft")
    assert seen > 5


def test_text_stays_in_its_box(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=exploding&set=w:30&step=99")
    expect(page.page.locator(".graph").first).to_contain_text(
        "grad +1.776e+11", use_inner_text=True
    )
    assert not page.page.evaluate(_WIDE)
    page.go("#v=1&preset=neuron&step=99")
    page.page.fill("[data-leaf=b]", "3710.58481")
    page.page.wait_for_selector(".value.changed")
    page.press("Tab")
    for drawing in _DRAWINGS:
        assert not page.page.evaluate(_WIDE), drawing
        page.page.locator("#main").focus()
        page.press("e")
    page.go("#v=1&source=a_long_name_here*another_long_name&step=99")
    assert not page.page.evaluate(_WIDE)


def test_what_comes_next_stands_beside_the_boxes(open_page: Any) -> None:
    page: Watched = open_page()
    for preset, drawing in itertools.product(("neuron", "diamond", "six-sigmoids"), _DRAWINGS):
        page.go(f"#v=1&preset={preset}&drawing={drawing}&step=99")
        seen = 0
        while page.position > 1:
            page.press("ArrowLeft")
            seen += page.page.locator(".edge.next .pushed").count()
            assert not page.page.evaluate(_UNDER_A_BOX), (preset, drawing, page.position)
        assert seen > 3


@pytest.mark.parametrize("width", [1280, 320])
def test_the_formula_of_a_power_is_shown_whole(open_page: Any, width: int) -> None:
    page: Watched = open_page(viewport={"width": width, "height": 800})
    for edge in ("z.0", "z.1"):
        page.go(f"#v=1&source=z%3Dx^y&set=x:2,y:3&step=9&select={edge}")
        shown = page.page.locator(f'[data-derivative="{edge}"]')
        assert shown.evaluate("(box) => box.scrollWidth <= box.clientWidth"), edge
        assert "x≠x" not in re.sub(r"\s", "", shown.text_content())
        assert shown.locator("[data-number]").text_content() in ("12", "5.5452")


def test_operations_on_edges_can_be_read(open_page: Any) -> None:
    page: Watched = open_page()
    for preset in ("network-2-2-1", "exploding", "neuron", "softmax"):
        page.go(f"#v=1&preset={preset}&drawing=edges&step=999")
        assert page.page.locator(".edge text").count() > 8
        assert not page.page.evaluate(_OVERLAPPING), preset


def test_two_edges_between_the_same_nodes_are_told_apart(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=square&step=2&select=a")
    assert "f = a × a = 9" in narration(page), "a² would hide the two uses"
    for key in ("i", "w"):
        page.page.locator("#main").focus()
        page.press(key)
        page.page.wait_for_selector(".paths")
        listed = page.page.locator(".panel .link").all_inner_texts()
        assert len(listed) >= 4 and len(set(listed)) == len(listed)
    page.go("#v=1&source=a%3Dx*1&panel=byhand")
    asked = page.page.locator("[data-asked='value a'] math")
    assert asked.text_content() == "a=x⋅1="


def test_a_long_source_leaves_the_drawing_in_sight(open_page: Any) -> None:
    lines = [f"b{i} = a{i}*w{i} + tanh(a{i})" for i in range(24)]
    source = "; ".join([*lines, " + ".join(f"b{i}" for i in range(24))])
    page: Watched = open_page(f"#v=1&source={source}".replace(" ", "%20"))
    assert len(page.nodes) > 90
    short = page.page.locator(".scene .scroll")
    assert short.bounding_box()["height"] < 60
    expect(short, "the rest is there to be scrolled to").to_have_text(source)
    assert page.page.locator(".graph").bounding_box()["y"] < 400


def test_a_change_tells_nothing_that_is_not_computed_yet(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=neuron")
    page.page.fill("[data-leaf=w1]", "−2")
    shown = page.page.locator("[data-changed]")
    assert [row.get_attribute("data-changed") for row in shown.all()] == ["w1"]
    page.page.locator("#main").focus()
    page.press("End")
    expect(shown).to_have_count(5)


def test_what_is_no_number_is_told(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=square")
    field = page.page.locator("#panel [data-leaf=a]")
    field.fill("3x")
    page.press("Enter")
    expect(field, "what was typed is there to be mended").to_have_value("3x")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.page.locator("#panel [role=alert]").first).to_contain_text(
        "“3x” is not a number", use_inner_text=True
    )
    page.press("Tab")
    expect(field).to_have_value("3")
    field.fill("inf")
    page.press("Enter")
    expect(field, "as it is spelled everywhere").to_have_value("inf")


def test_a_link_keeps_nan_and_infinity(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=diamond&step=8")
    for typed in ("nan", "inf", "−inf"):
        page.page.fill("#panel [data-leaf=a]", typed)
        written = page.link
        assert f"set=a:{typed.replace('−', '-')}&" in written
        page.go(written)
        assert str(page.value("a")) == typed.replace("−", "-")
        expect(page.page.locator(".notices")).to_have_count(0)
        assert page.link == written


def test_one_order_is_not_called_all(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=square&panel=order")
    assert "The only order of f" in panel(page)


@pytest.mark.parametrize(
    "link",
    [
        "#garbage",
        "#preset=square",
        "#v=1&preset=square&panel=nope",
        "#v=1&preset=dense-layer&panel=nope",
        "#v=1&lesson=index&panel=nope",
    ],
)
def test_what_a_link_says_in_vain_is_told(open_page: Any, link: str) -> None:
    page: Watched = open_page()
    page.page.goto("about:blank")
    page.page.goto(page.address + link)
    page.page.wait_for_selector(".notices")
    told = page.page.inner_text(".notices")
    assert link.removeprefix("#").split("&")[-1] in told and "version" not in told
    assert page.page.locator(".lesson.list" if "lesson" in link else "[data-node]").count()
    assert "nope" not in page.link


def test_every_scalar_preset_is_drawn_within_its_boxes(open_page: Any) -> None:
    page: Watched = open_page()
    scalar = [preset.id for preset in PRESETS if preset.recording is None]
    touched: list[str] = []
    texts = hidden = 0
    for preset, drawing in itertools.product(scalar, _DRAWINGS):
        page.go(f"#v=1&preset={preset}&step=999&drawing={drawing}")
        assert not page.page.evaluate(_WIDE), (preset, drawing)
        touched += page.page.evaluate(_TOUCHED)
        texts += page.page.locator("[data-drawing] > svg .edge text").count()
        hidden += page.page.locator("[data-drawing] > svg .edge text:not(:visible)").count()
    assert texts > 600
    assert not touched
    assert hidden <= 2, "of the network, where six leaves cross"
