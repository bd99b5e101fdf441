"""A new op is one definition: everything else that can be done with an op follows from it.

Once as an op of the library, added to one file of a copy of the package; once as a user's own.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.checkout import ROOT
from tests.studio.node import Node, need_node, run

FILE = Path("src/gradwalk/ops/elementwise/trigonometry.py")
FACTS = """
    "bump",
    lambda x: np.exp(-(x * x)),
    lambda x: math.exp(-(x * x)),
    partials=[lambda x, out: -2 * x * out],
    names="bump gaussian",
    doc="e to the −x².",
"""
OURS = f'\n\nbump = elementwise({FACTS}    **FLOAT | {{"namespaces": "gradwalk special"}},\n)\n'
USERS = f"""
import math

import numpy as np

import gradwalk as gw

bump = gw.elementwise({FACTS}    to_float=True,
    method=True,
    inplace=True,
)
"""

USES = """
import warnings

import numpy as np

import gradwalk as gw
from gradwalk.ops.core.symbol import Symbol

NUMBERS = np.array([0.5, -1.0])
VALUES, SLOPES = np.exp(-NUMBERS**2), -2 * NUMBERS * np.exp(-NUMBERS**2)


def leaf():
    return gw.tensor(NUMBERS, requires_grad=True)


def same(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)


# As a function, a method, under its second name; on arrays and numbers.
for call in (bump, gw.Tensor.bump, gw.Tensor.gaussian):
    x = leaf()
    out = call(x)
    out.sum().backward()
    same(out.detach(), VALUES)
    same(x.grad, SLOPES)
same(bump(NUMBERS), VALUES)
assert bump(0.0) == 1.0
same(gw.hessian(lambda x: x.bump().sum())(gw.tensor(NUMBERS)).detach(),
     np.diag((4 * NUMBERS**2 - 2) * VALUES))

# In place.
for change in ("bump_", "gaussian_"):
    x = leaf()
    y = x * 1
    assert getattr(y, change)() is y
    y.sum().backward()
    same(y.detach(), VALUES)
    same(x.grad, SLOPES)
assert gw.Tensor.bump.__doc__ == "e to the −x²."

# A Value.
v = gw.Value(0.5)
out = v.bump()
out.backward()
assert v.gaussian().data == out.data
same([out.data, v.grad], [VALUES[0], SLOPES[0]])

# Compiled: native, or as NumPy between native kernels, which a warning says.
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    compiled = gw.compile(gw.value_and_grad(lambda x: (x.bump() * 2).sum()))
    total, slopes = compiled(gw.tensor(NUMBERS))
same(total, 2 * VALUES.sum())
same(slopes, 2 * SLOPES)
assert "bump has no native kernel" in str(said[0].message)

# Recorded.
x = leaf()
with gw.record() as trace:
    x.bump().sum().backward()
assert [node.op for node in trace.nodes] == ["", "bump", "sum"]
same(trace.grad(0), SLOPES)

# Printed.
assert gw.formula(Symbol("x").bump() + 1) == "bump(x) + 1"
assert gw.derivative(bump) == "−2 × x × out"
picture = gw.show(v.bump())
assert "bump" in picture.dot() and "bump" in picture.svg()
"""
OF_THE_LIBRARY = """
from gradwalk.ops import TABLE

assert TABLE["bump"] is gw.bump is gw.gaussian is gw.special.bump
assert np.asarray(np.exp(-NUMBERS**2)).tolist() == gw.bump(NUMBERS).tolist()
from tools.page import tables as page_tables

page_tables.main()
"""
# How a user's op would be written for the page.
FOR_THE_PAGE = """
import json

from tools.page.javascript import pull_function, value_function

print(json.dumps([value_function(bump), pull_function(bump, 0)]))
"""
TRANSFORM = """
import { transformSync } from "esbuild";
const [value, pull] = JSON.parse(process.argv[1]);
const script = `${value} console.log(JSON.stringify([bump(0.5), (${pull})(1, bump(0.5), 0.5)]));`;
process.stdout.write(transformSync(script, { loader: "ts" }).code);
"""
EXPECTED = [math.exp(-0.25), -math.exp(-0.25)]


def python(program: str, folder: Path, *path: Path) -> str:
    """What a program prints, run on the package at `path`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_an_op_of_the_library_is_defined_in_one_file(tmp_path: Path) -> None:
    need_node()
    for folder in ("src", "tools", "web"):
        left_out = shutil.ignore_patterns("node_modules", "generated", "__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=left_out)
    (tmp_path / "web" / "node_modules").symlink_to(ROOT / "web" / "node_modules")
    with (tmp_path / FILE).open("a", encoding="utf-8") as file:
        file.write(OURS)
    python(f"from gradwalk import bump\n{USES}{OF_THE_LIBRARY}", tmp_path, tmp_path / "src")
    run("node", "test/bundle.mjs", "test/engine.ts", tmp_path / "a.mjs", cwd=tmp_path / "web")
    page = Node(tmp_path / "a.mjs")
    answer = page("ops.applied", "bump", [0.5], {}, 1.0)
    page.close()
    assert [answer["value"], *answer["pulled"]] == pytest.approx(EXPECTED, rel=1e-15)


def test_a_users_op_offers_the_same(tmp_path: Path) -> None:
    (tmp_path / "users.py").write_text(USERS, encoding="utf-8")
    program = f"from users import bump\n{USES}{FOR_THE_PAGE}"
    functions = python(program, tmp_path, tmp_path, ROOT / "src", ROOT)
    assert json.loads(functions)[0] == "const bump = (x: number): number => Math.exp(-(x * x));"


@pytest.mark.slow
def test_a_users_op_can_be_written_for_the_page(tmp_path: Path) -> None:
    need_node()
    (tmp_path / "users.py").write_text(USERS, encoding="utf-8")
    functions = python(
        f"from users import bump\n{FOR_THE_PAGE}", tmp_path, tmp_path, ROOT / "src", ROOT
    )
    script = run("node", "--input-type=module", "-e", TRANSFORM, functions)
    assert json.loads(run("node", "-e", script)) == pytest.approx(EXPECTED, rel=1e-15)


def test_a_method_that_exists_is_not_replaced(tmp_path: Path) -> None:
    program = """
import pytest, gradwalk as gw

with pytest.raises(gw.OpError, match="a Tensor has a method 'backward' already"):
    gw.elementwise("backward", lambda x: x, partials=[1], method=True)
with pytest.raises(gw.OpError, match="a Tensor has a method 'zero_' already"):
    gw.elementwise("zero", lambda x: x, partials=[1], inplace=True)
for slope in (1, 2):  # a cell of a notebook that is run again
    gw.elementwise("again", lambda x: x, partials=[slope], method=True)
    v = gw.Value(1.0)
    v.again().backward()
    assert v.grad == slope
"""
    python(program, tmp_path, ROOT / "src")
