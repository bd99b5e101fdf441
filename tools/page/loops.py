"""The op table as loops over slots: what the page's playground runs (web/src/playground/plan.ts).

A page may not make code of text, so the loops are written here, one for each op: then the browser's
compiler puts the op's function into its loop, as it does not where one loop calls them all.
"""

from __future__ import annotations

from tools.page.javascript import may_be_none, scalar_ops

OPERANDS = "xyz"  # the lists of slots that a loop reads


def op_loops() -> str:
    """The module web/src/generated/loops.ts: each op's loop forward, and backward."""
    functions, rows = [], []
    for name, op in scalar_ops().items():
        count = len(op.inputs) + len(op.attributes)
        if count > len(OPERANDS) or any(may_be_none(op, a) for a in op.attributes):
            continue
        pulls = [i for i in range(len(op.inputs)) if op.rule(i) is not None]
        named = [f"{name}_{i}" if i in pulls else "" for i in range(max(pulls, default=-1) + 1)]
        functions.append(f"const [{', '.join([f'{name}_value', *named])}] = F.{name}!;")
        slots = OPERANDS[:count]
        read = ", ".join(f"v[{s}[i]!]!" for s in slots)
        pushed = " ".join(
            f"g[{OPERANDS[i]}[i]!]! += {name}_{i}!(g[o[i]!]!, v[o[i]!]!, {read});" for i in pulls
        )
        lists = ", ".join(slots)
        # Consumers last to first: the order of additions of Python's backward.
        backward = (
            f"(v, g, o, {lists}) => {{ for (let i = o.length - 1; i >= 0; i--) {{ {pushed} }} }}"
        )
        rows += [
            f"  {name}: [",
            f"    (v, o, {lists}) => {{ for (let i = 0; i < o.length; i++) v[o[i]!] = "
            f"{name}_value({read}); }},",
            f"    {backward if pulls else '() => {}'},",
            "  ],",
        ]
    lines = [
        "// Written by `python -m tools.page.tables` from gradwalk's op table.",
        'import type { OpLoops } from "../playground/plan";',
        'import { FUNCTIONS as F } from "./ops";',
        "",
        *functions,
        "",
        "export const LOOPS: Record<string, OpLoops> = {",
        *rows,
        "};",
    ]
    return "\n".join(lines) + "\n"
