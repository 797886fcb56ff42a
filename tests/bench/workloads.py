#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the test models plain, under corun and at fixed numbers of threads.

    python3 tests/bench/workloads.py                 TensorFlow's seven, about an hour
    python3 tests/bench/workloads.py lstm resnet     only these
    python3 tests/bench/workloads.py torch           PyTorch's; also: numpy, sklearn
    python3 tests/bench/workloads.py validation      plain at eleven settings, for tools/graph/validate.py
    python3 tests/bench/workloads.py --table --write make the README's tables again

Each model is one `corun compare --alternate`: every setting's program is started
once and is stopped while the others run, so that all see the same machine. What it
gives is kept in tests/bench/results/<workload>.json. Times are medians of the
rounds. A ratio is the Hodges-Lehmann estimate over the pairs of one round, with the
interval that belongs to it (Wilcoxon's signed ranks, at least 95 %): both bear with
a round in which the machine did something else. Above 1 the second setting is faster.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tables import SETTLED, origin, ratio_of, text, write_readme

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests/bench/results"

TENSORFLOW = ("lstm", "resnet", "inception", "transformer", "gru", "dcgan", "mixed")
# The others have one number of threads. What ends in BUSY has a neighbour: another process that spins on one core.
BUSY = "+busy"
# At many more fixed settings: what the simulator is held against (tools/graph/validate.py).
GRID_ONLY = "+grid"
VALIDATED = tuple(name + GRID_ONLY for name in ("lstm", "resnet", "inception"))
TORCH = (
    *("torch-lstm", "torch-conv", "torch-transformer", "torch-mlp"),
    *("torch-transformer" + BUSY, "torch-mlp" + BUSY),
    *("torch-infer-conv", "torch-infer-transformer"),
)
NUMPY = tuple(f"numpy-{n}" for n in (8, 16, 32, 64, 100, 150, 200, 300, "mix", 1000, 2000))
SKLEARN = ("sklearn-boosting", "sklearn-kmeans", "sklearn-forest")
FAMILIES = {"tensorflow": TENSORFLOW, "torch": TORCH, "numpy": NUMPY, "sklearn": SKLEARN, "validation": VALIDATED}
WORKLOADS: tuple[str, ...] = sum(FAMILIES.values(), ())

GATE = "gate"  # the setting in which corun's gate decides what runs beside what

GRID = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 4), (2, 4))  # threads within an op, ops
WIDE_GRID = (*GRID, (1, 3), (2, 3), (4, 1), (4, 2), (4, 4))
COUNTS = (1, 2)  # the fixed counts of the other families
# What a program asks for that was written for a larger machine, as the program or as its environment says it.
TOO_MANY = {"set 8": "--intra 8", "OMP 16": "OMP_NUM_THREADS=16"}
TOO_MANY_WORKLOADS = ("torch-lstm", "torch-conv", "torch-transformer", "torch-mlp")
WIDE = 16, 16  # what a program asks for that was written for a larger machine
WIDE_WORKLOADS = ("lstm", "resnet")
# A round of mixed takes long: only the points at which one of its two models is best.
GRIDS = {"mixed": ((1, 2), (2, 2))}
# Seconds under corun before the first round: as long as a decision may take.
WARM = {"mixed": 120, "inception": 150}
# A slot holds at least one whole phase of each of the two models (4 s each).
SLOT = {"mixed": 16}
WARM_PLAIN = 9  # until the steps are steady, import and tracing included

HEAD = (
    "workload",
    "plain, ms/step",
    "corun, ms/step",
    "plain / corun",
    "best of the grid",
    "plain / best",
    "best / corun",
    "decided after",
    "arm",
    "plain / corun, first minute",
    "plain / corun at 16,16",
    "corun without / with the gate",
)
COUNTS_HEAD = (
    "workload",
    "plain, ms/step",
    "corun, ms/step",
    "plain / corun",
    "best count",
    "best / corun",
    "plain / best",
    "arm",
    "set 8: best / corun",
    "set 8: plain / corun",
    "OMP 16: best / corun",
    "OMP 16: plain / corun",
)


