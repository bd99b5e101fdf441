"""How a learner works through each interactive core, with the keyboard alone.

Each makes the mistakes that the core recognises before it reaches the goal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from gradwalk.course.lesson_files import Block
from tests.studio.learner_network_cores import NETWORK_CORES

if TYPE_CHECKING:
    from tests.studio.learner import Learner


def hears(task: Any, key: str) -> None:
    """The core answers with this sentence."""
    task.locator(f'[data-said="{key}"]').wait_for()
    expect(task).to_have_attribute("data-done", "false")


def nudge(learner: Learner, block: Block, task: Any) -> None:
    """Smaller and smaller steps, or sideways until the slope is the wanted one."""
    if block.one("goal") == "agree":
        for size in task.locator("[data-step-size]").all():
            learner.press(size, "Space")
            if task.get_attribute("data-done") == "true":
                return
        return
    wanted = block.number(block.one("goal").removeprefix("slope = "))
    learner.press(task.locator("input[type=range]"), "Home")
    for _ in range(200):
        if float(task.locator("[data-slope]").get_attribute("data-slope")) >= wanted:
            return
        learner.page.keyboard.press("ArrowRight")


def build(learner: Learner, block: Block, task: Any) -> None:
    """Each node after its inputs; before the first, with another operation."""
    trace = block.quantities.trace
    signs = {"add": "+", "sub": "−", "mul": "×"}

    def place(sign: str, inputs: list[str]) -> None:
        learner.press(task.locator(f'[data-tool="{sign}"]'))
        for name in inputs:
            learner.press(task.locator(f'[data-small="{name}"]'), "Space")

    learner.press(task.locator("[data-small]").first)
    hears(task, "core.build.first")
    for number, node in enumerate(n for n in trace if n.op):
        inputs = [trace.nodes[edge.node].label for _, edge in node.edges]
        if number == 0:
            place("−", inputs)
            hears(task, "core.build.otherOp")
            place(signs[node.op], [inputs[0], inputs[0]])
            hears(task, "core.build.otherInputs")
        place(signs[node.op], inputs)


def ruler(learner: Learner, block: Block, task: Any) -> None:
    """Too flat at first; then as steep as the edge is."""
    most, step = block.number(block.one("most")), block.number(block.one("step"))
    names = [edge.get_attribute("data-edge") for edge in task.locator("[data-edge]").all()]
    button = task.locator("[data-touches]")
    learner.press(button)
    hears(task, "core.ruler.flat")
    for name in names:
        local = block.number(f"local {name}")
        learner.press(task.locator(f'[data-edge="{name}"]'))
        slider = task.locator("input[type=range]")
        if local < 0:
            learner.press(slider, "Home")
        here = -most if local < 0 else 0
        slider.focus()
        for _ in range(round((local - here) / step)):
            learner.page.keyboard.press("ArrowRight")
        learner.press(button)


def carry(learner: Learner, block: Block, task: Any) -> None:
    """At every edge each wrong token, then the right one."""
    early = next((n for n in block.quantities.trace if n.op), None)
    assert early is not None
    learner.press(task.locator(f'[data-small="{early.label}"]'))
    hears(task, "core.carry.waits")
    learner.press(task.locator("[data-edge]").last)
    for _ in range(40):
        if task.get_attribute("data-done") == "true":
            return
        edge = task.locator("[data-carry]").get_attribute("data-carry")
        here = task.locator(f'[data-carry="{edge}"]')
        for token in here.locator('[data-token]:not([data-token="product"])').all():
            learner.press(token)
            hears(task, f"core.carry.{token.get_attribute('data-token')}")
        learner.press(here.locator('[data-token="product"]'))
        task.locator('[data-said="core.carry.moved"], [data-said="core.carry.all"]').wait_for()


def arrive(learner: Learner, block: Block, task: Any) -> None:
    """Both boxes filled, the wrong one chosen first."""
    name = block.one("node")
    for token in task.locator("[data-send]").all():
        learner.press(token)
    added = task.locator('[data-receiver="+="]').get_attribute("data-got")
    assert float(added) == block.number(f"gradient {name}")
    wrong, right = task.locator('[data-box="="]'), task.locator('[data-box="+="]')
    learner.press(wrong)
    hears(task, "core.arrive.measureFirst")
    learner.press(task.locator("[data-measure]"))
    measured = task.locator("[data-measured]").get_attribute("data-measured")
    assert abs(float(measured) - block.number(f"gradient {name}")) < 1e-3
    learner.press(wrong)
    hears(task, "core.arrive.wrong")
    learner.press(right)


def sort(learner: Learner, block: Block, task: Any) -> None:
    """Watch it to the end; then the root too early, and each node after its inputs."""
    names = [n.label for n in block.quantities.trace if n.label]
    for _ in range(2 * len(names)):
        learner.press(task.locator("[data-next-move]"))
    hears(task, "core.sort.watched")
    assert task.locator("[data-list]").get_attribute("data-list").split()[-1] == names[-1]
    learner.press(task.locator("[data-own]"))
    learner.press(task.locator(f'[data-small="{names[-1]}"]'))
    hears(task, "core.sort.tooEarly")
    for name in names:
        learner.press(task.locator(f'[data-small="{name}"]'), "Space")


# By core: reach its goal.
CORES: dict[str, Callable[[Learner, Block, Any], None]] = {
    "arrive": arrive,
    "build": build,
    "carry": carry,
    "nudge": nudge,
    "ruler": ruler,
    "sort": sort,
    **NETWORK_CORES,
}
