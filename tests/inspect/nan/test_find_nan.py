"""find_nan: the first cause, its operands, and those it only passed through."""

import math
from collections.abc import Callable
from typing import Any

import pytest

import gradwalk as gw
from gradwalk import Value, nn
from gradwalk.inspect.nan.find_nan import find_nan
from gradwalk.inspect.trace.recorder import record
from gradwalk.ops.network.softmax import binary_cross_entropy_op

INF, NAN = math.inf, math.nan


def x() -> gw.Tensor:
    found = gw.tensor([1.0, 0.0, 4.0], requires_grad=True)
    found.label = "x"
    return found


# The clinic has a sick program and its twin for most causes; here is what is left.


def test_the_producer_is_told_from_those_it_passed_through() -> None:
    a, w = x(), gw.tensor([1.0, 2.0, 3.0], requires_grad=True)
    found = find_nan(lambda: (-((a * 2).log() * w + 1).abs()).sum().backward())
    assert (found.op, found.kind, found.text) == ("log", "log", "log(0) = −inf")
    assert found.index == (1,) and (found.count, found.total) == (1, 3)
    assert [step.op for step in found.passed] == ["mul", "add", "abs", "neg", "sum"]
    assert found.operands[0].value == 0.0 and "3 elements, from 0 to 8" in found.operands[0].summary
    assert found.reached == [
        "the loss (−inf)", "the gradient of x", "the gradient of leaf#3",
    ]  # fmt: skip


def test_the_second_of_two_causes_is_listed() -> None:
    a = x()
    found = find_nan(lambda: (a.log() + (a - 9).sqrt()).sum().backward())
    assert found.op == "sqrt", "log gives −inf, which a NaN is not made of here"
    found = find_nan(lambda: ((a - 9).log() + (a - 9).sqrt()).sum().backward())
    assert found.op == "log" and [step.op for step in found.others] == ["sqrt"]


def test_an_inf_that_becomes_nan_later() -> None:
    a = x()
    found = find_nan(lambda: ((a * 500).exp() - (a * 500).exp()).sum().backward())
    assert (found.op, found.kind, found.text) == ("exp", "overflow", "exp(500) = inf")
    assert found.became is not None and found.became.op == "sub"
    assert "3.4e+38" in found.reason


def test_an_inf_that_was_given_is_no_cause() -> None:
    scores = gw.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    mask = gw.tensor([[0.0, 0.0, -INF]])
    assert not find_nan(lambda: ((scores + mask).softmax(1) ** 2).sum().backward())
    found = find_nan(lambda: ((scores + mask) - (scores + mask)).sum().backward())
    assert (found.op, found.kind, found.became) == ("sub", "inf − inf", None)
    assert [operand.value for operand in found.operands] == [-INF, -INF]


@pytest.mark.parametrize(
    ("kind", "op", "text", "program"),
    [
        ("log", "log", "log(−1) = NaN", lambda a: (a - 1)[1:2].log().sum()),
        ("0 / 0", "div", "0 / 0 = NaN", lambda a: (a / a).sum()),
        ("division by 0", "div", "1 / 0 = inf", lambda a: (1 / a).sum()),
        ("division by 0", "reciprocal", "reciprocal(0) = inf", lambda a: a.reciprocal().sum()),
        ("division by 0", "power", "0 ^ (−1) = inf", lambda a: (a**-1).sum()),
        ("root", "sqrt", "sqrt(−1) = NaN", lambda a: (-a).sqrt().sum()),
        ("root", "rsqrt", "rsqrt(0) = inf", lambda a: a.rsqrt().sum()),
        ("power", "power", "(−1) ^ 0.5 = NaN", lambda a: ((a - 1) ** 0.5).sum()),
        ("domain", "acos", "acos(4) = NaN", lambda a: a.acos().sum()),
        ("overflow", "exp", "exp(100) = inf", lambda a: (a * 100).exp().sum()),
        ("overflow", "mul", "1e+30 × 1e+30 = inf", lambda a: ((a * 1e30) * (a * 1e30)).sum()),
        ("overflow", "matmul", "matmul = inf", lambda a: (a * 1e30) @ (a * 1e30)),
        ("empty", "mean", "mean = NaN", lambda a: a[:0].mean()),
        ("one element", "var", "var = NaN", lambda a: a[:1].var()),
        ("all −inf", "log_softmax", "log_softmax = NaN",
         lambda a: a.masked_fill(a >= 0, -INF).log_softmax(0).sum()),
        ("inf − inf", "softmax", "softmax = NaN",
         lambda a: a.masked_fill(a > 1, INF).softmax(0).sum()),
        ("constant", "where", "the constant −inf", lambda a: a.masked_fill(a > 1, -INF).sum()),
        ("all −inf", "cross_entropy", "cross_entropy = NaN",
         lambda a: gw.cross_entropy(a.masked_fill(a >= 0, -INF)[None], gw.tensor([0]))),
        ("log", "cross_entropy", "cross_entropy = inf",
         lambda a: gw.cross_entropy(a.masked_fill(a < 1, -INF)[None], gw.tensor([1]))),
    ],
)  # fmt: skip
def test_forward_causes(kind: str, op: str, text: str, program: Callable[..., Any]) -> None:
    a = x()
    found = find_nan(lambda: program(a).backward())
    assert (found.kind, found.op, found.text) == (kind, op, text), str(found)
    assert found.direction == "forward" and found.fix
    assert found.line is not None and found.line.file == __file__


