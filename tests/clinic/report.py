"""What the doctor finds from the symptom alone: `python -m tests.clinic.report [-v] [NAME]`.

`--fragments` examines the older pairs, one step each, instead of the training programs.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from tests.clinic.clinic_fragments import FRAGMENTS
from tests.clinic.clinic_programs import ENGINES, PROGRAMS, VERDICTS


def main(arguments: list[str]) -> None:
    """Examine every program on every engine, and print one table."""
    torch.set_num_threads(1)  # the programs are tiny: threads would only wait for one another
    verbose = "-v" in arguments
    names = [a for a in arguments if not a.startswith("-")]
    everything = FRAGMENTS if "--fragments" in arguments else PROGRAMS
    chosen = [p for p in everything if not names or any(n in p.name for n in names)]
    totals = {engine: Counter[str]() for engine in ENGINES}
    with tempfile.TemporaryDirectory() as folder:
        for program in chosen:
            for engine in program.engines:
                began = time.perf_counter()
                sick = program.examine(Path(folder), engine, sick=True)
                healthy = program.examine(Path(folder), engine, sick=False)
                verdict = program.verdict(sick)
                alarms = [finding.kind for finding in healthy.findings]
                totals[engine].update(["programs", verdict, *["false alarms"] * bool(alarms)])
                if verdict != "found" or alarms or verbose:
                    kinds = [(f.kind, f.line and f.line.line) for f in sick.findings]
                    took = time.perf_counter() - began
                    print(f"{program.name:34} {engine:8} {verdict:6} {kinds} {took:.1f} s")
                    if alarms:
                        print(f"{'':34} healthy: {alarms}")
                    if verbose:
                        print(sick, "\n\nhealthy: ", healthy)
    heads = ("programs", *VERDICTS, "false alarms")
    print(f"\n| engine | {' | '.join(heads)} |")
    for engine, counted in totals.items():
        print(f"| {engine} | {' | '.join(str(counted[head]) for head in heads)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
