"""Generate docs/pytorch/coming-from-pytorch.md: `python -m tools.coming_from_pytorch`.

The lists come from the two installed libraries; only the text around them is written here. A test
compares the page with the output of this script.
"""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from pathlib import Path

import torch
import torch.nn.utils.prune

import gradwalk as gw
from tools.pytorch_names import LEFT_OUT, Comparison, Namespace, compare

PAGE = Path(__file__).parents[1] / "docs" / "pytorch" / "coming-from-pytorch.md"
WIDTH = 98

IN_PLACE = r"\w+_"
NAMESPACES = (
    Namespace(
        "torch",
        "gradwalk",
        torch,
        gw,
        (
            ("an iteration for a few eigenvalues; `linalg.eigh` finds all", r"lobpcg"),
        ),
    ),
    Namespace(
        "torch.Tensor",
        "gradwalk.Tensor",
        torch.Tensor,
        gw.Tensor,
        (
            ("PyTorch's internal steps: `data_ptr` and `x[...]`", r"const_data_ptr|index"),
        ),
    ),
    Namespace(
        "torch.nn",
        "gradwalk.nn",
        torch.nn,
        gw.nn,
        (
            ("options that would change nothing here", r"LinearCrossEntropyOptions"),
        ),
    ),
    Namespace("torch.nn.Module", "gradwalk.nn.Module", torch.nn.Module, gw.nn.Module),
    Namespace(
        "torch.nn.functional",
        "gradwalk.nn.functional",
        torch.nn.functional,
        gw.nn.functional,
    ),
    Namespace("torch.nn.init", "gradwalk.nn.init", torch.nn.init, gw.nn.init),
    Namespace("torch.nn.utils", "gradwalk.nn.utils", torch.nn.utils, gw.nn.utils),
    Namespace(
        "torch.nn.utils.prune",
        "gradwalk.nn.utils.prune",
        torch.nn.utils.prune,
        gw.nn.utils.prune,
    ),
    Namespace(
        "torch.nn.utils.parametrize", "gradwalk.nn.utils.parametrize",
        torch.nn.utils.parametrize, gw.nn.utils.parametrize,
        (("for the conversion to quantized modules", r"transfer_parametrizations_and_params"),),
    ),
    Namespace("torch.nn.utils.rnn", "gradwalk.nn.utils.rnn", torch.nn.utils.rnn, gw.nn.utils.rnn),
    Namespace("torch.optim", "gradwalk.optim", torch.optim, gw.optim),
    Namespace(
        "torch.optim.Optimizer", "gradwalk.optim.Optimizer", torch.optim.Optimizer,
        gw.optim.Optimizer,
    ),
    Namespace(
        "torch.optim.lr_scheduler", "gradwalk.optim.lr_scheduler", torch.optim.lr_scheduler,
        gw.optim.lr_scheduler,
    ),
    Namespace(
        "torch.optim.swa_utils", "gradwalk.optim.swa_utils", torch.optim.swa_utils,
        gw.optim.swa_utils,
    ),
    Namespace("torch.utils.data", "gradwalk.data", torch.utils.data, gw.data),
    Namespace("torch.linalg", "gradwalk.linalg", torch.linalg, gw.linalg),
    Namespace("torch.fft", "gradwalk.fft", torch.fft, gw.fft),
    Namespace("torch.special", "gradwalk.special", torch.special, gw.special),
    Namespace("torch.autograd", "gradwalk.autograd", torch.autograd, gw.autograd),
    Namespace(
        "torch.autograd.functional", "gradwalk.autograd.functional", torch.autograd.functional,
        gw.autograd.functional,
    ),
    Namespace(
        "torch.distributions", "gradwalk.distributions", torch.distributions, gw.distributions,
        (
            (
                "transforms of whole vectors and matrices",
                r".*Transform|LogisticNormal",
            ),
            ("registries that find such a transform for a constraint", r"biject_to|transform_to"),
            ("a base class of PyTorch's own formulas", r"ExponentialFamily"),
            ("rare", r"GeneralizedPareto"),
        ),
    ),
    Namespace(
        "torch.func", "gradwalk.func", torch.func, gw.func,
        (("the package einops has it, for every library", r"rearrange"),),
    ),
    Namespace(
        "torch.accelerator", "gradwalk.accelerator", torch.accelerator, gw.accelerator,
        (
            ("the device is named in `to(...)`; no other is current", r"(set_)?device_(idx|index)"),
            ("JAX counts and frees the memory of a device itself", r".*memory.*|.*cache.*"),
            ("of CUDA alone", r"Graph|get_device_capability"),
        ),
    ),
    Namespace("torch.random", "gradwalk.random", torch.random, gw.random),
    Namespace("torch.Generator", "gradwalk.Generator", torch.Generator, gw.Generator),
)  # fmt: skip

