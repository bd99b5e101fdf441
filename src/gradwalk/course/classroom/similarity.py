"""How much of their code files share: winnowed fingerprints of their syntax trees.

Names, comments, layout, docstrings, annotations and the order of functions do not count. A
fingerprint is a hash of SHINGLE consecutive tokens of the tree; of every WINDOW of them the
smallest is kept (Schleimer, Wilkerson, Aiken: Winnowing, SIGMOD 2003), so that a common stretch of
SHINGLE + WINDOW − 1 tokens in a function is always found. What stands in the starter file, or in
most files of the class, is left out. The result is a reason to read two files, and no finding about
people.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gradwalk.inspect.report import Report

SHINGLE = 12
WINDOW = 6
FEWEST = 8  # fingerprints of its own that a file needs to be compared
COMMON = 0.5  # of the class: what more than this many share is nobody's own
SMALLEST_CLASS = 5  # files, for which COMMON means something
LEAST = 0.6  # of the smaller file's fingerprints: pairs below are not listed

Lines = tuple[int, int]
Token = tuple[str, int]  # a kind of node, and its line


@dataclass
class SimilarPair(Report):
    """Two files with much in common."""

    one: str
    other: str
    share: float  # of the smaller one's fingerprints
    lines: list[tuple[Lines, Lines]] = field(default_factory=list)  # in one and in the other


@dataclass
class SimilarityReport(Report):
    """The pairs of a class that share most, the most similar first."""

    pairs: list[SimilarPair]
    compared: int
    left_out: list[tuple[str, str]] = field(default_factory=list)  # files, and why
    discounted: int = 0  # fingerprints of the starter, and those that most files have
    least: float = LEAST

    def __str__(self) -> str:
        count = self.compared * (self.compared - 1) // 2
        lines = [f"{self.compared} files compared, {count} pairs."]
        for pair in self.pairs:
            lines.append(f"{pair.share:4.0%}  {pair.one}  {pair.other}")
            lines += [f"      lines {a}–{b} and {c}–{d}" for (a, b), (c, d) in pair.lines[:5]]
        if not self.pairs:
            lines.append(f"No pair shares {self.least:.0%} of the smaller file or more.")
        lines += [f"{name} was left out: {why}." for name, why in self.left_out]
        return "\n".join(lines)


def similarity(
    sources: Sequence[tuple[str, str]], starter: str = "", least: float = LEAST
) -> SimilarityReport:
    """Compare files, given as pairs of a name and a text.

    >>> import inspect, textwrap
    >>> text = inspect.getsource(textwrap)
    >>> similarity([("a.py", text), ("b.py", text.replace("self", "me"))]).pairs[0].share
    1.0
    """
    prints: dict[str, dict[int, Lines]] = {}
    left_out = []
    for name, text in sources:
        try:
            prints[name] = fingerprints(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            left_out.append((name, f"it is not Python ({type(error).__name__})"))
    shared = _not_their_own(prints, starter)
    own = {name: {k: v for k, v in found.items() if k not in shared}
           for name, found in prints.items()}  # fmt: skip
    for name in [name for name, found in own.items() if len(found) < FEWEST]:
        left_out.append((name, "it has too little code of its own"))
        del own[name]
    pairs = [_pair(one, other, own) for one, other in itertools.combinations(own, 2)]
    listed = sorted((p for p in pairs if p.share >= least), key=lambda p: -p.share)
    return SimilarityReport(listed, len(own), left_out, len(shared), least)


def _not_their_own(prints: dict[str, dict[int, Lines]], starter: str) -> set[int]:
    """Fingerprints of the starter, and those that more than half of a class has."""
    shared = set(fingerprints(starter)) if starter else set()
    if len(prints) >= SMALLEST_CLASS:
        times = Counter(itertools.chain.from_iterable(prints.values()))
        shared |= {one for one, count in times.items() if count > COMMON * len(prints)}
    return shared


def _pair(one: str, other: str, own: dict[str, dict[int, Lines]]) -> SimilarPair:
    both = own[one].keys() & own[other].keys()
    share = len(both) / min(len(own[one]), len(own[other]))
    return SimilarPair(one, other, share, _stretches([(own[one][k], own[other][k]) for k in both]))


def _stretches(found: list[tuple[Lines, Lines]]) -> list[tuple[Lines, Lines]]:
    """Common places that touch, joined; the longest first."""
    joined: list[tuple[Lines, Lines]] = []
    for (a, b), (c, d) in sorted(found):
        if joined:
            (p, q), (r, s) = joined[-1]
            if a <= q + 1 and r - 1 <= c <= s + 1:
                joined[-1] = ((p, max(q, b)), (min(r, c), max(s, d)))
                continue
        joined.append(((a, b), (c, d)))
    return sorted(joined, key=lambda pair: pair[0][0] - pair[0][1])


# -- fingerprints ----------------------------------------------------------------------------------


def fingerprints(text: str) -> dict[int, Lines]:
    """The winnowed fingerprints of a file, and the lines each one stands for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    kept: dict[int, Lines] = {}
    for unit in _units(tree):
        for found, lines in _winnowed([token for node in unit for token in _tokens(node)]):
            kept.setdefault(found, lines)
    return kept


def _units(tree: ast.Module | ast.ClassDef) -> Iterator[list[ast.AST]]:
    """Each function and method by itself, so that their order does not count; then the rest."""
    rest: list[ast.AST] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from _units(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield [node]
        else:
            rest.append(node)
    yield rest


def _winnowed(tokens: list[Token]) -> Iterator[tuple[int, Lines]]:
    hashes = []
    for i in range(len(tokens) - SHINGLE + 1):
        part = tokens[i : i + SHINGLE]
        digest = hashlib.blake2b(" ".join(kind for kind, _ in part).encode(), digest_size=8)
        lines = [line for _, line in part]
        hashes.append((int.from_bytes(digest.digest()), min(lines), max(lines)))
    for i in range(max(1, len(hashes) - WINDOW + 1) if hashes else 0):
        found, first, last = min(hashes[i : i + WINDOW])
        yield found, (first, last)


def _tokens(node: ast.AST, line: int = 1) -> Iterator[Token]:
    """The kinds of nodes in order, without what a person changes to make a text look different."""
    line = getattr(node, "lineno", line)
    if isinstance(node, (ast.Load, ast.Store, ast.Del, ast.Import, ast.ImportFrom)):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring, or text in place of a comment
    yield _kind(node), line
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_comment", "decorator_list"):
            continue
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, ast.AST):
                yield from _tokens(inner, line)


def _kind(node: ast.AST) -> str:
    kind = type(node).__name__
    if isinstance(node, ast.Constant):
        return f"{kind}:{type(node.value).__name__}"
    if isinstance(node, ast.AnnAssign):
        return "Assign"
    # a.__add__ and def __add__ have their names from Python, not from a person
    name = getattr(node, "name", getattr(node, "attr", ""))
    return f"{kind}:{name}" if isinstance(name, str) and name.startswith("__") else kind
