"""The order lab: the textbook's numbers, and every sum against paths gone through one by one."""

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import gradwalk as gw
from gradwalk import Value
from gradwalk.graph.order import inputs_first
from gradwalk.inspect.order.lab import RECIPES, every_order, run_order, run_recipes
from gradwalk.inspect.order.single_paths import BEAM
from gradwalk.inspect.trace.file import load_trace, save_trace
from gradwalk.inspect.trace.recorder import record
from gradwalk.inspect.trace.replay import NotReplayable
from gradwalk.inspect.trace.trace import Edge, Trace
from gradwalk.printers.scalars import slope


def named(**values: Value) -> dict[str, Value]:
    for name, value in values.items():
        value.label = name
    return values


def diamond() -> dict[str, Value]:
    a = Value(2.0)
    b, c = a + 1, 3 * a
    return named(a=a, b=b, c=c, d=b * c)


def diamond_with_x() -> dict[str, Value]:
    x = Value(2.0)
    a = x * 1
    b, c = a + 1, 3 * a
    return named(x=x, a=a, b=b, c=c, d=b * c)


def breadth_trap() -> dict[str, Value]:
    x = Value(1.0)
    a = 2 * x
    b = 3 * a
    c = b + 1
    return named(x=x, a=a, b=b, c=c, d=a * c)


# -- the visit orders of the textbook examples -----------------------------------------------------


def test_the_plain_diamond_in_all_24_orders() -> None:
    v = diamond()
    found = every_order(v["a"], v["d"], ["d", "b", "c", "a"])
    assert found.counts == {15: 8, 9: 4, 6: 4, 0: 8}
    assert found.correct == 15
    for order in itertools.permutations("dbca"):
        node = run_order(v["d"], list(order))["a"]
        early = [n for n in "bc" if order.index(n) < order.index("d")]
        assert node.wrong == bool(early)  # loss happens exactly when b or c comes before d
        assert node.got == node.correct - node.lost.total
        assert {path.pair for path in node.lost} == {(n, "d") for n in early}


def test_the_diamond_with_x_in_all_24_orders() -> None:
    v = diamond_with_x()
    found = every_order(v["x"], v["d"], ["d", "b", "c", "a"])
    assert found.counts == {15: 2, 9: 2, 6: 2, 0: 18}
    assert every_order("x", v["d"]).counts == found.counts  # the same nodes if none are named
    assert "visited from the root down" in str(found)
    for order in itertools.permutations("dbca"):
        # A path contributes if and only if its non-leaf nodes are visited from the root down.
        lost = {
            route: amount
            for route, amount in {("d", "b", "a", "x"): 6.0, ("d", "c", "a", "x"): 9.0}.items()
            if [order.index(n) for n in route[:-1]] != sorted(order.index(n) for n in route[:-1])
        }
        node = run_order(v["d"], list(order))["x"]
        assert {tuple(path.names): path.amount for path in node.lost} == lost
        assert node.got == 15 - sum(lost.values())
        for path in node.lost:
            early, late = path.pair or ("", "")
            assert order.index(early) < order.index(late)
            assert path.names.index(late) + 1 == path.names.index(early)
            assert path.reason == f"{early} was visited before {late}"


@pytest.mark.parametrize(
    "recipe, got, lost, extra, correct",
    [
        ("right", 15, 0, 0, 15),
        ("plain recursion", 21, 0, 6, 15),
        ("depth-first", 6, 9, 0, 15),
        ("overwrite", 9, 6, 0, 15),
        ("twice", 60, 0, 30, 30),
        ("breadth-first", 15, 0, 0, 15),
    ],
)
def test_recipes_on_the_diamond_with_x(
    recipe: str, got: float, lost: float, extra: float, correct: float
) -> None:
    v = diamond_with_x()
    node = run_order(v["d"], recipe)[v["x"]]
    assert (node.got, node.lost.total, node.extra.total, node.correct) == (
        got,
        lost,
        extra,
        correct,
    )
    assert node.got == node.correct - node.lost.total + node.extra.total


