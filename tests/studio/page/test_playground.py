"""The playground: it trains what its Python program trains, number by number, and shows it."""

from __future__ import annotations

import contextlib
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.project.checkout import ROOT
from tests.studio.node import Node
from tests.studio.page.test_access import complaints
from tests.studio.watched import Watched

SMALL = {"depth": 2, "width": 4, "batch": 8}
# Every choice of every setting is in one of these; the first is what the page opens with.
TRAINED: list[dict[str, Any]] = [
    {},
    SMALL | {"activation": "tanh", "init": "xavier", "optimizer": "adam", "rate": 0.01, "seed": 1},
    SMALL
    | {"activation": "sigmoid", "data": "circles", "optimizer": "momentum", "init": "uniform"},
    SMALL | {"activation": "leaky_relu", "data": "spirals", "zero": False, "noise": 0},
    SMALL | {"noise": 0.5, "depth": 3, "seed": 0},
    SMALL | {"activation": "linear", "init": "small", "batch": 128, "depth": 1},
    {"data": "digits", "depth": 1, "width": 3, "batch": 4, "rate": 0.03},
    SMALL | {"init": "zero", "batch": 1, "width": 1, "depth": 5},
]


def run(program: str) -> tuple[list[float], dict[str, Any]]:
    """Run the program that the page writes: the losses it prints, and its names."""
    printed, names = io.StringIO(), {"__name__": "__main__"}
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "playground.py", "exec"), names)
    return [float(line.split()[1]) for line in printed.getvalue().splitlines()], names


def far(ours: list[float], theirs: list[float]) -> float:
    """The largest relative difference; of numbers that are tiny beside the largest, to that."""
    assert len(ours) == len(theirs) and ours
    small = 1e-3 * max(map(abs, theirs))
    pairs = zip(ours, theirs, strict=True)
    return max(abs(a - b) / max(abs(b), small, 1e-300) for a, b in pairs)


@pytest.mark.parametrize("settings", TRAINED, ids=lambda chosen: json.dumps(chosen)[:60])
def test_fifty_steps_are_those_of_the_python_program(
    engine: Node, settings: dict[str, Any]
) -> None:
    ours = engine("playground.trained", settings, 50)
    losses, names = run(engine("playground.program", settings, 50))
    assert len(losses) == 50
    assert all(
        math.isclose(a, b, rel_tol=1e-12) for a, b in zip(ours["losses"], losses, strict=True)
    )
    assert far(ours["parameters"], [p.data for p in names["parameters"]]) < 1e-12
    assert far(ours["gradients"], [p.grad for p in names["parameters"]]) < 1e-11


def test_the_program_in_the_documentation_is_the_page_s(engine: Node) -> None:
    text = (ROOT / "docs/studio/playground.md").read_text(encoding="utf-8")
    shown = text.partition("```python\n")[2].partition("```")[0]
    assert shown == engine("playground.program", {"width": 4, "depth": 1, "batch": 8}, 5)


def test_settings_travel_as_text(engine: Node) -> None:
    text = "data:spirals,depth:30,activation:sigmoid,rate:0.003,zero:false,seed:99"
    found = engine("playground.read", text)
    assert found["wrong"] == [] and found["settings"]["zero"] is False
    assert found["settings"]["depth"] == 30 and found["settings"]["batch"] == 32
    assert engine("playground.read", found["written"]) == found  # every setting is written
    wrong = ["depth:31", "rate:2", "x", "data:moons:x", "__proto__:1", "zero:1"]
    assert engine("playground.read", ",".join(wrong))["wrong"] == wrong


def kinds(look: dict[str, Any]) -> set[str]:
    return {finding["key"].removeprefix("play.") for finding in look["findings"]}


def test_what_goes_wrong_is_measured_and_named(engine: Node) -> None:
    def seen(steps: int, **settings: Any) -> dict[str, Any]:
        look: dict[str, Any] = engine("playground.seen", settings, steps)
        return look

    healthy = seen(20, activation="tanh", init="xavier", width=8)
    assert kinds(healthy) == set()
    deep = seen(2, depth=30, width=4, activation="sigmoid", init="xavier", batch=8)
    medians = [layer["median"] for layer in deep["layers"]]
    assert kinds(deep) == {"vanishing"} and medians[0] < 1e-8 * medians[-1]
    dead = seen(30, rate=10, width=8)
    (said,) = [f for f in dead["findings"] if f["key"] == "play.dead"]
    assert said["values"]["count"] == sum(layer["dead"] for layer in dead["layers"][:-1]) > 0
    # Some pixels are never lit: more than half of the first layer's gradients are 0, but not all.
    digits = seen(10, data="digits", depth=1, width=8)
    first = digits["layers"][0]
    assert first["zeros"] > sum(first["gradients"]) > 0 and first["median"] > 0
    assert kinds(digits) == {"dead"}
    assert "nothing" in kinds(seen(30, rate=10, width=1, depth=5))
    assert "stale" in kinds(seen(3, zero=False, width=2))
    assert "alike" in kinds(seen(3, init="zero", width=2))
    assert "broken" in kinds(seen(60, rate=10, activation="linear", optimizer="momentum", depth=4))
    for look in (healthy, deep, dead):
        for layer in look["layers"][:-1]:
            assert sum(layer["activations"]) == layer["units"] * 128


