"""What is private of PyTorch: one file, one error where a version lacks it."""

import subprocess
import sys

import pytest
import torch

import gradwalk as gw
from gradwalk.torch import private
from tests.project.checkout import PACKAGE


def test_a_version_without_it_is_told(monkeypatch):
    monkeypatch.delattr(torch.autograd, "_get_sequence_nr")
    weight = torch.ones(2, requires_grad=True)
    told = r"needs .*_get_sequence_nr.*Fix: pip install 'torch=="
    with pytest.raises(RuntimeError, match=told), gw.torch.record():
        (weight * 2).sum()


def test_a_version_without_dispatch_modes_is_told_at_once():
    program = (
        "import torch.utils._python_dispatch as modes; del modes._push_mode\nimport gradwalk.torch"
    )
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


def test_the_version_that_is_tried_is_the_one_here():
    assert torch.__version__.startswith(private.TRIED)


def test_nothing_private_is_used_elsewhere():
    for path in (PACKAGE / "torch").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name != "private.py":
            assert "torch._" not in text.replace("torch.__", ""), path.name
            assert "._python_dispatch" not in text, path.name
