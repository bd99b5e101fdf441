"""From LLVM text to addresses that can be called.

    library = compile_text({"add": "define void @add(ptr %slots, ...) {...}"})
    library["add"]  # where the code of @add begins, as long as `library` lives

text --LLVM parses and checks it--> module --its code generator--> object code --ORC links it-->
addresses. There are no optimisation passes in between: kernels are written as they should run
(explicit vectors, sizes read before the loops), and the code generator itself removes repeated
subexpressions, moves what does not change out of loops and simplifies addresses. Measured on
product and elementwise kernels, instcombine, GVN, -O1 and -O2 change run time by at most 1 % and
add 15 to 300 % to compile time.

Object code is kept on disk (object_cache.py) by its text; functions that are loaded already in this
process are not even looked for there. That pays when a new shape compiles: most kernels take their
sizes at run time, so their texts are equal. For that, name a function after its content.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import importlib.metadata
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gradwalk.compiler.backends.llvm import target
from gradwalk.compiler.backends.llvm.emit.ir_builder import Declaration
from gradwalk.compiler.backends.llvm.runtime import object_cache
from gradwalk.graph.fork_locks import CODE, fork_safe

# A further thread is worth starting for so much text, about 5 ms of code generation: each module
# costs 1.5 ms by itself. Measured with two threads: 12 → 8 ms, 38 → 24 ms, 130 → 70 ms.
TEXT_PER_THREAD = 6_000

_serial = itertools.count()
_lock = fork_safe(threading.Lock(), CODE)
_process_linker: Any = None


class CompileError(RuntimeError):
    """LLVM refuses a text that gradwalk wrote, or a symbol is missing: a fault of gradwalk."""


class Library:
    """Addresses by name; they hold as long as this object lives."""

    def __init__(self, addresses: dict[str, int], keep: Sequence[Any], compiled: int = 0) -> None:
        self.addresses = addresses
        self.compiled = compiled  # functions that were neither in memory nor on disk
        self._keep = keep  # libraries that it calls

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]

    def function(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        """A function as a Python callable with these ctypes types; it releases the GIL."""
        function = ctypes.CFUNCTYPE(result, *arguments)(self[name])
        # The callable keeps the code in memory.
        function.library = self  # type: ignore[attr-defined]
        return function


_known: weakref.WeakValueDictionary[str, Library] = weakref.WeakValueDictionary()  # by key
_owners: weakref.WeakValueDictionary[int, Library] = weakref.WeakValueDictionary()  # by address

# The linker's holds on code, by library, and the libraries that are gone: the next compilation
# frees their code, outside the main thread. An interrupt raised inside a destructor is lost.
_holds: dict[weakref.ref[Library], Any] = {}
_gone: collections.deque[weakref.ref[Library]] = collections.deque()


def compile_text(
    functions: Mapping[str, str],
    declarations: Iterable[Declaration] = (),
    symbols: Mapping[str, int] | None = None,
    threads: int | None = None,
) -> Library:
    """Addresses of functions given as text, by name.

    A text is complete: helpers and constants it needs are `private` and in the same text, under
    names that begin with its own. `declarations` are the functions they call: LLVM's intrinsics,
    functions of libc, libm and pthread (found in the process), and `symbols`, whose addresses are
    given here (those of another library keep it in memory). `threads` generate the code (by
    default as many as are worth it).
    """
    keys = {name: object_cache.key_of(name, functions[name]) for name in sorted(functions)}
    parts = {name: known for name, key in keys.items() if (known := _known.get(key)) is not None}
    missing = [name for name in keys if name not in parts]
    compiled = 0
    if missing:
        texts, declared = [functions[name] for name in missing], sorted(set(declarations))
        loaded = _load_or_compile(texts, missing, declared, symbols or {}, threads)
        compiled = loaded.compiled
        for name in missing:
            parts[name] = _known[keys[name]] = loaded
    addresses = {name: parts[name][name] for name in functions}
    return Library(addresses, list(set(parts.values())), compiled)


def compile_module(
    text: str, names: Iterable[str], symbols: Mapping[str, int] | None = None
) -> Library:
    """A whole module of several functions, with what it declares; its own copy at each call."""
    return _load_or_compile([text], list(names), [], symbols or {}, threads=1)


def assembly(functions: Mapping[str, str], declarations: Iterable[Declaration] = ()) -> str:
    """What the code generator makes of these functions, to read."""
    module = _parsed([*(d.text for d in sorted(set(declarations))), *functions.values()])
    return target.target_machine().emit_assembly(module)


def _load_or_compile(
    texts: list[str],
    names: list[str],
    declarations: list[Declaration],
    symbols: Mapping[str, int],
    threads: int | None,
) -> Library:
    """The code in memory, from disk or else compiled.

    Another thread does it if this is the main one: there Python raises interrupts, and one that
    came inside llvmlite would leave its lock taken.
    """
    found: list[Library | BaseException] = []

    def load() -> None:
        try:
            with fork_safe(threading.Lock(), CODE):
                found.append(_loaded_or_compiled(texts, names, declarations, symbols, threads))
        except BaseException as error:  # raised by the thread that waits for this one
            found.append(error)

    if threading.current_thread() is threading.main_thread():
        _in_another_thread(load)
    else:
        load()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def _in_another_thread(work: Callable[[], None]) -> None:
    """Let another thread do it, and wait for that; an interrupt is raised afterwards."""
    helper = threading.Thread(target=work)
    try:
        helper.start()
    except RuntimeError:  # no more threads, or no memory for one
        work()
        return
    interrupt: BaseException | None = None
    while helper.is_alive():
        try:
            helper.join()
        except BaseException as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


def _loaded_or_compiled(
    texts: list[str],
    names: list[str],
    declarations: list[Declaration],
    symbols: Mapping[str, int],
    threads: int | None,
) -> Library:
    with contextlib.suppress(IndexError):  # none is left
        while True:
            _holds.pop(_gone.popleft(), None)
    host = target.host()
    machine = [_version(), host.triple, host.cpu, host.features, host.llvm_version]
    lines = [d.text for d in declarations]
    key = object_cache.key_of(*machine, str(target.CODE_GENERATION), *lines, "", *texts)
    stored = object_cache.load(key)
    if stored is not None:
        try:
            return _link(stored, names, declarations, symbols)
        except CompileError:  # written by something else under the same name: make it anew
            pass
    objects = _generate(texts, lines, threads)
    object_cache.store(key, objects)
    library = _link(objects, names, declarations, symbols)
    library.compiled = len(names)
    return library


@functools.cache
def _version() -> str:
    """gradwalk's version, as installed."""
    try:
        return importlib.metadata.version("gradwalk")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


