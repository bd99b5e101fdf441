"""What is wrong with a gradient, told from two arrays."""

import numpy as np

from gradwalk.inspect.mistakes.diagnosis import diagnose
from gradwalk.inspect.mistakes.evidence import differs


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
    uses = {"layer 1": [[1.0, 0.0], [1.0, 1.0]], "layer 2": [[0.0, 2.0], [2.0, 4.0]]}
    assert "layer 2\n  alone; lost is that of\n    layer 1" in diagnose(
        uses["layer 2"], right, uses=uses
    )


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
