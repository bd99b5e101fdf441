"""The lines that the tools are used by, before and after backward; the core without PyTorch."""

import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gradwalk

BATCH = torch.linspace(-1.5, 1.5, 48).reshape(6, 8)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(F.gelu(self.enc(x)))


@pytest.mark.parametrize("recorded", [False, True], ids=["bare", "recorded"])
@pytest.mark.parametrize("after", [False, True], ids=["before backward", "after backward"])
def test_the_lines_of_the_issue(recorded, after):
    torch.manual_seed(0)
    model = Model()
    with gradwalk.torch.record() if recorded else nullcontext():
        loss = F.cross_entropy(model(BATCH), torch.arange(6) % 3)
        if after:
            loss.backward()
    assert "enc.weight" in str(gradwalk.why_no_grad(model.enc.weight, loss))
    if after and not recorded:
        for tool in (gradwalk.why, gradwalk.health):
            with pytest.raises(gradwalk.AutogradError, match=r"gradwalk\.torch\.record"):
                tool(model.head.weight if tool is gradwalk.why else model, loss)
        with pytest.raises(gradwalk.AutogradError, match=r"gradwalk\.torch\.record"):
            gradwalk.find_nan(loss)
        return
    assert "head.weight" in str(gradwalk.why(model.head.weight, loss))
    metrics = gradwalk.health(model, loss).metrics()
    assert metrics["head/weight_gradient"] > 0
    assert all(type(value) is float for value in metrics.values())
    report = gradwalk.testing.assert_healthy(model, F.cross_entropy, (BATCH, torch.arange(6) % 3))
    assert report.healthy


WITHOUT_TORCH = """
import sys
import gradwalk as gw
model = gw.nn.Sequential(gw.nn.Linear(4, 8), gw.nn.ReLU(), gw.nn.Linear(8, 2))
optimizer = gw.optim.Adam(model.parameters())
with gw.record() as trace:
    loss = model(gw.randn(3, 4)).square().mean()
    loss.backward()
optimizer.step()
gw.health(model, trace, optimizer).metrics()
gw.find_nan(lambda: model(gw.randn(3, 4)).sum())
gw.why(model[0].weight, trace), gw.why_no_grad(model[0].weight, trace), gw.audit(trace)
gw.testing.assert_healthy(model, gw.nn.MSELoss(), (gw.randn(3, 4), gw.randn(3, 2)))
print([name for name in sys.modules if name.partition(".")[0] == "torch"])
"""


def test_the_core_does_without_torch():
    run = [sys.executable, "-W", "ignore", "-c", WITHOUT_TORCH]
    found = subprocess.run(run, capture_output=True, text=True, check=False)
    assert found.stdout.strip() == "[]", found.stderr
