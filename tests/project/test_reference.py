"""The API reference has every public name, and docstrings come out as they are meant."""

import re
from functools import cache
from pathlib import Path
from types import ModuleType

import gradwalk
from tools import reference

# Public namespaces are packages and modules with an `__all__` that a public one lists, and these.
IMPORTED_BY_NAME = ("gradwalk.torch", "gradwalk.testing", "gradwalk.inspect")


@cache
def written() -> dict[str, str]:
    pages = reference.pages()
    writer = reference.Writer(pages)
    return {page.title: writer.text(page) for page in pages}


def namespaces(root: str) -> list[str]:
    """A namespace and those that its `__all__` lists."""
    module = reference.namespace_of(root)
    found = [root]
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, ModuleType) and hasattr(value, "__all__"):
            found += namespaces(f"{root}.{name}")
    return found


def test_every_public_name_has_an_entry() -> None:
    text = "\n".join(written().values())
    entries = set(re.findall(r"\{py:\w+\} (\w+)[^\n]*\n:module: ([\w.]+)", text))
    for namespace in {n for root in ("gradwalk", *IMPORTED_BY_NAME) for n in namespaces(root)}:
        module = reference.namespace_of(namespace)
        for name in module.__all__:
            if not isinstance(getattr(module, name), ModuleType):
                assert (name, namespace) in entries, f"{namespace}.{name}"


def test_methods_of_tensor_are_listed() -> None:
    page = written()["gradwalk.Tensor"]
    for name in ("sum", "add_", "backward", "requires_grad_"):
        assert f"{{py:method}} {name}(" in page
    assert "{py:property} shape" in page


def test_a_layer_lists_nothing_of_module() -> None:
    page = written()["gradwalk.nn"]
    linear = page.partition("{py:class} Linear(")[2].partition("\n`````\n")[0]
    assert "{py:method} reset_parameters()" in linear and "```pycon" in linear
    assert "{py:method} forward" not in linear and "{py:method} parameters" not in linear


def test_an_op_shows_its_derivative() -> None:
    pages = "".join(written().values())
    tanh = pages.partition("{py:function} tanh(x)\n")[2].partition("\n`````\n")[0]
    assert f"∂/∂x = {gradwalk.derivative(gradwalk.tanh)}" in tanh


def test_a_name_for_something_described_elsewhere_points_there() -> None:
    assert "The same as {py:obj}`gradwalk.why`." in written()["gradwalk.inspect"]


def test_a_docstring_becomes_markdown() -> None:
    docstring = """Add *x* to `a_*` where $x > 0$; x_ < [1].

    - one
    - two

    >>> 1 < 2
    True

        code(x)
    """
    assert reference.body(docstring) == (
        "Add \\*x\\* to `a_*` where $x > 0$; x\\_ \\< \\[1\\].\n\n- one\n- two\n\n"
        "```pycon\n>>> 1 < 2\nTrue\n```\n\n```python\ncode(x)\n```"
    )


def test_pages_of_an_earlier_build_are_removed(tmp_path: Path) -> None:
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "gone.md").write_text("# Gone\n", encoding="utf-8")
    written = reference.write(tmp_path)
    assert set(tmp_path.rglob("*.md")) == set(written)
