"""The `_foreach_` functions, which optimizers of third parties call, compute what PyTorch's do."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch as pytorch

import gradwalk as gw

# Each is evaluated with two lists of tensors, a and b, which it may change.
CALLS = """
    torch._foreach_add(a, b), torch._foreach_add(a, 2), torch._foreach_add(a, [1, 2])
    torch._foreach_add(a, b, alpha=0.5), torch._foreach_sub(a, b), torch._foreach_mul(a, b)
    torch._foreach_mul(a, torch.tensor(3.0)), torch._foreach_div(a, [2.0, 4.0])
    torch._foreach_norm(a), torch._foreach_norm(a, 1), torch._foreach_max(a)
    torch._foreach_maximum(a, b), torch._foreach_maximum(a, 2.0), torch._foreach_minimum(a, 2.0)
    torch._foreach_pow(a, 2), torch._foreach_pow(2.0, b), torch._foreach_sqrt(a)
    torch._foreach_lerp(a, b, 0.25), torch._foreach_lerp(a, b, b), torch._foreach_neg(a)
    torch._foreach_addcmul(a, b, b), torch._foreach_addcmul(a, b, b, value=2)
    torch._foreach_addcdiv(a, b, b, [0.5, 2.0])
    torch._foreach_addcdiv(a, b, b, torch.tensor([0.5, 2.0]))
    torch._foreach_add_(a, b, alpha=2), torch._foreach_mul_(a, 0.5), torch._foreach_sqrt_(a), a
    torch._foreach_addcmul_(a, b, b, 2), torch._foreach_addcdiv_(a, b, b, value=-1), a
    torch._foreach_lerp_(a, b, weight=0.1), torch._foreach_maximum_(a, b), a
    torch._foreach_maximum_(a, 1.5), torch._foreach_clamp_max_(a, 3.0), a
    torch._foreach_copy_(a, b), torch._foreach_div_(a, [2.0, 4.0]), torch._foreach_zero_(b), a, b
"""


@pytest.mark.parametrize("call", [call.strip() for call in CALLS.strip().split("\n")])
def test_a_call_gives_pytorchs_numbers(call: str) -> None:
    assert numbers(call, gw) == numbers(call, pytorch)


def numbers(call: str, torch: ModuleType) -> Any:
    a = [torch.tensor([1.0, 3.0]), torch.tensor([[4.0]])]
    b = [torch.tensor([2.0, -1.0]), torch.tensor([[0.5]])]
    return rounded(eval(call, {"torch": torch, "a": a, "b": b}))


def rounded(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    return [round(number, 5) for number in value.flatten().tolist()]


def test_names_that_pytorch_does_not_have() -> None:
    for name in (
        "_foreach_norm_",
        "_foreach_max_",
        "_foreach_copy",
        "_foreach_matmul",
        "_foreach_",
    ):
        assert not hasattr(gw, name)
    with pytest.raises(RuntimeError, match="of one length"):
        gw._foreach_add([gw.ones(1)], [1, 2])


def test_tensors_are_grouped_by_device_and_dtype() -> None:
    def grouped(torch: ModuleType) -> Any:
        module = __import__(f"{torch.__name__}.utils._foreach_utils", fromlist=["x"])
        a = [torch.ones(1), torch.ones(2, dtype=torch.float64), torch.ones(3)]
        lists = [a, [None, a[1], a[2]], []]
        groups = module._group_tensors_by_device_and_dtype(lists, with_indices=True)
        return sorted(
            (
                str(dtype)[-7:],
                positions,
                [[t if t is None else t.tolist() for t in one] for one in lists],
            )
            for (_, dtype), (lists, positions) in groups.items()
        )

    assert grouped(gw) == grouped(pytorch)
