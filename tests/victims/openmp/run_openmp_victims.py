#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the OpenMP victims plain and under the preload and holds what they do against what is expected.

    run_openmp_victims.py LIBCORUN VICTIM_DIR [GROUP...]

Programs end in -gcc or -clang, libraries in -gcX have another copy of gcc's runtime. Where clang has no runtime its
programs are not there, and their tests are left out.
"""

import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import run_victims as base  # noqa: E402  (beside this folder)
from run_victims import DONE, Outcome, needs_cpus, run  # noqa: E402

FOLDER = Path()
WIDE = {"OMP_NUM_THREADS": "5"}
TWO = {"CORUN_CPUS": "2"}
OFF = [{"CORUN_MODE": "off"}, {"CORUN_OPENMP": "off"}, {"CORUN_HOOKS": "tensorflow"}, {"CORUN_MODE": "observe"}]


def program(name: str, compiler: str = "gcc") -> str:
    return str(FOLDER / f"victim-{name}-{compiler}")


def library(name: str, kind: str) -> str:
    return str(FOLDER / f"victim-{name}-{kind}.so")


def unread(settings: dict[str, str]) -> dict[str, str]:
    """Settings in which runtimes read the number before it is lowered, to be used without the usual preload."""
    preload = f"{library('unread', 'x').replace('-x.so', '.so')}:{base.LIBRARY}"
    return {**settings, "LD_PRELOAD": preload, "VICTIM_NUMBER": settings.get("OMP_NUM_THREADS", "")}


def compilers() -> list[str]:
    return ["gcc"] + ["clang"] * Path(program("widths", "clang")).exists()


class Case(base.Case):
    """Assertions that the groups share."""

    def says(self, command: list[str], out: str, settings: dict[str, str] | None = None, **more) -> Outcome:
        return self.expect(command, out, settings, report=False, **more)

    def widths(self, behaviour: str, out: str, settings: dict[str, str], preload: bool = True) -> None:
        for compiler in compilers():
            command = [program("widths", compiler), behaviour]
            with self.subTest(compiler=compiler, behaviour=behaviour, settings=settings, preload=preload):
                self.says(command, out + DONE, settings, preload=preload)
                if preload and "OMP_NUM_THREADS" in settings:
                    self.says(command, out + DONE, unread(settings), preload=False)

    def like_plain(self, behaviour: str, settings: dict[str, str], under: dict[str, str]) -> None:
        """The same output whether we are there or not."""
        for compiler in compilers():
            with self.subTest(compiler=compiler, behaviour=behaviour, settings=under):
                command = [program("widths", compiler), behaviour]
                plain = run(command, settings, preload=False)
                self.assertEqual(plain.code, 0, plain.out)
                self.says(command, plain.out, {**settings, **under})


class Widths(Case):
    """What the environment or the machine sets is capped, in the answer and in every kind of region alike."""

    KINDS = "told {0}, teams" + " {0}" * 12 + "\n"
    THREADS = ("told {0}, team {0}\nteam {0}, told {0}\n" * 2) + "told {0}, team {0}\n"

    def test_kinds(self) -> None:
        self.widths("kinds", self.KINDS.format(5), WIDE, preload=False)
        self.widths("kinds", self.KINDS.format(1), {"OMP_NUM_THREADS": "5", "CORUN_CPUS": "1"})
        for schedule in ("static", "dynamic,3", "guided"):
            self.widths("kinds", self.KINDS.format(3), {"OMP_NUM_THREADS": "3", "OMP_SCHEDULE": schedule,
                                                        "CORUN_MODE": "observe"})

    @needs_cpus
    def test_capped(self) -> None:
        self.widths("kinds", self.KINDS.format(2), {**WIDE, **TWO})
        self.widths("kinds", self.KINDS.format(2), {**WIDE, **TWO, "OMP_SCHEDULE": "guided,2"})
        self.says([program("widths"), "old"], "told 2, teams 2 2, named 3\n" + DONE, {**WIDE, **TWO})
        self.widths("threads", self.THREADS.format(2), {**WIDE, **TWO})

    def test_the_users_own_number_is_a_ceiling(self) -> None:
        self.widths("kinds", self.KINDS.format(1), {"OMP_NUM_THREADS": "1"})
        self.widths("threads", self.THREADS.format(1), {"OMP_NUM_THREADS": "1"})

    def test_the_machines_number(self) -> None:
        self.widths("kinds", self.KINDS.format(1), {"CORUN_CPUS": "1"})
        self.like_plain("kinds", {}, {})

    def test_not_wanted(self) -> None:
        for settings in OFF:
            for behaviour in ("kinds", "old", "threads", "processors", "fortran"):
                self.like_plain(behaviour, WIDE, settings)

    def test_fortran(self) -> None:
        self.widths("fortran", "told 1, team 1, processors 1\nset 3, told 3, team 3\n", {**WIDE, "CORUN_CPUS": "1"})

    def test_processors(self) -> None:
        self.widths("processors", "processors 1\nset to that: told 1, team 1\n", {**WIDE, "CORUN_CPUS": "1"})
        self.like_plain("processors", WIDE, {})

    @needs_cpus
    def test_pinned_before_it_asks(self) -> None:
        self.says([program("widths"), "pinned"], "told all, team as told\n" + DONE)
        self.like_plain("pinned", {}, {})


class Own(Case):
    """What the program has set or named is not touched, whatever the budget."""

    def test_named(self) -> None:
        self.like_plain("named", {"OMP_NUM_THREADS": "2"}, TWO)
        self.like_plain("own-barrier", {}, {"CORUN_CPUS": "1"})

    def test_set(self) -> None:
        self.like_plain("own", {"OMP_NUM_THREADS": "4"}, {"CORUN_CPUS": "1"})
        self.widths("own-count", "team as set, told as set\n", {"OMP_NUM_THREADS": "4", "CORUN_CPUS": "1"})
        self.widths("own-aside", "set 3 aside, team 3, told 3\n", {**WIDE, "CORUN_CPUS": "1"})

    def test_the_environments_number_set_again(self) -> None:
        one = {**WIDE, "CORUN_CPUS": "1"}
        self.widths("repeats", "told 5, team 5, then 5\n", WIDE, preload=False)
        self.says([program("widths"), "repeats"], "told 1, team 1, then 1\n" + DONE, one)
        self.says([program("widths"), "repeats"], "told 1, team 1, then 5\n" + DONE, unread(one), preload=False)
        # It may be the very number of the command line: nothing is capped.
        self.says([program("widths"), "repeats", "10"], "told 5, team 5, then 5\n" + DONE, one)
        # clang knows that the answer is what was set, and does not ask.
        outcome = run([program("widths", compilers()[-1]), "repeats"], one)
        self.assertRegex(outcome.out, r"^told (\d), team \1, then \1\n")
        for compiler in compilers():
            self.says([program("widths", compiler), "repeats-and-cuts"], "set 1, blocks left out 0, told 1\n" + DONE, one)
            cuts = [program("widths", compiler), "repeats-and-cuts"]
            self.says(cuts, "set 5, blocks left out 0, told 5\n" + DONE, unread(one), preload=False)
        for compiler in compilers():
            self.says([program("widths", compiler), "asks-and-repeats"], "a team as told\n" + DONE, one)
        # Nobody else has said 5.
        self.widths("repeats", "told 5, team 5, then 5\n", {"CORUN_CPUS": "1"})

    def test_inner_regions_of_a_list(self) -> None:
        settings = {"OMP_NUM_THREADS": "2,3", "OMP_MAX_ACTIVE_LEVELS": "2"}
        self.like_plain("nested", settings, TWO)
        self.like_plain("nested", settings, {})

    @needs_cpus
    def test_inner_regions_are_asked_about_inside(self) -> None:
        settings = {"OMP_NUM_THREADS": f"5,{base.CPUS}", "OMP_MAX_ACTIVE_LEVELS": "2", "CORUN_CPUS": "1"}
        line = "inside told {0} {0} {0}, teams {0} {0} {0}; outside told 1, team 1\n"
        self.widths("nested", line.format(base.CPUS), settings)

    def test_inner_regions(self) -> None:
        settings = {"OMP_NUM_THREADS": "5", "OMP_MAX_ACTIVE_LEVELS": "2", "CORUN_CPUS": "1"}
        self.widths("nested", "inside told 1 1 1, teams 1 1 1; outside told 1, team 1\n", settings)


class Constant(Case):
    """Nothing is resized once it was told."""

    def test_sizes_answers_and_threads(self) -> None:
        line = "told {}; other teams 0, other answers 0, state lost 0, threads constant\n"
        self.widths("constant", line.format(3), {"OMP_NUM_THREADS": "3"}, preload=False)
        self.widths("constant", line.format(1), {"OMP_NUM_THREADS": "3", "CORUN_CPUS": "1"})
        self.widths("constant", line.format(3), {"OMP_NUM_THREADS": "3", "CORUN_MODE": "observe"})

    @needs_cpus
    def test_sizes_answers_and_threads_on_two(self) -> None:
        line = "told 2; other teams 0, other answers 0, state lost 0, threads constant\n"
        self.widths("constant", line, {**WIDE, **TWO})

    def test_programs_that_rely_on_it(self) -> None:
        for settings in ({**WIDE, **TWO}, {**WIDE, "CORUN_CPUS": "1"}, WIDE, {"CORUN_POLICY": "random", **WIDE}):
            self.widths("counting-sort", "out of order 0\n", settings)
            self.widths("slots", "overrun 0, unset 0\n", settings)

    def test_bits(self) -> None:
        for compiler in compilers():
            command = [program("widths", compiler), "bits"]
            plain = run(command, {"OMP_NUM_THREADS": "2"}, preload=False)
            self.assertTrue(plain.out.startswith("1 kind"), plain.out)
            self.says(command, plain.out, {"OMP_NUM_THREADS": "2"})


class Fork(Case):
    """A child does not wait for its parent's threads where the user has it followed; else it is left as it is."""

    FOLLOW = {"CORUN_FOLLOW": "fork", "OMP_NUM_THREADS": "2"}
    CURED = "parent: team 2\nchild: told 1, team 1\nparent: team 2\n"

    @needs_cpus
    def test_followed(self) -> None:
        self.says([program("forks")], self.CURED, self.FOLLOW)
        self.says([program("forks"), "4"], self.CURED, self.FOLLOW)

    @needs_cpus
    def test_a_thread_of_the_child_is_free(self) -> None:
        out = "parent: team 2\nchild: told {}, team {}\nparent: team 2\n"
        self.says([program("forks"), "thread"], out.format(2, 2), self.FOLLOW)
        self.says([program("forks"), "thread", "4"], out.format(4, 4), self.FOLLOW)

    def test_no_threads_to_wait_for(self) -> None:
        out = "parent: team 1\nchild: told 3, team 3\nparent: team 1\n"
        for settings in (self.FOLLOW, {}, {"CORUN_MODE": "off"}):
            self.says([program("forks"), "narrow", "3"], out, settings)

    @needs_cpus
    def test_not_followed(self) -> None:
        out = "parent: team 2\nchild: told 2\nchild: waits for ever\nparent: team 2\n"
        self.says([program("forks")], out, {"OMP_NUM_THREADS": "2"}, preload=False)
        self.says([program("forks")], out, {"OMP_NUM_THREADS": "2"})

    @needs_cpus
    def test_libomp_needs_no_cure(self) -> None:
        if "clang" not in compilers():
            self.skipTest("no clang with its runtime")
        out = "parent: team 2\nchild: told 2, team 2\nparent: team 2\n"
        for settings in (self.FOLLOW, {"OMP_NUM_THREADS": "2"}):
            self.says([program("forks", "clang")], out, settings)


