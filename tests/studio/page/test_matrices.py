"""Arrays as matrices: Jacobians in Node against the engine's, and what lights up in the browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import gradwalk as gw
from gradwalk.inspect.trace.file import describe
from gradwalk.inspect.trace.recorder import record
from gradwalk.inspect.trace.trace import Edge
from gradwalk.nn import functional as F
from tests.quick import some_quick
from tests.studio.node import Node, bundle
from tests.studio.page.test_access import complaints
from tests.studio.traced import open_file, saved
from tests.studio.watched import Watched

Operation = Callable[..., Any]

# An operation with the shapes of its operands; each is checked by every operand.
OPERATIONS: dict[str, tuple[Operation, list[tuple[int, ...]]]] = {
    "a bias over rows": (lambda x, b: x + b, [(2, 3), (3,)]),
    "a column over rows and columns": (lambda x, b: x * b, [(2, 3), (2, 1)]),
    "a batch": (lambda x, b: x / b, [(2, 2, 2), (2, 1, 2)]),
    "a number": (lambda x: x * 3, [(4,)]),
    "a power": (lambda x: x**3, [(3,)]),
    "sigmoid": (gw.sigmoid, [(2, 2)]),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), [(5,)]),
    "clip": (lambda x: x.clamp(-0.5, 0.5), [(2, 3)]),
    "where": (lambda x, y: gw.where(x > 0, x, y), [(2, 2), (2,)]),
    "matmul": (lambda x, y: x @ y, [(2, 3), (3, 2)]),
    "matmul of a vector": (lambda x, y: x @ y, [(3,), (3, 2)]),
    "matmul of two vectors": (lambda x, y: x @ y, [(3,), (3,)]),
    "batched matmul": (lambda x, y: x @ y, [(2, 2, 2), (2, 2)]),
    "linear": (F.linear, [(2, 3), (2, 3), (2,)]),
    "sum of all": (lambda x: x.sum(), [(2, 3)]),
    "sum of rows": (lambda x: x.sum(dim=1), [(2, 3)]),
    "sum that keeps": (lambda x: x.sum(dim=0, keepdim=True), [(2, 3)]),
    "mean": (lambda x: x.mean(dim=-1), [(2, 3)]),
    "amax": (lambda x: x.amax(dim=1), [(2, 3)]),
    "transpose": (lambda x: x.transpose(0, 1), [(2, 3)]),
    "permute": (lambda x: x.permute(2, 0, 1), [(2, 2, 3)]),
    "reshape": (lambda x: x.reshape(3, 2), [(2, 3)]),
    "expand": (lambda x: x.expand(3, 2), [(1, 2)]),
    "softmax": (lambda x: gw.softmax(x, dim=1), [(2, 3)]),
    "softmax of columns": (lambda x: gw.softmax(x, dim=0), [(2, 3)]),
    "log_softmax": (lambda x: gw.log_softmax(x, dim=-1), [(2, 3)]),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, gw.tensor([0, 2]), reduction="none"),
        [(2, 3)],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    started = Node(bundle("traces.ts", tmp_path_factory.mktemp("traces")))
    yield started
    started.close()


@pytest.mark.parametrize("name", some_quick(sorted(OPERATIONS), 4))
def test_a_jacobian_is_that_of_the_engine(node: Node, name: str) -> None:
    operation, shapes = OPERATIONS[name]
    draw = np.random.default_rng(3)
    leaves = [gw.tensor(draw.normal(size=shape), requires_grad=True) for shape in shapes]
    with record() as trace:
        out = operation(*leaves)
        out.backward(gw.ones_like(out))
    last = max(i for i, one in enumerate(trace.nodes) if one.op and one.op != "detach")
    described, arrays = describe(trace)
    assert not arrays
    # a chain of ops, as a vector's matmul is, has the product of their Jacobians
    for at, leaf in enumerate(leaves):
        expected = []
        for element in range(out.numel()):
            seed = np.zeros(out.shape).reshape(-1)
            seed[element] = 1.0
            again = operation(*leaves)
            (found,) = gw.autograd.grad(again, [leaf], gw.tensor(seed.reshape(out.shape)))
            expected.append(found.numpy().reshape(-1))
        ours = _chained(node, described, trace, last, _node_of(trace, leaf, at))
        assert ours is not None, f"{name}: no Jacobian by operand {at}"
        np.testing.assert_allclose(ours, np.array(expected), rtol=1e-9, atol=1e-12)


def _node_of(trace: Any, leaf: Any, at: int) -> int:
    leaves = [
        i
        for i, one in enumerate(trace.nodes)
        if not one.op
        and one.values[0] is not None
        and np.shape(one.values[0]) == tuple(leaf.shape)
        and np.array_equal(np.asarray(one.values[0]), leaf.detach().numpy())
    ]
    assert leaves, f"operand {at} is not in the trace"
    return leaves[0]


def _chained(node: Node, described: Any, trace: Any, last: int, leaf: int) -> Any:
    """The Jacobian of a node by a leaf: sums of products along the operations between them."""
    if last == leaf:
        return np.eye(int(np.prod(trace.nodes[leaf].metas[0][0])))
    total = None
    for argument, edge in enumerate(trace.nodes[last].args):
        if not isinstance(edge, Edge):
            continue
        inner = _chained(node, described, trace, edge.node, leaf)
        if inner is None:
            continue
        found = node("jacobian", described, last, argument)
        if found is None:
            continue
        part = np.array(found) @ inner
        total = part if total is None else total + part
    return total


# -- in the browser --------------------------------------------------------------------------------


def hover(page: Watched, matrix: str, row: int, column: int, shape: tuple[int, int]) -> None:
    """Move the mouse over an element of a matrix in the drawing."""
    box = page.page.locator(f'[data-matrix="{matrix}"] .cells').bounding_box()
    x = box["x"] + (column + 0.5) / shape[1] * box["width"]
    page.page.mouse.move(x, box["y"] + (row + 0.5) / shape[0] * box["height"])
    page.page.wait_for_selector("[data-at]")


def said(page: Watched) -> str:
    return str(page.page.inner_text("[data-origins]"))


@pytest.mark.slow
def test_an_element_lights_the_row_and_the_column_it_came_from(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=matrix-product&step=99")
    hover(page, "2.value", 0, 1, (2, 2))
    assert said(page) == "Y[0, 1] = 1 × (−1) + 2 × 0.5 + 3 × 3 = 9"
    hover(page, "2.value", 0, 0, (2, 2))
    assert said(page) == "Y[0, 0] = 1 × 1 + 2 × 2 + 3 × 0 = 5", "a 1 is a factor, too"
    lit = page.page.locator("[data-lit]")
    assert [path.count("M") for path in _paths(page, "[data-lit]")] == [3, 3]
    # the gradient of X[0, 1] is a row of dY times a row of W
    hover(page, "0.gradient", 0, 1, (2, 3))
    assert said(page) == "∂L/∂X[0, 1] = 10 × 2 + 18 × 0.5 = 29"
    expect(lit).to_have_count(2)
    page.page.mouse.move(5, 5)
    page.page.wait_for_selector("[data-lit]", state="detached")
    assert not page.messages


def _paths(page: Watched, selector: str) -> list[str]:
    found: list[str] = page.page.eval_on_selector_all(
        selector, "(all) => all.map((path) => path.getAttribute('d'))"
    )
    return found


@pytest.mark.slow
def test_arrow_keys_look_at_elements(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=dense-layer&step=99&select=~3")
    page.page.locator('[data-tensor="gradient"] .figures').focus()
    page.press("ArrowDown")
    assert said(page).startswith("∂L/∂b[0, 0] = 0.1398 + 0.1175 = 0.2573")
    page.press("ArrowDown")
    assert said(page).startswith("∂L/∂b[1, 0] = ")
    expect(page.page.locator("td.at")).to_have_text("0.3199")


@pytest.mark.slow
def test_an_edge_shows_its_product_its_sum_and_its_jacobian(open_page: Any) -> None:
    page: Watched = open_page("#v=1&preset=dense-layer&step=99&select=~2.0")
    figure = page.page.locator("[data-arithmetic] > svg")
    expect(figure).to_have_attribute("aria-label", "∇Wa 2×2, aᵀ 2×3, → W 2×3")
    page.go("#v=1&preset=dense-layer&step=99&select=~4.1")
    expect(page.page.locator("[data-arithmetic]").first).to_contain_text(
        "repeated", use_inner_text=True
    )
    page.page.click("[data-jacobian] summary")
    numbers = page.page.get_attribute("[data-jacobian] svg", "data-numbers")
    assert numbers == "1 0 1 0 0 1 0 1"
    assert not complaints(page)


@pytest.mark.slow
def test_larger_arrays_are_read_and_too_large_ones_are_thumbnails(
    open_page: Any, tmp_path: Path
) -> None:
    draw = np.random.default_rng(0)
    with record() as trace:
        x = gw.tensor(draw.normal(size=(5, 12)), requires_grad=True)
        w = gw.tensor(draw.normal(size=(12, 20)), requires_grad=True)
        (x @ w).sum().backward()
    page: Watched = open_page()
    open_file(page, saved(trace, tmp_path))
    page.page.wait_for_selector('[data-matrix="0.value"] .cells')
    hover(page, "0.value", 4, 11, (5, 12))
    assert said(page) == f"leaf#0[4, 11] = {_short(x.detach().numpy()[4, 11])}"
    assert page.page.locator('[data-matrix="1.value"] .shade').count() > 3
    expect(page.page.locator('[data-matrix="1.value"] .cells')).to_have_count(0)
    page.page.click("[data-matrices]")
    expect(page.page.locator(".matrix")).to_have_count(0)


def _short(number: float) -> str:
    return f"{number:.4f}".rstrip("0").replace("-", "−")
