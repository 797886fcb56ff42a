#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CORUN_OPENMP_RUNTIME: programs of gcc's that run under LLVM's OpenMP runtime, and those that are kept from it.

    run_runtime_victims.py CORUN LIBCORUN VICTIM_DIR [--runtime FILE] [GROUP...]

The runtime is the one that the programs by clang have, or FILE; exit code 77: that is not there.
"""

import os
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import run_openmp_victims as openmp  # noqa: E402
import run_victims as base  # noqa: E402  (in the folder above)
from run_openmp_victims import library, program  # noqa: E402
from run_victims import DONE, Outcome, needs_cpus  # noqa: E402

CORUN, LIBOMP = "", ""
NOT_USED = "corun: {} is not used for OpenMP: {}. The program runs with its own runtime\n"
KINDS = {
    "unsigned": "leaves out loops that count down",
    "taskloop": "crashes when a loop is empty or counts down",
    "doacross": "crashes in a team of one thread",
    "scan": "ends the program at a scan",
    "teams": "makes another number of teams",
}
LACKS = {"target": "GOMP_target_ext", "allocator": "omp_alloc@OMP_5.0.1"}


def find_libomp() -> str:
    """The file that the loader takes for a program of clang's."""
    listed = plain([program("widths", "clang")], {"LD_TRACE_LOADED_OBJECTS": "1"}).out
    found = re.search(r"libi?omp\S* => (/\S+)", listed)
    if found is None:
        sys.exit(f"the runtime of clang's programs is not to be found: {listed}")
    return os.path.realpath(found[1])


def plain(command: list[str], settings: dict[str, str] | None = None) -> Outcome:
    return base.run(command, settings, preload=False)


def swapped(command: list[str], settings: dict[str, str] | None = None, runtime: str | None = None,
            report: bool = False) -> Outcome:
    """Run by the command, under another runtime."""
    start = [CORUN, "run", "--library", str(base.LIBRARY), "--openmp-runtime", runtime or LIBOMP, "--"]
    return base.run(start + command, settings, preload=False, report=report)


class Case(unittest.TestCase):
    """Assertions that the groups share."""

    maxDiff = None

    def as_plain(self, command: list[str], settings: dict[str, str] | None = None) -> None:
        """All that it prints, and its exit code, whether the runtime is its own or the other one."""
        with self.subTest(command=command, settings=settings):
            observed = {"CORUN_MODE": "observe", **(settings or {})}  # no cap on what the environment says
            self.assertEqual(swapped(command, observed), plain(command, settings))

    def refused(self, command: list[str], *parts: str, settings: dict[str, str] | None = None,
                runtime: str | None = None) -> None:
        """It runs with its own runtime, and one line says why."""
        with self.subTest(command=command, runtime=runtime):
            own = plain(command, settings)
            under = swapped(command, settings, runtime)
            self.assertEqual((under.out, under.code), (own.out, own.code), under.err)
            self.assertEqual(under.err.count("\n"), 1, under.err)
            self.assertTrue(under.err.startswith(NOT_USED.format(runtime or LIBOMP, "\0").split("\0")[0]), under.err)
            self.assertTrue(under.err.endswith("The program runs with its own runtime\n"), under.err)
            for part in parts:
                self.assertIn(part, under.err)


