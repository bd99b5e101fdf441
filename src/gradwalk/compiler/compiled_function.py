"""gradwalk.compile: the function, and the object it returns."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType, MethodType
from typing import Any, Literal, TypeVar, cast

from gradwalk.compiler import pipeline
from gradwalk.compiler.backends import BACKENDS
from gradwalk.compiler.call.specialization import Specialization
from gradwalk.compiler.call.writer import MISS
from gradwalk.compiler.introspect.introspection import (
    Introspection,
    warn_of_numpy,
    warn_of_shapes,
)
from gradwalk.compiler.ir.program import Program
from gradwalk.compiler.tracing.arguments import Arguments
from gradwalk.compiler.tracing.errors import StaleError
from gradwalk.compiler.tracing.errors import TraceError as TraceError
from gradwalk.engine.allocator import keep_freed_memory
from gradwalk.engine.modes import current
from gradwalk.graph.fork_locks import CALL, fork_safe
from gradwalk.nn.module import Module
from gradwalk.scalar.value import Value

Method = TypeVar("Method", bound=Callable[..., Any])
MOST_SPECIALIZATIONS = 8
PYTORCH_BACKENDS = {"inductor": "llvm", "eager": "numpy", "aot_eager": "numpy"}
MOST_IN_VAIN = 64
_warned_of_fallback = False  # once per process


class Compiled(Introspection):
    """A compiled function: call it as the function itself."""

    static: frozenset[Any]
    backend: str
    fast_math: bool
    checked: bool | str
    _attribute: str | None  # its name in the class that it is a method of
    _warned: bool
    _warned_of_numpy: bool
    _warned_of_shapes: bool
    _lock: threading.Lock
    _in_vain: int
    _last: Callable[..., Any]

    def __init__(
        self,
        function: Callable[..., Any],
        static: Iterable[Any] = (),
        backend: str = "llvm",
        fast_math: bool = False,
        check: bool | str = True,
    ) -> None:
        if not callable(function):
            raise TypeError(f"compile takes a function, not {type(function).__name__}")
        if backend not in BACKENDS:
            raise ValueError(f"backend is one of {', '.join(BACKENDS)}, not {backend!r}")
        if not isinstance(check, bool) and check != "finite":
            raise ValueError(f'check is True, False or "finite", not {check!r}')
        self.function = function
        self.names = _parameter_names(function)
        self.static = _both(static, self.names)
        self.backend = backend
        self.fast_math = fast_math
        self.checked = check
        self.specializations: dict[Any, list[Specialization]] = {}
        self.name = getattr(function, "__qualname__", type(function).__name__)
        self.newest: Specialization | None = None  # for explain() and source()
        self._warned = self._warned_of_numpy = self._warned_of_shapes = False
        self._in_vain = 0  # how often it was traced anew, and did the same as before
        self._lock = fork_safe(threading.Lock(), CALL)  # a program has one set of buffers
        self._last = _no_program  # the call of the program that ran last
        self._attribute = None
        if not isinstance(function, Module):
            functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        here = current()
        if here.watcher is not None or here.level is not None:
            # Inside another trace, recorded, or inside vmap: as if not compiled.
            return self.function(*args, **keywords)
        with self._lock:
            try:
                answer = self._last(args, keywords, here)
                return self._other(args, keywords, here) if answer is MISS else answer
            except StaleError:
                self._drop_programs()
                raise

    def _other(self, args: Any, keywords: Any, here: Any) -> Any:
        """Run another program than the last one, a new one if necessary."""
        given = Arguments(args, keywords, self.static, here.grad_enabled)
        for specialization in self.specializations.get(given.signature, ()):
            answer = specialization.call(args, keywords, here)
            if answer is not MISS:
                self._last = specialization.call
                return answer
        for _ in range(2):
            specialization = self._new(given, args, keywords)
            answer = specialization.call(args, keywords, here)
            if answer is not MISS:
                self._last = specialization.call
                return answer
        return self.function(*args, **keywords)  # it reads what changes all the time

    def _drop_programs(self) -> None:
        """Drop all programs: what one has read has changed, so that others may be stale too."""
        self.specializations.clear()
        self._last = _no_program

    def check(self) -> int:
        """Trace the function again, now, for every program that a call could run, and raise if it
        gives another program: a value that it read has changed, and no guard saw it. Return how
        many programs were compared; `explain()` says why one cannot be.

        Calls do this by themselves, at the 2nd, 8th, 64th, 512th, ... call of each program.

        >>> import gradwalk as gw
        >>> f = gw.compile(lambda x: x * 2, backend="numpy")
        >>> y = f(gw.ones(3))
        >>> f.check()
        1
        """
        programs = [one for some in self.specializations.values() for one in some]
        with self._lock:
            try:
                return sum(one.check() for one in programs if not one.unchecked)
            except StaleError:
                self._drop_programs()
                raise

    def _new(self, given: Arguments, args: Any, keywords: Any) -> Specialization:
        """Trace and compile a program for a call for which no known one is right."""
        keep_freed_memory()
        known = self.specializations.get(given.signature, [])
        call = (args, keywords)
        specialization = pipeline.specialize(
            self.name,
            self.function,
            given,
            call,
            self.static,
            self.names,
            self._build,
            self.checked,
            known,
        )
        for optimizer, parameter, kept in specialization.trace.fresh:
            optimizer.state[parameter] = kept
        if specialization.instead_of is not None:
            self._warn_of_change(specialization.instead_of)
            known.remove(specialization.instead_of)
            specialization.instead_of = None
        elif sum(map(len, self.specializations.values())) >= MOST_SPECIALIZATIONS:
            self._warn()
            oldest = next(iter(self.specializations))
            self.specializations[oldest].pop(0)
            if not self.specializations[oldest]:
                del self.specializations[oldest]
        self.specializations.setdefault(given.signature, []).append(specialization)
        self.newest = specialization
        self._warned_of_numpy = self._warned_of_numpy or warn_of_numpy(
            self.name, specialization.executable
        )
        if self.backend_on(specialization.trace.device) == "xla" and not self._warned_of_shapes:
            self._warn_of_shapes(given, args, keywords)
        return specialization

    def _build(self, program: Program, layout: Any, device: Any) -> Any:
        """Compile a program with the backend, or with XLA on a device; without llvmlite, with
        NumPy."""
        backend = self.backend_on(device)
        try:
            return pipeline.build(program, layout, backend, self.fast_math)
        except ImportError as error:
            if backend == "xla":
                raise
            global _warned_of_fallback
            if not _warned_of_fallback:
                _warned_of_fallback = True
                warnings.warn(
                    f"{self.name} runs in NumPy, op by op, and so will every function compiled "
                    f"from now on: {error}",
                    UserWarning,
                    stacklevel=7,
                )
            self.backend = "numpy"
            return pipeline.build(program, layout, self.backend)

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.name} has been compiled {MOST_SPECIALIZATIONS} times, each for different "
                "shapes, dtypes, modes, values of arguments or objects in the variables it reads; "
                "from now on each new program replaces the oldest. Fix: call it with fewer "
                "different shapes (pad the last batch), make a number that changes a float or a "
                "tensor, and pass what changes as an argument.",
                UserWarning,
                stacklevel=5,
            )

    def _warn_of_shapes(self, given: Arguments, args: Any, keywords: Any) -> None:
        """Warn if there are programs for calls that differ in nothing but shapes."""
        signature = given.signature
        for known in reversed(self.specializations):
            if known != signature and known.without_shapes() == signature.without_shapes():
                self._warned_of_shapes = True
                names = given.names(args, keywords, self.names)
                warn_of_shapes(self.name, known.tensors, signature.tensors, names)
                return

    def _warn_of_change(self, before: Specialization) -> None:
        """Warn of what changes all the time and has no influence, which costs a trace each time."""
        self._in_vain += 1
        if self._in_vain == MOST_IN_VAIN:
            changed = before.trace.environment.changed()
            warnings.warn(
                f"{self.name} has been traced {MOST_IN_VAIN} times because of {changed}, and did "
                "the same each time. Fix: do not let it read, or pass on, what keeps changing.",
                UserWarning,
                stacklevel=5,
            )

    # -- as a method, and copied -------------------------------------------------------------------

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: every object has a compiled function of its own, among its attributes."""
        if instance is None or not isinstance(self.function, FunctionType):
            return self
        attributes = getattr(instance, "__dict__", None)
        if self._attribute is None or not isinstance(attributes, dict):
            return MethodType(self, instance)
        static = [name for name in self.static if isinstance(name, str)]
        method = MethodType(self.function, instance)
        bound = Compiled(method, static, self.backend, self.fast_math, self.checked)
        bound._attribute = self._attribute
        attributes[self._attribute] = bound
        return bound

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        function = copy.deepcopy(self.function, memo)
        copied = type(self)(function, self.static, self.backend, self.fast_math, self.checked)
        copied._attribute = self._attribute
        return copied

    def __reduce__(self) -> Any:
        """Pickle the function, to be compiled anew."""
        named: Any = sys.modules.get(getattr(self.function, "__module__", None) or "")
        name = getattr(self.function, "__qualname__", "")
        for part in name.split("."):
            named = getattr(named, part, None)
        if named is self:  # a decorated function has a name
            return name
        if self._attribute is not None and isinstance(self.function, MethodType):
            return getattr, (self.function.__self__, self._attribute)
        return type(self), (self.function, self.static, self.backend, self.fast_math, self.checked)

    def __repr__(self) -> str:
        return f"<compiled {self.function!r}>"


