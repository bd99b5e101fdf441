"""One HTML file with the page and a graph: it works from disk, without a network.

A graph of numbers stays live: values, steps and orders can be changed. A graph of tensors replays
the recording. (Not named `export`, which is the function.)
"""

from __future__ import annotations

import base64
import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.array_statistics import in_bytes
from gradwalk.inspect.trace.file import describe
from gradwalk.inspect.trace.trace import Trace
from gradwalk.io.atomic import write_atomically
from gradwalk.printers.graphs.plain_data import jsonable
from gradwalk.studio.answers import without_arrays
from gradwalk.studio.launch import title_of, trace_of
from gradwalk.studio.pages import STATIC, page

BUDGET = 8 << 20  # bytes of arrays in a file


@dataclass
class Exported(Report):
    """A page that was written."""

    path: Path
    bytes: int
    arrays: int  # in the page
    left_out: int  # arrays reduced to statistics
    left_out_bytes: int

    def __str__(self) -> str:
        text = f"wrote {self.path} ({in_bytes(self.bytes)}): it works from disk, with no network"
        if self.left_out:
            text += (
                f"\nof {self.left_out} arrays ({in_bytes(self.left_out_bytes)}) it has the "
                "statistics only; a larger budget= keeps more"
            )
        return text


def export(
    loss: Any,
    path: str | os.PathLike[str],
    title: str | None = None,
    *,
    budget: int | None = None,
) -> Exported:
    """Write one HTML file that holds the studio and a graph, and needs no network and no Python.

    Graphs of numbers stay live; graphs of tensors replay the recording. `budget` limits the bytes
    of arrays (8 MiB); arrays beyond it are reduced to statistics.

    >>> import gradwalk as gw, pathlib, tempfile
    >>> a = gw.Value(3.0, label="a")
    >>> page = pathlib.Path(tempfile.mkdtemp()) / "square.html"
    >>> gw.studio.export(a * a, page).left_out
    0
    """
    trace = trace_of(loss)
    kept = BUDGET if budget is None else budget
    return write_page(*document_of(trace, title or title_of(trace), kept), path)


def write_page(
    document: dict[str, Any],
    left_out: dict[str, int],
    path: str | os.PathLike[str],
    static: Path = STATIC,
) -> Exported:
    """Write a page that opens a document; `left_out` has the sizes of arrays that it lacks."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path.parent))
    title = document.get("title") or document.get("source") or ""
    content = page("export", document=document, title=title[:200], static=static).encode()
    write_atomically(path, [content])
    kept = len(document.get("arrays", ()))
    return Exported(path, len(content), kept, len(left_out), sum(left_out.values()))


def document_of_expression(
    source: str, values: Mapping[str, float], title: str = ""
) -> dict[str, Any]:
    """The document of an expression."""
    return {
        "kind": "expression",
        "title": title or source,
        "source": source,
        "values": jsonable(dict(values)),
    }


def document_of(
    trace: Trace, title: str, budget: int = BUDGET
) -> tuple[dict[str, Any], dict[str, int]]:
    """The document of a trace, and the sizes of the omitted arrays.

    The smallest arrays are kept first, which keeps the most of them. The nodes of omitted arrays
    are listed in `reduced`, as in a recording with a budget, and the page says so.
    """
    described, arrays = describe(trace)
    left_out: dict[str, int] = {}
    used = 0
    for name in sorted(arrays, key=lambda name: (arrays[name].nbytes, name)):
        used += arrays[name].nbytes
        if used > budget:
            left_out[name] = arrays[name].nbytes
    if left_out:
        described = without_arrays(described, set(left_out))
        described["reduced"] = _reduced(described)
    kept = {name: _array(array) for name, array in arrays.items() if name not in left_out}
    return {"kind": "trace", "title": title, "trace": described, "arrays": kept}, left_out


def _array(array: Any) -> dict[str, Any]:
    plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "base64": base64.b64encode(plain.tobytes()).decode(),
    }


def _reduced(described: dict[str, Any]) -> dict[str, list[int]]:
    """The nodes of a description that have only statistics."""
    lacking = {
        "values": [i for i, n in enumerate(described["nodes"]) if _lacks(n["values"])],
        "grads": [i for s in described["sweeps"] for i, parts in s["grads"] if _lacks(parts)],
        "pushed": [i for s in described["sweeps"] for i, parts in s["pushed"] if _lacks(parts)],
    }
    return {what: sorted(set(nodes)) for what, nodes in lacking.items() if nodes}


def _lacks(kept: list[Any]) -> bool:
    return any(isinstance(k, dict) and "statistics" in k and "array" not in k for k in kept)
