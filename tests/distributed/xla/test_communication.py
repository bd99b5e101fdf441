"""What a program communicates, read from its text; and the model of a step on more devices."""

from __future__ import annotations

from typing import Any

import pytest

import gradwalk as gw
from gradwalk.compiler.backends.xla.collectives import Collective, collectives

TEXT = """
HloModule jit_run, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

%add (x: f32[], y: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%x, %y)
}

%body.1 (arg: (s32[], f32[4])) -> (s32[], f32[4]) {
  %permuted = (f32[4]{0}, f32[4]{0}, u32[], u32[]) collective-permute-start(%part), source_target_pairs={{0,1},{1,0}}
  %gathered = bf16[4,6]{1,0} all-gather(%part), replica_groups=[4,2]<=[8], dimensions={0}
}

ENTRY %main.9 (p: f32[8]) -> f32[8] {
  %loop = (s32[], f32[4]) while(%init), condition=%cond.1, body=%body.1, backend_config={"known_trip_count":{"n":"5"}}
  %reduced = (f32[3]{0}, /*index=1*/f32[]) all-reduce(%a, %b), replica_groups=mesh['axis_0'=4,'axis_1'=2] {'axis_0'}, to_apply=%add
  %scattered = f32[2]{0} reduce-scatter(%c), replica_groups={{0,2,4,6},{1,3,5,7}}, to_apply=%add
  %started = (f32[1]{0}, f32[8]{0}) all-gather-start(%d), replica_groups=[1,8]<=[8], dimensions={0}
  %finished = f32[8]{0} all-gather-done(%started)
  %swapped = f32[8]{0} all-to-all(%e), replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}
  ROOT %alone = f32[8]{0} all-reduce(%f), replica_groups=[8,1]<=[8], to_apply=%add
}
"""  # noqa: E501


def test_collectives_of_a_text() -> None:
    found = collectives(TEXT, {"data": 4, "model": 2})
    assert found == [
        Collective("collective-permute", 16, ("data", "model"), 2, 5),
        Collective("all-gather", 48, ("model",), 2, 5),
        Collective("all-reduce", 16, ("data",), 4),
        Collective("reduce-scatter", 32, ("data",), 4),
        Collective("all-gather", 32, ("data", "model"), 8),
        Collective("all-to-all", 32, ("data",), 4),
    ]
    assert [one.sent for one in found] == [80, 5 * 24, 24, 24, 28, 24]


def stepped(mesh: Any, patterns: Any) -> Any:
    gw.manual_seed(0)
    model = gw.nn.Sequential(gw.nn.Linear(64, 128), gw.nn.ReLU(), gw.nn.Linear(128, 64))
    gw.distribute(model, mesh, patterns)
    optimizer = gw.optim.Adam(model.parameters())

    @gw.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step(gw.distribute(gw.ones(32, 64), mesh, ("data",)))
    return step, 4 * sum(p.numel() for p in model.parameters())


def test_what_each_strategy_moves() -> None:
    """Data parallelism sums each gradient; fully-sharded parallelism also gathers the weights."""
    step, size = stepped(gw.Mesh(data=8), {})
    costs = step.explain().programs[0].costs
    assert {(one.kind, one.axes) for one in costs.collectives} == {("all-reduce", ("data",))}
    assert size <= sum(one.bytes for one in costs.collectives) <= size + 64
    assert costs.operations > 0 and costs.memory["donated"] >= 3 * size
    whole = costs.memory["arguments"]

    step, size = stepped(gw.Mesh(data=8), {"*": ("data",)})
    explanation = step.explain()
    costs = explanation.programs[0].costs
    gathered = sum(one.bytes for one in costs.collectives if one.kind == "all-gather")
    assert size - 1024 <= gathered <= 2 * size
    assert costs.memory["arguments"] < whole / 4
    text = str(explanation)
    assert "float32 (128/data, 64)  updated" in text and "all-gather along data (8 devices)" in text

    mesh = gw.Mesh(data=4, model=2)
    step, size = stepped(mesh, {"0.*": ("model",), "2.weight": (None, "model")})
    explanation = step.explain()
    assert "x  float32 (32/data, 64)" in str(explanation)
    assert "run by xla on xla[data=4, model=2]" in str(explanation)
    assert '"data"=4, "model"=2' in step.source(form="stablehlo")
    assert "all-reduce" in step.source(form="hlo")
    assert step.graph_of(gw.distribute(gw.ones(32, 64), mesh, ("data",))).nodes
    found = explanation.programs[0].costs.collectives
    gradients = sum(one.bytes for one in found if one.axes == ("data",))
    assert size / 2 <= gradients <= size / 2 + 256  # a half of most
    activations = sum(one.bytes for one in found if one.axes == ("model",))
    assert activations == 32 // 4 * 64 * 4  # the output of the second layer


def test_the_model_of_more_devices() -> None:
    step, _ = stepped(gw.Mesh(data=4, model=2), {"0.*": ("model",), "2.weight": (None, "model")})
    cluster = gw.distributed.Cluster(host=8, inside=1e9, between=1e8)
    report = gw.distributed.scale(step, (4, 8, 16, 1024), cluster=cluster, operations=400e9)
    assert [one.devices for one in report.estimates] == [4, 8, 16, 1024]
    assert all(one.compute == pytest.approx(1e-3) for one in report.estimates)
    taken = [one.communicate for one in report.estimates]
    assert taken == sorted(taken) and taken[2] > 5 * taken[1]  # 16 are in two hosts
    sent = [one.sent for one in report.estimates]
    assert sent[1] < sent[3] < 2 * sent[1]
    waits, hidden = report.estimates[-1].efficiency
    assert waits < hidden <= 1 and "1,024" in str(report)
    with pytest.raises(ValueError, match=r"has no axis 'rows'(.|\n)*Fix"):
        gw.distributed.scale(step, axis="rows")
    with pytest.raises(ValueError, match="12 devices are no multiple"):
        gw.distributed.scale(step, (12,))
