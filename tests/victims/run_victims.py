#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the victims plain and under the preload and holds what they do against what is expected.

    run_victims.py LIBCORUN VICTIM_DIR [GROUP...]

A victim is a tiny program that does one thing a careless preloaded library would break. Most are rows of a table: the
program, the settings, the expected output. The rest are methods of the group's class below.
"""

import dataclasses
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from control_page import ControlPage

LIBRARY = Path()
FOLDER = Path()
CPUS = len(os.sched_getaffinity(0))
UNLIMITED = 1000000
DONE = "done\n"
BLAS_NAME = re.compile(r"(scipy_)?(cblas_[sdcz][a-z0-9]+(64_)?|[sdcz][a-z0-9]+_(64_)?)")
NARROW = {"CORUN_POLICY": "uniform-1"}
needs_cpus = unittest.skipIf(CPUS < 2, "the narrow width is no other than the program's own on one CPU")


@dataclasses.dataclass
class Outcome:
    """What a program has done."""

    code: int
    out: str
    err: str
    report: dict | None = None


def environment(settings: dict[str, str], preload: bool) -> dict[str, str]:
    """The caller's, without anything of corun's but the settings."""
    # Meson's LD_LIBRARY_PATH names three runtimes of one soname; each victim knows its own.
    others = ("LD_PRELOAD", "LD_LIBRARY_PATH")
    base = {k: v for k, v in os.environ.items() if not k.startswith("CORUN_") and k not in others}
    base.update(settings)
    if preload:
        base["LD_PRELOAD"] = str(LIBRARY)
    return base


def program(name: str) -> str:
    return str(FOLDER / f"victim-{name}")


def run(command: list[str], settings: dict[str, str] | None = None, preload: bool = True, report: bool = False,
        timeout: float = 120, **more) -> Outcome:
    """Runs a command to its end; with a report under the preload if asked for."""
    settings = dict(settings or {})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        if report:
            settings["CORUN_REPORT"] = str(path)
        done = subprocess.run(command, env=environment(settings, preload), capture_output=True, text=True,
                              timeout=timeout, check=False, stdin=subprocess.DEVNULL, **more)
        content = json.loads(path.read_text()) if report and path.exists() else None
        left = [p.name for p in Path(folder).iterdir() if p != path]
        assert not left, f"left behind: {left}"
    return Outcome(done.returncode, done.stdout, done.stderr, content)


def calls(report: dict) -> dict[str, int]:
    """Calls by op key, of the ops that are listed."""
    return {op["name"] + op["shapes"]: op["calls"] for op in report["ops"]}


def finished_ops(report: dict) -> int:
    return report["sources"][0]["ops"]


def page_of(pid: int) -> ControlPage:
    """The page appears when the first thread has made the source active."""
    for _ in range(100):
        try:
            return ControlPage(pid)
        except (FileNotFoundError, ValueError):
            time.sleep(0.01)
    return ControlPage(pid)


class Case(unittest.TestCase):
    """Assertions that the groups share."""

    maxDiff = None

    def expect(self, command: list[str], out: str, settings: dict[str, str] | None = None, code: int = 0,
               preload: bool = True, err: str | None = "", report: bool = True, **more) -> Outcome:
        """Output, exit code and (unless None) stderr are exactly these; no scope is open at the end."""
        outcome = run(command, settings, preload, report and preload, **more)
        self.assertEqual((outcome.out, outcome.code), (out, code), f"{command} {settings}\n{outcome.err}")
        if err is not None:
            self.assertEqual(outcome.err, err)
        if report and preload and outcome.report is not None:
            self.assertEqual(outcome.report["open_scopes"], 0)
        return outcome

    def same(self, command: list[str], settings: dict[str, str] | None = None, **more) -> Outcome:
        """Byte for byte what the program does without us."""
        plain = run(command, {}, preload=False, **more)
        under = run(command, settings, **more)
        self.assertEqual((under.code, under.out, under.err), (plain.code, plain.out, plain.err), str(command))
        return under


ALL_POLICIES = [{}, {"CORUN_MODE": "off"}, {"CORUN_MODE": "observe"}, NARROW, {"CORUN_POLICY": "random"}]

# argument, what it prints before the later op; how often 10,000 is caught, destroyed, cleaned
UNWIND = [
    ("exception", 10000, 40000, 0),
    ("unasked", 10000, 10000, 0),
    ("nested", 10000, 30000, 0),
    ("caught-inside", 10000, 20000, 0),
    ("async-exception", 10000, 30000, 0),
    ("pool", 10000, 10000, 0),
    ("kernel-end", 10000, 10000, 0),
    ("asked", 20000, 40000, 0),
    ("pthread-exit", 0, 20000, 10000),
    ("async-pthread-exit", 0, 0, 10000),
    ("longjmp", 10000, 0, 0),
    ("async-longjmp", 10000, 0, 0),
    ("set-after-longjmp", 1, 0, 0),
    ("kernel-end-longjmp", 10000, 0, 0),
    ("pool-longjmp", 10000, 0, 0),
]


class Unwind(Case):
    """Exceptions, pthread_exit and longjmp through every hook."""

    def text(self, row: tuple, inside: int) -> str:
        _, caught, destroyed, cleaned = row
        return (f"caught {caught}, destroyed {destroyed}, cleaned {cleaned}\n"
                f"a later op sees {inside}, then {inside}\n{DONE}")

    def test_plain_and_unchanged_width(self) -> None:
        for row in UNWIND:
            with self.subTest(row[0]):
                self.expect([program("unwind"), row[0]], self.text(row, UNLIMITED), preload=False)
                self.expect([program("unwind"), row[0]], self.text(row, UNLIMITED), {"CORUN_MODE": "observe"})

    @needs_cpus
    def test_narrow(self) -> None:
        for row in UNWIND:
            with self.subTest(row[0]):
                self.expect([program("unwind"), row[0]], self.text(row, 1), NARROW)

    @needs_cpus
    def test_later_ops_are_counted(self) -> None:
        outcome = self.expect([program("unwind"), "unasked"], self.text(UNWIND[1], 1), NARROW)
        self.assertEqual(finished_ops(outcome.report), 1 + 10000 + 2)
        self.assertEqual(calls(outcome.report)["Follower(float[2,3])"], 10000)

    def test_random(self) -> None:
        for row in UNWIND:
            with self.subTest(row[0]):
                outcome = run([program("unwind"), row[0]], {"CORUN_POLICY": "random"}, report=True)
                self.assertEqual((outcome.code, outcome.err), (0, ""), outcome.out)
                self.assertEqual(outcome.report["open_scopes"], 0)


class Width(Case):
    """Constant inside, restored outside, never above the program's own."""

    OWN = "own 3: highest {}\nown 2: highest {}\nown 1: highest 1\n"
    TAIL = f"set inside: 50\nsaved inside: {UNLIMITED}\n{DONE}"

    def test_unchanged(self) -> None:
        out = "free: highest unlimited, none\n" + self.OWN.format(3, 2) + self.TAIL
        self.expect([program("width")], out, preload=False)
        self.expect([program("width")], out, {"CORUN_MODE": "observe"})
        self.expect([program("width")], out, {"CORUN_CPUS": "1", "CORUN_POLICY": "uniform-1"})

    @needs_cpus
    def test_narrow(self) -> None:
        self.expect([program("width")], "free: highest 1, one\n" + self.OWN.format(1, 1) + self.TAIL, NARROW)

    def test_random(self) -> None:
        out = "free: highest some, many\n" + self.OWN.format(3, 2) + self.TAIL
        self.expect([program("width")], out, {"CORUN_POLICY": "random"})


