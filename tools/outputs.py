"""Update the outputs shown on a page by running its code.

    python -m tools.outputs docs/compile/training-step.md

The fenced block after each ```python block, whatever its language, gets the new output. A test
compares the ```text blocks; outputs that depend on the machine are in blocks of other languages.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import sys
from pathlib import Path

from tests.project.markdown import FENCE


def with_outputs(text: str, name: str) -> str:
    """The page with the output of its blocks, which share a namespace."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {"__name__": "__main__"}
    parts: list[str] = []
    end = 0
    printed: str | None = None
    for fence in FENCE.finditer(text):
        parts.append(text[end : fence.start("body")])
        end = fence.end("body")
        if fence["language"] == "python":
            output = io.StringIO()
            line = text.count("\n", 0, fence.start("body"))
            code = compile("\n" * line + fence["body"], name, "exec")
            with contextlib.redirect_stdout(output):
                exec(code, namespace)
            printed = output.getvalue()
            parts.append(fence["body"])
        else:
            parts.append(printed or fence["body"])
            printed = None
    return "".join([*parts, text[end:]])


def main() -> None:
    """Rewrite the pages named on the command line."""
    for name in sys.argv[1:]:
        path = Path(name)
        for _ in range(2):  # outputs quote line numbers, which the first pass may have moved
            text = path.read_text(encoding="utf-8")
            path.write_text(with_outputs(text, name), encoding="utf-8")


if __name__ == "__main__":
    main()