class Early(Case):
    """What is asked before our constructors have run hears what all will hear later."""

    @needs_cpus
    def test_early(self) -> None:
        out = "early: told {0}, team {0}; later: told {0}, team {0}\n"
        self.says([program("early")], out.format(5), WIDE, preload=False)
        self.says([program("early")], out.format(2), {**WIDE, **TWO})
        self.says([program("early")], out.format(2), unread({**WIDE, **TWO}), preload=False)
        self.says([program("early")], out.format(5), {**WIDE, "CORUN_MODE": "off"})


class Resolver(Case):
    """Each caller keeps the runtime that the loader has given it."""

    ENVIRONMENT = {"OMP_NUM_THREADS": "4", "CORUN_MODE": "observe"}

    def loads(self, words: list[str], out: str, loader: str = "victim-loader") -> None:
        command = [str(FOLDER / loader), *words]
        self.says(command, out + DONE, {"OMP_NUM_THREADS": "4"}, preload=False)
        for settings in (self.ENVIRONMENT, {**self.ENVIRONMENT, "CORUN_MODE": "off"}):
            with self.subTest(words=words, settings=settings):
                self.says(command, out + DONE, settings)

    def test_two_copies(self) -> None:
        for one, other in (("gcc", "gcX"), ("gcX", "gcc")):
            for how in ("local", "lazy", "deepbind"):
                self.loads([how, library("plugin", one), "team", "2", how, library("plugin", other), "team", "3",
                            "again", "0", "team", "0", "again", "1", "team", "0", "runtimes"],
                           "told 2 team 2\ntold 3 team 3\ntold 2 team 2\ntold 3 team 3\n2 runtimes\n")

    def test_a_global_one_that_came_later(self) -> None:
        for one, other in (("gcc", "gcX"), ("gcX", "gcc")):
            self.loads(["local", library("plugin", one), "team", "2", "global", library("plugin", other), "team", "3",
                        "again", "0", "team", "0"], "told 2 team 2\ntold 3 team 3\ntold 2 team 2\n")

    def test_a_global_one_that_came_first(self) -> None:
        # The loader gives the second library the first one's runtime, although it has brought its own.
        for how in ("local", "lazy"):
            self.loads(["global", library("plugin", "gcX"), "team", "3", how, library("plugin", "gcc"), "team", "0",
                        "team", "2", "again", "0", "team", "0"],
                       "told 3 team 3\ntold 3 team 3\ntold 2 team 2\ntold 2 team 2\n")

    def test_deepbind_prefers_its_own(self) -> None:
        self.loads(["global", library("plugin", "gcX"), "team", "3", "deepbind", library("plugin", "gcc"), "team", "0",
                    "team", "2", "again", "0", "team", "0"],
                   "told 3 team 3\ntold 4 team 4\ntold 2 team 2\ntold 3 team 3\n")

    def test_that_of_the_library_above(self) -> None:
        # It needs libgomX and is given libgomp, as the library that was opened needs that.
        self.loads(["local", library("root", "gcX"), "team", "3", "local", library("plugin", "gcX"), "team", "0",
                    "again", "0", "team", "0", "local", library("plugin", "gcc"), "team", "0"],
                   "told 3 team 3\ntold 4 team 4\ntold 3 team 3\ntold 3 team 3\n")

    def test_hooked_names_only(self) -> None:
        for one, other in (("gcc", "gcX"), ("gcX", "gcc")):
            for how in ("local", "lazy"):
                self.loads([how, library("plugin_bare", one), "bare", how, library("plugin_bare", other), "set", "3", "bare",
                            "again", "0", "bare", "set", "2", "bare", "again", "1", "bare", "runtimes"],
                           "team 4\nteam 3\nteam 4\nteam 2\nteam 3\n2 runtimes\n")

    def test_a_global_one_that_came_before_the_first_call(self) -> None:
        # Bound when it is called, to what there is by then; or when it was loaded, to its own.
        for how, team in (("lazy", 3), ("local", 4)):
            self.loads([how, library("plugin", "gcc"), "global", library("plugin", "gcX"), "team", "3", "again", "0",
                        "team", "0"], f"told 3 team 3\ntold {team} team {team}\n")

    def test_hooked_names_only_before_a_global_one_came(self) -> None:
        # It was bound when it was loaded, to what it had then.
        for one, other in (("gcc", "gcX"), ("gcX", "gcc")):
            self.loads(["local", library("plugin_bare", one), "global", library("plugin", other), "team", "3",
                        "again", "0", "bare"], "told 3 team 3\nteam 4\n")
            self.loads(["global", library("plugin", other), "team", "3", "local", library("plugin_bare", one), "bare"],
                       "told 3 team 3\nteam 3\n")

    def test_code_that_no_object_holds(self) -> None:
        if Path(program("generated")).exists():
            for settings in ({}, self.ENVIRONMENT, {"CORUN_MODE": "off"}):
                self.says([program("generated")], "team 3\n", settings)

    def test_libomp_beside_libgomp(self) -> None:
        if "clang" not in compilers():
            self.skipTest("no clang with its runtime")
        for one, other in (("clang", "gcc"), ("gcX", "clang")):
            self.loads(["local", library("plugin", one), "team", "2", "local", library("plugin", other), "team", "3",
                        "again", "0", "team", "0", "again", "1", "team", "0", "runtimes"],
                       "told 2 team 2\ntold 3 team 3\ntold 2 team 2\ntold 3 team 3\n2 runtimes\n")
            self.loads(["local", library("plugin_bare", one), "bare", "local", library("plugin_bare", other), "set", "3",
                        "bare", "again", "0", "bare"], "team 4\nteam 3\nteam 4\n")

    def test_a_program_of_clangs_with_a_library_of_gccs(self) -> None:
        if "clang" not in compilers():
            self.skipTest("no clang with its runtime")
        # The program's own runtime serves them all, by the names that are gcc's; only deepbind has another.
        for how, shared in (("local", 3), ("lazy", 3), ("deepbind", 4)):
            self.loads(["local", library("plugin", "clang"), "team", "3", how, library("plugin", "gcc"), "team", "0"],
                       f"told 3 team 3\ntold {shared} team {shared}\n", "victim-loader-clang")
        self.loads(["local", library("plugin_bare", "gcc"), "bare", "local", library("plugin", "clang"), "team", "2",
                    "again", "0", "bare"], "team 4\ntold 2 team 2\nteam 2\n", "victim-loader-clang")