def test_data_names_its_rows() -> None:
    batch = gw.ones(9, 2)
    batch.label = "batch"
    batch[3, 1] = NAN
    batch[5] = INF
    w = gw.tensor([1.0, 2.0], requires_grad=True)
    found = find_nan(lambda: (batch @ w).sum().backward())
    assert (found.kind, found.name, found.index) == ("data", "batch", (3, 1))
    assert found.text == "row 3 is NaN", "NaN comes before inf"
    batch[3, 1] = 0.0
    batch[7] = INF
    assert find_nan(lambda: (batch @ w).sum().backward()).text == "rows 5, 7 are inf"


def test_of_a_graph_that_was_not_recorded() -> None:
    a = x()
    found = find_nan((a.log() * 3).sum())
    assert (found.op, found.text) == ("log", "log(0) = −inf")
    batch = gw.tensor([[1.0, NAN], [1.0, 2.0]])
    w = gw.tensor([[1.0], [2.0]], requires_grad=True)
    found = find_nan((batch @ w).sum())
    assert (found.kind, found.op, found.text) == ("data", "matmul", "row 0 is NaN")
    assert not find_nan((a + 1).log().sum())
    loss = (a + 1).log().sum()
    loss.backward()
    with pytest.raises(gw.AutogradError, match="find_nan\\(lambda"):
        find_nan(loss)


def test_weights_that_were_bad_come_before_all_else() -> None:
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[1].bias.data[0] = NAN
    batch = gw.tensor([[NAN, 1.0]])
    found = find_nan(lambda: model(batch).sum().backward())
    assert (found.kind, found.name, found.layer) == ("weights", "1.bias", "1")
    assert "an earlier step left it" in found.reason
    assert [step.op for step in found.others] == [""], "the data is bad as well"


def test_several_steps_in_one_call() -> None:
    gw.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = gw.optim.SGD(model.parameters(), lr=1e38)

    def steps() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            (model(gw.ones(4, 3)) * 100).square().mean().backward()
            optimizer.step()

    found = find_nan(steps)
    assert (found.kind, found.name, found.layer) == ("weights", "weight", "Linear (call 2)")
    assert "the update at" in found.reason and "optimizer.step()" in found.reason


# -- backward --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "program"),
    [
        ("sqrt", lambda a: a.sqrt().sum()),
        ("power", lambda a: (a**0.5).sum()),
        ("acos", lambda a: a[:1].acos().sum()),
        ("sqrt", lambda a: ((a * 0) ** 2).sum().sqrt()),
    ],
)
def test_finite_forward_infinite_backward(op: str, program: Callable[..., Any]) -> None:
    a = x()
    found = find_nan(lambda: program(a).backward())
    assert (found.direction, found.kind, found.op) == ("backward", "infinite slope", op), str(found)
    assert found.text.startswith("gradient") and found.operands[0].value in (0.0, 1.0)
    assert "the gradient of x" in found.reached


