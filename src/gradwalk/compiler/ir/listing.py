"""Programs and kernels as text, to be read at 80 columns.

    a0  x               float32 (100, 2)
    m0  model.0.weight  float32 (16, 2)   updated
    # step.py:9: loss = F.cross_entropy(model(x), y)
    t0 = linear(a0, m0, m1)                                       float32 (100, 16)

a: argument, m: captured memory, n: runtime scalar, c: constant, t: computed.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from gradwalk.compiler.ir.loops import body_of, loop, shape_of
from gradwalk.compiler.ir.program import Argument, Call, Constant, Numbered, Program, Source, Term
from gradwalk.compiler.plan.loop_nest import (
    Apply,
    Given,
    Load,
    Number,
    Pick,
    Position,
    Reduce,
    Sample,
    Step,
    Store,
    operands_of,
)
from gradwalk.compiler.plan.lowering import ProductSteps
from gradwalk.compiler.plan.schedule import Work
from gradwalk.graph.source import SourceLine, source_line

WIDTH = 80
_INDENT = " " * 4  # of the body of a loop
_STUCK = "\N{NO-BREAK SPACE}"


class Listing:
    """The names of a program's terms in its listing."""

    def __init__(self, program: Program, width: int = WIDTH) -> None:
        self.program = program
        self.width = width
        self.names: dict[Term, str] = {}
        constants = itertools.count()
        for term in program.sources():
            source = term.source
            if isinstance(source, Numbered):
                self.names[term] = f"{source.letter}{source.number}"
            elif isinstance(source, Constant):
                array = source.array
                self.names[term] = f"c{next(constants)}" if array.ndim else repr(array.item())
        outputs = (term for call in program.calls for term in call.outputs)
        for number, term in enumerate(outputs):
            self.names[term] = f"t{number}"

    def operand(self, operand: Any) -> str:
        """A term's name, or the number."""
        return self.names[operand] if isinstance(operand, Term) else repr(operand)

    def call(self, call: Call) -> str:
        """One call; its type on the right."""
        outputs = ", ".join(self.names[term] for term in call.outputs)
        inside = [self.operand(a) for a in call.args]
        inside += [f"{k}={_attribute(v)}" for k, v in call.attrs.items() if k != "body"]
        kinds = [typed(term) for term in call.outputs]
        kind = kinds[0] if len(set(kinds)) == 1 else ", ".join(_stuck(kinds))
        return _aligned(f"{outputs} = {call.op.name}({', '.join(inside)})", kind, self.width)

    def body(self, call: Call) -> list[str]:
        """The body of a loop; its arguments are named after the operands they belong to."""
        run = shape_of(call)
        names = [self.operand(a) for a in call.args]
        meanings: dict[Source, str] = {}
        for number, name in enumerate(names):
            role = "a row of " if number < run.rows else "at first " if number < run.fixed else ""
            meanings[Argument(number)] = role + name
        text = Listing(body_of(call), self.width - len(_INDENT)).text(meanings)
        return [shortened(_INDENT + line) for line in text.splitlines()]

    def sources(self, meanings: dict[Source, str]) -> list[str]:
        """A row for each source: its name, what it is to the user, its type."""
        updated = {term for term, _ in self.program.updates}
        rows = []
        for term in sorted(self.program.sources(), key=_source_order):
            if isinstance(term.source, Constant) and not term.ndim:
                continue  # calls show it as a number
            meaning = meanings.get(term.source, "") if term.source is not None else ""
            note = "updated" if term in updated else ""
            rows.append((self.names[term], meaning, typed(term), note))
        return columns(rows)

    def text(self, meanings: dict[Source, str] | None = None) -> str:
        """The whole program."""
        program = self.program
        lines = self.sources(meanings or {})
        last: SourceLine | None = None
        for call in program.calls:
            line = line_of(call)
            if line is not None and line != last:
                lines.append(shortened(f"# {line}"))
                last = line
            lines.append(self.call(call))
            if call.op is loop:
                lines += self.body(call)
        if program.results:
            lines += _wrapped("return", (self.names[t] for t in program.results))
        if program.updates:
            pairs = (f"{self.names[target]} ← {self.names[v]}" for target, v in program.updates)
            lines += _wrapped("update", pairs)
        return "\n".join(lines)


