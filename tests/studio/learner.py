"""A simulated learner: gives every wrong answer that the lesson knows, then the right one.

With the keyboard alone: whatever is to be used must take the focus and listen to keys.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from playwright.sync_api import expect

from gradwalk.course.quiz.quantities import Quantities
from tests.course.lesson_files import Block, Lesson
from tests.studio.learner_cores import CORES


class Learner:
    """Work through the tasks of a lesson that is open in the browser."""

    def __init__(self, page: Any, lesson: Lesson) -> None:
        self.page = page
        self.lesson = lesson
        self.said = 0  # feedback to mistakes

    def do_all(self) -> None:
        """Do every task in order, and check the progress after each."""
        for number, block in enumerate(self.lesson.tasks, 1):
            task = self.page.locator(f'[data-task="{block.id}"]')
            expect(task, block.id).to_have_attribute("data-done", "false")
            if block.kind == "core":
                self.core(block, task)
            else:
                do = {"question": self.question, "order": self.order, "byhand": self.by_hand}
                do[block.kind](block, task)
            self.page.wait_for_selector(f'[data-task="{block.id}"][data-done=true]')
            self.has_done(number)

    def has_done(self, number: int) -> None:
        """Wait for this progress in the header of the lesson: n of all."""
        count = self.page.locator(".lesson .count").first
        expect(count).to_have_attribute("data-done", str(number))
        expect(count).to_have_attribute("data-tasks", str(len(self.lesson.tasks)))

    def press(self, element: Any, key: str = "Enter") -> None:
        """Press a key on an element that can have the focus."""
        assert element.evaluate("(e) => (e.focus(), e === document.activeElement)")
        self.page.keyboard.press(key)

    def core(self, block: Block, task: Any) -> None:
        self._take_hints(block, task)
        CORES[block.core](self, block, task)
        self.page.wait_for_selector(f'[data-task="{block.id}"][data-done=true]')
        expect(task.locator("[data-feedback=right]")).to_contain_text(
            plain(block.one("explain")), use_inner_text=True
        )

    def _hears(self, task: Any, says: str) -> None:
        expected = plain(says)
        feedback = task.locator("[data-feedback=wrong]")
        feedback.wait_for()
        expect(feedback).to_have_text(expected, use_inner_text=True)
        expect(self.page.locator("[data-announced]")).to_have_text(expected)
        expect(task).to_have_attribute("data-done", "false")
        self.said += 1

    # -- questions ---------------------------------------------------------------------------------

    def question(self, block: Block, task: Any) -> None:
        self._take_hints(block, task)
        if block.choices:
            self._choose(block, task)
        else:
            self._type(block, task)
        says = task.locator("[data-feedback=right]").inner_text()
        assert plain(block.one("explain")) in says

    def _take_hints(self, block: Block, task: Any) -> None:
        hints = block.all("hint")
        for number, hint in enumerate(hints, 1):
            expect(task.locator("[data-hint]")).to_have_count(number - 1)
            self.press(task.locator("[data-more]"))
            expect(task.locator(f'[data-hint="{number}"]')).to_have_text(
                plain(hint), use_inner_text=True
            )
        expect(task.locator("[data-more]")).to_have_count(0)

    def _type(self, block: Block, task: Any) -> None:
        field = task.locator("form input")
        field.fill("three")
        field.press("Enter")
        task.locator("[data-feedback=unread]").wait_for()
        for quantity, says in block.wrong:
            field.fill(f"{block.number(quantity):.4g}".replace("-", "−"))
            field.press("Enter")
            self._hears(task, says)
        spelled = [
            f"{block.answer:.4g}",
            f"{block.answer:.4g}".replace(".", ",").replace("-", "−"),
            f"{2 * block.answer:.5g}/2",
        ]
        field.fill(spelled[len(block.id) % 3])
        self.press(task.locator("[data-check]"))
        task.locator("[data-feedback=right]").wait_for()

    def _choose(self, block: Block, task: Any) -> None:
        for right in (False, True):
            for i, (is_right, _, says) in enumerate(block.choices):
                if is_right is not right:
                    continue
                self.press(task.locator(f"[data-choice='{i}']"), "Space")
                self.press(task.locator("[data-check]"))
                if not right:
                    self._hears(task, says)
                else:
                    expect(task.locator("[data-feedback=right]")).to_contain_text(
                        plain(says), use_inner_text=True
                    )

    # -- orders ------------------------------------------------------------------------------------

    def order(self, block: Block, task: Any) -> None:
        node, goal = block.one("goal").split(maxsplit=1)
        measure = Quantities(block.source, block.values)
        correct = measure(f"gradient {node}")
        wanted = correct if goal == "correct" else float(goal.removeprefix("=").strip())
        names = task.locator("[data-order]").get_attribute("data-order").split()
        orders = list(itertools.permutations(names))
        got = [measure(f"received {node} ({' '.join(order)})") for order in orders]
        wrong = next(order for order, number in zip(orders, got) if number not in (wanted, 0))
        right = next(order for order, number in zip(orders, got) if number == wanted)
        for order in (wrong, right):
            self._arrange(task, list(order))
            self.press(task.locator("[data-run]"))
            shown = task.locator(f'[data-outcome="{node}"]').get_attribute("data-got")
            assert float(shown) == got[orders.index(order)]
            done = task.get_attribute("data-done") == "true"
            assert done is (order is right)
        expect(task.locator("[data-feedback=right]")).to_contain_text(
            plain(block.one("explain")), use_inner_text=True
        )

    def _arrange(self, task: Any, wanted: list[str]) -> None:
        """Arrange the visits by keyboard: choose a visit, move it to its position."""
        visits = task.locator("[data-order]")
        visits.focus()
        for place, name in enumerate(wanted):
            at = visits.get_attribute("data-order").split().index(name)
            self.page.keyboard.press("Home")
            for _ in range(at):
                self.page.keyboard.press("ArrowRight")
            for _ in range(at - place):
                self.page.keyboard.press("Shift+ArrowLeft")
        assert visits.get_attribute("data-order").split() == wanted

    # -- by hand -----------------------------------------------------------------------------------

    def by_hand(self, block: Block, task: Any) -> None:
        measure = Quantities(block.source, block.values)
        forms = task.locator("[data-asked]")
        for asked in [forms.nth(i).get_attribute("data-asked") for i in range(forms.count())]:
            form = task.locator(f'[data-asked="{asked}"]')
            right = measure(asked.replace("grad ", "gradient "))
            field = form.locator("input")
            field.fill(f"{-right or 77:.5g}")
            field.press("Enter")
            form.locator(".verdict").wait_for()
            expect(form).to_have_attribute("data-done", "")
            if right:
                assert form.locator(".verdict").get_attribute("data-verdict") != "byhand.wrong"
            field.fill(f"{right:.5g}")
            field.press("Enter")
            self.page.wait_for_selector(
                f'[data-task="{block.id}"] [data-asked="{asked}"][data-done=right]'
            )


def plain(text: str) -> str:
    """A lesson's text as it is shown."""
    return re.sub(r"[*`]", "", text)
