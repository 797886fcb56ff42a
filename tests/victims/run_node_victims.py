#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that share a machine (CORUN_NODE=auto): what each gets, and what no other program and no damaged file may do.

    run_node_victims.py LIBCORUN VICTIM_DIR [GROUP...]      CYCLES=1000: starts and kills of the group "cycles"

Needs two CPUs. How fast things happen is not judged here, but that they do.
"""

import contextlib
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import node_file

LIBRARY = Path()
FOLDER = Path()
ALL = 1000000
PATIENCE = 30.0
CPUS = len(os.sched_getaffinity(0))


class Neighbour:
    """The victim, and the lines that it has written so far."""

    def __init__(self, folder: str, wrapper: tuple[str, ...] = (), **settings: str) -> None:
        base = {k: v for k, v in os.environ.items() if not k.startswith("CORUN_") and k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
        base |= {"CORUN_NODE": "auto", "CORUN_NODE_FOLDER": folder, "CORUN_POLICY": "pass-through"} | settings
        words = [*wrapper, "env", f"LD_PRELOAD={LIBRARY}", str(FOLDER / "victim-neighbour")]
        self.process = subprocess.Popen(words, env=base, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, bufsize=1)
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.strip())

    def wait(self, line: str, seconds: float = PATIENCE) -> None:
        """Until it has written this line; what comes before it is passed over."""
        end = time.monotonic() + seconds
        while True:
            try:
                if self.lines.get(timeout=max(0.01, end - time.monotonic())) == line:
                    return
            except queue.Empty:
                raise AssertionError(f"no '{line}' (exit code {self.process.poll()})") from None

    def has(self, width: int) -> None:
        self.wait(f"width {width}")

    def stays(self, seconds: float) -> None:
        """Nothing is written for so long."""
        time.sleep(seconds)
        if not self.lines.empty():
            raise AssertionError(f"'{self.lines.get()}' was written")

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")

    def end(self) -> str:
        """What it has written on stderr."""
        self.tell("end")
        self.wait("ended 0")
        self.process.stdin.close()
        error = self.process.stderr.read()
        code = self.process.wait(PATIENCE)
        if code != 0:
            raise AssertionError(f"exit code {code}: {error}")
        return error

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


@unittest.skipIf(CPUS < 2, "needs two CPUs")
class Case(unittest.TestCase):
    """Each test has a folder of its own, in which no one else meets."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, *arguments: str, **settings: str) -> Neighbour:
        one = Neighbour(self.folder, arguments, **settings)
        self.addCleanup(one.kill)
        return one

    def two(self) -> tuple[Neighbour, Neighbour]:
        """A pair in which each has its share."""
        one = self.start()
        one.has(ALL)
        other = self.start()
        one.has(1)
        other.has(1)
        return one, other

    def held_by(self, *processes: Neighbour) -> None:
        """Sooner or later the slots are held by these and nobody else."""
        pids = sorted(one.process.pid for one in processes)
        deadline = time.monotonic() + PATIENCE
        while sorted(node_file.held(self.folder)) != pids and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(sorted(node_file.held(self.folder)), pids)


