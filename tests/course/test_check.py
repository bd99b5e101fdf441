"""The checker of engines: right ones pass, wrong ones are told what they do wrong."""

import json
from pathlib import Path

import pytest

from gradwalk.course.checker.grading import CheckedFile, check_file, check_files, starter
from gradwalk.course.checker.process import ProcessLimits
from gradwalk.course.checker.trials import OUT_OF, STAGES
from tests.course.wrong_engines import BUGS, wrong
from tests.quick import some_quick

ENGINES = Path(__file__).with_name("engines")
QUICK = ProcessLimits(seconds=1)
RIGHT = sorted(path.stem for path in ENGINES.glob("right_*.py"))

# Each engine has one bug; and the one mistake it must be told.
WRONG = {
    "breadth_first": "before-complete",
    "clears": "clears-leaves",
    "cut": "derivative-add",
    "div": "derivative-div",
    "every_path": "every-path",
    "exp": "derivative-exp",
    "first_use": "forgets-a-use",
    "local_only": "local-not-total",
    "mul_own": "derivative-mul",
    "neg_sign": "derivative-neg",
    "no_numbers": "no-numbers",
    "no_reflected": "no-reflected",
    "no_seed": "no-seed",
    "one_edge": "forgets-a-use",
    "overwrites": "overwrites",
    "plain_recursion": "plain-recursion",
    "pow": "derivative-power",
    "pre_order": "before-complete",
    "quadratic": "slow",
    "recursion": "recursion-limit",
    "relu": "derivative-relu",
    "rsub": "value-rsub",
    "seed_value": "no-seed",
    "stale": "stale",
    "sub_sign": "derivative-sub",
    "taken_at_once": "before-complete",
    "tanh": "derivative-tanh",
    "tanh_value": "value-tanh",
}
WAITED_FOR = ("every_path", "plain_recursion", "quadratic")  # until their time is up
# What must be in the words, beside the key.
SAID = {
    "breadth_first": ["14", "26", "breadth-first", "a is visited before b"],
    "clears": ["your gradient of x is 15; the correct gradient is 30"],
    "div": ["the minus sign is missing"],
    "first_use": ["f = a·a at a = 3", "is 3; the correct gradient is 6."],
    "neg_sign": ["the minus sign is missing"],
    "no_reflected": ["__radd__, __rsub__, __rmul__, __rtruediv__"],
    "one_edge": ["two edges", "set or a dict"],
    "overwrites": ["f = a·a at a = 3", "is 3; the correct gradient is 6.", "+="],
    "plain_recursion": ["your gradient of x is 21; the correct gradient is 15"],
    "pow": ["the factor n is missing"],
    "pre_order": ["depth-first", "a is visited before"],
    "recursion": ["RecursionError", "stack"],
    "relu": ["1 for a negative input too"],
    "rsub": ["The two sides are swapped"],
    "seed_value": ["begins with the value of the root"],
    "stale": ["your gradient of x is 60; the correct gradient is 30"],
    "taken_at_once": ["a is visited before b", "when the first contribution arrives"],
    "tanh": ["1 − a²"],
}


def checked(
    tmp_path: Path, source: str, seed: int = 0, limits: ProcessLimits = QUICK
) -> CheckedFile:
    path = tmp_path / "engine.py"
    path.write_text(source, encoding="utf-8")
    return check_file(path, seed, limits)


def with_change(old: str, new: str, engine: str = "right_closures") -> str:
    source = (ENGINES / f"{engine}.py").read_text(encoding="utf-8")
    assert old in source
    return source.replace(old, new)


# -- right and wrong engines -----------------------------------------------------------------------


def test_every_engine_here_is_tried() -> None:
    assert len(RIGHT) >= 3
    assert WRONG.keys() == BUGS.keys()


@pytest.mark.parametrize("seed", some_quick([0, 1, 2**40], 3))
@pytest.mark.parametrize("name", some_quick(RIGHT, 4))
def test_a_right_engine_has_all_points(name: str, seed: int) -> None:
    found = check_file(ENGINES / f"{name}.py", seed, QUICK)
    assert found.passed, str(found)
    assert found.points == OUT_OF == 100
    assert not found.mistakes and not found.reason


@pytest.mark.parametrize(
    "name",
    [
        *some_quick([name for name in WRONG if name not in WAITED_FOR], 12),
        *(pytest.param(name, marks=pytest.mark.slow) for name in WAITED_FOR),
    ],
)
def test_a_wrong_engine_is_told_its_one_mistake(name: str, tmp_path: Path) -> None:
    found = checked(tmp_path, wrong(name), 3)
    assert [mistake.key for mistake in found.mistakes] == [WRONG[name]], str(found)
    assert 0 < found.points < OUT_OF
    (mistake,) = found.mistakes
    for words in SAID.get(name, []):
        assert words in f"{mistake.title} {mistake.text}"


@pytest.mark.slow
def test_two_mistakes_are_two(tmp_path: Path) -> None:
    """The engine of the textbook: it recurses, and keeps its inner gradients."""
    source = with_change(
        "            if v._prev:\n                v.grad = 0.0\n", "            pass\n"
    )
    walk = source[source.index("        stack = [") : source.index("        for v in order:")]
    recursive = """
        def build(v):
            if v not in seen:
                seen.add(v)
                for i in v._prev:
                    build(i)
                order.append(v)

        build(self)
"""
    found = checked(tmp_path, source.replace(walk, recursive))
    assert [mistake.key for mistake in found.mistakes] == ["stale", "recursion-limit"]


