"""Writes web/src/generated/: the functions of ops as TypeScript, and everything else as data.

    python -m tools.page.tables

`make page` does.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

from gradwalk.inspect.expression.tokens import CONSTANTS, FUNCTIONS, INSTEAD, WORDS, WRITE
from gradwalk.inspect.open.expansions import expansions_of
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.symbol import Symbol
from gradwalk.printers.formulas import formula, latex, mathml
from gradwalk.studio import presets
from gradwalk.studio.pages import CLOSED_POLICY
from tools.page.array_rules import array_rules
from tools.page.digits import digit_images
from tools.page.javascript import op_facts, op_functions, scalar_ops
from tools.page.javascript_source import literal
from tools.page.loops import op_loops

FOLDER = Path(__file__).parents[2] / "web" / "src" / "generated"


def files() -> dict[str, str]:
    """The text of every generated file, by its name."""
    rows = ",\n".join(f"{_json(name)}: {_json(table)}" for name, table in tables().items())
    data = f"{{\n{rows}\n}}\n"
    return {
        "ops.ts": op_functions(),
        "loops.ts": op_loops(),
        "digits.ts": digit_images(),
        "tables.json": data,
    }


def tables() -> dict[str, Any]:
    """The data of the page: `Tables` of web/src/engine/tables.ts."""
    ops = scalar_ops()
    return {
        "ops": {name: op_facts(op) for name, op in ops.items()},
        "expansions": {
            name: expansions for name, op in ops.items() if (expansions := _expansions(op))
        },
        "arrayRules": array_rules(),
        # How formulas are spelled: the tables of the printers.
        "infix": formula.INFIX,
        "symbols": {name: TABLE[name].symbol for name in formula.INFIX},
        "signs": mathml.SIGNS,
        "around": mathml.AROUND,
        "letters": mathml.LETTERS,
        "greek": latex.GREEK,
        # The grammar of expressions: docs/inspect/expressions.md.
        "functions": {name: [f.op, f.arity] for name, f in sorted(FUNCTIONS.items())},
        "constants": {name: literal(value) for name, value in CONSTANTS.items()},
        "instead": INSTEAD,
        "otherWords": WORDS,
        "write": WRITE,
        "presets": presets.as_data(),
        "closed": CLOSED_POLICY,
    }


def _expansions(op: Op) -> list[Any]:
    """The expansions of a composite op, the default one first."""
    return [_expanded(op, expansion) for expansion in expansions_of(op, scalar=True)]


def _expanded(op: Op, expansion: Any) -> list[list[Any]]:
    """Steps, inputs first: `["exp", 0]` applies exp to the result of step 0; a name is an operand.

    Plain numbers are `{"is": 2}`. A tree would not do: in tanh the exponential is one node, used
    twice.
    """
    asked = inspect.signature(expansion).parameters
    attrs = {name: Symbol(name) for name in op.attributes if name in asked}
    steps: list[list[Any]] = []
    places: dict[int, int] = {}

    def operand(part: Any) -> Any:
        if not isinstance(part, Symbol):
            return {"is": part}
        if part.op is None:
            return part.name
        if id(part) not in places:
            own = [operand(a) for a in part.args]
            given = {name: operand(value) for name, value in part.attrs.items()}
            steps.append([part.op.name, *own, *([{"attrs": given}] if given else [])])
            places[id(part)] = len(steps) - 1
        return places[id(part)]

    made = expansion(*map(Symbol, op.inputs), **attrs)
    operand(made)
    return steps


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def main(folder: Path = FOLDER) -> None:
    """Write the files that changed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        path = folder / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        # Replaced atomically: tests in several processes generate and bundle at once.
        written = folder / f"{name}.{os.getpid()}"
        written.write_text(text, encoding="utf-8")
        written.replace(path)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
