"""The page's order lab against the textbook examples and Python's; answers given by hand."""

import itertools
import random
from collections import Counter
from typing import Any

import pytest

from gradwalk.inspect.expression.parser import parse
from gradwalk.inspect.order.lab import every_order, run_order
from gradwalk.inspect.order.recipes import RECIPES
from tests.quick import some_quick
from tests.studio.graphs import page_graph, random_program
from tests.studio.node import Node

DIAMOND = "b = a + 1; c = 3·a; d = b·c", {"a": 2.0}
DIAMOND_WITH_X = "a = x·1; b = a + 1; c = 3·a; d = b·c", {"x": 2.0}
PRODUCTS = "e = a·b; d = e + c; L = d·f", {"a": 2, "b": -3, "c": 5, "f": -2}
BREADTH = "a = 2·x; b = 3·a; c = b + 1; d = a·c", {"x": 1.0}


class Lab:
    """One graph in Python and in the page."""

    def __init__(self, engine: Node, source: str, values: dict[str, float]) -> None:
        self.engine = engine
        self.trace = parse(source).build(values).trace()
        self.graph, numbers, self.place = page_graph(self.trace)
        self.computed = engine("graph.compute", self.graph, numbers)
        self.names = [node["label"] for node in self.graph["nodes"]]

    def node(self, name: str) -> int:
        return self.names.index(name)

    def got(self, order: list[str], asked: str) -> float:
        passes = [[self.node(name) for name in order]]
        run = self.engine("order.runOrder", self.computed, passes)
        return float(next(n["got"] for n in run["nodes"] if n["node"] == self.node(asked)))

    def compare(self, passes: list[list[int]], overwrite: bool) -> None:
        """Every node, and the paths of every node, as Python's order lab has them."""
        here = [[self.place[i] for i in visits] for visits in passes]
        mine = self.engine("order.runOrder", self.computed, here, overwrite)
        theirs = run_order(self.trace, passes, overwrite=overwrite, top=4)
        compare_inversion(self, mine["firstInversion"], theirs.first_inversion)
        nodes = [n for n in theirs.nodes if n.index in self.place]
        assert [n["node"] for n in mine["nodes"]] == [self.place[n.index] for n in nodes]
        asked = [[self.computed, mine, n["node"], 4] for n in mine["nodes"]]
        paths = self.engine.each("order.orderPaths", asked)
        for found, right, listed in zip(mine["nodes"], nodes, paths, strict=True):
            assert found["got"] == pytest.approx(right.got)
            assert found["correct"] == pytest.approx(right.correct)
            assert (found["lost"] is None) == right.lost.none
            assert (found["extra"] is None) == right.extra.none
            lost, extra = found["lost"] or 0.0, found["extra"] or 0.0
            assert lost == pytest.approx(right.lost.total)
            assert extra == pytest.approx(right.extra.total)
            assert found["got"] == pytest.approx(found["correct"] - lost + extra, abs=1e-9)
            assert found["wrong"] == right.wrong
            compare_inversion(self, found["firstInversion"], right.first_inversion)
            assert listed["total"] == right.paths
            assert listed["lostCount"] == right.lost.count
            assert listed["extraCount"] == right.extra.count
            for kind, wanted in (("lost", right.lost), ("extra", right.extra)):
                compare_paths(self, listed[kind], list(wanted))


def compare_inversion(lab: Lab, mine: Any, theirs: Any) -> None:
    if theirs is None:
        assert mine is None
        return
    pair = lab.names[mine["early"]], lab.names[mine["late"]]
    assert (*pair, mine["earlyVisit"], mine["lateVisit"]) == (
        theirs.early, theirs.late, theirs.early_visit, theirs.late_visit,
    )  # fmt: skip


def compare_paths(lab: Lab, mine: list[Any], theirs: list[Any]) -> None:
    """Paths of equal size may stand in any order, and the last of them may be another."""
    assert [abs(p["amount"]) for p in mine] == pytest.approx([p.size for p in theirs])
    known = {(tuple(lab.place[n] for n in p.nodes), tuple(p.arguments)): p for p in theirs}
    for path in mine:
        key = tuple(path["nodes"]), tuple(e["argument"] for e in path["edges"])
        if key not in known:
            continue
        right = known[key]
        assert path["times"] == right.times
        assert path["amount"] == pytest.approx(right.amount)
        assert english(path.get("reason")) == right.reason
        if right.pair is not None:
            assert [lab.names[i] for i in path["pair"]] == list(right.pair)


