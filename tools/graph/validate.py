#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the simulator against what was measured: step times of real runs that it was not given.

    python tools/graph/validate.py

The simulator knows the graphs of tests/graphs/workload_*.json.gz (each op alone at one and at two threads)
and tests/machines/vm-2.json. The measured step times are the fixed (intra-op, inter-op) settings in
tests/bench/results/, from tests/bench/workloads.py: eleven of `workloads.py validation` (<workload>+grid.json) or, where
that was not measured, those of the workload itself. Prints a table in Markdown; ends with 1 when a point is
off by more than --tolerance or another point than the measured best is predicted as best.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = ("lstm", "resnet", "inception")


def measured(workload: str) -> dict[tuple[int, int], float]:
    """Median seconds by (intra, inter)."""
    results = ROOT / "tests/bench/results"
    path = results / f"{workload}+grid.json"
    if not path.exists():
        path = results / f"{workload}.json"
    settings = json.loads(path.read_text(encoding="utf-8"))["settings"]
    found = {}
    for setting in settings:
        if point := re.fullmatch(r"grid (\d+),(\d+)", setting["name"]):
            found[int(point[1]), int(point[2])] = 1e-3 * setting["median"]
    return found


def predicted(corun: Path, workload: str, intra: int, inter: int) -> float:
    """Seconds by the simulator."""
    words = [corun, "sim", "--json", "-", "--policy", "grid", "--model", "exact", "--steps", "5"]
    words += ["--inter", str(inter), "--intra", str(intra), "--machine", ROOT / "tests/machines/vm-2.json"]
    words += ["--graph", ROOT / f"tests/graphs/workload_{workload}.json.gz"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["seconds"]


def main() -> int:
    """Prints the table and what it comes to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corun", type=Path, default=ROOT / "build/tools/corun")
    parser.add_argument("--tolerance", type=float, default=0.2)
    options = parser.parse_args()
    errors, best_right = [], 0
    print("| workload | intra, inter | measured, ms | simulated, ms | off by |")
    print("| --- | --- | ---: | ---: | ---: |")
    for workload in WORKLOADS:
        real = measured(workload)
        guess = {point: predicted(options.corun, workload, *point) for point in real}
        best_right += min(real, key=real.get) == min(guess, key=guess.get)
        for point in sorted(real):
            error = guess[point] / real[point] - 1
            errors.append(abs(error))
            print(
                f"| {workload} | {point[0]}, {point[1]} | {1e3 * real[point]:.1f} |"
                f" {1e3 * guess[point]:.1f} | {100 * error:+.0f} % |"
            )
    within = sum(e <= options.tolerance for e in errors)
    print(
        f"\n{within} of {len(errors)} points within {100 * options.tolerance:.0f} %, mean error"
        f" {100 * statistics.fmean(errors):.0f} %, best point right for {best_right} of {len(WORKLOADS)} workloads."
    )
    return 0 if within == len(errors) and best_right == len(WORKLOADS) else 1


if __name__ == "__main__":
    sys.exit(main())
