"""Imports point one way, layer by layer, and heavy packages are imported only when used."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.checkout import PACKAGE, run_here
from tests.project.imports import Import, imports

# Each row may import the rows above it, and its own. `__init__` stands for the public names of
# the package: only what is built on all of them may import gradwalk as a user does.
LAYERS = (
    ("graph",),
    ("ops",),
    ("engine",),
    (
        *("scalar", "tensors", "random", "fft", "linalg", "masked", "signal", "sparse"),
        *("special", "backends"),
    ),
    (
        *(
            "nn",
            "optim",
            "data",
            "io",
            "utils",
            "compiler",
            "batching",
            "inspect",
            "distributed",
        ),
        *("hub", "jit", "profiler", "multiprocessing"),
    ),
    (
        "studio",
        "course",
        "torch",
        "onnx",
        "testing",
        "amp",
        "accelerator",
        "cpu",
        "cuda",
        "autograd",
        "func",
        "distributions",
        "einops",
        "version",
        "__init__",
    ),
    ("cli", "__main__"),
)
RANK = {room: rank for rank, layer in enumerate(LAYERS) for room in layer}
# Beside the chain: anyone may import printers, and they import only these.
PRINTERS_IMPORT = ("graph", "ops", "printers")

HEAVY = (
    "llvmlite",
    "scipy",
    "onnx",
    "onnx_ir",
    "safetensors",
    "starlette",
    "uvicorn",
    "typer",
    "rich",
    "threadpoolctl",
)
HEAVY_AT_ONCE = ("cli",)  # a command line is nothing without them
ORACLE = "torch"
ORACLE_LAZILY = ("io",)  # to_torch makes PyTorch's tensors, if asked to


def violations(package: Path) -> Iterator[str]:
    """Yield a line for every import in the package that points the wrong way."""
    modules = sorted(package.rglob("*.py"))
    rooms = {path: path.relative_to(package).parts[0].removesuffix(".py") for path in modules}
    unranked = set(rooms.values()) - RANK.keys() - {"printers"}
    if unranked:
        names = ", ".join(sorted(unranked))
        yield f"{package.name} has modules without a rank, add it to LAYERS here: {names}"
        return
    for path, room in rooms.items():
        for found in imports(path, package):
            complaint = judge(room, found, package.name, set(rooms.values()))
            if complaint:
                yield f"{path.relative_to(package.parent)}:{found.line}: {complaint}"


def judge(room: str, found: Import, package: str, rooms: set[str]) -> str | None:
    """Say what is wrong with `room` importing `found`, if anything is."""
    top, _, rest = found.target.partition(".")
    if top != package:
        lazily = room in ORACLE_LAZILY and found.lazy
        if top == ORACLE and room != "torch" and not lazily:
            return f"the library never imports {ORACLE}"
        if top in HEAVY and not found.lazy and room not in HEAVY_AT_ONCE:
            return f"{top} is imported only when used: move the import into the function"
        return None
    inner = rest.partition(".")[0]
    target = inner if inner in rooms else "__init__"
    if room == "printers":
        allowed = target in PRINTERS_IMPORT
    else:
        allowed = target == "printers" or RANK[target] <= RANK[room]
    return None if allowed else f"{room} may not import {target} ({found.target})"


def test_imports_point_one_way() -> None:
    found = list(violations(PACKAGE))
    assert not found, "\n" + "\n".join(found)


def test_import_gradwalk_loads_no_heavy_package(tmp_path: Path) -> None:
    code = f"""
import sys
import gradwalk
print(*sorted({{name.partition(".")[0] for name in sys.modules}} & set({(*HEAVY, ORACLE)!r})))
"""
    assert run_here(code, cwd=tmp_path).split() == []


def build(package: Path, files: dict[str, str]) -> Path:
    for name, source in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return package


HOUSE = {
    "__init__.py": "from .tensors import Tensor\nfrom . import nn",
    "graph/__init__.py": "",
    "graph/node.py": "from gradwalk.printers import formula",
    "ops/__init__.py": "from ..graph.node import Node\nimport numpy as np",
    "engine/__init__.py": "from typing import TYPE_CHECKING\n"
    "if TYPE_CHECKING:\n    from ..tensors import Tensor\n",
    "tensors/__init__.py": "from gradwalk import random, ops\n",
    "random.py": "from .tensors import Tensor\n",
    "nn/__init__.py": "from .layers import Linear",
    "nn/layers.py": "from ..tensors import Tensor\ndef gelu():\n    import scipy.special\n",
    "printers/__init__.py": "from ..graph import node\nfrom .. import ops",
    "printers/formulas/formula.py": "from . import node",
    "torch/__init__.py": "import torch\nfrom gradwalk import Tensor",
    "cli.py": "import rich\nimport gradwalk",
    "__main__.py": "from gradwalk.cli import main",
}


def test_a_good_house_has_no_violations(tmp_path: Path) -> None:
    assert list(violations(build(tmp_path / "gradwalk", HOUSE))) == []


@pytest.mark.parametrize(
    "name, source, complaint",
    [
        ("ops/bad.py", "from gradwalk.tensors import Tensor", ":1: ops may not import tensors"),
        ("ops/bad.py", "import gradwalk.tensors as t", ":1: ops may not import tensors"),
        ("ops/bad.py", "from .. import tensors", ":1: ops may not import tensors"),
        ("ops/deep/bad.py", "from ...tensors import Tensor", ":1: ops may not import tensors"),
        ("graph/bad.py", "def f():\n    from ..ops import add", ":2: graph may not import ops"),
        ("nn/bad.py", "from gradwalk import Tensor", ":1: nn may not import __init__"),
        ("tensors/__init__.py", "import gradwalk", ":1: tensors may not import __init__"),
        (
            "tensors/__init__.py",
            "f = lambda: import_module('gradwalk.nn')",
            "tensors may not import nn",
        ),
        ("__init__.py", "from .cli import main", ":1: __init__ may not import cli"),
        ("printers/bad.py", "from ..tensors import Tensor", "printers may not import tensors"),
        ("attic.py", "", "gradwalk has modules without a rank, add it to LAYERS here: attic"),
        ("nn/bad.py", "def f():\n    import torch.nn", ":2: the library never imports torch"),
        ("nn/bad.py", "from scipy import special", ":1: scipy is imported only when used"),
        ("nn/bad.py", "try:\n    import rich\nfinally:\n    pass", ":2: rich is imported only"),
    ],
)
def test_the_check_catches(name: str, source: str, complaint: str, tmp_path: Path) -> None:
    (found,) = violations(build(tmp_path / "gradwalk", HOUSE | {name: source}))
    assert complaint in found
