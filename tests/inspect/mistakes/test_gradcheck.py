"""gradcheck passes what is right, and says of each wrong rule what is wrong with it."""

import re

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import Value
from gradwalk.inspect.mistakes.gradcheck import GradcheckError, gradcheck, gradgradcheck

Function = gw.autograd.Function


def leaf(data, dtype=gw.float64):
    return gw.tensor(data, dtype=dtype, requires_grad=True)


def vector():
    return leaf([0.5, -2.0, 1.5])


def matrix(rows=2, columns=3):
    return leaf(np.random.default_rng(rows * 10 + columns).normal(size=(rows, columns)))


def failure(func, *inputs, check=gradcheck, **options):
    assert not check(func, inputs, raise_exception=False, **options)
    with pytest.raises(GradcheckError) as caught:
        check(func, inputs, **options)
    text = str(caught.value)
    assert all(len(line) <= 100 for line in text.split("\n") if ".py:" not in line), text
    return text, caught.value.diagnosis


def custom(forward, backward):
    """A Function of one input from two plain functions; backward gets g and what was saved."""

    class Custom(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    return Custom.apply


# -- right ones ------------------------------------------------------------------------------------


def test_right_functions_pass():
    assert gradcheck(gw.tanh, vector()) is True
    assert gradcheck(lambda x, w: gw.tanh(x @ w) / 2, (matrix(2, 3), matrix(3, 2)))
    assert gradgradcheck(lambda x, w: gw.tanh(x @ w) / 2, (matrix(2, 3), matrix(3, 2)))
    assert gradcheck(lambda x: gw.softmax(x, -1), [matrix()])
    assert gradgradcheck(lambda x: gw.softmax(x, -1), matrix())


def test_several_outputs_integer_outputs_and_other_arguments():
    def func(x, exponent, nothing, fixed):
        largest, where = (x * fixed).max(1)
        return x**exponent, largest, where

    assert gradcheck(func, (matrix(), 3, None, gw.tensor([1.0, 2.0, 3.0], dtype=gw.float64)))
    assert gradgradcheck(func, (matrix(), 3, None, gw.tensor([1.0, 2.0, 3.0], dtype=gw.float64)))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1, 1)])
def test_shapes_at_the_edge(shape):
    x = leaf(np.full(shape, 0.7))
    assert gradcheck(lambda x: x * gw.exp(x), x)
    assert gradgradcheck(lambda x: x * gw.exp(x), x)


def test_inputs_are_nudged_in_place_and_put_back():
    x, bias = vector(), leaf([1.0])
    before = x.detach().clone()
    assert gradcheck(lambda *_: gw.exp(x) * bias, (x, bias))  # func reads them from around it
    assert (x.detach() == before).all()
    assert x.grad is None

    def breaks(x):
        if x[1].item() != -2.0:
            raise KeyError("on the second call")
        return x * 2

    with pytest.raises(KeyError):
        gradcheck(breaks, x)
    assert (x.detach() == before).all()


def test_views_and_results_as_inputs():
    base = matrix(3, 2)
    assert gradcheck(lambda x: gw.sin(x), base.mT)
    assert gradcheck(lambda x: gw.sin(x), base * 2)
    assert gradcheck(lambda x: gw.sin(x), leaf(np.arange(6.0)[::-2]))


def test_works_inside_no_grad():
    with gw.no_grad():
        assert gradcheck(gw.sin, vector())
        assert gradgradcheck(gw.sin, vector())


def test_values_and_their_gradients_are_left_alone():
    a, b, outside = Value(2.0, label="a"), Value(-3), Value(4.0)
    a.grad = 5.0
    outside.grad = 7.0
    assert gradcheck(lambda a, b: (a * b + outside.exp(), a**2 / b), (a, b))
    assert (a.data, a.grad, b.data, b.grad, outside.grad) == (2.0, 5.0, -3, 0, 7.0)
    assert type(b.data) is int


def test_grad_outputs_of_ones_own():
    weights = gw.ones(3, dtype=gw.float64)
    assert gradgradcheck(lambda x: x**3, vector(), weights)
    assert gradgradcheck(lambda x: x**3, vector(), (leaf([1.0, 0.0, 2.0]),))


def test_linear_functions_have_no_second_derivative():
    assert gradgradcheck(lambda x: 3 * x, vector())
    assert gradgradcheck(lambda x: gw.tensor([1.0], dtype=gw.float64), vector())


# -- what cannot be checked ------------------------------------------------------------------------


