"""The other side of `gradwalk course check`: runs a learner's Value class in a process of its own.

`process.py` starts it as a script, with Python's standard library and nothing else. It receives
graphs, as lists of steps, and answers with numbers. It never receives the right numbers, so a file
cannot find them here; the process that started this one compares them.

Answers go back over a pipe that is moved away from standard output, and each carries a tag made
with a key that came in before the learner's code did. An audit hook, which Python cannot remove,
watches what the learner's file does. Whatever an engine does not need (importing other engines,
opening files, starting programs, looking at the frames of this file) ends the process at once, with
a line that names it. This keeps honest people honest; it is no sandbox.
"""

from __future__ import annotations

import builtins
import gc  # noqa: F401  (loaded first, so that replacing something in it is seen)
import hashlib
import marshal
import math
import operator
import os
import struct
import sys
import time
from types import MappingProxyType

TYPE_CHECKING = False  # typing's own takes longer to import than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType, ModuleType
    from typing import Any, NoReturn

HEADER = struct.Struct(">cI16s")  # kind, length, tag
READY, LOADED, NUMBERS, FAILED, FORBIDDEN = b"R", b"L", b"N", b"F", b"X"  # kinds of answers
KEY_BYTES = 32
SEPARATOR = "\x1f"  # between the fields of a failure
LEARNER = "<learner>"  # the learner's file, in tracebacks here
MODULE = "engine"  # and as a module
MOST_SECONDS = 3600  # of processor time, in all

# What an engine may use. A module of the standard library may import what it likes. These tables
# cannot be changed in place, and what their names stand for is checked.
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
# Events that Python reports (docs.python.org/3/library/audit_events.html), and what they mean.
NEVER = MappingProxyType({
    **dict.fromkeys(
        ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "pty.spawn",
         "subprocess.Popen"),
        "starts another program",
    ),
    **dict.fromkeys(("os.fork", "os.forkpty"), "starts another process"),
    "_thread.start_new_thread": "starts a thread",
    **dict.fromkeys(("os.kill", "os.killpg"), "sends a signal"),
    "ctypes.dlopen": "uses ctypes",
    "socket.__new__": "uses the network",
    **dict.fromkeys(
        ("sys.addaudithook", "sys.settrace", "sys.setprofile"), "tampers with the checker"
    ),
    **dict.fromkeys(
        ("sys._current_frames", "gc.get_objects", "gc.get_referrers", "gc.get_referents"),
        "inspects the checker",
    ),
})  # fmt: skip
# The same if the learner's file does it itself; dataclasses and namedtuple may.
NEVER_DIRECTLY = MappingProxyType({
    "compile": "compiles text as code",
    "exec": "runs text as code",
    "sys._getframe": "inspects the checker",
    **dict.fromkeys(("code.__new__", "function.__new__", "marshal.loads"), "makes code objects"),
})  # fmt: skip
# Attributes that lead to frames.
FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})

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


def tag(
    key: bytes, number: int, kind: bytes, payload: bytes, digest: Any = hashlib.blake2b
) -> bytes:
    """The tag that proves an answer's origin, made of the key and the answer's number."""
    return digest(b"%d%b%b" % (number, kind, payload), key=key, digest_size=16).digest()


class Channel:
    """Requests come in on one descriptor, answers go out on another."""

    def __init__(self) -> None:
        self._requests, self._answers = os.dup(0), os.dup(1)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        os.close(nowhere)
        self._key = self._read(KEY_BYTES)
        self._sent = 0
        # Kept here: replacing them elsewhere, which is noticed, must not keep us from saying so.
        self._write, self._leave, self._pack, self._length = os.write, os._exit, HEADER.pack, len
        self._send = self.send

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = os.read(self._requests, count - len(data))
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
            data = data[self._write(self._answers, data) :]

    def forbid(self, reason: str, line: int = 0) -> NoReturn:
        """Report a forbidden action of the file, and exit."""
        self._send(FORBIDDEN, f"{line}{SEPARATOR}{reason}".encode(errors="replace"))
        self._leave(3)


# -- watching --------------------------------------------------------------------------------------


