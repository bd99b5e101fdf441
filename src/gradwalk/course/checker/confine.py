"""Start Python with a script and take away, on Linux, all that the script does not need.

`process.py` runs this file as a script, with Python's standard library and nothing else. It sets
limits, asks the kernel for two things that need no rights, and then becomes `runner.py`:

- Landlock: no file can be opened except, for reading, those of the standard library. Installed
  packages, gradwalk's own files, /proc and everything else stay closed, and nothing can be written.
- seccomp: each system call of `system_calls.txt` that is named there for what it does (it deletes a
  file, it starts a process) stops the process before it happens. Where the kernel can, it reports
  the call to a descriptor that goes to the checker over the channel, and else kills the process.

Both outlive the start of the new program and cannot be taken back, whatever happens in it. ctypes,
which could change any object of Python's, is used here and not there. A kernel without one of the
two goes without; the first message of the channel says what there is.
"""

from __future__ import annotations

import os
import struct
import sys

TYPE_CHECKING = False  # typing's own takes longer to import than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ALLOWED, BY_ARGUMENTS = "allowed", "decided by their arguments"  # sections of system_calls.txt
LANDLOCK, REPORTS, KILLS = "l", "r", "k"  # layers: KILLS is seccomp that cannot report
NOTIFICATION = 80  # bytes of struct seccomp_notif, in which the call's number is at 16
RECEIVE = 0xC0502100  # SECCOMP_IOCTL_NOTIF_RECV

# machine: AUDIT_ARCH, the column of system_calls.txt, the number of seccomp
MACHINES = {"x86_64": (0xC000003E, 0, 317), "aarch64": (0xC00000B7, 1, 277)}
_ALLOW, _REPORT, _KILL, _EPERM = 0x7FFF0000, 0x7FC00000, 0x80000000, 0x00050001
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF
_NUMBER, _MACHINE = 0, 4  # offsets in struct seccomp_data
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | 0o20000000  # O_TMPFILE
_TERMINAL = (0x5401, 0x541B, 0x5450, 0x5451)  # ioctl: is it a terminal, how much is there, cloexec
_EXECUTE, _READ_FILE, _READ_FOLDER = 1, 4, 8  # Landlock
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many there are, by version
# In the folders of the library, but not of it; or a way around every check that Python makes.
_CLOSED = ("site-packages", "dist-packages", "ctypes", "_ctypes")


def calls(machine: str) -> dict[str, dict[int, str]]:
    """The system calls of a machine: what they mean, and their numbers and names."""
    _, column, _ = MACHINES[machine]
    found: dict[str, dict[int, str]] = {}
    with open(
        os.path.join(os.path.dirname(__file__), "system_calls.txt"), encoding="ascii"
    ) as file:
        for line in file.read().splitlines():
            if line.startswith("["):
                section = found[line.strip("[]")] = {}
            elif line and not line.startswith("#"):
                name, *numbers = line.split()
                if numbers[column] != "-":
                    section[int(numbers[column])] = name
    return found


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


# -- system calls ----------------------------------------------------------------------------------


