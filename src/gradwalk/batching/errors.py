"""VmapError: a function cannot be applied to a batch as it is written."""

from __future__ import annotations

from gradwalk.graph.source import caller, where_text


class VmapError(RuntimeError):
    """A function cannot be applied to a batch as it is written; the text names a line and a fix."""


def refused(cause: str, fix: str) -> VmapError:
    """The error for something at the line that runs now."""
    return VmapError(f"vmap: {cause}\n  at:   {where_text(*caller())}\nFix: {fix}")


def numbers_wanted(how: str) -> VmapError:
    """The error for code that reads the numbers of a batched tensor."""
    return refused(
        f"{how} reads the numbers of a batched tensor. They differ between the samples, and the "
        "function runs once for all of them.",
        "gradwalk.where(condition, a, b) instead of `if`; otherwise return the tensor, and read "
        "it outside vmap.",
    )
