#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs in real cgroups with a CPU quota, made and removed here. Needs root and a cgroup CPU controller of
version 1 that may be written to; else it says why not and exits with 77 (a skipped test).

    run_quota.py CORUN [NAME...]           each program starts the threads that it may use, is stopped less often than plain,
                                           and follows a change of the quota
    run_quota.py CORUN --time [NAME...]    ratios to one thread set by hand, in turn (needs a quiet machine)
"""

import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = Path("/sys/fs/cgroup/cpu")
PERIOD = 100000
NAMES = ("onnxruntime", "torch", "numpy", "tensorflow")
SKIPPED = 77


class Group:
    """A cgroup of version 1 with a quota; whatever is in it at the end is killed."""

    def __init__(self, cpus: float) -> None:
        self.path = ROOT / f"corun-test-{os.getpid()}-{time.monotonic_ns()}"
        self.path.mkdir()
        try:
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD))
            self.quota(cpus)
        except OSError:
            self.path.rmdir()
            raise

    def quota(self, cpus: float) -> None:
        (self.path / "cpu.cfs_quota_us").write_text(str(int(cpus * PERIOD)))

    def enter(self) -> None:
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def throttled(self) -> int:
        return int(re.search(r"nr_throttled (\d+)", (self.path / "cpu.stat").read_text()).group(1))

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_) -> None:
        for _ in range(200):
            pids = (self.path / "cgroup.procs").read_text().split()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            try:
                return self.path.rmdir()
            except OSError:  # they are not gone yet
                time.sleep(0.05)
        sys.exit(f"{self.path} could not be removed")


def obstacle() -> str:
    if len(os.sched_getaffinity(0)) < 2:
        return "needs two CPUs"
    try:
        Group(1).path.rmdir()
    except OSError as error:
        return f"no cgroup with a CPU quota can be made here ({error})"
    return ""


def environment() -> dict[str, str]:
    dropped = ("LD_PRELOAD", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {k: v for k, v in os.environ.items() if not k.startswith("CORUN_") and k not in dropped}


class Programs:
    """Starts quota_program.py plain, by hand or under corun."""

    def __init__(self, corun: str, python: str, folder: Path) -> None:
        self.corun, self.python, self.folder = corun, python, folder
        self.model = folder / "chain.onnx"
        subprocess.run([python, str(HERE / "onnx_model.py"), str(self.model)], check=True)

    def command(self, name: str, how: str, seconds: float) -> list[str]:
        words = [self.python, str(HERE / "quota_program.py"), name, "--seconds", str(seconds), "--model", str(self.model)]
        if how == "hand":
            words.append("--hand")
        if how == "corun":
            words = [self.corun, "run", f"--report={self.folder / 'report.json'}", "--", *words]
        return words

    def run(self, name: str, how: str, seconds: float, cpus: float = 1, change: tuple[float, float] | None = None) -> dict:
        """One run in a group of its own. `change`: so many seconds after it is ready the quota becomes so many CPUs."""
        with Group(cpus) as group:
            process = subprocess.Popen(self.command(name, how, seconds), preexec_fn=group.enter, env=environment(),
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            line = process.stdout.readline()
            assert line.startswith("ready"), f"{name} {how}: {line}"
            before = group.throttled()
            if change:
                time.sleep(change[0])
                group.quota(change[1])
            out, _ = process.communicate(timeout=600)
            result = {k: float(v) for k, v in re.findall(r"^(\w+)=(.*)$", out, re.M)}
            result["throttled"] = group.throttled() - before
        assert process.returncode == 0, f"{name} {how} ended with {process.returncode}"
        report = self.folder / "report.json"
        result["budget"] = json.loads(report.read_text())["budget"] if report.exists() else None
        report.unlink(missing_ok=True)
        return result


def check(programs: Programs, names: list[str], seconds: float) -> int:
    failures = 0

    def expect(holds: bool, text: str) -> None:
        nonlocal failures
        failures += not holds
        print(f"{'ok    ' if holds else 'FAILED'} {text}", flush=True)

    for name in names:
        plain = programs.run(name, "plain", seconds)
        under = programs.run(name, "corun", seconds)
        expect(under["threads"] < plain["threads"], f"{name}: threads {plain['threads']:.0f} plain, {under['threads']:.0f} under corun")
        expect(under["throttled"] < plain["throttled"] or plain["throttled"] == 0,
               f"{name}: periods with the quota used up {plain['throttled']} plain, {under['throttled']} under corun")
    if "tensorflow" in names:
        cpus = float(len(os.sched_getaffinity(0)))
        budget = programs.run("tensorflow", "corun", seconds + 2, cpus, (2.0, 1.0))["budget"]
        changes = [change["cpus"] for change in budget["changes"]]
        expect(changes == [cpus, 1], f"the quota falls to 1 CPU while it runs: budgets {changes}")
    return failures


def measure(programs: Programs, names: list[str], seconds: float, pairs: int) -> int:
    failures = 0
    for name in names:
        rates: dict[str, list[float]] = {"hand": [], "corun": [], "plain": []}
        throttled: dict[str, list[int]] = {how: [] for how in rates}
        for i in range(pairs):
            order = ["hand", "corun"] if i % 2 == 0 else ["corun", "hand"]
            for how in order + (["plain"] if i % 3 == 0 else []):
                result = programs.run(name, how, seconds)
                rates[how].append(result["steps_per_second"])
                throttled[how].append(result["throttled"])
        ratios = sorted(c / h for c, h in zip(rates["corun"], rates["hand"]))
        middle = statistics.median(ratios)
        plain = statistics.median(rates["plain"]) / statistics.median(rates["hand"])
        means = {how: statistics.mean(values) for how, values in throttled.items()}
        ok = middle >= 0.97 and means["corun"] < means["plain"]
        failures += not ok
        print(f"{'ok    ' if ok else 'FAILED'} {name}: corun / hand {middle:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}, {pairs} pairs), "
              f"plain / hand {plain:.3f}; throttled periods: " + ", ".join(f"{how} {mean:.1f}" for how, mean in means.items()),
              flush=True)
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corun")
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(NAMES))
    parser.add_argument("--python", default=sys.executable, help="with the wheels")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--pairs", type=int, default=8)
    args = parser.parse_intermixed_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if reason := obstacle():
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    names = args.names or list(NAMES)
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(args.corun, args.python, Path(folder))
        failures = measure(programs, names, args.seconds, args.pairs) if args.time else check(programs, names, args.seconds)
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
