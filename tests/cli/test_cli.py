"""The command line as a person types it."""

import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gradwalk
from gradwalk.cli import app
from tests.project.checkout import ROOT
from tests.project.markdown import python_blocks

NEURON = "tanh(x1*w1 + x2*w2 + b)"
AT = ["x1=2", "w1=-3", "x2=0", "w2=1", "b=6.8813735870195432"]
DIAMOND = "b = a+1; c = 3*a; d = b*c"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    assert not isinstance(result.exception, Exception)
    return result.output


def data(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return found


# -- without a command ---------------------------------------------------------------------------


def test_bare_command_walks_the_neuron() -> None:
    output = run()
    assert "Forward" in output
    assert "Backward" in output
    assert "0.7071" in output


def test_version() -> None:
    assert run("--version") == f"gradwalk {gradwalk.__version__}\n"


def test_help_teaches() -> None:
    output = run("--help")
    for words in ("forward and backward", 'gradwalk walk "', "walk", "functions", "the sum of"):
        assert words in output
    output = run("walk", "--help")
    for words in ("--why", "--nudge", "--derive", "--order", "--svg", "--json", "--frames"):
        assert words in output
    assert "runs that file" in " ".join(output.replace("│", " ").split())
    assert max(map(len, output.splitlines())) <= 80


def test_examples_of_the_help_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    text = run("--help") + run("walk", "--help")
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("gradwalk walk")]
    assert len(lines) == 9
    for line in lines:
        run(*shlex.split(line)[1:])
    assert (tmp_path / "neuron.svg").exists()
    assert len(list((tmp_path / "slides").iterdir())) == 12


def test_functions_are_listed_with_their_derivatives() -> None:
    output = run("functions")
    assert "tanh(x)" in output
    assert "1 − out²" in output
    assert "y   and   x" in output


# -- expressions ---------------------------------------------------------------------------------


def test_the_neuron_as_an_expression() -> None:
    output = run("walk", NEURON, *AT)
    for row in (
        "v1     x1 × w1           −6",
        "out    tanh(v4)      0.7071",
        "x1          2       −1.5   raise ↑",
        "w1         −3          1   lower ↓",
    ):
        assert " ".join(row.split()) in " ".join(output.split())
    assert max(map(len, output.splitlines())) <= 80
    nodes = {n["name"]: n for n in data("walk", NEURON, *AT)["nodes"]}
    found = {name: nodes[name]["gradient"] for name in ("x1", "w1", "x2", "w2", "b", "v4")}
    assert found == pytest.approx(dict(x1=-1.5, w1=1.0, x2=0.5, w2=0.0, b=0.5, v4=0.5))


def test_names_without_a_value_are_said() -> None:
    assert "(no value given, so set to 1: y, z)" in run("walk", "x*y*z", "x=2")
    assert "(not part of d: e)" in run("walk", "e = a*2; d = a*3")


def test_values_may_be_computed_and_signs_are_accepted() -> None:
    found = data("walk", "−x·y × 2^2", "x=1/4", "y=-pi/pi")
    assert found["nodes"][-1]["value"] == 1.0
    assert data("walk", "-x^2", "x=3")["nodes"][-1]["value"] == -9.0
    assert "x moves by 0.01;" in run("walk", "x*x", "--nudge", "x=1/100")


def test_the_letter_e_is_no_constant_and_that_is_said() -> None:
    assert "for the exponential write exp(...)" in run("walk", "e^x")
    assert "exponential" not in run("walk", "e^x", "e=2")


def test_division_by_zero_is_infinite() -> None:
    assert "inf" in run("walk", "1/x", "x=0")
    assert data("walk", "1/x", "x=0")["nodes"][-1]["value"] == "Infinity"
    assert run("walk", "9**9**9*x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["2x"], "  2x\n   ^\nHint: write 2*x"),
        (["x +"], "  x +\n     ^"),
        (["x", "y=2"], "no 'y' to set; its leaves are: x"),
        (["x", "x=two"], "the value of x must be a number"),
        (["x", "x=2x"], "Hint: write 2*x"),
        (["x", "x"], "name=value"),
        (["x", "x=1", "x=2"], "x is given twice"),
        (["x", "--wrong"], "no option --wrong"),
        (["y = x*x", "y=2"], "'y' is computed"),
        (["__import__('os')"], "'_' has no place"),
        (["x*x", "--why", "z"], "no node is called 'z'"),
        (["e = x*2; y = x", "--why", "e"], "'e' is not part of the differentiated expression"),
        (["x*x", "--nudge", "x=much"], "much is not a number"),
        (["x*x", "--order", "q"], "no node is called 'q'"),
        (["x*x", "--order", "q"], "or one of the recipes right, plain recursion,"),
        (["x*x", "--latex"], "Fix: --derive NAME --latex"),
        (["x*x", "--svg", "-", "--json"], "only one of --svg -"),
        (["|x|"], "Hint: write abs(x)"),
        (["x*x", "--drawing", "both"], "'nodes', 'edges', not 'both'"),
        (["x*x", "--svg", "/no/such/folder/x.svg"], "cannot write /no/such/folder/x.svg"),
        (["nothing.py:f"], "there is no file nothing.py"),
    ],
)
def test_errors_say_what_is_wrong_and_leave_with_2(arguments: list[str], message: str) -> None:
    output = fails("walk", *arguments)
    assert message in output
    assert "Traceback" not in output