@pytest.mark.slow
class TestInTheBrowser:
    """The page itself: one visit goes through it."""

    LINK = "#v=1&train=width:3,depth:2,batch:8,seed:5&trained=12"

    def test_a_link_opens_a_step_and_a_point_can_be_walked(
        self, open_page: Any, engine: Node
    ) -> None:
        page: Watched = open_page()
        page.page.goto(page.address + self.LINK)
        page.page.wait_for_selector("[data-trained='12']")
        chosen = {"width": 3, "depth": 2, "batch": 8, "seed": 5}
        losses, names = run(engine("playground.program", chosen, 13))
        shown = float(page.page.get_attribute("[data-loss]", "data-loss"))
        assert math.isclose(shown, losses[11], rel_tol=1e-12)
        page.press("ArrowRight")
        page.page.wait_for_selector("[data-trained='13']")
        shown = float(page.page.get_attribute("[data-loss]", "data-loss"))
        assert math.isclose(shown, losses[12], rel_tol=1e-12)
        # The next point, and into its graph.
        page.page.get_by_role("button", name="Next point").click()
        page.page.click("[data-open-point]")
        page.page.wait_for_selector("[data-position]")
        page.page.locator("#main").focus()
        page.press("End")
        page.page.wait_for_selector("[data-phase=backward]")
        for p in names["parameters"]:
            p.grad = 0
        names["loss_of"](*names["points"][1]).backward()
        found = page.page.evaluate(
            """() => { const {graph, grads} = window.gradwalkStudio.stage.numbers.value;
            return graph.nodes.flatMap((node, i) => /^[wb]/.test(node.label) ? [grads[i]] : []) }"""
        )
        # Named in the order of the program's parameters: weights, then the bias.
        assert found == pytest.approx([p.grad for p in names["parameters"]], rel=1e-12, abs=1e-300)
        # Its own link opens the same step of the same graph.
        link, position, title = page.link, page.position, page.page.inner_text("#scene-title")
        page.go(link)
        page.wait_for_position(position)
        expect(page.page.locator("#scene-title")).to_have_text(title)
        # The training is where it was, by the button and by the browser's.
        page.page.click("[data-playground]")
        page.page.wait_for_selector("[data-trained='13']")
        page.press("ArrowRight")
        page.page.wait_for_selector("[data-trained='14']")
        assert "point=" not in page.link  # it is written: a place to go back to
        page.page.click("[data-open-point]")
        page.page.wait_for_selector("[data-position]")
        assert "trained=14" in page.link
        page.page.go_back()
        page.page.wait_for_selector("[data-trained='14']")

    def test_it_runs_pauses_and_starts_again_when_a_setting_changes(self, open_page: Any) -> None:
        page: Watched = open_page()
        page.page.click("[data-playground]")
        page.page.wait_for_selector("[data-trained='0']")
        page.page.locator("#main").focus()
        page.press(" ")
        page.page.wait_for_function(
            "() => Number(document.querySelector('[data-trained]').dataset.trained) > 3"
        )
        page.press(" ")
        page.page.wait_for_selector("[data-run]:has-text('Train')")
        page.page.locator("input[data-setting=depth]").focus()
        page.press("ArrowRight")
        page.page.wait_for_selector("[data-trained='0']")
        expect(page.page.locator("[data-layer]")).to_have_count(4)
        assert "depth:3" in page.link
        page.page.uncheck("[data-setting=zero]")
        page.page.click("[data-step]")
        page.page.wait_for_selector("[data-findings~=stale]")
        page.page.click(".python summary")
        expect(page.page.locator(".python pre").first).to_contain_text(
            "zero_grad() is missing", use_inner_text=True
        )

    def test_every_press_is_a_step(self, open_page: Any) -> None:
        page: Watched = open_page()
        page.page.click("[data-playground]")
        page.page.wait_for_selector("[data-trained='0']")
        page.page.evaluate(  # all in one frame
            "() => { for (let i = 0; i < 5; i++) document.querySelector('[data-step]').click() }"
        )
        page.page.wait_for_selector("[data-trained='5']")

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_everybody_can_use_it(self, open_page: Any, scheme: str) -> None:
        page: Watched = open_page(
            color_scheme=scheme,
            viewport={"width": 320 if scheme == "dark" else 1280, "height": 800},
        )
        page.page.goto(page.address + "#v=1&train=depth:9,activation:sigmoid,zero:false&trained=2")
        page.page.wait_for_selector("[data-trained='2']")
        page.page.click(".python summary")
        assert complaints(page) == []
        wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.page.evaluate(wide) == 0

    def test_a_saved_copy_trains_from_disk(
        self, open_page: Any, browser: Any, tmp_path: Path
    ) -> None:
        page: Watched = open_page()
        page.page.goto(page.address + "#v=1&train=width:2,batch:4")
        page.page.wait_for_selector("[data-trained='0']")
        with page.page.expect_download() as download:
            page.page.get_by_role("button", name="Export").click()
        download.value.save_as(tmp_path / "copy.html")
        context = browser.new_context(offline=True)
        saved = Watched(context, (tmp_path / "copy.html").as_uri())
        saved.page.goto(saved.address)
        saved.page.click("[data-step]")
        saved.page.wait_for_selector("[data-trained='1']")
        assert saved.messages == []
        context.close()
