#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one check of PyTorch's wheel under libcorun.so: run_torch.py CHECK --library SO --python VENV_PYTHON.

Exit code 77: skipped, since the wheel is not installed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from run_packages import HERE, SKIPPED, Runner

VALUES = HERE / "values"
ARMS = ("random", "uniform-1", "race", "s1", "idle")


def check_operations(runner):
    """Exact answers under every arm; with more threads than CPUs at random widths too."""
    words = [VALUES / "torch_operations.py"]
    runs = [({"CORUN_POLICY": arm}, ["--repeat", 6]) for arm in ARMS]
    runs += [({"CORUN_POLICY": "random", "CORUN_POOL_CAP": "no"}, ["--threads", 4, "--repeat", 6])]
    plain = runner.checked([*words, "--repeat", 1]).stdout
    for options, more in runs:
        done = runner.checked([*words, *more], corun=options)
        print(options, done.stdout, end="")
        if done.stdout != plain or done.stderr:
            raise SystemExit(f"operations: {done.stdout}{done.stderr}")


def check_training(runner):
    """At a fixed width training ends with the plain run's bits, whatever decides; with others it does end."""
    words = [VALUES / "torch_steps.py"]
    one = runner.checked([*words, "--threads", 1]).stdout
    two = runner.checked([*words, "--threads", 2]).stdout
    runs = [
        (one, 1, {"CORUN_POLICY": "random"}),
        (two, 2, {"CORUN_REPRODUCIBLE": "1"}),
        (two, 2, {"CORUN_MODE": "off"}),
        (None, 2, {"CORUN_POLICY": "random"}),
    ]
    for wanted, threads, options in runs:
        done = runner.checked([*words, "--threads", threads], corun=options)
        if wanted not in (None, done.stdout) or done.stderr:
            raise SystemExit(f"training under {options}:\n{done.stdout}{done.stderr}\ninstead of\n{wanted}")
    # One thread for every op is what torch does when it is told one: the lever reaches all kinds of kernels.
    narrow = runner.checked([*words, "--threads", 2], corun={"CORUN_POLICY": "uniform-1"}).stdout
    if narrow.replace("threads 2", "threads 1") != one:
        raise SystemExit(f"training at width 1:\n{narrow}\ninstead of\n{one}")
    print(one, two, sep="", end="")


def check_threads(runner):
    """The promise is constant between ops, is the program's own word, and is capped at the budget."""
    words = [VALUES / "torch_threads.py"]
    plain = runner.checked(words).stdout.splitlines()
    cpus = len(os.sched_getaffinity(0))
    for env in ({}, {"OMP_NUM_THREADS": "16"}, {"MKL_NUM_THREADS": "64", "MKL_DYNAMIC": "FALSE"}):
        if "MKL_NUM_THREADS" in env:  # its number goes until torch is told another
            plain = runner.checked(words, env=env).stdout.splitlines()
        for options in ({}, {"CORUN_POLICY": "uniform-1"}, {"CORUN_POLICY": "random"}):
            done = runner.checked(words, corun=options, env=env)
            for own, line in zip(plain, done.stdout.splitlines(), strict=True):
                where, numbers = own.rsplit(" ", 3)[0], own.rsplit(" ", 3)[1:]
                capped = " ".join([where, *(str(min(int(number), cpus)) for number in numbers)])
                if line != capped:
                    raise SystemExit(f"{env} {options}: '{line}' instead of '{capped}'\n{done.stdout}")
    uncapped = runner.checked(words, corun={"CORUN_POOL_CAP": "no", "CORUN_POLICY": "uniform-1"}, env=env).stdout
    if uncapped.splitlines() != plain:
        raise SystemExit(f"without the cap:\n{uncapped}")
    print("\n".join(plain))


def check_widths(runner):
    """At one thread for each op no region is opened; however many small tensors come first, the calls with large
    ones are seen, an op with work of its own is one, whatever it holds, and what its team does is its own."""
    report = runner.folder / "report.json"
    words = [VALUES / "torch_small_first.py"]
    options = {"CORUN_REPORT": str(report), "OMP_NUM_THREADS": "2"}
    for more in ({"CORUN_POLICY": "uniform-1"}, {"CORUN_MODE": "observe"}):
        done = runner.checked(words, corun=options | more)
        if done.stdout != "300.0 3600.0\n":
            raise SystemExit(f"widths: {done.stdout}{done.stderr}")
        out = json.loads(report.read_text())
        wide = sum(region["calls"] for region in out["regions"] if region["widest"] > 1)
        assert wide == 0 if "CORUN_POLICY" in more else wide > 290, out["regions"]
        calls = {op["name"] + op["shapes"]: op["calls"] for op in out["ops"]}
        # A call of BLAS inside an operator is a part of it, whichever thread of the team makes it.
        assert not [source for source in out["sources"] if source["name"] == "blas" and source["ops"]], out["sources"]
        (large,) = [calls[op] for op in calls if op.startswith("aten::add_") and "(float[512,512]" in op]
        assert large > 290, calls
    (holds,) = [calls[op] for op in calls if op.startswith("aten::nll_loss_backward")]
    assert holds > 290, calls
    print(wide, "regions of more than one thread,", large, "and", holds, "calls seen")


