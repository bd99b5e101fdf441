"""Compiled training steps: gradwalk against PyTorch eager, torch.compile and jax.jit; two threads.

gradwalk should beat the fastest of them, each in its faster form (`steps/`): PyTorch with its
default or its fused optimizer, JAX with either way to write a derivative or a pooling. A replayed
graph of Values races micrograd, which records the graph at every step, with its collector on.

Four tables: the step; the first step, from the first call, with empty and with full compiler caches
on disk (imports, after NumPy, are counted separately); the peak memory of a step; and the distance
from the machine's limit. A contestant that cannot run is named below the table and left out.

`python benchmarks/compiled.py moons gpt` runs only some rows. `--check` compares losses instead.
torch.compile needs a C++ compiler (`apt install g++`), JAX is in the extra `bench`.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any, NamedTuple

from harness import (
    Bar,
    Contestant,
    ContestantFailed,
    Measurement,
    Round,
    duration,
    play,
    race,
    ratio_cells,
    size,
    table,
)
from steps import Begin, resident
from steps.problems import PROBLEMS

THREADS = 2
ROUNDS = 15
ROUND_SECONDS = 0.05
REST = 0.05  # seconds, until the threads of the previous contestant stop spinning
WARM_UP = 3
WARM_STARTS = 3  # processes that start with full caches on disk
RATE = 1e-12  # too small to change the work or the answer over the rounds
CACHE = "COMPILED_BENCHMARK_CACHE"  # the environment variable with the folder of caches
CHECK_STEPS, CHECK_RATE = 5, 1e-2
COLD_BARS = {"gpt": Bar(highest=3.0)}  # seconds; the others have
COLD_BAR, WARM_BAR = Bar(highest=1.0), Bar(highest=0.3)
MEMORY_BAR = Bar(highest=1.0)


class Form(NamedTuple):
    """One way to run a problem: the library, the module of `steps` that prepares it, and how."""

    library: str
    module: str
    options: dict[str, Any]


class Row(NamedTuple):
    """The contestants of a race: our form, and the forms of each peer; the fastest counts."""

    title: str
    must_reach: Bar
    aim: float
    ours: str
    peers: dict[str, list[str]]

    @property
    def forms(self) -> list[str]:
        return [self.ours, *(form for forms in self.peers.values() for form in forms)]


FORMS = {
    "gradwalk": Form("gradwalk", "in_gradwalk", {}),
    "gradwalk eager": Form("gradwalk", "in_gradwalk", {"compiled": False}),  # for `--check` alone
    "torch": Form("torch", "in_torch", {}),
    "torch fused": Form("torch", "in_torch", {"fused": True}),
    "torch.compile": Form("torch", "in_torch", {"compiled": True}),
    "torch.compile fused": Form("torch", "in_torch", {"compiled": True, "fused": True}),
    "jax": Form("jax", "in_jax", {}),
    "jax other": Form("jax", "in_jax", {"other": True}),
    "replay": Form("gradwalk", "in_scalars", {"values": "gradwalk", "network": "gradwalk.scalar"}),
    "micrograd": Form(
        "micrograd.engine", "in_scalars", {"values": "micrograd.engine", "network": "micrograd.nn"}
    ),
}
TWO_WAYS_IN_JAX = ("pinn", "cnn")
TENSOR_ROWS = list(PROBLEMS)
ROWS = {
    name: Row(
        PROBLEMS[name].title,
        PROBLEMS[name].must_reach,
        PROBLEMS[name].aim,
        "gradwalk",
        {
            "PyTorch": ["torch", "torch fused"],
            "torch.compile": ["torch.compile", "torch.compile fused"],
            "jax.jit": ["jax", "jax other"] if name in TWO_WAYS_IN_JAX else ["jax"],
        },
    )
    for name in TENSOR_ROWS
} | {
    "values": Row(
        "Values 2-16-16-1, 50 points, replayed",
        Bar(lowest=500),
        2000,
        "replay",
        {"micrograd": ["micrograd"]},
    )
}
PEERS = list(dict.fromkeys(peer for row in ROWS.values() for peer in row.peers))


# -- Contestants ---------------------------------------------------------------------------------


def prepare(row: str, form: str, rate: float = RATE) -> Begin:
    _, module, options = FORMS[form]
    begin: Begin = import_module(f"steps.{module}").prepare(row, rate, **options)
    return begin


def use_settings(row: str, form: str) -> None:
    """Give each contestant its own caches, and XLA as many threads as the others."""
    os.environ["NPROC"] = os.environ["OMP_NUM_THREADS"]
    if CACHE in os.environ:
        folder = os.path.join(os.environ[CACHE], f"{row} {form}".replace(" ", "_"))
        os.environ["GRADWALK_CACHE"] = os.path.join(folder, "gradwalk")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")


def runner(row: str, form: str) -> Round:
    """Time the imports, the first step, and in every round some more steps."""
    use_settings(row, form)
    started = time.perf_counter()
    import_module(FORMS[form].library)
    imported = time.perf_counter()
    begin = prepare(row, form)
    prepared = time.perf_counter()
    step = begin()
    step()
    first = time.perf_counter() - prepared
    for _ in range(WARM_UP):
        step()
    repeats = 1

    def one_round() -> Measurement:
        nonlocal repeats
        time.sleep(REST)
        for _ in range(min(WARM_UP, repeats)):
            step()
        begin_round = time.perf_counter()
        for _ in range(repeats):
            answer = step()
        seconds = (time.perf_counter() - begin_round) / repeats
        repeats = max(2, int(ROUND_SECONDS / seconds))
        return {
            "seconds": seconds,
            "answer": answer(),
            "imports": imported - started,
            "first": first,
        }

    one_round()  # determines the number of repeats
    return one_round


def memory(row: str, form: str) -> Round:
    """The peak memory of a step, beyond what is resident between two steps.

    We add working memory that a library keeps between steps.
    """
    use_settings(row, form)
    step = prepare(row, form)()
    for _ in range(WARM_UP):
        step()
    kept = step.working_memory() if hasattr(step, "working_memory") else 0

    def one_round() -> Measurement:
        resident.restart_peak()
        before = resident.peak_bytes()
        for _ in range(WARM_UP):
            step()
        return {"bytes": resident.peak_bytes() - before + kept}

    return one_round


def machine() -> Round:
    measure = import_module("steps.machine").measure
    return partial(measure, TENSOR_ROWS)


CONTESTANTS: dict[str, Contestant] = {"machine": machine}
for name, row in ROWS.items():
    for form in row.forms:
        CONTESTANTS[f"{name} {form}"] = partial(runner, name, form)
        CONTESTANTS[f"memory {name} {form}"] = partial(memory, name, form)


# -- Report --------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The results of a row: by form, and for each peer its fastest form."""

    by_form: dict[str, Measurement]
    fastest: dict[str, str]  # contestant as the tables name it -> form

    def of(self, contestant: str) -> Measurement | None:
        return self.by_form[self.fastest[contestant]] if contestant in self.fastest else None

    @property
    def peer(self) -> Measurement | None:
        """The fastest of all peers."""
        peers = [self.by_form[form] for who, form in self.fastest.items() if who != "gradwalk"]
        return min(peers, key=lambda each: each["seconds"], default=None)


