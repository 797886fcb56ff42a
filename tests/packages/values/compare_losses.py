#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the losses of two runs of workload.py --losses.

    python tests/packages/values/compare_losses.py plain.json other.json
    python tests/packages/values/compare_losses.py --bits plain.json other.json

The relative difference must not exceed --first at the first step and --last at
the last (step 50 of a run with --steps 50); with --bits every loss must be equal
to the last bit. Exit code 1 says that they differ, 2 that they cannot be compared.
"""

import argparse
import json
import sys
from pathlib import Path


def read_losses(path: Path) -> tuple[tuple, dict[str, list[float]]]:
    """What was run, and the losses of each of its models."""
    record = json.loads(path.read_text())
    losses = record["losses"]
    what = (record["workload"], record["seed"], {m: len(v) for m, v in losses.items()})
    return what, losses


def relative(a: float, b: float) -> float:
    """The difference relative to the larger of the two."""
    return abs(a - b) / max(abs(a), abs(b)) if a != b else 0.0


def main() -> int:
    """Prints one line a model and says by the exit code whether all agree."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("a", type=Path)
    parser.add_argument("b", type=Path)
    parser.add_argument("--first", type=float, default=1e-6)
    parser.add_argument("--last", type=float, default=1e-3)
    parser.add_argument("--bits", action="store_true", help="every loss must be equal")
    options = parser.parse_args()
    (what_a, losses_a), (what_b, losses_b) = map(read_losses, (options.a, options.b))
    if what_a != what_b:
        print(f"not the same run: {what_a} and {what_b}", file=sys.stderr)
        return 2

    agree = True
    for model, a in losses_a.items():
        differences = list(map(relative, a, losses_b[model]))
        unequal = [i + 1 for i, d in enumerate(differences) if d > 0]
        if options.bits:
            fine = not unequal
        else:
            fine = differences[0] <= options.first and differences[-1] <= options.last
        agree &= fine
        print(
            f"{model}: {'agree' if fine else 'DIFFER'}, {len(a)} steps,"
            f" relative difference {differences[0]:.3g} at the first,"
            f" {differences[-1]:.3g} at the last, {max(differences):.3g} at most,"
            f" first unequal step {unequal[0] if unequal else 'none'}"
        )
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