class Asked(Case):
    """NumThreads()."""

    def test_unchanged(self) -> None:
        self.expect([program("asked")], f"inside _Mkl: 8\n{DONE}", preload=False)
        self.expect([program("asked")], f"inside _Mkl: 8\n{DONE}", {"CORUN_MODE": "observe"})

    @needs_cpus
    def test_narrow(self) -> None:
        self.expect([program("asked")], f"inside _Mkl: 1\n{DONE}", NARROW)

    def test_random(self) -> None:
        outcome = run([program("asked")], {"CORUN_POLICY": "random"})
        self.assertEqual(outcome.code, 0, outcome.out)


class LateThread(Case):
    """The width of a thread is its own."""

    def text(self, inside: int) -> str:
        return f"a late thread: outside {UNLIMITED}, inside {inside}\n{DONE}"

    def test_unchanged(self) -> None:
        self.expect([program("late_thread")], self.text(UNLIMITED), preload=False)
        self.expect([program("late_thread")], self.text(UNLIMITED), {"CORUN_MODE": "observe"})

    @needs_cpus
    def test_narrow(self) -> None:
        self.expect([program("late_thread")], self.text(1), NARROW)


class Primitives(Case):
    """What a runtime has built for a width is used at that width."""

    def test_all(self) -> None:
        for mode in ([], ["many"]):
            for settings in ({"CORUN_POLICY": "random"}, NARROW, {"CORUN_MODE": "observe"}, {}):
                self.expect([program("primitives"), *mode], DONE, settings)
            self.expect([program("primitives"), *mode], DONE, preload=False)


class Beside(Case):
    """Ops beside others are not taken for ops alone, though brief ones are counted only now and then."""

    @needs_cpus
    def test_long_ops(self) -> None:
        for settings in (NARROW, {"CORUN_MODE": "observe"}):
            outcome = run([program("beside"), "7"], settings, report=True)
            if outcome.code == 77:
                self.skipTest("the machine is too busy to tell")
            self.assertEqual((outcome.out, outcome.err, outcome.code), (DONE, "", 0))
            [long_op] = [op for op in outcome.report["ops"] if op["name"] == "Long"]
            solo = sum(width["samples"] for width in long_op["widths"])  # at most 15 are kept
            self.assertLess(solo, 6, settings)


class Nested(Case):
    """Containers."""

    def text(self, call: str, first: str, then: str, inside: int, deep: int) -> str:
        return (f"call: {call}\nfirst: {first}\nthen: {then}\n3 deep: {inside}\n32 deep: {inside}\n"
                f"40 deep: {deep}\n{DONE}")

    def test_unchanged(self) -> None:
        free = f"{UNLIMITED} {UNLIMITED} {UNLIMITED}"
        out = self.text(free, free, free, UNLIMITED, UNLIMITED)
        self.expect([program("nested")], out, preload=False)
        self.expect([program("nested")], out, {"CORUN_MODE": "observe"})

    @needs_cpus
    def test_narrow(self) -> None:
        known = f"{UNLIMITED} 1 {UNLIMITED}"
        # An op that turns out to hold others gives its width back at once.
        out = self.text(known, f"1 1 {UNLIMITED}", known, 1, 1)
        self.expect([program("nested")], out, NARROW)


