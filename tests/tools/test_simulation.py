#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`corun sim` and the tools about step graphs, from outside."""

import gzip
import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

CORUN, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
MACHINE = SOURCE / "tests/machines/knl-68.json"
GRAPHS = SOURCE / "tests/graphs"
sys.path.insert(0, str(SOURCE / "tools/graph"))
sys.dont_write_bytecode = True

import unroll  # noqa: E402: needs the path


def sim(*words, machine: Path = MACHINE, graph: Path = GRAPHS / "lstm.json.gz"):
    """Runs `corun sim`."""
    command = [CORUN, "sim", "--machine", machine, "--graph", graph, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def result(*words, **files) -> dict:
    """The JSON of a run that must succeed."""
    done = sim("--json", "-", *words, **files)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Sim(unittest.TestCase):
    """The command."""

    def test_every_policy_runs_every_graph_no_faster_than_the_bounds(self):
        for graph in ("lstm", "dcgan"):
            for machine in ("knl-68", "server-2x32"):
                for policy in ("recommended", "s1", "s4", "idle", "price", "price+s4", "cpa", "mcpa", "heft"):
                    with self.subTest(graph=graph, machine=machine, policy=policy):
                        found = result(
                            "--policy", policy, "--steps", "2",
                            graph=GRAPHS / f"{graph}.json.gz",
                            machine=SOURCE / f"tests/machines/{machine}.json",
                        )  # fmt: skip
                        bound = max(found["critical_path"], found["area"], found["memory"])
                        self.assertGreater(found["seconds"], 0.9 * bound)  # noise may help a little
                        self.assertLessEqual(found["utilisation"], 1.0)
                        self.assertTrue(found["simulated"])

    def test_is_repeatable_and_depends_on_the_seed(self):
        one = result("--policy", "price", "--steps", "3")
        self.assertEqual(one, result("--policy", "price", "--steps", "3"))
        self.assertNotEqual(one["seconds"], result("--policy", "price", "--steps", "3", "--seed", "2")["seconds"])

    def test_a_constant_can_be_set(self):
        base = result("--policy", "recommended", "--steps", "1", "--set", "noise=0")
        slow = result("--policy", "recommended", "--steps", "1", "--set", "noise=0", "--set", "wake_us=x10")
        self.assertGreater(slow["seconds"], base["seconds"])

    def test_pictures_can_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            svg, trace = Path(folder) / "gantt.svg", Path(folder) / "trace.json"
            done = sim("--policy", "s3", "--steps", "1", "--svg", svg, "--trace", trace)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("simulated", done.stdout)
            xml.etree.ElementTree.parse(svg)
            events = json.loads(trace.read_text())["traceEvents"]
            ops = [e for e in events if e["ph"] == "X"]
            self.assertEqual(len(ops), 1567)
            by_thread: dict[int, float] = {}
            for event in sorted(ops, key=lambda e: (e["ts"], e["ts"] + e["dur"])):
                self.assertGreaterEqual(event["ts"], by_thread.get(event["tid"], 0.0) - 1e-6)
                by_thread[event["tid"]] = event["ts"] + event["dur"]

    def test_faults_are_one_message_that_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            bad = Path(folder) / "bad.json"
            bad.write_text("{}")
            damaged = Path(folder) / "damaged.json.gz"
            damaged.write_bytes((GRAPHS / "lstm.json.gz").read_bytes()[:3000])
            cases = [
                (["--policy", "price"], {"machine": bad}, "tests/machines/"),
                (["--policy", "price"], {"graph": bad}, "tools/graph/export.py"),
                (["--policy", "price"], {"graph": damaged}, "damaged"),
                (["--policy", "price"], {"graph": Path("/nowhere")}, "No such file"),
                (["--policy", "magic"], {}, "there is no policy 'magic'"),
                (["--policy", "grid"], {}, "--inter N and --intra M"),
                (["--policy", "price", "--model", "x"], {}, "there is no model 'x'"),
                (["--policy", "price", "--set", "wake=1"], {}, "there is no constant 'wake'"),
                (["--policy", "price", "--set", "wake_us"], {}, "NAME=NUMBER"),
                (["--policy", "price", "--svg", "/nowhere/x.svg", "--steps", "1"], {}, "No such file"),
            ]
            for words, files, message in cases:
                with self.subTest(message=message):
                    done = sim(*words, **files)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(message, done.stderr)
                    self.assertLessEqual(len(done.stderr.splitlines()), 2)
                    self.assertEqual(done.stdout, "")


class AddCosts(unittest.TestCase):
    """What corun measured gets into a graph."""

    def add(self, measured: dict):
        with tempfile.TemporaryDirectory() as folder:
            report, output = Path(folder) / "report.json", Path(folder) / "graph.json.gz"
            report.write_text(json.dumps(measured))
            words = [sys.executable, SOURCE / "tools/graph/add_costs.py", GRAPHS / "lstm.json.gz", report, "-o", output]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            return done, json.loads(gzip.decompress(output.read_bytes())) if output.exists() else None

    def test_from_a_report_and_from_a_profile(self):
        graph = json.loads(gzip.decompress((GRAPHS / "lstm.json.gz").read_bytes()))
        key = next(k for k in graph["keys"] if k["type"] == "_MklMatMul")
        widths = [{"width": 4, "solo_us": 12.5, "beside_us": None}, {"width": 8, "solo_us": None, "beside_us": 3}]
        report = {
            "schema": "corun-report",
            "ops": [{"name": key["type"], "shapes": key["shapes"], "widths": widths}],
        }
        name = "tensorflow/" + key["type"] + key["shapes"]
        profile = {"format": "corun profile", "sections": [{"ops": [{"name": name, "solo": [[4, 12.5e-6, 3]]}]}]}
        for measured in (report, profile):
            done, made = self.add(measured)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = next(k for k in made["keys"] if (k["type"], k["shapes"]) == (key["type"], key["shapes"]))
            self.assertAlmostEqual(found["seconds"]["4"], 12.5e-6)
            self.assertNotIn("8", found["seconds"])
            self.assertEqual(found["seconds"]["1"], key["seconds"]["1"])

    def test_says_when_nothing_fits(self):
        done, made = self.add({"schema": "corun-report", "ops": []})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("same program", done.stderr)
        self.assertIsNone(made)


class Frame:
    """Stands for an attribute."""

    def __init__(self, name: str) -> None:
        self.s = name.encode()


class Unroll(unittest.TestCase):
    """Loops become ops one after another."""

    def test_a_loop_of_two_iterations(self):
        def node(name, op, *inputs, **attributes):
            return unroll.Node(name, op, [(i, 0) for i in inputs], attributes)

        nodes = [
            node("start", "Const"),
            node("enter", "Enter", "start", frame_name=Frame("loop")),
            node("merge", "Merge", "enter", "next"),
            node("cond", "LoopCond", "merge"),
            node("switch", "Switch", "merge", "cond"),
            node("body", "MatMul", "switch"),
            node("next", "NextIteration", "body"),
            node("exit", "Exit", "switch"),
            node("after", "Relu", "exit"),
            node("dead", "Relu", "exit"),
        ]
        runs = {"start": 1, "enter": 1, "merge": 3, "cond": 3, "switch": 3, "body": 2, "next": 2, "exit": 1, "after": 1}
        order = unroll.unroll({n.name: n for n in nodes}, runs)
        waits = dict(order)
        self.assertEqual(len(order), sum(runs.values()))
        self.assertEqual(waits["merge", 0], [("enter", 0)])
        self.assertEqual(waits["merge", 2], [("next", 1)])
        self.assertEqual(waits["body", 1], [("switch", 1)])
        self.assertEqual(waits["exit", 0], [("switch", 2)])
        self.assertEqual(waits["after", 0], [("exit", 0)])
        seen = set()
        for instance, sources in order:
            self.assertLessEqual(set(sources), seen)
            seen.add(instance)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
