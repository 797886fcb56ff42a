#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CORUN_OPENMP=safe: the victims whose number of threads comes from several places, or from earlier runs.

    run_safe_victims.py LIBCORUN VICTIM_DIR [GROUP...]
"""

import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import run_openmp_victims as openmp  # noqa: E402  (in this folder)
from run_openmp_victims import OFF, TWO, WIDE, base, compilers, needs_cpus, run, unread  # noqa: E402

ONE = {"CORUN_CPUS": "1"}


def victim(behaviour: str, *words: str, compiler: str = "gcc") -> list[str]:
    return [openmp.program("safe", compiler), behaviour, *words]


class Case(openmp.Case):
    """Assertions that the groups share."""

    def each(self, behaviour: list[str], out: str, settings: dict[str, str], preload: bool = True) -> None:
        for compiler in compilers():
            with self.subTest(compiler=compiler, behaviour=behaviour, settings=settings, preload=preload):
                self.says(victim(*behaviour, compiler=compiler), out, settings, preload=preload)

    def levers(self, settings: dict[str, str], behaviour: list[str], compiler: str = "gcc") -> dict[str, str]:
        report = run(victim(*behaviour, compiler=compiler), settings, report=True).report
        return {lever["lever"]: lever["effect"] for lever in report["irreversible"]}


class SafeOwn(Case):
    """A number that the program sets is its own until it asks again."""

    def test_asks_sets_and_cuts(self) -> None:
        # It knows the number from elsewhere, e.g. from its own words.
        out = "told {}, set 5, blocks left out 0\n"
        self.each(["asks-and-cuts", "5"], out.format(5), WIDE, preload=False)
        self.each(["asks-and-cuts", "five"], out.format(1), {**WIDE, **ONE})
        self.each(["asks-and-cuts", "4"], "told 1, set 4, blocks left out 0\n", {**WIDE, **ONE})

    def test_asks_again(self) -> None:
        self.says(victim("asks-again", "five"), "told 1, set 5, told 1, blocks left out 0\n", {**WIDE, **ONE})
        self.each(["asks-again", "4"], "told 1, set 4, told 4, blocks left out 0\n", {**WIDE, **ONE})

    def test_as_if_the_user_had_set_the_budget(self) -> None:
        for behaviour in (["asks-and-cuts", "five"], ["asks-and-cuts", "4"], ["asks-again", "4"], ["names-all"], ["names-before", "four"], ["reads"],
                          ["scopes"], ["serialized"], ["steps"], ["new-threads"], ["passes-on"], ["tiny"]):
            for compiler in compilers():
                command = victim(*behaviour, compiler=compiler)
                plain = run(command, {"OMP_NUM_THREADS": "1"}, preload=False)
                self.says(command, plain.out, {**WIDE, **ONE})

    def test_new_threads(self) -> None:
        out = "asks first: told {0}, team {0}\nopens first: team {0}, told {0}\nnames first: named 3, team {0}, told {0}\n"
        self.each(["new-threads"], out.format(5), WIDE, preload=False)
        self.each(["new-threads"], out.format(1), {**WIDE, **ONE})
        self.each(["new-threads"], out.format(1), ONE)

    def test_data_environments_of_their_own(self) -> None:
        places = ("task", "task that sets", "target", "target", "teams")
        out = "".join(f"{place}: told {{0}}, team {{0}}\n" for place in places)
        self.each(["scopes"], out.format(5), WIDE, preload=False)
        for settings in ({**WIDE, **ONE}, ONE):
            self.each(["scopes"], out.format(1), settings)
            self.each(["serialized"], "told 1, team 1\n", settings)
        self.each(["scopes"], out.format(1), unread({**WIDE, **ONE}), preload=False)
        self.each(["serialized"], "told 1, team 1\n", unread({**WIDE, **ONE}), preload=False)

    @needs_cpus
    def test_cpus_that_the_program_takes(self) -> None:
        here = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {0})
        self.addCleanup(os.sched_setaffinity, 0, here)
        for preload in (False, True):
            self.says(victim("widens"), "processors 2, team 2\n", {}, preload=preload)
        self.says(victim("widens"), "processors 1, team 1\n", ONE)
        # A runtime that comes later counts them too.
        script = "import ctypes, os; os.sched_setaffinity(0, {0, 1}); print(ctypes.CDLL(%r).%s)"
        command = [sys.executable, "-c", script % (openmp.library("plugin", "gcc"), "plugin_team(0, ctypes.byref(ctypes.c_int()))")]
        self.assertEqual((run(command, {}).out, run(command, ONE).out), ("2\n", "1\n"))

    def test_a_child_hears_what_the_parent_heard(self) -> None:
        out = "parent: processors 1, told 1, team 1\nchild: processors 1\nchild's thread: processors 1, told 1, team 1\n"
        for settings in (ONE, {**WIDE, **ONE}, {**ONE, "CORUN_FOLLOW": "no"}):
            self.says(victim("forks"), out, settings)


class Environment(Case):
    """OMP_NUM_THREADS is lowered for programs that read it, and for nobody else."""

    def test_read_and_named(self) -> None:
        self.each(["names-all"], "read 5, team 5, told 5\n", WIDE, preload=False)
        self.each(["names-all"], "read 1, team 1, told 1\n", {**WIDE, **ONE})
        self.each(["names-all"], "read 1, team 1, told 1\n", {"OMP_NUM_THREADS": "1"})

    def test_a_number_that_the_command_line_has_too(self) -> None:
        # It may compare the two, so its reader must find 5, and cut its work by 5.
        for word in ("5", "-t=5", "10", "t5"):
            self.each(["reads", word], "read 5, team 5, OMP_NUM_THREADS=5\n", {**WIDE, **ONE})
        self.each(["reads", "7"], "read 1, team 1, OMP_NUM_THREADS=1\n", {**WIDE, **ONE})

    def test_lists(self) -> None:
        for text, lowered in (("5,3", "1,3"), (" 5 , 3", " 1 , 3"), ("12", "1")):
            self.each(["reads"], f"read 1, team 1, OMP_NUM_THREADS={lowered}\n", {"OMP_NUM_THREADS": text, **ONE})

    def test_what_is_no_plain_list_stays(self) -> None:
        for text in ("+3", "3,", "three"):
            outcome = run(victim("reads"), {"OMP_NUM_THREADS": text, **ONE})
            self.assertIn(f"OMP_NUM_THREADS={text}\n", outcome.out)

    def test_all_see_the_same(self) -> None:
        self.each(["passes-on"], "main 1, child 1, spins unset\n", {**WIDE, **ONE})

    def test_not_wanted(self) -> None:
        for settings in OFF:
            self.each(["reads"], "read 5, team 5, OMP_NUM_THREADS=5\n", {**WIDE, **ONE, **settings})

    def test_not_above_the_budget(self) -> None:
        self.each(["reads"], "read 1, team 1, OMP_NUM_THREADS=1\n", {"OMP_NUM_THREADS": "1", **ONE})

    def test_programs_without_a_runtime_hand_it_on(self) -> None:
        for words in (["/bin/sh", "-c", "/bin/sh -c 'echo $OMP_NUM_THREADS'"],
                      [sys.executable, "-c", "import os; print(os.environ['OMP_NUM_THREADS'])"]):
            self.assertEqual(run(words, {**WIDE, **ONE}).out, "5\n")
        words = ["/bin/sh", "-c", "echo $OMP_NUM_THREADS; " + " ".join(victim("reads"))]
        self.assertEqual(run(words, {**WIDE, **ONE}).out, "5\nread 1, team 1, OMP_NUM_THREADS=1\n")

    def test_said(self) -> None:
        for compiler in compilers():
            levers = self.levers({**WIDE, **ONE}, ["names-all"], compiler)
            self.assertEqual(levers["OpenMP environment"], "OMP_NUM_THREADS 5 -> 1, for those who read it")
        self.assertNotIn("OpenMP environment", self.levers({"OMP_NUM_THREADS": "1", **ONE}, ["names-all"]))


class Wait(Case):
    """A quota below the mask: threads spin for a bounded time. Nothing of it is left in the environment."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = Path(folder.name)
        for place in ("", "unified", "cpu", "cpu,cpuacct"):
            (root / place).mkdir(exist_ok=True)
            (root / place / "cpu.max").write_text("150000 100000\n")
            (root / place / "cpu.cfs_quota_us").write_text("150000\n")
            (root / place / "cpu.cfs_period_us").write_text("100000\n")
        self.quota = {"CORUN_CGROUP_ROOT": str(root)}

    def spins(self, settings: dict[str, str], preload: bool = True, command: list[str] | None = None) -> list[str]:
        settings = {"OMP_DISPLAY_ENV": "verbose", "OMP_NUM_THREADS": "2", **settings}
        outcome = run(command or victim("passes-on"), settings, preload)
        self.assertIn("spins unset", outcome.out + "spins unset" * (command is not None))
        return [line.split("'")[1] for line in outcome.err.splitlines() if "GOMP_SPINCOUNT" in line]

    @needs_cpus
    def test_bounded(self) -> None:
        default = self.spins({}, preload=False)
        self.assertNotEqual(default, ["1000"])
        self.assertEqual(self.spins(self.quota), ["1000"])
        levers = self.levers({**self.quota, "OMP_NUM_THREADS": "2"}, ["tiny"])
        self.assertEqual(levers["OpenMP wait policy"], "bounded spin: a quota of 1.5 CPUs is used up by spinning too")

    @needs_cpus
    def test_more_threads_than_cpus(self) -> None:
        # Brief or none where the machine is busy, but never as long as two threads on two CPUs would.
        wide = {"OMP_NUM_THREADS": str(16 * base.CPUS)}
        for command in (None, [str(openmp.FOLDER / "victim-loader"), "local", openmp.library("plugin", "gcc"), "team", "2"]):
            (spins,) = self.spins(wide, command=command)
            self.assertIn(spins, ("20000", "300", "0"))

    @needs_cpus
    def test_left_alone(self) -> None:
        default = self.spins({}, preload=False)
        for settings in OFF:
            self.assertEqual(self.spins({**self.quota, **settings}), default)
        self.assertEqual(self.spins({**self.quota, "OMP_NUM_THREADS": "1"}), default)

    @needs_cpus
    def test_the_users_own(self) -> None:
        for name, value in (("GOMP_SPINCOUNT", "77"), ("OMP_WAIT_POLICY", "active"), ("OMP_WAIT_POLICY", "passive")):
            settings = {name: value, "OMP_DISPLAY_ENV": "verbose", "OMP_NUM_THREADS": "2"}
            plain = run(victim("tiny"), settings, preload=False)
            outcome = run(victim("tiny"), {**settings, **self.quota})
            self.assertEqual((outcome.out, outcome.err), (plain.out, plain.err))

    @needs_cpus
    def test_a_runtime_that_is_loaded_later(self) -> None:
        words = [str(openmp.FOLDER / "victim-loader"), "local", openmp.library("plugin", "gcc"), "team", "2"]
        self.assertEqual(self.spins(self.quota, command=words), ["1000"])

    @needs_cpus
    def test_a_runtime_that_is_loaded_beside_other_threads(self) -> None:
        script = ("import ctypes, os, threading; go = threading.Event(); threading.Thread(target=go.wait).start(); "
                  "team = ctypes.CDLL(%r).plugin_team(0, ctypes.byref(ctypes.c_int())); get = ctypes.CDLL(None).getenv; "
                  "get.restype = ctypes.c_char_p; print(team, get(b'GOMP_SPINCOUNT'), get(b'HOME')); go.set()")
        command = [sys.executable, "-c", script % openmp.library("plugin", "gcc")]
        self.assertEqual(self.spins(self.quota, command=command), ["1000"])
        settings = {**self.quota, "OMP_NUM_THREADS": "2", "HOME": "/here"}
        self.assertEqual(run(command, settings).out, "2 None b'/here'\n")

    @needs_cpus
    def test_what_the_program_sets_meanwhile_stays(self) -> None:
        script = ("import ctypes, os; plugin = ctypes.CDLL(%r); os.environ['A'] = 'b'; "
                  "plugin.plugin_team(0, ctypes.byref(ctypes.c_int())); "
                  "os.system('echo $A ${GOMP_SPINCOUNT:-unset} $OMP_NUM_THREADS')")
        command = [sys.executable, "-c", script % openmp.library("plugin", "gcc")]
        self.assertEqual(run(command, {**self.quota, "OMP_NUM_THREADS": "2"}).out, "b unset 2\n")

    @needs_cpus
    def test_libomp(self) -> None:
        if "clang" not in compilers():
            self.skipTest("no clang with its runtime")
        self.assertIn("OpenMP wait policy", self.levers({**self.quota, "OMP_NUM_THREADS": "2"}, ["tiny"], "clang"))
        settings = {**self.quota, "OMP_NUM_THREADS": "2", "KMP_BLOCKTIME": "5"}
        self.assertNotIn("OpenMP wait policy", self.levers(settings, ["tiny"], "clang"))


