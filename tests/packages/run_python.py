#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one check of PyTorch, numpy or scikit-learn: run_python.py CHECK --library SO --python VENV_PYTHON.

Each check runs its program plain and preloaded and holds the two against each other. Exit code 77: skipped, since a
package is not installed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from run_packages import HERE, SKIPPED, Runner, corun_lines

VALUES = HERE / "values"
ARMS = ("race", "pass-through", "uniform-1", "s1", "idle", "random")
# Both plain runs fill what they allocate, each with something else: memory that nobody wrote differs.
FILL = ({"MALLOC_PERTURB_": "85"}, {"MALLOC_PERTURB_": "170"})
RANDOM = {"CORUN_POLICY": "random", "CORUN_FOLLOW": "fork"}
ORDER = {"PYTHONHASHSEED": "0"}  # some samples come out of a set


def source_of(report, name):
    """What the report says of a source, which must have been at work."""
    for source in json.loads(report.read_text())["sources"]:
        if source["name"] == name:
            if source["state"] != "active" or not source["ops"]:
                raise SystemExit(f"corun was not at work: {source}")
            return source
    raise SystemExit(f"the report has no source '{name}'")


def check_opinfo(runner, share):
    """Every sample of torch's operator tests at random widths, within the operator's own tolerance of plain."""
    words = [VALUES / "torch_opinfo.py", "--share", share, "--threads", 4, "--out"]
    folders = [runner.folder / name for name in ("plain", "again", "random")]
    report = runner.folder / "report.json"
    # Four threads on any machine, so that the widths are one to four.
    corun = {"CORUN_POLICY": "random", "CORUN_POOL_CAP": "no", "CORUN_REPORT": str(report)}
    settings = [{"env": FILL[0] | ORDER}, {"env": FILL[1] | ORDER}, {"corun": corun, "env": ORDER}]
    for folder, how in zip(folders, settings, strict=True):
        done = runner.run([*words, folder], timeout=6 * 3600, **how)
        if done.returncode != 0:
            at = (folder / "last.txt").read_text()
            raise SystemExit(f"{how} ended with {done.returncode} at {at}\n{done.stderr[-4000:]}")
        if lines := corun_lines(done.stderr):
            raise SystemExit(f"corun said {lines}")
    print(source_of(report, "torch"))
    print(runner.checked([VALUES / "torch_opinfo.py", "--compare", *folders], timeout=3600).stdout, end="")


def check_compile(runner, arms, only=""):
    """No arm makes torch compile anything again that plain does not, and the values are the same."""
    words = [VALUES / "torch_compile.py", "--only", only]
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(runner.folder / "cache")}
    plain = runner.folder / "plain.json"
    wanted = runner.checked([*words, "--out", plain], env=cache, timeout=1800).stdout
    print("plain", wanted, end="")
    for arm in arms:
        out, report = runner.folder / f"{arm}.json", runner.folder / "report.json"
        options = {"CORUN_POLICY": arm, "CORUN_REPORT": str(report)}
        done = runner.checked([*words, "--out", out], corun=options, env=cache, timeout=1800)
        if done.stdout != wanted or corun_lines(done.stderr):
            raise SystemExit(f"{arm}:\n{done.stdout}{corun_lines(done.stderr)}\ninstead of\n{wanted}")
        source_of(report, "torch")
        bits = ["--bits"] if arm == "pass-through" else []
        print(arm, runner.checked([VALUES / "torch_compile.py", "--compare", plain, out, *bits]).stdout, end="")


def check_faults(runner, settings):
    """Errors, workers, threads, profilers, forks, exit codes: the transcript is the plain one."""
    words = [VALUES / "torch_faults.py"]
    plain = runner.checked(words)
    for options in settings:
        done = runner.checked(words, corun=options)
        if done.stdout != plain.stdout:
            raise SystemExit(f"under {options} the transcript differs\n{plain.stdout}\n---\n{done.stdout}")
        if corun_lines(done.stderr):
            raise SystemExit(f"under {options} corun said {corun_lines(done.stderr)}")
    print(f"{len(plain.stdout.splitlines())} lines alike under {len(settings)} settings")


