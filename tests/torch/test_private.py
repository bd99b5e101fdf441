"""What is private of PyTorch: one file, one error where a version lacks it."""

import math
import subprocess
import sys
import tomllib

import pytest
import torch
from packaging.specifiers import SpecifierSet

import gradwalk as gw
from gradwalk.torch import private
from gradwalk.torch.private_foreach import TotalNorm
from tests.project.checkout import PACKAGE, ROOT


def test_a_version_without_it_is_told(monkeypatch):
    monkeypatch.delattr(torch.autograd, "_get_sequence_nr")
    weight = torch.ones(2, requires_grad=True)
    told = r"needs .*_get_sequence_nr.*Fix: pip install 'torch>="
    with pytest.raises(RuntimeError, match=told), gw.torch.record():
        (weight * 2).sum()


def test_a_version_without_dispatch_modes_is_told_at_once():
    take_away = "del modes._get_current_dispatch_mode_stack"
    program = f"import torch.utils._python_dispatch as modes; {take_away}\nimport gradwalk.torch"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "gradwalk.torch needs dispatch modes" in done.stderr and "Fix: pip" in done.stderr


def test_without_pytorch_it_says_what_to_install():
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import importlib.util as util; util.find_spec = lambda name: None\n"
        "import gradwalk; gradwalk.torch"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Fix: pip install 'gradwalk[torch]'" in done.stderr


def test_the_version_here_is_one_of_those_that_the_error_and_the_extra_name():
    tested = SpecifierSet(private.TESTED)
    assert tested.contains(torch.__version__, prereleases=True)
    assert f"pip install 'torch{private.TESTED}'" in str(private.missing("something"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extra,) = project["optional-dependencies"]["torch"]  # of newer ones, up to 3, the error tells
    assert extra == f"torch{private.TESTED.split(',')[0]},<3"


def test_looking_whether_a_saved_tensor_is_packed_does_not_unpack_it():
    weight, unpacked = torch.ones(2, requires_grad=True), []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: unpacked.append(t) or t)
    plain = weight * weight
    with hooks:
        packed = weight * weight
    for is_packed in (private.is_packed, private._runs_python):  # what older versions need
        assert not is_packed(plain.grad_fn, "_saved_self")
        assert is_packed(packed.grad_fn, "_saved_self") and not unpacked
    packed.sum().backward()
    assert len(unpacked) == 2 and not private._runs_python(packed.grad_fn, "_saved_self")


def test_nothing_private_is_used_elsewhere():
    for path in (PACKAGE / "torch").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.stem.partition("_")[0] != "private":
            assert "torch._" not in text.replace("torch.__", ""), path.name
            assert "._python_dispatch" not in text, path.name


def test_the_total_norm_of_tensors_that_change_from_step_to_step():
    total, large = TotalNorm(), torch.randn(1 << 19)
    some = [torch.randn(3, 4), torch.randn(5)]
    other_shapes = [torch.randn(5), torch.randn(4, 3)]
    sparse = [torch.eye(3).to_sparse(), torch.randn(5)]
    half = [torch.full((4,), 300.0, dtype=torch.float16), torch.ones(2, dtype=torch.float16)]
    mixed = [torch.randn(3), torch.randn(3, dtype=torch.float64)]
    bad = [torch.randn(3, 4), torch.tensor([1.0, torch.nan, 1.0, 1.0, 1.0])]
    for tensors in (some, other_shapes, some, sparse, half, mixed, [large, *some], some, bad, some):
        expected = [torch.linalg.vector_norm(t.to_dense().double()).item() for t in tensors]
        assert total.of(tensors).item() == pytest.approx(math.hypot(*expected), 1e-4, nan_ok=True)
        assert total.of_each() == pytest.approx(expected, 1e-4, nan_ok=True)


def test_a_hook_that_stays_gets_the_gradient_beside_hooks_of_the_program() -> None:
    x = torch.ones(3, requires_grad=True)
    y = 2 * x
    seen: list[str] = []
    private.listen(y, lambda gradient: seen.append(f"ours {gradient.sum().item():g}"))
    handle = y.register_hook(lambda gradient: seen.append("the program's"))
    removed = y.register_hook(lambda gradient: seen.append("removed"))
    removed.remove()
    private.listen(y, lambda gradient: seen.append("ours again"))
    y.sum().backward(retain_graph=True)
    assert seen == ["ours 3", "the program's", "ours again"]
    handle.remove()
    y.sum().backward()
    assert seen[3:] == ["ours 3", "ours again"]
