"""Run the page's TypeScript in Node: bundled once per session, called with JSON in and out."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.project.checkout import ROOT
from tools.page import tables as page_tables

WEB = ROOT / "web"


def need_node() -> None:
    """Fail with the name of the missing tool if the page's tools are not installed."""
    if shutil.which("node") is None:
        raise RuntimeError("the page's tests need Node 20 or newer: install it, then `make page`")
    if not (WEB / "node_modules" / "esbuild").exists():
        raise RuntimeError("what builds the page is not installed. Fix: make page")


def run(*command: str | Path, cwd: Path = WEB) -> str:
    """Run a program of the page; on failure the test shows its output."""
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def bundle(entry: str, folder: Path) -> Path:
    """A program of web/test as one module."""
    need_node()
    page_tables.main()
    output = folder / (Path(entry).stem + ".mjs")
    run("node", "test/bundle.mjs", f"test/{entry}", output)
    return output


class Node:
    """A running process that serves a bundle's `answer`: `node("graph.compute", graph, values)`."""

    def __init__(self, bundle: Path) -> None:
        self._process = subprocess.Popen(
            ["node", str(WEB / "test" / "serve.mjs"), str(bundle)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def __call__(self, call: str, *args: Any) -> Any:
        return self._ask({"call": call, "args": args})

    def each(self, call: str, args: Sequence[Sequence[Any]]) -> list[Any]:
        """Call one function many times in one request."""
        found: list[Any] = self._ask({"call": call, "args": args, "each": True})
        return found

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(_written(request)) + "\n")
        self._process.stdin.flush()
        found = json.loads(self._process.stdout.readline())
        if "error" in found:
            raise AssertionError(found["error"])
        return _read(found.get("answer"))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()


def _written(value: Any) -> Any:
    """JSON has no name for NaN, infinity and −0."""
    if isinstance(value, dict):
        return {key: _written(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(part) for part in value]
    if isinstance(value, float) and not (math.isfinite(value) and value):
        return {"float": "-0"} if str(value) == "-0.0" else {"float": str(value)} if value else 0
    return value


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return [_read(part) for part in value]
    if isinstance(value, dict):
        if value.keys() == {"float"}:
            return float(value["float"])
        if value.keys() == {"integer"}:
            return int(value["integer"])
        return {key: _read(part) for key, part in value.items()}
    return value
