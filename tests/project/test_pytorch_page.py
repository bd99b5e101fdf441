"""docs/pytorch/debugging.md shows what `gradwalk run --watch` prints for the page's program."""

import pytest

from tools import pytorch_page


@pytest.mark.slow
def test_the_run_is_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = pytorch_page.PAGE.read_text(encoding="utf-8")
    shown = pytorch_page.run(tmp_path)
    if pytorch_page.with_output(text, shown) != text:
        pytest.fail(f"write it anew with `python -m tools.pytorch_page`; it says now:\n{shown}")
