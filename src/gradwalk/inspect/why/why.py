"""why: split a gradient into contributions by edge, path, loss term and group."""

from __future__ import annotations

import dataclasses
import math
import textwrap
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.mistakes.audit import wrong_steps
from gradwalk.inspect.report import Report, large, short
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.live import is_torch_tensor
from gradwalk.inspect.trace.recorder import as_trace
from gradwalk.inspect.trace.replay import is_array, op_of
from gradwalk.inspect.trace.routes import group_name
from gradwalk.inspect.trace.trace import Edge, Trace
from gradwalk.inspect.walk.wording import local_formula
from gradwalk.inspect.why import path_counts
from gradwalk.inspect.why.path_counts import Cone, Locals, PathShare

MOST_AUDITED = 100_000  # elements between x and the loss


@dataclass
class EdgeShare:
    """The contribution of one edge: from a consumer through one of its arguments."""

    consumer: int  # -1: the backward pass began here, with this
    name: str
    op: str
    argument: int
    amount: Any  # a number; an array for tensors; None if it was not kept
    norm: float
    local: float | None = None  # d consumer / d x, for numbers
    formula: str = ""  # the same as text
    gradient: float | None = None  # of the consumer; amount = local × gradient
    cosine: float | None = None  # with the whole gradient, for tensors
    group: str = ""
    line: SourceLine | None = None


@dataclass
class TermShare:
    """What one term of the loss contributes."""

    name: str
    coefficient: float
    amount: Any
    norm: float
    cosine: float | None = None
    node: int | None = None
    index: tuple[int, ...] | None = None  # an element of that node


@dataclass
class GroupShare:
    """The contribution of the consumers in one module call or scope."""

    name: str
    amount: Any
    norm: float
    cosine: float | None = None
    edges: int = 1


