"""All processes run the same programs: they compare hashes before the first run of each.

XLA would wait forever for a process that runs another program, or mix the data of both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from gradwalk.compiler.ir.listing import Listing, typed
from gradwalk.compiler.ir.program import Constant, Program
from gradwalk.distributed.channel import DisagreementError
from gradwalk.distributed.processes import gather, job

_WIDE = 1 << 20  # columns: calls are not wrapped


def before_run(program: Program, first: bool, operands: Sequence[Any]) -> None:
    """Compare a program that spans processes before its first run; count every run."""
    if job.channel is None:
        return
    if first:
        check_equal(described(program, operands))
    job.channel.step()


def described(program: Program, operands: Sequence[Any]) -> list[str]:
    """A program line by line, with its constants and where its operands are."""
    lines = Listing(program, _WIDE).text().splitlines()
    for term in program.sources():
        if isinstance(term.source, Constant):
            numbers = hashlib.sha256(term.source.array.tobytes()).hexdigest()[:16]
            lines.append(f"constant {typed(term)} with the hash {numbers}")
    for number, operand in enumerate(operands):
        where = getattr(getattr(operand, "sharding", None), "spec", None)
        lines.append(f"operand {number} {typed(operand)} divided as {where}")
    return lines


def check_equal(lines: Sequence[str]) -> None:
    """Raise in every process if their programs differ, naming ranks and the first difference."""
    # Comments name files, which may lie elsewhere on another host.
    code = "\n".join(line for line in lines if not line.startswith("#"))
    hashes = gather("the first run of a program", hashlib.sha256(code.encode()).hexdigest())
    kinds = list(dict.fromkeys(hashes))
    if len(kinds) == 1:
        return
    ranks = [[r for r, found in enumerate(hashes) if found == kind] for kind in kinds]
    speakers = [ranks[0][0], ranks[1][0]]
    mine = list(lines) if job.launch is not None and job.launch.rank in speakers else None
    texts = gather("programs that differ", mine)
    raise DisagreementError(_difference(ranks, [texts[speaker] for speaker in speakers]))


def _difference(ranks: Sequence[Sequence[int]], texts: Sequence[Sequence[str]]) -> str:
    """The error for programs that differ."""
    groups = "; ".join(
        f"{_named(group)} {'agree' if len(group) > 1 else 'alone'}" for group in ranks
    )
    one, two = (_numbered(text) for text in texts)
    for (at, first), (also, second) in zip_longest(one, two, fillvalue=("", "(its end)")):
        if first != second:
            place = at or also
            break
    said = f" ({place.removeprefix('# ')})" if place else ""
    return (
        f"the processes compiled different programs: {groups}.\n"
        f"The first difference{said}:\n"
        f"  rank {ranks[0][0]}: {' '.join(first.split())}\n"
        f"  rank {ranks[1][0]}: {' '.join(second.split())}\n"
        "Fix: the code must not depend on the rank, nor on numbers that differ between processes."
    )


def _numbered(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Each line of a program with the user's line that it belongs to."""
    place, found = "", []
    for line in lines:
        if line.startswith("#"):
            place = line
        else:
            found.append((place, line))
    return found


def _named(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"
