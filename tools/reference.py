"""Write the pages of the API reference from the docstrings; `docs/conf.py` calls this.

One page per namespace, and for `gradwalk` itself one per topic. The pages are Markdown for MyST and
are not committed. Docstrings here are prose with `code`, $formulas$, lists and doctests, not a
markup language; `body` turns them into Markdown.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import gradwalk

# The public namespaces, in the order of the site. `gradwalk` itself comes first, by topic.
NAMESPACES = (
    "gradwalk.nn",
    "gradwalk.nn.functional",
    "gradwalk.nn.init",
    "gradwalk.nn.parallel",
    "gradwalk.nn.utils",
    "gradwalk.nn.utils.fusion",
    "gradwalk.nn.utils.parametrizations",
    "gradwalk.nn.utils.parametrize",
    "gradwalk.nn.utils.rnn",
    "gradwalk.optim",
    "gradwalk.optim.lr_scheduler",
    "gradwalk.optim.swa_utils",
    "gradwalk.data",
    "gradwalk.io",
    "gradwalk.fft",
    "gradwalk.linalg",
    "gradwalk.masked",
    "gradwalk.quasirandom",
    "gradwalk.signal.windows",
    "gradwalk.sparse",
    "gradwalk.special",
    "gradwalk.amp",
    "gradwalk.distributions",
    "gradwalk.autograd",
    "gradwalk.autograd.forward_ad",
    "gradwalk.autograd.function",
    "gradwalk.autograd.functional",
    "gradwalk.autograd.grad_mode",
    "gradwalk.autograd.graph",
    "gradwalk.func",
    "gradwalk.inspect",
    "gradwalk.bugs",
    "gradwalk.inspect.bugs",
    "gradwalk.torch",
    "gradwalk.onnx",
    "gradwalk.studio",
    "gradwalk.testing",
    "gradwalk.cuda",
    "gradwalk.backends.cuda",
    "gradwalk.backends.cudnn",
    "gradwalk.backends.mps",
    "gradwalk.accelerator",
    "gradwalk.cpu",
    "gradwalk.distributed",
    "gradwalk.hub",
    "gradwalk.jit",
    "gradwalk.nn.attention",
    "gradwalk.utils.checkpoint",
    "gradwalk.utils.data",
    "gradwalk.utils.dlpack",
    "gradwalk.utils.hooks",
    "gradwalk.version",
)
# Topics of `gradwalk`, by the module whose `__all__` has the name; the first match wins.
TOPICS = (
    (
        "Tensors and values",
        r"gradwalk\.(tensors?|scalar|creation|devices|autocast)\b|gradwalk\.ops\..*dtypes",
    ),
    ("Random numbers", r"gradwalk\.(random|sampling)\b"),
    ("Settings and constants", r"gradwalk\.engine\.threads\b|gradwalk\.graph\b"),
    ("Gradients and transforms", r"gradwalk\.(engine|inspect\.mistakes\.gradcheck)\b"),
    ("Looking inside", r"gradwalk\.(inspect|printers)\b"),
    ("Compiling", r"gradwalk\.compiler\b"),
    ("Files", r"gradwalk\.io\b"),
    ("Many devices", r"gradwalk\.distributed\b"),
    ("Defining an op", r"gradwalk\.ops\.core\b"),
    ("Operations: elementwise", r"gradwalk\.ops\.methods\b"),
    ("Operations: other names", r"gradwalk\.ops\.aliases\b"),
)
OPS = "Operations: {}"
REST = "Settings and constants"
SIGNATURE_AT_MOST = 300  # characters; longer ones are cut down to the names of the parameters


@dataclass(frozen=True)
class Entry:
    """A public name and its object."""

    name: str  # without its namespace
    value: Any


@dataclass(frozen=True)
class Page:
    """A page of the reference."""

    title: str
    namespace: str
    about: str
    entries: tuple[Entry, ...]

    @property
    def file(self) -> str:
        """Its file, in the folder of topics or in that of namespaces and large classes."""
        if self.title.startswith("gradwalk"):
            return f"namespaces/{self.title}.md"
        return f"topics/{re.sub(r'[^a-z]+', '-', self.title.lower())}.md"


def pages() -> list[Page]:
    """Every page of the reference, with every public name."""
    found = [*_topic_pages(), _class_page("Tensor"), _class_page("Value")]
    for namespace in NAMESPACES:
        module = namespace_of(namespace)
        names = [n for n in module.__all__ if not isinstance(getattr(module, n), ModuleType)]
        entries = tuple(Entry(name, getattr(module, name)) for name in sorted(names))
        found.append(Page(namespace, namespace, module.__doc__ or "", entries))
    return found


def namespace_of(name: str) -> ModuleType:
    """A public namespace; its module may be elsewhere (`gradwalk.bugs`)."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        outer, _, inner = name.rpartition(".")
        found: ModuleType = getattr(namespace_of(outer), inner)
        return found


