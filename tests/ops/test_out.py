"""`out=` writes a result into a tensor that the caller has, as in PyTorch."""

from __future__ import annotations

import pytest
import torch

import gradwalk as gw


@pytest.mark.parametrize("name", ["add", "mul", "maximum"])
def test_ops_write_into_out(name: str) -> None:
    x, y = gw.randn(3, 3), gw.randn(3, 3)
    out = gw.zeros(3, 3)
    view = out[:]
    found = getattr(gw, name)(x, y, out=out)
    expected = getattr(torch, name)(torch.tensor(x.tolist()), torch.tensor(y.tolist()))
    assert found is out
    torch.testing.assert_close(torch.tensor(view.tolist()), expected)


def test_functions_write_into_out() -> None:
    x = gw.tensor([[3.0, 1.0], [2.0, 5.0]])
    total = gw.empty(0)
    assert gw.sum(x, 0, out=total) is total
    assert total.tolist() == [5.0, 6.0]
    values, indices = gw.zeros(2), gw.zeros(2, dtype=gw.int64)
    found = gw.max(x, 1, out=(values, indices))
    assert found.values is values
    assert (values.tolist(), indices.tolist()) == ([3.0, 5.0], [0, 1])


def test_an_out_that_does_not_fit_is_refused() -> None:
    x = gw.ones(3)
    with pytest.warns(UserWarning, match="gets other memory"):
        assert gw.add(x, 1, out=gw.zeros(2)).tolist() == [2, 2, 2]
    with pytest.raises(TypeError, match="does not fit an out of int64"):
        gw.add(x, 1, out=gw.zeros(3, dtype=gw.int64))
    with pytest.raises(TypeError, match="must be a tensor"):
        gw.add(x, 1, out=[0.0] * 3)
    with pytest.raises(RuntimeError, match="has no gradient"):
        gw.add(gw.ones(3, requires_grad=True), 1, out=gw.zeros(3))