def measure(name: str, failures: dict[str, str]) -> Found:
    """Measure one row; note contestants that fail and leave them out."""
    row = ROWS[name]
    colds: dict[str, float] = {}
    warms: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE] = folder
        for form in row.forms:
            contestant = f"{name} {form}"
            try:
                # One at a time: in the race below all start at the same time.
                colds[form], *again = (
                    race([contestant], 1, threads=THREADS)[contestant]["first"]
                    for _ in range(1 + WARM_STARTS)
                )
                warms[form] = median(again)
            except ContestantFailed as failure:
                failures[contestant] = str(failure).strip().splitlines()[-1]
        raced = race([f"{name} {form}" for form in colds], ROUNDS, threads=THREADS)
        by_form = {
            form: raced[f"{name} {form}"] | {"cold": colds[form], "warm": warms[form]}
            for form in colds
        }
        fastest = {
            who: min(able, key=lambda form: by_form[form]["seconds"])
            for who, forms in {"gradwalk": [row.ours], **row.peers}.items()
            if (able := [form for form in forms if form in colds])
        }
        if name in PROBLEMS and resident.available():
            for form in fastest.values():
                contestant = f"memory {name} {form}"
                by_form[form] |= race([contestant], ROUNDS, threads=THREADS)[contestant]
        del os.environ[CACHE]
    return Found(by_form, fastest)


def report(names: Sequence[str]) -> None:
    failures: dict[str, str] = {}
    found = {name: measure(name, failures) for name in names}
    report_steps(found)
    report_first_steps(found)
    if of_tensors := {name: each for name, each in found.items() if name in PROBLEMS}:
        report_memory(of_tensors)
        report_limits(of_tensors)
    for contestant, why in failures.items():
        print(f"  {contestant} could not run: {why}")


def report_steps(found: dict[str, Found]) -> None:
    rows, agreements = [], []
    for name, each in found.items():
        row, ours, peer = ROWS[name], each.of("gradwalk"), each.peer
        times = [cell(each.of(who), "seconds") for who in ["gradwalk", *PEERS]]
        ratio = ["-", str(row.must_reach), ""]
        if ours and peer:
            ratio = ratio_cells(peer["seconds"] / ours["seconds"], row.must_reach)
        rows.append([row.title, *times, *ratio, f"{row.aim:g}"])
        answers = [measurement["answer"] for measurement in each.by_form.values()]
        agreements.append(f"{name} {spread(answers):.0e}")
    table(
        f"Compiled: one training step in float32, {THREADS} threads (times faster than the best)",
        ["", "gradwalk", *PEERS, "ratio", "bar", "", "aim"],
        rows,
    )
    for who in PEERS:
        forms = {name: each.fastest[who] for name, each in found.items() if who in each.fastest}
        if forms:
            chosen = ", ".join(f"{name} by {form}" for name, form in forms.items())
            print(f"  {who}'s form: {chosen}")
    print(f"  answers differ by: {', '.join(agreements)}")


