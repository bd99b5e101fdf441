"""Python files of PyTorch, its tests and their helpers, run with gradwalk as `torch`."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import importlib.util
import itertools
import sys
import types
import unittest
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch.utils._pytree

import gradwalk as gw
from gradwalk.nn.layers import lazy
from tools.pytorch_tests import alias

# Helpers that are programs of their own: they make modules and optimizers, run them and compare.
# The helpers of the installed PyTorch are run, as a test file is.
HELPERS = (
    "torch.testing._internal.common_nn",
    "torch.testing._internal.common_modules",
    "torch.testing._internal.common_optimizers",
    "torch.testing._internal.common_cuda",
    "torch.testing._internal.autocast_test_lists",
    "torch.autograd.gradcheck",  # for the helpers alone: gradwalk's own check is what tests call
)
# Setting and removing `__new__` of a class without one, as a patch does, leaves it broken.
POISON = ("test_factory_kwargs",)
_helpers: dict[str, types.ModuleType] = {}
_folders: list[Path] = []


def loaded(path: Path, name: str | None = None) -> types.ModuleType:
    """A file as a module in which `torch` is gradwalk."""
    name = name or path.stem
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    scope = dict(vars(builtins))
    scope["__import__"] = alias.importing
    scope["__build_class__"] = builtins.__build_class__
    module.__dict__["__builtins__"] = scope
    module.__dict__["fact_of"] = alias.fact_of
    tree = ast.fix_missing_locations(alias.DtypeFacts().visit(ast.parse(path.read_text())))
    alias.LOADING.append(path.name)
    _folders.append(path.parent)
    try:
        exec(compile(tree, str(path), "exec"), module.__dict__)
    finally:
        alias.LOADING.pop()
        _folders.pop()
    return module


def folder() -> Path:
    """Where the test file lies that is being loaded."""
    return _folders[-1]


def helper(name: str, beside: Path | None = None) -> types.ModuleType:
    """A helper of PyTorch's tests under our names, installed or in the folder `beside`."""
    if name not in _helpers:
        if beside is not None:
            path = beside / f"{name}.py"
        else:
            found = importlib.util.find_spec(name)
            assert found is not None and found.origin is not None
            path = Path(found.origin)
        kept = sys.modules.get(path.stem)
        _helpers[name] = loaded(path, name)
        if name == "common_utils":
            from tools.pytorch_tests import op_database  # it imports this file

            vars(_helpers[name]).update(op_database.BESIDE)
        if kept is not None:
            sys.modules[path.stem] = kept
    return _helpers[name]


class DecorateInfo:
    """Which tests of an entry of a database get which decorators."""

    def __init__(self, decorators: Any, cls_name: Any = None, test_name: Any = None, *,
                 device_type: Any = None, dtypes: Any = None,
                 active_if: Any = True) -> None:  # fmt: skip
        self.decorators = decorators if isinstance(decorators, list | tuple) else [decorators]
        self.wanted = (cls_name, test_name, device_type)
        self.dtypes = dtypes
        self.active_if = active_if

    def is_active(
        self, cls_name: str, test_name: str, device: str, dtype: Any, keywords: Any
    ) -> bool:
        found = (cls_name, test_name, device)
        active = self.active_if(keywords) if callable(self.active_if) else self.active_if
        return (
            bool(active)
            and all(w is None or w == f for w, f in zip(self.wanted, found, strict=True))
            and (self.dtypes is None or dtype in self.dtypes)
        )


def _refused(decorators: Iterable[Any]) -> bool:
    """Whether a decorator skips the test, or expects it to fail on PyTorch as well."""
    for decorator in decorators:
        with contextlib.suppress(Exception):
            probe = decorator(lambda: None)
            if getattr(probe, "__unittest_skip__", False):
                return True
            if getattr(probe, "__unittest_expecting_failure__", False):
                return True
        if decorator is unittest.expectedFailure:
            return True
    return False


def functions_as_case(module: types.ModuleType) -> None:
    """The test functions of a file written for pytest, as methods of a case like the others."""
    methods: dict[str, Any] = {}
    for name, function in list(vars(module).items()):
        if name.startswith("test") and isinstance(function, types.FunctionType):
            methods[name] = _as_method(function)
    if methods:
        made = type("Functions", (alias.TestCase,), methods)
        made.__module__ = module.__name__
        module.__dict__["Functions"] = made


def _as_method(function: Any) -> Any:
    @functools.wraps(function)
    def method(self: Any, **keywords: Any) -> Any:
        return function(**keywords)

    for mark in getattr(function, "pytestmark", []):
        if mark.name == "parametrize":
            names, rows = mark.args[:2]
            joined = names if isinstance(names, str) else ",".join(names)
            alias.parametrize(joined, _plain(rows, len(joined.split(","))))(method)
    return method


