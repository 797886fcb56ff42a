# SPDX-License-Identifier: Apache-2.0
"""What the tables of measurements share: ratios, where they come from, the README."""

import math
import sys
from collections.abc import Iterable
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
SETTLED = (0, 3, 4)  # exit codes of a comparison that ran to its end
Ratio = tuple[float, float | None, float | None]  # estimate, lower and upper limit


def pairs_left_out(pairs: int, error: float = 0.05) -> int:
    """How many of the sorted Walsh averages lie below an interval of that error.

    Hollander and Wolfe, Nonparametric Statistical Methods, 3.3. Below 0: too few pairs.
    """
    ways = [1]  # to reach each sum with the ranks so far
    for rank in range(1, pairs + 1):
        longer = ways + [0] * rank
        for total, count in enumerate(ways):
            longer[total + rank] += count
        ways = longer
    left_out, chance = -1, 0.0
    for count in ways:
        chance += count / 2**pairs
        if chance > error / 2:
            return left_out
        left_out += 1
    return left_out


def ratio_of(slow: dict, fast: dict) -> Ratio:
    """How many times as fast the second setting is, both as `corun compare --json` has them.

    Hodges-Lehmann over the pairs of one round, the limits by Wilcoxon's signed ranks.
    """
    logs = [math.log(a / b) for a, b in zip(slow["values"], fast["values"], strict=True)]
    walsh = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    middle = (walsh[len(walsh) // 2] + walsh[(len(walsh) - 1) // 2]) / 2
    left_out = pairs_left_out(len(logs))
    if left_out < 0:
        return math.exp(middle), None, None
    low, high = walsh[left_out], walsh[-1 - left_out]
    return math.exp(middle), math.exp(low), math.exp(high)


def text(ratio: Ratio | None) -> str:
    """It with its interval, or a dash."""
    if ratio is None:
        return "–"
    value, low, high = ratio
    return f"{value:.3f}" if low is None else f"{value:.3f} ({low:.3f}–{high:.3f})"


def origin(results: Iterable[tuple[str, dict]]) -> list[str]:
    """The lines under a table: an empty one, then machine, rounds, what was not quiet."""
    named = list(results)
    hosts = sorted({(one["host"]["cpu"], one["host"]["cpus"]) for _, one in named})
    rounds = sorted({one["rounds"] for _, one in named})
    noisy = [name for name, one in named if not one["host"]["quiet"]]
    line = "On " + " and ".join(f"{cpu}, {cpus} CPUs" for cpu, cpus in hosts)
    line += f"; rounds in turn: {' or '.join(map(str, rounds))}; 95 % intervals."
    if noisy:
        line += f" The machine was not quiet for: {', '.join(noisy)}."
    return ["", line]


def write_readme(table: str, begin_mark: str, end_mark: str) -> None:
    """Replaces what is between the markers."""
    whole = README.read_text(encoding="utf-8")
    begin, end = whole.find(begin_mark), whole.find(end_mark)
    if begin < 0 or end < begin:
        sys.exit(f"README.md has no {begin_mark} ... {end_mark}")
    begin += len(begin_mark)
    README.write_text(f"{whole[:begin]}\n{table}{whole[end:]}", encoding="utf-8")
