#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs each OpenMP kernel of the given programs at several numbers of threads and compares the checksums.

    verify.py [--library SO [--mode VAR=VALUE[,...]]... [--longer N]] PROGRAM...

PROGRAM: one for each compiler and schedule. A kernel that is called exact gives the same checksum in all programs
at any number of threads, the others agree to 12 digits. The checksum depends on the size: it is no constant. With
--library all of them run under libcorun.so as well, once in each mode (options of corun; default: none), and N
times as many steps, so that corun comes to change something. Exit code 77: there is no program.
"""

import argparse
import os
import subprocess
import sys
import unittest
from pathlib import Path

SKIPPED = 77
THREADS = (1, 2, 3)
ROUNDED = 1e-12
OPTIONS = argparse.Namespace()


def run(program: Path, words: list[str], threads: int = 1, more: dict[str, str] | None = None) -> str:
    """What it prints; it must end well and say nothing on stderr."""
    ours = ("OMP_", "GOMP_", "KMP_", "CORUN_", "LD_PRELOAD")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    environment |= {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"} | (more or {})
    done = subprocess.run(
        [program, *words], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"{program} {words} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def values(output: str) -> dict[str, str]:
    """The name=value lines."""
    return dict(line.split("=", 1) for line in output.splitlines())


def checksum(program: Path, kernel: str, threads: int, *words: str, more: dict[str, str] | None = None) -> float:
    """Of a run without timed steps."""
    return float(values(run(program, [kernel, "--seconds", "0", *words], threads, more))["checksum"])


def under(mode: str) -> dict[str, str]:
    """The environment that puts a program under the library."""
    options = dict(one.split("=", 1) for one in mode.split(",") if one)
    return {"LD_PRELOAD": str(OPTIONS.library), "CORUN_STRICT": "yes"} | options


class Kernels(unittest.TestCase):
    """Filled below: one case for each kernel."""

    def same(self, found: float, wanted: float, exact: bool):
        """As equal as the kernel promises."""
        if exact:
            self.assertEqual(found, wanted)
        else:
            self.assertLessEqual(abs(found / wanted - 1), ROUNDED)

    def check(self, kernel: str, exact: bool):
        """The same at every number of threads, in every program, and another at another size."""
        first = checksum(OPTIONS.programs[0], kernel, 1)
        for program in OPTIONS.programs:
            for threads in THREADS:
                with self.subTest(program=program.name, threads=threads):
                    self.same(checksum(program, kernel, threads), first, exact)
        self.assertNotEqual(checksum(OPTIONS.programs[0], kernel, 1, "--size", "50"), first)

    def check_under(self, kernel: str, exact: bool, steps: int):
        """The same under the library, in every mode."""
        words = ["--check-steps", str(steps * OPTIONS.longer)]
        first = checksum(OPTIONS.programs[0], kernel, 1, *words)
        for program in OPTIONS.programs:
            for threads in THREADS[1:]:
                for mode in OPTIONS.mode:
                    with self.subTest(program=program.name, threads=threads, mode=mode):
                        self.same(checksum(program, kernel, threads, *words, more=under(mode)), first, exact)

    def test_timing_lines(self):
        """What the measuring script reads is there."""
        told = values(run(OPTIONS.programs[0], ["tiny", "--seconds", "0.05", "--watch"]))
        self.assertGreater(float(told["us_per_step"]), 0)
        self.assertGreater(float(told["mean_us_per_step"]), 0)
        self.assertGreaterEqual(float(told["mean_us_per_step"]), float(told["least_us_per_step"]))
        self.assertGreaterEqual(int(told["steps"]), 1)

    def test_wrong_words(self):
        """A kernel that is not there is refused."""
        for words in ([], ["nothing"], ["tiny", "--size"], ["tiny", "--size", "0"]):
            with self.assertRaisesRegex(AssertionError, "usage"):
                run(OPTIONS.programs[0], words)


def add_cases() -> None:
    """From what the first program lists."""
    for line in run(OPTIONS.programs[0], ["--list"]).splitlines():
        name, _, _, kind, steps = line.split()
        exact = kind == "exact"
        setattr(Kernels, f"test_{name}", lambda self, n=name, e=exact: self.check(n, e))
        if OPTIONS.library:
            case = lambda self, n=name, e=exact, s=int(steps): self.check_under(n, e, s)  # noqa: E731
            setattr(Kernels, f"test_{name}_under_corun", case)


def main() -> int:
    """Reads the command line, makes the cases and runs them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", nargs="*", type=Path, metavar="PROGRAM")
    parser.add_argument("--library", type=Path, metavar="SO")
    parser.add_argument("--mode", action="append", default=[], metavar="VAR=VALUE[,...]")
    parser.add_argument("--longer", type=int, default=1, metavar="N")
    parser.parse_args(namespace=OPTIONS)
    if not OPTIONS.programs:
        print("there is no compiler with OpenMP")
        return SKIPPED
    OPTIONS.programs = [program.resolve() for program in OPTIONS.programs]
    OPTIONS.library = OPTIONS.library and OPTIONS.library.resolve()
    OPTIONS.mode = OPTIONS.mode or [""]
    add_cases()
    unittest.main(argv=sys.argv[:1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
