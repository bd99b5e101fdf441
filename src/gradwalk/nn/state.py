"""Collecting a module's state, and loading it completely or not at all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gradwalk.engine.modes import no_grad
from gradwalk.nn.parameter import Parameter
from gradwalk.ops.core.dtypes import is_number
from gradwalk.sparse import SparseTensor
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor


class IncompatibleKeys(NamedTuple):
    """The missing and the unexpected names of a state dict."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


class Loading(OrderedDict[str, Any]):
    """The part of a state dict that one module and those inside it read, and what is to be written.

    It is a copy, which a hook or a module may change before the modules inside read their parts.
    """

    def __init__(self, given: Mapping[str, Any], assign: bool = False) -> None:
        super().__init__(given)
        self.assign = assign
        self.known: set[str] = set()  # names that the module itself has
        self.was_read = False  # in our way, not in one of its own
        self.writes: list[Callable[[], Any]] = []

    def part(self, prefix: str) -> Loading:
        """What a module inside reads."""
        inside = ((name, value) for name, value in self.items() if name.startswith(prefix))
        part = Loading(OrderedDict(inside), self.assign)
        part.writes = self.writes
        return part

    def unexpected(self, prefix: str, modules: Mapping[str, Any]) -> list[str]:
        """The names that neither the module itself nor any inside has."""
        found = []
        for name in self:
            first, dot, _ = name.removeprefix(prefix).partition(".")
            inner = dot and first in modules
            if name.startswith(prefix) and name not in self.known and not inner:
                found.append(name)
        return found


EXTRA = "_extra_state"  # PyTorch's key of get_extra_state's result


def _own(module: Any) -> Iterator[tuple[str, Tensor]]:
    """The name and tensor of everything in a module's own state."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield name, parameter
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            yield name, buffer


def _has(module: Any, method: str) -> bool:
    """Whether a subclass overrides get_extra_state or set_extra_state."""
    defined = getattr(type(module), method)
    return getattr(defined, "__module__", "") != "gradwalk.nn.module"


def collect(
    module: Any, state: OrderedDict[str, Any], prefix: str, keep_vars: bool
) -> OrderedDict[str, Any]:
    """Add the state of a module and its submodules to `state`, in PyTorch's order."""
    module._run_hooks("before_state", module, prefix, keep_vars)
    if (versions := getattr(state, "_metadata", None)) is not None:
        versions[prefix[:-1]] = {"version": module._version}
    module._save_to_state_dict(state, prefix, keep_vars)
    for name, inner in module._modules.items():
        if inner is not None:
            inner.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    module._run_hooks("after_state", module, state, prefix, {})
    return state


def save_own(module: Any, state: dict[str, Any], prefix: str, keep_vars: bool) -> None:
    """Add a module's own state, without its submodules'."""
    for name, tensor in _own(module):
        state[prefix + name] = tensor if keep_vars else tensor.detach()
    if _has(module, "get_extra_state"):
        state[prefix + EXTRA] = module.get_extra_state()


def load(module: Any, given: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Check everything, then write everything.

    A hook that runs after loading may remove missing and unexpected names, so with such a hook they
    are checked after writing.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"a state dict is a mapping of names to tensors, not {type(given)}")
    problems: list[str] = []
    keys = IncompatibleKeys([], [])
    for path, owner in module.named_modules(remove_duplicate=False):
        if hasattr(owner, "settle_for"):  # a lazy layer learns its size
            owner.settle_for(given, f"{path}." if path else "")
    every = module.named_modules(remove_duplicate=False)
    hooked = [owner for _, owner in every if owner._hooks is not None]
    versions = getattr(given, "_metadata", {})
    loading = Loading(given, assign)

    # Not a function inside this one: it would be in a circle with the tensors that it reads.
    _read_all(module, loading, "", versions, strict, keys, problems)
    excusable = any(owner._hooks_of("after_load") for owner in hooked)
    _judge(module, problems, keys, strict and not excusable, "nothing was changed")
    for write in loading.writes:
        write()
    if excusable:
        for owner in reversed(hooked):  # from the inside out
            owner._run_hooks("after_load", owner, keys)
        _judge(module, [], keys, strict, "the names that fit were loaded")
    return keys