def test_nothing_to_check():
    with pytest.raises(
        ValueError, match=r"none of the inputs requires a gradient.*\n.*requires_gr"
    ):
        gradcheck(gw.sin, gw.ones(2))
    with pytest.raises(ValueError, match="gradgradcheck: none of the inputs"):
        gradgradcheck(gw.sin, gw.ones(2))
    with pytest.raises(ValueError, match="no floating-point output"):
        gradcheck(lambda x: x.argmax(), vector())
    with pytest.raises(TypeError, match=r"returned a float, which carries no gradient.*item\(\)"):
        gradcheck(lambda x: x.sum().item(), vector())


def test_shared_memory():
    with pytest.raises(ValueError, match=r"input 0, of shape \(3, 4\).*share memory.*\n.*clone"):
        gradcheck(gw.sin, leaf([[1.0], [2.0], [3.0]]).expand(3, 4))


def test_second_derivatives_of_values():
    with pytest.raises(TypeError, match="gradgradcheck needs tensors"):
        gradgradcheck(lambda a: a * a, Value(2.0))


# -- the message -----------------------------------------------------------------------------------


def test_message_names_the_place_and_both_numbers():
    x = matrix()
    x.label = "pixels"
    wrong = gw.elementwise("wrong_exp", np.exp, partials=[lambda out: -out])

    def func(y, x):
        return y * 1, wrong(x).sum(1)

    text, _ = failure(func, vector(), x)
    index = np.unravel_index(np.argmax(x.detach().numpy()), x.shape)  # where exp is largest
    number = np.exp(x.detach().numpy()[index])
    lines = text.split("\n")
    assert lines[0] == "gradcheck: the derivative of output 1 in input 1 is wrong."
    assert "  input 1:       'pixels', shape (2, 3)" in lines
    assert "  output 1:      shape (2,)" in lines
    row, column = map(int, index)
    assert f"  worst element: d output 1[{row}] / d input 1[{row}, {column}]" in lines
    assert f"  analytic:      {-number:.6g}  (backward)" in lines
    assert f"  numeric:        {number:.6g}  (central differences, eps = 1e-06)" in lines
    assert "  wrong:         6 of 12 elements, by more than 1e-05 + 0.001 × |numeric|" in lines
    assert "Diagnosis: wrong sign" in text


def test_message_names_the_other_wrong_pairs():
    wrong = gw.elementwise("wrong_mul", np.multiply, partials=[lambda y: -y, lambda x: -x])
    text, _ = failure(lambda x, y: (wrong(x, y), y * 2), vector(), leaf([5.0, 7.0, 9.0]))
    assert "the derivative of output 0 in input 0 is wrong" in text
    assert "also wrong:    output 0 in input 1" in text


def test_message_names_the_op_at_fault_and_judges_it_alone():
    wrong = gw.elementwise("wrong_sin", np.sin, partials=[lambda x: -gw.cos(x)])
    x = vector()
    text, diagnosis = failure(lambda x: (wrong(x * x) * gw.exp(x) + x).sum(), x)
    assert diagnosis.startswith("wrong sign")  # mixed with the rest it is no sign any more
    assert "The rule at fault: that of op 'wrong_sin', gradient for its input 0, called at" in text
    assert "test_gradcheck.py" in text.split("called at")[1]
    assert "(wrong(x * x) * gw.exp(x) + x).sum()" in text
    assert wrong(x).detach().numpy() == pytest.approx(np.sin(x.detach().numpy()))  # left in order


def test_message_of_a_second_derivative():
    text, diagnosis = failure(
        custom(lambda x: x**3, lambda g, x: g * 3 * x.detach() ** 2), vector(), check=gradgradcheck
    )
    assert "gradgradcheck: the derivative of the gradient of input 0 in input 0 is wrong" in text
    assert diagnosis.startswith("missing")
    assert "Custom.backward, second derivative for its input 0" in text


def test_close_numbers_are_told_apart():
    slightly = gw.elementwise("slightly", np.sin, partials=[lambda x: gw.cos(x) * 1.0000001])
    text, _ = failure(slightly, leaf(1.0), rtol=1e-9, atol=1e-9)
    shown = [
        line.split()[1] for line in text.split("\n") if "analytic:" in line or "meric:" in line
    ]
    assert len(set(shown)) == 2


# -- each diagnosis --------------------------------------------------------------------------------


def test_wrong_sign():
    text, diagnosis = failure(custom(gw.cos, lambda g, x: g * gw.sin(x)), vector())
    assert diagnosis.startswith("wrong sign: backward gives the negative of the derivative.")
    assert "Custom.backward, gradient for its input 0" in text