def check_models(runner, orders):
    """scikit-learn before, after and without torch: plain's bits at fixed widths, plain's scores at random ones."""
    for order in orders:
        words = [VALUES / "sklearn_models.py", order]
        plain = runner.checked(words).stdout.splitlines()
        # What plain does not repeat to the last bit need not be repeated.
        steady = [a for a, b in zip(plain, runner.checked(words).stdout.splitlines(), strict=True) if a == b]
        if len(steady) < len(plain) - 2:
            raise SystemExit(f"{order}: plain repeats only {steady} of {plain}")
        fixed = runner.checked(words, corun={"CORUN_REPRODUCIBLE": "1"})
        lost = set(steady) - set(fixed.stdout.splitlines())
        if lost or corun_lines(fixed.stderr):
            raise SystemExit(f"{order}: {lost} became {fixed.stdout}{corun_lines(fixed.stderr)}")
        for arm in ("random", "race")[: len(orders)]:
            done = runner.checked(words, corun={"CORUN_POLICY": arm})
            for own, line in zip(plain, done.stdout.splitlines(), strict=True):
                score, found = float(own.split()[1]), float(line.split()[1])
                if abs(score - found) > 1e-3 * abs(score) or corun_lines(done.stderr):
                    raise SystemExit(f"{order}, {arm}: '{line}' instead of '{own}' {corun_lines(done.stderr)}")
        print(f"{order}: {len(steady)} of {len(plain)} models to the last bit")


def outcomes(runner, tag, words, corun):
    """How each test of a package's own suite ended: by name."""
    out = runner.folder / f"{tag}.xml"
    pytest = ["-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
    done = runner.run([*pytest, f"--junitxml={out}", *words], corun=corun, timeout=4 * 3600)
    if done.returncode not in (0, 1):  # 1: some failed
        raise SystemExit(f"{tag} ended with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    found = {}
    for case in ElementTree.parse(out).iter("testcase"):
        ended = {child.tag for child in case} & {"failure", "error", "skipped"}
        # Some names hold an address or a random number.
        name = re.sub(r"0x[0-9a-f]+", "ADDRESS", f"{case.get('classname')}::{case.get('name')}")
        found.setdefault(name, []).append(",".join(sorted(ended)) or "passed")
    return found, corun_lines(done.stderr)


def check_suite(runner, words):
    """A package's own tests pass and fail as they do without corun; what plain does not repeat is tried again."""
    plain, _ = outcomes(runner, "plain", words, None)
    under, said = outcomes(runner, "corun", words, {"CORUN_POLICY": "random"})
    if said:
        raise SystemExit(f"corun said {said}")
    differ = {name for name in plain.keys() | under.keys() if plain.get(name) != under.get(name)}
    if differ:
        again, _ = outcomes(runner, "again", words, None)
        differ = {name for name in differ if again.get(name) == plain.get(name)}
    ended = [how for one in plain.values() for how in one]
    print({how: ended.count(how) for how in sorted(set(ended))}, f"{len(differ)} differ")
    if differ or not ended.count("passed"):
        raise SystemExit("\n".join(f"{n}: {under.get(n)} instead of {plain.get(n)}" for n in sorted(differ)[:50]))


NUMPY_TESTS = ["--pyargs", "numpy", "-m", "not slow"]
SKLEARN_TESTS = [
    "--pyargs",
    "sklearn.ensemble.tests.test_forest",
    "sklearn.ensemble._hist_gradient_boosting.tests",
    "sklearn.cluster.tests.test_k_means",
]
CHECKS = {
    "opinfo-slice": lambda runner: check_opinfo(runner, "20:7"),
    "opinfo": lambda runner: check_opinfo(runner, "1:0"),
    "compile-random": lambda runner: check_compile(runner, ("random",), "pointwise"),
    "compile": lambda runner: check_compile(runner, ARMS),
    "faults-random": lambda runner: check_faults(runner, [RANDOM]),
    "faults": lambda runner: check_faults(runner, [{}, {"CORUN_MODE": "observe"}, {"CORUN_REPRODUCIBLE": "1"}]),
    "models": lambda runner: check_models(runner, ("torch-first",)),
    "models-orders": lambda runner: check_models(runner, ("torch-first", "sklearn-first", "alone")),
    "numpy-tests": lambda runner: check_suite(runner, NUMPY_TESTS),
    "sklearn-tests": lambda runner: check_suite(runner, SKLEARN_TESTS),
}
NEEDS = {"numpy-tests": "pytest", "sklearn-tests": "pytest"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True)
    arguments = parser.parse_args()
    needed = NEEDS.get(arguments.check, "torch")
    probe = [arguments.python, "-c", f"import importlib.util as u; assert u.find_spec('{needed}')"]
    if subprocess.run(probe, check=False, stderr=subprocess.DEVNULL).returncode != 0:
        print(f"{arguments.python} has no {needed}: run tools/setup")
        return SKIPPED
    # Beside other tests, threads that spin would keep each other from working.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(arguments.library.resolve(), arguments.python.absolute(), Path(folder))
        CHECKS[arguments.check](runner)
    return 0


if __name__ == "__main__":
    sys.exit(main())
