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
            f"IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


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
    """Whether a subclass overrides a method of Module."""
    defined = getattr(type(module), method)
    return getattr(defined, "__module__", "") != "gradwalk.nn.module"


def collect(
    module: Any, state: OrderedDict[str, Any], prefix: str, keep_vars: bool
) -> OrderedDict[str, Any]:
    """Add the state of a module and its submodules to `state`, in PyTorch's order."""
    module._run_hooks("before_state", module, prefix, keep_vars)
    if isinstance(state, OrderedDict):
        versions = vars(state).setdefault("_metadata", OrderedDict())
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


class _Metadata(dict[str, Any]):
    """PyTorch's `local_metadata` of one module, and what is known of the whole load."""

    writes: list[Callable[[], None]]  # done when the states of all modules are checked
    known: set[str]  # names that some module loads
    assign: bool


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
    modules = [
        (f"{path}." if path else "", owner)
        for path, owner in module.named_modules(remove_duplicate=False)
    ]
    hooked = [(prefix, owner) for prefix, owner in modules if owner._hooks is not None]
    given = _copy(given)  # hooks and methods of subclasses may change it
    for prefix, owner in hooked:
        owner._run_hooks("before_load", owner, given, prefix, {}, strict, *keys, problems)
    versions = getattr(given, "_metadata", {})
    known: set[str] = set()
    writes: list[Callable[[], None]] = []
    for prefix, owner in modules:
        metadata = _Metadata(versions.get(prefix[:-1], {}))
        metadata.writes, metadata.known, metadata.assign = writes, known, assign
        before = len(known)
        owner._load_from_state_dict(given, prefix, metadata, strict, *keys, problems)
        if len(known) == before and _has(owner, "_load_from_state_dict"):
            # It loads its names itself, and does not tell which.
            known.update(name for name in given if name.rpartition(".")[0] == prefix[:-1])
    keys.unexpected_keys.extend(name for name in given if name not in known)
    excusable = any(owner._hooks_of("after_load") for _, owner in hooked)
    _judge(module, problems, keys, strict and not excusable, "nothing was changed")
    for write in writes:
        write()
    if excusable:
        for _, owner in reversed(hooked):  # from the inside out
            owner._run_hooks("after_load", owner, keys)
        _judge(module, [], keys, strict, "the names that fit were loaded")
    return keys


def _copy(given: Mapping[str, Any]) -> OrderedDict[str, Any]:
    """A copy of a state dict, with the versions of modules that it may have."""
    copy = OrderedDict(given)
    if hasattr(given, "_metadata"):
        copy._metadata = given._metadata  # type: ignore[attr-defined]
    return copy


def load_own(
    module: Any,
    given: Mapping[str, Any],
    prefix: str,
    metadata: Any,
    missing: list[str],
    problems: list[str],
) -> None:
    """Check a module's own state, and note what is to be written."""
    for name, tensor in _own(module):
        metadata.known.add(prefix + name)
        array = _array(prefix + name, tensor, given, missing, problems)
        if array is not None:
            value = given[prefix + name] if metadata.assign else None
            metadata.writes.append(partial(_write, module, name, tensor, array, value))
    if _has(module, "get_extra_state") or _has(module, "set_extra_state"):
        metadata.known.add(prefix + EXTRA)
        if prefix + EXTRA in given:
            metadata.writes.append(partial(module.set_extra_state, given[prefix + EXTRA]))
        else:
            missing.append(prefix + EXTRA)


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
