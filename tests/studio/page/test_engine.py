"""The page's engine against Python's: expressions, numbers, walks, reasons, nudges."""

import json
import math
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwalk import Value
from gradwalk.inspect import record
from gradwalk.inspect.expression.parser import NOTES, parse
from gradwalk.inspect.expression.tokens import HINTS, INSTEAD, WORDS, WRITE, ExpressionError
from gradwalk.inspect.open.open_op import open_op
from gradwalk.inspect.walk.walk import walk
from gradwalk.inspect.why.derive import derive
from gradwalk.inspect.why.nudge import nudge
from gradwalk.inspect.why.why import why
from gradwalk.ops import TABLE
from gradwalk.printers.scalars import number
from tests.project.checkout import ROOT
from tests.quick import some_quick
from tests.studio.graphs import page_graph, random_program
from tests.studio.node import Node

GRAMMAR = json.loads(
    (ROOT / "tests" / "inspect" / "expression" / "grammar.json").read_text(encoding="utf-8")
)
PAGE_WORDS = json.loads(
    (ROOT / "src/gradwalk/course/lessons/en/strings.json").read_text(encoding="utf-8")
)
ENGINE = ROOT / "web" / "src" / "engine"
PROGRAMS = [random_program(seed) for seed in range(40)]
TEXTBOOK = [
    ("e = a + b; f = e·c", dict(a=2, b=-3, c=10), dict(f=1, e=10, c=-1, a=10, b=10)),
    (
        "e = a·b; d = e + c; L = d·f",
        dict(a=2, b=-3, c=5, f=-2),
        dict(f=-1, d=-2, e=-2, c=-2, a=6, b=-4),
    ),
    (
        "n = x1·w1 + x2·w2 + b; o = tanh(n)",
        dict(x1=2, w1=-3, x2=0, w2=1, b=6.8813735870195432),
        dict(n=0.5, w1=1.0, x1=-1.5, w2=0.0, x2=0.5, b=0.5, v1=0.5, v2=0.5, v3=0.5),
    ),
    ("f = a·a", dict(a=3), dict(a=6)),
    ("b = a + a", dict(a=7), dict(a=2)),
    ("b = a + 1; c = 3·a; d = b·c", dict(a=2), dict(a=15)),
    ("y = x^3 + 5·x", dict(x=2), dict(x=17)),
    ("y = max(a, b)", dict(a=2, b=-3), dict(a=1, b=0)),
    ("y = max(a, b)", dict(a=2, b=2), dict(a=0.5, b=0.5)),
]


def same(found: float, right: float) -> bool:
    if math.isnan(right):
        return math.isnan(found)
    return found == right or abs(found - right) <= 1e-12 * max(1.0, abs(right))


# -- numbers ---------------------------------------------------------------------------------------


def test_numbers_are_written_as_python_writes_them(engine: Node) -> None:
    draw = random.Random(1)
    values = [draw.gauss(0, 1) * 10 ** draw.randint(-9, 9) for _ in range(2000)]
    # Exact halves, which Python rounds to even.
    values += [k / 2**n for k in range(-40, 41) for n in range(9)]
    values += [0.0, -0.0, math.inf, -math.inf, math.nan, 1e6, 999999.99999, 5e-5, 4.9e-5, 1e-300]
    shown = engine.each("numbers.shortNumber", [[v] for v in values])
    assert shown == [number(v) for v in values]
    for digits in (4, 6):
        general = engine.each("numbers.general", [[v, digits] for v in values])
        assert general == [f"{v:.{digits}g}" for v in values]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", 1.5), ("3/2", 1.5), ("1,5", 1.5), ("−1.5", -1.5), (" -1,5 ", -1.5), ("1e-3", 0.001),
        ("+2", 2.0), (".5", 0.5), ("−3/2", -1.5), ("3/−2", -1.5), ("1 / 4", 0.25),
        ("inf", math.inf), ("5.", 5.0),
    ],
)  # fmt: skip
def test_a_typed_answer_is_read(engine: Node, text: str, value: float) -> None:
    assert engine("numbers.readNumber", text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1.2.3",
        "1,2,3",
        "2*3",
        "1/2/3",
        "--1",
        "1e",
        "0x10",
        "1_0",
        "()",
        "1 2",
        "constructor",
    ],
)
def test_nothing_else_is(engine: Node, text: str) -> None:
    assert engine("numbers.readNumber", text) is None


