"""The frames of a walk: one per step, numbers as they are then, nothing that jumps."""

import re
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.inspect import record
from gradwalk.inspect.expression.parser import parse
from gradwalk.printers.graphs.frames import frames_of
from gradwalk.printers.graphs.svg import Sheet
from gradwalk.printers.graphs.view import view_of

DIAMOND = parse("b = a + 1; c = 3*a; d = b*c").build(a=2).trace()


def test_leaves_then_forward_then_the_seed_then_backward() -> None:
    said = [frame.lines[1] for frame in frames_of(DIAMOND)]
    assert said == [
        "the leaves are given",
        "b = a + 1 = 3",
        "c = 3 × a = 6",
        "d = b × c = 18",
        "backward begins at d: its gradient is 1",
        "d hands on 1 × 6 = 6 to b, 1 × 3 = 3 to c",
        "c hands on 3 × 3 = 9 to a",
        "b hands on 6 × 1 = 6 to a",
    ]


def test_a_gradient_is_marked_until_all_of_it_has_arrived() -> None:
    view = view_of(DIAMOND)
    (a,) = (n.index for n in view.nodes if n.name == "a")
    assert [frame.grads.get(a, "") for frame in frames_of(view)][-3:] == ["", "9 + …", "15"]
    assert [frame.last for frame in frames_of(view)] == [False] * 7 + [True]


MANY_INPUTS = parse("y = max(a_long_name, another_long_name)*2.123456789e-7").build().trace()


@pytest.mark.parametrize("trace", [DIAMOND, MANY_INPUTS])
def test_every_frame_has_the_same_places_and_size(trace: Any) -> None:
    view = view_of(trace)
    sheet = Sheet(view)
    drawn = [sheet.svg(frame) for frame in frames_of(view)]
    for pattern in (r'viewBox="([^"]*)"', r"translate\(([^)]*)\)", r' d="([^"]*)"'):
        found = {tuple(re.findall(pattern, svg)) for svg in drawn}
        assert len(found) == 1, pattern
    assert 'class="later"' in drawn[0]
    width = int(re.search(r'width="(\d+)"', drawn[0])[1])  # type: ignore[index]
    assert width > 7 * max(len(line) for frame in frames_of(view) for line in frame.lines)
    assert "later" not in drawn[-1].partition("</style>")[2]
    assert "lower" not in drawn[-2].partition("</style>")[2]
    assert "↓ lower" in drawn[-1]
    assert sum("focus" in svg.partition("</style>")[2] for svg in drawn) == len(drawn) - 1


def test_tensors_add_up_as_arrays_do() -> None:
    x = gw.tensor([3.0, 4.0], requires_grad=True)
    x.label = "x"
    with record() as trace:
        (x * 2 + x).sum().backward()
    last = frames_of(trace)[-1]
    assert last.grads[0] == f"norm {np.sqrt(18):.4f}"


def test_what_only_statistics_are_known_of_is_not_added() -> None:
    x = gw.tensor([3.0, 4.0], requires_grad=True)
    with record(keep="stats") as trace:
        (x * 2 + x).sum().backward()
    assert frames_of(trace)[-1].grads[0] == "?"


def test_without_a_backward_pass_there_is_no_backward_phase() -> None:
    with record() as trace:
        gw.ones(2, requires_grad=True) * 2
    assert [frame.lines[0] for frame in frames_of(trace)] == [
        "step 0 of 1 · Forward",
        "step 1 of 1 · Forward",
    ]


def test_only_graphs_have_frames() -> None:
    with pytest.raises(TypeError, match=r"a trace or a Value can be drawn, not list"):
        frames_of([1])


def test_long_captions_are_cut() -> None:
    parts = [gw.ones(1, requires_grad=True) for _ in range(30)]
    with record() as trace:
        gw.cat(parts).sum().backward()
    assert max(len(line) for frame in frames_of(trace) for line in frame.lines) <= 120
