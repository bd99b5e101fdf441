"""source(), graph, record() and explain() of a compiled step on a device, and its programs on
disk."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import gradwalk as gw
from gradwalk.compiler.backends.llvm.runtime import object_cache
from gradwalk.compiler.backends.xla import program_cache
from gradwalk.compiler.functional.whole_ops import PLAIN, name_for_users
from gradwalk.nn import functional as F


class Training:
    """Dropout, cross entropy and Adam."""

    def __init__(self) -> None:
        gw.manual_seed(0)
        self.model = gw.nn.Sequential(gw.nn.Linear(4, 8), gw.nn.Dropout(0.1), gw.nn.Linear(8, 3))
        self.model.to("xla")
        self.optimizer = gw.optim.Adam(self.model.parameters(), 0.1)
        self.step = gw.compile(self.train, check="finite")

    def train(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss


def batch(size: int = 6) -> tuple[Any, Any]:
    x = np.random.default_rng(0).standard_normal((size, 4)).astype(np.float32)
    return gw.tensor(x, device="xla"), gw.tensor(np.arange(size) % 3, device="xla")


@pytest.fixture(scope="module")
def trained() -> Training:
    training = Training()
    training.step(*batch())
    return training


def test_source_reads_what_was_compiled(trained: Training) -> None:
    weights = [p.tolist() for p in trained.model.parameters()]
    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if "backend_compile" in event else None
    )
    stable, hlo = trained.step.source(form="stablehlo"), trained.step.source(form="hlo")
    both = trained.step.source()
    assert not compiled
    assert "module @jit_train" in stable and "stablehlo.dot_general" in stable
    assert stable.count("tf.aliasing_output") == 12  # four parameters, two moments of each
    assert hlo.startswith("HloModule jit_train") and "stablehlo" not in hlo
    assert re.search(r"test_device_introspection.py:\d+/linear/dot_general", hlo)  # the user's line
    assert both.startswith(stable.rstrip()) and both.endswith(hlo.rstrip())
    assert weights == [p.tolist() for p in trained.model.parameters()]
    trained.step(*batch()).item()  # its state was not donated
    jax.jit(lambda x: x + 1.25)(1.0)
    assert compiled  # it would have been noticed


def test_source_has_the_forms_of_its_backend(trained: Training) -> None:
    with pytest.raises(ValueError, match="form is one of stablehlo, hlo, not 'llvm'"):
        trained.step.source(form="llvm")
    with pytest.raises(IndexError, match="no kernel 0: XLA compiles the whole step"):
        trained.step.source(kernel=0)
    on_cpu = gw.compile(lambda x: x * 2)
    on_cpu(gw.ones(2))
    with pytest.raises(ValueError, match="form is one of llvm, assembly, not 'hlo'"):
        on_cpu.source(form="hlo")


def test_reports_fit_80_columns(trained: Training) -> None:
    explanation = str(trained.step.explain())
    assert "run by xla on xla:0" in explanation and "donated" in explanation
    with gw.record() as recorded:
        trained.step(*batch())
    for text in (explanation, trained.step.program, trained.step.graph, recorded):
        assert max(map(len, str(text).splitlines())) <= 80


def test_recorded_and_compiled_steps_mix() -> None:
    training, mixed = Training(), Training()
    gw.manual_seed(1)
    losses = [training.step(*batch()).item() for _ in range(4)]
    gw.manual_seed(1)
    found = [mixed.step(*batch())]
    with gw.record() as recorded:
        found.append(mixed.step(*batch()))
    kept = [node for node in recorded.nodes if node.op == "linear"]
    before = [np.array(node.values[0]) for node in kept]
    found += [mixed.step(*batch()) for _ in range(2)]
    assert [loss.item() for loss in found] == pytest.approx(losses, rel=1e-5)
    assert len(kept) == 2 and len(recorded.sweeps) == 1
    for node, values in zip(kept, before, strict=True):  # later steps donated what they replaced
        assert np.array_equal(node.values[0], values)


def test_the_graph_of_a_call_has_its_numbers(trained: Training) -> None:
    x, y = batch()
    graph = trained.step.graph_of(x, y)
    loss = next(node for node in graph.nodes if node.label == "result")
    assert loss.values[0] == pytest.approx(trained.step(x, y).item(), rel=1e-5)
    assert len(trained.step.graph.nodes) == len(graph.nodes)


def test_other_shapes_say_so_once() -> None:
    training = Training()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        training.step(*batch())
        for size in (6, 5, 6, 4):
            x, y = batch(size)
            training.step(y=y, x=x)
    texts = [str(one.message) for one in said]
    assert len(texts) == 1 and said[0].filename == __file__
    # Given by name: a new program, but not for its shapes.
    assert "y is (5,), and was (6,); x is (5, 4), and was (6, 4)" in texts[0]
    assert "drop_last=True" in texts[0]


def test_one_more_shape_is_silent_on_the_cpu() -> None:
    f = gw.compile(lambda x: x * 2, backend="numpy")
    assert [f(gw.ones(n)).tolist() for n in (1, 2)] == [[2.0], [2.0, 2.0]]


def test_errors_name_composites_as_users_do(trained: Training) -> None:
    names = {name_for_users(op) for op in PLAIN}
    assert {"attention", "the gradient of attention", "gelu_tanh"} <= names
    assert not any(name.endswith(("_forward", "_backward")) for name in names)
    x, y = batch()
    with pytest.raises(IndexError, match=r"index 3 is out of range .*, in cross_entropy; nothing"):
        trained.step(x, y + 1).item()
    logits = gw.tensor([[3e38, -3e38]], device="xla", requires_grad=True)

    @gw.compile(check="finite")
    def too_large(y: Any) -> Any:
        loss = F.cross_entropy(logits, y) ** 2
        loss.backward()
        return loss

    with pytest.raises(FloatingPointError, match=r"^cross_entropy made NaN or infinity"):
        too_large(y[1:2]).item()


# -- programs on disk ------------------------------------------------------------------------------

FIRST_CALL = """
import jax
import gradwalk as gw

jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.split("/")[-1]))
w = gw.ones(3, device="xla")
print(gw.compile(lambda x: (x * w).sum())(w).item(), jax.config.jax_compilation_cache_dir)
print(events.count("cache_hits") > 0)
"""


def first_call(**environment: str) -> list[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "GRADWALK_"))}
    command = [sys.executable, "-c", FIRST_CALL]
    made = subprocess.run(
        command, env={**inherited, **environment}, capture_output=True, text=True, check=True
    )
    return made.stdout.splitlines()


def test_the_next_process_loads_the_program(tmp_path: Path) -> None:
    place = tmp_path / "cache"
    expected = f"3.0 {place / 'xla'}"
    assert first_call(GRADWALK_CACHE=str(place)) == [expected, "False"]
    assert list((place / "xla").glob("jit_*-cache")) and (place / "xla").stat().st_mode & 0o77 == 0
    assert first_call(GRADWALK_CACHE=str(place)) == [expected, "True"]


@pytest.fixture
def no_folder() -> Iterator[None]:
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.mark.usefixtures("no_folder")
def test_where_programs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nowhere if the cache is off or not to be trusted; a folder given to JAX stays."""
    monkeypatch.setenv("GRADWALK_CACHE", "")
    program_cache.keep_programs()
    assert jax.config.jax_compilation_cache_dir is None
    monkeypatch.setenv("GRADWALK_CACHE", str(tmp_path / "cache"))
    if hasattr(os, "geteuid"):
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache").chmod(0o777)
        object_cache._warn_once.cache_clear()
        with pytest.warns(RuntimeWarning, match="does not use its cache"):
            program_cache.keep_programs()
        assert jax.config.jax_compilation_cache_dir is None
        (tmp_path / "cache").chmod(0o700)
    program_cache.keep_programs()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "cache" / "xla")
    jax.config.update("jax_compilation_cache_dir", "theirs")
    program_cache.keep_programs()
    assert jax.config.jax_compilation_cache_dir == "theirs"
