"""Training programs for the doctor, sick and healthy, for gradwalk and PyTorch alike."""

import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

HEAD = """\
import gradwalk as gw
from gradwalk import nn
from gradwalk.nn import functional as F
gw.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
teacher = gw.randn(8, 3)
def batch(rows=16):
    x = gw.randn(rows, 8)
    return x, (x @ teacher).argmax(1)
"""
LOOP = """\
for i in range(30):
    x, y = batch()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
SGD = "optimizer = gw.optim.SGD(model.parameters(), lr=0.1)\n"
SCHEDULED = SGD + "schedule = gw.optim.lr_scheduler.{}\n" + LOOP + "    schedule.step()\n"
ACCUMULATING = """\
optimizer = gw.optim.SGD(model.parameters(), lr=0.05)
for i in range(12):
    optimizer.zero_grad()
    for _ in range(4):
        x, y = batch(4)
        loss = F.cross_entropy(model(x), y)
        {}.backward()
    optimizer.step()
"""
REGRESSION = """\
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = gw.optim.SGD(model.parameters(), lr=0.05)
x = gw.randn(128, 8)
y = x.sum(1, keepdim=True)
for i in range(20):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y, reduction="{}")
    loss.backward()
    optimizer.step()
"""
BY_HAND = """\
w = gw.zeros(8, 1, requires_grad=True)
x = gw.randn(64, 8)
y = x @ gw.ones(8, 1)
for i in range(20):
    loss = (x @ w - y).square().mean()
    loss.backward()
    with gw.no_grad():
        w -= 0.05 * w.grad
{}
"""
CLOSURE = """\
optimizer = gw.optim.LBFGS(model.parameters())
x, y = batch(64)
def closure():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss
for i in range(6):
    optimizer.step(closure)
"""
TWO_OPTIMIZERS = """\
maker = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
judge = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
first = gw.optim.Adam(maker.parameters(), lr=1e-3)
second = gw.optim.Adam(judge.parameters(), lr=1e-3)
bce = F.binary_cross_entropy_with_logits
for i in range(12):
    real, fake = gw.randn(32, 2) + 2, maker(gw.randn(32, 4))
    second.zero_grad()
    (bce(judge(real), gw.ones(32, 1)) + bce(judge(fake.detach()), gw.zeros(32, 1))).backward()
    second.step()
    first.zero_grad()
    bce(judge(fake), gw.ones(32, 1)).backward()
    first.step()
"""
PLAIN_LIST = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.hidden = {}
        self.last = nn.Linear(16, 3)
    def forward(self, x):
        x = self.first(x).relu()
        for layer in self.hidden:
            x = layer(x).relu()
        return self.last(x)
model = Net()
"""


class Sick(NamedTuple):
    """A program, the kind of the first finding, and the text of its line."""

    source: str
    kind: str
    line: str