class Watchdog:
    """Watches what the learner's file does, and ends the process at a forbidden action."""

    def __init__(self, channel: Channel, own_module: ModuleType) -> None:
        self._forbid = channel.forbid
        # With the real path of each, for a standard library behind a symbolic link.
        self._library = {os.path.realpath(path) for path in sys.path} | set(sys.path)
        self._own = __file__
        self._own_module = own_module
        self._busy = False
        self._getframe = sys._getframe
        self._check = self.check_untouched  # kept, as in Channel

    def start(self) -> None:
        """Start watching."""
        real_import, audit = builtins.__import__, sys.audit

        # Neither of these two knows this object, which has the channel: the hook does the rest.
        def checked_import(name: str, *more: Any, **keywords: Any) -> Any:
            audit("gradwalk.import", name, keywords.get("level", more[3] if more[3:] else 0))
            return real_import(name, *more, **keywords)

        class Finder:
            @staticmethod
            def find_spec(name: str, path: object = None, target: object = None) -> None:
                audit("import", name)

        sys.meta_path.insert(0, Finder)
        # Raising the limit only moves the length at which recursion fails.
        sys.setrecursionlimit = lambda limit: None
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

    def _frame(self, depth: int) -> FrameType:
        self._busy = True
        try:
            return self._getframe(depth + 1)
        finally:
            self._busy = False

    def _is_trusted(self, frame: FrameType) -> bool:
        file = frame.f_code.co_filename
        return file.startswith("<frozen ") or file == self._own or self._in_library(file)

    def _in_library(self, path: str) -> bool:
        if "site-packages" in path or "dist-packages" in path:
            return False
        return any(path.startswith(folder + os.sep) for folder in self._library)

    def _refuse_import(self, name: str, line: int) -> NoReturn:
        if name.partition(".")[0] in OTHER_ENGINES:
            self._forbid(f"imports {name}: the engine must be your own", line)
        self._forbid(f"imports {name}: an engine needs little more than math", line)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._busy or event == "builtins.id":  # which engines call for every node
            return
        self._check()  # now: it could be put back before the next answer
        if event in NEVER:
            self._forbid(NEVER[event], self._line())
        elif event in NEVER_DIRECTLY:
            if not self._is_trusted(self._frame(1)):
                self._forbid(NEVER_DIRECTLY[event], self._line())
        elif event == "object.__getattr__":
            if arguments[1] in FRAMES and not self._is_trusted(self._frame(1)):
                self._forbid("inspects the checker", self._line())
        elif event == "gradwalk.import":
            name, level = arguments
            if name.partition(".")[0] not in ALLOWED_IMPORTS or level:
                frame = self._frame(2)
                if not self._is_trusted(frame):
                    self._refuse_import(name or ".", frame.f_lineno)
        elif event == "import":
            if arguments[0].partition(".")[0] in OTHER_ENGINES:
                self._refuse_import(arguments[0], self._line())
        elif event == "open":
            path = arguments[0]
            if path == LEARNER:  # Python looks for the line to show with a SyntaxError
                return
            if not isinstance(path, str) or not self._in_library(os.path.realpath(path)):
                self._forbid(f"opens {path!r:.80}", self._line())

    def _line(self) -> int:
        """The line of the learner's file that led to this call."""
        frame: FrameType | None = self._frame(1)
        while frame is not None and frame.f_code.co_filename != LEARNER:
            frame = frame.f_back
        return frame.f_lineno if frame is not None else 0


def _what_stays(owner: ModuleType | type) -> dict[str, Any]:
    """The names to check; importlib changes names such as __package__ in its own modules."""
    return {n: x for n, x in vars(owner).items() if n[:2] != "__" or callable(x)}


# -- the process -----------------------------------------------------------------------------------


def limit(name: str, soft: int, hard: int) -> None:
    """Set a limit of the operating system; unsupported ones are skipped."""
    import resource

    try:
        number = getattr(resource, name)
        highest = resource.getrlimit(number)[1]
        if highest != resource.RLIM_INFINITY:
            hard = min(hard, highest)
        resource.setrlimit(number, (min(soft, hard), hard))
    except (AttributeError, ValueError, OSError):
        pass


def limit_all(megabytes: int) -> None:
    """Limit memory; forbid writing files and starting threads or processes."""
    for name in ("RLIMIT_AS", "RLIMIT_DATA"):
        limit(name, megabytes * 2**20, megabytes * 2**20)
    for name in ("RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_CORE"):
        limit(name, 0, 0)


def allow_time(seconds: int) -> None:
    """Allow this much more processor time; then the operating system ends the process."""
    limit("RLIMIT_CPU", math.ceil(time.process_time()) + seconds, MOST_SECONDS)


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
    channel = Channel()
    source, seconds, megabytes = channel.receive()
    channel.send(READY, b"")
    limit_all(megabytes)
    # The learner's file must not find this one under its name.
    own_module = sys.modules["__main__"]
    sys.modules["__main__"] = type(sys)("__main__")
    sys.argv = [MODULE]
    watch = Watchdog(channel, own_module)
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
