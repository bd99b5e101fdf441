"""`Value` and `Tensor` work where native packages are missing, as in a browser's Python."""

from pathlib import Path

from tests.project.checkout import run_here

WITHOUT = """
import sys

MISSING = {"llvmlite", "safetensors", "starlette", "uvicorn", "torch"}


class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


sys.meta_path.insert(0, Missing)
"""


def test_value(tmp_path: Path) -> None:
    code = """
from gradwalk import Value

a, b, c = Value(2.0), Value(-3.0), Value(10.0)
f = (a + b) * c
f.backward()
print(f.data, a.grad, b.grad, c.grad)
"""
    assert run_here(WITHOUT + code, cwd=tmp_path) == "-10.0 10.0 10.0 -1.0\n"


def test_tensor(tmp_path: Path) -> None:
    code = """
import gradwalk

x = gradwalk.tensor([[1.0, 2.0]], requires_grad=True)
w = gradwalk.tensor([[3.0], [4.0]], requires_grad=True)
y = (x @ w).tanh().sum() + (x * x).sum()
y.backward()
print(x.grad.shape == x.shape, w.grad.shape == w.shape)
print(gradwalk.grad(lambda t: (t * t).sum())(gradwalk.tensor([3.0])))
"""
    assert run_here(WITHOUT + code, cwd=tmp_path) == "True True\ntensor([6.])\n"