def _read_all(
    owner: Any,
    part: Loading,
    prefix: str,
    versions: Mapping[str, Any],
    strict: bool,
    keys: IncompatibleKeys,
    problems: list[str],
) -> None:
    """Check what belongs to a module and to those in it, and note what to write."""
    local = dict(versions.get(prefix[:-1], {}))
    owner._load_from_state_dict(part, prefix, local, strict, *keys, problems)
    if part.was_read:  # else the module knows itself which names are its own
        keys.unexpected_keys.extend(part.unexpected(prefix, owner._modules))
    for name, inner in owner._modules.items():
        if inner is not None:
            start = f"{prefix}{name}."
            _read_all(inner, part.part(start), start, versions, strict, keys, problems)


def read(module: Any, given: Any, prefix: str, missing: list[str], problems: list[str]) -> None:
    """Check the part of a state dict that is one module's own, and note what to write.

    A program may also call this of a module alone, with a plain dict: then it is written at once.
    """
    loading = given if isinstance(given, Loading) else Loading(given)
    loading.was_read = True
    for name, tensor in _own(module):
        loading.known.add(prefix + name)
        if isinstance(tensor, SparseTensor):
            _read_sparse(prefix + name, tensor, loading, missing, problems)
            continue
        array = _array(prefix + name, tensor, loading, missing, problems)
        if array is not None:
            value = loading[prefix + name] if loading.assign else None
            loading.writes.append(partial(_write, module, name, tensor, array, value))
    if _has(module, "get_extra_state") or _has(module, "set_extra_state"):
        loading.known.add(prefix + EXTRA)
        if prefix + EXTRA in loading:
            loading.writes.append(partial(module.set_extra_state, loading[prefix + EXTRA]))
        else:
            missing.append(prefix + EXTRA)
    if loading is not given:
        for write in loading.writes:
            write()


def _read_sparse(
    name: str, old: SparseTensor, loading: Loading, missing: list[str], problems: list[str]
) -> None:
    """Note that a sparse buffer is to hold what the given one holds."""
    if name not in loading:
        missing.append(name)
    elif not isinstance(loading[name], SparseTensor) or loading[name].shape != old.shape:
        problems.append(f"{name}: not a sparse tensor of shape {tuple(old.shape)}")
    else:
        loading.writes.append(partial(old.copy_, loading[name]))


def _judge(
    module: Any, problems: list[str], keys: IncompatibleKeys, strict: bool, outcome: str
) -> None:
    """Raise one error that lists all problems, if there are any."""
    errors = []
    if strict:
        names = {"Missing": keys.missing_keys, "Unexpected": keys.unexpected_keys}
        for title, listed in names.items():
            if listed:
                text = ", ".join(f'"{name}"' for name in listed)
                errors.append(f"{title} key(s) in state_dict: {text}.")
    errors += problems
    if errors:
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(module).__name__}; {outcome}:\n\t"
            + "\n\t".join(errors)
        )


def _array(
    name: str, tensor: Tensor, given: Mapping[str, Any], missing: list[str], problems: list[str]
) -> np.ndarray[Any, Any] | None:
    """The given elements of a tensor, if they fit; else note why not."""
    if name not in given:
        missing.append(name)
        return None
    value = given[name]
    try:
        array = value._array if isinstance(value, Tensor) else np.asarray(value)
    except Exception as error:  # an object of another library may raise anything
        problems.append(f"{name}: cannot be read as an array ({error})")
        return None
    if not is_number(array.dtype):
        problems.append(f"{name}: holds {array.dtype}, not numbers")
    elif array.shape != tensor.shape:
        problems.append(
            f"size mismatch for {name}: copying a param with shape {tuple(array.shape)} from "
            f"checkpoint, the shape in current model is {tuple(tensor.shape)}."
        )
    else:
        return array
    return None


def _write(owner: Any, name: str, old: Tensor, array: np.ndarray[Any, Any], new: Any) -> None:
    """Copy the elements into the old tensor, or assign the new one, if there is one, instead."""
    if new is None:
        with no_grad():
            old.copy_(wrap(array))
    elif not isinstance(old, Parameter):
        setattr(owner, name, new if isinstance(new, Tensor) else wrap(array))
    elif isinstance(new, Parameter):
        setattr(owner, name, new.requires_grad_(old.requires_grad))
    else:
        setattr(owner, name, Parameter(array, requires_grad=old.requires_grad))
