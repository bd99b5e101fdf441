"""The page that counts what is here of PyTorch, JAX and ONNX is up to date."""

import sys

from tests.project.checkout import ROOT, run
from tools import breadth


def test_the_page_is_up_to_date() -> None:
    """In a process of its own: other tests define ops, which would be counted."""
    program = "from tools.breadth import page; print(page(), end='')"
    made = run(sys.executable, "-c", program, cwd=ROOT)
    assert breadth.PAGE.read_text("utf-8") == made, "python -m tools.breadth"


def test_what_jax_calls_otherwise_is_here() -> None:
    named = [pair.split("=") for pairs in breadth.OTHERWISE.values() for pair in pairs.split()]
    assert [ours for _, ours in named if not breadth.found(ours)] == []
    listed = {name for names in breadth.jax_names().values() for name in names.split()}
    assert [theirs for theirs, _ in named if theirs not in listed] == []