# -- questions -----------------------------------------------------------------------------------


def test_why_nudge_derive_and_order() -> None:
    asked = ["--why", "a", "--nudge", "a=0.01", "--derive", "a", "--order", "b,d,c"]
    output = run("walk", DIAMOND, "a=2", *asked)
    for words in ("gradient of a: 15", "a moves by 0.01", "b before d", "lost"):
        assert words in output
    found = data("walk", DIAMOND, "a=2", *asked)
    assert found["why"][0]["gradient"] == 15
    assert len(found["nudge"]) == len(found["derive"]) == len(found["order"]) == 1


def test_derivations_in_latex() -> None:
    output = run("walk", "y = x^3 + 5*x", "x=2", "--derive", "x", "--latex")
    assert r"\frac" in output
    assert "17" in output


def test_questions_may_be_repeated_and_nodes_named_by_index() -> None:
    output = run("walk", "tanh(x*w)", "x=2", "--why", "x", "--why", "w", "--why", "v1")
    assert output.count("gradient of ") == 3
    assert "gradient of w" in run("walk", "tanh(x*w)", "--why", "#1")
    assert "gradient of x" in run("walk", "y = x; y*y", "--why", "y")


def test_an_order_may_be_a_recipe() -> None:
    source = "a = 2*x; b = 3*a; c = b + 1; d = a*c"
    output = run("walk", source, "x=1", "--order", "breadth-first")
    assert "14" in output
    assert "26" in output


# -- what is printed and written -----------------------------------------------------------------


def test_tree() -> None:
    output = run("walk", NEURON, *AT, "--tree")
    assert "×−3 x1  2  grad −1.5" in output
    assert "Forward" not in output


def test_rows() -> None:
    assert "more rows" in run("walk", "+".join(["x"] * 50), "--rows", "5")


def test_pictures(tmp_path: Path) -> None:
    svg, dot, tikz = (str(tmp_path / name) for name in ("a.svg", "a.dot", "a.tex"))
    output = run(
        "walk", DIAMOND, "a=2", "--svg", svg, "--dot", dot, "--tikz", tikz,
        "--frames", str(tmp_path / "f"),
    )  # fmt: skip
    assert output.count("wrote") == 4
    ElementTree.parse(svg)
    assert Path(dot).read_text(encoding="utf-8").startswith("digraph")
    assert Path(tikz).read_text(encoding="utf-8").count("begin{tikzpicture}") == 8
    frames = sorted((tmp_path / "f").iterdir())
    assert [f.name for f in frames] == [f"step-{i:02}.svg" for i in range(8)]
    run("walk", DIAMOND, "--svg", svg, "--drawing", "edges")
    assert "∂" in Path(svg).read_text(encoding="utf-8")


def test_a_picture_may_go_to_the_terminal_and_json_stays_json(tmp_path: Path) -> None:
    assert run("walk", "x*x", "--svg", "-").startswith("<svg")
    assert run("walk", "x*x", "--tikz", "-").startswith("\\documentclass")
    found = data("walk", "x*x", "--svg", str(tmp_path / "x.svg"), "--frames", str(tmp_path))
    assert found["schema"] == "gradwalk.walk/1"
    assert (tmp_path / "x.svg").exists()


# -- a file of the user's ------------------------------------------------------------------------