def parse_arguments() -> argparse.Namespace:
    """The command line; --slot and --warm are only the defaults of a workload."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help="or a family: " + ", ".join(FAMILIES) + " [tensorflow]"
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--slot", type=float, metavar="SECONDS", help="[3; mixed: 16]")
    parser.add_argument(
        "--warm",
        type=float,
        metavar="SECONDS",
        help="under corun before the first round [60; mixed: 120, inception: 150]",
    )
    parser.add_argument(
        "--warm-plain", type=float, default=WARM_PLAIN, metavar="SECONDS"
    )
    parser.add_argument("--corun", default="build/tools/corun", metavar="COMMAND")
    parser.add_argument("--python", default="build/venv/bin/python", metavar="COMMAND")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument(
        "--add",
        action="store_true",
        help="join the rounds to those that there are: another start of each program",
    )
    parser.add_argument(
        "--table", action="store_true", help="measure nothing, show what there is"
    )
    parser.add_argument(
        "--write", action="store_true", help="put the table into README.md"
    )
    options = parser.parse_args()
    chosen = options.workloads or ["tensorflow"]
    options.workloads = [one for name in chosen for one in FAMILIES.get(name, (name,))]
    for name in options.workloads:
        if name not in WORKLOADS:
            parser.error(f"there is no workload '{name}': {', '.join(WORKLOADS)}")
    options.results = options.results.resolve()
    return options


def grid_name(threads: tuple[int, int]) -> str:
    """A grid point's name in the results."""
    return f"grid {threads[0]},{threads[1]}"


def count_name(threads: int) -> str:
    """A fixed count's name in the results."""
    return f"count {threads}"


def further_settings(name: str) -> list[str]:
    """The --also of each setting besides plain and corun."""

    def arguments(threads: tuple[int, int]) -> str:
        return f"--intra {threads[0]} --inter {threads[1]}"

    if name not in TENSORFLOW + VALIDATED:
        settings = [f"{count_name(count)}=--intra {count}" for count in COUNTS]
        if name in TOO_MANY_WORKLOADS:
            for also, words in TOO_MANY.items():
                words = words if "=" in words else f"-- {words}"
                settings += [f"{also}={words}", f"{also} corun=@corun {words}"]
        return settings

    points = WIDE_GRID if name in VALIDATED else GRIDS.get(name, GRID)
    settings = [f"{grid_name(point)}={arguments(point)}" for point in points]
    if name in VALIDATED:
        return settings
    settings.append(f"{GATE}=@corun CORUN_GATE=on")
    if name in WIDE_WORKLOADS:
        settings.append(f"{WIDE[0]},{WIDE[1]}=@corun -- {arguments(WIDE)}")
    return settings


def times_of(name: str, options: argparse.Namespace) -> tuple[float, float]:
    """Slot and warm-up under corun, in seconds."""
    slot = options.slot if options.slot is not None else SLOT.get(name, 3)
    warm = WARM_PLAIN if name in VALIDATED else WARM.get(name, 60)
    warm = options.warm if options.warm is not None else warm
    return slot, warm


def seconds_for(name: str, options: argparse.Namespace) -> float:
    """About how long a workload takes."""
    slot, warm = times_of(name, options)
    also = further_settings(name)
    under_corun = 1 + sum("@corun" in text for text in also)
    plain = 2 + len(also) - under_corun
    slots = options.rounds * (plain + under_corun) * (slot + 0.1)
    return under_corun * warm + plain * options.warm_plain + slots


