"""A trace of PyTorch's in the page: `transformers`' GPT-2 with a NaN inside, and a loss."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

import gradwalk as gw
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.trace import Trace
from gradwalk.studio.launch import Studio
from tests.studio.traced import find, open_file, saved, scope
from tests.studio.watched import Watched
from tests.torch.gpt2 import BAD_STEP, RootMeanSquare, gpt2, sentences

pytestmark = pytest.mark.slow

# A point of the window that lies on a curve; the middle of the box around it may not.
MIDDLE = """path => {
  const {x, y} = path.getPointAtLength(path.getTotalLength() / 2).matrixTransform(
    path.getScreenCTM());
  return [x, y];
}"""


def step(planted: bool) -> Trace:
    """Step 500 of a training, in which a normalisation of the user's own may divide 0 by 0."""
    model = gpt2(layers=2)
    model.transformer.h[1].ln_2 = RootMeanSquare(planted)
    model.transformer.h[1].ln_2.calls = BAD_STEP
    (words,) = sentences()
    with gw.torch.record() as trace:
        model(words, labels=words).loss.backward()
    return trace


@pytest.fixture(scope="module")
def sick() -> Trace:
    return step(planted=True)


def test_a_file_is_opened_a_block_expanded_an_edge_clicked_and_the_nan_found(
    visit: Any, studio: Studio, sick: Trace, tmp_path: Path
) -> None:
    found = gw.find_nan(sick)
    assert (found.op, found.layer) == ("div", "transformer.h.1.ln_2")
    page: Watched = visit(studio.url())
    open_file(page, saved(sick, tmp_path, "gradwalk-step-500.trace"))
    page.page.wait_for_selector("[data-finding]")
    expect(page.page.locator("#scene-title")).to_have_text("gradwalk-step-500")

    # The block is closed, and marked; it is opened as one finds it.
    find_block = page.page.locator('[data-result="transformer.h.1"]')
    page.page.fill("#trace-search", "transformer.h.1")
    find_block.click()
    block = scope(page, "h.1")
    expect(block).to_have_attribute("aria-expanded", "false")
    block.press("Enter")
    page.page.wait_for_selector('[data-name="h.1"][aria-expanded="true"]')
    inside = page.page.locator("[data-scope]").evaluate_all("all => all.map(e => e.dataset.name)")
    assert {"ln_1", "attn"} <= set(inside)  # what is outside of the window is not drawn

    # The NaN: Python's finding leads to the operation, with its line.
    finding = page.page.locator('[data-finding="nan"]')
    if not finding.count():  # the panel shows the block
        page.page.get_by_text("The whole trace").first.click()
    expect(page.page.locator(".mistake .link").first).to_have_text(found.name)
    expect(finding).to_contain_text("0 / 0 is NaN", use_inner_text=True)
    expect(finding).to_contain_text("gpt2.py", use_inner_text=True)
    expect(page.page.locator("[data-finding]"), "what follows from it is not told").to_have_count(1)
    finding.locator("button").first.click()
    expect(page.page.locator("[data-selected]").first).to_have_attribute(
        "data-selected", str(found.node)
    )
    expect(page.page.locator("#panel")).to_contain_text(
        "hidden.square().mean(-1, keepdim=True).sqrt()", use_inner_text=True
    )
    expect(page.page.locator(f'[data-node="{found.node}"]')).to_be_visible()

    # The edge back to what it was divided by.
    page.page.mouse.click(*page.page.locator(f'[data-edge="{found.node}.1"]').evaluate(MIDDLE))
    page.page.wait_for_selector(f'[data-rule="{found.node}.1"]')
    pushed = sick.sweep.pushed[found.node][1]
    assert np.isnan(pushed).any()
    norm = page.page.locator('[data-tensor="pushed"] [data-statistic=norm]')
    expect(norm).to_have_attribute("data-number", "NaN")


def test_a_healthy_step_is_not_marked(visit: Any, studio: Studio) -> None:
    """The mask of attention is full of -inf, which is meant."""
    trace = step(planted=False)
    assert any(np.isinf(node.value).any() for node in trace.nodes)
    page: Watched = visit(studio.url(studio.sessions.show(trace, "a healthy step")))
    page.page.wait_for_selector("text=Nothing was found wrong")
    expect(page.page.locator(".mark.broken, .mistake")).to_have_count(0)
    find(page, "transformer.h.0.attn.c_attn.weight")
    shown = page.page.locator('[data-tensor="gradient"] [data-statistic=norm]')
    wanted = Statistics.of(trace.grad("transformer.h.0.attn.c_attn.weight")).norm
    assert float(shown.get_attribute("data-number")) == pytest.approx(wanted, rel=1e-12)


def test_nothing_is_wider_than_a_narrow_screen(open_page: Any, sick: Trace, tmp_path: Path) -> None:
    page: Watched = open_page(viewport={"width": 320, "height": 640})
    open_file(page, saved(sick, tmp_path))
    wide = page.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 320


def test_a_loss_of_pytorchs_is_shown(visit: Any) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    loss = model(torch.randn(16, 4)).square().mean()
    with contextlib.redirect_stdout(io.StringIO()):
        shown = gw.studio.show(loss, "a loss", open_browser=False, port=0)
    try:
        page: Watched = visit(shown.url)
        page.page.wait_for_selector("[data-trace-drawing] .box")
        expect(page.page.locator("#scene-title")).to_have_text("a loss")
        find(page, "0.weight")
        gradient = page.page.locator('[data-tensor="gradient"] [data-statistic=norm]')
        (wanted,) = torch.autograd.grad(loss, [model[0].weight])
        number = float(gradient.get_attribute("data-number"))
        assert number == pytest.approx(wanted.double().norm().item(), rel=1e-6)
    finally:
        shown.stop()
