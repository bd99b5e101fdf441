"""Every layer against PyTorch's: a table of how to make one, and what it is given.

Weights go from PyTorch's state dict into ours as arrays; outputs, gradients of inputs and
parameters and the state afterwards are equal, in training and in evaluation.
"""

from __future__ import annotations

import inspect
import zlib
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.common_modules import module_db

import gradwalk as gw
from tests.batches import batched
from tests.nn.twins import DOUBLE, SINGLE, compare, twins


class Ints:
    """Integers below `high`, of some shape."""

    def __init__(self, high: int, *shape: int) -> None:
        self.high, self.shape = high, shape


class Positive:
    """Numbers between 0.1 and 0.9, of some shape; as they are, or normalised along the last."""

    def __init__(self, *shape: int, distribution: bool = False) -> None:
        self.shape, self.distribution = shape, distribution


class Signs:
    """1 and −1."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape


def drawn(kind: Any, source: np.random.Generator) -> np.ndarray:
    match kind:
        case Ints():
            return source.integers(0, kind.high, kind.shape)
        case Positive():
            found = source.uniform(0.1, 0.9, kind.shape)
            return found / found.sum(-1, keepdims=True) if kind.distribution else found
        case Signs():
            return source.choice([-1, 1], kind.shape)
        case _:
            return source.standard_normal(kind) * 1.5


def weights(m: Any, *numbers: float) -> Any:
    library = torch if m is torch.nn else gw
    return library.tensor(numbers, dtype=library.float64)


def row(text: str, *inputs: Any, same_text: bool = True) -> Any:
    make = eval("lambda m: m." + text, {"weights": weights, "OrderedDict": OrderedDict})
    return pytest.param(make, inputs, same_text, id=f"{text} {len(inputs)}")


X = (2, 3)
C1, C2, C3 = (2, 4, 9), (2, 4, 7, 8), (2, 4, 5, 6, 5)
PAIR = ((5, 4), (5, 4))

TABLE = [
    # -- linear, sparse, shape
    row("Identity()", X),
    row("Identity(54, unused=True)", X),
    row("Linear(3, 5)", X),
    row("Linear(3, 5, bias=False)", (3,)),
    row("Linear(3, 5)", (2, 4, 3)),
    row("Bilinear(3, 4, 5)", (6, 3), (6, 4)),
    row("Bilinear(3, 4, 5, bias=False)", (2, 6, 3), (2, 6, 4)),
    row("Embedding(7, 3)", Ints(7, 2, 5)),
    row("Embedding(7, 3, padding_idx=-2)", Ints(7, 2, 5)),
    row("EmbeddingBag(7, 3)", Ints(7, 2, 5)),
    row("EmbeddingBag(7, 3, mode='max', padding_idx=2)", Ints(7, 6), Ints(1, 1)),
    row("AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10], 2.0, True)", (40, 16), Ints(20, 40)),
    row("Flatten()", (2, 3, 4)),
    row("Flatten(0, 1)", (2, 3, 4)),
    row("PixelShuffle(2)", (2, 8, 3, 4)),
    row("PixelShuffle(3)", (9, 2, 1)),
    row("PixelUnshuffle(2)", (2, 3, 4, 6)),
    row("ChannelShuffle(3)", (2, 6, 4)),
    row("Unflatten(1, (3, 4))", (2, 12)),
    row("Unflatten(-1, (2, 2))", (2, 3, 4)),
    row("Upsample(scale_factor=2)", C2),
    row("Upsample(size=(9, 5))", C2),
    row("Upsample(scale_factor=2, mode='bilinear')", C2),
    row("Upsample(scale_factor=(2, 3), mode='bilinear', align_corners=True)", C2),
    row("ConstantPad1d((1, 2), 3.5)", C1),
    row("ConstantPad2d(1, 0.5)", C2),
    row("ZeroPad1d(2)", C1),
    row("ZeroPad2d((1, 0, 2, 1))", C2),
    row("ReflectionPad1d(2)", C1),
    row("ReflectionPad2d((1, 2, 0, 1))", C2),
    row("ReplicationPad1d((2, 1))", C1),
    row("ReplicationPad2d(1)", C2),
    row("CircularPad1d((2, 1))", C1),
    row("CircularPad2d(1)", C2),
    row("ConstantPad3d((1, 0, 2, 1, 0, 1), 0.5)", C3),
    row("ZeroPad3d(1)", C3),
    row("ReflectionPad3d(1)", C3),
    row("ReplicationPad3d((1, 0, 2, 1, 0, 1))", C3),
    row("CircularPad3d(1)", C3),
    row("UpsamplingNearest2d(scale_factor=3)", C2),
    row("UpsamplingBilinear2d(size=(9, 5))", C2),
    # -- convolution
    row("Conv1d(4, 6, 3)", C1),
    row("Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, bias=False)", C1),
    row("Conv1d(4, 6, 4, padding='same')", C1),
    row("Conv1d(4, 6, 3, padding='valid', groups=2)", (4, 9)),
    row("Conv2d(4, 6, 3)", C2),
    row("Conv2d(4, 6, (3, 2), stride=(1, 2), padding=(2, 1), groups=2)", C2),
    row("Conv2d(4, 4, 3, padding='same', dilation=2, groups=4)", C2),
    row("Conv2d(4, 6, 3, padding=1, padding_mode='reflect')", C2),
    row("Conv2d(4, 6, (3, 4), padding='same', padding_mode='circular')", C2),
    row("Conv2d(4, 6, 3, padding=(1, 2), padding_mode='replicate')", C2),
    row("Conv3d(4, 2, 3, padding=1, stride=2)", C3),
    row("ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1)", C1),
    row("ConvTranspose2d(4, 6, 3)", C2),
    row("ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)", C2),
    row("ConvTranspose2d(4, 6, (2, 3), stride=(2, 1), dilation=2, bias=False)", C2),
    row("ConvTranspose3d(4, 2, 2, stride=2, padding=1)", C3),
    # -- pooling
    row("MaxPool1d(2)", C1),
    row("MaxPool1d(3, stride=2, padding=1, ceil_mode=True)", C1),
    row("MaxPool2d(2)", C2),
    row("MaxPool2d((3, 2), stride=(2, 1), padding=1, dilation=(1, 2))", C2),
    row("AvgPool1d(2)", C1),
    row("AvgPool1d(3, stride=2, padding=1, count_include_pad=False)", C1),
    row("AvgPool2d(2)", C2),
    row("AvgPool2d((3, 2), stride=2, padding=(1, 0), ceil_mode=True)", C2),
    row("AvgPool2d(2, divisor_override=3)", C2),
    row("AdaptiveAvgPool1d(4)", C1),
    row("AdaptiveAvgPool2d(1)", C2),
    row("AdaptiveAvgPool2d((3, None))", C2),
    row("AdaptiveMaxPool1d(4)", C1),
    row("AdaptiveMaxPool2d((3, 5))", C2),
    # -- normalisation
    row("BatchNorm1d(4)", (5, 4)),
    row("BatchNorm1d(4, momentum=None)", C1),
    row("BatchNorm1d(4, affine=False, eps=1e-3)", C1),
    row("BatchNorm2d(4)", C2),
    row("BatchNorm2d(4, track_running_stats=False, bias=False)", C2),
    row("BatchNorm3d(4, momentum=0.3)", C3),
    row("InstanceNorm1d(4)", C1),
    row("InstanceNorm1d(4, affine=True)", (4, 9)),
    row("InstanceNorm2d(4, affine=True, track_running_stats=True)", C2),
    row("InstanceNorm3d(4)", C3),
    row("LayerNorm(4)", (2, 3, 4)),
    row("LayerNorm((3, 4), eps=1e-3, bias=False)", (2, 3, 4)),
    row("LayerNorm([4], elementwise_affine=False)", (3, 4)),
    row("RMSNorm(4)", (2, 3, 4)),
    row("RMSNorm((3, 4), eps=1e-4, elementwise_affine=False)", (2, 3, 4)),
    row("GroupNorm(2, 4)", C2),
    row("GroupNorm(4, 4, affine=False)", C1),
    row("Unfold(2, stride=2)", C2),
    row("Sequential(m.Unfold(3, padding=1), m.Fold((5, 6), 3, padding=1))", (2, 4, 5, 6)),
    row("LocalResponseNorm(3)", C2),
    row("LocalResponseNorm(2, alpha=0.1, beta=0.5, k=2.0)", C1),
    # -- dropout: what it drops differs, so it drops nothing or everything
    row("Dropout(0.0)", X),
    row("Dropout(1.0)", X),
    row("Dropout2d(0.0)", C2),
    row("Dropout2d(1.0, inplace=False)", C2),
    row("Dropout1d(0.0)", C1),
    row("Dropout1d(1.0)", C1),
    row("Dropout3d(1.0)", C3),
    row("AlphaDropout(0.0)", X),
    row("FeatureAlphaDropout(0.0)", C2),
    row("RReLU(0.25, 0.25)", X),
    # -- activations
    row("ReLU()", X),
    row("Sequential(m.Linear(3, 4), m.ReLU(inplace=True))", X),
    row("Sequential(m.Linear(3, 40), m.Hardtanh(inplace=True), m.SiLU(inplace=True))", X),
    row("Sequential(m.Linear(3, 40), m.Dropout(0.0, inplace=True), m.ELU(0.5, True))", X),
    row("ReLU6()", (40,)),
    row("LeakyReLU()", X),
    row("LeakyReLU(0.2)", X),
    row("PReLU()", C2),
    row("PReLU(4, init=0.1)", C2),
    row("PReLU(4)", (5, 4)),
    row("ELU()", X),
    row("ELU(alpha=0.5)", X),
    row("CELU(1.5)", X),
    row("SELU()", X),
    row("GELU()", X),
    row("GELU(approximate='tanh')", X),
    row("SiLU()", X),
    row("Mish()", X),
    row("Hardtanh()", X),
    row("Hardtanh(-0.5, 2.0)", X),
    row("Hardsigmoid()", (40,)),
    row("Hardswish()", (40,)),
    row("Softplus()", X),
    row("Softplus(beta=2.0, threshold=1.0)", X),
    row("Hardshrink()", X),
    row("Softshrink(0.3)", X),
    row("Threshold(0.1, 20.0)", X),
    row("Tanh()", X),
    row("Sigmoid()", X),
    row("Softsign()", X),
    row("Tanhshrink()", X),
    row("LogSigmoid()", X),
    row("GLU()", (2, 6)),
    row("GLU(dim=0)", (2, 6)),
    row("Softmax(dim=0)", X),
    row("Softmin(dim=-1)", X),
    row("LogSoftmax(dim=1)", X),
    row("Softmax2d()", C2),
    # -- losses and distances
    row("L1Loss()", *PAIR),
    row("L1Loss(reduction='none')", *PAIR),
    row("MSELoss(reduction='sum')", *PAIR),
    row("SmoothL1Loss(beta=0.5)", *PAIR),
    row("HuberLoss(delta=0.7, reduction='sum')", *PAIR),
    row("CrossEntropyLoss()", (5, 4), Ints(4, 5)),
    row("CrossEntropyLoss(label_smoothing=0.1, ignore_index=2)", (5, 4), Ints(4, 5)),
    row("CrossEntropyLoss(weight=weights(m, 1, 2, 3, 4), reduction='sum')", (5, 4), Ints(4, 5)),
    row("CrossEntropyLoss(reduction='none')", (5, 4), Positive(5, 4, distribution=True)),
    row("NLLLoss(weight=weights(m, 1, 2, 3, 4))", (5, 4), Ints(4, 5)),
    row("NLLLoss(ignore_index=1, reduction='none')", (5, 4, 3), Ints(4, 5, 3)),
    row("BCELoss()", Positive(5, 4), Positive(5, 4)),
    row("BCEWithLogitsLoss()", (5, 4), Positive(5, 4)),
    row("BCEWithLogitsLoss(pos_weight=weights(m, 1, 2, 3, 4))", (5, 4), Positive(5, 4)),
    row("KLDivLoss(reduction='batchmean')", (5, 4), Positive(5, 4)),
    row("KLDivLoss(reduction='sum', log_target=True)", *PAIR),
    row("PoissonNLLLoss()", *PAIR),
    row("PoissonNLLLoss(log_input=False, full=True)", Positive(5, 4), Ints(9, 5, 4)),
    row("GaussianNLLLoss()", (5, 4), (5, 4), Positive(5, 4)),
    row("GaussianNLLLoss(full=True, reduction='sum')", (5, 4), (5, 4), Positive(5, 1)),
    row("MarginRankingLoss(margin=0.5)", (6,), (6,), Signs(6)),
    row("HingeEmbeddingLoss(margin=0.8)", (5, 4), Signs(5, 4)),
    row("CosineEmbeddingLoss(margin=0.1)", (5, 4), (5, 4), Signs(5)),
    row("TripletMarginLoss(margin=2.0)", (5, 4), (5, 4), (5, 4)),
    row("TripletMarginLoss(swap=True, p=1.0, reduction='none')", (5, 4), (5, 4), (5, 4)),
    row("TripletMarginWithDistanceLoss(margin=2.0)", (5, 4), (5, 4), (5, 4)),
    row(
        "TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x * y).sum(-1), swap=True)",
        *((5, 4), (5, 4), (5, 4)),
    ),
    row("SoftMarginLoss()", (5, 4), Signs(5, 4)),
    row("CosineSimilarity(dim=1)", *PAIR),
    row("PairwiseDistance(p=2.0, keepdim=True)", *PAIR),
    # -- recurrent
    row("RNN(3, 5)", (6, 2, 3)),
    row("RNN(3, 5, 2, nonlinearity='relu', bias=False, batch_first=True)", (2, 6, 3)),
    row("RNN(3, 5, bidirectional=True)", (6, 3), (2, 5)),
    row("LSTM(3, 5)", (6, 2, 3)),
    row("LSTM(3, 5, num_layers=2, bidirectional=True, batch_first=True)", (2, 6, 3)),
    row("LSTM(3, 5, 3, bias=False, dropout=1.0)", (6, 2, 3)),
    row("LSTM(3, 5, 2, proj_size=2, bidirectional=True)", (6, 2, 3)),
    row("LSTM(3, 5)", (6, 3)),
    row("GRU(3, 5)", (6, 2, 3)),
    row("GRU(3, 5, num_layers=2, bidirectional=True)", (6, 2, 3), (4, 2, 5)),
    row("GRU(3, 5, bias=False, batch_first=True)", (2, 6, 3), (1, 2, 5)),
    row("RNNCell(3, 5)", (2, 3)),
    row("RNNCell(3, 5, nonlinearity='relu')", (2, 3), (2, 5)),
    row("LSTMCell(3, 5)", (2, 3)),
    row("LSTMCell(3, 5, bias=False)", (3,)),
    row("GRUCell(3, 5)", (2, 3), (2, 5)),
    # -- attention; PyTorch's text names a class that only matters there
    row("MultiheadAttention(8, 2)", (5, 3, 8), (4, 3, 8), (4, 3, 8), same_text=False),
    row(
        "MultiheadAttention(8, 2, kdim=6, vdim=7, bias=False, batch_first=True)",
        *((3, 5, 8), (3, 4, 6), (3, 4, 7)),
        same_text=False,
    ),
    row(
        "MultiheadAttention(8, 4, add_bias_kv=True, add_zero_attn=True)",
        *((5, 8), (4, 8), (4, 8)),
        same_text=False,
    ),
    row("TransformerEncoderLayer(8, 2, 16, 0.0)", (5, 3, 8), same_text=False),
    row(
        "TransformerEncoderLayer(8, 2, 16, 0.0, 'gelu', batch_first=True, norm_first=True)",
        (3, 5, 8),
        same_text=False,
    ),
    row(
        "TransformerEncoder(m.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2, "
        "m.LayerNorm(8), enable_nested_tensor=False)",
        (3, 5, 8),
        same_text=False,
    ),
    row("TransformerDecoderLayer(8, 2, 16, 0.0)", (5, 3, 8), (4, 3, 8), same_text=False),
    row(
        "TransformerDecoder(m.TransformerDecoderLayer(8, 2, 16, 0.0, norm_first=True, "
        "bias=False), 2)",
        *((5, 3, 8), (4, 3, 8)),
        same_text=False,
    ),
    row(
        "Transformer(8, 2, 1, 2, 16, 0.0, batch_first=True)",
        *((3, 4, 8), (3, 5, 8)),
        same_text=False,
    ),
    # -- containers
    row("Sequential(m.Linear(3, 4), m.Tanh(), m.Linear(4, 2))", X),
    row("Sequential(OrderedDict(first=m.Linear(3, 4), then=m.ReLU()))", X),
    row("Sequential(m.Sequential(m.Linear(3, 4)), m.Sequential(), m.LayerNorm(4))", X),
]  # fmt: skip


# PyTorch's derivative of hardsigmoid is 1/6 in float32, also for float64.
LESS_EXACT = ("Hardsigmoid",)


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("make, inputs, same_text", TABLE)
@pytest.mark.filterwarnings("ignore")  # PyTorch's, about what it thinks of some options
def test_layer_equals_pytorchs(
    make: Any, inputs: Any, same_text: bool, train: bool, request: pytest.FixtureRequest
) -> None:
    ours, theirs = twins(make)
    ours.train(train)
    theirs.train(train)
    source = np.random.default_rng(zlib.crc32(request.node.name.encode()))
    tolerance = dict(rtol=1e-7, atol=1e-9) if type(ours).__name__ in LESS_EXACT else DOUBLE
    compare(ours, theirs, [drawn(kind, source) for kind in inputs], tolerance)
    if same_text:
        assert repr(ours) == repr(theirs)


class Around:
    """A module called in another way than with its inputs alone."""

    def __init__(self, module: Any, library: Any, call: Any) -> None:
        self.module, self.library, self.call = module, library, call
        self.named_parameters, self.state_dict = module.named_parameters, module.state_dict

    def __call__(self, *inputs: Any) -> Any:
        return self.call(self.library, self.module, *inputs)


def later(lib: Any, n: int) -> Any:
    return lib.from_numpy(np.triu(np.ones((n, n), bool), 1))


def padding(lib: Any) -> Any:
    return lib.tensor([[False, False, False, True], [False, True, False, True]])


Q, K = (2, 5, 8), (2, 4, 8)
QKV, QKVM = [Q, K, K], [Q, K, K, (5, 4)]
ATTENTION = "MultiheadAttention(8, 2, batch_first=True)"
MORE_KEYS = "MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True)"
ENCODER = "TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)"
DECODER = "TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True)"


def with_state(lib: Any, f: Any, x: Any, h: Any, c: Any) -> Any:
    return f(x, (h, c))


def with_mask(lib: Any, f: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    return f(q, k, v, attn_mask=mask)


def with_all(lib: Any, f: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    return f(q, k, v, padding(lib).to(mask.dtype), attn_mask=mask)


def causal(lib: Any, f: Any, x: Any) -> Any:
    return f(x, x, x, attn_mask=later(lib, 5), is_causal=True, need_weights=False)


def encode(lib: Any, f: Any, x: Any) -> Any:
    mask = lib.nn.Transformer.generate_square_subsequent_mask(5, dtype=lib.float64)
    return f(x, mask, is_causal=True)


def decode(lib: Any, f: Any, x: Any, y: Any) -> Any:
    return f(x, y, tgt_mask=later(lib, 5), memory_key_padding_mask=padding(lib))


CALLS = {
    "initial state": ("LSTM(3, 5, 2)", with_state, [(6, 2, 3), (2, 2, 5), (2, 2, 5)]),
    "projected": ("LSTM(3, 5, proj_size=2)", with_state, [(6, 2, 3), (1, 2, 2), (1, 2, 5)]),
    "unbatched state": ("LSTM(3, 5)", with_state, [(6, 3), (1, 5), (1, 5)]),
    "cell": ("LSTMCell(3, 5)", with_state, [(2, 3), (2, 5), (2, 5)]),
    "one tensor": (ATTENTION, lambda lib, f, x: f(x, x, x), [Q]),
    "no weights": (ATTENTION, lambda lib, f, *x: f(*x, need_weights=False), QKV),
    "weights of heads": (ATTENTION, lambda lib, f, *x: f(*x, average_attn_weights=False), QKV),
    "padding": (ATTENTION, lambda lib, f, *x: f(*x, key_padding_mask=padding(lib)), QKV),
    "padding, fused": (ATTENTION, lambda lib, f, *x: f(*x, padding(lib), False), QKV),
    "mask": (ATTENTION, lambda lib, f, x: f(x, x, x, attn_mask=later(lib, 5)), [Q]),
    "causal": (ATTENTION, causal, [Q]),
    "learned mask": (ATTENTION, with_mask, QKVM),
    "mask per head": (ATTENTION, with_mask, [Q, K, K, (4, 5, 4)]),
    "extra keys": (MORE_KEYS, with_all, QKVM),
    "encoder": (ENCODER, encode, [Q]),
    "encoder, padding": (ENCODER, lambda lib, f, x: f(x, None, padding(lib)), [K]),
    "decoder": (DECODER, decode, [Q, K]),
    "size": ("ConvTranspose2d(4, 6, 3, stride=2)", lambda lib, f, x: f(x, (16, 17)), [C2]),
    "size 1d": ("ConvTranspose1d(4, 6, 3, stride=2)", lambda lib, f, x: f(x, (2, 6, 20)), [C1]),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_equal_pytorchs(name: str) -> None:
    text, call, inputs = CALLS[name]
    ours, theirs = twins(eval("lambda m: m." + text))
    source = np.random.default_rng(0)
    arrays = [drawn(kind, source) for kind in inputs]
    compare(Around(ours, gw, call), Around(theirs, torch, call), arrays)


@pytest.mark.parametrize(
    "text, shape",
    [
        ("Linear(3, 5)", X), ("Conv2d(4, 6, 3, padding=1)", C2), ("BatchNorm2d(4)", C2),
        ("LayerNorm(4)", (2, 3, 4)), ("GRU(3, 5, 2, bidirectional=True)", (6, 2, 3)),
        ("TransformerEncoderLayer(8, 2, 16, 0.0)", (5, 3, 8)), ("GELU()", X),
    ],
)  # fmt: skip
def test_single_precision_stays_single(text: str, shape: tuple[int, ...]) -> None:
    ours, theirs = twins(eval("lambda m: m." + text), "float32")
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    compare(ours, theirs, [x], SINGLE)


def test_running_statistics_follow_pytorchs_over_batches() -> None:
    for text in ("BatchNorm1d(4)", "BatchNorm1d(4, momentum=None)"):
        ours, theirs = twins(eval("lambda m: m." + text))
        source = np.random.default_rng(0)
        for _ in range(3):
            compare(ours, theirs, [source.standard_normal((5, 4)) + 2])
        compare(ours.eval(), theirs.eval(), [source.standard_normal((5, 4))])


CONTAINERS = {
    "Buffer", "DataParallel", "Module", "ModuleDict", "ModuleList", "Parameter", "ParameterDict",
    "ParameterList", "RNNBase", "UninitializedBuffer", "UninitializedParameter",
}  # fmt: skip
# Kept by PyTorch for programs of its first years.
OLD_ARGUMENTS = {"size_average", "reduce", "min_value", "max_value"}


def names_of(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in OLD_ARGUMENTS]


def test_every_layer_is_in_the_table() -> None:
    ids = " ".join(str(case.id) for case in TABLE)
    elsewhere = {info.module_cls.__name__ for info in module_db}  # test_module_db.py
    elsewhere |= {name for name in gw.nn.__all__ if name.startswith("Lazy")}  # test_lazy.py
    elsewhere |= {f"MaxUnpool{n}d" for n in (1, 2, 3)}  # below
    elsewhere |= {"SyncBatchNorm"}  # test_layers.py: PyTorch's needs a GPU
    missing = {n for n in gw.nn.__all__ if f"{n}(" not in ids} - CONTAINERS - elsewhere
    assert not missing


@batched("name", gw.nn.__all__)
def test_argument_names_are_pytorchs(name: str) -> None:
    ours, theirs = getattr(gw.nn, name), getattr(torch.nn, name)
    assert ours.__doc__
    if name in CONTAINERS:
        return
    assert names_of(ours.forward) == names_of(theirs.forward)
    if not names_of(theirs) or "args" not in names_of(theirs):
        assert names_of(ours) == names_of(theirs)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_puts_maxima_back(n: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, *(5, 6, 4)[:n]))
    outs = []
    for m in (gw, torch):
        pool = getattr(m.nn, f"MaxPool{n}d")(2, return_indices=True)
        back = getattr(m.nn, f"MaxUnpool{n}d")(2)
        outs.append((back(*pool(m.tensor(x)), output_size=x.shape), repr(back)))
    assert outs[0][0].tolist() == outs[1][0].tolist() and outs[0][1] == outs[1][1]
