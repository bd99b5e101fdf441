"""Many processes as one job: joining it, meeting, and ending together.

`init` is `jax.distributed.initialize`, with a channel beside it that names ranks which fail.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gradwalk.distributed.launch import Launch, LaunchError, read_launch, visible_devices
from gradwalk.distributed.watchdog import is_library
from gradwalk.engine.guest_loaders import loaders
from gradwalk.graph.source import own_files

if TYPE_CHECKING:  # few programs have several processes
    from gradwalk.distributed.channel import ProcessChannel
    from gradwalk.distributed.hub import Hub

_TIMEOUT = 300.0
_AFTERMATH = 3.0  # seconds in which an error of JAX may turn out to be another rank's death
_OWN_WORDS = 0.3  # seconds in which a process that fails, too, says so itself
_TOO_LATE = (
    "gw.distributed.init() came too late: devices were used before it, {}.\n"
    "Fix: move init() before that, to the start of the program; gw.Mesh, tensors on a device and "
    "gw.cuda.is_available() come after it."
)
_FAREWELL = 5.0  # seconds that rank 0 stays for others to end first


class Job:
    """The job that this process is part of."""

    def __init__(self) -> None:
        self.launch: Launch | None = None
        self.channel: ProcessChannel | None = None
        self.hub: Hub | None = None
        self.failing = False  # this process itself ends the job


job = Job()


def init(
    address: str | None = None,
    *,
    world_size: int | None = None,
    rank: int | None = None,
    timeout: float = _TIMEOUT,
) -> None:
    """Join the job of several processes that a launcher started; alone, it is a job of one.

    The variables of torchrun, SLURM, MPI and Kubernetes are read; arguments count before them:
    `init("host0:29500", world_size=4, rank=1)`. Call it before anything that uses a device. Several
    processes on a host take one GPU each.

    If a rank fails, dies, or does not advance for `timeout` seconds while others wait for it, all
    processes end with an error that names it.

    >>> import gradwalk as gw
    >>> gw.distributed.init()
    >>> gw.distributed.get_rank(), gw.distributed.get_world_size()
    (0, 1)
    >>> gw.distributed.destroy_process_group()
    """
    if job.launch is not None:
        raise RuntimeError(
            f"gw.distributed.init() was called before: this is rank {job.launch.rank} of "
            f"{job.launch.world_size}.\nFix: call it once, at the start of the program."
        )
    if not timeout > 0:
        raise ValueError(f"timeout must be positive, not {timeout}")
    launch = read_launch(os.environ, address, world_size, rank)
    if not launch.is_alone:
        _join(launch, timeout)
    job.launch = launch


def _join(launch: Launch, timeout: float) -> None:
    backend = loaders["xla"]()  # says what to install without JAX
    if backend.first_use():
        raise RuntimeError(_TOO_LATE.format(f"at {backend.first_use()}"))
    from importlib.metadata import version

    import jax

    from gradwalk.distributed.channel import ProcessChannel
    from gradwalk.distributed.hub import Hub

    if launch.rank == 0:
        job.hub = Hub(launch, timeout)
    versions = f"gradwalk {version('gradwalk')} and JAX {jax.__version__}"
    channel = job.channel = ProcessChannel(launch, versions, timeout, _end)
    try:
        hosts = channel.join()["hosts"]
        sys.excepthook = _fail
        _delay_aborts()
        here = [r for r, host in enumerate(hosts) if host == hosts[launch.rank]]
        local_rank = here.index(launch.rank) if launch.local_rank is None else launch.local_rank
        local_size = len(here) if launch.local_size is None else launch.local_size
        # From Python, JAX's own signal handler would keep SIGTERM from ending the process.
        jax.config.update("jax_enable_preemption_service", False)
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        ports = channel.gather("init", _free_port(launch.port + 1) if job.hub else 0)
        local = launch.host in ("127.0.0.1", "localhost")
        jax.distributed.initialize(
            f"{launch.host}:{ports[0]}",
            launch.world_size,
            launch.rank,
            visible_devices(os.environ, local_rank, local_size),
            cluster_detection_method="deactivate",
            initialization_timeout=int(timeout) + 1,
            heartbeat_timeout_seconds=int(timeout) + 600,  # the watchdog, which has names, is first
            coordinator_bind_address=f"{launch.host}:{ports[0]}" if local else None,
        )
    except LaunchError:
        _leave_channel()
        raise
    except RuntimeError as error:
        if "before any JAX calls" not in str(error):
            raise
        raise RuntimeError(_TOO_LATE.format("by a call of JAX")) from None
    atexit.register(destroy_process_group)


def _leave_channel() -> None:
    if job.channel is not None:
        job.channel.close()
    if job.hub is not None:
        job.hub.wait_until_left(_FAREWELL)
    job.channel = job.hub = None


def _free_port(wanted: int) -> int:
    """A port for JAX: the next one, so that a firewall can let both through, or any."""
    for port in (wanted, 0):
        with suppress(OSError), socket.create_server(("", port)) as found:
            return int(found.getsockname()[1])
    raise LaunchError(f"rank 0 finds no free port for JAX, not even {wanted}")


# -- questions, and meetings -----------------------------------------------------------------------


def is_initialized() -> bool:
    """Whether `init` was called."""
    return job.launch is not None


def get_rank(group: Any = None) -> int:
    """The number of this process; 0 without `init`."""
    return 0 if job.launch is None else job.launch.rank


def get_world_size(group: Any = None) -> int:
    """How many processes there are; 1 without `init`."""
    return 1 if job.launch is None else job.launch.world_size


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> None:
    """Wait until every process is here."""
    gather("barrier", None)


def gather(label: str, value: Any) -> list[Any]:
    """The values (JSON) that all ranks gave, in their order, once all of them are here."""
    return [value] if job.channel is None else job.channel.gather(label, value)


def destroy_process_group() -> None:
    """Leave the job, once all processes do; the end of a program does it."""
    atexit.unregister(destroy_process_group)
    if job.channel is not None:
        import jax

        job.channel.finish()
        jax.distributed.shutdown()
        _leave_channel()
        sys.excepthook = sys.__excepthook__
    job.launch = None


# -- the end ---------------------------------------------------------------------------------------


def _end(text: str) -> None:
    """End this process because of another; called while the main thread may hang in XLA."""
    time.sleep(_OWN_WORDS)
    if job.failing:
        return
    job.failing = True
    rank = f"rank {get_rank()} of {get_world_size()}" if job.launch else "a rank"
    os.write(2, f"gradwalk.distributed: {rank} ends, because {text}\n".encode())
    _exit(1)


def _fail(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of this process first, then tell the others: they end too."""
    if _in_library(trace) and kind.__name__ != "DisagreementError":
        # A collective fails when another rank dies; the channel says which, and ends this process.
        time.sleep(_AFTERMATH)
    if job.failing:
        threading.Event().wait()  # the other thread is about to end the process
    job.failing = True
    sys.__excepthook__(kind, error, trace)
    text = "".join(traceback.format_exception_only(error)).strip()
    line = _user_line(trace)
    if job.channel is not None:
        with suppress(Exception):
            sys.stderr.flush()
            job.channel.fail(f"{text[:2000]}{line}")
    _exit(130 if issubclass(kind, KeyboardInterrupt) else 1)