@pytest.mark.parametrize(
    "forward, backward, said",
    [
        (lambda x: x * x, lambda g, x: 4 * x * g, "2 times the derivative: a contribution is coun"),
        (gw.square, lambda g, x: x * g, "1/2 times the derivative: a factor 2 is missing, or"),
        (gw.square, lambda g, x: x * g, "overwritten (= instead of +=)"),
        (lambda x: x**3, lambda g, x: x * x * g, "1/3 times the derivative: 3 is the size of"),
        (lambda x: x.mean(), lambda g, x: g.expand(3), "input axis 0: summed where the forward ta"),
        (lambda x: x.sum(), lambda g, x: g.expand(3) / 3, "averaged instead of summed"),
        (lambda x: x.var(), lambda g, x: (x - x.mean()) * g * (2 / 3), "takes n for n - 1"),
        (lambda x: gw.log(x * x) / 3, lambda g, x: g / x / 1.5 / np.log(2), "base 2"),
        (gw.sin, lambda g, x: -2 * gw.cos(x) * g, "wrong sign and a constant factor"),
        (gw.sin, lambda g, x: 0.7317 * gw.cos(x) * g, "0.7317 times the derivative, ev"),
    ],
)  # fmt: skip
def test_constant_factor(forward, backward, said):
    _, diagnosis = failure(custom(forward, backward), vector())
    assert "constant factor" in diagnosis
    assert said in diagnosis


def test_a_factor_between_two_single_numbers_is_not_claimed():
    text, diagnosis = failure(custom(gw.sin, lambda g, x: 0.7317 * gw.cos(x) * g), leaf(1.0))
    assert "factor" not in diagnosis
    assert "does not match the forward" in diagnosis
    assert "Custom.backward" in text


def test_transposed():
    square, oblong = matrix(3, 3), matrix(2, 3)
    x = gw.tensor([[1.0, 2.0, 5.0], [3.0, 7.0, 4.0], [1.0, 0.0, 2.0]], dtype=gw.float64)
    _, diagnosis = failure(custom(lambda w: x @ w, lambda g, w: (x.mT @ g).mT), square)
    assert diagnosis.startswith("transposed: the gradient is the transpose of what it should be.")
    _, diagnosis = failure(custom(lambda w: w.mT * 1, lambda g, w: g.reshape(2, 3)), oblong)
    assert diagnosis.startswith("transposed: the gradient has the elements of the transpose, resh")
    wrong = gw.define("wrong_matmul", np.matmul, inputs=("x", "y"),
                      vjp=[lambda g, y: g @ y, lambda g, x: x.mT @ g])  # fmt: skip
    text, diagnosis = failure(wrong, square, matrix(3, 3) * 2)
    assert diagnosis.startswith("transposed: backward multiplies by the Jacobian instead of its t")
    assert "that of op 'wrong_matmul', gradient for its input 0" in text


def test_swapped_axes():
    cube = leaf(np.random.default_rng(0).normal(size=(2, 3, 3)))
    _, diagnosis = failure(custom(lambda x: x**2, lambda g, x: (2 * x * g).mT), cube)
    assert diagnosis.startswith("transposed: axes 1 and 2 of the gradient are swapped")


@pytest.mark.parametrize("kept, index", [(lambda g: g[0], 0), (lambda g: g[-1], 3)])
def test_not_summed_over_a_broadcast_axis(kept, index):
    rows = gw.ones(4, 3, dtype=gw.float64)
    _, diagnosis = failure(custom(lambda b: b + rows, lambda g, b: kept(g)), vector())
    assert diagnosis.startswith(
        f"not summed over a broadcast axis: only index {index} of output axis 0 reaches the input."
    )


def test_averaged_over_a_broadcast_axis():
    rows = gw.ones(4, 3, dtype=gw.float64)
    _, diagnosis = failure(custom(lambda b: b + rows, lambda g, b: g.mean(0)), vector())
    assert "1/4 times the derivative: 4 is the size of output axis 0: averaged instead" in diagnosis
    assert "backward pass of a broadcast is a sum" in diagnosis


def test_summed_where_each_element_has_its_own():
    wrong = custom(gw.exp, lambda g, x: (g * gw.exp(x)).sum(1, keepdim=True).expand(2, 3))
    _, diagnosis = failure(wrong, matrix())
    assert diagnosis.startswith("summed over input axis 1 and passed to every element alike")
    wrong = custom(gw.exp, lambda g, x: (g * gw.exp(x)).mean(0, keepdim=True).expand(2, 3))
    assert failure(wrong, matrix())[1].startswith("averaged over input axis 0")


