"""A model as it was: what a check touches is restored, also when the check fails."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradwalk.inspect.trace.live import is_tensor, is_torch_tensor, numbers_of
from gradwalk.random.generator import default_generator
from gradwalk.random.generator_states import generator_state, set_generator_state
from gradwalk.testing.one_step import is_foreign, parameters_of, unwatched

_REGISTERS = ("_parameters", "_buffers", "_modules")


@contextmanager
def gradients_kept(model: Any) -> Iterator[None]:
    """Restore the `.grad`s afterwards; they are None inside."""
    before = [(parameter, parameter.grad) for parameter in parameters_of(model).values()]
    for parameter, _ in before:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in before:
            parameter.grad = gradient


@contextmanager
def restored(model: Any, optimizer: Any = None, data: Any = None) -> Iterator[Beginning]:
    """Restore afterwards; `rewind()` of what it yields returns to the beginning at any time."""
    beginning = Beginning(model, optimizer, data)
    with gradients_kept(model), unwatched(is_foreign(model, data)):
        try:
            yield beginning
        finally:
            beginning.rewind()


class Beginning:
    """The parameters, buffers, attributes and random generators of a model at one moment."""

    def __init__(self, model: Any, optimizer: Any = None, data: Any = None) -> None:
        self.modules = [
            (module, dict(vars(module)), [dict(getattr(module, r)) for r in _REGISTERS])
            for module in (model.modules() if hasattr(model, "modules") else ())
        ]
        self.parameters = list(parameters_of(model).values())
        held = {id(parameter): parameter for parameter in self.parameters}
        attributes: list[Any] = []
        for _, plain, registers in self.modules:
            attributes += plain.values()
            attributes += registers[1].values()
        held.update((id(thing), thing) for thing in attributes if is_tensor(thing))
        self.tensors = [(tensor, tensor.detach().clone()) for tensor in held.values()]
        self.optimizer = optimizer
        self.optimizer_state = copy.deepcopy(optimizer.state_dict()) if optimizer else None
        self.generators = [(g, generator_state(g)) for g in attributes if _is_generator(g)]
        self.randomness = _global_randomness(is_foreign(model, data), [*held.values()])

    def rewind(self) -> None:
        """Return the model to this moment; gradients become None."""
        for module, plain, registers in self.modules:
            _restore_attributes(module, plain, registers)
        for tensor, value in self.tensors:
            if not _same_bits(tensor, value):
                tensor.data.copy_(value)
        for parameter in self.parameters:
            parameter.grad = None
        if self.optimizer is not None:
            self.optimizer.load_state_dict(copy.deepcopy(self.optimizer_state))
        for generator, state in self.generators:
            set_generator_state(generator, state)
        self.randomness()


def _restore_attributes(
    module: Any, plain: dict[str, Any], registers: list[dict[str, Any]]
) -> None:
    """Rebind what was bound to other objects: `self.hidden = h`, a buffer, the mode."""
    for register, before in zip(_REGISTERS, registers):
        now = getattr(module, register)
        for name in [name for name in now if name not in before]:
            delattr(module, name)
        for name, value in before.items():
            if now.get(name) is not value:
                setattr(module, name, value)
    for name in [name for name in vars(module) if name not in plain]:
        delattr(module, name)
    for name, value in plain.items():
        if vars(module).get(name) is not value:
            setattr(module, name, value)


def _same_bits(one: Any, other: Any) -> bool:
    a, b = numbers_of(one), numbers_of(other)
    return a is not None and b is not None and a.shape == b.shape and a.tobytes() == b.tobytes()


def _is_generator(thing: Any) -> bool:
    """Whether it is a generator of Python, NumPy or either engine."""
    if isinstance(thing, (random.Random, np.random.Generator)):
        return True
    return hasattr(thing, "get_state") and hasattr(thing, "manual_seed")


def _global_randomness(foreign: bool, tensors: list[Any]) -> Any:
    """A function that restores the global generators."""
    ours, python, numpy = default_generator.get_state(), random.getstate(), np.random.get_state()
    theirs = None
    if foreign:
        from gradwalk.torch import private
        from gradwalk.torch.rerun.rng_states import Randomness

        devices = {t.device for t in tensors if is_torch_tensor(t) and private.has_rng(t.device)}
        theirs = Randomness.now(devices)

    def restore() -> None:
        default_generator.set_state(ours)
        random.setstate(python)
        np.random.set_state(numpy)
        if theirs is not None:
            theirs.restore()

    return restore
