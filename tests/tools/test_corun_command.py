#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the command `corun` from outside, with an empty library in place of libcorun.so.

    test_corun_command.py CORUN LIBRARY SOURCE_ROOT
"""

import ctypes
import json
import mmap
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "victims"))
import node_file  # noqa: E402

CORUN, LIBRARY, ROOT = "", "", pathlib.Path()

STATIC_ELF = (  # x86-64, exits with 42
    b"\x7fELF\x02\x01\x01" + bytes(9)
    + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0x400078, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    + struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, 132, 132, 0x1000)
    + bytes.fromhex("b83c000000bf2a0000000f05")
)


def corun(*words: str, **keywords) -> subprocess.CompletedProcess:
    """Runs the command and returns what it printed as text."""
    keywords.setdefault("timeout", 60)
    return subprocess.run([CORUN, *words], capture_output=True, text=True, check=False, **keywords)


def run(*words: str, **keywords) -> subprocess.CompletedProcess:
    """corun run with the empty library."""
    return corun("run", "--library", LIBRARY, *words, **keywords)


def compare(*words: str, **keywords) -> subprocess.CompletedProcess:
    """corun compare with the empty library."""
    return corun("compare", "--library", LIBRARY, *words, **keywords)


def clean_environment(**variables: str) -> dict[str, str]:
    """This environment without corun's and the loader's variables, and with these."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CORUN_") and k != "LD_PRELOAD"}
    return kept | variables


class Main(unittest.TestCase):
    def test_version(self):
        self.assertRegex(corun("--version").stdout, r"^corun \d+\.\d+\.\d+\n$")

    def test_help_names_the_subcommands(self):
        text = corun("--help").stdout
        for word in ("run", "compare", "report", "ctl", "top", "options"):
            self.assertIn(word, text)

    def test_nothing_and_nonsense_are_usage_errors(self):
        self.assertEqual(corun().returncode, 2)
        self.assertEqual(corun("frobnicate").returncode, 2)

    def test_every_subcommand_has_help(self):
        for word in ("run", "compare", "report", "ctl", "top", "options"):
            result = corun(word, "--help")
            self.assertEqual(result.returncode, 0, word)
            self.assertTrue(all(len(line) <= 110 for line in result.stdout.splitlines()), word)


