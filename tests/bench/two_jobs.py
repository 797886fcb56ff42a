#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures two (or more) programs at once on one machine: plain, in static splits of the CPUs, and under corun.

    python3 tests/bench/two_jobs.py torch-transformer torch-transformer
    python3 tests/bench/two_jobs.py lstm torch-transformer --json result.json      (jobs of tests/packages/workload.py)

Each setting's programs are started once and are stopped while the other settings' run, in turns of random order, so that
all see the same machine. In a turn each program's steps are counted. A program's rate is held against the one that it
has in the best static split; the total of a setting is the mean over its programs. Ratios are Hodges-Lehmann estimates
over the rounds with their interval, as in workloads.py.

At the end one of the programs under corun is killed: how long until the other has all CPUs, and its steps are as fast as
alone?
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CPUS = sorted(os.sched_getaffinity(0))
STEP = b"step_ms="
SETTLE = 0.7  # seconds of a turn that are not counted


class Program:
    """One running program and the times at which its steps ended."""

    def __init__(self, words: list[str], variables: dict[str, str], name: str) -> None:
        base = {k: v for k, v in os.environ.items() if not k.startswith(("CORUN_", "OMP_"))}
        base |= {"TF_CPP_MIN_LOG_LEVEL": "3"} | variables
        self.name = name
        self.steps: list[float] = []
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, cwd=ROOT, env=base, stdout=subprocess.PIPE, stderr=self.errors,
                                        start_new_session=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(STEP):
                self.steps.append(time.monotonic())

    def send(self, number: int) -> None:
        if self.process.poll() is not None:
            self.errors.seek(0)
            sys.exit(f"{self.name} has ended: {self.errors.read()[-2000:].decode(errors='replace')}")
        os.killpg(self.process.pid, number)

    def rate(self, begin: float, end: float) -> float:
        """Steps per second between the first and the last that ended in that time."""
        inside = [at for at in self.steps if begin <= at < end]
        if len(inside) < 3:
            return math.nan
        return (len(inside) - 1) / (inside[-1] - inside[0])

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def command_of(job: str, threads: int) -> list[str]:
    """What trains it; threads 0: as it is by default."""
    words = [str(ROOT / "build/venv/bin/python"), "tests/packages/workload.py", job, "--measure", "0", "--every-step"]
    return [*words, "--intra", str(threads), "--inter", str(threads)] if threads else words


def start(setting: str, jobs: list[str], options: argparse.Namespace, folder: str) -> list[Program]:
    programs = []
    split = max(1, len(CPUS) // len(jobs))
    for number, job in enumerate(jobs):
        words = command_of(job, split if setting == "threads" else 0)
        variables: dict[str, str] = {}
        if setting == "pinned":
            mine = [CPUS[(number * split + i) % len(CPUS)] for i in range(split)]
            words = ["taskset", "-c", ",".join(map(str, mine)), *words]
        if setting.startswith("corun"):
            variables |= {"CORUN_NODE": "no" if setting == "corun-apart" else "auto", "CORUN_NODE_FOLDER": folder}
            words = [options.corun, "run", "--", *words]
        programs.append(Program(words, variables, f"{setting} {job}"))
    return programs


def interval(values: list[float]) -> tuple[float, float, float]:
    """Hodges-Lehmann estimate of log ratios with the interval of Wilcoxon's signed ranks (95 %)."""
    n = len(values)
    means = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(values, 2))
    counts = [1]
    for rank in range(1, n + 1):  # ways to each sum of signed ranks
        counts = [(counts[i] if i < len(counts) else 0) + (counts[i - rank] if 0 <= i - rank < len(counts) else 0)
                  for i in range(len(counts) + rank)]
    total, cut = 0, 0
    while cut < len(means) // 2 and (total + counts[cut]) / 2**n <= 0.025:
        total += counts[cut]
        cut += 1
    low, high = (means[cut - 1], means[-cut]) if cut else (-math.inf, math.inf)
    return math.exp(statistics.median(means)), math.exp(low), math.exp(high)


def measure(groups: dict[str, list[Program]], options: argparse.Namespace) -> dict[str, list[list[float]]]:
    """Rates: setting -> rounds -> programs."""
    rates: dict[str, list[list[float]]] = {name: [] for name in groups}
    for name, programs in groups.items():  # each learns beside its own neighbour
        for one in programs:
            one.send(signal.SIGCONT)
        time.sleep(options.warm if name.startswith("corun") else options.warm_plain)
        for one in programs:
            one.send(signal.SIGSTOP)
    chance = random.Random(1)
    for _ in range(options.rounds):
        order = list(groups)
        chance.shuffle(order)
        for name in order:
            for one in groups[name]:
                one.send(signal.SIGCONT)
            begin = time.monotonic() + SETTLE
            time.sleep(SETTLE + options.turn)
            end = time.monotonic()
            for one in groups[name]:
                one.send(signal.SIGSTOP)
            time.sleep(0.05)  # lines that are on their way
            rates[name].append([one.rate(begin, end) for one in groups[name]])
    return rates


