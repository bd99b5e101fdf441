"""assert_causal and assert_rows_independent: sick and healthy models, one line apart."""

import numpy as np
import pytest
import torch

from gradwalk.testing import assert_causal, assert_rows_independent
from tests.testing.engines import both_engines, floats, model_of, tokens


def future(lib, hidden, shift=1):
    length = hidden.shape[1]
    return lib.ones(length, length).triu(shift).bool()


def scores(lib, hidden):
    return hidden @ hidden.transpose(1, 2)


def convolution(padding):
    return lambda lib: lib.nn.Conv1d(6, 6, 3, padding=padding)


def lstm(both_ways):
    width = 3 if both_ways else 6
    return lambda lib: lib.nn.LSTM(6, width, batch_first=True, bidirectional=both_ways)


def padded_left(lib, x):
    return lib.nn.functional.pad(x, (2, 0))


def recurrence(lib, hidden, ahead):
    state, states = hidden[:, 0] * 0, []
    for t in range(hidden.shape[1]):
        seen = hidden[:, min(t + ahead, hidden.shape[1] - 1)]
        state = (state + seen).tanh()
        states.append(state)
    return lib.stack(states, 1)


def in_chunks(lib, hidden, width):
    padded = lib.nn.functional.pad(hidden, (0, 0, 0, 1))
    return padded.reshape(3, -1, width, 6).mean(2, keepdim=True).expand(-1, -1, width, -1)


# name: (sick, healthy, layers of the sick, layers of the healthy, ops, a word of the cause)
CAUSAL = {
    "no mask": (
        lambda lib, h: scores(lib, h).softmax(-1) @ h,
        lambda lib, h: scores(lib, h).masked_fill(future(lib, h), float("-inf")).softmax(-1) @ h,
        (), (), {"softmax"}, "mask",
    ),
    "shifted mask": (
        lambda lib, h: scores(lib, h).masked_fill(future(lib, h, 2), -1e9).softmax(-1) @ h,
        lambda lib, h: scores(lib, h).masked_fill(future(lib, h), -1e9).softmax(-1) @ h,
        (), (), {"softmax"}, "mask",
    ),
    "mask too small": (
        lambda lib, h: (scores(lib, h) - 5 * future(lib, h).float()).softmax(-1) @ h,
        lambda lib, h: (scores(lib, h) - 1e9 * future(lib, h).float()).softmax(-1) @ h,
        (), (), {"softmax"}, "mask",
    ),
    "softmax over the queries": (
        lambda lib, h: scores(lib, h).masked_fill(future(lib, h), -1e9).softmax(-2) @ h,
        lambda lib, h: scores(lib, h).masked_fill(future(lib, h), -1e9).softmax(-1) @ h,
        (), (), {"softmax"}, "dim=1",
    ),
    "attention": (
        lambda lib, h: lib.nn.functional.scaled_dot_product_attention(h, h, h),
        lambda lib, h: lib.nn.functional.scaled_dot_product_attention(h, h, h, is_causal=True),
        (), (), {"safe_softmax", "softmax", "attention"}, "",
    ),
    "unmasked linear attention": (
        lambda lib, h: scores(lib, h) @ h,
        lambda lib, h: scores(lib, h).tril() @ h,
        (), (), {"matmul"}, "over the positions",
    ),
    "sum from the end": (
        lambda lib, h: h.flip(1).cumsum(1).flip(1),
        lambda lib, h: h.cumsum(1),
        (), (), {"flip", "cumsum"}, "",
    ),
    "mean over time": (
        lambda lib, h: h - h.mean(1, keepdim=True),
        lambda lib, h: h - h.mean(2, keepdim=True),
        (), (), {"mean"}, "over dim=1",
    ),
    "normalised over time": (
        lambda lib, h: (h - h.mean()) / h.std(),
        lambda lib, h: (h - h.mean(-1, keepdim=True)) / h.std(-1, keepdim=True),
        (), (), {"mean"}, "over the positions",
    ),
    "padded on both sides": (
        lambda lib, h, conv: conv(h.transpose(1, 2)).transpose(1, 2),
        lambda lib, h, conv: conv(padded_left(lib, h.transpose(1, 2))).transpose(1, 2),
        (convolution(1),), (convolution(0),), {"conv", "conv_bias", "convolution"}, "both sides",
    ),
    "padded on both sides and cut": (
        lambda lib, h, conv: conv(h.transpose(1, 2))[:, :, 1:-1].transpose(1, 2),
        lambda lib, h, conv: conv(h.transpose(1, 2))[:, :, :-2].transpose(1, 2),
        (convolution(2),), (convolution(2),), {"getitem", "slice"}, "",
    ),
    "both directions": (
        lambda lib, h, lstm: lstm(h)[0],
        lambda lib, h, lstm: lstm(h)[0],
        (lstm(True),), (lstm(False),), {"lstm", "lstm_layer"}, "",
    ),
    "one step ahead": (
        lambda lib, h: recurrence(lib, h, 1),
        lambda lib, h: recurrence(lib, h, 0),
        (), (), {"getitem"}, "",
    ),
    "mean after a loop over time": (
        lambda lib, h: recurrence(lib, h, 0) - recurrence(lib, h, 0).mean(1, keepdim=True),
        lambda lib, h: recurrence(lib, h, 0) - recurrence(lib, h, 0).mean(2, keepdim=True),
        (), (), {"mean"}, "over dim=1",
    ),
    "shifted to the left": (
        lambda lib, h: h + lib.roll(h, -1, 1),
        lambda lib, h: h + lib.nn.functional.pad(h, (0, 0, 1, 0))[:, :-1],
        (), (), {"roll", "getitem", "concatenate"}, "",
    ),
    "mean over chunks": (
        lambda lib, h: in_chunks(lib, h, 2).reshape(3, 8, 6)[:, :7],
        lambda lib, h: in_chunks(lib, h, 1).reshape(3, 8, 6)[:, :7],
        (), (), {"mean", "expand", "reshape"}, "",
    ),
    "largest of all": (
        lambda lib, h: h / h.abs().max(),
        lambda lib, h: h / h.abs().amax(-1, keepdim=True),
        (), (), {"max", "amax"}, "",
    ),
}  # fmt: skip


