"""The documentation builds without a warning, and has the studio in it."""

import sys
from pathlib import Path

import pytest

from tests.project.checkout import ROOT, run

pytestmark = pytest.mark.slow


def test_the_site_builds(tmp_path: Path) -> None:
    out = tmp_path / "site"
    sphinx = (sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html")
    run(*sphinx, "-d", tmp_path / "doctrees", ROOT / "docs", out, cwd=tmp_path)
    assert (out / "live" / "index.html").is_file()
    assert 'src="../live/index.html"' in (out / "studio" / "live.html").read_text("utf-8")
    assert "gradwalk.Tensor.sum" in (
        out / "reference" / "api" / "namespaces" / "gradwalk.Tensor.html"
    ).read_text("utf-8")
    # Pages work without a network: scripts, styles and pictures are part of the site.
    front = (out / "index.html").read_text("utf-8")
    assert not [part for part in front.split('src="')[1:] if part.startswith("http")]
