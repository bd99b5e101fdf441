"""Writes random programs for `compiled_programs`: lines drawn from tables, each tried eagerly.

A line is a template; its operands are variables that exist so far. What raises, or makes numbers
too large, is dropped, so the tables need not say which shapes and dtypes fit.
"""

from __future__ import annotations

import random
import re
import warnings
from typing import Any

import numpy as np

from tests.attack.compiled_programs import PRELUDE, UserProgram, names

LARGEST = 1e3
MOST_ELEMENTS = 3000
DTYPES = ["gw.float32", "gw.float64", "gw.int64", "gw.int32", "gw.bool", "gw.uint8"]
NUMBERS = ["0.5", "2", "-1", "1.5", "-0.25", "3", "1", "0", "0.0", "-2.0", "True"]

# Operands: x any tensor; y, z others that mostly broadcast with it; s one of its shape; b a bool
# tensor; k an integer tensor; c a number; r a float argument; a an axis of x; n its length; i an
# index along it; h half of it; d a dtype; p a leaf that requires a gradient.
EXPRESSIONS = """
{x} + {y}|{x} - {y}|{x} * {y}|{x} / ({y} * {y} + 1)|{x} + {c}|{c} - {x}|{x} * {c}|{x} / 3|{x} * {r}
{x} + {r}|{x} / ({r} + 2.0)|{x} - {r} * {y}|-{x}|abs({x})|{x} ** 2|{x} ** 3|({x} * {x} + 1) ** 0.5
{x} % 3|{x} // 2|{x} @ {y}|{x} @ {x}.T|{x}.mT @ {x}|gw.matmul({x}, {y})|{x} > {y}|{x} <= {c}
{x} == {y}|{x} != {c}|{x} >= {y}|{x} < {c}|{b} & {b}|{b} | ({x} > 0)|~{b}|{b} ^ {b}|{k} + 1|{k} * 2
{k} - {k}|{k} // 2|{k} % 3|{k} + {x}|{k} / 2|{b} + {k}|{b} * {x}|{b}.sum()|{b}.any({a})|{b}.all()
{x}.tanh()|{x}.sigmoid()|{x}.exp().clamp(max=9.0)|({x} * {x} + 0.1).log()|{x}.sin()|{x}.cos()
{x}.relu()|{x}.abs()|{x}.sign()|{x}.floor()|{x}.round()|{x}.square()|({x}.abs() + 0.1).sqrt()
({x}.abs() + 0.5).rsqrt()|({x}.abs() + 1).reciprocal()|{x}.erf()|{x}.log1p()|{x}.expm1().tanh()
{x}.sum()|{x}.sum({a})|{x}.sum({a}, keepdim=True)|{x}.mean()|{x}.mean({a})|{x}.mean({a}, keepdim=True)
{x}.amax({a})|{x}.amin({a}, keepdim=True)|{x}.max({a})[0]|{x}.min({a})[1]|{x}.max()|{x}.argmax({a})
{x}.argmin()|{x}.var({a})|{x}.std({a}, keepdim=True)|{x}.var()|{x}.prod({a})|{x}.norm()|{x}.norm(dim={a})
{x}.logsumexp({a})|{x}.softmax({a})|{x}.log_softmax({a})|{x}.cumsum({a})|{x}.cumprod({a})
{x}.cummax({a})[0]|{x}.sort({a})[0]|{x}.sort({a}, descending=True)[1]|{x}.argsort({a})|{x}.median()
{x}.topk({h}, {a})[0]|{x}.topk(1, {a})[1]|{x}.kthvalue(1, {a})[0]|{x}.flip({a})|{x}.roll(1, {a})
{x}.clamp(-1, 1)|{x}.clamp(min=0.5)|{x}.clamp({c}, 2)|gw.maximum({x}, {y})|gw.minimum({x}, {y})
gw.where({b}, {x}, {y})|gw.where({x} > 0, {x}, {c})|gw.where({b}, {c}, {x})|{x}.masked_fill({b}, {c})
{x}[{i}]|{x}[-1]|{x}[1:]|{x}[:-1]|{x}[::2]|{x}[..., 0]|{x}[..., ::-1]|{x}[None]|{x}[:, {i}]|{x}[..., None]
{x}[[0, -1]]|{x}[gw.tensor([0, 0])]|{x}[{k}]|{x}[{k} % {n}]|{x}[:, [0]]|{x}[..., [0, 0, -1]]
{x}.gather({a}, {k})|{x}.gather({a}, {x}.argsort({a}))|{x}.index_select({a}, gw.tensor([0, {i}]))
{x}.scatter({a}, {x}.argmax({a}, keepdim=True), {c})|{x}.scatter_add({a}, {x}.argsort({a}), {s})
{x}.index_add({a}, gw.tensor([{i}]), {x}.narrow({a}, 0, 1))|{x}.take_along_dim({x}.argsort({a}), {a})
{x}.index_fill({a}, gw.tensor([{i}]), {c})|{x}.index_copy({a}, gw.tensor([{i}]), {x}.narrow({a}, 0, 1))
{x}.reshape(-1)|{x}.flatten()|{x}.reshape({n}, -1)|{x}.reshape(-1, {n})|{x}.view(-1)|{x}.T|{x}.mT
{x}.transpose(0, -1)|{x}.permute(*range({x}.ndim)[::-1])|{x}.unsqueeze({a})|{x}.squeeze()|{x}.ravel()
{x}.expand(2, *{x}.shape)|{x}.unsqueeze(0).expand(3, *{x}.shape)|{x}.repeat(2, *[1] * ({x}.ndim - 1))
{x}.tile(2)|{x}.repeat_interleave(2, {a})|{x}.narrow({a}, {i}, 1)|{x}.select({a}, {i})|{x}.diagonal()
{x}.unbind({a})[{i}]|{x}.split(1, {a})[-1]|{x}.chunk(2, {a})[0]|{x}.unfold({a}, 1, 1)|{x}.movedim(0, -1)
gw.cat([{x}, {s}], {a})|gw.stack([{x}, {s}], {a})|gw.cat([{x}, {x}])|F.pad({x}, (1, 1))|F.pad({x}, (0, 1))
{x}.tril()|{x}.triu(1)|{x}.diag()|gw.outer({x}, {y})|gw.einsum("...i,...i->...", {x}, {s})
gw.einsum("ij,kj->ik", {x}, {y})|gw.einsum("ij,jk->ki", {x}, {y})|gw.einsum("ij->j", {x})|{x}.addmm({y}, {z})
gw.einsum("bij,bjk->bik", {x}, {y})|gw.bmm({x}, {y})|gw.einsum("ii->i", {x})|{x}.dot({s})|{x}.trace()
{x}.detach()|{x}.detach().clone()|{x}.clone()|{x}.contiguous()|{x}.to({d})|{x}.float()|{x}.double()
{x}.long()|{x}.int()|{x}.bool()|{x}.type_as({y})|{x}.lerp({y}, 0.3)|{x}.lerp({y}, {r})|gw.lerp({x}, {y}, {s})
{x}.addcmul({y}, {z}, value=0.5)|{x}.addcdiv({y}, {z} * {z} + 1)|gw.add({x}, {y}, alpha=2)|{x}.sub({y}, alpha=0.5)
gw.zeros_like({x}) + {y}|gw.ones_like({x}) * {c}|gw.full_like({x}, 2.0)|gw.zeros({x}.shape)|gw.eye({n}) @ {x}
gw.arange({n}) * {x}|gw.arange({n})|gw.linspace(0, 1, {n}) * {x}|gw.rand_like({x})|gw.randn({n}) * {x}
gw.randn_like({x}) * {x}|gw.rand({n}) < 0.5|gw.randint(0, {n}, ({n},))|gw.bernoulli({x}.sigmoid())
gw.normal(0.0, 1.0, ({n},))|F.dropout({x}, 0.5)|F.dropout({x}, 0.3, training=False)|gw.randperm({n})
F.gelu({x})|F.silu({x})|F.elu({x})|F.leaky_relu({x}, 0.1)|F.softplus({x})|F.normalize({x}, dim={a})
F.layer_norm({x}, {x}.shape[-1:])|F.one_hot({x}.argmax({a}), {n})|F.mse_loss({x}, {s})|F.l1_loss({x}, {s})
F.smooth_l1_loss({x}, {s})|F.cross_entropy({x}, {x}.argmax(-1))|F.cross_entropy({x}, {y}.softmax(-1))
F.binary_cross_entropy_with_logits({x}, {s}.sigmoid())|F.cosine_similarity({x}, {s}, dim={a})|F.glu({x}, {a})
F.avg_pool1d({x}, 2)|F.max_pool1d({x}, 2)|F.adaptive_avg_pool1d({x}, 1)|F.interpolate({x}, scale_factor=2)
F.scaled_dot_product_attention({x}, {x}, {x})|F.kl_div({x}.log_softmax(-1), {s}.softmax(-1))|{x}.quantile(0.5)
{x}.count_nonzero()|{x}.isnan()|{x}.nan_to_num()|{x}.diff(dim={a})|{x}.aminmax()[0]|{x}.atan2({y})|{x}.hypot({y})
gw.logical_and({x} > 0, {y} > 0)|gw.logical_not({b})|{k}.bitwise_and(3)|{x}.fmod(2)|{x}.remainder(2)|{x}.trunc()
{k} + gw.tensor(3)|{x} + gw.tensor([1.5])|{x} * gw.tensor({c})|{k} * gw.tensor([2])|gw.tensor([1, 0, 2])[{k} % 3]
{x}.heaviside({y})|{x}.copysign({y})|gw.cdist({x}, {y})|{x}.cov()|gw.meshgrid({x}, {x}, indexing="ij")[0]
gw.checkpoint(lambda t: (t * 2).tanh(), {x})|gw.tensordot({x}, {y}, 1)|{x}.kron({y})|gw.searchsorted({x}.sort(-1)[0], {y})
""".replace("\n", "|").strip("|").split("|")
EXPRESSIONS = [e for e in EXPRESSIONS if e]

