"""Every ```python block of the documentation runs, and prints the ```text block after it.

The blocks of one file share a namespace, as for a reader who types them in one session. Give
output that no code here prints, and code that is not to be run, another fence than those two.
"""

import contextlib
import io
import linecache
from pathlib import Path

import pytest

import gradwalk
from tests.project.checkout import ROOT
from tests.project.markdown import DOCUMENTS, python_blocks


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks_run_and_print_what_they_show(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what a block saves does not land in the checkout
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


def test_a_block_is_paired_with_the_text_that_follows_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n```python\nprint(1)\n```\nprints\n```text\n1\n```\n\n"
        "```console\nmake run\n```\n\n- in a list\n\n  ```python\n  if True:\n      x = 2\n  ```\n",
        encoding="utf-8",
    )
    first, second = python_blocks(page)
    assert (first.line, first.code, first.output) == (4, "print(1)\n", "1\n")
    assert (second.line, second.code, second.output) == (18, "if True:\n    x = 2\n", None)
