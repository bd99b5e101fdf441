"""Twenty-eight wrong engines: right_partials.py with one bug each.

A row describes the bug and gives the replacement; tests write the engine to a file and check it.
"""

from pathlib import Path

RIGHT = (Path(__file__).parent / "engines" / "right_partials.py").read_text(encoding="utf-8")


def wrong(name: str) -> str:
    """The source of an engine with this bug."""
    said, *changes = BUGS[name]
    source = RIGHT
    for old, new in zip(changes[::2], changes[1::2]):
        assert source.count(old) == 1, (name, old)
        source = source.replace(old, new)
    return f"# Wrong: {said}\n{source}"


# The walk of the right engine, and its remains in engines without an order.
WALK = """\
        for v in reversed(order):
            for i, partial in zip(v.inputs, v.partials):
                i.grad += v.grad * partial"""
ANY_ORDER = (
    """\
        order = inputs_first(self)
        for v in order:""",
    "        for v in every_node(self):",
    """\
def inputs_first(root):
    order, seen = [], set()
    stack = [(root, False)]""",
    """\
def every_node(root):
    seen, stack = {root}, [root]""",
    """\
        v, inputs_done = stack.pop()
        if inputs_done:
            order.append(v)
        elif v not in seen:
            seen.add(v)
            stack.append((v, True))
            stack.extend((i, False) for i in v.inputs)
    return order""",
    """\
        new = [i for i in stack.pop().inputs if i not in seen]
        seen.update(new)
        stack.extend(new)
    return seen""",
)

