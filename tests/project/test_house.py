"""House rules that no linter knows."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.batches import batched
from tests.project.checkout import ROOT

MODULES = sorted((ROOT / "src").rglob("*.py"))
LONGEST = 500
# We say inputs and consumers, because these words mean opposite things in different texts.
UNCLEAR_WORD = re.compile(r"parent|child", re.IGNORECASE)
UNCLEAR_WORD_ON_SCREEN = re.compile(r"\b(parents?|child(ren)?)\b", re.IGNORECASE)
MICROGRAD_ARGUMENT = "_children"  # Value(data, _children=(), _op='', label='')
PYTORCH_METHODS = ("children", "named_children")  # of nn.Module, whose names are PyTorch's


def test_there_are_modules_to_check() -> None:
    assert MODULES


@batched("path", MODULES, key=lambda path: path.relative_to(ROOT / "src" / "gradwalk").parts[0])
def test_file_is_not_too_long(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines < LONGEST, f"{path.relative_to(ROOT)} has {lines} lines: split it by idea"


@batched("path", MODULES, key=lambda path: path.relative_to(ROOT / "src" / "gradwalk").parts[0])
def test_we_say_inputs_and_consumers(path: Path) -> None:
    found = list(unclear_words(path.read_text(encoding="utf-8")))
    assert not found, f"say inputs and consumers in {path.relative_to(ROOT)}: {found}"
    assert not UNCLEAR_WORD.search(str(path.relative_to(ROOT)))


def test_the_check_sees_names_and_strings_but_not_what_others_named() -> None:
    source = (
        '"""A docstring may say why parent is unclear."""\n'
        "def f(_children=(), child=1):\n"
        "    parent_node = path.parent\n"
        "    for x.child in y: pass\n"
        "    raise ValueError('its parents')\n"
    )
    assert list(unclear_words(source)) == [
        "line 2: child",
        "line 3: parent_node",
        "line 4: child",
        "line 5: 'its parents'",
    ]


def unclear_words(source: str) -> Iterator[str]:
    """Yield the names that `source` makes, and the text it could show, that use an unclear word.

    Names it only reads are left alone: `path.parent` is not ours to choose.
    """
    if not UNCLEAR_WORD.search(source):
        return  # most modules: they need not be parsed
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in sorted(
        (node for node in ast.walk(tree) if hasattr(node, "lineno")),
        key=lambda node: (node.lineno, node.col_offset),
    ):
        match node:
            case ast.arg(arg=name):
                made = "" if name == MICROGRAD_ARGUMENT else name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                made = name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                made = "" if name in PYTORCH_METHODS else name
            case ast.ClassDef(name=name):
                made = name
            case ast.alias(asname=str(name)):
                made = name
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                if UNCLEAR_WORD_ON_SCREEN.search(text):
                    yield f"line {node.lineno}: {text!r}"
                continue
            case _:
                continue
        if UNCLEAR_WORD.search(made):
            yield f"line {node.lineno}: {made}"