def report_first_steps(found: dict[str, Found]) -> None:
    rows = []
    for name, each in found.items():
        ours = each.of("gradwalk")
        verdicts = ["", ""]
        if ours:
            cold_bar = COLD_BARS.get(name, COLD_BAR)
            verdicts = [cold_bar.verdict(ours["cold"]), WARM_BAR.verdict(ours["warm"])]
        rows.append(
            [
                ROWS[name].title,
                cell(ours, "cold"),
                verdicts[0],
                cell(ours, "warm"),
                verdicts[1],
                *(f"{cell(each.of(who), 'cold')} / {cell(each.of(who), 'warm')}" for who in PEERS),
            ]
        )
    table(
        "Compiled: from the first call to its result, cold and with a warm cache",
        ["", "gradwalk", "", "warm", "", *PEERS],
        rows,
    )
    imports = {
        who: min(measured["imports"] for each in found.values() if (measured := each.of(who)))
        for who in ["gradwalk", *PEERS]
        if any(each.of(who) for each in found.values())
    }
    print(f"  imports: {', '.join(f'{who} {duration(took)}' for who, took in imports.items())}")


def report_memory(found: dict[str, Found]) -> None:
    rows = []
    for name, each in found.items():
        ours, eager = each.of("gradwalk"), each.of("PyTorch")
        sizes = [
            size(measured["bytes"]) if (measured := each.of(who)) and "bytes" in measured else "-"
            for who in ["gradwalk", *PEERS]
        ]
        ratio = ["-", str(MEMORY_BAR), ""]
        if ours and eager and "bytes" in ours:
            ratio = ratio_cells(ours["bytes"] / eager["bytes"], MEMORY_BAR)
        rows.append([ROWS[name].title, *sizes, *ratio])
    table(
        "Compiled: peak memory of a step, beyond what is there between steps",
        ["", "gradwalk", *PEERS, "/ PyTorch", "bar", ""],
        rows,
    )


def report_limits(found: dict[str, Found]) -> None:
    """The longer of a step's products at the speed of BLAS and its bytes at the speed of memory."""
    (limits,) = race(["machine"], 3, threads=THREADS, pick=max).values()
    rows = []
    for name, each in found.items():
        flops, count = PROBLEMS[name].flops, limits[f"{name} bytes"]
        products, moving = flops / limits["flops"], count / limits[f"{name} bandwidth"]
        limit = max(products, moving)
        rows.append(
            [
                ROWS[name].title,
                f"{flops / 1e6:.4g} MFLOP",
                duration(products),
                size(count),
                f"{limits[f'{name} bandwidth'] / 1e9:.0f} GB/s",
                duration(moving),
                *(
                    f"{measured['seconds'] / limit:.1f}" if measured else "-"
                    for measured in (each.of("gradwalk"), each.peer)
                ),
            ]
        )
    table(
        f"Compiled: times the machine's limit; BLAS {limits['flops'] / 1e9:.0f} GFLOP/s",
        ["", "products", "take", "moved", "at", "take", "gradwalk", "fastest peer"],
        rows,
    )


def cell(measured: Measurement | None, key: str) -> str:
    return duration(measured[key]) if measured else "-"


def spread(answers: Sequence[float]) -> float:
    """The spread of the numbers, relative to the first."""
    return (max(answers) - min(answers)) / abs(answers[0])


def check(names: Sequence[str]) -> None:
    """Print the losses of a few real training steps, one line for each contestant."""
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    for name in names:
        rows, losses = [], []
        reference = ["gradwalk eager"] if name in PROBLEMS else []
        for form in [*reference, *ROWS[name].forms]:
            use_settings(name, form)
            try:
                step = prepare(name, form, CHECK_RATE)()
                losses.append([step()() for _ in range(CHECK_STEPS)])
            except Exception as problem:  # whatever a compiler raises, the others continue
                rows.append([form, f"could not run: {problem}".splitlines()[0][:80], ""])
                continue
            apart = max(spread(pair) for pair in zip(losses[0], losses[-1]))
            rows.append([form, ", ".join(f"{loss:.6f}" for loss in losses[-1]), f"{apart:.0e}"])
        table(f"{ROWS[name].title}: {CHECK_STEPS} steps", ["", "losses", "apart"], rows)


if __name__ == "__main__":
    play(CONTESTANTS, report, check, rows=list(ROWS))