def _topic_pages() -> list[Page]:
    """The names of `gradwalk` itself, by topic; `Tensor` and `Value` have pages of their own."""
    homes = _homes()
    topics: dict[str, list[Entry]] = {}
    for name in gradwalk.__all__:
        value = getattr(gradwalk, name)
        if name not in ("Tensor", "Value") and not isinstance(value, ModuleType):
            topics.setdefault(_topic(homes.get(name, "")), []).append(Entry(name, value))
    return [Page(topic, "gradwalk", "", tuple(entries)) for topic, entries in topics.items()]


def _class_page(name: str) -> Page:
    return Page(f"gradwalk.{name}", "gradwalk", "", (Entry(name, getattr(gradwalk, name)),))


def _homes() -> dict[str, str]:
    """The module that defines each public name, or that has it in its `__all__`."""
    homes = {}
    for name in gradwalk.__all__:
        module = getattr(getattr(gradwalk, name), "__module__", None) or ""
        if module.startswith("gradwalk.") and not isinstance(getattr(gradwalk, name), gradwalk.Op):
            homes[name] = module
    for module_name, module in sorted(sys.modules.items()):
        if module_name.startswith("gradwalk.ops."):
            for name in getattr(module, "__all__", ()):
                homes.setdefault(name, module_name)
    return homes


def _topic(home: str) -> str:
    for title, pattern in TOPICS:
        if re.match(pattern, home):
            return title
    inside = re.match(r"gradwalk\.ops\.(\w+)", home)
    return OPS.format(inside[1].replace("_", " ")) if inside else REST


# -- text ------------------------------------------------------------------------------------------

SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)|\$[^$]+\$", re.DOTALL)
SPECIAL = re.compile(r"([\\*_<>\[\]{}#~])")


def body(docstring: str) -> str:
    """A docstring as Markdown."""
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(docstring))
    return "\n\n".join(_block(block) for block in blocks if block.strip())


def _block(block: str) -> str:
    plain = textwrap.dedent(block)
    if plain.startswith(">>>"):
        return f"```pycon\n{plain}\n```"
    if plain != block and not plain.startswith(("- ", "* ")):  # an indented block is code
        return f"```python\n{plain}\n```"
    return _prose(block)


def _prose(text: str) -> str:
    """Escape Markdown punctuation, except in code, formulas and at the start of a list item."""
    parts, end = [], 0
    for span in SPAN.finditer(text):
        parts += [SPECIAL.sub(r"\\\1", text[end : span.start()]), span[0]]
        end = span.end()
    parts.append(SPECIAL.sub(r"\\\1", text[end:]).replace("$", r"\$"))
    return re.sub(r"^(\s*)\\([*])(?= )", r"\1\2", "".join(parts), flags=re.MULTILINE)


# -- entries ---------------------------------------------------------------------------------------


def signature(value: Any) -> str:
    """The parameters in parentheses, as a reader would write them."""
    if isinstance(value, gradwalk.Op):
        inputs = [
            ("*" if value.variadic and x == value.inputs[-1] else "") + x for x in value.inputs
        ]
        attributes = [
            f"{a}={value.defaults[a]!r}" if a in value.defaults else a for a in value.attributes
        ]
        return f"({', '.join([*inputs, *attributes])})"
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "()"
    parameters = [p for p in found.parameters.values() if not p.name.startswith("_")]
    if parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    typed = found.replace(
        parameters=[_parameter(p) for p in parameters],
        return_annotation=_annotation(found.return_annotation),
    )
    text = _text(typed)
    if len(text) <= SIGNATURE_AT_MOST:
        return text
    return _text(found.replace(parameters=[p.replace(annotation=p.empty) for p in parameters]))


def _text(found: inspect.Signature) -> str:
    text = re.sub(r"(?<=[:>] )'([^']*)'", r"\1", str(found))  # annotations are strings
    return re.sub(r"\bgradwalk\.(?:\w+\.)+(?=[A-Z])", "", text)  # or classes, with their modules


