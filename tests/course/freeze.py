"""Write src/gradwalk/course/checker/checked_values.json: graphs with PyTorch's numbers.

    python -m tests.course.freeze

The file is committed, so that the checker can compare a learner's engine with PyTorch where PyTorch
is not installed. test_checked_values.py recomputes it and compares.
"""

import json
from typing import Any

import torch

from gradwalk.course.checker import runner
from gradwalk.course.checker.random_graphs import random_graph
from gradwalk.course.checker.trials import CHECKED_VALUES, trial

GRAPHS = 16


def by_pytorch(source: str, values: dict[str, float]) -> dict[str, Any]:
    """Every node's value and gradient, in double precision."""
    made = trial("graphs", source, values)

    def leaf(x: float) -> torch.Tensor:
        return torch.tensor(x, dtype=torch.float64, requires_grad=True)

    nodes = runner.compute(leaf, made.steps)
    for node in nodes:
        node.retain_grad()
    nodes[-1].backward()
    return {
        "source": source,
        "values": values,
        "data": {name: node.item() for name, node in zip(made.names, nodes)},
        "grad": {name: node.grad.item() for name, node in zip(made.names, nodes)},
    }


if __name__ == "__main__":
    entries = [by_pytorch(*random_graph(f"PyTorch {i}")) for i in range(GRAPHS)]
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    CHECKED_VALUES.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"wrote {len(entries)} graphs to {CHECKED_VALUES.name}")