# Statements that write; w is a tensor that may be written, f one of floats.
WRITES = """
{w}.add_({y})|{w}.mul_({c})|{w}.sub_({y}, alpha=0.5)|{w}.div_(2)|{w}.add_({r})|{w}.mul_({r})|{w}.add_(1)
{w} += {y}|{w} += 1|{w} *= 0.5|{w} -= {r}|{w} /= 2|{w} *= {y}|{w} += {c}
{w}.copy_({s})|{w}.copy_({y})|{w}.fill_({c})|{w}.zero_()|{w}.clamp_(-1, 1)|{w}.tanh_()|{w}.neg_()|{w}.relu_()
{w}.masked_fill_({b}, {c})|{w}.lerp_({y}, 0.1)|{w}.lerp_({y}, {r})|{w}.addcmul_({y}, {z}, value=0.5)
{w}[{i}] = {c}|{w}[{i}] = {y}|{w}[-1] += {c}|{w}[1:] = {y}|{w}[::2] *= 2|{w}[..., 0] = {y}|{w}[...] = {y}
{w}[:] = {y}|{w}[[0, -1]] = {c}|{w}[gw.tensor([0, {i}])] = {y}|{w}[{w} > 0] = {c}
{w}[{k} % {n}] += 1|{w}[{i}].add_({y})|{w}[1:].mul_(0.5)|{w}.T.add_(1)|{w}.reshape(-1).mul_(2)
{w}.view(-1)[0] = {c}|{w}.unsqueeze(0).add_({y})|{w}.flatten()[0].add_(1)|{w}.transpose(0, -1)[0] = {c}
{w}.index_add_({a}, gw.tensor([{i}, 0]), gw.cat([{w}.narrow({a}, 0, 1)] * 2, {a}))|{w}.index_fill_({a}, gw.tensor([{i}]), {c})
{w}.scatter_({a}, {w}.argmax({a}, keepdim=True), {c})|{w}.scatter_add_({a}, {w}.argsort({a}), {s})
{w}.normal_()|{w}.uniform_(-1, 1)|{w}.bernoulli_(0.5)|{w}.exponential_()|{w}.random_(0, 5)
{w}.diagonal().fill_({c})|{w}.diagonal().add_({y})|{w}.index_copy_({a}, gw.tensor([{i}]), {w}.narrow({a}, 0, 1) * 2)
{w}.split(1, {a})[0].mul_(2)|{w}.chunk(2, {a})[-1].zero_()|{w}.cumsum_({a})|{w}.floor_()|{w}.pow_(2)|{w}.abs_()
{w}.index_put_((gw.tensor([0, {i}]),), {y})|{w}.index_put_((gw.tensor([0, 0]),), {y}, accumulate=True)|{w}.round_()
{w}.select({a}, {i}).copy_({y})|{w}.narrow({a}, 0, 1).add_(1)|{w}.detach().add_(1)|{w}.data.mul_(0.5)|{w}.triu_()
""".replace("\n", "|").strip("|").split("|")