class Reborn(Case):
    """Freed kernels."""

    SMALL, LARGE = "(float[2,3])", "(float[64,64];float[64,64])"

    def expect_calls(self, out: str, settings: dict[str, str]) -> None:
        outcome = self.expect([program("reborn")], out, settings)
        self.assertEqual(calls(outcome.report), {
            "Even" + self.LARGE: 300, "Even" + self.SMALL: 600, "_MklOdd" + self.LARGE: 300,
            "_MklOdd" + self.SMALL: 600})
        self.assertEqual(finished_ops(outcome.report), 1800)

    def test_unchanged(self) -> None:
        self.expect([program("reborn")], f"narrowed 0 of 900\n{DONE}", preload=False)
        self.expect_calls(f"narrowed 0 of 900\n{DONE}", {"CORUN_MODE": "observe"})

    @needs_cpus
    def test_narrow(self) -> None:
        self.expect_calls(f"narrowed 900 of 900\n{DONE}", NARROW)


class Shapes(Case):
    """One kernel, many shapes."""

    def run_shapes(self, shapes: int, threads: int, rounds: int, settings: dict[str, str] | None = None) -> dict:
        command = [program("shapes"), str(shapes), str(threads), str(rounds)]
        outcome = self.expect(command, f"{shapes * threads * rounds} calls\n{DONE}", settings)
        self.assertEqual(finished_ops(outcome.report), shapes * threads * rounds + 1)
        return outcome.report

    def test_each_shape_is_a_key(self) -> None:
        for threads in (1, 4):
            for settings in ({}, {"CORUN_MODE": "observe"}, NARROW, {"CORUN_POLICY": "random"}):
                with self.subTest(threads=threads, settings=settings):
                    report = self.run_shapes(12, threads, 50, settings)
                    self.assertEqual(report["op_keys"], 12 + 1)
                    self.assertEqual(calls(report), {
                        f"MatMul(float[2,{n}];float[{n},3])": 50 * threads for n in range(1, 13)})

    def test_many_are_lumped(self) -> None:
        report = self.run_shapes(100, 1, 200)
        self.assertEqual(report["op_keys"], 64 + 1 + 1)
        self.assertEqual(calls(report).get("MatMul(varied)"), 36 * 200)

    def test_a_known_shape_is_not_lumped_later(self) -> None:
        # A second thread meets shapes that the first has named, after the names have run out.
        report = self.run_shapes(66, 2, 200, {"IN_TURN": "1"})
        self.assertEqual(report["op_keys"], 64 + 1 + 1)
        self.assertEqual(calls(report).get("MatMul(varied)"), 2 * 2 * 200)


class ManyKeys(Case):
    """More kinds than there is room for."""

    def test_table_is_full(self) -> None:
        for settings in ({}, {"CORUN_MODE": "observe"}, {"CORUN_POLICY": "random"}):
            with self.subTest(settings=settings):
                outcome = self.expect([program("many_keys"), "20000", "5"], f"100000 calls\n{DONE}", settings, err=None)
                self.assertEqual(finished_ops(outcome.report), 100000)
                # Ops without a place of their own must not be looked up anew in every call.
                cost = float(re.search(r"ns_per_op=(\d+)", outcome.err).group(1))
                self.assertLess(cost, 20000)

    def test_few_are_left_out(self) -> None:
        outcome = self.expect([program("many_keys"), "200", "20"], f"4000 calls\n{DONE}", err=None)
        self.assertEqual((outcome.report["op_keys"], finished_ops(outcome.report)), (200, 4000))


class Pools(Case):
    """Pool sizes."""

    def text(self, dispatch: int, compute: int, nobody_chose: int | None = None) -> str:
        """`nobody_chose`: threads of the dispatch pool where the program has left it to TensorFlow, which wants 4."""
        sizes = [("Compute", dispatch), ("numa_-1_Eigen", compute), ("tf_data_private_threadpool", 16),
                 ("numa_-1_EigenX", 16), ("Computer", 16)]
        pools = "".join(f"{name} 16: {size}\n{name} 1: 1\n" for name, size in sizes)
        chosen = min(4, dispatch)
        return f"{pools}set 0: {nobody_chose or chosen}\nset 4: {chosen}\n{DONE}"

    def test_uncapped(self) -> None:
        self.expect([program("pools")], self.text(16, 16), preload=False)
        for settings in ({"CORUN_POOL_CAP": "no"}, {"CORUN_MODE": "observe"}, {"CORUN_MODE": "off"}):
            self.expect([program("pools")], self.text(16, 16), settings | {"CORUN_CPUS": "1"})

    def test_capped(self) -> None:
        for first in ({}, {"OPS_FIRST": "1"}):
            outcome = self.expect([program("pools")], self.text(2, 1), first | {"CORUN_CPUS": "1"})
            effects = [lever["effect"] for lever in outcome.report["irreversible"]]
            self.assertEqual(effects, ["Compute 16 -> 2", "numa_-1_Eigen 16 -> 1", "Compute 4 -> 2"])

    def test_room_where_nobody_chose(self) -> None:
        """Ops that wait at the gate hold a thread each."""
        gate = {"CORUN_GATE": "on", "CORUN_CPUS": "1"}
        self.expect([program("pools")], self.text(2, 1, 4), gate)
        for more in ({"TF_NUM_INTEROP_THREADS": "4"}, {"CORUN_GATE": "auto"}, {"CORUN_GATE": "off"}):
            self.expect([program("pools")], self.text(2, 1), gate | more)
        for more in ({"CORUN_MODE": "observe"}, {"CORUN_POOL_CAP": "no"}):
            self.expect([program("pools")], self.text(16, 16), gate | more)

    @needs_cpus
    def test_capped_at_two(self) -> None:
        self.expect([program("pools")], self.text(2, 2), {"CORUN_CPUS": "2"})


