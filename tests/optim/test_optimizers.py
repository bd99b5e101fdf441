"""Every optimizer tracks PyTorch's over fifty steps, with every option, and can be continued."""

import json
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.quick import first_quick

STEPS = 50
SHAPES = ((3, 4), (5,), ())

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        {},
        {"lr": 0.05},
        {"lr": 0.05, "weight_decay": 0.1},
        {"lr": 0.02, "momentum": 0.9},
        {"lr": 0.02, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01},
        {"lr": 0.02, "momentum": 0.9, "nesterov": True},
        {"lr": 0.02, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1, "maximize": True},
    ],
    "Adam": [
        {},
        {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1},
        {"lr": 0.05, "amsgrad": True},
        {"lr": 0.05, "maximize": True, "weight_decay": 0.1},
        {"lr": 0.05, "decoupled_weight_decay": True, "weight_decay": 0.1},
    ],
    "AdamW": [
        {},
        {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1},
        {"lr": 0.05, "amsgrad": True, "weight_decay": 0},
        {"lr": 0.05, "maximize": True},
    ],
    "NAdam": [
        {},
        {"lr": 0.05, "betas": (0.8, 0.95), "momentum_decay": 1e-2, "weight_decay": 0.1},
        {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ],
    "RAdam": [
        {},
        {"lr": 0.05, "betas": (0.8, 0.95), "weight_decay": 0.1},
        {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ],
    "Adagrad": [
        {},
        {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
        {"lr": 0.1, "eps": 1e-3, "maximize": True},
    ],
    "Adadelta": [
        {},
        {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.1},
        {"maximize": True},
    ],
    "RMSprop": [
        {},
        {"lr": 0.02, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1},
        {"lr": 0.02, "centered": True},
        {"lr": 0.02, "momentum": 0.9},
        {"lr": 0.02, "momentum": 0.9, "centered": True, "maximize": True},
    ],
    "Adamax": [
        {},
        {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1},
        {"lr": 0.05, "maximize": True},
    ],
    "ASGD": [
        {},
        {"lr": 0.05, "lambd": 1e-2, "alpha": 0.5, "t0": 5, "weight_decay": 0.1},
        {"lr": 0.05, "maximize": True},
    ],
    "Rprop": [
        {},
        {"lr": 0.05, "etas": (0.4, 1.5), "step_sizes": (1e-3, 0.2)},
        {"maximize": True},
    ],
    "Adafactor": [
        {},
        {"lr": 0.5, "beta2_decay": -0.5, "eps": (1e-4, 1e-2), "d": 1.5, "weight_decay": 0.1},
        {"lr": 0.05, "maximize": True},
    ],
    "LBFGS": [
        {"lr": 0.1, "max_iter": 2},
        {"lr": 0.5, "history_size": 3, "max_iter": 4},
        {"line_search_fn": "strong_wolfe", "max_iter": 2},
        {"line_search_fn": "strong_wolfe", "history_size": 2, "max_iter": 3, "lr": 0.5},
    ],
}
CASES = [(name, options) for name, several in OPTIONS.items() for options in several]
NAMES = [f"{name} {' '.join(f'{k}={v}' for k, v in o.items())}".strip() for name, o in CASES]
every_case = pytest.mark.parametrize(
    ("name", "options"), first_quick(CASES, lambda case: case[0]), ids=NAMES
)


class Run:
    """Three parameters pulled down a dented bowl by an optimizer of either library."""

    def __init__(self, library: Any, name: str, options: dict[str, Any]) -> None:
        source = np.random.default_rng(0)
        drawn = [np.asarray(source.standard_normal(shape)) for shape in SHAPES]
        self.parameters = [library.tensor(array, requires_grad=True) for array in drawn]
        self.optimizer = getattr(library.optim, name)(self.parameters, **options)
        self.name = name

    def closure(self) -> Any:
        self.optimizer.zero_grad()
        a, b, c = self.parameters
        loss = ((a - 1) ** 2).sum() + (b * b).sum() + 0.3 * (b + c).sin().sum() + (c - 2) ** 2
        loss = loss + 0.1 * (a[:, :1] * b).tanh().sum()
        loss.backward()
        return loss

    def walk(self, steps: int) -> "Run":
        for _ in range(steps):
            if self.name == "LBFGS":
                self.optimizer.step(self.closure)
            else:
                self.closure()
                self.optimizer.step()
        return self

    def arrays(self) -> list[np.ndarray]:
        return [p.detach().numpy().copy() for p in self.parameters]

    def take(self, other: "Run") -> "Run":
        """Continue where another run stands."""
        for mine, theirs in zip(self.parameters, other.arrays()):
            mine.data = gw.tensor(theirs) if isinstance(mine, gw.Tensor) else torch.tensor(theirs)
        self.optimizer.load_state_dict(other.optimizer.state_dict())
        return self


@pytest.fixture(autouse=True)
def double_in_torch() -> Iterator[None]:
    """NAdam of PyTorch keeps a product in the default dtype, and would be less exact than ours."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@every_case
def test_fifty_steps_in_float64(name: str, options: dict[str, Any]) -> None:
    ours = Run(gw, name, options).walk(STEPS).arrays()
    theirs = Run(torch, name, options).walk(STEPS).arrays()
    for mine, expected in zip(ours, theirs):
        np.testing.assert_allclose(mine, expected, rtol=1e-9, atol=1e-10)


@every_case
def test_saved_midway_and_loaded_it_continues_to_the_bit(
    name: str, options: dict[str, Any]
) -> None:
    whole = Run(gw, name, options).walk(20)
    half = Run(gw, name, options).walk(9)
    other = {k: v for k, v in options.items() if k != "lr"}  # options come from the saved state
    resumed = Run(gw, name, other).take(half)
    half.walk(1)  # what was saved must not be shared with it
    resumed.walk(11)
    for mine, expected in zip(resumed.arrays(), whole.arrays()):
        np.testing.assert_array_equal(mine, expected)


@every_case
def test_the_state_of_a_pytorch_optimizer_loads_here(name: str, options: dict[str, Any]) -> None:
    theirs = Run(torch, name, options).walk(9)
    ours = Run(gw, name, options).take(theirs).walk(11)
    for mine, expected in zip(ours.arrays(), theirs.walk(11).arrays()):
        np.testing.assert_allclose(mine, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "LBFGS"])
def test_the_layout_of_the_state_is_pytorchs(name: str) -> None:
    options = OPTIONS[name][-1]
    ours = Run(gw, name, options).walk(2).optimizer.state_dict()
    theirs = Run(torch, name, options).walk(2).optimizer.state_dict()
    assert set(ours) == set(theirs)
    assert ours["state"].keys() == theirs["state"].keys()
    for key, kept in theirs["state"].items():
        missing = {k for k, v in kept.items() if v is not None} - ours["state"][key].keys()
        assert not missing
    assert [g["params"] for g in ours["param_groups"]] == [[0, 1, 2]]
    assert ours["param_groups"] == theirs["param_groups"]


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "LBFGS"])
def test_our_state_loads_into_pytorch(name: str) -> None:
    options = OPTIONS[name][-1]
    ours = Run(gw, name, options).walk(9)
    theirs = Run(torch, name, options)
    for mine, array in zip(theirs.parameters, ours.arrays()):
        mine.data = torch.tensor(array)
    saved = ours.optimizer.state_dict()
    for kept in saved["state"].values():
        for key, value in kept.items():
            kept[key] = torch.tensor(value.tolist() if isinstance(value, gw.Tensor) else value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.optimizer.load_state_dict(saved)
    for mine, expected in zip(ours.walk(5).arrays(), theirs.walk(5).arrays()):
        np.testing.assert_allclose(mine, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "LBFGS"])
def test_compiled_steps_are_those_of_eager_ones(name: str) -> None:
    options = OPTIONS[name][min(1, len(OPTIONS[name]) - 1)]
    ours, compiled = Run(gw, name, options), Run(gw, name, options)

    @gw.compile
    def step() -> Any:
        loss = compiled.closure()
        compiled.optimizer.step()
        return loss

    for _ in range(12):
        ours.walk(1)
        step()
    for mine, expected in zip(compiled.arrays(), ours.arrays()):
        np.testing.assert_allclose(mine, expected, rtol=1e-9, atol=1e-10)


def muon(m: Any, **options: Any) -> Any:
    """Two matrices after ten steps, and the state."""
    source = np.random.default_rng(0)
    a, b = (m.tensor(source.normal(size=s), requires_grad=True) for s in ((3, 5), (5, 2)))
    optimizer = m.optim.Muon([a, b], lr=0.05, **options)
    for _ in range(10):
        optimizer.zero_grad()
        ((a @ b) ** 2).sum().backward()
        optimizer.step()
    return [a.detach(), b.detach(), *(kept["momentum_buffer"] for kept in optimizer.state.values())]


@pytest.mark.parametrize(
    "options", [{}, {"nesterov": False, "weight_decay": 0.0, "adjust_lr_fn": "match_rms_adamw"}]
)
def test_muon_is_pytorchs_without_its_rounding(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)  # where PyTorch rounds
    for mine, expected in zip(muon(gw, **options), muon(torch, **options), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-9, atol=1e-10)


def test_a_state_through_json_keeps_its_meaning() -> None:
    run = Run(gw, "AdamW", {}).walk(2)
    saved = run.optimizer.state_dict()
    groups = json.loads(json.dumps(saved["param_groups"]))
    state = {str(key): kept for key, kept in saved["state"].items()}
    other = Run(gw, "AdamW", {"lr": 0.5})
    other.optimizer.load_state_dict({"state": state, "param_groups": groups})
    assert other.optimizer.param_groups[0]["lr"] == 1e-3
    assert other.optimizer.param_groups[0]["betas"] == (0.9, 0.999)


def test_float32_stays_float32() -> None:
    for name, options in CASES:
        w = gw.tensor([1.0, 2.0], requires_grad=True)
        optimizer = getattr(gw.optim, name)([w], **options)

        def closure(w: Any = w) -> Any:
            w.grad = None
            loss = (w * w).sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        assert w.dtype == np.float32
        kept = optimizer.state.get(w, {}).values()
        assert all(v.dtype == np.float32 for v in kept if isinstance(v, gw.Tensor))


def test_groups_have_their_own_options_and_parameters_without_gradient_stay() -> None:
    a, b = gw.tensor([1.0], requires_grad=True), gw.tensor([1.0], requires_grad=True)
    unused = gw.tensor([1.0], requires_grad=True)
    optimizer = gw.optim.SGD([{"params": [a]}, {"params": [b, unused], "lr": 1.0}], lr=0.5)
    (a + b).sum().backward()
    optimizer.step()
    assert [p.item() for p in (a, b, unused)] == [0.5, 0.0, 1.0]


def test_named_parameters_and_a_single_tensor_in_a_group() -> None:
    model = gw.nn.Linear(2, 2)
    optimizer = gw.optim.SGD(model.named_parameters())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    extra = gw.zeros(1, requires_grad=True)
    optimizer.add_param_group({"params": extra, "lr": 0.5})
    assert optimizer.state_dict()["param_groups"][1]["params"] == [2]


def test_a_step_between_forward_and_backward_is_caught() -> None:
    w = gw.tensor([1.0], requires_grad=True)
    optimizer = gw.optim.SGD([w], lr=0.5)
    (w * w).sum().backward()
    loss = (w * w).sum()
    optimizer.step()
    with pytest.raises(gw.AutogradError, match="modified in place"):
        loss.backward()


def test_a_closure_is_called_with_recording_on_and_its_loss_returned() -> None:
    w = gw.tensor([1.0], requires_grad=True)
    optimizer = gw.optim.SGD([w], lr=0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with gw.no_grad():
        assert optimizer.step(closure).item() == 1.0
    assert w.item() == 0.0


def test_zero_grad_in_both_ways() -> None:
    w = gw.tensor([1.0], requires_grad=True)
    optimizer = gw.optim.SGD([w])
    (w * w).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert w.grad is not None
    assert w.grad.item() == 0
    optimizer.zero_grad()
    assert w.grad is None


LEAF = gw.tensor([1.0], requires_grad=True)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: gw.optim.SGD([]), ValueError, "no parameters"),
        (lambda: gw.optim.SGD([LEAF * 2]), TypeError, "leaf"),
        (lambda: gw.optim.SGD(LEAF), TypeError, "in a list"),
        (lambda: gw.optim.SGD([LEAF, LEAF]), ValueError, "twice"),
        (lambda: gw.optim.SGD([{"params": {LEAF}}]), TypeError, "order"),
        (lambda: gw.optim.SGD([LEAF], lr=-1), ValueError, "lr"),
        (lambda: gw.optim.SGD([LEAF], lr=float("nan")), ValueError, "lr"),
        (lambda: gw.optim.SGD([LEAF], nesterov=True), ValueError, "momentum"),
        (lambda: gw.optim.Adam([LEAF], betas=(1.0, 0.9)), ValueError, "betas"),
        (lambda: gw.optim.Adam([LEAF], learning_rate=1), TypeError, "learning_rate"),
        (lambda: gw.optim.Adam([LEAF], differentiable=True), NotImplementedError, "tensor"),
        (lambda: gw.optim.SparseAdam([LEAF]), NotImplementedError, "use Adam"),
        (lambda: gw.optim.Adafactor([LEAF], eps=(-1e-30, 1e-3)), ValueError, "eps"),
        (lambda: gw.optim.Adafactor([gw.ones(2, 2) * 1j]), TypeError, "complex"),
        (lambda: gw.optim.Muon([gw.ones(2, 2) * 1j]), TypeError, "complex"),
        (lambda: gw.optim.Muon([LEAF]), ValueError, "AdamW"),
        (lambda: gw.optim.Muon([LEAF], adjust_lr_fn="x"), ValueError, "match_rms_adamw"),
        (lambda: gw.optim.Rprop([LEAF], etas=(1.5, 2)), ValueError, "etas"),
        (lambda: gw.optim.Adafactor([LEAF], d=0.5), ValueError, "d at least 1"),
        (lambda: gw.optim.LBFGS([LEAF]).step(), TypeError, "closure"),
        (lambda: gw.optim.LBFGS([LEAF], line_search_fn="x"), ValueError, "strong_wolfe"),
    ],
)
def test_mistakes_are_refused(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["param_groups"].append({}), "groups"),
        (lambda s: s["param_groups"][0]["params"].pop(), "parameters"),
        (lambda s: s["state"].update({7: {}}), "entry 7"),
        (lambda s: s["param_groups"][0].update(lr=-1.0), "lr"),
        (lambda s: s["state"][0].update(exp_avg=gw.zeros(4, 3)), "shape"),
        (lambda s: s["state"][0].update(exp_avg=gw.zeros(5)), "shape"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change: Any, message: str) -> None:
    saved = Run(gw, "AdamW", {"lr": 0.5}).walk(2).optimizer.state_dict()
    change(saved)
    optimizer = Run(gw, "AdamW", {}).optimizer
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 1e-3
    assert not optimizer.state


def test_pytorchs_device_options_are_accepted() -> None:
    gw.optim.AdamW([LEAF], fused=True, foreach=False, capturable=False)
    with pytest.raises(TypeError, match="capturable"):
        gw.optim.SGD([LEAF], capturable=True)  # PyTorch's has none either


@pytest.mark.parametrize("name", OPTIONS)
def test_the_text_of_an_optimizer_is_pytorchs(name: str) -> None:
    texts = [
        repr(getattr(m.optim, name)([{"params": [m.zeros(1, requires_grad=True)]}]))
        for m in (gw, torch)
    ]
    assert texts[0] == texts[1]


def hooked(library: Any) -> list[Any]:
    """What hooks of an optimizer see, in order."""
    w = library.ones(1, requires_grad=True)
    optimizer = library.optim.SGD([w], lr=0.5)
    seen: list[Any] = []
    handles = [
        optimizer.register_step_pre_hook(lambda o, a, k: seen.append(("pre", len(a), sorted(k)))),
        optimizer.register_step_pre_hook(lambda o, a, k: ((o,), {})),
        optimizer.register_step_post_hook(lambda o, a, k: seen.append(("post", len(a), len(k)))),
        optimizer.register_state_dict_pre_hook(lambda o: seen.append("saving")),
        optimizer.register_state_dict_post_hook(lambda o, s: {**s, "more": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda o, s: seen.append(s.pop("more"))),
        optimizer.register_load_state_dict_pre_hook(
            lambda o, s: seen.append("first"), prepend=True
        ),
        optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded")),
    ]
    (w * w).sum().backward()
    optimizer.step(closure=None)
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    assert "more" in saved
    for handle in handles:
        handle.remove()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    return [*seen, w.tolist()]


def test_hooks_see_what_pytorchs_see() -> None:
    assert hooked(gw) == hooked(torch)


def test_a_hook_that_returns_something_else_is_refused() -> None:
    optimizer = gw.optim.SGD([LEAF])
    optimizer.register_step_pre_hook(lambda *_: 3)
    with pytest.raises(RuntimeError, match="args, kwargs"):
        optimizer.step()


COMPLEX: dict[str, dict[str, float]] = {
    name: {} for name in OPTIONS if name not in ("Adafactor", "LBFGS", "Muon")
}
COMPLEX["Adagrad"] = {"initial_accumulator_value": 0.3}
COMPLEX["SGD"] = {"momentum": 0.9}


@pytest.mark.parametrize("name", COMPLEX)
def test_both_parts_of_a_complex_parameter_move(name: str) -> None:
    draw = np.random.default_rng(0)
    start, *gradients = draw.normal(size=(5, 3, 2)) + 1j * draw.normal(size=(5, 3, 2))
    results = []
    for library in (gw, torch):
        parameter = library.nn.Parameter(library.tensor(start))
        optimizer = getattr(library.optim, name)([parameter], **COMPLEX[name])
        for gradient in gradients:
            parameter.grad = library.tensor(gradient)
            optimizer.step()
        results.append(parameter.detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-7)
