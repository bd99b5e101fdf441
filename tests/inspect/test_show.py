"""show: pictures of losses and traces in every form, and what a notebook displays."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import gradwalk as gw
from gradwalk import Value
from gradwalk.inspect import record
from gradwalk.inspect.expression.parser import expression
from gradwalk.inspect.show import show
from gradwalk.printers.notebook import MOST


def small() -> Value:
    return expression("d = (a + 1)*(3*a)", a=2)


def test_a_value_a_tensor_a_trace_and_what_was_recorded_last() -> None:
    assert show(small()).nodes == 6
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    assert show((x * x).sum()).nodes == 3
    with record() as trace:
        (x * 2).sum().backward()
    assert show(trace).nodes == show().nodes == 3


def test_forms(tmp_path: Path) -> None:
    picture = show(small())
    for name, start in {"a.svg": "<svg", "a.dot": "digraph", "a.tex": "\\documentclass"}.items():
        assert picture.save(tmp_path / name).read_text(encoding="utf-8").startswith(start)
    with pytest.raises(ValueError, match=r"must end in one of \.svg"):
        picture.save(tmp_path / "a.png")
    written = picture.frames(tmp_path / "deep" / "frames")
    assert [p.name for p in written] == [f"step-{i:02}.svg" for i in range(8)]
    for path in written:
        ElementTree.parse(path)
    assert picture.tikz_frames().count("begin{tikzpicture}") == 8
    assert picture.to_dict()["nodes"][-1]["name"] == "d"


def test_print_and_notebook_displays() -> None:
    picture = show(small())
    assert "Backward" in str(picture)
    assert "\x1b" not in str(picture)
    assert max(map(len, str(picture).splitlines())) <= 80
    assert picture.text(tree=True).startswith("d = ")
    ElementTree.fromstring(picture._repr_svg_())
    ElementTree.fromstring(picture._repr_html_())
    assert "overflow-x" in picture._repr_html_()


def test_a_value_displays_its_graph_if_that_is_small() -> None:
    html = small()._repr_html_()
    assert "Value(data=18.0, grad=0)" in html
    ElementTree.fromstring(f"<div>{html}</div>")
    assert "<svg" in html
    assert "<svg" not in Value(2.0)._repr_html_()
    large = sum((Value(1.0) * i for i in range(MOST)), Value(0.0))
    assert "<svg" not in large._repr_html_()
    assert "show" in large._repr_html_()


def marked(html: str) -> tuple[int, int, str]:
    """How many edges and nodes of a display are marked, and what stands in the marked node."""
    tree = ElementTree.fromstring(f"<div>{html}</div>")
    every = list(tree.iter())
    edges = [e for e in every if "live" in e.get("class", "").split()]
    nodes = [g for g in every for rect in g if "focus" in rect.get("class", "").split()]
    return len(edges), len(nodes), " ".join(nodes[0].itertext()) if nodes else ""


def test_a_walk_is_drawn_at_its_step() -> None:
    steps = gw.walk(small())  # a, 1, +, 3, ×, d forward; d, ×, + backward
    found = []
    for position in range(len(steps) + 1):
        steps.jump(position)
        found.append(marked(steps._repr_html_()))
    assert [edges for edges, _, _ in found] == [0, 0, 0, 2, 0, 2, 2, 2, 1, 1]
    assert [nodes for _, nodes, _ in found] == [0, *[1] * 9]
    assert " 18 " in found[6][2] and "grad 1" not in found[6][2].split("18 ")[-1]
    assert "grad 1" in found[7][2].split("18 ")[-1]
    assert "grad 15" in steps._repr_html_()
    steps.jump(8)
    assert "+ …" in steps._repr_html_()  # a has half of its gradient


def test_a_why_marks_the_ways_to_the_loss() -> None:
    a = Value(2.0, label="a")
    b, c = a + 1, a * 3
    d = b * c
    assert marked(gw.why(a, d)._repr_html_())[:2] == (4, 1)
    assert marked(gw.why(b, d)._repr_html_())[:2] == (1, 1)
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    with record() as trace:
        (x * x).sum().backward()
    answer = gw.why(x, trace)
    assert marked(answer._repr_html_())[:2] == (3, 1)
    del trace
    with record():  # what was recorded last is another one now
        pass
    assert "<svg" not in answer._repr_html_()  # an answer keeps no recording alive
    assert "norm" in answer._repr_html_()


def test_a_large_graph_is_not_drawn_unasked() -> None:
    x = Value(1.0, label="x")
    y = x
    for _ in range(MOST):
        y = y * 1.5
    for answer in (gw.walk(y), gw.why(x, y)):
        assert "<svg" not in answer._repr_html_()
        assert "<pre" in answer._repr_html_()


def test_styles_stay_in_the_drawing() -> None:
    style = show(small()).svg().partition("<style>")[2].partition("</style>")[0]
    rules = [rule for rule in style.split("}") if rule]
    assert rules
    assert all(rule.startswith(".gradwalk ") for rule in rules)


def test_wrong_questions() -> None:
    with pytest.raises(ValueError, match="'nodes', 'edges', not 'both'"):
        show(small(), drawing="both")
    with pytest.raises(ValueError, match="depth is 1"):
        show(small(), depth=0)
    with record() as empty:
        pass
    with pytest.raises(ValueError, match="nothing was recorded"):
        show(empty)
    deep = Value(1.0)
    for _ in range(6000):
        deep = deep + 1
    with pytest.raises(ValueError, match="too many to draw"):
        show(deep).svg()
