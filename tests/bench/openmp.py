#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the OpenMP kernels plain, at fixed numbers of threads and under corun.

    python3 tests/bench/openmp.py                         the usual 28, about 9 min
    python3 tests/bench/openmp.py tiny/* mixed/clang-*    only these: KERNEL/COMPILER-SCHEDULE
    python3 tests/bench/openmp.py --all                   guided and runtime schedules too
    python3 tests/bench/openmp.py --table --write         make the README's table again

Each is one `corun compare --alternate`: every setting's program is started once and is
stopped while the others run. Settings: plain, OMP_NUM_THREADS=1, 2, 4 ... below the CPUs,
corun with CORUN_OPENMP=adaptive, and for gcc's static schedule with the profile of earlier
runs (CORUN_OPENMP=safe). The slots show the settled state; "from the start" is a run of some
seconds of its own, learning and all. What comes of it, with every value, is kept in
tests/bench/results/openmp.json. Times are medians, ratios as in workloads.py; above 1 the
second is the faster. A last column says whether what is promised of the kernel holds.
"""

import argparse
import fnmatch
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tables import SETTLED, Ratio, origin, ratio_of, text, write_readme

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests/bench/results/openmp.json"
MARKERS = "<!-- openmp -->", "<!-- /openmp -->"

KERNELS = ("parallel", "stencil", "sparse", "reduction", "irregular", "fine", "tiny", "mixed")
ALWAYS_DYNAMIC = ("irregular", "fine")  # their static build is the dynamic one
BUILDS = ("gcc-static", "gcc-dynamic", "clang-static", "clang-dynamic")
MORE_BUILDS = ("gcc-guided", "gcc-runtime", "clang-guided", "clang-runtime")
FIXED = "threads {}"  # name of a setting
FOREVER = 1e6  # seconds: the comparison ends the programs
TEACHING_RUNS = 3  # before the comparison: as many widths as there are on 2 CPUs, and one more
HEAD = ("kernel", "build", "plain, µs/step", "best fixed", "plain / best", "plain / adaptive", "best / adaptive",
        "plain / adaptive from the start", "best / profile", "promise")  # fmt: skip


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", nargs="*", metavar="KERNEL/BUILD", help="patterns; default: all usual")
    parser.add_argument("--all", action="store_true", help="guided and runtime schedules too")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--slot", type=float, default=0.35, metavar="SECONDS")
    parser.add_argument("--warm", type=float, default=4, metavar="SECONDS", help="under corun [4]")
    parser.add_argument("--warm-plain", type=float, default=0.4, metavar="SECONDS")
    parser.add_argument("--start", type=float, default=1.5, metavar="SECONDS", help="of a run from the start [1.5]")
    parser.add_argument("--corun", type=Path, default=ROOT / "build/tools/corun", metavar="COMMAND")
    parser.add_argument("--programs", type=Path, default=ROOT / "build/tests/bench/openmp", metavar="FOLDER")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--table", action="store_true", help="measure nothing, show what there is")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    options = parser.parse_args()
    builds = BUILDS + MORE_BUILDS if options.all or options.pairs else BUILDS
    every = [
        f"{kernel}/{build}"
        for kernel in KERNELS
        for build in builds
        if kernel not in ALWAYS_DYNAMIC or not build.endswith("static")
    ]
    for pattern in options.pairs:
        if not fnmatch.filter(every, pattern):
            parser.error(f"nothing is called '{pattern}': KERNEL of {KERNELS}, BUILD of {builds}")
    options.chosen = [
        name
        for name in every
        if not options.pairs or any(fnmatch.fnmatch(name, pattern) for pattern in options.pairs)
    ]
    return options


def environment() -> dict[str, str]:
    """That of the user, without settings of OpenMP and of corun."""
    ours = ("OMP_", "GOMP_", "KMP_", "LIBOMP_", "CORUN_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def fixed_widths() -> list[int]:
    """1, 2, 4, ... and the CPUs of this process."""
    cpus = len(os.sched_getaffinity(0))
    return [2**i for i in range(cpus.bit_length()) if 2**i < cpus] + [cpus]


def further_settings(build: str, profile: Path) -> list[str]:
    """The --also of each setting besides plain, which has a thread for each CPU, and adaptive."""
    settings = [f"{FIXED.format(width)}=OMP_NUM_THREADS={width}" for width in fixed_widths()[:-1]]
    if build == "gcc-static":
        settings.append(f"profile=@corun CORUN_OPENMP=safe CORUN_PROFILE={profile}")
    return settings


def seconds_for(name: str, options: argparse.Namespace) -> float:
    """About how long one comparison takes."""
    under_corun = 1 + name.endswith("gcc-static")
    plain = len(fixed_widths())
    slots = options.rounds * (plain + under_corun) * (options.slot + 0.1)
    teaching = TEACHING_RUNS * options.warm / 4 if name.endswith("gcc-static") else 0
    return under_corun * options.warm + plain * options.warm_plain + slots + teaching + 2 * options.start


def teach(words: list[str], profile: Path, options: argparse.Namespace) -> None:
    """Runs from which the profile learns, each a quarter of the warm-up. With the same words: others say nothing."""
    brief = environment() | {"KERNEL_SECONDS": f"{options.warm / 4:g}"}
    for _ in range(TEACHING_RUNS):
        command = [options.corun, "run", "--openmp=safe", f"--profile={profile}", "--", *words]
        subprocess.run(command, env=brief, stdout=subprocess.DEVNULL, check=True, timeout=60)


def from_the_start(words: list[str], options: argparse.Namespace) -> dict[str, float]:
    """Mean microseconds a step of a run plain and of one under adaptive, learning and all."""
    means = {}
    for setting, before in (("plain", []), ("adaptive", [options.corun, "run", "--openmp=adaptive", "--"])):
        command = [*before, *words, "--seconds", f"{options.start:g}"]
        told = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout
        means[setting] = float(told.rsplit("mean_us_per_step=", 1)[1])
    return means


def measure(name: str, options: argparse.Namespace) -> dict | None:
    """One comparison; nothing when it did not run to its end."""
    kernel, build = name.split("/")
    program = [str(options.programs / f"openmp-{build}"), kernel]
    for_ever = [*program, "--seconds", f"{FOREVER:g}", "--watch"]
    with tempfile.TemporaryDirectory() as folder:
        result, profile = Path(folder) / "result.json", Path(folder) / "profile.json"
        words = [str(options.corun), "compare", "--alternate", f"--slot={options.slot:g}"]
        words += [f"--warm={options.warm:g}", f"--warm-plain={options.warm_plain:g}"]
        words += ["-n", str(options.rounds), "--metric", r"^us_per_step=([0-9.]+)", "--json", str(result)]
        for setting in further_settings(build, profile):
            words += ["--also", setting]
        if build == "gcc-static":
            teach(for_ever, profile, options)
        words += ["--", *for_ever]
        process = subprocess.Popen(words, env=environment() | {"CORUN_OPENMP": "adaptive"})
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.wait()  # it was interrupted too, and ends the programs
            raise
        if code not in SETTLED:
            print(f"{name}: the comparison stopped (exit code {code})", file=sys.stderr)
            return None
        found = json.loads(result.read_text(encoding="utf-8"))
        found["command"][0] = Path(found["command"][0]).name  # wherever it was built
        for setting in found["settings"]:
            setting["name"] = "adaptive" if setting["name"] == "corun" else setting["name"]
        return found | {"from_the_start": from_the_start(program, options)}


def read_results(path: Path) -> dict[str, dict]:
    """What was measured so far."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def measure_all(options: argparse.Namespace) -> bool:
    """Measures in turn, keeps each as soon as it is there; whether all ran to their end."""
    there = [name for name in options.chosen if program_of(name, options).exists()]
    for name in options.chosen:
        if name not in there:
            print(f"{name}: {program_of(name, options)} was not built, left out", file=sys.stderr)
    needed = [seconds_for(name, options) for name in there]
    good = len(there) == len(options.chosen)
    started = time.monotonic()
    for number, name in enumerate(there):
        print(
            f"== {name} ({number + 1} of {len(there)}): about {sum(needed[number:]) / 60:.0f} min left,"
            f" {(time.monotonic() - started) / 60:.0f} min gone",
            flush=True,
        )
        result = measure(name, options)
        good = good and result is not None
        if result is not None:
            results = read_results(options.results) | {name: result}
            options.results.parent.mkdir(parents=True, exist_ok=True)
            options.results.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return good


def program_of(name: str, options: argparse.Namespace) -> Path:
    """The program that has the kernel."""
    return options.programs / f"openmp-{name.split('/')[1]}"


def ratio(slow: dict | None, fast: dict | None) -> Ratio | None:
    """None where one of the two was not measured."""
    return None if slow is None or fast is None else ratio_of(slow, fast)


def promise(kernel: str, build: str, settings: dict[str, dict], best: dict) -> str:
    """Whether what is promised of this kernel holds: by the value, surely so or not."""
    checks = []
    if build == "gcc-static":
        checks.append((ratio(best, settings.get("profile")), 0.97))
    else:
        adaptive = settings.get("adaptive")
        checks.append((ratio(best, adaptive), 1.0 if kernel == "mixed" else 0.95))
        if kernel == "tiny":
            checks.append((ratio(settings["plain"], adaptive), 1.5))
    if any(found is None for found, _ in checks):
        return "–"
    if all(found[0] >= least for found, least in checks):
        sure = all((found[1] or 0.0) >= least for found, least in checks)
        return "held" if sure else "held, not surely"
    sure = any((found[2] or math.inf) < least for found, least in checks)
    return "MISSED" if sure else "missed, not surely"


def row_of(name: str, result: dict) -> list[str]:
    """One line of the table."""
    kernel, build = name.split("/")
    settings = {one["name"]: one for one in result["settings"]}
    plain, adaptive = settings["plain"], settings["adaptive"]
    points = [one for one in settings.values() if one["name"].startswith(FIXED.format(""))] + [plain]
    best = min(points, key=lambda one: one["median"] or math.inf)
    start = result["from_the_start"]
    return [
        kernel,
        build,
        f"{plain['median']:.1f}",
        str(result["host"]["cpus"]) if best is plain else best["name"].removeprefix(FIXED.format("")),
        text(ratio(plain, best)),
        text(ratio(plain, adaptive)),
        text(ratio(best, adaptive)),
        f"{start['plain'] / start['adaptive']:.2f}",
        text(ratio(best, settings.get("profile"))),
        promise(kernel, build, settings, best),
    ]


def table_of(results: dict[str, dict]) -> str:
    """The table of all results, and under it where they come from."""
    lines = ["| " + " | ".join(HEAD) + " |", "| --- | --- " + "| ---: " * (len(HEAD) - 3) + "| --- |"]
    order = [f"{kernel}/{build}" for kernel in KERNELS for build in BUILDS + MORE_BUILDS]
    known = [name for name in order if name in results]
    lines += ["| " + " | ".join(row_of(name, results[name])) + " |" for name in known]
    lines += origin((name, results[name]) for name in known)
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measures unless told not to, then makes the table of all results there are."""
    options = parse_arguments()
    good = options.table or measure_all(options)
    results = read_results(options.results)
    if not results:
        sys.exit(f"there are no results in {options.results}")
    table = table_of(results)
    print("\n" + table, end="")
    if options.write:
        write_readme(table, *MARKERS)
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