@pytest.mark.parametrize(
    ("op", "hider", "safe", "program"),
    [
        ("log", "where", "x = where(mask, x, 1.0); log(x)",
         lambda a: gw.where(a > 0, a.log(), 0.0).sum()),
        ("sqrt", "where", "x = where(mask, x, 1.0); sqrt(x)",
         lambda a: gw.where(a > 0, (a * 1).sqrt() * 2, a).sum()),
        ("div", "where", "y = where(mask, y, 1.0); x / y",
         lambda a: gw.where(a > 0, 1 / a, 0.0).sum()),
        ("div", "where", "y = where(mask, y, 1.0); x / y",
         lambda a: gw.where(a.sum() > 100, gw.ones(2, 3) / a, a).sum()),
        ("power", "where", "x = where(mask, x, 1.0); x ** n",
         lambda a: gw.where(a > 0, a**-0.5, 0.0).sum()),
        ("sqrt", "mul", "x = where(mask, x, 1.0); sqrt(x)",
         lambda a: (a.sqrt() * (a > 0)).sum()),
        ("log", "getitem", "x = where(mask, x, 1.0); log(x)", lambda a: a.log()[a > 0].sum()),
    ],
)  # fmt: skip
def test_a_nan_that_is_masked_out(
    op: str, hider: str, safe: str, program: Callable[..., Any]
) -> None:
    a = x()
    found = find_nan(lambda: program(a).backward())
    assert (found.direction, found.kind, found.op) == ("backward", "masked", op), str(found)
    assert found.masked_by is not None and found.masked_by.op == hider
    assert safe in found.fix
    assert "0 × inf is NaN" in found.reason


def test_the_safe_form_is_safe() -> None:
    a = x()

    def safe() -> None:
        positive = a > 0
        gw.where(positive, gw.where(positive, a, 1.0).log(), 0.0).sum().backward()

    assert not find_nan(safe)
    assert a.grad is not None and a.grad.tolist() == [1.0, 0.0, 0.25]


def test_backward_overflow_a_seed_a_hook_and_an_own_backward() -> None:
    a = x()
    found = find_nan(lambda: (a * 1e-20 * 1e20).backward(gw.full((3,), 1e30)))
    assert (found.direction, found.kind, found.op) == ("backward", "overflow", "mul"), str(found)
    found = find_nan(lambda: (a * 2).backward(gw.full((3,), NAN)))
    assert (found.direction, found.kind) == ("backward", "seed")

    def hooked() -> None:
        h = a * 2
        h.register_hook(lambda g: g * NAN)
        h.sum().backward()

    found = find_nan(hooked)
    assert (found.direction, found.kind, found.op) == ("backward", "sum or hook", "mul")

    class Bad(gw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: gw.Tensor) -> gw.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: gw.Tensor) -> gw.Tensor:
            return g / 0

    found = find_nan(lambda: Bad.apply(a).sum().backward())
    assert (found.direction, found.kind, found.op) == ("backward", "own backward", "Bad")


# -- other things to look at -----------------------------------------------------------------------


def test_values() -> None:
    a, b = Value(0.0, label="a"), Value(800.0, label="b")
    found = find_nan(a.log() * 2)
    assert (found.op, found.text, found.operands[0].name) == ("log", "log(0) = −inf", "a")
    found = find_nan(b.exp() - b.exp())
    assert (found.op, found.kind) == ("exp", "overflow") and "float64" in found.reason
    found = find_nan(lambda: (a * 2) ** 0.5)
    assert (found.direction, found.kind, found.op) == ("backward", "infinite slope", "power")
    assert not find_nan(a + b)


def test_a_recording_a_tensor_in_it_and_no_backward() -> None:
    a = x()
    with record() as trace:
        bad = a.log()
        fine = a + 1
    assert find_nan(trace).op == "log"
    assert find_nan().op == "log"
    assert find_nan(bad).op == "log"
    assert not find_nan(fine)


def test_a_metric_beside_a_healthy_loss_is_not_reported() -> None:
    a = x()

    def step() -> None:
        loss = (a * 2).sum()
        (loss - loss) / (loss - loss)
        loss.backward()

    assert not find_nan(step)