# Layers: how one is made for x, and how it is called.
LAYERS = [
    ("nn.Linear({n-1}, {m})", "{l}({x})"), ("nn.Linear({n-1}, {m}, bias=False)", "{l}({x})"),
    ("nn.Linear({n-1}, {n-1})", "{l}({x})"),
    ("nn.Conv1d({n1}, {m}, 2, padding=1)", "{l}({x})"), ("nn.Conv2d({n1}, {m}, 2)", "{l}({x})"),
    ("nn.Conv2d({n1}, {m}, 3, stride=2, padding=1, bias=False)", "{l}({x})"),
    ("nn.Conv1d({n1}, {n1}, 1, groups={n1})", "{l}({x})"),
    ("nn.ConvTranspose1d({n1}, {m}, 2, stride=2)", "{l}({x})"),
    ("nn.BatchNorm1d({n1}{bn})", "{l}({x})"), ("nn.BatchNorm2d({n1}{bn})", "{l}({x})"),
    ("nn.BatchNorm1d({n1}{bn})", "{l}({x})"),
    ("nn.InstanceNorm1d({n1}{bn})", "{l}({x})"), ("nn.LayerNorm({n-1})", "{l}({x})"),
    ("nn.LayerNorm({n-1}, elementwise_affine=False)", "{l}({x})"), ("nn.RMSNorm({n-1})", "{l}({x})"),
    ("nn.GroupNorm(1, {n1})", "{l}({x})"), ("nn.GroupNorm({n1}, {n1}, affine=False)", "{l}({x})"),
    ("nn.Dropout(0.4)", "{l}({x})"), ("nn.Dropout1d(0.5)", "{l}({x})"), ("nn.AlphaDropout(0.2)", "{l}({x})"),
    ("nn.Embedding({n0} + 3, {m})", "{l}({k} % 3)"), ("nn.Embedding(7, {m}, padding_idx=0)", "{l}({x}.argmax(-1))"),
    ("nn.Embedding(7, {m}, max_norm=1.0)", "{l}({k} % 7)"),
    ("nn.RNN({n-1}, {m}, batch_first=True)", "{l}({x})[0]"), ("nn.LSTM({n-1}, {m})", "{l}({x})[0]"),
    ("nn.LSTM({n-1}, {m}, 2, dropout=0.3, batch_first=True)", "{l}({x})[1][0]"),
    ("nn.GRU({n-1}, {m}, bidirectional=True)", "{l}({x})[0]"), ("nn.GRUCell({n-1}, {m})", "{l}({x})"),
    ("nn.LSTMCell({n-1}, {m})", "{l}({x})[0]"), ("nn.RNN({n-1}, {m}, nonlinearity='relu')", "{l}({x})[1]"),
    ("nn.MultiheadAttention({n-1}, 1, batch_first=True)", "{l}({x}, {x}, {x})[0]"),
    ("nn.MultiheadAttention({n-1}, {n-1}, dropout=0.2)", "{l}({x}, {x}, {x}, need_weights=False)[0]"),
    ("nn.TransformerEncoderLayer({n-1}, 1, 5, batch_first=True)", "{l}({x})"),
    ("nn.MaxPool1d(2)", "{l}({x})"), ("nn.AvgPool1d(2, stride=1)", "{l}({x})"), ("nn.MaxPool2d(2, ceil_mode=True)", "{l}({x})"),
    ("nn.AdaptiveAvgPool1d(2)", "{l}({x})"), ("nn.AdaptiveMaxPool1d(1)", "{l}({x})"), ("nn.AvgPool2d(2)", "{l}({x})"),
    ("nn.PReLU()", "{l}({x})"), ("nn.GELU('tanh')", "{l}({x})"), ("nn.Softmax(-1)", "{l}({x})"), ("nn.SELU()", "{l}({x})"),
    ("nn.ReLU(inplace=True)", "{l}({x} * 1)"), ("nn.Hardswish()", "{l}({x})"), ("nn.Flatten()", "{l}({x})"),
    ("nn.Bilinear({n-1}, {n-1}, {m})", "{l}({x}, {x})"), ("nn.Unflatten(-1, (1, {n-1}))", "{l}({x})"),
    ("nn.Sequential(nn.Linear({n-1}, {m}), nn.BatchNorm1d({m}{bn}), nn.Tanh(), nn.Linear({m}, {n-1}))", "{l}({x})"),
    ("nn.Sequential(nn.Linear({n-1}, {m}), nn.ReLU(), nn.Dropout(0.3), nn.Linear({m}, 2))", "{l}({x})"),
    ("nn.ModuleList([nn.Linear({n-1}, {n-1}) for _ in range(2)])", "{l}[1]({l}[0]({x}).relu())"),
    ("nn.ModuleDict({'a': nn.Linear({n-1}, {m}), 'b': nn.Tanh()})", "{l}['b']({l}['a']({x}))"),
    ("Counter({rate})", "{l}({x})"), ("Counter({rate})", "{l}({x})"), ("Remember()", "{l}({x})"),
    ("Residual(nn.Linear({n-1}, {n-1}))", "{l}({x})"), ("Residual(nn.LayerNorm({n-1}))", "{l}({x})"),
    ("nn.Upsample(scale_factor=2)", "{l}({x})"), ("nn.ConstantPad1d(1, 0.5)", "{l}({x})"), ("nn.ReflectionPad1d(1)", "{l}({x})"),
    ("nn.utils.weight_norm(nn.Linear({n-1}, {m}))", "{l}({x})"), ("nn.LocalResponseNorm(2)", "{l}({x})"),
]  # fmt: skip
BATCH_NORM = ["", "", ", momentum=None", ", momentum=0.5", ", momentum=1.0", ", momentum=0.0", ", affine=False",
              ", track_running_stats=False", ", eps=0.1", ", momentum=None, affine=False"]  # fmt: skip

