"""House rules that no linter knows."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.batches import batched
from tests.project.checkout import ROOT

MODULES = sorted((ROOT / "src").rglob("*.py"))
SNAPSHOT = ROOT / "tests" / "project" / "exported_names.txt"
LONGEST = 500
MOST_FILES = 16  # of a room: a newcomer reads its list at a glance
# Public names of PyTorch, micrograd or einops, which another class may therefore have as well.
FOREIGN_NAMES = {"Buffer", "Exponential", "Function", "Layer", "Module", "Reduce", "Variable"}
CLASS = re.compile(r"^ *class ([A-Za-z]\w*)[(:]", re.MULTILINE)
# Called by Python, by ast.NodeVisitor or by a notebook.
CALLED_BY_OTHERS = re.compile(r"__\w+__|visit_\w+|_repr_\w+_|_ipython_\w+_")
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


def test_rooms_are_small() -> None:
    rooms = Counter(path.parent for path in MODULES)
    large = {str(room.relative_to(ROOT)): n for room, n in rooms.items() if n > MOST_FILES}
    assert not large, f"split by purpose, {MOST_FILES} files at most: {large}"


def test_a_class_name_is_used_once() -> None:
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for name in CLASS.findall(path.read_text(encoding="utf-8")):
            places.setdefault(name, []).append(str(path.relative_to(ROOT)))
    twins = {n: at for n, at in places.items() if len(at) > 1 and n not in FOREIGN_NAMES}
    assert not twins, f"give each its own, more specific name: {twins}"


def test_what_is_defined_is_used() -> None:
    """A name that only its definition says is dead; what users call is named in docs/."""
    sources = {path: path.read_text(encoding="utf-8") for path in MODULES}
    documents = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    documented = " ".join(path.read_text(encoding="utf-8") for path in documents)
    public = set(SNAPSHOT.read_text(encoding="utf-8").split())
    used = public | set(re.findall(r"\w+", documented))
    dead = [name for name in unused_names(sources, used) if name.split()[0] not in PUBLIC_METHODS]
    assert not dead, f"nothing uses these, and docs/ does not name them: {dead}"


def test_the_check_of_unused_names_sees_calls_and_tables() -> None:
    source = (
        "def called(): pass\n"
        "def in_a_table(): pass\n"
        "def dead(): pass\n"
        "@register('x')\n"
        "def registered(): pass\n"
        "names = ['in_a_table'], called\n"
    )
    assert unused_names({ROOT / "a.py": source}, set()) == ["dead (a.py:3)"]


# Names of PyTorch that users know from there.
PUBLIC_METHODS = {"from_pretrained", "generate_square_subsequent_mask", "save_for_backward"}
PUBLIC_METHODS |= {"has_uninitialized_params", "predict", "popitem", "save_for_forward"}
PUBLIC_METHODS |= {"saved_variables"}
PUBLIC_METHODS |= {"elapsed_time", "set_epoch", "broadcast_all", "logits_to_probs"}
PUBLIC_METHODS |= {"probs_to_logits", "flatten_parameters", "_flat_weights_names", "all_weights"}
PUBLIC_METHODS |= {"share_memory", "key_averages", "export_chrome_trace", "is_pinned"}
PUBLIC_METHODS |= {"record_stream", "lazy_property", "add_metadata", "graph_break", "_coalesced_"}
PUBLIC_METHODS |= {"has_torch_function_unary", "has_torch_function_variadic"}
PUBLIC_METHODS |= {"get_logdir", "add_scalars", "add_histogram", "add_images", "add_figure"}
PUBLIC_METHODS |= {"add_hparams"}
# What einops asks of a library.
PUBLIC_METHODS |= {"is_appropriate_type", "to_numpy", "stack_on_zeroth_dimension", "add_axis"}
PUBLIC_METHODS |= {"add_axes", "is_float_type", "_create_parameters", "_create_rearrange_layers"}
# Events that the trainers of other packages call.
PUBLIC_METHODS |= {"on_train_begin", "on_train_start", "on_step_end", "on_train_batch_end"}
PUBLIC_METHODS |= {"on_train_end", "on_exception"}


def unused_names(sources: dict[Path, str], used: set[str]) -> list[str]:
    """Functions and classes of `sources` whose names nothing says but their definitions."""
    defined: dict[str, str] = {}
    used = set(used)
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.FunctionDef(decorator_list=[*_, ast.Call()]):
                    continue  # the decorator registers it
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    defined[name] = f"{name} ({path.relative_to(ROOT)}:{node.lineno})"
                case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                    used.add(name)
                case ast.alias(name=name) | ast.keyword(arg=str(name)):
                    used.add(name.rpartition(".")[2])
                case ast.MatchClass(kwd_attrs=names):
                    used.update(names)
                case ast.Constant(value=str(text)) if text.replace(".", "_").isidentifier():
                    used.update(text.split("."))  # in a table, __all__ or getattr
    return [
        place
        for name, place in defined.items()
        if name not in used and not CALLED_BY_OTHERS.fullmatch(name)
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