# -- expressions -----------------------------------------------------------------------------------


def test_the_page_reads_every_case_of_the_grammar(engine: Node) -> None:
    cases = GRAMMAR["cases"]
    assert len(cases) > 300
    answers = engine.each("expressions.treeText", [[case["source"]] for case in cases])
    for case, answer in zip(cases, answers, strict=True):
        if "tree" in case:
            assert answer == case["tree"], case["source"]
        else:
            mistake = answer["mistake"]
            assert {k: mistake[k] for k in ("line", "column")} == case["error"], case["source"]


def said(message: Any) -> str:
    """A message of the page in English, as `say` of web/src/state/words.ts fills it in."""
    values = message.get("values", {})
    form = ".one" if values.get("count") == 1 else ".other"
    text = PAGE_WORDS.get(message["key"] + form) or PAGE_WORDS[message["key"]]
    return re.sub(r"\{(\w+)\}", lambda found: str(values[found[1]]), text)


def test_page_and_command_line_say_the_same(engine: Node) -> None:
    """Of every mistake in the grammar's cases, and of every word of another notation."""
    sources = [case["source"] for case in GRAMMAR["cases"] if "error" in case]
    sources += [f"{name}(x)" for name in (*WORDS, *WRITE, "Tanh", "sigmod", "foo", "a")]
    sources += [f"2 {name} x" for name in WORDS] + [f"a {sign} b" for sign in INSTEAD]
    sources += ["x" * 10_001, "x+" * 1_001 + "x", "(" * 51 + "x", "x" * 41]
    answers = engine.each("expressions.treeText", [[source] for source in sources])
    for source, answer in zip(sources, answers, strict=True):
        with pytest.raises(ExpressionError) as raised:
            parse(source)
        mistake, error = answer["mistake"], raised.value
        assert said(mistake) == error.message, source
        assert (said(mistake["hint"]) if "hint" in mistake else "") == error.hint, source


NOTED = ["e^x", "π*r^2", "x*y*z", "e = a*2; d = a*3", "2 + 3", "a = 2; b = 3; a*c", "x = 1; x*x"]


def test_page_and_command_line_note_the_same(engine: Node) -> None:
    for source in NOTED:
        built = engine("expressions.parse", source, {})
        notes = engine("expressions.notesOf", built)
        assert [said(note) for note in notes] == parse(source).build().notes(), source


SIGNS = "abx12.()+-*/^=;, \n·−×√²𝒳😀eŷö₁\u0302"


@given(st.text(alphabet=SIGNS, max_size=24) | st.text(max_size=12))
def test_the_page_agrees_with_python_on_any_text(engine: Node, source: str) -> None:
    answer = engine("expressions.treeText", source)
    try:
        right: Any = parse(source).tree()
    except ExpressionError as error:
        assert (answer["mistake"]["line"], answer["mistake"]["column"]) == (
            error.line,
            error.column,
        )
    else:
        assert answer == right


SOURCES = [(source, values) for source, values, _ in TEXTBOOK] + PROGRAMS
SOURCES += [
    ("2*3*x", {}), ("3 + 4", {}), ("x = 2; x*x", {"x": 3}), ("y = x; z = y + 1", {}), ("x", {}),
    ("2^x", {"x": 3}), ("x^(1+1)", {}), ("x^y^2", {"x": 2}), ("1/0*x", {}),
    ("constructor*toString + tanh(valueOf)", {"valueOf": 0.5}), ("out = 3*x; out*2", {}),
    ("v1 = x + 1; tanh(v1*x) * v1", {}), ("elu(x) + clamp_min(x, 0.5)", {"x": -1}),
    ("u = a + 1; b*2", {}), ("tanh(x1*w1 + x2*w2 + b)", {}), ("-x^2 + -(-x)", {"x": 3}),
    ("pi*r^2", {"r": 2}), ("x - 3 - 4", {}), ("k = 4; k*x + 1e999", {}), ("round(x)", {"x": 2.5}),
]  # fmt: skip


