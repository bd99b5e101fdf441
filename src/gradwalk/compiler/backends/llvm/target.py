"""What machine this is, and llvmlite itself, imported on first use.

    if target.available():
        target.host().vector_bytes  # 64 with AVX-512, 32 with AVX2, 16 otherwise

`import gradwalk` must not pay for LLVM (a 180 MB library), so nothing here runs on import.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradwalk.graph.fork_locks import CODE, LLVM, fork_safe

# How hard LLVM's code generator works. 1, 2 and 3 take equally long on our kernels and give the
# same code; 0 takes a third of the time and gives several times slower code.
CODE_GENERATION = 2

_starting = fork_safe(threading.Lock(), CODE)


class LLVMMissing(ImportError):
    """llvmlite cannot be used here; the message says why and what to do."""


@dataclass(frozen=True)
class Host:
    """The machine that code is made for."""

    triple: str  # x86_64-unknown-linux-gnu
    cpu: str  # LLVM's name: znver4
    features: str  # +avx512f,-amx-tile,... as LLVM's code generator takes them
    vector_bytes: int  # of one full register
    llvm_version: str  # of the LLVM inside llvmlite

    @property
    def architecture(self) -> str:
        """x86_64, aarch64 or whatever else the triple begins with (arm64 is called aarch64)."""
        name = self.triple.split("-")[0]
        return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)

    @property
    def has_many_registers(self) -> bool:
        """Whether there are 32 vector registers, not 16."""
        return self.vector_bytes == 64 or self.architecture == "aarch64"

    @property
    def is_linux(self) -> bool:
        """Whether threads can be parked with Linux's futex."""
        return "linux" in self.triple

    def lanes(self, itemsize: int) -> int:
        """How many elements of so many bytes one register holds."""
        return max(1, self.vector_bytes // itemsize)


def available() -> bool:
    """Whether llvmlite is installed and works."""
    try:
        binding()
    except LLVMMissing:
        return False
    return True


@functools.cache
def binding() -> Any:
    """`llvmlite.binding`, ready for use; LLVMMissing without llvmlite."""
    with _starting:
        try:
            import llvmlite.binding as llvm
        except (ImportError, OSError) as error:  # OSError: the library is there and does not load
            raise LLVMMissing(_without(error)) from error
        lock = getattr(getattr(llvm.ffi.lib, "_lock", None), "_lock", None)
        if lock is not None:  # llvmlite's own, of every call
            fork_safe(lock, LLVM)
        try:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
        except RuntimeError as error:
            raise LLVMMissing(
                f"llvmlite does not support this machine ({error}): compile with backend='numpy'."
            ) from error
        return llvm


def _without(error: Exception) -> str:
    why, fix = f"does not import here ({error})", "`pip install llvmlite`, or "
    if sys.platform == "emscripten":
        why, fix = "does not exist for Python in a browser (emscripten)", ""
    return (
        f"gradwalk.compile generates native code with llvmlite, which {why}. "
        f"The rest of gradwalk works. Fix: {fix}compile with backend='numpy'."
    )


@functools.cache
def host() -> Host:
    """The machine this runs on."""
    llvm = binding()
    features = llvm.get_host_cpu_features()
    has = {name for name, present in features.items() if present}
    # On some Intel CPUs LLVM splits 64-byte vectors in two; ours are chosen and stay whole.
    keep_whole = ",-prefer-256-bit" if "avx512f" in has else ""
    return Host(
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=features.flatten() + keep_whole,
        vector_bytes=64 if "avx512f" in has else 32 if "avx2" in has else 16,
        llvm_version=".".join(str(n) for n in llvm.llvm_version_info),
    )


def target_machine() -> Any:
    """A new LLVM target machine for this host (one per thread: they are not shared).

    Position-independent, since the code may be loaded anywhere; and with constants near the code
    (llvmlite's default for JIT code reaches each by a 64-bit address in a register of its own).
    """
    machine = host()
    return (
        binding()
        .Target.from_triple(machine.triple)
        .create_target_machine(
            cpu=machine.cpu,
            features=machine.features,
            opt=CODE_GENERATION,
            reloc="pic",
            codemodel="small",
        )
    )


def usable_cores() -> int:
    """Cores this process may use: its affinity, and the quota of its container."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = _quota()
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


@functools.cache
def _quota(groups: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Cores a Linux control group grants, version 2 or 1; None without a limit."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            words = " ".join((groups / name).read_text() for name in names).split()
            granted, period = float(words[0]), float(words[1])  # "max" is no number
        except (OSError, ValueError, IndexError):
            continue
        if granted > 0 and period > 0:
            return granted / period
    return None