EXAMPLE = """\
import tempfile
from pathlib import Path

import gradwalk as torch  # was: import torch
from gradwalk import nn
from gradwalk.nn import functional as F
from gradwalk.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0, like="torch")  # PyTorch's numbers; leave `like` out for ours, which are faster


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(2, 16)
        self.out = nn.Linear(16, 2)

    def forward(self, x):
        return self.out(F.relu(self.hidden(x)))


points = torch.randn(256, 2, device=device)
labels = (points[:, 0] * points[:, 1] > 0).long()
loader = DataLoader(TensorDataset(points, labels), batch_size=32, shuffle=True)

model = Net().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
for epoch in range(20):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    scheduler.step()

with torch.no_grad():
    right = (model(points).argmax(dim=1) == labels).float().mean()
print(model)
print("right:", right.item() > 0.9)

path = Path(tempfile.mkdtemp()) / "model.safetensors"
torch.save(model.state_dict(), path)  # safetensors, which PyTorch reads as well
print(Net().load_state_dict(torch.load(path)))
"""

OPENING = """\
# Coming from PyTorch

*`python -m tools.coming_from_pytorch` generates this page from PyTorch {version} and gradwalk; a
test fails when it is out of date. [Where gradwalk differs](differences.md) lists what behaves
differently under the same name.*

## How to move

1. **Imports.** Write `import gradwalk as torch`, and replace `torch` by `gradwalk` in
   `from torch... import ...`: `gradwalk.nn`, `gradwalk.optim` and `gradwalk.utils.data` are where
   PyTorch has them. Of einops, `from einops.layers.torch import ...` becomes
   `from gradwalk.einops import ...`; its functions work as they are.
2. **Devices.** `device="cuda"`, `.to(device)`, `torch.cuda.is_available()`, `autocast` and
   `GradScaler` work as in PyTorch, on JAX (`pip install "gradwalk[xla]"`). Instead of
   `DataParallel` there is `Mesh`. `compile` compiles a whole training step.
3. **Weights.** In PyTorch, call `safetensors.torch.save_file(model.state_dict(), path)` (or
   `save_model`, if weights are tied); in gradwalk, `model.load_state_dict(gradwalk.load(path))`.
   Names and shapes are PyTorch's. If both libraries are in one process, `gradwalk.io.from_torch`
   and `to_torch` convert state dicts. PyTorch's `safetensors.torch.load_file` reads the files that
   `gradwalk.save` writes of a state dict; a nested checkpoint it writes in the format of
   `torch.save`, which `torch.load` reads. `gradwalk.load` reads both, without executing anything:
   a file that has more than tensors, numbers and text in containers is refused.
4. **Optimizers and schedules.** Their `state_dict` has PyTorch's layout, and `load_state_dict`
   accepts PyTorch's. `optim.swa_utils.AveragedModel` keeps an average of the weights: call its
   `update_parameters(model)` after each step.
5. **Random numbers.** `manual_seed(s, like="torch")` gives PyTorch's CPU numbers, so that you can
   compare two programs step by step. Without `like`, gradwalk uses another, faster generator.
6. **Arguments have PyTorch's names**: `torch.add(input=a, other=b, alpha=2)`. Functions with `dim`
   and `keepdim` also accept NumPy's `axis` and `keepdims`. Ops and reductions take `out=`.

This program was moved by changing its imports:

```python
{example}```

```text
{printed}```
"""

