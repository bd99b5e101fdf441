"""Whether operations are recorded: no_grad, enable_grad, inference_mode.

The modes belong to a context (`contextvars`): a thread has its own, and so has each asyncio task,
so `with no_grad():` in one task does not reach the tasks that run while it waits. A task starts
with the modes in which it was made, a thread with the defaults.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


class Modes:
    """The modes of one context. They are replaced, never changed: other contexts share them."""

    __slots__ = (
        "_flipped", "autocast", "grad_enabled", "level", "listener", "run", "tracer", "watcher",
    )  # fmt: skip

    def __init__(
        self,
        grad_enabled: bool = True,
        listener: Any = None,
        watcher: Any = None,
        tracer: Any = None,
        autocast: Any = None,
        level: Any = None,
        run: Callable[..., Any] | None = None,
    ) -> None:
        self.grad_enabled = grad_enabled
        self.listener = listener  # called with every node made (a checkpoint region does)
        # notified of every operation and visit (inspect/trace/recorder.py)
        self.watcher = watcher
        # While a function is traced (compiler/tracing), operations are noted, not computed. A
        # tracer is the watcher as well, so that only the slow paths check for it.
        self.tracer = tracer
        self.autocast = autocast  # the dtypes that ops run in (tensors/autocast.py)
        self.level = level  # the innermost vmap that runs (batching/level.py)
        self._flipped: Modes | None = None
        if run is None:
            # NumPy keeps its warning settings in a context variable. Running a forward inside a
            # context of our own silences it for 25 ns, where np.errstate would cost 600. The same
            # modes hold inside; only, a forward within a forward is called as it is.
            quiet = _quiet.copy()
            inside = Modes(grad_enabled, listener, watcher, tracer, autocast, level, _call)
            quiet.run(_modes.set, inside)
            run = quiet.run
        self.run = run

    def changed(self, **changes: Any) -> Modes:
        """The same modes but for some."""
        kept = {name: getattr(self, name) for name in _CHANGING}
        return Modes(**(kept | changes), run=_call if self.run is _call else None)

    def flipped(self) -> Modes:
        """The same modes with recording switched, made once."""
        if self._flipped is None:
            self._flipped = self.changed(grad_enabled=not self.grad_enabled)
        return self._flipped


_CHANGING = ("grad_enabled", "listener", "watcher", "tracer", "autocast", "level")


def _call(function: Callable[..., R], *args: Any, **keywords: Any) -> R:
    return function(*args, **keywords)


def _first_call(function: Callable[..., R], *args: Any, **keywords: Any) -> R:
    """The first call in a context without modes of its own, as in a new thread."""
    result: R = _own().run(function, *args, **keywords)
    return result


# What holds in every context that has no modes of its own yet.
_DEFAULT = Modes(run=_first_call)
_modes: contextvars.ContextVar[Modes] = contextvars.ContextVar("modes", default=_DEFAULT)
_quiet = contextvars.Context()
_quiet.run(np.seterr, all="ignore")
current = _modes.get  # the modes that hold here; `state.here` is the same, at 40 ns more


def _own() -> Modes:
    """The modes that hold here; made if there are none yet."""
    here = current()
    if here is _DEFAULT:
        here = Modes()
        _modes.set(here)
    return here


def switch(**changes: Any) -> None:
    """Change modes of this context: `grad_enabled`, `listener`, `watcher`, `tracer`, `autocast`,
    `level`."""
    _modes.set(_own().changed(**changes))


class _State:
    __slots__ = ()

    @property
    def here(self) -> Modes:
        """The modes that hold here."""
        return current()


state = _State()


def quietly(function: Callable[..., R], *args: Any, **keywords: Any) -> R:
    """Call with NumPy's floating-point warnings off; may be nested."""
    try:
        return current().run(function, *args, **keywords)
    except RuntimeError as error:
        if not entered_elsewhere(error):
            raise
    switch()
    return current().run(function, *args, **keywords)


def entered_elsewhere(error: RuntimeError) -> bool:
    """Whether the modes could not `run` a function because this context was copied into several
    threads, as by asyncio.to_thread, and one of them is inside."""
    return "already entered" in str(error)


def filled(shape: tuple[int, ...], dtype: Any, number: int, beside: Any = None) -> Any:
    """A new array of ones or zeros, on the device of another array; a constant of the program
    while one is traced."""
    tracer = state.here.tracer
    if tracer is None and getattr(beside, "on_device", False):
        tracer = beside.machine
    if tracer is not None:
        return tracer.filled(shape, dtype, number)
    return np.ones(shape, dtype) if number else np.zeros(shape, dtype)


def beside(array: np.ndarray[Any, Any], other: Any) -> Any:
    """An array on the device of another array."""
    return other.machine.array(array) if getattr(other, "on_device", False) else array


def hold(*tensors: Any) -> None:
    """Report tensors that are about to be changed or read to the tracer, if there is one."""
    if state.here.tracer is not None:
        state.here.tracer.capture(*tensors)


def inside_vmap(tensor: Any) -> Any:
    """A tensor as one of the function that the innermost vmap runs; itself if none runs. It stays
    tied to its graph, which is that of a transform around the vmap."""
    level = current().level
    return tensor if level is None else level.lift(tensor)


