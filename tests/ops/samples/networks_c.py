"""Sample calls of the ops behind `nn.functional`: convolution, pooling, normalisation, losses."""

from __future__ import annotations

from typing import Any

from gradwalk.ops.index.embedding import sum_rows
from gradwalk.ops.network.convolution import conv_weight
from gradwalk.ops.network.pooling import gather_last, pool_spread, scatter_last
from gradwalk.ops.network.recurrent import gru_op, lstm_op, rnn_op
from tests.ops.samples.table import Structural, floats, given, integers

table = Structural()
add = table.add


def functional(name: str, **options: Any) -> Any:
    """The function of nn.functional with these options, in either engine."""
    return lambda m, *inputs: getattr(m.nn.functional, name)(*inputs, **options)


# -- convolution ----------------------------------------------------------------------------------

for options in (
    {},
    {"stride": 2},
    {"padding": 1},
    {"padding": "same"},
    {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)},
):
    add("conv", functional("conv2d", **options), floats(2, 2, 5, 6), floats(3, 2, 3, 2))
add("conv", functional("conv2d", groups=2), floats(2, 4, 4, 4), floats(6, 2, 2, 3))
add("conv", functional("conv2d"), floats(2, 3, 4, 4), floats(2, 3, 1, 1))
add("conv", functional("conv2d", stride=2), floats(2, 9, 4, 4), floats(2, 9, 2, 2))
add("conv", functional("conv1d", padding=2, dilation=2), floats(2, 2, 7), floats(3, 2, 3))
add("conv", functional("conv3d", stride=2), floats(1, 2, 4, 5, 3), floats(2, 2, 2, 2, 2))
add("conv", functional("conv2d"), floats(4, 3, 4), floats(3, 4, 2, 2))
add("conv_bias", functional("conv2d", padding=1), floats(2, 2, 4, 3), floats(3, 2, 3, 2), floats(3))
add("conv_bias", functional("conv1d", groups=2), floats(2, 4, 5), floats(2, 2, 2), floats(2))
transposed = functional("conv_transpose2d", stride=2, padding=1, output_padding=1)
add("conv_input", transposed, floats(2, 2, 3, 3), floats(2, 3, 3, 2))
add("conv_input", functional("conv_transpose2d"), floats(2, 2, 3, 3), floats(2, 9, 2, 2))
grouped = functional("conv_transpose1d", groups=2, dilation=2, output_padding=1)
add("conv_input", grouped, floats(2, 4, 5), floats(4, 2, 3))


def weight_gradient(m: Any, x: Any, y: Any) -> Any:
    attrs = {"stride": (2,), "padding": ((1, 1),), "dilation": (1,), "groups": 1}
    return conv_weight(x, y, kernel=(3,), **attrs)


def weight_gradient_in_torch(m: Any, x: Any, y: Any) -> Any:
    patches = m.nn.functional.pad(x, (1, 1)).unfold(2, 3, 2)[:, :, : y.shape[2]]
    return m.einsum("nol,nclk->ock", y, patches)


add(
    "conv_weight", weight_gradient, floats(2, 2, 6), floats(2, 3, 3), torch=weight_gradient_in_torch
)

# -- pooling --------------------------------------------------------------------------------------

for options in (
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "stride": 1},
    {"kernel_size": (2, 3), "dilation": (2, 1), "ceil_mode": True},
    {"kernel_size": 2, "return_indices": True},
):
    add("max_pool", functional("max_pool2d", **options), floats(2, 2, 5, 6))
add(
    "max_pool_indices",
    lambda m, x: m.nn.functional.max_pool2d(x, 2, return_indices=True)[1],
    floats(2, 2, 4, 4),
)
add("max_pool", functional("max_pool1d", kernel_size=3, stride=2), floats(2, 3, 8))
add("pool_sum", functional("avg_pool2d", kernel_size=2), floats(2, 2, 5, 6))
add("pool_sum", functional("avg_pool2d", kernel_size=3, stride=2, padding=1), floats(2, 2, 5, 6))
add(
    "pool_spread",
    lambda m, y: pool_spread(y, shape=(4,), kernel=(2,), stride=(1,), padding=((0, 0),)),
    floats(2, 3),
    torch=lambda m, y: m.nn.functional.pad(y, (0, 1)) + m.nn.functional.pad(y, (1, 0)),
)
for apart, where in ((True, [[0, 3], [2, 1]]), (False, [[0, 0], [2, 1]])):
    add(
        "scatter_last",
        lambda m, y, i, apart=apart: scatter_last(y, i, length=4, apart=apart),
        floats(2, 2),
        given(where),
        torch=lambda m, y, i: m.zeros(2, 4, dtype=y.dtype).scatter_add(1, i, y),
    )
    add(
        "gather_last",
        lambda m, x, i, apart=apart: gather_last(x, i, apart=apart),
        floats(2, 4),
        given(where),
        torch=lambda m, x, i: m.gather(x, 1, i),
    )

# -- normalisation --------------------------------------------------------------------------------

add("standardize", functional("layer_norm", normalized_shape=(4,)), floats(3, 4))
add("standardize", functional("layer_norm", normalized_shape=(3, 4)), floats(2, 3, 4))
add("standardize", functional("rms_norm", normalized_shape=(4,), eps=1e-3), floats(3, 4))
add("standardize", lambda m, x: m.nn.functional.group_norm(x, 2), floats(2, 4, 3))
affine = lambda m, x, w, b: m.nn.functional.layer_norm(x, (4,), w, b)
add("standardize_affine", affine, floats(3, 4), floats(4), floats(4))
affine = lambda m, x, w, b: m.nn.functional.group_norm(x, 2, w, b)
add("standardize_affine", affine, floats(2, 4, 3), floats(4), floats(4))
affine = lambda m, x, w, b: m.nn.functional.batch_norm(x, None, None, w, b, training=True)
add("standardize_affine", affine, floats(3, 2, 2, 2), floats(2), floats(2))