def test_reversed():
    weights = gw.tensor([1.0, 2.0, 5.0], dtype=gw.float64)
    _, diagnosis = failure(custom(lambda x: (x * weights).sum(), lambda g, x: g * weights.flip(0)),
                           vector())  # fmt: skip
    assert diagnosis.startswith("reversed: the gradient runs backwards along input axis 0")


def test_overwritten_among_the_uses_in_a_forward():
    poly = custom(lambda x: x**3 + 5 * x, lambda g, x: g * 5)
    _, diagnosis = failure(lambda x: gw.tanh(poly(x)).sum(), vector())
    assert diagnosis.startswith(
        "overwritten instead of accumulated: it receives 2 contributions from mul#"
    )
    lost, kept = diagnosis.split(" is lost. ")
    assert re.search(r"that of power#\d+ \(test_gradcheck.py:\d+: .*x\*\*3 \+ 5 \* x", lost)
    assert re.match(r"mul#\d+ \(test_gradcheck.py:.*assigns \(=\) where it must add", kept)


def test_overwritten_by_index():
    picked = [0, 0, 2, 0]

    def backward(g, x):
        found = np.zeros(3)
        found[picked] = g.numpy()
        return gw.from_numpy(found)

    _, diagnosis = failure(custom(lambda x: x[picked], backward), vector())
    assert diagnosis.startswith("overwritten instead of accumulated: several output elements come")


def test_overwritten_by_a_backward_of_values():
    def diamond(a):
        b = Value(a.data + 1, (a,), "+1")
        c = Value(a.data * 3, (a,), "×3")

        def back_b():
            a.grad = b.grad

        def back_c():
            a.grad = c.grad * 3

        b._backward, c._backward = back_b, back_c
        return b * c

    a = Value(2.0, label="a")
    _, diagnosis = failure(diamond, a)
    assert diagnosis.startswith("overwritten instead of accumulated: it receives 9 + 6 = 15 from")
    assert "but its gradient is 6: that of ×3#2 (test_gradcheck.py:" in diagnosis
    assert re.search(r"\+1#1 \(test_gradcheck.py:\d+: b = .*\) assigns \(=\)", diagnosis)
    assert "The gradient at fault: that of 'a', made at\n    test_gradcheck.py:" in diagnosis
    assert a.grad == 0


def test_overwritten_within_one_visit():
    def square(a):
        out = Value(a.data * a.data, (a, a), "square")

        def back():
            a.grad = a.data * out.grad
            a.grad = a.data * out.grad

        out._backward = back
        return out

    _, diagnosis = failure(square, Value(3.0))
    assert diagnosis.startswith("overwritten instead of accumulated: a _backward assigns (=)")
    assert "that of square, made at\n    test_gradcheck.py:" in diagnosis


def test_a_hook_that_replaces_a_gradient():
    def hooked(x):
        h = x * 2
        h.register_hook(lambda g: g * 3)
        return h.sin()

    _, diagnosis = failure(hooked, vector())
    assert diagnosis.startswith("its gradient is not what was pushed to it: a hook has replaced it")
    assert diagnosis.endswith("h = x * 2")


def test_overwritten_deeper_down():
    def deep(x):
        a = x * 1

        def scaled(factor):
            out = Value(a.data * factor, (a,), "scaled")

            def back():
                a.grad = out.grad * factor

            out._backward = back
            return out

        return scaled(2) * scaled(5)

    _, diagnosis = failure(deep, Value(3.0))
    assert "it receives 30 + 30 = 60 from" in diagnosis
    made = diagnosis.split("The gradient at fault: that of 'mul#2', made at\n")[1]
    assert made.strip().startswith("test_gradcheck.py:") and made.endswith("a = x * 1")


def test_wrong_op_on_values():
    wrong = gw.elementwise("wrong_square", lambda x: x * x, partials=[lambda x: x])
    text, diagnosis = failure(lambda a: wrong(a) + a, Value(3.0))
    assert "1/2 times the derivative: a factor 2 is missing" in diagnosis
    assert "op 'wrong_square'" in text


def test_missing():
    _, diagnosis = failure(lambda x: x.detach() * 2, vector())
    assert diagnosis.startswith("missing: backward gives no gradient although the output changes")
    assert "detach()" in diagnosis and "no_grad()" in diagnosis
    assert failure(custom(gw.sin, lambda g, x: None), vector())[1].startswith("missing")


def test_an_output_cut_off_counts_as_zero():
    text, diagnosis = failure(lambda x: (x * 2, x.detach() * 3), vector())
    assert "the derivative of output 1 in input 0 is wrong" in text
    assert diagnosis.startswith("missing")


