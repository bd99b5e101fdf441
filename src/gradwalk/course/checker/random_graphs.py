"""Random graphs to try an engine on: smooth at their values, with numbers of moderate size."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradwalk.course.checker.runner import OPERATIONS
from gradwalk.course.quiz.draw import ChoiceStream
from gradwalk.scalar.value import Value

LEAVES = "abcd"
LARGEST = 20.0
_TRIES = 200

# How the parser spells each op.
WRITTEN = {
    **{"add": "{} + {}", "sub": "{} - {}", "mul": "{}*{}", "div": "{}/{}", "power": "{}^{}"},
    **{"neg": "-{}", "exp": "exp({})", "tanh": "tanh({})", "relu": "relu({})"},
}
_OFTEN = ("add", "mul", "mul", "sub", "div", "add", "tanh", "exp", "relu", "neg", "power")
_EXPONENTS = (2.0, 3.0, -1.0, 0.5)


def random_graph(seed: str) -> tuple[str, dict[str, float]]:
    """An expression of eight to fourteen operations and its leaves, from a text.

    >>> source, values = random_graph("7")
    >>> source.count("=") >= 8, sorted(values) == sorted(random_graph("7")[1])
    (True, True)
    """
    draw = ChoiceStream(f"graph {seed}")
    graph = _Growing(draw)
    for _ in range(draw.integer(8, 12)):
        graph.grow()
    graph.close()
    return "; ".join(graph.statements), graph.leaves


@dataclass
class _Growing:
    """The statements so far and their values, which the next one must keep harmless."""

    draw: ChoiceStream
    statements: list[str] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    leaves: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in LEAVES[: self.draw.integer(2, 4)]:
            self.leaves[name] = self._quarter()
        self.values = dict(self.leaves)
        self.unused = list(self.leaves)

    def _quarter(self) -> float:
        return self.draw.choice((-1, 1)) * self.draw.integer(2, 10) / 4

    def grow(self) -> None:
        for _ in range(_TRIES):
            op = self.draw.choice(_OFTEN)
            operands = self._operands(op)
            if op in ("sub", "div") and operands[0] == operands[1]:
                continue  # x − x and x / x say nothing
            numbers = [self.values[x] if isinstance(x, str) else x for x in operands]
            value = self._harmless(op, numbers)
            if value is not None:
                self._state(op, operands, value)
                return

    def _operands(self, op: str) -> list[str | float]:
        # Prefer what was not used yet, so that little is left over; but often reuse anything,
        # because reuse is what engines get wrong.
        pool = self.unused if self.unused and self.draw.integer(0, 1) else list(self.values)
        first: str | float = self.draw.choice(pool)
        if op == "power":
            return [first, self.draw.choice(_EXPONENTS)]
        if op not in ("add", "sub", "mul", "div"):
            return [first]
        second: str | float = self.draw.choice(list(self.values))
        if self.draw.integer(0, 5) == 0:
            second = self._quarter()
        return [first, second] if self.draw.integer(0, 1) else [second, first]

    def _harmless(self, op: str, numbers: list[float]) -> float | None:
        """The value, if it and its derivatives are finite, moderate, and not at a corner."""
        x, *more = numbers
        if op == "div" and abs(more[0]) < 0.4:
            return None
        if op == "power" and (abs(x) < 0.4 or (x < 0 and not more[0].is_integer())):
            return None
        if op == "relu" and abs(x) < 0.05:
            return None
        if op in ("exp", "tanh") and abs(x) >= 3:
            return None
        value = float(OPERATIONS[op](Value(x), *more).data)
        return value if abs(value) <= LARGEST else None

    def _state(self, op: str, operands: list[str | float], value: float) -> None:
        name = f"n{len(self.statements) + 1}"
        written = [x if isinstance(x, str) else f"{x:g}" for x in operands]
        self.statements.append(f"{name} = {WRITTEN[op].format(*written)}")
        self.values[name] = value
        self.unused = [x for x in self.unused if x not in operands] + [name]

    def close(self) -> None:
        """Add up all unused nodes, so that every node has a gradient."""
        while len(self.unused) > 1:
            first, second = self.unused[:2]
            self._state("add", [first, second], self.values[first] + self.values[second])
