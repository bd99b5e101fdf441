"""Everything private of PyTorch that gradwalk uses, and the one error for other versions.

Public hooks report almost everything. What is here has no public form: the beginning of a backward
pass (`Tensor.backward`, `torch.autograd.backward` and `grad` alike), the autograd node of an
operation, and whether saved tensors are packed. Lists of tensors and `torch.distributed` have files
of their own: private_foreach.py, private_distributed.py.
"""

from __future__ import annotations

import functools
import sys
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

TESTED = ">=2.8,<2.16"  # the versions of PyTorch at whose ends gradwalk is tested


def missing(what: str) -> RuntimeError:
    """The error for a PyTorch version that lacks a part that gradwalk needs."""
    return RuntimeError(
        f"gradwalk.torch needs {what}, which PyTorch {torch.__version__} does not have. "
        f"Fix: pip install 'torch{TESTED}', the versions gradwalk is tested with."
    )


try:
    from torch.multiprocessing.reductions import StorageWeakRef as StorageWeakRef
    from torch.utils._python_dispatch import (
        TorchDispatchMode as TorchDispatchMode,
    )
    from torch.utils._python_dispatch import (
        _get_current_dispatch_mode_stack,
    )
    from torch.utils._pytree import tree_flatten, tree_unflatten
except ImportError as error:
    raise missing(f"dispatch modes and weak references to memory ({error.name})") from error


# -- which autograd node an operation belongs to ---------------------------------------------------


def nodes_made() -> int:
    """The number of autograd nodes this thread has made; the last one has this number − 1."""
    try:
        return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]
    except AttributeError:
        raise missing("torch.autograd._get_sequence_nr()") from None


def number_of(grad_fn: Any) -> int:
    """The number of an autograd node, as counted by `nodes_made`."""
    try:
        return int(grad_fn._sequence_nr())
    except AttributeError:
        raise missing("grad_fn._sequence_nr()") from None


def mark(grad_fn: Any) -> dict[Any, Any]:
    """A dictionary that lives as long as the autograd node; its Python object may not."""
    try:
        return grad_fn.metadata
    except AttributeError:
        raise missing("grad_fn.metadata") from None


def saved_names(grad_fn: Any) -> tuple[str, ...]:
    """The attributes of an autograd node that hold saved tensors."""
    kind: Any = type(grad_fn)
    return _saved_names(kind)


@functools.cache
def _saved_names(kind: Any) -> tuple[str, ...]:
    """Numbers and sizes that a node saved have no raw form."""
    names = set(dir(kind))
    found = [name for name in sorted(names) if name.startswith("_saved_")]
    if issubclass(kind, torch.autograd.function.BackwardCFunction):
        found.append("saved_tensors")
    return tuple(name for name in found if f"_raw_{name.removeprefix('_')}" in names)


def is_packed(grad_fn: Any, name: str) -> bool:
    """Whether a saved tensor is packed (checkpoint, offloading): reading it would unpack it."""
    try:
        raw = getattr(grad_fn, f"_raw_{name.removeprefix('_')}")
    except RuntimeError:  # freed by backward
        return False
    try:
        if isinstance(raw, list | tuple):
            return any(saved is not None and saved.unpack_hook is not None for saved in raw)
        return raw is not None and raw.unpack_hook is not None
    except AttributeError:  # older versions do not show the hook
        return _runs_python(grad_fn, name)


class _Stopped(Exception):
    """A function of Python was about to run."""


def _runs_python(grad_fn: Any, name: str) -> bool:
    """Whether reading an attribute of a node calls Python, as an unpack hook is; stop that call."""

    def stop(*call: Any) -> None:
        raise _Stopped

    before = sys.gettrace()
    with unseen():
        sys.settrace(stop)
        try:
            getattr(grad_fn, name)
        except _Stopped:
            return True
        except RuntimeError:  # backward has let it go
            return False
        finally:
            sys.settrace(before)
    return False


def outputs_of(grad_fn: Any) -> list[tuple[tuple[int, ...], torch.dtype] | None]:
    """The shape and dtype of each forward output of an autograd node.

    None for an output without a gradient or with a symbolic shape.
    """
    try:
        metas = grad_fn._input_metadata
    except AttributeError:
        raise missing("grad_fn._input_metadata") from None
    forms: list[tuple[tuple[int, ...], torch.dtype] | None] = []
    for meta in metas:
        try:
            shape = None if meta.is_nested_tensor else tuple(meta.shape)
            forms.append(None if shape is None else (shape, meta.dtype))
        except RuntimeError:
            forms.append(None)
    return forms