class Errno(Case):
    """errno is the program's."""

    def test_errno(self) -> None:
        self.expect([program("keeps_errno")], DONE, preload=False)
        for settings in ALL_POLICIES:
            with self.subTest(settings=settings):
                self.expect([program("keeps_errno")], DONE, settings)


class OwnHeap(Case):
    """What we remember of ops lies in no heap of the program's: where that ends is up to the program."""

    def test_own_heap(self) -> None:
        self.expect([program("own_heap")], DONE, preload=False)
        for settings in ALL_POLICIES:
            with self.subTest(settings=settings):
                self.expect([program("own_heap")], DONE, settings)


class Early(Case):
    """Hooks that are entered before constructors of ours have run."""

    EARLY = f"early: 50 ops, pool of 6, limit {UNLIMITED}, untouched\n"

    def test_unchanged(self) -> None:
        for settings in ({}, {"CORUN_MODE": "observe"}, {"CORUN_MODE": "off"}):
            self.expect([program("early")], f"{self.EARLY}now an op sees {UNLIMITED}\n{DONE}", settings,
                        preload=bool(settings))

    @needs_cpus
    def test_tuned_afterwards(self) -> None:
        self.expect([program("early")], f"{self.EARLY}now an op sees 1\n{DONE}", NARROW)


class Churn(Case):
    """Thousands of short threads."""

    def test_churn(self) -> None:
        for settings in ({}, {"CORUN_POLICY": "random"}):
            outcome = self.expect([program("churn"), "5000"], f"5000 threads\n{DONE}", settings, err=None)
            self.assertEqual(finished_ops(outcome.report), 100001)
            self.assertEqual(calls(outcome.report), {"Shared(float[2,3])": 50000, "Own(float[2,3])": 50000})


class Unknown(Case):
    """Runtimes that are not known: said once, unharmed."""

    def refused(self, name: str, reason: str, settings: dict[str, str]) -> None:
        plain = run([program(name)], settings, preload=False)
        self.assertEqual((plain.code, plain.out), (3, "400 inputs\n"))
        under = run([program(name)], settings | NARROW, report=True)
        self.assertEqual((under.code, under.out), (plain.code, plain.out))
        self.assertRegex(under.err, rf"\Acorun: [^\n]*{reason}[^\n]*\n\Z")

    def test_layouts(self) -> None:
        for trap in ("zeros", "null", "number", "inputs", "tensors", "elements"):
            with self.subTest(trap):
                self.refused("other-layout", "layout", {"FAKE_TRAP": trap})

    def test_missing_symbol(self) -> None:
        self.refused("no-trace", "TraceString", {})

    def test_known(self) -> None:
        self.expect([program("basic")], "400 inputs\n", NARROW, code=3)


class Lookups(Case):
    """What an op is, is found out once a thread."""

    def test_lookups(self) -> None:
        self.expect([program("lookups")], DONE, preload=False, err="lookups=0\n")
        for settings in ({"CORUN_MODE": "observe"}, {"CORUN_POLICY": "random"}):
            with self.subTest(settings=settings):
                outcome = self.expect([program("lookups")], DONE, settings, err=None)
                self.assertEqual(outcome.report["op_keys"], 70)


