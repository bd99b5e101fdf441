"""The command line as a person types it."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import gradwalk
from gradwalk.cli import app


def test_bare_command_walks_the_neuron() -> None:
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 0
    assert "Forward" in result.output
    assert "Backward" in result.output
    assert "0.7071" in result.output


def test_version_and_help() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"gradwalk {gradwalk.__version__}\n"
    assert "forward and backward" in CliRunner().invoke(app, ["--help"]).output


@pytest.mark.slow
def test_the_module_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gradwalk"], capture_output=True, text=True, check=True
    )
    assert "−1.5" in done.stdout
