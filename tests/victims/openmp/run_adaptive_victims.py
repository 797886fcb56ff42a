#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The OpenMP victims of CORUN_OPENMP=adaptive: what must not be resized is not, and what is comes out right.

    run_adaptive_victims.py LIBCORUN VICTIM_DIR [GROUP...]

With CORUN_POLICY=random each call of a region that may be resized runs at another width, so that nothing depends on
what is fast on the machine.
"""

import ctypes.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import run_openmp_victims as openmp
from run_openmp_victims import Case, base, compilers, library, program
from run_victims import DONE, needs_cpus, run

ADAPTIVE = {"CORUN_OPENMP": "adaptive", "CORUN_POLICY": "random", "OMP_NUM_THREADS": "2", "OMP_CANCELLATION": "true"}
LINE = "other teams {}, wrong 0\n"
CALLS = 600


class AdaptiveCase(Case):
    """Runs a behaviour by both compilers and looks at what it says and at what the report says of its regions."""

    def regions(self, behaviour: str, teams: str = "none", name: str = "adaptive", **more: str) -> dict[str, list[dict]]:
        found = {}
        for compiler in compilers():
            command = [program(name, compiler), behaviour]
            with self.subTest(compiler=compiler, behaviour=behaviour, settings=more):
                plain = run(command, {**ADAPTIVE, **more}, preload=False)
                self.assertEqual((plain.out, plain.code), (LINE.format("none"), 0))
                outcome = run(command, {**ADAPTIVE, **more}, report=True)
                self.assertEqual((outcome.out, outcome.err, outcome.code), (LINE.format(teams), "", 0))
                found[compiler] = outcome.report["regions"]
        return found

    def kinds(self, behaviour: str, *kinds: str, **more) -> None:
        for compiler, regions in self.regions(behaviour, **more).items():
            with self.subTest(compiler=compiler, behaviour=behaviour):
                self.assertEqual(sorted(region.get("kind", "-") for region in regions), sorted(kinds), regions)
                for region in regions:
                    if region.get("kind") not in ("resizable", "listed"):
                        self.assertIn(region.get("width", 2), (2,), region)

    def never(self, behaviour: str, *kinds: str, **more) -> None:
        """No call of it ran at another width."""
        for compiler, regions in self.regions(behaviour, **more).items():
            with self.subTest(compiler=compiler, behaviour=behaviour):
                self.assertEqual(sorted(region.get("kind", "-") for region in regions), sorted(kinds), regions)
                self.assertEqual([region.get("resized", 0) for region in regions], [0] * len(regions), regions)


class Resized(AdaptiveCase):
    """Regions of which nothing speaks against it run at other widths, and their results are the same."""

    @needs_cpus
    def test_other_teams_and_exact_results(self) -> None:
        for behaviour, teams in (("resizable", "some"), ("combined", "none"), ("captures", "none"), ("constructs", "none")):
            for compiler, regions in self.regions(behaviour, teams, OMP_SCHEDULE="dynamic").items():
                with self.subTest(compiler=compiler, behaviour=behaviour):
                    resized = [region for region in regions if region["kind"] == "resizable"]
                    self.assertTrue(resized, regions)
                    for region in resized:
                        self.assertGreater(region["resized"], CALLS / 4, region)

    @needs_cpus
    def test_cancelled(self) -> None:
        command = [program("adaptive"), "cancelled"]
        outcome = run(command, ADAPTIVE, report=True)
        self.assertEqual(outcome.out, LINE.format("none"))
        self.assertGreater(outcome.report["regions"][0]["resized"], CALLS / 4)


class Asks(AdaptiveCase):
    """Whoever asks for what depends on the team may keep data by it."""

    @needs_cpus
    def test_asks(self) -> None:
        for behaviour in ("asks-number", "asks-ancestor", "asks-size", "asks-maximum", "asks-parallel"):
            self.never(behaviour, "asks-its-team")
        self.never("counting-sort", "asks-its-team", "asks-its-team")

    @needs_cpus
    def test_asks_late(self) -> None:
        for regions in self.regions("asks-late").values():
            self.assertEqual(regions[0]["kind"], "asks-its-team", regions)
            self.assertGreater(regions[0]["resized"], 10)
            self.assertLess(regions[0]["resized"], 102)
        # The next call is not looked at closely in most runs, and has its whole team all the same.
        for compiler in compilers():
            for _ in range(4):
                self.says([program("adaptive", compiler), "asks-late"], LINE.format("none"), ADAPTIVE)


class Threadprivate(AdaptiveCase):
    """Data by thread that compilers reach without asking."""

    @needs_cpus
    def test_threadprivate(self) -> None:
        self.never("threadprivate", "per-thread-data", name="keeps")


class Named(AdaptiveCase):
    """A clause is the program's own word."""

    @needs_cpus
    def test_named(self) -> None:
        self.never("named", "-")


