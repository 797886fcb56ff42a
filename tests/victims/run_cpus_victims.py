#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a program is told of the machine's CPUs below a quota, by victims that ask in every way.

    run_cpus_victims.py LIBCORUN VICTIM_DIR [GROUP...]
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import run_victims as victims
from run_victims import CPUS, DONE, UNLIMITED, needs_cpus, program, run

ONLINE = (Path("/sys/devices/system/cpu/online")).read_text()
POSSIBLE = (Path("/sys/devices/system/cpu/possible")).read_text()
KERNEL_MAX = (Path("/sys/devices/system/cpu/kernel_max")).read_text()
MASK = sorted(os.sched_getaffinity(0))
CONFIGURED = os.sysconf("SC_NPROCESSORS_CONF")
OPENS = ("open", "open64", "openat", "openat64", "open_2", "open64_2", "openat_2", "openat64_2", "fopen", "fopen64")


class Case(victims.Case):
    """A quota of one CPU, in a folder that looks like the kernel's."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.root = Path(holder.name)
        self.quota(1)

    def quota(self, cpus: float) -> None:
        """Whichever version the kernel puts this process into."""
        (self.root / "cpu").mkdir(exist_ok=True)
        (self.root / "cpu" / "cpu.cfs_quota_us").write_text(f"{int(cpus * 100000)}\n")
        (self.root / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
        (self.root / "cpu.max").write_text(f"{int(cpus * 100000)} 100000\n")

    @staticmethod
    def member(controller: str) -> bool:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        return any(controller in line.split(":")[1].split(",") for line in lines)

    def limited(self, **more: str) -> dict[str, str]:
        return {"CORUN_CGROUP_ROOT": str(self.root), **more}

    def says(self, what: str, settings: dict[str, str], preload: bool = True) -> str:
        outcome = run([program("cpus"), what], settings, preload=preload)
        self.assertEqual((outcome.code, outcome.err), (0, ""), outcome.out)
        self.assertTrue(outcome.out.endswith(DONE), outcome.out)
        return outcome.out.removesuffix(DONE)


def answers(mask: list[int], online: int, listed: str, processors: int) -> str:
    lines = [f"{name} {len(mask)}: {' '.join(map(str, mask))}" for name in ("mask", "mask by pid", "mask of thread")]
    lines += [f"online {online} {online}, configured {CONFIGURED} {CONFIGURED}"]
    lines += [f"{name} {listed}".rstrip("\n") for name in (*OPENS, "present")]
    lines += [f"possible {POSSIBLE}".rstrip("\n"), f"kernel_max {KERNEL_MAX}".rstrip("\n"), f"cpuinfo {processors} processors"]
    return "\n".join(lines) + "\n"


class Asks(Case):
    """Every way to ask has the same answer, and it is the truth where nothing limits the process."""

    @needs_cpus
    def test_the_truth(self) -> None:
        plain = self.says("asks", {}, preload=False)
        self.assertIn(f"mask {CPUS}:", plain)
        self.quota(1)
        for settings in ({}, self.limited(CORUN_CPU_VIEW="no"), self.limited(CORUN_MODE="off"),
                         self.limited(CORUN_MODE="observe"), self.limited(CORUN_HOOKS="none"), {"CORUN_CPU_VIEW": "yes"}):
            with self.subTest(settings=settings):
                self.assertEqual(self.says("asks", settings), plain)
        self.quota(CPUS)
        self.assertEqual(self.says("asks", self.limited()), plain)

    @needs_cpus
    def test_the_budget(self) -> None:
        seen = set()
        for settings in (self.limited(), {"CORUN_CPUS": "1"}, self.limited(CORUN_CPU_VIEW="yes")):
            out = self.says("asks", settings)
            cpu = int(re.match(r"mask 1: (\d+)\n", out).group(1))
            self.assertIn(cpu, MASK)
            self.assertEqual(out, answers([cpu], 1, f"{cpu}\n", 1))
            seen.add(cpu)
        # Not the lowest for everybody: ten programs in a row all on one CPU would be a chance of 1 in 500.
        for _ in range(10):
            seen.add(int(re.match(r"mask 1: (\d+)\n", self.says("asks", self.limited())).group(1)))
        self.assertGreater(len(seen), 1)

    @needs_cpus
    @unittest.skipUnless(os.geteuid() == 0, "only root can make a PID namespace")
    def test_containers_have_the_same_pids(self) -> None:
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
            self.skipTest("no PID namespace can be made here")
        started = [subprocess.Popen([*unshare, "sh", "-c", f"{program('cpus')} asks; sleep 60"], stdout=subprocess.PIPE,
                                    env=victims.environment(self.limited(), True), text=True) for _ in range(12)]
        seen = {process.stdout.readline() for process in started}
        for process in started:
            process.kill()
            process.communicate()
        self.assertGreater(len(seen), 1, seen)

    @needs_cpus
    def test_a_mask_alone(self) -> None:
        cpu = MASK[1]
        pinned = ["taskset", "-c", str(cpu), program("cpus"), "asks"]
        plain = run(pinned, preload=False)
        self.assertEqual(run(pinned, {}).out, plain.out)
        self.assertEqual(run(pinned, {"CORUN_CPU_VIEW": "yes"}).out, answers([cpu], 1, f"{cpu}\n", 1) + DONE)

    @needs_cpus
    def test_nproc(self) -> None:
        self.assertEqual(run(["nproc"], self.limited()).out, "1\n")
        self.assertEqual(run(["nproc"], self.limited(CORUN_FOLLOW="no")).out, "1\n")
        self.assertEqual(run(["sh", "-c", "nproc"], self.limited()).out, "1\n")
        self.assertEqual(run(["sh", "-c", "nproc"], self.limited(CORUN_FOLLOW="no")).out, f"{CPUS}\n")
        self.assertEqual(run(["nproc", "--all"], self.limited()).out, f"{CONFIGURED}\n")


class Uses(Case):
    """What programs do with the answers."""

    @needs_cpus
    def test_early(self) -> None:
        self.assertEqual(self.says("early", self.limited()), f"first {CPUS}, early 1 1, then 1 1\n")

    @needs_cpus
    def test_an_allocator_counts_cpus(self) -> None:
        for settings in ({}, self.limited(), {"CORUN_MODE": "off"}):
            outcome = run([program("allocates")], settings)
            self.assertEqual((outcome.out, outcome.code), ("counted: yes, entered again 0 times\n", 0), settings)

    @needs_cpus
    def test_pins(self) -> None:
        out = self.says("pins", self.limited())
        everywhere = f"a thread has {CPUS}: {' '.join(map(str, MASK))}\n"
        self.assertRegex(out, rf"\A{everywhere}a pinned one has 1: \d+\n\Z")

    @needs_cpus
    def test_indexes(self) -> None:
        self.assertEqual(self.says("indexes", {}), f"told of {CPUS}, on one beyond 0 times\n")
        self.assertEqual(self.says("indexes", self.limited()), "told of 1, on one beyond 0 times\n")

    def test_files(self) -> None:
        for settings in ({}, self.limited(), {"CORUN_MODE": "off"}):
            self.says("files", settings)
        self.says("files", {}, preload=False)

    @needs_cpus
    def test_refused(self) -> None:
        outcome = run([program("cpus"), "refused"], self.limited())
        if outcome.code == 77:
            self.skipTest("no seccomp filter may be set here")
        self.assertEqual((outcome.out, outcome.code), (f"online {ONLINE}{DONE}", 0))

    @needs_cpus
    def test_forks(self) -> None:
        for follow in ("exec", "fork", "no"):
            self.assertEqual(self.says("forks", self.limited(CORUN_FOLLOW=follow)), "")

    def test_interrupted(self) -> None:
        self.assertEqual(self.says("interrupted", self.limited()), "")

    @needs_cpus
    def test_follows(self) -> None:
        for name in ("cpu/cpu.cfs_quota_us", "cpu.max"):
            if not self.member("cpu" if name.startswith("cpu/") else ""):
                continue
            self.quota(1)
            for other in {"cpu/cpu.cfs_quota_us", "cpu.max"} - {name}:
                (self.root / other).unlink(missing_ok=True)
            outcome = run([program("cpus"), "follows", str(self.root / name)], self.limited())
            self.assertEqual(outcome.out, f"told of 1, then of 2\n{DONE}")
            return


class Budget(Case):
    """Ops follow a quota that changes while they run."""

    def told(self, *quotas: str, **settings: str) -> tuple[str, dict]:
        if not self.member("cpu"):
            self.skipTest("no cgroup of version 1 has a CPU controller here")
        (self.root / "cpu.max").unlink()
        self.quota(CPUS)
        command = [program("budget"), str(self.root / "cpu" / "cpu.cfs_quota_us"), *quotas]
        outcome = run(command, self.limited(CORUN_POLICY="pass-through", **settings), report=True)
        self.assertEqual((outcome.code, outcome.err), (0, ""), outcome.out)
        return outcome.out, outcome.report["budget"]

    @needs_cpus
    def test_down_and_up(self) -> None:
        out, budget = self.told("1", "0.5", str(CPUS), "1")
        self.assertEqual(out, f"at first {UNLIMITED}\n1 CPUs: 1\n0.5 CPUs: -1\n{CPUS} CPUs: {UNLIMITED}\n1 CPUs: 1\n{DONE}")
        self.assertEqual([change["cpus"] for change in budget["changes"]], [CPUS, 1, CPUS, 1])
        self.assertEqual({change["limit"] for change in budget["changes"][1:]} - {"affinity"}, {"quota"})
        self.assertEqual((budget["cpus"], budget["quota"]), (1, 1.0))

    @needs_cpus
    def test_what_does_not_follow(self) -> None:
        for settings in ({"CORUN_REPRODUCIBLE": "1"}, {"CORUN_MODE": "observe"}):
            out, _ = self.told("1", **settings)
            self.assertEqual(out, f"at first {UNLIMITED}\n1 CPUs: -1\n{DONE}", settings)


GROUPS = {"asks": Asks, "uses": Uses, "budget": Budget}


def main() -> None:
    """Runs the groups named, or all."""
    if len(sys.argv) < 3 or set(sys.argv[3:]) - set(GROUPS):
        sys.exit(f"{__doc__}\ngroups: {' '.join(GROUPS)}")
    victims.LIBRARY, victims.FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(GROUPS[name]) for name in sys.argv[3:] or GROUPS)
    sys.exit(not unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful())


if __name__ == "__main__":
    main()
