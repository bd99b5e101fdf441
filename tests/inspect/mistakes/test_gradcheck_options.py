"""What PyTorch's gradcheck is asked for besides: forward mode, and options that change nothing."""

from __future__ import annotations

from typing import Any

import pytest

import gradwalk as gw
from gradwalk.inspect.mistakes.gradcheck import GradcheckError


def leaf(*numbers: Any) -> Any:
    dtype = gw.complex128 if isinstance(numbers[0], complex) else gw.float64
    return gw.tensor(numbers, dtype=dtype, requires_grad=True)


class WrongForward(gw.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx: Any, moves: Any) -> Any:
        return moves * ctx.saved_tensors[0]


def test_forward_mode_is_checked() -> None:
    x = leaf(0.5, -2.0)
    ones = leaf(1.0, 1.0).detach()
    ways = (lambda x: (x.tanh() * x, x.max(0).values, x.argmax()), lambda x: x.sum() * ones)
    for way in ways:
        assert gw.gradcheck(way, x, check_forward_ad=True)
    z = leaf(0.5 + 1j, -2.0 + 0.3j)
    assert gw.gradcheck(lambda z: (z * z, z.abs(), gw.fft.fft(z)), z, check_forward_ad=True)
    assert gw.gradcheck(WrongForward.apply, x)
    with pytest.raises(GradcheckError, match=r"tangent of output 0 is wrong(.*\n)+.*central"):
        gw.gradcheck(WrongForward.apply, x, check_forward_ad=True)
    assert not gw.gradcheck(
        WrongForward.apply, x, check_forward_ad=True, check_backward_ad=False, raise_exception=False
    )
    with pytest.raises(TypeError, match="of tensors, not of Values"):
        gw.gradcheck(lambda a: a * a, gw.Value(2.0), check_forward_ad=True)


def test_backward_alone_is_what_is_checked_without_being_asked() -> None:
    wrong = gw.elementwise("wrong_for_options", lambda x: x * x, partials=[lambda x: x])
    x = leaf(0.5, -2.0)
    assert not gw.gradcheck(wrong, x, raise_exception=False)
    assert gw.gradcheck(wrong, x, check_backward_ad=False)


def test_options_of_pytorch_are_accepted() -> None:
    x = leaf(0.5, -2.0)
    options: dict[str, Any] = dict(fast_mode=True, check_undefined_grad=False, masked=False)
    assert gw.autograd.gradcheck(gw.tanh, x, check_batched_grad=True, **options)
    assert gw.autograd.gradgradcheck(gw.tanh, x, gen_non_contig_grad_outputs=True, **options)
    for check in (gw.gradcheck, gw.gradgradcheck):
        with pytest.raises(TypeError, match="unexpected keyword argument 'fastmode'"):
            check(gw.tanh, x, fastmode=True)