class Nested(AdaptiveCase):
    """Of two nested regions neither is resized."""

    @needs_cpus
    def test_nested(self) -> None:
        self.never("nested", "nested", "-")

    @needs_cpus
    def test_nested_late(self) -> None:
        for regions in self.regions("nested-late").values():
            outer = [region for region in regions if region["calls"] == CALLS]
            self.assertEqual(outer[0]["kind"], "nested", regions)
            self.assertGreater(outer[0]["resized"], 10)
            self.assertLess(outer[0]["resized"], 120)


class Planned(AdaptiveCase):
    """Once the number was asked for or set outside, all regions have it."""

    @needs_cpus
    def test_planned(self) -> None:
        for behaviour in ("planned", "planned-fortran", "planned-processors", "set"):
            for regions in self.regions(behaviour).values():
                self.assertEqual(regions[0]["kind"], "planned-outside", regions)
                self.assertGreater(regions[0]["resized"], 50)
                self.assertLess(regions[0]["resized"], 300)

    @needs_cpus
    def test_planned_before_all_else(self) -> None:
        self.never("set-first", "planned-outside")
        self.never("processors-first", "planned-outside")

    @needs_cpus
    def test_past_the_hooks(self) -> None:
        ffi = ctypes.util.find_library("ffi")
        if ffi is None:
            self.skipTest("no libffi")
        command = [program("adaptive"), "resizable"]
        outcome = run(command, {**ADAPTIVE, "LD_PRELOAD": f"{base.LIBRARY}:{ffi}"}, preload=False, report=True)
        self.assertEqual(outcome.out, LINE.format("none"))
        self.assertEqual(outcome.report["regions"][0]["kind"], "planned-outside")


class Loopless(AdaptiveCase):
    """Where the runtime hands out nothing, who does what is the program's business."""

    @needs_cpus
    def test_no_loop(self) -> None:
        self.never("no-loop", "no-shared-loop")
        self.never("tasks", "no-shared-loop")


class Settings(AdaptiveCase):
    """What the user says."""

    @needs_cpus
    def test_nothing_is_resized(self) -> None:
        for more in ({"CORUN_OPENMP": "safe"}, {"CORUN_REPRODUCIBLE": "1"}, {"CORUN_MODE": "observe"}):
            for regions in self.regions("resizable", **more).values():
                self.assertNotIn("resized", regions[0])

    @needs_cpus
    def test_listed(self) -> None:
        for listed in ("asks_number", "victim-a*:asks_number", "victim-adaptive-*:*", "other,asks_number"):
            for compiler, regions in self.regions("asks-number", "some", CORUN_REGIONS=listed).items():
                self.assertEqual(regions[0]["kind"], "listed", (compiler, listed, regions))
        self.never("asks-number", "asks-its-team", CORUN_REGIONS="asks_size,other:*")
        self.never("named", "-", CORUN_REGIONS="*")
        self.never("nested", "nested", "-", CORUN_REGIONS="*")

    def test_one_thread_is_one_thread(self) -> None:
        for compiler in compilers():
            settings = {**ADAPTIVE, "OMP_NUM_THREADS": "1"}
            outcome = run([program("adaptive", compiler), "resizable"], settings, report=True)
            self.assertEqual(outcome.out, "other teams some, wrong 0\n")
            self.assertEqual(outcome.report["regions"][0]["resized"], 0)


