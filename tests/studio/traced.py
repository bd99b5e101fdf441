"""Recorded traces in the page, as a user opens and reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import expect

import gradwalk as gw
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.trace import Trace
from tests.studio.watched import Watched


def saved(trace: Trace, folder: Path, name: str = "step.trace") -> Path:
    gw.save_trace(trace, folder / name)
    return folder / name


def open_file(page: Watched, path: Path) -> None:
    page.page.set_input_files("[data-trace-file]", path)
    page.page.wait_for_selector("[data-trace-drawing] .box")


def scope(page: Watched, name: str) -> Any:
    return page.page.locator(f'[data-scope][data-name="{name}"]')


def find(page: Watched, name: str) -> None:
    """Search for a name and go there."""
    page.page.fill("#trace-search", name)
    page.page.wait_for_selector(f'[data-result="{name}"]')
    page.page.click(f'[data-result="{name}"]')
    expect(page.page.locator("[data-selected]")).to_have_text(name)


def heat_cells(page: Watched, tensor: str, moves: str) -> list[tuple[str, float]]:
    """Numbers under the cursor of a heat map, after each of some arrow keys."""
    part = page.page.locator(f'[data-tensor="{tensor}"]')
    if part.locator("[data-show-elements]").count():
        part.locator("[data-show-elements]").click()
    part.locator("canvas").wait_for()
    keys = {"d": "ArrowDown", "r": "ArrowRight", "u": "ArrowUp", "l": "ArrowLeft"}
    found = []
    for move in moves:
        part.locator("canvas").press(keys[move])
        cell = part.locator("[data-cell]")
        found.append((cell.get_attribute("data-cell"), float(cell.get_attribute("data-number"))))
    return found


def check_numbers(page: Watched, trace: Trace) -> None:
    """Check a matrix, slices of an array with more dimensions, and an array too large to show."""
    find(page, "blocks.1.q.weight")
    index = trace.find("blocks.1.q.weight")
    for tensor, array in (("value", trace.nodes[index].value), ("gradient", trace.grad(index))):
        for cell, shown in heat_cells(page, tensor, "drdrrddlu"):
            row, column = map(int, cell.split(","))
            assert shown == float(array[row, column]), (tensor, cell)
        shown = page.page.locator(f'[data-tensor="{tensor}"] [data-statistic]')
        statistics = Statistics.of(array)
        for name, text in shown.evaluate_all(
            "all => all.map(e => [e.dataset.statistic, e.dataset.number])"
        ):
            assert float(text) == getattr(statistics, name)
        counts = page.page.get_attribute(
            f'[data-tensor="{tensor}"] [data-histogram]', "data-histogram"
        )
        assert tuple(map(int, counts.split(","))) == statistics.histogram

    softmax = next(n for n in trace.nodes if n.op == "softmax")
    find(page, trace.name(softmax.index))
    heat_cells(page, "value", "d")
    page.page.locator('[data-tensor="value"] .slices input').nth(0).fill("1")
    page.page.locator('[data-tensor="value"] .slices input').nth(1).fill("1")
    page.page.locator('[data-tensor="value"] output', has_text="[1, 1,").wait_for()
    for cell, shown in heat_cells(page, "value", "drrd"):
        row, column = map(int, cell.split(","))
        assert shown == float(softmax.value[1, 1, row, column])

    find(page, "head.weight")  # 160 rows, of which 128 are shown at once
    value = trace["head.weight"].value
    heat_cells(page, "value", "d")
    page.page.locator('[data-tensor="value"] .slices input').fill("150")
    page.page.locator('[data-tensor="value"] output', has_text="[33,").wait_for()
    for cell, shown in heat_cells(page, "value", "rr"):
        row, column = map(int, cell.split(","))
        assert shown == float(value[32 + row, column])