@contextlib.contextmanager
def neighbour() -> Iterator[None]:
    """Another program that keeps one core busy meanwhile."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure(name: str, options: argparse.Namespace) -> bool:
    """Runs the comparison of one workload; whether it ran to its end."""
    slot, warm = times_of(name, options)
    options.results.mkdir(parents=True, exist_ok=True)
    unfinished = options.results / f"{name}.partial.json"
    words = [options.corun, "compare", "--alternate", f"--slot={slot:g}"]
    words += [f"--warm={warm:g}", f"--warm-plain={options.warm_plain:g}"]
    words += ["-n", str(options.rounds), "--metric", "step_ms=([0-9.]+)"]
    words += ["--json", str(unfinished)]
    for setting in further_settings(name):
        words += ["--also", setting]
    words += ["--", options.python, "tests/packages/workload.py", name.removesuffix(BUSY).removesuffix(GRID_ONLY)]
    words += ["--measure", "0", "--every-step"]
    with neighbour() if name.endswith(BUSY) else contextlib.nullcontext():
        process = subprocess.Popen(words, cwd=ROOT)
        try:
            code = process.wait()
        except KeyboardInterrupt:  # it was interrupted too, and saves what it has
            process.wait()
            raise
    if code not in SETTLED:
        print(f"{name}: the comparison stopped (exit code {code})", file=sys.stderr)
        return False
    kept = options.results / f"{name}.json"
    if options.add and kept.exists():
        join(kept, unfinished)
    unfinished.replace(kept)
    return True


def join(before: Path, after: Path) -> None:
    """Puts the rounds of an earlier comparison of the same settings before those of a later one: a program
    that is started once has one layout in memory, which is worth some percent."""
    old = json.loads(before.read_text(encoding="utf-8"))
    new = json.loads(after.read_text(encoding="utf-8"))
    earlier = {one["name"]: one for one in old["settings"]}
    if old["command"] != new["command"] or set(earlier) != {
        one["name"] for one in new["settings"]
    }:
        sys.exit(f"{before} is of another comparison: measure without --add")
    for one in new["settings"]:
        first = earlier[one["name"]]
        for key in ("values", "wall_seconds", "cpu_seconds", "max_rss_bytes"):
            one[key] = first[key] + one[key]
        one["median"] = statistics.median(one["values"])
        # Of all rounds the table makes its own.
        for key in ("mean", "ratio_to_plain", "ratio_to_corun"):
            one.pop(key, None)
    new["rounds"] = old["rounds"] + new["rounds"]
    new["starts"] = old.get("starts", 1) + 1
    after.write_text(json.dumps(new, indent=2) + "\n", encoding="utf-8")


def measure_all(options: argparse.Namespace) -> bool:
    """Measures the chosen workloads in turn; whether all ran to their end."""
    needed = [seconds_for(name, options) for name in options.workloads]
    started = time.monotonic()
    good = True
    for number, name in enumerate(options.workloads):
        print(
            f"== {name} ({number + 1} of {len(needed)}): about"
            f" {needed[number] / 60:.0f} min, {sum(needed[number:]) / 60:.0f} min left,"
            f" {(time.monotonic() - started) / 60:.0f} min gone",
            flush=True,
        )
        good = measure(name, options) and good
    return good


def number(value: float | None, digits: int = 3) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def row_of(name: str, result: dict) -> list[str]:
    """One workload's row of the table."""
    settings = {one["name"]: one for one in result["settings"]}
    plain, corun = settings["plain"], settings["corun"]
    points = [settings[grid_name(p)] for p in GRID if grid_name(p) in settings]
    best = max(points, key=lambda one: ratio_of(plain, one)[0])
    status = corun.get("status") or {}
    decided = status.get("seconds_to_decision")
    first = corun.get("first_mean")
    median = plain["median"]
    wide = settings.get(f"{WIDE[0]},{WIDE[1]}")
    gate = settings.get(GATE)
    return [
        name,
        number(median, 2),
        number(corun["median"], 2),
        text(ratio_of(plain, corun)),
        best["name"].removeprefix("grid "),
        text(ratio_of(plain, best)),
        text(ratio_of(best, corun)),
        "–" if decided is None else f"{decided:.0f} s",
        status.get("arm") or "–",
        number(median / first if first else None),
        text(ratio_of(plain, wide)) if wide else "–",
        text(ratio_of(corun, gate)) if gate else "–",
    ]


def counts_row_of(name: str, result: dict) -> list[str]:
    """One workload's row of a family that has one number of threads."""
    settings = {one["name"]: one for one in result["settings"]}
    plain, corun = settings["plain"], settings["corun"]
    points = [settings[count_name(count)] for count in COUNTS if count_name(count) in settings]
    best = max(points, key=lambda one: ratio_of(plain, one)[0])
    row = [
        name.replace(BUSY, ", one core busy"),
        number(plain["median"], 2),
        number(corun["median"], 2),
        text(ratio_of(plain, corun)),
        best["name"].removeprefix("count "),
        text(ratio_of(best, corun)),
        text(ratio_of(plain, best)),
        (corun.get("status") or {}).get("arm") or "–",
    ]
    for also in TOO_MANY:
        wide = settings.get(f"{also} corun")
        row.append(text(ratio_of(best, wide)) if wide else "–")
        row.append(text(ratio_of(settings[also], wide)) if wide else "–")
    return row


def table_of(results: dict[str, dict], tensorflow: bool) -> str:
    """The table of a family's results, and under it where they come from."""
    head, row = (HEAD, row_of) if tensorflow else (COUNTS_HEAD, counts_row_of)
    lines = ["| " + " | ".join(head) + " |", "| --- " + "| ---: " * (len(head) - 1) + "|"]
    lines += [
        "| " + " | ".join(row(name, one)) + " |" for name, one in results.items()
    ]
    lines += origin(results.items())
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measures unless told not to, then makes the tables of all results there are."""
    options = parse_arguments()
    good = options.table or measure_all(options)
    found = False
    for marker, names in (("measured", TENSORFLOW), ("counts", TORCH + NUMPY + SKLEARN)):
        results = {}
        for name in names:
            path = options.results / f"{name}.json"
            if path.exists():
                results[name] = json.loads(path.read_text(encoding="utf-8"))
        if not results:
            continue
        found = True
        table = table_of(results, names is TENSORFLOW)
        print("\n" + table, end="")
        if options.write:
            write_readme(table, f"<!-- {marker} -->", f"<!-- /{marker} -->")
    if not found and options.table:
        sys.exit(f"there are no results in {options.results}")
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