class Ceiling(AdaptiveCase):
    """No more threads than the runtime would have at that very call."""

    @needs_cpus
    def test_lowered_unseen(self) -> None:
        for regions in self.regions("lowered-unseen").values():
            self.assertEqual(regions[0]["kind"], "resizable", regions)
            self.assertGreater(regions[0]["resized"], 50)


class Chunks(AdaptiveCase):
    """How many iterations a thread takes at a time: any number, in the whole team alike, where nobody chose it."""

    FREE = ("chunk_int", "chunk_down", "chunk_steps", "chunk_unsigned", "chunk_size", "chunk_size_down", "chunk_top",
            "chunk_monotonic", "chunk_in_turn")
    CHOSEN = ("chunk_named", "chunk_guided", "chunk_ordered")
    RUNTIME = ("chunk_runtime", "chunk_size_runtime")

    def check(self, regions: list[dict], names: tuple[str, ...], changed: bool) -> None:
        for name in names:
            calls = [region["rechunked"] for region in regions if re.split(r"\W", region["name"])[0] == name]
            self.assertEqual([count > CALLS / 4 if changed else count > 0 for count in calls], [changed], (name, calls))

    @needs_cpus
    def test_each_iteration_once(self) -> None:
        for regions in self.regions("chunks", OMP_SCHEDULE="dynamic").values():
            self.check(regions, self.FREE + self.RUNTIME, changed=True)
            self.check(regions, self.CHOSEN, changed=False)

    @needs_cpus
    def test_the_users_own_word(self) -> None:
        for schedule in ("dynamic,1", "guided"):
            for regions in self.regions("chunks", OMP_SCHEDULE=schedule).values():
                self.check(regions, self.RUNTIME + self.CHOSEN, changed=False)
        for regions in self.regions("chunks", OMP_SCHEDULE="dynamic", CORUN_CHUNK="no").values():
            self.check(regions, self.FREE + self.RUNTIME + self.CHOSEN, changed=False)

    @needs_cpus
    def test_listed(self) -> None:
        for regions in self.regions("chunks", CORUN_REGIONS="chunk_named").values():
            self.check(regions, ("chunk_named",), changed=True)

    @needs_cpus
    def test_the_programs_own_word(self) -> None:
        for regions in self.regions("chunk-set", OMP_SCHEDULE="dynamic").values():
            self.assertLess(regions[0]["rechunked"], 300)
            self.assertGreater(regions[0]["rechunked"], 50)

    @needs_cpus
    def test_a_team_inside(self) -> None:
        for regions in self.regions("chunk-inside").values():
            rechunked = sum(region.get("rechunked", 0) for region in regions)  # a compiler may open it in two places
            self.assertGreater(rechunked, 10)
            self.assertLess(rechunked, 102)


class Jumps(AdaptiveCase):
    """Exceptions, longjmp and pthread_exit out of regions with a body of ours."""

    def test_jumps(self) -> None:
        for way, destroyed in (("exception", 60000), ("jump", 0), ("exit", 60000)):
            out = f"entered 60000, caught 60000, destroyed {destroyed}, told 4\n"
            with self.subTest(way=way):
                outcome = run([str(openmp.FOLDER / "victim-jumps"), way], ADAPTIVE)
                self.assertEqual((outcome.out, outcome.code), (out, 0))


