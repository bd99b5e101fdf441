"""Right: one table of operations, one place that applies them, counted consumers."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Operation:
    value: Callable[..., float]
    partials: Callable[..., tuple[float, ...]]


OPERATIONS = {
    "add": Operation(lambda a, b: a + b, lambda out, a, b: (1, 1)),
    "sub": Operation(lambda a, b: a - b, lambda out, a, b: (1, -1)),
    "mul": Operation(lambda a, b: a * b, lambda out, a, b: (b, a)),
    "div": Operation(lambda a, b: a / b, lambda out, a, b: (1 / b, -out / b)),
    "neg": Operation(lambda a: -a, lambda out, a: (-1,)),
    "exp": Operation(math.exp, lambda out, a: (out,)),
    "tanh": Operation(math.tanh, lambda out, a: (1 - out * out,)),
    "relu": Operation(lambda a: a if a > 0 else 0, lambda out, a: (1 if a > 0 else 0,)),
}


@dataclass(eq=False)
class Value:
    data: float
    inputs: tuple[Value, ...] = ()
    partials: tuple[float, ...] = ()
    grad: float = field(default=0.0, init=False)

    def backward(self) -> None:
        waiting = Counter()
        stack, met = [self], {id(self)}
        while stack:
            v = stack.pop()
            if v.inputs:
                v.grad = 0.0
            for i in v.inputs:
                waiting[id(i)] += 1
                if id(i) not in met:
                    met.add(id(i))
                    stack.append(i)
        self.grad += 1.0
        ready = deque([self])
        while ready:
            v = ready.popleft()
            for i, partial in zip(v.inputs, v.partials):
                i.grad += v.grad * partial
                waiting[id(i)] -= 1
                if not waiting[id(i)]:
                    ready.append(i)

    def __pow__(self, n: float) -> Value:
        return Value(self.data**n, (self,), (n * self.data ** (n - 1),))


def apply(name, *operands):
    inputs = tuple(x if isinstance(x, Value) else Value(x) for x in operands)
    numbers = [v.data for v in inputs]
    out = OPERATIONS[name].value(*numbers)
    return Value(out, inputs, OPERATIONS[name].partials(out, *numbers))


for method, name in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div"}.items():
    setattr(Value, f"__{method}__", lambda a, b, name=name: apply(name, a, b))
    setattr(Value, f"__r{method}__", lambda a, b, name=name: apply(name, b, a))
for method in ("exp", "tanh", "relu", "neg"):
    name = "__neg__" if method == "neg" else method
    setattr(Value, name, lambda a, op=method: apply(op, a))