def filter_program(machine: str, forbid: int, program: tuple[int, int, int]) -> bytes:
    """The filter, in the kernel's own small language; `program` are the arguments of the exec."""
    architecture, _, _ = MACHINES[machine]
    table = calls(machine)
    code: list[tuple[int, int, int, int]] = []

    def step(what: int, value: int, then: int = 0, otherwise: int = 0) -> None:
        code.append((what, then, otherwise, value & 0xFFFFFFFF))

    def answer(number: int, *rest: tuple[int, int, int, int]) -> None:
        """What follows if the call has this number; the next number comes after it."""
        step(_EQUAL, number, 0, len(rest))
        code.extend(rest)

    def word(argument: int, high: bool = False) -> tuple[int, int, int, int]:
        return _LOAD, 0, 0, 16 + 8 * argument + 4 * high

    end = {action: (_RETURN, 0, 0, action) for action in (_ALLOW, _EPERM, forbid)}
    step(_LOAD, _MACHINE)
    step(_EQUAL, architecture, 1, 0)
    step(_RETURN, _KILL)
    step(_LOAD, _NUMBER)
    if machine == "x86_64":  # a second set of numbers for the same calls
        step(_AT_LEAST, 0x40000000, 0, 1)
        step(_RETURN, _KILL)
    for number in table[ALLOWED]:
        answer(number, end[_ALLOW])
    for number, name in table[BY_ARGUMENTS].items():
        if name in ("open", "openat"):
            flags = word(1 if name == "open" else 2)
            answer(number, flags, (_ANY_BIT, 0, 1, _WRITES), end[forbid], end[_ALLOW])
        elif name == "ioctl":
            tests = [(_EQUAL, len(_TERMINAL) - i, 0, x) for i, x in enumerate(_TERMINAL)]
            answer(number, word(1), *tests, end[_EPERM], end[_ALLOW])
        elif name == "prlimit64":  # of itself
            answer(number, word(0), (_EQUAL, 0, 1, 0), end[_ALLOW], end[_EPERM])
        elif name in ("tkill", "tgkill"):  # to itself: abort() and crashes
            answer(number, word(0), (_EQUAL, 0, 1, os.getpid()), end[_ALLOW], end[forbid])
        else:  # execve: the one call of this script, told by its addresses
            halves = [(i, high) for i in range(3) for high in (False, True)]
            tests = []
            for i, high in halves:
                left = 2 * (len(halves) - 1 - len(tests) // 2) + 1
                wanted = program[i] >> 32 if high else program[i] & 0xFFFFFFFF
                tests += [word(i, high), (_EQUAL, 0, left, wanted)]
            answer(number, *tests, end[_ALLOW], end[forbid])
    for section, numbers in table.items():
        if section not in (ALLOWED, BY_ARGUMENTS):
            for number in numbers:
                answer(number, end[forbid])
    step(_RETURN, _EPERM)
    return b"".join(struct.pack("HBBI", *one) for one in code)


def filters(program: tuple[int, int, int]) -> dict[str, bytes]:
    """The filters of this machine by their layer, the better one first."""
    machine = os.uname().machine
    if machine not in MACHINES or sys.maxsize < 2**32:
        return {}
    actions = {REPORTS: _REPORT, KILLS: _KILL}
    return {layer: filter_program(machine, x, program) for layer, x in actions.items()}


def forbid_calls(libc: Any, made: dict[str, bytes]) -> tuple[str, int]:
    """Install a filter; returns its layer, and the descriptor for its reports or -1."""
    import ctypes

    for layer, code in made.items():
        kept = ctypes.create_string_buffer(code)
        head = struct.pack("HP", len(code) // 8, ctypes.addressof(kept))
        with_reports = layer == REPORTS
        result = libc.syscall(MACHINES[os.uname().machine][2], 1, 8 * with_reports, head)
        if result >= 0:
            return layer, result if with_reports else -1
    return "", -1


# -- files -----------------------------------------------------------------------------------------


def readable() -> Iterator[tuple[str, int]]:
    """What Python reads to start and to import its own library, with the rights it needs."""
    loaded = {os.path.realpath(sys.executable)}
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        loaded |= {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if "/" in line}
    yield from ((path, _EXECUTE | _READ_FILE) for path in loaded)
    libraries = {os.path.dirname(path) for path in loaded} | {os.path.join(sys.base_prefix, "lib")}
    for folder in libraries:  # what decimal is linked to; the rest is loaded by now
        yield from ((path, _READ_FILE) for path in _entries(folder) if "/libmpdec" in path)
    for path in sys.path:
        if path.endswith(".zip"):
            yield path, _READ_FILE
            continue
        yield path, _READ_FOLDER  # to list it
        for inner in _entries(path):
            if not os.path.basename(inner).startswith(_CLOSED) and inner not in sys.path:
                yield inner, _READ_FILE | (_READ_FOLDER if os.path.isdir(inner) else 0)
    beside = os.path.dirname(sys.executable)
    for path in (beside, os.path.dirname(beside)):
        yield os.path.join(path, "pyvenv.cfg"), _READ_FILE
    yield "/etc/ld.so.cache", _READ_FILE


def _entries(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:
        return []


def close_files(libc: Any, script: str) -> str:
    """Close all files but those that are needed; returns the layer."""
    version = libc.syscall(444, None, 0, 1)
    if version < 1:
        return ""
    rights = (1 << _RIGHTS.get(version, 16)) - 1
    rules = libc.syscall(444, struct.pack("Q", rights), 8, 0)
    if rules < 0:
        return ""
    for path, right in (*readable(), (script, _READ_FILE)):
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        libc.syscall(445, rules, 1, struct.pack("=Qi", right, place), 0)
        os.close(place)
    done = libc.syscall(446, rules, 0)
    os.close(rules)
    return LANDLOCK if done == 0 else ""


# -- the start -------------------------------------------------------------------------------------


def main() -> None:
    """Become the script that is named, with a channel, standard input, and nothing else."""
    script, megabytes, wanted = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    channel = os.dup(0)
    os.dup2(1, 0)  # nowhere, as standard output and error
    os.set_inheritable(channel, True)
    for name in ("RLIMIT_AS", "RLIMIT_DATA"):
        limit(name, megabytes * 2**20, megabytes * 2**20)
    for name in ("RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_CORE"):
        limit(name, 0, 0)
    arguments = [sys.executable, "-I", "-S", "-B", "-X", "utf8", script, str(channel)]
    if not sys.platform.startswith("linux"):
        os.write(channel, b" ")
        os.execv(arguments[0], arguments)
    import _socket
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    path = ctypes.create_string_buffer(os.fsencode(arguments[0]))
    given = (ctypes.c_char_p * (len(arguments) + 1))(*map(os.fsencode, arguments), None)
    variables = [key + b"=" + value for key, value in os.environb.items()]
    environment = (ctypes.c_char_p * (len(variables) + 1))(*variables, None)
    program = ctypes.addressof(path), ctypes.addressof(given), ctypes.addressof(environment)
    with_channel = _socket.socket(fileno=channel)
    made = {layer: code for layer, code in filters(program).items() if layer in wanted}
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges, which both ask for
    layers = close_files(libc, script) if LANDLOCK in wanted else ""
    layer, reports = forbid_calls(libc, made)
    layers += layer
    passed = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", reports))]
    with_channel.sendmsg([layers.ljust(1).encode()], passed if reports >= 0 else [])
    with_channel.detach()
    libc.execve(path, given, environment)
    os._exit(127)


if __name__ == "__main__":
    main()
