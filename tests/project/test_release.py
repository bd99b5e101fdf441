"""What stands in several files about a release, or about the tools, is the same in all of them."""

import re
import tomllib

import gradwalk
from tests.project.checkout import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def in_file(name: str, pattern: str) -> list[str]:
    return re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)


def test_the_version_is_the_same_everywhere() -> None:
    released = in_file("CHANGELOG.md", r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$")
    assert PROJECT["version"] == gradwalk.__version__ == released[0][0]
    assert in_file("CITATION.cff", r"^version: (\S+)$") == [gradwalk.__version__]
    assert in_file("CITATION.cff", r"^date-released: (\S+)$") == [released[0][1]]


def test_changes_go_under_unreleased() -> None:
    assert in_file("CHANGELOG.md", r"^## (\S+)")[0] == "Unreleased"


def test_hooks_run_the_pinned_linter() -> None:
    (pinned,) = [d for d in PROJECT["optional-dependencies"]["dev"] if d.startswith("ruff==")]
    assert set(in_file(".pre-commit-config.yaml", r'"(ruff==\S+)"')) == {pinned}


def test_ci_runs_every_python_that_is_supported() -> None:
    (matrix,) = in_file(".github/workflows/ci.yml", r"python: \[(.*)\]")
    assert matrix == '"3.11", "3.12", "3.13", "3.14"'
    assert PROJECT["requires-python"] == ">=3.11"
    assert in_file(".github/workflows/ci.yml", r"run: (\.ci/run)$") == [".ci/run"]
