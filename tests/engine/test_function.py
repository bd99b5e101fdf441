"""autograd.Function: operations with a backward of their own, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import gradwalk as gw
from tests.engine.both import assert_same, leaf


def once_differentiable(m: Any) -> Any:
    if m is torch:
        return torch.autograd.function.once_differentiable
    return m.autograd.once_differentiable


def make(m: Any, forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """A Function of two functions."""
    parts = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Made", (m.autograd.Function,), parts).apply


# -- saving --------------------------------------------------------------------------------------


def exponential(m: Any) -> Callable[..., Any]:
    def forward(ctx: Any, x: Any) -> Any:
        out = x.exp()
        ctx.save_for_backward(out)
        return out

    def backward(ctx: Any, g: Any) -> Any:
        (out,) = ctx.saved_tensors
        return g * out

    return make(m, forward, backward)


def cube(m: Any) -> Callable[..., Any]:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * g * x * x

    return make(m, forward, backward)


def saved_output(m: Any) -> Any:
    x = leaf(m)
    (exponential(m)(x) * 2).sum().backward()
    return x.grad


def saved_input(m: Any) -> Any:
    x = leaf(m)
    cube(m)(x * 2).sum().backward()
    return x.grad


def derivatives(m: Any, function: Callable[..., Any], order: int) -> Any:
    x = leaf(m)
    out, found = function(x).sum(), []
    for _ in range(order):
        (g,) = m.autograd.grad(out, x, create_graph=True)
        found.append(g.tolist())
        out = g.sum()
    return found


def third_derivatives_by_a_saved_output(m: Any) -> Any:
    return derivatives(m, exponential(m), 3)


def third_derivatives_by_a_saved_input(m: Any) -> Any:
    return derivatives(m, lambda x: cube(m)(x * x), 3)


def an_input_saved_twice(m: Any) -> Any:
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y, x)
        return x * y

    def backward(ctx: Any, g: Any) -> Any:
        _, y, again = ctx.saved_tensors
        return g * y, g * again

    x = leaf(m)
    function = make(m, forward, backward)
    return [
        m.autograd.grad(function(x, x).sum(), x),
        derivatives(m, lambda x: function(x, x * x), 3),
    ]


def nothing_saved(m: Any) -> Any:
    def forward(ctx: Any, x: Any, factor: float, *, power: int = 1) -> Any:
        ctx.factor = factor
        ctx.count = len(ctx.saved_tensors) if m is gw else 0
        return x * factor

    x = leaf(m)
    make(m, forward, lambda ctx, g: (g * ctx.factor, None))(x, 2.5).sum().backward()
    return x.grad


def saved_none(m: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x, None)
        return x * 2

    x = leaf(m)
    make(m, forward, lambda ctx, g: g * 2 if ctx.saved_tensors[1] is None else None)(
        x
    ).sum().backward()
    return x.grad


def saved_then_modified(m: Any) -> Any:
    x = leaf(m)
    h = x * 1
    out = cube(m)(h)
    h.add_(1)
    out.sum().backward()


def freed(m: Any) -> Any:
    out = cube(m)(leaf(m)).sum()
    out.backward()
    out.backward()


def retained(m: Any) -> Any:
    x = leaf(m)
    out = cube(m)(x).sum()
    out.backward(retain_graph=True)
    out.backward()
    return x.grad


# -- several outputs, missing gradients ----------------------------------------------------------


def two_outputs(m: Any) -> Any:
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y, x + y

    def backward(ctx: Any, one: Any, other: Any) -> Any:
        x, y = ctx.saved_tensors
        return one * y + other, one * x + other

    function = make(m, forward, backward)
    found = []
    for use in (lambda a, b: a.sum(), lambda a, b: (b * b).sum(), lambda a, b: (a * b).sum()):
        x, y = leaf(m), leaf(m, 1.0, 2.0, 3.0)
        use(*function(x, y)).backward()
        found.append([x.grad.tolist(), y.grad.tolist()])
    return found


def the_second_output_meets_a_leaf(m: Any) -> Any:
    function = make(m, lambda ctx, x: (x * 2, x * 3), lambda ctx, a, b: a * 2 + b * 3)
    x, y = leaf(m), leaf(m, 1.0, 2.0, 3.0)
    first, second = function(x)
    (y * second + second * y + second.tanh() + first).sum().backward()
    return [x.grad, y.grad]


def an_unused_output_gets_zeros(m: Any) -> Any:
    seen = []

    def backward(ctx: Any, a: Any, b: Any) -> Any:
        seen.append(b.tolist())
        return a + b

    make(m, lambda ctx, x: (x * 1, x * 2), backward)(leaf(m))[0].sum().backward()
    return seen


def an_unused_output_gets_none(m: Any) -> Any:
    seen = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    def backward(ctx: Any, a: Any, b: Any) -> Any:
        seen.append(b is None)
        return a

    make(m, forward, backward)(leaf(m))[0].sum().backward()
    return seen


def no_gradient_for_one_input(m: Any) -> Any:
    x, y = leaf(m), leaf(m)
    out = make(m, lambda ctx, x, y: x * 2 + y, lambda ctx, g: (g * 2, None))(x, y)
    out.sum().backward()
    return [x.grad, y.grad is None]


def trailing_nones(m: Any) -> Any:
    x = leaf(m)
    make(m, lambda ctx, x: x * 2, lambda ctx, g: (g * 2, None, None))(x).sum().backward()
    return x.grad


def too_few_gradients(m: Any) -> Any:
    x, y = leaf(m), leaf(m)
    make(m, lambda ctx, x, y: x * y, lambda ctx, g: g)(x, y).sum().backward()


def a_gradient_of_wrong_shape(m: Any) -> Any:
    make(m, lambda ctx, x: x * 2, lambda ctx, g: g[:2])(leaf(m)).sum().backward()


def needs_input_grad(m: Any) -> Any:
    seen = []

    def forward(ctx: Any, x: Any, y: Any, n: int) -> Any:
        seen.append(ctx.needs_input_grad)
        return x + y

    def backward(ctx: Any, g: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return g, None, None

    function = make(m, forward, backward)
    plain = m.ones(3, dtype=m.float64)
    function(leaf(m), plain, 3).sum().backward()
    return [list(s) for s in seen]


def an_output_without_gradient(m: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        signs = x.sign()
        ctx.mark_non_differentiable(signs)
        ctx.save_for_backward(signs)
        return x.abs(), signs

    def backward(ctx: Any, g: Any, _: Any) -> Any:
        return g * ctx.saved_tensors[0]

    x = leaf(m)
    size, signs = make(m, forward, backward)(x)
    (size * signs).sum().backward()
    return [signs.requires_grad, size.requires_grad, x.grad]


def integers_and_others_among_the_outputs(m: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2, x > 0, 7, "text", None

    x = leaf(m)
    out, mask, number, text, nothing = make(m, forward, lambda ctx, *g: g[0] * 2)(x)
    out.sum().backward()
    return [x.grad, mask, mask.requires_grad, number, text, nothing]


def the_input_itself(m: Any) -> Any:
    x = leaf(m)
    h = x * 1
    same = make(m, lambda ctx, x: x, lambda ctx, g: g * 10)(h)
    found = [same is h, same.tolist()]
    same.sum().backward()
    return [*found, x.grad, h.requires_grad]


# -- where it runs -------------------------------------------------------------------------------


def forward_records_nothing(m: Any) -> Any:
    seen = []

    def forward(ctx: Any, x: Any) -> Any:
        seen.append(((x * 2).requires_grad, m.is_grad_enabled()))
        return x * 2

    def backward(ctx: Any, g: Any) -> Any:
        seen.append(((g * 2).requires_grad, m.is_grad_enabled()))
        return g * 2

    x = leaf(m)
    out = make(m, forward, backward)(x).sum()
    out.backward(retain_graph=True)
    m.autograd.grad(out, x, create_graph=True)
    return seen


def without_anything_to_record(m: Any) -> Any:
    function = cube(m)
    with m.no_grad():
        inside = function(leaf(m))
    return [inside.requires_grad, function(m.ones(2)).requires_grad]


def once(m: Any) -> Any:
    x = leaf(m)
    backward = once_differentiable(m)(lambda ctx, g: g * 3)
    out = make(m, lambda ctx, x: x * 3, backward)(x * x).sum()
    out.backward()
    return x.grad


def once_but_asked_twice(m: Any) -> Any:
    x = leaf(m)
    backward = once_differentiable(m)(lambda ctx, g: g * 3)
    out = make(m, lambda ctx, x: x * 3, backward)(x * x).sum()
    (g,) = m.autograd.grad(out, x, create_graph=True)
    m.autograd.grad(g.sum(), x)


def no_backward(m: Any) -> Any:
    class Half(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    Half.apply(leaf(m)).sum().backward()


PROGRAMS = [
    saved_output, saved_input, third_derivatives_by_a_saved_output,
    third_derivatives_by_a_saved_input, an_input_saved_twice, nothing_saved, saved_none,
    saved_then_modified, freed, retained, two_outputs, the_second_output_meets_a_leaf,
    an_unused_output_gets_zeros, an_unused_output_gets_none, no_gradient_for_one_input,
    trailing_nones, too_few_gradients, a_gradient_of_wrong_shape, needs_input_grad,
    an_output_without_gradient, integers_and_others_among_the_outputs, the_input_itself,
    forward_records_nothing, without_anything_to_record, once, once_but_asked_twice, no_backward,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_in_pytorch(program: Callable[[Any], Any]) -> None:
    assert_same(program)


# -- what is ours --------------------------------------------------------------------------------


def test_a_list_of_outputs_is_as_good_as_a_tuple() -> None:
    """PyTorch returns the list without gradients, and says nothing."""
    x = leaf(gw)
    found = make(gw, lambda ctx, x: [x * 2, x * 3], lambda ctx, a, b: a * 2 + b * 3)(x)
    assert type(found) is list
    (found[0] + found[1]).sum().backward()
    assert x.grad.tolist() == [5.0] * 3


def test_the_gradient_that_backward_receives_cannot_be_changed_in_place() -> None:
    """In a + b the other term receives the same array."""
    doubled = make(gw, lambda ctx, x: x * 2, lambda ctx, g: g.mul_(2))
    for create_graph in (False, True):
        x, y = leaf(gw), leaf(gw)
        with pytest.raises(RuntimeError, match=r"\.clone\(\)"):
            gw.autograd.grad(((doubled(x) + y) * 2.0).sum(), [x, y], create_graph=create_graph)


def test_a_tensor_by_keyword_is_refused_because_its_gradient_would_be_lost() -> None:
    scaled = make(gw, lambda ctx, x, factor=1.0: x * factor, lambda ctx, g: g)
    assert scaled(leaf(gw), factor=2.0).requires_grad
    with pytest.raises(TypeError, match="'factor' needs a gradient"):
        scaled(leaf(gw), factor=leaf(gw))


def rectified(m: Any) -> Callable[..., Any]:
    """In place, as memory-saving activations are written."""

    def forward(ctx: Any, x: Any, factor: Any) -> Any:
        x.clamp_(min=0).mul_(factor)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x, factor)
        return x

    def backward(ctx: Any, g: Any) -> Any:
        y, factor = ctx.saved_tensors
        return g * (y > 0) * factor, (g * y).sum() / factor

    return make(m, forward, backward)


def changed_in_place(m: Any) -> Any:
    x, factor = leaf(m, -1.0, 2.0, 3.0), leaf(m, 5.0)
    y = x * 3
    beside, part = y * 1, y[1:]
    assert rectified(m)(y, factor[0]) is y
    ((y**2).sum() + beside.sum() + (part * y[:2]).sum()).backward()
    fixed = m.tensor([1.0, -1.0])
    assert rectified(m)(fixed, factor[0]) is fixed and fixed.requires_grad
    with m.no_grad():
        rectified(m)(y, factor[0])
    return [y.tolist(), fixed.tolist(), x.grad.tolist(), factor.grad.tolist()]


def test_an_input_changed_in_place() -> None:
    assert_same(changed_in_place)


def test_an_input_that_may_not_be_changed_in_place() -> None:
    call, factor = rectified(gw), gw.tensor(2.0)
    with pytest.raises(gw.AutogradError, match=r"(?s)Made.forward changed .* a leaf.*\.clone\(\)"):
        call(leaf(gw, 1.0), factor)
    with pytest.raises(NotImplementedError, match=r"(?s)shares memory.*\.clone\(\)"):
        call((leaf(gw, 1.0, 2.0) * 1)[:1], factor)
    x = leaf(gw, 1.0)
    with pytest.raises(gw.AutogradError, match="modified in place"):
        call(x.exp(), factor).sum().backward()


def test_backward_may_return_arrays_and_numbers() -> None:
    x = leaf(gw, 1.0, 2.0)
    make(gw, lambda ctx, x: x * 2, lambda ctx, g: g.numpy() * 2)(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_forward_mode_goes_through_the_transposed_backward(order: int) -> None:
    function = cube(gw)
    for _ in range(order - 1):
        function = lambda x, inner=function: gw.jvp(inner, (x,), (gw.ones(*x.shape),))[1]
    _, moved = gw.jvp(function, (leaf(gw),), (leaf(gw, 1.0, 1.0, 1.0).detach(),))
    slopes = {1: lambda v: 3 * v * v, 2: lambda v: 6 * v, 3: lambda v: 6.0}
    assert moved.tolist() == [slopes[order](v) for v in (0.5, -1.5, 2.0)]


def test_second_derivatives_through_a_function_in_a_checkpoint() -> None:
    found = []
    for run in (lambda f, x: f(x), gw.checkpoint):
        x, w = leaf(gw), leaf(gw, 1.0, 2.0, 3.0)
        inside = lambda t, w=w: exponential(gw)(cube(gw)(t * 0.5) * w)
        (g,) = gw.autograd.grad(run(inside, x * 1).sum(), x, create_graph=True)
        found.append([t.tolist() for t in gw.autograd.grad((g * g).sum(), [x, w])])
    assert found[0] == found[1]


class Scaled(gw.autograd.Function):
    """PyTorch's second style: forward takes no ctx."""

    @staticmethod
    def forward(x: Any, scale: float = 3.0) -> Any:
        return x * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, ctx.scale = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, out = ctx.saved_tensors
        return g * out / x, None