class Share(Case):
    """Two share, one has everything."""

    def test_end(self) -> None:
        one, other = self.two()
        self.assertEqual(other.end(), "")
        one.has(ALL)
        self.assertEqual(one.end(), "")
        self.assertEqual(os.listdir(self.folder), [])

    def test_three(self) -> None:
        one, other = self.two()
        third = self.start()
        third.has(1)
        other.kill()
        third.kill()
        one.has(ALL)

    def test_kill(self) -> None:
        one, other = self.two()
        other.kill()
        one.has(ALL)
        self.held_by(one)

    def test_stop_and_continue(self) -> None:
        one, other = self.two()
        other.process.send_signal(signal.SIGSTOP)
        one.has(ALL)
        other.process.send_signal(signal.SIGCONT)
        one.has(1)

    def test_pause(self) -> None:
        one, other = self.two()
        other.tell("pause")
        one.has(ALL)
        other.tell("go")
        one.has(1)

    def test_who_does_next_to_nothing(self) -> None:
        one, other = self.two()
        other.tell("light")
        one.has(ALL)
        other.tell("heavy")
        one.has(1)

    def test_off(self) -> None:
        one = self.start()
        one.has(ALL)
        other = self.start(CORUN_NODE="no")
        other.has(ALL)
        one.stays(1.0)
        self.held_by(one)

    def test_what_is_frozen_keeps_its_widths(self) -> None:
        for settings in ({"CORUN_MODE": "observe"}, {"CORUN_REPRODUCIBLE": "1"}):
            one = self.start()
            one.has(ALL)
            other = self.start(**settings)
            other.has(ALL)
            one.has(1)
            other.stays(1.0)
            other.kill()
            one.kill()


class Children(Case):
    """fork and exec."""

    def test_fork(self) -> None:
        one, other = self.two()
        other.tell("fork")
        time.sleep(0.5)
        self.held_by(one, other)
        other.kill()  # the child lives on for a second
        one.has(ALL)

    def test_followed_fork(self) -> None:
        one = self.start(CORUN_FOLLOW="fork")
        one.has(ALL)
        one.tell("fork")
        one.has(1)
        self.assertEqual(len(node_file.held(self.folder)), 2)
        one.kill()

    def test_exec(self) -> None:
        one, other = self.two()
        other.tell("exec")
        other.has(1)
        time.sleep(0.5)
        self.held_by(one, other)
        other.end()
        one.has(ALL)


class Damage(Case):
    """What may lie there instead: one message at most, and the program runs as it would alone."""

    def path(self) -> Path:
        return node_file.path_in(self.folder)

    def refused(self, what: str) -> None:
        for _ in range(2):
            one = self.start()
            one.has(ALL)
            one.stays(0.5)
            error = one.end()
            self.assertEqual(error.count("\n"), 1, error)
            self.assertIn(str(self.path()), error)
            self.assertIn(what, error)
        self.assertTrue(os.path.lexists(self.path()))

    def test_random_bytes(self) -> None:
        for size in (1, 511, 512, 5000, 200000):
            content = random.Random(size).randbytes(size)
            self.path().write_bytes(content)
            self.path().chmod(0o600)
            self.refused("is damaged")
            self.assertEqual(self.path().read_bytes(), content)

    def test_random_slots(self) -> None:
        self.path().write_bytes(node_file.header() + random.Random(1).randbytes(40000))
        self.path().chmod(0o600)
        one = self.start()
        one.has(ALL)
        other = self.start()
        one.has(1)
        other.kill()
        one.has(ALL)
        self.assertEqual(one.end(), "")

    def test_another_version(self) -> None:
        for content in (node_file.header(version=2), node_file.header(slot_bytes=256)):
            self.path().write_bytes(content)
            self.path().chmod(0o600)
            self.refused("another version")

    def test_another_boot(self) -> None:
        self.path().write_bytes(node_file.header(boot="of yesterday") + node_file.slot(7, pid=os.getpid()))
        self.path().chmod(0o600)
        one = self.start()
        one.has(ALL)
        one.stays(0.5)
        self.held_by(one)

    def test_mode(self) -> None:
        self.path().write_bytes(node_file.header())
        self.path().chmod(0o666)
        self.refused("private")

    def test_link(self) -> None:
        target = Path(self.folder) / "target"
        target.write_bytes(b"")
        target.chmod(0o600)
        self.path().symlink_to(target)
        self.refused("no file")
        self.assertEqual(target.read_bytes(), b"")
        self.path().unlink()
        os.link(target, self.path())
        self.refused("private")
        self.assertEqual(target.read_bytes(), b"")

    def test_no_file(self) -> None:
        os.mkfifo(self.path(), 0o600)
        self.refused("no file")
        self.path().unlink()
        self.path().mkdir()
        self.refused("cannot be opened")

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file away")
    def test_owner(self) -> None:
        self.path().write_bytes(node_file.header())
        self.path().chmod(0o600)
        os.chown(self.path(), 12345, 12345)
        self.refused("private")

    def test_no_folder(self) -> None:
        one = self.start(CORUN_NODE_FOLDER="/nowhere/at/all")
        one.has(ALL)
        self.assertEqual(one.end(), "")

    def test_truncated_under_them(self) -> None:
        one, other = self.two()
        for size in [0, 100, 512, 700, 1024, 1100] * 20:
            os.truncate(self.path(), size)
            time.sleep(0.01)
        self.path().unlink(missing_ok=True)
        time.sleep(0.5)
        self.held_by(one, other)
        for process in (one, other):
            self.assertLessEqual(process.end().count("\n"), 1)

    def test_overwritten_under_them(self) -> None:
        one, other = self.two()
        chance = random.Random(3)
        for _ in range(100):
            with self.path().open("r+b") as file:
                file.seek(chance.randrange(512, 2048))
                file.write(chance.randbytes(chance.randrange(1, 1000)))
            time.sleep(0.01)
        time.sleep(1.0)
        self.held_by(one, other)
        self.assertEqual(one.end() + other.end(), "")

    def test_those_who_claim_everything(self) -> None:
        slots = b"".join(node_file.slot(2 * i + 3, pid=1 + i, pid_space=1, most=65536, weight=1e4) for i in range(128))
        self.path().write_bytes(node_file.header() + slots)
        self.path().chmod(0o600)
        one = self.start()
        one.has(1)
        one.has(ALL)  # none of them moves
        one.stays(0.5)
        one.end()

    def test_file_size_limit(self) -> None:
        one = self.start("prlimit", "--fsize=1")
        one.has(ALL)
        one.stays(0.5)
        self.assertIsNone(one.process.poll())
        one.end()


