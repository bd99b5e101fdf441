"""How a learner works through the cores of lessons 7 to 12, with the keyboard alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from gradwalk.course.lesson_files import Block

if TYPE_CHECKING:
    from tests.studio.learner import Learner


def slide(learner: Learner, task: Any, label: str, key: str, presses: int) -> None:
    """Move a slider by its label."""
    learner.press(task.get_by_label(label), key)
    for _ in range(presses - 1):
        learner.page.keyboard.press(key)


def is_done(task: Any) -> bool:
    return bool(task.get_attribute("data-done") == "true")


def doubling(learner: Learner, block: Block, task: Any) -> None:
    """Up to the goal, and not a stage further."""
    for stages in range(3, 61):
        slide(learner, task, "The number of stages", "ArrowRight", 1)
        paths = int(task.locator("[data-paths]").get_attribute("data-paths"))
        assert paths == 2**stages
        if paths >= block.number(block.one("goal")):
            return
        assert not is_done(task)


def cost(learner: Learner, block: Block, task: Any) -> None:
    learner.press(task.locator("[data-measure]"))
    assert float(task.locator("[data-ratio]").get_attribute("data-ratio")) > 0


def epsilon(learner: Learner, block: Block, task: Any) -> None:
    """One side never gets there; both sides do, with a step in the middle."""
    below = block.number(block.one("below"))
    for form in ("forward", "central"):
        learner.press(task.locator(f"[data-form={form}]"), "Space")
        learner.press(task.get_by_label("The power of ten of the step"), "End")
        for _ in range(14):
            error = float(task.locator("[data-error]").get_attribute("data-error"))
            if error < below:
                return
            assert not is_done(task)
            learner.press(task.get_by_label("The power of ten of the step"), "ArrowLeft")


def checkpoint(learner: Learner, block: Block, task: Any) -> None:
    layers = int(block.number(block.one("layers")))
    least = min(n + -(-layers // n) for n in range(1, layers + 1))
    for _ in range(layers):
        slide(learner, task, "The number of segments", "ArrowRight", 1)
        if int(task.locator("[data-kept]").get_attribute("data-kept")) == least:
            return
        assert not is_done(task)


def hunt(learner: Learner, block: Block, task: Any) -> None:
    """Blame a healthy leaf and the loss first."""
    cause = block.one("cause")
    for suspect, says in [("y", "ordinary number"), ("L", "Go further back")]:
        learner.press(task.locator(f'[data-suspect="{suspect}"]'))
        expect(task.locator("[data-feedback=core]")).to_contain_text(says, use_inner_text=True)
    learner.press(task.locator(f'[data-suspect="{cause}"]'))


def depth(learner: Learner, block: Block, task: Any) -> None:
    goal = block.one("goal")
    if goal == "dead":
        slide(learner, task, "The input x", "Home", 1)
    elif goal == "survive":
        learner.press(task.locator("[data-activation=tanh]"), "Space")
        assert not is_done(task)
        learner.press(task.locator("[data-activation=relu]"), "Space")
    else:
        if goal == "explode":
            slide(learner, task, "The weight w of every layer", "End", 1)
        assert not is_done(task)
        slide(learner, task, "The number of layers", "End", 1)


def fit(learner: Learner, block: Block, task: Any) -> None:
    """What does not fit, what fits and has another shape, and the product."""
    right = ("Xᵀ", "dY") if block.one("of") == "W" else ("dY", "Wᵀ")
    for factors, says in [(("X", "dY"), "does not fit"), (("X", "W"), "shape"), (right, "")]:
        for i, name in enumerate(factors):
            task.locator(f"[data-factor='{i}']").select_option(name)
        learner.press(task.locator("[data-check-product]"))
        if says:
            expect(task.locator("[data-feedback=core]")).to_contain_text(says, use_inner_text=True)
            assert not is_done(task)


def mask(learner: Learner, block: Block, task: Any) -> None:
    for _ in range(6):
        slide(learner, task, "The power of ten of the number of units", "ArrowRight", 1)
        used = int(task.locator("[data-bytes]").get_attribute("data-bytes"))
        if used > block.number(block.one("bytes")):
            return
        assert not is_done(task)


def softmax(learner: Learner, block: Block, task: Any) -> None:
    """Down the gradient: the loss falls at every step."""
    losses = []
    for _ in range(40):
        losses.append(float(task.locator("[data-loss]").get_attribute("data-loss")))
        learner.press(task.locator("[data-descend]"))
        if is_done(task):
            break
    assert losses == sorted(losses, reverse=True)


def loop(learner: Learner, block: Block, task: Any) -> None:
    """As it stands the step comes first; then cleared too early; then right."""

    def order() -> list[str]:
        return [str(line.get_attribute("data-line")) for line in task.locator("[data-line]").all()]

    def arrange(wanted: list[str]) -> None:
        for place, line in enumerate(wanted):
            for _ in range(order().index(line) - place):
                learner.press(task.locator(f"[data-up={line}]"))
        assert order() == wanted

    tries = [
        (["step", "backward", "zero", "forward"], "nothing moves"),
        (["forward", "backward", "zero", "step"], "just before"),
        (["backward", "forward", "zero", "step"], "before there is a loss"),
        (["forward", "zero", "backward", "step"], ""),
    ]
    for wanted, says in tries:
        arrange(wanted)
        learner.press(task.locator("[data-run-loop]"))
        if says:
            expect(task.locator("[data-feedback=core]")).to_contain_text(says, use_inner_text=True)
            assert not is_done(task)


def race(learner: Learner, block: Block, task: Any) -> None:
    """From the largest rate, with which SGD is lost, then up from the smallest."""
    for name in ("sgd", "momentum", "adam"):
        racer = task.locator(f"[data-racer={name}]")
        field = racer.locator("input[type=range]")
        learner.press(field, "End")
        assert name != "sgd" or "leaves the valley" in racer.inner_text()
        learner.press(field, "Home")
        for _ in range(36):
            if int(racer.get_attribute("data-arrived")):
                break
            learner.page.keyboard.press("ArrowRight")


def editor(learner: Learner, block: Block, task: Any) -> None:
    """A site has no Python: the learner says what the command said."""
    task.locator("textarea").fill("class Value:\n    pass\n")
    expect(task).to_contain_text("gradwalk course check", use_inner_text=True)
    learner.press(task.locator("[data-passed]"), "Space")


NETWORK_CORES: dict[str, Callable[[Learner, Block, Any], None]] = {
    "checkpoint": checkpoint,
    "cost": cost,
    "depth": depth,
    "doubling": doubling,
    "editor": editor,
    "epsilon": epsilon,
    "fit": fit,
    "hunt": hunt,
    "loop": loop,
    "mask": mask,
    "race": race,
    "softmax": softmax,
}