def test_what_exposes_breadth_first() -> None:
    v = breadth_trap()
    found = run_recipes("x", v["d"])
    assert found["right"].got == found["breadth-first"].correct == 26
    assert found["breadth-first"].got == 14
    assert found["plain recursion"].got == 40
    assert v["x"].grad == 0  # nothing is touched


def test_overwriting_in_the_order_of_mission() -> None:
    v = diamond_with_x()
    node = run_order(v["d"], "d b c a", overwrite=True)["x"]
    (path,) = node.lost
    assert (node.got, path.amount, path.names) == (9, 6, ["d", "b", "a", "x"])
    assert path.reason == "overwritten in a by c"
    assert node.first_inversion is None


@pytest.mark.parametrize("build, right, wrong", [(lambda a: a * a, 6, 3), (lambda a: a + a, 2, 1)])
def test_a_value_used_twice_has_two_edges(build: Any, right: float, wrong: float) -> None:
    a = Value(3.0, label="a")
    out = build(a)
    assert run_order(out, [out])[a].got == right
    node = run_order(out, [out], overwrite=True)[a]
    assert (node.got, node.correct, node.paths, node.lost.count) == (wrong, right, 2, 1)


# -- what an answer looks like ---------------------------------------------------------------------


def test_the_first_pair_out_of_order() -> None:
    v = diamond_with_x()
    run = run_order(v["d"], [v["a"], v["d"], v["b"], v["c"]])
    first = run.first_inversion
    assert first is not None
    assert (first.early, first.late, first.early_visit, first.late_visit) == ("a", "b", 1, 3)
    assert str(first) == "a before b"
    assert run["x"].first_inversion == first
    assert run["a"].first_inversion is None  # its own visit spoils what is behind it
    assert run["a"].got == 15
    assert run_order(v["d"]).first_inversion is None


def test_skipping_and_repeating() -> None:
    v = diamond_with_x()
    skipped = run_order(v["d"], "d c a")["x"]
    assert (skipped.got, skipped.lost.total) == (9, 6)
    assert [path.reason for path in skipped.lost] == ["b was not visited"]
    repeated = run_order(v["d"], "d b b c a")["x"]
    assert (repeated.got, repeated.extra.total) == (21, 6)
    assert [(path.names[1], path.times) for path in repeated.extra] == [("b", 1)]
    nothing = run_order(v["d"], [])
    assert (nothing["d"].got, nothing["x"].got, nothing["x"].lost.total) == (1, 0, 15)
    assert {path.reason for path in nothing["x"].lost} == {"d was not visited"}


def test_printed() -> None:
    v = diamond_with_x()
    assert str(run_order(v["d"], "d b a c")) == (
        "visited d, b, a, c: 1 of 5 gradients is wrong\n"
        "node  got  correct  lost  extra  first pair out of order\n"
        "x       6       15     9      —  a before c\n"
        "a      15       15     —      —\n"
        "b       6        6     —      —\n"
        "c       3        3     —      —\n"
        "d       1        1     —      —\n"
        "lost on the way to x, 1 of 2 paths:\n"
        "  9  d → c → a → x: a was visited before c"
    )
    assert str(run_order(v["d"], "twice")["x"]) == (
        "x: got 60 = correct 30 − lost 0 + extra 30\n"
        "extra on the way to x, 4 paths too many:\n"
        "  18  d → c → a → x (2 times)\n"
        "  12  d → b → a → x (2 times)"
    )
    assert "every gradient is right" in str(run_order(v["d"]))
    assert "d → c → a → x" in run_order(v["d"], "d b a c")._repr_html_()


def test_as_plain_data() -> None:
    v = diamond_with_x()
    data = run_order(v["d"], "d b a c").to_dict()
    assert data["order"] == [["d", "b", "a", "c"]]
    assert data["first_inversion"]["early"] == "a"
    x = next(node for node in data["nodes"] if node["name"] == "x")
    assert (x["got"], x["correct"], x["lost"]["total"], x["lost"]["count"]) == (6, 15, 9, 1)
    assert x["lost"]["paths"][0]["names"] == ["d", "c", "a", "x"]
    table = run_recipes("x", v["d"]).to_dict()
    assert table["runs"]["twice"]["extra"]["total"] == 30
    assert every_order("x", v["d"]).to_dict()["correct"] == 15


