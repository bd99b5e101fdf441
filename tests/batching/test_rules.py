"""Every op has a batching rule, a definition in other ops, or a refusal that names it."""

from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.batching.rules import RULES, rule_of
from gradwalk.ops import BESIDE, TABLE
from gradwalk.ops.core.op import Op


def test_every_op_of_the_table_has_a_rule() -> None:
    assert [op.name for op in TABLE.values() if rule_of(op) is None] == []


def test_no_rule_is_for_an_op_outside_the_table() -> None:
    beside = [thing for module in BESIDE for thing in vars(module).values()]
    parts = [op.name for op in RULES if TABLE.get(op.name) is not op and op not in beside]
    assert [name for name in parts if not name.endswith(("_forward", "_backward"))] == []


def test_an_op_without_a_rule_is_expanded() -> None:
    twice = gw.define(
        "twice_by_hand", lambda x: 2 * np.asarray(x), vjp=[lambda g: 2 * g], shape=lambda x: x,
        expand=lambda x: x + x,
    )  # fmt: skip
    x = gw.randn(3, 2)
    assert gw.vmap(twice)(x).tolist() == (2 * x).tolist()


def test_an_op_without_either_is_refused_by_name() -> None:
    total = gw.define(
        "total_by_hand", np.sum, inputs="x", vjp=[lambda g, x_shape: gw.broadcast_to(g, x_shape)]
    )
    with pytest.raises(gw.VmapError, match=r"total_by_hand(?s:.)*Fix: .*expand="):
        gw.vmap(lambda x: total(x))(gw.ones(3, 2))


def test_the_number_of_ops_does_not_grow_with_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    plain = Op.__call__

    def noted(op: Op, *args: Any, **attrs: Any) -> Any:
        called.append(op.name)
        return plain(op, *args, **attrs)

    monkeypatch.setattr(Op, "__call__", noted)
    model = gw.nn.Sequential(
        gw.nn.Conv2d(1, 2, 3), gw.nn.ReLU(), gw.nn.MaxPool2d(2), gw.nn.Flatten(), gw.nn.Linear(8, 3)
    )

    def loss(x: Any, target: Any) -> Any:
        return gw.cross_entropy(model(x.unsqueeze(0)), target.unsqueeze(0))

    counts = []
    for samples in (2, 30):
        called.clear()
        gw.vmap(gw.grad(loss))(gw.randn(samples, 1, 6, 6), gw.zeros(samples).long())
        counts.append(len(called))
    assert counts[0] == counts[1] > 0
