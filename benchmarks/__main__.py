"""Run every benchmark, or those named: `python -m benchmarks`, `... scalar eager`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    "scalar", "eager", "networks", "eager_networks", "compiled", "under_load", "cores", "scaling",
    "memory", "inside", "page", "per_sample", "source_lines", "studio", "torch",
)  # fmt: skip
FILES = {"torch": "watching"}  # a file called torch.py would hide PyTorch from the others


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(BENCHMARKS))
    names = parser.parse_args().names or BENCHMARKS
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    folder = Path(__file__).parent
    commands = [[sys.executable, str(folder / f"{FILES.get(name, name)}.py")] for name in names]
    # A benchmark that cannot run must not stop the others.
    return max(subprocess.run(command, check=False).returncode for command in commands)


if __name__ == "__main__":
    sys.exit(main())