# -- text to object code -----------------------------------------------------------------------


def _generate(texts: list[str], lines: list[str], threads: int | None) -> list[bytes]:
    """One object per thread that generated code; LLVM contexts are not shared between threads."""
    if threads is None:
        threads = min(target.usable_cores(), 1 + sum(map(len, texts)) // TEXT_PER_THREAD)
    groups = _balanced(texts, max(1, min(threads, len(texts))))
    objects = [b""] * len(groups)
    errors: list[BaseException] = []

    def generate(place: int) -> None:
        try:
            objects[place] = _emit(_parsed([*lines, *groups[place]]))
        except BaseException as error:  # raised by the thread that waits for this one
            errors.append(error)

    helpers = []
    alone = [0]
    for place in range(1, len(groups)):
        helper = threading.Thread(target=generate, args=(place,))
        try:
            helper.start()
        except RuntimeError:  # no more threads, or no memory for one
            alone.append(place)
        else:
            helpers.append(helper)
    for place in alone:
        generate(place)
    for helper in helpers:
        helper.join()
    if errors:
        raise errors.pop()
    return objects


def _balanced(texts: list[str], count: int) -> list[list[str]]:
    """Groups of about the same length: the longest text first, each to the shortest group."""
    groups: list[list[str]] = [[] for _ in range(count)]
    sizes = [0] * count
    for text in sorted(texts, key=len, reverse=True):
        shortest = sizes.index(min(sizes))
        groups[shortest].append(text)
        sizes[shortest] += len(text)
    return groups


def _parsed(texts: list[str]) -> Any:
    """The checked module of these texts, in a context of its own."""
    llvm = target.binding()
    whole = "\n".join(texts)
    module = None
    try:
        module = llvm.parse_assembly(whole, context=llvm.create_context())
        module.triple = target.host().triple
        module.verify()  # 1 % of the time; what it would let pass crashes the process
    except RuntimeError as error:
        if module is not None:
            # Kept by the traceback together with its context, it might be freed after that.
            module.close()
        raise CompileError(f"LLVM rejects gradwalk's code: {error}") from error
    return module


def _emit(module: Any) -> bytes:
    """Object code of a module.

    llvmlite holds one lock during every call, so two threads would take turns. LLVM itself needs
    none where contexts are apart: the long call is made past that lock, if it can be found.
    """
    machine = target.target_machine()
    emit = _unlocked_emit()
    if emit is None:
        return machine.emit_object(module)
    from llvmlite.binding import ffi

    message = ctypes.c_char_p()
    buffer = emit(machine._ptr, module._ptr, 1, ctypes.byref(message))
    if not buffer:
        raise CompileError(f"LLVM cannot compile gradwalk's code: {message.value!r}")
    try:
        start = ffi.lib.LLVMPY_GetBufferStart(buffer)
        return ctypes.string_at(start, ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


@functools.cache
def _unlocked_emit() -> Any:
    """llvmlite's own entry point for code generation, without the lock; None if it moved."""
    try:
        from llvmlite.binding import ffi

        locked = ffi.lib.LLVMPY_TargetMachineEmitToMemory
        emit = getattr(ctypes.CDLL(ffi.lib._name), "LLVMPY_TargetMachineEmitToMemory")  # noqa: B009
        emit.argtypes, emit.restype = locked.argtypes, locked.restype
        return emit
    except (AttributeError, OSError):
        return None


# -- object code to addresses ------------------------------------------------------------------


def _linker() -> Any:
    """The process's one linker. Threads of the pool may be in its code when the interpreter ends:
    it lives till then, and llvmlite frees nothing once the interpreter is ending."""
    global _process_linker
    with _lock:  # a second linker would take the code it loaded with it when it goes
        if _process_linker is None:
            host = target.host()
            # JITLink loads a quarter faster and gives all memory back; elsewhere it is less
            # complete.
            jit_link = host.is_linux and host.architecture in ("x86_64", "aarch64")
            _process_linker = target.binding().create_lljit_compiler(
                target.target_machine(), use_jit_link=jit_link, suppress_errors=True
            )
        return _process_linker


def _link(
    objects: list[bytes],
    names: list[str],
    declarations: list[Declaration],
    symbols: Mapping[str, int],
) -> Library:
    """Load object code; the process's own symbols fill what it calls."""
    builder = target.binding().JITLibraryBuilder().add_current_process()
    for data in objects:
        builder.add_object_img(data)
    for name, address in symbols.items():
        builder.import_symbol(name, address)
    for name in names:
        builder.export_symbol(name)
    try:
        tracker = builder.link(_linker(), f"gradwalk{next(_serial)}")
    except RuntimeError as error:
        raise CompileError(f"{error}{_unresolved(declarations, symbols)}") from error
    uses = [owner for a in symbols.values() if (owner := _owners.get(a)) is not None]
    library = Library({name: tracker[name] for name in names}, uses)
    _holds[weakref.ref(library, _gone.append)] = tracker
    for address in library.addresses.values():
        _owners[address] = library
    return library


def _unresolved(declarations: Iterable[Declaration], symbols: Mapping[str, int]) -> str:
    """Name declared functions that nothing defines: ORC names only what it could not load."""
    names = [d.name for d in declarations if not d.is_intrinsic and d.name not in symbols]
    lost = [name for name in names if target.binding().address_of_symbol(name) is None]
    return f" (not in this process: {', '.join(lost)})" if lost else ""
