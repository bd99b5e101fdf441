"""import_graph: a PyTorch model in our engine, step by step the same, or an error that says why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx.proxy import TracerBase

import gradwalk as gw
from gradwalk.nn.graph_module import Unsupported
from gradwalk.torch.imports.import_graph import Imported, import_graph
from gradwalk.torch.imports.verify import Mismatch
from gradwalk.torch.translate import Known, translate

# Older versions of PyTorch note only the lines of methods called `forward`.
NOTES_LINES = hasattr(TracerBase, "_filter_traceback_frames")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny operations: several threads would only wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


def ours(*tensors: torch.Tensor) -> list[gw.Tensor]:
    return [gw.tensor(t.detach().numpy()) for t in tensors]


def gradient(parameter: gw.Tensor) -> Any:
    assert parameter.grad is not None
    return parameter.grad.numpy()


def assert_same(found: Any, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(
        found.detach().numpy(), expected.detach().numpy(), tolerance, tolerance
    )


def assert_same_gradients(imported: Imported, module: nn.Module) -> None:
    theirs = dict(module.named_parameters())
    assert {name for name, _ in imported.named_parameters()} == set(theirs)
    for name, parameter in imported.named_parameters():
        expected = theirs[name].grad
        assert expected is not None
        assert_same(parameter.grad, expected)


class Classifier(nn.Module):
    """A convolutional network with running statistics, and its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(36, 5)

    def forward(self, image: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.norm(self.convolution(image)))
        return F.cross_entropy(self.head(F.max_pool2d(hidden, 2).flatten(1)), target)


IMAGE, TARGET = torch.randn(2, 3, 8, 8), torch.tensor([1, 3])


# -- models ----------------------------------------------------------------------------------------


def test_an_mlp_and_its_names() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    x = torch.randn(3, 4)
    net = import_graph(module, x)
    found = net(*ours(x))
    assert_same(found, module(x))
    found.sum().backward()
    module(x).sum().backward()
    assert_same_gradients(net, module)
    assert list(net.state_dict()) == list(module.state_dict())
    before = net.get_parameter("0.weight").sum().item()
    with torch.no_grad():
        module.get_parameter("0.weight").add_(1)
    assert net.get_parameter("0.weight").sum().item() == before  # a copy


def test_running_statistics_move_as_in_torch() -> None:
    module = Classifier()
    before = module.norm.running_mean.clone()  # type: ignore[union-attr]
    net = import_graph(module, IMAGE, TARGET)
    assert torch.equal(module.norm.running_mean, before)  # type: ignore[arg-type]
    found, expected = net(*ours(IMAGE, TARGET)), module(IMAGE, TARGET)
    found.backward()
    expected.backward()
    assert_same(found, expected)
    assert_same_gradients(net, module)
    for name, buffer in module.named_buffers():
        assert_same(net.get_buffer(name), buffer)


def test_statistics_that_do_not_move() -> None:
    module = Classifier().eval()
    net = import_graph(module, IMAGE, TARGET)
    assert_same(net(*ours(IMAGE, TARGET)), module(IMAGE, TARGET))
    assert net.get_buffer("norm.num_batches_tracked").item() == 0


def lstm_can_be_taken_apart() -> bool:
    """Whether PyTorch's definition of an LSTM by other operations keeps the shape of its state."""
    layer, state = nn.LSTM(3, 4).double(), torch.zeros(1, 2, 4).double()
    lstm = torch.export.default_decompositions()[torch.ops.aten.lstm.input]
    rest = (list(layer.parameters()), True, 1, 0.0, False, False, False)
    return bool(lstm(torch.ones(5, 2, 3).double(), (state, state), *rest)[1].shape == state.shape)


@pytest.mark.xfail(
    not lstm_can_be_taken_apart(), raises=Mismatch, reason="a mistake of PyTorch 2.8 itself"
)
def test_a_recurrent_layer_with_tuples() -> None:
    module = nn.LSTM(3, 4)
    x, state = torch.randn(2, 2, 3), (torch.randn(1, 2, 4), torch.randn(1, 2, 4))
    net = import_graph(module, x, state)
    out, (h, c) = net(*ours(x), tuple(ours(*state)))
    expected, (their_h, their_c) = module(x, state)
    for mine, theirs in ((out, expected), (h, their_h), (c, their_c)):
        assert_same(mine, theirs)


def test_a_transformer_layer_with_dropout() -> None:
    module = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
    x = torch.randn(2, 3, 8)
    state = torch.get_rng_state()
    net = import_graph(module, x)
    assert torch.equal(torch.get_rng_state(), state)
    assert not np.array_equal(*(net(*ours(x)).detach().numpy() for _ in range(2)))
    module.eval()
    assert_same(import_graph(module, x)(*ours(x)), module(x))


