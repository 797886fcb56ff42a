#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scikit-learn and PyTorch in one process, each with a libgomp of its own, imported in either order.

    run_openmp_wheels.py CORUN LIBCORUN PYTHON [--runtime LIBOMP]

Which runtime each of them gets depends on the order. Under corun it must be the same one: what both compute, how many
threads they think they have and what threadpoolctl sees are compared with the plain program's, to the last bit. With
--runtime the same under CORUN_OPENMP_RUNTIME, against the plain program with that runtime preloaded.

Exit code: 0 good, 1 different, 77 a wheel is not installed.
"""

import json
import os
import subprocess
import sys

SKIPPED = 77
ORDERS = (("sklearn", "torch"), ("torch", "sklearn"))

PROGRAM = """
import hashlib, importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
import numpy, sklearn, torch
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from threadpoolctl import threadpool_info

def bits(array):
    return hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()[:16]

random = numpy.random.RandomState(7)
points = random.standard_normal((4000, 8))
labels = (points[:, 0] * points[:, 1] + 0.1 * random.standard_normal(4000) > 0).astype(int)
forest = HistGradientBoostingClassifier(max_iter=20, random_state=1).fit(points[:3000], labels[:3000])
means = KMeans(5, n_init=1, random_state=3).fit(points)
a = torch.from_numpy(random.standard_normal((300, 200)))
told = {
    "forest": [forest.score(points[3000:], labels[3000:]), bits(forest.predict_proba(points))],
    "means": bits(means.cluster_centers_),
    "ones": float(torch.ones(100_000).sum()),
    "product": bits((a @ a.T).numpy()),
    "nonzero": bits(torch.nonzero(a > 0.5).numpy()),
    "unique": bits(torch.unique((a * 8).long()).numpy()),
    "softmax": bits(torch.softmax(a, 1).numpy()),
    "threads": [torch.get_num_threads(), _openmp_effective_n_threads()],
}
view = [[one["user_api"], one["filepath"].rsplit("/", 1)[-1], one["num_threads"]] for one in threadpool_info()]
print(json.dumps({"values": told, "view": sorted(view)}))
"""


class Runs:
    """Runs of the program, by what is in their environment."""

    def __init__(self, corun: str, library: str, python: str):
        self.corun, self.library, self.python = corun, library, python
        ours = ("OMP_", "GOMP_", "KMP_", "CORUN_", "LD_PRELOAD", "MKL_")
        self.clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self.faults: list[str] = []

    def told(self, order: tuple[str, ...], settings: dict[str, str], by: tuple[str, ...] = ()) -> dict:
        """What it says; nothing else may come from it, and nothing from corun."""
        words = [*by, self.python, "-c", PROGRAM, *order]
        done = subprocess.run(words, env=self.clean | settings, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0 or "corun" in done.stderr:
            self.faults.append(f"{order}, {settings}: ended with {done.returncode}: {done.stderr[-2000:]}")
            return {}
        return json.loads(done.stdout)

    def same(self, name: str, plain: dict, under: dict, parts: tuple[str, ...] = ("values", "view")) -> None:
        """Both say the same."""
        for part in parts:
            one, other = plain.get(part), under.get(part)
            if one != other or not one:
                self.faults.append(f"{name}: {part} differ:\n  {one}\n  {other}")

    def in_both_orders(self) -> None:
        """By preload alone: nothing but the default options."""
        for order in ORDERS:
            plain = self.told(order, {})
            self.same(f"{' before '.join(order)}", plain, self.told(order, {"LD_PRELOAD": self.library}))
        # More threads than CPUs are wished for: what a plain program computes with as many as there are. (What
        # threadpoolctl sees then is the number of a runtime that nobody has used yet.)
        cpus = str(len(os.sched_getaffinity(0)))
        under = self.told(ORDERS[1], {"LD_PRELOAD": self.library, "OMP_NUM_THREADS": str(16 * int(cpus))})
        self.same("capped", self.told(ORDERS[1], {"OMP_NUM_THREADS": cpus}), under, ("values",))

    def on_another_runtime(self, runtime: str) -> None:
        """Opened with RTLD_LOCAL, as Python does, each finds the one that is preloaded."""
        plain = self.told(ORDERS[1], {"LD_PRELOAD": runtime})
        by = (self.corun, "run", "--library", self.library, "--openmp-runtime", runtime, "--")
        self.same(f"on {runtime}", plain, self.told(ORDERS[1], {}, by))


def main() -> int:
    """Both parts, or the second alone."""
    if len(sys.argv) not in (4, 6):
        sys.exit(__doc__)
    runs = Runs(*(os.path.abspath(word) for word in sys.argv[1:4]))
    probe = subprocess.run([runs.python, "-c", "import sklearn, threadpoolctl, torch"], env=runs.clean, stderr=subprocess.DEVNULL, check=False)
    if probe.returncode != 0:
        print("skipped: the wheels of PyTorch, scikit-learn and threadpoolctl are not there (tools/setup installs them)")
        return SKIPPED
    if len(sys.argv) == 6:
        runs.on_another_runtime(sys.argv[5])
    else:
        runs.in_both_orders()
    print("\n".join(runs.faults) or "all alike")
    return 1 if runs.faults else 0


if __name__ == "__main__":
    sys.exit(main())
