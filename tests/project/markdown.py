"""The documentation: its files, and their ```python blocks with the ```text they must print."""

import contextlib
import io
import linecache
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

import gradwalk
from tests.project.checkout import ROOT

# Hand-written pages and committed generated pages; not those that `make docs` writes.
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *(ROOT / "examples").glob("*.md"),
    *(
        path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if not path.is_relative_to(ROOT / "docs" / "reference" / "api")
    ),
]
# They need JAX and eight devices: `make devices` runs them.
DEVICE_PAGES = [ROOT / "docs" / "devices" / name for name in ("scaling-up.md", "scale.md")]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n`]*\n(?P<body>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One ```python block."""

    line: int  # of its first line of code, counted from 1
    code: str
    output: str | None  # the next fenced block, if that is a ```text block


def python_blocks(path: Path) -> list[Block]:
    """Return the ```python blocks of a Markdown file, in order."""
    text = path.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    blocks = []
    for fence, following in zip(fences, [*fences[1:], None]):
        if fence["language"] == "python":
            shown = following if following is not None and following["language"] == "text" else None
            blocks.append(
                Block(
                    line=text.count("\n", 0, fence.start("body")) + 1,
                    code=textwrap.dedent(fence["body"]),
                    output=None if shown is None else textwrap.dedent(shown["body"]),
                )
            )
    return blocks


def check_blocks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of a page in one namespace, and compare what they print."""
    name = str(path.relative_to(ROOT))
    text = path.read_text(encoding="utf-8")
    # So that tracebacks, and gradwalk's own errors, can quote the line of the document.
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(True), name))
    namespace = {"__name__": "__main__"}
    random = gradwalk.get_rng_state()
    try:
        for block in python_blocks(path):
            printed = io.StringIO()
            code = compile("\n" * (block.line - 1) + block.code, name, "exec")
            with contextlib.redirect_stdout(printed):
                exec(code, namespace)
            if block.output is not None:
                assert printed.getvalue() == block.output, f"the block at {name}:{block.line}"
    finally:
        gradwalk.set_rng_state(random)  # a seed in one document is not that of the next
