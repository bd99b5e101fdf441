"""DOT and TikZ: every node and edge, and text that cannot break out of its quotes."""

import re

import pytest

from gradwalk import Value
from gradwalk.inspect.expression.parser import parse
from gradwalk.printers.graphs.dot import graph_dot, quoted
from gradwalk.printers.graphs.tikz import frames_tikz, graph_tikz, latex
from tests.printers.neuron import neuron


def walked(source: str, **values: float):  # type: ignore[no-untyped-def]
    return parse(source).build(values).trace()


def test_dot_has_every_node_edge_number_and_gate() -> None:
    o = neuron()
    o.backward()
    text = graph_dot(o)
    assert len(re.findall(r"^  n\d+ \[", text, re.MULTILINE)) == 10
    assert len(re.findall(r"^  n\d+ -> n\d+ \[", text, re.MULTILINE)) == 9
    for part in (r"x1\l2\lgrad −1.5\l", "(swapper)", "×−3", r"o  tanh\l0.7071"):
        assert part in text


def test_a_times_a_has_two_edges() -> None:
    assert graph_dot(walked("a*a", a=3)).count("n0 -> n1") == 2
    assert graph_tikz(walked("a*a", a=3)).count("(n0.east)") == 2


def test_with_operations_on_the_edges_constants_are_part_of_them() -> None:
    text = graph_dot(walked("c = 3*a; d = c + a", a=2), "edges")
    assert 'n0 -> n1 [label="× 3 ∂ 3"]' in text.replace("n1 ->", "n0 ->").replace("n2 [", "n1 [")
    assert "constant" not in text
    with pytest.raises(ValueError, match="'nodes' or 'edges'"):
        graph_dot(walked("a"), "both")


def test_labels_cannot_leave_their_quotes() -> None:
    evil = Value(1.0, label='"]; evil [label="\\')
    text = graph_dot(evil * 2)
    for line in text.splitlines():
        unescaped = re.sub(r"\\.", "", line)
        assert unescaped.count('"') % 2 == 0
    assert quoted('a"b') == '"a\\"b"'


def test_latex_escapes_its_signs_and_knows_ours() -> None:
    assert latex("a_b^c%d#e{f}g\\h&i$j~k") == (r"a\_b\^{}c\%d\#e\{f\}g\textbackslash{}h\&i\$j\~{}k")
    assert latex("−3 × α·Ω ≤ √x … β") == (
        r"$-$3 $\times$ $\alpha$$\cdot$$\Omega$ $\le$ $\sqrt{\ }$x \ldots{} $\beta$"
    )
    assert latex("ΑοΧ日") == "AoX?"
    assert all(c.isascii() for c in latex("".join(map(chr, range(32, 0x500)))))


def test_tikz_is_balanced_ascii_and_complete() -> None:
    text = graph_tikz(walked("h_1 = max(α, b)*x²".replace("²", "^2") + "; L = h_1*h_1", α=2))
    assert text.isascii()
    depth = 0
    for c in re.sub(r"\\[{}]", "", text):
        depth += (c == "{") - (c == "}")
        assert depth >= 0
    assert depth == 0
    assert text.count(r"\begin{tikzpicture}") == text.count(r"\end{tikzpicture}") == 1
    assert r"$\alpha$" in text
    assert r"h\_1" in text
    for gate in ("router", "swapper", "adder"):
        assert f"{{{gate}}}" in text


def test_tikz_frames_are_pages_of_one_size() -> None:
    text = frames_tikz(walked("b = a+1; d = b*a", a=2))
    pictures = text.split(r"\begin{tikzpicture}")[1:]
    assert len(pictures) == 6
    boxes = {re.search(r"\\useasboundingbox .*;", p).group() for p in pictures}  # type: ignore[union-attr]
    assert len(boxes) == 1
    assert "gwlater" in pictures[0]
    assert "gwfocus" in pictures[3]
    assert "step 5 of 5" in pictures[5]
    places = [re.findall(r"\((n\d+)\) at (\([^)]*\))", p) for p in pictures]
    assert all(p == places[0] for p in places)