class Opened(AdaptiveCase):
    """A library that was opened may be closed, and another may lie in its place."""

    def test_opened(self) -> None:
        words = ["local", library("plugin_bare", "gcc"), *["bare"] * 40]
        outcome = run([str(openmp.FOLDER / "victim-loader"), *words], ADAPTIVE, report=True)
        self.assertEqual(outcome.out, "team 2\n" * 40 + DONE)
        self.assertEqual([region["kind"] for region in outcome.report["regions"]], ["opened-later"])


class Told(AdaptiveCase):
    """The other tests' programs, which check themselves."""

    @needs_cpus
    def test_as_plain(self) -> None:
        settings = {**ADAPTIVE, "CORUN_POLICY": "race"}
        for compiler in compilers():
            for policy in ("race", "random"):
                for behaviour in ("kinds", "threads", "constant", "counting-sort", "slots", "named", "own-barrier", "fortran",
                                  "serialized", "nested"):
                    command = [program("widths", compiler), behaviour]
                    with self.subTest(compiler=compiler, behaviour=behaviour, policy=policy):
                        plain = run(command, settings, preload=False)
                        self.assertEqual(plain.code, 0, plain.out)
                        outcome = run(command, {**settings, "CORUN_POLICY": policy})
                        self.assertEqual((outcome.out, outcome.code), (plain.out, 0))