class Hygiene(Case):
    """Programs without TensorFlow, byte for byte."""

    def test_programs(self) -> None:
        python = sys.executable
        child = "import subprocess; print(subprocess.run(['/bin/echo', 'k'], capture_output=True).stdout)"
        commands = [
            ["/bin/true"], ["/bin/false"], ["/bin/ls", "/nowhere"], ["/bin/ls", "/proc/self/fd"], ["/bin/sh", "-c", "seq 3 | tail -n 1"],
            ["/bin/bash", "-c", "echo hi; (echo sub); ulimit -a; trap; exit 4"],
            ["/bin/bash", "-c", "kill -9 $$"], ["/bin/bash", "-c", "exec 2>&-; ls / >/dev/null; echo ok"],
            ["/bin/bash", "-c", "ulimit -n 4; /bin/echo few"], ["/bin/bash", "-c", "ulimit -f 0; /bin/echo small"],
            ["env", "-i", "/bin/echo", "x"], ["env", "-C", "/", "/bin/pwd"],
            [python, "-c", child], [python, "-c", "import os; print(sorted(os.listdir('/proc/self/fd')))"],
            [python, "-c", "import threading; print(threading.active_count()); raise SystemExit(7)"],
            [python, "-c", "import os; os.abort()"],
            [python, "-c", "import ctypes; ctypes.CDLL(None).printf(b'c\\n'); 1/0"],
            [program("plain"), "one"], [program("plain-static"), "one"],
            ["/bin/sh", "-c", f"exec {program('plain')} closed <&- 2>&-"],
        ]
        for command in commands:
            with self.subTest(command=command):
                if shutil.which(command[0]):
                    self.same(command)

    def test_modes(self) -> None:
        # The settings show in the program's environment, so both have them.
        for settings in ({"CORUN_MODE": "off"}, {"CORUN_FOLLOW": "fork"}, {"CORUN_LOG": "debug"},
                         {"CORUN_PROFILE": "/nowhere/profile"}, {"CORUN_REPORT": "/nowhere/report.json"}):
            with self.subTest(settings=settings):
                plain = run([program("plain")], settings, preload=False)
                self.assertEqual(run([program("plain")], settings), plain)

    def test_setuid(self) -> None:
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("needs root and setpriv")
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            os.chmod(folder, 0o755)
            copy = Path(folder) / "setuid"
            shutil.copy(program("plain"), copy)
            copy.chmod(0o4755)
            drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            # The loader ignores a preload that a setuid program may not have, and says so itself.
            plain, under = run([*drop, str(copy)], preload=False), run([*drop, str(copy)])
            rest = "".join(line + "\n" for line in under.err.splitlines() if "ld.so" not in line)
            self.assertEqual((under.code, under.out, rest), (plain.code, plain.out, plain.err))

    def test_exit_of_a_program_with_threads_and_memory_limit(self) -> None:
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))

        self.same([program("plain")], preexec_fn=limit)

    def test_stderr_that_became_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data"
            command = ["/bin/sh", "-c", f"exec {program('late_stderr')} {data} 2>&-"]
            settings = {"CORUN_REPORT": "/nowhere/report.json", "CORUN_PROFILE": folder}
            self.assertEqual(run(command, settings).out, f"descriptor 2\n{DONE}")
            self.assertEqual(data.read_text(), "data\n")


def exported() -> set[str]:
    """The symbols that the library shows."""
    command = ["nm", "-D", "--defined-only", str(LIBRARY)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in listed.splitlines()}


class OptionsGroup(Case):
    """Bad options warn once and run on."""

    def warned(self, settings: dict[str, str], pattern: str, times: int = 1) -> None:
        outcome = run([program("basic")], settings)
        self.assertEqual((outcome.code, outcome.out), (3, "400 inputs\n"))
        lines = outcome.err.splitlines()
        self.assertEqual(len(lines), times, outcome.err)
        for line in lines:
            self.assertRegex(line, f"^corun: .*{pattern}")

    def test_bad_values(self) -> None:
        self.warned({"CORUN_MODE": "tun"}, "CORUN_MODE=tun .*did you mean tune")
        self.warned({"CORUN_CPUS": "many"}, "CORUN_CPUS=many")
        self.warned({"CORUN_CPUS": "-3"}, "CORUN_CPUS=-3")
        self.warned({"CORUN_POLICY": "uniform-"}, "CORUN_POLICY")
        self.warned({"CORUN_POLICY": "x" * 5000}, "CORUN_POLICY")
        self.warned({"CORUN_REPORT": "/" + "x" * 5000}, "CORUN_REPORT")

    def test_without_effect(self) -> None:
        if "GOMP_parallel" in exported():
            self.warned({"CORUN_OPENMP": "adaptive"}, "needs libcorun-adaptive.so.*corun run")
        else:
            self.warned({"CORUN_OPENMP": "safe"}, "no OpenMP hooks.*corun run")
            self.warned({"CORUN_HOOKS": "tensorflow,openmp"}, "no OpenMP hooks")

    def test_unknown_name(self) -> None:
        self.warned({"CORUN_MODUS": "tune"}, "CORUN_MODUS is not an option.*did you mean CORUN_MODE")
        self.warned({"CORUN_": "1"}, "CORUN_ is not an option")

    def test_every_fault_once(self) -> None:
        self.warned({"CORUN_MODUS": "1", "CORUN_CPUS": "x", "CORUN_LOG": "info"}, "CORUN_", times=2)

    def test_flood_is_capped(self) -> None:
        outcome = run([program("basic")], {f"CORUN_UNKNOWN_{i}": "1" for i in range(200)})
        self.assertEqual((outcome.code, outcome.out), (3, "400 inputs\n"))
        self.assertLessEqual(len(outcome.err.splitlines()), 20)

    def test_quiet(self) -> None:
        outcome = run([program("basic")], {"CORUN_LOG": "quiet", "CORUN_MODE": "tun", "CORUN_X": "1"})
        self.assertEqual((outcome.code, outcome.out, outcome.err), (3, "400 inputs\n", ""))

    def test_bad_option_without_tensorflow(self) -> None:
        outcome = run(["/bin/echo", "x"], {"CORUN_MODE": "tun"})
        self.assertEqual((outcome.code, outcome.out, outcome.err.count("\n")), (0, "x\n", 1))

    def test_closed_stderr(self) -> None:
        command = ["/bin/sh", "-c", f"exec {program('basic')} 2>&-"]
        outcome = run(command, {"CORUN_MODE": "tun", "CORUN_REPORT": "/nowhere/x"})
        self.assertEqual((outcome.code, outcome.out), (3, "400 inputs\n"))


