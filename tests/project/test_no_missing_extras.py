"""`Value` and `Tensor` work where packages are missing, as in a browser's Python."""

from pathlib import Path

import pytest

from tests.project.checkout import run_here

pytestmark = pytest.mark.slow  # each test starts Python anew

# `MISSING` is set before.
BLOCK = """
import sys



class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


sys.meta_path.insert(0, Missing)
"""
WITHOUT = 'MISSING = {"llvmlite", "safetensors", "starlette", "uvicorn", "torch"}' + BLOCK
# PyTorch is an extra that Python in a browser does not have either.
WITHOUT_LLVM = 'MISSING = {"llvmlite", "torch"}' + BLOCK


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


# A scalar graph, a network that is trained, and a recording of a step.
SMALL = """
import gradwalk as gw

x = gw.Value(3.0)
(x * x).backward()
gw.manual_seed(0)
net = gw.nn.Sequential(gw.nn.Linear(2, 3), gw.nn.Tanh(), gw.nn.Linear(3, 1))
optimizer = gw.optim.SGD(net.parameters(), lr=0.1)
batch, target = gw.randn(4, 2), gw.ones(4, 1)


def step():
    optimizer.zero_grad()
    loss = gw.nn.functional.mse_loss(net(batch), target)
    loss.backward()
    optimizer.step()
    return loss


losses = [step().item() for _ in range(20)]
with gw.record() as trace:
    step()
print(x.grad, losses[-1] < losses[0], len(trace.nodes) > 10)
"""


@pytest.mark.parametrize(
    "package",
    ["llvmlite", "safetensors", "starlette", "uvicorn", "typer", "rich", "threadpoolctl"],
)
def test_training_and_recording_need_none_of(package: str, tmp_path: Path) -> None:
    blocked = f"MISSING = {{{package!r}}}" + BLOCK
    assert run_here(blocked + SMALL, cwd=tmp_path) == "6.0 True True\n"


def test_every_module_imports_without_llvmlite(tmp_path: Path) -> None:
    code = """
import importlib, pkgutil

import gradwalk

names = [module.name for module in pkgutil.walk_packages(gradwalk.__path__, "gradwalk.")
         if module.name != "gradwalk.__main__" and not module.name.startswith("gradwalk.torch")
         and not module.name.startswith("gradwalk.compiler.backends.xla")]
for name in names:
    importlib.import_module(name)
print(len(names) > 300, "gradwalk.compiler.compiled_function" in names)
"""
    # walk_packages itself imports gradwalk.torch to look inside, where PyTorch is missing.
    assert run_here(WITHOUT_LLVM + code, cwd=tmp_path) == "True True\n"


@pytest.mark.parametrize(
    "platform, told",
    [("emscripten", "does not exist for Python in a browser"), ("linux", "pip install llvmlite")],
)
def test_without_llvmlite_compile_says_so_and_works(
    platform: str, told: str, tmp_path: Path
) -> None:
    code = f"""
import sys, warnings

import gradwalk as gw

gw.compile
sys.platform = {platform!r}  # the modules of Python itself, imported before, look at it too
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    print(gw.compile(lambda x: (x * 2).sum())(gw.ones(3)).item())
    a = gw.Value(3.0)
    print(gw.compile(a * a)([4.0]))
for one in warned:
    text = str(one.message)
    print({told!r} in text, "The rest of gradwalk works" in text, "backend='numpy'" in text)
"""
    expected = "6.0\n16.0\n" + "True True True\n" * 2
    assert run_here(WITHOUT_LLVM + code, cwd=tmp_path) == expected


def test_a_device_without_jax(tmp_path: Path) -> None:
    """Says what to install; asking whether there is a GPU needs nothing."""
    code = """
import gradwalk as gw

print(gw.cuda.is_available(), gw.ones(2).device)
for use in (lambda: gw.ones(2).to("cuda"), lambda: gw.nn.Linear(2, 1, device="xla")):
    try:
        use()
    except ImportError as error:
        print(error)
"""
    printed = run_here('MISSING = {"jax", "ml_dtypes"}' + BLOCK + code, cwd=tmp_path)
    assert printed.startswith("False cpu\n")
    assert printed.count('pip install "gradwalk[xla]"') == 2