def listen(tensor: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> None:
    """Call `hook` with the gradient of a tensor: `register_hook`, for a hook that stays.

    A handle to remove it takes longer than all the rest of that.
    """
    node: Any = tensor.grad_fn
    try:
        if tensor._backward_hooks is None and node is not None and type(tensor) is torch.Tensor:
            tensor._backward_hooks = OrderedDict({-1: hook})  # handles count from 0
            node._register_hook_dict(tensor)
            return
    except AttributeError:  # not in this version
        pass
    tensor.register_hook(hook)  # type: ignore[no-untyped-call]


def is_custom(grad_fn: Any) -> bool:
    """Whether an autograd node belongs to a custom `torch.autograd.Function`."""
    return isinstance(grad_fn, torch.autograd.function.BackwardCFunction)


def fake_tensors() -> Any:
    """A mode in which tensors have shapes and no memory; tensors from outside are converted."""
    try:
        from torch._subclasses.fake_tensor import FakeTensorMode
    except ImportError:
        raise missing("torch._subclasses.fake_tensor.FakeTensorMode") from None
    return FakeTensorMode(allow_non_fake_inputs=True)


def storage_of(tensor: torch.Tensor) -> Any:
    """The storage of a tensor; None if it has none. `_cdata` identifies it while it lives."""
    if tensor.layout is not torch.strided:
        return None
    try:
        return tensor.untyped_storage()
    except (RuntimeError, TypeError):  # a tensor of torch.func, or a subclass
        return None


def memory_of(tensor: torch.Tensor) -> int | None:
    """A number that identifies the storage of a tensor; None if unknown."""
    storage = storage_of(tensor)
    return None if storage is None else int(storage._cdata)


# -- hiding from modes -----------------------------------------------------------------------------


@contextmanager
def unseen() -> Iterator[None]:
    """Hide operations from dispatch and function modes, the user's and ours."""
    try:
        dispatch, function = torch._C._DisableTorchDispatch, torch._C.DisableTorchFunction
    except AttributeError:
        raise missing("guards that switch modes off") from None
    with dispatch(), function():
        yield


def no_modes() -> bool:
    """Whether no mode would see a call of a method, or the operations that it consists of."""
    return not torch._C._len_torch_function_stack() and not torch._C._len_torch_dispatch_stack()


def is_transformed(tensor: Any) -> bool:
    """Whether a tensor is a wrapper inside `torch.func.grad`, `vmap` or the like."""
    from torch._C import _functorch

    legacy = _functorch.is_legacy_batchedtensor  # of `torch.autograd.grad(is_grads_batched=True)`
    if not isinstance(tensor, torch.Tensor):
        return False
    return bool(_functorch.is_functorch_wrapped_tensor(tensor) or legacy(tensor))


# -- that a backward pass begins -------------------------------------------------------------------


@dataclass
class BackwardCall:
    """A backward pass: its arguments and, once it is done, its results."""

    outputs: tuple[Any, ...]  # the tensors it starts from
    seeds: tuple[Any, ...]  # a gradient for each
    create_graph: bool
    accumulates: bool  # into .grad, unlike `torch.autograd.grad`
    inputs: tuple[Any, ...]  # the inputs of `grad`
    result: tuple[Any, ...] = ()  # the gradients that `grad` returns


Listener = Callable[[BackwardCall], AbstractContextManager[None]]
_listeners: list[Listener] = []
_original: Any = None


@contextmanager
def told_of_backward(listener: Listener) -> Iterator[None]:
    """Enter `listener(call)` around every backward pass of the process."""
    global _original
    if not _listeners:
        _original = getattr(torch.autograd, "_engine_run_backward", None)
        if _original is None:
            raise missing("torch.autograd._engine_run_backward")
        torch.autograd._engine_run_backward = _run_backward  # type: ignore[attr-defined, assignment]
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
        if not _listeners:
            torch.autograd._engine_run_backward = _original  # type: ignore[attr-defined]


def _run_backward(
    outputs: Sequence[Any],
    seeds: Sequence[Any],
    retain_graph: bool,
    create_graph: bool,
    inputs: Sequence[Any] = (),
    *args: Any,
    **keywords: Any,
) -> Any:
    run = _original
    accumulates = bool(keywords.get("accumulate_grad", True))
    call = BackwardCall(tuple(outputs), tuple(seeds), create_graph, accumulates, tuple(inputs))
    # A stack of contexts takes as long as what a listener does.
    with _listeners[0](call) if len(_listeners) == 1 else _all_listeners(call):
        result = run(outputs, seeds, retain_graph, create_graph, inputs, *args, **keywords)
        call.result = tuple(result or ())
        return result


@contextmanager
def _all_listeners(call: BackwardCall) -> Iterator[None]:
    with ExitStack() as stack:
        for listener in list(_listeners):
            stack.enter_context(listener(call))
        yield


# -- that compiled code runs -----------------------------------------------------------------------


# What the wrapper of a compiled function calls before it checks modes, and what it calls to switch
# compiled code on and finally off.
_PREPARES, _SWITCHES = "set_skip_guard_eval_unsafe", "_maybe_set_eval_frame"
_RUNS = "compile_wrapper"


@dataclass
class _Compiled:
    """Listeners for compiled code that a thread runs."""

    thread: int
    begins: Callable[[], None]
    ends: Callable[[], None]
    running: list[Any] = field(default_factory=list)  # the outermost wrapper, once more when on


_compiled: list[_Compiled] = []
_before: dict[str, Any] = {}  # the functions replaced by `_prepared` and `_switched`
_changing = threading.Lock()


@contextmanager
def told_of_compiled(begins: Callable[[], None], ends: Callable[[], None]) -> Iterator[None]:
    """Call `begins` and `ends` around compiled code that this thread runs.

    Hooks and modes that are active while such code runs would make it recompile, with other
    rounding.
    """
    from torch._dynamo import eval_frame

    told = _Compiled(threading.get_ident(), begins, ends)
    with _changing:
        if not _compiled:
            for name, ours in ((_PREPARES, _prepared), (_SWITCHES, _switched)):
                _before[name] = getattr(eval_frame, name, None)
                if _before[name] is None:
                    raise missing(f"torch._dynamo.eval_frame.{name}")
                setattr(eval_frame, name, ours)
        _compiled.append(told)
    try:
        yield
    finally:
        with _changing:
            _compiled.remove(told)
            if not _compiled:
                for name, theirs in _before.items():
                    setattr(eval_frame, name, theirs)


def _compilation_is_off() -> bool:
    """Whether `torch.compiler.set_stance("force_eager")` runs compiled functions uncompiled."""
    from torch._dynamo import eval_frame

    return getattr(getattr(eval_frame, "_stance", None), "stance", "") == "force_eager"


def _prepared(*given: Any) -> Any:
    frame, thread = sys._getframe(1), threading.get_ident()
    if frame.f_code.co_name == _RUNS and not _compilation_is_off():
        for told in reversed(_compiled):  # the innermost mode is taken off first
            if told.thread == thread and not told.running:
                told.running.append(frame)
                told.begins()
    return _before[_PREPARES](*given)


def _switched(*given: Any) -> Any:
    frame = sys._getframe(1)
    for told in list(_compiled):
        if told.running and told.running[0] is frame:
            told.running.append(frame)
            if len(told.running) > 2:  # it was enabled
                told.running.clear()
                told.ends()
    return _before[_SWITCHES](*given)


@contextmanager
def mode_taken_off(mode: TorchDispatchMode) -> Iterator[None]:
    """Remove a dispatch mode for a while, if it is the innermost one."""
    modes = _get_current_dispatch_mode_stack()
    if not modes or modes[-1] is not mode:
        yield
        return
    # This resets its flags as well, which tell older compilers that it is on.
    mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        mode.__enter__()  # type: ignore[no-untyped-call]


# -- generators of devices -------------------------------------------------------------------------


def has_rng(device: torch.device) -> bool:
    """Whether a device has its own random generator."""
    return device.type not in ("cpu", "meta")


def rng_state(device: torch.device) -> torch.Tensor:
    """The state of a device's generator."""
    module = torch.get_device_module(device)
    if device.index is not None and hasattr(module, "default_generators"):  # the short way
        return module.default_generators[device.index].get_state()
    return module.get_rng_state(*(() if device.type == "mps" else (device,)))


def set_rng_state(device: torch.device, state: torch.Tensor) -> None:
    """Restore the state of a device's generator."""
    which = () if device.type == "mps" else (device,)
    torch.get_device_module(device).set_rng_state(state, *which)


# -- for import_graph ------------------------------------------------------------------------------

flattened = tree_flatten  # nested tuples, lists and dicts -> leaves, structure
rebuilt = tree_unflatten  # the inverse


def is_overload(func: Any) -> bool:
    """Whether a value is an operator overload such as aten.add.Tensor."""
    return isinstance(func, torch._ops.OpOverload)


@contextmanager
def lines_kept(after: str) -> Iterator[None]:
    """While inside, torch.export notes the lines of all of the user's functions, not only of those
    called `forward`: the frames inside the last one in the file `after`, PyTorch's own left out."""
    from torch.fx.proxy import TracerBase

    before = getattr(TracerBase, "_filter_traceback_frames", None)
    if before is None:  # fall back to the lines that it notes by itself
        yield
        return
    own = torch.__file__.removesuffix("__init__.py")

    def users(frame: Any) -> bool:
        written = not frame.filename.startswith((own, "<string>", "<eval_with_key>"))
        return written or frame.name == "forward"

    def kept(self: Any, frames: Any) -> Any:
        start = max((i for i, f in enumerate(frames) if f.filename == after), default=-1)
        return traceback.StackSummary.from_list(f for f in frames[start + 1 :] if users(f))

    TracerBase._filter_traceback_frames = kept  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = before  # type: ignore[method-assign]
