"""What a module's state is, and loading it: all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from gradwalk.engine.modes import no_grad
from gradwalk.nn.parameter import Parameter
from gradwalk.recording import wrap
from gradwalk.tensor import Tensor


class IncompatibleKeys(NamedTuple):
    """The names that were missing from a state dict, and those nobody asked for."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


def entries(module: Any, prefix: str = "") -> Iterator[tuple[Any, str, Tensor]]:
    """The owner, dotted name and tensor of everything in the state, in PyTorch's order."""
    for path, owner in module.named_modules(
        prefix=prefix.removesuffix("."), remove_duplicate=False
    ):
        start = f"{path}." if path else ""
        for name, parameter in owner._parameters.items():
            if parameter is not None:
                yield owner, start + name, parameter
        for name, buffer in owner._buffers.items():
            if buffer is not None and name not in owner._non_persistent_buffers_set:
                yield owner, start + name, buffer


def load(module: Any, given: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Check everything, then write everything."""
    if not isinstance(given, Mapping):
        raise TypeError(f"a state dict is a mapping of names to tensors, not {type(given)}")
    problems: list[str] = []
    missing: list[str] = []
    plan: list[tuple[Any, str, Tensor, np.ndarray[Any, Any], Any]] = []
    known = set()
    for owner, name, tensor in entries(module):
        known.add(name)
        if name not in given:
            missing.append(name)
            continue
        value = given[name]
        try:
            array = value._array if isinstance(value, Tensor) else np.asarray(value)
        except Exception as error:  # whatever an object of another library raises
            problems.append(f"{name}: cannot be read as an array ({error})")
            continue
        if array.dtype.kind not in "fiub":
            problems.append(f"{name}: holds {array.dtype}, not numbers")
        elif array.shape != tensor.shape:
            problems.append(
                f"size mismatch for {name}: copying a param with shape {tuple(array.shape)} from "
                f"checkpoint, the shape in current model is {tuple(tensor.shape)}."
            )
        else:
            plan.append((owner, name.rpartition(".")[2], tensor, array, value))
    unexpected = [name for name in given if name not in known]
    if strict:
        for title, names in (("Unexpected", unexpected), ("Missing", missing)):
            if names:
                listed = ", ".join(f'"{name}"' for name in names)
                problems.insert(0, f"{title} key(s) in state_dict: {listed}.")
    if problems:
        kind = type(module).__name__
        raise RuntimeError(
            f"Error(s) in loading state_dict for {kind}; nothing was changed:\n\t"
            + "\n\t".join(problems)
        )
    with no_grad():
        for owner, name, tensor, array, value in plan:
            if assign:
                _assign(owner, name, tensor, array, value)
            else:
                tensor.copy_(wrap(array.astype(tensor.dtype)))
    return IncompatibleKeys(missing, unexpected)


def _assign(owner: Any, name: str, old: Tensor, array: np.ndarray[Any, Any], value: Any) -> None:
    """Put the given tensor in the place of the old one."""
    if not isinstance(old, Parameter):
        setattr(owner, name, value if isinstance(value, Tensor) else wrap(array))
    elif isinstance(value, Parameter):
        setattr(owner, name, value.requires_grad_(old.requires_grad))
    else:
        setattr(owner, name, Parameter(array, requires_grad=old.requires_grad))