OPTIMIZERS = """
SGD({p}, lr=0.1)|SGD({p}, lr=0.05, momentum=0.9)|SGD({p}, lr=0.05, momentum=0.9, nesterov=True)
SGD({p}, lr=0.05, momentum=0.5, dampening=0.2, weight_decay=0.1)|SGD({p}, lr=0.1, maximize=True)
Adam({p}, lr=0.01)|Adam({p}, lr=0.01, amsgrad=True)|Adam({p}, lr=0.02, weight_decay=0.1, betas=(0.5, 0.9))
AdamW({p}, lr=0.01)|AdamW({p}, lr=0.01, amsgrad=True)|AdamW({p}, lr=0.01, maximize=True)|NAdam({p}, lr=0.01)
RAdam({p}, lr=0.01)|RMSprop({p}, lr=0.01)|RMSprop({p}, lr=0.01, momentum=0.9, centered=True)
RMSprop({p}, lr=0.01, alpha=0.5, weight_decay=0.1)|Adagrad({p}, lr=0.05)|Adagrad({p}, lr=0.05, lr_decay=0.1)
Adagrad({p}, lr=0.05, initial_accumulator_value=0.1)|Adadelta({p})|Adadelta({p}, lr=0.5, rho=0.5)
""".replace("\n", "|").strip("|").split("|")
SCHEDULES = ["StepLR({o}, 1, 0.5)", "ExponentialLR({o}, 0.9)", "CosineAnnealingLR({o}, 5)", "LinearLR({o})",
             "LambdaLR({o}, lambda n: 1 / (n + 1))", "OneCycleLR({o}, 0.1, total_steps=10)"]  # fmt: skip