def _returning_self(method: Method) -> Method:
    """The method of the module, called on the function and returning the compiled module."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        getattr(self.function, method.__name__)(*args, **keywords)
        return self

    return cast(Method, call)


class CompiledModule(Compiled, Module):
    """A module whose call is compiled; its parameters, buffers, names and mode are the module's.

    It can be part of other modules, and be trained, saved and loaded like the module itself, which
    is its `function`. Only the attributes of `Compiled` (`explain`, `graph`, ...) are its own.

    >>> import gradwalk as gw
    >>> model = gw.compile(gw.nn.Linear(2, 1))
    >>> [name for name, _ in model.named_parameters()]
    ['weight', 'bias']
    >>> model.eval().function.training
    False
    """

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN or name.startswith("__"):
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "function"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.function, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.function, name)

    def __getitem__(self, key: Any) -> Any:
        return self.function[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.function)

    def __len__(self) -> int:
        return len(self.function)

    def __bool__(self) -> bool:
        return bool(self.function)

    @property
    def _orig_mod(self) -> Any:
        """The module itself, where PyTorch's compiled modules have it."""
        return self.function

    # What returns the module itself returns the compiled one.
    train = _returning_self(Module.train)
    eval = _returning_self(Module.eval)
    requires_grad_ = _returning_self(Module.requires_grad_)
    to = _returning_self(Module.to)
    float = _returning_self(Module.float)
    double = _returning_self(Module.double)
    type = _returning_self(Module.type)
    cpu = _returning_self(Module.cpu)
    apply = _returning_self(Module.apply)