# -- rows and losses ------------------------------------------------------------------------------

add(
    "embedding",
    lambda m, w, i: m.nn.functional.embedding(i, w),
    floats(4, 3),
    given([[0, 3], [3, 1]]),
)
add(
    "embedding",
    lambda m, w, i: m.nn.functional.embedding(i, w, padding_idx=1),
    floats(3, 2),
    given([0, 1, 1, 2]),
)
add(
    "embedding",
    lambda m, w, i: m.nn.functional.embedding(i, w),
    floats(3, 2),
    integers(0),
    torch=lambda m, w, i: w[i],  # PyTorch's own has no second derivative for zero rows
)
for skip in (None, 1):
    add(
        "sum_rows",
        lambda m, y, i, skip=skip: sum_rows(y, i, count=3, skip=skip),
        floats(4, 2),
        given([2, 1, 2, 0]),
        torch=lambda m, y, i, skip=skip: m.zeros(3, 2, dtype=y.dtype).index_add(
            0, i, y if skip is None else m.where((i == skip)[:, None], 0, y)
        ),
    )
add(
    "binary_cross_entropy",
    functional("binary_cross_entropy", reduction="none"),
    floats(3, 2, low=0.1, high=0.9),
    floats(3, 2, low=0.0, high=1.0),
    # The formula: PyTorch's function has second derivatives that are 1e-10 off.
    torch=lambda m, x, t: -t * m.log(x) - (1 - t) * m.log1p(-x),
)
for reduction in ("mean", "none"):
    add(
        "binary_cross_entropy_logits",
        functional("binary_cross_entropy_with_logits", reduction=reduction),
        floats(3, 2),
        floats(3, 2, low=0.0, high=1.0),
    )

NETWORKS_C = table.samples

# -- activation -----------------------------------------------------------------------------------

for shape in ((3, 4), (), (0,), (2, 0, 3)):
    add("gelu", functional("gelu"), floats(*shape))
    add("gelu_tanh", functional("gelu", approximate="tanh"), floats(*shape))

# -- attention ------------------------------------------------------------------------------------

for options in ({}, {"is_causal": True}, {"scale": 0.3}):
    attend = functional("scaled_dot_product_attention", **options)
    add("attention", attend, floats(2, 3, 4), floats(2, 5, 4), floats(2, 5, 2))
    add("attention", attend, floats(3, 4), floats(3, 4), floats(3, 4))

# -- recurrent ------------------------------------------------------------------------------------
# PyTorch has them as layers only. The oracle here is its step, written out;
# tests/nn/test_layers.py compares the layers.


def textbook(step: Any, states: int, reverse: bool) -> Any:
    """The outputs of a network at all times; `step` is one of the functions below."""

    def run(m: Any, x: Any, *rest: Any) -> Any:
        outs = {}
        state, weights = rest[:states], rest[states:]
        for t in reversed(range(len(x))) if reverse else range(len(x)):
            state = step(m, x[t], *state, *weights)
            outs[t] = state[0]
        return m.stack([outs[t] for t in range(len(x))])

    return run


def lstm(m: Any, x: Any, h: Any, c: Any, weight_x: Any, weight_h: Any, bias: Any) -> Any:
    i, f, g, o = (x @ weight_x.T + h @ weight_h.T + bias).chunk(4, 1)
    c = m.sigmoid(f) * c + m.sigmoid(i) * m.tanh(g)
    return m.sigmoid(o) * m.tanh(c), c


def gru(m: Any, x: Any, h: Any, weight_x: Any, weight_h: Any, bias_x: Any, bias_h: Any) -> Any:
    x_r, x_z, x_n = (x @ weight_x.T + bias_x).chunk(3, 1)
    h_r, h_z, h_n = (h @ weight_h.T + bias_h).chunk(3, 1)
    z = m.sigmoid(x_z + h_z)
    return ((1 - z) * m.tanh(x_n + m.sigmoid(x_r + h_r) * h_n) + z * h,)


def rnn(m: Any, x: Any, h: Any, weight_x: Any, weight_h: Any, bias: Any) -> Any:
    return (m.tanh(x @ weight_x.T + h @ weight_h.T + bias),)


def relu_rnn(m: Any, x: Any, h: Any, weight_x: Any, weight_h: Any, bias: Any) -> Any:
    return (m.relu(x @ weight_x.T + h @ weight_h.T + bias),)


def sequence(op: Any, **attrs: Any) -> Any:
    def run(m: Any, *inputs: Any) -> Any:
        out = op(*inputs, **attrs)
        return out[0] if op.multiple else out

    return run


x, h = floats(3, 2, 2), floats(2, 3)
for reverse in (False, True):
    add(
        "lstm",
        sequence(lstm_op, reverse=reverse),
        *(x, h, h, floats(12, 2), floats(12, 3), floats(12)),
        torch=textbook(lstm, 2, reverse),
    )
    add(
        "gru",
        sequence(gru_op, reverse=reverse),
        *(x, h, floats(9, 2), floats(9, 3), floats(9), floats(9)),
        torch=textbook(gru, 1, reverse),
    )
    for step, nonlinearity in ((rnn, "tanh"), (relu_rnn, "relu")):
        add(
            "rnn",
            sequence(rnn_op, reverse=reverse, nonlinearity=nonlinearity),
            *(x, h, floats(3, 2), floats(3, 3), floats(3)),
            torch=textbook(step, 1, reverse),
        )
