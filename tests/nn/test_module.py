"""What a Module is: attributes, names, state, hooks, copies, text and errors, as in PyTorch."""

from __future__ import annotations

import copy
import gc
import re
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.nn.twins import arrays, twins

LIBRARIES = pytest.mark.parametrize("lib", [gw, torch], ids=["gradwalk", "torch"])


def net(lib: ModuleType) -> Any:
    """A module with everything: parameters, buffers, a tied weight, a shared and a missing part."""

    class Inner(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = lib.nn.Linear(3, 3)
            self.register_buffer("count", lib.zeros(1))
            self.register_buffer("scratch", lib.zeros(2), persistent=False)
            self.register_buffer("nothing", None)

        def forward(self, x: Any) -> Any:
            return self.linear(x)

    class Net(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()
            self.scale = lib.nn.Parameter(lib.ones(3))
            self.register_parameter("bias", None)
            self.again = self.inner
            self.tied = lib.nn.Linear(3, 3, bias=False)
            self.tied.weight = self.inner.linear.weight
            self.absent = None
            self.register_module("empty", None)
            self.plain = 3

        def forward(self, x: Any, twice: bool = False) -> Any:
            x = self.tied(self.inner(x)) * self.scale
            return x * 2 if twice else x

    return Net()


def listed(lib: ModuleType) -> Iterator[Any]:
    module = net(lib)
    for options in ({}, {"prefix": "p"}, {"recurse": False}, {"remove_duplicate": False}):
        yield [name for name, _ in module.named_parameters(**options)]
        yield [name for name, _ in module.named_buffers(**options)]
    yield len(list(module.parameters())), len(list(module.parameters(recurse=False)))
    yield len(list(module.buffers()))
    for options in ({}, {"prefix": "p"}, {"remove_duplicate": False}):
        yield [(name, type(m).__name__) for name, m in module.named_modules(**options)]
    yield [name for name, _ in module.named_children()]
    yield [type(m).__name__ for m in module.children()]
    yield [type(m).__name__ for m in module.modules()]
    yield [(name, tuple(value.shape)) for name, value in module.state_dict().items()]
    yield list(module.state_dict(prefix="p."))
    order: list[str] = []
    assert module.apply(lambda m: order.append(type(m).__name__)) is module
    yield order
    yield repr(module)
    yield type(module.get_submodule("inner.linear")).__name__
    yield module.get_submodule("") is module
    yield module.get_parameter("inner.linear.weight") is module.tied.weight
    yield module.get_buffer("inner.count") is module.inner.count
    yield module.plain, module.bias, module.absent, module.empty
    yield "weight" in dir(module.tied), "inner" in dir(module)
    del module.inner, module.scale
    yield [name for name, _ in module.named_parameters()]
    yield hasattr(module, "inner"), hasattr(module, "scale")


def test_names_and_lists_are_pytorchs() -> None:
    for ours, theirs in zip(listed(gw), listed(torch), strict=True):
        assert ours == theirs


# -- attributes ------------------------------------------------------------------------------------


@LIBRARIES
def test_assigning_replaces_what_had_the_name(lib: ModuleType) -> None:
    module = lib.nn.Module()
    module.thing = 1
    module.thing = lib.nn.Parameter(lib.ones(2))
    assert [n for n, _ in module.named_parameters()] == ["thing"]
    del module.thing
    module.thing = lib.nn.ReLU()
    assert not list(module.parameters()) and [n for n, _ in module.named_children()] == ["thing"]
    module.thing = None
    assert not list(module.children()) and module.thing is None
    del module.thing
    module.register_buffer("thing", lib.zeros(2))
    module.thing = lib.ones(3)
    assert module.state_dict()["thing"].tolist() == [1, 1, 1]
    module.thing = lib.nn.Parameter(lib.ones(2))
    assert not list(module.buffers()) and len(list(module.parameters())) == 1
    module.thing = None
    assert not list(module.parameters()) and module.thing is None


@LIBRARIES
@pytest.mark.parametrize(
    "change, error, words",
    [
        (lambda lib, m: setattr(m.tied, "weight", lib.ones(3, 3)), TypeError, "parameter 'weight'"),
        (lambda lib, m: setattr(m, "inner", 3), TypeError, "module 'inner'"),
        (lambda lib, m: setattr(m.inner, "count", 3), TypeError, "buffer 'count'"),
        (lambda lib, m: m.register_parameter("a.b", None), KeyError, "a.b|\\."),
        (lambda lib, m: m.register_parameter("", None), KeyError, "empty"),
        (lambda lib, m: m.register_parameter("forward", None), KeyError, "forward"),
        (lambda lib, m: m.register_parameter("x", lib.ones(2)), TypeError, "Parameter"),
        (lambda lib, m: m.register_parameter(3, None), TypeError, "string"),
        (lambda lib, m: m.register_buffer("x", 3), TypeError, "buffer"),
        (lambda lib, m: m.register_buffer("plain", None), KeyError, "plain"),
        (lambda lib, m: m.add_module("x", 3), TypeError, "not a Module"),
        (lambda lib, m: m.add_module("plain", lib.nn.ReLU()), KeyError, "plain"),
        (lambda lib, m: m.missing, AttributeError, "'Net' object has no attribute 'missing'"),
        (lambda lib, m: delattr(m, "missing"), AttributeError, "missing"),
        (lambda lib, m: m.get_submodule("inner.missing"), AttributeError, "missing"),
        (lambda lib, m: m.get_parameter("inner.missing"), AttributeError, "missing"),
        (lambda lib, m: m.get_buffer("inner.linear"), AttributeError, "linear"),
        (lambda lib, m: m.train("yes"), ValueError, "mode"),
        (lambda lib, m: lib.nn.Module()(1), NotImplementedError, "forward"),
    ],
)
def test_mistakes_are_refused(lib: ModuleType, change: Any, error: Any, words: str) -> None:
    try:
        change(lib, net(lib))
    except error as raised:
        if lib is gw:
            assert re.search(words, str(raised))
    else:
        pytest.fail(f"no {error.__name__}")


def test_a_module_that_forgot_its_init_says_so() -> None:
    class Forgot(gw.nn.Module):
        def __init__(self, value: Any) -> None:
            self.number = 3
            self.value = value

        def forward(self, x: Any) -> Any:
            return x

    for value in (gw.nn.Parameter(gw.ones(1)), gw.nn.ReLU()):
        with pytest.raises(AttributeError, match=r"(?s)'value' before.*super\(\).__init__\(\)"):
            Forgot(value)
    module = Forgot(1)
    for use in (
        lambda: list(module.parameters()),
        module.state_dict,
        lambda: module.register_buffer("b", None),
        lambda: module.training,
    ):
        with pytest.raises(AttributeError, match=r"Forgot is not initialised.*super\(\)"):
            use()


# -- changing all of it ----------------------------------------------------------------------------


@LIBRARIES
def test_modes(lib: ModuleType) -> None:
    class Frozen(lib.nn.Module):
        def train(self, mode: bool = True) -> Any:
            return super().train(False)

    module = lib.nn.Sequential(lib.nn.ReLU(), Frozen())
    assert module.eval() is module and not any(m.training for m in module.modules())
    assert module.train() is module
    assert [m.training for m in module.modules()] == [True, True, False]


@LIBRARIES
def test_dtype_of_everything_that_is_a_float(lib: ModuleType) -> None:
    module = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.BatchNorm1d(2))
    module(lib.ones(3, 2)).sum().backward()
    before = list(module.parameters())
    assert module.to(lib.float64) is module
    assert all(a is b for a, b in zip(before, module.parameters(), strict=True))
    kinds = {str(t.dtype).removeprefix("torch.") for t in module.state_dict().values()}
    assert kinds == {"float64", "int64"}
    assert all(p.grad.dtype == lib.float64 for p in module.parameters())
    module(lib.ones(3, 2, dtype=lib.float64)).sum().backward()
    assert module.float()[0].weight.dtype == lib.float32
    assert module.double()[1].running_mean.dtype == lib.float64
    assert module.to(lib.ones(1)).to("cpu")[0].bias.dtype == lib.float32
    with pytest.raises(TypeError):
        module.to(lib.int64)


def test_there_is_no_such_device() -> None:
    with pytest.raises(
        (ImportError, RuntimeError), match="JAX"
    ):  # not installed, or it sees no such device
        net(gw).to("cuda:99")


@LIBRARIES
def test_freezing_and_forgetting_gradients(lib: ModuleType) -> None:
    module = lib.nn.Linear(2, 2)
    module(lib.ones(1, 2)).sum().backward()
    module.zero_grad(set_to_none=False)
    assert module.weight.grad.tolist() == [[0, 0], [0, 0]]
    module.zero_grad()
    assert module.weight.grad is None
    assert module.requires_grad_(False) is module
    assert not module(lib.ones(1, 2)).requires_grad


@LIBRARIES
def test_deepcopy_keeps_what_is_tied(lib: ModuleType) -> None:
    module = net(lib)
    other = copy.deepcopy(module)
    assert other.tied.weight is other.inner.linear.weight is not module.tied.weight
    assert other.again is other.inner is not module.inner
    with lib.no_grad():
        other.scale.mul_(5)
    assert module.scale.tolist() == [1, 1, 1]
    assert [n for n, _ in other.named_parameters()] == [n for n, _ in module.named_parameters()]
    assert list(other.state_dict()) == list(module.state_dict())
    x = lib.ones(2, 3)
    assert (other(x) == module(x) * 5).all()


# -- state -----------------------------------------------------------------------------------------


def test_state_shares_memory_and_loads_both_ways() -> None:
    ours, theirs = twins(lambda m: net(torch if m is torch.nn else gw), "float32")
    state = ours.state_dict()
    assert isinstance(state, OrderedDict) and not any(t.requires_grad for t in state.values())
    assert all(t.requires_grad for n, t in ours.state_dict(keep_vars=True).items() if "scale" in n)
    state["scale"].fill_(7)
    assert ours.scale.tolist() == [7, 7, 7]
    theirs.load_state_dict({n: torch.from_numpy(a) for n, a in arrays(state).items()})
    assert theirs.scale.tolist() == [7, 7, 7]


def test_loading_says_all_that_is_wrong_and_changes_nothing() -> None:
    module = net(gw)
    before = arrays(module.state_dict())
    given: dict[str, Any] = {name: value + 1 for name, value in before.items()}
    del given["inner.linear.bias"], given["scale"]
    given["tied.weight"] = np.zeros((2, 3), np.float32)
    given["again.count"] = np.array(["text"])
    given |= {"unknown": np.zeros(1), "inner.linear.extra": np.zeros(1)}
    with pytest.raises(RuntimeError) as error:
        module.load_state_dict(given)
    for words in (
        "loading state_dict for Net",
        'Missing key(s) in state_dict: "scale", "inner.linear.bias".',
        'Unexpected key(s) in state_dict: "unknown", "inner.linear.extra".',
        "size mismatch for tied.weight: copying a param with shape (2, 3) from checkpoint, "
        "the shape in current model is (3, 3).",
        "again.count: holds <U4",
    ):
        assert words in str(error.value)
    for name, value in arrays(module.state_dict()).items():
        np.testing.assert_array_equal(value, before[name])
    with pytest.raises(RuntimeError, match="size mismatch") as error:
        module.load_state_dict(given, strict=False)
    assert "Missing" not in str(error.value)
    with pytest.raises(TypeError, match="mapping"):
        module.load_state_dict([])


def test_loading_without_strict_reports_what_it_left() -> None:
    module = gw.nn.Linear(2, 1)
    found = module.load_state_dict({"weight": gw.tensor([[1.0, 2.0]]), "other": 1}, strict=False)
    assert found.missing_keys == ["bias"] and found.unexpected_keys == ["other"]
    assert module.weight.tolist() == [[1, 2]]
    assert "bias" in repr(found)
    assert repr(module.load_state_dict(module.state_dict())) == "<All keys matched successfully>"


def test_loading_casts_and_copies_or_assigns() -> None:
    module = gw.nn.Linear(2, 1)
    weight, bias = module.weight, module.bias
    given = {"weight": gw.ones(1, 2, dtype=gw.float64), "bias": gw.ones(1, dtype=gw.float64)}
    module.load_state_dict(given)
    assert module.weight is weight and weight.dtype == gw.float32 and weight.tolist() == [[1, 1]]
    weight.requires_grad_(False)
    module.load_state_dict(given, assign=True)
    assert module.weight is not weight and module.weight.dtype == gw.float64
    assert np.shares_memory(module.weight.detach().numpy(), given["weight"].numpy())
    assert not module.weight.requires_grad and module.bias.requires_grad
    assert module.bias is not bias and isinstance(module.bias, gw.nn.Parameter)


def test_a_graph_made_before_loading_is_stale_and_says_so() -> None:
    module = gw.nn.Sequential(gw.nn.Linear(2, 2), gw.nn.Linear(2, 2))
    loss = module(gw.ones(1, 2)).sum()
    module.load_state_dict(module.state_dict())
    with pytest.raises(RuntimeError, match=r"changed in place|modified"):
        loss.backward()


# -- hooks -----------------------------------------------------------------------------------------


@LIBRARIES
def test_forward_hooks(lib: ModuleType) -> None:
    module, seen = net(lib), []
    x = lib.ones(2, 3)
    plain = module(x)
    handles = [
        module.register_forward_pre_hook(lambda m, args: seen.append(("pre", len(args)))),
        module.register_forward_pre_hook(lambda m, args: args[0] * 0),
        module.register_forward_pre_hook(
            lambda m, args, kwargs: (args, {**kwargs, "twice": True}), with_kwargs=True
        ),
        module.register_forward_hook(lambda m, args, out: seen.append(("post", out.shape[0]))),
        module.register_forward_hook(
            lambda m, args, kwargs, out: seen.append(("kwargs", kwargs)), with_kwargs=True
        ),
        module.register_forward_hook(lambda m, args, out: out + 1),
        module.register_forward_hook(lambda m, args, out: seen.append("first"), prepend=True),
    ]
    out = module(x, twice=False)
    assert (out == module.tied(module.inner(x * 0)) * module.scale * 2 + 1).all()
    assert seen == [("pre", 1), "first", ("post", 2), ("kwargs", {"twice": True})]
    for handle in handles:
        handle.remove()
        handle.remove()
    assert (module(x) == plain).all() and len(seen) == 4


def gradients(lib: ModuleType, needs: bool, change: bool) -> tuple[Any, ...]:
    """What two hooks on a module of two inputs see, and the gradients that remain."""

    class Two(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = lib.nn.Parameter(lib.tensor([3.0]))

        def forward(self, x: Any, number: float, y: Any) -> Any:
            return x * self.weight, x * y * number

    module, seen = Two(), []
    numbers = lambda grads: [None if g is None else g.tolist() for g in grads]

    def hook(m: Any, grad_input: Any, grad_output: Any) -> Any:
        assert m is module
        seen.append((numbers(grad_input), numbers(grad_output)))
        return tuple(None if g is None else g * 10 for g in grad_input) if change else None

    module.register_full_backward_hook(hook)
    handle = module.register_full_backward_hook(lambda *_: seen.append("other"))
    x = lib.tensor([2.0, 5.0], requires_grad=needs)
    y = lib.tensor([1.0, 4.0])
    for _ in range(2):
        a, b = module(x, 0.5, y)
        (a.sum() * 2 + b.sum()).backward()
        handle.remove()
    return seen, module.weight.grad.tolist(), x.grad.tolist() if needs else None


@pytest.mark.filterwarnings("ignore")  # PyTorch warns where no input needs a gradient
@pytest.mark.parametrize("needs, change", [(True, False), (True, True), (False, False)])
def test_backward_hooks_see_what_pytorchs_see(needs: bool, change: bool) -> None:
    assert gradients(gw, needs, change) == gradients(torch, needs, change)


def test_backward_hook_errors() -> None:
    layer = gw.nn.Linear(1, 1)
    handle = layer.register_full_backward_hook(lambda *_: (gw.ones(1, 1),))
    with pytest.raises(RuntimeError, match="no input of the module needs one"):
        layer(gw.ones(1, 1)).sum().backward()
    handle.remove()
    layer.register_full_backward_hook(lambda *_: (gw.ones(1, 1),) * 2)
    with pytest.raises(RuntimeError, match=r"returned 2 gradient\(s\) for 1"):
        layer(gw.ones(1, 1, requires_grad=True)).sum().backward()
    with gw.no_grad():
        assert layer(gw.ones(1, 1)).shape == (1, 1)
    pre = gw.nn.ReLU()
    pre.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"None or \(args, kwargs\)"):
        pre(gw.ones(1))


def test_a_module_with_hooks_is_freed_with_its_graph() -> None:
    gc.collect()
    gc.disable()
    try:
        layer = gw.nn.Linear(2, 2)
        layer.register_full_backward_hook(lambda *_: None)
        out = layer(gw.ones(1, 2, requires_grad=True))
        node = weakref.ref(out.grad_fn) if hasattr(out.grad_fn, "__weakref__") else None
        gone = weakref.ref(layer)
        out.sum().backward()
        del out, layer
        assert gone() is None and (node is None or node() is None)
    finally:
        gc.enable()


# -- containers ------------------------------------------------------------------------------------


def sequences(lib: ModuleType) -> Iterator[Any]:
    nn = lib.nn
    chain = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 3))
    yield repr(chain[1:]), repr(chain[-1]), len(chain), repr(chain[::2])
    yield list(chain[1:].state_dict())
    chain.append(nn.Tanh()).extend([nn.Identity()]).insert(1, nn.Sigmoid())
    yield repr(chain)
    del chain[0]
    chain[0] = nn.Softsign()
    yield repr(chain), repr(chain.pop(1)), repr(chain)
    yield repr(chain + nn.Sequential(nn.ReLU())), repr(nn.Sequential(nn.ReLU()) * 2)
    chain += nn.Sequential(nn.GELU())
    repeated = 2 * nn.Sequential(nn.Linear(1, 1))
    repeated *= 2
    yield repr(repeated), len(list(repeated.parameters()))
    del chain[1:3]
    yield repr(chain), [type(m).__name__ for m in chain]
    named = nn.Sequential(OrderedDict(one=nn.Linear(1, 2), two=nn.ReLU()))
    yield repr(named), repr(named.one), repr(named[:1]), list(named.state_dict())
    modules = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    yield repr(modules), len(modules), list(modules.state_dict())
    modules.append(nn.ReLU())
    modules += [nn.Tanh()]
    modules.insert(0, nn.Sigmoid())
    modules[1] = nn.Linear(5, 5)
    yield repr(modules), repr(modules[1:3]), repr(modules[-1]), repr(modules + nn.ModuleList())
    del modules[0], modules[-2:]
    yield repr(modules), repr(nn.ModuleList())
    by_name = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Linear(1, 1)})
    by_name["c"] = nn.Tanh()
    by_name.update({"d": nn.Tanh(), "b": nn.GELU()})
    yield repr(by_name), list(by_name), list(by_name.keys()), len(by_name), "a" in by_name
    yield [(k, repr(v)) for k, v in by_name.items()], repr(by_name.pop("a")), repr(by_name)
    del by_name["b"]
    by_name.clear()
    yield repr(by_name), len(by_name)
    numbers = nn.ParameterList([lib.zeros(2), nn.Parameter(lib.ones(2, 3)), 7])
    numbers.append(lib.ones(1)).extend([lib.zeros(4)])
    numbers[0] = lib.ones(5)
    yield repr(numbers).replace("torch", "gradwalk"), len(numbers), list(numbers.state_dict())
    yield [type(x).__name__ for x in numbers], numbers[-1].tolist(), len(numbers[1:4])
    names = nn.ParameterDict({"b": lib.zeros(2), "a": lib.ones(1)})
    names["c"] = nn.Parameter(lib.zeros(1))
    names.update(OrderedDict(z=lib.zeros(1), y=lib.zeros(1)))
    yield (
        repr(names).replace("torch.FloatTensor", "gradwalk.float32"),
        list(names),
        list(names.state_dict()),
    )
    yield names.pop("a").tolist(), "a" in names, len(names), names.get("a", 3)
    del names["z"]
    yield [k for k, _ in names.items()], [tuple(v.shape) for v in names.values()]


