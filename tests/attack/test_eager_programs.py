"""Random eager programs give PyTorch's values, derivatives and `.grad`, or an error.

`python -m tests.attack.eager_programs FIRST COUNT` runs more of them.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.attack.eager_programs import Writer, compare, run_both

pytestmark = pytest.mark.slow

PROGRAMS, PARTS = 2400, 12  # about 20 s


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_programs(part: int) -> None:
    """None is wrong; we refuse next to nothing that PyTorch computes."""
    found = [compare(seed) for seed in range(part, PROGRAMS, PARTS)]
    wrong = [str(outcome) for outcome in found if outcome.kind == "WRONG"]
    assert not wrong, "\n".join(wrong)
    kinds = Counter(outcome.kind for outcome in found)
    assert kinds["same"] > 0.75 * len(found), kinds
    assert kinds["loud"] < 0.02 * len(found), kinds


@pytest.mark.filterwarnings("ignore")
def test_the_programs_reach_what_they_are_for() -> None:
    """Views, changes, indexing, dtypes, checkpoints, hooks and second derivatives all come up."""
    text = "\n".join(line for seed in range(600) for line in Writer(seed).lines)
    for word in (
        ".view(", ".T", "[0:1]", "expand", "split", "unbind", "detach()", "mul_(", "] = ", "] *= ",
        "scatter_", "m.bool", "float32", "int64", "checkpointed", "register_hook", "retain_grad",
        "no_grad", "enable_grad", "create_graph", "backward", ".grad = None", "squared", "@",
    ):  # fmt: skip
        assert word in text, word


# Programs that were wrong once, each of its own kind.
FOUND = {
    "a product of vectors was a view of something that nobody sees": """
        t0 = m.tensor([-0.886], dtype=m.float64).requires_grad_()
        t1 = t0 @ t0
        t1.tanh_()
        t1.register_hook(lambda g: g.tanh())""",
    "a gradient through zero_ could be differentiated": """
        t0 = m.tensor([-0.875], dtype=m.float64).requires_grad_()
        t1 = t0 * 2
        t1.zero_()
        t2 = slope(m, (t1 * t1).sum(), [t0], create_graph=True)""",
    "the hooks of a leaf did not run where nothing else was wanted": """
        t0 = m.tensor([0.5], dtype=m.float64).requires_grad_()
        t1 = m.tensor([1.5], dtype=m.float64).requires_grad_()
        t1.register_hook(lambda g: seen.setdefault('t1', []).append(g.detach().clone()))
        with m.no_grad(): t2 = slope(m, t1, [t0], t1.detach().clone(), retain_graph=True)""",
    "repeat shared the memory of its operand": """
        t0 = m.tensor([[0.5], [1.5]], dtype=m.float64).requires_grad_()
        t1 = t0.repeat(1, 2)
        with m.no_grad(): t0.mul_(3)""",
    "a leaf that is a view was changed through another view": """
        t0 = m.tensor([0.5, 1.5, -0.5, 1.0], dtype=m.float64).reshape(2, 2).requires_grad_()
        t1 = t0[0]
        t1.mul_(2)
        t2 = t0 * t0""",
    "a piece of memory without repetition was read-only": """
        t0 = m.tensor([0.5, 1.5], dtype=m.float64).requires_grad_()
        t1 = (t0 * 2).expand(1, 2)
        t1.mul_(t0)
        t2 = (t0 * t0).unfold(0, 1, 1)
        t2.mul_(3)""",
    "a gradient of zeros could not be differentiated": """
        t0 = m.tensor([0.5, 1.5], dtype=m.float64).requires_grad_()
        t1 = m.tensor([0.5], dtype=m.float64).requires_grad_()
        t2 = slope(m, (t0 * t0).sum(), [t1], create_graph=True)
        t3 = t2 * t0""",
    "flatten of one dimension was another tensor": """
        t0 = m.tensor([0.5, 1.5], dtype=m.float64).requires_grad_()
        t1 = t0.flatten()
        (t1 * t1).sum().backward()""",
}


@pytest.mark.parametrize("what", FOUND)
def test_programs_that_were_wrong(what: str) -> None:
    lines = [line.strip() for line in FOUND[what].strip().split("\n")]
    outcome = run_both(lines)
    assert outcome.kind == "same", outcome