@pytest.mark.slow
@pytest.mark.parametrize("op", ["+", "*"])
def test_overwriting_in_one_operation_only_is_told_apart(op: str, tmp_path: Path) -> None:
    if op == "+":
        source = with_change("self.grad += out.grad", "self.grad = out.grad")
        source = source.replace("other.grad += out.grad", "other.grad = out.grad")
    else:
        source = with_change("self.grad += other.data", "self.grad = other.data")
        source = source.replace("other.grad += self.data", "other.grad = self.data")
    found = checked(tmp_path, source)
    assert [mistake.key for mistake in found.mistakes] == ["overwrites"]
    assert found.mistakes[0].title.endswith("a + b" if op == "+" else "a·b")


def test_what_is_missing_is_listed_and_the_rest_is_graded(tmp_path: Path) -> None:
    source = with_change("def tanh", "def than").replace("def exp", "def expo")
    found = checked(tmp_path, source)
    assert [mistake.key for mistake in found.mistakes] == ["missing"]
    assert found.mistakes[0].title == "has no exp, tanh"
    points = {stage.key: stage.points for stage in found.stages}
    assert points["adding"] == points["order"] == 15
    assert 0 < points["values"] < 15


def test_an_exception_is_reported_with_its_line(tmp_path: Path) -> None:
    source = with_change("(1 - out.data**2)", "(1 - out.dta**2)")
    line = next(i for i, text in enumerate(source.splitlines(), 1) if "dta" in text)
    (mistake,) = checked(tmp_path, source).mistakes
    assert mistake.key == "raises"
    assert f"line {line}" in mistake.text
    assert "AttributeError" in mistake.text


def test_an_exception_is_told_once_whatever_its_message(tmp_path: Path) -> None:
    source = with_change("(1 - out.data**2)", "{}[object()]")
    (mistake,) = checked(tmp_path, source).mistakes
    assert "KeyError" in mistake.text
    assert "0x" not in mistake.text


def test_the_starter_runs_and_scores_nothing(tmp_path: Path) -> None:
    found = checked(tmp_path, starter())
    assert found.points == 0 and not found.reason
    assert [mistake.key for mistake in found.mistakes] == ["unwritten"]
    for stage in STAGES:  # it says what is asked, and the points
        assert f"{stage.title.capitalize()} ({stage.points} points)" in starter()


def test_the_words_of_the_house(tmp_path: Path) -> None:
    said = starter() + "".join(
        str(checked(tmp_path, wrong(name))) for name in ("stale", "one_edge")
    )
    assert "parent" not in said.lower() and "child" not in said.lower()


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("while True:\n    pass\n", "runs for more than 1 s"),
        ("Value = [0] * 10**10\n", "MemoryError"),
        ("def f():\n    f()\nf()\n", "line 2: RecursionError"),
    ],
)
def test_a_file_that_does_not_come_to_an_end(source: str, words: str, tmp_path: Path) -> None:
    found = checked(tmp_path, source)
    assert found.points == 0
    assert words in found.reason


@pytest.mark.slow
def test_an_engine_that_hangs_is_asked_the_rest_a_few_times(tmp_path: Path) -> None:
    source = with_change("    def tanh(self):\n", "    def tanh(self):\n        while True: pass\n")
    found = checked(tmp_path, source)
    points = {stage.key: stage for stage in found.stages}
    assert points["values"].right == 20  # all but two
    assert found.points > 0
    assert [mistake.key for mistake in found.mistakes] == ["stops"]


@pytest.mark.slow
def test_sleeping_does_not_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert QUICK.patience == 15
    monkeypatch.setattr(ProcessLimits, "patience", 2.0)  # waiting for 15 s would show no more
    source = "import sys\nsys.modules['time'].sleep(1000)\n"
    assert "runs for more than 1 s" in checked(tmp_path, source).reason


# -- files that are none ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (b"class Value\n", "line 1: SyntaxError"),
        (b"x = 1\n", "there is no class Value"),
        (b"Value = 3\n", "there is no class Value"),
        (b"\xff\xfe\x00", "does not run"),
        (b"class Value:\x00 pass", "does not run"),
        (b"raise ValueError('\x1b[31mred\x07')\n", "ValueError:  [31mred"),
        (b"(" * 5000, "does not run"),
        (b"# " + b"x" * 2**20, "larger than 1 MB"),
    ],
)
def test_what_cannot_be_run_says_why(source: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "engine.py"
    path.write_bytes(source)
    found = check_file(path, limits=QUICK)
    assert found.points == 0
    assert words in found.reason
    assert found.reason.isprintable()


@pytest.mark.slow
def test_a_class_of_files_is_checked_whatever_is_among_them(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("class Value(", encoding="utf-8")
    off = tmp_path / "off.py"
    off.write_text(wrong("tanh"), encoding="utf-8")
    files = [
        ENGINES / "right_tape.py",
        tmp_path / "missing.py",
        broken,
        tmp_path,
        off,
    ]
    heard: list[str] = []
    found = check_files(files, limits=QUICK, on_done=lambda one: heard.append(one.file))
    assert [one.file for one in found] == [str(file) for file in files]
    assert sorted(heard) == sorted(one.file for one in found)
    assert [one.points == 100 for one in found] == [True, False, False, False, False]
    assert [bool(one.reason) for one in found] == [False, True, True, True, False]
    json.dumps([one.to_dict() for one in found], allow_nan=False)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_points(tmp_path: Path) -> None:
    first, second = (checked(tmp_path, wrong("div"), seed=5).to_dict() for _ in range(2))
    assert first == second