def test_containers_are_pytorchs() -> None:
    for ours, theirs in zip(sequences(gw), sequences(torch), strict=True):
        assert ours == theirs


@pytest.mark.parametrize(
    "use, error",
    [
        (lambda nn: nn.Sequential(nn.ReLU())[1], IndexError),
        (lambda nn: nn.Sequential(3), TypeError),
        (lambda nn: nn.Sequential(nn.ReLU()).insert(3, nn.ReLU()), IndexError),
        (lambda nn: nn.Sequential().insert(0, 3), (TypeError, AssertionError)),
        (lambda nn: nn.Sequential() + 3, ValueError),
        (lambda nn: nn.Sequential(nn.ReLU()) * 0, ValueError),
        (lambda nn: nn.ModuleList([nn.ReLU()])[-2], IndexError),
        (lambda nn: nn.ModuleList().extend(3), TypeError),
        (lambda nn: nn.ModuleDict()["x"], KeyError),
        (lambda nn: nn.ModuleDict({"pop": nn.ReLU()}), KeyError),
        (lambda nn: nn.ParameterList()[0], IndexError),
        (lambda nn: nn.ParameterList().extend(3), TypeError),
        (lambda nn: nn.ParameterDict()["x"], (KeyError, AttributeError)),
        (lambda nn: nn.ModuleList([nn.ReLU()])(1), NotImplementedError),
    ],
)
def test_container_errors(use: Any, error: Any) -> None:
    for nn in (gw.nn, torch.nn):
        with pytest.raises(error):
            use(nn)


# -- speed without figures -------------------------------------------------------------------------


def test_calling_a_layer_reads_plain_attributes() -> None:
    """No search in registers, no copy: `__getattr__` is for what is not there."""
    layer = gw.nn.Linear(2, 2)
    assert layer.__dict__["weight"] is layer.weight is layer._parameters["weight"]
    assert layer._hooks is None