class Unloaded(Case):
    """What was found for a library is not believed of another one that lies in its place."""

    def reloads(self, words: list[str], out: str) -> None:
        command = [str(FOLDER / "victim-loader"), *words]
        plain = run(command, {"OMP_NUM_THREADS": "4"}, preload=False)
        self.assertEqual(plain.out.replace("another place", "same place"), out + DONE)
        if "another place" in plain.out:
            self.skipTest("the loader puts it elsewhere")
        for mode in ("observe", "off"):
            self.says(command, out + DONE, {"OMP_NUM_THREADS": "4", "CORUN_MODE": mode})

    def test_another_runtime(self) -> None:
        for how in ("local", "lazy"):
            # A library that stays keeps each runtime loaded and gives it its number.
            self.reloads(["local", library("plugin_bare", "gcc"), "set", "2", "local", library("plugin_bare", "gcX"), "set", "3",
                          how, library("plugin", "gcc"), "team", "0", "close", how, library("plugin", "gcX"), "place",
                          "team", "0", "close", how, library("plugin", "gcc"), "place", "team", "0"],
                         "told 2 team 2\nsame place\ntold 3 team 3\nsame place\ntold 2 team 2\n")

    def test_another_runtime_of_hooked_names(self) -> None:
        for how in ("local", "lazy"):
            self.reloads(["local", library("plugin", "gcc"), "team", "2", "local", library("plugin", "gcX"), "team", "3",
                          how, library("plugin_bare", "gcc"), *["bare"] * 7, "close",
                          how, library("plugin_bare", "gcX"), "place", *["bare"] * 7, "close",
                          how, library("plugin_bare", "gcc"), "place", "bare"],
                         "told 2 team 2\ntold 3 team 3\n" + "team 2\n" * 7 + "same place\n" + "team 3\n" * 7 +
                         "same place\nteam 2\n")

    def test_its_runtime_too(self) -> None:
        # A runtime that came back would have its own number again, and be taken for the one that was capped.
        words = ["local", library("plugin", "gcc"), "team", "0", "close"] * 3
        self.says([str(FOLDER / "victim-loader"), *words], "told 1 team 1\n" * 3 + DONE, {**WIDE, "CORUN_CPUS": "1"})

    def test_the_same_again(self) -> None:
        words = ["local", library("plugin_bare", "gcc"), "set", "2"]
        for _ in range(5):
            words += ["local", library("plugin", "gcc"), "team", "0", "close"]
        self.reloads(words, "told 2 team 2\n" * 5)


