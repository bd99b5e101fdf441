"""The pages about devices print what they show; they need eight of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project.markdown import DEVICE_PAGES, check_blocks


@pytest.mark.parametrize("path", DEVICE_PAGES, ids=lambda path: path.stem)
def test_device_pages_print_what_they_show(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_blocks(path, monkeypatch)
