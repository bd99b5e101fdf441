"""Whether operations are recorded: no_grad, enable_grad, inference_mode; one mode per thread."""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


class ThreadState:
    """The state of one thread."""

    __slots__ = ("_quiet", "grad_enabled", "listener", "run", "tracer", "watcher")

    def __init__(self) -> None:
        self.grad_enabled = True
        self.listener: Any = None  # called with every node made (a checkpoint region does)
        # notified of every operation and visit (inspect/trace/recorder.py)
        self.watcher: Any = None
        # While a function is traced (compiler/tracing), operations are noted, not computed. A
        # tracer is the watcher as well, so that only the slow paths check for it.
        self.tracer: Any = None
        # NumPy keeps its warning settings in a context variable. Running a forward inside a
        # context of our own silences it for 25 ns, where np.errstate would cost 600.
        self._quiet = contextvars.Context()
        self._quiet.run(np.seterr, all="ignore")
        self.run = self._quiet.run


class _ThreadLocal(threading.local):
    """`state.here` is this thread's ThreadState; one look-up instead of one per attribute."""

    def __init__(self) -> None:
        self.here = ThreadState()


state = _ThreadLocal()


def quietly(function: Callable[..., R], *args: Any, **keywords: Any) -> R:
    """Call with NumPy's floating-point warnings off; may be nested."""
    try:
        return state.here.run(function, *args, **keywords)
    except RuntimeError as error:
        if "already entered" not in str(error):
            raise
        return function(*args, **keywords)


def filled(shape: tuple[int, ...], dtype: Any, number: int) -> Any:
    """A new array of ones or zeros; a constant of the program while one is traced."""
    tracer = state.here.tracer
    if tracer is not None:
        return tracer.filled(shape, dtype, number)
    return np.ones(shape, dtype) if number else np.zeros(shape, dtype)


def hold(*tensors: Any) -> None:
    """Report tensors that are about to be changed or read to the tracer, if there is one."""
    if state.here.tracer is not None:
        state.here.tracer.capture(*tensors)


def is_grad_enabled() -> bool:
    """Whether operations are being recorded in this thread.

    >>> import gradwalk as gw
    >>> gw.is_grad_enabled()
    True
    """
    return state.here.grad_enabled


class _GradMode:
    """A grad mode as a context manager that can be entered again, and as a decorator."""

    mode = False

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> Self:
        self._before.append(state.here.grad_enabled)
        state.here.grad_enabled = self.mode
        return self

    def __exit__(self, *_: object) -> None:
        state.here.grad_enabled = self._before.pop()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        mode = self.mode

        @functools.wraps(function)
        def wrapped(*args: P.args, **keywords: P.kwargs) -> R:
            entered = _GradMode()  # one per call: calls may nest, in several threads
            entered.mode = mode
            with entered:
                return function(*args, **keywords)

        return wrapped

    def __new__(cls, *args: Any, **keywords: Any) -> Any:
        self = super().__new__(cls)
        if args and callable(args[0]):  # @no_grad without parentheses
            self.__init__()  # type: ignore[misc]
            return self(args[0])
        return self


class set_grad_enabled(_GradMode):
    """Switch recording on or off: as a statement, a `with` block or a decorator.

    >>> import gradwalk as gw
    >>> with gw.set_grad_enabled(False):
    ...     gw.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)
        super().__enter__()

    def __enter__(self) -> Self:
        return self  # the mode was switched when this was made

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
        super().__init__()
        self.mode = not mode