@both_engines
@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("inputs", [tokens, floats])
def test_a_leak_is_named_and_its_twin_passes(lib, name, inputs):
    sick, healthy, sick_layers, healthy_layers, ops, word = CAUSAL[name]
    assert_causal(model_of(lib, healthy, *healthy_layers), inputs(lib))
    with pytest.raises(AssertionError, match="is not causal") as caught:
        assert_causal(model_of(lib, sick, *sick_layers), inputs(lib))
    text = str(caught.value)
    op = text.partition("op:")[2].split()[0]
    assert op in ops, text
    assert word in " ".join(text.split()), text
    assert "test_independence.py" in text and "Fix:" in text, text


def batch_norm(lib):
    return lib.nn.BatchNorm1d(6)


def attention(lib):
    return lib.nn.MultiheadAttention(6, 2, batch_first=True)


def sequences(lib):
    return lib.nn.MultiheadAttention(6, 2)


ROWS = {
    "normalised over the batch": (
        lambda lib, h: (h - h.mean(0)) / h.std(0),
        lambda lib, h: (h - h.mean(-1, keepdim=True)) / h.std(-1, keepdim=True),
        (), (), {"mean"}, "over dim=0",
    ),
    "softmax over the batch": (
        lambda lib, h: h.softmax(0),
        lambda lib, h: h.softmax(-1),
        (), (), {"softmax"}, "over dim=0",
    ),
    "reshape that mixes": (
        lambda lib, h: h.transpose(0, 1).reshape(3, 7, 6),
        lambda lib, h: h.transpose(0, 1).reshape(7, 3, 6).transpose(0, 1),
        (), (), {"reshape"}, "batch axis",
    ),
    "reshape that mixes features": (
        lambda lib, h: h.permute(2, 0, 1).reshape(3, 42).reshape(3, 7, 6),
        lambda lib, h: h.permute(0, 2, 1).reshape(3, 42).reshape(3, 7, 6),
        (), (), {"reshape"}, "batch axis",
    ),
    "batch norm": (
        lambda lib, h, norm: norm(h.reshape(-1, 6)).reshape(3, 7, 6),
        lambda lib, h, norm: norm.eval()(h.reshape(-1, 6)).reshape(3, 7, 6),
        (batch_norm,), (batch_norm,), {"batch_norm", "standardize_affine"}, "train mode",
    ),
    "batch taken for time": (
        lambda lib, h, mix: mix(h, h, h)[0],
        lambda lib, h, mix: mix(h, h, h)[0],
        (sequences,), (attention,), None, "",
    ),
    "sum over the batch": (
        lambda lib, h: h + h.cumsum(0),
        lambda lib, h: h + h.cumsum(1),
        (), (), {"cumsum"}, "over dim=0",
    ),
    "product over the batch": (
        lambda lib, h: h + (h.reshape(3, 42) @ h.reshape(3, 42).T).softmax(-1)[:, :1, None],
        lambda lib, h: h + (h.reshape(3, 42) * h.reshape(3, 42)).softmax(-1)[:, :1, None],
        (), (), {"softmax", "getitem"}, "",
    ),
}  # fmt: skip


