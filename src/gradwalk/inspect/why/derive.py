"""derive: the chain rule for a scalar graph written out, in symbols and then in numbers.

From the loss down, one step per node: dL/dn = Σ dL/dc × ∂c/∂n over its consumers c. Every step uses
the results of earlier steps, so a graph with 2⁶⁰ paths has as many steps as nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import Any

from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.recorder import as_trace
from gradwalk.inspect.trace.replay import op_of
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode
from gradwalk.inspect.why.path_counts import (
    Cone,
    Locals,
    best_paths,
    count_paths,
    local_derivatives,
)
from gradwalk.inspect.why.why import place_of
from gradwalk.ops.core.symbol import Symbol
from gradwalk.printers.formulas import latex as latex_printer
from gradwalk.printers.formulas import mathml as mathml_printer
from gradwalk.printers.formulas.formula import derivative_expression, formula, formula_part
from gradwalk.printers.scalars import number

SHOWN = 40  # steps to print of a long derivation
TERMS = 16  # terms of a sum; the middle of a longer one is counted
FEW_PATHS = 4  # paths: up to so many, write out the product along each
FEW_FACTORS = 12


@dataclass
class DerivationStep:
    """The gradient of one node, from those of its consumers."""

    node: int
    name: str
    left: str  # dL/da
    symbols: str  # dL/db × ∂b/∂a + dL/dc × ∂c/∂a
    rules: str  # dL/db × 1 + dL/dc × 3
    numbers: str  # 6 × 1 + 3 × 3
    gradient: float


class Derivation(Report):
    """The chain rule from the loss down to x."""

    DATA = (
        "name", "node", "loss", "gradient", "path_count", "definitions", "steps", "in_one_line",
        "latex", "mathml",
    )  # fmt: skip

    def __init__(self, cone: Cone, slopes: Locals) -> None:
        self._cone = cone
        self._slopes = slopes
        self._names = _Names(cone)
        self._templates: dict[Any, Any] = {}
        self.name = self._names[cone.start.node]
        self.node = cone.start.node
        self.loss = self._names.loss
        self.gradient = float(cone.sweep.grad(cone.start.node))
        self.path_count = count_paths(cone)

    @property
    def steps(self) -> list[DerivationStep]:
        """From the loss down to x."""
        return [self._step(node) for node in self._order]

    @property
    def definitions(self) -> list[str]:
        """The definitions of the nodes on the paths and of their inputs."""
        return [self._definition(node) for node in self._defined()]

    @property
    def in_one_line(self) -> str | None:
        """The sum over paths of products of local derivatives; None if there are many paths."""
        return self._written_out(_TEXT)

    @property
    def latex(self) -> str:
        """The steps as LaTeX (an `aligned` block, for use inside $$ or \\[ \\]).

        Of many steps it shows the first and the last, as the text does.
        """
        rows = []
        for node in _ends(self._order):
            if node is None:
                rows.append(r"&\;\;\vdots")
                continue
            left, *right = self._pieces(node, _LATEX)
            first, *others = dict.fromkeys(right)
            rows.append(f"{left} &= {first}" + "".join(f" \\\\\n&= {part}" for part in others))
        whole = self._written_out(_LATEX)
        if whole is not None:
            rows.append(whole.replace("=", "&=", 1))
        return "\\begin{aligned}\n" + " \\\\[4pt]\n".join(rows) + "\n\\end{aligned}"

    @property
    def mathml(self) -> str:
        """The steps as one <math> element; of many the first and the last."""
        rows = []
        for node in _ends(self._order):
            if node is None:
                rows.append(("<mo>⋮</mo>", "<mo>⋮</mo>"))
                continue
            left, *right = self._pieces(node, _MATHML)
            for i, part in enumerate(dict.fromkeys(right)):
                rows.append((left if i == 0 else "", part))
        cells = "".join(
            f'<mtr><mtd style="text-align: right">{left}</mtd><mtd><mo>=</mo></mtd>'
            f'<mtd style="text-align: left">{right}</mtd></mtr>'
            for left, right in rows
        )
        return f'<math display="block"><mtable>{cells}</mtable></math>'

    def __str__(self) -> str:
        defined, order = self._defined(), self._order
        lines = [*_shortened(defined, self._definition, "definitions"), ""]
        for text in _shortened(order, self._step_text, "steps"):
            lines += [text, ""]
        whole = self.in_one_line
        if whole is not None and len(order) > 1:
            lines += ["written out", *(f"  {part}" for part in _folded(whole))]
        return "\n".join(lines).rstrip()

    def _repr_html_(self) -> str:
        given = "; ".join(map(escape, _shortened(self._defined(), self._definition, "more")))
        return f"<div class='gradwalk'><p>{given}</p>{self.mathml}</div>"

    # -- the pieces --------------------------------------------------------------------------------

    @property
    def _order(self) -> list[int]:
        """The nodes whose gradients the derivation computes, without the loss itself."""
        root = self._cone.sweep.root
        return [n for n in self._cone.from_the_loss if n != root or n == self._cone.start.node]

    def _step(self, node: int) -> DerivationStep:
        left, symbols, rules, numbers, _ = self._pieces(node, _TEXT)
        gradient = float(self._cone.sweep.grad(node))
        return DerivationStep(node, self._names[node], left, symbols, rules, numbers, gradient)

    def _pieces(self, node: int, style: _Style) -> tuple[str, str, str, str, str]:
        """dL/dn, then the same in symbols, with the rules, in numbers, and the result."""
        cone, names = self._cone, self._names
        root = cone.sweep.root
        left = style.name(f"d{names.loss}/d{names[node]}")
        terms: list[tuple[Part, ...]] = []
        if node in cone.seeds:
            terms.append(((style.number(float(cone.seeds[node])), _ATOM),) * 3)
        by_consumer: dict[int, list[int]] = {}
        for use, position in cone.uses[node]:
            by_consumer.setdefault(use, []).append(position)
        for consumer in _ends(list(by_consumer), TERMS):
            if consumer is None:
                terms.append(((style.dots, _ATOM),) * 3)
                continue
            positions = by_consumer[consumer]
            g = float(cone.sweep.grad(consumer))
            above = (style.name(f"d{names.loss}/d{names[consumer]}"), _ATOM)
            partial = (style.name(f"∂{names[consumer]}/∂{names[node]}"), _ATOM)
            rule = style.total([style.part(self._local(consumer, p, node)) for p in positions])
            slopes = [float(self._slopes[consumer][position]) for position in positions]
            slope = style.total([style.signed_part(s) for s in slopes])
            factors = [[above, partial], [above, rule], [style.signed_part(g), slope]]
            if consumer == root and g == 1:
                factors = [pair[1:] for pair in factors]
            terms.append(tuple(map(style.product, factors)))
        symbols, rules, numbers = (style.total(list(column))[0] for column in zip(*terms))
        return left, symbols, rules, numbers, style.number(float(cone.sweep.grad(node)))

    def _local(self, consumer: int, position: int, node: int) -> Any:
        """∂ consumer / ∂ argument as an expression of the names in this graph."""
        made = self._cone.trace.nodes[consumer]
        op = op_of(made)
        if op is None or not op.elementwise:
            return Symbol(f"∂{self._names[consumer]}/∂{self._names[node]}")
        key = op.name, position, tuple(sorted(made.attrs.items()))
        if key not in self._templates:
            self._templates[key] = derivative_expression(op, position, **made.attrs)
        given = {name: self._operand(a) for name, a in zip(op.inputs, made.args)}
        given["out"] = Symbol(self._names[consumer])
        return _substituted(self._templates[key], given)

    def _operand(self, argument: Any) -> Any:
        if not isinstance(argument, Edge):
            return argument
        return self._names.symbol(argument.node)

    def _definition(self, index: int) -> str:
        node = self._cone.trace.nodes[index]
        value = number(float(node.value))
        if node.is_leaf:
            return f"{self._names[index]} = {value}"
        return f"{self._names[index]} = {formula(self._expression(node))} = {value}"

    def _expression(self, node: TraceNode) -> Any:
        op = op_of(node)
        args = tuple(self._operand(a) for a in node.args)
        if op is None:
            return Symbol(f"{node.op}({', '.join(formula(a) for a in args)})")
        return Symbol(op.name, op=op, args=args, attrs=dict(node.attrs))

    def _defined(self) -> list[int]:
        """The nodes of the derivation and their inputs, inputs first, without constants."""
        nodes = self._cone.trace.nodes
        wanted = {self._cone.start.node, *self._cone.nodes}
        wanted.update(i for n in self._cone.nodes for i in nodes[n].inputs)
        return sorted(i for i in wanted if not self._names.constant(i))

    def _step_text(self, node: int) -> str:
        left, *right = self._pieces(node, _TEXT)
        lines: list[str] = []
        margin = " " * len(left)
        for part in dict.fromkeys(right):
            first, *others = _folded(part)
            lines.append(f"{margin if lines else left} = {first}")
            lines += [f"{margin}   {line}" for line in others]
        return "\n".join(lines)

    def _written_out(self, style: _Style) -> str | None:
        if not 0 < self.path_count <= FEW_PATHS or not self._cone.nodes:
            return None
        paths = best_paths(self._cone, self._slopes, FEW_PATHS)
        if max(len(path.factors) for path in paths) > FEW_FACTORS:
            return None
        rules, numbers = [], []
        for path in paths:
            ways = zip(path.nodes, path.nodes[1:], path.arguments, path.factors, strict=False)
            steps = list(ways)[::-1]  # as it is read: from the loss down
            seed = [] if path.seed == 1 else [style.signed_part(path.seed)]
            locals_ = [style.part(self._local(c, a, n)) for n, c, a, _ in steps]
            rules.append(style.product(seed + locals_))
            numbers.append(style.product(seed + [style.signed_part(f) for *_, f in steps]))
        left = style.name(f"d{self._names.loss}/d{self.name}")
        middle = [style.total(rules)[0], style.total(numbers)[0], style.number(self.gradient)]
        return style.equals.join([left, *dict.fromkeys(middle)])


def derive(x: Any, loss: Any = None) -> Derivation:
    """The chain rule for d loss / d x written out: symbols, rules, numbers.

    Print it, or take its `.latex` or `.mathml`.

    >>> import gradwalk as gw
    >>> a = gw.Value(2.0, label="a")
    >>> b, c = a + 1, 3 * a
    >>> b.label, c.label = "b", "c"
    >>> print(derive(a, b * c))
    a = 2
    b = a + 1 = 3
    c = 3 × a = 6
    L = b × c = 18
    <BLANKLINE>
    dL/dc = ∂L/∂c
          = b
          = 3
    <BLANKLINE>
    dL/db = ∂L/∂b
          = c
          = 6
    <BLANKLINE>
    dL/da = dL/db × ∂b/∂a + dL/dc × ∂c/∂a
          = dL/db × 1 + dL/dc × 3
          = 6 × 1 + 3 × 3
          = 15
    <BLANKLINE>
    written out
      dL/da = b × 3 + c × 1 = 3 × 3 + 6 × 1 = 15
    """
    trace = as_trace(loss)
    start = place_of(trace, x)
    if not trace.scalar:
        raise ValueError(
            "derive writes out graphs of numbers, and this trace is of tensors. Fix: open one "
            "element with gradwalk.element(trace, node, index) and derive on its .trace"
        )
    cone = Cone.of(trace, start, trace.sweep)
    if not cone.nodes and start.node not in cone.seeds:
        raise ValueError(
            f"{trace.name(start.node)} does not lead to the loss, so there is nothing to derive. "
            "Fix: ask gradwalk.why_no_grad for the reason."
        )
    return Derivation(cone, local_derivatives(trace, cone.nodes, trace.sweep))


class _Names:
    """Names of nodes in formulas: labels, else L for the loss and v1, v2, ... in between."""

    def __init__(self, cone: Cone) -> None:
        trace = cone.trace
        self.trace: Trace = trace
        taken = {n.label for n in trace.nodes if n.label}
        self._names: dict[int, str] = {}
        self._start = cone.start.node
        root = cone.sweep.root
        fresh = (name for k in count(1) if (name := f"v{k}") not in taken)
        for node in trace.nodes:
            name = node.label
            if not name and node.index == root:
                name = "L" if "L" not in taken else "loss"
            if not name and node.is_leaf:
                name = "x" if node.index == self._start and "x" not in taken else ""
            if not name and (node.op or node.index == self._start):
                name = next(fresh)
            self._names[node.index] = name
        self.loss = self._names[root]

    def __getitem__(self, index: int) -> str:
        return self._names[index] or number(float(self.trace.nodes[index].value))

    def constant(self, index: int) -> bool:
        """Whether a node is an unnamed number, which formulas show as the number."""
        return not self._names[index]

    def symbol(self, index: int) -> Any:
        """The symbol of a node in formulas."""
        return float(self.trace.nodes[index].value) if self.constant(index) else Symbol(self[index])


def _substituted(expression: Any, given: dict[str, Any]) -> Any:
    """A rule's formula with the names of this graph in place of x, y and out."""
    if not isinstance(expression, Symbol):
        return expression
    if expression.op is None:
        return given.get(expression.name, expression)
    # One symbol used twice stays one: x × x is printed as x².
    made = {id(a): _substituted(a, given) for a in expression.args}
    args = tuple(made[id(a)] for a in expression.args)
    return Symbol(expression.name, op=expression.op, args=args, attrs=expression.attrs)


