"""The doctor on programs of PyTorch: the same programs, and the errors that only PyTorch raises."""

import gc
import sys
from pathlib import Path

import pytest
import torch

import gradwalk as gw
from gradwalk.inspect.doctor.doctor import examined
from tests.batches import batched
from tests.inspect.doctor.programs import HEALTHY, LOOP, PLAIN_LIST, SGD, SICK, Sick, program

pytestmark = pytest.mark.filterwarnings("ignore")
CARRIED = """\
rnn, head = nn.RNN(4, 8), nn.Linear(8, 1)
optimizer = gw.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.05)
h = gw.zeros(1, 16, 8)
for i in range(4):
    out, h = rnn(gw.randn(5, 16, 4), {})
    loss = head(out[-1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
KEPT = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 16)
        self.state = gw.zeros(16, 16)
    def forward(self, x):
        self.state = self.cell(x, self.state)
        return self.state[:, :3]
model = Net()
"""
PLAIN = PLAIN_LIST.format("[nn.Linear(16, 16) for _ in range(2)]") + SGD + LOOP
HALF = """\
model = nn.Linear(8, 1).half()
optimizer = gw.optim.Adam(model.parameters(), lr=0.01)
x = gw.randn(16, 8).half()
for i in range(3):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""
OVERWRITTEN = LOOP.replace("model(x)", "logits").replace(
    "loss =", "h = model(x).sigmoid(); logits = h * h; h += 1; loss ="
)
TWO_LOSSES = SGD + LOOP.replace(
    "loss.backward()", "out = model(x); out.mean().backward(); out.square().mean().backward()"
)
SCALED = (
    SGD
    + "scaler = gw.amp.GradScaler('cpu')\n"
    + LOOP.replace("    loss.backward()", "    scaler.scale(loss / 2).backward()").replace(
        "    optimizer.step()",
        "    with gw.autocast('cpu', dtype=gw.bfloat16):\n"
        "        loss = F.cross_entropy(model(x), y)\n"
        "    scaler.scale(loss / 2).backward()\n"
        "    scaler.step(optimizer)\n"
        "    scaler.update()",
    )
)
COUNT = "(model(x).argmax(1) != y).float().mean()"
ONLY_HERE = {
    "a carried state": Sick(CARRIED.format("h"), "error", "out, h = rnn(gw.randn(5, 16, 4), h)"),
    "a kept state": Sick(KEPT + SGD + LOOP, "error", "self.state = self.cell(x, self.state)"),
    "the same loss twice": Sick(
        SGD + LOOP.replace("loss.backward()", "loss.backward(); loss.backward()"),
        "error",
        "loss.backward(); loss.backward()",
    ),
    "a count instead of a loss": Sick(
        SGD + LOOP.replace("F.cross_entropy(model(x), y)", COUNT),
        "error",
        f"loss = {COUNT}",
    ),
    "layers in a plain list": Sick(PLAIN, "not held", SGD.strip()),
    "an eps of 0": Sick(HALF, "eps", "optimizer = gw.optim.Adam(model.parameters(), lr=0.01)"),
}


@batched("name", [*SICK, *ONLY_HERE])
def test_it_finds_the_fault(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    sick = {**SICK, **ONLY_HERE}[name]
    found = examined(program(sick.source, tmp_path_factory.mktemp("doctor"), True), [True])
    gc.collect()
    first = found.findings[0]
    assert (first.kind, first.confidence != "possible") == (sick.kind, True), f"{name}: {found}"
    assert first.line is not None and first.line.text == sick.line, f"{name}: {found}"
    assert first.change and first.basis


HEALTHY_HERE = {"a detached state": CARRIED.format("h.detach()"), "a gradient scaler": SCALED}


@batched("name", [*HEALTHY, *HEALTHY_HERE])
def test_it_is_silent_about_healthy_programs(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = {**HEALTHY, **HEALTHY_HERE}[name]
    found = examined(program(source, tmp_path_factory.mktemp("doctor"), True), [True])
    assert not found, f"{name}: {found}"
    assert not found.not_checked
    assert found.engine == "PyTorch"


def test_a_second_backward_names_the_tensor_and_where_it_is_kept(tmp_path: Path) -> None:
    found = examined(program(CARRIED.format("h"), tmp_path, True), [True])
    message = found.findings[0].message
    assert "of shape (1, 16, 8), kept in h, is carried over" in message
    assert "train.py" in message
    assert found.findings[0].change.startswith("h = h.detach()")
    found = examined(program(KEPT + SGD + LOOP, tmp_path, True), [True])
    assert "kept in model.state" in found.findings[0].message


def test_an_overwritten_value_is_explained(tmp_path: Path) -> None:
    found = examined(program(SGD + OVERWRITTEN, tmp_path, True), [True])
    assert found.findings[0].kind == "error"
    assert "overwrote it before backward ran" in found.findings[0].message


def test_two_losses_of_one_forward_pass_are_explained(tmp_path: Path) -> None:
    found = examined(program(TWO_LOSSES, tmp_path, True), [True])
    assert "two backward passes go through" in found.findings[0].message


def test_a_program_that_goes_on_after_an_error(tmp_path: Path) -> None:
    lines = SICK["a NaN"].source.replace("    loss.backward()", "    try: loss.backward()")
    source = lines.replace("    optimizer.step()", "    finally: pass\n    try: optimizer.step()")
    found = examined(program(source + "    except Exception: pass\n", tmp_path, True), [True])
    assert found.findings[0].kind == "NaN"
    assert found.findings[0].line is not None


def test_a_compiled_model_is_looked_into(tmp_path: Path) -> None:
    compiled = SGD + LOOP.replace("model(x)", "compiled(x)")
    source = compiled.replace("for i", "compiled = gw.compile(model)\nfor i")
    assert not examined(program(source, tmp_path, True), [True])
    sick = source.replace("compiled(x)", "compiled(x).softmax(1)")
    found = examined(program(sick, tmp_path, True), [True])
    assert found.findings[0].line is not None
    assert "softmax" in found.findings[0].message


def test_a_shape_error_keeps_its_own_words() -> None:
    model = torch.nn.Linear(3, 1)
    found = gw.doctor(model, lambda: model(torch.ones(2, 4)))
    assert "shapes cannot be multiplied" in found.findings[0].message


def test_it_takes_a_model_and_a_step() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(16, 4), torch.randn(16, 1)

    def step() -> None:
        (model(x) - y).square().mean().backward()
        optimizer.step()

    assert gw.doctor(model, step).findings[0].kind == "left over"

    def cleared() -> None:
        optimizer.zero_grad()
        step()

    assert not gw.doctor(model, cleared)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    before = torch.optim.Optimizer.__init__, torch.nn.Module.__setattr__
    examined(program(HEALTHY["plain"], tmp_path, True), [True])
    assert before == (torch.optim.Optimizer.__init__, torch.nn.Module.__setattr__)
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert not sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks


@pytest.mark.slow
def test_it_is_silent_about_an_encoder_and_a_decoder() -> None:
    pytest.importorskip("transformers")
    from tests.torch.test_healthy_transformers import made

    model, batch = made("T5ForConditionalGeneration")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

    found = gw.doctor(model, step, steps=3)
    assert not found, str(found)