BUGS = {
    "breadth_first": (
        "nearest to the root first.",
        "import math",
        """\
import math
from collections import deque""",
        WALK,
        """\
        waiting, seen = deque([self]), set()
        while waiting:
            v = waiting.popleft()
            if v not in seen:
                seen.add(v)
                for i, partial in zip(v.inputs, v.partials):
                    i.grad += v.grad * partial
                waiting.extend(v.inputs)""",
        *ANY_ORDER,
    ),
    "clears": (
        "leaves forget what they had.",
        """\
            if v.inputs:
                v.grad = 0.0""",
        "            v.grad = 0.0",
    ),
    "cut": (
        "1 + a makes a new leaf, which knows nothing of a.",
        "        return lift(other) + self",
        "        return Value(other + self.data)",
    ),
    "div": (
        "d(a/b)/db without its minus sign.",
        "        return Value(out, (self, other), (1 / other.data, -out / other.data))",
        "        return Value(out, (self, other), (1 / other.data, out / other.data))",
    ),
    "every_path": (
        "right numbers, found along every path, one by one.",
        """\
        self.grad = 1.0
        for v in reversed(order):
            for i, partial in zip(v.inputs, v.partials):
                i.grad += v.grad * partial""",
        """\
        self.receive(1.0)

    def receive(self, g):
        self.grad += g
        for i, partial in zip(self.inputs, self.partials):
            i.receive(g * partial)""",
        *ANY_ORDER,
    ),
    "exp": (
        "the input of exp instead of its output.",
        "        return Value(out, (self,), (out,))",
        "        return Value(out, (self,), (self.data,))",
    ),
    "first_use": (
        "a value that has a gradient already takes no more.",
        "                i.grad += v.grad * partial",
        """\
                if i.grad == 0:
                    i.grad = v.grad * partial""",
    ),
    "local_only": (
        "the local derivative without the gradient above it.",
        "                i.grad += v.grad * partial",
        "                i.grad += partial",
    ),
    "mul_own": (
        "a·b hands each input itself.",
        "        return Value(self.data * other.data, (self, other), (other.data, self.data))",
        "        return Value(self.data * other.data, (self, other), (self.data, other.data))",
    ),
    "neg_sign": (
        "−a hands on a plus, and subtraction is made of it.",
        "        return Value(self.data - other.data, (self, other), (1.0, -1.0))",
        "        return self + (-other)",
        "        return Value(-self.data, (self,), (-1.0,))",
        "        return Value(-self.data, (self,), (1.0,))",
    ),
    "no_numbers": (
        "a + 1 expects a Value.",
        """\
    def __add__(self, other):
        other = lift(other)""",
        "    def __add__(self, other):",
    ),
    "no_reflected": (
        "a number on the left is not understood.",
        """\
    def __radd__(self, other):
        return lift(other) + self

    def __rsub__(self, other):
        return lift(other) - self

    def __rmul__(self, other):
        return lift(other) * self

    def __rtruediv__(self, other):
        return lift(other) / self""",
        "",
    ),
    "no_seed": (
        "the root has no gradient to begin with.",
        "        self.grad = 1.0",
        "",
    ),
    "one_edge": (
        "inputs are kept in a dict, where a·a has one.",
        "            for i, partial in zip(v.inputs, v.partials):",
        "            for i, partial in dict(zip(v.inputs, v.partials)).items():",
    ),
    "overwrites": (
        "= instead of +=.",
        "                i.grad += v.grad * partial",
        "                i.grad = v.grad * partial",
    ),
    "plain_recursion": (
        "hands on, then calls its inputs, once for every path.",
        WALK,
        """\
        self.hand_on()

    def hand_on(self):
        for i, partial in zip(self.inputs, self.partials):
            i.grad += self.grad * partial
        for i in self.inputs:
            i.hand_on()""",
        *ANY_ORDER,
    ),
    "pow": (
        "aⁿ without the factor n, and division is made of it.",
        """\
        out = self.data / other.data
        return Value(out, (self, other), (1 / other.data, -out / other.data))""",
        "        return self * other**-1",
        "        return Value(self.data**n, (self,), (n * self.data ** (n - 1),))",
        "        return Value(self.data**n, (self,), (self.data ** (n - 1),))",
    ),
    "pre_order": (
        "depth-first, each node handing on as soon as it is met.",
        WALK,
        """\
        waiting, seen = [self], set()
        while waiting:
            v = waiting.pop()
            if v not in seen:
                seen.add(v)
                for i, partial in zip(v.inputs, v.partials):
                    i.grad += v.grad * partial
                waiting.extend(v.inputs)""",
        *ANY_ORDER,
    ),
    "quadratic": (
        "looks for every node in a list.",
        "    order, seen = [], set()",
        "    order, seen = [], []",
        """\
        elif v not in seen:
            seen.add(v)""",
        """\
        elif all(v is not s for s in seen):
            seen.append(v)""",
    ),
    "recursion": (
        "a topological order by recursion.",
        "import math",
        """\
import math
import sys

sys.setrecursionlimit(1_000_000)""",
        """\
    stack = [(root, False)]
    while stack:
        v, inputs_done = stack.pop()
        if inputs_done:""",
        """\

    def visit(v):
        if v not in seen:
            seen.add(v)
            for i in v.inputs:
                visit(i)""",
        """\
        elif v not in seen:
            seen.add(v)
            stack.append((v, True))
            stack.extend((i, False) for i in v.inputs)""",
        """\

    visit(root)""",
    ),
    "relu": (
        "relu lets the gradient of a negative input through.",
        "        return Value(max(0.0, self.data), (self,), (1.0 if self.data > 0 else 0.0,))",
        "        return Value(max(0.0, self.data), (self,), (1.0,))",
    ),
    "rsub": (
        "2 − a is computed as a − 2.",
        "        return lift(other) - self",
        "        return self - lift(other)",
    ),
    "seed_value": (
        "begins with the value of the root.",
        "        self.grad = 1.0",
        "        self.grad = self.data",
    ),
    "stale": (
        "inner gradients are still there when backward is called again.",
        """\
        for v in order:
            if v.inputs:
                v.grad = 0.0""",
        "",
    ),
    "sub_sign": (
        "a − b hands b a plus.",
        "        return Value(self.data - other.data, (self, other), (1.0, -1.0))",
        "        return Value(self.data - other.data, (self, other), (1.0, 1.0))",
    ),
    "taken_at_once": (
        "gradients in a dict; a value is taken out of it as soon as something has arrived.",
        "import math",
        """\
import math
from collections import deque""",
        WALK,
        """\
        waiting, arrived = deque([self]), {self: 1.0}
        while waiting:
            v = waiting.popleft()
            v.grad = arrived[v] if v.inputs else v.grad + arrived[v]
            for i, partial in zip(v.inputs, v.partials):
                if i not in arrived:
                    waiting.append(i)
                arrived[i] = arrived.get(i, 0.0) + v.grad * partial""",
        *ANY_ORDER,
    ),
    "tanh": (
        "the input of tanh instead of its output.",
        "        return Value(out, (self,), (1 - out * out,))",
        "        return Value(out, (self,), (1 - self.data * self.data,))",
    ),
    "tanh_value": (
        "tanh without its 2.",
        "        out = math.tanh(self.data)",
        "        out = (math.exp(self.data) - 1) / (math.exp(self.data) + 1)",
    ),
}
