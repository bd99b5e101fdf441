"""What engines are tried on: the examples everyone knows, random graphs, PyTorch's numbers."""

import json
import math

import pytest

from gradwalk.course.checker.random_graphs import LARGEST, random_graph
from gradwalk.course.checker.trials import CHECKED_VALUES, STAGES, GraphTrial, trials
from gradwalk.inspect.expression.parser import parse
from tests.course.freeze import GRAPHS, by_pytorch
from tests.quick import some_quick

# The scalar rows of the table that all of gradwalk is built to: source -> what must come out.
EXAMPLES: dict[str, tuple[dict[str, float], dict[str, float], dict[str, float]]] = {
    "e = a + b; f = e*c": (
        dict(a=2, b=-3, c=10),
        dict(e=-1, f=-10),
        dict(f=1, e=10, c=-1, a=10, b=10),
    ),
    "e = a*b; d = e + c; L = d*f": (
        dict(a=2, b=-3, c=5, f=-2),
        dict(e=-6, d=-1, L=2),
        dict(f=-1, d=-2, e=-2, c=-2, a=6, b=-4),
    ),
    "n = x1*w1 + x2*w2 + b; o = tanh(n)": (
        dict(x1=2, w1=-3, x2=0, w2=1, b=6.8813735870195432),
        dict(v1=-6, v2=0, v3=-6, n=0.8813735870195432, o=math.sqrt(0.5)),
        dict(v1=0.5, v2=0.5, v3=0.5, n=0.5, w1=1, x1=-1.5, w2=0, x2=0.5, b=0.5),
    ),
    "f = a*a": (dict(a=3), dict(f=9), dict(a=6)),
    "b = a + a": (dict(a=5), dict(b=10), dict(a=2)),
    "b = a + 1; c = 3*a; d = b*c": (dict(a=2), dict(b=3, c=6, d=18), dict(a=15)),
    "y = x^3 + 5*x": (dict(x=2), dict(y=18), dict(x=17)),
    "a = 2*x; b = 3*a; c = b + 1; d = a*c": (dict(x=1), dict(d=14), dict(x=26)),
}


def numbers(trial: GraphTrial) -> dict[tuple[str, str], float]:
    watched = [trial.names[i] for i in trial.watched]
    keys = [(name, what) for name in watched for what in ("value", "gradient")]
    return dict(zip(keys, trial.expected, strict=True))


@pytest.mark.parametrize("source", EXAMPLES)
def test_the_examples_are_tried_and_come_out_so(source: str) -> None:
    at, values, gradients = EXAMPLES[source]
    (trial,) = [t for t in trials(0) if t.source == source and t.stage not in ("values", "again")]
    assert trial.values == at
    found = numbers(trial)
    for name, x in values.items():
        assert found[name, "value"] == pytest.approx(x, abs=1e-12)
    for name, x in gradients.items():
        assert found[name, "gradient"] == pytest.approx(x, abs=1e-12)


def test_the_larger_of_two_and_a_tie() -> None:
    larger, tie = [numbers(t) for t in trials(0) if t.source.startswith("m = ")]
    assert (larger["m", "value"], larger["a", "gradient"], larger["b", "gradient"]) == (2, 1, 0)
    assert (tie["m", "value"], tie["a", "gradient"], tie["b", "gradient"]) == (2, 0.5, 0.5)


def test_backward_twice_doubles() -> None:
    first = next(t for t in trials(0) if t.stage == "again")
    assert numbers(first) == {("x", "value"): 2, ("x", "gradient"): 30}


@pytest.mark.parametrize("seed", some_quick(range(3), 3))
def test_every_stage_has_trials_with_finite_numbers(seed: int) -> None:
    found = trials(seed)
    assert {t.stage for t in found} == {stage.key for stage in STAGES}
    for trial in found:
        assert all(math.isfinite(x) for x in trial.expected), trial.text


def test_random_graphs_are_drawn_by_the_seed() -> None:
    assert random_graph("1") == random_graph("1")
    assert len({random_graph(str(i))[0] for i in range(50)}) == 50
    drawn = [{t.source for t in trials(seed)} for seed in (1, 2)]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_are_harmless(seed: int) -> None:
    """Every node has a use, and no number is near a corner or out of hand."""
    source, values = random_graph(str(seed))
    built = parse(source).build(values)
    assert not built.unused and not built.assumed
    for name in built.program.assigned:
        assert abs(built.names[name].data) <= 4 * LARGEST  # the last sums may be larger
    built.root.backward()
    assert all(math.isfinite(v.grad) for v in built.names.values())


def test_the_frozen_numbers_are_those_of_pytorch() -> None:
    frozen = json.loads(CHECKED_VALUES.read_text(encoding="utf-8"))
    assert len(frozen) == GRAPHS
    for entry in frozen:
        again = by_pytorch(entry["source"], entry["values"])
        for kind in ("data", "grad"):
            assert entry[kind] == pytest.approx(again[kind], rel=1e-12, abs=1e-12)


def test_the_frozen_graphs_are_tried_with_those_numbers() -> None:
    frozen = {e["source"]: e for e in json.loads(CHECKED_VALUES.read_text(encoding="utf-8"))}
    asked = [t for t in trials(0) if t.checked is not None]
    assert {t.source for t in asked} == set(frozen)
    for trial in asked:
        for (name, what), x in numbers(trial).items():
            assert x == frozen[trial.source]["grad" if what == "gradient" else "data"][name]