class Runs(Case):
    """Thread ids, team sizes and results are those of gcc's runtime."""

    def test_constructs(self) -> None:
        for threads in ("1", "2", "5"):
            own = plain([program("constructs")], {"OMP_NUM_THREADS": threads})
            self.assertEqual(own.out.count(": 0\n"), own.out.count("\n") - 1, own.out)  # every line but "done"
            self.as_plain([program("constructs")], {"OMP_NUM_THREADS": threads})
            self.as_plain([program("constructs")], {"OMP_NUM_THREADS": threads, "OMP_CANCELLATION": "true"})

    def test_widths(self) -> None:
        for behaviour in ("kinds", "old", "threads", "processors", "fortran", "named", "own", "own-count",
                          "own-barrier", "counting-sort", "slots", "nested", "serialized"):
            self.as_plain([program("widths"), behaviour], {"OMP_NUM_THREADS": "3"})
        self.as_plain([program("widths"), "bits"], {"OMP_NUM_THREADS": "2"})
        self.as_plain([program("widths"), "nested"], {"OMP_NUM_THREADS": "2,3", "OMP_MAX_ACTIVE_LEVELS": "2"})

    def test_capped(self) -> None:
        settings = {"OMP_NUM_THREADS": "5", "CORUN_CPUS": "1"}
        own = base.run([program("widths"), "kinds"], settings)
        self.assertIn("told 1", own.out)
        self.assertEqual(swapped([program("widths"), "kinds"], settings), own)

    @needs_cpus
    def test_a_child_is_no_longer_stuck(self) -> None:
        out = "parent: team 2\nchild: told 2, team 2\nparent: team 2\n"
        self.assertEqual(swapped([program("forks")], {"OMP_NUM_THREADS": "2"}).out, out)

    def test_it_is_the_other_runtime(self) -> None:
        report = swapped([program("widths"), "slots"], report=True).report
        reached = [one["kind"] for one in report["runtimes"] if one["state"] == "reached"]
        self.assertEqual(reached, ["libomp"])
        # How threads wait depends on what else the machine does.
        levers = [lever for lever in report["irreversible"] if lever["lever"] != "OpenMP wait policy"]
        self.assertEqual([(one["lever"], one["option"]) for one in levers],
                         [("another OpenMP runtime", "CORUN_OPENMP_RUNTIME")])
        self.assertIn("under every object", levers[0]["effect"])

    def test_schedule_that_nobody_chose(self) -> None:
        print_it = ["sh", "-c", "echo $OMP_SCHEDULE"]
        self.assertEqual(swapped(print_it).out, "dynamic\n")
        self.assertEqual(swapped(print_it, {"OMP_SCHEDULE": "guided,3"}).out, "guided,3\n")
        self.assertEqual(swapped(print_it, {"CORUN_MODE": "off"}).out, "\n")

    def test_it_says_nothing_of_its_own(self) -> None:
        self.as_plain([program("constructs"), "deprecated"])

    def test_teams_change_their_size_without_new_threads(self) -> None:
        self.assertEqual(plain([program("sizes")]).out, "more threads\n")
        self.assertEqual(swapped([program("sizes")]).out, "4 threads\n")

    def test_a_path_may_be_relative(self) -> None:
        folder, name = os.path.split(LIBOMP)
        start = [CORUN, "run", "--library", str(base.LIBRARY), "--", "sh", "-c", "cd /; echo $CORUN_OPENMP_RUNTIME"]
        outcome = base.run(start, {"CORUN_OPENMP_RUNTIME": name}, preload=False, cwd=folder)
        self.assertEqual((outcome.out, outcome.err), (LIBOMP + "\n", ""))

    def test_not_in_mode_off(self) -> None:
        self.assertEqual(swapped(["sh", "-c", "echo $LD_PRELOAD"], {"CORUN_MODE": "off"}).out, f"{base.LIBRARY}\n")


class Objects(Case):
    """Libraries that a program opens."""

    def loads(self, words: list[str], out: str) -> Outcome:
        observed = {"OMP_NUM_THREADS": "4", "CORUN_MODE": "observe"}
        outcome = swapped([str(openmp.FOLDER / "victim-loader"), *words], observed, report=True)
        self.assertEqual((outcome.out, outcome.code), (out + DONE, 0), outcome.err)
        return outcome

    def test_local_ones_share_it(self) -> None:
        for how in ("local", "lazy", "global"):
            # As plain, but that there is one number of threads for both.
            outcome = self.loads([how, library("plugin", "gcc"), "team", "2", how, library("plugin", "gcX"), "team", "0"],
                                 "told 2 team 2\ntold 2 team 2\n")
            self.assertEqual(outcome.err, "")
            reached = [one["kind"] for one in outcome.report["runtimes"] if one["state"] == "reached"]
            self.assertEqual(reached, ["libomp"])

    def test_hooked_names_only(self) -> None:
        for how in ("local", "lazy"):
            outcome = self.loads([how, library("plugin_bare", "gcX"), "bare", how, library("plugin", "gcc"), "team", "3",
                                  "again", "0", "bare"], "team 4\ntold 3 team 3\nteam 3\n")
            self.assertEqual(outcome.err, "")

    def test_deepbind_keeps_its_own(self) -> None:
        outcome = self.loads(["local", library("plugin", "gcc"), "team", "2", "deepbind", library("plugin", "gcX"),
                              "team", "0", "team", "3", "again", "0", "team", "0"],
                             "told 2 team 2\ntold 4 team 4\ntold 3 team 3\ntold 2 team 2\n")
        self.assertEqual(outcome.err, "")
        effects = [one["effect"] for one in outcome.report["irreversible"]]
        self.assertIn("victim-plugin-gcX.so keeps libgomX.so.1", effects)

    def test_one_that_it_does_not_suit_is_told_of(self) -> None:
        outcome = self.loads(["local", library("differs-teams", "gcc"), "team", "0"], "told 1 team 2\n")
        self.assertEqual(outcome.err.count("\n"), 1, outcome.err)
        self.assertIn("victim-differs-teams-gcc.so calls GOMP_teams_reg, where LLVM's runtime makes another number of "
                      "teams", outcome.err)

    def test_one_between_two_runtimes_is_told_of(self) -> None:
        outcome = self.loads(["local", library("differs-allocator", "gcc"), "team", "0"], "told 0 team 2\n")
        self.assertEqual(outcome.err.count("\n"), 1, outcome.err)
        self.assertRegex(outcome.err, r"takes omp_(alloc|free) from libgomp\.so\.1 and the rest from libi?omp")

    def test_one_with_functions_of_its_own_is_told_of(self) -> None:
        outcome = self.loads(["local", library("differs-own", "gcc"), "team", "0"], "told 1 team 2\n")
        self.assertIn("victim-differs-own-gcc.so has omp_get_max_threads of its own", outcome.err)

    def test_it_is_told_when_its_first_region_opens(self) -> None:
        words = ["local", library("differs-teams", "gcc"), "team", "0", "leave"]
        outcome = swapped([str(openmp.FOLDER / "victim-loader"), *words])
        self.assertEqual(outcome.out, "told 1 team 2\n")
        self.assertIn("does not suit this program", outcome.err)

    def test_without_a_region_it_is_told_at_the_end(self) -> None:
        outcome = self.loads(["local", library("differs-teams", "gcc")], "")
        self.assertIn("does not suit this program", outcome.err)