class ProgramWriter:
    """Writes one program; `write` returns it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.program = UserProgram(seed)
        self.space = names()
        exec(PRELUDE, self.space)
        exec(f"gw.manual_seed({seed})", self.space)
        self.tensors: list[str] = []  # expressions of tensors in sight, in order
        self.leaves: list[str] = []  # that require a gradient
        self.layers: list[str] = []
        self.rates: list[str] = []
        self.count = 0

    # -- parts of templates ------------------------------------------------------------------------

    def value(self, expression: str) -> Any:
        return eval(expression, self.space)

    def among(self, test: Any, recent: bool = True) -> str:
        fit = [t for t in self.tensors if test(self.value(t))]
        if not fit:
            raise LookupError
        if recent and self.random.random() < 0.6:
            fit = fit[-3:]
        return self.random.choice(fit)

    def fill(self, template: str, **known: str) -> str:
        """A template with its operands drawn."""
        given: dict[str, str] = dict(known)
        first: Any = None
        if "{w}" in template:
            given["w"] = self.among(lambda t: True, recent=False)
            first = self.value(given["w"])
        elif "x" not in given:
            floats = self.random.random() < 0.7
            given["x"] = self.among(lambda t: not floats or t.is_floating_point())
        first = self.value(given["x"]) if first is None else first
        draw = self.random.choice
        shape = tuple(first.shape)
        axis = draw(range(-len(shape), len(shape))) if shape else 0
        length = shape[axis] if shape else 1

        def one(match: Any) -> str:
            name = match[1]
            if name in given:
                return given[name]
            if name in "yz":
                return self.among(lambda t: _fits(t, first) or self.random.random() < 0.1)
            if name == "s":
                return self.among(lambda t: tuple(t.shape) == shape)
            if name == "b":
                return self.among(lambda t: t.dtype == bool)
            if name == "k":
                return self.among(lambda t: np.dtype(t.dtype).kind in "iu")
            if name == "p":
                return draw(self.leaves)
            simple = {
                "c": lambda: draw(NUMBERS), "r": lambda: draw(self.rates or NUMBERS),
                "a": lambda: axis, "n": lambda: length, "i": lambda: draw(range(-length, length)),
                "h": lambda: (length + 1) // 2, "d": lambda: draw(DTYPES), "n-1": lambda: shape[-1],
                "n0": lambda: shape[0], "n1": lambda: shape[1], "m": lambda: draw([1, 2, 3, 5]),
                "bn": lambda: draw(BATCH_NORM), "rate": lambda: draw(["0.1", "0.5", "1"]),
            }  # fmt: skip
            return str(simple[name]())

        return re.sub(r"\{([\w-]+)\}", one, template)

    def attempt(self, line: str, where: list[str], result: str | None = None) -> bool:
        """Run a line eagerly; keep it if it works and its result stays small."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(line, self.space)
            if result is not None:
                made = self.value(result)
                array = made._array
                if array.size > MOST_ELEMENTS or array.size == 0:
                    return False
                if array.dtype.kind in "fiu" and not np.abs(np.asarray(array, float)).max() < LARGEST:
                    return False
        except Exception:
            return False
        where.append(line)
        return True

    # -- the parts of a program --------------------------------------------------------------------

    def make_values(self) -> None:
        """Arguments, memories and leaves."""
        draw, program = self.random.choice, self.program
        long = draw(["", "", "", ", dtype=gw.float64"])
        shapes = [draw(["4, 3", "3, 4", "2, 3, 4", "5", "4, 4", "2, 3, 4, 4", "1", "2, 5, 3", "6, 2", "33, 3"])]
        shapes += [draw([shapes[0], shapes[0].split(", ")[-1], "3", "1"]) for _ in range(3)]
        kinds = ["gw.randn({s}{d})"] * 5 + ["gw.randn({s})", "gw.rand({s}{d})", "gw.randint(0, 5, ({s},))",
                 "gw.rand({s}) < 0.5", "gw.randint(0, 9, ({s},)).to({t})", "gw.zeros({s}{d})", "gw.ones({s}{d})",
                 "gw.randn({s}{d}).requires_grad_()", "gw.tensor(0)", "gw.tensor(1.5)",
                 "gw.randn({s}{d}).T", "gw.randn(2, {s}{d})[1]", "gw.zeros({s}, dtype=gw.int64)"]  # fmt: skip

        def value() -> str:
            text: str = draw(kinds)
            return text.replace("{s}", draw(shapes)).replace("{d}", long).replace("{t}", draw(DTYPES))

        self.attempt("box = nn.Module()", program.setup)
        for number in range(draw([0, 1, 2, 3])):
            if draw([True, False]):
                name = f"m{number}"
                line = f"{name} = {value()}"
            else:
                name = f"box.m{number}"
                line = f"box.register_buffer('m{number}', {value()}.detach())"
            if self.attempt(line, program.setup, name):
                self.remember(name)
                program.kept.append(name)
        for number in range(draw([0, 0, 1, 2])):
            name = f"w{number}"
            if self.attempt(f"{name} = nn.Parameter(gw.randn({draw(shapes)}{long}))", program.setup, name):
                self.remember(name)
                program.kept.append(name)
        for number in range(draw([1, 1, 2, 3])):
            name = f"x{number}"
            line = f"{name} = gw.randn({shapes[0]}{long})" if not number else f"{name} = {value()}"
            if self.attempt(line, [], name):
                self.argument(name, line.split(" = ", 1)[1])
        if draw([True, False]):
            self.space["rate"] = 0.5
            program.arguments.append("rate")
            program.values.append("0.5 + 0.25 * call")
            self.rates.append("rate")
        program.kept.append("box")

    def argument(self, name: str, expression: str) -> None:
        """An argument by itself, or inside a tuple or dictionary."""
        form = self.random.choice(["plain", "plain", "plain", "tuple", "dict"])
        self.program.arguments.append(name if form == "plain" else f"given_{name}")
        if form == "plain":
            self.program.values.append(expression)
        elif form == "tuple":
            self.program.values.append(f"({expression}, 'other')")
            self.program.body.append(f"{name}, _ = given_{name}")
        else:
            self.program.values.append(f"{{'it': {expression}}}")
            self.program.body.append(f"{name} = given_{name}['it']")
        self.remember(name)

    def remember(self, name: str) -> None:
        self.tensors.append(name)
        if self.value(name).requires_grad and self.value(name).is_leaf:
            self.leaves.append(name)

    def grow(self) -> None:
        """One more line."""
        kind = self.random.random()
        try:
            if kind < 0.16:
                self.layer()
            elif kind < 0.32:
                self.write_somewhere()
            else:
                self.expression()
        except (LookupError, RecursionError):
            pass

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def expression(self) -> None:
        name = self.fresh()
        line = f"{name} = {self.fill(self.random.choice(EXPRESSIONS))}"
        if self.random.random() < 0.05:
            line = f"with gw.no_grad():\n    {line}"
        if self.attempt(line, self.program.body, name):
            self.tensors.append(name)

    def layer(self) -> None:
        made, called = self.random.choice(LAYERS)
        x = self.among(lambda t: t.is_floating_point() and t.ndim > 0)
        name, result = f"l{len(self.layers)}", self.fresh()
        made = self.fill(made, x=x)
        if self.value(x).dtype == np.float64:
            made += ".double()"
        line = f"{name} = {made}"
        call = f"{result} = {self.fill(called, x=x, l=name)}"
        setup: list[str] = []
        if self.attempt(line, setup) and self.attempt(call, self.program.body, result):
            self.program.setup += setup
            self.layers.append(name)
            self.program.kept.append(name)
            self.tensors.append(result)

    def write_somewhere(self) -> None:
        line = self.fill(self.random.choice(WRITES))
        if re.match(r"[mw]\d+ .= ", line):  # a variable of the enclosing function
            return
        if self.random.random() < 0.3:
            line = f"with gw.no_grad():\n    {line}"
        self.attempt(line, self.program.body)
        for name in self.program.kept:  # a memory with a history is continued by every call: refused
            memory = self.space.get(name)
            if name[0] == "m" and memory is not None and memory.grad_fn is not None:
                self.space[name] = memory.detach()
                self.program.body.pop()
            elif name.startswith("box.") and self.value(name).grad_fn is not None:
                exec(f"{name} = {name}.detach()", self.space)
                self.program.body.pop()

    def assign_attribute(self) -> None:
        """`box.m = ...`, in the shape and dtype that it has."""
        own = [t for t in self.tensors if t.startswith("box.")]
        if own:
            name = self.random.choice(own)
            now = self.value(name)
            try:
                other = self.among(lambda t: t.shape == now.shape and t.dtype == now.dtype)
            except LookupError:
                return
            text = self.random.choice(["{o}.detach()", "{o}.detach() * 0.5", "{n} * 0.5 + {o}.detach()"])
            value = text.replace("{o}", other).replace("{n}", name)
            if now.is_floating_point():
                self.attempt(f"{name} = {value}", self.program.body, name)

    def train(self) -> None:
        """The end of a training step: a loss, backward, and often an optimizer."""
        draw, program = self.random.choice, self.program
        parts = [
            t for t in self.tensors
            if self.value(t).requires_grad and self.value(t).is_floating_point() and self.value(t).grad_fn
        ]  # fmt: skip
        if not parts:
            return
        chosen = self.random.sample(parts[-5:], min(len(parts[-5:]), draw([1, 2, 3])))
        loss = " + ".join(draw(["{}.tanh().mean()", "{}.mean()", "({0} * {0}).mean()"]).format(t) for t in chosen)
        before = list(program.body)
        self.attempt(f"loss = {loss}", program.body, "loss")
        trained = [n for n in self.layers if list(self.value(n).parameters())]
        trained += [n for n in self.leaves if re.match(r"w\d", n)]
        optimizer = bool(trained) and self.random.random() < 0.85
        if optimizer:
            lists = " + ".join(f"list({n}.parameters())" if n[0] == "l" else f"[{n}]" for n in trained)
            if draw([True, False, False]) and len(trained) > 1:
                lists = f"[{{'params': ps, 'lr': 0.02}} for ps in ({', '.join('[' + n + ']' if n[0] == 'w' else f'list({n}.parameters())' for n in trained)},)]"  # noqa: E501
            made = draw(OPTIMIZERS).replace("{p}", lists)
            if not self.attempt(f"opt = optim.{made}", program.setup):
                return
            program.kept.append("opt")
        zero = draw(["opt.zero_grad()", "opt.zero_grad(set_to_none=False)", "opt.zero_grad()", ""])
        end = ["loss.backward()"] if self.random.random() < 0.9 else ["loss.backward(retain_graph=True)", "loss.backward()"]
        if optimizer and zero:
            if draw([True, False]):
                program.body.insert(len(program.arguments) and 0, zero)
            else:
                end.insert(0, zero)
        if trained and draw([True, False, False]):
            groups = " + ".join(f"list({n}.parameters())" if n[0] == "l" else f"[{n}]" for n in trained)
            clip = draw(["nn.utils.clip_grad_norm_({}, 0.5)", "nn.utils.clip_grad_value_({}, 0.1)",
                         "norm = nn.utils.clip_grad_norm_({}, 1.0)"])  # fmt: skip
            end.append(clip.format(groups))
        if self.leaves and draw([True, False, False, False]):
            leaf = draw(self.leaves)
            end.append(f"seen = {leaf}.grad * 2 if {leaf}.grad is not None else {leaf} * 0")
        if optimizer:
            end.append("opt.step()")
            if draw([True, False, False]):
                schedule = draw(SCHEDULES).replace("{o}", "opt")
                self.attempt(f"sched = optim.lr_scheduler.{schedule}", program.setup)
                program.between.append("sched.step()")
            elif draw([True, False, False]):
                program.between.append("opt.param_groups[0]['lr'] *= 0.5")
        before = list(program.body)
        for line in end:
            if not self.attempt(line, program.body):
                program.body[:] = before
                return
        if not optimizer and draw([True, False]):
            for leaf in self.leaves:
                if leaf[0] == "w":
                    program.body.append(
                        f"with gw.no_grad():\n    if {leaf}.grad is not None:\n"
                        f"        {leaf} -= 0.1 * {leaf}.grad\n        {leaf}.grad = None"
                        if False
                        else f"with gw.no_grad():\n    if {leaf}.grad is not None:\n"
                        f"        {leaf}.sub_(0.1 * {leaf}.grad)\n        {leaf}.grad = None"
                    )
        self.tensors.append("loss")
        if "seen" in self.space:
            self.tensors.append("seen")

    def hooks(self) -> None:
        """A hook on a leaf or a layer, made outside."""
        if self.leaves:
            leaf = self.random.choice(self.leaves)
            if re.match(r"w\d", leaf):
                self.attempt(f"{leaf}.register_hook(lambda g: g * 0.5)", self.program.setup)
        elif self.layers:
            layer = self.random.choice(self.layers)
            hook = f"{layer}.register_forward_hook(lambda m, i, o: o * 2 if hasattr(o, 'dtype') else None)"
            self.attempt(hook, self.program.setup)

    def finish(self) -> None:
        draw, program = self.random.choice, self.program
        results = [t for t in self.tensors if re.match(r"v|loss|seen|m\d|x\d|box", t)]
        chosen = self.random.sample(results, min(len(results), draw([1, 2, 4, 8])))
        if "loss" in self.tensors and "loss" not in chosen:
            chosen.append("loss")
        form = draw(["{}", "[{}]", "tuple", "dict", "nested"])
        listed = ", ".join(chosen)
        if form == "dict":
            program.result = "{" + ", ".join(f"'{i}': {t}" for i, t in enumerate(chosen)) + "}"
        elif form == "nested":
            program.result = f"(({listed},), {{'count': 3, 'inner': [{chosen[0]}]}})"
        else:
            program.result = f"[{listed}]" if form == "[{}]" else f"({listed},)"
        if self.layers and draw([True, False, False]):
            for layer in self.layers:
                program.between.append(f"{layer}.train(call % 2 == 1)")
        # A result of a training step has no graph, so it may be written where eager code may not.
        if "loss" not in self.tensors and draw([True, False, False, False]):
            program.between.append(
                "for t in result if isinstance(result, (list, tuple)) else ():\n"
                "    if hasattr(t, 'dtype') and not t.requires_grad: t.add_(1) if t.dtype != gw.bool else None"
            )
        if "loss" not in self.tensors and draw([True, False]):
            program.between.append(
                "for t in result if isinstance(result, (list, tuple)) else ():\n"
                "    if hasattr(t, 'dtype') and t.grad_fn is not None: t.sum().backward(retain_graph=True)"
            )

    def write(self) -> UserProgram:
        self.make_values()
        for _ in range(self.random.choice([1, 3, 6, 10, 16])):
            self.grow()
            if self.random.random() < 0.06:
                self.assign_attribute()
        if self.random.random() < 0.15:
            self.hooks()
        if self.random.random() < 0.75:
            self.train()
        self.finish()
        return self.program


def _fits(one: Any, other: Any) -> bool:
    try:
        np.broadcast_shapes(tuple(one.shape), tuple(other.shape))
    except ValueError:
        return False
    return True


def written(seed: int) -> UserProgram:
    """The program of a seed."""
    return ProgramWriter(seed).write()