def seal(document: dict) -> str:
    """The text of a profile with a right checksum. Its numbers must be written alike everywhere: 1.0, 0.5."""
    document = {key: value for key, value in document.items() if key != "checksum"}
    hashed = 0xCBF29CE484222325
    for byte in json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode():
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    return json.dumps({**document, "checksum": f"{hashed:016x}"})


class Profile(Case):
    """The width of the first region is taken from earlier runs."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "profile.json"
        self.settings = {"CORUN_PROFILE": str(self.path), "CORUN_CPUS": "2"}

    def runs(self) -> list[dict]:
        return [run for section in json.loads(self.path.read_text())["sections"] for run in section["runs"]]

    def fabricate(self, *runs: tuple[int, float, float]) -> None:
        """Width, seconds in its region, work of all its threads (0: not looked at)."""
        document = json.loads(self.path.read_text())
        kept = next(section for section in document["sections"] if section["runs"])["runs"]
        pattern, key = kept[0], max(kept[0]["regions"], key=lambda region: region[1])[0]
        kept[:] = [{**pattern, "width": width, "seconds": 10.0, "regions": [[key, 1000, seconds, work, work]]}
                   for width, seconds, work in runs]
        self.path.write_text(seal(document))

    def tiny(self, team: int, settings: dict[str, str] | None = None, compiler: str = "gcc") -> dict:
        outcome = run(victim("tiny", compiler=compiler), {**self.settings, **(settings or {})}, report=True)
        self.assertEqual((outcome.out, outcome.err), (f"sum 56000, told {team}, team {team}\n", ""))
        return outcome.report

    @needs_cpus
    def test_a_run_is_kept(self) -> None:
        for _ in range(20):  # on a busy machine the few calls that are timed may not be like the others
            report = self.tiny(2)
            self.assertEqual((report["start_width"]["width"], report["start_width"]["why"]), (2, "the first run"))
            (kept,) = self.runs()
            if kept["regions"][0][0] != "wall":
                break
            self.path.unlink()
        self.assertEqual(kept["width"], 2)
        region = max(kept["regions"], key=lambda region: region[1])
        self.assertEqual(region[1], 2000)
        self.assertRegex(region[0], r"^[0-9a-f]+\+0x[0-9a-f]+$")
        self.assertGreater(region[2], 0)
        self.assertGreater(region[3], 0)
        self.assertGreaterEqual(region[3], region[4])
        run(victim("tiny"), self.settings)
        self.assertEqual(sum(bool(kept["regions"]) for kept in self.runs()), 2)

    @needs_cpus
    def test_narrower_where_it_was_faster(self) -> None:
        for compiler in compilers():
            with self.subTest(compiler=compiler):
                self.path.unlink(missing_ok=True)
                self.tiny(2, compiler=compiler)
                self.fabricate((2, 8.0, 0.0), (1, 2.0, 0.0), (2, 8.0, 0.0))
                report = self.tiny(1, compiler=compiler)
                self.assertEqual((report["start_width"]["width"], report["start_width"]["own"]), (1, 2))
                levers = {lever["lever"]: lever["effect"] for lever in report["irreversible"]}
                self.assertEqual(levers["OpenMP start width"], "2 -> 1 threads: 60 % less time measured")
                self.assertEqual([run["width"] for run in self.runs()], [2, 1, 2, 1])

    @needs_cpus
    def test_narrower_where_the_work_promises_it(self) -> None:
        self.tiny(2)
        self.fabricate((2, 8.0, 1.0))
        self.tiny(2, {"CORUN_REPRODUCIBLE": "1"})
        self.tiny(2, {"CORUN_MODE": "replay"})
        self.assertEqual(len(self.runs()), 1)
        self.assertTrue(self.tiny(1)["start_width"]["tries"])
        self.assertEqual([(run["width"], bool(run["regions"])) for run in self.runs()],
                         [(2, True), (1, False), (1, True)])

    @needs_cpus
    def test_a_try_that_is_killed_is_made_once(self) -> None:
        run(victim("dies"), self.settings)
        self.fabricate((2, 8.0, 1.0))
        outs = [run(victim("dies"), self.settings).out for _ in range(3)]
        self.assertEqual(outs, ["team 1\n", "team 2\n", "team 2\n"])

    @needs_cpus
    def test_no_try_where_nothing_can_be_kept(self) -> None:
        self.tiny(2)
        self.fabricate((2, 8.0, 1.0))
        before = self.path.read_text()
        outcome = run(["/bin/sh", "-c", "ulimit -f 0; exec " + " ".join(victim("tiny"))], self.settings)
        self.assertEqual((outcome.out, self.path.read_text()), ("sum 56000, told 2, team 2\n", before))
        self.assertIn("cannot be written", outcome.err)

    @needs_cpus
    def test_the_programs_own_number_and_the_users(self) -> None:
        self.tiny(2)
        self.fabricate((2, 8.0, 0.0), (1, 2.0, 0.0))
        self.tiny(2, {"CORUN_MODE": "observe"})
        for settings in (*OFF[1:3], {"CORUN_MODE": "off"}):
            out = run(victim("tiny"), {**self.settings, "OMP_NUM_THREADS": "2", **settings}).out
            self.assertEqual(out, "sum 56000, told 2, team 2\n")
        self.assertEqual(len(self.runs()), 2)
        # Other words are another process; what it sets itself stays, and says nothing of a width.
        self.says(victim("asks-and-cuts", "1"), "told 2, set 1, blocks left out 0\n", self.settings)
        self.says(victim("asks-and-cuts", "3"), "told 2, set 3, blocks left out 0\n", self.settings)
        self.assertEqual(len(self.runs()), 2)

    @needs_cpus
    def test_numbers_of_its_own_say_nothing_of_a_width(self) -> None:
        self.says(victim("steps"), "told 2, teams 1 2\n", self.settings)
        self.assertFalse(self.path.exists())
        self.says(victim("asks-again", "2"), "told 2, set 2, told 2, blocks left out 0\n", self.settings)
        self.assertEqual(len(self.runs()), 1)

    @needs_cpus
    def test_the_environments_number_is_lowered_too(self) -> None:
        self.tiny(2, {"OMP_NUM_THREADS": "2"})
        self.fabricate((2, 8.0, 0.0), (1, 2.0, 0.0))
        self.tiny(1, {"OMP_NUM_THREADS": "2"})

    @needs_cpus
    def test_a_damaged_file_is_said(self) -> None:
        self.path.write_text("{")
        outcome = run(victim("tiny"), self.settings)
        self.assertEqual(outcome.out, "sum 56000, told 2, team 2\n")
        self.assertRegex(outcome.err, r"^corun: .* is not a corun profile or is damaged .*\n$")
        self.assertEqual(len(self.runs()), 1)


GROUPS = {"safe-own": SafeOwn, "environment": Environment, "wait": Wait, "profile": Profile}


if __name__ == "__main__":
    openmp.GROUPS = GROUPS
    openmp.main()