def check_fewer_cpus(runner):
    """Who has one CPU left runs every op at one thread: new ones, short ones, and those that hold others."""
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit(SKIPPED)
    words = [VALUES / "torch_fewer_cpus.py"]
    two = {"OMP_NUM_THREADS": "2"}
    narrow, own = (int(runner.checked(words, corun=options, env=two).stdout) for options in ({}, {"CORUN_MODE": "observe"}))
    print(narrow, "switches of the team's threads;", own, "where nothing is changed")
    assert narrow < 10 and own > 500, (narrow, own)


def check_rests(runner):
    """Where nothing can gain most ops are not looked at any more."""
    report = runner.folder / "report.json"
    one = {"CORUN_CPUS": "1", "CORUN_REPORT": str(report)}
    done = runner.checked([VALUES / "torch_rests.py"], corun=one)
    before, after = map(int, done.stdout.split())
    [source] = [source for source in json.loads(report.read_text())["sources"] if source["name"] == "torch"]
    print(before, "ops until it stood down,", after, "afterwards, seen", source["ops"])
    assert 0.7 * before < source["ops"] < before + 0.6 * after, done


def check_side_by_side(runner):
    """Ops of eight threads share the budget, those of one have it all, and between ops nothing is to be seen."""
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit(SKIPPED)
    two = {"CORUN_CPUS": "2"}

    def seen(options, *words):
        done = runner.checked([VALUES / "torch_inside.py", *words], corun=two | options)
        print(options, *words, done.stdout, sep="\n")
        numbers = [json.loads(part) for part in re.findall(r"\[.*?\]", done.stdout)]
        assert len(numbers) == 4 and not done.stderr, done
        return numbers

    beside, between, alone, after = seen({})
    assert (beside, between, after) == ([1], [2], [2]) and 2 in alone  # 1 where that is being tried
    for options in ({"CORUN_LEDGER": "no"}, {"CORUN_MODE": "observe"}, {"CORUN_REPRODUCIBLE": "1"}):
        assert 2 in seen(options)[0]
    assert seen({}, 1) == [[1], [1], [1], [1]]  # the program's own word

    # Threads of its teams that run or want to, beside the eight.
    shares = {}
    for ledger in ("yes", "no"):
        options = two | {"CORUN_LEDGER": ledger, "CORUN_REPORT": str(runner.folder / "report.json"), "CORUN_EXPLORE": "0"}
        done = runner.checked([HERE / "torch_side_by_side.py", "--seconds", 4], corun=options)
        print(done.stdout)
        shares[ledger] = float(re.search(r"team_running_mean=(.*)", done.stdout)[1])
        out = json.loads((runner.folder / "report.json").read_text())
        told = [lever["option"] for lever in out["irreversible"] if lever["lever"] == "threads side by side"]
        assert told == (["CORUN_LEDGER"] if ledger == "yes" else []) and out["open_scopes"] == 0, out["irreversible"]
    assert shares["yes"] < 0.5 < 1.0 < shares["no"], shares


def check_report(runner):
    """The source is there, sees forward and backward by name and shape, and says what it has changed for good."""
    report = runner.folder / "report.json"
    options = {"CORUN_REPORT": str(report), "CORUN_POLICY": "uniform-1"}
    words = [VALUES / "torch_steps.py", "--threads", 64, "--steps", 30]
    runner.checked(words, corun=options)
    out = json.loads(report.read_text())
    (source,) = [source for source in out["sources"] if source["name"] == "torch"]
    assert source["state"] == "active" and source["ops"] > 1000, source
    assert source["levers"] and source["version"].startswith("2.13."), source
    assert [lever["effect"] for lever in out["irreversible"] if lever["lever"] == "pool cap"], out["irreversible"]
    assert out["open_scopes"] == 0 and out["ops"], out["ops"]
    ops = [op for op in out["ops"] if op["source"] == "torch"]
    seen = {op["name"] for op in ops}
    assert {"aten::addmm", "aten::mm"} & seen and not seen & {"aten::linear", "aten::lstm"}, seen
    # One that takes a list of tensors only (aten::stack) has no shape to tell.
    products = [op for op in ops if op["name"] in ("aten::addmm", "aten::mm")]
    assert all("[" in op["shapes"] or op["shapes"] == "(varied)" for op in products), products
    assert "torch.set_num_threads" in (out["static_setting"] or {"text": "torch.set_num_threads"})["text"], out
    # A sum that calls its other overload: that one works. At one thread for each op it is not looked for.
    options = {"CORUN_REPORT": str(report), "CORUN_MODE": "observe"}
    runner.checked(["-c", "import torch\nx = torch.ones(100000)\nfor _ in range(300): x.sum()"], corun=options)
    out = json.loads(report.read_text())
    (total,) = [op for op in out["ops"] if op["name"].startswith("aten::sum")]
    assert total["name"] == "aten::sum.dim_IntList" and total["calls"] > 250, out["ops"]
    print(source, sorted(seen))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    checks = {
        "operations": check_operations,
        "training": check_training,
        "threads": check_threads,
        "widths": check_widths,
        "fewer-cpus": check_fewer_cpus,
        "rests": check_rests,
        "report": check_report,
        "side-by-side": check_side_by_side,
    }
    parser.add_argument("check", choices=checks)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True)
    arguments = parser.parse_args()
    probe = [arguments.python, "-c", "import importlib.util as u; assert u.find_spec('torch')"]
    if subprocess.run(probe).returncode != 0:
        print(f"{arguments.python} has no PyTorch: run tools/setup")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(arguments.library.resolve(), arguments.python.absolute(), Path(folder))
        checks[arguments.check](runner)
    return 0


if __name__ == "__main__":
    sys.exit(main())