class Arguments(Case):
    """Every function hands on what it is given."""

    def test_arguments(self) -> None:
        command = [str(FOLDER / "victim-arguments")]
        plain = run(command, preload=False)
        self.assertEqual(plain.code, 0)
        self.assertIn("__kmpc_fork_call 15: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 1.25\n", plain.out)
        for settings in ({}, *OFF, {"CORUN_CPUS": "1"}):
            self.assertEqual(run(command, settings).out, plain.out)


class Jumps(Case):
    """Exceptions, longjmp and pthread_exit through the hooks of regions."""

    def test_jumps(self) -> None:
        for way, destroyed in (("exception", 60000), ("jump", 0), ("exit", 60000)):
            out = f"entered 60000, caught 60000, destroyed {destroyed}, told 4\n"
            for settings, preload in (({}, False), ({}, True), ({"CORUN_MODE": "off"}, True)):
                with self.subTest(way=way, settings=settings, preload=preload):
                    self.says([str(FOLDER / "victim-jumps"), way], out, settings, preload=preload)


class Weak(Case):
    """A program that would use OpenMP has none."""

    def test_weak(self) -> None:
        for name in ("victim-weak", "victim-weak-now"):
            for settings, preload in (({}, False), ({}, True), ({"CORUN_MODE": "off"}, True), (OFF[1], True)):
                self.says([str(FOLDER / name)], "threads 0, processors 0\n", settings, preload=preload)