def is_grad_enabled() -> bool:
    """Whether operations are being recorded here.

    >>> import gradwalk as gw
    >>> gw.is_grad_enabled()
    True
    """
    return state.here.grad_enabled


# The tensors that forward mode follows here (autograd/forward_ad.py), if any: it needs the graph.
dual_level: contextvars.ContextVar[Any] = contextvars.ContextVar("dual_level", default=None)


# The modes that a context is inside, innermost first: (mode, the modes before, those inside, the
# next one out). Kept by context, because one `no_grad()` may be entered in several at once.
Entered = tuple[Any, Modes, Modes, Any]
_entered: contextvars.ContextVar[Entered | None] = contextvars.ContextVar("entered", default=None)


class _GradMode:
    """A grad mode as a context manager that can be entered again, and as a decorator."""

    mode = False

    def __enter__(self) -> Self:
        before = inside = _own()
        if before.grad_enabled is not self.mode:
            inside = before._flipped or before.flipped()
            _modes.set(inside)
        _entered.set((self, before, inside, _entered.get()))
        return self

    def __exit__(self, *_: object) -> None:
        entered = _entered.get()
        if entered is not None and entered[0] is self:
            _, before, inside, rest = entered
            _entered.set(rest)
            _back_to(before, inside)
        else:
            self._exit_out_of_order(entered)

    def _exit_out_of_order(self, entered: Entered | None) -> None:
        """Leave a mode inside which others were entered and not left."""
        others = []
        while entered is not None and entered[0] is not self:
            others.append(entered[:3])
            entered = entered[3]
        if entered is None:  # entered in another context: nothing was changed in this one
            return
        _, before, inside, rest = entered
        for other in reversed(others):
            rest = (*other, rest)
        _entered.set(rest)
        _back_to(before, inside)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        def again() -> _GradMode:
            # One per call: calls may nest, in several threads.
            kind = inference_mode if isinstance(self, inference_mode) else _GradMode
            mode = object.__new__(kind)
            mode.mode = self.mode
            return mode

        if inspect.isgeneratorfunction(function):
            return _in_each_step(function, again)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: P.args, **keywords: P.kwargs) -> Any:
                with again():
                    return await function(*args, **keywords)

            return awaited  # type: ignore[return-value]

        @functools.wraps(function)
        def wrapped(*args: P.args, **keywords: P.kwargs) -> R:
            with again():
                return function(*args, **keywords)

        return wrapped

    def __new__(cls, *args: Any, **keywords: Any) -> Any:
        self = super().__new__(cls)
        if args and callable(args[0]):  # @no_grad without parentheses
            self.__init__()  # type: ignore[misc]
            return self(args[0])
        return self


def _back_to(before: Modes, inside: Modes) -> None:
    """Record again as before; other modes stay as they are."""
    here = current()
    if here is inside:
        if inside is not before:
            _modes.set(before)
    elif here.grad_enabled is not before.grad_enabled:
        _modes.set(here.flipped())


def _in_each_step(function: Callable[P, Any], again: Callable[[], _GradMode]) -> Callable[P, Any]:
    """A generator function that is in a mode while it runs, and not while its consumer does."""

    @functools.wraps(function)
    def stepping(*args: P.args, **keywords: P.kwargs) -> Generator[Any, Any, Any]:
        generator = function(*args, **keywords)
        resume, given = generator.send, None
        try:
            while True:
                with again():
                    item = resume(given)
                try:
                    resume, given = generator.send, (yield item)
                except GeneratorExit:
                    with again():
                        generator.close()
                    raise
                except BaseException as error:
                    resume, given = generator.throw, error
        except StopIteration as end:
            return end.value

    return stepping


class set_grad_enabled(_GradMode):
    """Switch recording on or off: as a statement, a `with` block or a decorator.

    >>> import gradwalk as gw
    >>> with gw.set_grad_enabled(False):
    ...     gw.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._before = _own()
        self._inside = self._before
        if self._before.grad_enabled is not self.mode:
            self._inside = self._before.flipped()
        _modes.set(self._inside)

    def __enter__(self) -> Self:
        return self  # the mode was switched when this was made

    def __exit__(self, *_: object) -> None:
        _back_to(self._before, self._inside)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        self.__exit__()  # a decorator does not change the mode by itself
        return super().__call__(function)


class no_grad(_GradMode):
    """Record nothing inside; also a decorator, with or without parentheses.

    >>> import gradwalk as gw
    >>> x = gw.tensor([1.0], requires_grad=True)
    >>> with gw.no_grad():
    ...     (x * 2).requires_grad
    False
    """


class enable_grad(_GradMode):
    """Record again inside a `no_grad` block."""

    mode = True


class inference_mode(_GradMode):
    """The same as `no_grad`: nothing is recorded.

    PyTorch's also forbids later use of its results in recorded code; ours does not.
    """

    def __init__(self, mode: bool = True) -> None:
        self.mode = not mode


def is_inference_mode_enabled() -> bool:
    """Whether this is inside `inference_mode`.

    >>> import gradwalk as gw
    >>> with gw.inference_mode():
    ...     gw.is_inference_mode_enabled()
    True
    """
    entered = _entered.get()
    while entered is not None:
        mode, _, _, entered = entered
        if isinstance(mode, inference_mode):
            return not mode.mode
    return False
