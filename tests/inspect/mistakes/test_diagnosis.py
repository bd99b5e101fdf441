"""What is wrong with a gradient, told from two arrays, or from what its consumers hand it."""

import re
import tomllib

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.inspect.mistakes.diagnosis import SENTENCES, diagnose, differs
from gradwalk.inspect.mistakes.lost_contributions import contributions_to, overwritten
from gradwalk.inspect.trace.trace import Edge


def test_diagnose_plain_gradients():
    right = np.array([[1.0, 2.0], [3.0, 5.0]])
    assert diagnose(right, right) is None
    assert diagnose(right * 1.0001, right) is None
    assert diagnose(right * [[1.1, 1.3], [0.7, 1.2]], right) is None  # no word for it
    assert diagnose(-right, right).startswith("wrong sign")
    assert diagnose(right.T, right).startswith("transposed")
    assert diagnose(right / 4, right).startswith("a constant factor: backward gives 1/4 times")
    assert "4 is the number of input elements" in diagnose(right / 4, right)
    assert diagnose(np.zeros((2, 2)), right).startswith("missing")


def test_a_lost_use_is_named():
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    with gw.record() as trace:
        (x.tanh() + x * 3).sum().backward()
    mul, tanh = contributions_to(trace, Edge(trace.lookup(x)))
    assert mul.amount + tanh.amount == pytest.approx(trace.grad(x))
    said = overwritten(trace, mul.amount, (mul, tanh))
    assert said.startswith("overwritten instead of accumulated: it receives 2 contributions from ")
    assert "that of tanh#1 (test_diagnosis.py:" in said and ") is lost. mul#2 (test_diag" in said
    assert overwritten(trace, mul.amount * 2, (mul, tanh)) is None


def test_diagnose_gradients_of_another_shape():
    rows = np.arange(12.0).reshape(4, 3)
    assert "summed over axis 0 it is right" in diagnose(rows, rows.sum(0))
    assert "summed over axis 1 it is right" in diagnose(rows, rows.sum(1, keepdims=True))
    assert diagnose(rows.T, rows).startswith("transposed")
    assert diagnose(rows, np.ones(2)).startswith("a wrong shape: the gradient has shape (4, 3)")
    assert diagnose(np.ones(2), rows).startswith("a wrong shape")


def test_differs():
    infinite = [np.inf, -np.inf, np.nan, np.inf]
    assert differs(infinite, [np.inf, np.inf, np.nan, 0.0]).tolist() == [False, True, True, True]


def test_every_sentence_is_said():
    code = "".join(path.read_text("utf-8") for path in SENTENCES.parent.glob("*.py"))
    said = set(re.findall(r"""\bsay\(\s*["'](\w+)["']""", code))
    assert said == tomllib.loads(SENTENCES.read_text("utf-8")).keys()