def test_missing_in_part():
    def diagonal(g, x):
        out = gw.softmax(x, -1)
        return g * out * (1 - out)

    _, diagnosis = failure(custom(lambda x: gw.softmax(x, -1), diagonal), vector())
    assert diagnosis.startswith("missing in part: only the diagonal of the Jacobian is there.")
    keep = gw.tensor([1.0, 0.0, 1.0], dtype=gw.float64)
    _, diagnosis = failure(custom(gw.sin, lambda g, x: g * keep * gw.cos(x)), vector())
    assert (
        "backward gives 0 for 1 of 9 elements, the first at (1, 1); the others are right"
        in diagnosis
    )


def test_too_much():
    _, diagnosis = failure(custom(gw.relu, lambda g, x: g), vector())
    assert diagnosis.startswith("too much: 1 of 9 elements get a gradient though")
    assert "A mask is missing" in diagnosis
    _, diagnosis = failure(
        custom(lambda x: gw.zeros(3, dtype=gw.float64), lambda g, x: g), vector()
    )
    assert diagnosis.startswith("too much: the output does not change with this input")


def test_not_finite():
    wrong = custom(lambda x: gw.where(x > 0, gw.sqrt(x), 0.0), lambda g, x: g / (2 * gw.sqrt(x)))
    _, diagnosis = failure(wrong, vector())
    assert diagnosis.startswith("not finite: backward gives NaN for 3 of 9 elements where")
    assert failure(gw.log, leaf([0.0, 1.0]))[1].startswith("not finite: the function itself gives")


def test_float32_input():
    _, diagnosis = failure(gw.tanh, leaf([0.5, -2.0], gw.float32))
    first = "float32 input: at eps = 1e-06 the differences are mostly rounding."
    assert diagnosis.startswith(first)
    assert "in float64 the check passes: use dtype=gradwalk.float64" in diagnosis


def test_float32_input_and_a_wrong_rule():
    wrong = gw.elementwise("wrong_tanh", np.tanh, partials=[lambda out: out * out - 1])
    _, diagnosis = failure(wrong, leaf([0.5, -2.0], gw.float32))
    assert diagnosis.startswith("wrong sign")


def test_float32_that_cannot_be_widened():
    def narrow(x):
        if x.dtype != gw.float32:
            raise TypeError("float32 only")
        return gw.tanh(x)

    _, diagnosis = failure(narrow, leaf([0.5, -2.0], gw.float32))
    assert diagnosis.startswith("float32 input") and "passes" not in diagnosis


def test_float32_inside():
    _, diagnosis = failure(lambda x: gw.tanh(x.float()), vector())
    assert diagnosis.startswith("float32 inside: the inputs are float64 but this output is float32")


@pytest.mark.parametrize("x, below, above", [(0.0, "0", "1"), (4e-7, "0.4", "1")])
def test_kink(x, below, above):
    _, diagnosis = failure(gw.relu, leaf([1.0, x, -1.0]))
    assert diagnosis.startswith("a kink within eps = 1e-06 of this input, not a wrong rule")
    assert f"the slope is {below} just below it and {above} just above" in diagnosis


def test_rounding():
    _, diagnosis = failure(lambda x: gw.sin(x) + 1e9, vector())
    assert diagnosis.startswith("rounding, not a wrong rule: the output is so large")


def test_jump():
    _, diagnosis = failure(lambda x: gw.floor(x) * x, leaf([1.0, 0.5]))
    assert diagnosis.startswith("a jump within eps")


def test_a_wrong_rule_is_not_excused_by_a_kink_elsewhere():
    wrong = gw.elementwise("wrong_relu", lambda x: np.maximum(x, 0.0),
                           vjp=[lambda g, out: gw.where(out > 0, -g, 0)])  # fmt: skip
    text, diagnosis = failure(wrong, leaf([0.0, 2.0, 3.0, -1.0]))
    assert diagnosis.startswith("wrong sign")
    assert "worst element: d output 0[0]" not in text


def test_not_deterministic():
    random = np.random.default_rng(0)
    text, diagnosis = failure(lambda x: x * float(random.normal()), vector())
    assert diagnosis.startswith("not deterministic: two calls with the same inputs")
    assert text.startswith("gradcheck: func is not deterministic")
    assert gradcheck(lambda x: x * (1 + 1e-13 * float(random.random())), vector(), nondet_tol=1e-9)
    _, diagnosis = failure(custom(gw.sin, lambda g, x: g * float(random.normal())), vector())
    assert diagnosis.startswith("not deterministic: a second run of backward gives")
