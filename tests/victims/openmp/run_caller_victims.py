#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Victims of the way a caller's runtime is found: who calls, when, and what there is to be found.

    run_caller_victims.py LIBCORUN VICTIM_DIR [GROUP...]
"""

import sys
import unittest
from pathlib import Path

import run_openmp_victims as openmp
from run_openmp_victims import library
from run_victims import DONE, needs_cpus, run

FOUR = {"OMP_NUM_THREADS": "4"}
MODES = [{"CORUN_MODE": "observe"}, {"CORUN_MODE": "off"}]


def victim(name: str) -> str:
    return str(openmp.FOLDER / f"victim-{name}")


class Case(openmp.Case):
    """Plain and in each mode the same."""

    def same(self, command: list[str], out: str, settings: dict[str, str] | None = None, **more) -> None:
        settings = FOUR if settings is None else settings
        self.says(command, out, settings, preload=False, **more)
        for mode in MODES:
            with self.subTest(command=command, mode=mode):
                self.says(command, out, {**settings, **mode}, timeout=60, **more)


class Tail(Case):
    """Behind a tail call the return address is that of another object."""

    def test_each_library_keeps_its_runtime(self) -> None:
        out = "team 2, told 2; team 3, told 3\n" * 3 + "teams 4 5\n" + DONE
        kinds = ["gcc", "gcX"] + ["clang"] * Path(library("tail", "clang")).exists()
        for one, other in ((one, other) for one in kinds for other in kinds if one != other):
            self.same([victim("callers"), "tails", library("tail", one), library("tail", other)], out)

    def test_whoever_calls_has_one_too(self) -> None:
        # The return address leads there.
        for one, other in (("gcc", "gcX"), ("gcX", "gcc")):
            self.same([victim("callers"), "outer", library("outer", one), library("tail", other)],
                      "between 4, library 2\n" * 3 + DONE)

    def test_bound_when_it_is_used(self) -> None:
        for one, other in (("gcc", "gcX"), ("gcX", "gcc")):
            self.same([victim("callers"), "late", library("tail", one), library("plugin", other)],
                      "told 2, team 3\n" + DONE)

    def test_python_asks(self) -> None:
        code = ("import ctypes; ctypes.CDLL({0!r}, ctypes.RTLD_GLOBAL); every = ctypes.CDLL(None)\n"
                "every.omp_set_num_threads(3); every.tail_region()\n"
                "print(every.omp_get_max_threads(), every.tail_max(), every.tail_entered())\n")
        for kind in ("gcc", "gcX"):
            self.same([sys.executable, "-c", code.format(library("tail", kind))], "3 3 3\n")


class Starter(Case):
    """A first call while another thread holds the loader's lock and waits for it."""

    def test_one_runtime(self) -> None:
        self.same([victim("callers"), "open", library("starter", "gcc")], "told 4 team 2\nopened\n" + DONE)

    def test_two_runtimes(self) -> None:
        line = "told 4 team 2\nopened\n"
        self.same([victim("callers"), "open", library("starter", "gcX"), library("starter", "gcc")], 2 * line + DONE)


class StandIn(Case):
    """A library that has some functions of OpenMP, and is no runtime."""

    OUT = "told 7, then 30, entered {}\n"

    def test_alone(self) -> None:
        self.same([victim("stood-for")], self.OUT.format(0))
        self.same([victim("stood-open"), library("stood-for", "alone")], self.OUT.format(0))

    def test_before_a_runtime(self) -> None:
        # Questions go to it, regions to the runtime.
        self.same([victim("stood-first-gcc")], self.OUT.format(2))
        self.same([victim("stood-open"), library("stood-first", "gcc")], self.OUT.format(2))

    def test_behind_a_runtime(self) -> None:
        self.same([victim("stood-last-gcc")], "told 4, then 3, entered 2\n")

    def test_beside_a_runtime(self) -> None:
        self.same([victim("stood-open"), library("stood-for", "alone"), library("stood-first", "gcc")],
                  self.OUT.format(0) + "told 30, then 30, entered 2\n")


class Without(Case):
    """A program that looks whether there is a runtime, and there is none."""

    def test_regions(self) -> None:
        for how in ("weak", "loader"):
            self.same([victim("without"), how], "sum 303, threads 1\n", {})
        # There is one, but not for the program.
        self.same([victim("without"), "weak", library("plugin", "gcc")], "sum 303, threads 1\n")

    def test_work_that_nobody_hands_out(self) -> None:
        self.same([victim("without"), "weak", "loop"], "sum 303, threads 1\nloop 10\n", {})
        # Plain the program does it by itself. It cannot be done right, so nothing is done.
        command = [victim("without"), "loader", "loop"]
        self.assertEqual(run(command, preload=False).out, "sum 303, threads 1\nloop 10\n")
        outcome = run(command)
        self.assertEqual((outcome.code, outcome.out), (127, "sum 303, threads 1\n"))
        self.assertIn("OpenMP function that its runtime does not have", outcome.err)


