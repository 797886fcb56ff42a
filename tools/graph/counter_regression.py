#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rival that the paper dropped: hardware counters at a few widths predict the time at all.

    python tools/graph/counter_regression.py tests/machines/knl-68.json tests/graphs/*.json.gz

Features: cycles, last-level-cache misses and accesses, L1 hits, each over instructions, at 1, 4, 8 or
16 sampled widths, with the time there. Regressors as in the paper (scikit-learn). Half of the
kinds of ops teach, the other half is predicted.

The counters are *synthetic*: no machine with hardware counters was at hand. They are made from the
estimates in the graph: instructions = flops / 8 + bytes / 16, cycles = threads x time x 1.4 GHz,
accesses = bytes / 64, misses = what of them the memory time accounts for, L1 hits = instructions / 3
less the accesses; each times lognormal noise of --noise (a short op's counters are read while others
are multiplexed). Times have 5 % noise. As they come from the same estimates as the simulated costs,
what is printed is better than real counters could give: it shows that the regression works, not what
counters are worth.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LinearRegression, PassiveAggressiveRegressor, TheilSenRegressor
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

ROOT = Path(__file__).resolve().parents[2]
SAMPLED = (1, 4, 8, 16)
HERTZ = 1.4e9


def regressors() -> dict:
    """The paper's five."""
    return {
        "gradient boosting": GradientBoostingRegressor(n_estimators=60, random_state=1),
        "k nearest neighbours": KNeighborsRegressor(3),
        "Theil-Sen": TheilSenRegressor(max_subpopulation=300, random_state=1),
        "least squares": LinearRegression(),
        "passive-aggressive": PassiveAggressiveRegressor(max_iter=200, random_state=1),
    }


def costs_of(corun: Path, machine: Path, graph: Path) -> tuple[list, list]:
    """Keys of the graph that can be cut, and their true seconds by width."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = [corun, "sim", "--machine", machine, "--graph", graph, "--policy", "recommended"]
        words += ["--steps", "1", "--model", "exact", "--costs", file.name]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        costs = json.loads(Path(file.name).read_text())
    keys = json.loads(gzip.decompress(graph.read_bytes()))["keys"]
    pairs = [(k, c["seconds"]) for k, c in zip(keys, costs["keys"], strict=True) if k["parts"] > 1]
    return [k for k, _ in pairs], [s for _, s in pairs]


def features(key: dict, seconds: np.ndarray, widths: np.ndarray, noise: float, rng) -> list[float]:
    """Counters over instructions and the time, at the widths."""
    instructions = key["flops"] / 8 + key["bytes"] / 16 + 1000
    row = []
    for width in widths:
        time = seconds[width - 1]
        cycles = time * width * HERTZ
        accesses = key["bytes"] / 64
        misses = accesses * min(1.0, key["bytes"] / (8e9 * width) / time)
        hits = max(instructions / 3 - accesses, 1)
        counted = np.array([cycles, misses, accesses, hits]) * rng.lognormal(0, noise, 4)
        row += list(np.log(counted / instructions + 1e-6))
        row.append(np.log(time * rng.lognormal(0, 0.05)))
    return row


def judge(keys: list, truth: np.ndarray, sampled: int, noise: float) -> list[tuple]:
    """(regressor, accuracy, mean loss of the chosen width) on the ops that were not taught."""
    rng = np.random.default_rng(1)
    cores = truth.shape[1]
    widths = np.unique(np.geomspace(1, cores, sampled).round().astype(int))[::-1]
    x = np.array([features(k, t, widths, noise, rng) for k, t in zip(keys, truth, strict=True)])
    grid = np.unique(np.geomspace(1, cores, 12).round().astype(int))
    # Relative to the time at the widest sampled width, which is known.
    y = np.log(truth[:, grid - 1] / truth[:, widths[0] - 1 : widths[0]])
    order = rng.permutation(len(keys))
    taught, asked = order[: len(keys) // 2], order[len(keys) // 2 :]
    held_out = [i for i, width in enumerate(grid) if width not in widths]
    found = []
    for name, regressor in regressors().items():
        model = make_pipeline(StandardScaler(), MultiOutputRegressor(regressor))
        model.fit(x[taught], y[taught])
        predicted = np.clip(model.predict(x[asked]), -8, 8)
        error = np.abs(np.exp(predicted - y[asked]) - 1)[:, held_out]
        accuracy = np.clip(1 - error, 0, 1).mean()
        chosen = truth[asked, grid[predicted.argmin(axis=1)] - 1]
        found.append((name, accuracy, (chosen / truth[asked].min(axis=1) - 1).mean()))
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("machine", type=Path)
    parser.add_argument("graphs", type=Path, nargs="+")
    parser.add_argument("--corun", type=Path, default=ROOT / "build/tools/corun")
    parser.add_argument("--noise", type=float, default=0.2)
    options = parser.parse_args()
    warnings.simplefilter("ignore", FutureWarning)  # the passive-aggressive one has a new name to come
    keys, seconds = [], []
    for graph in options.graphs:
        more, times = costs_of(options.corun, options.machine, graph)
        keys += more
        seconds += times
    truth = np.array(seconds)
    print(f"{len(keys)} kinds of ops, synthetic counters with {100 * options.noise:.0f} % noise\n")
    print("| samples | regressor | accuracy, widths not sampled | loss, mean |")
    print("| ---: | --- | ---: | ---: |")
    for sampled in SAMPLED:
        for name, accuracy, loss in judge(keys, truth, sampled, options.noise):
            print(f"| {sampled} | {name} | {100 * accuracy:.1f} % | {100 * loss:.1f} % |")


if __name__ == "__main__":
    main()
