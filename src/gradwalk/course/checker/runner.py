"""The other side of `gradwalk course check`: runs a learner's Value class in a process of its own.

`process.py` has it started as a script by `confine.py`, with Python's standard library and nothing
else. It receives graphs, as lists of steps, and answers with numbers. It never receives the right
numbers, so a file cannot find them here; the process that started this one compares them.

What a file does to the machine, the kernel prevents and reports: see `confine.py`. What is here can
say more, with the line, and is all there is on other systems. An audit hook, which Python cannot
remove, watches what the learner's file does. Whatever an engine does not need (importing other
engines, opening files, starting programs, looking at the frames of this file) ends the process at
once, with a line that names it. Each answer carries a tag made with a key that came in before the
learner's code did. All of this is Python, in the same process as the learner's file, so a way
around it may exist; it leads to numbers that the file makes up, and they are compared as any.
"""

from __future__ import annotations

import _thread
import builtins
import gc  # noqa: F401  (loaded first, so that replacing something in it is seen)
import marshal
import math
import operator
import os
import struct
import sys
import time
from _blake2 import blake2b  # hashlib loads OpenSSL, which takes longer than all the rest
from types import MappingProxyType

if os.name == "posix" and sys.platform != "emscripten":
    import posix  # elsewhere this is imported, for `compute` and `answer`, and not run
    import resource

TYPE_CHECKING = False  # typing's own takes longer to import than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType, FrameType, ModuleType
    from typing import Any, NoReturn

HEADER = struct.Struct(">cI16s")  # kind, length, tag
READY, LOADED, NUMBERS, FAILED, FORBIDDEN = b"R", b"L", b"N", b"F", b"X"  # kinds of answers
KEY_BYTES = 32
TAMPERED = 3  # the exit status after something forbidden, also where it could not be told
SEPARATOR = "\x1f"  # between the fields of a failure
LEARNER = "<learner>"  # the learner's file, in tracebacks here
MODULE = "engine"  # and as a module
MOST_SECONDS = 3600  # of processor time, in all

# What an engine may use. A module of the standard library may import all but what is UNSAFE. These
# tables cannot be changed in place (a MappingProxyType hands out its dict when it is compared), and
# what their names stand for is checked.
ALLOWED_IMPORTS = frozenset({
    "__future__", "abc", "array", "bisect", "cmath", "collections", "contextlib", "copy",
    "dataclasses", "decimal", "enum", "fractions", "functools", "graphlib", "heapq", "itertools",
    "math", "numbers", "operator", "random", "statistics", "string", "sys", "textwrap", "types",
    "typing", "warnings", "weakref",
})  # fmt: skip
OTHER_ENGINES = frozenset({
    "autograd", "gradwalk", "jax", "keras", "micrograd", "mxnet", "paddle", "tensorflow",
    "tinygrad", "torch",
})  # fmt: skip
# They do things that Python does not report.
UNSAFE = frozenset({
    "_ctypes", "_multiprocessing", "_posixshmem", "_posixsubprocess", "_socket", "_sqlite3",
    "ctypes", "faulthandler", "mmap", "multiprocessing", "pty", "readline", "signal", "socket",
    "sqlite3", "subprocess",
})  # fmt: skip
# Events that Python reports (docs.python.org/3/library/audit_events.html) and an engine may cause
# by itself or by way of the library; those of the second set, by way of the library only. Of the
# others these have words of their own; the first that an event begins with counts.
HARMLESS = frozenset({
    "array.__new__", "builtins.id", "object.__delattr__", "object.__getattr__",
    "object.__setattr__", "sys._getframemodulename", "sys.excepthook", "sys.unraisablehook",
    "time.sleep",
})  # fmt: skip
OF_THE_LIBRARY = frozenset({
    "compile", "exec", "marshal.load", "marshal.loads", "os.listdir", "os.scandir",
})  # fmt: skip
WORDS = (
    ("os.exec", "starts another program"),
    ("os.fork", "starts another process"),
    ("os.kill", "sends a signal"),
    ("os.link", "creates a link"),
    ("os.mkdir", "creates a folder"),
    ("os.posix_spawn", "starts another program"),
    ("os.remove", "deletes a file"),
    ("os.rename", "renames a file"),
    ("os.rmdir", "deletes a folder"),
    ("os.spawn", "starts another program"),
    ("os.symlink", "creates a link"),
    ("os.system", "starts another program"),
    ("os.truncate", "empties a file"),
    ("pty.", "starts another program"),
    ("shutil.", "changes files"),
    ("signal.", "sends a signal"),
    ("subprocess.", "starts another program"),
    ("_thread.", "starts a thread"),
    ("ctypes.", "uses ctypes"),
    ("socket.", "uses the network"),
    ("compile", "compiles text as code"),
    ("exec", "runs text as code"),
    ("code.", "makes code objects"),
    ("function.", "makes code objects"),
    ("marshal.", "makes code objects"),
    ("sys._get", "inspects the checker"),
    ("sys._current", "inspects the checker"),
    ("gc.", "inspects the checker"),
    ("sys.", "tampers with the checker"),
    ("object.", "tampers with the checker"),
    ("resource.", "changes its limits"),
)
# Functions of the library that look for the module of their caller, and can do without.
NAMERS = frozenset({"_caller", "_create_", "make_dataclass", "namedtuple", "warn"})
# Attributes that lead to frames.
FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

OPERATIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "div": operator.truediv,
        "power": operator.pow,
        "neg": operator.neg,
        "exp": lambda a: a.exp(),
        "tanh": lambda a: a.tanh(),
        "relu": lambda a: a.relu(),
    }
)


class StepError(Exception):
    """A step failed; the exception it raised is the cause."""

    def __init__(self, phase: str, step: int) -> None:
        super().__init__(phase, step)
        self.phase = phase  # "forward", "backward" or "read"
        self.step = step


def compute(make_leaf: Callable[[float], Any], steps: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run steps forward with a class or function that makes leaves; returns every node.

    A step is an op and its operands: a whole number in a tuple is the node of that index, anything
    else is a plain number. `("leaf", 2.0)` makes a leaf.
    """
    nodes: list[Any] = []
    try:
        for op, *operands in steps:
            if op == "leaf":
                nodes.append(make_leaf(operands[0]))
            else:
                given = [nodes[x[0]] if x.__class__ is tuple else x for x in operands]
                nodes.append(OPERATIONS[op](*given))
    except Exception as error:
        raise StepError("forward", len(nodes)) from error
    return nodes


def numbers_after(
    nodes: list[Any], calls: Sequence[tuple[str, int]], watched: Sequence[int]
) -> list[float]:
    """Value and gradient of each watched node, after some calls.

    `("backward", i)` calls backward on node i; `("zero", i)` sets its gradient to 0.
    """
    phase, index, numbers = "backward", 0, []
    try:
        for what, index in calls:
            if what == "zero":
                nodes[index].grad = 0.0
            else:
                nodes[index].backward()
        phase = "read"
        for index in watched:
            numbers.append(_number(nodes[index].data, "data"))
            numbers.append(_number(nodes[index].grad, "grad"))
    except Exception as error:
        raise StepError(phase, index) from error
    return numbers


def _number(thing: Any, name: str) -> float:
    if not isinstance(thing, (int, float)):
        raise TypeError(f".{name} is {type(thing).__name__}, not a number")
    try:
        return float(thing)
    except OverflowError:
        return math.inf if thing > 0 else -math.inf


# -- the channel -----------------------------------------------------------------------------------


def tag(key: bytes, number: int, kind: bytes, payload: bytes, digest: Any = blake2b) -> bytes:
    """The tag that proves an answer's origin, made of the key and the answer's number."""
    return digest(b"%d%b%b" % (number, kind, payload), key=key, digest_size=16).digest()


class Channel:
    """Requests come in and answers go out over one socket."""

    def __init__(self, descriptor: int) -> None:
        self._socket = descriptor
        os.set_inheritable(descriptor, False)
        self._key = self._read(KEY_BYTES)
        self._sent = 0
        # Kept here: replacing them elsewhere, which is noticed, must not keep us from saying so.
        self._write, self._leave, self._pack, self._length = os.write, os._exit, HEADER.pack, len
        self._send = self.send

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = os.read(self._socket, count - len(data))
            if not part:
                os._exit(0)  # the checker is gone
            data += part
        return data

    def receive(self) -> Any:
        (length,) = struct.unpack(">I", self._read(4))
        return marshal.loads(self._read(length))

    def send(self, kind: bytes, payload: bytes) -> None:
        proof = tag(self._key, self._sent, kind, payload)
        self._sent += 1
        data = self._pack(kind, self._length(payload), proof) + payload
        while data:
            data = data[self._write(self._socket, data) :]

    def forbid(self, reason: str, line: int = 0) -> NoReturn:
        """Report a forbidden action of the file, and exit; exit even if it cannot be reported."""
        try:
            self._send(FORBIDDEN, f"{line}{SEPARATOR}{reason}".encode(errors="replace"))
        finally:
            self._leave(TAMPERED)


# -- watching --------------------------------------------------------------------------------------


class Watchdog:
    """Watches what the learner's file does, and ends the process at a forbidden action."""

    def __init__(self, channel: Channel, own_module: ModuleType, main: CodeType) -> None:
        self._forbid = channel.forbid
        # With the real path of each, for a standard library behind a symbolic link.
        self._library = {os.path.realpath(path) for path in sys.path} | set(sys.path)
        self._own_module, self._main = own_module, main
        self._reads_frames = failure.__code__
        self._makes_code = frozenset({load.__code__, Channel.receive.__code__})
        self._getframe, self._leave, self._names = sys._getframe, os._exit, sys.stdlib_module_names
        self._check, self._code = self.check_untouched, Watchdog._audit.__code__  # kept, as above

    def start(self) -> None:
        """Start watching."""
        real_import, audit = builtins.__import__, sys.audit

        # None of these knows this object, which has the channel: the hook does the rest.
        def checked_import(name: str, *more: Any, **keywords: Any) -> Any:
            audit("gradwalk.import", name, keywords.get("level", more[3] if more[3:] else 0))
            return real_import(name, *more, **keywords)

        def no_frame(depth: int = 0) -> NoReturn:
            audit("gradwalk.frame")
            raise AttributeError("there are no frames here")  # the library can do without

        def no_thread(*given: object, **keywords: object) -> NoReturn:
            audit("_thread.start_new_thread")
            raise RuntimeError("there are no threads here")

        class Finder:
            @staticmethod
            def find_spec(name: str, path: object = None, target: object = None) -> None:
                audit("import", name)

        sys.meta_path.insert(0, Finder)
        # Raising the limit only moves the length at which recursion fails.
        sys.setrecursionlimit = lambda limit: None
        sys._getframe = no_frame
        # Python does not report these.
        _thread.start_new = _thread.start_new_thread = no_thread
        for name in ("memfd_create", "mkfifo", "mknod"):
            vars(os).pop(name, None)
            vars(posix).pop(name, None)
        builtins.__import__ = checked_import
        owners: list[ModuleType | type] = [
            *sys.modules.values(),
            self._own_module,
            Channel,
            Watchdog,
        ]
        self._before = [(one.__name__, vars(one), _what_stays(one)) for one in owners]
        sys.addaudithook(self._audit)

    def check_untouched(self) -> None:
        """Check that nothing loaded before the learner's file was replaced."""
        for owner, now, before in self._before:  # with no builtin function: they may be replaced
            for name, thing in before.items():
                if now.get(name) is not thing:
                    self._forbid(f"replaces {owner}.{name}")

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "builtins.id":  # which engines call for every node
            return
        if event == "object.__getattr__" and arguments[1] not in FRAMES:  # f_code, read below
            return
        if event == "sys._getframe" and arguments[0].f_code is self._code:  # our own, below
            return
        try:
            self._judge(event, arguments, self._getframe(0).f_back)
        except RecursionError:
            raise  # the engine's: this is called at any depth
        except BaseException:  # of a comparison that is the file's: it must not slip through
            self._leave(TAMPERED)

    def _judge(self, event: str, arguments: tuple[Any, ...], caller: FrameType | None) -> None:
        assert caller is not None
        self._check()  # now: it could be put back before the next answer
        file = caller.f_code.co_filename
        if event == "gradwalk.import":
            name, level = arguments
            importer = caller.f_back
            if (name.partition(".")[0] not in ALLOWED_IMPORTS or level) and not (
                importer is not None and self._is_trusted(importer.f_code.co_filename)
            ):
                self._refuse_import(name or ".", _line(caller))
        elif event == "gradwalk.frame":
            asks = caller.f_back.f_code if caller.f_back is not None else self._code
            if asks.co_name not in NAMERS or not self._is_trusted(asks.co_filename):
                self._forbid("inspects the checker", _line(caller))
        elif event == "import":
            first = arguments[0].partition(".")[0]
            frame: FrameType | None = caller
            while frame is not None and frame.f_code.co_filename.startswith(("<frozen ", __file__)):
                frame = frame.f_back
            asked = frame is not None and frame.f_code.co_filename == LEARNER
            if first in UNSAFE or first in OTHER_ENGINES or (asked and first not in self._names):
                self._refuse_import(arguments[0], _line(caller))
        elif event == "open":
            path, _, flags = arguments
            if (
                type(path) is str and path == LEARNER
            ):  # Python looks for the line to show with a SyntaxError
                return
            if type(path) is not str or flags & WRITES or not self._in_library(_real(path)):
                self._forbid(f"opens {_shown(path)}", _line(caller))
        elif event == "object.__getattr__":
            if caller.f_code is not self._reads_frames:
                self._forbid("inspects the checker", _line(caller))
        elif event == "object.__setattr__":
            ours = getattr(arguments[0], "__globals__", None) is vars(self._own_module)
            if ours or arguments[1] == "__code__":
                self._forbid("tampers with functions", _line(caller))
        elif event == "resource.setrlimit" and self._is_main(caller):
            return
        elif event not in HARMLESS and not (
            event in OF_THE_LIBRARY
            and (self._is_trusted(file) or caller.f_code in self._makes_code)
        ):
            words = next((w for start, w in WORDS if event.startswith(start)), f"uses {event}")
            about = f": {_shown(arguments[0])}" if event.startswith("os.") and arguments else ""
            self._forbid(words + about, _line(caller))

    def _is_main(self, frame: FrameType) -> bool:
        """Whether this is `allow_time`: nothing else that `main` calls sets a limit."""
        above = frame.f_back
        return above is not None and above.f_code is self._main

    def _is_trusted(self, file: str) -> bool:
        return file.startswith("<frozen ") or self._in_library(file)

    def _in_library(self, path: str) -> bool:
        if "site-packages" in path or "dist-packages" in path:
            return False
        return any(path.startswith(folder + os.sep) for folder in self._library)

    def _refuse_import(self, name: str, line: int) -> NoReturn:
        if name.partition(".")[0] in OTHER_ENGINES:
            self._forbid(f"imports {name}: the engine must be your own", line)
        self._forbid(f"imports {name}: an engine needs little more than math", line)


def _line(frame: FrameType | None) -> int:
    """The line of the learner's file that led to this call."""
    while frame is not None and frame.f_code.co_filename != LEARNER:
        frame = frame.f_back
    return frame.f_lineno if frame is not None else 0


def _real(path: str) -> str:
    return os.path.realpath(path)


def _shown(thing: object) -> str:
    """A path for people; of the file's own classes, their methods are not called."""
    return repr(thing)[:80] if type(thing) in (str, bytes, int) else type(thing).__name__


def _what_stays(owner: ModuleType | type) -> dict[str, Any]:
    """The names to check; importlib changes names such as __package__ in its own modules."""
    return {n: x for n, x in vars(owner).items() if n[:2] != "__" or callable(x)}


# -- the process -----------------------------------------------------------------------------------


def allow_time(seconds: int) -> None:
    """Allow this much more processor time; then the operating system ends the process."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = MOST_SECONDS if hard == resource.RLIM_INFINITY else min(hard, MOST_SECONDS)
    soft = math.ceil(time.process_time()) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (min(soft, most), most))


def failure(phase: str, step: int, error: BaseException) -> bytes:
    """Describe a failure as text: phase, step, kind, message, line, function."""
    line, function = 0, ""
    trace = error.__traceback__
    if isinstance(error, SyntaxError) and error.filename == LEARNER:
        line = error.lineno or 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == LEARNER:
            line, function = trace.tb_lineno, trace.tb_frame.f_code.co_name
        trace = trace.tb_next
    try:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:
        message = ""
    fields = (phase, step, type(error).__name__, message[:300], line, function)
    return SEPARATOR.join(str(f).replace(SEPARATOR, " ") for f in fields).encode(errors="replace")


def load(source: bytes) -> Any:
    """Run the learner's file; returns its class Value."""
    module = type(sys)(MODULE)
    module.__file__ = LEARNER
    sys.modules[MODULE] = module
    exec(compile(source, LEARNER, "exec", dont_inherit=True), vars(module))
    value_class = vars(module).get("Value")
    if not isinstance(value_class, type):
        raise LookupError("there is no class Value in the file")
    return value_class


def answer(value_class: Any, trial: Any, kept: list[Any]) -> tuple[bytes, bytes]:
    """Compute one graph with the learner's class; answer with its numbers or the failure."""
    steps, calls, watched = trial
    try:
        nodes = compute(value_class, steps)
        kept.append(nodes)
        numbers = numbers_after(nodes, calls, watched)
    except StepError as error:
        return FAILED, failure(error.phase, error.step, error.__cause__ or error)
    return NUMBERS, struct.pack(f">{len(numbers)}d", *numbers)


def main() -> None:
    """Answer requests until the checker closes the channel."""
    channel = Channel(int(sys.argv[1]))
    source, seconds = channel.receive()
    channel.send(READY, b"")
    # The learner's file must not find this one under its name.
    own_module = sys.modules["__main__"]
    sys.modules["__main__"] = type(sys)("__main__")
    sys.argv = [MODULE]
    watch = Watchdog(channel, own_module, main.__code__)
    watch.start()
    kept: list[Any] = []  # every graph: freeing a long one is recursive, and may be too deep
    try:
        allow_time(seconds)
        value_class = None
        try:
            value_class = load(source)
            kind, payload = LOADED, b""
        except Exception as error:
            kind, payload = FAILED, failure("load", 0, error)
        while True:
            watch.check_untouched()
            channel.send(kind, payload)
            if value_class is None:
                break
            trial = channel.receive()
            allow_time(seconds)
            kind, payload = answer(value_class, trial, kept)
    except SystemExit:
        channel.forbid("ends the program (sys.exit)")
    except BaseException as error:  # KeyboardInterrupt and such, raised to slip through
        watch.check_untouched()
        channel.forbid(f"raises {type(error).__name__}, which an engine must not raise")
    # A plain exit would run what the file left behind (atexit, __del__).
    os._exit(0)


if __name__ == "__main__":
    main()
