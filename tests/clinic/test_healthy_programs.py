"""Healthy programs, the clinic's twins and the examples: no tool says anything about them."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradwalk as gw
from gradwalk.inspect.health.health import health
from gradwalk.inspect.mistakes.audit import audit
from gradwalk.inspect.nan.find_nan import find_nan
from gradwalk.inspect.no_grad.why_no_grad import why_no_grad
from gradwalk.inspect.trace.trace import Trace
from gradwalk.nn import functional as F
from tests.clinic.test_clinic_gradients import load

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples"
TWINS = sorted(path for kind in ("nan", "none", "bug", "health") for path in HERE.glob(f"{kind}_*"))
STEPS = 100


def recorded(path: Path) -> tuple[Any, Trace, Any]:
    """A healthy twin: its model if it has one, its recording, and its optimizer."""
    kind = path.stem.partition("_")[0]
    if kind == "none":
        return None, load(path).healthy()[1], None
    if kind == "health":
        model, loss, optimizer = load(path).healthy()
        if isinstance(loss, Trace):
            return model, loss, optimizer
        return model, gw.record(loss), optimizer
    with gw.record() as trace:
        found = load(path).healthy()
        if kind == "nan":
            found()
            return None, trace, None
        function, inputs = found
        result = function(*inputs) if isinstance(inputs, tuple | list) else function(inputs)
        loss = result.sum() if isinstance(result, gw.Tensor) else result
        loss.backward()
    return None, trace if loss is not result else gw.record(loss), None


def said(model: Any, trace: Trace, optimizer: Any) -> list[str]:
    """What the tools say about one step."""
    told = []
    if not trace.scalar:
        told += [str(finding) for finding in health(model, trace, optimizer).findings]
    told += [str(found)] if (found := find_nan(trace)) else []
    told += [str(fault) for fault in audit(trace).faults]
    for parameter in [] if model is None else model.parameters():
        answer = why_no_grad(parameter, trace)
        told += [str(answer)] if answer else []
    return told


def test_every_tool_is_silent_about_the_twins() -> None:
    assert len(TWINS) >= 60
    told = {path.stem: said(*recorded(path)) for path in TWINS}
    assert {name: texts for name, texts in told.items() if texts} == {}


def example(name: str) -> Any:
    """The module of an example program."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Program = tuple[Any, Callable[[Any], Any], float]


def characters() -> Program:
    model, tokens = example("characters").GPT(20), gw.randint(0, 20, (4, 17))
    return model, lambda m: F.cross_entropy(m(tokens[:, :-1]).mT, tokens[:, 1:]), 1e-3


def digits() -> Program:
    model, images, labels = example("digits").convolutional_network(), *_digits()
    return model, lambda m: F.cross_entropy(m(images), labels), 1e-3


def digits_vae() -> Program:
    module, (images, _) = example("digits_vae"), _digits()
    return module.VAE(8, 64), lambda m: sum(module.losses_of(m, images, 1.0)), 1e-3


def sequence() -> Program:
    module = example("sequence")
    heard = module.waves(16, 20)
    return module.Memory(16), lambda m: F.mse_loss(m(heard[:, :-1])[0], heard[:, 1:]), 5e-3


def moons() -> Program:
    points, labels = next(iter(gw.data.DataLoader(gw.data.moons(200, seed=0), batch_size=64)))
    sizes = ((2, 32), (32, 32), (32, 2))
    layers = [part for size in sizes for part in (gw.nn.Linear(*size), gw.nn.Tanh())]
    model = gw.nn.Sequential(*layers[:-1])
    return model, lambda m: F.cross_entropy(m(points), labels), 0.01


def _digits() -> tuple[Any, Any]:
    return gw.rand(32, 1, 8, 8), gw.arange(32) % 10


@pytest.mark.parametrize("make", (characters, digits, digits_vae, sequence, moons))
def test_every_tool_is_silent_about_the_examples(make: Callable[[], Program]) -> None:
    gw.manual_seed(0)
    model, loss_of, rate = make()
    optimizer = gw.optim.Adam(model.parameters(), lr=rate)
    told = []
    for step in range(STEPS + 1):
        optimizer.zero_grad()
        if step in (0, STEPS):
            with gw.record() as trace:
                loss_of(model).backward()
            told += said(model, trace, optimizer)
        else:
            loss_of(model).backward()
        optimizer.step()
    assert told == []
