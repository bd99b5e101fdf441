"""Files that try to get points without an engine, or with somebody else's, score nothing.

Most are followed by an engine that is right: what they do counts, and not what they could do.
"""

import sys
from pathlib import Path

import pytest

from gradwalk.course.checker import process, runner, trials
from gradwalk.course.checker.grading import check_file
from gradwalk.course.checker.process import ProcessLimits
from tests.quick import some_quick

ENGINE = (Path(__file__).parent / "engines" / "right_closures.py").read_text(encoding="utf-8")
SITE_PACKAGES = Path(pytest.__file__).parents[1]
FACTS = str(trials.CHECKED_VALUES)

# name -> (what stands before the engine, words in the reason)
BEFORE = {
    "exits": ("import sys\nsys.exit(0)", "ends the program (sys.exit)"),
    "raises SystemExit": ("raise SystemExit", "ends the program (sys.exit)"),
    "os._exit": ("import os\nos._exit(0)", "line 2 imports os"),
    "os._exit by the back door": (
        "import sys\nsys.modules['os']._exit(0)",
        "ends the process before its answers are there",
    ),
    "atexit": (
        "import atexit\natexit.register(lambda: print('passed'))",
        "line 2 imports atexit",
    ),
    "gradwalk": ("from gradwalk import Value", "imports gradwalk"),
    "torch, quietly": ("try:\n    import torch\nexcept Exception:\n    pass", "imports torch"),
    "micrograd by name": ("e = __import__('micro' + 'grad.engine')", "imports micrograd"),
    "importlib": ("import importlib\nimportlib.import_module('torch')", "imports importlib"),
    "importlib by the back door": (
        "import sys\nsys.modules['importlib._bootstrap'] = None\n"
        "sys.modules['_frozen_importlib']._gcd_import('torch')",
        "imports torch",
    ),
    "exec": ("exec('import torch')", "as code"),
    "eval": ("eval('1 + 1')", "as code"),
    "exec under another name": ("vars(__builtins__)['ex' + 'ec']('x = 1') "
                                "if not isinstance(__builtins__, dict) "
                                "else __builtins__['ex' + 'ec']('x = 1')", "as code"),
    "compiles under a trusted name": (
        "code = compile('import torch', '/usr/lib/python3/x.py', 'exec')",
        "as code",
    ),
    "the path of packages": (
        f"import sys\nsys.path.insert(0, {str(SITE_PACKAGES)!r})\nimport numpy",
        "imports numpy",
    ),
    "subprocess": ("import subprocess", "imports subprocess"),
    "a shell by the back door": ("import sys\nsys.modules['os'].system('true')", "another program"),
    "fork": ("import sys\nsys.modules['os'].fork()", "another process"),
    "the answers' file": (f"open({FACTS!r}).read()", "opens"),
    "descriptors": ("open(4, 'wb').write(b'passed')", "opens 4"),
    "descriptors by the back door": (
        "import sys\nfor i in range(3, 9):\n    try:\n"
        "        sys.modules['os'].write(i, b'N' + bytes(40))\n"
        "    except OSError:\n        pass",
        "writes to the channel",
    ),
    "frames": ("import sys\nsys._getframe(1).f_locals", "inspects the checker"),
    "frames of a traceback": (
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    e.__traceback__.tb_frame.f_back",
        "inspects the checker",
    ),
    "frames of a generator": ("g = (i for i in 'a')\ng.gi_frame.f_back", "inspects the checker"),
    "gc": ("import sys\nsys.modules['gc'].get_objects()", "inspects the checker"),
    "patches math": ("import math\nmath.tanh = abs", "replaces math.tanh"),
    "patches builtins": (
        "import sys\nsys.modules['builtins'].isinstance = lambda *a: True",
        "replaces builtins.isinstance",
    ),
    "patches len": ("import sys\nsys.modules['builtins'].len = None", "replaces builtins.len"),
    "patches struct": ("import sys\nsys.modules['struct'].pack = abs", "replaces struct.pack"),
    "patches the checker's table": (
        "__import__.__globals__['OTHER_ENGINES'] = ()",
        "replaces __main__.OTHER_ENGINES",
    ),
    "empties the checker's table": (
        "__import__.__globals__['OTHER_ENGINES'].clear()",
        "line 2: AttributeError",
    ),
    "patches the checker's class": (
        "next(c for c in object.__subclasses__() if c.__name__ == 'Channel').send = print",
        "replaces Channel.send",
    ),
    "patches the checker, and puts it back": (
        "watch = next(c for c in object.__subclasses__() if c.__name__ == 'Watchdog')\n"
        "kept = watch._in_library, watch.check_untouched\n"
        "watch._in_library = watch.check_untouched = lambda *a: True\n"
        "import cmath\n"
        "watch._in_library, watch.check_untouched = kept",
        "replaces Watchdog.check_untouched",
    ),
    "patches gc": ("import sys\nsys.modules['gc'].collect = abs", "replaces gc.collect"),
    "json": ("import json\njson.dumps = str", "imports json"),
    "traces": ("import sys\nsys.settrace(lambda *a: None)", "tampers with the checker"),
    "hooks": ("import sys\nsys.addaudithook(print)", "tampers with the checker"),
    "signals": ("import sys\nsys.modules['os'].kill(1, 0)", "sends a signal"),
}  # fmt: skip
# name -> (old, new in a right engine, words in the reason): what is done when it is asked something
WITHIN = {
    "exits in backward": ("        self.grad = 1.0\n", "        raise SystemExit\n", "sys.exit"),
    "interrupts": (
        "        self.grad = 1.0\n",
        "        raise KeyboardInterrupt\n",
        "an engine must not raise",
    ),
    "leaves in backward": (
        "        self.grad = 1.0\n",
        "        __import__('sys').modules['os']._exit(0)\n",
        "ends the process before",
    ),
    "patches when asked": (
        "        self.grad = 1.0\n",
        "        self.grad = 1.0\n        math.tanh = math.sin\n",
        "replaces math.tanh",
    ),
    "imports when asked": (
        "        self.grad = 1.0\n",
        "        self.grad = 1.0\n        import torch\n",
        "imports torch",
    ),
}
FAKES = {
    "prints": "print('passed')\nprint('100 of 100 points')",
    "prints JSON": 'print(\'{"passed": true, "points": 100}\')',
    "borrows a class": "class Value(float):\n    data = grad = 1.0\n    backward = abs",
    "agrees with everything": (
        "class Anything(float):\n    def __eq__(self, other):\n        return True\n"
        "    def __float__(self):\n        return 6.0\n    __hash__ = float.__hash__\n"
        "class Value:\n    def __init__(self, *a):\n        self.data = self.grad = Anything(0)\n"
        "    def __getattr__(self, name):\n        return lambda *a: Value()\n"
        "    __add__ = __radd__ = __mul__ = __rmul__ = lambda *a: Value()\n"
        "    __neg__ = lambda self: Value()\n"
    ),
}