def test_with_statistics_only() -> None:
    a = x()
    with record(keep="stats") as trace:
        (a.log() * 3).sum().backward()
    found = find_nan(trace)
    assert (found.op, found.kind) == ("log", "log")
    assert found.index is None and (found.count, found.total) == (1, 3)
    with record(keep="stats") as trace:
        gw.where(a > 0, a.log(), 0.0).sum().backward()
    found = find_nan(trace)
    assert (found.direction, found.op) == ("backward", "log")
    found = find_nan(lambda: a.log().sum().backward(), budget=8)
    assert found.op == "log" and found.operands[0].value is None


@pytest.mark.slow
def test_a_hundred_thousand_nodes() -> None:
    a = Value(0.0, label="a")
    y = a.log()
    for _ in range(33_400):
        y = y + y * 1e-9
    found = find_nan(y)
    assert found.op == "log" and len(found.passed) == 66_800
    assert len(str(found)) < 1000


def test_the_report() -> None:
    a = x()
    found = find_nan(lambda: a.log().sum().backward())
    data = found.to_dict()
    assert data["found"] is True and data["index"] == [1]
    assert data["operands"][0]["name"] == "x"
    assert "log(0) = −inf" in found._repr_html_()
    assert str(find_nan(lambda: a.sum().backward())) == (
        "no NaN and no inf reaches the loss or a gradient."
    )


# -- infinite operands -----------------------------------------------------------------------------


def test_infinite_weights_that_a_product_turns_into_nan() -> None:
    gw.manual_seed(0)
    x = gw.randn(20, 4)
    for model in (nn.Linear(4, 3), nn.LSTM(4, 3)):
        weight = next(p for name, p in model.named_parameters() if "weight" in name)
        nn.init.constant_(weight, gw.inf)
        given = x.reshape(5, 4, 4)
        found = find_nan(lambda model=model, given=given: _first(model(given)).sum().backward())
        assert (found.kind, found.text) == ("weights", "already inf"), str(found)
        assert found.became is not None and "weight" in found.name


def _first(output: object) -> object:
    return output[0] if isinstance(output, tuple) else output


def test_an_update_inside_the_loop_that_leaves_infinite_weights() -> None:
    gw.manual_seed(0)
    x, model = gw.randn(20, 4), nn.Linear(4, 1)
    optimizer = gw.optim.SGD(model.parameters(), lr=1e39)

    def steps() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    found = find_nan(steps)
    assert found.kind == "weights" and "optimizer.step()" in found.reason, str(found)


def test_infinite_data_is_named_with_its_row_and_the_line_that_wrote_it() -> None:
    gw.manual_seed(0)
    table = gw.randn(20, 4)
    table[11, 2] = gw.inf
    model = nn.Linear(4, 3)
    table[12, 2] = -gw.inf
    found = find_nan(lambda: (model(table) - model(table)).sum().backward())
    assert (found.kind, found.text) == ("data", "rows 11, 12 are inf"), str(found)
    assert "table[12, 2] = -gw.inf" in found.reason


def test_probabilities_outside_their_range() -> None:
    p = gw.tensor([0.5, 40.0], requires_grad=True)
    with pytest.raises(ValueError, match=r"from 0 to 1; the input has 1 to 80\."):
        nn.functional.binary_cross_entropy(p * 2, gw.ones(2))
    # While numbers are unknown, as in compiled code, nothing is refused: the op gives NaN.
    found = find_nan(lambda: binary_cross_entropy_op(p * 2, gw.ones(2)).sum().backward())
    assert found.kind == "domain" and "given 80 here" in found.reason
    assert "binary_cross_entropy_with_logits" in found.fix


def test_the_row_of_a_cross_entropy_is_the_one_that_is_named() -> None:
    logits = gw.tensor([[gw.inf, 0.0], [-gw.inf, -gw.inf]], requires_grad=True)
    found = find_nan(lambda: nn.functional.cross_entropy(logits * 1.0, gw.tensor([0, 0])))
    assert found.kind in ("weights", "inf − inf"), str(found)


def test_what_it_cannot_take() -> None:
    with pytest.raises(TypeError, match="find_nan takes a function to call, a loss"):
        find_nan(5)
