"""bugs: injected wrong gradients are named by gradcheck, by why and by audit, and are undone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import Tensor, Value
from gradwalk.inspect.mistakes import bugs
from gradwalk.inspect.mistakes.audit import audit
from gradwalk.inspect.mistakes.gradcheck import GradcheckError
from gradwalk.inspect.trace.recorder import record
from gradwalk.inspect.why.why import why


def random(*shape: int) -> Tensor:
    return gw.randn(*shape, dtype=gw.float64, requires_grad=True)


def diagnosis(func: Callable[..., Any], inputs: Any, *bug: Any, **options: Any) -> str:
    """What gradcheck says with the bug; without it, the check must pass."""
    assert gw.gradcheck(func, inputs)
    with pytest.raises(GradcheckError) as raised, bugs.inject(*bug, **options):
        gw.gradcheck(func, inputs)
    assert gw.gradcheck(func, inputs), "the bug is still there"
    assert raised.value.diagnosis is not None
    return raised.value.diagnosis


def breadth_first_trap(x: Any) -> Any:
    """The graph that exposes breadth first. At x = 1 the gradient is 26, breadth first 14."""
    a = x * 2
    b = a * 3
    c = b + 1
    return a * c


# kind, op, how the diagnosis begins, a function of tensors, their shapes
CASES: list[tuple[str, str | None, str, Callable[..., Any], list[tuple[int, ...]]]] = [
    ("sign", "tanh", "wrong sign", lambda x: gw.tanh(x) * x, [(3,)]),
    ("factor", "tanh", "a constant factor", lambda x: gw.tanh(x) * x, [(3,)]),
    ("missing", "tanh", "missing", lambda x: gw.tanh(x) * x, [(3,)]),
    ("term", "softmax", "a term is missing", lambda x: gw.softmax(x * 2, 1), [(2, 4)]),
    ("term", "log_softmax", "a term is missing", lambda x: gw.log_softmax(x * 2, 1), [(2, 4)]),
    ("term", "standardize", "a term is missing",
     lambda x: gw.nn.functional.layer_norm(x * 2, (5,)), [(2, 5)]),
    ("term", "tanh", "a factor is missing", lambda x: gw.tanh(x * 2), [(4,)]),
    ("mask", "relu", "too much", lambda x: gw.relu(x * 2), [(8,)]),
    ("swapped", "mul", "swapped", lambda x, y: (x * y).tanh(), [(3,), (3,)]),
    ("transpose", "matmul", "transposed", lambda x, y: (x @ y).tanh(), [(3, 3), (3, 3)]),
    ("transpose", "matmul", "transposed", lambda x, y: (x @ y).tanh(), [(2, 3), (3, 2)]),
    ("unsummed", "add", "not summed over a broadcast axis",
     lambda x, y: (x + y).tanh(), [(3, 4), (4,)]),
    ("unsummed", "mul", "not summed over a broadcast axis",
     lambda x, y: (x * y).tanh(), [(3, 4), (3, 1)]),
    ("stale", "tanh", "a stale value", lambda x: x.tanh() + 3 * (x * 2).tanh(), [(3,)]),
    ("stale", "mul", "a stale value", lambda x, y: (x * y) * y, [(3,), (3,)]),
    ("overwrite", "mul", "overwritten instead of accumulated", lambda x: x * x, [(3,)]),
    ("overwrite", None, "overwritten instead of accumulated", lambda x: x.tanh() + x * 3, [(2,)]),
    ("order", None, "wrong order", breadth_first_trap, [(1,)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "op", "begins", "func", "shapes"), CASES, ids=[f"{k}-{o}" for k, o, *_ in CASES]
)
def test_gradcheck_names_it(
    kind: str, op: str | None, begins: str, func: Any, shapes: list[tuple[int, ...]]
) -> None:
    gw.manual_seed(0)
    said = diagnosis(func, tuple(random(*shape) for shape in shapes), kind, op)
    assert said.startswith(begins), said
    if op is not None and kind != "overwrite":
        assert f"'{op}'" in said
    assert "test_bugs.py:" in said, "the line is named"


def test_every_kind_is_tried_above() -> None:
    assert {kind for kind, *_ in CASES} == set(bugs.KINDS)


@pytest.mark.parametrize(
    ("kind", "op", "begins", "func", "numbers"),
    [
        ("sign", "tanh", "wrong sign", lambda x: x.tanh() * x, [0.5]),
        ("factor", "exp", "a constant factor", lambda x: x.exp() * x, [0.5]),
        ("missing", "tanh", "missing", lambda x: x.tanh() * x, [0.5]),
        ("swapped", "mul", "swapped", lambda x, y: (x * y).tanh(), [2.0, 0.3]),
        ("overwrite", "mul", "overwritten instead of accumulated", lambda x: x * x, [3.0]),
        ("overwrite", None, "overwritten instead of", lambda x: x.tanh() + x * 3, [2.0]),
        ("order", None, "wrong order", breadth_first_trap, [1.0]),
    ],
)
def test_gradcheck_names_it_for_values(
    kind: str, op: str | None, begins: str, func: Any, numbers: list[float]
) -> None:
    said = diagnosis(func, tuple(Value(n) for n in numbers), kind, op)
    assert said.startswith(begins), said
    assert "test_bugs.py:" in said


@pytest.mark.parametrize(
    ("kind", "op", "begins", "func", "shapes"), CASES, ids=[f"{k}-{o}" for k, o, *_ in CASES]
)
def test_audit_and_why_find_it(
    kind: str, op: str | None, begins: str, func: Any, shapes: list[tuple[int, ...]]
) -> None:
    gw.manual_seed(1)
    inputs = [random(*shape) for shape in shapes]
    weights = gw.rand_like(func(*inputs)) + 0.5
    with record() as healthy:
        (func(*inputs) * weights).sum().backward()
    assert not audit(healthy), str(audit(healthy))
    with bugs.inject(kind, op), record() as sick:
        (func(*inputs) * weights).sum().backward()
    found = audit(sick)
    assert found, "nothing was found"
    texts = [fault.text for fault in found.faults]
    assert any(text.startswith(begins) for text in texts), texts
    if op is not None and kind != "overwrite":
        assert any(fault.op == op for fault in found.faults)
    notes = [note for x in inputs for note in why(x, sick).notes]
    assert any(text in note for text in texts for note in notes), notes
    assert not any(text in note for text in texts for note in why(inputs[0], healthy).notes)


def test_why_finds_it_for_values() -> None:
    x = Value(1.0, label="x")
    for kind, begins in (("order", "wrong order"), ("overwrite", "overwritten")):
        x.grad = 0
        with bugs.inject(kind):
            loss = breadth_first_trap(x)
            loss.backward()
            (note,) = why(x, loss).notes
        assert begins in note and "the chain rule gives 26" in note
    x.grad = 0
    loss.backward()
    loss.backward()
    (note,) = why(x, loss).notes
    assert "backward() has run 2 times" in note


def test_mission_numbers() -> None:
    """a·a with = for += gives 3, b = a + a gives 1, breadth first 14 where 26 is right."""
    a = Value(3.0)
    with bugs.inject("overwrite", op="mul"):
        (a * a).backward()
    assert a.grad == 3
    a = Value(3.0)
    with bugs.inject("overwrite", op="add"):
        (a + a).backward()
    assert a.grad == 1
    x, t = Value(1.0), gw.tensor(1.0, requires_grad=True)
    with bugs.inject("order"):
        breadth_first_trap(x).backward()
        breadth_first_trap(t).backward()
    assert x.grad == 14 and t.grad is not None and t.grad.item() == 14
    x = Value(1.0)
    breadth_first_trap(x).backward()
    assert x.grad == 26


def test_one_input_and_a_factor() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    y = gw.tensor([3.0, 4.0], requires_grad=True)
    with bugs.inject("factor", op="mul", input="y", factor=10.0) as bug:
        assert bugs.active() == (bug,) and bug.text == "factor in mul, input y"
        (x * y).sum().backward()
    assert x.grad is not None and y.grad is not None
    assert (x.grad.tolist(), y.grad.tolist()) == ([3.0, 4.0], [10.0, 20.0])
    assert bugs.active() == ()


def test_the_formula_is_wrong_too_and_right_again() -> None:
    with bugs.inject("sign", op="exp"):
        assert gw.derivative(gw.exp) == "−out"
    assert gw.derivative(gw.exp) == "out"


def test_undone_after_an_error_and_when_nested() -> None:
    x = Value(0.5)
    rules = gw.tanh.rules
    with pytest.raises(ZeroDivisionError), bugs.inject("sign", op="tanh"):
        raise ZeroDivisionError
    assert gw.tanh.rules is rules
    with bugs.inject("sign", op="tanh"):
        with bugs.inject("factor", op="tanh"):
            x.tanh().backward()
            assert x.grad == pytest.approx(-2 * 0.7864477)
        x.grad = 0
        x.tanh().backward()
        assert x.grad == pytest.approx(-0.7864477)
    x.grad = 0
    x.tanh().backward()
    assert x.grad == pytest.approx(0.7864477)


def test_an_op_with_a_joint_rule() -> None:
    x = gw.randn(2, 5, requires_grad=True)
    norm = gw.nn.LayerNorm(5)
    weights = gw.randn(2, 5)
    (norm(x) * weights).sum().backward()
    right, x.grad = x.grad, None
    with bugs.inject("sign", op="standardize_affine", input="x"):
        (norm(x) * weights).sum().backward()
    assert right is not None and x.grad is not None
    assert gw.allclose(x.grad, -right)


def test_an_op_of_the_user() -> None:
    cube = gw.elementwise("cube", lambda x: x**3, partials=[lambda x: 3 * x * x])
    gw.manual_seed(0)
    said = diagnosis(lambda x: cube(x) + 1, random(3), "sign", cube)
    assert said.startswith("wrong sign") and "'cube'" in said


def test_a_stale_value_in_an_op_of_the_user() -> None:
    cube = gw.elementwise("cube", lambda x: x**3, partials=[lambda x: 3 * x * x])
    gw.manual_seed(0)
    for x in (random(3), Value(1.5)):
        said = diagnosis(lambda x: cube(x) + cube(x * 2), x, "stale", cube)
        assert said.startswith("a stale value") and "'cube'" in said


def test_a_common_wrong_derivative_is_named() -> None:
    x = gw.tensor([0.5, -1.0, 2.0], dtype=gw.float64, requires_grad=True)
    with record() as trace:
        x.tanh().sum().backward()
    (tanh,) = [node.index for node in trace if node.op == "tanh"]
    trace.sweep.pushed[tanh] = (1 - x.detach().numpy() ** 2,)
    fault = str(audit(trace).faults[0])
    assert "a wrong derivative: the rule takes that of tanh to be 1 − a²" in fault


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("speling", "tanh"), "is not one of sign"),
        (("sign", "tangh"), "there is no op called 'tangh'"),
        (("sign", None), "needs the op"),
        (("sign", "argmax"), "has no derivative"),
        (("order", "tanh"), "not about one op"),
        (("mask", "tanh"), "has no mask"),
        (("term", "mul"), "'term' is known for"),
        (("swapped", "tanh"), "two differentiable inputs"),
        (("unsummed", "tanh"), "broadcasts nothing"),
    ],
)
def test_what_cannot_be_injected(arguments: tuple[Any, ...], match: str) -> None:
    with pytest.raises(ValueError, match=match), bugs.inject(*arguments):
        pass
    with (
        pytest.raises(ValueError, match="has the inputs x, y"),
        bugs.inject("sign", op="mul", input="z"),
    ):
        pass
    assert bugs.active() == ()


# -- audit -----------------------------------------------------------------------------------------


def test_audit_of_networks_finds_nothing() -> None:
    gw.manual_seed(0)
    model = gw.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    with record() as trace:
        model(gw.randn(2, 5, 8)).square().mean().backward()
    found = audit(trace)
    assert not found and found.checked > 10, str(found)
    network = gw.nn.Sequential(
        gw.nn.Conv2d(1, 3, 3), gw.nn.BatchNorm2d(3), gw.nn.ReLU(), gw.nn.MaxPool2d(2),
        gw.nn.Flatten(), gw.nn.Linear(27, 4),
    )  # fmt: skip
    with record() as trace:
        logits = network(gw.randn(4, 1, 8, 8))
        gw.nn.functional.cross_entropy(logits, gw.tensor([0, 1, 2, 3])).backward()
    found = audit(trace)
    assert not found and found.checked >= 8, str(found)


def test_audit_of_values_and_its_report() -> None:
    v = Value(0.5, label="v")
    with bugs.inject("factor", op="tanh", factor=3.0):
        trace = record(v.tanh() * v)
    found = audit(trace)
    assert [fault.op for fault in found.faults] == ["tanh"]
    assert "3 times the derivative" in found.faults[0].text
    assert str(found).startswith("2 operations checked, 1 wrong.")
    assert found.to_dict()["faults"][0]["op"] == "tanh"
    assert all(len(row) <= 80 for row in str(found).splitlines())
    assert not audit(v.tanh() * v)


def test_a_wrong_function_of_the_user_is_found() -> None:
    class Twice(gw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * 3

    with record() as trace:
        Twice.apply(gw.ones(2, requires_grad=True)).sum().backward()
    (fault,) = audit(trace).faults
    assert fault.op == "Twice" and not audit(trace).skipped


def test_a_function_that_leaves_the_graph_is_called_again() -> None:
    class Sine(gw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return gw.tensor(np.sin(x.detach().numpy()))

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * 3

    with record() as trace:
        Sine.apply(gw.ones(2, requires_grad=True)).sum().backward()
    (fault,) = audit(trace).faults
    assert fault.op == "Sine" and "0.5403" in fault.text


def test_a_function_that_cannot_be_called_alone_is_said_to_be_skipped() -> None:
    class Sine(gw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            assert x.dtype == gw.float32
            return gw.tensor(np.sin(x.detach().numpy()))

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * 3

    with record() as trace:
        Sine.apply(gw.ones(2, requires_grad=True)).sum().backward()
    report = audit(trace)
    assert not report and [name.split("#")[0] for name in report.skipped] == ["Sine"]
    assert "not checked: Sine" in str(report)
