#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""numpy and scikit-learn under corun against plain at fixed numbers of BLAS threads.

    blas.py sizes|crowd [--rounds N] [--learn SECONDS] [--json FILE]
    blas.py probe [--sizes 8,16,...] [--seconds S]     1 against 2 threads in one process, plain

sizes: gemm, solve, eig and svd of 8 to 300, one program that goes through all of them again and again. crowd: two joblib
threads that fit models which use BLAS threads of their own. Every setting is a process of its own; they take rounds in
turn, and each figure is a median over the rounds. The one under corun may learn first.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build" / "venv" / "bin" / "python"
LIBRARY = ROOT / "build" / "shim" / "libcorun.so"
SIZES = (8, 16, 32, 48, 64, 100, 128, 150, 200, 256, 300)
CASE_SECONDS = 0.0015  # of a case in a round, so that the short ones can be timed
KINDS = ("gemm", "solve", "eig", "svd")


def routines(size):
    import numpy as np

    generator = np.random.default_rng(size)
    a, b = generator.standard_normal((2, size, size))
    symmetric, out = a @ a.T + size * np.eye(size), np.empty((size, size))
    vector = generator.standard_normal(size)
    return {
        "gemm": lambda: np.dot(a, b, out=out),
        "solve": lambda: np.linalg.solve(a, b),
        "eig": lambda: np.linalg.eig(a),
        "svd": lambda: np.linalg.svd(a),
        "gemv": lambda: np.dot(a, vector),
        "syrk": lambda: np.dot(a, a.T, out=out),
        "solve-1": lambda: np.linalg.solve(a, vector),
        "cholesky": lambda: np.linalg.cholesky(symmetric),
        "qr": lambda: np.linalg.qr(a),
        "eigh": lambda: np.linalg.eigh(symmetric),
        "lstsq": lambda: np.linalg.lstsq(a, vector, rcond=None),
    }


def timed(function, times):
    begin = time.perf_counter()
    for _ in range(times):
        function()
    return (time.perf_counter() - begin) / times


def sizes_round():
    cases = []
    for size in SIZES:
        made = routines(size)
        for kind in KINDS:
            made[kind]()
            once = min(timed(made[kind], 1) for _ in range(3))
            cases.append((f"{kind} {size}", made[kind], max(1, int(CASE_SECONDS / once))))
    return lambda: {name: timed(function, times) for name, function, times in cases}


def crowd_round():
    import numpy as np
    from joblib import parallel_config
    from sklearn.decomposition import PCA
    from sklearn.ensemble import BaggingRegressor
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    generator = np.random.default_rng(1)
    x = generator.standard_normal((1500, 300))
    y = x @ generator.standard_normal(300) + generator.standard_normal(1500)
    models = {
        "ridge": Ridge(solver="cholesky"),
        "pca+ridge": make_pipeline(PCA(30, svd_solver="full"), Ridge(solver="cholesky")),
    }

    def one_round():
        out = {}
        with parallel_config("threading", n_jobs=2):
            for name, model in models.items():
                bag = BaggingRegressor(model, n_estimators=8, random_state=0, n_jobs=2)
                out[name] = timed(lambda bag=bag: bag.fit(x, y), 1)
        return out

    return one_round


def worker(workload):
    """One round for each line on stdin; "learn SECONDS" runs rounds for so long."""
    one_round = {"sizes": sizes_round, "crowd": crowd_round}[workload]()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.startswith("learn"):
            end = time.perf_counter() + float(line.split()[1])
            while time.perf_counter() < end:
                one_round()
        print(json.dumps(one_round()), flush=True)


class Setting:
    """A process that takes its rounds."""

    def __init__(self, workload, threads, corun):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("CORUN_") or corun}
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "LD_PRELOAD"):
            environment.pop(name, None)
        if threads is not None:
            environment["OPENBLAS_NUM_THREADS"] = str(threads)
        if corun:
            environment["LD_PRELOAD"] = str(LIBRARY)
        self.process = subprocess.Popen([PYTHON, __file__, "worker", workload], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == "ready\n"

    def round(self, line="go"):
        print(line, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def interval(ratios):
    """Median and the interval that holds it with 95 % (by order statistics)."""
    ordered, count = sorted(ratios), len(ratios)
    reach = max(0, int(count / 2 - 0.98 * count**0.5))
    return statistics.median(ordered), ordered[reach], ordered[count - 1 - reach]


def compare(workload, rounds, learn, path):
    settings = {"1": Setting(workload, 1, False), "2": Setting(workload, 2, False), "corun": Setting(workload, None, True)}
    settings["corun"].round(f"learn {learn}")
    seen = {name: [] for name in settings}
    orders = itertools.cycle(itertools.permutations(settings))
    for _ in range(rounds):
        for name in next(orders):
            seen[name].append(settings[name].round())
    for setting in settings.values():
        setting.end()
    worst = 9.0
    print(f"{'case':14} {'1 thread':>10} {'2':>10} {'corun':>10} µs   best / corun (95 %)")
    for case in seen["1"][0]:
        times = {name: [one[case] for one in seen[name]] for name in settings}
        middle = {name: statistics.median(values) for name, values in times.items()}
        best = "1" if middle["1"] <= middle["2"] else "2"
        ratio, low, high = interval([a / b for a, b in zip(times[best], times["corun"], strict=True)])
        worst = min(worst, ratio)
        print(f"{case:14} {middle['1'] * 1e6:10.1f} {middle['2'] * 1e6:10.1f} {middle['corun'] * 1e6:10.1f}      "
              f"{ratio:.3f} ({low:.3f}-{high:.3f})")
    total = {name: [sum(one.values()) for one in values] for name, values in seen.items()}
    for name in ("1", "2"):
        ratio, low, high = interval([a / b for a, b in zip(total[name], total["corun"], strict=True)])
        print(f"all cases: {name} thread(s) / corun {ratio:.3f} ({low:.3f}-{high:.3f})")
    print(f"least ratio of a case: {worst:.3f}; {rounds} rounds")
    if path:
        Path(path).write_text(json.dumps(seen), encoding="utf-8")


def probe(sizes, seconds):
    import threadpoolctl

    for size in sizes:
        for name, function in routines(size).items():
            function()
            times = {1: [], 2: []}
            repeat = max(1, int(0.002 / max(timed(function, 1), 1e-7)))
            end = time.perf_counter() + seconds
            while len(times[1]) < 6 or time.perf_counter() < end:
                for threads in (1, 2) if len(times[1]) % 2 else (2, 1):
                    with threadpoolctl.threadpool_limits(threads, "blas"):
                        function()
                        times[threads].append(timed(function, repeat))
            one, two = statistics.median(times[1]), statistics.median(times[2])
            print(f"{size:5} {name:9} {one * 1e6:10.1f} {two * 1e6:10.1f} µs   1 / 2: {one / two:.2f}", flush=True)


def main():
    if sys.argv[1:2] == ["worker"]:
        return worker(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("sizes", "crowd", "probe"))
    parser.add_argument("--rounds", type=int, default=60, help="crowd: some 10 s each")
    parser.add_argument("--learn", type=float, default=40.0)
    parser.add_argument("--json")
    parser.add_argument("--sizes", default="8,16,32,48,64,96,128,192,256,384")
    parser.add_argument("--seconds", type=float, default=0.15)
    arguments = parser.parse_args()
    if arguments.what == "probe":
        return probe([int(size) for size in arguments.sizes.split(",")], arguments.seconds)
    return compare(arguments.what, arguments.rounds, arguments.learn, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
