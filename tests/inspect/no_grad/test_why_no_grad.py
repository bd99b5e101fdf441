"""why_no_grad: None and 0 told apart, the first cut and its line, what lies before and beyond."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradwalk as gw
from gradwalk import Tensor, Value, nn
from gradwalk.inspect.no_grad.why_no_grad import why_no_grad
from gradwalk.inspect.trace.recorder import record


def pair() -> tuple[Tensor, Tensor]:
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    w.label, v.label = "w", "v"
    return w, v


def recorded(program: Callable[[Tensor, Tensor], Any]) -> Any:
    """The answer for `w` after a recorded program."""
    w, v = pair()
    with record() as trace:
        program(w, v)
    return why_no_grad(w, trace)


# The clinic has a sick program and its twin for most kinds of cut; here is what is left.


def test_the_path_to_the_cut_and_what_lies_beyond() -> None:
    w, v = pair()
    with record() as trace:
        h = (w * 2).tanh()
        loss = (h.detach() * v).exp().sum()
        loss.backward()
    found = why_no_grad(w, trace)
    assert [step.op for step in found.path] == ["", "mul", "tanh", "detach"]
    assert [step.op for step in found.beyond] == ["mul", "exp", "sum"]
    assert found.line is not None and "h.detach()" in found.line.text
    assert found.line.file == __file__
    assert found.node == found.path[-1].node


def test_the_first_of_two_cuts_is_named_and_those_on_other_ways_are_listed() -> None:
    def program(w: Tensor, v: Tensor) -> None:
        first = (w * 2).detach()
        with gw.no_grad():
            second = w + 1
        (first.detach() * v + second).sum().backward()

    found = recorded(program)
    assert (found.kind, [cut.kind for cut in found.others]) == ("no_grad", ["detach"])
    assert len(found.others[0].path) == 3, "the second detach is behind the first"


def test_one_whole_way_is_enough() -> None:
    found = recorded(lambda w, v: (w.detach() * v + w).sum().backward())
    assert found.verdict == "flows" and not found
    assert "norm is 1.414" in found.reason


def test_a_loss_that_needs_no_gradient_at_all() -> None:
    w, v = pair()
    with record():
        loss = (w * v).sum().detach()
        with pytest.raises(gw.AutogradError):
            loss.backward()
    found = why_no_grad(w, loss)
    assert (found.verdict, found.kind) == ("none", "detach")


def test_the_recording_may_be_left_out() -> None:
    w, v = pair()
    with record():
        (w.data * v).sum().backward()
        assert why_no_grad(w).kind == "data"
    assert why_no_grad(w).kind == "data"


def test_by_label_and_by_parameter_name() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    with record() as trace:
        model[1](model[0](gw.ones(1, 2)).detach()).sum().backward()
    w, v = pair()
    with record() as other:
        (w.detach() * v).sum().backward()
    assert why_no_grad("w", other).kind == "detach"
    assert why_no_grad(model[0].weight, trace).kind == "detach"


def test_the_layer_of_the_cut() -> None:
    class Body(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.detach()

    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), Body(), nn.Linear(3, 1))
    with record() as trace:
        model(gw.ones(4, 2)).sum().backward()
    found = why_no_grad(model[0].weight, trace)
    assert (found.name, found.layer, found.op) == ("0.weight", "1", "detach")
    assert "in:      1" in str(found)


def test_detach_in_place() -> None:
    def program(w: Tensor, v: Tensor) -> None:
        h = w * 2
        h.detach_()
        (h * v).sum().backward()

    found = recorded(program)
    assert found.kind == "detach" and "detach_()" in found.line.text


@pytest.mark.parametrize(
    ("how", "leave"),
    [
        ("item()", lambda x: x.sum().item()),
        ("item()", lambda x: float(x.sum())),
        ("tolist()", lambda x: x.tolist()[0]),
        ("numpy()", lambda x: float(x.numpy(force=True)[0])),
        ("tensor([...])", lambda x: gw.tensor([x[0], x[1]])),
    ],
)
def test_leaving_the_graph(how: str, leave: Callable[[Tensor], Any]) -> None:
    found = recorded(lambda w, v: (v * leave(w * 1.5)).sum().backward())
    assert (found.verdict, found.kind) == ("none", "left the graph")
    assert how in found.reason and found.line.file == __file__


def test_where_the_numbers_come_back() -> None:
    def program(w: Tensor, v: Tensor) -> None:
        size = (w * 1.25).sum().item()
        scale = gw.tensor([size, 7.0])
        (v * scale).sum().backward()

    found = recorded(program)
    assert len(found.suspects) == 1
    assert "a new leaf" in found.suspects[0] and "scale = gw.tensor" in found.suspects[0]
    assert [step.op for step in found.beyond] == ["", "mul", "sum"]


def test_printing_a_number_is_no_cut() -> None:
    def program(w: Tensor, v: Tensor) -> None:
        loss = (w * v).sum()
        f"{loss:.3f} {loss.item()}"
        loss.backward()

    assert recorded(program).verdict == "flows"


# -- zero ------------------------------------------------------------------------------------------


def test_zero_is_told_from_none_and_the_cut_is_the_nearest() -> None:
    def program(w: Tensor, v: Tensor) -> None:
        dead = (w - 9).relu()
        ((dead * v) * 0.0).sum().backward()

    found = recorded(program)
    assert (found.verdict, found.kind) == ("zero", "dead relu"), "though it is 0 already beyond"
    assert [step.op for step in found.path] == ["", "sub", "relu"]
    assert [cut.kind for cut in found.others] == ["zero factor"]
    assert [step.op for step in found.others[0].path] == ["", "sub", "relu", "mul", "mul"]


def test_only_the_elements_a_gradient_reaches_are_spoken_of() -> None:
    def program(w: Tensor, v: Tensor) -> None:
        half = (w - 1.5).relu()
        (half * gw.tensor([1.0, 0.0])).sum().backward()

    found = recorded(program)
    assert found.kind == "dead relu"
    assert "of 2 inputs the 1 that a gradient reaches is at or below 0" in found.reason


def test_a_cut_way_beside_a_flat_one() -> None:
    found = recorded(lambda w, v: (((w - w.data) ** 2) * v).sum().backward())
    assert (found.verdict, found.kind, found.op) == ("zero", "zero slope", "power")
    assert "2 × x" in found.reason
    assert [cut.kind for cut in found.others] == ["data"]


@pytest.mark.parametrize(
    ("kind", "op", "program"),
    [
        ("underflow", "mul", lambda w, v: (w * 1e-30 * 1e-30 * v).sum().backward()),
        ("not the winner", "maximum", lambda w, v: gw.maximum(w, v).sum().backward()),
        ("saturated", "sigmoid", lambda w, v: ((w * 200).sigmoid() * v).sum().backward()),
        ("flat", "sign", lambda w, v: (w.sign() * v).sum().backward()),
        ("flat", "floor", lambda w, v: ((w * 0.3).floor() * v).sum().backward()),
        ("zero factor", "matmul", lambda w, v: (gw.zeros(3, 2) @ w).sum().backward()),
        ("zero seed", "mul", lambda w, v: (w * v).backward(gw.zeros(2))),
        ("clamp", "clamp_min", lambda w, v: w.clamp(min=v * 9).sum().backward()),
        ("flat", "hardshrink", lambda w, v: nn.functional.hardshrink(w, 5.0).sum().backward()),
    ],
)
def test_what_multiplies_by_zero(kind: str, op: str, program: Any) -> None:
    found = recorded(program)
    assert (found.verdict, found.kind, found.op) == ("zero", kind, op), str(found)


def test_a_hook_that_returns_zeros() -> None:
    def program(w: Tensor, v: Tensor) -> None:
        h = w * 2
        h.register_hook(lambda g: g * 0)
        (h * v).sum().backward()

    found = recorded(program)
    assert (found.verdict, found.kind, found.op) == ("zero", "hook", "mul")
    assert "h = w * 2" in found.line.text


def test_a_function_that_returns_none_or_zero() -> None:
    class Gone(gw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return None

    class Nothing(Gone):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return g * 0

    found = recorded(lambda w, v: (Gone.apply(w) * v).sum().backward())
    assert (found.verdict, found.kind, found.op) == ("none", "own backward", "Gone")
    found = recorded(lambda w, v: (Nothing.apply(w) * v).sum().backward())
    assert (found.verdict, found.kind, found.op) == ("zero", "own backward", "Nothing")


def test_with_statistics_only() -> None:
    w, v = pair()
    with record(keep="stats") as trace:
        ((w - 9).relu() * v).sum().backward()
    found = why_no_grad(w, trace)
    assert (found.verdict, found.kind) == ("zero", "dead relu")
    assert "between −8 and −7" in found.reason


# -- not about the way -----------------------------------------------------------------------------


def test_a_result_keeps_no_gradient() -> None:
    w, v = pair()
    with record():
        h = w * v
        (h * h).sum().backward()
    found = why_no_grad(h)
    assert (found.verdict, found.kind) == ("none", "not a leaf")
    assert "retain_grad()" in found.fix


def test_a_gradient_that_was_cleared() -> None:
    w, v = pair()
    optimizer = gw.optim.SGD([w, v], lr=0.1)
    with record():
        (w * v).sum().backward()
    optimizer.zero_grad()
    found = why_no_grad(w)
    assert (found.verdict, found.kind) == ("none", "cleared")
    assert "norm 5" in found.reason


def test_after_an_optimizer_step_it_is_the_same_leaf() -> None:
    w, v = pair()
    optimizer = gw.optim.SGD([w, v], lr=0.1)
    with record() as trace:
        for _ in range(2):
            (w.detach() * v).sum().backward()
            optimizer.step()
            with gw.no_grad():
                v -= 0.01
    assert why_no_grad(w, trace).kind == "detach"
    assert why_no_grad(v, trace).verdict == "flows"
    assert trace.grad(v) is not None


def test_gradients_that_were_not_asked_for() -> None:
    found = recorded(lambda w, v: (w * v).sum().backward(inputs=[v]))
    assert (found.verdict, found.kind) == ("none", "not asked for")
    found = recorded(lambda w, v: w * v)
    assert (found.verdict, found.kind) == ("none", "no backward")


def test_requires_grad_that_was_set_too_late() -> None:
    w = gw.tensor([1.0, 2.0])
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record():
        loss = (w * v).sum()
        w.requires_grad_()
        loss.backward()
    found = why_no_grad(w)
    assert found.kind == "requires_grad" and "set later" in found.reason


def test_integers_and_results_of_integers() -> None:
    whole = gw.tensor([1, 2])
    v = gw.tensor([3.0, 4.0], requires_grad=True)
    with record():
        doubled = whole * 2
        (doubled * v).sum().backward()
    assert why_no_grad(whole).kind == "integer leaf"
    assert why_no_grad(doubled).kind == "no gradient below"


# -- without a recording ---------------------------------------------------------------------------


def test_of_a_loss_that_was_not_recorded_the_graph_is_read() -> None:
    w, v = pair()
    loss = (w.detach() * v).sum()
    found = why_no_grad(w, loss)
    assert (found.verdict, found.kind) == ("none", "unused")
    assert "enter mul without a gradient" in found.suspects[0]
    assert "record()" in found.fix
    loss = ((w - 9).relu() * v).sum()
    assert why_no_grad(w, loss).kind == "dead relu"


def test_after_backward_has_freed_the_graph() -> None:
    w, v = pair()
    loss = (v * v).sum()
    loss.backward()
    assert why_no_grad(w, loss).kind == "unused"
    loss = (w.round() * v).sum()
    loss.backward()
    assert why_no_grad(w, loss).kind == "flat"
    w.grad = None
    loss = ((w - 9).relu() * v).sum()
    loss.backward()
    found = why_no_grad(w, loss)
    assert (found.verdict, found.kind) == ("zero", "unknown") and "record()" in found.fix


def test_values() -> None:
    a, b = Value(2.0, label="a"), Value(3.0, label="b")
    found = why_no_grad(a, (a - 5).relu() * b)
    assert (found.verdict, found.kind, found.op) == ("zero", "dead relu", "relu")
    assert "it is −3" in found.reason
    assert found.path[0].name == "a"
    found = why_no_grad(a, Value(a.data) * b)
    assert (found.verdict, found.kind) == ("none", "unused")
    assert "the gradient is 0 because nothing arrives" in str(found)
    assert "the same number" in found.suspects[0]
    assert why_no_grad(a, a * 0.0 + b).kind == "zero factor"
    assert why_no_grad(a, a - a + b).kind == "cancelled"
    assert why_no_grad(a, a * b).verdict == "flows"


@pytest.mark.slow
def test_a_hundred_thousand_nodes() -> None:
    a = Value(1.0, label="a")
    y = a
    for _ in range(33_400):
        y = y + y * 1e-9
    found = why_no_grad(a, (y - 1e9).relu())
    assert found.kind == "dead relu" and len(found.path) == 33_403
    assert len(str(found)) < 1000


def test_sixty_doublings_have_too_many_paths_to_try() -> None:
    a = Value(1.0, label="a")
    y = a
    for _ in range(60):
        y = y + y
    assert why_no_grad(a, y * 0.0).kind == "zero factor"


def test_the_report() -> None:
    found = recorded(lambda w, v: (w.detach() * v).sum().backward())
    data = found.to_dict()
    assert data["verdict"] == "none" and data["line"]["file"] == __file__
    assert data["path"][0] == {"node": 0, "name": "w", "op": "", "line": data["path"][0]["line"]}
    assert found._repr_html_().startswith("<pre")
    text = str(found)
    assert text.startswith("w: the gradient is None: nothing arrives.")
    assert "Fix: leave the detach() out" in text
    assert Path(__file__).name in text


def test_a_gradient_that_nobody_asked_for_yet() -> None:
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    found = gw.why_no_grad(w, (w * 2).sum())
    assert found.verdict == "flows"
    assert "backward() has not been called" in str(found)


# -- what a graph that backward has used up, or an older gradient, still tells --------------------


def test_cleared_after_backward_without_a_recording() -> None:
    model = gw.nn.Linear(3, 2)
    loss = model(gw.ones(4, 3)).square().sum()
    loss.backward()
    model.zero_grad()
    found = why_no_grad(model.weight, loss)
    assert (found.verdict, found.kind) == ("none", "cleared")
    assert "backward() has been called" in found.reason


def test_not_a_leaf_after_backward_without_a_recording() -> None:
    model = gw.nn.Linear(3, 2)
    hidden = model(gw.ones(4, 3))
    loss = hidden.square().sum()
    loss.backward()
    found = why_no_grad(hidden, loss)
    assert (found.verdict, found.kind) == ("none", "not a leaf")
    assert "retain_grad()" in found.fix


def test_an_old_gradient_does_not_hide_a_cut() -> None:
    """.grad is left from the last step; in this one the encoder runs in no_grad()."""
    encoder, head = gw.nn.Linear(3, 4), gw.nn.Linear(4, 2)
    x = gw.ones(5, 3)
    head(encoder(x)).square().sum().backward()
    with record() as trace:
        with gw.no_grad():
            hidden = encoder(x)
        head(hidden).square().sum()
    found = why_no_grad(encoder.weight, trace)
    assert (found.verdict, found.kind) == ("none", "no_grad")
    assert any("another backward pass" in text for text in found.suspects)
    assert why_no_grad(head.weight, trace).verdict == "flows"


def test_a_frozen_parameter_of_a_loss_that_was_not_recorded() -> None:
    model = gw.nn.Linear(3, 2)
    model.weight.requires_grad_(False)
    found = why_no_grad(model.weight, model(gw.ones(4, 3)).sum())
    assert found.kind == "requires_grad" and "requires_grad is False" in found.reason
    assert "without it" not in found.reason


def test_a_single_zero_is_not_counted() -> None:
    v = Value(2.0, label="v")
    assert why_no_grad(v, v * 0 + 1).reason.endswith("is 0.")