@pytest.mark.parametrize(("source", "values"), SOURCES, ids=lambda x: str(x)[:40])
def test_typing_builds_pythons_graph(engine: Node, source: str, values: dict[str, float]) -> None:
    built = parse(source).build(values)
    graph, numbers, _ = page_graph(built.trace())
    found = engine("expressions.parse", source, values)
    kept = [
        {key: node[key] for key in ("op", "args", "attrs", "label")}
        for node in found["graph"]["nodes"]
    ]
    for node, right in zip(kept, graph["nodes"], strict=True):
        assert node["label"] == (right["label"] or "out")
        right["label"] = node["label"]
        assert node == right
    assert found["graph"]["root"] == graph["root"]
    leaves = [i for i, node in enumerate(kept) if not node["op"]]
    assert [found["values"][i] for i in leaves] == [numbers[i] for i in leaves]
    assumed = [kept[i]["label"] for i in found["assumed"]]
    inside = {node["label"] for node in kept}
    assert assumed == [name for name in built.assumed if name in inside]
    assert found["unused"] == list(built.unused)


def test_only_leaves_are_set(engine: Node) -> None:
    found = engine("expressions.parse", "y = x + 1", {"z": 5, "y": 5, "x": 2})
    plain = engine("expressions.parse", "y = x + 1", {})
    assert found["graph"] == plain["graph"]
    assert (found["values"][0], found["assumed"]) == (2, [])
    assert (plain["values"][0], plain["assumed"]) == (1, [0])
    # A number by itself is a leaf without a name.
    assert engine("expressions.parse", "1/0", {"out": 3})["values"] == [3]


def test_what_is_typed_is_stronger_than_what_was_there(engine: Node) -> None:
    found = engine("expressions.parse", "a = 2; a*b", {"a": 7, "b": 5}, True)
    numbers = {n["label"]: v for n, v in zip(found["graph"]["nodes"], found["values"], strict=True)}
    assert (numbers["a"], numbers["b"]) == (2, 5)
    assert found["assumed"] == []


# -- values and gradients --------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "values", "gradients"), TEXTBOOK, ids=lambda x: str(x)[:30])
def test_the_table_of_the_mission(
    engine: Node, source: str, values: dict[str, float], gradients: dict[str, float]
) -> None:
    found = engine("expressions.parse", source, values)
    computed = engine("graph.compute", found["graph"], found["values"])
    names = [node["label"] for node in found["graph"]["nodes"]]
    for name, right in gradients.items():
        assert computed["grads"][names.index(name)] == pytest.approx(right, rel=1e-12), name


