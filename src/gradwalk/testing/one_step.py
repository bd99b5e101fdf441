"""One step of a model, recorded: how its inputs and its loss are called, in either engine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gradwalk.inspect.trace.live import is_tensor, is_torch_tensor
from gradwalk.inspect.trace.recorder import record
from gradwalk.inspect.trace.trace import Trace

ROOM = 1 << 30  # bytes of values to keep of one recording
_MODELS = frozenset(("model", "net", "network", "module", "m"))  # what such a parameter is called
_BATCHES = frozenset(("batch", "data"))


def parameters_of(model: Any) -> dict[str, Any]:
    """The parameters of a model by name; a plain function has none."""
    return dict(model.named_parameters()) if hasattr(model, "named_parameters") else {}


def eager(model: Any) -> Any:
    """The model that `torch.compile` was given: compiled code cannot be recorded."""
    return getattr(model, "_orig_mod", model)


def title_of(model: Any) -> str:
    """What an error calls a model."""
    return getattr(model, "__name__", type(eager(model)).__name__)


def tensors_in(thing: Any) -> Iterator[Any]:
    """The tensors in nested lists, tuples and dictionaries, in order."""
    if is_tensor(thing):
        yield thing
    elif isinstance(thing, Mapping):
        for inner in thing.values():
            yield from tensors_in(inner)
    elif isinstance(thing, list | tuple):
        for inner in thing:
            yield from tensors_in(inner)


def mapped(thing: Any, function: Callable[[Any], Any]) -> Any:
    """The same nested lists, tuples and dictionaries with other tensors."""
    if is_tensor(thing):
        return function(thing)
    if isinstance(thing, Mapping):
        return {name: mapped(inner, function) for name, inner in thing.items()}
    if isinstance(thing, list | tuple):
        inner = [mapped(part, function) for part in thing]
        return type(thing)(*inner) if hasattr(thing, "_fields") else type(thing)(inner)
    return thing


def is_foreign(model: Any, data: Any = None) -> bool:
    """Whether a model and its data are PyTorch's."""
    parameters = parameters_of(model).values()
    return any(is_torch_tensor(tensor) for tensor in (*parameters, *tensors_in(data)))


@contextmanager
def unwatched(foreign: bool) -> Iterator[None]:
    """Hide what happens inside from any `watch` of the program."""
    if foreign:
        from gradwalk.torch.watch.active_watches import aside

        with aside():
            yield
    else:
        yield


@contextmanager
def recording(foreign: bool, keep: str | None = None, budget: int | None = None) -> Iterator[Trace]:
    """Record what happens inside, apart from any `watch` of the program."""
    if foreign:
        from gradwalk.torch.record.recorder import TorchRecorder

        with unwatched(foreign), TorchRecorder(keep, budget) as trace:
            yield trace
    else:
        with record(keep=keep, budget=budget) as trace:
            yield trace


def called(model: Any, inputs: Any) -> Any:
    """Call a model with one tensor, with a tuple of arguments, or with a dictionary by name."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, list | tuple) else model(inputs)


def loss_of(model: Any, loss_fn: Callable[..., Any], batch: Any) -> Any:
    """The loss of a batch, however the loss is written; see `assert_healthy`."""
    names = _parameters(loss_fn)
    several = batch if isinstance(batch, tuple | list) else (batch,)
    if names and names[0] in _MODELS:
        loss = loss_fn(model, batch) if len(names) <= 2 else loss_fn(model, *several)
    elif len(names) == 1 and names[0] in _BATCHES:
        loss = loss_fn(batch)
    elif isinstance(batch, Mapping):
        output = model(**batch)
        loss = loss_fn(output) if len(names) == 1 else loss_fn(output, batch)
    else:
        *inputs, target = several if len(several) > 1 else (batch, batch)
        output = model(*inputs)
        loss = loss_fn(output) if len(names) == 1 else loss_fn(output, target)
    return _checked(loss, loss_fn)


def inputs_of(batch: Any) -> Any:
    """The part of a batch that a model is called with: all but the target."""
    if isinstance(batch, tuple | list) and len(batch) > 1:
        return tuple(batch[:-1])
    return batch


def _parameters(function: Callable[..., Any]) -> list[str]:
    """The names of the required positional parameters."""
    try:
        given = inspect.signature(getattr(function, "forward", function)).parameters.values()
    except (TypeError, ValueError):  # built in
        return []
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in given if p.kind in places and p.default is p.empty]


def _checked(loss: Any, loss_fn: Callable[..., Any]) -> Any:
    if is_tensor(loss) and len(loss.shape) == 0 and loss.requires_grad:
        return loss
    name = getattr(loss_fn, "__name__", type(loss_fn).__name__)
    kind = f"a tensor of shape {tuple(loss.shape)}" if is_tensor(loss) else type(loss).__name__
    why = ", and it needs no gradient" if is_tensor(loss) and not loss.requires_grad else ""
    raise TypeError(
        f"{name} gave {kind}{why}, not one number to differentiate. Fix: a loss_fn that is called "
        "with the model's output and the target, or whose first parameter is called `model`, and "
        "that returns one number (.mean())."
    )