def _plain(rows: Iterable[Any], count: int) -> list[Any]:
    """Rows of pytest's `parametrize` without those that are skipped here."""
    plain = []
    for row in rows:
        marks = getattr(row, "marks", ())
        if not any(mark.name in ("skip", "xfail") or any(mark.args) for mark in marks):
            values = row.values if hasattr(row, "marks") else row
            plain.append(values[0] if hasattr(row, "marks") and count == 1 else values)
    return plain


Rows = Callable[[str, str], Iterator[dict[str, Any]]]


def _entries(rows: Rows) -> Callable[[Any], Any]:
    return alias.marks(entries=rows)


def modules(infos: Iterable[Any], allowed_dtypes: Any = None, train_eval_mode: Any = None,
            skip_if_dynamo: bool = True) -> Callable[[Any], Any]:  # fmt: skip
    """PyTorch's decorator of a test that runs over its database of modules."""
    listed = [info for info in infos if not isinstance(info, alias.Missing)]
    mode = getattr(train_eval_mode, "name", "train_and_eval")

    def rows(owner: str, test: str) -> Iterator[dict[str, Any]]:
        for info in listed:
            found = [d for d in info.supported_dtypes("cpu") if not isinstance(d, alias.Missing)]
            if allowed_dtypes is not None:
                found = [d for d in found if d in tuple(allowed_dtypes)]
            flags = {"train_only": [True], "eval_only": [False]}.get(mode, [True, False])
            for training, dtype in itertools.product(
                flags if info.train_and_eval_differ else flags[:1], found
            ):
                row = {"module_info": info, "dtype": dtype, "training": training}
                if not _refused(info.get_decorators(owner, test, "cpu", dtype, row)):
                    yield row

    return _entries(rows)


def optims(infos: Iterable[Any], dtypes: Any = None) -> Callable[[Any], Any]:
    """PyTorch's decorator of a test that runs over its database of optimizers."""
    # Tests that are older than Muon give it parameters that it refuses.
    listed = [info for info in infos if info.optim_cls.__name__ != "Muon"]
    for info in listed:  # a step that is differentiated is refused, and beside the point of most
        info.supported_impls = [i for i in info.supported_impls if i != "differentiable"]

    def rows(owner: str, test: str) -> Iterator[dict[str, Any]]:
        for info, dtype in itertools.product(listed, dtypes or [alias.dtype_of_ours("float32")]):
            row = {"optim_info": info, "dtype": dtype}
            if not _refused(info.get_decorators(owner, test, "cpu", dtype, row)):
                yield row

    return _entries(rows)


def _conversion(on: bool) -> None:
    """PyTorch's choices of how a module is converted; ours is one, its default."""
    if on:
        raise alias.MissingName("torch.__future__")


alias.EQUIVALENT |= {
    "torch.__future__": types.SimpleNamespace(
        set_swap_module_params_on_conversion=_conversion,
        get_swap_module_params_on_conversion=lambda: False,
        set_overwrite_module_params_on_conversion=_conversion,
        get_overwrite_module_params_on_conversion=lambda: False,
    ),
    "torch.utils._foreach_utils": types.SimpleNamespace(
        _get_foreach_kernels_supported_devices=lambda: ["cpu"]
    ),
    "torch.utils._pytree": torch.utils._pytree,  # of any leaves
    "torch.utils.checkpoint.set_checkpoint_early_stop": lambda on: contextlib.nullcontext(),
    "torch.nn._reduction": types.SimpleNamespace(get_enum=torch.nn._reduction.get_enum),
    "torch.nn.functional.grad": gw.nn.grad,
    "torch._dynamo": types.SimpleNamespace(
        disable=alias.identity, config=types.SimpleNamespace(patch=alias.identity)
    ),
    "torch._functorch": types.SimpleNamespace(
        eager_transforms=types.SimpleNamespace(
            _as_tuple=lambda thing: thing if isinstance(thing, tuple) else (thing,),
            **{name: getattr(gw.func, name) for name in gw.func.__all__},
        )
    ),
    "torch.view_as_real_copy": lambda tensor: gw.view_as_real(tensor).clone(),
    # Loops that PyTorch's vmap warns of; ours never loops.
    "torch._C._debug_only_are_vmap_fallback_warnings_enabled": lambda: True,
    "torch._C._debug_only_display_vmap_fallback_warnings": lambda on: None,
    "torch.nn.modules.lazy": types.SimpleNamespace(LazyModuleMixin=lazy._Lazy),
}


def _seeded(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """A call that draws the same numbers every time."""
    gw.manual_seed(42)
    return function(*args, **keywords)


alias.SHIMS |= {
    "wrapper_set_seed": _seeded,
    "modules": modules,
    "optims": optims,
    "DecorateInfo": DecorateInfo,
}