@pytest.mark.parametrize(("source", "values"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_random_graphs_step_by_step(engine: Node, source: str, values: dict[str, float]) -> None:
    trace = parse(source).build(values).trace()
    graph, numbers, place = page_graph(trace)
    computed = engine("graph.compute", graph, numbers)
    for index, at in place.items():
        assert same(computed["values"][at], float(trace.nodes[index].value))
        assert same(computed["grads"][at], float(trace.sweep.grad(index)))
    assert computed["visits"] == [place[i] for i in trace.sweep.visits]
    steps = engine("walk.stepsOf", computed)
    backward = [step for step in steps if step["phase"] == "backward"]
    walked = walk(trace)
    theirs = [walked.at(i) for i in range(1, len(walked) + 1)]
    theirs = [step for step in theirs if step.phase == "backward" and step.pushes]
    assert [place[step.index] for step in theirs] == [step["node"] for step in backward]
    for mine, right in zip(backward, theirs, strict=True):
        pushes = [p for p in right.pushes if p.to in place]
        assert len(mine["pushes"]) == len(pushes)
        for push, wanted in zip(mine["pushes"], pushes):
            assert push["edge"]["argument"] == wanted.argument
            assert same(push["amount"], float(wanted.amount))
            assert same(push["local"], wanted.slope)
    complete = [node for step in backward for node in step["completed"]]
    assert sorted([*complete, graph["root"]]) == list(range(len(graph["nodes"])))


def test_the_listing_is_executed_as_it_is_written(engine: Node) -> None:
    source, values = "b = a + 1; c = 3·a; d = b·c", {"a": 2.0}
    found = engine("expressions.parse", source, values)
    computed = engine("graph.compute", found["graph"], found["values"])
    code = engine("walk.codeTrace", computed)
    names = [node["label"] for node in found["graph"]["nodes"]]
    assert [names[i] for i in code["order"]] == ["a", "b", "c", "d"]
    assert [step["line"] for step in code["steps"]][:8] == [9, 10, 2, 4, 5, 6, 2, 4]
    pushes = [(names[s["node"]], names[s["input"]]) for s in code["steps"] if s["line"] == 17]
    assert pushes == [("d", "b"), ("d", "c"), ("c", "a"), ("b", "a")]
    assert code["steps"][-1]["step"] == len(engine("walk.stepsOf", computed))


@pytest.mark.slow
def test_ten_thousand_nodes_are_no_problem(engine: Node) -> None:
    nodes = [{"op": "", "args": [], "attrs": {}, "label": "x"}]
    for i in range(10_000):
        operands = [{"node": i}, {"node": i}] if i % 100 == 0 else [{"node": i}, {"constant": 0.0}]
        nodes.append({"op": "add", "args": operands, "attrs": {}, "label": f"v{i}"})
    graph = {"nodes": nodes, "root": 10_000}
    computed = engine("graph.compute", graph, [1.0] + [0.0] * 10_000)
    assert computed["grads"][0] == 2.0**100
    assert engine("graph.countPaths", graph) == 2**100
    reasons = engine("why.why", computed, 0, 3)
    assert reasons["count"] == 2**100 and len(reasons["paths"]) == 3
    assert len(engine("walk.stepsOf", computed)) == 20_002


# -- reasons ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "values"), some_quick(PROGRAMS[:20], 5), ids=range(20))
def test_why_derive_and_nudge(engine: Node, source: str, values: dict[str, float]) -> None:
    trace = parse(source).build(values).trace()
    graph, numbers, place = page_graph(trace)
    computed = engine("graph.compute", graph, numbers)
    for index, at in place.items():
        if at == graph["root"]:
            continue
        right, found = why(index, trace), engine("why.why", computed, at, 4)
        assert found["count"] == right.path_count
        assert found["dead"] == right.dead_path_count
        assert same(found["gradient"], right.gradient)
        assert same(found["cancellation"], right.cancellation)
        assert same(found["edgeCancellation"], right.edge_cancellation)
        mine = sorted(
            (e["edge"]["node"], e["edge"]["argument"], e["amount"]) for e in found["edges"]
        )
        theirs = sorted((place[e.consumer], e.argument, e.amount) for e in right.edges)
        for one, other in zip(mine, theirs, strict=True):
            assert one[:2] == other[:2] and same(one[2], other[2])
        amounts = [p["product"] for p in found["paths"]]
        for one, other in zip(amounts, [p.amount for p in right.paths[:4]], strict=True):
            assert same(abs(one), abs(other))

        derived, lines = derive(index, trace), engine("derive.deriveText", computed, at)
        for line, step in zip(lines["lines"], derived.steps, strict=True):
            wanted = [step.symbols, step.rules, step.numbers, number(step.gradient)]
            assert [line["left"], *line["right"]] == [step.left, *dict.fromkeys(wanted)]
        if derived.in_one_line is not None:
            whole = lines["whole"]
            written = " = ".join([whole["left"], *map(" + ".join, whole["right"])])
            assert sorted(written) == sorted(derived.in_one_line)
        assert as_table(engine, engine("derive.deriveMath", computed, at)) == derived.mathml

        moved, mine = nudge(index, 0.01, trace), engine("nudge.nudge", computed, at, 0.01)
        assert same(mine["real"], moved.real) and same(mine["predicted"], moved.predicted)
        rows = {place[m.node]: m for m in moved.moves}
        assert [m["node"] for m in mine["moves"]] == list(rows)
        for move in mine["moves"]:
            assert same(move["real"], rows[move["node"]].real)
            assert same(move["predicted"], rows[move["node"]].predicted)


def as_table(engine: Node, derivation: Any) -> str:
    """The page's derivation put together as Python's is."""
    rows = []
    for line in derivation["lines"]:
        for i, part in enumerate(line["right"]):
            left = engine("formulas.markupText", line["left"]) if i == 0 else ""
            right = engine("formulas.markupText", part)
            rows.append(
                f'<mtr><mtd style="text-align: right">{left}</mtd><mtd><mo>=</mo></mtd>'
                f'<mtd style="text-align: left">{right}</mtd></mtr>'
            )
    return f'<math display="block"><mtable>{"".join(rows)}</mtable></math>'


# -- opening ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "silu", "softplus", "hypot", "relu", "square"])
@pytest.mark.parametrize("at", [0.75, -1.5, 30.0, 800.0])
def test_an_open_node_has_the_same_gradients(engine: Node, name: str, at: float) -> None:
    operands = "x, y" if name == "hypot" else "x"
    found = engine("expressions.parse", f"o = {name}({operands}); L = o*o + x", {"x": at})
    closed = engine("graph.compute", found["graph"], found["values"])
    node = [n["label"] for n in found["graph"]["nodes"]].index("o")
    opened = engine("expand.expand", closed, node)
    again = engine("graph.compute", opened["graph"], opened["given"])
    root = again["values"][opened["graph"]["root"]]
    assert root == pytest.approx(closed["values"][found["graph"]["root"]], rel=1e-9)
    assert again["grads"][0] == pytest.approx(closed["grads"][0], rel=1e-9, abs=1e-12)
    labels = [n["label"] for n in opened["graph"]["nodes"]]
    assert len(set(labels)) == len(labels) and labels[opened["inside"][-1]] == "o"
    mine = [opened["graph"]["nodes"][i]["op"] for i in opened["inside"]]
    if "greater" not in mine:  # Python decides a condition at once; here it stays a node, and live
        values = [Value(at, label="x"), Value(1.0, label="y")]
        out = TABLE[name](*values[: len(TABLE[name].inputs)], **TABLE[name].defaults)
        assert mine == [n.op for n in open_op(record(out), out).trace.nodes if n.op]


def test_tanh_opens_into_the_textbooks_formula(engine: Node) -> None:
    found = engine("expressions.parse", "o = tanh(n)", {"n": 0.5})
    closed = engine("graph.compute", found["graph"], found["values"])
    opened = engine("expand.expand", closed, 1)
    texts = [engine("formulas.expressionText", opened["graph"], i) for i in opened["inside"]]
    assert texts == ["2 × n", "exp(o_1)", "o_2 − 1", "o_2 + 1", "o_3 / o_4"]


# -- words -----------------------------------------------------------------------------------------


def test_every_message_of_the_engine_has_words() -> None:
    """Keys stand in the sources as text, or as the end of one after a fixed beginning."""
    words = PAGE_WORDS
    sources = {path.stem: path.read_text(encoding="utf-8") for path in ENGINE.glob("*.ts")}
    keys = {f"parse.{key}" for key in re.findall(r'wrong\("(\w+)"', sources["grammar"])}
    keys |= {f"parse.hint.{key}" for key in HINTS}
    keys |= {f"note.{key}" for key in NOTES}
    assert {key: words[f"parse.hint.{key}"] for key in HINTS} == HINTS
    assert {key: words[f"note.{key}"] for key in NOTES} == NOTES
    keys |= {f"byhand.{key}" for key in re.findall(r'guess\([^"]*"(\w+)"', sources["byhand"])}
    keys |= {f"order.{key}" for key in re.findall(r'because\("(\w+)"', sources["order"])}
    for text in sources.values():
        keys |= set(re.findall(r'"((?:parse|byhand|order)\.[\w.]+)"', text))
    assert len(keys) > 60
    known = {*words, *(re.sub(r"\.(one|other)$", "", key) for key in words)}
    assert not sorted(key for key in keys if key not in known)
