"""Jobs of several processes over loopback, each with virtual devices."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

LIMIT = 600  # seconds for a whole job; only a broken one takes so long

PREAMBLE = """
import os, sys, time
import gradwalk as gw
gw.distributed.init(timeout=float(os.environ.get("JOB_TIMEOUT", 60)))
rank = gw.distributed.get_rank()
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _code(program: str | Path, preamble: str) -> list[str]:
    if isinstance(program, Path):
        return [str(program)]
    return ["-c", preamble + textwrap.dedent(program)]


# XLA's collectives print "[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of ..." from
# several threads and in pieces, which may stand on lines of their own.
GLOO = re.compile(r"Gloo|is connected to|peer ranks|^ *(Rank *\d*)?$")


class LoopbackJob:
    """Some processes that run one program: a file, or code after a preamble.

    The outputs are in `out` and `err`, by rank.
    """

    def __init__(
        self,
        program: str | Path,
        size: int = 2,
        devices: int = 1,
        arguments: tuple[object, ...] = (),
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
        preamble: str = PREAMBLE,
    ) -> None:
        port = free_port()
        self.processes = [
            subprocess.Popen(
                [sys.executable, *_code(program, preamble), *map(str, arguments)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=folder,
                env={
                    **os.environ,
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "WORLD_SIZE": str(size),
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "LOCAL_WORLD_SIZE": str(size),
                    "OMP_NUM_THREADS": "1",
                    "JAX_PLATFORMS": "cpu",
                    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # programs run a few times each
                    "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
                    **(environ or {}),
                },
            )
            for rank in range(size)
        ]
        self.out: list[str] = []
        self.err: list[str] = []

    def wait(self) -> list[int]:
        """The exit statuses of all; a job that does not end is ended, and fails the test."""
        try:
            for process in self.processes:
                out, err = process.communicate(timeout=LIMIT)
                self.out.append(out)
                self.err.append(err)
        finally:
            self.stop()
        return [process.returncode for process in self.processes]

    def succeed(self) -> list[str]:
        """What each rank printed, without the lines of JAX's own."""
        statuses = self.wait()
        assert not any(statuses), "\n".join(self.err)
        return ["\n".join(x for x in o.splitlines() if not GLOO.search(x)) for o in self.out]

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
                process.wait()

    def wait_for_line(self, rank: int, is_it: Callable[[str], bool]) -> str:
        """Read what a rank prints until a line comes."""
        stream = self.processes[rank].stdout
        assert stream is not None
        for line in stream:
            if is_it(line):
                return line
        raise AssertionError(f"rank {rank} ended:\n{self.wait()}\n" + "\n".join(self.err))