def _in_library(trace: TracebackType | None) -> bool:
    """Whether an error came out of gradwalk or JAX, and not from the user's own line."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and is_library(trace.tb_frame.f_code.co_filename)


def _user_line(trace: TracebackType | None) -> str:
    """The innermost line of the user's in a traceback."""
    found = [f for f in traceback.extract_tb(trace) if not own_files[f.filename]]
    if not found:
        return ""
    last = found[-1]
    return f"\n  at {os.path.basename(last.filename)}:{last.lineno}: {last.line}"


def _delay_aborts() -> None:
    """Give the channel's thread six seconds to name the rank that died.

    When rank 0 dies, JAX calls abort() in a thread of its own, at once and without a name; there is
    no public way to be called instead. The handler is C's sleep(), which is safe in a handler and
    takes the number of the signal; meanwhile the other thread ends the process.
    """
    if os.name == "posix":
        import ctypes

        libc = ctypes.CDLL(None)
        libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
        libc.signal.restype = ctypes.c_void_p
        libc.signal(signal.SIGABRT, ctypes.cast(libc.sleep, ctypes.c_void_p))


def _exit(status: int) -> None:
    """End without the handlers of Python and JAX, which wait for the other processes."""

    def flush() -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()

    flushing = threading.Thread(target=flush, daemon=True)  # the main thread may hold their locks
    flushing.start()
    flushing.join(1.0)
    if job.hub is not None:
        job.hub.wait_until_left(_FAREWELL)
    os._exit(status)