COUNTING = """\
## What is here

{counted}

{table}

**Without** lists the keywords that gradwalk's function does not accept in any form, except those
about layouts and memory formats, and `out=`.
"""


def page() -> str:
    """The whole page."""
    found = {place: compare(place) for place in NAMESPACES}
    opening = OPENING.format(
        version=torch.__version__.partition("+")[0], example=EXAMPLE, printed=printed_by(EXAMPLE)
    )
    counting = COUNTING.format(counted=_counted(), table=_table(found))
    sections = [_section(place, comparison) for place, comparison in found.items()]
    return "\n".join([opening, counting, *sections])


def printed_by(code: str) -> str:
    """Return what a program prints, and restore the state of the random numbers."""
    printed, random = io.StringIO(), gw.get_rng_state()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "coming-from-pytorch.md", "exec"), {"__name__": "__main__"})
    gw.set_rng_state(random)
    return printed.getvalue()


def _counted() -> str:
    reasons = "; ".join(rule.reason for rule in LEFT_OUT)
    return textwrap.fill(
        "The table counts PyTorch's documented functions, classes and methods. It leaves out, "
        f"unless gradwalk has them: {reasons}.",
        WIDTH + 2,
    )


def _table(found: dict[Namespace, Comparison]) -> str:
    rows = ["| PyTorch | here | names here | of |", "|---|---|---:|---:|"]
    for place, comparison in found.items():
        link = place.title.lower().replace(".", "")
        here, total = len(comparison.here), len(comparison.here) + len(comparison.missing)
        rows.append(f"| [`{place.title}`](#{link}) | `{place.here}` | {here} | {total} |")
    return "\n".join(rows)


def _section(place: Namespace, comparison: Comparison) -> str:
    parts = [f"### {place.title}\n"]
    if comparison.missing:
        parts.append(_missing(place, comparison.missing))
    if comparison.keywords:
        listed = [f"`{name}` ({', '.join(k)})" for name, k in comparison.keywords.items()]
        parts.append(_paragraph("**Without**", listed))
    in_place = [name for name in comparison.here if re.fullmatch(IN_PLACE, name)]
    many = len(in_place) > 50  # list them apart
    plain = [name for name in comparison.here if not many or name not in in_place]
    parts.append(_paragraph("**Here**", [f"`{name}`" for name in plain]))
    if many:
        parts.append(_paragraph("**Here, in place**", [f"`{name}`" for name in in_place]))
    return "\n".join(parts)


def _missing(place: Namespace, names: list[str]) -> str:
    """List the missing names, by the reason that the namespace gives."""
    left = list(names)
    groups = []
    for title, pattern in place.groups:
        found = [name for name in left if re.fullmatch(pattern, name)]
        if found:
            groups.append(f"{title}: {', '.join(f'`{name}`' for name in found)}")
            left = [name for name in left if name not in found]
    if left:
        raise ValueError(f"{place.title}: say in its groups why there is no {', '.join(left)}")
    if len(groups) == 1:
        return _paragraph("**Not here**", [groups[0]])
    lines = ["**Not here**:", ""]
    for group in groups:
        lines.append(textwrap.fill(f"- {group}", WIDTH, subsequent_indent="  ", **_WRAP))
    return "\n".join(lines) + "\n"


_WRAP = {"break_long_words": False, "break_on_hyphens": False}


def _paragraph(title: str, listed: list[str]) -> str:
    return textwrap.fill(f"{title}: {', '.join(listed)}", WIDTH, **_WRAP) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(Path.cwd())}")