def _source_order(term: Term) -> tuple[bool, str, int]:
    """Arguments, memories and scalars by number; then constants, in order of use."""
    source = term.source
    return (False, source.letter, source.number) if isinstance(source, Numbered) else (True, "", 0)


def listing(program: Program, meanings: dict[Source, str] | None = None) -> str:
    """A program as text; `meanings` say what its sources are to the user."""
    return Listing(program).text(meanings)


def typed(term: Any) -> str:
    """The dtype and the shape of a term or an array."""
    return f"{term.dtype.name} {term.shape}" if term.shape else str(term.dtype.name)


def line_of(call: Call) -> SourceLine | None:
    """The user's line that a call belongs to."""
    return None if call.line is None else source_line(*call.line)


def lines_of(calls: Sequence[Call]) -> list[SourceLine]:
    """The different lines of some calls, in order of the program."""
    return list(dict.fromkeys(line for c in calls if (line := line_of(c)) is not None))


def kernel_listing(work: Work) -> str:
    """What a kernel does (`work` of an entry of the plan): its loops, and what one iteration loads,
    computes and stores."""
    if isinstance(work, Call):
        kinds = ", ".join(typed(term) for term in work.terms)
        return shortened(f"{work.op.name} of {kinds}")
    if isinstance(work, ProductSteps):
        left, right = (f"{'×'.join(map(str, p.shape))}" for p in (work.left, work.right))
        head, steps = f"{work.call.op.name} of {left} and {right}, then", work.loops.steps
    else:
        parts = [("outer", work.outer), ("reduced", work.reduced), ("row", work.row)]
        head = ", ".join(f"{name} {'×'.join(map(str, n))}" for name, n in parts if n)
        steps = work.steps
    lines = [head, *(f"{number:3} {_step(step)}" for number, step in enumerate(steps))]
    return "\n".join(map(shortened, lines))


_STEPS: dict[type, str] = {
    Load: "load    array {access}, {dtype.name}",
    Pick: "pick    array {access} at {inside}",
    Given: "given   the element of the product, {dtype.name}",
    Number: "number  {value!r}",
    Position: "index   of loop {dimension}",
    Apply: "apply   {op.name} {inside}",
    Sample: "draw    {op.name} array {access}, {skip} blocks on, {inside}",
    Reduce: "reduce  {how} {arg}",
    Store: "store   {arg} to array {access}",
}


def _step(step: Step) -> str:
    attrs = step.attrs if isinstance(step, (Apply, Sample)) else ()
    inside = [*map(str, operands_of(step)), *(f"{k}={_attribute(v)}" for k, v in attrs)]
    return _STEPS[type(step)].format(**step._asdict(), inside=", ".join(inside))


def _attribute(value: Any) -> str:
    return getattr(value, "name", None) or repr(value)


def _aligned(left: str, right: str, width: int) -> str:
    """Two texts, the second at the right edge, on a line of its own if there is no room."""
    lines = [left]
    if len(left) + 2 + len(right) > width:
        lines = textwrap.wrap(left, width, subsequent_indent=" " * 6)
    if len(lines[-1]) + 2 + len(right) <= width:
        lines[-1] += right.rjust(width - len(lines[-1]))
    else:
        lines += [line.rjust(width) for line in textwrap.wrap(right, width)]
    return "\n".join(lines).replace(_STUCK, " ")


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows with each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width]
        lines.append(shortened("  ".join(cells).rstrip()))
    return lines


def _wrapped(head: str, parts: Iterable[str]) -> list[str]:
    text = ", ".join(_stuck(parts))
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=f"{head} ", subsequent_indent=" " * (len(head) + 1)
    )
    return [line.replace(_STUCK, " ") for line in lines]


def _stuck(parts: Iterable[str]) -> Iterable[str]:
    """Texts that are not broken where a line is wrapped."""
    return (part.replace(" ", _STUCK) for part in parts)


def shortened(line: str) -> str:
    """A line cut to the width."""
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