def _parameter(parameter: inspect.Parameter) -> inspect.Parameter:
    default = parameter.default
    if default is not parameter.empty and repr(default).startswith("<"):
        default = ...
    return parameter.replace(annotation=_annotation(parameter.annotation), default=default)


def _annotation(annotation: Any) -> Any:
    """Drop an annotation that carries no information."""
    return inspect.Parameter.empty if annotation in ("Any", Any, "None", "object") else annotation


def _derivatives(op: gradwalk.Op) -> str:
    """The rules of an op as formulas."""
    lines = []
    for place, name in enumerate(op.inputs):
        try:
            lines.append(f"∂/∂{name} = {gradwalk.derivative(op, place)}")
        except Exception:  # a rule for arrays only, or none
            return ""
    return "```text\n" + "\n".join(lines) + "\n```" if lines else ""


def _about(value: Any) -> str:
    text = body(inspect.getdoc(value) or "") if callable(value) else ""
    if isinstance(value, gradwalk.Op) and value.differentiable:
        text = f"{text}\n\n{_derivatives(value)}".rstrip()
    return text


def members(cls: type, public: set[Any]) -> Iterator[tuple[str, Any, str]]:
    """Name, value and kind of the members that a class adds to its public bases."""
    others = [c for c in cls.__mro__[1:] if c in public or not c.__module__.startswith("gradwalk")]
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        if name.startswith("_") or any(hasattr(other, name) for other in others):
            continue
        if isinstance(value, property):
            yield name, value, "property"
        elif isinstance(value, classmethod | staticmethod) or inspect.isfunction(value):
            yield name, getattr(cls, name), "method"
        elif isinstance(value, gradwalk.Op):
            yield name, value, "method"


def _directive(kind: str, head: str, options: list[str], content: str, ticks: int) -> str:
    fence = "`" * ticks
    return "\n".join([f"{fence}{{py:{kind}}} {head}", *options, "", content, fence, ""])


class Writer:
    """Write the pages as text. An object is described once; its other names link there."""

    def __init__(self, pages: list[Page]) -> None:
        self.pages = pages
        values = [entry.value for page in pages for entry in page.entries]
        self.public = {value for value in values if isinstance(value, type)}
        self.described: dict[int, str] = {}  # by id; `pages` keeps the objects alive

    def text(self, page: Page) -> str:
        """One page."""
        parts = [f"# {page.title}", body(page.about)]
        parts += [self._entry(page.namespace, entry) for entry in page.entries]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _entry(self, namespace: str, entry: Entry) -> str:
        value, options = entry.value, [f":module: {namespace}"]
        full = f"{namespace}.{entry.name}"
        if not callable(value):
            shown = type(value).__name__ if value is None else repr(value)
            options.append(f":value: {shown}")
            if hasattr(builtins, entry.name):  # `bool` in an annotation means Python's
                options.append(":no-index:")
            return _directive("data", entry.name, options, "", 4)
        kind = "class" if isinstance(value, type) else "function"
        if isinstance(value, type) and issubclass(value, BaseException):
            kind = "exception"
        earlier = self.described.setdefault(id(value), full)
        if earlier != full:
            content = f"The same as {{py:obj}}`{earlier}`."
            if kind == "class":
                options.append(":no-index:")  # an annotation that names it has one target
        elif not getattr(value, "__module__", "").startswith("gradwalk"):
            content = f"Python's or NumPy's `{value.__name__}`."
            return _directive(kind, entry.name, options, content, 4)
        else:
            content = _about(value)
            if kind == "class":
                content += "\n\n" + "\n".join(self._members(value))
        return _directive(kind, entry.name + signature(value), options, content, 5)

    def _members(self, cls: type) -> Iterator[str]:
        for name, value, kind in members(cls, self.public):
            head = name + (signature(value) if kind == "method" else "")
            text = _about(value) if kind == "method" else body(inspect.getdoc(value) or "")
            yield _directive(kind, head, [":no-contents-entry:"], text, 4)


def write(folder: Path) -> list[Path]:
    """Write the pages into a folder, and remove those of an earlier build."""
    made = pages()
    writer = Writer(made)
    written = []
    for page in made:
        path = folder / page.file
        path.parent.mkdir(parents=True, exist_ok=True)
        text = writer.text(page)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")  # unchanged files are not rebuilt by Sphinx
        written.append(path)
    for path in set(folder.rglob("*.md")) - set(written):
        path.unlink()
    return written