class Refused(Case):
    """What a program needs and the runtime lacks or means otherwise."""

    def test_differences(self) -> None:
        for kind, reason in KINDS.items():
            own = plain([program(f"differs-{kind}")])
            self.assertEqual((own.out, own.code), ("wrong 0\n", 0), kind)
            self.refused([program(f"differs-{kind}")], f"victim-differs-{kind}-gcc calls GOMP_", reason)

    def test_missing_names(self) -> None:
        for kind, name in LACKS.items():
            self.refused([program(f"differs-{kind}")], f"victim-differs-{kind}-gcc needs ", name, "which it lacks")
        fake = str(openmp.FOLDER / "libfake_openmp.so")
        self.refused([program("widths"), "slots"], "needs GOMP_", " more, which it lacks", runtime=fake)

    def test_a_library_of_the_program(self) -> None:
        self.refused([program("linked-differs")], "victim-differs-unsigned-gcc.so calls GOMP_loop_ull_")

    def test_a_program_that_only_looks(self) -> None:
        self.refused([str(openmp.FOLDER / "victim-weak")], "only looks whether OpenMP is there")

    def test_functions_of_its_own(self) -> None:
        self.as_plain([program("differs-own")])

    def test_two_of_llvms(self) -> None:
        if "clang" not in openmp.compilers():
            self.skipTest("no clang with its runtime")
        with tempfile.TemporaryDirectory() as folder:
            other = shutil.copy(os.path.realpath(LIBOMP), folder + "/libomq.so")
            content = Path(other).read_bytes().replace(b"libomp.so.5\0", b"libomq.so.5\0")
            Path(other).write_bytes(content)
            self.refused([program("widths", "clang"), "slots"], "has ", "already", runtime=other)
            if LIBOMP == find_libomp():
                self.as_plain([program("widths", "clang"), "slots"])

    def test_pinned_threads(self) -> None:
        command = [program("widths"), "slots"]
        for name, value in (("OMP_PROC_BIND", "true"), ("OMP_PLACES", "cores"), ("GOMP_CPU_AFFINITY", "0-1")):
            self.refused(command, f"{name} is set", settings={name: value})
        self.as_plain(command, {"OMP_PROC_BIND": "false"})

    def test_scripts(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "script"
            script.write_text(f"#!{program('differs-teams')}\n")
            script.chmod(0o755)
            self.refused([str(script)], "calls GOMP_teams_reg")
            script.write_text(f"#!/bin/sh\nexec {program('widths')} slots\n")
            self.as_plain([str(script)], {"OMP_NUM_THREADS": "3"})
            script.write_text(f"exec {program('widths')} slots\n")  # execvp gives it to the shell
            self.assertEqual(swapped([str(script)]), plain([program("widths"), "slots"]))

    def test_no_runtime_at_all(self) -> None:
        for path, reason in (("/nowhere/libomp.so", "there is no such file"), ("/bin/sh", "no shared library"),
                             (__file__, "no shared library"),
                             (library("plugin", "gcc"), "not LLVM's or Intel's")):
            outcome = swapped(["true"], runtime=path)
            self.assertEqual((outcome.code, outcome.out), (2, ""), path)
            self.assertIn(f"--openmp-runtime {path}: ", outcome.err)
            self.assertIn(reason, outcome.err)
            # In the environment it is no mistake of this command line: the program runs.
            start = [CORUN, "run", "--library", str(base.LIBRARY), "--", program("widths"), "slots"]
            outcome = base.run(start, {"CORUN_OPENMP_RUNTIME": path}, preload=False)
            self.assertEqual((outcome.code, outcome.err.count("\n")), (0, 1), outcome.err)
            self.assertIn(reason, outcome.err)


class Preload(Case):
    """Without the command."""

    def run_with(self, preload: str, command: list[str]) -> Outcome:
        return plain(command, {"LD_PRELOAD": preload, "CORUN_OPENMP_RUNTIME": LIBOMP, "OMP_NUM_THREADS": "3"})

    def test_preloaded_by_hand(self) -> None:
        own = plain([program("widths"), "slots"], {"OMP_NUM_THREADS": "3"})
        self.assertEqual(self.run_with(f"{base.LIBRARY}:{LIBOMP}", [program("widths"), "slots"]), own)

    def test_not_preloaded_is_said_once(self) -> None:
        command = ["sh", "-c", f"sh -c '{program('widths')} slots; true'"]
        outcome = self.run_with(str(base.LIBRARY), command)
        self.assertEqual(outcome.err.count("\n"), 1, outcome.err)
        self.assertIn("has no effect: it is not preloaded", outcome.err)

    def test_another_one_before_it(self) -> None:
        libgomp = "libgomp.so.1"
        outcome = self.run_with(f"{base.LIBRARY}:{libgomp}:{LIBOMP}", [program("widths"), "slots"])
        self.assertEqual(outcome.err.count("\n"), 1, outcome.err)
        self.assertRegex(outcome.err, r"has no effect: \S*libgomp\.so\.1 comes before it")

    def test_what_it_does_not_suit_is_said(self) -> None:
        outcome = self.run_with(f"{base.LIBRARY}:{LIBOMP}", [program("differs-teams")])
        self.assertEqual((outcome.out, outcome.err.count("\n")), ("wrong 1\n", 1), outcome.err)
        self.assertIn("the program calls GOMP_teams_reg", outcome.err)

    def test_pinned_threads_are_told_of(self) -> None:
        command = [program("widths"), "slots"]
        settings = {"LD_PRELOAD": f"{base.LIBRARY}:{LIBOMP}", "CORUN_OPENMP_RUNTIME": LIBOMP, "OMP_PROC_BIND": "true"}
        self.assertIn("does not go with OMP_PROC_BIND", plain(command, settings).err)

    def test_other_preloads_stay_in_front(self) -> None:
        tool = str(openmp.FOLDER / "victim-tool.so")
        outcome = swapped([program("widths"), "slots"], {"LD_PRELOAD": tool})
        self.assertEqual((outcome.code, outcome.err), (0, "tool: 50 regions\n"))


GROUPS = {"runs": Runs, "objects": Objects, "refused": Refused, "preload": Preload}


def main() -> None:
    """Runs the groups named, or all."""
    global CORUN, LIBOMP
    groups = sys.argv[4:]
    if groups[:1] == ["--runtime"]:
        LIBOMP, groups = os.path.realpath(groups[1]), groups[2:]
        if not Path(LIBOMP).exists():
            print(f"{LIBOMP} is not there (tools/setup --long installs it)")
            sys.exit(77)
    if len(sys.argv) < 4 or set(groups) - set(GROUPS):
        sys.exit(f"{__doc__}\ngroups: {' '.join(GROUPS)}")
    CORUN = os.path.realpath(sys.argv[1])
    base.LIBRARY, openmp.FOLDER = Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve()
    LIBOMP = LIBOMP or find_libomp()
    for name in [name for name in os.environ if name.split("_")[0] in ("OMP", "GOMP", "KMP")]:
        del os.environ[name]
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(GROUPS[name]) for name in groups or GROUPS)
    sys.exit(not unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful())


if __name__ == "__main__":
    main()