# -- three ways to write ---------------------------------------------------------------------------

Part = tuple[str, int]  # text, and how tightly its outermost operation binds
_ATOM, _TIMES, _PLUS = 9, 3, 2
_AFTER_TIMES = 5  # a factor after the first: a leading minus sign needs parentheses there


@dataclass(frozen=True)
class _Style:
    """Text, LaTeX or MathML: how names, formulas, products and sums are written."""

    name: Callable[[str], str]
    part: Callable[[Any], Part]
    number: Callable[[float], str]
    times: str
    plus: str
    equals: str
    open: str
    close: str
    dots: str

    def signed_part(self, value: float) -> Part:
        """A number as a factor: a negative one is put in parentheses."""
        text = self.number(value)
        return (f"{self.open}{text}{self.close}" if value < 0 else text), _ATOM

    def product(self, parts: list[Part]) -> Part:
        """Several factors."""
        if len(parts) == 1:
            return parts[0]
        first, *others = parts
        wrapped = [self._wrapped(first, _TIMES), *(self._wrapped(p, _AFTER_TIMES) for p in others)]
        return self.times.join(wrapped), _TIMES

    def total(self, parts: list[Part]) -> Part:
        """Several terms."""
        if len(parts) == 1:
            return parts[0]
        return self.plus.join(self._wrapped(p, _PLUS) for p in parts), _PLUS

    def _wrapped(self, part: Part, binding: int) -> str:
        text, tightness = part
        loose = tightness < binding and not (tightness == _TIMES and binding == _AFTER_TIMES)
        return f"{self.open}{text}{self.close}" if loose else text