class Disturbed(Case):
    """Jumps, cancellations, errors of the loader that are pending."""

    def test_jumps_out_of_questions(self) -> None:
        for kind in ("gcc", "gcX"):
            self.same([victim("callers"), "jumps", library("tail", kind)],
                      "jumped, other answers 0, the loader works\n" + DONE)

    def test_cancelled_at_any_moment(self) -> None:
        command = [victim("cancelled")]
        out = "cancelled\n" * 2
        self.says(command, out, preload=False, err="0\n")
        self.says(command, out, {"CORUN_CPUS": "2"}, err="1\n")
        self.says(command, out, {"CORUN_MODE": "off"}, err="0\n")

    def test_pending_error(self) -> None:
        for kind in ("gcc", "gcX"):
            self.same([victim("callers"), "missing", library("tail", kind)], "told 4 team 4 error kept\n" + DONE)

    def test_first_questions_at_once(self) -> None:
        self.same([victim("callers"), "threads", library("tail", "gcc")], "wrong 0\n" + DONE, {"OMP_NUM_THREADS": "2"})


class Reloaded(Case):
    """What was found holds for one loading of a library only."""

    def test_bound_anew(self) -> None:
        # The same file at the same place, but a global runtime has come meanwhile.
        words = ["local", library("plugin", "gcc"), "team", "2", "local", library("plugin", "gcX"), "team", "3",
                 "local", library("plugin_bare", "gcc"), "bare", "bare", "close", "global", library("plugin", "gcX"),
                 "local", library("plugin_bare", "gcc"), "place", "bare", "bare"]
        out = "told 2 team 2\ntold 3 team 3\nteam 2\nteam 2\n{}\nteam 3\nteam 3\n" + DONE
        command = [victim("loader"), *words]
        if run(command, FOUR, preload=False).out != out.format("same place"):
            self.skipTest("the loader puts it elsewhere")
        self.same(command, out.format("same place"))

    def test_another_runtime_where_no_mark_fits(self) -> None:
        words = ["local", library("plugin", "gcc"), "team", "2", "local", library("plugin", "gcX"), "team", "3"]
        out = "told 2 team 2\ntold 3 team 3\n"
        for kind, team in (("gcc", 2), ("gcX", 3), ("gcc", 2)):
            words += ["local", library("plugin_full", kind), "bare", "bare", "bare", "close"]
            out += f"team {team}\n" * 3
        self.same([victim("loader"), *words], out + DONE)

    def test_that_of_the_library_above(self) -> None:
        # It needs libgomX and is given libgomp, as the library that was opened needs that.
        words = ["local", library("root_bare", "gcX"), "set", "3", "bare", "bare"]
        self.same([victim("loader"), *words], "team 3\nteam 3\n" + DONE)

    def test_made_global_after_a_library_was_bound(self) -> None:
        # The order in which the loader looks is another one now. What it has bound tells the truth.
        for one, other in (("gcc", "gcX"), ("gcX", "gcc")):
            words = ["local", library("plugin", one), "team", "3", "local", library("plugin_named", other),
                     "global", library("plugin", one), "again", "1", "team", "0", "again", "0", "team", "0"]
            self.same([victim("loader"), *words], "told 3 team 3\ntold 4 team 4\ntold 3 team 3\n" + DONE)

    def test_runtime_that_is_closed_before_its_caller(self) -> None:
        # The library without a name that is not hooked was bound to the global runtime, and keeps it.
        words = ["local", library("plugin", "gcc"), "team", "2", "global", library("plugin", "gcX"), "team", "3",
                 "local", library("plugin_bare", "gcc"), "bare", "again", "1", "close", "again", "2", "bare", "bare",
                 "runtimes"]
        for _ in range(5):
            self.same([victim("loader"), *words], "told 2 team 2\ntold 3 team 3\n" + "team 3\n" * 3 + "2 runtimes\n" + DONE)

    def test_often(self) -> None:
        for kind in ("gcc", "gcX"):
            self.same([victim("callers"), "often", library("tail", kind)], "wrong 0\n" + DONE)


class Surroundings(Case):
    """What a program may have done to itself before it asks."""

    def test_forked_while_the_loaders_list_is_held(self) -> None:
        for kind in ("gcc", "gcX"):
            self.same([victim("held-list"), library("tail", kind)], "child: told 4\n" + DONE)

    def test_may_only_write(self) -> None:
        off = {**FOUR, "CORUN_MODE": "off"}
        self.says([victim("strict-gcc")], "told 3\n" + DONE, FOUR, preload=False)
        self.says([victim("strict-gcc")], "told 3\n" + DONE, off)

    @needs_cpus
    def test_allowed_more_cpus_than_at_start(self) -> None:
        for kind in ("gcc", "gcX"):
            self.says([victim("widens"), library("tail", kind)], "told all, team as told\n" + DONE)
            self.same([victim("widens"), library("tail", kind)], "told all, team as told\n" + DONE, {})
        self.says([victim("widens"), library("tail", "gcc")], "told less, team as told\n" + DONE,
                  {"CORUN_CPUS": "1", "CORUN_CPU_VIEW": "no"})

    def test_cancelled_at_any_moment(self) -> None:
        self.same([victim("any-call-gcc")], "cancelled 500 500\n" + DONE)
        self.same([victim("any-moment"), library("tail", "gcc")], "cancelled 400\n" + DONE)

    def test_names_of_old(self) -> None:
        self.same([victim("old-names")], "0 0 0, same 1 1\nclosed 0\n" + DONE)


GROUPS = {"tail": Tail, "starter": Starter, "stand-in": StandIn, "without": Without, "disturbed": Disturbed,
          "reloaded": Reloaded, "surroundings": Surroundings}


if __name__ == "__main__":
    openmp.GROUPS = GROUPS
    openmp.main()
