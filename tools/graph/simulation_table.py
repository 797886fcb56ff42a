#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes policy/SIMULATION.md's tables: strategies on simulated machines, with what no schedule can beat.

    python tools/graph/simulation_table.py --corun build/tools/corun -o policy/SIMULATION.md

Every figure is *simulated*: by `corun sim` on tests/machines/ from the graphs of tests/graphs/.
Between the markers of the output file the tables are replaced, all else stays.
"""

import argparse
import concurrent.futures
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MACHINES = ("knl-68", "server-2x32")
GRAPHS = ("resnet50", "dcgan", "inception_v3", "lstm")
PAPER = ("s1", "s2", "s3", "s4")
FIELD = ("cpa", "mcpa", "heft")
ARMS = ("idle", "price", "price+s4")
INTERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
MARK = "<!-- simulated {} -->"
NARROW = 0.5
LP_SECONDS = 60.0
SWINGS = (0.5, 2.0)


class Simulation:
    """Calls `corun sim` and remembers what it said."""

    def __init__(self, corun: Path, jobs: int) -> None:
        self.corun = corun
        self.jobs = jobs
        self.known: dict[tuple, dict] = {}

    def __call__(self, machine: str, graph: str, policy: str, **options) -> dict:
        key = (machine, graph, policy, json.dumps(options, sort_keys=True))
        if key not in self.known:
            self.known[key] = self.run(machine, graph, policy, options)
        return self.known[key]

    def fill(self, calls: list[tuple]) -> None:
        """Runs (machine, graph, policy, options) side by side, so that their answers are known."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            done = [pool.submit(self, m, g, p, **options) for m, g, p, options in calls]
            for each in done:
                each.result()

    def run(self, machine: str, graph: str, policy: str, options: dict) -> dict:
        """One run; its JSON."""
        words = [self.corun, "sim", "--json", "-", "--policy", policy]
        words += ["--machine", ROOT / f"tests/machines/{machine}.json"]
        words += ["--graph", ROOT / f"tests/graphs/{graph}.json.gz"]
        for name, value in options.items():
            for each in value if isinstance(value, list) else [value]:
                words += [f"--{name}", str(each)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        return json.loads(done.stdout)


def cores_of(machine: str) -> int:
    """Physical cores, from the machine's file."""
    return json.loads((ROOT / f"tests/machines/{machine}.json").read_text())["cores"]


def widths_of(cores: int) -> list[int]:
    """The widths of the grid."""
    return sorted({1, 2, 4, 8, 12, 16, 20, 24, 28, cores // 2, 40, 48, 56, cores})


def best_of_grid(simulation: Simulation, machine: str, graph: str, **options) -> tuple:
    """(seconds, inter, intra) of the fastest point that does not ask for more than 4 threads a core."""
    cores = cores_of(machine)
    points = [(n, m) for n in INTERS for m in widths_of(cores) if n * m <= 4 * cores]
    grid = {"steps": 3, "model": "exact"} | options
    simulation.fill([(machine, graph, "grid", {"inter": n, "intra": m} | grid) for n, m in points])
    return min(
        (grid_point(simulation, machine, graph, n, m, **options), n, m) for n, m in points
    )


def grid_point(simulation: Simulation, machine: str, graph: str, n: int, m: int, **options) -> float:
    """Seconds at (inter, intra); the costs need not be known for that."""
    options = {"inter": n, "intra": m, "steps": 3, "model": "exact"} | options
    return simulation(machine, graph, "grid", **options)["seconds"]


def best_near(simulation: Simulation, machine: str, graph: str, n: int, m: int, **options) -> float:
    """The fastest of (n, m) and the grid points next to it."""
    cores = cores_of(machine)
    inters, intras = list(INTERS), widths_of(cores)
    i, j = inters.index(n), intras.index(m)
    points = [(inters[k], m) for k in (i - 1, i, i + 1) if 0 <= k < len(inters)]
    points += [(n, intras[k]) for k in (j - 1, j + 1) if 0 <= k < len(intras)]
    return min(grid_point(simulation, machine, graph, a, b, **options) for a, b in points)


def best_split(simulation: Simulation, machine: str, graph: str) -> tuple:
    """(seconds, n) of n equal teams that share all cores (Graphi)."""
    cores = cores_of(machine)
    splits = [n for n in (1, 2, 4, 8, 16, 32, cores) if cores // n >= 1]
    return min((grid_point(simulation, machine, graph, n, cores // n), n) for n in splits)


def linear_bound(simulation: Simulation, machine: str, graph: str) -> float | None:
    """Seconds: each op a mix of widths, paths and area both kept (HiGHS); None when not solved in time."""
    import numpy as np
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        simulation.run(machine, graph, "recommended", {"steps": 1, "model": "exact", "costs": file.name})
        costs = json.loads(Path(file.name).read_text())
    cores, ops = costs["capacity"], costs["ops"]
    choices = [useful_widths(key["seconds"]) for key in costs["keys"]]
    # Variables: the shares of each op's widths, each op's end, the length of the step.
    offset, count = [], 0
    for key, _ in ops:
        offset.append(count)
        count += len(choices[key])
    ends, length = count, count + len(ops)
    unit = max(min(key["seconds"]) for key in costs["keys"])  # so that numbers are near 1
    rows, columns, values, bounds = [], [], [], []

    def add(row: int, column: int, value: float) -> None:
        rows.append(row)
        columns.append(column)
        values.append(value)

    row = 0
    for op, (key, sources) in enumerate(ops):
        for source in sources or [None]:
            for i, (_, seconds) in enumerate(choices[key]):
                add(row, offset[op] + i, seconds / unit)
            add(row, ends + op, -1.0)
            if source is not None:
                add(row, ends + source, 1.0)
            bounds.append(0.0)
            row += 1
        add(row, ends + op, 1.0)
        add(row, length, -1.0)
        bounds.append(0.0)
        row += 1
    for op, (key, _) in enumerate(ops):
        for i, (width, seconds) in enumerate(choices[key]):
            add(row, offset[op] + i, width * seconds / unit / cores)
    add(row, length, -1.0)
    bounds.append(0.0)
    inequalities = coo_matrix((values, (rows, columns)), shape=(row + 1, length + 1))
    which = [op for op, (key, _) in enumerate(ops) for _ in choices[key]]
    equalities = coo_matrix(
        (np.ones(count), (which, range(count))), shape=(len(ops), length + 1)
    )
    cost = np.zeros(length + 1)
    cost[length] = 1.0
    found = linprog(
        cost, A_ub=inequalities.tocsr(), b_ub=bounds, A_eq=equalities.tocsr(),
        b_eq=np.ones(len(ops)), method="highs-ipm", options={"time_limit": LP_SECONDS},
    )  # fmt: skip
    return None if found.status else found.fun * unit


def useful_widths(seconds: list[float]) -> list[tuple[int, float]]:
    """The widths that no other one beats both in time and in CPU time; ten at most."""
    front, best = [], math.inf
    for width, each in enumerate(seconds, 1):
        if each < best * (1 - 1e-9):
            front.append((width, each))
            best = each
    # Where there are many, those next to one another differ little; a missing one would only
    # raise the bound, so the times of what is left are lowered to the next wider one's.
    if len(front) <= 10:
        return front
    picked = sorted({round(i * (len(front) - 1) / 9) for i in range(10)})
    lowered = []
    for a, b in zip(picked, [*picked[1:], None], strict=True):
        lowered.append((front[a][0], front[a if b is None else b - 1][1]))
    return lowered


def bounds_of(simulation: Simulation, machine: str, graph: str) -> dict:
    """All lower bounds, in seconds."""
    one = simulation(machine, graph, "price")
    return {
        "critical path": one["critical_path"],
        "area": one["area"],
        "memory": one["memory"],
        "LP": linear_bound(simulation, machine, graph),
    }


def milliseconds(seconds: float) -> str:
    """Three digits."""
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def main_tables(simulation: Simulation, put: Callable[[str, str], None]) -> dict:
    """The tables of step times and of ratios, put after each graph; returns what later parts need."""
    names = ["recommended", "default", "best split", "best of the grid"]
    arms = [*PAPER, *FIELD, *ARMS]
    head = ["machine", "model", *names, *arms, "critical path", "area", "memory", "LP", "breadth"]
    times = [row(head), row(["---"] * 2 + ["---:"] * (len(head) - 2))]
    ratios = {}
    for machine in MACHINES:
        for graph in GRAPHS:
            cores = cores_of(machine)
            recommended = grid_point(simulation, machine, graph, 1, cores)
            default = simulation(machine, graph, "default", steps=3, model="exact")["seconds"]
            split, teams = best_split(simulation, machine, graph)
            grid, inter, intra = best_of_grid(simulation, machine, graph)
            simulation.fill([(machine, graph, arm, {}) for arm in arms])
            seconds = {arm: simulation(machine, graph, arm)["seconds"] for arm in arms}
            bound = bounds_of(simulation, machine, graph)
            breadth = bound["area"] / bound["critical path"]
            times.append(
                row(
                    [
                        machine,
                        graph,
                        milliseconds(recommended),
                        milliseconds(default),
                        f"{milliseconds(split)} ({teams})",
                        f"{milliseconds(grid)} ({inter}, {intra})",
                        *(milliseconds(s) for s in seconds.values()),
                        *("–" if b is None else milliseconds(b) for b in bound.values()),
                        f"{breadth:.2f}" + (" narrow" if breadth < NARROW else ""),
                    ]
                )
            )
            ratios[machine, graph] = {
                "recommended": recommended,
                "grid": grid,
                "point": (inter, intra),
                "bound": max(b for b in bound.values() if b is not None),
                "breadth": breadth,
                **seconds,
            }
            put("times", "\n".join(times))
            put("ratios", ratio_table(ratios))
    return ratios


def row(cells: list) -> str:
    """A line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def ratio_table(ratios: dict) -> str:
    """Speed-ups over the recommended setting and over the best of the grid."""
    arms = [*PAPER, *FIELD, *ARMS]
    lines = [row(["machine", "model", "over", *arms, "best arm", "best / bound"])]
    lines.append(row(["---"] * 3 + ["---:"] * (len(arms) + 2)))
    best_over_grid = []
    for (machine, graph), known in ratios.items():
        best = min(known[arm] for arm in arms)
        best_over_grid.append(known["grid"] / best)
        for base in ("recommended", "grid"):
            figures = [f"{known[base] / known[arm]:.2f}" for arm in arms]
            bound = f"{best / known['bound']:.2f}" if base == "grid" else ""
            lines.append(row([machine, graph, base, *figures, f"{known[base] / best:.2f}", bound]))
    for machine in dict.fromkeys(machine for machine, _ in ratios):
        for base in ("recommended", "grid"):
            means = [
                statistics.fmean(r[base] / r[arm] for (m, _), r in ratios.items() if m == machine)
                for arm in arms
            ]
            best = statistics.fmean(
                r[base] / min(r[arm] for arm in arms)
                for (m, _), r in ratios.items()
                if m == machine
            )
            lines.append(row([machine, "**mean**", base, *(f"{m:.2f}" for m in means), f"{best:.2f}", ""]))
    wide = [r for r in ratios.values() if r["breadth"] >= NARROW] or list(ratios.values())
    lines.append("")
    lines.append(
        f"Best arm over the best grid point: {min(best_over_grid):.2f} at least,"
        f" {statistics.fmean(best_over_grid):.2f} on average;"
        f" price alone {min(r['grid'] / r['price'] for r in ratios.values()):.2f} at least,"
        f" {statistics.fmean(r['grid'] / r['price'] for r in ratios.values()):.2f} on average."
        f" Over the lower bound on the {len(wide)} graphs that are not narrow: S3"
        f" {min(r['s3'] / r['bound'] for r in wide):.2f} to {max(r['s3'] / r['bound'] for r in wide):.2f},"
        f" price {min(r['price'] / r['bound'] for r in wide):.2f} to"
        f" {max(r['price'] / r['bound'] for r in wide):.2f}."
    )
    gains = [(r["recommended"] / r["s4"] - 1, 1 - r["s4"] / r["recommended"]) for r in ratios.values()]
    lines.append(
        "S1 to S4 over the recommended setting:"
        f" {100 * statistics.fmean(g for g, _ in gains):.0f} % faster on average,"
        f" {100 * max(g for g, _ in gains):.0f} % at most (as time saved: {100 * statistics.fmean(g for _, g in gains):.0f} and"
        f" {100 * max(g for _, g in gains):.0f} %). The paper's abstract says 36 % on average and 49 % at most, on the real machine."
    )
    return "\n".join(lines)


def advantage(simulation: Simulation, ratios: dict, machine: str, changes: list[str]) -> list[float]:
    """price over the best grid point (about the one known) for each graph."""
    options = {"set": changes} if changes else {}

    def of(graph: str) -> float:
        n, m = ratios[machine, graph]["point"]
        grid = best_near(simulation, machine, graph, n, m, **options, steps=1)
        return grid / simulation(machine, graph, "price", steps=2, **options)["seconds"]

    with concurrent.futures.ThreadPoolExecutor(simulation.jobs) as pool:
        return list(pool.map(of, GRAPHS))


def assumed_constants(machine: str) -> list[str]:
    """The constants that nobody measured; the noise is no cost."""
    content = json.loads((ROOT / f"tests/machines/{machine}.json").read_text())["constants"]
    return [
        name
        for name, value in content.items()
        if isinstance(value, dict) and value.get("source") == "assumed" and name != "noise"
    ]


def swing(machine: str, name: str, factor: float) -> str:
    """A constant times a factor; those that are 1 where there is no loss move by their excess."""
    value = json.loads((ROOT / f"tests/machines/{machine}.json").read_text())["constants"][name]["value"]
    if name in ("cache_share", "remote"):
        return f"{name}={1 + (value - 1) * factor}"
    return f"{name}={value * factor}"


def tornado(simulation: Simulation, ratios: dict) -> str:
    """What halving and doubling each unmeasured constant does to price over the best grid point."""
    lines = [row(["machine", "constant", "halved", "doubled", "least of a graph"]), row(["---"] * 2 + ["---:"] * 3)]
    for machine in MACHINES:
        base = advantage(simulation, ratios, machine, [])
        entries = []
        for name in assumed_constants(machine):
            found = [advantage(simulation, ratios, machine, [swing(machine, name, f)]) for f in SWINGS]
            means = [statistics.fmean(f) for f in found]
            width = max(abs(m - statistics.fmean(base)) for m in means)
            entries.append((width, name, *means, min(min(f) for f in found)))
        lines.append(row([machine, "(as in the file)", f"{statistics.fmean(base):.3f}", "", f"{min(base):.2f}"]))
        for _, name, low, high, least in sorted(entries, reverse=True):
            lines.append(row([machine, name, f"{low:.3f}", f"{high:.3f}", f"{least:.2f}"]))
    return "\n".join(lines)


def ranking(simulation: Simulation, ratios: dict, draws: int) -> str:
    """How often price beats the best grid point when all unmeasured constants are drawn at once."""
    rng = random.Random(1)
    lines = [row(["machine", "draws", "price at least 1.0x the grid, each graph", "mean at least 1.0x", "mean at least 1.1x", "mean"])]
    lines.append(row(["---"] + ["---:"] * 5))
    for machine in MACHINES:
        found = []
        for _ in range(draws):
            changes = [swing(machine, name, 2 ** rng.uniform(-1, 1)) for name in assumed_constants(machine)]
            found.append(advantage(simulation, ratios, machine, changes))
        each = [value >= 1 for values in found for value in values]
        means = [statistics.fmean(values) for values in found]
        lines.append(
            row(
                [
                    machine,
                    draws,
                    f"{100 * statistics.fmean(each):.0f} %",
                    f"{100 * statistics.fmean(m >= 1 for m in means):.0f} %",
                    f"{100 * statistics.fmean(m >= 1.1 for m in means):.0f} %",
                    f"{statistics.fmean(means):.2f}",
                ]
            )
        )
    return "\n".join(lines)


def replace(text: str, name: str, table: str) -> str:
    """The part between the markers is the table."""
    begin, end = MARK.format(name), MARK.format("/" + name)
    if begin not in text or end not in text:
        sys.exit(f"the output file has no {begin} ... {end}")
    head, rest = text.split(begin, 1)
    return f"{head}{begin}\n{table}\n{end}{rest.split(end, 1)[1]}"


def main() -> None:
    """Simulates, then writes each table as soon as it is known."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corun", type=Path, default=ROOT / "build/tools/corun")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "policy/SIMULATION.md")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2, help="simulations side by side [2]")
    parser.add_argument("--quick", action="store_true", help="without tornado and draws")
    options = parser.parse_args()
    simulation = Simulation(options.corun, options.jobs)

    def put(name: str, table: str) -> None:
        options.output.write_text(replace(options.output.read_text(), name, table))

    ratios = main_tables(simulation, put)
    if not options.quick:
        put("tornado", tornado(simulation, ratios))
        put("ranking", ranking(simulation, ratios, options.draws))


if __name__ == "__main__":
    main()