def test_nodes_are_named_in_any_way() -> None:
    v = diamond_with_x()
    trace = record(v["d"])
    indices = [trace.find(v[name]) for name in "dbac"]
    for order in (
        [v[name] for name in "dbac"],
        list("dbac"),
        "d, b, a, c",
        indices,
        np.array(indices).tolist(),
        list(np.array(indices)),
        [trace.nodes[i] for i in indices],
        [Edge(i) for i in indices],
        tuple("dbac"),
    ):
        assert run_order(trace, order)["x"].got == 6
    assert run_order(None, "d b a c")["x"].got == 6  # what was recorded last
    assert run_order(trace, RECIPES["depth-first"])["x"].got == 6
    assert run_order(trace, "Depth_First")["x"].got == 6


def test_an_order_that_cannot_be_read() -> None:
    v = diamond_with_x()
    with pytest.raises(ValueError, match=r"visit 2 of the order: no node is called 'q'; names are"):
        run_order(v["d"], ["d", "q"])
    with pytest.raises(ValueError, match=r"visit 1 of the order: there is no node 99"):
        run_order(v["d"], [99])
    with pytest.raises(ValueError, match="visit 1 of the order: this Value is not in the trace"):
        run_order(v["d"], [Value(1.0)])
    with pytest.raises(TypeError, match=r"a list of nodes.*plain recursion.*not Value"):
        run_order(v["d"], v["d"])
    v["c"].label = "b"
    with pytest.raises(ValueError, match="2 nodes are called 'b'"):
        run_order(v["d"], ["d", "b"])
    with pytest.raises(KeyError, match="no node is called 'y'"):
        run_order(v["d"])["y"]
    with pytest.raises(ValueError, match="9 nodes have 362880 orders"):
        every_order("x", diamond_with_x()["d"], list("dbcadbcad"))


def test_a_node_no_gradient_goes_to() -> None:
    x = gw.tensor([1.0], requires_grad=True)
    with record() as trace:
        aside = (x * 3).detach()
        loss = (x * aside).sum()
        loss.backward()
    with pytest.raises(KeyError, match="no gradient can reach it"):
        run_order(trace)[aside]


# -- every graph and every order -------------------------------------------------------------------

OPS = {
    "add": lambda p, q: p + q,
    "sub": lambda p, q: p - q,
    "mul": lambda p, q: p * q,
    "maximum": lambda p, q: gw.maximum(p, q),
    "tanh": lambda p, q: p.tanh(),
    "neg": lambda p, q: -p,
    "relu": lambda p, q: p.relu(),
}


class Case(NamedTuple):
    root: Value
    nodes: list[Value]  # inputs first
    passes: list[list[Value]]
    overwrite: bool


@st.composite
def cases(draw: Any, calls: int = 1) -> Case:
    numbers = st.floats(-2, 2).map(lambda x: round(x, 3))
    pool = [Value(draw(numbers)) for _ in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(1, 6))):
        op = draw(st.sampled_from(sorted(OPS)))
        recent = st.integers(max(0, len(pool) - 4), len(pool) - 1)
        pool.append(OPS[op](pool[draw(recent)], pool[draw(recent)]))
    nodes = inputs_first([pool[-1]])
    backwards = list(reversed(nodes))
    visits = st.one_of(
        st.permutations(nodes),
        st.just(backwards),
        st.lists(st.sampled_from(nodes), max_size=8),
        st.lists(st.sampled_from(backwards), max_size=3).map(lambda more: backwards + more),
    )
    passes = [list(draw(visits)) for _ in range(draw(st.integers(1, calls)))]
    return Case(pool[-1], nodes, passes, draw(st.booleans()))


Route = tuple[tuple[int, int], ...]  # (node, argument) from the root down


