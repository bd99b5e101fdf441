"""What a keeper no longer searches for is still read at every call."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from gradwalk.torch.rerun.python_state import Keeper, State
from gradwalk.torch.rerun.state_by_type import LONGEST

CALLS = 7  # of these, the last ones find the same objects as before
Config = dict[str, Any]


class Trainer:
    """An object of the program's own, which leads to everything else."""

    def __init__(self) -> None:
        self.config: Config = {"inner": {"count": 0}, "names": ["a"], "batch": None}
        self.left, self.right = [[*map(str, range(8))], ["8"]]
        self.long = [0] * LONGEST
        self.count = 0

        def counted() -> int:
            nonlocal number
            number += 1
            return number

        number = 0
        self.counted = counted


def state_of(keeper: Keeper, trainer: Trainer) -> State:
    return keeper.now([model], [], [{"trainer": trainer}])


model = nn.Linear(1, 1)


def settled() -> tuple[Keeper, Trainer]:
    keeper, trainer = Keeper(), Trainer()
    for _ in range(CALLS):
        state_of(keeper, trainer)
    return keeper, trainer


CHANGES: dict[str, tuple[Callable[[Trainer], Any], Callable[[Trainer], Any]]] = {
    "an attribute": (lambda t: setattr(t, "count", t.count + 1), lambda t: t.count),
    "a cell": (lambda t: t.counted(), lambda t: t.counted.__closure__[0].cell_contents),  # type: ignore[attr-defined]
    "a number deep inside": (
        lambda t: t.config["inner"].update(count=t.config["inner"]["count"] + 1),
        lambda t: t.config["inner"]["count"],
    ),
    "an element": (lambda t: t.config["names"].append("b"), lambda t: list(t.config["names"])),
    "an element that moves to the next list": (
        lambda t: t.right.insert(0, t.left.pop()),
        lambda t: (list(t.left), list(t.right)),
    ),
    "a list that grows too long": (lambda t: t.long.append(1), lambda t: len(t.long)),
    "a name, with the same value": (
        lambda t: t.config.update({f"{list(t.config)[-1]}+": t.config.pop(list(t.config)[-1])}),
        lambda t: list(t.config),
    ),
    "a new container": (
        lambda t: t.config.update(inner={"count": t.config["inner"]["count"] + 1}),
        lambda t: t.config["inner"]["count"],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_at_once_and_set_back(name: str) -> None:
    change, look = CHANGES[name]
    keeper, trainer = settled()
    assert keeper._settled is not None  # it no longer follows every reference
    taken = []
    for _ in range(4):
        taken.append((look(trainer), state_of(keeper, trainer)))
        change(trainer)
    assert len({str(value) for value, _ in taken}) == 4
    for value, state in reversed(taken):
        state.restore()
        assert look(trainer) == value


def test_what_hangs_on_a_new_container_is_followed_too() -> None:
    keeper, trainer = settled()
    trainer.config["inner"] = {"deep": [[1]]}
    state = state_of(keeper, trainer)
    trainer.config["inner"]["deep"][0].append(2)
    state.restore()
    assert trainer.config["inner"]["deep"] == [[1]]


class Batch(list[Any]):
    """A list with weak references."""


def test_the_batch_of_a_step_is_not_kept_alive() -> None:
    keeper, trainer = Keeper(), Trainer()
    old: list[weakref.ref[Batch]] = []
    for _ in range(CALLS):
        trainer.config["batch"] = Batch([1])
        old.append(weakref.ref(trainer.config["batch"]))
        state_of(keeper, trainer)
    assert keeper._settled is not None
    assert [batch() for batch in old[:-1]] == [None] * (CALLS - 1)


def test_an_object_that_the_program_lets_go_is_let_go_after_two_calls() -> None:
    keeper, trainer = Keeper(), Trainer()
    trainer.config["batch"] = Batch([1])
    kept = weakref.ref(trainer.config["batch"])
    for _ in range(CALLS):
        state_of(keeper, trainer)
    trainer.config["batch"] = None
    for _ in range(3):
        state_of(keeper, trainer)
    assert kept() is None
