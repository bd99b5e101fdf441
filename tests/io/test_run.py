"""A checkpoint holds a whole run; one that does not fit changes nothing."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.io import FileError, previous_of
from gradwalk.io.safetensors_files import read, write

OPTIMIZERS = [
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("AdamW", {"lr": 0.01, "amsgrad": True}),
    ("NAdam", {}),
    ("LBFGS", {"max_iter": 3, "line_search_fn": "strong_wolfe"}),
]


class Training:
    """A model with dropout-like noise, data in random order, an optimizer and a schedule."""

    def __init__(self, name: str = "AdamW", options: Any = None, seed: int = 0) -> None:
        gw.manual_seed(seed)
        nn = gw.nn
        self.model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
        self.optimizer = getattr(gw.optim, name)(self.model.parameters(), **(options or {}))
        self.scheduler = gw.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.95)
        self.loader = gw.data.DataLoader(gw.data.moons(50), batch_size=16, shuffle=True)
        self.batches: Any = iter(())
        self.step = 0

    def parts(self) -> dict[str, Any]:
        return {k: vars(self)[k] for k in ("model", "optimizer", "scheduler", "loader")}

    def walk(self, steps: int) -> "Training":
        for _ in range(steps):
            batch = next(self.batches, None)
            while batch is None:
                self.batches = iter(self.loader)
                batch = next(self.batches, None)
            points, labels = batch
            noisy = points + 0.1 * gw.randn(*points.shape)

            def closure(noisy: Any = noisy, labels: Any = labels) -> Any:
                self.optimizer.zero_grad()
                loss = gw.nn.functional.cross_entropy(self.model(noisy), labels)
                loss.backward()
                return loss

            self.optimizer.step(closure)
            self.scheduler.step()
            self.step += 1
        return self

    def weights(self) -> list[Any]:
        return [p.detach().numpy().copy() for p in self.model.parameters()]


def equal(a: Training, b: Training) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a.weights(), b.weights()))


@pytest.mark.parametrize("stop", [0, 3, 4, 7])
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_a_resumed_run_ends_with_the_same_bits(
    name: str, options: Any, stop: int, tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"
    whole = Training(name, options).walk(12)
    first = Training(name, options).walk(stop)
    gw.save_run(path, **first.parts(), step=first.step, notes={"best": [1.5, None], 3: (1, "x")})

    resumed = Training(name, options, seed=99)
    found = gw.load_run(path, **resumed.parts())
    assert found == {"step": stop, "notes": {"best": [1.5, None], 3: (1, "x")}}
    assert equal(resumed.walk(12 - stop), whole)
    assert not equal(first, whole)


def test_the_previous_checkpoint_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run"
    for step in range(3):
        gw.save_run(path, step=step)
    assert gw.load_run(path) == {"step": 2}
    assert gw.load_run(previous_of(path)) == {"step": 1}
    assert sorted(os.listdir(tmp_path)) == ["run", "run.previous"]
    path.write_bytes(b"damaged")
    with pytest.raises(FileError, match=r"run\.previous"):
        gw.load_run(path)


def test_partial_files_of_killed_runs_are_swept(tmp_path: Path) -> None:
    old, recent = tmp_path / ".run.1-abc.partial", tmp_path / ".run.2-abc.partial"
    for left in (old, recent):
        left.write_bytes(b"half")
    os.utime(old, (0, 0))
    gw.save_run(tmp_path / "run", step=1)
    assert not old.exists()
    assert recent.exists()


def test_special_numbers_and_tensors_are_kept(tmp_path: Path) -> None:
    extras = {"inf": float("inf"), "tiny": 5e-324, "big": 2**70, "x": gw.ones(2), "t": (), "d": {}}
    gw.save_run(tmp_path / "run", **extras, count=np.int64(3), rate=np.float64(0.1))
    found = gw.load_run(tmp_path / "run")
    assert found.pop("x").tolist() == extras.pop("x").tolist()
    assert found == {**extras, "count": 3, "rate": 0.1}


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"settings\.when holds PosixPath|settings\.when holds Win"):
        gw.save_run(tmp_path / "run", settings={"when": tmp_path})
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="notes is nested too deeply"):
        gw.save_run(tmp_path / "run", notes=endless)
    with pytest.raises(ValueError, match="taken"):
        gw.save_run(tmp_path / "run", random=1)
    assert os.listdir(tmp_path) == []


def state_of(training: Training) -> Any:
    kept = [v for s in training.optimizer.state.values() for v in s.values()]
    arrays = [v.detach().numpy().copy() for v in kept if isinstance(v, gw.Tensor)]
    plain = [training.scheduler.state_dict(), training.loader.state_dict()]
    groups = [{**g, "params": 0} for g in training.optimizer.param_groups]
    return [a.tolist() for a in [*training.weights(), *arrays]], json.dumps([plain, groups])


def damaged_files(path: Path) -> Any:
    """The checkpoint at `path` changed in many ways, each with a fresh checksum."""
    arrays, metadata = read(path)
    tree = json.loads(metadata["tree"])

    def rewritten(change: Any) -> None:
        copied, numbers = json.loads(json.dumps(tree)), dict(arrays)
        change(copied, numbers)
        write(path, numbers, {"gradwalk_run": "1", "tree": json.dumps(copied)})

    def reshape(tree: Any, arrays: Any) -> None:
        arrays["model.0.weight"] = np.zeros(5, np.float32)

    def text_for_a_weight(tree: Any, arrays: Any) -> None:
        tree["parts"]["model"]["0.weight"] = "text"

    def no_weight(tree: Any, arrays: Any) -> None:
        del tree["parts"]["model"]["0.weight"]

    def no_optimizer(tree: Any, arrays: Any) -> None:
        del tree["parts"]["optimizer"]

    def other_moment(tree: Any, arrays: Any) -> None:
        arrays["optimizer.state.0.exp_avg"] = np.zeros((2, 8), np.float32)

    def negative_rate(tree: Any, arrays: Any) -> None:
        tree["parts"]["optimizer"]["param_groups"][0]["lr"] = -1

    def fewer_groups(tree: Any, arrays: Any) -> None:
        tree["parts"]["optimizer"]["param_groups"] = []

    def no_epoch(tree: Any, arrays: Any) -> None:
        tree["parts"]["scheduler"] = {}

    def wrong_position(tree: Any, arrays: Any) -> None:
        tree["parts"]["loader"]["position"] = "three"

    def wrong_random(tree: Any, arrays: Any) -> None:
        tree["parts"]["random"] = {"seed": "x"}

    def lost_array(tree: Any, arrays: Any) -> None:
        del arrays["model.0.weight"]

    def unknown_mark(tree: Any, arrays: Any) -> None:
        tree["plain"]["step"] = {"$": "object", "name": "os.system"}

    def wrong_kinds(tree: Any, arrays: Any) -> None:
        tree["parts"] = 3

    changes = [
        reshape, text_for_a_weight, no_weight, no_optimizer, other_moment, negative_rate,
        fewer_groups, no_epoch, wrong_position, wrong_random, lost_array, unknown_mark,
        wrong_kinds,
    ]  # fmt: skip
    for change in changes:
        rewritten(change)
        yield change.__name__


def test_a_checkpoint_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run"
    saved = Training().walk(5)
    gw.save_run(path, **saved.parts(), step=5)
    current = Training(seed=7).walk(2)
    before, random_state = state_of(current), gw.get_rng_state()
    for name in damaged_files(path):
        with pytest.raises(FileError):
            gw.load_run(path, **current.parts())
        assert state_of(current) == before, name
        assert gw.get_rng_state() == random_state, name


def test_truncated_every_64_bytes(tmp_path: Path) -> None:
    path = tmp_path / "run"
    training = Training().walk(2)
    gw.save_run(path, **training.parts(), step=2)
    content, before = path.read_bytes(), state_of(training.walk(1))
    for end in range(0, len(content), 64):
        path.write_bytes(content[:end])
        with pytest.raises(FileError):
            gw.load_run(path, **training.parts())
    assert state_of(training) == before


def test_runs_and_state_dicts_are_told_apart(tmp_path: Path) -> None:
    gw.save_run(tmp_path / "run", step=1)
    with pytest.raises(FileError, match="load_run"):
        gw.load(tmp_path / "run")
    gw.save({"x": gw.ones(1)}, tmp_path / "state")
    with pytest.raises(FileError, match=r"gradwalk\.load\("):
        gw.load_run(tmp_path / "state")
    with pytest.raises(FileError, match="has no model"):
        gw.load_run(tmp_path / "run", model=gw.nn.Linear(1, 1))
    write(tmp_path / "later", {}, {"gradwalk_run": "3", "tree": "{}"})
    with pytest.raises(FileError, match="another version"):
        gw.load_run(tmp_path / "later")
