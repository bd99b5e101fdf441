"""The documentation: its files, and their ```python blocks with the ```text they must print."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

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
            shows_output = following is not None and following["language"] == "text"
            blocks.append(
                Block(
                    line=text.count("\n", 0, fence.start("body")) + 1,
                    code=textwrap.dedent(fence["body"]),
                    output=textwrap.dedent(following["body"]) if shows_output else None,
                )
            )
    return blocks