def english(reason: Any) -> str:
    """A message as Python says it."""
    if reason is None:
        return ""
    forms = {
        "order.notVisited": "{name} was not visited",
        "order.before": "{name} was visited before {other}",
        "order.overwritten": "overwritten in {name} by {other}",
        "order.setAgain": "set again by the next call",
    }
    return forms[reason["key"]].format(**reason.get("values", {}))


# -- the textbook examples -------------------------------------------------------------------------


def test_all_24_orders_of_the_plain_diamond(engine: Node) -> None:
    lab = Lab(engine, *DIAMOND)
    orders = list(itertools.permutations("abcd"))
    found = Counter(lab.got(list(order), "a") for order in orders)
    assert found == {15.0: 8, 9.0: 4, 6.0: 4, 0.0: 8}
    for order in orders:
        complete = order.index("d") < min(order.index("b"), order.index("c"))
        assert (lab.got(list(order), "a") == 15) == complete


def test_all_24_orders_of_the_diamond_with_x(engine: Node) -> None:
    lab = Lab(engine, *DIAMOND_WITH_X)
    orders = itertools.permutations(["d", "b", "c", "a"])
    assert Counter(lab.got(list(order), "x") for order in orders) == {
        15.0: 2,
        9.0: 2,
        6.0: 2,
        0.0: 18,
    }
    outcomes = engine("order.everyOrder", lab.computed, lab.node("x"))
    right = every_order("x", lab.trace).counts
    assert {o["got"]: len(o["orders"]) for o in outcomes} == right


@pytest.mark.parametrize("source", [DIAMOND, DIAMOND_WITH_X, BREADTH], ids=["a", "x", "breadth"])
def test_every_order_as_pythons_lab_has_it(engine: Node, source: tuple[str, Any]) -> None:
    lab = Lab(engine, *source)
    inner = [node.index for node in lab.trace.nodes if node.op]
    for order in itertools.permutations(inner):
        lab.compare([list(order)], overwrite=False)


@pytest.mark.parametrize(
    ("source", "recipe", "gradient"),
    [
        (DIAMOND_WITH_X, "right", 15), (DIAMOND_WITH_X, "plain recursion", 21),
        (DIAMOND_WITH_X, "depth-first", 6), (DIAMOND_WITH_X, "overwrite", 9),
        (DIAMOND_WITH_X, "twice", 60), (DIAMOND_WITH_X, "breadth-first", 15),
        (BREADTH, "right", 26), (BREADTH, "breadth-first", 14), (BREADTH, "plain recursion", 40),
    ],
)  # fmt: skip
def test_recipes_of_the_mission(engine: Node, source: Any, recipe: str, gradient: float) -> None:
    lab = Lab(engine, *source)
    run = engine("recipes.recipe", lab.computed, recipe)
    found = engine("order.runOrder", lab.computed, run["passes"], run["overwrite"])
    assert next(n for n in found["nodes"] if n["node"] == lab.node("x"))["got"] == gradient


def test_the_lost_path_is_named(engine: Node) -> None:
    lab = Lab(engine, *DIAMOND_WITH_X)
    order = [[lab.node(name) for name in "dbac"]]
    run = engine("order.runOrder", lab.computed, order)
    assert [lab.names[run["firstInversion"][k]] for k in ("early", "late")] == ["a", "c"]
    paths = engine("order.orderPaths", lab.computed, run, lab.node("x"))
    (lost,) = paths["lost"]
    assert [lab.names[i] for i in lost["nodes"]] == ["d", "c", "a", "x"]
    assert lost["amount"] == 9 and english(lost["reason"]) == "a was visited before c"


# -- any graph -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", some_quick(range(30), 6))
def test_recipes_and_random_orders(engine: Node, seed: int) -> None:
    lab = Lab(engine, *random_program(seed, statements=6))
    for name, recipe in RECIPES.items():
        run = run_order(lab.trace, name)
        found = engine("recipes.recipe", lab.computed, name)
        inner = [[lab.place[i] for i in visits if i in lab.place] for visits in run.passes]
        assert found == {"passes": inner, "overwrite": recipe.overwrite}, name
        lab.compare(run.passes, recipe.overwrite)
    draw = random.Random(seed)
    inner_nodes = [node.index for node in lab.trace.nodes if node.op]
    for number in range(6):
        order = draw.sample(inner_nodes, len(inner_nodes))
        if number % 2:  # some left out, some repeated
            order = order[1:] + draw.choices(inner_nodes, k=2)
        lab.compare([order], overwrite=number % 3 == 2)
    lab.compare([draw.sample(inner_nodes, len(inner_nodes)) for _ in range(2)], overwrite=False)


