#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight Python threads that each run torch: plain, at one thread as set by hand, under corun, and so without its ledger.

    python3 tests/bench/side_by_side.py [products|transformer|memory|small ...] [--rounds 10]

Each setting is one process, which is stopped while the others run, in turns of random order. Ratios are those of
tables.py; above 1 corun is faster.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from tables import ratio_of, text

ROOT = Path(__file__).resolve().parents[2]
SETTLE = 0.3  # seconds of a turn that are not counted
SETTINGS: dict[str, tuple[list[str], dict[str, str] | None]] = {
    "plain": ([], None),
    "hand": (["--hand"], None),
    "corun": ([], {}),
    "without": ([], {"CORUN_LEDGER": "no"}),
}


class Program:
    """One setting: its process, and (time, steps so far) as it has said them."""

    def __init__(self, kind: str, threads: int, words: list[str], corun: dict[str, str] | None) -> None:
        base = {k: v for k, v in os.environ.items() if not k.startswith(("CORUN_", "OMP_"))}
        if corun is not None:
            base |= {"LD_PRELOAD": str(ROOT / "build/shim/libcorun.so")} | corun
        command = [str(ROOT / "build/venv/bin/python"), str(ROOT / "tests/packages/torch_side_by_side.py"), kind]
        self.process = subprocess.Popen([*command, "--threads", str(threads), "--every-tenth", *words], env=base,
                                        stdout=subprocess.PIPE, text=True)
        self.said: list[tuple[float, int]] = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            at, steps = line.split()
            self.said.append((float(at), int(steps)))

    def turn(self, seconds: float) -> float:
        """Runs it. Seconds for a step."""
        self.process.send_signal(signal.SIGCONT)
        begin = time.monotonic() + SETTLE
        time.sleep(SETTLE + seconds)
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(0.05)  # lines that are on their way
        inside = [one for one in self.said if one[0] >= begin]
        if self.process.poll() is not None or len(inside) < 2 or inside[-1][1] == inside[0][1]:
            sys.exit(f"it does not run: {self.process.args}")
        return (inside[-1][0] - inside[0][0]) / (inside[-1][1] - inside[0][1])


def measure(kind: str, options: argparse.Namespace) -> None:
    programs = {}
    for name, setting in SETTINGS.items():
        programs[name] = Program(kind, options.threads, *setting)
        while not programs[name].said:
            time.sleep(0.1)
        programs[name].turn(options.warm if setting[1] is not None else 1.0)
    chance = random.Random(1)
    seconds: dict[str, dict[str, list[float]]] = {name: {"values": []} for name in SETTINGS}
    for _ in range(options.rounds):
        for name in chance.sample(list(SETTINGS), len(SETTINGS)):
            seconds[name]["values"].append(programs[name].turn(options.turn))
    for one in programs.values():
        one.process.kill()
        one.process.wait()
    medians = ", ".join(f"{name} {1e3 * statistics.median(one['values']):.3f}" for name, one in seconds.items())
    print(f"{kind}, {options.threads} threads, {options.rounds} rounds; ms a step, all threads together: {medians}")
    for name in ("plain", "hand", "without"):
        print(f"  {name} / corun  {text(ratio_of(seconds[name], seconds['corun']))}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=["products", "transformer", "memory", "small"])
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--turn", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--warm", type=float, default=6.0, metavar="SECONDS")
    options = parser.parse_args()
    for kind in options.kinds:
        measure(kind, options)


if __name__ == "__main__":
    main()
