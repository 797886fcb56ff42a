#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the BLAS victims plain and under the preload and holds what they do against what is expected.

    run_blas_victims.py LIBCORUN VICTIM_DIR [GROUP...]
"""

import platform
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import run_victims as base  # noqa: E402  (beside this folder)
from run_victims import ALL_POLICIES, DONE, NARROW, calls, needs_cpus, run  # noqa: E402

FOLDER = Path()
TWO = {"CORUN_CPUS": "2"}
RANDOM = {**TWO, "CORUN_POLICY": "random"}


class Case(base.Case):
    """Assertions that the groups share."""

    def says(self, behaviour: str, out: str, settings: dict[str, str] | None = None, **more) -> base.Outcome:
        return self.expect([str(FOLDER / "victim-blas"), behaviour], out + DONE, {**TWO, **(settings or {})}, **more)


class Arguments(Case):
    """Everything is handed on as it is, under every name, and every name that is hooked is tried."""

    def test_all_names(self) -> None:
        for settings in [*ALL_POLICIES, {"CORUN_HOOKS": "tensorflow"}]:
            with self.subTest(settings=settings):
                self.says("arguments", "2592 calls of 864 names\n", settings)
        self.says("arguments", "2592 calls of 864 names\n", preload=False)

    def test_names_are_those_hooked(self) -> None:
        def defined(path: Path) -> set[str]:
            listed = subprocess.run(["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True)
            names = {line.split()[-1] for line in listed.stdout.splitlines()}
            return {name for name in names if base.BLAS_NAME.fullmatch(name)}

        hooked = defined(base.LIBRARY)
        self.assertEqual(len(hooked), 864)
        self.assertEqual(hooked, defined(FOLDER / "libfake_blas.so"))

    def test_report(self) -> None:
        outcome = self.says("query", "asked\n")
        self.assertEqual(calls(outcome.report), {"dgesdd(A,1024,1024)": 300})


class Width(Case):
    """The number of threads during a call, and between two."""

    @needs_cpus
    def test_limits(self) -> None:
        own = "small 2, large 2, svd 2, after 2\n"
        self.says("limits", own, preload=False)
        self.says("limits", "small 1, large 2, svd 1, after 2\n")
        for settings in ({"CORUN_BLAS_LIMITS": "no"}, {"CORUN_MODE": "observe"}, {"CORUN_MODE": "off"},
                         {"CORUN_REPRODUCIBLE": "1"}, {"CORUN_HOOKS": "tensorflow"}, {"CORUN_POLICY": "pass-through"}):
            self.says("limits", own, settings)
        self.says("limits", "small 1, large 1, svd 1, after 2\n", NARROW)

    @needs_cpus
    def test_the_programs_own_word_is_a_ceiling(self) -> None:
        tail = "set inside: 3\n"
        self.says("ceiling", "own 2: 2 to 2\nown 1: 1 to 1\n" + tail, preload=False)
        self.says("ceiling", "own 2: 2 to 2\nown 1: 1 to 1\n" + tail, {"CORUN_POLICY": "pass-through"})
        self.says("ceiling", "own 2: 1 to 1\nown 1: 1 to 1\n" + tail, NARROW)
        self.says("ceiling", "own 2: 1 to 2\nown 1: 1 to 1\n" + tail, RANDOM)

    @needs_cpus
    def test_above_the_budget(self) -> None:
        outcome = self.says("capped", "large 2, then 2\n")
        self.assertIn("libfake_blas.so 8 -> 2", [lever["effect"] for lever in outcome.report["irreversible"]])
        for settings in ({"CORUN_POOL_CAP": "no"}, {"CORUN_MODE": "observe"}):
            self.says("capped", "large 8, then 8\n", settings)

    @needs_cpus
    def test_the_outermost_call_decides(self) -> None:
        outcome = self.says("nested", "outer 2, nested 2, after 2\n")
        self.assertEqual(calls(outcome.report), {"dgesdd(A,1024,1024)": 300})
        self.says("nested", "outer 1, nested 1, after 2\n", NARROW)

    @needs_cpus
    def test_left_by_a_jump(self) -> None:
        self.says("jump", "later 2, after 2\n", {"CORUN_POLICY": "pass-through"})
        self.says("jump", "later 1, after 2\n", NARROW)

    @needs_cpus
    def test_fork_in_the_middle(self) -> None:
        for settings in ({}, {"CORUN_FOLLOW": "fork"}):
            outcome = self.says("forked", "child after 2\nchild 0, parent after 2\n", {**NARROW, **settings})
            self.assertEqual(outcome.err, "")

    def test_fork_beside_the_first_call(self) -> None:
        for step in range(40):
            self.says("forked-early", "child 0\n", {"VICTIM_DELAY": str(25 * step)})


class Threads(Case):
    """One number for all threads: it changes with nobody inside only."""

    @needs_cpus
    def test_nobody_inside(self) -> None:
        for settings in ({}, RANDOM, NARROW):
            with self.subTest(settings=settings):
                self.says("inside", "changed inside 0, uneven 0, narrow some, after 2\n", settings)

    @needs_cpus
    def test_side_by_side(self) -> None:
        self.says("crowd", "side by side narrow, changed inside 0, alone 2, after 2\n")
        self.says("crowd", "side by side wide, changed inside 0, alone 2, after 2\n", {"CORUN_BLAS_LIMITS": "no",
                                                                                        "CORUN_POLICY": "pass-through"})


class Both(Case):
    """Beside another source, and beside calls of another size."""

    def says(self, behaviour: str, out: str, settings: dict[str, str] | None = None, **more) -> base.Outcome:
        command = [str(FOLDER / "victim-blas-both"), *behaviour.split()]
        return self.expect(command, out + DONE, {**TWO, **(settings or {})}, **more)

    def test_the_profile_of_whoever_comes_second(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            profile = {"CORUN_PROFILE": f"{folder}/profile"}
            first = self.says("blas-first", "", profile)
            self.assertEqual(calls(first.report), {"dgemm(384,384,384)": 50, "MatMul(float[3,4];float[4,5])": 300})
            # A second run has what the first one learned: two calls would not tell.
            again = self.says("blas-first 2", "", {**profile, "CORUN_MODE": "replay"})
            known = {op["name"]: op["reference_us"] for op in again.report["ops"]}
            self.assertGreater(known["MatMul"], 0.0)

    def test_at_once(self) -> None:
        for _ in range(30):
            outcome = self.says("together", "")
            self.assertEqual(calls(outcome.report), {"dgemm(384,384,384)": 300, "MatMul(float[3,4];float[4,5])": 300})
        with tempfile.TemporaryDirectory() as folder:
            profile = Path(folder) / "profile"
            for _ in range(5):  # for as long as it takes to read this, each would begin by itself
                profile.write_text('{"x": "' + 30_000_000 * "y" + '"}')
                outcome = self.says("together", "", {"CORUN_PROFILE": str(profile)}, err=None)
                self.assertEqual(calls(outcome.report),
                                 {"dgemm(384,384,384)": 300, "MatMul(float[3,4];float[4,5])": 300})

    @needs_cpus
    def test_small_calls_do_not_hold_a_large_one_down(self) -> None:
        eight = {"CORUN_CPUS": "0", "CORUN_EMULATED_CPUS": "8"}
        self.says("large", "large ones narrow: few, after 8\n", eight, preload=False)
        self.says("large", "large ones narrow: few, after 8\n", eight)
        self.says("large", "large ones narrow: most, after 8\n", {**eight, **NARROW})

    def test_code_that_lies_in_no_file(self) -> None:
        if platform.machine() != "x86_64":
            self.skipTest("its instructions are x86-64's")
        for settings in [{}, NARROW]:
            outcome = self.says("compiled", "dpotrf_, 20 calls\n", settings)
            self.assertEqual(calls(outcome.report), {"dpotrf(1024)": 20})


class Callers(Case):
    """Each object keeps the library that the loader gave it."""

    def copies(self, *names: str, settings: dict[str, str] | None = None, preload: bool = True) -> base.Outcome:
        command = [str(FOLDER / "victim-blas-copies"), *(str(FOLDER / f"lib{name}.so") for name in names)]
        return run(command, {**TWO, **(settings or {})}, preload)

    def test_two_copies(self) -> None:
        names = ("blas_plugin_a", "blas_plugin_b", "fake_blas_b")
        out = "calls of a 5, of b 3, numbers 1 2\nagain its own\n" + DONE
        for settings in ALL_POLICIES:
            with self.subTest(settings=settings):
                outcome = self.copies(*names, settings=settings)
                self.assertEqual((outcome.out, outcome.err, outcome.code), (out, "", 0))
        self.assertEqual(self.copies(*names, preload=False).out, out)

    def test_tail_call(self) -> None:
        for settings in ALL_POLICIES:
            outcome = self.copies("blas_plugin_tail", settings=settings)
            self.assertEqual((outcome.out, outcome.err), ("calls 4, number 2\n" + DONE, ""))


GROUPS = {"blas-arguments": Arguments, "blas-width": Width, "blas-threads": Threads, "blas-callers": Callers,
          "blas-both": Both}


def main() -> None:
    """Runs the groups named, or all."""
    global FOLDER
    if len(sys.argv) < 3 or set(sys.argv[3:]) - set(GROUPS):
        sys.exit(f"{__doc__}\ngroups: {' '.join(GROUPS)}")
    base.LIBRARY, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(GROUPS[name]) for name in sys.argv[3:] or GROUPS)
    sys.exit(not unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful())


if __name__ == "__main__":
    main()