@both_engines
@pytest.mark.parametrize("name", ROWS)
def test_rows_that_mix_are_named_and_their_twins_pass(lib, name):
    sick, healthy, sick_layers, healthy_layers, ops, word = ROWS[name]
    assert_rows_independent(model_of(lib, healthy, *healthy_layers), floats(lib))
    with pytest.raises(AssertionError, match="influence one another") as caught:
        assert_rows_independent(model_of(lib, sick, *sick_layers), floats(lib))
    text = str(caught.value)
    assert ops is None or text.partition("op:")[2].split()[0] in ops, text
    assert word in " ".join(text.split()), text
    assert "test_independence.py" in text and "Fix:" in text, text


@both_engines
def test_everything_is_as_before(lib):
    layers = (lambda lib: lib.nn.Dropout(0.5), batch_norm)
    body = ROWS["batch norm"][0]
    model = model_of(lib, lambda lib, h, drop, norm: drop(body(lib, h, norm)), *layers)
    x = floats(lib)
    model(x).sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    copies = [g.clone() for g in gradients]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    lib.manual_seed(5)
    drawn = lib.rand(3)
    lib.manual_seed(5)
    with pytest.raises(AssertionError, match="train mode"):
        assert_rows_independent(model, x)
    assert (lib.rand(3) == drawn).all()
    assert all((state[name] == value).all() for name, value in model.state_dict().items())
    now = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(a is b and (a == c).all() for a, b, c in zip(now, gradients, copies, strict=True))
    assert model.training


@both_engines
def test_a_dictionary_a_picked_output_and_another_axis(lib):
    class Named(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = lib.nn.GRU(6, 4)

        def forward(self, x, scale, mask):
            states, last = self.rnn(x * scale)
            return {"last": last, "states": states * mask.float()[..., None]}

    inputs = {"x": floats(lib), "scale": 2.0, "mask": lib.ones(3, 7).bool()}
    assert_causal(Named(), inputs, axis=0, output=lambda result: result["states"])
    assert_rows_independent(Named(), inputs, axis=1)
    with pytest.raises(AssertionError, match="is not causal"):
        assert_causal(Named(), inputs, axis=0, output=lambda r: r["states"] + r["last"])
    with pytest.raises(ValueError, match=r"none has 3 positions along axis 0.*Fix"):
        assert_causal(lambda x: x.sum(), floats(lib), axis=0)
    with pytest.raises(ValueError, match="needs two"):
        assert_causal(lambda x: x, floats(lib, 2, 1))


@both_engines
def test_dropout_is_no_leak_and_other_randomness_is_told(lib):
    drop = lambda lib: lib.nn.Dropout(0.5)
    assert_causal(model_of(lib, lambda lib, h, drop: drop(h), drop), tokens(lib))
    with pytest.raises(AssertionError, match="not deterministic"):
        assert_causal(model_of(lib, unseeded), tokens(lib))


def unseeded(lib, hidden):
    return hidden + lib.tensor(np.random.default_rng().random(6), dtype=lib.float32)


def test_a_leak_in_compiled_or_frozen_code_is_named():
    sick = model_of(torch, CAUSAL["no mask"][0])
    compiled = torch.compile(sick, backend="eager")
    frozen = model_of(torch, CAUSAL["no mask"][0]).requires_grad_(False)
    for model in (compiled, frozen):
        with pytest.raises(AssertionError, match=r"op: +softmax"):
            assert_causal(model, tokens(torch))


def test_half_precision():
    assert_causal(model_of(torch, CAUSAL["shifted mask"][1]).bfloat16(), tokens(torch))
    with pytest.raises(AssertionError, match=r"op: +softmax"):
        assert_causal(model_of(torch, CAUSAL["shifted mask"][0]).bfloat16(), tokens(torch))


@pytest.mark.slow
def test_models_of_transformers():
    transformers = pytest.importorskip("transformers")
    size = {
        "vocab_size": 99, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 24, "max_position_embeddings": 32, "bos_token_id": 0,
        "eos_token_id": 1, "pad_token_id": 0, "num_key_value_heads": 4,
    }  # fmt: skip
    ids = tokens(torch)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    for name in ("Llama", "Qwen2", "Mistral", "GPTNeoX", "Phi"):
        config = getattr(transformers, f"{name}Config")(**size)
        model = getattr(transformers, f"{name}ForCausalLM")(config)
        assert_causal(model, inputs)
        assert_rows_independent(model, inputs)
    bert = transformers.BertForMaskedLM(transformers.BertConfig(**size))
    assert_rows_independent(bert, inputs)
    with pytest.raises(AssertionError, match=r"in: +bert.encoder.layer.0.attention.self"):
        assert_causal(bert, inputs)
