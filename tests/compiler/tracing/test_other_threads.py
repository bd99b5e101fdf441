"""While one thread traces, others see tensors as they are."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import gradwalk as gw

OPERATIONS: dict[str, Any] = {
    "numpy": lambda w: w.detach().numpy().copy(),
    "tolist": lambda w: w.tolist(),
    "item": lambda w: w[0, 0].item(),
    "arithmetic": lambda w: (w * 2 + w).detach().numpy(),
    "product": lambda w: (w @ w.T).detach().numpy(),
    "softmax": lambda w: gw.softmax(w, 1).detach().numpy(),
    "views": lambda w: w.reshape(-1)[1:3].T.detach().numpy(),
    "sum": lambda w: w.sum(0).detach().numpy(),
    "clone": lambda w: w.detach().clone().numpy(),
    "text": repr,
    "gradient": lambda w: gw.grad(lambda z: (z * w).exp().sum())(gw.ones(2, 2)).detach().numpy(),
    "backward": lambda w: backward(w),
    "asarray": lambda w: np.asarray(w.detach()).copy(),
    "state_dict": lambda w: {"w": w.detach()}["w"].numpy().copy(),
}


def backward(w: Any) -> Any:
    x = gw.ones(2, 2, requires_grad=True)
    (x * w.detach()).exp().sum().backward()
    assert x.grad is not None
    return x.grad.numpy()


@pytest.mark.filterwarnings("ignore:a compiled function changed")
def test_other_threads_compute_with_the_real_arrays() -> None:
    w = gw.nn.Parameter(gw.tensor([[1.0, 2.0], [3.0, 4.0]]))
    expected = {name: operation(w) for name, operation in OPERATIONS.items()}
    found: dict[str, Any] = {}

    def elsewhere() -> None:
        for name, operation in OPERATIONS.items():
            try:
                found[name] = operation(w)
            except Exception as error:
                found[name] = error

    def function(x: Any) -> Any:
        y = (x * w).exp()  # from here on `w` has no array of its own
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return y * w

    run = gw.compile(function, backend="numpy")
    x = gw.ones(2, 2)
    first = run(x)
    for name, value in expected.items():
        assert repr(found[name]) == repr(value), name
    np.testing.assert_allclose(first.detach().numpy(), ((x * w).exp() * w).detach().numpy(), 1e-6)
    assert len(run.newest.trace.program.calls) == 3  # and nothing of the other thread's


def test_another_thread_changes_a_tensor_in_place_during_a_trace() -> None:
    w = gw.ones(2)

    def change() -> None:
        w.add_(1)
        w[0] = 5.0
        w.mul_(2)

    def function(x: Any) -> Any:
        y = x * w
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
        return y

    run = gw.compile(function, backend="numpy", check=False)
    assert run(gw.ones(2)).tolist() == w.tolist() == [10, 4]
