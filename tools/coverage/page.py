"""The results as a file and as the page docs/pytorch/coverage.md."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tools.coverage.architectures import NAMES

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs" / "pytorch" / "coverage.md"

INTRODUCTION = """\
# Coverage

What `gradwalk.torch` does on {count} architectures of
{libraries}, each at tiny size with random weights, on the
CPU with PyTorch {torch}. `python -m tools.coverage` measures them, each in a process of its own,
and writes this page; the extra `coverage` installs what it needs.

| measured | architectures |
|---|---|
| the loss and all gradients are the same to the bit under `record()` | {identical} of {count} |
| the recorded gradient of every parameter is PyTorch's, to the bit | {gradients} of {count} |
| every operation has an op of gradwalk's, with a formula and a rule | {clear} of {count} |
| a planted NaN is found: module and operation named by `find_nan` | {found} of {planted} NaNs |
| `import_graph` brings the model over, forward and backward checked | {imported} of {count} |

Each NaN is planted inside a random module: it takes the logarithm of −1 at one random element of
its output. A NaN counts as found only if `find_nan` names that module and `log`. Places whose NaN
reaches neither the loss nor a gradient are left out. Recordings keep up to 2 GiB of values.
Weights that a library starts at zero are random here too, since a router of zeros would leave open
which experts it chooses. SwitchTransformers and LongT5 get an attention mask: `torch.export` asks
them for one.

An *opaque* operation is recorded with its value and its gradients, but gradwalk has no op for it:
the tools cannot recompute it. `import_graph` decomposes it where PyTorch can, and refuses it
otherwise. A custom `autograd.Function` is opaque: its backward is code, not a formula. A complex
number counts as a pair of real ones.
"""

COLUMNS = "architecture|parameters|operations|identical|gradients|opaque|NaN|import_graph"
HEADER = f"\n|{COLUMNS}|\n|{'---|' * len(COLUMNS.split('|'))}\n"


def load() -> dict[str, Any]:
    """The results so far."""
    if not RESULTS.exists():
        return {"versions": {}, "architectures": {}}
    result: dict[str, Any] = json.loads(RESULTS.read_text())
    return result


def save(result: dict[str, Any]) -> None:
    """Write the results, a line for each architecture, in the order of the list."""
    rows = result["architectures"]
    lines = [f"  {json.dumps(n)}: {json.dumps(rows[n])}" for n in NAMES if n in rows]
    RESULTS.write_text(
        f'{{"versions": {json.dumps(result["versions"])},\n "architectures": {{\n'
        + ",\n".join(lines)
        + "\n}}\n"
    )


def versions() -> dict[str, str]:
    """The versions of what is measured, without the label of a build."""
    names = ("torch", "transformers", "timm", "torchvision")
    return {name: version(name).partition("+")[0] for name in names}


def page(result: dict[str, Any]) -> str:
    """The page that shows the results."""
    rows = {name: row for name, row in result["architectures"].items() if name in NAMES}
    known, numbers = list(rows.values()), result["versions"]
    libraries = ", ".join(f"{n} {v}" for n, v in numbers.items() if n != "torch")
    before, _, last = libraries.rpartition(", ")
    text = INTRODUCTION.format(
        count=len(rows),
        libraries=f"{before} and {last}",
        torch=numbers.get("torch", ""),
        identical=sum(row.get("identical", False) for row in known),
        gradients=sum(row.get("gradients", False) for row in known),
        clear=sum(row.get("opaque") == {} for row in known),
        found=sum(row.get("planted", 0) - len(row.get("missed", ())) for row in known),
        planted=sum(row.get("planted", 0) for row in known),
        imported=sum(row.get("import") == "yes" for row in known),
    )
    notes: list[str] = []
    for library in dict.fromkeys(name.partition("/")[0] for name in rows):
        text += f"\n## {library}\n{HEADER}"
        for name, row in rows.items():
            if name.startswith(f"{library}/"):
                text += _line(name.partition("/")[2], row, notes)
    text += "\n## Why not\n\n" + "".join(f"{k}. {note}\n" for k, note in enumerate(notes, 1))
    later = [name for name in NAMES if name not in rows]
    return text + (f"\nListed, but not measured yet: {', '.join(later)}.\n" if later else "")


def _line(name: str, row: dict[str, Any], notes: list[str]) -> str:
    """One row; reasons become numbered notes, the same reason once."""

    def noted(reason: str) -> str:
        reason = reason.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")
        if reason not in notes:
            notes.append(reason)
        return f"no ({notes.index(reason) + 1})"

    if "error" in row:
        return f"| {name} | | | {noted(row['error'])} | | | | |\n"
    opaque = ", ".join(f"{count} `{op}`" for op, count in row["opaque"].items()) or "0"
    found = f"{row['planted'] - len(row['missed'])} of {row['planted']}"
    imports = "yes" if row["import"] == "yes" else noted(row["import"].replace(f" {name}", " it"))
    cells = (
        name,
        f"{row['parameters']:,}",
        row["operations"],
        "yes" if row["identical"] else "no",
        "yes" if row["gradients"] else "no",
        opaque,
        found,
        imports,
    )
    return "| " + " | ".join(map(str, cells)) + " |\n"
