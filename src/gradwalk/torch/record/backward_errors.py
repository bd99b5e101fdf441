"""Explain the errors of a backward pass, also of one that is not recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gradwalk.graph.source import SourceLine
from gradwalk.torch import private
from gradwalk.torch.record.autograd_graph import inputs_first
from gradwalk.torch.record.freed_graphs import LineOf, explain_freed, note_pass


@contextmanager
def explained(
    asked: private.BackwardCall, line: SourceLine | None, line_of: LineOf
) -> Iterator[None]:
    """Around a backward pass: add to PyTorch's error what is known of its cause."""
    roots = [t for t in asked.outputs if isinstance(t, torch.Tensor)]
    try:
        yield
    except RuntimeError as error:
        nodes = list(inputs_first([t.grad_fn for t in roots if t.grad_fn is not None]))
        explain_freed(error, roots, nodes, line_of)
        raise
    note_pass(roots, line)
