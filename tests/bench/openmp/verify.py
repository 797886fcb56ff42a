#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs each OpenMP kernel of the given programs at several numbers of threads and compares the checksums.

    verify.py PROGRAM...      one program for each compiler and schedule; exit code 77: there is none

A kernel that is called exact gives the same checksum in all programs at any number of threads, the others
agree to 12 digits. The checksum depends on the size: it is no constant.
"""

import os
import subprocess
import sys
import unittest
from pathlib import Path

SKIPPED = 77
THREADS = (1, 2, 3)
ROUNDED = 1e-12
PROGRAMS: list[Path] = []


def run(program: Path, words: list[str], threads: int = 1) -> str:
    """What it prints; it must end well and say nothing on stderr."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "KMP_"))}
    environment |= {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run(
        [program, *words], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"{program} {words} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def values(output: str) -> dict[str, str]:
    """The name=value lines."""
    return dict(line.split("=", 1) for line in output.splitlines())


def checksum(program: Path, kernel: str, threads: int, *more: str) -> float:
    """Of a run without timed steps."""
    return float(values(run(program, [kernel, "--seconds", "0", *more], threads))["checksum"])


class Kernels(unittest.TestCase):
    """Filled below: one case for each kernel."""

    def check(self, kernel: str, exact: bool):
        """The same at every number of threads, in every program, and another at another size."""
        first = checksum(PROGRAMS[0], kernel, 1)
        for program in PROGRAMS:
            for threads in THREADS:
                with self.subTest(program=program.name, threads=threads):
                    found = checksum(program, kernel, threads)
                    if exact:
                        self.assertEqual(found, first)
                    else:
                        self.assertLessEqual(abs(found / first - 1), ROUNDED)
        self.assertNotEqual(checksum(PROGRAMS[0], kernel, 1, "--size", "50"), first)

    def test_timing_lines(self):
        """What the measuring script reads is there."""
        told = values(run(PROGRAMS[0], ["tiny", "--seconds", "0.05", "--watch"]))
        self.assertGreater(float(told["us_per_step"]), 0)
        self.assertGreater(float(told["mean_us_per_step"]), 0)
        self.assertGreaterEqual(float(told["mean_us_per_step"]), float(told["least_us_per_step"]))
        self.assertGreater(int(told["steps"]), 1)

    def test_wrong_words(self):
        """A kernel that is not there is refused."""
        for words in ([], ["nothing"], ["tiny", "--size"], ["tiny", "--size", "0"]):
            with self.assertRaisesRegex(AssertionError, "usage"):
                run(PROGRAMS[0], words)


def main() -> int:
    """Makes the cases from what the first program lists."""
    PROGRAMS.extend(Path(word).resolve() for word in sys.argv[1:])
    if not PROGRAMS:
        print("there is no compiler with OpenMP")
        return SKIPPED
    for line in run(PROGRAMS[0], ["--list"]).splitlines():
        name, _, _, kind = line.split()
        setattr(
            Kernels, f"test_{name}", lambda self, name=name, exact=kind == "exact": self.check(name, exact)
        )
    unittest.main(argv=sys.argv[:1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