def test_gpt2_of_transformers() -> None:
    import transformers

    transformers.logging.set_verbosity_error()
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=32, n_positions=16, vocab_size=100, bos_token_id=0,
        eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
    )  # fmt: skip
    module = transformers.GPT2LMHeadModel(config)
    tokens = torch.randint(0, 100, (2, 7))
    net = import_graph(module, tokens, labels=tokens)
    found = net(*ours(tokens), labels=ours(tokens)[0])
    expected = module(tokens, labels=tokens)
    assert_same(found.loss, expected.loss)
    assert_same(found.logits, expected.logits, 1e-4)
    found.loss.backward()
    expected.loss.backward()
    assert_same_gradients(net, module)
    assert net.get_parameter("lm_head.weight") is net.get_parameter("transformer.wte.weight")


# -- functions and structures ----------------------------------------------------------------------


def test_a_function_with_nested_outputs_and_what_it_closes_over() -> None:
    inner, scale = nn.Linear(3, 3), nn.Parameter(torch.tensor(2.0))

    def function(x: torch.Tensor, *, power: int) -> dict[str, Any]:
        y = torch.tanh(inner(x)) * scale
        return {"y": y, "rest": (x**power, power), "total": y.sum()}

    x = torch.randn(2, 3)
    imported = import_graph(function, x, power=3)
    found, expected = imported(*ours(x), power=3), function(x, power=3)
    assert_same(found["y"], expected["y"])
    assert_same(found["rest"][0], expected["rest"][0])
    assert found["rest"][1] == 3
    names = {name for name, _ in imported.named_parameters()}
    assert names == {"inner.weight", "inner.bias", "scale"}
    with pytest.raises(ValueError, match="imported with the constant 3; it was called with 4"):
        imported(*ours(x), power=4)


def test_gradients_stop_where_they_stop_in_torch() -> None:
    layer = nn.Linear(3, 3)

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            fixed = layer(x) * 2
        return (x * fixed).sum() + (x * layer(x).detach()).sum()

    x = torch.randn(2, 3, requires_grad=True)
    imported = import_graph(function, x)
    mine = ours(x)[0].requires_grad_()
    imported(mine).backward()
    function(x).backward()  # type: ignore[no-untyped-call]
    assert_same(mine.grad, x.grad)  # type: ignore[arg-type]
    assert imported.get_parameter("layer.weight").grad is None


def test_random_numbers_are_drawn_at_every_call() -> None:
    imported = import_graph(lambda x: x + torch.randn_like(x), torch.zeros(3))
    x = gw.zeros(3)
    gw.manual_seed(0)
    first = imported(x).numpy()
    assert not np.array_equal(first, imported(x).numpy())
    gw.manual_seed(0)
    assert np.array_equal(first, imported(x).numpy())


def test_frozen_parameters_stay_frozen() -> None:
    module = nn.Linear(2, 2)
    module.bias.requires_grad_(False)
    imported = import_graph(module, torch.randn(1, 2))
    assert not imported.get_parameter("bias").requires_grad
    assert imported.get_parameter("weight").requires_grad


# -- it is a gradwalk function ---------------------------------------------------------------------


def test_it_can_be_recorded_and_asked() -> None:
    net = import_graph(Classifier(), IMAGE, TARGET)
    with gw.record() as trace:
        loss = net(*ours(IMAGE, TARGET))
        loss.backward()
    assert [g.path for g in trace.groups] == ["Imported", "convolution", "norm", "head"]
    assert trace.groups[1].class_name == "Conv2d"
    assert {"conv_bias", "batch_norm_update", "linear"} <= {node.op for node in trace}
    assert "head.weight" in str(gw.why(net.get_parameter("head.weight"), loss))
    opened = gw.open_op(trace, next(n.index for n in trace if n.op == "batch_norm_update"))
    assert opened.equal and len(opened.steps) > 3


def test_it_can_be_compiled() -> None:
    net = import_graph(
        nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh()), torch.randn(3, 4)
    )
    x = gw.randn(3, 4)
    plain = net(x).sum()
    plain.backward()
    expected = [gradient(p).copy() for p in net.parameters()]
    net.zero_grad()
    compiled = gw.compile(net)(x).sum()
    compiled.backward()
    assert compiled.item() == pytest.approx(plain.item(), abs=1e-5)
    for parameter, before in zip(net.parameters(), expected, strict=True):
        np.testing.assert_allclose(gradient(parameter), before, 1e-4, 1e-5)


