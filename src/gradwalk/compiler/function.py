"""gradwalk.compile: the function, and the object it returns."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType, MethodType
from typing import Any

from gradwalk.compiler import pipeline
from gradwalk.compiler.backends import BACKENDS
from gradwalk.compiler.call import MISS
from gradwalk.compiler.call.specialization import Variant
from gradwalk.compiler.introspect.methods import Looking, warn_of_numpy
from gradwalk.compiler.ir.program import Program
from gradwalk.compiler.tracing.arguments import Arguments
from gradwalk.compiler.tracing.errors import TraceError as TraceError
from gradwalk.engine.allocator import keep_freed_memory
from gradwalk.engine.modes import state
from gradwalk.nn.module import Module
from gradwalk.scalar.value import Value

MOST_VARIANTS = 8
_told_of_numpy = False  # that there is no llvmlite: once


class Compiled(Looking):
    """A compiled function: call it as the function itself."""

    static: frozenset[Any]
    backend: str
    fast_math: bool
    _attribute: str | None  # its name in the class that it is a method of
    _warned: bool
    _warned_of_numpy: bool
    _lock: threading.Lock
    _last: Callable[..., Any]

    def __init__(
        self,
        function: Callable[..., Any],
        static: Iterable[Any] = (),
        backend: str = "llvm",
        fast_math: bool = False,
    ) -> None:
        if not callable(function):
            raise TypeError(f"compile takes a function, not {type(function).__name__}")
        if backend not in BACKENDS:
            raise ValueError(f"backend is one of {', '.join(BACKENDS)}, not {backend!r}")
        self.function = function
        self.names = _parameter_names(function)
        self.static = _both(static, self.names)
        self.backend = backend
        self.fast_math = fast_math
        self.variants: dict[Any, list[Variant]] = {}
        self.name = getattr(function, "__qualname__", type(function).__name__)
        self.newest: Variant | None = None  # what explain() and source() are about
        self._warned = self._warned_of_numpy = False
        self._lock = threading.Lock()  # a program has one set of buffers
        self._last: Callable[..., Any] = _none_yet  # the call of the program that ran last
        self._attribute = None
        if not isinstance(function, Module):
            functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        here = state.here
        if here.watcher is not None:  # inside another trace, or recorded: as if not compiled
            return self.function(*args, **keywords)
        with self._lock:
            answer = self._last(args, keywords, here)
            if answer is not MISS:
                return answer
            given = Arguments(args, keywords, self.static, here.grad_enabled)
            for variant in self.variants.get(given.key, ()):
                answer = variant.call(args, keywords, here)
                if answer is not MISS:
                    self._last = variant.call
                    return answer
            variant = self._new(given, args, keywords)
            self._last = variant.call
            answer = variant.call(args, keywords, here)
            assert answer is not MISS
            return answer

    def _new(self, given: Arguments, args: Any, keywords: Any) -> Variant:
        """Trace and build a program for a call that none of the known ones is right for."""
        if sum(map(len, self.variants.values())) >= MOST_VARIANTS:
            self._warn()
            oldest = next(iter(self.variants))
            self.variants[oldest].pop(0)
            if not self.variants[oldest]:
                del self.variants[oldest]
        keep_freed_memory()
        call = (args, keywords)
        variant = pipeline.specialize(
            self.name, self.function, given, call, self.static, self.names, self._build
        )
        for optimizer, parameter, kept in variant.trace.fresh:
            optimizer.state[parameter] = kept
        self.variants.setdefault(given.key, []).append(variant)
        self.newest = variant
        self._warned_of_numpy = self._warned_of_numpy or warn_of_numpy(
            self.name, variant.executable
        )
        return variant

    def _build(self, program: Program, layout: Any) -> Any:
        """The executable of a program, by the backend asked for or, without llvmlite, by NumPy."""
        try:
            return pipeline.build(program, layout, self.backend, self.fast_math)
        except ImportError as error:
            global _told_of_numpy
            if not _told_of_numpy:
                _told_of_numpy = True
                warnings.warn(
                    f"{self.name}, and whatever else is compiled, runs as NumPy, op by op: {error}",
                    UserWarning,
                    stacklevel=6,
                )
            self.backend = "numpy"
            return pipeline.build(program, layout, self.backend)

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.name} has been compiled {MOST_VARIANTS} times, each for other shapes, "
                "dtypes, modes, values of arguments or objects in the variables it reads; from now "
                "on the oldest program is dropped for each new one. Fix: give it fewer different "
                "shapes (pad the last batch), make a number that changes a float or a tensor, and "
                "pass what changes as an argument.",
                UserWarning,
                stacklevel=4,
            )

    # -- as a method, and copied -------------------------------------------------------------------

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: every object has a compiled function of its own, kept with the object."""
        if instance is None or not isinstance(self.function, FunctionType):
            return self
        attributes = getattr(instance, "__dict__", None)
        if self._attribute is None or not isinstance(attributes, dict):
            return MethodType(self, instance)
        static = [name for name in self.static if isinstance(name, str)]
        bound = Compiled(MethodType(self.function, instance), static, self.backend, self.fast_math)
        bound._attribute = self._attribute
        attributes[self._attribute] = bound
        return bound

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        function = copy.deepcopy(self.function, memo)
        found = type(self)(function, self.static, self.backend, self.fast_math)
        found._attribute = self._attribute
        return found

    def __reduce__(self) -> Any:
        """What is pickled is the function; whoever loads it compiles anew."""
        found: Any = sys.modules.get(getattr(self.function, "__module__", None) or "")
        name = getattr(self.function, "__qualname__", "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:  # a decorated function is found by its name
            return name
        if self._attribute is not None and isinstance(self.function, MethodType):
            return getattr, (self.function.__self__, self._attribute)
        return type(self), (self.function, self.static, self.backend, self.fast_math)

    def __repr__(self) -> str:
        return f"<compiled {self.function!r}>"


def _none_yet(args: Any, keywords: Any, here: Any) -> Any:
    """The call of no program."""
    return MISS


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters that can be given by position."""
    if isinstance(function, Module):
        function = function.forward
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _both(static: Any, names: list[str]) -> frozenset[Any]:
    """Static arguments by name and by position: a caller may use either."""
    listed = [static] if isinstance(static, (str, int)) else list(static)
    found = set(listed)
    for one in listed:
        if isinstance(one, str):
            found |= {names.index(one)} if one in names else set()
        else:
            found |= {names[one]} if -len(names) <= one < len(names) else set()
    return frozenset(found)


def compile(
    fn: Callable[..., Any] | Value | None = None,
    *,
    static: Any = (),
    backend: str = "llvm",
    fast_math: bool = False,
    leaves: Sequence[Value] | None = None,
) -> Any:
    """Compile a function of tensors, or a whole training step, into one native function.

    The function is run once on abstract tensors; what it did is compiled. Tensors it knows by
    itself (parameters, buffers, an optimizer's state) are captured and changed in place, as it
    would; learning rates, step counts and floats it is called with are read at every call. Other
    shapes, dtypes, modes or values of other arguments compile anew. A float that must be known
    while it is traced (the p of a dropout) is named in `static`.

    `backend` is "llvm", or "numpy" for the reference, which runs the same program op by op. Every
    operation is rounded as NumPy rounds it; with `fast_math` a product and the sum it goes into are
    rounded once, which is a little quicker and gives other last bits.

    >>> import gradwalk as gw
    >>> w = gw.tensor([3.0], requires_grad=True)
    >>> optimizer = gw.optim.SGD([w], lr=0.25)
    >>> @gw.compile(backend="numpy")
    ... def step(x):
    ...     optimizer.zero_grad()
    ...     loss = ((w * x) ** 2).sum()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    >>> step(gw.ones(1)), step(gw.ones(1))
    (tensor(9.), tensor(2.2500))

    A compiled module is a module, with the parameters and names of the one given.

    Of a `Value` it compiles the graph behind it, to be computed for other numbers in its leaves
    (all of them, or `leaves`): see `gradwalk.compiler.scalars`.
    """
    if fn is None:
        return functools.partial(compile, static=static, backend=backend, fast_math=fast_math)
    if isinstance(fn, Value):
        from gradwalk.compiler.scalars import compile_values

        return compile_values(fn, leaves, backend)
    if isinstance(fn, Module):
        from gradwalk.compiler.compiled_module import CompiledModule

        return CompiledModule(fn, static, backend, fast_math)
    return Compiled(fn, static, backend, fast_math)
