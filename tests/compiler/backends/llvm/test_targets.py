"""Machines with shorter vectors, and one of another architecture.

This machine runs code for lesser ones of its kind: AVX2 (32 bytes) and the first x86-64, whose 16
bytes are also NEON's. For aarch64 the code generator is asked whether it takes the texts.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]

# Before anything else asks what machine this is.
PRETEND = """
import sys
from gradwalk.compiler.backends.llvm import target
triple, cpu, width = sys.argv[1:]
here = target.host()
machine = target.Host(triple or here.triple, cpu, "", int(width), here.llvm_version)
target.host = lambda: machine
import numpy as np
import gradwalk as gw
from gradwalk import nn
F = nn.functional
gw.manual_seed(0)

class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 5, 3, stride=2, padding=1)
        self.norm = nn.LayerNorm(20)
        self.lstm = nn.LSTM(20, 7, batch_first=True)
        self.attention = nn.MultiheadAttention(20, 2, batch_first=True)
        self.out = nn.Linear(27, 17)

    def forward(self, x):
        x = F.max_pool2d(F.gelu(self.conv(x)), 2).flatten(2).transpose(1, 2)  # (4, 16, 5)
        x = self.norm(x.reshape(4, 4, 20))
        mixed, _ = self.attention(x, x, x)
        seen, _ = self.lstm(x)
        return self.out(gw.cat([mixed, seen], -1)).sum(1)

"""
RUN = """
found = []
for compiled in (False, True):
    gw.manual_seed(1)
    model = Everything()
    optimizer = gw.optim.AdamW(model.parameters(), lr=0.01)
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    run = gw.compile(step) if compiled else step
    x, y = gw.randn(4, 1, 16, 16), gw.randint(0, 17, (4,))
    found.append([run(x, y).item() for _ in range(4)])
np.testing.assert_allclose(*found, rtol=2e-6)
assert f"<{machine.vector_bytes // 4} x float>" in run.source(form="llvm")
"""
EMIT = """
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.kernels.products.driver import driver_text
from gradwalk.compiler.backends.llvm.kernels.select import kernel_of
from gradwalk.compiler.pipeline import lower
from gradwalk.compiler.tracing.trace_function import trace
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
model = Everything()

def loss_of(x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss

traced = trace(loss_of, (gw.randn(4, 1, 16, 16), gw.randint(0, 17, (4,))), {}, ())
entries = lower(traced.program).plan.entries
kernels = []
for entry in entries:
    try:
        kernels.append(kernel_of(entry, machine, 2))
    except NoKernel:
        pass
assert len(kernels) > 0.9 * len(entries)
texts = {k.name: k.text for k in kernels}
name, text, declared = driver_text(np.dtype(np.float32), machine)
declared = {d for d in declared.union(*(k.declarations for k in kernels)) if d.name != name}
whole = "\\n".join([*(d.text for d in declared), *texts.values(), text])
module = llvm.parse_assembly(whole)
module.triple = machine.triple
module.verify()
made = llvm.Target.from_triple(machine.triple).create_target_machine(cpu=cpu, opt=2)
assembly = made.emit_assembly(module)
assert "fmla" in assembly and ".4s" in assembly, "no NEON"
assert all(f"{name}:" in assembly for name in texts)
"""


def run(program: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, cwd=ROOT, timeout=300)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="another architecture")
@pytest.mark.parametrize(("cpu", "width"), [("x86-64-v3", 32), ("x86-64", 16)])
def test_shorter_vectors(
    cpu: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADWALK_CACHE", str(tmp_path / "cache"))
    run(PRETEND + RUN, "", cpu, str(width))


def test_another_architecture_takes_the_texts() -> None:
    run(PRETEND + EMIT, "aarch64-unknown-linux-gnu", "generic", "16")
