"""The panels beside the graph: why and nudge, the order lab, by hand. Python is the reference."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from typing import Any

import pytest
from playwright.sync_api import expect

from gradwalk.inspect.order.answer import OrderRun
from gradwalk.inspect.order.lab import every_order, run_order
from gradwalk.inspect.trace.trace import Trace
from gradwalk.inspect.why.nudge import nudge
from gradwalk.inspect.why.why import why
from gradwalk.studio.presets import PRESETS
from tests.batches import batched
from tests.studio.page.test_access import LOOKS, complaints
from tests.studio.watched import Watched, number, same

pytestmark = pytest.mark.slow

_ROWS = """(key) => Object.fromEntries([...document.querySelectorAll(`[data-${key}]`)].map(
  (row) => [row.dataset[key], {...row.dataset, text: row.textContent}]))"""
LAB = "#v=1&preset=order-diamond&panel=order"


def trace_of(preset: str) -> Trace:
    return next(p for p in PRESETS if p.id == preset).trace()


def rows(page: Watched, key: str) -> dict[str, dict[str, str]]:
    """What the elements with this attribute say, by its value."""
    found: dict[str, dict[str, str]] = page.page.evaluate(_ROWS, key)
    return found


def attribute(page: Watched, name: str) -> float:
    found = number(page.page.get_attribute(f"[{name}]", name))
    assert found is not None
    return found


def visits(page: Watched) -> list[str]:
    """The order on the page."""
    return str(page.page.get_attribute("[data-order]", "data-order")).split()


def follow(page: Watched, link: str, order: list[str]) -> None:
    """Open a link in the page that is open, as a reader who clicks one."""
    page.page.evaluate("(link) => { location.hash = link; }", link)
    page.page.wait_for_selector(f'[data-order="{" ".join(order)}"]')


def compare(page: Watched, run: OrderRun) -> None:
    """Every row of the table of results, and what is lost on the way to the node looked at."""
    shown = rows(page, "result")
    for node in run.nodes:
        if not node.name or node.name not in shown:
            continue  # a number without a name stands in the operation
        row = shown[node.name]
        for key, wanted in (
            ("got", node.got), ("correct", node.correct),
            ("lost", node.lost.total), ("extra", node.extra.total),
        ):  # fmt: skip
            assert same(number(row[key]), float(wanted)), (run.passes, node.name, key)
        sum_ = float(row["correct"]) - float(row["lost"]) + float(row["extra"])
        assert math.isclose(float(row["got"]), sum_, abs_tol=1e-9)
        if node.first_inversion is not None:
            pair = f"{node.first_inversion.early} before {node.first_inversion.late}"
            assert pair in row["text"]
    looked_at = page.page.locator("[data-outcome]")
    node = run[looked_at.get_attribute("data-outcome")]
    for kind, paths in (("lost", node.lost), ("extra", node.extra)):
        listed = page.page.locator(f"[data-paths={kind}] [data-path]")
        assert [element.get_attribute("data-path") for element in listed.all()] == [
            ">".join(path.names) for path in paths
        ]
        assert [
            number(element.get_attribute("data-amount")) for element in listed.all()
        ] == pytest.approx([path.amount for path in paths])
        reasons = page.page.locator(f"[data-paths={kind}] .reason").all_inner_texts()
        assert [r.strip() for r in reasons] == [path.reason for path in paths if path.reason]
    edges = {
        f"{consumer}.{argument}"
        for path in node.lost
        for consumer, argument in zip(path.names, path.arguments, strict=False)
    }
    marked = page.page.evaluate(
        "() => [...document.querySelectorAll('.edge.lost [data-edge]')].map((e) => e.dataset.edge)"
    )
    assert set(marked) == edges


# -- the order lab ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "nodes", "asked", "wanted"),
    [
        ("diamond", "abcd", "a", {15.0: 8, 9.0: 4, 6.0: 4, 0.0: 8}),
        ("order-diamond", "dbca", "x", {15.0: 2, 9.0: 2, 6.0: 2, 0.0: 18}),
    ],
)
def test_all_24_orders(
    open_page: Any, preset: str, nodes: str, asked: str, wanted: dict[float, int]
) -> None:
    trace = trace_of(preset)
    page: Watched = open_page(f"#v=1&preset={preset}&panel=order")
    found: Counter[float] = Counter()
    for order in itertools.permutations(nodes):
        follow(page, f"#v=1&preset={preset}&panel=order&order={','.join(order)}", list(order))
        compare(page, run_order(trace, list(order), top=6))
        found[attribute(page, "data-got")] += 1
        expect(page.page.locator("[data-outcome]")).to_have_attribute("data-outcome", asked)
        # What the table of all orders says does not depend on the one that is tried.
        every = {float(g): int(row["orders"]) for g, row in rows(page, "gives").items()}
        assert every == wanted == every_order(asked, trace, list(nodes)).counts
    assert found == wanted


def test_all_24_orders_by_keyboard(open_page: Any) -> None:
    page: Watched = open_page(LAB)
    trace = trace_of("order-diamond")
    assert visits(page) == ["a", "b", "c", "d"]  # as computed
    page.page.get_by_role("button", name="run", exact=True).click()
    page.page.focus("[role=listbox]")
    for order in itertools.permutations("dbca"):
        for place, name in enumerate(order):
            page.press("Home")
            at = visits(page).index(name, place)
            for _ in range(at):
                page.press("ArrowRight")
            for _ in range(at - place):
                page.press("Shift+ArrowLeft")
        assert visits(page) == list(order)
        assert attribute(page, "data-got") == run_order(trace, list(order))["x"].got
    assert f"order={','.join(order)}" in page.link


def test_leaving_out_and_repeating(open_page: Any) -> None:
    page: Watched = open_page(LAB + "&order=d,b,c,a")
    trace = trace_of("order-diamond")
    page.page.focus("[role=listbox]")
    page.press("ArrowRight")
    page.press("Delete")
    assert visits(page) == ["d", "c", "a"]
    compare(page, run_order(trace, ["d", "c", "a"], top=6))
    page.press("End")
    page.press("+")
    assert visits(page) == ["d", "c", "a", "a"]
    compare(page, run_order(trace, ["d", "c", "a", "a"], top=6))
    page.page.click("[data-add=b]")
    page.page.click("[data-again]")
    page.page.click("[data-add=x]")
    assert visits(page) == ["d", "c", "a", "a", "b", "-", "x"]
    compare(page, run_order(trace, [["d", "c", "a", "a", "b"], ["x"]], top=6))
    link = page.link
    assert "order=d,c,a,a,b,-,x" in link
    page.go(link)
    assert visits(page) == ["d", "c", "a", "a", "b", "-", "x"]
    # The same with the buttons: the visit that is marked is the first one.
    for word, wanted in (("later", "c d"), ("later", "c a d"), ("earlier", "c d a")):
        page.page.get_by_role("button", name=word, exact=True).click()
        assert " ".join(visits(page)).startswith(wanted)
    page.page.get_by_role("button", name="leave out").click()
    assert visits(page) == ["c", "a", "a", "b", "-", "x"]
    page.page.get_by_role("button", name="visit again").click()
    assert visits(page) == ["c", "a", "a", "a", "b", "-", "x"]


def test_dragging(open_page: Any) -> None:
    page: Watched = open_page(LAB + "&order=a,b,c,d")
    mouse = page.page.mouse
    for name, target, wanted in (("d", "a", "dabc"), ("a", "c", "dbca"), ("b", "c", "dcba")):
        start, end = (
            page.page.locator("[data-place]").nth(visits(page).index(n)).bounding_box()
            for n in (name, target)
        )
        mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
        mouse.down()
        mouse.move(end["x"] + end["width"] / 2, end["y"] + end["height"] / 2, steps=12)
        rightwards = end["x"] > start["x"]
        mouse.move(end["x"] + end["width"] * (0.9 if rightwards else 0.1), end["y"] + 12, steps=4)
        mouse.up()
        assert "".join(visits(page)) == wanted
    assert attribute(page, "data-got") == 15


@batched(
    "preset, recipe, gradient, correct",
    [
        ("order-diamond", "right", 15, 15), ("order-diamond", "plain recursion", 21, 15),
        ("order-diamond", "depth-first", 6, 15), ("order-diamond", "overwrite", 9, 15),
        ("order-diamond", "twice", 60, 30), ("order-diamond", "breadth-first", 15, 15),
        ("order-breadth", "right", 26, 26), ("order-breadth", "breadth-first", 14, 26),
        ("order-breadth", "plain recursion", 40, 26),
    ],
)  # fmt: skip
def test_recipes(same_page: Any, preset: str, recipe: str, gradient: float, correct: float) -> None:
    page: Watched = same_page(f"#v=1&preset={preset}&panel=order")
    page.page.click(f'[data-recipe="{recipe}"]')
    page.page.click("[data-run]")
    assert attribute(page, "data-got") == gradient
    assert number(page.page.get_attribute("[data-outcome]", "data-correct")) == correct
    page.wait_for_grad("x", gradient)  # the drawing shows what this order gives
    expect(page.page.locator(f'[data-recipe="{recipe}"]').first).to_have_attribute(
        "aria-pressed", "true"
    )
    compare(page, run_order(trace_of(preset), recipe, top=6))


def test_a_recipe_with_too_many_visits_says_so(open_page: Any) -> None:
    """Plain recursion visits once for every path: 2⁶⁰ and more of them here."""
    squares = ";".join(["h0=x*1", *(f"h{i}=h{i - 1}*h{i - 1}" for i in range(1, 61))])
    page: Watched = open_page(f"#v=1&source={squares}&set=x:1&panel=order")
    before = visits(page)
    page.page.click('[data-recipe="plain recursion"]')
    expect(page.page.locator("#panel [role=alert]").first).to_contain_text(
        "too many", use_inner_text=True
    )
    assert visits(page) == before
    page.page.click("[data-recipe=right]")
    page.page.click("[data-run]")
    assert attribute(page, "data-got") == 2**60


def test_overwriting_is_a_switch(open_page: Any) -> None:
    page: Watched = open_page(LAB + "&order=d,b,c,a")
    trace = trace_of("order-diamond")
    assert attribute(page, "data-got") == 15
    page.page.get_by_label("= instead of +=").check()
    compare(page, run_order(trace, ["d", "b", "c", "a"], overwrite=True, top=6))
    assert attribute(page, "data-got") == 9
    assert "overwrite=1" in page.link
    page.go(page.link)
    expect(page.page.locator("[data-overwrite]").first).to_be_checked()
    assert attribute(page, "data-got") == 9
    page.page.get_by_label("= instead of +=").uncheck()
    assert attribute(page, "data-got") == 15
    page.page.get_by_role("tab", name="Inspect").click()
    page.wait_for_grad("x", 15)
    expect(page.page.locator(".edge.lost")).to_have_count(0)


def test_step_by_step(open_page: Any) -> None:
    """Each visit passes on what is there by then; undo takes it back."""
    page: Watched = open_page(LAB + "&order=b,d,c,a&step=5")
    step = page.page.get_by_role("button", name="step", exact=True).last
    step.click()  # the seed
    seen = []
    for _ in "bdca":
        step.click()
        seen.append({name: page.grad(name) for name in "dbcax"})
    assert [s["b"] for s in seen] == [None, 6, 6, 6]
    assert [s["a"] for s in seen] == [0, 0, 9, 9]
    assert [s["x"] for s in seen] == [None, None, None, 9]
    assert page.page.locator("[data-outcome]").get_attribute("data-pair") is None
    expect(page.page.locator("[data-pair]")).to_have_attribute("data-pair", "b d")
    page.page.locator("#panel").get_by_role("button", name="undo").click()
    page.wait_for_grad("x", None)
    expect(page.page.locator("[data-outcome]")).to_have_count(0)
    page.page.get_by_role("button", name="start over").click()
    page.wait_for_position(5)
    step.click()
    step.click()
    expect(page.page.locator(".steptext")).to_contain_text("Too early: d comes later")
    text = page.page.inner_text(".steptext")
    # (Its first words, for readers of the screen only, are a line of their own.)
    assert page.page.inner_text("[data-announced]").split() == text.split()


def test_a_lost_path_can_be_selected(open_page: Any) -> None:
    page: Watched = open_page(LAB + "&order=d,c,a,b")
    page.page.click("[data-paths=lost] [data-path]")
    edges = page.page.evaluate(
        "() => [...document.querySelectorAll('.edge.selected [data-edge]')]"
        ".map((e) => e.dataset.edge)"
    )
    assert sorted(edges) == ["a.0", "b.0", "d.0"]
    expect(page.page.locator(".legend").first).to_contain_text("6 × 1 × 1 = 6", use_inner_text=True)
    expect(page.page.locator("[data-outcome]").first).to_have_attribute("data-outcome", "x")


# -- why and nudge ---------------------------------------------------------------------------------

EXPLAINED = ["neuron", "square", "diamond", "cubic", "softmax", "dead-relu", "exploding"]


@pytest.mark.parametrize("preset", EXPLAINED)
def test_why_as_python_has_it(open_page: Any, preset: str) -> None:
    trace = trace_of(preset)
    page: Watched = open_page(f"#v=1&preset={preset}&panel=why")
    root = trace.nodes[trace.sweep.root].label
    for name in page.nodes:
        page.page.select_option("[data-choice]", label=name)
        page.page.wait_for_selector(f'[data-why="{name}"]')
        right = why(name, trace, top=8)
        assert same(attribute(page, "data-gradient"), right.gradient)
        if name == root:
            continue
        shown = rows(page, "share")
        assert {key: float(row["amount"]) for key, row in shown.items()} == pytest.approx(
            {f"{edge.name}.{edge.argument}": edge.amount for edge in right.edges}
        )
        paths = page.page.locator(".paths [data-path]").all()
        assert sorted(float(p.get_attribute("data-amount")) for p in paths) == pytest.approx(
            sorted(path.amount for path in right.paths)
        )
        if len(right.paths) == right.path_count:  # else the last of equal ones may be another
            assert sorted(p.get_attribute("data-path") for p in paths) == sorted(
                ">".join(reversed(path.names)) for path in right.paths
            )
        expect(page.page.locator("h4[data-paths]").first).to_have_attribute(
            "data-paths", str(right.path_count)
        )
        assert attribute(page, "data-cancellation") == pytest.approx(right.cancellation)
        expect(page.page.locator(".derivation math").first).to_be_attached()


def test_a_path_is_selected_by_a_click(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=diamond&panel=why&step=8")
    page.page.click('[data-path="d>c>a"]')
    assert "select=d%3Ec%3Ea" in page.link
    expect(page.page.locator(".edge.path")).to_have_count(2)
    expect(page.page.locator('[data-path="d>c>a"]').first).to_have_attribute("aria-pressed", "true")
    page.page.click('[data-path="d>c>a"]')
    expect(page.page.locator(".edge.path")).to_have_count(0)
    page.page.click('[data-node="c"]')  # picking in the drawing stays in this panel
    page.page.wait_for_selector('[data-why="c"]')


@pytest.mark.parametrize(
    ("preset", "name"), [("neuron", "w1"), ("diamond", "a"), ("softmax", "e1")]
)
@pytest.mark.parametrize("by", [0.1, -0.75, 1e-4])
def test_nudge_as_python_has_it(open_page: Any, preset: str, name: str, by: float) -> None:
    page: Watched = open_page(f"#v=1&preset={preset}&panel=why&select={name}")
    page.page.fill("[data-nudge]", str(by))
    right = nudge(name, by, trace_of(preset))
    shown = rows(page, "moved")
    assert list(shown) == [move.name for move in right.moves]
    for move in right.moves:
        assert move.predicted is not None and move.real is not None
        row = shown[move.name]
        assert float(row["predicted"]) == pytest.approx(move.predicted, rel=1e-12)
        assert float(row["real"]) == pytest.approx(move.real, rel=1e-9)
    root = page.page.locator("[data-nudged-root]")
    assert float(root.get_attribute("data-predicted")) == pytest.approx(right.predicted)
    assert float(root.get_attribute("data-real")) == pytest.approx(right.real)


def test_the_slider_stays_where_the_graph_is_defined(open_page: Any) -> None:
    page: Watched = open_page("#v=1&source=log(p)&set=p:0.25&panel=why")
    page.page.focus("[data-nudge-slider]")
    page.press("Home")
    expect(page.page.locator("[data-nudged-root]")).to_have_attribute("data-real", re.compile("^-"))
    real = number(page.page.get_attribute("[data-nudged-root]", "data-real"))
    assert real is not None and math.isfinite(real) and real < 0


# -- by hand ---------------------------------------------------------------------------------------

MISTAKES = [
    ("neuron", "grad x1", "-3", "localNotTotal"), ("neuron", "grad x1", "1", "otherInput"),
    ("neuron", "grad x1", "1,5", "sign"), ("neuron", "grad w1", "0.5", "upstreamOnly"),
    ("neuron", "grad w1", "−3", "valueNotGrad"), ("neuron", "grad o", "0", "seed"),
    ("neuron", "local x1w1.0", "2", "otherInput"), ("neuron", "local x1w1.0", "3", "sign"),
    ("neuron", "local x1w1.0", "-1.5", "totalNotLocal"),
    ("neuron", "value x1w1", "-1", "otherOp"), ("neuron", "value x1w1", "6", "sign"),
    ("neuron", "value x1w1", "many", "noNumber"), ("neuron", "value o", "17", "wrong"),
    ("square", "grad a", "3", "overwrote"), ("square", "grad a", "-6", "sign"),
    ("square", "value f", "6", "otherOp"), ("double", "grad a", "1", "overwrote"),
    ("diamond", "grad a", "9", "pathMissing"), ("diamond", "grad a", "6", "overwrote"),
    ("diamond", "local d.0", "3", "otherInput"), ("diamond", "grad b", "3", "otherInput"),
    ("diamond", "value d", "9", "otherOp"), ("diamond", "grad a", "1", "localNotTotal"),
]  # fmt: skip


@pytest.mark.parametrize("preset", ["neuron", "square", "double", "diamond"])
def test_mistakes_are_named(open_page: Any, preset: str) -> None:
    page: Watched = open_page(f"#v=1&preset={preset}&panel=byhand")
    for _, asked, typed, key in (row for row in MISTAKES if row[0] == preset):
        ask = page.page.locator(f'[data-asked="{asked}"]')
        ask.locator("input").fill(typed)
        page.press("Enter")
        verdict = ask.locator(f'[data-verdict="byhand.{key}"]')
        verdict.wait_for()
        assert not verdict.inner_text().startswith("byhand.")  # there are words for it
        expect(verdict).not_to_contain_text("{", use_inner_text=True)
        expect(page.page.locator("[data-announced]")).to_have_text(verdict.inner_text())
        expect(ask).to_have_attribute("data-done", "")
    expect(page.page.locator("[data-done][data-total]").first).to_have_attribute("data-done", "0")


@pytest.mark.parametrize("preset", ["neuron", "square", "diamond"])
def test_a_graph_worked_out_by_hand(open_page: Any, preset: str) -> None:
    """Nothing asked for is in the page before it is answered; then it is there."""
    trace = trace_of(preset)
    page: Watched = open_page(f"#v=1&preset={preset}&step=99&panel=byhand")
    inner = [node.label for node in trace.nodes if node.op]
    hidden = page.nodes
    assert all(hidden[name]["value"] == "" for name in inner)
    assert all(node["grad"] == "" for node in hidden.values())
    assert all(edge["local"] == edge["pushed"] == "" for edge in page.edges)
    page.page.locator("#main").focus()
    page.press("ArrowLeft")  # the walk waits
    page.press("v")
    assert all(row["value"] == "" for name, row in rows(page, "row").items() if name in inner)
    page.press("v")
    total = int(page.page.get_attribute("[data-total]", "data-total"))
    asked = [a.get_attribute("data-asked") for a in page.page.locator("[data-asked]").all()]
    assert len(asked) == total == len(inner) + len(page.edges) + len(hidden)
    page.page.locator("[data-ask]").first.focus()
    for done, what in enumerate(asked):
        form = page.page.locator(f'[data-asked="{what}"]')
        form.locator("input:focus").wait_for()  # the focus goes to the next
        page.page.keyboard.type(f"{answer(trace, str(what)):.6g}")
        page.press("Enter")
        page.page.wait_for_selector(f'[data-done="{done + 1}"]')
    expect(page.page.locator("[data-total]").first).to_have_attribute("data-right", str(total))
    for name, node in page.nodes.items():
        assert same(number(node["value"]), trace[name].value), name
        assert same(number(node["grad"]), float(why(name, trace).gradient)), name
    assert all(edge["local"] for edge in page.edges)


def answer(trace: Trace, asked: str) -> float:
    """What Python says."""
    kind, name = asked.split(" ")
    if kind == "value":
        return float(trace[name].value)
    if kind == "grad":
        return float(why(name, trace).gradient)
    consumer, argument = name.split(".")
    source = trace.nodes[trace[consumer].args[int(argument)].node]
    slopes = [
        edge.local
        for edge in why(source.label, trace).edges
        if edge.name == consumer and edge.argument == int(argument)
    ]
    assert slopes[0] is not None
    return slopes[0]


def test_hints_and_revealing(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=diamond&panel=byhand")
    ask = page.page.locator('[data-asked="grad a"]')
    ask.locator("input").focus()
    hint = ask.get_by_role("button", name="hint")
    hint.click()
    expect(ask.locator("[data-hint='1']")).to_contain_text(
        "used 2 times, by b, c", use_inner_text=True
    )
    while hint.get_attribute("aria-disabled") != "true":
        hint.click()
    expect(ask.locator("[data-hint]").last).to_contain_text("6 × 1 + 3 × 3", use_inner_text=True)
    expect(ask).not_to_contain_text("15", use_inner_text=True)
    ask.get_by_role("button", name="reveal").click()
    expect(ask.locator("[data-answer]")).to_have_text("15")
    page.wait_for_grad("a", 15)
    expect(page.page.locator("[data-total]").first).to_contain_text(
        "(1 revealed)", use_inner_text=True
    )
    # Only values, only gradients: what is not asked for helps.
    page.page.uncheck("[data-kind=value]")
    page.wait_for_value("d", 18)
    other = page.page.locator('[data-asked="grad b"] input')
    other.fill("0.")  # what is being typed stays while something else is answered
    page.page.locator('[data-asked="grad c"] input').fill("3")
    page.press("Enter")
    page.page.wait_for_selector('[data-asked="grad c"][data-done=right]')
    page.page.locator('[data-asked="grad b"] input:focus').wait_for()  # not to the first
    expect(other).to_have_value("0.")
    page.page.get_by_role("button", name="start again").click()
    expect(other).to_have_value("")
    page.wait_for_grad("a", None)
    # What is picked in the drawing is what is asked.
    page.page.click('[data-node="c"]')
    page.page.wait_for_selector('[data-asked="grad c"] :focus')
    page.page.get_by_role("tab", name="Inspect").click()
    page.wait_for_position(0)
    page.wait_for_value("d", None)


# -- for everyone ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_axe_finds_nothing_in_the_panels(open_page: Any, scheme: str, width: int) -> None:
    page: Watched = open_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    found = {}
    for link in (
        "#v=1&preset=softmax&panel=why&step=20",
        LAB + "&order=d,c,a,-,b",
        LAB + "&step=7",
        "#v=1&preset=square&panel=byhand",
    ):
        page.go(link)
        found[link] = complaints(page)
        assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), link
    page.page.locator('[data-asked="grad a"] input').fill("3")
    page.press("Enter")
    page.page.wait_for_selector("[data-verdict]")
    found["a mistake"] = complaints(page)
    assert not {name: list_ for name, list_ in found.items() if list_}
