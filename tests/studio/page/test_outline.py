"""Traces as boxes in boxes, in Node: nothing is lost or overlaps, equal ones are drawn once."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

import gradwalk as gw
from gradwalk.inspect.trace.file import describe
from tests.quick import some_quick
from tests.studio.node import Node, bundle
from tests.studio.recordings import made_inside, transformer
from tests.studio.serving import sick_trace

Description = dict[str, Any]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    started = Node(bundle("traces.ts", tmp_path_factory.mktemp("traces")))
    yield started
    started.close()


@pytest.fixture(scope="module")
def described() -> Description:
    return describe(transformer(4))[0]


def plain(nodes: int, groups: list[dict[str, Any]], seed: int) -> Description:
    """A graph of no meaning, with its nodes in any groups."""
    draw = random.Random(seed)
    found = []
    for i in range(nodes):
        leaf = i == 0 or draw.random() < 0.2
        inputs = [] if leaf else [[draw.randrange(max(0, i - 9), i), 0] for _ in range(2)]
        entry: dict[str, Any] = {"op": "" if leaf else "add", "args": inputs, "values": [None]}
        entry["metas"] = [[[2], "float64"]]
        if groups and draw.random() < 0.8:
            entry["group"] = draw.randrange(len(groups))
        found.append(entry)
    parts = {"scalar": False, "names": {}, "reduced": {}, "exits": [], "sweeps": []}
    return {"version": 2, "nodes": found, "groups": groups, **parts}


def groups(count: int, seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "path": f"g{i}", "kind": "module", "call": 1, "class": "Any",
            "above": draw.choice([None, *range(i)]),
        }
        for i in range(count)
    ]  # fmt: skip


def edges_of(described: Description) -> list[tuple[int, int, int]]:
    return [
        (arg[0], index, argument)
        for index, entry in enumerate(described["nodes"])
        for argument, arg in enumerate(entry["args"])
        if isinstance(arg, list)
    ]


def check_outline(outline: Any, described: Description) -> None:
    scopes, home = outline["scopes"], outline["home"]
    placed: dict[int, set[int]] = {}
    for scope, content in enumerate(scopes):
        for item in content["items"]:
            if "node" in item:
                placed.setdefault(item["node"], set()).add(scope)
            else:
                assert scopes[item["scope"]]["above"] == scope
    assert placed == {index: {home[index]} for index in range(len(home))}
    # Every edge meets its input in exactly one scope, whatever ports it came through.
    met = []
    for content in scopes:
        first, items = len(content["portsIn"]), content["items"]
        for wire in content["wires"]:
            inside = [first <= end < first + len(items) for end in (wire["from"], wire["to"])]
            assert any(inside)
            if all(inside):
                met += [(wire["source"], e["node"], e["argument"]) for e in wire["edges"]]
    assert sorted(met) == sorted(edges_of(described))


def check_layout(layout: Any) -> None:
    for scope in layout["scopes"]:
        spots = scope["spots"]
        for spot in spots:
            assert spot["x"] >= 0 and spot["x"] + spot["width"] <= scope["width"] + 1e-6
            assert spot["y"] >= 0 and spot["y"] + spot["height"] <= scope["height"] + 1e-6
        for one, other in itertools.combinations(spots, 2):
            apart = (
                one["x"] + one["width"] <= other["x"] + 1e-6
                or other["x"] + other["width"] <= one["x"] + 1e-6
                or one["y"] + one["height"] <= other["y"] + 1e-6
                or other["y"] + other["height"] <= one["y"] + 1e-6
            )
            assert apart, (scope["scope"], one, other)
    assert all(layout["nodes"]), "a node stands nowhere"


@pytest.mark.slow
def test_a_transformer(node: Node, described: Description) -> None:
    outline = node("outline", described)
    check_outline(outline, described)
    names = {g["path"]: i for i, g in enumerate(described["groups"])}
    block = names["blocks.2"]
    scope = next(s for s in outline["scopes"] if s["group"] == block)
    inside = {
        i for i, n in enumerate(described["nodes"]) if n["op"] and n.get("group") == block
    }  # fmt: skip
    shown = {item["node"] for item in scope["items"] if "node" in item}
    assert {i for i in shown if described["nodes"][i]["op"]} == inside


def test_a_leaf_stands_in_the_module_that_uses_it(node: Node, described: Description) -> None:
    home, scopes = (node("outline", described)[name] for name in ("home", "scopes"))
    names = {name: int(index) for index, name in described["names"].items()}
    group = scopes[home[names["blocks.1.up.weight"]]]["group"]
    assert described["groups"][group]["path"] == "blocks.1.up"
    # The tokens go into the model and into the loss: they stand outside.
    assert home[1] == 0 and not described["nodes"][1]["op"]


@pytest.mark.slow
def test_what_the_loss_does_not_hang_on_stands_aside(node: Node) -> None:
    """The initialisation of weights, which a program records with its first step."""
    trace = made_inside()
    described = describe(trace)[0]
    outline = node("outline", described)
    check_outline(outline, described)
    check_layout(node("layout", described))
    used = {edge.node for edge in trace.sweep.seeds}
    for entry in reversed(trace.nodes):  # all of it leads to the loss, or to nothing
        if entry.index in used:
            used |= {edge.node for _, edge in entry.edges}
    aside = outline["aside"]
    inside = {i for i, scope in enumerate(outline["home"]) if scope == aside}
    assert inside == set(range(len(trace))) - used
    assert {trace.nodes[i].op for i in inside} == {"", "setitem"}
    assert outline["scopes"][aside]["operations"] == 4
    assert node("outline", describe(transformer(1))[0])["aside"] == -1


def test_parameters_are_counted_once(node: Node) -> None:
    """Their states are nodes too, and layers apart from each other may call theirs the same."""
    assert node("parameters", describe(made_inside())[0]) == 4
    assert node("parameters", describe(sick_trace())[0]) == 14


@pytest.mark.slow
def test_equal_blocks_are_laid_out_once(node: Node) -> None:
    few, many = (node("layout", describe(transformer(n))[0]) for n in (3, 12))
    check_layout(many)
    assert many["plans"] == few["plans"]
    assert many["width"] > 3 * few["width"]


@pytest.mark.parametrize("seed", some_quick(range(12), every=4))
def test_any_groups_at_all(node: Node, seed: int) -> None:
    """Also those that no recording makes: calls that overlap, groups with nothing in them."""
    described = plain(60, groups(seed, seed), seed)
    assert node("fault", described) is None
    check_outline(node("outline", described), described)
    check_layout(node("layout", described))


@pytest.mark.slow
def test_a_large_graph_without_modules_is_put_into_parts(node: Node) -> None:
    described = plain(5000, [], 1)
    outline = node("outline", described)
    check_outline(outline, described)
    assert len(outline["scopes"]) > 20
    operations = [
        sum("scope" in i or described["nodes"][i["node"]]["op"] != "" for i in s["items"])
        for s in outline["scopes"]
    ]
    assert max(operations) <= 240


@pytest.mark.slow
def test_few_items_are_shown_however_much_is_open(node: Node) -> None:
    layout = node("layout", describe(transformer(24))[0])
    assert layout["shown"] <= 300


def test_modules_nested_very_deeply(node: Node) -> None:
    nested = groups(3000, 0)
    for i, group in enumerate(nested):
        group["above"] = i - 1 if i else None
    described = plain(200, nested, 0)
    check_outline(node("outline", described), described)


def test_search_finds_what_python_finds(node: Node, described: Description) -> None:
    trace = transformer(4)
    found = node("find", described, "softmax")
    wanted = {trace.name(n.index) for n in trace.nodes if n.op == "softmax"}
    assert {entry["name"] for entry in found["found"]} >= wanted
    by_line = node("find", described, "recordings.py:" + str(trace["blocks.0.q.weight"].line.line))
    assert "blocks.0.q.weight" in {entry["name"] for entry in by_line["found"]}
    modules = node("find", described, "layernorm")["found"]
    assert next(e for e in modules if "scope" in e["item"])["name"] == "blocks.0.norm1"


CHANGES = {
    "an input that comes later": lambda d: d["nodes"][2]["args"].__setitem__(0, [900, 0]),
    "an output that is not there": lambda d: d["nodes"][2]["args"].__setitem__(0, [0, 7]),
    "a negative index": lambda d: d["nodes"][2]["args"].__setitem__(0, [-1, 0]),
    "a broken index": lambda d: d["nodes"][2]["args"].__setitem__(0, [0.5, 0]),
    "a group that is not there": lambda d: d["nodes"][2].__setitem__("group", 10**6),
    "a group in itself": lambda d: d["groups"][3].__setitem__("above", 3),
    "a negative shape": lambda d: d["nodes"][0].__setitem__("metas", [[[-1], "float32"]]),
    "a shape beyond counting": lambda d: d["nodes"][0].__setitem__("metas", [[[2**52] * 3, "u"]]),
    "no outputs": lambda d: d["nodes"][0].__setitem__("metas", []),
    "a value of another shape": lambda d: d["nodes"][0].__setitem__(
        "values", [{"small": [1.0], "shape": [1], "dtype": "float32"}]
    ),
    "a value that is a text": lambda d: d["nodes"][0].__setitem__("values", ["<b>"]),
    "fewer elements than the shape says": lambda d: d["nodes"][0].update(
        metas=[[[3], "float32"]], values=[{"small": [1.0], "shape": [3], "dtype": "float32"}]
    ),
    "a number that is none": lambda d: d["nodes"][0].update(
        metas=[[[], "float32"]], values=[{"float": "constructor"}]
    ),
    "a visit of no node": lambda d: d["sweeps"][0]["visits"].append(10**9),
    "a visit twice": lambda d: d["sweeps"][0]["visits"].append(d["sweeps"][0]["visits"][0]),
    "a gradient of another shape": lambda d: d["sweeps"][0]["grads"][0].__setitem__(
        1, [{"small": [1.0, 2.0], "shape": [2], "dtype": "float32"}]
    ),
    "no start": lambda d: d["sweeps"][0].__setitem__("seeds", []),
    "a name of no node": lambda d: d["names"].__setitem__("99999999", "x"),
    "nodes that are no list": lambda d: d.__setitem__("nodes", {"length": 3}),
    "no nodes": lambda d: d.update(nodes=[], names={}, sweeps=[]),
    "a newer version": lambda d: d.__setitem__("version", 3),
}


@pytest.mark.parametrize("change", some_quick(CHANGES, every=5))
def test_what_does_not_hold_together_is_told(
    node: Node, described: Description, change: str
) -> None:
    hostile = copy.deepcopy(described)
    CHANGES[change](hostile)
    told = node("fault", hostile)
    assert told is not None
    assert told["key"].startswith("trace.fault.")


def test_numbers_that_are_not_finite_are_read(node: Node) -> None:
    with gw.record() as trace:
        x = gw.tensor([1.0, float("nan"), float("inf")], requires_grad=True)
        x.sum().backward()
    assert node("fault", describe(trace)[0]) is None