MODEL = """
import gradwalk as gw
from gradwalk import nn

def loss():
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    return nn.functional.cross_entropy(model(gw.ones(5, 4)), gw.tensor([0, 1, 2, 0, 1]))

def swept():
    result = loss()
    result.backward()
    return result

def neuron(x, w, *, b=0.5):
    return (x * w + b).tanh()

def nothing():
    return None

def constant():
    return gw.ones(1).sum()

def several():
    return gw.ones(3, requires_grad=True) * 2

def broken():
    raise RuntimeError("mine")

def missing():
    return {}["key"]

def leaving():
    raise SystemExit(7)

def mixed(x):
    return (gw.ones(2) * x).sum()

def chatty(x):
    print("hello")
    return x * x
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "my_model.py"
    path.write_text(MODEL, encoding="utf-8")
    return str(path)


def test_a_function_that_returns_a_tensor(model: str, tmp_path: Path) -> None:
    svg = tmp_path / "m.svg"
    output = run("walk", f"{model}:loss", "--svg", str(svg), "--depth", "2")
    for words in ("ran loss() of", "2.weight", "(3,8)", "cross_entropy"):
        assert words in output
    assert "2 parameters" in svg.read_text(encoding="utf-8")
    assert "gradient of 0.weight" in run("walk", f"{model}:loss", "--why", "0.weight")
    assert "2.weight" in run("walk", f"{model}:swept")


def test_a_function_that_returns_a_value_gets_its_parameters(model: str) -> None:
    found = data("walk", f"{model}:neuron", "x=2")
    assert "no value given, so set to 1: w" in found["notes"][1]
    assert found["nodes"][-1]["value"] == pytest.approx(0.9866142981514303)
    assert "my_model.py" in found["nodes"][-1]["line"]
    assert data("walk", f"{model}:neuron", "b=-1")["nodes"][-1]["value"] == 0.0


def test_wrong_functions(model: str) -> None:
    assert "it has: loss, swept, neuron" in fails("walk", f"{model}:lost")
    assert "returned NoneType" in fails("walk", f"{model}:nothing")
    assert "has no parameter 'q'; its parameters: x, w, b" in fails(
        "walk", f"{model}:neuron", "q=1"
    )
    assert "without a gradient" in fails("walk", f"{model}:constant")
    assert "of shape (3,); a loss is a single number" in fails("walk", f"{model}:several")
    assert "say which function" in fails("walk", model)
    assert "no value given" in run("walk", f"{model}:neuron()")


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("broken", 'raise RuntimeError("mine")', "RuntimeError: mine"),
        ("missing", 'return {}["key"]', "KeyError: 'key'"),
        ("leaving", "raise SystemExit(7)", "SystemExit: 7"),
        ("mixed", "return (gw.ones(2) * x).sum()", "(its parameters are Values: x)"),
    ],
)
def test_a_program_that_fails_is_shown_by_its_own_lines(
    model: str, name: str, line: str, said: str
) -> None:
    output = fails("walk", f"{model}:{name}")
    assert f"{name}() of {model} did not finish\n  my_model.py:" in output
    assert line in output
    assert said in output
    assert "sources.py" not in output


def test_a_file_that_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "bad_program.py"
    path.write_text("def f(:\n", encoding="utf-8")
    output = fails("walk", f"{path}:f")
    assert "did not finish" in output
    assert "SyntaxError: invalid syntax" in output


def test_what_a_program_prints_is_no_part_of_the_json(model: str) -> None:
    assert data("walk", f"{model}:chatty")["nodes"][-1]["value"] == 1.0
    assert run("walk", f"{model}:chatty", "--svg", "-").startswith("<svg")
    assert run("walk", f"{model}:chatty").startswith("hello")


# -- the page about it ---------------------------------------------------------------------------

PAGE = ROOT / "docs" / "inspect" / "command-line.md"


def shown_commands() -> list[tuple[str, str]]:
    """Every `$ gradwalk ...` of the page, with the output it shows."""
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    pairs = [
        part.partition("\n") for block in blocks for part in re.split(r"^\$ ", block, flags=re.M)
    ]
    return [(command, output) for command, _, output in pairs if output.strip()]


@pytest.mark.parametrize(("command", "output"), shown_commands(), ids=lambda text: text[:40])
def test_the_page_shows_what_is_printed(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    (program,) = [b.code for b in python_blocks(PAGE) if b.code.startswith("# model.py")]
    (tmp_path / "model.py").write_text(program, encoding="utf-8")
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    printed = "\n".join(line.rstrip() for line in result.output.splitlines()).strip()
    pattern = re.escape(output.strip()).replace(re.escape("..."), ".*")
    assert re.fullmatch(pattern, printed, re.S), printed


def test_the_page_has_examples() -> None:
    assert len(shown_commands()) == 7


# -- as a process --------------------------------------------------------------------------------


def process(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "gradwalk", *arguments],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
    )
    return done.stdout.decode("utf-8")


@pytest.mark.slow
def test_the_module_runs_without_colours_and_with_them_where_asked() -> None:
    output = process(PYTHONIOENCODING="utf-8")
    assert "−1.5" in output
    assert "\x1b" not in output
    assert "\x1b[" in process("walk", "x*x", FORCE_COLOR="1", PYTHONIOENCODING="utf-8")


@pytest.mark.slow
def test_a_terminal_without_our_signs_still_gets_the_numbers() -> None:
    output = process("walk", NEURON, *AT, PYTHONIOENCODING="ascii")
    assert "0.7071" in output
    assert "-1.5" in output  # a minus sign that became ? or nothing would be a wrong number
    assert "x1 * w1" in output
    assert "?" not in output