class OneByOne:
    """The same by going through every path, with a token for every time it runs."""

    def __init__(self, case: Case) -> None:
        self.index = {v: i for i, v in enumerate(case.nodes)}
        self.routes: dict[int, dict[Route, float]] = {i: {} for i in range(len(case.nodes))}
        self._enumerate(case.root, (), 1.0)
        holds: dict[int, list[tuple[Route, tuple[int, ...]]]] = {}
        clock = 0
        self.pass_of: dict[int, int] = {}
        for number, visits in enumerate(case.passes):
            holds[self.index[case.root]] = [((), ())]
            for v in visits:
                clock += 1
                self.pass_of[clock] = number
                tokens = list(holds.get(self.index[v], []))
                for argument, source in enumerate(v.inputs):
                    edge = self.index[v], argument
                    arrived = [((*route, edge), (*when, clock)) for route, when in tokens]
                    to = self.index[source]
                    holds[to] = arrived if case.overwrite else holds.get(to, []) + arrived
        self.calls = len(case.passes)
        self.tokens = holds

    def _enumerate(self, v: Value, route: Route, weight: float) -> None:
        found = self.routes[self.index[v]]
        found[route] = weight
        for argument, source in enumerate(v.inputs):
            operands = [i.data for i in v.inputs]
            local = slope(v.op, argument, operands, v.data, v.attrs)
            self._enumerate(source, (*route, (self.index[v], argument)), weight * local)

    def got(self, node: int) -> float:
        return sum(self.routes[node][route] for route, _ in self.tokens.get(node, []))

    def correct(self, node: int) -> float:
        return self.calls * sum(self.routes[node].values())

    def lost_and_extra(self, node: int) -> tuple[dict[Route, int], dict[Route, int]]:
        """How often each path is lost, and runs besides."""
        tokens = self.tokens.get(node, [])
        often = Counter(route for route, _ in tokens)
        within = {  # (path, pass) where it runs from end to end in one pass
            (route, self.pass_of[when[0]] if when else 0)
            for route, when in tokens
            if len({self.pass_of[t] for t in when}) <= 1
        }
        through = Counter(route for route, _ in within)
        lost = {r: self.calls - through[r] for r in self.routes[node]}
        extra = {r: often[r] - through[r] for r in self.routes[node]}
        return {r: n for r, n in lost.items() if n}, {r: n for r, n in extra.items() if n}


def agree(one: float, other: float, scale: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9 * scale)


def check(case: Case) -> None:
    truth = OneByOne(case)
    trace = record(case.root)
    order = [[trace.find(v) for v in visits] for visits in case.passes]
    run = run_order(trace, order, overwrite=case.overwrite, top=4)
    for i, v in enumerate(case.nodes):
        node, weights = run[v], truth.routes[i]
        scale = truth.calls * sum(map(abs, weights.values())) * max(1, len(truth.tokens.get(i, [])))
        lost, extra = truth.lost_and_extra(i)
        assert agree(node.got, truth.got(i), scale)
        assert agree(node.correct, truth.correct(i), scale)
        assert agree(node.got, node.correct - node.lost.total + node.extra.total, scale)
        assert node.paths == len(weights)
        for part, times in ((node.lost, lost), (node.extra, extra)):
            amounts = {route: n * weights[route] for route, n in times.items()}
            assert agree(part.total, sum(amounts.values()), scale)
            assert part.count == sum(times.values())
            assert bool(part) == bool(times)
            for path in part:
                route = tuple(zip(path.nodes[:-1], path.arguments))
                assert path.times == times[route]
                assert agree(path.amount, amounts[route], scale)
                assert path.reason or part is node.extra
            # The largest by the size of the path; every one of them if there are few.
            sizes = sorted((abs(weights[route]) for route in times), reverse=True)[: len(part)]
            found = sorted((abs(path.amount) / path.times for path in part), reverse=True)
            assert len(part) == min(4, len(times))
            assert all(agree(s, f, scale) for s, f in zip(sizes, found))


