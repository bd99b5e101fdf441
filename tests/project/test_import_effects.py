"""`import gradwalk` changes nothing of the process; what training needs is asked for when it is."""

import sys
from pathlib import Path

import pytest

from tests.project.checkout import run_here

pytestmark = pytest.mark.slow  # each test starts Python anew

# NumPy is imported first: what it does by itself is not ours.
STATE = """
import atexit, copyreg, faulthandler, gc, locale, logging, os, random, signal, sys, threading
import warnings

import numpy as np


def state():
    found = {
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "search path": [*sys.path, *map(repr, (*sys.meta_path, *sys.path_hooks))],
        "warnings": [*map(str, warnings.filters), warnings.showwarning],
        "hooks": [sys.excepthook, sys.unraisablehook, sys.displayhook, threading.excepthook],
        "tracing": [sys.gettrace(), sys.getprofile(), faulthandler.is_enabled()],
        "limits": [sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()],
        "signals": [signal.getsignal(s) for s in sorted(signal.valid_signals())],
        "on exit": atexit._ncallbacks(),
        "on fork": len(forked),
        "threads": threading.enumerate(),
        "collector": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.callbacks[:]],
        "locale": locale.setlocale(locale.LC_ALL),
        "pickling": dict(copyreg.dispatch_table),
        "logging": [logging.root.level, logging.root.handlers[:]],
        "streams": [sys.stdin, sys.stdout, sys.stderr],
        "NumPy": [np.geterr(), np.geterrcall(), np.getbufsize(), np.get_printoptions()],
        "random numbers": [random.getstate(), repr(np.random.get_state())],
    }
    if os.path.isdir("/proc/self/task"):  # threads and files that are not Python's
        found["tasks"] = len(os.listdir("/proc/self/task"))
        found["open files"] = len(os.listdir("/proc/self/fd"))
    return found


forked = []
register = os.register_at_fork
os.register_at_fork = lambda **calls: (forked.append(calls), register(**calls))
before = state()
"""


def test_the_process_is_left_as_it_was(tmp_path: Path) -> None:
    code = "import gradwalk\nafter = state()\nprint([k for k in before if before[k] != after[k]])"
    assert run_here(STATE + code, cwd=tmp_path) == "[]\n"


# The C library's `mallopt`, counted and not called.
COUNTED = """
import ctypes

asked = []


class Library(ctypes.CDLL):
    def __getattr__(self, name):
        return (lambda *given: asked.append(given) or 1) if name == "mallopt" else None


ctypes.CDLL = Library
import gradwalk as gw

w = gw.tensor([3.0], requires_grad=True)
loss = lambda w: (w * w).sum()
optimizer = gw.optim.SGD([w], lr=0.1)


def step():
    optimizer.zero_grad()
    found = loss(w)
    found.backward()
    optimizer.step()
    return found


gw.Value(2.0).backward()
loss(w)
print(len(asked))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is asked")
@pytest.mark.parametrize(
    "first",
    [
        "step()",
        "gw.nn.Linear(1, 1)",
        "gw.autograd.grad(loss(w), w)",
        "gw.grad(loss)(w)",
        "gw.compile(loss, backend='numpy')(w)",
    ],
)
def test_memory_is_kept_from_the_first_training_step_on(first: str, tmp_path: Path) -> None:
    code = f"{first}\nprint(len(asked))\nstep()\nprint(len(asked))"
    assert run_here(COUNTED + code, cwd=tmp_path) == "0\n2\n2\n"