_OWN = frozenset(
    name
    for kind in (CompiledModule, Compiled, Introspection)
    for name in (*vars(kind), *inspect.get_annotations(kind))
)


def _no_program(args: Any, keywords: Any, here: Any) -> Any:
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
    both = dict(enumerate(names)) | {name: i for i, name in enumerate(names)}
    both |= {i - len(names): name for i, name in enumerate(names)}
    return frozenset(listed) | {both[one] for one in listed if one in both}


def compile(
    fn: Callable[..., Any] | Value | None = None,
    *,
    static: Any = (),
    backend: str = "llvm",
    fast_math: bool = False,
    check: bool | Literal["finite"] = True,
    leaves: Sequence[Value] | None = None,
    fullgraph: bool = True,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """Compile a function of tensors, or a whole training step, into one native function.

    The function runs once on abstract tensors; what it does is compiled. Tensors it knows by itself
    (parameters, buffers, an optimizer's state) are captured and changed in place, as it would;
    learning rates, step counts and floats it is called with are read at every call. Other shapes,
    dtypes, modes or values of other arguments compile anew. Name in `static` a float that must be
    known during the trace (the p of a dropout).

    `backend` is "llvm", or "numpy" for the reference, which runs the same program op by op. Every
    operation is rounded as NumPy rounds it; with `fast_math` a product and the sum it goes into are
    rounded once, which is a little faster and changes the last bits.

    What the function reads besides its arguments may change: the next call sees it. In case it does
    not, the function is traced again at the 2nd, 8th, 64th, 512th, ... call, and a program that is
    no longer right is an error; `check=False` switches this off. With `check="finite"` a call also
    looks at what it is about to write: if a gradient, or new memory, has NaN or infinity, it
    changes nothing and raises FloatingPointError.

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

    PyTorch's other options are accepted: with `disable` the function is returned as it is, the
    backends "inductor" and "eager" are "llvm" and "numpy", and `fullgraph`, `dynamic`, `mode` and
    `options` change nothing, because a program is always whole and made for the sizes it gets.

    Given a `Value`, it compiles the graph behind it, to be computed for other numbers in its leaves
    (all of them, or `leaves`): see `gradwalk.compiler.scalars`.
    """
    if fn is None:
        return functools.partial(
            compile, static=static, backend=backend, fast_math=fast_math, check=check,
            disable=disable,
        )  # fmt: skip
    if disable:
        return fn
    backend = PYTORCH_BACKENDS.get(backend, backend)
    if isinstance(fn, Value):
        from gradwalk.compiler.scalars import compile_values

        return compile_values(fn, leaves, backend)
    if isinstance(fn, Module):
        return CompiledModule(fn, static, backend, fast_math, check)
    return Compiled(fn, static, backend, fast_math, check)