class Run(unittest.TestCase):
    def test_stdin_stdout_and_stderr_pass(self):
        result = run("--", "sh", "-c", "cat; echo error >&2", input="hello")
        self.assertEqual((result.stdout, result.stderr), ("hello", "error\n"))

    def test_exit_code_passes(self):
        self.assertEqual(run("--", "sh", "-c", "exit 7").returncode, 7)

    def test_signal_death_passes(self):
        self.assertEqual(run("--", "sh", "-c", "kill -SEGV $$").returncode, -signal.SIGSEGV)

    def test_it_becomes_the_program(self):
        process = subprocess.Popen([CORUN, "run", "--library", LIBRARY, "sh", "-c", "echo $$"], stdout=subprocess.PIPE)
        self.assertEqual(int(process.communicate()[0]), process.pid)

    def test_separator_is_optional_and_the_programs_options_are_its_own(self):
        for separator in ((), ("--",)):
            result = run("--mode", "observe", *separator, sys.executable, "-c", "import sys; print(sys.argv[1:])",
                         "--mode", "x", "--", "[a,b]", "", "--help")
            self.assertEqual(result.stdout, "['--mode', 'x', '--', '[a,b]', '', '--help']\n")

    def test_options_become_variables(self):
        script = 'echo "$CORUN_MODE $CORUN_POOL_CAP $CORUN_CPUS $CORUN_STRICT"'
        result = run("--mode=observe", "--pool-cap=no", "--cpus", "2", "--strict", "sh", "-c", script)
        self.assertRegex(result.stdout, r"^observe no 2 (yes|true)\n$")

    def test_a_path_is_made_absolute(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("--report=r.json", "--profile", "p", "sh", "-c", "echo $CORUN_REPORT $CORUN_PROFILE", cwd=folder)
            real = os.path.realpath(folder)
            self.assertEqual(result.stdout, f"{real}/r.json {real}/p\n")

    def test_bad_options_are_one_message_and_2(self):
        for words, hint in ((("--mode=tunes",), "did you mean tune?"), (("--cpus", "-1"), "0..4096"),
                            (("--polcy", "s1"), "--policy"), (("--hooks=tensorflw",), "tensorflow")):
            result = run(*words, "--", "true")
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(hint, result.stderr)
            self.assertNotIn("default", result.stderr)
        self.assertEqual(run().returncode, 2)

    def test_preload_is_first_and_keeps_what_was_there(self):
        variables = clean_environment(LD_PRELOAD=f"/nowhere/libcorun.so:{LIBRARY}")
        result = run("--", "sh", "-c", "echo $LD_PRELOAD", env=variables)
        self.assertEqual(result.stdout.strip(), LIBRARY)
        script = "import os; print(os.environ['LD_PRELOAD'])"
        other = "libm.so.6"
        result = run("--", sys.executable, "-c", script, env=clean_environment(LD_PRELOAD=other))
        self.assertEqual(result.stdout.strip(), f"{LIBRARY}:{other}")

    def test_the_library_with_the_hooks_that_are_wanted_is_preloaded(self):
        def preloaded(*options, **variables):
            done = run(*options, "--", "sh", "-c", "echo $LD_PRELOAD", env=clean_environment(**variables))
            return done.stdout.strip().rsplit("/", 1)[-1]

        self.assertEqual(preloaded(), "libcorun.so")
        self.assertEqual(preloaded("--openmp=off"), "libcorun.so")
        self.assertEqual(preloaded("--openmp=safe"), "libcorun.so")
        self.assertEqual(preloaded(CORUN_OPENMP="adaptive"), "libcorun-adaptive.so")
        self.assertEqual(preloaded("--openmp=safe", CORUN_OPENMP="adaptive"), "libcorun.so")

    def test_missing_and_forbidden_programs(self):
        missing = run("--", "corun-no-such-program")
        self.assertEqual(missing.returncode, 127)
        self.assertEqual(missing.stderr, "corun: 'corun-no-such-program': No such file or directory\n")
        with tempfile.NamedTemporaryFile() as file:
            self.assertEqual(run("--", file.name).returncode, 126)
            self.assertEqual(run("--report", "--", file.name).returncode, 126)
        self.assertEqual(run("--report", "--", "corun-no-such-program").returncode, 127)

    def test_missing_library(self):
        result = corun("run", "--library", "/nowhere/libcorun.so", "true")
        self.assertEqual(result.returncode, 125)
        self.assertIn("/nowhere/libcorun.so", result.stderr)

    @unittest.skipUnless(os.uname().machine == "x86_64", "the program is for x86-64")
    def test_a_static_program_is_warned_of_and_run(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "static")
            program.write_bytes(STATIC_ELF)
            program.chmod(0o755)
            result = run("--", str(program))
            self.assertEqual(result.returncode, 42)
            self.assertIn("statically linked", result.stderr)

    def test_a_program_of_another_libc_runs_without(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "musl")
            ours, other = b"/lib64/ld-linux-x86-64.so.2\0", b"/lib/ld-musl-x86_64.so.1\0"
            content = pathlib.Path(os.path.realpath(shutil.which("env"))).read_bytes()
            if ours not in content:
                self.skipTest("the loader has another name here")
            program.write_bytes(content.replace(ours, other.ljust(len(ours), b"\0"), 1))
            program.chmod(0o755)
            result = run("--", str(program))
            self.assertIn("is built for musl", result.stderr)
            result = compare("-n", "2", "--", str(program))
            self.assertEqual(result.returncode, 2)
            self.assertIn("nothing to compare", result.stderr)

    def test_address_sanitizer_stays_in_front(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program")
            built = subprocess.run(["cc", "-x", "c", "-fsanitize=address", "-o", str(program), "-"], check=False,
                                   input=b"int main(void) { return 7; }", capture_output=True)
            if built.returncode or subprocess.run([str(program)], env=clean_environment(), check=False).returncode != 7:
                self.skipTest("no AddressSanitizer here")
            for before in ({}, {"LD_PRELOAD": LIBRARY}):
                # Started with the library before, corun itself has it: only what it starts is looked at.
                result = run("--", str(program), env=clean_environment(ASAN_OPTIONS="detect_leaks=0", **before))
                self.assertEqual(result.returncode, 7, result.stderr)
                self.assertRegex(result.stderr, r"\Acorun: [^\n]* is built with AddressSanitizer[^\n]*\n\Z")

    def test_a_script_is_not_warned_of(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "script")
            program.write_text("#!/bin/sh\nexit 5\n")
            program.chmod(0o755)
            result = run("--", str(program))
            self.assertEqual((result.returncode, result.stderr), (5, ""))


class RunReport(unittest.TestCase):
    """--report without a path: a parent waits and prints."""

    WRITE = ("import os, json; path = os.environ['CORUN_REPORT'].replace('%p', str(os.getpid())); "
             "json.dump({'schema': 'corun-report', 'version': 1, 'program': ['me'], 'pid': 1, 'phases': []}, open(path, 'w'))")

    def test_report_comes_on_stderr_and_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("--report", "--", sys.executable, "-c", self.WRITE + "; print('out')",
                         env=clean_environment(TMPDIR=folder))
            self.assertEqual((result.returncode, result.stdout), (0, "out\n"))
            self.assertIn("Program   me", result.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_a_folder_for_temporary_files_that_is_missing(self):
        result = run("--report", "--", sys.executable, "-c", self.WRITE, env=clean_environment(TMPDIR="/nowhere"))
        self.assertEqual(result.returncode, 0)
        self.assertIn("Program   me", result.stderr)

    def test_report_of_a_child_is_shown(self):
        result = run("--report", "--", "sh", "-c", f'{sys.executable} -c "{self.WRITE}"; exit 4')
        self.assertEqual(result.returncode, 4)
        self.assertIn("Program   me", result.stderr)

    def test_no_report_is_said(self):
        result = run("--report", "--", "sh", "-c", "exit 3")
        self.assertEqual(result.returncode, 3)
        self.assertIn("no report", result.stderr)

    def test_signal_death_passes(self):
        self.assertEqual(run("--report", "--", "sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)

    def test_signals_are_forwarded(self):
        script = ("import signal, sys, time; signal.signal(signal.SIGUSR1, lambda *a: sys.exit(9)); "
                  "print('ready', flush=True); time.sleep(30)")
        process = subprocess.Popen([CORUN, "run", "--library", LIBRARY, "--report", "--", sys.executable, "-c", script],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(20), 9)
        process.stdout.close()

    def test_a_stopped_program_stops_the_parent(self):
        process = subprocess.Popen([CORUN, "run", "--library", LIBRARY, "--report", "--", "sh", "-c", "kill -STOP $$; exit 6"],
                                   stderr=subprocess.DEVNULL)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))
        os.kill(process.pid, signal.SIGCONT)
        self.assertEqual(process.wait(20), 6)


class OptionTable(unittest.TestCase):
    def test_json(self):
        rows = json.loads(corun("options", "--json").stdout)
        names = [row["name"] for row in rows]
        self.assertIn("CORUN_MODE", names)
        self.assertEqual(len(names), len(set(names)))
        for row in rows:
            self.assertEqual(set(row), {"name", "type", "default", "range", "stability", "help"})

    def test_text_names_each(self):
        text = corun("options").stdout
        for row in json.loads(corun("options", "--json").stdout):
            self.assertIn(f"{row['name']}={row['default']}\n", re.sub(r"  \(\w+\)\n", "\n", text))

    def test_every_option_is_a_flag(self):
        text = corun("run", "--help").stdout
        for row in json.loads(corun("options", "--json").stdout):
            self.assertIn("--" + row["name"][6:].lower().replace("_", "-"), text)

    def test_readme_has_this_table(self):
        readme = ROOT / "README.md"
        if not readme.exists():
            self.skipTest("there is no README.md")
        found = re.search(r"<!-- options -->\n(.*?)<!-- /options -->", readme.read_text(), re.DOTALL)
        self.assertIsNotNone(found, "README.md has no <!-- options --> ... <!-- /options -->")
        self.assertEqual(found.group(1).strip("\n"), corun("options", "--markdown").stdout.strip("\n"),
                         "put the output of `corun options --markdown` between the markers")


class Report(unittest.TestCase):
    SAMPLE = {"schema": "corun-report", "version": 1, "program": ["python", "train.py"], "pid": 5,
              "phases": [{"share": 1, "state": "guard", "arm": "uniform-1", "explanation": "31 % faster",
                          "arms": [{"name": "uniform-1", "share": 0.5, "seconds": 3, "state": "chosen"}]}]}

    def test_a_report_is_rendered(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(self.SAMPLE, file)
            file.flush()
            result = corun("report", file.name)
        self.assertEqual(result.returncode, 0)
        self.assertTrue(result.stdout.startswith("31 % faster\n"))
        self.assertIn("█", result.stdout)

    def test_stdin(self):
        self.assertEqual(corun("report", "-", input=json.dumps(self.SAMPLE)).returncode, 0)

    def test_what_is_no_report(self):
        for text in ("", "{", "[]", '{"schema": 3}'):
            self.assertEqual(corun("report", "-", input=text).returncode, 1)
        result = corun("report", "/nowhere.json")
        self.assertEqual(result.returncode, 1)
        self.assertIn("No such file", result.stderr)


class Compare(unittest.TestCase):
    """The program's speed depends on its setting, so that the ratios are known."""

    PROGRAM = ("import os, sys; n = int(os.environ.get('SPEED', 1)) * (2 if 'libcorun' in os.environ.get('LD_PRELOAD', '') else 1) "
               "* (4 if '--fast' in sys.argv else 1); print('warm-up'); print(f'ms={100 / n} p99=1')")

    def program(self) -> tuple[str, ...]:
        return "--metric", "ms=([0-9.]+)", "--", sys.executable, "-c", self.PROGRAM

    def test_settings_and_ratios(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/out.json"
            result = compare("-n", "2", "--json", path, "--also", "three=SPEED=3", "--also", "fast=-- --fast",
                             "--also", "both=@corun SPEED=2", "--also", "again=", *self.program())
            self.assertEqual(result.returncode, 0, result.stderr)
            saved = json.loads(pathlib.Path(path).read_text())
            self.assertEqual(os.listdir(folder), ["out.json"])
        ratios = {one["name"]: round(one["ratio_to_plain"]["value"], 6) for one in saved["settings"]}
        self.assertEqual(ratios, {"plain": 1, "corun": 2, "three": 3, "fast": 4, "both": 4, "again": 1})
        self.assertEqual(saved["settings"][0]["values"], [100, 100])
        self.assertEqual(saved["rounds"], 2)
        self.assertIsNone(saved["error"])
        self.assertIn("cpu", saved["host"])
        self.assertIn("corun is 2.000 times as fast as plain", result.stdout)

    def test_plain_runs_without_a_trace_of_corun(self):
        result = compare("-n", "2", *self.program(), env=clean_environment(LD_PRELOAD=LIBRARY, CORUN_MODE="observe"))
        self.assertIn("corun is 2.000 times", result.stdout)

    def test_without_n_it_stops_when_it_is_sure(self):
        result = compare("--min-pairs", "3", *self.program())
        self.assertEqual(result.returncode, 0)
        self.assertIn("3 rounds of 2 settings", result.stdout)

    def test_below_the_floor(self):
        self.assertEqual(compare("-n", "2", "--floor", "3", *self.program()).returncode, 3)

    def test_undecided(self):
        self.assertEqual(compare("-n", "1", *self.program()).returncode, 4)

    def test_wall_time(self):
        script = 'case "$LD_PRELOAD" in *libcorun*) sleep 0.02;; *) sleep 0.5;; esac'
        result = compare("-n", "4", "--", "sh", "-c", script)  # on a busy machine too
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("Wall time", result.stdout)

    def test_a_failing_run_shows_its_end_and_keeps_what_there_is(self):
        with tempfile.TemporaryDirectory() as folder:
            count, path = f"{folder}/count", f"{folder}/out.json"
            script = f"echo x >> {count}; echo said; echo complained >&2; test $(wc -l < {count}) -lt 4 && echo ms=5"
            result = compare("-n", "5", "--json", path, "--metric", "ms=([0-9]+)", "--", "sh", "-c", script)
            saved = json.loads(pathlib.Path(path).read_text())
        self.assertEqual(result.returncode, 1)
        self.assertIn("said", result.stderr)
        self.assertIn("complained", result.stderr)
        self.assertIn("exit code 1", saved["error"])
        self.assertEqual(sum(len(one["values"]) for one in saved["settings"]), 3)

    def test_a_missing_metric(self):
        result = compare("-n", "1", "--metric", "nothing=([0-9]+)", "--", "echo", "hello")
        self.assertEqual(result.returncode, 1)
        self.assertIn("hello", result.stderr)

    def test_mistakes_on_the_command_line(self):
        for words in ((), ("--also", "x", "--", "true"), ("--also", "plain=A=1", "--", "true"),
                      ("--metric", "(", "--", "true"), ("--metric", "a", "--", "true"), ("-n", "0", "--", "true"),
                      ("--also", "x=CORUN_MODE=off", "--", "true"), ("--also", "x=@corun CORUN_MODE=of", "--", "true"),
                      ("--also", "x=@corun CORUN_MOD=off", "--", "true"), ("--frobnicate", "--", "true")):
            result = compare(*words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn("--help", result.stderr)

    def test_json_that_cannot_be_written_is_known_at_once(self):
        result = compare("--json", "/nowhere/x.json", "--", "sleep", "50")
        self.assertEqual(result.returncode, 1)
        self.assertIn("/nowhere/x.json", result.stderr)

    def test_timeout(self):
        started = time.monotonic()
        result = compare("--timeout", "0.5", "--", "sleep", "50")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--timeout", result.stderr)
        self.assertLess(time.monotonic() - started, 20)

    def test_an_interrupt_prints_what_there_is(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "out.json")
            process = subprocess.Popen([CORUN, "compare", "--library", LIBRARY, "--json", str(path), "--", "sleep", "0.3"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for line in process.stderr:
                if "round 2, corun" in line:
                    break
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=20)
            saved = json.loads(path.read_text())
        self.assertEqual(process.returncode, 130)
        self.assertIn("Stopped early: interrupted", output)
        self.assertGreaterEqual(len(saved["settings"][0]["values"]), 1)

    def test_a_program_that_is_missing(self):
        result = compare("-n", "1", "--", "corun-no-such-program")
        self.assertEqual(result.returncode, 1)
        self.assertIn("No such file", result.stderr)

    def test_much_output_and_a_daemon_that_keeps_the_pipe(self):
        script = "sleep 30 & yes 0123456789 | head -c 3000000; echo; echo ms=3"
        result = compare("-n", "2", "--floor", "0.5", "--metric", "ms=([0-9]+)", "--", "sh", "-c", script)
        self.assertEqual(result.returncode, 0, result.stderr)


class FakeProcess:
    """A control page for this test itself, answered by a thread."""

    HEAD = struct.Struct("<QIiQIII")
    MAGIC = 0x6C7274636E757263

    def __init__(self, pid: int, start_time: int, status: bytes = b"{}", magic: int = MAGIC, version: int = 1):
        self.path = f"/dev/shm/corun-{os.geteuid()}-{pid}-{os.stat('/proc/self/ns/pid').st_ino}"
        self.answers = True
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.ftruncate(descriptor, 4096)
        self.page = mmap.mmap(descriptor, 4096)
        os.close(descriptor)
        self.page[: self.HEAD.size] = self.HEAD.pack(magic, version, pid, start_time, 0, 0, 2)
        self.page[36 : 36 + len(status)] = status
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.answer)
        self.thread.start()

    def answer(self):
        while not self.ended.wait(0.02):
            if self.answers:
                self.page[28:32] = self.page[24:28]

    def close(self):
        self.ended.set()
        self.thread.join()
        self.page.close()
        if os.path.exists(self.path):
            os.unlink(self.path)


def start_time(pid: int) -> int:
    """Field 22 of /proc/PID/stat."""
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def gone(pid: int, seconds: float = 5) -> bool:
    """Whether the process has ended by then; what nobody has waited for yet has ended too."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


class Alternate(unittest.TestCase):
    """Each program is started once and stopped while the others run."""

    PROGRAM = ("import os, sys, time\n"
               "fast = 2 if 'libcorun' in os.environ.get('LD_PRELOAD', '') else 1\n"
               "open(sys.argv[1], 'a').write(f'{os.getpid()} ')\n"
               "last = time.monotonic()\n"
               "for i in range(int(sys.argv[2])):\n"
               "    time.sleep(0.01)\n"
               "    now = time.monotonic()\n"
               "    gap, last = now - last, now\n"
               "    print(f'step {i} ms={1000 if gap > 0.5 else 10 / fast} gap={gap}', flush=True)\n")
    TIMES = ("--alternate", "--slot", "0.4", "--warm", "0.3", "--warm-plain", "0.2")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.pids, self.json = f"{folder.name}/pids", f"{folder.name}/out.json"

    def words(self, steps: int = 1_000_000) -> tuple[str, ...]:
        return (*self.TIMES, "--json", self.json, "--metric", "ms=([0-9.]+)", "--", sys.executable, "-c", self.PROGRAM,
                self.pids, str(steps))

    def saved(self) -> dict:
        return json.loads(pathlib.Path(self.json).read_text())

    def assert_all_gone(self, programs: int):
        pids = pathlib.Path(self.pids).read_text().split()
        self.assertEqual(len(pids), programs)
        for pid in pids:
            self.assertTrue(gone(int(pid)), pid)

    def test_values_are_means_of_slots_without_the_stopped_step(self):
        result = compare("-n", "2", "--also", "again=", *self.words())
        self.assertEqual(result.returncode, 0, result.stderr)
        saved = self.saved()
        self.assertEqual(saved["alternate"], {"slot": 0.4, "warm": 0.3, "warm_plain": 0.2})
        self.assertEqual([one["values"] for one in saved["settings"]], [[10] * 2, [5] * 2, [10] * 2])
        for one in saved["settings"]:
            self.assertTrue(all(0.4 <= seconds < 5 for seconds in one["wall_seconds"]))
            self.assertTrue(all(size > 1e6 for size in one["max_rss_bytes"]))
            self.assertEqual("status" in one, one["under_corun"])
        self.assertIn("2 rounds of 3 settings", result.stdout)
        self.assertIn("round 2, again", result.stderr)
        self.assert_all_gone(3)

    def test_all_matches_count_and_the_status_of_a_descendant_is_kept(self):
        program = (
            "import os, mmap, struct, sys, time\n"
            "if 'libcorun' in os.environ.get('LD_PRELOAD', ''):\n"
            "    started = int(open('/proc/self/stat').read().rpartition(')')[2].split()[19])\n"
            "    path = f'/dev/shm/corun-{os.geteuid()}-{os.getpid()}-{os.stat(\"/proc/self/ns/pid\").st_ino}'\n"
            "    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)\n"
            "    os.ftruncate(file, 4096)\n"
            "    page = mmap.mmap(file, 4096)\n"
            f"    page[:36] = struct.pack('<QIiQIII', {FakeProcess.MAGIC}, 1, os.getpid(), started, 0, 0, 2)\n"
            "    page[36:55] = b'{\"arm\":\"uniform-1\"}'\n"
            "    open(sys.argv[1], 'w').write(path)\n"
            "while True:\n"
            "    time.sleep(0.01)\n"
            "    print('ms=1 ms=2', flush=True)\n"
            "    print('ms=3', file=sys.stderr, flush=True)\n")
        result = compare("-n", "1", *self.TIMES, "--json", self.json, "--metric", "ms=([0-9])", "--", "sh", "-c",
                         '"$@"; :', "sh", sys.executable, "-c", program, self.pids)
        page = pathlib.Path(pathlib.Path(self.pids).read_text())
        page.unlink()
        self.assertEqual(result.returncode, 4, result.stderr)
        plain, under = self.saved()["settings"]
        self.assertEqual(under["status"], {"arm": "uniform-1"})
        self.assertNotIn("status", plain)
        for one in (plain, under):
            self.assertAlmostEqual(one["values"][0], 2, delta=0.4)

    def test_a_program_that_ends_early(self):
        result = compare("-n", "50", *self.words(steps=60))
        self.assertEqual(result.returncode, 1)
        self.assertIn("ended before the comparison did: give it more steps", self.saved()["error"])
        self.assertIn("Stopped early", result.stdout)
        self.assertIn("step 59", result.stderr)
        self.assert_all_gone(2)

    def test_a_program_that_fails(self):
        result = compare("-n", "50", *self.TIMES, "--metric", "ms=([0-9])", "--", "sh", "-c", "echo oh; exit 3")
        self.assertEqual(result.returncode, 1)
        self.assertIn("ended with exit code 3 before the comparison did", result.stderr)
        self.assertIn("oh\n", result.stderr)

    def test_a_slot_with_too_few_values(self):
        result = compare("-n", "1", *self.TIMES, "--metric", "ms=([0-9])", "--", "sh", "-c",
                         "while sleep 0.15; do echo ms=1; done")
        self.assertEqual(result.returncode, 1)
        self.assertIn("print more often or take longer slots", result.stderr)

    def interrupted(self, number: int) -> subprocess.Popen:
        process = subprocess.Popen([CORUN, "compare", "--library", LIBRARY, "-n", "50", *self.words()],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if "round 1, corun" in line:
                break
        process.send_signal(number)
        process.communicate(timeout=20)
        return process

    def test_an_interrupt_leaves_nothing_behind(self):
        self.assertEqual(self.interrupted(signal.SIGINT).returncode, 130)
        saved = self.saved()
        self.assertEqual(saved["error"], "interrupted")
        self.assertGreaterEqual(len(saved["settings"][0]["values"]), 1)
        self.assert_all_gone(2)

    def test_a_kill_leaves_nothing_behind(self):
        self.interrupted(signal.SIGKILL)
        self.assert_all_gone(2)

    def test_mistakes_on_the_command_line(self):
        for words in (("--alternate", "--", "true"), ("--slot", "3", "--metric", "(a)", "--", "true"),
                      ("--alternate", "--timeout", "3", "--metric", "(a)", "--", "true"),
                      ("--alternate", "--slot", "0", "--metric", "(a)", "--", "true")):
            result = compare(*words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn("--help", result.stderr)


class Ctl(unittest.TestCase):
    STATUS = json.dumps({"state": "guard", "arm": "uniform-1", "gain": 1.31, "evil": "\x1b[2J"}).encode() + b"\0"

    def page(self, **keywords) -> FakeProcess:
        keywords = {"pid": os.getpid(), "start_time": start_time(os.getpid()), "status": self.STATUS} | keywords
        fake = FakeProcess(**keywords)
        self.addCleanup(fake.close)
        return fake

    def test_off_and_on(self):
        fake = self.page()
        result = corun("ctl", str(os.getpid()), "off")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(fake.page[24:28], b"\1\0\0\0")
        self.assertIn("stands down", result.stdout)
        self.assertEqual(corun("ctl", str(os.getpid()), "on").returncode, 0)
        self.assertEqual(fake.page[24:28], b"\0\0\0\0")

    def test_status(self):
        self.page()
        result = corun("ctl", str(os.getpid()), "status")
        self.assertRegex(result.stdout, r"arm +uniform-1\n")
        self.assertNotIn("\x1b", result.stdout)
        self.assertEqual(json.loads(corun("ctl", str(os.getpid()), "--json").stdout)["gain"], 1.31)

    def test_list_and_all(self):
        self.page()
        self.assertRegex(corun("ctl", "list").stdout, rf"(?m)^ *{os.getpid()} +on +guard +uniform-1")
        self.assertIn(str(os.getpid()), corun("ctl", "all", "status").stdout)

    def test_no_answer(self):
        self.page().answers = False
        result = corun("ctl", str(os.getpid()), "off")
        self.assertEqual(result.returncode, 1)
        self.assertIn("has not answered", result.stderr)

    def test_a_stale_page_is_removed(self):
        fake = self.page(start_time=1)
        result = corun("ctl", str(os.getpid()), "off")
        self.assertEqual(result.returncode, 1)
        self.assertFalse(os.path.exists(fake.path))
        self.assertEqual(fake.page[24:28], b"\0\0\0\0")

    def test_what_is_no_page_is_left_alone(self):
        for change in ({"magic": 1}, {"version": 9}):
            fake = self.page(**change)
            result = corun("ctl", str(os.getpid()), "off")
            self.assertEqual(result.returncode, 1)
            self.assertTrue(os.path.exists(fake.path))
            self.assertEqual(fake.page[24:28], b"\0\0\0\0")
            fake.close()

    def test_a_short_page_and_a_link(self):
        path = f"/dev/shm/corun-{os.geteuid()}-{os.getpid()}-{os.stat('/proc/self/ns/pid').st_ino}"
        self.addCleanup(lambda: os.path.lexists(path) and os.unlink(path))
        pathlib.Path(path).write_bytes(b"short")
        self.assertEqual(corun("ctl", str(os.getpid()), "off").returncode, 1)
        os.unlink(path)
        os.symlink("/etc/passwd", path)
        self.assertEqual(corun("ctl", str(os.getpid()), "off").returncode, 1)

    def test_other_processes_and_bad_words(self):
        self.assertIn("does not run under corun", corun("ctl", str(os.getppid()), "off").stderr)
        self.assertIn("no process", corun("ctl", "4194999", "off").stderr)
        for words in (("nonsense", "off"), ("-3", "off"), ("1", "sideways"), ()):
            self.assertEqual(corun("ctl", *words).returncode, 2, words)


class Top(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = node_file.path_in(self.folder)

    def top(self, *words, **keywords):
        return corun("top", *words, env=clean_environment(CORUN_NODE_FOLDER=self.folder), **keywords)

    def put(self, content: bytes) -> None:
        self.path.write_bytes(content)
        self.path.chmod(0o600)

    def test_nobody_is_there(self):
        result = self.top()
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, r"^corun top: no program of yours shares this machine .*\n$")

    def test_what_is_no_such_file_is_left_alone(self):
        for content, why in ((b"nonsense" * 100, "is damaged"), (node_file.header(version=7), "another version")):
            self.put(content)
            result = self.top("--json")
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertRegex(result.stderr, f"^corun top: .*{why}.*\n$")
            self.assertEqual(self.path.read_bytes(), content)

    def test_json_and_text(self):
        mine = node_file.slot(7, pid=os.getpid(), pid_space=os.stat("/proc/self/ns/pid").st_ino,
                              start_time=start_time(os.getpid()), program=b"train\x1b[2J.py")
        ended = node_file.slot(9, pid=4194999, pid_space=os.stat("/proc/self/ns/pid").st_ino)
        self.put(node_file.header() + mine + ended + bytes(512) + b"\xff" * 512)
        status = json.loads(self.top("--json").stdout)
        self.assertEqual(status["schema"], "corun-top")
        [program] = status["programs"]
        self.assertEqual((program["pid"], program["weight"], program["visible"]), (os.getpid(), 1.0, True))
        result = self.top("-n", "2", "-d", "0.1")
        self.assertEqual(result.returncode, 0)
        self.assertNotIn("\x1b", result.stdout)
        self.assertEqual(result.stdout.count("corun top - "), 2)
        self.assertRegex(result.stdout, rf"(?m)^ *{os.getpid()} +1 .* train\?\[2J\.py$")

    def test_a_terminal(self):
        self.put(node_file.header() + node_file.slot(7, pid_space=1))
        leader, follower = pty.openpty()
        process = subprocess.Popen([CORUN, "top"], stdin=follower, stdout=follower, stderr=subprocess.PIPE,
                                   env=clean_environment(CORUN_NODE_FOLDER=self.folder))
        os.close(follower)
        shown = b""
        while b"PROGRAM" not in shown:
            shown += os.read(leader, 4096)
        self.assertFalse(termios.tcgetattr(leader)[3] & termios.ICANON)
        os.write(leader, b"q")
        self.assertEqual(process.wait(10), 0)
        self.assertTrue(termios.tcgetattr(leader)[3] & termios.ICANON)
        shown += os.read(leader, 4096)
        self.assertIn(b"\x1b[?1049l", shown)
        os.close(leader)
        process.stderr.close()

    def test_mistakes(self):
        for words in (("-n", "0"), ("-d", "never"), ("extra",)):
            self.assertEqual(self.top(*words).returncode, 2, words)


if __name__ == "__main__":
    CORUN, LIBRARY, ROOT = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    assert ctypes.sizeof(ctypes.c_void_p) == 8, "the control page is written for 64 bits"
    unittest.main(argv=sys.argv[:1], verbosity=1)