def _text_part(expression: Any) -> Part:
    text, binding = formula_part(expression)
    quotient = isinstance(expression, Symbol) and expression.op is not None
    if quotient and expression.op.name == "div":
        binding = _PLUS  # a × (b / c) is read more easily than a × b / c
    return text, binding


_TEXT = _Style(str, _text_part, number, " × ", " + ", " = ", "(", ")", "…")
_LATEX = _Style(
    latex_printer.latex_name,
    latex_printer.latex_part,
    lambda value: latex_printer.latex_number(float(f"{value:.6g}")),
    r" \cdot ",
    " + ",
    " = ",
    r"\left(",
    r"\right)",
    r"\cdots",
)
_MATHML = _Style(
    mathml_printer.mathml_name,
    mathml_printer.mathml_part,
    mathml_printer.mathml_number,
    "<mo>⋅</mo>",
    "<mo>+</mo>",
    "<mo>=</mo>",
    "<mrow><mo>(</mo>",
    "<mo>)</mo></mrow>",
    "<mo>⋯</mo>",
)


def _ends(items: list[int], most: int = SHOWN) -> list[int | None]:
    """All items; of more than `most` the first and the last with None in between."""
    half = most // 2
    return [*items] if len(items) <= most else [*items[:half], None, *items[-half:]]


def _shortened(items: list[int], text: Callable[[int], str], what: str) -> list[str]:
    """The texts, shortened to the first and the last if there are many."""
    left_out = f"… {len(items) - SHOWN} {what} left out …"
    return [left_out if item is None else text(item) for item in _ends(items)]


_BEFORE_CONDITION = re.compile(r" (?=(?:if|or|and|else) )")


def _folded(line: str, width: int = 64) -> list[str]:
    """Break a long sum before a plus or equals sign, and a long term before its conditions."""
    lines = [""]
    pieces = line.replace(" + ", "\n+ ").replace(" = ", "\n= ").split("\n")
    pieces = [p if len(p) <= width else _BEFORE_CONDITION.sub("\n", p) for p in pieces]
    for piece in "\n".join(pieces).split("\n"):
        if lines[-1] and len(lines[-1]) + 1 + len(piece) > width:
            lines.append(piece)
        else:
            lines[-1] = f"{lines[-1]} {piece}".strip()
    return lines