SICK = {
    "no zero_grad": Sick(
        SGD + LOOP.replace("    optimizer.zero_grad()\n", ""), "left over", "loss.backward()"
    ),
    "no zero_grad by hand": Sick(BY_HAND.format(""), "left over", "loss.backward()"),
    "zero_grad before step": Sick(
        SGD
        + LOOP.replace("    optimizer.step()", "    optimizer.zero_grad()\n    optimizer.step()"),
        "erased",
        "optimizer.step()",
    ),
    "zero_grad in the inner loop": Sick(
        ACCUMULATING.format("optimizer.zero_grad(); (loss / 4)"),
        "erased",
        "optimizer.zero_grad(); (loss / 4).backward()",
    ),
    "no step": Sick(SGD + LOOP.replace("    optimizer.step()\n", ""), "never stepped", SGD.strip()),
    "two steps": Sick(SGD + LOOP + "    optimizer.step()\n", "stepped twice", "optimizer.step()"),
    "a replaced layer": Sick(
        SGD + "model[2] = nn.Linear(16, 3)\n" + LOOP, "not held", "model[2] = nn.Linear(16, 3)"
    ),
    "a forgotten layer": Sick(
        "optimizer = gw.optim.SGD(model[0].parameters(), lr=0.1)\n" + LOOP,
        "not held",
        "optimizer = gw.optim.SGD(model[0].parameters(), lr=0.1)",
    ),
    "no division": Sick(ACCUMULATING.format("loss"), "accumulation", "loss.backward()"),
    "a wrong division": Sick(
        ACCUMULATING.format("(loss / 2)"), "accumulation", "(loss / 2).backward()"
    ),
    "a rate of 0": Sick(SGD.replace("0.1", "0.0") + LOOP, "rate", "optimizer.step()"),
    "a schedule that dies": Sick(
        SCHEDULED.format("ExponentialLR(optimizer, gamma=0.3)"), "rate", "schedule.step()"
    ),
    "a schedule that explodes": Sick(
        SCHEDULED.format("ExponentialLR(optimizer, gamma=2.0)"), "rate", "schedule.step()"
    ),
    "a schedule stepped twice": Sick(
        SCHEDULED.format("StepLR(optimizer, step_size=4, gamma=0.1)")
        + "    schedule.step()  # again\n",
        "rate",
        "schedule.step()  # again",
    ),
    "a sum that diverges": Sick(
        REGRESSION.format("sum"), "sum", 'loss = F.mse_loss(model(x), y, reduction="sum")'
    ),
    "a NaN": Sick(
        SGD + LOOP.replace("loss = F", "loss = (x * 0).sum().log() * 0 + F"),
        "NaN",
        "loss = (x * 0).sum().log() * 0 + F.cross_entropy(model(x), y)",
    ),
    "an optimizer made in the loop": Sick(
        LOOP.replace(
            "    x, y = batch()",
            "    optimizer = gw.optim.Adam(model.parameters(), lr=0.01)\n    x, y = batch()",
        ),
        "remade",
        "optimizer = gw.optim.Adam(model.parameters(), lr=0.01)",
    ),
    "an encoder without gradients": Sick(
        "encoder = nn.Linear(8, 8)\n"
        "optimizer = gw.optim.SGD([*encoder.parameters(), *model.parameters()], lr=0.1)\n"
        + LOOP.replace("    loss =", "    with gw.no_grad():\n        x = encoder(x)\n    loss ="),
        "unused",
        "with gw.no_grad():",
    ),
    "a detach": Sick(
        "encoder = nn.Linear(8, 8)\n"
        "optimizer = gw.optim.SGD([*encoder.parameters(), *model.parameters()], lr=0.1)\n"
        + LOOP.replace("model(x)", "model(encoder(x).detach())"),
        "unused",
        "loss = F.cross_entropy(model(encoder(x).detach()), y)",
    ),
}
HEALTHY = {
    "plain": SGD + LOOP,
    "by hand": BY_HAND.format("        w.grad = None"),
    "accumulating": ACCUMULATING.format("(loss / 4)"),
    "a mean": REGRESSION.format("mean"),
    "a closure": CLOSURE,
    "two optimizers": TWO_OPTIMIZERS,
    "a head that is trained alone": SGD.replace("model.p", "model[2].p") + LOOP,
    "exponential": SCHEDULED.format("ExponentialLR(optimizer, gamma=0.97)"),
    "a cycle": SCHEDULED.format("OneCycleLR(optimizer, max_lr=0.5, total_steps=31)"),
    "a cosine": SCHEDULED.format("CosineAnnealingLR(optimizer, T_max=30)"),
    "a warm-up": SCHEDULED.format("LambdaLR(optimizer, lambda step: min(step / 5, 1.0))"),
    "experts of which one is used": "experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))\n"
    "optimizer = gw.optim.SGD([*experts.parameters(), *model.parameters()], lr=0.1)\n"
    + LOOP.replace("model(x)", "model(experts[i // 4 % 3](x))"),
    "registered layers": PLAIN_LIST.format("nn.ModuleList(nn.Linear(16, 16) for _ in range(2))")
    + SGD
    + LOOP,
}
WORDS = (
    (r"^import gradwalk as gw$", "import torch as gw"),
    (r"^from gradwalk import", "from torch import"),
    (r"^from gradwalk\.nn import", "from torch.nn import"),
)


def program(source: str, folder: Path, torch: bool) -> Callable[[], Any]:
    """A program in a file, so that its lines have texts."""
    source = HEAD + source
    for ours, theirs in WORDS if torch else ():
        source = re.sub(ours, theirs, source, flags=re.MULTILINE)
    path = folder / "train.py"
    path.write_text(source)
    linecache.checkcache()
    code = compile(source, str(path), "exec")
    return lambda: exec(code, {"__name__": "__main__"})