def test_it_can_be_trained() -> None:
    x = torch.randn(8, 2)
    y = torch.sin(x[:, :1])
    module = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    net = import_graph(lambda x, y: F.mse_loss(module(x), y), x, y)
    optimizer = gw.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = net(*ours(x, y))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 1.5


class Rotary(nn.Module):
    """Pairs of numbers turned, as complex numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turns", torch.polar(torch.ones(4, 3), torch.rand(4, 3)))
        self.scale = nn.Parameter(torch.randn(3, dtype=torch.complex64))

    def forward(self, x: torch.Tensor, phase: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.reshape(4, 3, 2))
        return torch.view_as_real(pairs * self.turns * self.scale / phase).flatten(1)


def test_complex_numbers_are_pairs() -> None:
    x, phase = torch.randn(4, 6), torch.randn(3, dtype=torch.complex64)
    module = Rotary()
    net = import_graph(module, x, phase)
    found = net(*ours(x, torch.view_as_real(phase)))
    expected = module(x, phase)
    assert_same(found, expected)
    (found * found).sum().backward()
    (expected * expected).sum().backward()
    assert module.scale.grad is not None
    np.testing.assert_allclose(gradient(net.scale), torch.view_as_real(module.scale.grad), 1e-4)


def test_a_difference_that_float64_does_not_have_is_rounding() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v)  # to one key: weights of 1, gradients of 0

    heads = (torch.randn(2, 4, 64, 8), torch.randn(2, 4, 1, 8), torch.randn(2, 4, 1, 8))
    import_graph(function, *heads)
    with pytest.raises(Mismatch):
        import_graph(function, *heads, tolerance=1e-5)


# -- errors ----------------------------------------------------------------------------------------


def test_what_is_unknown_is_listed_all_at_once() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.special.bessel_j0(x) + torch.special.bessel_j0(x + 1)
        return y + torch.linalg.eigvalsh(x)

    with pytest.raises(Unsupported) as error:
        import_graph(function, torch.eye(3))
    assert error.value.operations["aten.special_bessel_j0.default"] == 2
    text = str(error.value)
    assert "aten.special_bessel_j0.default  2 times" in text and "exporting.py" not in text
    assert "Fix: " in text
    if not NOTES_LINES:
        return
    assert "aten.special_bessel_j0.default  2 times, first at test_import_graph.py:" in text
    assert "y = torch.special.bessel_j0(x) + torch.special.bessel_j0(x + 1)" in text
    assert "return y + torch.linalg.eigvalsh(x)" in text


def translated_wrongly(
    monkeypatch: pytest.MonkeyPatch, wrong_func: Any, op: str, **attrs: Any
) -> None:
    """Let `wrong_func` be translated to another op."""

    def wrong(func: Any, args: Any, kwargs: Any) -> Known | None:
        known = translate(func, args, kwargs)
        return Known(op, known.args, attrs) if known and func is wrong_func else known

    monkeypatch.setattr("gradwalk.torch.imports.graph_steps.translate", wrong)


def test_a_wrong_value_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    translated_wrongly(monkeypatch, torch.ops.aten.gelu.default, "gelu_tanh")
    module, x = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.GELU())), torch.randn(3, 4)
    with pytest.raises(Mismatch) as error:
        import_graph(module, x)
    place = "the value of gelu (aten.gelu.default) in module '1.0' at activation.py:"
    assert str(error.value).startswith(place)
    import_graph(module, x, tolerance=1e-2)


def test_a_wrong_gradient_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # The same values, but at 0 another slope.
    translated_wrongly(monkeypatch, torch.ops.aten.relu.default, "clip", min=0.0, max=None)
    place = r"gradient of operand x of relu \(aten.relu.default\)" + " at" * NOTES_LINES
    with pytest.raises(Mismatch, match=place):
        import_graph(lambda x: torch.relu(x), torch.tensor([-1.0, 0.0, 1.0]))


def test_other_shapes_and_structures_are_refused() -> None:
    net = import_graph(nn.Linear(3, 2), torch.randn(4, 3))
    with pytest.raises(ValueError, match=r"imported for an argument of shape \(4, 3\)"):
        net(gw.ones(5, 3))
    with pytest.raises(TypeError, match=r"arguments like \(tensor \(4, 3\)\)"):
        net(gw.ones(4, 3), gw.ones(4, 3))


def test_what_cannot_be_a_graph_says_so() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(ValueError, match=r"torch\.export cannot make a graph of .*function"):
        import_graph(function, torch.ones(2))


def test_changing_an_argument_in_place_is_refused() -> None:
    with pytest.raises(ValueError, match="changes its argument 'x' in place"):
        import_graph(lambda x: x.add_(1), torch.ones(2))