def after_a_kill(programs: list[Program], seconds: float) -> dict:
    """The second is killed: the first's step times before, in each tenth of a second after it, and in the end."""
    for one in programs:
        one.send(signal.SIGCONT)
    time.sleep(4.0)
    killed = time.monotonic()
    for other in programs[1:]:
        other.kill()
    time.sleep(seconds)
    first = programs[0]
    first.send(signal.SIGSTOP)
    settled = first.rate(killed + seconds / 2, killed + seconds)
    back = next((at / 10 for at in range(int(10 * seconds) - 5)
                 if first.rate(killed + at / 10, killed + at / 10 + 0.5) >= 0.9 * settled), math.nan)
    return {"rate_before": first.rate(killed - 3.0, killed), "rate_after": settled, "seconds_until_nine_tenths": back}


def totals(rates: dict[str, list[list[float]]]) -> tuple[str, dict[str, list[float]]]:
    """The best static split, and of each setting and round the mean of its programs' rates against that split's."""
    splits = [name for name in ("threads", "pinned") if name in rates]
    jobs = len(rates[splits[0]][0])
    median = {name: [statistics.median(r[j] for r in rates[name]) for j in range(jobs)] for name in rates}
    best = max(splits, key=lambda name: sum(median[name][j] / median["threads"][j] for j in range(jobs)))
    return best, {name: [statistics.fmean(r[j] / median[best][j] for j in range(jobs)) for r in rates[name]] for name in rates}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="+", metavar="WORKLOAD")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--turn", type=float, default=2.0, metavar="SECONDS")
    parser.add_argument("--warm", type=float, default=30.0, metavar="SECONDS", help="under corun [30]")
    parser.add_argument("--warm-plain", type=float, default=12.0, metavar="SECONDS", help="of the others [12]")
    parser.add_argument("--settings", default="plain,threads,pinned,corun", help="also: corun-apart (CORUN_NODE=no)")
    parser.add_argument("--corun", default=str(ROOT / "build/tools/corun"), metavar="COMMAND")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    names = options.settings.split(",")
    if not {"threads", "pinned"} & set(names):
        sys.exit("a static split (threads, pinned) has to be among --settings")
    groups: dict[str, list[Program]] = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        try:
            for name in names:  # started one after the other: each would disturb the next
                groups[name] = start(name, options.jobs, options, folder)
                for one in groups[name]:
                    deadline = time.monotonic() + 120
                    while len(one.steps) < 3 and time.monotonic() < deadline:
                        time.sleep(0.1)
                        if one.process.poll() is not None:
                            one.send(0)
                for one in groups[name]:
                    one.send(signal.SIGSTOP)
            rates = measure(groups, options)
            result = {"jobs": options.jobs, "cpus": len(CPUS), "rates": rates}
            result["best_split"], total = totals(rates)
            for name in names:
                logs = [math.log(value) for value in total[name]]
                result.setdefault("against_best_split", {})[name] = interval(logs)
                if name != "plain" and "plain" in total:
                    pairs = [math.log(a / b) for a, b in zip(total[name], total["plain"], strict=True)]
                    result.setdefault("against_plain", {})[name] = interval(pairs)
            if "corun" in groups:
                result["after_a_kill"] = after_a_kill(groups["corun"], 6.0)
        finally:
            for one in itertools.chain.from_iterable(groups.values()):
                one.kill()
    print(f"{' + '.join(options.jobs)} on {len(CPUS)} CPUs, {options.rounds} rounds; best static split: {result['best_split']}")
    for name in names:
        rate = ", ".join(f"{statistics.median(r[j] for r in rates[name]):.1f}" for j in range(len(options.jobs)))
        line = f"  {name:<12} steps/s {rate:<16} / best split %.3f (%.3f-%.3f)" % result["against_best_split"][name]
        if name in result.get("against_plain", {}):
            line += "  / plain %.3f (%.3f-%.3f)" % result["against_plain"][name]
        print(line)
    if "after_a_kill" in result:
        print("  the other killed: steps/s {rate_before:.1f} -> {rate_after:.1f}, nine tenths of it after "
              "{seconds_until_nine_tenths:.1f} s".format(**result["after_a_kill"]))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
