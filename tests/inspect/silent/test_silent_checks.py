"""The silent checks on small steps of both engines: each fault by its kind, and silence."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.inspect.silent import of_step
from tests.testing.engines import both_engines

CHECKS = ("losses", "softmaxes", "weights", "draws", "backward", "rows", "future", "pads")


def language_model(lib, diagonal=1, dim=-1, causal=None):
    nn, F = lib.nn, lib.nn.functional

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.qkv = nn.Embedding(11, 16), nn.Linear(16, 48)
            self.norm, self.drop, self.head = nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(16, 11)

        def forward(self, x):
            h = self.embedding(x)
            q, k, v = self.qkv(self.norm(h)).chunk(3, -1)
            if causal is not None:
                return self.head(h + F.scaled_dot_product_attention(q, k, v, is_causal=causal))
            hidden = lib.ones(x.shape[1], x.shape[1]).triu(diagonal).bool()
            scores = (q @ k.transpose(1, 2) / 4).masked_fill(hidden, float("-inf"))
            return self.head(h + self.drop(scores.softmax(dim) @ v))

    return Model()


def next_tokens(lib, **options):
    tokens = lib.randint(1, 11, (4, 9))
    logits = language_model(lib, **options)(tokens[:, :-1])
    return lib.nn.functional.cross_entropy(logits.reshape(-1, 11), tokens[:, 1:].reshape(-1))


def classes_first(lib, **options):
    tokens = lib.randint(1, 11, (4, 9))
    logits = language_model(lib, **options)(tokens[:, :-1])
    return lib.nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])


def same_tokens(lib, **options):
    tokens = lib.randint(1, 11, (4, 9))
    logits = language_model(lib, **options)(tokens)
    return lib.nn.functional.cross_entropy(logits.reshape(-1, 11), tokens.reshape(-1))


def translated(lib, causal=True):
    """A decoder that sees a whole source, and of its own tokens the earlier ones."""
    source, tokens = lib.randint(1, 11, (4, 8)), lib.randint(1, 11, (4, 9))
    words, head = lib.nn.Embedding(11, 8), lib.nn.Linear(8, 11)
    attend = lib.nn.functional.scaled_dot_product_attention
    seen, h = words(source), words(tokens[:, :-1])
    h = h + attend(h, h, h, is_causal=causal)
    logits = head(h + attend(h, seen, seen))
    return lib.nn.functional.cross_entropy(logits.reshape(-1, 11), tokens[:, 1:].reshape(-1))


def last_state(lib, batch_first, norm=False):
    out, _ = lib.nn.LSTM(3, 8, batch_first=batch_first)(lib.randn(6, 5, 3))
    state = lib.nn.BatchNorm1d(8)(out[:, -1]) if norm else out[:, -1]
    return lib.nn.functional.cross_entropy(lib.nn.Linear(8, 2)(state), lib.randint(0, 2, (6,)))


def autoencoder(lib, draw):
    """`draw(mean, scale)` gives the code; a divergence trains mean and scale in any case."""
    x = lib.randn(12, 6)
    mean, scale = lib.nn.Linear(6, 3)(x), lib.nn.Linear(6, 3)(x).exp()
    back = lib.nn.Linear(3, 6)(draw(mean, scale))
    return (back - x).square().mean() + (mean**2 + scale**2 - 2 * scale.log()).mean()


def without_gradient(lib, mean, scale):
    with lib.no_grad():
        noise = lib.randn_like(mean)
        return mean + scale * noise


def actor_and_critic(lib):
    """The critic reads an action that log_prob scores: it is meant to have no gradient."""
    state = lib.randn(12, 6)
    policy = lib.distributions.Normal(lib.nn.Linear(6, 2)(state), 0.3)
    action = policy.sample()
    value = lib.nn.Linear(8, 1)(lib.cat([state, action], 1)).squeeze(1)
    score = policy.log_prob(action).sum(1)
    return (value - lib.randn(12)).square().mean() - (score * value.detach()).mean()


def straight_through(lib):
    x = lib.randn(12, 6)
    gate = lib.nn.Linear(6, 4)(x).sigmoid()
    with lib.no_grad():
        hard = (gate > lib.rand_like(gate)).float()
    return lib.nn.Linear(4, 1)(hard + gate - gate.detach()).square().mean() + gate.mean()


def smoothed_target(lib):
    """Noise on what a frozen copy computes; nothing trained made it."""
    x, network = lib.randn(12, 6), lib.nn.Linear(6, 6)
    with lib.no_grad():
        seen = network(x)
        seen = seen + 0.1 * lib.randn_like(seen)
    return (network(seen) - x).square().mean()


def time_first(lib):
    out, _ = lib.nn.GRU(3, 8)(lib.randn(5, 6, 3))
    return lib.nn.functional.cross_entropy(lib.nn.Linear(8, 2)(out[-1]), lib.randint(0, 2, (6,)))


def time_first_everywhere(lib):
    out, _ = lib.nn.GRU(3, 2)(lib.randn(5, 6, 3))
    return lib.nn.functional.mse_loss(out, lib.randn(5, 6, 2))


def waves(lib, both_ways):
    x = lib.randn(4, 10, 1)
    out, _ = lib.nn.LSTM(1, 8, batch_first=True, bidirectional=both_ways)(x[:, :-1])
    return lib.nn.functional.mse_loss(lib.nn.Linear(16 if both_ways else 8, 1)(out), x[:, 1:])


def classified(lib, hidden, features):
    logits = lib.nn.Linear(features, 3)(hidden)
    return lib.nn.functional.cross_entropy(logits, lib.randint(0, 3, (hidden.shape[0],)))


def centred_over_rows(lib):
    hidden = lib.nn.Linear(4, 6)(lib.randn(6, 5, 4))
    return classified(lib, (hidden - hidden.mean(0, keepdim=True)).mean(1), 6)


def scaled_by_the_batch(lib):
    hidden = lib.nn.Linear(4, 6)(lib.randn(6, 4))
    return classified(lib, hidden / ((hidden * hidden).mean() + 1e-6).sqrt(), 6)


def batch_norm_by_hand(lib):
    hidden = lib.nn.Linear(4, 6)(lib.randn(6, 4))
    return classified(lib, (hidden - hidden.mean(0)) / hidden.std(0), 6)


def graph(lib):
    near = (lib.rand(7, 7) > 0.5).float()
    return classified(lib, near @ lib.nn.Linear(4, 6)(lib.randn(7, 4)), 6)


def contrastive(lib):
    one, other = (lib.nn.Linear(4, 6)(lib.randn(7, 4)) for _ in range(2))
    return lib.nn.functional.cross_entropy(one @ other.transpose(0, 1), lib.arange(7))


def transposed_before_reshape(lib):
    hidden = lib.nn.Linear(5, 8)(lib.randn(6, 4, 5))
    return classified(lib, hidden.transpose(0, 1).reshape(6, -1), 32)


def convolutional(lib):
    hidden = lib.nn.BatchNorm2d(4)(lib.nn.Conv2d(1, 4, 3)(lib.randn(6, 1, 8, 8))).relu()
    return classified(lib, lib.nn.functional.max_pool2d(hidden, 2).flatten(1), 36)


def attention(lib, batch_first):
    x = lib.randn(6, 5, 8)
    layer = lib.nn.MultiheadAttention(8, 2, batch_first=batch_first)
    return classified(lib, layer(x, x, x)[0].mean(1), 8)


def pooled(lib, dim):
    x = lib.randn(6, 5, 8)
    return classified(lib, (lib.nn.Linear(8, 1)(x).softmax(dim) * x).sum(1), 8)


def regression(lib, shape, target, by_hand=False):
    out, wanted = lib.nn.Linear(3, 1)(lib.randn(5, 3)).reshape(shape), lib.randn(*target)
    return ((out - wanted) ** 2).mean() if by_hand else lib.nn.functional.mse_loss(out, wanted)


def of_logits(lib, loss, change):
    logits = lib.nn.Linear(3, 4)(lib.randn(5, 3))
    return getattr(lib.nn.functional, loss)(change(logits), lib.randint(0, 4, (5,)))


def binary(lib, change):
    out = change(lib.nn.Linear(3, 1)(lib.randn(5, 3))).squeeze(1)
    return lib.nn.functional.binary_cross_entropy_with_logits(out, lib.ones(5))


def one_class(lib):
    chance = lib.nn.Linear(3, 1)(lib.randn(5, 3)).softmax(-1).squeeze(1)
    return lib.nn.functional.binary_cross_entropy(chance, lib.ones(5))


def chosen_values(lib):
    values, action = lib.nn.Linear(4, 3)(lib.randn(8, 4)), lib.randint(0, 3, (8,))
    return lib.nn.functional.mse_loss(values.gather(1, action[:, None]).squeeze(1), lib.randn(8))


def padded(lib, ids=(5, 9)):
    tokens, lengths = lib.randint(1, 11, ids), [9, 6, 4, 7, 3]
    for row, length in enumerate(lengths):
        tokens[row, length:] = 0
    return tokens, lib.tensor(lengths)


def padded_text(lib, ignored):
    tokens, _ = padded(lib)
    logits = language_model(lib)(tokens[:, :-1]).reshape(-1, 11)
    loss = lib.nn.functional.cross_entropy
    return loss(logits, tokens[:, 1:].reshape(-1), ignore_index=ignored)


def padded_rows(lib, way, filler=None):
    tokens, lengths = padded(lib)
    x = lib.nn.Embedding(11, 8, padding_idx=filler)(tokens)
    mask = (tokens != 0).float().unsqueeze(-1)
    if way == "mean":
        x = x.mean(1)
    elif way == "masked mean":
        x = (x * mask).sum(1) / mask.sum(1)
    elif way == "sum":
        x = x.sum(1) / lengths[:, None].float()
    elif way in ("last", "own end"):
        out = lib.nn.GRU(8, 8, batch_first=True)(x)[0]
        x = out[:, -1] if way == "last" else out[lib.arange(len(tokens)), lengths - 1]
    else:
        q, k, v = lib.nn.Linear(8, 24)(x).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / 3
        if way == "masked attention":
            scores = scores.masked_fill((tokens == 0).unsqueeze(1), float("-inf"))
        x = ((scores.softmax(-1) @ v) * mask).sum(1) / mask.sum(1)
    return classified(lib, x, 8)


SICK = {
    "future leaks": (
        lambda lib: next_tokens(lib, diagonal=2),
        lambda lib: next_tokens(lib, causal=False),
        lambda lib: classes_first(lib, diagonal=3),
        lambda lib: waves(lib, both_ways=True),
        lambda lib: translated(lib, causal=False),
    ),
    "unshifted targets": (same_tokens,),
    "cut draw": (
        lambda lib: autoencoder(lib, lambda m, s: lib.distributions.Normal(m, s).sample()),
        lambda lib: autoencoder(lib, lambda m, s: without_gradient(lib, m, s)),
    ),
    "rows mix": (
        lambda lib: last_state(lib, batch_first=False),
        centred_over_rows,
        scaled_by_the_batch,
        transposed_before_reshape,
        lambda lib: attention(lib, batch_first=False),
        lambda lib: pooled(lib, 0),
    ),
    "softmax axis": (
        lambda lib: next_tokens(lib, dim=1),
        lambda lib: of_logits(lib, "nll_loss", lambda x: x.log_softmax(0)),
        lambda lib: pooled(lib, 2),
        one_class,
    ),
    "broadcast": (
        lambda lib: regression(lib, (5, 1), (5,)),
        lambda lib: regression(lib, (5,), (5, 1), by_hand=True),
    ),
    "probabilities": (
        lambda lib: of_logits(lib, "cross_entropy", lambda x: x.softmax(-1)),
        lambda lib: of_logits(lib, "nll_loss", lambda x: x.softmax(-1)),
        lambda lib: binary(lib, lambda x: x.sigmoid()),
    ),
    "logits": (lambda lib: of_logits(lib, "nll_loss", lambda x: x),),
    "padding": (
        lambda lib: padded_text(lib, -100),
        *(lambda lib, way=way: padded_rows(lib, way) for way in ("mean", "sum", "last", "att")),
    ),
}


def clusters(lib, summed):
    """Points are assigned to what a layer offers, and summed for each (NetVLAD, a Dice loss)."""
    x, y = lib.randn(6, 10, 8), lib.randn(6, 5, 16)
    points, assign = lib.nn.Linear(8, 16), lib.nn.Linear(16, 5)
    h = points(x).relu()
    weights = assign(h).softmax(-1)
    if summed:
        return ((weights.unsqueeze(-1) * h.unsqueeze(2)).sum(1) - y).square().mean()
    return (weights.transpose(1, 2) @ h - y).square().mean()


HEALTHY = (
    lambda lib: autoencoder(lib, lambda m, s: lib.distributions.Normal(m, s).rsample()),
    lambda lib: autoencoder(lib, lambda m, s: m.detach() + lib.randn_like(m)),
    actor_and_critic,
    straight_through,
    smoothed_target,
    lambda lib: clusters(lib, summed=True),
    lambda lib: clusters(lib, summed=False),
    next_tokens,
    translated,
    classes_first,
    lambda lib: next_tokens(lib, causal=True),
    lambda lib: same_tokens(lib, diagonal=99),  # an autoencoder
    lambda lib: last_state(lib, batch_first=True),
    lambda lib: last_state(lib, batch_first=True, norm=True),
    time_first,
    time_first_everywhere,
    lambda lib: waves(lib, both_ways=False),
    batch_norm_by_hand,
    graph,
    contrastive,
    convolutional,
    lambda lib: attention(lib, batch_first=True),
    lambda lib: pooled(lib, 1),
    lambda lib: regression(lib, (5,), (5,)),
    lambda lib: of_logits(lib, "nll_loss", lambda x: x.log_softmax(1)),
    lambda lib: of_logits(lib, "cross_entropy", lambda x: x),
    lambda lib: binary(lib, lambda x: x),
    chosen_values,
    lambda lib: padded_text(lib, 0),
    *(
        lambda lib, way=way, filler=filler: padded_rows(lib, way, filler)
        for way, filler in (
            ("masked mean", None),
            ("sum", 0),
            ("masked attention", None),
            ("own end", None),
        )
    ),
)


def found(lib, program, model=None):
    """The findings of every check on one step; none of them may be unable to look."""
    lib.manual_seed(0)
    record = gw.record if lib is gw else gw.torch.record
    with warnings.catch_warnings(), record() as trace:
        warnings.simplefilter("ignore")  # both engines warn of a loss that broadcasts
        program(lib).backward()
    step = SimpleNamespace(trace=trace, model=model)
    reports = {name: getattr(of_step, name)(step) for name in CHECKS}
    assert [name for name, report in reports.items() if report is None] == []
    return [finding for report in reports.values() for finding in report]


@both_engines
@pytest.mark.parametrize("kind", SICK)
def test_a_fault_is_named_with_line_and_change(lib, kind):
    for number, program in enumerate(SICK[kind]):
        findings = found(lib, program)
        assert kind in {finding.kind for finding in findings}, (number, findings)
        for finding in findings:
            assert finding.line is not None and finding.line.file == __file__
            assert finding.change and finding.basis and finding.confidence


@both_engines
def test_a_healthy_step_gets_silence(lib):
    told = {number: found(lib, program) for number, program in enumerate(HEALTHY)}
    assert {number: texts for number, texts in told.items() if texts} == {}


def stacked(lib, repeated):
    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            made = [lib.nn.Linear(4, 4)]
            made = made * 3 if repeated else made + [lib.nn.Linear(4, 4) for _ in range(2)]
            self.layers = lib.nn.ModuleList(made)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x).relu()
            return x

    return Model()


@both_engines
def test_one_layer_several_times_in_a_list(lib):
    for repeated in (True, False):
        model = stacked(lib, repeated)
        findings = found(lib, lambda lib, m=model: m(lib.randn(8, 4)).square().mean(), model)
        assert [finding.kind for finding in findings] == ["shared layer"] * repeated


def tied(lib, how):
    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = lib.nn.Embedding(11, 8), lib.nn.Linear(8, 11, bias=False)
            if how == "copied":
                self.head.weight = lib.nn.Parameter(self.embedding.weight.detach().clone())
            elif how == "tied":
                self.head.weight = self.embedding.weight

        def forward(self, x):
            return self.head(self.embedding(x))

    return Model()


@both_engines
def test_a_copy_of_the_embedding_is_not_tied(lib):
    def step(lib):
        tokens = lib.randint(0, 11, (4, 5))
        logits = model(tokens[:, :-1]).reshape(-1, 11)
        return lib.nn.functional.cross_entropy(logits, tokens[:, 1:].reshape(-1))

    for how in ("copied", "tied", "apart"):
        model = tied(lib, how)
        findings = found(lib, step, model)
        assert [finding.kind for finding in findings] == ["untied weights"] * (how == "copied")
        for finding in findings:
            assert "self.head.weight = " in finding.line.text


def swish(lib, right, by_numpy=False):
    class Swish(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            if by_numpy:
                numbers = x.detach().numpy()
                return lib.tensor(numbers / (1 + np.exp(-numbers)))
            return x * x.sigmoid()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            s = x.sigmoid()
            return g * (s + (x if right else 1) * s * (1 - s))

    return Swish


@both_engines
@pytest.mark.parametrize("by_numpy", (False, True))
def test_a_wrong_backward_in_a_network(lib, by_numpy):
    for right in (False, True):
        function = swish(lib, right, by_numpy)

        def step(lib, function=function):
            hidden = function.apply(lib.nn.Linear(4, 8)(lib.randn(6, 4)))
            return lib.nn.Linear(8, 2)(hidden).square().mean()

        findings = found(lib, step)
        assert [finding.kind for finding in findings] == ["wrong backward"] * (not right)
        for finding in findings:
            assert "Swish" in finding.message and finding.line.function == "backward"