def test_a_forward_without_ctx_takes_notes_in_setup_context() -> None:
    x = gw.tensor([2.0, 4.0], requires_grad=True)
    Scaled.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    x.grad = None
    Scaled.apply(x, 5.0).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_vjp_is_another_name_of_backward() -> None:
    class Doubled(gw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def vjp(ctx: Any, g: Any) -> Any:
            return g * 2

    class Both(Doubled):
        backward = Doubled.vjp

    x = gw.tensor(1.0, requires_grad=True)
    Doubled.apply(x).backward()
    assert x.grad.item() == 2.0
    with pytest.raises(TypeError, match="both backward and vjp"):
        Both.apply(x).backward()


def test_a_gradient_of_a_broadcast_input_is_summed() -> None:
    """As in PyTorch: a backward written for operands of one shape is right for others, too."""

    class Product(gw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * y, g * x

    for shape in ((), (3,), (1, 3), (2, 1)):
        x, y = gw.ones(*shape, requires_grad=True), gw.arange(6.0).reshape(2, 3)
        Product.apply(x, y).sum().backward()
        expected = y.sum_to_size(shape)
        assert x.grad.shape == shape and gw.equal(x.grad, expected)
        given = x.detach().double().requires_grad_(), y.double()
        assert gw.gradgradcheck(Product.apply, given)