class Quiet(Case):
    """Nothing else of the program changes."""

    def test_errors_of_the_loader_and_errno(self) -> None:
        for name in ("plugin", "plugin_bare"):
            words = ["local", library(name, "gcc"), *(["team", "2"] if name == "plugin" else ["bare"]), "error", "errno"]
            outcome = run([str(FOLDER / "victim-loader"), *words], {"OMP_NUM_THREADS": "2"}, preload=False)
            self.says([str(FOLDER / "victim-loader"), *words], outcome.out, {"OMP_NUM_THREADS": "2"})
            self.assertIn("no error\n", outcome.out)

    def test_another_tool_stays_in_between(self) -> None:
        tool = str(FOLDER / "victim-tool.so")
        command = [program("widths"), "slots"]
        plain = run(command, {"LD_PRELOAD": tool}, preload=False)
        self.assertEqual(plain.err, "tool: 50 regions\n")
        for order in (f"{base.LIBRARY}:{tool}", f"{tool}:{base.LIBRARY}"):
            for more in ({}, {"CORUN_MODE": "off"}):
                outcome = run(command, {"LD_PRELOAD": order, **more}, preload=False)
                self.assertEqual(outcome, plain, order)


class Report(Case):
    """What the report tells of regions."""

    def region(self, report: dict, name: str) -> dict:
        found = [region for region in report["regions"] if name in region["name"]]
        self.assertEqual(len(found), 1, report["regions"])
        return found[0]

    @needs_cpus
    def test_counted_and_named(self) -> None:
        for compiler in compilers():
            with self.subTest(compiler=compiler):
                report = run([program("widths", compiler), "slots"], {**WIDE, **TWO}, report=True).report
                region = self.region(report, "slots")
                self.assertEqual((region["calls"], region["class"], region["narrowest"], region["widest"]),
                                 (50, ["raw"], 2, 2))
                self.assertTrue(region["object"].startswith("the program+0x"), region)
                runtimes = {runtime["kind"]: runtime["state"] for runtime in report["runtimes"]}
                self.assertEqual(runtimes, {"libgomp" if compiler == "gcc" else "libomp": "reached"})
                # How threads wait depends on what else the machine does.
                levers = [lever for lever in report["irreversible"] if lever["lever"] != "OpenMP wait policy"]
                self.assertEqual(levers, [{"lever": "OpenMP environment", "option": "CORUN_OPENMP",
                                           "effect": "OMP_NUM_THREADS 5 -> 2, for those who read it"}])
                if compiler == "gcc":
                    self.assertGreater(region["seconds"], 0)

    def test_capped_by_a_call(self) -> None:
        # Of a runtime that came later: the environment was left alone.
        words = ["local", library("plugin", "gcc"), "team", "0"]
        report = run([str(FOLDER / "victim-loader"), *words], {**WIDE, "CORUN_CPUS": "1", "CORUN_CPU_VIEW": "no"},
                     report=True).report
        self.assertEqual(report["irreversible"], [{"lever": "OpenMP cap", "option": "CORUN_OPENMP",
                                                   "effect": "libgomp.so.1 5 -> 1 threads (OMP_NUM_THREADS)"}])

    def test_classes(self) -> None:
        for compiler in compilers():
            report = run([program("widths", compiler), "own-barrier"], report=True).report
            region = self.region(report, "own_barrier")
            self.assertEqual((region["calls"], region["class"], region["widest"]), (50, ["named size"], 3))
            report = run([program("widths", compiler), "serialized"], report=True).report
            self.assertEqual(self.region(report, "plain_team" if compiler == "gcc" else "serialized")["class"], ["raw"])
            settings = {"OMP_NUM_THREADS": "2", "OMP_MAX_ACTIVE_LEVELS": "2"}
            report = run([program("widths", compiler), "nested"], settings, report=True).report
            classes = sorted(region["class"] for region in report["regions"])
            self.assertEqual(classes, [["named size"], ["raw"], ["raw", "nested"]])

    def test_out_of_reach(self) -> None:
        words = ["local", library("plugin", "gcc"), "team", "2", "deepbind", library("plugin", "gcX"), "team", "2"]
        report = run([str(FOLDER / "victim-loader"), *words], {}, report=True).report
        states = {runtime["name"]: runtime["state"].split(",")[0] for runtime in report["runtimes"]}
        self.assertEqual(states, {"libgomp.so.1": "reached", "libgomX.so.1": "loaded"})

    def test_nothing_to_tell(self) -> None:
        for settings in OFF[:3]:
            self.assertIsNone(run([program("widths"), "slots"], settings, report=True).report)
        self.assertIsNone(run([str(FOLDER / "victim-weak")], report=True).report)

    def test_text(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.txt"
            run([program("widths"), "slots"], {**WIDE, "CORUN_CPUS": "1", "CORUN_REPORT": str(path)})
            text = path.read_text()
        self.assertTrue(re.search(r"Runtime +libgomp\.so\.1: libgomp, reached", text), text)
        self.assertTrue(re.search(r"slots\._omp_fn\.0 .* 50 .*raw", text), text)


GROUPS = {
    "widths": Widths, "own": Own, "constant": Constant, "fork": Fork, "early": Early, "resolver": Resolver,
    "unloaded": Unloaded, "arguments": Arguments, "jumps": Jumps, "weak": Weak, "quiet": Quiet, "report": Report,
}


def main() -> None:
    """Runs the groups named, or all."""
    global FOLDER
    if len(sys.argv) < 3 or set(sys.argv[3:]) - set(GROUPS):
        sys.exit(f"{__doc__}\ngroups: {' '.join(GROUPS)}")
    base.LIBRARY, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    for name in [name for name in os.environ if name.split("_")[0] in ("OMP", "GOMP", "KMP")]:
        del os.environ[name]
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(GROUPS[name]) for name in sys.argv[3:] or GROUPS)
    sys.exit(not unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful())


if __name__ == "__main__":
    main()