@unittest.skipUnless(os.geteuid() == 0, "only root can make a PID namespace")
class Container(Case):
    """Processes that cannot see each other."""

    def test_kill(self) -> None:
        if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False).returncode:
            self.skipTest("no PID namespace can be made here")
        one = self.start()
        one.has(ALL)
        other = self.start("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        one.has(1)
        other.has(1)
        other.process.kill()
        one.has(ALL)


class Cycles(Case):
    """Started and killed again and again."""

    def test_start_and_kill(self) -> None:
        one = self.start()
        one.has(ALL)
        cycles = int(os.environ.get("CYCLES", "40"))
        chance = random.Random(5)
        for _ in range(cycles):
            other = Neighbour(self.folder)
            other.has(1)
            time.sleep(chance.uniform(0.0, 0.03))
            other.kill()
        self.held_by(one)
        self.assertLess(node_file.path_in(self.folder).stat().st_size, 4 * node_file.SIZE)
        descriptors = os.listdir(f"/proc/{one.process.pid}/fd")
        self.assertLess(len(descriptors), 10)
        # It does not follow who comes and goes all the time, but when that is over it has everything.
        last, deadline = "", time.monotonic() + PATIENCE
        while (last != f"width {ALL}" or not one.lines.empty()) and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                last = one.lines.get(timeout=0.1)
        self.assertEqual(last, f"width {ALL}")
        self.assertEqual(one.end(), "")
        self.assertEqual(os.listdir(self.folder), [])


GROUPS = {"share": Share, "children": Children, "damage": Damage, "container": Container, "cycles": Cycles}


def main() -> None:
    """Runs the groups named, or all."""
    global LIBRARY, FOLDER
    if len(sys.argv) < 3 or set(sys.argv[3:]) - set(GROUPS):
        sys.exit(f"{__doc__}\ngroups: {' '.join(GROUPS)}")
    LIBRARY, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(GROUPS[name]) for name in sys.argv[3:] or GROUPS)
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