@given(cases())
def test_every_sum_is_that_over_the_paths(case: Case) -> None:
    check(case)


@given(cases(calls=3))
def test_so_with_several_calls(case: Case) -> None:
    check(case._replace(overwrite=False))


@given(cases(calls=3))
def test_overwriting_with_several_calls_keeps_the_sum(case: Case) -> None:
    truth = OneByOne(case := case._replace(overwrite=True))
    run = run_order(case.root, [list(visits) for visits in case.passes], overwrite=True)
    for i, v in enumerate(case.nodes):
        node = run[v]
        scale = truth.calls * sum(map(abs, truth.routes[i].values()))
        assert agree(node.got, truth.got(i), scale)
        assert agree(node.got, node.correct - node.lost.total + node.extra.total, scale)
        assert node.lost.count == truth.calls * len(truth.routes[i]) - len(truth.tokens.get(i, []))


@given(cases())
def test_the_first_visit_that_is_too_early(case: Case) -> None:
    run = run_order(case.root, list(case.passes[0]))
    consumers = {v: [c for c in case.nodes if any(i is v for i in c.inputs)] for v in case.nodes}
    too_early = [
        (number, v)
        for number, v in enumerate(case.passes[0], 1)
        if v.inputs and any(c in case.passes[0][number:] for c in consumers[v])
    ]
    name = run._graph.trace.name
    for v in case.nodes:
        behind = {id(w) for w in inputs_first([v])}
        spoils = [
            number
            for number, early in too_early
            if v is not early and any(w is v for w in inputs_first([early]))
        ]
        found = run[v].first_inversion
        if not run[v].lost and not run[v].extra:
            assert found is None
        elif spoils:
            assert found is not None
            assert found.early_visit == min(spoils)
            early, late = (case.passes[0][n - 1] for n in (found.early_visit, found.late_visit))
            assert late in consumers[early]
            assert found.early == name(run._graph.trace.find(early))
            assert found.late_visit > found.early_visit
        else:
            assert found is None
        assert id(v) in behind


@given(cases())
def test_in_the_right_order_nothing_is_lost(case: Case) -> None:
    case.root.backward()
    run = run_order(case.root)
    for v in case.nodes:
        node = run[v]
        assert not (node.wrong or node.lost or node.extra)
        scale = sum(abs(i.grad) for i in case.nodes) + 1
        assert agree(node.got, v.grad, scale)


# -- large -----------------------------------------------------------------------------------------


def test_two_to_the_sixty_paths() -> None:
    v = y = Value(1.0, label="y")
    doubled = []
    for _ in range(60):
        v = v + v
        doubled.append(v)
    node = run_order(v, doubled)[y]  # from the leaf up: all but the last are lost
    assert node.paths == node.lost.count == 2**60
    assert node.got == 0
    assert node.lost.total == 2.0**60
    assert [path.amount for path in node.lost] == [1.0] * 5
    assert len({tuple(path.arguments) for path in node.lost}) == 5  # by different edges
    right = run_order(v)[y]
    assert (right.paths, right.lost.count, right.got) == (2**60, 0, 2.0**60)
    twice = run_order(v, "twice")[y]
    assert twice.lost.count == 0
    assert twice.extra.count == round(twice.extra.total / 2**60) * 2**60
    table = run_recipes(y, v)
    assert "plain recursion" not in table.runs
    assert "here about 1.15e18 visits" in str(table)
    with pytest.raises(ValueError, match="once for every path to it"):
        run_order(v, "plain recursion")


@pytest.mark.slow
def test_a_deep_graph_whose_paths_are_counted_in_thousands_of_digits() -> None:
    v = y = Value(1.0, label="y")
    for _ in range(2_000):
        v = v * 0.5
        v = v + v
    trace = record(v)
    right = run_order(trace, "breadth-first")[y]
    assert (right.got, right.paths, right.lost.count) == (1.0, 2**2_000, 0)
    wrong = run_order(trace, list(range(len(trace))), top=2)[y]
    assert (wrong.got, wrong.lost.count, wrong.lost.total) == (0.0, 2**2_000, 1.0)
    assert "about 1.15e602 of about 1.15e602 paths" in str(wrong)
    half = run_order(trace, [n for n in right.lost._run.passes[0] if n != 3], top=1)[y]
    assert half.lost.count == 2**2_000
    assert [path.reason for path in half.lost] == ["add#3 was not visited"]