@dataclass
class Why(Report):
    """The gradient of x and the contributions that sum to it."""

    name: str
    node: int
    output: int
    index: tuple[int, ...] | None  # of the chosen element
    value: Any
    gradient: Any
    norm: float
    edges: list[EdgeShare]
    groups: list[GroupShare]
    terms: list[TermShare]
    paths: list[PathShare]  # the largest, largest first
    path_count: int  # how many there are in all
    dead_path_count: int | None  # those with a factor that is exactly 0
    cancellation: float  # Σ |contribution| / |Σ contribution|, over paths where they are numbers
    edge_cancellation: float  # the same over edges
    notes: list[str] = field(default_factory=list)
    _trace: Callable[[], Trace | None] = field(default=lambda: None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; large arrays as their statistics."""
        shares: dict[str, Any] = {
            name: [dataclasses.replace(s, amount=_light(s.amount)) for s in getattr(self, name)]
            for name in ("edges", "groups", "terms")
        }
        value, gradient = _light(self.value), _light(self.gradient)
        light = dataclasses.replace(self, value=value, gradient=gradient, **shares)
        return Report.to_dict(light)

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def _repr_html_(self) -> str:
        """The graph with every way from x to the loss marked, above the text."""
        from gradwalk.inspect.show import ways_html

        return ways_html(self._trace(), self.node, str(self))


def why(
    x: Any,
    loss: Any = None,
    *,
    top: int = 5,
    element: Any = None,
) -> Why:
    """Split the gradient of x into contributions that sum to it.

    `loss` is the loss or a trace; inside or after `with record():` it is optional. `top` limits the
    listed paths and terms. `element` selects one element of a tensor, whose contributions are
    numbers.

    >>> import gradwalk as gw
    >>> a = gw.Value(2.0, label="a")
    >>> b, c = a + 1, 3 * a
    >>> b.label, c.label = "b", "c"
    >>> print(why(a, b * c))
    gradient of a: 15  (value 2)
    by edge                          local × gradient
      9                                 3 × 3           c = mul, argument 1
      6                                 1 × 6           b = add, argument 0
    by path (2 in all)
      9 = 3 · 3
        a → c → mul#5
      6 = 1 · 6
        a → b → mul#5
    cancellation 1: nothing cancels
    """
    if not isinstance(top, int) or top < 0:
        raise ValueError(f"top says how many paths to list: a whole number from 0 on, not {top!r}")
    trace = as_trace(loss)
    start = place_of(trace, x)
    sweep = trace.sweep
    gradient = sweep.grad(start.node, start.output)
    if gradient is None:
        raise ValueError(
            f"{trace.name(start.node)} received no gradient, so there is nothing to split. "
            "Fix: ask gradwalk.why_no_grad for the reason."
        )
    cone = Cone.of(trace, start, sweep)
    if trace.scalar:
        if element not in (None, ()):
            raise ValueError("a Value is one number: leave `element` out")
        answer = _why_number(cone, float(gradient), top)
    else:
        from gradwalk.inspect.why.for_tensors import why_element, why_tensor

        if element is None:
            answer = why_tensor(cone, gradient)
        else:
            answer = why_element(cone, gradient, element, top)
    # An audit recomputes every node several times: only for small graphs.
    count = sum(math.prod(shape) for n in cone.nodes for shape, _ in trace.nodes[n].metas)
    audited = [n for n in cone.nodes if n in sweep.pushed] if count <= MOST_AUDITED else []
    answer.notes += wrong_steps(trace, audited, x)
    # An answer that is kept must not keep the arrays of a recording alive.
    answer._trace = (lambda: trace) if trace.scalar else weakref.ref(trace)
    return answer


def place_of(trace: Trace, x: Any) -> Edge:
    """The node of x, and which of its outputs x is."""
    if isinstance(x, Edge):
        return x
    live = hasattr(x, "_grad") or is_torch_tensor(x)
    if trace.unrecorded and live and trace.lookup(x) is None:
        label = getattr(x, "label", "")
        name = f"'{label}'" if label else f"this {type(x).__name__}"
        raise KeyError(
            f"the loss is not computed from {name}. Fix: ask gradwalk.why_no_grad for the reason."
        )
    index = trace.find(x)
    several = len(trace.nodes[index].metas) > 1
    return Edge(index, trace.output(x) if several else 0)


# -- scalar graphs ---------------------------------------------------------------------------------


def _why_number(cone: Cone, gradient: float, top: int) -> Why:
    trace, sweep, start = cone.trace, cone.sweep, cone.start
    slopes = path_counts.local_derivatives(trace, cone.nodes, sweep)
    edges = [_edge_share(cone, slopes, *use) for use in cone.uses[start.node]]
    if start.node in cone.seeds:
        edges.append(seed_share(float(cone.seeds[start.node])))
    edges.sort(key=lambda share: -share.norm)
    notes = unexplained(gradient, [share.amount for share in edges], 1e-9)
    answer = answer_for(cone, gradient, abs(gradient), edges, _terms(cone, slopes), notes)
    add_paths(answer, cone, slopes, top)
    return answer


def add_paths(answer: Why, cone: Cone, slopes: Locals, top: int) -> None:
    """What the paths of a scalar graph tell."""
    answer.paths = path_counts.best_paths(cone, slopes, top)
    answer.path_count = path_counts.count_paths(cone)
    answer.dead_path_count = answer.path_count - path_counts.count_paths(cone, slopes)
    answer.cancellation = cancellation(path_counts.sum_of_magnitudes(cone, slopes), answer.norm)


def answer_for(
    cone: Cone,
    gradient: Any,
    norm: float,
    edges: list[EdgeShare],
    terms: list[TermShare],
    notes: list[str],
) -> Why:
    """The answer about the start of a cone, without its paths."""
    node, output = cone.start
    by_edge = cancellation(sum(share.norm for share in edges), norm)
    return Why(
        name=cone.trace.name(node),
        node=node,
        output=output,
        index=None,
        value=cone.trace.nodes[node].values[output],
        gradient=gradient,
        norm=norm,
        edges=edges,
        groups=groups_of(edges, gradient),
        terms=terms,
        paths=[],
        path_count=path_counts.count_paths(cone),
        dead_path_count=None,
        cancellation=by_edge,
        edge_cancellation=by_edge,
        notes=notes,
    )


def _edge_share(cone: Cone, slopes: Locals, consumer: int, argument: int) -> EdgeShare:
    trace = cone.trace
    node = trace.nodes[consumer]
    amount = float(cone.sweep.pushed[consumer][argument])
    share = edge_share(cone, consumer, argument, amount, abs(amount))
    share.local, share.gradient = slopes[consumer][argument], cone.sweep.grad(consumer)
    op = op_of(node)
    if op is not None and op.elementwise:
        share.formula = local_formula(trace, node, argument)
    return share


def edge_share(cone: Cone, consumer: int, argument: int, amount: Any, norm: float) -> EdgeShare:
    """The contribution of one edge."""
    node, name = cone.trace.nodes[consumer], cone.trace.name(consumer)
    group = group_name(cone.trace, consumer)
    return EdgeShare(consumer, name, node.op, argument, amount, norm, group=group, line=node.line)


def seed_share(seed: Any) -> EdgeShare:
    """The contribution of a backward pass that begins at x itself."""
    return EdgeShare(-1, "backward() starts here", "", 0, seed, float(np.linalg.norm(seed)))


def _terms(cone: Cone, slopes: Locals) -> list[TermShare]:
    parts = path_counts.loss_terms(cone)
    if not parts:
        return []
    seed, moves = float(cone.seeds[cone.sweep.root]), path_counts.tangents(cone, slopes)
    shares = []
    for edge, _, coefficient in parts:
        amount = seed * coefficient * moves[edge.node]
        name = cone.trace.name(edge.node)
        shares.append(TermShare(name, coefficient, amount, abs(amount), node=edge.node))
    return sorted(shares, key=lambda share: -share.norm)


# -- what all kinds share --------------------------------------------------------------------------


def groups_of(edges: Sequence[EdgeShare], gradient: Any) -> list[GroupShare]:
    """Contributions summed by the group of the consumer; empty without groups."""
    if not any(share.group for share in edges):
        return []
    shares: dict[str, list[EdgeShare]] = {}
    for share in edges:
        shares.setdefault(share.group or "(no group)", []).append(share)
    groups = []
    for name, own in shares.items():
        if any(share.amount is None for share in own):
            norm = own[0].norm if len(own) == 1 else math.nan  # of a sum, norms do not tell
            groups.append(GroupShare(name, None, norm, None, len(own)))
            continue
        total = sum(share.amount for share in own)
        norm = float(np.linalg.norm(np.asarray(total, np.float64)))
        groups.append(GroupShare(name, total, norm, cosine(total, gradient), len(own)))
    return sorted(groups, key=lambda share: -share.norm)


def cosine(one: Any, other: Any) -> float | None:
    """The cosine between two arrays; None for numbers, or if one is 0 or unknown."""
    if not is_array(one) or not is_array(other) or np.ndim(one) == 0:
        return None
    first, second = (np.asarray(a, np.float64).reshape(-1) for a in (one, other))
    size = float(np.linalg.norm(first)) * float(np.linalg.norm(second))
    return float(first @ second) / size if size else None


def cancellation(magnitudes: float, total: float) -> float:
    """Σ |contribution| / |sum|: 1 if nothing cancels, inf if everything does."""
    if total:
        return max(magnitudes / total, 1.0)
    return math.inf if magnitudes else 1.0


def unexplained(gradient: Any, amounts: Sequence[Any], tolerance: float) -> list[str]:
    """A note if the contributions do not add up to the gradient."""
    if any(a is None for a in amounts) or not is_array(gradient):
        return []
    right = np.asarray(gradient, np.float64)
    with np.errstate(all="ignore"):
        total = sum((np.asarray(a, np.float64) for a in amounts), np.zeros(right.shape))
        scale = sum(float(np.linalg.norm(a)) for a in amounts) + float(np.linalg.norm(right))
        missing = float(np.linalg.norm(right - total))
    if not missing > tolerance * scale:
        return []
    return [
        f"the contributions do not add up to the gradient ({short(missing)} is missing): a hook "
        "changed it after it arrived"
    ]


def _light(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.size > 64:
        return Statistics.of(value)
    return value


# -- text ------------------------------------------------------------------------------------------

_LISTED = 8


def _lines(report: Why) -> list[str]:
    numbers = not (isinstance(report.gradient, (np.ndarray, Statistics)))
    if numbers:
        value = "" if report.value is None else f"  (value {short(report.value)})"
        lines = [f"gradient of {report.name}: {short(report.gradient)}{value}"]
    else:
        shape = " × ".join(map(str, np.shape(report.value) or report.gradient.shape))
        lines = [f"gradient of {report.name}: {shape}, norm {short(report.norm)}"]
    lines += _edge_lines(report, numbers)
    for title, shares in (("by group", report.groups), ("by loss term", report.terms)):
        if shares:
            count = f" ({len(shares)} in all)" if len(shares) > _LISTED else ""
            lines.append(f"{title}{count}")
            lines += [_share_line(share, numbers) for share in shares[:_LISTED]]
    lines += _path_lines(report)
    if report.cancellation < 1.0001:
        lines.append("cancellation 1: nothing cancels")
    elif math.isnan(report.cancellation):
        lines.append("cancellation: not defined, the gradient is not finite")
    else:
        lines.append(f"cancellation {short(report.cancellation)}: Σ |contribution| / |gradient|")
    for note in report.notes:
        lines += textwrap.wrap(f"note: {note}", 80, subsequent_indent="      ")
    return lines


def _edge_lines(report: Why, numbers: bool) -> list[str]:
    count = f" ({len(report.edges)} in all)" if len(report.edges) > _LISTED else ""
    if not numbers:
        lines = [f"by edge{count:<39}{'norm':>10}  cosine"]
    elif report.index is None:
        lines = [f"by edge{count:<26}local × gradient"]
    else:
        lines = [f"by edge{count}"]
    for share in report.edges[:_LISTED]:
        what = f"{share.name} = {share.op}" if share.name.split("#")[0] != share.op else share.name
        what = share.name if share.consumer < 0 else f"{what}, argument {share.argument}"
        if not numbers:
            lines.append(_share_line(dataclasses.replace(share, name=what), numbers))
            continue
        product = ""
        if share.local is not None and share.gradient is not None:
            product = f"{short(share.local):>12} × {short(share.gradient):<10}"
        lines.append(f"  {short(share.amount):<22} {product:<26} {what}".rstrip()[:80])
    return lines


def _share_line(share: Any, numbers: bool) -> str:
    if numbers:
        return f"  {short(share.amount):<12} {share.name}"[:80]
    angle = "" if share.cosine is None else f"{share.cosine:>7.3f}".replace("-", "−")
    return f"  {share.name:<44.44}{short(share.norm):>10} {angle}"[:80]


def _path_lines(report: Why) -> list[str]:
    dead = ""
    if report.dead_path_count:
        dead = f", {large(report.dead_path_count)} of them with a factor 0"
    if not report.paths:
        return [f"{large(report.path_count)} path(s) to the loss"]
    lines = [f"by path ({large(report.path_count)} in all{dead})"]
    seen: dict[str, PathShare] = {}
    for path in report.paths:
        factors, names = _essential(path)
        shown = [short(f) if f >= 0 or f != f else f"({short(f)})" for f in factors]
        product = " · ".join(_abbreviated(shown))
        equals = f" = {product}" if product else ""
        lines.append(f"  {short(path.amount)}{equals}"[:80])
        way = " → ".join(_abbreviated(names))
        lines.append(f"    {_told_apart(path, way, seen)}"[:80])
    return lines


def _told_apart(path: PathShare, way: str, seen: dict[str, PathShare]) -> str:
    """Describe a path; omit what it shares with the one before."""
    other = seen.setdefault(way, path)
    if other is path:
        return way
    known = set(other.names)
    own = [name for name in path.names if name not in known]
    if not own:
        return "the same nodes, through other arguments"
    return f"the same factors, through {' → '.join(_abbreviated(own))}"


def _essential(path: PathShare) -> tuple[list[float], list[str]]:
    """Factors and names; a long path omits nodes with factor 1."""
    factors = path.factors if path.seed == 1 else [*path.factors, path.seed]
    if len(path.names) <= 6:
        return factors, path.names
    kept = [(f, name) for f, name in zip(path.factors[:-1], path.names[1:-1]) if f != 1]
    names = [path.names[0], *(name for _, name in kept), path.names[-1]]
    return [f for f in factors if f != 1] or [1.0], names


def _abbreviated(parts: list[str]) -> list[str]:
    if len(parts) <= 9:
        return parts
    return [*parts[:4], f"… {len(parts) - 8} more …", *parts[-4:]]