class Files(Case):
    """Profiles that cannot be read, reports that cannot be written."""

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)

    def warned_once(self, settings: dict[str, str], pattern: str) -> Outcome:
        outcome = run([program("basic"), "200"], settings)
        self.assertEqual((outcome.code, outcome.out), (3, "800 inputs\n"), outcome.err)
        self.assertRegex(outcome.err, rf"\Acorun: [^\n]*{pattern}[^\n]*\n\Z")
        return outcome

    def test_profile(self) -> None:
        profile = self.path / "profile"
        good = run([program("basic"), "200"], {"CORUN_PROFILE": str(profile)})
        self.assertEqual((good.err, profile.exists()), ("", True))
        whole = profile.read_bytes()
        again = run([program("basic"), "200"], {"CORUN_PROFILE": str(profile)})
        self.assertEqual((again.code, again.err), (3, ""))
        broken = {
            "empty": b"", "garbage": random.Random(1).randbytes(4000), "half": whole[:len(whole) // 2],
            "less": whole[:-3], "flipped": whole[:len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) +
            whole[len(whole) // 2 + 1:], "long": b"[" * 100000,
        }
        for name, content in broken.items():
            with self.subTest(name):
                profile.write_bytes(content)
                self.warned_once({"CORUN_PROFILE": str(profile)}, "profile")
                self.assertEqual(run([program("basic"), "200"], {"CORUN_PROFILE": str(profile)}).err, "")
        self.assertLessEqual({p.name for p in self.path.iterdir()}, {"profile", "profile.old"})

    def test_profile_is_a_folder(self) -> None:
        outcome = run([program("basic"), "200"], {"CORUN_PROFILE": self.folder.name})
        self.assertEqual((outcome.code, outcome.out), (3, "800 inputs\n"))
        self.assertEqual(outcome.err.count("\n"), 1, outcome.err)

    def test_report_to_nowhere(self) -> None:
        for path in ("/nowhere/report.json", "/nowhere/report.txt", "/proc/report.json", self.folder.name):
            with self.subTest(path):
                self.warned_once({"CORUN_REPORT": path}, "report")
        self.assertEqual(list(self.path.iterdir()), [])

    def limited(self, size: int, settings: dict[str, str]) -> Outcome:
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        return run([program("basic"), "200"], settings, preexec_fn=limit)

    def test_file_size_limit(self) -> None:
        # The limit's signal would end a program that itself writes nothing.
        for size in (0, 100, 1000, 5000):
            with self.subTest(size):
                plain = self.limited(size, {"LD_PRELOAD": ""})
                self.assertEqual(self.limited(size, {}), plain)
                under = self.limited(size, {"CORUN_PROFILE": str(self.path / "p"), "CORUN_REPORT": str(self.path / "r.json")})
                self.assertEqual((under.code, under.out), (3, "800 inputs\n"))
                for path in self.path.iterdir():
                    self.assertIn(path.name, ("p", "r.json"))
                    path.unlink()

    def test_report_that_does_not_fit_leaves_the_old_one(self) -> None:
        report = self.path / "r.json"
        settings = {"CORUN_REPORT": str(report)}
        run([program("basic"), "200"], settings)
        whole = report.read_bytes()
        under = self.limited(1000, settings)
        self.assertEqual((under.code, under.err.count("\n")), (3, 1), under.err)
        self.assertEqual(report.read_bytes(), whole)
        self.assertEqual([p.name for p in self.path.iterdir()], ["r.json"])

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount")
    def test_no_room_for_shared_memory(self) -> None:
        # The first write into a file that was only made longer would end the program.
        full = "mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero > /dev/shm/full && exec \"$@\""
        command = ["unshare", "--mount", "sh", "-c", full, "sh", program("basic"), "200"]
        if subprocess.run([*command[:5], "sh", "true"], capture_output=True, check=False).returncode:
            self.skipTest("nothing can be mounted here")
        for settings in ({}, {"CORUN_NODE": "auto"}):
            outcome = run(command, settings)
            self.assertEqual((outcome.code, outcome.out), (3, "800 inputs\n"), outcome.err)

    def test_report_texts(self) -> None:
        for name in ("report.txt", "report.json", "report-%p.json"):
            self.expect([program("basic")], "400 inputs\n", {"CORUN_REPORT": str(self.path / name)}, code=3, report=False)
        names = sorted(p.name for p in self.path.iterdir())
        self.assertEqual(len(names), 3, names)
        self.assertNotIn("%p", "".join(names))


class Kill(Case):
    """Killed at any moment: a whole report or none."""

    def start(self, folder: str, *arguments: str, **settings: str) -> subprocess.Popen:
        process = subprocess.Popen([program("forever"), *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   env=environment({"CORUN_REPORT": f"{folder}/report.json"} | settings, True))
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), b"begun\n")
        return process

    def end(self, process: subprocess.Popen, timeout: float = 20) -> int:
        try:
            process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fail("it hangs")
        page = Path(f"/dev/shm/corun-{os.geteuid()}-{process.pid}-{os.stat('/proc/self/ns/pid').st_ino}")
        if process.returncode < 0:
            page.unlink(missing_ok=True)  # killed: nobody could remove it
        self.assertFalse(page.exists(), "a page is left behind")
        return process.returncode

    def whole_or_none(self, folder: str) -> bool:
        report = Path(folder) / "report.json"
        if not report.exists():
            return False
        self.assertEqual(json.loads(report.read_text())["schema"], "corun-report")
        report.unlink()
        return True

    def test_in_the_middle(self) -> None:
        chance = random.Random(1)
        with tempfile.TemporaryDirectory() as folder:
            for number in range(16):
                process = self.start(folder, "10", "2")
                time.sleep(chance.uniform(0, 0.1))
                process.send_signal(signal.SIGKILL if number % 2 else signal.SIGTERM)
                self.assertLess(self.end(process), 0)
                self.assertFalse(self.whole_or_none(folder))

    def test_while_it_ends(self) -> None:
        chance = random.Random(2)
        finished = 0
        with tempfile.TemporaryDirectory() as folder:
            for number in range(60):
                process = self.start(folder, "0.03")
                time.sleep(0.03 + chance.uniform(-0.002, 0.012))
                process.send_signal(signal.SIGKILL if number % 2 else signal.SIGTERM)
                code = self.end(process)
                if self.whole_or_none(folder):
                    finished += 1
                elif code == 0:
                    self.fail("ended as usual without a report")
        print(f"{finished} of 60 had written their report", file=sys.stderr)

    def test_exit_from_a_handler(self) -> None:
        chance = random.Random(3)
        with tempfile.TemporaryDirectory() as folder:
            for number in range(60):
                kernels = "8000" if number % 2 else "3"
                process = self.start(folder, "20", "1", EXIT_FROM_HANDLER="1", KERNELS=kernels)
                time.sleep(chance.uniform(0, 0.05))
                process.send_signal(signal.SIGTERM)
                self.assertEqual(self.end(process), 9)
                self.whole_or_none(folder)
                for path in Path(folder).iterdir():
                    self.fail(f"left behind: {path.name}")

    def test_pages_are_removed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            process = self.start(folder, "0.3")
            page_of(process.pid)
            self.assertEqual(self.end(process), 0)  # which looks for the page
            self.assertTrue(self.whole_or_none(folder))


    def test_the_profile_is_there_before_the_end(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            profile = Path(folder) / "profile"
            process = self.start(folder, "60", CORUN_PROFILE=str(profile))
            for _ in range(500):
                if profile.exists():
                    break
                time.sleep(0.1)
            process.send_signal(signal.SIGKILL)
            self.assertLess(self.end(process), 0)
            self.assertTrue(profile.exists(), "nothing was decided in 50 s, or nothing was written")
            page = Path(f"/dev/shm/corun-{os.geteuid()}-{process.pid}-{os.stat('/proc/self/ns/pid').st_ino}")
            page.touch()  # as it was
            self.assertEqual(run([program("basic")], {"CORUN_PROFILE": str(profile)}).err, "")
            self.assertFalse(page.exists(), "the next program removes what a killed one has left")


class Interrupted(Case):
    """Signals and cancellations that arrive inside our own code."""

    def test_exit(self) -> None:
        self.same([program("interrupted"), "exit"])
        self.expect([program("interrupted"), "exit"], "", code=9, report=False)

    def test_cancel(self) -> None:
        for how in ("cancel", "asynchronous"):
            self.same([program("interrupted"), how])
            self.expect([program("interrupted"), how], DONE, report=False)


class Fork(Case):
    """fork, and fork and exec."""

    def text(self, parent: int, child: int) -> str:
        return (f"parent before: outside {UNLIMITED}, inside {parent}\nchild: outside {UNLIMITED}, inside {child}\n"
                f"child ended with 5\nparent after: outside {UNLIMITED}, inside {parent}\n{DONE}")

    def test_unchanged(self) -> None:
        self.expect([program("forks"), "once"], self.text(UNLIMITED, UNLIMITED), preload=False)
        for settings in ({}, {"CORUN_MODE": "observe", "CORUN_FOLLOW": "fork"}):
            self.expect([program("forks"), "once"], self.text(UNLIMITED, UNLIMITED), {"CORUN_MODE": "observe"} | settings)

    @needs_cpus
    def test_child_is_left_alone_unless_asked(self) -> None:
        self.expect([program("forks"), "once"], self.text(1, UNLIMITED), NARROW)
        self.expect([program("forks"), "once"], self.text(1, 1), NARROW | {"CORUN_FOLLOW": "fork"})

    @needs_cpus
    def test_inside_an_op(self) -> None:
        def text(parent: int, child: int) -> str:
            return (f"child: outside {UNLIMITED}, inside {child}\nchild ended with 5\n"
                    f"parent: outside {UNLIMITED}, inside {parent}\n{DONE}")

        self.expect([program("forks"), "inside"], text(UNLIMITED, UNLIMITED), preload=False)
        self.expect([program("forks"), "inside"], text(1, UNLIMITED), NARROW)
        self.expect([program("forks"), "inside"], text(1, 1), NARROW | {"CORUN_FOLLOW": "fork"})

    def test_report_is_the_parents(self) -> None:
        for follow, name, reports in (("no", "r.json", 1), ("exec", "r.json", 1), ("fork", "r.json", 1),
                                      ("fork", "r-%p.json", 2)):
            with self.subTest(follow=follow, name=name), tempfile.TemporaryDirectory() as folder:
                # The child outlives the parent, so a report of its own would come last.
                path = Path(folder) / name
                outcome = run([program("forks"), "outlive"], {"CORUN_FOLLOW": follow, "CORUN_REPORT": str(path)})
                self.assertEqual((outcome.code, outcome.err), (0, ""))
                ops = sorted(finished_ops(json.loads(p.read_text())) for p in Path(folder).iterdir())
                self.assertEqual(ops, [50, 100][:reports])

    @needs_cpus
    def test_exec(self) -> None:
        def text(seen: int, parent: int) -> str:
            return (f"exec'd: inside {seen}\nchild ended with 4\n"
                    f"parent: outside {UNLIMITED}, inside {parent}\n{DONE}")

        command = [program("forks"), "exec", program("say")]
        self.expect(command, text(UNLIMITED, UNLIMITED), preload=False)
        self.expect(command, text(1, 1), NARROW)
        self.expect(command, text(UNLIMITED, 1), NARROW | {"CORUN_FOLLOW": "no"})


class ForkStress(Case):
    """fork while other threads are everywhere inside the library."""

    def test_stress(self) -> None:
        for follow, times in (("exec", 500), ("fork", 2000)):
            with self.subTest(follow):
                settings = {"CORUN_FOLLOW": follow, "CORUN_POLICY": "random"}
                self.expect([program("forks"), "stress", str(times)], f"{times} forks, 0 bad\n{DONE}", settings, timeout=170)


class Control(Case):
    """A running program is told to stand down and to come back."""

    def test_off_and_on(self) -> None:
        for mode in ("observe", "tune"):
            with self.subTest(mode):
                self.off_and_on(mode)

    def off_and_on(self, mode: str) -> None:
        process = subprocess.Popen([program("forever"), "4", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment({"CORUN_MODE": mode}, True))
        try:
            self.assertEqual(process.stdout.readline(), b"begun\n")
            with page_of(process.pid) as page:
                for command in ("off", "on", "off", "on"):
                    page.command(command)
                    self.assertTrue(page.wait_obeyed(command, seconds=1.0), f"{command} is not obeyed")
                    time.sleep(0.2)
                deadline = time.monotonic() + 2.5
                while "open_scopes" not in page.status() and time.monotonic() < deadline:
                    time.sleep(0.05)
                self.assertIn(page.status().get("open_scopes"), range(3))
        finally:
            _, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, err.count(b"\n")), (0, 1), err)
        self.assertFalse(Path(f"/dev/shm/corun-{os.geteuid()}-{process.pid}-{os.stat('/proc/self/ns/pid').st_ino}").exists())

    def test_ops_are_counted_while_on(self) -> None:
        def counted(off_seconds: float) -> tuple[int, int]:
            with tempfile.TemporaryDirectory() as folder:
                report = Path(folder) / "r.json"
                process = subprocess.Popen(
                    [program("forever"), "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    env=environment({"CORUN_REPORT": str(report)} | NARROW, True))
                self.assertEqual(process.stdout.readline(), "begun\n")
                if off_seconds:
                    with page_of(process.pid) as page:
                        page.command("off")
                        self.assertTrue(page.wait_obeyed("off", seconds=1.0))
                        time.sleep(off_seconds)
                        page.command("on")
                        self.assertTrue(page.wait_obeyed("on", seconds=1.0))
                _, err = process.communicate(timeout=30)
                all_ops = int(re.search(r"ops=(\d+)", err).group(1))
                return finished_ops(json.loads(report.read_text())), all_ops + 30

        seen, all_ops = counted(0.0)
        self.assertEqual(seen, all_ops)
        seen, all_ops = counted(1.5)
        self.assertGreater(seen, all_ops * 0.1)
        self.assertLess(seen, all_ops * 0.8)


class Exports(Case):
    """What the library shows of itself and what it needs."""

    def tool(self, *command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def test_exports(self) -> None:
        defined = exported()
        wanted = set()
        openmp = ("gomp", "kmp", "loader") if "GOMP_parallel" in defined else ()
        for name in ("cpus", "tensorflow", "torch", *openmp):
            source = Path(__file__).parents[2] / "shim" / f"{name}_symbols.h"
            hooked = "".join(part.split("#define", 1)[0] for part in source.read_text().split("_HOOKED(X)")[1:])
            wanted |= set(re.findall(r'X\(\w+,\s*"([^"]+)"', hooked))
        # BLAS and LAPACK, whose names are made from lists: blas/run_blas_victims.py knows them.
        self.assertEqual({name for name in defined if not BLAS_NAME.fullmatch(name)}, wanted)

    def test_needed(self) -> None:
        needed = set(re.findall(r"NEEDED.*\[(.+)\]", self.tool("readelf", "-d", str(LIBRARY))))
        self.assertIn("libgcc_s.so.1", needed)
        allowed = {"libgcc_s.so.1", "libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libdl.so.2", "libpthread.so.0"}
        self.assertLessEqual(needed, allowed)


GROUPS = {
    "unwind": Unwind, "width": Width, "asked": Asked, "beside": Beside, "late-thread": LateThread, "primitives": Primitives, "nested": Nested, "reborn": Reborn, "shapes": Shapes,
    "many-keys": ManyKeys, "pools": Pools, "errno": Errno, "own-heap": OwnHeap, "early": Early, "churn": Churn, "unknown": Unknown, "lookups": Lookups,
    "hygiene": Hygiene, "options": OptionsGroup, "files": Files, "kill": Kill, "interrupted": Interrupted, "fork": Fork,
    "fork-stress": ForkStress, "control": Control, "exports": Exports,
}


def main() -> None:
    """Runs the groups named, or all."""
    global LIBRARY, FOLDER
    if len(sys.argv) < 3 or set(sys.argv[3:]) - set(GROUPS):
        sys.exit(f"{__doc__}\ngroups: {' '.join(GROUPS)}")
    LIBRARY, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(GROUPS[name]) for name in sys.argv[3:] or GROUPS)
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