class Paths(AdaptiveCase):
    """One place that opens regions, of which those who call it make different use."""

    PARTS = (("two-callers", ["coarse", "fine"]), ("wrapped", ["apply < solve_coarse", "apply < solve_fine"]))

    def region(self, behaviour: str, compiler: str, function: str = "smooth", **more: str) -> dict:
        settings = {**ADAPTIVE, "CORUN_POLICY": "race", **more}
        outcome = run([program("paths", compiler), behaviour], settings, report=True)
        self.assertEqual((outcome.out, outcome.err, outcome.code), ("wrong 0\n", "", 0), (behaviour, compiler))
        found = [region for region in outcome.report["regions"] if region["name"].startswith(function)]
        self.assertEqual(len(found), 1, outcome.report["regions"])
        return found[0]

    def callers(self, region: dict) -> list[dict]:
        self.assertIn("callers", region, region)
        return region["callers"]

    @needs_cpus
    def test_callers_are_told_apart(self) -> None:
        for behaviour, names in self.PARTS:
            for compiler in compilers():
                with self.subTest(behaviour=behaviour, compiler=compiler):
                    region = self.region(behaviour, compiler)
                    parts = sorted(self.callers(region), key=lambda part: part["name"])
                    self.assertEqual([part["name"] for part in parts], names, region)
                    for part in parts:
                        self.assertGreater(part["calls"], 20)
                        self.assertEqual(len(part["path"]), 1 + names[0].count("<"))
                    self.assertLessEqual(region["paths_read"], 4, region)  # then they are known

    @needs_cpus
    def test_nobody_is_asked_without_need(self) -> None:
        for behaviour in ("steady", "same-caller"):
            for compiler in compilers():
                region = self.region(behaviour, compiler)
                self.assertNotIn("callers", region)
                if behaviour == "same-caller":
                    self.assertIn("not by who calls", region["why"])

    @needs_cpus
    def test_callers_at_any_distance(self) -> None:
        for compiler in compilers():
            region = self.region("frames", compiler)
            self.assertLessEqual(region.get("paths_read", 0), 80, region)
            fine = [part for part in self.callers(region) if part["name"] == "fine"]
            self.assertGreater(fine[0]["calls"], 20, region)

    @needs_cpus
    def test_another_stack(self) -> None:
        for compiler in compilers():
            region = self.region("coroutine", compiler)
            self.assertEqual(len(self.callers(region)), 2)

    @needs_cpus
    def test_signals(self) -> None:
        for compiler in compilers():
            self.region("signals", compiler)

    @needs_cpus
    def test_libraries_come_and_go(self) -> None:
        settings = {f"{which.upper()}_LIBRARY": str(openmp.FOLDER / f"victim-calls-back-{which}.so")
                    for which in ("first", "second")}
        for compiler in compilers():
            region = self.region("closed", compiler, **settings)
            names = sorted(part["name"] for part in self.callers(region))
            self.assertEqual(names, ["coarse", "fine"], region)
            self.assertLessEqual(region["paths_read"], 90, region)  # of 900 from a library that was opened

    @needs_cpus
    def test_forks_meanwhile(self) -> None:
        for compiler in compilers():
            self.region("forked", compiler)

    @needs_cpus
    def test_a_constructor_waits_for_the_region(self) -> None:
        settings = {"WAITING_LIBRARY": str(openmp.FOLDER / "victim-calls-back-waits.so")}
        region = self.region("constructor", "gcc", **settings)  # LLVM's runtime waits for the loader itself
        self.assertEqual(len(self.callers(region)), 2)

    @needs_cpus
    def test_without_libunwind(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(openmp.FOLDER / "victim-calls-back-first.so", Path(folder) / "libunwind.so.8")
            region = self.region("two-callers", "gcc", LD_LIBRARY_PATH=folder)
        self.assertIn("not known without libunwind", region["why"])
        self.assertNotIn("callers", region)

    @needs_cpus
    def test_two_places(self) -> None:
        for compiler in compilers():
            outcome = run([program("paths", compiler), "two-places"], ADAPTIVE, report=True)
            self.assertEqual((outcome.out, outcome.code), ("wrong 0\n", 0))
            regions = sorted(outcome.report["regions"], key=lambda region: region["caller"])
            self.assertEqual([region["calls"] for region in regions], [900, 900], regions)
            self.assertEqual(len({region["object"] for region in regions}), 1)
            for place, region in zip(("first_place", "second_place"), regions, strict=True):
                self.assertIn(f" from {place} ", region["name"])
                self.assertRegex(region["key"], r"^[0-9a-f]{40}\+0x[0-9a-f]+@0x[0-9a-f]+$")
                self.assertEqual(region["kind"], "resizable")
            again = run([program("paths", compiler), "two-places"], ADAPTIVE, report=True)
            self.assertEqual({region["key"] for region in regions}, {one["key"] for one in again.report["regions"]})

    @needs_cpus
    def test_what_one_place_shows_holds_for_the_other(self) -> None:
        for compiler in compilers():
            outcome = run([program("paths", compiler), "asks-in-one"], ADAPTIVE, report=True)
            self.assertEqual((outcome.out, outcome.code), ("wrong 0\n", 0))
            for region in outcome.report["regions"]:
                self.assertEqual((region["kind"], region["resized"]), ("asks-its-team", 0))


class Crowded(AdaptiveCase):
    """Others want the CPUs: regions that may be narrow are, but nothing is learned from calls that waited."""

    @needs_cpus
    def test_busy_neighbours(self) -> None:
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
        try:
            for compiler in compilers():
                settings = {**ADAPTIVE, "CORUN_POLICY": "race"}
                outcome = run([program("paths", compiler), "steady"], settings, report=True)
                self.assertEqual((outcome.out, outcome.code), ("wrong 0\n", 0))
                self.assertGreaterEqual(outcome.report["crowded"]["times"], 1)
                region = outcome.report["regions"][0]
                self.assertGreater(region["resized"], 300, region)
                self.assertNotIn("runs at", region["why"])
        finally:
            for one in busy:
                one.kill()
                one.wait()


GROUPS = {
    "resized": Resized, "asks": Asks, "threadprivate": Threadprivate, "named": Named, "nested": Nested,
    "planned": Planned, "ceiling": Ceiling, "loopless": Loopless, "settings": Settings, "chunks": Chunks, "jumps": Jumps, "opened": Opened, "told": Told, "paths": Paths, "crowded": Crowded,
}


if __name__ == "__main__":
    openmp.GROUPS = GROUPS
    openmp.main()