def reason(source: str, tmp_path: Path) -> str:
    path = tmp_path / "engine.py"
    path.write_text(source, encoding="utf-8")
    found = check_file(path, limits=ProcessLimits(seconds=1))
    assert found.points == 0, str(found)
    assert not found.passed
    return found.reason


@pytest.mark.parametrize("name", some_quick(BEFORE, 17))
def test_before_an_engine(name: str, tmp_path: Path) -> None:
    code, words = BEFORE[name]
    assert words in reason(f'"""{name}."""\n{code}\n{ENGINE}', tmp_path)


@pytest.mark.parametrize("name", some_quick(WITHIN, 8))
def test_within_an_engine(name: str, tmp_path: Path) -> None:
    old, new, words = WITHIN[name]
    assert old in ENGINE
    assert words in reason(ENGINE.replace(old, new), tmp_path)


@pytest.mark.parametrize("name", some_quick(FAKES, 4))
def test_without_an_engine(name: str, tmp_path: Path) -> None:
    reason(FAKES[name], tmp_path)


@pytest.mark.slow
def test_honest_files_may_use_the_standard_library(tmp_path: Path) -> None:
    """Dataclasses and named tuples run text as code and look at frames; these files do not."""
    path = tmp_path / "engine.py"
    path.write_text(
        f"import {', '.join(sorted(runner.ALLOWED_IMPORTS - {'__future__'}))}\n"
        "from collections import namedtuple, defaultdict, deque\n"
        "from dataclasses import dataclass\n"
        "from typing import NamedTuple\n"
        "Point = namedtuple('Point', 'x y')\n"
        "class Pair(NamedTuple):\n    x: int\n"
        "class Colour(enum.Enum):\n    RED = 1\n"
        "@dataclass\nclass D:\n    x: int = 0\n"
        "random.seed(1)\nwarnings.warn('careful')\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    str(e)\n" + ENGINE,
        encoding="utf-8",
    )
    found = check_file(path, limits=ProcessLimits(seconds=1))
    assert found.passed, str(found)


def test_the_learners_process_knows_no_answers() -> None:
    """Whatever a file finds out about the process it runs in, the right numbers are not there."""
    assert not hasattr(runner, "trials")
    source = Path(runner.__file__).read_text(encoding="utf-8")
    assert "gradwalk.course" not in source and "import gradwalk" not in source
    with process.LearnerProcess(b"class Value: pass", ProcessLimits()) as learner:
        arguments = Path(f"/proc/{learner._process.pid}/cmdline")
        if sys.platform == "linux":
            assert b"checked" not in arguments.read_bytes()
        learner.begin()
        assert learner.load() is None
