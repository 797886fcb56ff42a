#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""numpy's and scipy's own OpenBLAS under libcorun.so: run_blas.py --library SO --python VENV_PYTHON.

What they compute is the same to the last bit as without corun at the same number of threads, whichever copy of OpenBLAS a
call goes to. Exit code 77: skipped, since the wheels are not installed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from run_packages import HERE, SKIPPED, Runner

VALUES = HERE / "values" / "blas.py"


def values(runner, threads, corun=None, more=()):
    done = runner.checked([VALUES, *more], corun=corun, env={"OPENBLAS_NUM_THREADS": str(threads)})
    assert done.stderr == "", done.stderr
    return done.stdout.splitlines()


def compare(what, plain, under):
    different = [pair for pair in zip(plain, under, strict=True) if pair[0] != pair[1]]
    assert not different, f"{what}: {len(different)} of {len(plain)} differ: {different[:5]}"
    print(f"{what}: {len(plain)} digests, all the same")


def check_values(runner):
    one, two = values(runner, 1), values(runner, 2)
    assert one != two, "the number of threads shows in no result: nothing would be tested"
    narrow = {"CORUN_POLICY": "uniform-1", "CORUN_CPUS": "2"}
    compare("set to 1 of 2 threads", one, values(runner, 2, narrow))
    compare("the same on several threads", one, values(runner, 2, narrow, ["--threads"]))
    compare("the user's own 1 thread", one, values(runner, 1, {"CORUN_POLICY": "random"}))
    compare("reproducible", two, values(runner, 2, {"CORUN_REPRODUCIBLE": "1"}))


def check_report(runner):
    report = runner.folder / "report.json"
    values(runner, 2, {"CORUN_POLICY": "uniform-1", "CORUN_REPORT": str(report)})
    out = json.loads(report.read_text())
    assert [(s["name"], s["state"]) for s in out["sources"]] == [("blas", "active")], out["sources"]
    assert out["sources"][0]["ops"] > 400 and out["open_scopes"] == 0, out["sources"]
    print("report:", out["sources"])


def check_number(runner):
    """What threadpoolctl sees and sets, which does not come by us."""
    program = (
        "import numpy, scipy.linalg, threadpoolctl as t; a = numpy.ones((300, 300)); a @ a; scipy.linalg.inv(a + 300 * numpy.eye(300));"
        "show = lambda: print(sorted(x['num_threads'] for x in t.threadpool_info() if x['user_api'] == 'blas')); show()\n"
        "with t.threadpool_limits(1, 'blas'): a @ a; show()\n"
        "a @ a; show()"
    )
    done = runner.checked(["-c", program], corun={"CORUN_POLICY": "uniform-1"}, env={"OPENBLAS_NUM_THREADS": "2"})
    assert done.stdout == "[2, 2]\n[1, 1]\n[2, 2]\n", done.stdout
    print("threadpoolctl: as without corun")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True)
    arguments = parser.parse_args()
    probe = "import importlib.util as u; assert all(map(u.find_spec, ('numpy', 'scipy', 'threadpoolctl')))"
    if subprocess.run([arguments.python, "-c", probe], capture_output=True, check=False).returncode != 0:
        print(f"{arguments.python} has no numpy, scipy or threadpoolctl: run tools/setup")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(arguments.library.resolve(), arguments.python.absolute(), Path(folder))
        for check in (check_values, check_report, check_number):
            check(runner)
    return 0


if __name__ == "__main__":
    sys.exit(main())
