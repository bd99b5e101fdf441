"""Every ```python block of the documentation runs, and prints the ```text block after it.

The blocks of one file share a namespace, as for a reader who types them in one session. Give
output that no code here prints, and code that is not to be run, another fence than those two.
"""

from pathlib import Path

import pytest

from tests.project.checkout import ROOT
from tests.project.markdown import DEVICE_PAGES, DOCUMENTS, check_blocks, python_blocks

WITHOUT_JAX = [path for path in DOCUMENTS if path not in DEVICE_PAGES]


@pytest.mark.parametrize("path", WITHOUT_JAX, ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks_run_and_print_what_they_show(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what a block saves does not land in the checkout
    check_blocks(path, monkeypatch)


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