def test_many_paths_are_not_gone_through_one_by_one(engine: Node) -> None:
    source = "; ".join(["v0 = x + x"] + [f"v{i} = v{i - 1} + v{i - 1}" for i in range(1, 60)])
    lab = Lab(engine, source, {"x": 1.0})
    problem = engine("recipes.recipe", lab.computed, "plain recursion")["problem"]
    assert problem["key"] == "order.tooMany"
    order = list(reversed([node.index for node in lab.trace.nodes if node.op]))
    order[-1], order[-2] = order[-2], order[-1]
    lab.compare([order], overwrite=False)
    run = engine("order.runOrder", lab.computed, [[lab.place[i] for i in order]])
    assert engine("order.orderPaths", lab.computed, run, lab.node("x"))["lostCount"] == 2**60


# -- by hand ---------------------------------------------------------------------------------------


def verdict(lab: Lab, asked: dict[str, Any], answer: float) -> str:
    found = lab.engine("byhand.check", lab.computed, asked, answer)
    assert found["right"] == (found["message"]["key"] == "byhand.right")
    return str(found["message"]["key"]).removeprefix("byhand.")


def edge_of(lab: Lab, node: str, argument: int) -> dict[str, Any]:
    made = lab.graph["nodes"][lab.node(node)]
    source = made["args"][argument]["node"]
    return {"node": lab.node(node), "argument": argument, "source": source}


@pytest.mark.parametrize(
    ("source", "asked", "answer", "named"),
    [
        (("f = a·a", {"a": 3.0}), "a", 6, "right"),
        (("f = a·a", {"a": 3.0}), "a", 3, "overwrote"),
        (("f = a·a", {"a": 3.0}), "a", -6, "sign"),
        (("b = a + a", {"a": 7.0}), "a", 1, "overwrote"),
        (DIAMOND, "a", 15, "right"),
        (DIAMOND, "a", 6, "overwrote"),
        (DIAMOND, "a", 9, "pathMissing"),
        (DIAMOND, "a", -15, "sign"),
        (DIAMOND, "a", 2, "valueNotGrad"),
        (DIAMOND, "a", 3, "localNotTotal"),
        (DIAMOND, "b", 3, "otherInput"),
        (DIAMOND, "d", 18, "valueNotGrad"),
        (DIAMOND, "d", 0, "seed"),
        (PRODUCTS, "a", -3, "localNotTotal"),
        (PRODUCTS, "a", -2, "upstreamOnly"),
        (PRODUCTS, "a", -4, "otherInput"),
        (PRODUCTS, "a", 77, "wrong"),
    ],
)  # fmt: skip
def test_a_wrong_gradient_is_named(
    engine: Node, source: Any, asked: str, answer: float, named: str
) -> None:
    lab = Lab(engine, *source)
    assert verdict(lab, {"kind": "grad", "node": lab.node(asked)}, answer) == named


def test_a_wrong_local_derivative_is_named(engine: Node) -> None:
    lab = Lab(engine, *PRODUCTS)
    asked = {"kind": "local", "edge": edge_of(lab, "e", 0)}
    names = {-3: "right", 2: "otherInput", 3: "sign", 6: "totalNotLocal", -2: "upstreamOnly"}
    assert {answer: verdict(lab, asked, answer) for answer in names} == names


def test_a_wrong_value_is_named(engine: Node) -> None:
    lab = Lab(engine, "e = a - b; L = e·c", {"a": 2, "b": -3, "c": 10})
    asked = {"kind": "value", "node": lab.node("e")}
    names = {
        5: "right",
        -5: "swapped",
        -1: "otherOp",
        -6: "otherOp",
        2: "inputOnly",
        10: "gradNotValue",
    }
    assert {answer: verdict(lab, asked, answer) for answer in names} == names


def test_what_the_page_shows_is_a_right_answer(engine: Node) -> None:
    lab = Lab(engine, "o = tanh(n)·0.02; p = o·0.02", {"n": 0.8813735870195432})
    for name, answers in {"o": (0.0141, 0.01414, 0.014142), "p": (0.0002828, 0.000283)}.items():
        for answer in answers:
            assert verdict(lab, {"kind": "value", "node": lab.node(name)}, answer) == "right"
    assert verdict(lab, {"kind": "value", "node": lab.node("o")}, 0.014) != "right"
    assert verdict(lab, {"kind": "value", "node": lab.node("p")}, 0.0003) != "right"
