#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one check of the real wheels under libcorun.so: run_packages.py CHECK --library SO --python VENV_PYTHON.

Each check runs the program plain and preloaded and holds the two against each other. Exit code 77: skipped, since
the wheel is not installed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from ctypes.util import find_library
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKIPPED = 77
WORKLOADS = ("lstm", "resnet", "dcgan", "inception", "gru", "transformer", "mixed")
# Steps that are enough to show a wrong number and still fit into a test run on two CPUs.
STEPS = {
    "lstm": 50,
    "gru": 50,
    "transformer": 50,
    "resnet": 50,
    "dcgan": 50,
    "inception": 50,
    "mixed": 50,
}


class Runner:
    """Runs Python programs of the suite, plain or under the library with the given options."""

    def __init__(self, library: Path, python: Path, folder: Path):
        self.library, self.python, self.folder = library, python, folder

    def run(self, words, corun=None, env=None, timeout=600):
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith("CORUN_")
        }
        environment.pop("LD_PRELOAD", None)
        environment |= {"TF_CPP_MIN_LOG_LEVEL": "3"} | (env or {})
        if corun is not None:
            preload = [str(self.library), environment.get("LD_PRELOAD")]
            environment |= {"LD_PRELOAD": " ".join(filter(None, preload)), "CORUN_STRICT": "yes"}
            environment |= corun
        return subprocess.run(
            [self.python, *map(str, words)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def checked(self, words, **more):
        done = self.run(words, **more)
        if done.returncode != 0:
            raise SystemExit(
                f"{words} {more} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
            )
        return done


def corun_lines(text):
    return [line for line in text.splitlines() if line.startswith("corun:")]


# Where the program repeats itself to the last bit only with one dispatch thread (see README.md).
BIT_EQUAL_WITH = {"inception": ["--inter", 1]}


def losses(runner, name, tag, corun, more=()):
    out = runner.folder / f"{name}-{tag}.json"
    words = [HERE / "workload.py", name, "--steps", STEPS[name], "--seed", 7]
    runner.checked([*words, "--losses", out, *more], corun=corun)
    return out


def check_losses(runner, name):
    """A test arm that changes widths at random agrees with plain; arms that change none are bit-equal to it."""
    compare = HERE / "values" / "compare_losses.py"
    plain = losses(runner, name, "plain", None)
    random = losses(runner, name, "random", {"CORUN_POLICY": "random"})
    near = [compare, plain, random, "--first", "1e-6", "--last", "1e-3"]
    print(runner.checked(near).stdout, end="")
    more = BIT_EQUAL_WITH.get(name, ())
    if more:
        plain = losses(runner, name, "plain-repeatable", None, more)
    own = losses(runner, name, "own", {"CORUN_POLICY": "pass-through"}, more)
    print(runner.checked([compare, plain, own, "--bits"]).stdout, end="")


def check_kernels(runner):
    """Single kernels on integer data are exact in a pool of 8 at random widths, with a checking heap."""
    words = [HERE / "values" / "kernels.py"]
    heap = {"MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "85"}
    # Since glibc 2.34 the checks are in a library of their own; without it the variables do nothing.
    checks = find_library("c_malloc_debug") or "libc_malloc_debug.so.0"
    heap["LD_PRELOAD"] = checks
    plain, random = runner.folder / "plain.json", runner.folder / "random.json"
    runner.checked([*words, "--repeat", 1, "--out", plain], env=heap)
    report = runner.folder / "kernels-report.json"
    options = {
        "CORUN_POLICY": "random",
        "CORUN_POOL_CAP": "no",
        "CORUN_REPORT": str(report),
    }
    done = runner.checked([*words, "--repeat", 4, "--out", random], corun=options, env=heap)
    print(done.stdout, end="")
    if json.loads(plain.read_text())["hashes"] != json.loads(random.read_text())["hashes"]:
        raise SystemExit(
            "kernels: results under random widths differ from the plain ones"
        )
    source = json.loads(report.read_text())["sources"][0]
    if source["state"] != "active" or source["ops"] < 1000:
        raise SystemExit(f"kernels: corun was not at work: {source}")


def check_faults(runner):
    """Failing, cancelled and oversized ops, sessions and pipelines: the transcript is the plain one."""
    words = [HERE / "values" / "faults.py"]
    plain = runner.checked(words)
    for options in ({}, {"CORUN_POLICY": "random"}, {"CORUN_MODE": "observe"}):
        done = runner.checked(words, corun=options)
        if done.stdout != plain.stdout:
            raise SystemExit(
                f"faults under {options}: the transcript differs\n{plain.stdout}\n---\n{done.stdout}"
            )
        if corun_lines(done.stderr):
            raise SystemExit(
                f"faults under {options}: corun said {corun_lines(done.stderr)}"
            )
    print(f"faults: {len(plain.stdout.splitlines())} lines alike under 3 settings")


def check_report(runner):
    """A short run: source active, pools capped, anchor and report there, the profile starts the second run."""
    report, profile = runner.folder / "report.json", runner.folder / "profile.json"
    options = {"CORUN_REPORT": str(report), "CORUN_PROFILE": str(profile)}
    words = [
        HERE / "workload.py",
        "transformer",
        "--intra",
        16,
        "--inter",
        16,
        "--warmup",
        25,
        "--measure",
        5,
    ]
    done = runner.checked(words, corun=options)
    first = json.loads(report.read_text())
    assert first["sources"][0]["state"] == "active", first["sources"]
    # Keras loads libraries with runtimes of their own, of which other levers may tell.
    pools = {lever["effect"].split()[0] for lever in first["irreversible"] if lever["lever"] == "pool cap"}
    assert pools == {"Compute", "numa_-1_Eigen"}, first["irreversible"]
    assert first["phases"] and first["phases"][0]["anchor"], first["phases"]
    assert first["open_scopes"] == 0 and len(first["ops"]) == 20, first["ops"]
    assert not corun_lines(done.stderr), done.stderr
    assert json.loads(profile.read_text())["format"] == "corun profile"
    words[-3:] = [8, "--measure", 4]
    runner.checked(words, corun=options)
    second = json.loads(report.read_text())
    print(
        "first:",
        first["phases"][0]["explanation"],
        "| second:",
        second["phases"][0]["explanation"],
    )
    # What the first run took as an op's cost is what the second one counts by, whatever the machine does now.
    costs = [{(op["name"], op["shapes"]): op["reference_us"] for op in run["ops"]} for run in (first, second)]
    shared = costs[0].keys() & costs[1].keys()
    assert len(shared) >= 10, costs
    for op in shared:
        assert abs(costs[0][op] / costs[1][op] - 1) < 1e-3, (op, costs[0][op], costs[1][op])
    runner.checked(words, corun=options | {"CORUN_MODE": "replay"})
    replay = json.loads(report.read_text())
    assert (
        replay["phases"][0]["state"] == "fixed"
        and replay["phases"][0]["arm"] == "replay"
    ), replay["phases"]


def check_self_test(runner):
    """The hooks are reached in this wheel: every kernel, the pools, and NumThreads() of oneDNN kernels."""
    program = (
        "import tensorflow as tf\n"
        "a = tf.random.stateless_normal([512, 512], [1, 2])\n"
        "image = tf.ones([4, 32, 32, 16])\n"
        "tf.nn.conv2d(image, tf.ones([3, 3, 16, 16]), 1, 'SAME')\n"
        "for _ in range(200): b = tf.linalg.matmul(a, a)\n"
        "print(float(tf.reduce_sum(b)) != 0)\n"
    )
    report = runner.folder / "self.json"
    done = runner.checked(
        ["-c", program],
        corun={"CORUN_REPORT": str(report), "CORUN_POLICY": "uniform-1"},
    )
    assert done.stdout == "True\n", done.stdout
    out = json.loads(report.read_text())
    assert out["sources"][0]["state"] == "active" and out["sources"][0]["ops"] > 200, (
        out["sources"]
    )
    if "oneDNN custom operations are on" in done.stderr:  # not on every CPU
        assert len(out["sources"][0]["levers"]) == 2, out["sources"]
    print("self-test:", out["sources"][0])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    names = [
        "kernels",
        "faults",
        "report",
        "self-test",
        *(f"losses-{name}" for name in WORKLOADS),
    ]
    parser.add_argument("check", choices=names)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True)
    arguments = parser.parse_args()
    probe = subprocess.run(
        [
            arguments.python,
            "-c",
            "import importlib.util as u; assert u.find_spec('tensorflow')",
        ]
    )
    if probe.returncode != 0:
        print(f"{arguments.python} has no TensorFlow: run tools/setup")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(
            arguments.library.resolve(), arguments.python.absolute(), Path(folder)
        )
        if arguments.check.startswith("losses-"):
            check_losses(runner, arguments.check.removeprefix("losses-"))
        else:
            checks = {
                "kernels": check_kernels,
                "faults": check_faults,
                "report": check_report,
            }
            checks.get(arguments.check, check_self_test)(runner)
    return 0


if __name__ == "__main__":
    sys.exit(main())
