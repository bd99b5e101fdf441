"""The clinic's programs (tests/clinic/) on PyTorch: the same files, with `torch` for `gradwalk`."""

import re
from pathlib import Path
from types import ModuleType

import pytest
import torch

import gradwalk as gw
from gradwalk.inspect.trace.trace import Trace
from tests.clinic.test_clinic_gradients import expected_line
from tests.clinic.test_clinic_health import differing_line

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch warns of some of these programs
CLINIC = Path(__file__).parent.parent / "clinic"
WORDS = (
    (r"^import gradwalk as gw$", "import torch as gw"),
    (r"^from gradwalk\.inspect import record$", "from gradwalk.torch import record"),
    (r"^from gradwalk import", "from torch import"),
    (r"^from gradwalk\.nn import", "from torch.nn import"),
    (r"\bgw\.record\b", "__import__('gradwalk').torch.record"),
)
# What cannot be the same. PyTorch's `.data` and `tensor(x)` are a detach() like any other; it does
# not keep the line a tensor or an optimizer was made at (one made before the recording has none);
# and other random numbers make another layer the worst.
KINDS = {"none_data": "detach", "none_copy": "detach"}
OPS = {
    "nan_norm_without_eps": "layer_norm",
    "none_copy": "detach",
    "none_no_grad_encoder": "permute",
    "none_zero_weights": "addmm",
}
whole = torch.ones(2, requires_grad=True) * 2
whole[:] = torch.ones(2, requires_grad=True)
if type(whole.grad_fn).__name__ == "CopySlices":  # older versions make a slice also of the whole
    OPS["none_zero_overwritten"] = "write_view"
LAYERS = {"health_missing_normalisation": "7", "health_wrong_gain": "2"}
MADE_BEFORE = {"nan_data_row", "nan_weights_left", "none_frozen", "none_unused"}
MADE_BEFORE |= {"health_unscaled_input", "health_flat_gates"}
MADE_BEFORE |= {"health_large_learning_rate", "health_small_learning_rate"}
MADE_BEFORE |= {"health_zero_learning_rate"}


def on_torch(path: Path) -> ModuleType:
    """A program of the clinic with PyTorch's names for ours; its lines stay where they are."""
    source = path.read_text()
    for ours, theirs in WORDS:
        source = re.sub(ours, theirs, source, flags=re.MULTILINE)
    module = ModuleType(f"clinic_{path.stem}_on_torch")
    module.__file__ = str(path)
    exec(compile(source, str(path), "exec"), vars(module))
    return module


def programs(kind: str) -> list[Path]:
    return sorted(CLINIC.glob(f"{kind}_*.py"))


@pytest.mark.parametrize("path", programs("nan"), ids=lambda path: path.stem)
def test_the_first_cause_of_a_nan(path):
    module = on_torch(path)
    found = gw.find_nan(module.sick())
    assert found.kind == module.KIND, str(found)
    assert found.op == OPS.get(path.stem, module.OP)
    assert found.direction == getattr(module, "DIRECTION", "forward")
    assert (found.line is None) == (path.stem in MADE_BEFORE)
    assert found.line is None or found.line.line == expected_line(module), str(found)
    assert not gw.find_nan(module.healthy())


@pytest.mark.parametrize("path", programs("none"), ids=lambda path: path.stem)
def test_why_a_gradient_is_none_or_zero(path):
    module = on_torch(path)
    found = gw.why_no_grad(*module.sick())
    kind = KINDS.get(path.stem, module.KIND)
    assert (found.verdict, found.kind) == (module.VERDICT, kind), str(found)
    assert found.op == OPS.get(path.stem, module.OP)
    assert (found.line is None) == (path.stem in MADE_BEFORE)
    assert found.line is None or found.line.line == expected_line(module), str(found)
    assert gw.why_no_grad(*module.healthy()).verdict == "flows"


def recorded(program):
    """What a program of `health` returns, its loss recorded from the first line on."""
    with gw.torch.record() as trace:
        model, loss, optimizer = program()
        if not isinstance(loss, Trace):
            loss.backward()
    return model, loss if isinstance(loss, Trace) else trace, optimizer


@pytest.mark.parametrize("path", programs("health"), ids=lambda path: path.stem)
def test_sick_is_named_and_its_twin_is_not(path):
    module = on_torch(path)
    report = gw.health(*recorded(module.sick))
    (finding,) = [finding for finding in report.findings if finding.kind == module.KIND]
    assert finding.layer == LAYERS.get(path.stem, module.LAYER)
    assert finding.change
    named = [line.line for line in (finding.line, finding.cause) if line is not None]
    assert path.stem in MADE_BEFORE or differing_line(module) in named, str(finding)
    assert gw.health(*recorded(module.healthy)).findings == []
