#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What CORUN_MODE=observe, or whatever else changes no width, costs a training step, measured inside one process.

    LD_PRELOAD=libcorun.so CORUN_MODE=observe python tests/bench/observe_cost.py [lstm]
    LD_PRELOAD=libcorun.so CORUN_POLICY=pass-through CORUN_NODE=auto python tests/bench/observe_cost.py torch-mlp

The program trains and meanwhile switches the work of its own hooks off and on
through its control page, in windows of half a second that follow each other as
on off off on, or off on on off, by coin. Each such block gives one logarithm of
a ratio; the figure is their mean with its 95 % interval. What hooking costs while
the work is off (forwarding, a nanosecond an op) is not in it.

It prints a JSON line last. With --limit it exits with 0 when the whole interval
lies below it, with 1 when it lies above, with 2 when that cannot be told.
"""

import argparse
import importlib
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "packages"), str(TESTS / "victims")]

from control_page import ControlPage  # noqa: E402

# Two-sided 95 % points of Student's t; between two rows the upper, wider one holds.
STUDENT = {5: 2.571, 10: 2.228, 15: 2.131, 20: 2.086, 25: 2.060, 30: 2.042, 40: 2.021, 60: 2.000, 120: 1.980}
SKIPPED_STEPS = 2  # after a switch
WORKLOADS = ("lstm", "gru", "transformer", "resnet", "dcgan", "inception", "torch-lstm", "torch-conv", "torch-transformer",
             "torch-mlp", "numpy-linalg")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="?", default="lstm", choices=WORKLOADS)
    parser.add_argument("--blocks", type=int, default=32)
    parser.add_argument("--window", type=float, default=0.5, metavar="SECONDS")
    parser.add_argument("--warmup", type=float, default=15.0, metavar="SECONDS", help="for the ops to settle")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, help="percent")
    options = parser.parse_args()
    if options.blocks < 6:
        parser.error("--blocks must be 6 or more")
    return options


def student(freedom: int) -> float:
    return STUDENT[max(n for n in STUDENT if n <= freedom)]


def cpu_stolen_share(before: list[int], after: list[int]) -> float:
    """Share of the machine's CPU time that went to others than this process, from /proc/stat and times()."""
    used = after[0] - before[0]
    mine = after[1] - before[1]
    return max(0.0, (used - mine) / max(1, after[2] - before[2]))


def cpu_times() -> list[int]:
    """Busy time of all CPUs, of this process, and the sum of all time, in clock ticks."""
    fields = [int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    own = os.times()
    return [sum(fields) - fields[3] - fields[4], int((own.user + own.system) * os.sysconf("SC_CLK_TCK")), sum(fields)]


class Meter:
    """Runs windows in one state of the hooks or the other."""

    def __init__(self, page: ControlPage, step: Callable[[], float], seconds: float) -> None:
        self.page = page
        self.step = step
        self.seconds = seconds
        self.steps = 0

    def switch(self, command: str) -> None:
        self.page.command(command)
        deadline = time.monotonic() + 5
        while not self.page.obeyed(command):
            self.step()  # it is obeyed in the course of an op
            if time.monotonic() > deadline:
                sys.exit(f"'{command}' is not obeyed")
        for _ in range(SKIPPED_STEPS):
            self.step()

    def window(self, command: str) -> float:
        """Mean seconds of a step."""
        self.switch(command)
        begin = time.perf_counter()
        steps = 0
        while (now := time.perf_counter()) - begin < self.seconds:
            self.step()
            steps += 1
        self.steps += steps
        return (now - begin) / steps

    def block(self, first: str) -> float:
        """Logarithm of on / off over A B B A."""
        second = "off" if first == "on" else "on"
        logs: dict[str, list[float]] = {"on": [], "off": []}
        for command in (first, second, second, first):
            logs[command].append(math.log(self.window(command)))
        return statistics.fmean(logs["on"]) - statistics.fmean(logs["off"])


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval, the outer tenth of each side pulled in first, all in percent."""
    ordered = sorted(ratios)
    cut = len(ordered) // 10
    low, high = ordered[cut], ordered[-1 - cut]
    pulled = [min(max(r, low), high) for r in ordered]
    mean = statistics.fmean(pulled)
    # The pulled-in values vary less than they should; the usual correction of a winsorised mean.
    share = 1 - 2 * cut / len(ordered)
    half = student(len(ordered) - 2 * cut - 1) * statistics.stdev(pulled) / (share * math.sqrt(len(ordered)))
    return tuple(100 * (math.exp(x) - 1) for x in (mean, mean - half, mean + half))


def main() -> None:
    options = parse_arguments()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    module = importlib.import_module(f"workloads.{options.workload.replace('-', '_')}")
    step = module.make_step(options.seed, *(["100"] if options.workload == "numpy-linalg" else []))
    step()
    try:
        page = ControlPage(os.getpid())
    except FileNotFoundError:
        sys.exit("no control page: is libcorun.so preloaded, and CORUN_MODE=observe?")
    end = time.monotonic() + options.warmup
    while time.monotonic() < end:
        step()

    chance = random.Random(options.seed)
    before = cpu_times()
    with page:
        meter = Meter(page, step, options.window)
        ratios = []
        for number in range(options.blocks):
            ratios.append(meter.block(chance.choice(["on", "off"])))
            if sys.stderr.isatty():
                print(f"\rblock {number + 1} of {options.blocks}", end="", file=sys.stderr)
        meter.switch("on")
    if sys.stderr.isatty():
        print(file=sys.stderr)
    others = cpu_stolen_share(before, cpu_times())
    mean, low, high = interval(ratios)
    if others > 0.1:
        print(f"the machine was not quiet: others had {100 * others:.0f} % of its CPU time")
    settings = " ".join(f"{name}={value}" for name, value in os.environ.items() if name.startswith("CORUN_"))
    print(f"{options.workload}, {settings}: the hooks' work costs"
          f" {mean:+.2f} % (95 %: {low:+.2f} to {high:+.2f}), {options.blocks} blocks, {meter.steps} steps")
    print(json.dumps({"workload": options.workload, "percent": round(mean, 3), "low": round(low, 3),
                      "high": round(high, 3), "blocks": options.blocks, "steps": meter.steps,
                      "others_share": round(others, 3)}))
    if options.limit is not None:
        sys.exit(0 if high <= options.limit else 1 if low > options.limit else 2)


if __name__ == "__main__":
    main()