def test_a_long_path_is_printed_short() -> None:
    v = Value(1.0, label="y")
    for _ in range(300):
        v = v * 0.99
    text = str(run_order(v, list(range(1, 601))))
    assert "more) →" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "... and 261 more" in text  # of 301 rows, without the constants


# -- tensors ---------------------------------------------------------------------------------------


def layer() -> tuple[Trace, dict[str, Any]]:
    """Two dense layers that share a weight, a skip connection, and a max over rows."""
    gw.manual_seed(3)
    double = gw.float64
    x = gw.randn(4, 3, dtype=double, requires_grad=True)
    w = gw.randn(3, 3, dtype=double, requires_grad=True)
    with record() as trace:
        h = gw.tanh(x @ w)
        z = h @ w + x
        top, where = z.max(1)
        loss = (top * z.sum(1)).sum()
        loss.backward()
    assert where.shape == (4,)
    return trace, dict(x=x, w=w, h=h, z=z, top=top, loss=loss)


def test_tensors_in_the_right_order() -> None:
    trace, t = layer()
    run = run_order(trace)
    for name in ("x", "w", "h", "z", "top"):
        node = run[t[name]]
        assert node.got.shape == t[name].shape
        assert not node.wrong
    np.testing.assert_allclose(run[t["w"]].got, t["w"].grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(run[t["x"]].got, t["x"].grad.numpy(), rtol=1e-12)
    assert run[t["w"]].paths == 2 * 2  # either use of w, from top or from the sum


@given(st.data())
def test_tensors_in_any_order(data: Any) -> None:
    trace, t = layer()
    inner = [n.index for n in trace.nodes if n.op]
    visits = st.one_of(st.permutations(inner), st.lists(st.sampled_from(inner), max_size=12))
    order = data.draw(visits)
    overwrite = data.draw(st.booleans())
    run = run_order(trace, order, overwrite=overwrite)
    for node in run.nodes:
        expected = node.correct - node.lost.total + node.extra.total
        np.testing.assert_allclose(node.got, expected, rtol=1e-9, atol=1e-9)
    for name in ("x", "w"):
        for part in (run[t[name]].lost, run[t[name]].extra):
            assert part.exact
            if part and part.count <= 5:
                total = sum(path.amount for path in part)
                np.testing.assert_allclose(total, part.total, rtol=1e-9, atol=1e-9)
                assert [path.size for path in part] == sorted((p.size for p in part), reverse=True)


def test_tied_weights_lose_one_use() -> None:
    trace, t = layer()
    order = [n for n in run_order(trace).passes[0] if trace.nodes[n].op != "tanh"]
    node = run_order(trace, order)[t["w"]]
    assert node.wrong
    assert {path.reason for path in node.lost} == {
        f"{trace.name(trace.find(t['h']))} was not visited"
    }
    assert "|" in str(node)


def test_a_tensor_graph_nobody_recorded() -> None:
    x = gw.tensor([1.0, 2.0], dtype=gw.float64, requires_grad=True)
    h = x + 1
    y = h * x
    loss = (y + y).sum()
    node = run_order(loss)[x]
    np.testing.assert_allclose(node.got, 2 * (2 * np.array([1.0, 2.0]) + 1))
    once = run_order(loss, overwrite=True)[x]
    assert once.wrong
    assert x.grad is None


def test_more_tensor_paths_than_are_followed_says_so() -> None:
    x = gw.tensor([1.0, 2.0], dtype=gw.float64, requires_grad=True)
    v = x
    for _ in range(8):
        v = v + v
    loss = v.sum()
    run = run_order(loss, overwrite=True)
    assert run[x].lost.count == 2**8 - 1 > BEAM
    assert not run[x].lost.exact
    assert all(path.size == pytest.approx(math.sqrt(2)) for path in run[x].lost)


class Cube(gw.autograd.Function):
    """An op the op table does not have."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


def test_a_custom_function_runs_in_every_order_its_contributions_tell() -> None:
    """Derivatives are linear: what it pushed is known for multiples of what it received."""
    x = gw.tensor([1.0, 2.0], dtype=gw.float64, requires_grad=True)
    with record() as trace:
        cubed = Cube.apply(x)
        (cubed * cubed).sum().backward()
    np.testing.assert_allclose(run_order(trace)[x].got, x.grad.numpy())
    np.testing.assert_allclose(run_order(trace, overwrite=True)[x].got, x.grad.numpy() / 2)
    np.testing.assert_allclose(run_order(trace, [cubed])[x].got, 0 * x.grad.numpy())
    runs = run_recipes(x, trace)
    assert not runs.impossible
    # the product runs twice and hands 2 × as much in its second pass: 1 + 2 of the contributions
    np.testing.assert_allclose(runs["twice"].correct, 2 * x.grad.numpy())


def test_a_custom_function_says_when_an_order_asks_too_much_of_it() -> None:
    x = gw.tensor([1.0, 2.0], dtype=gw.float64, requires_grad=True)
    with record() as trace:
        cubed = Cube.apply(x)
        other = cubed + 1
        (cubed * other).sum().backward()
        cubed.label, other.label = "cubed", "other"
    last, product = (trace.sweep.visits[i] for i in (0, 1))
    run = run_order(trace, [last, product, cubed, other])
    message = r"cubed \(test_order.py:\d+: .*\) is a custom function, Cube.*Fix: "
    with pytest.raises(NotReplayable, match=message):
        run[x]
    runs = run_recipes(x, trace)
    assert runs["right"].got.tolist() == x.grad.tolist()
    assert "depth-first was not run: cubed" in str(runs) and "overwrite" in runs.impossible
    assert all(len(line) < 80 for line in str(runs).splitlines())


def test_statistics_alone_cannot_be_run() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    with record(keep="stats") as trace:
        (x * x).sum().backward()
    with pytest.raises(NotReplayable, match="was not kept"):
        run_order(trace)[x]


@pytest.mark.parametrize("make", [diamond_with_x, layer])
def test_a_trace_from_a_file(make: Any, tmp_path: Path) -> None:
    made = make()
    trace, name = (made[0], 0) if isinstance(made, tuple) else (record(made["d"]), "x")
    save_trace(trace, tmp_path / "a.trace")
    loaded = load_trace(tmp_path / "a.trace")
    for recipe in RECIPES:
        here, there = run_order(trace, recipe), run_order(loaded, recipe)
        np.testing.assert_array_equal(here[name].got, there[name].got)
        assert str(here) == str(there)


@pytest.mark.slow
def test_an_order_of_many_labels_is_read_quickly() -> None:
    v = Value(1.0, label="v0")
    for i in range(1, 5000):
        v = v * 1.0
        v.label = f"v{i}"
    assert run_order(v, [f"v{i}" for i in range(4999, 0, -1)])["v0"].got == 1.0


def test_a_misspelled_recipe_is_told_the_recipes() -> None:
    with pytest.raises(ValueError, match="recipes are: right, plain recursion"):
        run_order(diamond_with_x()["d"], "bredth-first")


def test_calls_of_backward_that_visit_nothing() -> None:
    assert str(run_order(diamond_with_x()["d"], [[], []])).startswith(
        "visited nothing; then nothing: "
    )


def test_gradients_have_the_dtype_the_engine_gives_them() -> None:
    """A contribution is rounded to its operand's dtype, as in a real backward pass."""
    x = gw.tensor([0.1, 0.2], dtype=gw.float64, requires_grad=True)
    with record() as trace:
        (x.float() * gw.tensor([0.3, 0.7], dtype=gw.float64)).sum().backward()
    np.testing.assert_array_equal(run_order(trace)[x].got, x.grad.numpy())
